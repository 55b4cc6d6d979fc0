//! Choice of the attach method: the best one that works on this machine.

use super::{AttachError, AttachMethod, fuse, kernel};

/// All methods, the best first.
pub const PATHS: [AttachMethod; 3] = [AttachMethod::Nbd, AttachMethod::Ublk, AttachMethod::Fuse];

/// Returns why a method does not work on this machine; `None` if it works.
#[must_use]
pub fn obstacle(method: AttachMethod) -> Option<String> {
    match method {
        AttachMethod::Nbd => kernel::line().err(),
        // Debian 12's kernel (6.1) is built without it, so it could not be tested; untested methods
        // are not offered
        AttachMethod::Ublk => Some("diskwright does not support ublk; use nbd instead".to_owned()),
        AttachMethod::Fuse => fuse::obstacle(),
    }
}

/// Returns the requested method, or the best one that works.
///
/// # Errors
/// With the reason why it, or none of them, works.
pub fn choose(requested: Option<AttachMethod>) -> Result<AttachMethod, AttachError> {
    if let Some(method) = requested {
        return obstacle(method).map_or(Ok(method), |why| Err(AttachError::Path { by: method, why }));
    }
    let mut reasons = Vec::new();
    for method in PATHS {
        match obstacle(method) {
            None => return Ok(method),
            Some(why) => reasons.push(format!("{method}: {why}")),
        }
    }
    Err(AttachError::NoPath(reasons.join("; ")))
}

/// Returns the number of connections of a method unless the user gives another.
#[must_use]
pub fn connections(method: AttachMethod) -> u32 {
    match method {
        AttachMethod::Nbd | AttachMethod::Ublk => kernel::CONNECTIONS,
        AttachMethod::Fuse => fuse::CONNECTIONS,
    }
}
