//! The thread that reads the sources of a tick, and its replacement when a read does not return.
//!
//! A thread that hangs in the kernel cannot be stopped, so it is left behind with the source that it reads: another
//! thread continues with the next source, the file is refused from then on, and its source begins anew at the next
//! tick. When the read returns, the thread ends and the file is read again.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use diskwright_base::{FileRow, Note};

use super::blocked_process::{BlockedProcess, process_number};
use super::counter_table::CounterTable;
use super::device_events::DeviceEvents;
use super::note_collector::NoteCollector;
use super::sources::processes::survey_blocked_process;
use super::sources::{CounterSource, SOURCES};
use super::thread_priority::{self, PriorityGuard, ThreadRole};
use super::tick_context::{TickContext, TickTimes};
use super::watched_read::{BlockedFiles, ReadWatch, lock_unpoisoned};
use super::{Roots, SamplerOptions};

/// A thread that waits in the kernel for this long reads a file that blocks.
const MAX_READ_TIME: Duration = Duration::from_millis(300);
/// Time between looks at the reading thread while a tick is not complete.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Threads that may hang at the same time before the source itself is left out. Each takes some memory of the kernel.
const MAX_HANGING_THREADS: usize = 32;

/// Stack of a reading thread: the default of 2 MiB is much where the address space is limited (`ulimit -v`).
const STACK_BYTES: usize = 512 << 10;
/// Creates a source, where this machine and the options have it.
pub(crate) type SourceOpener = fn(&Roots, &SamplerOptions) -> Option<Box<dyn CounterSource>>;

/// A source and the notes that it made since they were taken.
struct SourceState {
    opener: SourceOpener,
    /// `None` until the reading thread opens it.
    source: Option<Box<dyn CounterSource>>,
    notes: NoteCollector,
}

/// The sources in the order of a tick; `None` for one that is left out while a thread hangs in it.
type Slots = Vec<Option<Arc<Mutex<SourceState>>>>;

/// Position of a thread that has completed its tick.
const NO_SLOT: u32 = u32::MAX;

/// Which thread reads, and where it is. Whoever changes it first wins: a thread that was replaced reads nothing more.
#[derive(Default)]
struct ReadPosition(AtomicU64);

impl ReadPosition {
    fn pack_position(generation: u32, slot: u32) -> u64 {
        u64::from(generation) << 32 | u64::from(slot)
    }

    /// Moves the thread of this generation to a slot; false if it was replaced.
    fn advance(&self, generation: u32, slot: u32) -> bool {
        let before = self.0.load(Ordering::Acquire);
        (before >> 32) as u32 == generation
            && self
                .0
                .compare_exchange(before, Self::pack_position(generation, slot), Ordering::AcqRel, Ordering::Acquire)
                .is_ok()
    }

    fn current_slot(&self) -> u32 {
        self.0.load(Ordering::Acquire) as u32
    }

    /// Replaces the thread of this generation, if it is still at the slot.
    fn replace_thread(&self, generation: u32, slot: u32) -> bool {
        let (before, after) = (Self::pack_position(generation, slot), Self::pack_position(generation + 1, slot));
        self.0.compare_exchange(before, after, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// What the reading threads of a sampler share.
struct SharedState {
    roots: Roots,
    options: SamplerOptions,
    position: ReadPosition,
    devices_due: AtomicBool,
    processes_due: AtomicBool,
    topology_due: AtomicBool,
}

impl SharedState {
    /// Reads one source.
    fn read_source(&self, state: &mut SourceState, times: TickTimes) {
        let SourceState { opener, source, notes } = state;
        if source.is_none() {
            *source = opener(&self.roots, &self.options);
        }
        let Some(source) = source else { return };
        let flags = [&self.devices_due, &self.processes_due, &self.topology_due];
        let [devices_due, processes_due, topology_due] = flags.map(|flag| flag.load(Ordering::Relaxed));
        let mut context = TickContext {
            roots: &self.roots,
            options: &self.options,
            notes,
            time_ns: times.time_ns,
            running_ns: times.running_ns,
            since_boot_ns: times.since_boot_ns,
            elapsed_ns: times.elapsed_ns,
            is_slow_tick: times.is_slow_tick,
            devices_due,
            processes_due,
            topology_due,
        };
        source.read_tick(&mut context);
        let after = [context.devices_due, context.processes_due, context.topology_due];
        flags.into_iter().zip(after).for_each(|(flag, is_due)| flag.store(is_due, Ordering::Relaxed));
    }
}

/// A request to read the sources from this slot on.
struct ReadRequest {
    slots: Arc<Slots>,
    first_slot: usize,
    times: TickTimes,
}

/// A thread has read all sources, or ended because it was replaced.
struct ThreadReport {
    generation: u32,
}

struct ReaderThread {
    requests: SyncSender<ReadRequest>,
    watch: Arc<ReadWatch>,
    /// Kernel's id of the thread; 0 until it runs.
    tid: Arc<AtomicI32>,
    handle: JoinHandle<()>,
}

/// A thread that hangs.
struct HangingThread {
    generation: u32,
    /// The slot that is left out until the thread returns.
    slot: Option<usize>,
}

/// Reads the sources in a thread of its own.
pub(crate) struct SourceReader {
    shared: Arc<SharedState>,
    slots: Arc<Slots>,
    openers: Vec<SourceOpener>,
    blocked: Arc<BlockedFiles>,
    thread: Option<ReaderThread>,
    generation: u32,
    hanging: Vec<HangingThread>,
    reports: Receiver<ThreadReport>,
    report_sender: SyncSender<ThreadReport>,
    notes: Vec<Note>,
    /// A slot has got another source since this was last asked.
    has_replaced_source: bool,
}

impl SourceReader {
    /// Opens all sources; no file is read yet.
    pub fn for_all_sources(roots: Roots, options: SamplerOptions) -> SourceReader {
        // the search for changed devices comes before the sources that depend on it
        let openers = std::iter::once(DeviceEvents::OPENER).chain(SOURCES.iter().map(|source| source.open));
        SourceReader::new(roots, options, openers)
    }

    /// Opens the sources of these openers.
    pub fn new(roots: Roots, options: SamplerOptions, openers: impl Iterator<Item = SourceOpener>) -> SourceReader {
        let opened = openers.filter_map(|opener| Some((opener, opener(&roots, &options)?)));
        let (openers, slots) = opened.map(|(opener, source)| (opener, Some(new_slot(opener, Some(source))))).unzip();
        // each thread has at most one report on its way
        let (report_sender, reports) = sync_channel(MAX_HANGING_THREADS + 2);
        let shared = SharedState {
            roots,
            options,
            position: ReadPosition::default(),
            devices_due: AtomicBool::new(false),
            processes_due: AtomicBool::new(false),
            topology_due: AtomicBool::new(false),
        };
        SourceReader {
            shared: Arc::new(shared),
            slots: Arc::new(slots),
            openers,
            blocked: Arc::default(),
            thread: None,
            generation: 0,
            hanging: Vec::new(),
            reports,
            report_sender,
            notes: Vec::new(),
            has_replaced_source: false,
        }
    }

    /// Reads all sources, but for those in which a thread hangs. Returns false if it was given up because `goes_on`
    /// returned false before the end.
    pub fn read_sources(&mut self, times: TickTimes, goes_on: &dyn Fn() -> bool) -> bool {
        let shared = &self.shared;
        for flag in [&shared.devices_due, &shared.processes_due, &shared.topology_due] {
            flag.store(false, Ordering::Relaxed);
        }
        let mut is_reading = self.begin_reading(0, times);
        let mut progress = (0, None);
        let mut since = Instant::now();
        while is_reading {
            match self.reports.recv_timeout(CHECK_INTERVAL) {
                Ok(report) if report.generation == self.generation => return true,
                Ok(report) => {
                    self.forget_hanging_thread(report.generation);
                    continue;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => unreachable!("this reader has a sender"),
            }
            if !goes_on() {
                self.give_up();
                return false;
            }
            let Some(thread) = &self.thread else { return true };
            if thread.handle.is_finished() {
                self.pass_panic_on();
                continue;
            }
            let now = (self.shared.position.current_slot(), thread.watch.current_read().map(|(number, _)| number));
            if now != progress {
                (progress, since) = (now, Instant::now());
            } else if since.elapsed() >= MAX_READ_TIME && waits_in_kernel(thread.tid.load(Ordering::Relaxed)) {
                is_reading = self.replace_thread(progress.0, times);
            }
        }
        true
    }

    /// Lets the thread read the slots from this one on. Returns false if they are read already, because no thread can
    /// be started.
    fn begin_reading(&mut self, first_slot: usize, times: TickTimes) -> bool {
        if self.thread.is_none() {
            self.thread = self.start_thread().ok();
        }
        let request = ReadRequest { slots: Arc::clone(&self.slots), first_slot, times };
        if let Some(thread) = &self.thread {
            // a thread that has ended is noticed while its report is awaited
            let _ = thread.requests.send(request);
            return true;
        }
        for slot in request.slots[first_slot..].iter().flatten() {
            self.shared.read_source(&mut lock_unpoisoned(slot), times);
        }
        false
    }

    fn start_thread(&self) -> io::Result<ReaderThread> {
        let (requests, inbox) = sync_channel(1);
        let watch = Arc::new(ReadWatch::new(Arc::clone(&self.blocked)));
        let tid = Arc::new(AtomicI32::new(0));
        let (generation, reports) = (self.generation, self.report_sender.clone());
        let (shared, own_watch, own_tid) = (Arc::clone(&self.shared), Arc::clone(&watch), Arc::clone(&tid));
        let run = move || {
            own_watch.watch_this_thread();
            own_tid.store(rustix::thread::gettid().as_raw_nonzero().get(), Ordering::Relaxed);
            let _priority = shared.options.raises_priority.then(|| PriorityGuard::raise_priority(ThreadRole::Reader));
            serve_requests(&shared, generation, &inbox, &reports);
        };
        let handle = std::thread::Builder::new().name("reader".into()).stack_size(STACK_BYTES).spawn(run)?;
        Ok(ReaderThread { requests, watch, tid, handle })
    }

    /// Leaves the thread behind, which hangs in this slot, and lets another continue behind it. Returns false if the
    /// rest is read already.
    fn replace_thread(&mut self, slot: u32, times: TickTimes) -> bool {
        let index = slot as usize;
        let Some(thread) = self.thread.take() else { return false };
        if index >= self.slots.len() || !self.shared.position.replace_thread(self.generation, slot) {
            // it has not begun, has just moved on, or is done
            self.thread = Some(thread);
            return true;
        }
        thread_priority::lower_priority(thread.tid.load(Ordering::Relaxed));
        let file = thread.watch.current_read().filter(|_| self.hanging.len() < MAX_HANGING_THREADS);
        let is_refused = file.is_some();
        let what = match file {
            Some((number, path)) => {
                let refused = refused_path(&self.shared.roots, &path);
                let pid = process_number(&refused).filter(|_| refused != path);
                let process = pid.map(|pid| survey_blocked_process(&self.shared.roots, pid));
                let text = describe_blocked_file(&path, process.as_ref());
                thread.watch.refuse_until_return(number, refused, process);
                text
            }
            None => "a source of counters does not return from the kernel; it is left out until it does".to_owned(),
        };
        self.notes.push(Note::new(times.time_ns, Note::GAP, what));
        self.replace_slot(index, is_refused.then(|| new_slot(self.openers[index], None)));
        self.hanging.push(HangingThread { generation: self.generation, slot: (!is_refused).then_some(index) });
        self.generation += 1;
        self.begin_reading(index + 1, times)
    }

    /// A thread that hung has returned and ended: what was left out for it is read again.
    fn forget_hanging_thread(&mut self, generation: u32) {
        let Some(position) = self.hanging.iter().position(|thread| thread.generation == generation) else { return };
        if let Some(index) = self.hanging.swap_remove(position).slot {
            self.replace_slot(index, Some(new_slot(self.openers[index], None)));
        }
    }

    fn replace_slot(&mut self, index: usize, slot: Option<Arc<Mutex<SourceState>>>) {
        let mut slots = Slots::clone(&self.slots);
        slots[index] = slot;
        self.slots = Arc::new(slots);
        self.has_replaced_source = true;
    }

    /// Returns true if the series of a source have changed since the last call.
    pub fn take_changed(&mut self) -> bool {
        let mut changed = std::mem::take(&mut self.has_replaced_source);
        self.for_each_table(|table| changed |= table.take_changed());
        changed
    }

    /// Lets the thread end when it returns; the tick is lost.
    fn give_up(&mut self) {
        while !self.shared.position.replace_thread(self.generation, self.shared.position.current_slot()) {}
        self.generation += 1;
        self.thread = None;
    }

    /// Panics as the thread did.
    fn pass_panic_on(&mut self) {
        if let Some(Err(panic)) = self.thread.take().map(|thread| thread.handle.join()) {
            std::panic::resume_unwind(panic);
        }
    }

    /// Calls this with the tables of each source that is not left out, in order.
    pub fn for_each_table(&self, mut handle: impl FnMut(&mut CounterTable)) {
        for slot in self.slots.iter().flatten() {
            if let Some(source) = &mut lock_unpoisoned(slot).source {
                source.tables().iter_mut().for_each(&mut handle);
            }
        }
    }

    /// Moves the notes since the last call to `notes`, in the order of the sources.
    pub fn move_notes(&mut self, notes: &mut NoteCollector) {
        self.notes.drain(..).for_each(|note| notes.push_note(note));
        for slot in self.slots.iter().flatten() {
            lock_unpoisoned(slot).notes.drain_notes().for_each(|note| notes.push_note(note));
        }
    }
}

fn new_slot(opener: SourceOpener, source: Option<Box<dyn CounterSource>>) -> Arc<Mutex<SourceState>> {
    Arc::new(Mutex::new(SourceState { opener, source, notes: NoteCollector::default() }))
}

/// Reads sources on request until the sampler is gone or this thread was replaced.
fn serve_requests(
    shared: &SharedState,
    generation: u32,
    requests: &Receiver<ReadRequest>,
    reports: &SyncSender<ThreadReport>,
) {
    for request in requests {
        let is_complete = (request.first_slot..request.slots.len()).all(|index| {
            let goes_on = shared.position.advance(generation, index as u32);
            if let (true, Some(slot)) = (goes_on, &request.slots[index]) {
                shared.read_source(&mut lock_unpoisoned(slot), request.times);
            }
            goes_on
        }) && shared.position.advance(generation, NO_SLOT);
        // the receiver is gone with the sampler
        if reports.send(ThreadReport { generation }).is_err() || !is_complete {
            return;
        }
    }
}

/// Returns the path that others may not read while this file blocks: all files of a process depend on the same locks.
fn refused_path(roots: &Roots, file: &Path) -> PathBuf {
    let folder = file.strip_prefix(&roots.proc).ok().and_then(|path| path.components().next());
    match folder.and_then(|folder| process_number(folder.as_ref())) {
        Some(process) => roots.proc.join(process.to_string()),
        None => file.to_owned(),
    }
}

fn describe_blocked_file(file: &Path, process: Option<&BlockedProcess>) -> String {
    let file_name = file.display();
    let time_s = MAX_READ_TIME.as_secs_f64();
    match process {
        Some(BlockedProcess { pid, name, files, .. }) => {
            let name = if name.is_empty() { String::new() } else { format!(" ({name})") };
            let open: Vec<String> = files.iter().map(describe_open_file).collect();
            let open = if open.is_empty() { String::new() } else { format!(", with {} open", open.join(", ")) };
            format!(
                "process {pid}{name} waits in the kernel{open}: {file_name} did not answer for {time_s} s; the process \
                 is left out until it does"
            )
        }
        None => format!("{file_name}: did not answer for {time_s} s; it is left out until it does"),
    }
}

fn describe_open_file(file: &FileRow) -> String {
    if file.disks.is_empty() { file.path.clone() } else { format!("{} (on {})", file.path, file.disks.join(", ")) }
}

/// Returns true if a thread of this process sleeps in a system call. One that is ready to run, or waits for a page of
/// memory, is slow and not blocked.
fn waits_in_kernel(tid: i32) -> bool {
    let folder = format!("/proc/self/task/{tid}");
    match std::fs::read_to_string(format!("{folder}/syscall")) {
        // the number of the call and its arguments, "running", or "-1" outside of calls
        Ok(text) => text.starts_with(|first: char| first.is_ascii_digit()),
        // this kernel does not show it
        Err(_) => {
            let stat = std::fs::read_to_string(format!("{folder}/stat")).unwrap_or_default();
            stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['S', 'D']))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;
    use crate::live::fake::FakeMachine;

    /// Replaces a file by a pipe, whose reader waits for ever.
    fn put_blocking_file(machine: &FakeMachine, path: &str) -> PathBuf {
        let path = machine.folder().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let _ = fs::remove_file(&path);
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        path
    }

    #[test]
    fn all_other_files_are_read_beside_one_that_blocks() {
        let machine = FakeMachine::new();
        machine.put_ordinary_files();
        let pipe = put_blocking_file(&machine, "proc/vmstat");
        let mut watch = machine.watch_default();
        let began = Instant::now();
        watch.tick().tick_after(1.0);
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        assert!(watch.has_note(Note::GAP, "proc/vmstat: did not answer for 0.3 s"), "{:?}", watch.notes);
        assert_eq!(watch.value("system.load_1", ""), 0.5);
        assert!(watch.value("memory.total_bytes", "") > 0.0);
        // the thread left behind returns, ends, and the file is read again
        drop(File::options().write(true).open(&pipe).unwrap());
        fs::remove_file(&pipe).unwrap();
        machine.put_file("proc/vmstat", "pgfault 1000\n");
        // the thread needs a moment
        let is_read = |watch: &mut crate::live::fake::FakeWatch| {
            std::thread::yield_now();
            watch.tick_after(10.0).has_note(Note::GAP, "proc/vmstat can be read again")
        };
        assert!((0..500).any(|_| is_read(&mut watch)), "{} notes", watch.notes.len());
    }

    #[test]
    fn a_process_whose_files_block_is_left_out_and_named() {
        let machine = FakeMachine::new();
        machine.put_ordinary_files();
        put_blocking_file(&machine, "proc/77/stat");
        let stat =
            |pid: u32, ticks: u32| format!("{pid} (busy) R 1 1 1 0 -1 0 0 0 0 0 {ticks} 0 0 0 20 0 1 0 10 1000 10 0\n");
        machine.put_file("proc/78/stat", stat(78, 100));
        let mut watch = machine.watch_default();
        watch.tick();
        assert!(watch.has_note(Note::GAP, "process 77 waits in the kernel"), "{:?}", watch.notes);
        for ticks in [200, 300, 400, 500] {
            machine.put_file("proc/78/stat", stat(78, ticks));
            watch.tick_after(10.0);
        }
        let table = watch.last_processes().expect("a table");
        assert!(table.rows.iter().any(|row| row.pid == 78), "{table:?}");
        assert_eq!(watch.notes_of_kind(Note::GAP).iter().filter(|note| note.contains("process 77")).count(), 1);
    }

    #[test]
    fn a_tick_is_given_up_when_sampling_stops() {
        let machine = FakeMachine::new();
        machine.put_ordinary_files();
        put_blocking_file(&machine, "proc/stat");
        let mut watch = machine.watch_default();
        assert!(!watch.sampler.tick_while(&|| false));
        assert!(watch.sampler.row().iter().all(|cell| cell.is_nan()));
    }

    #[test]
    fn files_of_a_process_are_refused_together() {
        let roots = Roots::default();
        let refused = |path: &str| refused_path(&roots, Path::new(path)).display().to_string();
        assert_eq!(refused("/proc/77/task/78/stat"), "/proc/77");
        assert_eq!(refused("/proc/vmstat"), "/proc/vmstat");
        assert_eq!(refused("/proc/self/mountinfo"), "/proc/self/mountinfo");
        assert_eq!(refused("/sys/block/sda/size"), "/sys/block/sda/size");
    }
}
