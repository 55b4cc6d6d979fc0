//! Diskwright: says what holds a server back, with the evidence.
//!
//! Exit codes: 0 done, 1 failed, 2 wrong usage. A closed pipe on the output is
//! success: whoever read it had enough.

mod commands;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    // a parse error prints itself and exits with 2; --help and --version with 0
    let line = commands::CommandLine::parse();
    match commands::run(line.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if failure.is_closed_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("diskwright: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}
