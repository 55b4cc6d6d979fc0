//! The classes of load, as `classes.toml` has them.

use diskwright_base::words::nearest;
use diskwright_base::{Problems, toml_reader};
use serde::{Deserialize, Serialize};

use crate::StressError;

/// A class of load.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StressClass {
    /// What people type.
    pub id: String,
    /// In a few words.
    pub title: String,
    /// What it does.
    pub loads: String,
    /// What a level of 100 % is.
    pub full: String,
    /// Unit of that: `processors`, `per_s`, `bytes_per_s` or `fraction`.
    pub unit: String,
    /// The verdicts that are right; more than one where the parts of a machine that it fills are more than one.
    pub expect: Vec<String>,
    /// Verdicts that are right too where the processors are full: they saturated before what is loaded did.
    #[serde(default)]
    pub or_if_processors_full: Vec<String>,
    /// The finding that must be there.
    #[serde(default)]
    pub rule: Option<String>,
    /// What some program must be reported to wait for.
    #[serde(default)]
    pub waits: Option<String>,
    /// What `why` should say, in words.
    pub says: String,
    /// The level at which it is tried, per cent.
    #[serde(default = "hundred")]
    pub level: u32,
    /// The highest level that makes sense, per cent.
    #[serde(default = "hundred")]
    pub most_level: u32,
    /// How long it runs before its most is measured, milliseconds.
    #[serde(default = "half_a_second")]
    pub warm_up_ms: u64,
    /// Processors that it takes at least.
    #[serde(default)]
    pub processors: usize,
    /// Memory, MiB.
    #[serde(default)]
    pub memory_mib: u64,
    /// Limit of its cgroup's memory, MiB; 0 where it has none.
    #[serde(default)]
    pub limit_mib: u64,
    /// Room for files, MiB.
    #[serde(default)]
    pub file_mib: u64,
    /// Swap space, MiB.
    #[serde(default)]
    pub swap_mib: u64,
    /// Whether it takes io_uring.
    #[serde(default)]
    pub needs_ring: bool,
}

fn hundred() -> u32 {
    100
}

fn half_a_second() -> u64 {
    500
}

/// The file's root.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClassesFile {
    class: Vec<StressClass>,
}

/// All classes, in the order in which they are tried.
///
/// # Errors
/// Mistakes in the table, by line.
pub fn classes() -> Result<Vec<StressClass>, Problems> {
    toml_reader::read::<ClassesFile>("classes.toml", include_str!("classes.toml")).map(|file| file.class)
}

/// The class of a name.
///
/// # Errors
/// Names the nearest, and all.
pub fn find(name: &str) -> Result<StressClass, StressError> {
    let all = classes().map_err(|problems| StressError::Usage(problems.to_string()))?;
    if let Some(class) = all.iter().find(|class| class.id == name) {
        return Ok(class.clone());
    }
    let ids: Vec<&str> = all.iter().map(|class| class.id.as_str()).collect();
    let named: Vec<&str> = all.iter().filter(|class| class.expects(name)).map(|class| class.id.as_str()).collect();
    let near = match nearest(name, ids.iter().copied()) {
        Some(near) => format!(" (did you mean `{near}`?)"),
        // who wants to see a verdict types its name
        None if !named.is_empty() => format!(" (`why` should say {name} for {})", named.join(", ")),
        None => String::new(),
    };
    Err(StressError::Usage(format!("there is no class `{name}`{near}; classes: {}", ids.join(", "))))
}

impl StressClass {
    /// Room that its files and its swap space take, bytes.
    #[must_use]
    pub fn room(&self) -> u64 {
        (self.file_mib + self.swap_mib) << 20
    }

    /// Whether a verdict is right whatever the processors do.
    #[must_use]
    pub fn expects(&self, verdict: &str) -> bool {
        self.expect.iter().any(|expected| expected == verdict)
    }

    /// A level as a share of 1.
    ///
    /// # Errors
    /// Levels that this class cannot have.
    pub fn share(&self, level: u32) -> Result<f64, StressError> {
        if level == 0 || level > 100 {
            return Err(StressError::Usage(format!("level {level} %: expected 1 to 100 %")));
        }
        if level > self.most_level {
            let (most, id) = (self.most_level, &self.id);
            return Err(StressError::Usage(format!("level {level} %: {id} allows at most {most} %")));
        }
        Ok(f64::from(level) / 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_holds_together() {
        let all = classes().unwrap();
        assert!(all.len() >= 11);
        for class in &all {
            assert!(!class.expect.is_empty() && class.level <= class.most_level && class.level > 0, "{}", class.id);
            assert!(["processors", "per_s", "bytes_per_s", "fraction"].contains(&class.unit.as_str()), "{}", class.id);
            assert!((100..=60_000).contains(&class.warm_up_ms), "{}", class.id);
            assert!(class.swap_mib == 0 || class.limit_mib > 0, "{}: swap is for what has a limit", class.id);
        }
        let mut ids: Vec<_> = all.iter().map(|class| &class.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all.len());
    }

    /// A maximum that moves needs room below it; a verdict that needs all of a part needs 100 %.
    #[test]
    fn levels_leave_room_where_the_maximum_moves() {
        let level = |id: &str| find(id).unwrap().level;
        for (id, most) in [("paging", 60), ("memory-limit", 80), ("file-cache", 80), ("disk-random", 80)] {
            assert!(level(id) <= most, "{id}");
        }
        assert!(level("network") < 100);
        for id in ["processor", "one-thread", "memory-bandwidth", "disk-sequential", "completions"] {
            assert_eq!(level(id), 100, "{id}");
        }
    }

    #[test]
    fn a_mistyped_class_is_told_with_the_nearest() {
        let error = find("procesor").unwrap_err().to_string();
        assert!(error.contains("did you mean `processor`?") && error.contains("paging"), "{error}");
        let error = find("cpu").unwrap_err().to_string();
        assert!(error.contains("no class `cpu` (`why` should say cpu for processor, one-thread, "), "{error}");
        assert_eq!(find("paging").unwrap().id, "paging");
    }

    #[test]
    fn levels_are_shares_of_what_is_possible() {
        let class = find("memory-under").unwrap();
        assert_eq!(class.share(50).ok(), Some(0.5));
        for wrong in [0, 96, 101, u32::MAX] {
            assert!(class.share(wrong).is_err(), "{wrong}");
        }
    }
}
