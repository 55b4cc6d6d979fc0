//! Description of an array, and its validation. Every error says what is expected.

use diskwright_base::units::format_count;
use thiserror::Error;

use super::geometry::{ArrayGeometry, BlockMap};
use super::{ArrayLayout, ArrayLevel, CopyCount, LevelForm};

/// Largest number of members of an array.
pub const MAX_MEMBERS: usize = 128;

/// Description of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayDescription {
    /// Level of the array.
    pub level: ArrayLevel,
    /// Size of each member, blocks. Except in a linear array, the smallest counts.
    pub members: Vec<u64>,
    /// Stripe unit, blocks; ignored by levels without one (linear, 1, 3).
    pub unit_blocks: u64,
    /// Layout of units; `None` means the level's default.
    pub layout: Option<ArrayLayout>,
    /// Copies of each unit; `None` means the level's default.
    pub copies: Option<u16>,
}

impl ArrayDescription {
    /// Describes an array of equal members, with the level's defaults for everything else.
    pub fn new(level: ArrayLevel, members: u16, member_blocks: u64, unit_blocks: u64) -> ArrayDescription {
        let members = vec![member_blocks; usize::from(members)];
        ArrayDescription { level, members, unit_blocks, layout: None, copies: None }
    }
}

/// Reason why an array is impossible.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ArrayError {
    /// Too few members for the level.
    #[error("{level} needs at least {}, but has {found}", format_count(*min, "member", "members"))]
    TooFewMembers {
        /// The level.
        level: ArrayLevel,
        /// Smallest number of members.
        min: u16,
        /// Number of members described.
        found: usize,
    },
    /// More members than are supported.
    #[error("an array has at most {MAX_MEMBERS} members, not {0}")]
    TooManyMembers(usize),
    /// A striped level without a stripe unit.
    #[error("{0} needs a stripe unit of at least one block")]
    NoUnit(ArrayLevel),
    /// A member that cannot hold one unit.
    #[error("the smallest member holds {member} blocks; it needs at least {needed} ({why})")]
    TooSmall {
        /// Blocks of the member.
        member: u64,
        /// Blocks that it needs.
        needed: u64,
        /// Purpose of these blocks.
        why: &'static str,
    },
    /// A stripe unit beyond what one I/O can carry.
    #[error("a stripe unit of {0} blocks is larger than a request can be (2147483647)")]
    UnitTooLarge(u64),
    /// More blocks than can be counted.
    #[error("the array would hold more blocks than can be counted in 63 bits")]
    TooLarge,
    /// A layout of other levels.
    #[error("{level} has no layout {layout}; it has {}", layout_names(level))]
    WrongLayout {
        /// The level.
        level: ArrayLevel,
        /// Layout described.
        layout: ArrayLayout,
    },
    /// A number of copies that the level does not support.
    #[error("{level} of {members} members keeps {min} to {max} copies, not {copies}")]
    WrongCopies {
        /// The level.
        level: ArrayLevel,
        /// Number of members.
        members: u16,
        /// Smallest number of copies.
        min: u16,
        /// Largest number of copies.
        max: u16,
        /// Copies described.
        copies: u16,
    },
    /// Stripe sets of unequal size.
    #[error("{level} with {copies} copies needs a multiple of {copies} members, but has {members}")]
    Uneven {
        /// The level.
        level: ArrayLevel,
        /// Number of copies, which is the number of stripe sets.
        copies: u16,
        /// Number of members.
        members: u16,
    },
}

fn layout_names(level: &ArrayLevel) -> String {
    let names: Vec<&str> = level.info().layouts.iter().map(|l| l.name()).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

impl ArrayGeometry {
    /// Builds the geometry of the described array.
    ///
    /// # Errors
    /// If such an array cannot exist.
    pub fn new(description: &ArrayDescription) -> Result<ArrayGeometry, ArrayError> {
        let ArrayDescription { level, members, unit_blocks, .. } = description;
        let (level, info) = (*level, level.info());
        if members.len() < usize::from(info.min_members) {
            return Err(ArrayError::TooFewMembers { level, min: info.min_members, found: members.len() });
        }
        if members.len() > MAX_MEMBERS {
            return Err(ArrayError::TooManyMembers(members.len()));
        }
        let total = members.iter().try_fold(0u64, |sum, m| sum.checked_add(*m)).filter(|t| *t < 1 << 63);
        let Some(_) = total else { return Err(ArrayError::TooLarge) };
        let n = members.len() as u16;
        let min_blocks = members.iter().copied().min().unwrap_or(0);
        if min_blocks == 0 {
            return Err(ArrayError::TooSmall { member: 0, needed: 1, why: "one block" });
        }
        let layout = match description.layout {
            Some(layout) if !info.layouts.contains(&layout) => return Err(ArrayError::WrongLayout { level, layout }),
            Some(layout) => Some(layout),
            None => info.layouts.first().copied(),
        };
        let unit = match level {
            // a member is a single unit
            ArrayLevel::Linear | ArrayLevel::Raid1 => min_blocks,
            ArrayLevel::Raid3 => 1,
            _ => *unit_blocks,
        };
        if unit == 0 {
            return Err(ArrayError::NoUnit(level));
        }
        if unit > u64::from(u32::MAX >> 1) && !matches!(level, ArrayLevel::Linear | ArrayLevel::Raid1) {
            return Err(ArrayError::UnitTooLarge(unit));
        }
        if min_blocks < unit {
            return Err(ArrayError::TooSmall { member: min_blocks, needed: unit, why: "one stripe unit" });
        }
        let rows = min_blocks / unit;
        let map = match (info.form, layout) {
            (LevelForm::Linear, _) | (_, None) => BlockMap::new_linear(members),
            (LevelForm::Copies, Some(layout)) => {
                let copies = check_copies(description, n)?;
                if layout == ArrayLayout::Split && !n.is_multiple_of(copies) {
                    return Err(ArrayError::Uneven { level, copies, members: n });
                }
                if matches!(layout, ArrayLayout::Far | ArrayLayout::Offset) && rows < u64::from(copies) {
                    let needed = unit.saturating_mul(u64::from(copies));
                    return Err(ArrayError::TooSmall {
                        member: min_blocks,
                        needed,
                        why: "a stripe unit for each copy",
                    });
                }
                BlockMap::new_copies(layout, n, copies, rows)
            }
            (LevelForm::Parity, Some(layout)) => BlockMap::new_parity(layout, n, info.parities),
        };
        Ok(ArrayGeometry::from_map(level, n, unit, rows, map))
    }
}

fn check_copies(description: &ArrayDescription, members: u16) -> Result<u16, ArrayError> {
    let level = description.level;
    let [min, usual, max] =
        level.info().copies.unwrap_or([CopyCount::Fixed(1); 3]).map(|count| count.for_members(members));
    match description.copies {
        None => Ok(usual),
        Some(copies) if (min..=max).contains(&copies) => Ok(copies),
        Some(copies) => Err(ArrayError::WrongCopies { level, members, min, max, copies }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_is_expected() {
        let plain = |level, members| ArrayDescription::new(level, members, 1000, 128);
        let cases: Vec<(ArrayDescription, &str)> = vec![
            (plain(ArrayLevel::Raid5, 2), "raid5 needs at least 3 members, but has 2"),
            (plain(ArrayLevel::Raid6, 3), "raid6 needs at least 4 members, but has 3"),
            (plain(ArrayLevel::Linear, 0), "linear needs at least 1 member, but has 0"),
            (plain(ArrayLevel::Raid0, 129), "an array has at most 128 members, not 129"),
            (
                ArrayDescription { unit_blocks: 0, ..plain(ArrayLevel::Raid0, 4) },
                "raid0 needs a stripe unit of at least one block",
            ),
            (
                ArrayDescription { unit_blocks: 1001, ..plain(ArrayLevel::Raid5, 4) },
                "the smallest member holds 1000 blocks; it needs at least 1001 (one stripe unit)",
            ),
            (
                ArrayDescription { unit_blocks: 1 << 31, ..plain(ArrayLevel::Raid0, 4) },
                "a stripe unit of 2147483648 blocks is larger than a request can be (2147483647)",
            ),
            (
                ArrayDescription { members: vec![5, 0, 5], ..plain(ArrayLevel::Linear, 3) },
                "the smallest member holds 0 blocks; it needs at least 1 (one block)",
            ),
            (
                ArrayDescription { members: vec![u64::MAX, 5], ..plain(ArrayLevel::Linear, 2) },
                "the array would hold more blocks than can be counted in 63 bits",
            ),
            (
                ArrayDescription { layout: Some(ArrayLayout::Near), ..plain(ArrayLevel::Raid4, 4) },
                "raid4 has no layout near; it has parity_last, parity_first",
            ),
            (
                ArrayDescription { layout: Some(ArrayLayout::Near), ..plain(ArrayLevel::Linear, 4) },
                "linear has no layout near; it has none",
            ),
            (
                ArrayDescription { copies: Some(5), ..plain(ArrayLevel::Raid10, 4) },
                "raid10 of 4 members keeps 2 to 4 copies, not 5",
            ),
            (
                ArrayDescription { copies: Some(2), ..plain(ArrayLevel::Raid0, 4) },
                "raid0 of 4 members keeps 1 to 1 copies, not 2",
            ),
            (plain(ArrayLevel::Raid01, 5), "raid01 with 2 copies needs a multiple of 2 members, but has 5"),
            (
                ArrayDescription { layout: Some(ArrayLayout::Far), unit_blocks: 900, ..plain(ArrayLevel::Raid10, 4) },
                "the smallest member holds 1000 blocks; it needs at least 1800 (a stripe unit for each copy)",
            ),
        ];
        for (description, message) in cases {
            let found = ArrayGeometry::new(&description).map(|_| ()).map_err(|e| e.to_string());
            assert_eq!(found, Err(message.to_owned()));
        }
    }
}
