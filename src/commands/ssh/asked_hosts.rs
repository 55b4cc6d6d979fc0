//! Receives the ticks of several hosts at once, each into a log of its own. A host that hangs does not hold the others.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use diskwright_base::units::format_count;
use diskwright_datastore::{StreamItem, WriterOptions};
use diskwright_sshhosts::{AskWay, ConnectOptions, ConnectionKiller, HostStream, SshTarget};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::received_log::ReceivedLog;
use crate::commands::{Failure, output, pacer};

/// Largest number of connections that are being opened at once: sshd refuses some beyond ten (`MaxStartups`).
const MAX_OPENING: usize = 8;
/// Time after the end of the collection when a host that still sends is cut off.
const GRACE: Duration = Duration::from_secs(20);
/// Time without anything from a host after which its connection counts as dead, at ticks of a second; longer at longer
/// ticks.
const MAX_SILENCE: Duration = Duration::from_secs(20);
/// The same in ticks.
const MAX_SILENT_TICKS: u32 = 4;
/// Pause before a recording connects again, and the longest such pause.
const RETRY_PAUSE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(60));
/// Interval of checks by the main thread.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// What was received of a host.
pub struct HostRecord {
    /// The host.
    pub target: SshTarget,
    /// Its log.
    pub dir: PathBuf,
    /// Ticks that arrived.
    pub ticks: u64,
    /// Those of them that the log's disk did not accept.
    pub lost_ticks: u64,
    /// The way in which it was asked; `None` if it never answered.
    pub way: Option<AskWay>,
    /// Why the connection ended early, as often as it did.
    pub breaks: Vec<String>,
    /// Why nothing could be received, or kept.
    pub failure: Option<String>,
}

/// A host whose connection is open.
struct RunningHost {
    index: usize,
    /// When the connection must have ended.
    due: Instant,
    /// When something arrived last.
    heard: Instant,
    killer: ConnectionKiller,
}

/// What the threads share.
struct Collection {
    options: ConnectOptions,
    writer: WriterOptions,
    /// Connect again after a break, and until the time is over.
    is_recording: bool,
    started: Instant,
    stop: Arc<AtomicBool>,
    opening: Mutex<usize>,
    opened: Condvar,
    /// Connections that are open.
    running: Mutex<Vec<RunningHost>>,
}

/// Receives the ticks of hosts into logs, until the time is over or a signal asks to stop; with `is_recording`, it
/// connects again where a connection ends early. `folder` gives each host's folder.
///
/// # Errors
/// When no thread can be started.
pub fn collect_hosts(
    targets: &[SshTarget],
    how: (ConnectOptions, WriterOptions),
    is_recording: bool,
    folder: impl Fn(&SshTarget) -> PathBuf,
) -> Result<Vec<HostRecord>, Failure> {
    let hosts = format_count(targets.len() as u64, "host", "hosts");
    let bar = pacer::watch_progress_bar(how.0.lasts, format!("watching {hosts} over ssh"));
    let records = collect_with(targets, how, is_recording, folder, &|elapsed| bar.set_position(elapsed.as_secs()));
    bar.finish_and_clear();
    records
}

/// As [`collect_hosts`], without a progress bar, beside a screen.
///
/// # Errors
/// When no thread can be started.
pub fn collect_quietly(
    targets: &[SshTarget],
    how: (ConnectOptions, WriterOptions),
    is_recording: bool,
    folder: impl Fn(&SshTarget) -> PathBuf,
) -> Result<Vec<HostRecord>, Failure> {
    collect_with(targets, how, is_recording, folder, &|_| {})
}

fn collect_with(
    targets: &[SshTarget],
    (options, writer): (ConnectOptions, WriterOptions),
    is_recording: bool,
    folder: impl Fn(&SshTarget) -> PathBuf,
    on_wake: &dyn Fn(Duration),
) -> Result<Vec<HostRecord>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let collection = Collection {
        options,
        writer,
        is_recording,
        started: Instant::now(),
        stop,
        opening: Mutex::new(0),
        opened: Condvar::new(),
        running: Mutex::default(),
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = targets
            .iter()
            .enumerate()
            .map(|(index, target)| {
                let (dir, collection) = (folder(target), &collection);
                let run = move || collection.receive_host(index, target, &dir);
                std::thread::Builder::new().name("ssh host".into()).spawn_scoped(scope, run)
            })
            .collect();
        while threads.iter().flatten().any(|thread| !thread.is_finished()) {
            pacer::sleep_interruptibly(CHECK_INTERVAL);
            on_wake(collection.started.elapsed());
            collection.cut_overdue();
        }
        let joined = threads.into_iter().map(|thread| {
            thread
                .map_err(Failure::from)
                .and_then(|thread| thread.join().map_err(|_| Failure::Failed("a thread failed".into())))
        });
        joined.collect()
    })
}

impl Collection {
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Ends connections whose time is over or that are silent, and all of them after a signal.
    fn cut_overdue(&self) {
        if self.is_stopped() {
            self.options.open.kill_all();
            return;
        }
        let now = Instant::now();
        let running = self.lock_running();
        let is_over = |host: &&RunningHost| host.due <= now || now.duration_since(host.heard) > self.max_silence();
        running.iter().filter(is_over).for_each(|host| host.killer.kill());
    }

    fn max_silence(&self) -> Duration {
        MAX_SILENCE.max(self.options.every * MAX_SILENT_TICKS)
    }

    fn lock_running(&self) -> std::sync::MutexGuard<'_, Vec<RunningHost>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn receive_host(&self, index: usize, target: &SshTarget, dir: &Path) -> HostRecord {
        let mut record = HostRecord {
            target: target.clone(),
            dir: dir.to_owned(),
            ticks: 0,
            lost_ticks: 0,
            way: None,
            breaks: Vec::new(),
            failure: None,
        };
        if let Err(failure) = self.receive_log(index, &mut record) {
            record.failure = Some(failure.to_string());
        }
        record
    }

    fn receive_log(&self, index: usize, record: &mut HostRecord) -> Result<(), Failure> {
        let mut log = None;
        let mut pause = RETRY_PAUSE.0;
        loop {
            let ticks = record.ticks;
            match self.receive_once(index, record, &mut log) {
                Ok(()) => break,
                Err(failure) if record.way.is_none() => return Err(failure),
                Err(failure) => record.breaks.push(failure.to_string()),
            }
            if let (Some(log), Some(because)) = (&mut log, record.breaks.last()) {
                log.note_break(because)?;
            }
            pause = if record.ticks > ticks { RETRY_PAUSE.0 } else { (pause * 2).min(RETRY_PAUSE.1) };
            if !self.is_recording || !self.wait(pause) {
                break;
            }
        }
        log.map_or(Ok(()), ReceivedLog::finish).map_err(Failure::from)
    }

    /// Waits; false if there is no time left, or a signal asked to stop.
    fn wait(&self, pause: Duration) -> bool {
        let end = Instant::now() + pause;
        while Instant::now() < end && !self.is_stopped() {
            pacer::sleep_interruptibly(CHECK_INTERVAL);
        }
        !self.is_stopped() && self.time_left().is_none_or(|left| left >= self.options.every)
    }

    fn time_left(&self) -> Option<Duration> {
        Some(self.options.lasts?.saturating_sub(self.started.elapsed()))
    }

    /// Receives until the host has sent all, or the connection ends.
    fn receive_once(
        &self,
        index: usize,
        record: &mut HostRecord,
        log: &mut Option<ReceivedLog>,
    ) -> Result<(), Failure> {
        // the first connection lasts as long as was asked for, however long it took to open
        let lasts = if record.way.is_some() { self.time_left() } else { self.options.lasts };
        let options = ConnectOptions { lasts, ..self.options.clone() };
        let mut stream = self.open_stream(&record.target, &options)?;
        record.way = Some(stream.way().clone());
        let due = lasts.map(|lasts| Instant::now() + lasts + GRACE);
        let due = due.unwrap_or_else(|| Instant::now() + Duration::from_secs(u64::from(u32::MAX)));
        self.lock_running().push(RunningHost { index, due, heard: Instant::now(), killer: stream.killer() });
        let received = self.receive_items(&mut stream, (index, record), log, lasts);
        self.lock_running().retain(|host| host.index != index);
        received
    }

    fn receive_items(
        &self,
        stream: &mut HostStream,
        (index, record): (usize, &mut HostRecord),
        log: &mut Option<ReceivedLog>,
        lasts: Option<Duration>,
    ) -> Result<(), Failure> {
        let begin = Instant::now();
        let mut heard = begin;
        loop {
            match stream.next_item() {
                Ok(Some(item)) => {
                    heard = Instant::now();
                    self.lock_running()
                        .iter_mut()
                        .filter(|host| host.index == index)
                        .for_each(|host| host.heard = heard);
                    let log = match log {
                        Some(log) => log,
                        None => log.insert(ReceivedLog::open(&record.dir, self.writer.clone())?),
                    };
                    log.write_item(&item, stream)?;
                    if matches!(item, StreamItem::Tick { .. }) {
                        (record.ticks, record.lost_ticks) = (record.ticks + 1, log.lost_ticks);
                    }
                }
                _ if self.is_stopped() => return Ok(()),
                _ if heard.elapsed() > self.max_silence() => {
                    let seconds = self.max_silence().as_secs();
                    return Err(Failure::Failed(format!("it sent nothing for {seconds} s")));
                }
                Ok(None) => {
                    let is_whole = lasts.is_some_and(|lasts| begin.elapsed() + self.options.every * 2 >= lasts);
                    let seconds = begin.elapsed().as_secs();
                    return if is_whole { Ok(()) } else { Err(Failure::Failed(format!("it ended after {seconds} s"))) };
                }
                Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                    return Err(Failure::Failed(format!("it was cut after {} s", begin.elapsed().as_secs())));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Opens a connection, not too many at once.
    fn open_stream(&self, target: &SshTarget, options: &ConnectOptions) -> Result<HostStream, Failure> {
        let mut opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        while *opening >= MAX_OPENING {
            opening = self.opened.wait(opening).unwrap_or_else(PoisonError::into_inner);
        }
        *opening += 1;
        drop(opening);
        let stream = if self.is_stopped() {
            Err(Failure::Failed("stopped before it was asked".into()))
        } else {
            HostStream::open(target, options).map_err(Failure::from)
        };
        *self.opening.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.opened.notify_one();
        stream
    }
}

/// Number of hosts of which each is told by itself how it was asked.
const MAX_DESCRIBED: usize = 3;

/// Says how the hosts were asked, and what went wrong.
pub fn report_records(records: &[HostRecord]) {
    let count =
        |id: &str| records.iter().filter(|record| record.way.as_ref().is_some_and(|way| way.id() == id)).count();
    if records.len() > MAX_DESCRIBED {
        let [program, copied, shell] = ["program", "copied", "shell"].map(count);
        output::print_note(format_args!(
            "asked {program} by diskwright there, {copied} by a copy of this one, {shell} by a shell loop"
        ));
    }
    for HostRecord { target, way, breaks, failure, .. } in records {
        match (way, failure) {
            (_, Some(failure)) => output::print_warning(format_args!("{target}: {failure}")),
            (Some(way), None) if records.len() <= MAX_DESCRIBED => {
                output::print_note(format_args!("{target}: asked {}", way.describe()));
            }
            _ => {}
        }
        breaks.iter().for_each(|because| {
            output::print_warning(format_args!("{target}: the connection broke: {because}; what arrived is kept"));
        });
    }
}

/// What was received of a host, as JSON.
pub fn record_json(record: &HostRecord) -> serde_json::Value {
    let because = match &record.way {
        Some(AskWay::Shell { because, .. }) => Some(because),
        _ => None,
    };
    serde_json::json!({
        "host": record.target.as_str(),
        "way": record.way.as_ref().map(AskWay::id),
        "because": because,
        "ticks": record.ticks,
        "ticks_lost": record.lost_ticks,
        "breaks": record.breaks,
        "failure": record.failure,
    })
}
