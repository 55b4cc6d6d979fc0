//! Alerts of logs that are on the screen: a thread of its own looks for them, so that the screen comes at once.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use diskwright_base::{LogPiece, Note};
use diskwright_counters::live::{Clock, SystemClock};

use super::super::Failure;
use super::super::alerts::AlertDesk;
use super::super::log::Logs;

/// How far a log is looked back on: one that ended, and one that is being recorded, whose recorder must not be
/// robbed of processor time.
const ENDED_NS: i64 = 86_400_000_000_000;
const GROWING_NS: i64 = 3_600_000_000_000;
/// How often a log is asked for more.
const NAP: Duration = Duration::from_millis(500);

/// Alerts found so far.
pub struct LogAlerts {
    found: Receiver<Note>,
    notes: Vec<Note>,
}

impl LogAlerts {
    /// Begins to look. Of what was before now nobody is told.
    pub fn start(logs: Logs, grows: bool, desk: AlertDesk) -> Result<LogAlerts, Failure> {
        let (sender, found) = channel();
        let desk = desk.act_from(SystemClock.read().wall_ns);
        let look = move || {
            if let Err(failure) = look(logs, grows, desk, &sender) {
                super::super::output::warn(failure);
            }
        };
        std::thread::Builder::new().name("log-alerts".into()).spawn(look)?;
        Ok(LogAlerts { found, notes: Vec::new() })
    }

    /// Takes in what was found; true where there was anything.
    pub fn take(&mut self) -> bool {
        let before = self.notes.len();
        while let Ok(note) = self.found.try_recv() {
            self.notes.push(note);
        }
        self.notes.len() > before
    }

    /// Waits until a log that has ended was looked through.
    pub fn wait(&mut self) {
        while let Ok(note) = self.found.recv() {
            self.notes.push(note);
        }
    }

    /// What was found in a stretch.
    pub fn read(&self, (from_ns, to_ns): (i64, i64), each: &mut dyn FnMut(LogPiece<'_>)) {
        let inside = self.notes.iter().filter(|note| (from_ns..=to_ns).contains(&note.time_ns));
        inside.for_each(|note| each(LogPiece::Note(note.clone())));
    }
}

fn look(mut logs: Logs, grows: bool, mut desk: AlertDesk, found: &Sender<Note>) -> Result<(), Failure> {
    let back_ns = if grows { GROWING_NS } else { ENDED_NS };
    let mut range = (logs.range.0.max(logs.range.1.saturating_sub(back_ns)), logs.range.1);
    loop {
        if !scan(&logs, range, &mut desk, found)? || !grows {
            return Ok(());
        }
        loop {
            std::thread::sleep(NAP);
            logs.grow()?;
            if logs.range.1 > range.1 {
                range = (range.1 + 1, logs.range.1);
                break;
            }
            for event in desk.clock(SystemClock.read().wall_ns) {
                if found.send(event.note()).is_err() {
                    return Ok(());
                }
            }
        }
    }
}

/// Looks through a stretch; false where nobody wants to know any more.
fn scan(logs: &Logs, range: (i64, i64), desk: &mut AlertDesk, found: &Sender<Note>) -> Result<bool, Failure> {
    let mut is_wanted = true;
    logs.read_between(range, |piece| {
        match piece {
            LogPiece::Note(note) => desk.note(&note),
            LogPiece::Frame(frame) => {
                for event in desk.frame(frame) {
                    is_wanted &= found.send(event.note()).is_ok();
                }
            }
        }
        if is_wanted { Ok(()) } else { Err(Failure::ClosedPipe) }
    })
    .or_else(|failure| if matches!(failure, Failure::ClosedPipe) { Ok(()) } else { Err(failure) })?;
    Ok(is_wanted)
}
