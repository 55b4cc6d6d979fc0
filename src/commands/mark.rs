//! `mark DIR TEXT`: a bookmark in a log, whether or not a recorder runs.

use std::path::PathBuf;

use clap::Args;
use diskwright_base::Note;
use diskwright_counters::live::{Clock, SystemClock};

use super::{Failure, output};

/// Arguments of `mark`.
#[derive(Args)]
pub struct Arguments {
    /// The log's folder
    dir: PathBuf,
    /// What happens now, in your words
    #[arg(required = true)]
    text: Vec<String>,
    /// Print what was written as JSON
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let text = arguments.text.join(" ");
    if text.trim().is_empty() {
        return Err(Failure::Usage("a bookmark needs a text".into()));
    }
    let note = Note::new(SystemClock.read().wall_ns, Note::BOOKMARK, text);
    diskwright_datastore::mark(&arguments.dir, &note)?;
    if arguments.json {
        let at = super::when::rfc3339(note.time_ns);
        let answer = serde_json::json!({ "schema": "diskwright.mark/1", "at": at, "text": note.text });
        return output::json(&answer);
    }
    Ok(())
}
