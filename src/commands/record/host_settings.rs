//! Settings of the host, noted in the log at the start and after changes, so that `advise` can judge a log from another
//! host. A separate thread reads them: a device in trouble may respond slowly, and sampling must not wait.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use diskwright_advise::HostTree;
use diskwright_base::Note;
use diskwright_counters::live::{Clock, SystemClock};

/// Interval between checks; settings are changed by people.
const CHECK_INTERVAL: Duration = Duration::from_secs(300);

/// Notes of the thread that watches settings.
#[derive(Clone, Default)]
pub struct HostSettingsThread {
    notes: Arc<Mutex<Vec<Note>>>,
}

impl HostSettingsThread {
    /// Starts the thread, which ends with the program.
    pub fn start() -> std::io::Result<HostSettingsThread> {
        let facts = HostSettingsThread::default();
        let notes = Arc::clone(&facts.notes);
        thread::Builder::new()
            .name("facts".into())
            .stack_size(crate::commands::process_limits::SMALL_STACK_BYTES)
            .spawn(move || {
                let mut last = None;
                while Arc::strong_count(&notes) > 1 {
                    let tree = HostTree::read(Path::new("/")).for_log();
                    let stable_tree = tree.without_moving();
                    if last.as_ref() != Some(&stable_tree)
                        && let Ok(text) = serde_json::to_string(&tree)
                    {
                        let note = Note::new(SystemClock.read_clocks().wall_ns, Note::HOST, text);
                        notes.lock().unwrap_or_else(PoisonError::into_inner).push(note);
                        last = Some(stable_tree);
                    }
                    thread::park_timeout(CHECK_INTERVAL);
                }
            })?;
        Ok(facts)
    }

    /// Returns the notes since the last call.
    pub fn take_notes(&self) -> Vec<Note> {
        std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
