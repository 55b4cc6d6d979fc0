//! What to run after a measurement.

use diskwright_base::text::quote_for_shell;
use diskwright_base::units::format_value;
use diskwright_report::Style;
use diskwright_results::document::ProbeDocument;
use serde::Serialize;

use super::{Arguments, PROFILE_SUITE};
use crate::commands::next_steps::{NextStep, draw_steps};
use crate::commands::output_file;

/// A result with its next steps, as JSON.
#[derive(Serialize)]
pub struct ResultWithSteps<'a> {
    #[serde(flatten)]
    document: &'a ProbeDocument,
    next_steps: Vec<NextStep>,
}

impl<'a> ResultWithSteps<'a> {
    /// Adds the steps after a measurement to its result.
    pub fn new(document: &'a ProbeDocument, arguments: &Arguments) -> ResultWithSteps<'a> {
        ResultWithSteps { document, next_steps: steps_after(document, arguments) }
    }
}

/// Draws the steps after a measurement.
pub fn draw_steps_after(document: &ProbeDocument, arguments: &Arguments, style: &Style) -> String {
    draw_steps(&steps_after(document, arguments), style)
}

/// Commands to run after a measurement, in this order; none after one that was interrupted, and none without runs.
fn steps_after(document: &ProbeDocument, arguments: &Arguments) -> Vec<NextStep> {
    // what was judged by a log has no runs, and nothing here to measure again
    if !document.complete || document.runs.is_empty() {
        return Vec::new();
    }
    let mut steps = Vec::new();
    let mut add = |command: String, shows: String| steps.push(NextStep { command, shows: shows.into() });
    let target = quote_for_shell(&document.target);
    let suite = match &document.program {
        Some(program) => format!("for {}", quote_for_shell(&program.id)),
        None => quote_for_shell(&arguments.suite),
    };
    if document.profile.file.is_some() {
        add("diskwright why".into(), describe_judging(document));
    } else if document.suite != PROFILE_SUITE && document.script.is_none() && !document.buffered {
        // a suite needs the name of a file; only `for` takes a folder
        let is_folder = document.program.is_some() && std::path::Path::new(&document.target).is_dir();
        let file = std::path::Path::new(&document.target).join("probe.dat").display().to_string();
        let target = if is_folder { quote_for_shell(&file) } else { target.clone() };
        let command = format!("diskwright probe {PROFILE_SUITE} {target}");
        add(command, "the maximum rates of this disk; saves them as the ceilings by which `why` judges it".into());
    }
    match arguments.output.as_ref().filter(|file| !output_file::is_stdout(file)) {
        Some(file) => {
            let file = quote_for_shell(&file.display().to_string());
            add(
                format!("diskwright compare {file} AFTER.json"),
                "after a change and a second run: which figures changed by more than noise".into(),
            );
        }
        None => {
            add(
                format!("diskwright probe {suite} {target} --repeat 5 -o BEFORE.json"),
                "a result with its noise, to be used in `compare BEFORE.json AFTER.json`".into(),
            );
        }
    }
    steps
}

/// What `why` does with the ceilings that were saved.
fn describe_judging(document: &ProbeDocument) -> String {
    let most = |figure: fn(&diskwright_results::result::RunResult) -> f64| {
        document.runs.iter().filter(|run| run.place != "series").map(figure).fold(f64::NAN, f64::max)
    };
    let (requests, bytes) = (most(|run| run.requests_per_s), most(|run| run.bytes_per_s));
    if !(requests > 0.0 && bytes > 0.0) {
        return "judges this disk by the ceilings that were just saved".into();
    }
    format!(
        "judges this disk by the ceilings that were just saved: {}, {}",
        format_value(requests, "per_s"),
        format_value(bytes, "bytes_per_s")
    )
}
