//! The help of the program itself: one screen, the commands in five groups.

use std::fmt::Write;

/// Headings at the start of a line, commands indented, examples last.
const TEXT: &str = include_str!("help.txt");

/// The help text with its headings in bold; the styles are removed where the output is no terminal.
pub fn overview() -> String {
    let mut styled = String::new();
    for line in TEXT.lines().skip(1) {
        let is_heading = line.starts_with(|c: char| c.is_uppercase()) && !line.contains(':');
        let (bold, end) = if is_heading { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
        let _ = writeln!(styled, "{bold}{line}{end}");
    }
    format!("{}\n{styled}", TEXT.lines().next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::CommandLine;
    use clap::CommandFactory;

    #[test]
    fn names_every_visible_command_once_and_why_first() {
        let listed: Vec<&str> = TEXT
            .lines()
            .filter_map(|line| line.strip_prefix("  "))
            .filter(|line| !line.starts_with(' '))
            .flat_map(|line| line.split("  ").next().unwrap_or_default().split(", "))
            .collect();
        assert_eq!(listed.first(), Some(&"why"));
        let command = CommandLine::command();
        let mut expected: Vec<&str> =
            command.get_subcommands().filter(|one| !one.is_hide_set()).map(clap::Command::get_name).collect();
        let mut sorted = listed.clone();
        expected.sort_unstable();
        sorted.sort_unstable();
        assert_eq!(sorted, expected);
    }

    #[test]
    fn fits_one_screen() {
        assert!(TEXT.lines().count() <= 24, "a terminal has 24 rows");
        let widest = TEXT.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(80), "{widest:?} columns");
    }
}
