//! Writes settings and reverts them. The previous values are saved before anything is written, so that a change can be
//! undone even after a crash in between.

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
    /// Id of the advice item.
    pub id: String,
    /// Time, RFC 3339.
    pub time: String,
    /// Settings that were written.
    pub writes: Vec<SettingWrite>,
    /// True once all settings were written; otherwise the change was interrupted.
    #[serde(rename = "complete")]
    pub is_complete: bool,
    /// Boot id of the system when the change was made. A restart ends all changes, and may give a disk another name.
    #[serde(default)]
    pub boot: String,
    /// Settings that the kernel resets when a setting is written, and their previous content: path and text.
    #[serde(rename = "beside", default, skip_serializing_if = "Vec::is_empty")]
    pub reset_settings: Vec<(String, String)>,
}

/// Reason why a change was not made or not reverted.
#[derive(Debug, thiserror::Error)]
pub enum ChangeBookError {
    /// The folder or file of the record is not trusted: other users could change it.
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
    /// The path is not that of a setting that may be written.
    #[error("{0} is not a setting that this program writes")]
    NoSetting(String),
    /// Another program has changed a setting meanwhile.
    #[error("{path} is now `{now}`, neither the value written (`{after}`) nor the value before; it is left unchanged")]
    Moved {
        /// The setting.
        path: String,
        /// Its value now.
        now: String,
        /// The written value.
        after: String,
    },
    /// The kernel did not keep the written value.
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
        let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        ChangeBook::open_at(folder, boot_id.trim())
    }

    /// Opens the record, in a system with this boot id.
    pub(crate) fn open_at(folder: &Path, boot_id: &str) -> Result<ChangeBook, ChangeBookError> {
        private_files::create_folder(folder)?;
        let path = folder.join(RECORD_FILE);
        let recorded: Vec<SettingChange> = match private_files::open_for_reading(&path) {
            Ok(file) => serde_json::from_reader(std::io::BufReader::new(file))
                .map_err(|error| ChangeBookError::Damaged { path: path.clone(), because: error.to_string() })?,
            Err(_) if !path.exists() => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        let is_in_effect =
            |change: &SettingChange| change.boot.is_empty() || boot_id.is_empty() || change.boot == boot_id;
        let (changes, ended): (Vec<_>, Vec<_>) = recorded.into_iter().partition(is_in_effect);
        let ended_ids = ended.into_iter().map(|change| change.id).collect();
        Ok(ChangeBook { path, changes, boot_id: boot_id.to_owned(), ended_ids })
    }

    /// Changes that were applied and not undone.
    #[must_use]
    pub fn changes(&self) -> &[SettingChange] {
        &self.changes
    }

    /// Records the previous values of settings, then writes the settings. If the kernel does not keep a value, all of
    /// them are reverted.
    ///
    /// # Errors
    /// If the settings were not all written. What was written is reverted; if even that fails, the change stays in the
    /// record as incomplete.
    pub fn apply_writes(&mut self, id: &str, time: &str, writes: &[SettingWrite]) -> Result<(), ChangeBookError> {
        if let Some(index) = self.changes.iter().position(|change| change.id == id) {
            let is_in_effect = |write: &SettingWrite| read_setting(&write.path).is_ok_and(|now| now == write.after);
            if self.changes[index].writes.iter().any(is_in_effect) {
                return Err(ChangeBookError::Applied(id.to_owned()));
            }
            // another program has changed the settings since, so there is nothing left to revert
            self.changes.remove(index);
        }
        let writes: Vec<SettingWrite> = writes
            .iter()
            .map(|write| Ok(SettingWrite { before: read_setting(&write.path)?, ..write.clone() }))
            .collect::<Result<_, ChangeBookError>>()?;
        let reset_settings = writes.iter().flat_map(|write| settings_reset_by(&write.path)).collect();
        let (id, time, boot) = (id.to_owned(), time.to_owned(), self.boot_id.clone());
        let change = SettingChange { id, time, writes, is_complete: false, boot, reset_settings };
        self.changes.push(change.clone());
        self.save_record()?;
        let result = apply_order(&change.writes).iter().try_for_each(write_and_verify);
        if let Err(error) = result {
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
    /// If the change was not reverted.
    pub fn undo_change(&mut self, id: &str) -> Result<SettingChange, ChangeBookError> {
        let index = self.changes.iter().position(|change| change.id == id);
        let Some(index) = index else {
            let id = id.to_owned();
            let has_ended = self.ended_ids.contains(&id);
            return Err(if has_ended { ChangeBookError::Ended(id) } else { ChangeBookError::NotApplied(id) });
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

/// Writes a value as JSON to a file in the state folder, which is replaced completely or not at all.
pub(crate) fn save_json(path: &Path, value: &impl Serialize) -> Result<(), ChangeBookError> {
    let io_error = |source| ChangeBookError::Io { path: path.to_owned(), source };
    let temporary = path.with_extension("part");
    let mut file = private_files::create(&temporary)?;
    let text = serde_json::to_string_pretty(value).map_err(|error| io_error(error.into()))?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(io_error)?;
    fs::rename(&temporary, path).map_err(io_error)?;
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(io_error)
}

/// Reads the current value of a setting; refuses any other file.
fn read_setting(path: &str) -> Result<String, ChangeBookError> {
    let is_setting =
        !path.split('/').any(|part| part == "..") && SETTING_FOLDERS.iter().any(|folder| path.starts_with(folder));
    if !is_setting {
        return Err(ChangeBookError::NoSetting(path.to_owned()));
    }
    let text = fs::read_to_string(path).map_err(|source| ChangeBookError::Io { path: path.into(), source })?;
    Ok(active_choice(&text).to_owned())
}

fn write_setting(path: &str, text: &str) -> Result<(), ChangeBookError> {
    // refuses files that are no settings
    read_setting(path)?;
    let io_error = |source| ChangeBookError::Io { path: path.into(), source };
    let mut file = fs::OpenOptions::new().write(true).open(path).map_err(io_error)?;
    file.write_all(text.as_bytes()).map_err(io_error)
}

/// Settings that the kernel resets when a disk gets another scheduler (block/elevator.c): the number of requests,
/// write-back throttling, and the scheduler's own settings, with their content.
fn settings_reset_by(path: &str) -> Vec<(String, String)> {
    let Some(queue) = path.strip_suffix("/scheduler").filter(|queue| queue.ends_with("/queue")) else {
        return Vec::new();
    };
    let entries = fs::read_dir(format!("{queue}/iosched")).into_iter().flatten().flatten();
    let scheduler_settings = entries.map(|entry| entry.path().to_string_lossy().into_owned()).collect();
    let paths = order_reset_settings(queue, scheduler_settings).into_iter();
    let with_content = |path: String| {
        let text = read_setting(&path).ok()?;
        Some((path, text))
    };
    paths.filter_map(with_content).collect()
}

/// Returns the reset settings in the order in which they must be restored: the number of requests comes first, because
/// writing it makes the kernel reset `async_depth` of the scheduler (mq-deadline, kyber).
fn order_reset_settings(queue: &str, mut scheduler_settings: Vec<String>) -> Vec<String> {
    scheduler_settings.sort_unstable();
    let queue_settings = ["nr_requests", "wbt_lat_usec"].map(|file| format!("{queue}/{file}"));
    queue_settings.into_iter().chain(scheduler_settings).collect()
}

/// Restores the values that settings had before a change.
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
