//! `completions SHELL` and `manual FOLDER`: files for packages, generated from the definitions behind `--help`.

use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use super::{CommandLine, Failure, output, output_file};

const PROGRAM: &str = "diskwright";

/// Arguments of `completions`.
#[derive(Args)]
pub struct CompletionArguments {
    /// The shell to print completions for
    #[arg(value_enum)]
    shell: Shell,
}

/// Arguments of `manual`.
#[derive(Args)]
pub struct ManualArguments {
    /// An existing folder, which gets a page for each command
    folder: PathBuf,
}

/// Prints the completions for a shell.
pub fn print_completions(arguments: &CompletionArguments) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut CommandLine::command(), PROGRAM, &mut script);
    output::print_data(&script)
}

/// Writes the manual pages into a folder.
pub fn write_manual(arguments: &ManualArguments) -> Result<(), Failure> {
    let mut program = CommandLine::command();
    program.build();
    write_manual_pages(&program, PROGRAM, &arguments.folder)
}

/// Writes the page of a command and of each of its subcommands: `diskwright-disk-serve.1`.
fn write_manual_pages(command: &Command, name: &str, folder: &Path) -> Result<(), Failure> {
    let mut page = Vec::new();
    Man::new(command.clone()).manual("Diskwright").render(&mut page)?;
    output_file::write_file(&folder.join(format!("{name}.1")), &page)?;
    let with_page = command.get_subcommands().filter(|c| !c.is_hide_set() && c.get_name() != "help");
    with_page.into_iter().try_for_each(|c| write_manual_pages(c, &format!("{name}-{}", c.get_name()), folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_a_page_and_no_hidden_one() {
        let folder = tempfile::tempdir().unwrap();
        write_manual(&ManualArguments { folder: folder.path().to_owned() }).unwrap();
        let page = |name: &str| std::fs::read_to_string(folder.path().join(format!("{name}.1")));
        let program = CommandLine::command();
        for command in program.get_subcommands() {
            let found = page(&format!("{PROGRAM}-{}", command.get_name()));
            assert_eq!(found.is_ok(), !command.is_hide_set(), "{}", command.get_name());
        }
        let program_page = page(PROGRAM).unwrap();
        assert!(program_page.contains(".TH") && program_page.contains("why") && !program_page.contains("disk\\-keep"));
        assert!(page("diskwright-disk-attach").unwrap().contains("NBD"));
    }

    /// Collects options of a command and its subcommands that take a value of this name: the words of the command, and
    /// the option.
    fn options_taking(command: &clap::Command, words: &[String], value: &str, found: &mut Vec<(Vec<String>, String)>) {
        let takes =
            |arg: &&clap::Arg| arg.get_value_names().is_some_and(|names| names.iter().any(|name| name == value));
        let options = command.get_arguments().filter(takes).filter_map(|arg| arg.get_long());
        found.extend(options.map(|option| (words.to_vec(), format!("--{option}"))));
        for below in command.get_subcommands() {
            options_taking(below, &[words, &[below.get_name().to_owned()]].concat(), value, found);
        }
    }

    #[test]
    fn every_share_option_accepts_percent() {
        use clap::error::ErrorKind;
        for (value, texts) in [("SHARE", &["5%", "0.05"][..]), ("PERCENT", &["50%", "50"])] {
            let mut found = Vec::new();
            options_taking(&CommandLine::command(), &[PROGRAM.to_owned()], value, &mut found);
            assert!(found.len() >= 2, "{found:?}");
            for (words, option) in found {
                let parse = |text: &str| {
                    let words = words.iter().cloned().chain([format!("{option}={text}")]);
                    CommandLine::command().try_get_matches_from(words).err().map(|error| error.kind())
                };
                // the command may need other arguments, but those are checked after the values
                let refused =
                    |text: &&&str| matches!(parse(text), Some(ErrorKind::InvalidValue | ErrorKind::ValueValidation));
                let wrong: Vec<&&str> = texts.iter().filter(refused).collect();
                assert!(wrong.is_empty(), "{words:?} {option} refuses {wrong:?}");
                assert!(refused(&&"some"), "{words:?} {option} takes any text");
            }
        }
    }

    #[test]
    fn every_shell_completes_every_command() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish, Shell::PowerShell] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut CommandLine::command(), PROGRAM, &mut script);
            let script = String::from_utf8(script).unwrap();
            assert!(["why", "record", "prometheus"].iter().all(|word| script.contains(word)), "{shell}");
        }
    }
}
