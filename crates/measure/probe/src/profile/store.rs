//! Profiles in a folder: one JSON file per device, which every user can read.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use diskwright_base::checksum::hash_fnv1a;
use diskwright_hostfiles::bounded_file;
use rustix::fs::{FlockOperation, flock};

use super::{FIGURES, Profile, SCHEMA};

/// Largest profile file, bytes; a real one has a few kilobytes.
pub const MAX_PROFILE_BYTES: u64 = 1 << 20;

/// A profile and its file.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileEntry {
    /// The file.
    pub path: PathBuf,
    /// Content of the file.
    pub profile: Profile,
}

/// A file that should be a profile but cannot be read as one.
#[derive(Clone, Debug, PartialEq)]
pub struct UnreadableProfile {
    /// The file.
    pub path: PathBuf,
    /// Reason, and what to do.
    pub because: String,
}

/// Reason why a profile cannot be read.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ProfileError {
    /// It has another schema than [`SCHEMA`], probably that of a newer version.
    #[error("its schema is `{0}`, this program knows `{SCHEMA}`")]
    UnknownSchema(String),
    /// It cannot be read, or it is not a valid profile.
    #[error("{0}")]
    Unreadable(String),
}

impl From<String> for ProfileError {
    fn from(because: String) -> ProfileError {
        ProfileError::Unreadable(because)
    }
}

/// Parses the text of a profile.
///
/// # Errors
/// The reason why it is not a valid profile.
pub fn parse(bytes: &[u8]) -> Result<Profile, ProfileError> {
    let profile: Profile = serde_json::from_slice(bytes).map_err(|e| format!("no profile: {e}"))?;
    if profile.schema != SCHEMA {
        return Err(ProfileError::UnknownSchema(profile.schema));
    }
    check_content(&profile)?;
    Ok(profile)
}

/// Checks the key and the figures.
fn check_content(profile: &Profile) -> Result<(), String> {
    if profile.key.is_empty() || profile.figures.is_empty() {
        return Err("it has no key or no figures".into());
    }
    for figure in &profile.figures {
        let name = &figure.figure;
        let Some((_, unit, _)) = FIGURES.iter().find(|(known, ..)| known == name) else {
            return Err(format!("`{name}` is not a figure of a profile"));
        };
        if figure.unit != *unit {
            return Err(format!("{name} is in `{}`, not in `{unit}`", figure.unit));
        }
        if !(figure.value.is_finite() && figure.value > 0.0) {
            return Err(format!("{name} is {}, not a number above 0", figure.value));
        }
    }
    Ok(())
}

fn read_profile(path: &Path) -> Result<Profile, ProfileError> {
    parse(&bounded_file::read_file(path, MAX_PROFILE_BYTES).map_err(|e| e.to_string())?)
}

/// Loads all profiles in a folder, sorted by their keys, and lists the files that should be profiles
/// but cannot be read. A missing folder counts as empty.
pub fn load_profiles(folder: &Path) -> (Vec<ProfileEntry>, Vec<UnreadableProfile>) {
    let (mut found, mut unreadable) = (Vec::new(), Vec::new());
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return (found, unreadable),
        Err(e) => {
            unreadable.push(UnreadableProfile { path: folder.to_owned(), because: e.to_string() });
            return (found, unreadable);
        }
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "json"));
    paths.sort_unstable();
    for path in paths {
        match read_profile(&path) {
            Ok(profile) => found.push(ProfileEntry { path, profile }),
            Err(error) => unreadable.push(UnreadableProfile { path, because: error.to_string() }),
        }
    }
    found.sort_by(|a, b| a.profile.key.cmp(&b.profile.key));
    (found, unreadable)
}

/// Saves a profile in a folder; unless `replace` is set, merges it with the existing profile of the
/// same device. Readers see the old file or the new one, never half of one. Of two programs that save
/// at the same time, one waits for the other.
///
/// # Errors
/// If the system refuses, or if the existing file is of a newer version.
pub fn save_profile(folder: &Path, mut profile: Profile, replace: bool) -> io::Result<ProfileEntry> {
    diskwright_guard::check_new(&folder.join("profile")).map_err(io::Error::other)?;
    fs::DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
    let lock = fs::File::open(folder)?;
    flock(&lock, FlockOperation::LockExclusive)?;
    let path = folder.join(file_name(&profile.key));
    match read_profile(&path) {
        Ok(previous) if previous.key == profile.key && !replace => profile.merge_previous(&previous),
        // the measurements of a newer version must not be lost
        Err(error @ ProfileError::UnknownSchema(_)) => {
            return Err(io::Error::other(format!("{}: {error}", path.display())));
        }
        // the profile of another device, one to be replaced, or one that cannot be read
        Ok(_) | Err(ProfileError::Unreadable(_)) => {}
    }
    let temporary = path.with_extension(format!("{}.part", std::process::id()));
    let written = write_profile(&temporary, &profile).and_then(|()| fs::rename(&temporary, &path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written.map(|()| ProfileEntry { path, profile })
}

/// Removes the file of a profile; waits for other programs that are saving one.
///
/// # Errors
/// If the system refuses.
pub fn remove(stored: &ProfileEntry) -> io::Result<()> {
    let lock = stored.path.parent().map(fs::File::open).transpose()?;
    if let Some(lock) = &lock {
        flock(lock, FlockOperation::LockExclusive)?;
    }
    fs::remove_file(&stored.path)
}

fn write_profile(path: &Path, profile: &Profile) -> io::Result<()> {
    let mut text = serde_json::to_string_pretty(profile)?;
    text.push('\n');
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o644).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Returns the name of the file for a key: special characters become `_`, and a checksum (FNV-1a)
/// distinguishes keys that are then equal.
fn file_name(key: &str) -> String {
    let readable: String =
        key.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).take(80).collect();
    let sum = hash_fnv1a(key.as_bytes());
    format!("{readable}-{:08x}.json", sum as u32)
}
