//! Diskwright: says what holds a server back, with the evidence.
//!
//! Exit codes: 0 done, 1 failed, 2 wrong usage. A closed pipe on the output is
//! success: whoever read it had enough.

mod commands;

use std::process::ExitCode;

use clap::Parser;
use commands::output;

fn main() -> ExitCode {
    output::tell_panics();
    let line = match commands::CommandLine::try_parse() {
        Ok(line) => line,
        Err(error) => return refused(&error),
    };
    ExitCode::from(commands::ended(commands::run(line.command)))
}

/// What clap says of a command line: help and version (0), or what is wrong with it (2).
/// It repeats arguments, which may hold anything.
fn refused(error: &clap::Error) -> ExitCode {
    if error.use_stderr() {
        // the arguments as they may be shown: clap takes away a part of what a terminal would act on
        let words = std::env::args_os().map(|word| output::name(word.to_string_lossy()));
        let shown = commands::CommandLine::try_parse_from(words).err();
        output::aside(&shown.as_ref().unwrap_or(error).render().to_string());
    } else {
        // a closed pipe has had enough
        let _ = error.print();
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}
