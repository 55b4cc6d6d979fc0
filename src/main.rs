//! Diskwright: reports the bottleneck of a server, with the evidence.
//!
//! Exit codes: 0 done, 1 failed, 2 wrong usage. A closed output pipe is success: the reader has seen enough.

mod commands;
mod memory_reserve;

use std::process::ExitCode;

use clap::Parser;
use commands::output;

fn main() -> ExitCode {
    output::install_panic_hook();
    if let Err(failure) = commands::process_limits::adapt_to_limits() {
        return ExitCode::from(commands::exit_code_of(Err(failure)));
    }
    let line = match commands::CommandLine::try_parse() {
        Ok(line) => line,
        Err(error) => return report_usage_error(&error),
    };
    ExitCode::from(commands::exit_code_of(commands::run(line.command)))
}

/// Reports an error of clap and returns its exit code: 0 for help and version, 2 for a wrong command line. The message
/// repeats arguments, which may hold anything.
fn report_usage_error(error: &clap::Error) -> ExitCode {
    if error.use_stderr() {
        // clap removes part of what a terminal would act on, so the arguments are escaped here
        let arguments = std::env::args_os().map(|word| output::escape_name(word.to_string_lossy()));
        let escaped_error = commands::CommandLine::try_parse_from(arguments).err();
        output::print_to_stderr(&escaped_error.as_ref().unwrap_or(error).render().to_string());
    } else {
        // a closed pipe is not an error
        let _ = error.print();
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}
