//! What recording itself costs the machine that is measured. NT leaves Diskperf off to avoid such a cost (NT Resource
//! Kit, Diskperf: Enabling the Disk Counters).

use serde::{Deserialize, Serialize};

/// Shortest time whose cost is told, s: the start of a program is no part of its running cost.
const MIN_TOLD_S: f64 = 10.0;
/// Share of one processor from which the cost is told: that of Diskperf was less than 1 % (NT Resource Kit, Diskperf:
/// Enabling the Disk Counters).
const MIN_TOLD_SHARE: f64 = 0.01;

/// Cost of recording over a stretch of time, with that of the process that reads for the recorder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordingCost {
    /// Length, s.
    pub seconds: f64,
    /// Processor time, s.
    pub processor_s: f64,
    /// Resident memory, bytes; the most of it.
    pub resident_bytes: Option<f64>,
    /// Ticks that were recorded.
    pub ticks: u64,
}

impl RecordingCost {
    /// Share of one processor; `None` of no time.
    pub fn processor_share(&self) -> Option<f64> {
        Some(self.processor_s / self.seconds).filter(|share| share.is_finite())
    }

    /// Adds the cost of another stretch.
    pub fn add_cost(&mut self, other: &RecordingCost) {
        self.seconds += other.seconds;
        self.processor_s += other.processor_s;
        self.ticks = self.ticks.saturating_add(other.ticks);
        self.resident_bytes = match (self.resident_bytes, other.resident_bytes) {
            (Some(own), Some(bytes)) => Some(own.max(bytes)),
            (own, bytes) => own.or(bytes),
        };
    }

    /// True if figures of the processors have to be read with this cost in mind.
    pub fn is_notable(&self) -> bool {
        self.seconds >= MIN_TOLD_S && self.processor_share().is_some_and(|share| share >= MIN_TOLD_SHARE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_cost_of_a_percent_of_a_processor_over_some_time_is_told() {
        let cost = |seconds: f64, processor_s: f64| RecordingCost { seconds, processor_s, ..RecordingCost::default() };
        assert!(cost(100.0, 1.0).is_notable() && !cost(100.0, 0.9).is_notable());
        assert!(!cost(1.0, 0.5).is_notable() && !cost(0.0, 0.0).is_notable());
        let mut sum = RecordingCost { resident_bytes: Some(5.0), ticks: 2, ..cost(10.0, 0.1) };
        sum.add_cost(&RecordingCost { resident_bytes: Some(4.0), ticks: 3, ..cost(10.0, 0.3) });
        assert_eq!((sum.ticks, sum.resident_bytes), (5, Some(5.0)));
        assert!(sum.processor_share().is_some_and(|share| (share - 0.02).abs() < 1e-9));
    }
}
