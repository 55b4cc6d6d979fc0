//! `probe for PROGRAM TARGET`: is this storage good enough for a program? Measures what the program's vendor
//! publishes, or takes it from a log (`--from LOG`).

mod from_log;
mod screen;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use diskwright_counters::live::{Clock, SystemClock};
use diskwright_probe::programs::judge::{answer_program, judge_runs};
use diskwright_probe::programs::{Program, builtin_programs, find_program, find_program_suite};
use diskwright_probe::suites::{Suite, Writes};
use diskwright_probe::{ProbeTarget, TargetOptions};
use diskwright_results::document::ProbeDocument;
use diskwright_results::requirement::Suitability;

use super::{Arguments, describe_result, doubts, finish_result, suite_session, worker};
use crate::commands::{Failure, name_search, output, output_file, time_argument};

/// The word on the command line in place of a suite.
pub const WORD: &str = "for";

/// Why no profile is saved.
const NO_PROFILE: &str = "the loads of programs are not the maximum of a device; `probe quick` makes its profile";

/// Runs `probe for`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let program = named_program(arguments)?;
    refuse_unused(arguments)?;
    arguments.output.as_deref().map_or(Ok(()), output_file::check_writable)?;
    if !arguments.from.is_empty() {
        return from_log::run(arguments, program);
    }
    let Some(place) = &arguments.place else {
        let message = format!("`for {}` needs a TARGET: a folder, a file or a block device; or --from LOG", program.id);
        return Err(Failure::Usage(message));
    };
    worker::run_in_worker(|stop| measure_place(arguments, program, place, stop))
}

/// Returns the program that was named.
fn named_program(arguments: &Arguments) -> Result<&'static Program, Failure> {
    let ids: Vec<&str> = builtin_programs().iter().map(|program| program.id.as_str()).collect();
    let Some(name) = &arguments.target else {
        return Err(Failure::Usage(format!("`for` needs a program and a TARGET; programs: {}", ids.join(", "))));
    };
    let name = name.display().to_string();
    find_program(&name).ok_or_else(|| {
        let suggestion = name_search::suggestion_hint(&name, ids.iter().copied());
        Failure::Usage(format!("unknown program `{name}`{suggestion}; programs: {}", ids.join(", ")))
    })
}

/// Refuses options that have no meaning here.
fn refuse_unused(arguments: &Arguments) -> Result<(), Failure> {
    let unused = [
        ("--save", arguments.save, NO_PROFILE),
        ("--replace-profile", arguments.replace_profile, NO_PROFILE),
        ("--buffered", arguments.buffered, "a program's load says itself whether it uses the page cache"),
    ];
    match unused.into_iter().find(|(_, is_given, _)| *is_given) {
        Some((option, _, reason)) => Err(Failure::Usage(format!("{option} does not go with `for`: {reason}"))),
        None => Ok(()),
    }
}

/// Measures the loads of a program on a target, judges and answers.
fn measure_place(
    arguments: &Arguments,
    program: &'static Program,
    place: &Path,
    stop: &Arc<AtomicBool>,
) -> Result<(), Failure> {
    let unknown = || Failure::Failed(format!("{}: no suite measures it", program.id));
    let suite = find_program_suite(&program.id).ok_or_else(unknown)?;
    let target = open_place(arguments, program, suite, place, stop)?;
    let started = time_argument::rfc3339(SystemClock.read_clocks().wall_ns);
    let mut document = describe_result(arguments, suite.id, &target, started);
    document.target = place.display().to_string();
    let (runs, suite_remarks, failure) = suite_session::measure_suite(arguments, suite, &target, &[], stop);
    document.remarks.extend(doubts::find_doubts(&target, &runs));
    document.remarks.extend(suite_remarks);
    document.requirements = judge_runs(program, &runs, &document.device);
    document.program = Some(answer_program(program, &document.requirements));
    document.runs = runs;
    // a file that was created is removed before anything else can fail
    drop(target);
    let exit = exit_of(arguments, &document);
    finish_result(arguments, document, failure, Err(NO_PROFILE), &draw)?;
    exit
}

/// Opens the target. In a folder, a file is created and removed; it has no name where the filesystem supports that.
fn open_place(
    arguments: &Arguments,
    program: &Program,
    suite: &Suite,
    place: &Path,
    stop: &Arc<AtomicBool>,
) -> Result<ProbeTarget, Failure> {
    let path = if place.is_dir() { new_file_in(arguments, place)? } else { place.to_owned() };
    let may_write = !path.exists() || !arguments.destroy_data_on.is_empty();
    let options = TargetOptions {
        writes: suite.writes == Writes::Always || may_write,
        consent: arguments.consent_for(&path.display().to_string()),
        bytes: arguments.size,
        default_bytes: Some(program.file_bytes),
        keep: arguments.keep,
        buffered: program.loads.iter().all(|load| load.buffered),
        new_blocks: program.new_blocks,
    };
    super::open_target(&path, &options, stop)
}

/// Returns the path of a file that does not exist yet in a folder.
fn new_file_in(arguments: &Arguments, folder: &Path) -> Result<PathBuf, Failure> {
    if arguments.keep {
        return Err(Failure::Usage("--keep needs the name of the file as TARGET, not a folder".into()));
    }
    Ok(folder.join(format!("diskwright-probe-{}.tmp", std::process::id())))
}

fn draw(document: &ProbeDocument) -> String {
    screen::draw_answer(document, &output::wide_table_style())
}

/// The exit code of the answer: 1 for no if `--fail` was given.
fn exit_of(arguments: &Arguments, document: &ProbeDocument) -> Result<(), Failure> {
    let is_no = document.program.as_ref().is_some_and(|program| program.answer == Suitability::No);
    if arguments.fail && is_no { Err(Failure::AlreadyReported(1)) } else { Ok(()) }
}
