//! Profiles: the most that a device was measured to do, kept from run to run
//! in one file a device, so that diagnosis can judge against it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::device::Facts;
use crate::result::RunResult;

/// The most that a device did. `None` is what was never measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Profile {
    /// `diskwright.profile/1`.
    pub schema: String,
    /// What the device is known again by.
    pub key: String,
    /// Kernel name when it was measured.
    pub device: String,
    /// When, RFC 3339.
    pub measured: String,
    /// The most requests a second, reads or writes.
    pub requests_per_s: Option<f64>,
    /// The most bytes a second, reads or writes.
    pub bytes_per_s: Option<f64>,
    /// The most reads a second.
    pub reads_per_s: Option<f64>,
    /// The most writes a second.
    pub writes_per_s: Option<f64>,
    /// Mean latency of one random 4 KiB read alone, seconds.
    pub read_s: Option<f64>,
}

fn most(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.max(b)),
        (a, b) => a.or(b),
    }
}

impl Profile {
    /// The profile that runs give. Runs through the page cache say nothing of
    /// the device, so the caller gives only direct ones.
    pub fn of(facts: &Facts, runs: &[RunResult], measured: String) -> Profile {
        let top =
            |of: &dyn Fn(&RunResult) -> Option<f64>| runs.iter().filter_map(of).fold(None, |a, b| most(a, Some(b)));
        let alone = |r: &&RunResult| {
            r.depth == Some(1) && r.place == "uniform" && r.read_share == 1.0 && r.size_bytes <= 4096.0
        };
        Profile {
            schema: "diskwright.profile/1".into(),
            key: facts.key.clone(),
            device: facts.name.clone(),
            measured,
            requests_per_s: top(&|r| Some(r.requests_per_s)),
            bytes_per_s: top(&|r| Some(r.bytes_per_s)),
            reads_per_s: top(&|r| r.reads.map(|d| d.requests_per_s)),
            writes_per_s: top(&|r| r.writes.map(|d| d.requests_per_s)),
            read_s: runs.iter().find(alone).and_then(|r| r.latency_s.mean),
        }
    }

    /// Joins what was measured before: the most counts, the newest time stands.
    fn join(&mut self, before: &Profile) {
        self.requests_per_s = most(self.requests_per_s, before.requests_per_s);
        self.bytes_per_s = most(self.bytes_per_s, before.bytes_per_s);
        self.reads_per_s = most(self.reads_per_s, before.reads_per_s);
        self.writes_per_s = most(self.writes_per_s, before.writes_per_s);
        self.read_s = self.read_s.or(before.read_s);
    }

    /// Writes it into a folder, joined with what is there of the same device.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn store(mut self, folder: &Path) -> io::Result<PathBuf> {
        fs::create_dir_all(folder)?;
        let file = folder.join(file_name(&self.key));
        if let Some(before) = read(&file).filter(|p| p.key == self.key) {
            self.join(&before);
        }
        // a reader sees the old file or the new one, never half of one
        let part = file.with_extension("part");
        fs::write(&part, serde_json::to_string_pretty(&self)?)?;
        fs::rename(&part, &file)?;
        Ok(file)
    }
}

fn read(file: &Path) -> Option<Profile> {
    serde_json::from_str(&fs::read_to_string(file).ok()?).ok()
}

/// All profiles in a folder; a file that is none is passed over.
pub fn load(folder: &Path) -> Vec<Profile> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path());
    let mut found: Vec<Profile> =
        files.filter(|f| f.extension().is_some_and(|e| e == "json")).filter_map(|f| read(&f)).collect();
    found.sort_by(|a, b| a.key.cmp(&b.key));
    found
}

/// A key as a file's name: what is not plain becomes `_`, and a checksum
/// (FNV-1a) keeps two keys apart.
fn file_name(key: &str) -> String {
    let plain: String =
        key.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).take(80).collect();
    let sum = key.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    format!("{plain}-{:08x}.json", sum as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{Direction, Latency};

    fn run(rate: f64, bytes: f64) -> RunResult {
        let latency_s = Latency { mean: Some(0.001), ..Latency::default() };
        let reads = Some(Direction { requests_per_s: rate, ..Direction::default() });
        let place = "uniform".to_owned();
        RunResult {
            requests_per_s: rate,
            bytes_per_s: bytes,
            latency_s,
            reads,
            place,
            depth: Some(1),
            read_share: 1.0,
            size_bytes: 4096.0,
            ..RunResult::default()
        }
    }

    #[test]
    fn the_most_of_all_runs_is_remembered_for_each_device() {
        let folder = tempfile::tempdir().unwrap();
        let facts = |key: &str| Facts { key: key.into(), ..Facts::default() };
        let store =
            |key: &str, runs: &[RunResult]| Profile::of(&facts(key), runs, "now".into()).store(folder.path()).unwrap();
        store("serial:a", &[run(100.0, 5e6), run(50.0, 9e6)]);
        store("serial:a", &[run(80.0, 1e7)]);
        store("serial/a", &[run(1.0, 1.0)]);
        fs::write(folder.path().join("other.json"), "no profile").unwrap();
        let all = load(folder.path());
        assert_eq!(all.len(), 2);
        let found = all.iter().find(|p| p.key == "serial:a").unwrap();
        assert_eq!((found.requests_per_s, found.bytes_per_s, found.writes_per_s), (Some(100.0), Some(1e7), None));
        assert_eq!(found.read_s, Some(0.001));
    }
}
