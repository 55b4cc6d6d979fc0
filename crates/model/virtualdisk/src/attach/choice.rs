//! Which path into the kernel works here, and which is best.

use super::{AttachError, AttachMethod, fuse, kernel};

/// All paths, the best first.
pub const PATHS: [AttachMethod; 3] = [AttachMethod::Nbd, AttachMethod::Ublk, AttachMethod::Fuse];

/// Why a path does not work on this machine; none where it does.
#[must_use]
pub fn obstacle(by: AttachMethod) -> Option<String> {
    match by {
        AttachMethod::Nbd => kernel::line().err(),
        // Debian 12's kernel (6.1) is built without it, so that it could not be tried; nothing untried is offered
        AttachMethod::Ublk => Some("diskwright does not support ublk; use nbd instead".to_owned()),
        AttachMethod::Fuse => fuse::obstacle(),
    }
}

/// The path that was asked for, or the best that works.
///
/// # Errors
/// With why it, or none of them, works.
pub fn choose(asked: Option<AttachMethod>) -> Result<AttachMethod, AttachError> {
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
pub fn connections(by: AttachMethod) -> u32 {
    match by {
        AttachMethod::Nbd | AttachMethod::Ublk => kernel::CONNECTIONS,
        AttachMethod::Fuse => fuse::CONNECTIONS,
    }
}
