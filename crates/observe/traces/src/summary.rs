//! Summary of a trace.

use std::collections::HashMap;

pub use diskwright_logs::Skip;

/// Summary of a trace that was read: its files, devices and counts.
#[derive(Clone, Debug, Default)]
pub struct TraceSummary {
    /// Id of the format.
    pub format: &'static str,
    /// The files that were read.
    pub files: Vec<String>,
    /// Number of requests returned.
    pub requests: u64,
    /// Requests without a completion in a trace that has completions: it was lost, or the request was in flight at the
    /// end of the trace.
    pub unfinished: u64,
    /// Requests whose arrival was not traced: they count from their issue to the device, and have no queue and service
    /// times.
    pub without_arrival: u64,
    /// Requests that stand in the trace behind later ones, too far for sorting to correct.
    pub out_of_order: u64,
    /// Requests that devices only passed on to other devices. They count only at the last device, unless every layer
    /// was requested.
    pub passed_on: Vec<PassedOn>,
    /// Assumption about something that the trace does not specify, as a sentence.
    pub assumed: Option<String>,
    /// Skipped parts, with the reasons.
    pub skipped: Vec<Skip>,
    /// Names of the devices; [`diskwright_base::Request::device`] is an index into this list.
    pub devices: Vec<String>,
    /// True if times are nanoseconds since 1970 UTC, false if they count
    /// from the start of the trace.
    pub wall_clock: bool,
    /// First arrival, nanoseconds.
    pub from_ns: Option<i64>,
    /// Last arrival or completion, nanoseconds.
    pub to_ns: Option<i64>,
}

/// Number of requests that one device passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassedOn {
    /// The device's name.
    pub device: String,
    /// Number of its requests that were passed on.
    pub requests: u64,
}

/// Numbers and names of devices.
#[derive(Default)]
pub(crate) struct DeviceTable {
    names: Vec<String>,
    numbers: HashMap<Vec<u8>, u16>,
    /// Key and number of the last device that was looked up.
    last: (Vec<u8>, u16),
}

impl DeviceTable {
    /// Reason for skipping a request if there are more devices than numbers.
    pub(crate) const TOO_MANY: &str = "more than 65,535 devices";

    /// Returns the number of a device, and assigns one to a new device; `None` if all numbers are used. `key`
    /// identifies the device, and `name` is its name for users.
    pub(crate) fn number_for(&mut self, key: &[u8], name: impl FnOnce() -> String) -> Option<u16> {
        if !self.names.is_empty() && self.last.0 == key {
            return Some(self.last.1);
        }
        let number = match self.numbers.get(key) {
            Some(&number) => number,
            None => {
                let number = u16::try_from(self.names.len()).ok().filter(|n| *n < u16::MAX)?;
                self.names.push(name());
                self.numbers.insert(key.to_vec(), number);
                number
            }
        };
        self.last.0.clear();
        self.last.0.extend_from_slice(key);
        self.last.1 = number;
        Some(number)
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_numbered_once_up_to_a_limit() {
        let mut devices = DeviceTable::default();
        for key in 0..70_000u32 {
            let number = devices.number_for(&key.to_le_bytes(), || format!("d{key}"));
            assert_eq!(number.is_some(), key < 65_535, "{key}");
        }
        assert_eq!(devices.number_for(&3u32.to_le_bytes(), || unreachable!()), Some(3));
        assert_eq!(devices.names().len(), 65_535);
        assert_eq!(devices.names()[3], "d3");
    }
}
