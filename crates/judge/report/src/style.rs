//! Style of output to a terminal: colour, Unicode, width and height. The caller
//! knows whether the output goes to a terminal at all.

use crate::text;

/// Capabilities and size of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Write colour escapes.
    pub colour: bool,
    /// Write characters beyond ASCII.
    pub unicode: bool,
    /// Columns.
    pub width: usize,
    /// Rows that an answer of one screen may take.
    pub height: usize,
}

/// Rows of an answer if the size of the terminal is unknown.
const DEFAULT_HEIGHT: usize = 45;

/// Largest number of columns that are used: longer lines are hard to read.
const MAX_WIDTH: usize = 200;

/// Meaning of a coloured word. The colours are taken from the terminal's
/// palette, so that they suit its background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    /// Headings and the verdict.
    Bold,
    /// Secondary text: times, sources.
    Dim,
    /// All is well, or ruled out.
    Good,
    /// Deserves attention.
    Warn,
    /// A bottleneck or a critical finding.
    Bad,
    /// A chart's line by number, so that several lines get different colours.
    Line(usize),
}

impl Style {
    /// Returns a style with Unicode and without colour, for files and tests.
    pub fn plain(width: usize) -> Style {
        Style { colour: false, unicode: true, width, height: DEFAULT_HEIGHT }
    }

    /// Chooses the style by the usual conventions: colour on a terminal that is not
    /// `dumb` and without `NO_COLOR`; Unicode if the locale says UTF-8; as many columns as
    /// the terminal or `COLUMNS` has, between 40 and 200, 80 if neither is known; one row
    /// fewer than the terminal has, for the next prompt. `size` is rows and columns of the
    /// terminal, `variable` reads the environment.
    pub fn for_terminal(
        is_terminal: bool,
        size: Option<(usize, usize)>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Style {
        let set = |name: &str| variable(name).filter(|v| !v.is_empty());
        let colour = is_terminal && set("NO_COLOR").is_none() && set("TERM").is_none_or(|t| t != "dumb");
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| set(name)).unwrap_or_default();
        let locale = locale.to_lowercase();
        let unicode = locale.contains("utf-8") || locale.contains("utf8");
        let columns = || set("COLUMNS").and_then(|columns| columns.parse().ok()).unwrap_or(80);
        let (rows, columns) = size.unwrap_or_else(|| (DEFAULT_HEIGHT + 1, columns()));
        let height = rows.saturating_sub(1).clamp(23, DEFAULT_HEIGHT);
        Style { colour, unicode, width: columns.clamp(40, MAX_WIDTH), height }
    }

    /// Returns the text with colour escapes, if colours are shown.
    pub fn paint(&self, ink: Ink, text: &str) -> String {
        if !self.colour || text.is_empty() {
            return text.to_owned();
        }
        const LINES: [&str; 6] = ["36", "33", "35", "32", "34", "31"];
        let code = match ink {
            Ink::Bold => "1",
            Ink::Dim => "2",
            Ink::Good => "32",
            Ink::Warn => "33",
            Ink::Bad => "1;31",
            Ink::Line(number) => LINES[number % LINES.len()],
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// Returns the Unicode or the ASCII spelling of a sign.
    pub fn glyph<'a>(&self, unicode: &'a str, ascii: &'a str) -> &'a str {
        if self.unicode { unicode } else { ascii }
    }

    /// Makes foreign text harmless for this terminal: replaces control characters,
    /// and characters beyond ASCII if they cannot be shown.
    pub fn clean_text(&self, foreign: &str) -> String {
        let printable = diskwright_base::text::printable_line(foreign);
        if self.unicode { printable.into_owned() } else { text::to_ascii(&printable) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose_style(is_terminal: bool, variables: &[(&str, &str)]) -> Style {
        Style::for_terminal(is_terminal, None, |name| {
            variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn colours_need_a_terminal_that_wants_them() {
        assert!(choose_style(true, &[]).colour);
        assert!(!choose_style(false, &[]).colour);
        assert!(!choose_style(true, &[("NO_COLOR", "1")]).colour);
        assert!(choose_style(true, &[("NO_COLOR", "")]).colour);
        assert!(!choose_style(true, &[("TERM", "dumb")]).colour);
    }

    #[test]
    fn the_first_locale_variable_that_is_set_decides() {
        assert!(choose_style(true, &[("LANG", "de_DE.UTF-8")]).unicode);
        assert!(choose_style(true, &[("LANG", "C.utf8")]).unicode);
        assert!(!choose_style(true, &[("LC_ALL", "C"), ("LANG", "de_DE.UTF-8")]).unicode);
        assert!(!choose_style(true, &[]).unicode);
    }

    #[test]
    fn width_stays_readable() {
        assert_eq!(Style::for_terminal(true, Some((24, 160)), |_| None).width, 160);
        assert_eq!(Style::for_terminal(true, Some((24, 999)), |_| None).width, 200);
        assert_eq!(Style::for_terminal(true, Some((24, 10)), |_| None).width, 40);
        assert_eq!(Style::for_terminal(true, None, |_| None).width, 80);
        let columns = |name: &str| (name == "COLUMNS").then(|| "132".to_owned());
        assert_eq!(Style::for_terminal(false, None, columns).width, 132);
        assert_eq!(Style::for_terminal(true, Some((24, 90)), columns).width, 90, "the terminal knows better");
    }

    #[test]
    fn an_answer_leaves_a_row_for_the_prompt() {
        let height = |rows| Style::for_terminal(true, Some((rows, 80)), |_| None).height;
        assert_eq!([10, 24, 40, 46, 200].map(height), [23, 23, 39, 45, 45]);
        assert_eq!(Style::for_terminal(false, None, |_| None).height, 45);
    }
}
