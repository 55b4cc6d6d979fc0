//! Choice of the attach method: the best one that works on this machine.

use super::{AttachError, AttachMethod, fuse, kernel_nbd};

/// All methods, the best first.
pub const METHODS: [AttachMethod; 3] = [AttachMethod::Nbd, AttachMethod::Ublk, AttachMethod::Fuse];

/// Returns why a method does not work on this machine; `None` if it works.
#[must_use]
pub fn find_obstacle(method: AttachMethod) -> Option<String> {
    match method {
        AttachMethod::Nbd => kernel_nbd::open_netlink().err(),
        // Debian 12's kernel (6.1) is built without ublk, so this method could not be tested, and an
        // untested method is not offered
        AttachMethod::Ublk => Some("diskwright does not support ublk; use nbd instead".to_owned()),
        AttachMethod::Fuse => fuse::find_obstacle(),
    }
}

/// Returns the requested method, or the best one that works.
///
/// # Errors
/// The reason why the requested method does not work, or why none does.
pub fn choose_method(requested: Option<AttachMethod>) -> Result<AttachMethod, AttachError> {
    if let Some(method) = requested {
        return find_obstacle(method).map_or(Ok(method), |why| Err(AttachError::Path { by: method, why }));
    }
    let mut reasons = Vec::new();
    for method in METHODS {
        match find_obstacle(method) {
            None => return Ok(method),
            Some(why) => reasons.push(format!("{method}: {why}")),
        }
    }
    Err(AttachError::NoPath(reasons.join("; ")))
}

/// Returns the number of connections of a method unless the user gives another.
#[must_use]
pub fn default_connections(method: AttachMethod) -> u32 {
    match method {
        AttachMethod::Nbd | AttachMethod::Ublk => kernel_nbd::DEFAULT_CONNECTIONS,
        AttachMethod::Fuse => fuse::DEFAULT_CONNECTIONS,
    }
}
