//! Converts a trace to a log: the counters that the kernel would have had for the devices, second by second, and the
//! latency distributions of a recorder. So a trace can be reported, judged, compared and used for planning like any
//! log.
//!
//! A request counts in the second of its completion, as in the kernel, and its time in flight counts in the seconds in
//! which it passes. In a trace without completions, a request counts at its arrival, and times are gaps.

use std::collections::BTreeMap;
use std::sync::Arc;

use diskwright_base::counter_ids::physical_disk;
use diskwright_base::latency::{BUCKET_COUNT, bucket_index};
use diskwright_base::latency_series::LatencyTable;
use diskwright_base::topology::{Device, Topology};
use diskwright_base::{LatencyOperation, Operation, Request, Schema, Series};
use diskwright_logs::{FrameBatch, PieceSink, ReadSummary};

use crate::{Trace, TraceError};

/// Length of a tick, nanoseconds.
const TICK_NS: i64 = 1_000_000_000;
/// Number of ticks before the latest arrival that stay open for further requests.
const MAX_OPEN_TICKS: i64 = 600;
/// Largest number of ticks in which a request counts as in flight: a longer time is a clock error.
const MAX_REQUEST_TICKS: i64 = MAX_OPEN_TICKS;
/// Number of ticks from which a pause is a gap in the log instead of rows of zeros.
const MIN_GAP_TICKS: i64 = 3600;

/// Counters of a device, in the order of [`DeviceTick::append_cells`].
const COUNTER_IDS: [&str; 12] = [
    physical_disk::READS,
    physical_disk::READ_BYTES,
    physical_disk::READ_TIME_S,
    physical_disk::WRITES,
    physical_disk::WRITE_BYTES,
    physical_disk::WRITE_TIME_S,
    physical_disk::DISCARDS,
    physical_disk::DISCARD_BYTES,
    physical_disk::FLUSHES,
    physical_disk::FLUSH_TIME_S,
    physical_disk::BUSY_TIME_S,
    physical_disk::WEIGHTED_TIME_S,
];

/// Completed requests of one operation in a tick.
#[derive(Clone, Copy, Debug, Default)]
struct DoneRequests {
    count: u64,
    bytes: u64,
    /// Sum of the response times.
    ns: u64,
}

/// Counts of one device in a tick.
#[derive(Clone, Debug, Default)]
struct DeviceTick {
    /// Completed requests by [`Operation`].
    done: [DoneRequests; 4],
    busy_ns: u64,
    in_flight_ns: u64,
    /// Number of requests in each bucket of latency, by operation.
    buckets: BTreeMap<LatencyOperation, Box<[u64]>>,
}

impl DeviceTick {
    /// Appends the values of [`COUNTER_IDS`] to the row.
    fn append_cells(&self, has_completions: bool, row: &mut Vec<f64>) {
        let seconds = |ns: u64| if has_completions { ns as f64 * 1e-9 } else { f64::NAN };
        let done = |operation: Operation| &self.done[operation as usize];
        for operation in [Operation::Read, Operation::Write] {
            row.extend([done(operation).count as f64, done(operation).bytes as f64, seconds(done(operation).ns)]);
        }
        row.extend([done(Operation::Discard).count as f64, done(Operation::Discard).bytes as f64]);
        row.extend([done(Operation::Flush).count as f64, seconds(done(Operation::Flush).ns)]);
        row.extend([seconds(self.busy_ns), seconds(self.in_flight_ns)]);
    }
}

/// Reads the rest of a trace and passes it to the sink as ticks.
///
/// # Errors
/// When a file cannot be read, or there is no request.
pub fn read(trace: &mut Trace, sink: &mut PieceSink<'_>) -> Result<ReadSummary, TraceError> {
    let (format, file) = (trace.format().id, trace.summary().files.join(" "));
    let mut sink = |piece: diskwright_logs::LogPiece<'_>| sink(piece);
    let mut rows = TickRows::new(FrameBatch::new(format, &mut sink));
    while let Some(request) = trace.next() {
        let request = request?;
        rows.add_request(&request, trace.devices());
        if rows.batch.is_stopped() {
            break;
        }
    }
    rows.finish(trace.devices());
    for skip in trace.summary().skipped {
        rows.batch.add_skip(skip.context, skip.reason);
    }
    Ok(rows.batch.finish(&file)?)
}

/// Collects requests into ticks.
struct TickRows<'a> {
    batch: FrameBatch<'a>,
    /// Arrival of the first request, at which the first tick begins.
    begin_ns: Option<i64>,
    /// Open ticks by number, then by device.
    open_ticks: BTreeMap<i64, Vec<DeviceTick>>,
    /// Number of the next tick to emit.
    next_tick: i64,
    /// Latest arrival so far.
    latest_ns: i64,
    /// Time until which each device is known to be busy.
    busy_to_ns: Vec<i64>,
    /// At least one request had a completion.
    has_completions: bool,
    /// Series of the counters, without those of latency.
    base_series: Vec<Series>,
    schema: Arc<Schema>,
    latency: LatencyTable,
    row: Vec<f64>,
}

impl<'a> TickRows<'a> {
    fn new(batch: FrameBatch<'a>) -> TickRows<'a> {
        TickRows {
            batch,
            begin_ns: None,
            open_ticks: BTreeMap::new(),
            next_tick: 0,
            latest_ns: i64::MIN,
            busy_to_ns: Vec::new(),
            has_completions: false,
            base_series: Vec::new(),
            schema: Arc::default(),
            latency: LatencyTable::default(),
            row: Vec::new(),
        }
    }

    /// Returns the counts of a device in a tick, or in the next open tick if that one was already emitted.
    fn device_tick(&mut self, tick: i64, device: usize) -> &mut DeviceTick {
        let devices = self.open_ticks.entry(tick.max(self.next_tick)).or_default();
        if devices.len() <= device {
            devices.resize(device + 1, DeviceTick::default());
        }
        &mut devices[device]
    }

    /// Adds a request, and emits the ticks that are old enough.
    fn add_request(&mut self, request: &Request, names: &[String]) {
        let begin_ns = *self.begin_ns.get_or_insert(request.arrival_ns);
        let done_ns = request.completion_time_ns().filter(|done| *done >= request.arrival_ns);
        self.has_completions |= done_ns.is_some();
        if done_ns.is_none() && self.has_completions {
            // still in flight at the end of the trace
            return;
        }
        let tick_of = |ns: i64| ns.saturating_sub(begin_ns).div_euclid(TICK_NS);
        let device = usize::from(request.device);
        let end_ns = done_ns.unwrap_or(request.arrival_ns);
        if self.latest_ns.saturating_sub(end_ns) > MAX_OPEN_TICKS * TICK_NS {
            // its tick was already emitted; in the next open tick, a whole earlier day would count as one second
            let because = "a request that stands behind ones that arrived more than ten minutes after its end";
            return self.batch.add_skip(format!("{} ns", request.arrival_ns), because);
        }
        let tick = self.device_tick(tick_of(end_ns), device);
        let done = &mut tick.done[request.operation as usize];
        done.count += 1;
        done.bytes += u64::from(request.length_bytes);
        if let Some(ns) = request.response_ns() {
            done.ns = done.ns.saturating_add(ns);
            let buckets = tick.buckets.entry(latency_operation(request.operation));
            buckets.or_insert_with(|| vec![0; BUCKET_COUNT].into_boxed_slice())[bucket_index(ns)] += 1;
        }
        if let Some(done_ns) = done_ns {
            self.add_in_flight_time(device, begin_ns, request.arrival_ns, done_ns);
        }
        self.latest_ns = self.latest_ns.max(request.arrival_ns);
        self.emit_before(tick_of(self.latest_ns).saturating_sub(MAX_OPEN_TICKS), names);
    }

    /// Adds a request's time in flight to the ticks in which it passes.
    fn add_in_flight_time(&mut self, device: usize, begin_ns: i64, from_ns: i64, to_ns: i64) {
        if self.busy_to_ns.len() <= device {
            self.busy_to_ns.resize(device + 1, i64::MIN);
        }
        let busy_from_ns = from_ns.max(self.busy_to_ns[device]);
        self.busy_to_ns[device] = self.busy_to_ns[device].max(to_ns);
        let first = from_ns.saturating_sub(begin_ns).div_euclid(TICK_NS);
        let last = to_ns.saturating_sub(begin_ns).div_euclid(TICK_NS).min(first + MAX_REQUEST_TICKS);
        for number in first..=last {
            let tick_start_ns = begin_ns.saturating_add(number.saturating_mul(TICK_NS));
            let tick_end_ns = tick_start_ns.saturating_add(TICK_NS);
            let time_in_tick =
                |from_ns: i64| to_ns.min(tick_end_ns).saturating_sub(from_ns.max(tick_start_ns)).max(0) as u64;
            let tick = self.device_tick(number, device);
            tick.in_flight_ns += time_in_tick(from_ns);
            tick.busy_ns += time_in_tick(busy_from_ns);
        }
    }

    /// Emits the ticks with numbers below `end_tick`.
    fn emit_before(&mut self, end_tick: i64, names: &[String]) {
        while self.next_tick < end_tick && !self.open_ticks.is_empty() {
            let first = self.open_ticks.first_key_value().map_or(end_tick, |(tick, _)| *tick);
            if first - self.next_tick > MIN_GAP_TICKS {
                self.next_tick = first.min(end_tick);
                continue;
            }
            let devices = self.open_ticks.remove(&self.next_tick).unwrap_or_default();
            self.emit_tick(&devices, names);
            self.next_tick += 1;
        }
    }

    /// Emits one tick.
    fn emit_tick(&mut self, devices: &[DeviceTick], names: &[String]) {
        let Some(begin_ns) = self.begin_ns else { return };
        let time_ns = begin_ns.saturating_add((self.next_tick + 1).saturating_mul(TICK_NS));
        for (name, tick) in names.iter().zip(devices) {
            for (operation, buckets) in &tick.buckets {
                self.latency.add_requests(name, *operation, buckets.iter().copied().enumerate());
            }
        }
        if self.base_series.len() != names.len() * COUNTER_IDS.len() {
            let device_series = |name: &String| {
                let name = name.clone();
                COUNTER_IDS.map(|id| Series { counter: id.into(), instance: name.clone(), scale: 1.0 })
            };
            self.base_series = names.iter().flat_map(device_series).collect();
            let new_device = |name: &String| Device { name: name.clone(), ..Device::default() };
            let devices = names.iter().map(new_device).collect();
            self.batch.push_topology(time_ns.saturating_sub(TICK_NS), &Topology { devices, ..Topology::default() });
            self.schema = Arc::default();
        }
        if self.latency.take_changed() || self.schema.series.is_empty() {
            let mut series = self.base_series.clone();
            self.latency.append_series(&mut series);
            self.schema = Arc::new(Schema::new(series));
        }
        self.row.clear();
        for position in 0..names.len() {
            let idle = DeviceTick::default();
            devices.get(position).unwrap_or(&idle).append_cells(self.has_completions, &mut self.row);
        }
        self.latency.drain_cells(&mut self.row);
        self.batch.push_tick(&self.schema, time_ns, Some(TICK_NS.unsigned_abs()), &self.row);
    }

    fn finish(&mut self, names: &[String]) {
        let end_tick = self.open_ticks.last_key_value().map_or(0, |(tick, _)| tick + 1);
        self.emit_before(end_tick, names);
    }
}

/// Returns the operation under which a latency is recorded. A trace does not show whether a process waits for a
/// write.
fn latency_operation(operation: Operation) -> LatencyOperation {
    match operation {
        Operation::Read => LatencyOperation::Read,
        Operation::Write => LatencyOperation::Write,
        Operation::Flush => LatencyOperation::Flush,
        Operation::Discard => LatencyOperation::Discard,
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use diskwright_base::{Frame, LatencyColumns, LogPiece};

    use super::*;
    use crate::{CSV_HEADING, LogInput, from_inputs};

    /// Reads requests into frames of one tick each.
    fn read_ticks(lines: &str) -> (Vec<Frame>, ReadSummary) {
        let text = format!("{CSV_HEADING}{lines}");
        let input = LogInput::from_bytes("requests.csv", text.into_bytes()).expect("input");
        let mut frames = Vec::new();
        let mut sink = |piece: LogPiece<'_>| {
            if let LogPiece::Frame(frame) = piece {
                for tick in 0..frame.ticks().len() {
                    let row: Vec<f64> = (0..frame.schema().series.len()).map(|c| frame.column(c)[tick]).collect();
                    let mut one = Frame::new(Arc::clone(frame.schema()), 1);
                    one.push(frame.ticks()[tick], &row);
                    frames.push(one);
                }
            }
            ControlFlow::Continue(())
        };
        let summary = read(&mut from_inputs(vec![input]).expect("a trace"), &mut sink).expect("ticks");
        (frames, summary)
    }

    fn cell_value(frame: &Frame, counter: &str, device: &str) -> f64 {
        frame.column(frame.schema().column(counter, device).unwrap_or_else(|| panic!("{counter}")))[0]
    }

    /// From 100.0 s on: a read of 4 KiB from 0.2 to 0.7 s, one from 0.6 to 1.5, a write of 8 KiB from 3.0 to 3.25.
    #[test]
    fn requests_count_in_the_tick_of_their_end_and_time_where_it_passes() {
        let (frames, summary) = read_ticks(
            "100.2,sda,read,0,4096,100.2,100.7\n100.6,sda,read,8192,4096,100.6,101.5\n\
             103.0,sda,write,0,8192,103.0,103.25\n103.1,sda,read,0,4096,103.1,\n",
        );
        assert_eq!((frames.len(), summary.ticks, summary.range.map(|(from, _)| from)), (4, 4, Some(101_200_000_000)));
        let column = |counter: &str| frames.iter().map(|f| cell_value(f, counter, "sda")).collect::<Vec<_>>();
        let near = |counter: &str, expected: [f64; 4]| {
            let found = column(counter);
            assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9), "{counter}: {found:?}");
        };
        // ticks begin at the first arrival, 100.2 s; the read that never ended is left out
        near("physical_disk.reads", [1.0, 1.0, 0.0, 0.0]);
        near("physical_disk.read_time_s", [0.5, 0.9, 0.0, 0.0]);
        near("physical_disk.writes", [0.0, 0.0, 0.0, 1.0]);
        near("physical_disk.write_bytes", [0.0, 0.0, 0.0, 8192.0]);
        // 0.2 to 1.2 s: 0.5 and 0.6 s in flight, always busy; 1.2 to 1.5 of the second read; 3.0 to 3.2 and the rest
        near("physical_disk.weighted_time_s", [1.1, 0.3, 0.2, 0.05]);
        near("physical_disk.busy_time_s", [1.0, 0.3, 0.2, 0.05]);
        let found = LatencyColumns::from_schema(frames[3].schema());
        let counts: Vec<u64> =
            found.groups.iter().map(|g| g.sum_steps(&frames[3], 0..1).iter().map(|(_, n)| n).sum()).collect();
        assert_eq!((found.groups.len(), counts.iter().sum::<u64>()), (2, 1));
    }

    #[test]
    fn a_trace_without_ends_has_no_times() {
        let (frames, _) = read_ticks("5.0,sda,read,0,4096,,\n5.5,sdb,write,0,4096,,\n");
        assert_eq!(cell_value(&frames[0], "physical_disk.reads", "sda"), 1.0);
        assert!(cell_value(&frames[0], "physical_disk.read_time_s", "sda").is_nan());
        assert_eq!(cell_value(&frames[0], "physical_disk.writes", "sdb"), 1.0);
    }

    /// A request at 90,000 s comes before two of the previous day, and one of the same second.
    #[test]
    fn requests_of_an_earlier_day_are_left_out_and_counted() {
        let mut reads = 0.0;
        let mut sink = |piece: LogPiece<'_>| {
            if let LogPiece::Frame(frame) = piece {
                let column = frame.schema().column("physical_disk.reads", "sda").expect("reads");
                reads += frame.column(column).iter().sum::<f64>();
            }
            ControlFlow::Continue(())
        };
        let mut rows = TickRows::new(FrameBatch::new("requests-csv", &mut sink));
        let names = ["sda".to_owned()];
        for seconds in [90_000, 100, 101, 90_000] {
            let arrival = seconds * TICK_NS;
            let request = Request::new(arrival, 0, Operation::Read, 0, 4096);
            rows.add_request(&Request { completion_ns: arrival + 1, ..request }, &names);
        }
        rows.finish(&names);
        let summary = rows.batch.finish("requests.csv").expect("ticks");
        assert_eq!((reads, summary.skipped.len(), summary.skipped[0].count), (2.0, 1, 2));
    }

    /// Two days without requests are a gap and not 172,800 rows.
    #[test]
    fn a_long_pause_is_a_gap() {
        let (frames, _) = read_ticks("0.0,sda,read,0,4096,0.0,0.1\n172800.5,sda,read,0,4096,172800.5,172800.6\n");
        assert!(frames.len() < 1000, "{}", frames.len());
        assert_eq!(frames.iter().map(|f| cell_value(f, "physical_disk.reads", "sda")).sum::<f64>(), 2.0);
    }
}
