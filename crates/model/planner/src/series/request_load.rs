//! A request trace as a load: the counts that a log would have, tick by tick.

use diskwright_base::units::format_count;
use diskwright_base::{Operation, Request};

use super::{FrontLoad, FrontSums, LoadSeries, LoadTick};

/// Initial length of a tick, ns: a tenth of a second.
const TICK_NS: i64 = 100_000_000;
/// Length of a trace from which ten ticks are merged into one of a second, as in a recorder.
const ONE_SECOND_TICKS_FROM_NS: i64 = 600_000_000_000;
/// Maximum number of ticks; beyond it, pairs are merged.
const MAX_TICKS: usize = 4 << 20;

/// Collects requests in the order of their arrival.
#[derive(Default)]
pub struct RequestLoad {
    start_ns: Option<i64>,
    end_ns: i64,
    doublings: u32,
    /// Reads, writes, bytes of each, time in flight.
    ticks: Vec<[f64; 5]>,
    incomplete: u64,
    early: u64,
}

impl RequestLoad {
    /// Adds a request; operations without data are left out.
    pub fn push(&mut self, request: &Request) {
        if !request.operation.moves_data() {
            return;
        }
        let start = *self.start_ns.get_or_insert(request.arrival_ns);
        let since = request.arrival_ns.saturating_sub(start);
        if since < 0 {
            self.early += 1;
        }
        self.end_ns = self.end_ns.max(request.arrival_ns);
        let mut index = (since.max(0) / (TICK_NS << self.doublings)) as usize;
        while index >= MAX_TICKS {
            self.ticks = merge_ticks(&self.ticks, 2);
            self.doublings += 1;
            index /= 2;
        }
        if self.ticks.len() <= index {
            self.ticks.resize(index + 1, [0.0; 5]);
        }
        assert!(self.ticks.len() <= MAX_TICKS, "{} ticks of requests", self.ticks.len());
        let tick = &mut self.ticks[index];
        let direction = usize::from(request.operation == Operation::Write);
        tick[direction] += 1.0;
        tick[2 + direction] += f64::from(request.length_bytes);
        if request.completion_ns == Request::UNKNOWN_NS {
            self.incomplete += 1;
        } else {
            tick[4] += request.completion_ns.saturating_sub(request.arrival_ns).max(0) as f64 * 1e-9;
        }
    }

    /// Returns the load; `name` is its device's name.
    pub fn into_series(self, name: &str) -> LoadSeries {
        let mut series = LoadSeries::default();
        let Some(start) = self.start_ns else { return series };
        let (mut ticks, mut length_ns) = (self.ticks, TICK_NS << self.doublings);
        if self.end_ns - start >= ONE_SECOND_TICKS_FROM_NS && length_ns < 1_000_000_000 {
            let ratio = (1_000_000_000 / length_ns) as usize;
            ticks = merge_ticks(&ticks, ratio);
            length_ns *= ratio as i64;
        }
        let seconds = length_ns as f64 * 1e-9;
        let mut front =
            FrontLoad { name: name.to_owned(), members: 1, counts_all_disk_requests: true, ..FrontLoad::default() };
        let is_queue_known = self.incomplete == 0;
        for (index, [reads, writes, read_bytes, write_bytes, in_flight]) in ticks.into_iter().enumerate() {
            let queue_s = if is_queue_known { in_flight } else { f64::NAN };
            let bytes = FrontSums { read_bytes, write_bytes, ..FrontSums::default() };
            let sums = FrontSums { seconds, reads, writes, queue_s, ..bytes };
            front.sums.add_sums(&sums);
            front.rates.record_many(((reads + writes) / seconds * 100.0) as u64, (seconds * 1e3) as u64);
            if is_queue_known && reads + writes > 0.0 {
                front.curve.add_tick((reads + writes) / seconds, &sums);
            }
            series.ticks.push(LoadTick {
                time_ns: start.saturating_add((index as i64 + 1) * length_ns),
                seconds: seconds as f32,
                reads: (reads / seconds) as f32,
                writes: (writes / seconds) as f32,
                read_bytes: (read_bytes / seconds) as f32,
                write_bytes: (write_bytes / seconds) as f32,
                queue: (queue_s / seconds) as f32,
            });
        }
        series.fronts.push(front);
        if !is_queue_known {
            let incomplete = format_count(self.incomplete, "request has", "requests have");
            series.notes.push(format!("{incomplete} no completion, so their queue is unknown"));
        }
        if self.early > 0 {
            series.notes.push(format_count(self.early, "request", "requests") + " arrived before the first");
        }
        series
    }
}

/// Merges each `ratio` ticks into one.
fn merge_ticks(ticks: &[[f64; 5]], ratio: usize) -> Vec<[f64; 5]> {
    let sum = |part: &[[f64; 5]]| part.iter().fold([0.0; 5], |sum, tick| std::array::from_fn(|i| sum[i] + tick[i]));
    ticks.chunks(ratio).map(sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::{MeasureOptions, demand_from_series};

    #[test]
    fn requests_are_counted_in_their_tick() {
        let mut load = RequestLoad::default();
        for number in 0..2000_i64 {
            let arrival_ns = number * 10_000_000;
            let operation = if number % 4 == 0 { Operation::Write } else { Operation::Read };
            load.push(&Request {
                arrival_ns,
                issued_ns: arrival_ns,
                completion_ns: arrival_ns + 5_000_000,
                offset_bytes: 0,
                length_bytes: 4096,
                device: 0,
                operation,
            });
        }
        let series = load.into_series("trace");
        assert_eq!(series.ticks.len(), 200);
        let demand = demand_from_series(&series, &MeasureOptions::default()).expect("a load").demand;
        // 100 per second, a quarter of them writes; each in flight for half of its 10 ms
        assert!((demand.requests_per_s() - 100.0).abs() < 1e-3 && (demand.read_share() - 0.75).abs() < 0.05);
        assert!((demand.queue.expect("completions are known") - 0.5).abs() < 1e-3);
        assert_eq!((demand.read_size_bytes, demand.capacity_bytes), (4096.0, None));
    }
}
