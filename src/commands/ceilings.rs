//! Where the profiles that `probe` measured lie.

use std::path::PathBuf;

/// `DISKWRIGHT_STATE`, or the user's state folder (for root the machine's).
pub fn folder() -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let base = variable("DISKWRIGHT_STATE").or_else(|| {
        if rustix::process::geteuid().is_root() {
            return Some(PathBuf::from("/var/lib/diskwright"));
        }
        let home = || variable("HOME").map(|home| home.join(".local/state"));
        variable("XDG_STATE_HOME").or_else(home).map(|state| state.join("diskwright"))
    });
    base.unwrap_or_else(|| std::env::temp_dir().join("diskwright")).join("profiles")
}
