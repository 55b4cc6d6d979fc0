//! How a terminal is written to: colours or not, Unicode or not, how wide.
//! Whether it is a terminal at all is the caller's knowledge.

use crate::text;

/// What the terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Write colour escapes.
    pub colour: bool,
    /// Write characters beyond ASCII.
    pub unicode: bool,
    /// Columns.
    pub width: usize,
}

/// What a coloured word means. The colours are those of the terminal's own
/// palette, so that they suit its background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    /// Headings and the verdict.
    Bold,
    /// Beside the point: times, sources.
    Dim,
    /// All is well, or ruled out.
    Good,
    /// Worth a look.
    Warn,
    /// Holds the machine back.
    Bad,
    /// A chart's line; several lines take several.
    Line(usize),
}

impl Style {
    /// Unicode without colour, for files and tests.
    pub fn plain(width: usize) -> Style {
        Style { colour: false, unicode: true, width }
    }

    /// Chooses by the custom of terminals: colour on a terminal that is not
    /// `dumb` and without `NO_COLOR`; Unicode where the locale says UTF-8;
    /// between 40 and 100 columns, 80 where nothing is known. `variable`
    /// reads the environment.
    pub fn choose(is_terminal: bool, columns: Option<usize>, variable: impl Fn(&str) -> Option<String>) -> Style {
        let set = |name: &str| variable(name).filter(|v| !v.is_empty());
        let colour = is_terminal && set("NO_COLOR").is_none() && set("TERM").is_none_or(|t| t != "dumb");
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| set(name)).unwrap_or_default();
        let locale = locale.to_lowercase();
        let unicode = locale.contains("utf-8") || locale.contains("utf8");
        Style { colour, unicode, width: columns.unwrap_or(80).clamp(40, 100) }
    }

    /// The text in a colour, where colours are shown.
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

    /// One of two spellings of a sign.
    pub fn glyph<'a>(&self, unicode: &'a str, ascii: &'a str) -> &'a str {
        if self.unicode { unicode } else { ascii }
    }

    /// Foreign text made harmless for this terminal: no control characters,
    /// and nothing beyond ASCII where that cannot be shown.
    pub fn clean(&self, foreign: &str) -> String {
        let printable = diskwright_base::text::printable(foreign);
        if self.unicode { printable.into_owned() } else { text::ascii(&printable) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(is_terminal: bool, variables: &[(&str, &str)]) -> Style {
        Style::choose(is_terminal, None, |name| {
            variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn colours_need_a_terminal_that_wants_them() {
        assert!(choose(true, &[]).colour);
        assert!(!choose(false, &[]).colour);
        assert!(!choose(true, &[("NO_COLOR", "1")]).colour);
        assert!(choose(true, &[("NO_COLOR", "")]).colour);
        assert!(!choose(true, &[("TERM", "dumb")]).colour);
    }

    #[test]
    fn the_first_locale_variable_that_is_set_decides() {
        assert!(choose(true, &[("LANG", "de_DE.UTF-8")]).unicode);
        assert!(choose(true, &[("LANG", "C.utf8")]).unicode);
        assert!(!choose(true, &[("LC_ALL", "C"), ("LANG", "de_DE.UTF-8")]).unicode);
        assert!(!choose(true, &[]).unicode);
    }

    #[test]
    fn width_stays_readable() {
        assert_eq!(Style::choose(true, Some(200), |_| None).width, 100);
        assert_eq!(Style::choose(true, Some(10), |_| None).width, 40);
        assert_eq!(Style::choose(true, None, |_| None).width, 80);
    }
}
