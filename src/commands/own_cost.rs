//! Resources that this program uses, as the kernel counts them.

use std::fs;

use diskwright_base::RecordingCost;
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
        let now_s = processor_s();
        if let Some((last_ns, before_s)) = self.last {
            self.cost.processor = Some((now_s - before_s) / (now.saturating_sub(last_ns) as f64 * 1e-9));
        }
        self.cost.resident_bytes = resident_bytes();
        self.last = Some((now, now_s));
        self.cost
    }
}

/// Time after which a recorder states its cost in the log.
const STATED_EVERY_NS: u64 = 3600 * 1_000_000_000;

/// What recording costs, from one statement to the next and since the start.
pub struct RecordingMeter {
    last_ns: u64,
    last_s: f64,
    last_ticks: u64,
    total: RecordingCost,
}

impl RecordingMeter {
    /// Starts to measure.
    pub fn start() -> RecordingMeter {
        let last_ns = SystemClock.read_clocks().running_ns;
        RecordingMeter { last_ns, last_s: processor_s(), last_ticks: 0, total: RecordingCost::default() }
    }

    /// Returns the cost since the last statement, if it is time for one; `ticks` are all that were recorded.
    pub fn take_due(&mut self, ticks: u64) -> Option<RecordingCost> {
        let is_due = SystemClock.read_clocks().running_ns.saturating_sub(self.last_ns) >= STATED_EVERY_NS;
        is_due.then(|| self.take_cost(ticks))
    }

    /// Returns the cost since the last statement.
    pub fn take_cost(&mut self, ticks: u64) -> RecordingCost {
        let (now_ns, now_s) = (SystemClock.read_clocks().running_ns, processor_s());
        let cost = RecordingCost {
            seconds: now_ns.saturating_sub(self.last_ns) as f64 * 1e-9,
            // the process that reads may have been replaced by another, with less
            processor_s: (now_s - self.last_s).max(0.0),
            resident_bytes: resident_bytes(),
            ticks: ticks.saturating_sub(self.last_ticks),
        };
        (self.last_ns, self.last_s, self.last_ticks) = (now_ns, now_s, ticks);
        self.total.add_cost(&cost);
        cost
    }

    /// All that was stated so far.
    pub fn total(&self) -> RecordingCost {
        self.total
    }
}

/// Processor seconds of this process, including threads that have ended, and of the process that reads for it.
fn processor_s() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let own_s = time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9;
    own_s + child_processes().into_iter().map(child_processor_s).sum::<f64>()
}

/// Processor time of the threads of another process that have not ended, seconds.
fn child_processor_s(pid: u32) -> f64 {
    let thread_ns = |account: String| account.split_whitespace().next()?.parse::<f64>().ok();
    read_thread_files(&pid.to_string(), "schedstat").into_iter().filter_map(thread_ns).sum::<f64>() * 1e-9
}

/// Ids of the running processes that this process has started.
fn child_processes() -> Vec<u32> {
    let lists = read_thread_files("self", "children");
    lists.iter().flat_map(|list| list.split_whitespace()).filter_map(|id| id.parse().ok()).collect()
}

/// Reads a file of each thread of a process.
fn read_thread_files(process: &str, name: &str) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    threads.filter_map(|thread| fs::read_to_string(thread.path().join(name)).ok()).collect()
}

/// Resident memory of both processes.
fn resident_bytes() -> Option<f64> {
    let own = resident_pages("self")?;
    let pages = own + child_processes().iter().filter_map(|pid| resident_pages(&pid.to_string())).sum::<f64>();
    Some(pages * rustix::param::page_size() as f64)
}

fn resident_pages(process: &str) -> Option<f64> {
    fs::read_to_string(format!("/proc/{process}/statm")).ok()?.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_of_a_recorder_add_up() {
        let mut meter = RecordingMeter::start();
        assert_eq!(meter.take_due(1), None, "an hour has not passed");
        let costs = [meter.take_cost(3), meter.take_cost(8)];
        assert_eq!(costs.map(|cost| cost.ticks), [3, 5]);
        let total = meter.total();
        assert_eq!((total.ticks, total.processor_s), (8, costs[0].processor_s + costs[1].processor_s));
        assert!(total.resident_bytes.is_some_and(|bytes| bytes > 0.0) && total.seconds > 0.0, "{total:?}");
    }

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
