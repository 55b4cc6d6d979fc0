//! `mark DIR TEXT`: adds a bookmark to a log, whether or not a recorder is running.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use clap::Args;
use diskwright_base::Note;
use diskwright_counters::live::{Clock, SystemClock};

use super::{Failure, output};

/// Time to wait for a stalled disk.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Arguments of `mark`.
#[derive(Args)]
pub struct Arguments {
    /// The log's folder
    dir: PathBuf,
    /// Text of the bookmark
    #[arg(required = true)]
    text: Vec<String>,
    /// Print what was written as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `mark`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let text = arguments.text.join(" ");
    if text.trim().is_empty() {
        return Err(Failure::Usage("a bookmark needs a text".into()));
    }
    let note = Note::new(SystemClock.read_clocks().wall_ns, Note::BOOKMARK, text);
    write_note(&arguments.dir, &note)?;
    if arguments.json {
        let time = super::time_argument::rfc3339(note.time_ns);
        let answer = serde_json::json!({ "schema": "diskwright.mark/1", "at": time, "text": note.text() });
        return output::print_json(&answer);
    }
    Ok(())
}

/// Writes in a separate thread, so that a disk that does not respond cannot block this one, which then reports it.
pub fn write_note(dir: &Path, note: &Note) -> Result<(), Failure> {
    let (done, answer) = channel();
    let (own_dir, own_note) = (dir.to_owned(), note.clone());
    let writes = move || {
        // the caller may have given up
        let _ = done.send(diskwright_datastore::add_bookmark(&own_dir, &own_note));
    };
    std::thread::Builder::new()
        .name("mark".into())
        .stack_size(crate::commands::process_limits::SMALL_STACK_BYTES)
        .spawn(writes)?;
    match answer.recv_timeout(WRITE_TIMEOUT) {
        Ok(written) => Ok(written?),
        Err(RecvTimeoutError::Disconnected) => {
            Err(Failure::Failed("the thread that writes the bookmark ended early".into()))
        }
        Err(RecvTimeoutError::Timeout) => Err(Failure::Failed(format!(
            "{}: its disk does not respond; the bookmark may not have been written (the kernel may keep this \
             process until the disk responds)",
            dir.display()
        ))),
    }
}
