//! `import FILE… --to DIR`: logs of other tools into one of ours.

use std::path::{Path, PathBuf};

use clap::Args;
use diskwright_logs::{Input, Skipped, Summary, prometheus};
use serde_json::{Value, json};

use super::foreign::{self, Reading};
use super::log::Window;
use super::store::{self, Asking};
use super::{Failure, output, when};

/// Arguments of `import`.
#[derive(Args)]
pub struct Arguments {
    /// Logs of any known format (`list formats`), oldest first; `-` is standard input
    #[arg(required_unless_present = "prometheus", conflicts_with = "prometheus", value_name = "FILE")]
    file: Vec<PathBuf>,
    /// The log to write: a folder, made or appended to
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    asking: Asking,
    /// Of a store: start of the window; the last hour where it is not given
    #[arg(long, requires = "prometheus", allow_hyphen_values = true, value_name = "TIME")]
    from: Option<String>,
    /// Of a store: end of the window; now where it is not given
    #[arg(long, requires = "prometheus", allow_hyphen_values = true, value_name = "TIME")]
    until: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut summaries = Vec::new();
    let store = PathBuf::from("the store");
    if arguments.asking.is_asked() {
        let window = Window::between(arguments.from.clone(), arguments.until.clone());
        let summary = store::fetch(&arguments.asking, &window, &arguments.to)?;
        if !arguments.json {
            output::text(&line(&store, &summary))?;
        }
        summaries.push((&store, summary));
    }
    let mut pages = prometheus::joined(&arguments.file);
    let files = if pages.is_some() { &arguments.file[..1] } else { &arguments.file[..] };
    for file in files {
        let input = pages.take().map_or_else(|| Input::open(file), Ok)?;
        let summary = foreign::import_input(file, input, &arguments.reading, &arguments.to)?;
        if !arguments.json {
            foreign::tell_skipped(file, &summary);
            output::text(&line(file, &summary))?;
        }
        summaries.push((file, summary));
    }
    if !arguments.json {
        return Ok(());
    }
    output::json(&document(&summaries))
}

fn line(file: &Path, summary: &Summary) -> String {
    let Summary { format, series, foreign, ticks, values, gaps, .. } = summary;
    let (from, to) = summary.range.unwrap_or_default();
    let span = format!("{} to {}", when::rfc3339(from), when::rfc3339(to));
    let known = if *foreign == 0 { String::new() } else { format!(" ({foreign} of counters not in the catalogue)") };
    let file = file.display();
    format!("{file}: {format}, {ticks} ticks, {series} series{known}, {values} values, {gaps} gaps, {span}\n")
}

/// The answer for all files together; `files` has each.
fn document(summaries: &[(&PathBuf, Summary)]) -> Value {
    let sum = |of: fn(&Summary) -> u64| summaries.iter().map(|(_, s)| of(s)).sum::<u64>();
    let mut formats: Vec<&str> = summaries.iter().map(|(_, s)| s.format).collect();
    formats.dedup();
    let ranges = || summaries.iter().filter_map(|(_, s)| s.range);
    let skipped: Vec<Value> = summaries.iter().flat_map(|(file, s)| skipped(file, s)).collect();
    let file =
        |(file, s): &(&PathBuf, Summary)| json!({ "file": file, "format": s.format, "host": s.host, "ticks": s.ticks });
    let files: Vec<Value> = summaries.iter().map(file).collect();
    json!({
        "schema": "diskwright.import/1",
        "format": formats.join(", "),
        "series": summaries.iter().map(|(_, s)| s.series).max(),
        "foreign_series": summaries.iter().map(|(_, s)| s.foreign).max(),
        "ticks": sum(|s| s.ticks),
        "values": sum(|s| s.values),
        "gaps": sum(|s| s.gaps),
        "skipped": skipped,
        "from": ranges().map(|r| r.0).min().map(when::rfc3339),
        "to": ranges().map(|r| r.1).max().map(when::rfc3339),
        "files": files,
    })
}

fn skipped(file: &Path, summary: &Summary) -> Vec<Value> {
    let one = |skipped: &Skipped| {
        let place = format!("{}: {}", file.display(), skipped.at);
        json!({ "where": place, "because": skipped.because, "times": skipped.times })
    };
    summary.skipped.iter().map(one).collect()
}
