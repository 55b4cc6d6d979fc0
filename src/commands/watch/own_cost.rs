//! Resources that this program uses, as the kernel counts them.

use std::fs;

use diskwright_counters::live::{Clock, SystemClock};
use diskwright_dashboard::screen::OwnCost;
use rustix::time::{ClockId, clock_gettime};

/// Interval over which a share of the processor is measured.
const MIN_WINDOW_NS: u64 = 5_000_000_000;

/// This process's use of the processor since the last measurement.
#[derive(Default)]
pub struct OwnCostMeter {
    last: Option<(u64, f64)>,
    cost: OwnCost,
}

impl OwnCostMeter {
    /// Returns the cost over the last seconds.
    pub fn measure_cost(&mut self) -> OwnCost {
        let now = SystemClock.read_clocks().running_ns;
        let is_due = self.last.is_none_or(|(last_ns, _)| now.saturating_sub(last_ns) >= MIN_WINDOW_NS);
        if !is_due {
            return self.cost;
        }
        let used_s = processor_s();
        if let Some((last_ns, before_s)) = self.last {
            self.cost.processor = Some((used_s - before_s) / (now.saturating_sub(last_ns) as f64 * 1e-9));
        }
        self.cost.resident_bytes = resident_bytes();
        self.last = Some((now, used_s));
        self.cost
    }
}

/// Processor seconds of this process, including threads that have ended.
fn processor_s() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Resident memory.
fn resident_bytes() -> Option<f64> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: f64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_ended_threads_still_counts() {
        let before_s = processor_s();
        let busy = || {
            while clock_gettime(ClockId::ThreadCPUTime).tv_nsec < 50_000_000 {
                std::hint::spin_loop();
            }
        };
        std::thread::spawn(busy).join().unwrap();
        assert!(processor_s() - before_s >= 0.05);
    }
}
