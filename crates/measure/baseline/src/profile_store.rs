//! Profile file of a machine: its baseline and the newest measurement after it.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use diskwright_hostfiles::bounded_file;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::document::BaselineDocument;

/// Schema name of the file.
pub const SCHEMA: &str = "diskwright.baseline-profile/1";
/// Largest size of a profile, bytes; a larger file is rejected.
const MAX_PROFILE_BYTES: u64 = 4 << 20;

/// Stored measurements of a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MachineProfile {
    /// [`SCHEMA`].
    pub schema: String,
    /// The machine's name.
    pub host: String,
    /// Its baseline.
    pub baseline: BaselineDocument,
    /// The newest measurement after the baseline.
    pub latest: Option<BaselineDocument>,
}

/// Returns the path of a machine's file in a folder. Host names with other characters than letters,
/// digits and `-` get a checksum (FNV-1a), so that two of them differ.
#[must_use]
pub fn profile_path(folder: &Path, host: &str) -> PathBuf {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let plain: String = host.chars().map(|c| if is_plain(c) { c } else { '_' }).take(80).collect();
    let sum = host.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    folder.join(if plain == host { format!("{plain}.json") } else { format!("{plain}-{:08x}.json", sum as u32) })
}

/// Loads the profile of a machine; `None` if there is none.
///
/// # Errors
/// Why the file cannot be used.
pub fn load_profile(folder: &Path, host: &str) -> Result<Option<MachineProfile>, String> {
    let path = profile_path(folder, host);
    let profile_error = |reason: String| format!("{}: {reason}", path.display());
    let bytes = match bounded_file::read_file(&path, MAX_PROFILE_BYTES) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(profile_error(error.to_string())),
    };
    let profile: MachineProfile = serde_json::from_slice(&bytes).map_err(|error| profile_error(error.to_string()))?;
    if profile.schema != SCHEMA {
        return Err(profile_error(format!("its schema is `{}`, this program knows `{SCHEMA}`", profile.schema)));
    }
    profile.baseline.check_figures().map_err(profile_error)?;
    profile.latest.as_ref().map_or(Ok(()), BaselineDocument::check_figures).map_err(profile_error)?;
    Ok((profile.host == host).then_some(profile))
}

/// Saves a measurement: as the baseline if there is none or `replace` is set, else as the newest.
/// `current_baseline` is the baseline in use, which may come from another folder: then it is stored here too,
/// so that this measurement does not become the baseline. Readers see the old file or the new one.
///
/// # Errors
/// When the system refuses.
pub fn save_measurement(
    folder: &Path,
    document: &BaselineDocument,
    current_baseline: Option<&BaselineDocument>,
    replace: bool,
) -> io::Result<PathBuf> {
    let host = document.machine.host.as_str();
    diskwright_guard::check_new(&folder.join("baseline")).map_err(io::Error::other)?;
    fs::DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
    let lock = fs::File::open(folder)?;
    flock(&lock, FlockOperation::LockExclusive)?;
    let saved_profile = if replace { None } else { load_profile(folder, host).map_err(io::Error::other)? };
    let new_profile = |baseline: &BaselineDocument, latest: Option<BaselineDocument>| {
        let (schema, host, baseline) = (SCHEMA.to_owned(), host.to_owned(), baseline.clone());
        MachineProfile { schema, host, baseline, latest }
    };
    let profile = match (saved_profile, current_baseline) {
        (Some(saved), _) => MachineProfile { latest: Some(document.clone()), ..saved },
        (None, Some(current)) if !replace => new_profile(current, Some(document.clone())),
        (None, _) => new_profile(document, None),
    };
    let path = profile_path(folder, host);
    let temporary = path.with_extension("part");
    // a killed process may have left the file; while we hold the lock, nothing else writes it
    let _ = fs::remove_file(&temporary);
    let result = write_profile(&temporary, &profile).and_then(|()| fs::rename(&temporary, &path));
    if result.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    result.map(|()| path)
}

/// Writes a profile and syncs the file.
fn write_profile(path: &Path, profile: &MachineProfile) -> io::Result<()> {
    let mut text = serde_json::to_string_pretty(profile)?;
    text.push('\n');
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o644).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document;
    use crate::machine::BaselineMachine;

    fn measured(host: &str, day: &str) -> BaselineDocument {
        let machine = BaselineMachine { host: host.into(), ..BaselineMachine::default() };
        let (schema, measured) = (document::SCHEMA.into(), day.into());
        BaselineDocument { schema, measured, machine, ..BaselineDocument::default() }
    }

    #[test]
    fn the_first_is_the_baseline_until_it_is_replaced() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = root.path().join("baselines");
        let days = |host: &str| {
            let kept = load_profile(&folder, host).expect("read")?;
            Some((kept.baseline.measured, kept.latest.map(|latest| latest.measured)))
        };
        assert_eq!(days("db1"), None);
        save_measurement(&folder, &measured("db1", "1"), None, false).expect("kept");
        assert_eq!(days("db1"), Some(("1".into(), None)));
        save_measurement(&folder, &measured("db1", "2"), None, false).expect("kept");
        save_measurement(&folder, &measured("db1", "3"), None, false).expect("kept");
        assert_eq!(days("db1"), Some(("1".into(), Some("3".into()))));
        save_measurement(&folder, &measured("db1", "4"), None, true).expect("kept");
        assert_eq!((days("db1"), days("db2")), (Some(("4".into(), None)), None));
    }

    #[test]
    fn a_check_does_not_replace_a_baseline_in_another_folder() {
        let root = tempfile::tempdir().expect("a folder");
        let (known, check) = (measured("db1", "1"), measured("db1", "2"));
        let days = |replace: bool| {
            save_measurement(root.path(), &check, Some(&known), replace).expect("kept");
            let kept = load_profile(root.path(), "db1").expect("read").expect("there");
            (kept.baseline.measured, kept.latest.map(|latest| latest.measured))
        };
        assert_eq!(days(false), ("1".to_owned(), Some("2".to_owned())));
        assert_eq!(days(true), ("2".to_owned(), None));
    }

    #[test]
    fn damaged_files_are_named_and_not_overwritten() {
        let root = tempfile::tempdir().expect("a folder");
        let path = profile_path(root.path(), "db1");
        fs::write(&path, "{").expect("written");
        assert!(load_profile(root.path(), "db1").expect_err("damaged").contains("db1.json"));
        assert!(save_measurement(root.path(), &measured("db1", "1"), None, false).is_err());
        save_measurement(root.path(), &measured("db1", "1"), None, true).expect("replaced");
        assert!(load_profile(root.path(), "db1").expect("read").is_some());
    }

    #[test]
    fn removes_the_partial_file_of_a_killed_process() {
        let root = tempfile::tempdir().expect("a folder");
        fs::write(profile_path(root.path(), "db1").with_extension("part"), "{").expect("written");
        save_measurement(root.path(), &measured("db1", "1"), None, false).expect("kept");
        let names: Vec<_> = fs::read_dir(root.path()).expect("read").flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(names, ["db1.json"]);
    }

    #[test]
    fn hosts_with_odd_names_have_files_of_their_own() {
        let folder = Path::new("x");
        assert_eq!(profile_path(folder, "db-1"), Path::new("x/db-1.json"));
        assert_ne!(profile_path(folder, "a/b"), profile_path(folder, "a_b"));
        assert!(!profile_path(folder, "../../etc/passwd").to_string_lossy().contains(".."));
    }
}
