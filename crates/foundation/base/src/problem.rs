//! What is wrong in a file that a person wrote, and where: one form of it for rules,
//! descriptions and catalogues.

use thiserror::Error;

use crate::text::printable;

/// Something wrong in a file, or worth knowing: `rules.toml:12: rule disk.q: unknown key`.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{file}:{line}: {item}{}{message}", if item.is_empty() { "" } else { ": " })]
pub struct Problem {
    /// File, as it was named.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// `rule disk.q`, `drive data`, or empty where it is about the whole file.
    pub item: String,
    /// What is wrong, and what would be right.
    pub message: String,
}

/// Everything that is wrong in a file, by line; at least one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}", lines(.0))]
pub struct Problems(pub Vec<Problem>);

fn lines(problems: &[Problem]) -> String {
    // a key or a value may hold a line break: what follows it would pass for the next problem
    let line = |problem: &Problem| printable(&problem.to_string()).into_owned();
    problems.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// A text that is read, and what its problems call it.
#[derive(Clone, Copy, Debug)]
pub struct ProblemSource<'t> {
    /// File, as it was named.
    pub file: &'t str,
    /// Its text.
    pub text: &'t str,
}

impl ProblemSource<'_> {
    /// Line of a place in the text (bytes from its beginning), from 1.
    pub fn line(&self, index: usize) -> usize {
        let end = index.min(self.text.len());
        1 + self.text.as_bytes()[..end].iter().filter(|&&b| b == b'\n').count()
    }

    /// A problem at a place in the text.
    pub fn problem(&self, index: usize, item: &str, message: impl Into<String>) -> Problem {
        Problem { file: self.file.into(), line: self.line(index), item: item.into(), message: message.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_names_file_line_and_item() {
        let source = ProblemSource { file: "a.toml", text: "one\ntwo\nthree" };
        assert_eq!(source.problem(5, "rule r", "is odd").to_string(), "a.toml:2: rule r: is odd");
        assert_eq!(source.problem(0, "", "is no TOML").to_string(), "a.toml:1: is no TOML");
        assert_eq!(source.line(usize::MAX), 3);
    }
}
