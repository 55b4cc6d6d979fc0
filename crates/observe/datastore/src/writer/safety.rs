//! What the device has: ticks and blocks are synced, in a thread of its own,
//! because a sync on a busy disk takes as long as a tick or a hundred.

use std::fs::File;
use std::io;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use diskwright_base::Note;

use super::LogWriter;
use crate::output::{RecordOutput, WriteFault};
use crate::retention::{self, RetentionLimits};

/// What the device was asked to have.
#[derive(Debug)]
struct SyncRequest {
    /// Ticks of the log up to then, and those in blocks.
    ticks: u64,
    blocks: u64,
    /// So many segments were to be deleted.
    victims: usize,
}

/// The state of a log on its device.
#[derive(Debug)]
pub(super) struct Safety {
    every: Duration,
    /// When the device was last asked.
    last: Instant,
    orders: Sender<Vec<Arc<File>>>,
    answers: Mutex<Receiver<io::Result<()>>>,
    asked: Option<SyncRequest>,
    /// Segments that were closed since.
    owed: Vec<Arc<File>>,
    /// Ticks before this are in blocks; and of these the device has so many.
    blocks: u64,
    synced_blocks: u64,
    failed: bool,
}

impl Safety {
    /// Nothing is to be synced yet.
    pub fn new(every: Duration) -> Safety {
        let (orders, work) = channel::<Vec<Arc<File>>>();
        let (done, answers) = channel();
        // Where no thread can be had, the orders go nowhere, and the first answer says so.
        let _ = std::thread::Builder::new().name("sync".into()).spawn(move || {
            for files in work {
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

    /// A segment that was closed is still to be synced.
    pub fn owe(&mut self, out: &RecordOutput) {
        self.owed.push(Arc::clone(out.file()));
    }

    /// The answer to what was asked, where there is one.
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

/// A folder has no data of its own: its names are what counts.
fn sync(file: &File) -> io::Result<()> {
    if !file.metadata()?.is_dir() {
        return file.sync_data();
    }
    match file.sync_all() {
        // Some filesystems cannot, and need not.
        Err(e) if matches!(e.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
        other => other,
    }
}

impl LogWriter {
    /// A block has what the tail holds. The tail is cut at once where nothing
    /// is synced, else when the device has the block.
    pub(super) fn pass_tail(&mut self) -> Result<(), WriteFault> {
        if let Some(safety) = &mut self.safety {
            safety.blocks = self.next.tick;
            let Some(tail) = &mut self.tail else { return Ok(()) };
            tail.pass();
            return if tail.is_long() { self.sync_now() } else { Ok(()) };
        }
        self.tail.as_mut().map_or(Ok(()), |tail| tail.cut())
    }

    /// Takes in what the device answered: cuts the tail, deletes old segments.
    pub(super) fn hear_device(&mut self) -> Result<(), WriteFault> {
        let Some(safety) = &mut self.safety else { return Ok(()) };
        if let Some((asked, result)) = safety.answer() {
            assert!(asked.ticks <= self.next.tick && asked.blocks <= safety.blocks, "only what was written is synced");
            match result {
                Ok(()) => {
                    safety.synced_blocks = safety.synced_blocks.max(asked.blocks);
                    safety.failed = false;
                    self.ledger.durable = self.ledger.durable.max(asked.ticks);
                    let sure = self.victims.drain(..asked.victims.min(self.victims.len())).collect();
                    retention::delete(sure).map_err(WriteFault::Fatal)?;
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

    /// Asks the device, where it is time to.
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
            // Where the thread is gone, the answer tells.
            let _ = safety.orders.send(files);
        }
    }

    /// Files to be synced, in this order.
    fn files(&mut self) -> Vec<Arc<File>> {
        let mut files = self.safety.as_mut().map(|safety| std::mem::take(&mut safety.owed)).unwrap_or_default();
        files.extend(self.segment.as_ref().map(|segment| Arc::clone(segment.out().file())));
        files.push(Arc::clone(&self.ledger_file.file));
        files.extend(self.tail.as_ref().map(|tail| Arc::clone(tail.out().file())));
        files.push(Arc::clone(&self.home.folder));
        files
    }

    /// Waits until the device has everything.
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

    /// Chooses the segments that are too old or too many; the ledger tells of them.
    pub(super) fn trim(&mut self) -> Result<(), WriteFault> {
        let age_ns = self.options.keep_age.map(|age| u64::try_from(age.as_nanos()).unwrap_or(u64::MAX));
        let keep = RetentionLimits { bytes: self.options.keep_bytes, age_ns };
        // Those that wait to be deleted are still there, and count no more.
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
