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

/// Processor seconds of this process, including threads that have ended, and of the process that reads for it.
fn processor_s() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let own_s = time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9;
    own_s + child_processes().filter_map(child_processor_s).sum::<f64>()
}

/// Processor time of another process, seconds.
fn child_processor_s(pid: u32) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
    let main_thread_ns: f64 = text.split_whitespace().next()?.parse().ok()?;
    let stat = diskwright_counters::live::sources::processes::parse_stat(&fs::read(format!("/proc/{pid}/stat")).ok()?)?;
    // the first thread alone is known to the nanosecond
    let all_s = (stat.user_ticks + stat.system_ticks) as f64 * 0.01;
    Some(all_s.max(main_thread_ns * 1e-9))
}

/// Ids of the processes that this one has started and that run.
fn child_processes() -> impl Iterator<Item = u32> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let ids: Vec<u32> =
        lists.flat_map(|list| list.split_whitespace().flat_map(str::parse).collect::<Vec<_>>()).collect();
    ids.into_iter()
}

/// Resident memory of both processes.
fn resident_bytes() -> Option<f64> {
    let own = resident_pages("self")?;
    let pages = own + child_processes().filter_map(|pid| resident_pages(&pid.to_string())).sum::<f64>();
    Some(pages * rustix::param::page_size() as f64)
}

fn resident_pages(process: &str) -> Option<f64> {
    fs::read_to_string(format!("/proc/{process}/statm")).ok()?.split_whitespace().nth(1)?.parse().ok()
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
