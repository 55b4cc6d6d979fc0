//! Problems in files that people wrote, with their location: one form for rules,
//! descriptions and catalogues.

use thiserror::Error;

use crate::text::printable_line;

/// A problem or a remark on a file: `rules.toml:12: rule disk.q: unknown key`.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{file}:{line}: {item}{}{message}", if item.is_empty() { "" } else { ": " })]
pub struct Problem {
    /// File name as given by the user.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// `rule disk.q`, `drive data`, or empty where it concerns the whole file.
    pub item: String,
    /// The problem, and how to fix it.
    pub message: String,
}

/// All problems of a file, by line; at least one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}", join_problem_lines(.0))]
pub struct Problems(pub Vec<Problem>);

fn join_problem_lines(problems: &[Problem]) -> String {
    // a key or a value may hold a line break: the text after it would pass for the next problem
    let line = |problem: &Problem| printable_line(&problem.to_string()).into_owned();
    problems.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// A text that is read, and its name in problems.
#[derive(Clone, Copy, Debug)]
pub struct ProblemSource<'t> {
    /// File name as given by the user.
    pub file: &'t str,
    /// Its text.
    pub text: &'t str,
}

impl ProblemSource<'_> {
    /// Line of a byte offset in the text, from 1.
    pub fn line_number(&self, offset: usize) -> usize {
        let end = offset.min(self.text.len());
        1 + self.text.as_bytes()[..end].iter().filter(|&&b| b == b'\n').count()
    }

    /// Creates a problem at a byte offset in the text.
    pub fn create_problem(&self, offset: usize, item: &str, message: impl Into<String>) -> Problem {
        Problem { file: self.file.into(), line: self.line_number(offset), item: item.into(), message: message.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_names_file_line_and_item() {
        let source = ProblemSource { file: "a.toml", text: "one\ntwo\nthree" };
        assert_eq!(source.create_problem(5, "rule r", "is odd").to_string(), "a.toml:2: rule r: is odd");
        assert_eq!(source.create_problem(0, "", "is no TOML").to_string(), "a.toml:1: is no TOML");
        assert_eq!(source.line_number(usize::MAX), 3);
    }
}
