//! RAID levels: one entry each in `levels.toml` with requirements, capacity and redundancy, and the textbook cost of
//! reads and writes.

use std::fmt;
use std::sync::OnceLock;

use diskwright_base::toml_reader;
use serde::Deserialize;

use super::ArrayLayout;

/// A level of array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ArrayLevel {
    /// Members end to end.
    Linear,
    /// Striped, no redundancy.
    Raid0,
    /// Copies on every member.
    Raid1,
    /// Striped copies.
    Raid10,
    /// Copies of stripe sets.
    Raid01,
    /// Bytes over all members, parity on one.
    Raid3,
    /// Stripe units, parity on one member.
    Raid4,
    /// One rotating parity.
    Raid5,
    /// Two rotating parities.
    Raid6,
    /// Three rotating parities.
    Raid7,
}

/// Form of a level's redundancy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LevelForm {
    /// Members end to end.
    Linear,
    /// One or more copies of each stripe unit.
    Copies,
    /// Data and parity units in rows.
    Parity,
}

/// A number of copies: fixed, or one per member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "CopyCountText")]
pub enum CopyCount {
    /// A fixed number.
    Fixed(u16),
    /// One per member.
    All,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum CopyCountText {
    Number(u16),
    Word(CopyCountWord),
}

#[derive(Deserialize)]
enum CopyCountWord {
    #[serde(rename = "all")]
    All,
}

impl From<CopyCountText> for CopyCount {
    fn from(text: CopyCountText) -> CopyCount {
        match text {
            CopyCountText::Number(count) => CopyCount::Fixed(count),
            CopyCountText::Word(CopyCountWord::All) => CopyCount::All,
        }
    }
}

impl CopyCount {
    /// Returns the number of copies for this number of members.
    pub fn for_members(self, members: u16) -> u16 {
        match self {
            CopyCount::Fixed(count) => count,
            CopyCount::All => members,
        }
    }
}

/// Entry of the registry for a level.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LevelInfo {
    /// Name in data and on screen, such as `raid5`.
    pub id: String,
    /// Other accepted names.
    #[serde(rename = "also")]
    pub aliases: Vec<String>,
    /// Form of the level's redundancy.
    pub form: LevelForm,
    /// Smallest, default and largest number of copies, if it keeps copies.
    pub copies: Option<[CopyCount; 3]>,
    /// Parity units per row.
    #[serde(default)]
    pub parities: u16,
    /// True if all members work together on every request.
    #[serde(default)]
    pub synchronous: bool,
    /// Smallest number of members.
    #[serde(rename = "members_least")]
    pub min_members: u16,
    /// Usable capacity in members, as a formula to show.
    pub capacity: String,
    /// Failures that it survives, as text to show.
    pub survives: String,
    /// Possible layouts, the default first.
    pub layouts: Vec<ArrayLayout>,
    /// Example of the capacity: a number of members, and how many members' worth of data they hold.
    pub example: [u16; 2],
    /// Explanation to show.
    pub explain: String,
    /// Source of the entry.
    pub source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LevelFile {
    level: Vec<LevelInfo>,
}

static LEVELS: OnceLock<Vec<LevelInfo>> = OnceLock::new();

/// The registry, in the order of [`ArrayLevel::ALL`].
pub fn levels() -> &'static [LevelInfo] {
    LEVELS.get_or_init(|| toml_reader::read_built_in::<LevelFile>("levels.toml", include_str!("levels.toml")).level)
}

impl ArrayLevel {
    /// All levels, in the order of `levels.toml`.
    pub const ALL: [ArrayLevel; 10] = [
        ArrayLevel::Linear,
        ArrayLevel::Raid0,
        ArrayLevel::Raid1,
        ArrayLevel::Raid10,
        ArrayLevel::Raid01,
        ArrayLevel::Raid3,
        ArrayLevel::Raid4,
        ArrayLevel::Raid5,
        ArrayLevel::Raid6,
        ArrayLevel::Raid7,
    ];

    /// Entry of the registry.
    pub fn info(self) -> &'static LevelInfo {
        &levels()[self as usize]
    }

    /// Name, such as `raid5`.
    pub fn name(self) -> &'static str {
        &self.info().id
    }

    /// Parses a level as people write it: `raid5`, `5`, `RAID 0+1`, `triple-parity`.
    pub fn parse(text: &str) -> Option<ArrayLevel> {
        let plain = normalize_name(text);
        let bare = plain.strip_prefix("raid").unwrap_or(&plain).trim_start_matches('_');
        ArrayLevel::ALL.into_iter().find(|level| {
            let info = level.info();
            info.id == plain || info.aliases.iter().any(|name| name == bare)
        })
    }

    /// Member I/Os of one read that fits into a stripe unit: one, or all data members if they work together.
    pub fn read_factor(self, members: u16) -> f64 {
        let info = self.info();
        if info.synchronous { f64::from(members.saturating_sub(info.parities)) } else { 1.0 }
    }

    /// Member I/Os of one small write by read-modify-write, the factor of textbooks and NT Magazine 1998: 2 for a
    /// mirror, 4 for RAID 5, 6 for RAID 6; in general the C copies, or data and P parities read and written, 2 (1 + P).
    pub fn small_write_factor(self, members: u16) -> f64 {
        let info = self.info();
        if info.synchronous {
            return f64::from(members);
        }
        match (info.form, info.copies) {
            (LevelForm::Copies, Some([_, usual, _])) => f64::from(usual.for_members(members)),
            (LevelForm::Parity, _) => f64::from(2 * (1 + info.parities)),
            _ => 1.0,
        }
    }

    /// Blocks written to members per block of data in writes of whole rows: N / (N - P), or the copies.
    pub fn full_stripe_factor(self, members: u16) -> f64 {
        let info = self.info();
        match info.form {
            LevelForm::Parity => f64::from(members) / f64::from(members.saturating_sub(info.parities).max(1)),
            _ => self.small_write_factor(members),
        }
    }

    /// I/Os per second on each member under small `reads` and `writes` per second (NT Magazine 1998: reads plus the
    /// level's factor times writes, divided by the number of members).
    pub fn member_iops(self, members: u16, reads: f64, writes: f64) -> f64 {
        let total = self.read_factor(members) * reads + self.small_write_factor(members) * writes;
        total / f64::from(members.max(1))
    }
}

impl fmt::Display for ArrayLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Converts to lower case, with `_` for blanks and dashes.
pub(super) fn normalize_name(text: &str) -> String {
    text.trim().to_lowercase().replace([' ', '-'], "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registry_is_complete_and_in_order() {
        let ids: Vec<&str> = levels().iter().map(|l| l.id.as_str()).collect();
        let names = ["linear", "raid0", "raid1", "raid10", "raid01", "raid3", "raid4", "raid5", "raid6", "raid7"];
        assert_eq!(ids, names);
        for level in ArrayLevel::ALL {
            let info = level.info();
            assert_eq!(info.copies.is_some(), info.form == LevelForm::Copies, "{level}");
            assert_eq!(info.parities > 0, info.form == LevelForm::Parity, "{level}");
            assert_eq!(info.layouts.is_empty(), info.form == LevelForm::Linear, "{level}");
            assert!(info.min_members > info.parities, "{level}");
            assert!(!info.explain.is_empty() && !info.source.is_empty(), "{level}");
            assert!(info.copies.is_none_or(|c| !c.contains(&CopyCount::Fixed(0))), "{level}");
        }
    }

    #[test]
    fn parses_levels_as_people_write_them() {
        for level in ArrayLevel::ALL {
            assert_eq!(ArrayLevel::parse(level.name()), Some(level));
            for name in &level.info().aliases {
                assert_eq!(ArrayLevel::parse(name), Some(level), "{name}");
            }
        }
        let cases = [
            ("RAID 10", Some(ArrayLevel::Raid10)),
            ("RAID-0+1", Some(ArrayLevel::Raid01)),
            ("0/1", Some(ArrayLevel::Raid01)),
            ("raid1+0", Some(ArrayLevel::Raid10)),
            ("Stripe set", Some(ArrayLevel::Raid0)),
            ("RAID 7", Some(ArrayLevel::Raid7)),
            ("raid2", None),
            ("raid", None),
            ("", None),
        ];
        for (text, level) in cases {
            assert_eq!(ArrayLevel::parse(text), level, "{text}");
        }
    }

    #[test]
    fn write_factors_agree_with_textbooks() {
        let factor = |level: ArrayLevel| level.small_write_factor(8);
        assert_eq!(factor(ArrayLevel::Raid0), 1.0);
        assert_eq!(ArrayLevel::Raid1.small_write_factor(2), 2.0);
        assert_eq!(ArrayLevel::Raid1.small_write_factor(3), 3.0);
        assert_eq!(factor(ArrayLevel::Raid10), 2.0);
        assert_eq!(factor(ArrayLevel::Raid01), 2.0);
        assert_eq!(factor(ArrayLevel::Raid4), 4.0);
        assert_eq!(factor(ArrayLevel::Raid5), 4.0);
        assert_eq!(factor(ArrayLevel::Raid6), 6.0);
        assert_eq!(factor(ArrayLevel::Raid7), 8.0);
        assert_eq!(ArrayLevel::Raid5.full_stripe_factor(8), 8.0 / 7.0);
        assert_eq!(ArrayLevel::Raid6.full_stripe_factor(8), 8.0 / 6.0);
        assert_eq!(ArrayLevel::Raid3.read_factor(5), 4.0);
    }

    #[test]
    fn member_loads_agree_with_published_examples() {
        // W13: (126 + 4 x 73) / 3, printed 139
        assert_eq!(ArrayLevel::Raid5.member_iops(3, 126.0, 73.0).round(), 139.0);
        // W14: by the ten disks 61.5; print divides by 9: 68
        assert_eq!(ArrayLevel::Raid5.member_iops(10, 147.0, 117.0), 61.5);
        assert_eq!((ArrayLevel::Raid5.member_iops(10, 147.0, 117.0) * 10.0 / 9.0).round(), 68.0);
        // W17: (reads + 2 x writes) / disks
        assert_eq!(ArrayLevel::Raid1.member_iops(2, 100.0, 50.0), 100.0);
    }
}
