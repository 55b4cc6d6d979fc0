//! Writes settings and reverts them. The previous values are on disk before anything is written, so that a crash in
//! between leaves a change that can be undone.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use diskwright_hostfiles::private_files::{self, PrivateFileError};
use serde::{Deserialize, Serialize};

use crate::advice::{SettingWrite, active_choice, apply_order, undo_order};

/// Folders of all settings that may be written.
const SETTING_FOLDERS: &[&str] =
    &["/sys/block/", "/sys/devices/", "/sys/kernel/mm/", "/sys/class/scsi_host/", "/proc/sys/"];
/// File with the record of changes.
const RECORD_FILE: &str = "applied.json";

/// A change that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingChange {
    /// The item's id.
    pub id: String,
    /// Time, RFC 3339.
    pub time: String,
    /// Settings that were written.
    pub writes: Vec<SettingWrite>,
    /// True once all settings were written; otherwise the change was interrupted.
    #[serde(rename = "complete")]
    pub is_complete: bool,
    /// Boot id of the running system. A restart ends all changes, and may give a disk another name.
    #[serde(default)]
    pub boot: String,
    /// Settings that the kernel resets when it accepts the written one, and their previous content: path and text.
    #[serde(rename = "beside", default, skip_serializing_if = "Vec::is_empty")]
    pub reset_settings: Vec<(String, String)>,
}

/// Reason why a change was not made or not reverted.
#[derive(Debug, thiserror::Error)]
pub enum ChangeBookError {
    /// The record's folder or file is not trusted.
    #[error(transparent)]
    Distrust(#[from] PrivateFileError),
    /// The record cannot be written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: std::io::Error,
    },
    /// The record cannot be read.
    #[error("{path} is damaged: {because}. Nothing was done. Correct it, or move it away")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The reason.
        because: String,
    },
    /// The change is already applied.
    #[error("`{0}` is already applied; undo it with --undo {0}")]
    Applied(String),
    /// There is nothing to undo.
    #[error("`{0}` was not applied by this program, or was undone")]
    NotApplied(String),
    /// The change ended with a restart.
    #[error("`{0}` ended with the last restart, so there is nothing to undo")]
    Ended(String),
    /// The path is not that of a setting.
    #[error("{0} is not a setting that this program writes")]
    NoSetting(String),
    /// Another program changed a setting meanwhile.
    #[error("{path} is now `{now}`, neither the value written (`{after}`) nor the value before; it is left unchanged")]
    Moved {
        /// The setting.
        path: String,
        /// Its value now.
        now: String,
        /// The written value.
        after: String,
    },
    /// The kernel keeps another value.
    #[error("{path}: the kernel keeps `{now}` instead of `{after}`; the change was undone")]
    Refused {
        /// The setting.
        path: String,
        /// Its value now.
        now: String,
        /// The written value.
        after: String,
    },
}

/// The record of changes.
#[derive(Debug)]
pub struct ChangeBook {
    path: PathBuf,
    changes: Vec<SettingChange>,
    /// Boot id of the running system.
    boot_id: String,
    /// Ids of changes that a restart ended.
    ended_ids: Vec<String>,
}

impl ChangeBook {
    /// Opens the record in the state folder.
    ///
    /// # Errors
    /// If it is not trusted or is damaged.
    pub fn open(folder: &Path) -> Result<ChangeBook, ChangeBookError> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        ChangeBook::open_at(folder, boot.trim())
    }

    /// Opens the record, in a system with this boot id.
    pub(crate) fn open_at(folder: &Path, boot: &str) -> Result<ChangeBook, ChangeBookError> {
        private_files::create_folder(folder)?;
        let path = folder.join(RECORD_FILE);
        let all: Vec<SettingChange> = match private_files::open_for_reading(&path) {
            Ok(file) => serde_json::from_reader(std::io::BufReader::new(file))
                .map_err(|error| ChangeBookError::Damaged { path: path.clone(), because: error.to_string() })?,
            Err(_) if !path.exists() => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        let runs = |change: &SettingChange| change.boot.is_empty() || boot.is_empty() || change.boot == boot;
        let (changes, ended): (Vec<_>, Vec<_>) = all.into_iter().partition(runs);
        let ended = ended.into_iter().map(|change| change.id).collect();
        Ok(ChangeBook { path, changes, boot_id: boot.to_owned(), ended_ids: ended })
    }

    /// Changes that were applied and not undone.
    #[must_use]
    pub fn changes(&self) -> &[SettingChange] {
        &self.changes
    }

    /// Writes settings after their previous values were recorded. A value that the kernel does not keep is reverted.
    ///
    /// # Errors
    /// If nothing was changed in the end.
    pub fn apply_writes(&mut self, id: &str, time: &str, writes: &[SettingWrite]) -> Result<(), ChangeBookError> {
        if let Some(known) = self.changes.iter().position(|change| change.id == id) {
            let stands = |write: &SettingWrite| read_setting(&write.path).is_ok_and(|now| now == write.after);
            if self.changes[known].writes.iter().any(stands) {
                return Err(ChangeBookError::Applied(id.to_owned()));
            }
            // another program has changed it since, so there is nothing left to revert
            self.changes.remove(known);
        }
        let writes: Vec<SettingWrite> = writes
            .iter()
            .map(|write| Ok(SettingWrite { before: read_setting(&write.path)?, ..write.clone() }))
            .collect::<Result<_, ChangeBookError>>()?;
        let beside = writes.iter().flat_map(|write| settings_reset_by(&write.path)).collect();
        let (id, time, boot) = (id.to_owned(), time.to_owned(), self.boot_id.clone());
        let change = SettingChange { id, time, writes, is_complete: false, boot, reset_settings: beside };
        self.changes.push(change.clone());
        self.save_record()?;
        let done = apply_order(&change.writes).iter().try_for_each(write_and_verify);
        if let Err(error) = done {
            // the other settings of the change are reverted too
            restore_change(&change)?;
            self.changes.pop();
            self.save_record()?;
            return Err(error);
        }
        if let Some(last) = self.changes.last_mut() {
            last.is_complete = true;
        }
        self.save_record()
    }

    /// Reverts a change, unless another program has changed one of its settings meanwhile.
    ///
    /// # Errors
    /// If the change stays.
    pub fn undo_change(&mut self, id: &str) -> Result<SettingChange, ChangeBookError> {
        let index = self.changes.iter().position(|change| change.id == id);
        let Some(index) = index else {
            let id = id.to_owned();
            let is_over = self.ended_ids.contains(&id);
            return Err(if is_over { ChangeBookError::Ended(id) } else { ChangeBookError::NotApplied(id) });
        };
        let change = self.changes[index].clone();
        for write in &change.writes {
            let now = read_setting(&write.path)?;
            if now != write.after && now != write.before {
                return Err(ChangeBookError::Moved { path: write.path.clone(), now, after: write.after.clone() });
            }
        }
        restore_change(&change)?;
        self.changes.remove(index);
        self.save_record()?;
        Ok(change)
    }

    /// Saves the record completely or not at all, whenever the machine stops.
    fn save_record(&self) -> Result<(), ChangeBookError> {
        save_json(&self.path, &self.changes)
    }
}

/// Replaces a file in the state folder by a value as JSON: completely or not at all.
pub(crate) fn save_json(path: &Path, value: &impl Serialize) -> Result<(), ChangeBookError> {
    let io = |source| ChangeBookError::Io { path: path.to_owned(), source };
    let part = path.with_extension("part");
    let mut file = private_files::create(&part)?;
    let text = serde_json::to_string_pretty(value).map_err(|error| io(error.into()))?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(io)?;
    fs::rename(&part, path).map_err(io)?;
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(io)
}

/// Reads the current value of a setting.
fn read_setting(path: &str) -> Result<String, ChangeBookError> {
    let is_plain =
        !path.split('/').any(|part| part == "..") && SETTING_FOLDERS.iter().any(|folder| path.starts_with(folder));
    if !is_plain {
        return Err(ChangeBookError::NoSetting(path.to_owned()));
    }
    let text = fs::read_to_string(path).map_err(|source| ChangeBookError::Io { path: path.into(), source })?;
    Ok(active_choice(&text).to_owned())
}

fn write_setting(path: &str, text: &str) -> Result<(), ChangeBookError> {
    read_setting(path)?;
    let io = |source| ChangeBookError::Io { path: path.into(), source };
    let mut file = fs::OpenOptions::new().write(true).open(path).map_err(io)?;
    file.write_all(text.as_bytes()).map_err(io)
}

/// Settings that the kernel resets when a disk gets another scheduler (block/elevator.c): the number of requests,
/// write-back throttling, and the scheduler's own settings, with their content.
fn settings_reset_by(path: &str) -> Vec<(String, String)> {
    let Some(queue) = path.strip_suffix("/scheduler").filter(|queue| queue.ends_with("/queue")) else {
        return Vec::new();
    };
    let own = fs::read_dir(format!("{queue}/iosched")).into_iter().flatten().flatten();
    let own = own.map(|entry| entry.path().to_string_lossy().into_owned()).collect();
    let paths = order_reset_settings(queue, own).into_iter();
    paths.filter_map(|path| Some((read_setting(&path).ok()?, path))).map(|(text, path)| (path, text)).collect()
}

/// Puts the number of requests first: writing it makes the kernel reset `async_depth` of the scheduler (mq-deadline,
/// kyber).
fn order_reset_settings(queue: &str, mut own: Vec<String>) -> Vec<String> {
    own.sort_unstable();
    ["nr_requests", "wbt_lat_usec"].map(|file| format!("{queue}/{file}")).into_iter().chain(own).collect()
}

/// Restores the values from before a change.
fn restore_change(change: &SettingChange) -> Result<(), ChangeBookError> {
    undo_order(&change.writes).iter().try_for_each(|write| write_setting(&write.path, &write.before))?;
    for (path, text) in &change.reset_settings {
        if read_setting(path).is_ok_and(|now| now != *text) {
            write_setting(path, text)?;
        }
    }
    Ok(())
}

/// Writes a setting and reads it back.
fn write_and_verify(write: &SettingWrite) -> Result<(), ChangeBookError> {
    write_setting(&write.path, &write.after)?;
    let now = read_setting(&write.path)?;
    if now == write.after {
        return Ok(());
    }
    Err(ChangeBookError::Refused { path: write.path.clone(), now, after: write.after.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_only_settings() {
        for path in ["/etc/passwd", "/sys/block/../../etc/passwd", "/proc/sysrq-trigger", "sys/block/sda"] {
            assert!(matches!(read_setting(path), Err(ChangeBookError::NoSetting(_))), "{path}");
        }
    }

    #[test]
    fn restores_the_number_of_requests_before_dependent_settings() {
        let own = ["fifo_batch", "async_depth"].map(|file| format!("q/iosched/{file}")).to_vec();
        let order = ["q/nr_requests", "q/wbt_lat_usec", "q/iosched/async_depth", "q/iosched/fifo_batch"];
        assert_eq!(order_reset_settings("q", own), order);
    }

    #[test]
    fn reports_and_keeps_a_damaged_record() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(RECORD_FILE);
        fs::write(&path, "[{").expect("a file");
        assert!(matches!(ChangeBook::open(folder.path()), Err(ChangeBookError::Damaged { .. })));
        assert_eq!(fs::read_to_string(&path).expect("still there"), "[{");
    }

    #[test]
    fn restart_ends_applied_changes() {
        let folder = tempfile::tempdir().expect("a folder");
        let change = SettingChange {
            id: "memory.swappiness".into(),
            time: "2026-01-01T00:00:00Z".into(),
            writes: Vec::new(),
            is_complete: true,
            boot: "the last one".into(),
            reset_settings: Vec::new(),
        };
        save_json(&folder.path().join(RECORD_FILE), &[&change]).expect("kept");
        // another disk may have the name now: nothing is written
        let mut book = ChangeBook::open_at(folder.path(), "this one").expect("the record");
        assert!(book.changes().is_empty());
        assert!(matches!(book.undo_change("memory.swappiness"), Err(ChangeBookError::Ended(_))));
        let mut book = ChangeBook::open_at(folder.path(), "the last one").expect("the record");
        assert_eq!(book.undo_change("memory.swappiness").expect("undone"), change);
    }

    #[test]
    fn does_not_undo_what_was_never_applied() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut book = ChangeBook::open(folder.path()).expect("a new record");
        assert!(matches!(book.undo_change("memory.swappiness"), Err(ChangeBookError::NotApplied(_))));
    }
}
