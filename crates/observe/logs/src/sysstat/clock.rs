//! Conversion of a log's times to UTC, with the warnings about them.

use diskwright_base::Note;

use super::time::zone_offset_s;
use crate::LogOptions;
use crate::TimeBasis;
use crate::batch::FrameBatch;

/// Local time of central North America less UTC in winter, seconds.
const CENTRAL_STANDARD_S: i64 = -6 * 3600;

/// What stands beside a time about its zone.
#[derive(Clone, Debug, PartialEq)]
pub enum ZoneHint {
    /// No zone is given.
    Missing,
    /// Seconds east of UTC.
    Offset(i64),
    /// Short name of a zone, which several zones may share.
    Name(String),
}

impl ZoneHint {
    /// Seconds east of UTC, if what stands there means one zone.
    pub fn offset_s(&self) -> Option<i64> {
        match self {
            ZoneHint::Offset(offset_s) => Some(*offset_s),
            ZoneHint::Name(name) => zone_offset_s(name),
            ZoneHint::Missing => None,
        }
    }
}

/// Resolves the zone, and warns once about a missing one.
pub struct SysstatClock {
    user_offset_s: Option<i64>,
    /// Set once `CDT` was read: `CST` is then the same zone, and not China's.
    is_central: bool,
    has_warned: bool,
}

impl SysstatClock {
    /// Makes a clock with the offset that the user gave.
    pub fn new(options: &LogOptions) -> SysstatClock {
        SysstatClock { user_offset_s: options.utc_offset_s.map(i64::from), is_central: false, has_warned: false }
    }

    fn named_offset_s(&mut self, name: &str) -> Option<i64> {
        self.is_central |= name == "CDT";
        zone_offset_s(name).or_else(|| (self.is_central && name == "CST").then_some(CENTRAL_STANDARD_S))
    }

    /// Returns true if a time is converted with the same offset in both halves of the year: a jump by an hour may
    /// then be a change of the clocks.
    pub fn is_one_zone(&self, hint: &ZoneHint) -> bool {
        match hint {
            ZoneHint::Missing => true,
            ZoneHint::Offset(_) => false,
            ZoneHint::Name(name) => self.user_offset_s.is_some() || zone_offset_s(name).is_none() && !self.is_central,
        }
    }

    /// Converts a local time, in seconds, to nanoseconds of UTC. An offset beside the time is trusted; the user's
    /// offset overrides the name of a zone.
    pub fn utc_ns(&mut self, local_s: i64, hint: &ZoneHint, batch: &mut FrameBatch<'_>) -> i64 {
        let offset_s = match hint {
            ZoneHint::Offset(offset) => Some(*offset),
            ZoneHint::Name(name) => self.user_offset_s.or_else(|| self.named_offset_s(name)),
            ZoneHint::Missing => self.user_offset_s,
        };
        match offset_s {
            None => batch.note_time_basis(TimeBasis::NoZone),
            // an offset of 0 may be that of a time in UTC on a machine in any zone
            Some(offset) if *hint != ZoneHint::Missing && *hint != ZoneHint::Offset(0) => batch.set_utc_offset(offset),
            Some(_) => {}
        }
        let utc = local_s.saturating_sub(offset_s.unwrap_or(0)).saturating_mul(1_000_000_000);
        if offset_s.is_none() && !self.has_warned {
            self.has_warned = true;
            let zone = match hint {
                ZoneHint::Name(name) if !name.is_empty() => format!("the zone `{name}` could be several"),
                _ => "the log names no time zone".to_owned(),
            };
            let text = format!(
                "{zone}: its times are taken as UTC (--utc-offset sets another offset); times of day may \
                 be shifted, but durations are right"
            );
            batch.push_note(Note::new(utc, Note::WARNING, text));
        }
        utc
    }
}
