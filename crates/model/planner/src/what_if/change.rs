//! Parsing of a change, as people write it.

use diskwright_base::RaidLevel;
use diskwright_base::byte_size::parse_memory_size;

/// A change to a machine or its load.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Additional memory, bytes.
    Memory(f64),
    /// Swap on a separate disk.
    MoveSwap,
    /// Another level, from the one that is named.
    Level(Option<RaidLevel>, RaidLevel),
    /// Additional controllers.
    Controller(u32),
    /// Additional disks; negative for fewer.
    Disks(i32),
    /// Factor of the load.
    Load(f64),
    /// A cloud volume with another limit.
    Volume {
        /// `gp3`, `aws-gp3`.
        volume: String,
        /// Operations per second.
        iops: Option<f64>,
        /// Bytes per second, in its unit.
        rate: Option<f64>,
    },
}

const EXPECTED_FORMS: &str = "write 'memory +16GB', 'move swap to its own disk', 'raid5 to raid10', 'controller +1', \
                     'disks +4', 'load +50%' or 'gp3 iops 6000'";

/// Parses a change.
///
/// # Errors
/// A description of the accepted forms.
pub fn parse_change(text: &str) -> Result<Change, String> {
    let lower = text.trim().to_lowercase();
    let words: Vec<&str> = lower.split_whitespace().collect();
    let found = match words[..] {
        ["memory", more] => parse_memory(more),
        ["move", "swap", ..] | ["swap", "to", "its", "own", "disk"] => Some(Change::MoveSwap),
        ["controller" | "controllers", more] => parse_added(more).map(Change::Controller),
        ["disk" | "disks" | "drives", more] => parse_signed(more).map(Change::Disks),
        ["load", more] => parse_load(more),
        [from, "to", to] => RaidLevel::parse(from).zip(RaidLevel::parse(to)).map(|(f, t)| Change::Level(Some(f), t)),
        ["to", to] => RaidLevel::parse(to).map(|to| Change::Level(None, to)),
        [volume, "iops", count] => {
            parse_positive(count).map(|n| Change::Volume { volume: volume.into(), iops: Some(n), rate: None })
        }
        [volume, "rate", rate] => {
            parse_positive(rate).map(|n| Change::Volume { volume: volume.into(), iops: None, rate: Some(n) })
        }
        _ => None,
    };
    found.ok_or_else(|| EXPECTED_FORMS.to_owned())
}

fn parse_memory(more: &str) -> Option<Change> {
    let bytes = parse_memory_size(more.strip_prefix('+')?).ok().filter(|bytes| *bytes > 0)?;
    Some(Change::Memory(bytes as f64))
}

fn parse_added(more: &str) -> Option<u32> {
    more.strip_prefix('+')?.parse().ok().filter(|n| (1..=64).contains(n))
}

fn parse_signed(more: &str) -> Option<i32> {
    let count: i32 = more.parse().ok()?;
    (more.starts_with(['+', '-']) && count != 0 && count.abs() <= 1000).then_some(count)
}

fn parse_load(more: &str) -> Option<Change> {
    let percent: f64 = more.strip_suffix('%')?.parse().ok()?;
    let is_signed = more.starts_with(['+', '-']);
    (is_signed && percent > -100.0 && percent <= 10_000.0).then_some(Change::Load(1.0 + percent / 100.0))
}

fn parse_positive(text: &str) -> Option<f64> {
    text.parse().ok().filter(|n| *n > 0.0 && *n <= 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_changes() {
        let right = [
            ("memory +16GB", Change::Memory(parse_memory_size("16GB").unwrap() as f64)),
            ("move swap to its own disk", Change::MoveSwap),
            ("RAID5 to RAID10", Change::Level(Some(RaidLevel::Raid5), RaidLevel::Raid10)),
            ("controller +1", Change::Controller(1)),
            ("disks +4", Change::Disks(4)),
            ("disks -1", Change::Disks(-1)),
            ("load +50%", Change::Load(1.5)),
            ("load -25%", Change::Load(0.75)),
            ("gp3 iops 6000", Change::Volume { volume: "gp3".into(), iops: Some(6000.0), rate: None }),
        ];
        for (text, change) in right {
            assert_eq!(parse_change(text), Ok(change), "{text}");
        }
        let wrong = ["", "memory", "memory 16GB", "memory +0", "load 50", "load +NaN%", "load -100%", "raid5 to raid7"];
        for text in wrong.into_iter().chain(["disks +0", "disks 4", "gp3 iops -1", "controller +0", "coffee +1"]) {
            assert!(parse_change(text).is_err(), "{text}");
        }
    }
}
