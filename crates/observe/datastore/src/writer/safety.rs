//! Syncing of ticks and blocks to the device, in a separate thread, because a
//! sync on a busy disk can take as long as a hundred ticks.

use std::fs::File;
use std::io;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use diskwright_base::Note;

use super::LogWriter;
use crate::output::{RecordOutput, WriteFault};
use crate::retention::{self, RetentionLimits};

/// State of the log when a sync was requested.
#[derive(Debug)]
struct SyncRequest {
    /// Number of ticks of the log.
    ticks: u64,
    /// Ticks before this number are in blocks.
    blocks: u64,
    /// Number of segments that waited to be deleted.
    victims: usize,
}

/// Sync state of a log, and the thread that syncs it.
#[derive(Debug)]
pub(super) struct Safety {
    every: Duration,
    /// Time of the last sync request.
    last: Instant,
    orders: Sender<Vec<Arc<File>>>,
    answers: Mutex<Receiver<io::Result<()>>>,
    asked: Option<SyncRequest>,
    /// Segments that were closed since then.
    owed: Vec<Arc<File>>,
    /// Ticks before this number are in blocks.
    blocks: u64,
    /// Ticks before this number are in blocks that are on the device.
    synced_blocks: u64,
    failed: bool,
}

impl Safety {
    /// Starts the sync thread, with nothing to be synced yet.
    pub fn new(every: Duration) -> Safety {
        let (orders, received) = channel::<Vec<Arc<File>>>();
        let (done, answers) = channel();
        // If the thread cannot be started, the channels are closed, and the first answer is an error.
        let _ = std::thread::Builder::new().name("sync".into()).spawn(move || {
            for files in received {
                let result = files.iter().try_for_each(|file| sync(file));
                if done.send(result).is_err() {
                    return;
                }
            }
        });
        Safety {
            every,
            last: Instant::now(),
            orders,
            answers: Mutex::new(answers),
            asked: None,
            owed: Vec::new(),
            blocks: 0,
            synced_blocks: 0,
            failed: false,
        }
    }

    /// Adds a closed segment that is not synced yet.
    pub fn owe(&mut self, out: &RecordOutput) {
        self.owed.push(Arc::clone(out.file()));
    }

    /// Returns the request in flight and its result, if it has finished.
    fn answer(&mut self) -> Option<(SyncRequest, io::Result<()>)> {
        self.asked.as_ref()?;
        let received = self.answers.lock().map(|answers| answers.try_recv());
        let result = match received {
            Ok(Ok(result)) => result,
            Ok(Err(TryRecvError::Empty)) => return None,
            Ok(Err(TryRecvError::Disconnected)) | Err(_) => Err(io::Error::other("the sync thread has ended")),
        };
        self.asked.take().map(|asked| (asked, result))
    }
}

/// Syncs a file's data, or a folder's entries.
fn sync(file: &File) -> io::Result<()> {
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
    pub(super) fn pass_tail(&mut self) -> Result<(), WriteFault> {
        if let Some(safety) = &mut self.safety {
            safety.blocks = self.next.tick;
            let Some(tail) = &mut self.tail else { return Ok(()) };
            tail.pass();
            return if tail.is_long() { self.sync_now() } else { Ok(()) };
        }
        self.tail.as_mut().map_or(Ok(()), |tail| tail.cut())
    }

    /// Applies the result of a finished sync: cuts the tail, deletes old segments.
    pub(super) fn hear_device(&mut self) -> Result<(), WriteFault> {
        let Some(safety) = &mut self.safety else { return Ok(()) };
        if let Some((asked, result)) = safety.answer() {
            assert!(asked.ticks <= self.next.tick && asked.blocks <= safety.blocks, "only what was written is synced");
            match result {
                Ok(()) => {
                    safety.synced_blocks = safety.synced_blocks.max(asked.blocks);
                    safety.failed = false;
                    self.ledger.durable = self.ledger.durable.max(asked.ticks);
                    let deletable = self.victims.drain(..asked.victims.min(self.victims.len())).collect();
                    retention::delete(deletable).map_err(WriteFault::Fatal)?;
                }
                Err(error) => self.sync_failed(&error),
            }
        }
        self.cut_tail()
    }

    fn sync_failed(&mut self, error: &io::Error) {
        let Some(safety) = &mut self.safety else { return };
        if !std::mem::replace(&mut safety.failed, true) {
            let text = format!("the log could not be synced ({error}); a power cut may now lose more ticks");
            self.tell(Note::WARNING, text);
        }
    }

    fn cut_tail(&mut self) -> Result<(), WriteFault> {
        let (Some(safety), Some(tail)) = (&self.safety, &mut self.tail) else { return Ok(()) };
        assert!(safety.synced_blocks <= safety.blocks, "only what was written is synced");
        if tail.is_done() && safety.synced_blocks == safety.blocks { tail.cut() } else { Ok(()) }
    }

    /// Requests a sync, if one is due and none is in flight.
    pub(super) fn ask_device(&mut self) {
        let Some(safety) = &mut self.safety else { return };
        let due = safety.blocks > safety.synced_blocks && !safety.failed || safety.last.elapsed() >= safety.every;
        if safety.asked.is_some() || !due && self.victims.is_empty() {
            return;
        }
        safety.last = Instant::now();
        let asked = SyncRequest { ticks: self.next.tick, blocks: safety.blocks, victims: self.victims.len() };
        let files = self.files();
        if let Some(safety) = &mut self.safety {
            safety.asked = Some(asked);
            // If the thread has ended, the next answer is an error.
            let _ = safety.orders.send(files);
        }
    }

    /// Returns the files to be synced, in this order.
    fn files(&mut self) -> Vec<Arc<File>> {
        let mut files = self.safety.as_mut().map(|safety| std::mem::take(&mut safety.owed)).unwrap_or_default();
        files.extend(self.segment.as_ref().map(|segment| Arc::clone(segment.out().file())));
        files.push(Arc::clone(&self.ledger_file.file));
        files.extend(self.tail.as_ref().map(|tail| Arc::clone(tail.out().file())));
        files.push(Arc::clone(&self.home.folder));
        files
    }

    /// Syncs everything, and waits for it.
    pub(super) fn sync_now(&mut self) -> Result<(), WriteFault> {
        for file in self.files() {
            sync(&file).map_err(|e| WriteFault::sort(&self.dir, e))?;
        }
        self.ledger.durable = self.next.tick;
        let Some(safety) = &mut self.safety else { return Ok(()) };
        safety.synced_blocks = safety.blocks;
        safety.last = Instant::now();
        self.cut_tail()
    }

    /// Chooses the segments beyond the retention limits, and counts them in the ledger.
    pub(super) fn trim(&mut self) -> Result<(), WriteFault> {
        let age_ns = self.options.keep_age.map(|age| u64::try_from(age.as_nanos()).unwrap_or(u64::MAX));
        let keep = RetentionLimits { bytes: self.options.keep_bytes, age_ns };
        // Segments that wait to be deleted still exist, but must not be counted again.
        let waiting = std::mem::take(&mut self.victims);
        let chosen = retention::choose(&self.dir, keep, &waiting, &mut self.ages, &mut self.ledger);
        self.victims = waiting;
        self.victims.extend(chosen.map_err(WriteFault::Fatal)?);
        self.put_ledger();
        if self.safety.is_none() {
            return retention::delete(std::mem::take(&mut self.victims)).map_err(WriteFault::Fatal);
        }
        Ok(())
    }
}
