//! Escaping of names in CSV cells.

use std::borrow::Cow;

use clap::Args;
use diskwright_base::text;

/// Escaping of names in CSV cells.
#[derive(Args, Clone, Copy)]
pub struct CsvCells {
    /// For CSV: put an apostrophe before names that a spreadsheet would run as a formula (those that begin with = +
    /// - @)
    #[arg(long, value_name = "yes|no", default_value = "yes", default_missing_value = "yes", num_args = 0..=1,
          require_equals = true, value_parser = parse_yes_or_no)]
    spreadsheet_safe: bool,
}

fn parse_yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("write yes or no".to_owned()),
    }
}

impl CsvCells {
    /// A CSV cell of text.
    pub fn csv_cell<'a>(&self, word: &'a str) -> Cow<'a, str> {
        if self.spreadsheet_safe { text::escape_formula(word) } else { Cow::Borrowed(word) }
    }

    /// Text for people: characters that a terminal would act on are replaced too.
    pub fn terminal_cell(&self, word: &str) -> String {
        self.csv_cell(&text::printable_line(word)).into_owned()
    }
}
