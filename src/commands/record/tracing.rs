//! `record --trace`: single requests beside the counters. A separate thread reads the trace and takes commands from
//! `trace on` and `trace off`; the sampler collects its data at each tick and never waits for it.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use diskwright_base::counter_ids::physical_disk;
use diskwright_base::latency_series::LatencyTable;
use diskwright_base::note::{RequesterRow, RequesterTable};
use diskwright_base::units::format_count;
use diskwright_base::{Note, Series, Tick};
use diskwright_blocktrace::devices::BlockDeviceNames;
use diskwright_blocktrace::interval::SingleRequestSums;
use diskwright_blocktrace::{DeviceInterval, MethodChoice, SessionOptions, TraceMethod, TraceSession, diskstats};
use diskwright_counters::live::{AttachedColumns, Clock, SystemClock};
use serde_json::{Value, json};

use super::trace_control::ControlSocket;

/// Interval between reads of the trace: a processor's buffer of 8 MiB holds about 120,000 events.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Interval between checks for commands while nothing is traced.
const IDLE_INTERVAL: Duration = Duration::from_millis(500);
/// Interval of notes on requesting processes, and of the search for new disks.
const SLOW_INTERVAL_NS: u64 = 10_000_000_000;
/// Maximum number of rows in a note on requesting processes.
const MAX_REQUESTERS: usize = 24;
/// Bytes of a page. Filesystems with larger folios dirty several pages at once, which count as one.
const PAGE_BYTES: u64 = 4096;
/// Microseconds as seconds.
const US_TO_S: f64 = 1e-6;

/// Data that the reading thread passes to the sampler.
#[derive(Default)]
struct SharedTrace {
    /// Requests since the last tick, by device.
    pending_intervals: HashMap<String, DeviceInterval>,
    notes: Vec<Note>,
    /// Number of the session that intervals and notes belong to; 0 if nothing is traced.
    session: u64,
}

type SharedHandle = Arc<Mutex<SharedTrace>>;

fn lock_shared(shared: &SharedHandle) -> MutexGuard<'_, SharedTrace> {
    // no holder of the lock leaves it in an inconsistent state, even if it panics
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread that traces for a recorder; it ends with the value.
pub struct TraceThread {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl TraceThread {
    /// Starts the thread, and returns the columns for the sampler. `budget` is given if tracing begins at once.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(
        log: Option<PathBuf>,
        budget: Option<f64>,
    ) -> std::io::Result<(TraceThread, Box<dyn AttachedColumns>)> {
        let (shared, stop) = (SharedHandle::default(), Arc::new(AtomicBool::new(false)));
        let columns = TraceColumns { shared: Arc::clone(&shared), ..TraceColumns::default() };
        let own = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("trace".into())
            .stack_size(crate::commands::process_limits::SMALL_STACK_BYTES)
            .spawn(move || {
                let mut worker = TraceWorker { shared, log, running_trace: None, sessions: 0 };
                let socket = ControlSocket::open();
                if let Err(error) = &socket {
                    worker.push_note(format!("`trace on` and `trace off` cannot reach this recorder: {error}"));
                }
                budget.into_iter().for_each(|budget| _ = worker.begin_trace(budget));
                while !own.load(Ordering::Relaxed) {
                    let nap = if worker.running_trace.is_some() { POLL_INTERVAL } else { IDLE_INTERVAL };
                    match &socket {
                        Ok(socket) => socket.answer_requests(nap, |order| worker.execute_command(order)),
                        Err(_) => std::thread::park_timeout(nap),
                    }
                    worker.read_trace();
                }
            })?;
        Ok((TraceThread { stop, thread: Some(thread) }, Box::new(columns)))
    }
}

impl Drop for TraceThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // the socket and the tracefs instance are removed with the thread
        self.thread.take().map(JoinHandle::join);
    }
}

struct RunningTrace {
    session: TraceSession,
    budget: f64,
    request_count: u64,
    remarks_printed: usize,
    disks: Vec<u32>,
    requesters: HashMap<String, DeviceInterval>,
    slow_from_ns: u64,
    /// Lost events that notes have reported.
    lost_reported: u64,
}

struct TraceWorker {
    shared: SharedHandle,
    log: Option<PathBuf>,
    running_trace: Option<RunningTrace>,
    sessions: u64,
}

impl TraceWorker {
    fn push_note(&self, text: String) {
        lock_shared(&self.shared).notes.push(Note::new(SystemClock.read_clocks().wall_ns, Note::TRACE, text));
    }

    fn execute_command(&mut self, command: &Value) -> Value {
        let budget = command["budget"].as_f64().filter(|share| *share > 0.0 && *share <= 1.0).unwrap_or(0.01);
        match command["order"].as_str() {
            Some("on") if self.running_trace.is_none() => match self.begin_trace(budget) {
                Ok(()) => self.status_json(),
                Err(error) => json!({ "error": error }),
            },
            Some("off") => {
                self.end_trace("it was switched off by `trace off`");
                self.status_json()
            }
            Some("on" | "status") => self.status_json(),
            _ => json!({ "error": "unknown command" }),
        }
    }

    fn begin_trace(&mut self, budget: f64) -> Result<(), String> {
        let (disks, rate) = (BlockDeviceNames::default().disks_and_paths(), measure_request_rate());
        let options = SessionOptions {
            disks: Vec::new(),
            method: MethodChoice::Auto,
            budget,
            needs_events: false,
            column_ns: SLOW_INTERVAL_NS,
        };
        let now_ns = SystemClock.read_clocks().running_ns;
        let mut session = TraceSession::start(options, rate, now_ns).map_err(|error| {
            let text = format!("cannot trace single requests: {error}");
            self.push_note(text.clone());
            text
        })?;
        session.keep_intervals();
        self.sessions += 1;
        lock_shared(&self.shared).session = self.sessions;
        self.push_note(format!(
            "tracing single requests ({}), with at most {} of the processors",
            session.method().name(),
            diskwright_base::units::format_value(budget, "fraction")
        ));
        self.running_trace = Some(RunningTrace {
            session,
            budget,
            request_count: 0,
            remarks_printed: 0,
            disks,
            requesters: HashMap::new(),
            slow_from_ns: now_ns,
            lost_reported: 0,
        });
        Ok(())
    }

    fn end_trace(&mut self, reason: &str) {
        if self.running_trace.take().is_some() {
            let mut shared = lock_shared(&self.shared);
            shared.session = 0;
            shared.pending_intervals.clear();
            drop(shared);
            self.push_note(format!("tracing of single requests ended: {reason}"));
        }
    }

    /// Reads new events and passes them on.
    fn read_trace(&mut self) {
        let Some(running) = &mut self.running_trace else { return };
        let clock = SystemClock.read_clocks();
        let polled =
            running.session.poll(clock.running_ns, &mut |_| {}).and_then(|()| running.session.enforce_budget());
        if let Err(error) = polled {
            self.end_trace(&error.to_string());
            return;
        }
        let remarks: Vec<String> = running.session.remarks[running.remarks_printed..].to_vec();
        running.remarks_printed += remarks.len();
        let is_slow = clock.running_ns - running.slow_from_ns >= SLOW_INTERVAL_NS;
        // before taking the lock: the sampler must not wait for the kernel's files
        let lost = if is_slow { running.session.loss().total() } else { running.lost_reported };
        let mut shared = lock_shared(&self.shared);
        shared.notes.extend(remarks.into_iter().map(|text| Note::new(clock.wall_ns, Note::TRACE, text)));
        for (device, interval) in running.session.take_interval() {
            let name = running.session.names.name(device);
            running.request_count += interval.requests;
            if !interval.requesters.is_empty() {
                let requesters =
                    DeviceInterval { requesters: interval.requesters.clone(), ..DeviceInterval::default() };
                running.requesters.entry(name.clone()).or_default().merge(requesters);
            }
            shared.pending_intervals.entry(name).or_default().merge(interval);
        }
        if !is_slow {
            return;
        }
        let seconds = (clock.running_ns - running.slow_from_ns) as f64 / 1e9;
        running.slow_from_ns = clock.running_ns;
        let loss = describe_losses(std::mem::replace(&mut running.lost_reported, lost), lost);
        shared.notes.extend(loss.map(|text| Note::new(clock.wall_ns, Note::TRACE, text)));
        let dirtied = dirtied_rows(&mut running.session);
        let table = requester_table(std::mem::take(&mut running.requesters), dirtied, seconds);
        shared.notes.extend(table.map(|table| Note::requesters(clock.wall_ns, table)));
        drop(shared);
        // histograms in the kernel cover the disks that existed when they started
        let has_other_disks = running.session.method() == TraceMethod::Bpf
            && BlockDeviceNames::default().disks_and_paths() != running.disks;
        if has_other_disks {
            let budget = running.budget;
            self.end_trace("disks were added or removed, so it restarts");
            // a refusal is noted in the log
            let _ = self.begin_trace(budget);
        }
    }

    fn status_json(&self) -> Value {
        let absolute = |log: &PathBuf| std::path::absolute(log).unwrap_or_else(|_| log.clone());
        // a name that is not UTF-8 must not end the thread
        let log = self.log.as_ref().map(|log| absolute(log).display().to_string());
        let traced = self.running_trace.as_ref().map(|running| {
            let (cost, loss) = (running.session.cost(), running.session.loss());
            json!({
                "method": running.session.method().name(),
                "sampled": running.session.sample_divisor(),
                "requests": running.request_count,
                "lost_events": loss.total(),
                "unread_processors": loss.unread,
                "cost_share": cost.processor_share(),
                "budget": running.budget,
                "remarks": running.session.remarks,
            })
        });
        json!({ "pid": std::process::id(), "log": log, "tracing": traced.is_some(), "trace": traced })
    }
}

/// Describes events that were lost since the last time, for the log.
fn describe_losses(before: u64, now: u64) -> Option<String> {
    let lost = now.checked_sub(before).filter(|lost| *lost > 0)?;
    let events = format_count(lost, "event was", "events were");
    Some(format!("{events} lost: the latencies of these requests are missing"))
}

/// Measures the requests per second of all disks over a moment.
fn measure_request_rate() -> f64 {
    const MEASURED_TIME: Duration = Duration::from_millis(250);
    let before = diskstats::read_totals();
    std::thread::park_timeout(MEASURED_TIME);
    let requests = diskstats::requests_of_disks(&BlockDeviceNames::default(), &[], &before, &diskstats::read_totals());
    requests as f64 / MEASURED_TIME.as_secs_f64()
}

/// Returns the requesting processes, those with the most device time first.
fn requester_table(
    devices: HashMap<String, DeviceInterval>,
    dirtied: Vec<RequesterRow>,
    elapsed_s: f64,
) -> Option<RequesterTable> {
    let mut rows = Vec::new();
    for (device, interval) in devices {
        rows.extend(interval.requesters.into_iter().map(|((pid, operation), sums)| RequesterRow {
            device: device.clone(),
            operation: operation.name().to_owned(),
            pid,
            name: String::from_utf8_lossy(sums.comm.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned(),
            kernel: is_kernel_thread(pid),
            requests: sums.requests,
            bytes: sums.bytes,
            device_s: (sums.device_ns / 1000) as f64 * US_TO_S,
        }));
    }
    rows.sort_by(|a, b| b.device_s.total_cmp(&a.device_s).then_with(|| (&a.device, a.pid).cmp(&(&b.device, b.pid))));
    rows.truncate(MAX_REQUESTERS);
    rows.extend(dirtied);
    (!rows.is_empty()).then_some(RequesterTable { elapsed_s, rows })
}

/// Returns the processes that dirtied pages of each disk since the last time, most pages first.
fn dirtied_rows(session: &mut TraceSession) -> Vec<RequesterRow> {
    let pages = session.take_dirtied();
    let mut rows = Vec::new();
    for device in pages.devices() {
        let name = session.names.name(device);
        rows.extend(pages.threads_of_device(device).into_iter().take(MAX_REQUESTERS).map(|thread| RequesterRow {
            device: name.clone(),
            operation: RequesterRow::DIRTIED.to_owned(),
            pid: thread.pid,
            kernel: is_kernel_thread(thread.pid),
            name: thread.comm,
            requests: thread.pages,
            bytes: thread.pages * PAGE_BYTES,
            device_s: 0.0,
        }));
    }
    rows
}

/// True for a kernel thread, which has no memory of its own; `None` if it has ended.
fn is_kernel_thread(pid: i32) -> Option<bool> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // field 9, flags: PF_KTHREAD
    let flags: u64 = stat.rsplit_once(')')?.1.split_whitespace().nth(6)?.parse().ok()?;
    Some(flags & 0x0020_0000 != 0)
}

/// Counters of every trace, and the scale of their stored values.
const SUM_COUNTERS: [(&str, f64); 3] = [
    (physical_disk::TRACED_REQUESTS, 1.0),
    (physical_disk::TRACED_DEVICE_S, US_TO_S),
    (physical_disk::TRACED_BEFORE_S, US_TO_S),
];
/// Counters of a trace of single events, and the scale of their stored values.
const SINGLE_COUNTERS: [(&str, f64); 7] = [
    (physical_disk::TRACED_TAG_WAIT_S, US_TO_S),
    (physical_disk::TRACED_PLACED, 1.0),
    (physical_disk::TRACED_SEQUENTIAL, 1.0),
    (physical_disk::READS_BESIDE_FLUSH, 1.0),
    (physical_disk::READS_BESIDE_FLUSH_S, US_TO_S),
    (physical_disk::READS_APART_FROM_FLUSH, 1.0),
    (physical_disk::READS_APART_FROM_FLUSH_S, US_TO_S),
];

/// The trace's columns in the sampler's rows.
#[derive(Default)]
struct TraceColumns {
    shared: SharedHandle,
    session: u64,
    latency: LatencyTable,
    /// Cells of each traced device, and whether single requests are seen.
    devices: BTreeMap<String, (Vec<f64>, bool)>,
    notes: Vec<Note>,
}

impl TraceColumns {
    fn clear_trace(&mut self) {
        self.devices.clear();
        self.latency = LatencyTable::default();
    }

    fn accept_interval(&mut self, name: &str, interval: &DeviceInterval) -> bool {
        for (operation, steps) in &interval.steps {
            self.latency.add_requests(name, *operation, steps.iter().copied().enumerate());
        }
        let is_single = interval.singles.is_some();
        // a gap if the parts are unknown, because the kernel keeps only histograms of the whole latency
        let part_us = |ns| if interval.is_unsplit { f64::NAN } else { ns_to_us(ns) };
        let mut cells = vec![interval.requests as f64, part_us(interval.device_ns), part_us(interval.before_ns)];
        cells.extend(interval.singles.iter().flat_map(single_cells));
        let previous = self.devices.insert(name.to_owned(), (cells, is_single));
        previous.is_none_or(|(_, was_single)| was_single != is_single)
    }
}

/// Converts nanoseconds to whole microseconds, in which times are stored.
fn ns_to_us(ns: u64) -> f64 {
    (ns / 1000) as f64
}

fn single_cells(singles: &SingleRequestSums) -> [f64; SINGLE_COUNTERS.len()] {
    [
        ns_to_us(singles.tag_wait_ns),
        singles.comparable as f64,
        singles.sequential as f64,
        singles.during_flush.count as f64,
        ns_to_us(singles.during_flush.ns),
        singles.outside_flush.count as f64,
        ns_to_us(singles.outside_flush.ns),
    ]
}

impl AttachedColumns for TraceColumns {
    fn measure_tick(&mut self, _: Tick) -> bool {
        let mut shared = lock_shared(&self.shared);
        let (pending, session) = (std::mem::take(&mut shared.pending_intervals), shared.session);
        self.notes.append(&mut shared.notes);
        drop(shared);
        if session != self.session {
            // the interval since the trace began covers only a part of this tick, so it is not reported as one
            self.session = session;
            self.clear_trace();
            return true;
        }
        self.devices.values_mut().for_each(|(cells, _)| cells.fill(0.0));
        let mut changed = false;
        for (name, interval) in &pending {
            changed |= self.accept_interval(name, interval);
        }
        self.latency.take_changed() || changed
    }

    fn append_series(&self, out: &mut Vec<Series>) {
        for (name, (_, is_single)) in &self.devices {
            let counters = SUM_COUNTERS.iter().chain(SINGLE_COUNTERS.iter().filter(|_| *is_single));
            out.extend(counters.map(|(id, scale)| Series {
                counter: (*id).to_owned(),
                instance: name.clone(),
                scale: *scale,
            }));
        }
        self.latency.append_series(out);
    }

    fn append_cells(&mut self, out: &mut Vec<f64>) {
        self.devices.values().for_each(|(cells, _)| out.extend(cells));
        self.latency.drain_cells(out);
    }

    fn take_notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
    }
}

#[cfg(test)]
mod tests {
    use diskwright_base::{Catalogue, LatencyColumns, LatencyOperation, Schema};
    use diskwright_blocktrace::latency::{BUCKET_COUNT, bucket_index};

    use super::*;

    fn interval(reads: u64, single: bool) -> DeviceInterval {
        let mut steps = vec![0; BUCKET_COUNT].into_boxed_slice();
        steps[bucket_index(5_000_000)] = reads;
        DeviceInterval {
            steps: HashMap::from([(LatencyOperation::Read, steps)]),
            requests: reads,
            device_ns: reads * 4_000_000,
            before_ns: reads * 1_000_000,
            singles: single.then(SingleRequestSums::default),
            ..DeviceInterval::default()
        }
    }

    fn tick_columns(columns: &mut TraceColumns) -> (bool, Vec<Series>, Vec<f64>) {
        let changed = columns.measure_tick(Tick::default());
        let (mut series, mut cells) = (Vec::new(), Vec::new());
        columns.append_series(&mut series);
        columns.append_cells(&mut cells);
        assert_eq!(series.len(), cells.len());
        (changed, series, cells)
    }

    #[test]
    fn events_that_were_lost_are_noted_once() {
        let words = "3 events were lost: the latencies of these requests are missing";
        assert_eq!(describe_losses(4, 7).as_deref(), Some(words));
        assert_eq!((describe_losses(7, 7), describe_losses(7, 0)), (None, None));
    }

    #[test]
    fn first_tick_is_empty_and_later_ticks_hold_their_requests() {
        let mut columns = TraceColumns::default();
        let shared = Arc::clone(&columns.shared);
        let hand = |reads| {
            lock_shared(&shared).pending_intervals.entry("sda".into()).or_default().merge(interval(reads, true))
        };
        assert!(!tick_columns(&mut columns).0, "nothing is traced");
        lock_shared(&shared).session = 1;
        hand(3);
        assert_eq!(tick_columns(&mut columns).1.len(), 0, "of a part of the tick");
        hand(2);
        hand(5);
        let (changed, series, cells) = tick_columns(&mut columns);
        assert!(changed);
        assert!(series.iter().all(|s| Catalogue::builtin().get(&s.counter).is_some()));
        let schema = Schema::new(series);
        let value = |counter: &str| cells[schema.column(counter, "sda").unwrap()];
        assert_eq!(value("physical_disk.traced_requests"), 7.0);
        assert_eq!(value("physical_disk.traced_device_s"), 28_000.0);
        assert_eq!(value("physical_disk.traced_before_s"), 7_000.0);
        let found = LatencyColumns::from_schema(&schema);
        let count: f64 = found.groups[0].columns.iter().map(|(column, _)| cells[*column]).sum();
        assert_eq!(count, 7.0);
        // a quiet tick has zeros in the same series, and the end removes the series
        let (changed, _, cells) = tick_columns(&mut columns);
        assert!(!changed && cells.iter().all(|cell| *cell == 0.0));
        lock_shared(&shared).session = 0;
        let (changed, series, _) = tick_columns(&mut columns);
        assert!(changed && series.is_empty());
    }
}
