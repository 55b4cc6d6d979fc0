//! Which path into the kernel works here, and which is best.

use super::{AttachError, By, fuse, kernel};

/// All paths, the best first.
pub const PATHS: [By; 3] = [By::Nbd, By::Ublk, By::Fuse];

/// Why a path does not work on this machine; none where it does.
#[must_use]
pub fn obstacle(by: By) -> Option<String> {
    match by {
        By::Nbd => kernel::line().err(),
        // Debian 12's kernel (6.1) is built without it, so that it could not be tried; nothing untried is offered
        By::Ublk => Some("this program does not know how to make ublk devices; nbd is as good".to_owned()),
        By::Fuse => fuse::obstacle(),
    }
}

/// The path that was asked for, or the best that works.
///
/// # Errors
/// With why it, or none of them, works.
pub fn choose(asked: Option<By>) -> Result<By, AttachError> {
    if let Some(by) = asked {
        return obstacle(by).map_or(Ok(by), |why| Err(AttachError::Path { by, why }));
    }
    let mut reasons = Vec::new();
    for by in PATHS {
        match obstacle(by) {
            None => return Ok(by),
            Some(why) => reasons.push(format!("{by}: {why}")),
        }
    }
    Err(AttachError::NoPath(reasons.join("; ")))
}

/// Connections that a path makes where nobody asks for another number.
#[must_use]
pub fn connections(by: By) -> u32 {
    match by {
        By::Nbd | By::Ublk => kernel::CONNECTIONS,
        By::Fuse => fuse::CONNECTIONS,
    }
}
