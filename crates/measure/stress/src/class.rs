//! Classes of load, read from `classes.toml`.

use diskwright_base::user_input::nearest_word;
use diskwright_base::{Problems, toml_reader};
use serde::{Deserialize, Serialize};

use crate::StressError;

/// A class of load.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StressClass {
    /// Name on the command line.
    pub id: String,
    /// Short title.
    pub title: String,
    /// Description of the load.
    #[serde(rename = "loads")]
    pub load_description: String,
    /// Meaning of a level of 100 %.
    #[serde(rename = "full")]
    pub full_level_description: String,
    /// Unit of the level: `processors`, `per_s`, `bytes_per_s` or `fraction`.
    pub unit: String,
    /// Correct verdicts; several if it saturates several parts of a host.
    #[serde(rename = "expect")]
    pub expected_verdicts: Vec<String>,
    /// Verdicts that are also correct if the processors are full: they saturated before the loaded part did.
    #[serde(default, rename = "or_if_processors_full")]
    pub verdicts_if_processors_full: Vec<String>,
    /// Finding that must be reported.
    #[serde(default, rename = "rule")]
    pub expected_rule: Option<String>,
    /// Wait reason that must be reported for some program.
    #[serde(default, rename = "waits")]
    pub expected_wait: Option<String>,
    /// Expected output of `why`, in words.
    #[serde(rename = "says")]
    pub expected_text: String,
    /// Level at which it is verified, percent.
    #[serde(default = "default_level", rename = "level")]
    pub test_level: u32,
    /// Highest level that makes sense, percent.
    #[serde(default = "default_level", rename = "most_level")]
    pub max_level: u32,
    /// Warm-up before its maximum is measured, milliseconds.
    #[serde(default = "default_warm_up_ms")]
    pub warm_up_ms: u64,
    /// Smallest number of processors.
    #[serde(default, rename = "processors")]
    pub min_processors: usize,
    /// Memory that it takes, MiB.
    #[serde(default)]
    pub memory_mib: u64,
    /// Memory limit of its cgroup, MiB; 0: none.
    #[serde(default)]
    pub limit_mib: u64,
    /// Size of its files, MiB.
    #[serde(default)]
    pub file_mib: u64,
    /// Swap space that it needs, MiB.
    #[serde(default)]
    pub swap_mib: u64,
    /// True if it needs io_uring.
    #[serde(default)]
    pub needs_ring: bool,
}

fn default_level() -> u32 {
    100
}

fn default_warm_up_ms() -> u64 {
    500
}

/// Root of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClassesFile {
    class: Vec<StressClass>,
}

/// Reads all classes, in the order in which they are verified.
///
/// # Errors
/// Mistakes in the table, by line.
pub fn read_classes() -> Result<Vec<StressClass>, Problems> {
    toml_reader::read::<ClassesFile>("classes.toml", include_str!("classes.toml")).map(|file| file.class)
}

/// Finds the class with a name.
///
/// # Errors
/// Names the nearest class, and all classes.
pub fn find_class(name: &str) -> Result<StressClass, StressError> {
    let classes = read_classes().map_err(|problems| StressError::Usage(problems.to_string()))?;
    if let Some(class) = classes.iter().find(|class| class.id == name) {
        return Ok(class.clone());
    }
    let ids: Vec<&str> = classes.iter().map(|class| class.id.as_str()).collect();
    let expecting: Vec<&str> =
        classes.iter().filter(|class| class.expects_verdict(name)).map(|class| class.id.as_str()).collect();
    let hint = match nearest_word(name, ids.iter().copied()) {
        Some(nearest) => format!(" (did you mean `{nearest}`?)"),
        // the name may be that of an expected verdict
        None if !expecting.is_empty() => format!(" (`why` should say {name} for {})", expecting.join(", ")),
        None => String::new(),
    };
    Err(StressError::Usage(format!("there is no class `{name}`{hint}; classes: {}", ids.join(", "))))
}

impl StressClass {
    /// Disk space for its files and its swap space, bytes.
    #[must_use]
    pub fn needed_bytes(&self) -> u64 {
        (self.file_mib + self.swap_mib) << 20
    }

    /// Returns true if a verdict is correct even if the processors are not full.
    #[must_use]
    pub fn expects_verdict(&self, verdict: &str) -> bool {
        self.expected_verdicts.iter().any(|expected| expected == verdict)
    }

    /// Converts a level to a share of 1.
    ///
    /// # Errors
    /// If the class does not support the level.
    pub fn level_to_share(&self, level: u32) -> Result<f64, StressError> {
        if level == 0 || level > 100 {
            return Err(StressError::Usage(format!("level {level} %: expected 1 to 100 %")));
        }
        if level > self.max_level {
            let (max, id) = (self.max_level, &self.id);
            return Err(StressError::Usage(format!("level {level} %: {id} allows at most {max} %")));
        }
        Ok(f64::from(level) / 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_consistent() {
        let all = read_classes().unwrap();
        assert!(all.len() >= 11);
        for class in &all {
            assert!(
                !class.expected_verdicts.is_empty() && class.test_level <= class.max_level && class.test_level > 0,
                "{}",
                class.id
            );
            assert!(["processors", "per_s", "bytes_per_s", "fraction"].contains(&class.unit.as_str()), "{}", class.id);
            assert!((100..=60_000).contains(&class.warm_up_ms), "{}", class.id);
            assert!(class.swap_mib == 0 || class.limit_mib > 0, "{}: swap is for what has a limit", class.id);
        }
        let mut ids: Vec<_> = all.iter().map(|class| &class.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all.len());
    }

    /// A maximum that fluctuates needs headroom; a verdict that needs a saturated part needs 100 %.
    #[test]
    fn levels_leave_room_where_the_maximum_moves() {
        let level = |id: &str| find_class(id).unwrap().test_level;
        for (id, max) in [("paging", 60), ("memory-limit", 80), ("file-cache", 80), ("disk-random", 80)] {
            assert!(level(id) <= max, "{id}");
        }
        assert!(level("network") < 100);
        for id in ["processor", "one-thread", "memory-bandwidth", "disk-sequential", "completions"] {
            assert_eq!(level(id), 100, "{id}");
        }
    }

    #[test]
    fn suggests_the_nearest_class_for_a_typo() {
        let error = find_class("procesor").unwrap_err().to_string();
        assert!(error.contains("did you mean `processor`?") && error.contains("paging"), "{error}");
        let error = find_class("cpu").unwrap_err().to_string();
        assert!(error.contains("no class `cpu` (`why` should say cpu for processor, one-thread, "), "{error}");
        assert_eq!(find_class("paging").unwrap().id, "paging");
    }

    #[test]
    fn levels_are_shares_of_what_is_possible() {
        let class = find_class("memory-under").unwrap();
        assert_eq!(class.level_to_share(50).ok(), Some(0.5));
        for wrong in [0, 96, 101, u32::MAX] {
            assert!(class.level_to_share(wrong).is_err(), "{wrong}");
        }
    }
}
