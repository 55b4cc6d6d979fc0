//! From the times of a log to UTC, and what must be said about them.

use diskwright_base::Note;

use super::time::zone;
use crate::LogOptions;
use crate::TimeBasis;
use crate::batch::FrameBatch;

/// Local time of the middle of North America less UTC in winter, seconds.
const CENTRAL: i64 = -6 * 3600;

/// What a time says of its zone.
#[derive(Clone, Debug, PartialEq)]
pub enum ZoneHint {
    /// Nothing.
    Nothing,
    /// It is so many seconds east of UTC.
    Offset(i64),
    /// A zone's short name, which may be of several zones.
    Name(String),
}

/// Settles the zone once and says so once.
pub struct SysstatClock {
    option: Option<i64>,
    /// `CDT` was there: `CST` is of the same zone, and not China's.
    is_central: bool,
    has_warned: bool,
}

impl SysstatClock {
    /// With what the user knows.
    pub fn new(options: &LogOptions) -> SysstatClock {
        SysstatClock { option: options.utc_offset_s.map(i64::from), is_central: false, has_warned: false }
    }

    fn of_name(&mut self, name: &str) -> Option<i64> {
        self.is_central |= name == "CDT";
        zone(name).or_else(|| (self.is_central && name == "CST").then_some(CENTRAL))
    }

    /// True where a time is placed as those in the other half of the year are: an hour's jump may be a change of it.
    pub fn is_one_zone(&self, said: &ZoneHint) -> bool {
        match said {
            ZoneHint::Nothing => true,
            ZoneHint::Offset(_) => false,
            ZoneHint::Name(name) => self.option.is_some() || zone(name).is_none() && !self.is_central,
        }
    }

    /// A local time, in seconds, as nanoseconds of UTC. An offset that stands
    /// beside the time is believed; the user's wins over a zone's name.
    pub fn utc_ns(&mut self, local_s: i64, said: &ZoneHint, batch: &mut FrameBatch<'_>) -> i64 {
        let known = match said {
            ZoneHint::Offset(offset) => Some(*offset),
            ZoneHint::Name(name) => self.option.or_else(|| self.of_name(name)),
            ZoneHint::Nothing => self.option,
        };
        match known {
            None => batch.times_are(TimeBasis::NoZone),
            // an offset of 0 may be that of a time in UTC on a machine in any zone
            Some(offset) if *said != ZoneHint::Nothing && *said != ZoneHint::Offset(0) => batch.zone_is(offset),
            Some(_) => {}
        }
        let utc = local_s.saturating_sub(known.unwrap_or(0)).saturating_mul(1_000_000_000);
        if known.is_none() && !self.has_warned {
            self.has_warned = true;
            let zone = match said {
                ZoneHint::Name(name) if !name.is_empty() => format!("the zone `{name}` could be several"),
                _ => "the log names no time zone".to_owned(),
            };
            let text = format!(
                "{zone}: its times are taken as UTC (--utc-offset sets another offset); times of day may \
                 be shifted, but durations are right"
            );
            batch.note(Note::new(utc, Note::WARNING, text));
        }
        utc
    }
}
