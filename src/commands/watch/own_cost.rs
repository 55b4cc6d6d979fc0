//! What this program takes itself, as the kernel counts it.

use std::fs;

use diskwright_counters::live::{Clock, SystemClock};
use diskwright_dashboard::screen::OwnCost;

/// How long a share of the processor is measured over.
const OVER_NS: u64 = 5_000_000_000;

/// This process' use of the processor since the last look.
#[derive(Default)]
pub struct OwnMeter {
    last: Option<(u64, f64)>,
    cost: OwnCost,
}

impl OwnMeter {
    /// The cost over the last seconds.
    pub fn read(&mut self) -> OwnCost {
        let now = SystemClock.read().running_ns;
        let is_due = self.last.is_none_or(|(last_ns, _)| now.saturating_sub(last_ns) >= OVER_NS);
        if !is_due {
            return self.cost;
        }
        let Some(used_s) = processor_s() else { return self.cost };
        if let Some((last_ns, before_s)) = self.last {
            self.cost.processor = Some((used_s - before_s) / (now.saturating_sub(last_ns) as f64 * 1e-9));
        }
        self.cost.resident_bytes = resident_bytes();
        self.last = Some((now, used_s));
        self.cost
    }
}

/// Processor seconds of all threads.
fn processor_s() -> Option<f64> {
    // nanoseconds on the processor; one line a thread
    let of_thread = |entry: std::io::Result<fs::DirEntry>| {
        let text = fs::read_to_string(entry.ok()?.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<f64>().ok()
    };
    Some(fs::read_dir("/proc/self/task").ok()?.filter_map(of_thread).sum::<f64>() * 1e-9)
}

/// Resident memory.
fn resident_bytes() -> Option<f64> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: f64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as f64)
}
