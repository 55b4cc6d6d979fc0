//! Syncing of ticks and blocks to the device, in a separate thread, because a
//! sync on a busy disk can take as long as a hundred ticks.

use std::fs::File;
use std::io;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use diskwright_base::Note;

use super::LogWriter;
use crate::record_file::{RecordFile, WriteFault};
use crate::retention::{self, RetentionLimits};

/// Stack of the thread: the default of 2 MiB is much where the address space is limited (`ulimit -v`).
const STACK_BYTES: usize = 256 << 10;
/// State of the log when a sync was requested.
#[derive(Debug)]
struct SyncRequest {
    /// Number of ticks of the log.
    ticks: u64,
    /// Ticks before this number are in blocks.
    ticks_in_blocks: u64,
    /// Number of segments that waited to be deleted.
    expired_segments: usize,
}

/// Requests to the thread, and its answers.
type ThreadChannels = (Receiver<Vec<Arc<File>>>, Sender<io::Result<()>>);

/// Sync state of a log, and the thread that syncs it.
#[derive(Debug)]
pub(super) struct DeviceSync {
    interval: Duration,
    /// Time of the last sync request.
    last_request: Instant,
    requests: Sender<Vec<Arc<File>>>,
    answers: Mutex<Receiver<io::Result<()>>>,
    /// The thread's ends of both channels until it is started.
    unstarted: Mutex<Option<ThreadChannels>>,
    in_flight: Option<SyncRequest>,
    /// Segments that were closed since the last request.
    unsynced_files: Vec<Arc<File>>,
    /// Ticks before this number are in blocks.
    ticks_in_blocks: u64,
    /// Ticks before this number are in blocks that are on the device.
    synced_ticks_in_blocks: u64,
    failed: bool,
}

impl DeviceSync {
    /// Nothing is to be synced yet. The thread starts with the first request: the log's writer, which may be a thread
    /// too, comes first where threads are short.
    pub fn new(interval: Duration) -> DeviceSync {
        let (requests, received_requests) = channel();
        let (answer_sender, answers) = channel();
        DeviceSync {
            interval,
            last_request: Instant::now(),
            requests,
            answers: Mutex::new(answers),
            unstarted: Mutex::new(Some((received_requests, answer_sender))),
            in_flight: None,
            unsynced_files: Vec::new(),
            ticks_in_blocks: 0,
            synced_ticks_in_blocks: 0,
            failed: false,
        }
    }

    /// Requests a sync of these files.
    fn send_request(&mut self, files: Vec<Arc<File>>) {
        let unstarted = self.unstarted.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((received, done)) = unstarted {
            let sync_files = move || {
                for files in received {
                    let result = files.iter().try_for_each(|file| sync_file(file));
                    if done.send(result).is_err() {
                        return;
                    }
                }
            };
            // If the thread cannot be started, the channels are closed, and the answer is an error.
            let _ = std::thread::Builder::new().name("sync".into()).stack_size(STACK_BYTES).spawn(sync_files);
        }
        // If the thread has ended, the answer is an error.
        let _ = self.requests.send(files);
    }

    /// Adds a closed segment that is not synced yet.
    pub fn add_closed_file(&mut self, out: &RecordFile) {
        self.unsynced_files.push(Arc::clone(out.file()));
    }

    /// Returns the request in flight and its result, if it has finished.
    fn poll_answer(&mut self) -> Option<(SyncRequest, io::Result<()>)> {
        self.in_flight.as_ref()?;
        let received = self.answers.lock().map(|answers| answers.try_recv());
        let result = match received {
            Ok(Ok(result)) => result,
            Ok(Err(TryRecvError::Empty)) => return None,
            Ok(Err(TryRecvError::Disconnected)) | Err(_) => Err(io::Error::other("the sync thread has ended")),
        };
        self.in_flight.take().map(|request| (request, result))
    }
}

/// Syncs a file's data, or a folder's entries.
fn sync_file(file: &File) -> io::Result<()> {
    if !file.metadata()?.is_dir() {
        return file.sync_data();
    }
    match file.sync_all() {
        // Some filesystems cannot sync a folder, and need not.
        Err(e) if matches!(e.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
        other => other,
    }
}

impl LogWriter {
    /// Notes that blocks contain all ticks of the tail. Without syncs the tail is cut at
    /// once, otherwise when the device has the block.
    pub(super) fn mark_tail_in_blocks(&mut self) -> Result<(), WriteFault> {
        if let Some(sync) = &mut self.device_sync {
            sync.ticks_in_blocks = self.next_numbers.tick;
            let Some(tail) = &mut self.tail else { return Ok(()) };
            tail.mark_all_in_blocks();
            return if tail.exceeds_limit() { self.sync_now() } else { Ok(()) };
        }
        self.tail.as_mut().map_or(Ok(()), |tail| tail.cut_to_base())
    }

    /// Applies the result of a finished sync: cuts the tail, deletes old segments.
    pub(super) fn apply_sync_answer(&mut self) -> Result<(), WriteFault> {
        let Some(sync) = &mut self.device_sync else { return Ok(()) };
        if let Some((request, result)) = sync.poll_answer() {
            assert!(
                request.ticks <= self.next_numbers.tick && request.ticks_in_blocks <= sync.ticks_in_blocks,
                "only what was written is synced"
            );
            match result {
                Ok(()) => {
                    sync.synced_ticks_in_blocks = sync.synced_ticks_in_blocks.max(request.ticks_in_blocks);
                    sync.failed = false;
                    self.ledger.durable_ticks = self.ledger.durable_ticks.max(request.ticks);
                    let deletable = self
                        .expired_segments
                        .drain(..request.expired_segments.min(self.expired_segments.len()))
                        .collect();
                    retention::delete_segments(deletable).map_err(WriteFault::Fatal)?;
                }
                Err(error) => self.report_sync_failure(&error),
            }
        }
        self.cut_finished_tail()
    }

    fn report_sync_failure(&mut self, error: &io::Error) {
        let Some(sync) = &mut self.device_sync else { return };
        if !std::mem::replace(&mut sync.failed, true) {
            let text = format!("the log could not be synced ({error}); a power cut may now lose more ticks");
            self.add_remark(Note::WARNING, text);
        }
    }

    fn cut_finished_tail(&mut self) -> Result<(), WriteFault> {
        let (Some(sync), Some(tail)) = (&self.device_sync, &mut self.tail) else { return Ok(()) };
        assert!(sync.synced_ticks_in_blocks <= sync.ticks_in_blocks, "only what was written is synced");
        if tail.is_all_in_blocks() && sync.synced_ticks_in_blocks == sync.ticks_in_blocks {
            tail.cut_to_base()
        } else {
            Ok(())
        }
    }

    /// Requests a sync, if one is due and none is in flight.
    pub(super) fn request_sync(&mut self) {
        let Some(sync) = &mut self.device_sync else { return };
        let is_due = sync.ticks_in_blocks > sync.synced_ticks_in_blocks && !sync.failed
            || sync.last_request.elapsed() >= sync.interval;
        if sync.in_flight.is_some() || !is_due && self.expired_segments.is_empty() {
            return;
        }
        sync.last_request = Instant::now();
        let request = SyncRequest {
            ticks: self.next_numbers.tick,
            ticks_in_blocks: sync.ticks_in_blocks,
            expired_segments: self.expired_segments.len(),
        };
        let files = self.collect_files();
        if let Some(sync) = &mut self.device_sync {
            sync.in_flight = Some(request);
            sync.send_request(files);
        }
    }

    /// Returns the files to be synced, in this order.
    fn collect_files(&mut self) -> Vec<Arc<File>> {
        let mut files =
            self.device_sync.as_mut().map(|sync| std::mem::take(&mut sync.unsynced_files)).unwrap_or_default();
        files.extend(self.segment.as_ref().map(|segment| Arc::clone(segment.record_file().file())));
        files.push(Arc::clone(&self.ledger_file.file));
        files.extend(self.tail.as_ref().map(|tail| Arc::clone(tail.record_file().file())));
        files.push(Arc::clone(&self.folder.dir_file));
        files
    }

    /// Syncs everything, and waits for it.
    pub(super) fn sync_now(&mut self) -> Result<(), WriteFault> {
        for file in self.collect_files() {
            sync_file(&file).map_err(|e| WriteFault::from_io(&self.dir, e))?;
        }
        self.ledger.durable_ticks = self.next_numbers.tick;
        let Some(sync) = &mut self.device_sync else { return Ok(()) };
        sync.synced_ticks_in_blocks = sync.ticks_in_blocks;
        sync.last_request = Instant::now();
        self.cut_finished_tail()
    }

    /// Chooses the segments beyond the retention limits, and counts them in the ledger.
    pub(super) fn expire_segments(&mut self) -> Result<(), WriteFault> {
        let age_ns = self.options.keep_age.map(|age| u64::try_from(age.as_nanos()).unwrap_or(u64::MAX));
        let keep = RetentionLimits { max_bytes: self.options.keep_bytes, max_age_ns: age_ns };
        // Segments that wait to be deleted still exist, but must not be counted again.
        let waiting = std::mem::take(&mut self.expired_segments);
        self.folder.release_descriptors();
        let chosen = retention::choose_expired(&self.dir, keep, &waiting, &mut self.ages, &mut self.ledger);
        self.folder.retake_descriptor();
        self.expired_segments = waiting;
        self.expired_segments.extend(chosen.map_err(WriteFault::from_store_error)?);
        self.write_ledger();
        if self.device_sync.is_none() {
            return retention::delete_segments(std::mem::take(&mut self.expired_segments)).map_err(WriteFault::Fatal);
        }
        Ok(())
    }
}
