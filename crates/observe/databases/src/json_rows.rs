//! Rows of an answer: a JSON object a line, with its kind as `t`.

use diskwright_base::text::printable_line;
use serde_json::Value;

/// Parses the lines that are JSON objects; others are messages of the client.
pub(crate) fn parse_rows(lines: &[String]) -> Vec<Value> {
    lines.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok()).filter(Value::is_object).collect()
}

/// The rows of a kind.
pub(crate) fn rows_called<'a>(rows: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    rows.iter().filter(move |row| row["t"].as_str() == Some(kind))
}

/// A number, which may be written as a text.
pub(crate) fn number_of(row: &Value, name: &str) -> Option<f64> {
    let value = &row[name];
    let number = value.as_f64().or_else(|| value.as_str().and_then(|text| text.trim().parse().ok()));
    number.filter(|number| number.is_finite())
}

/// A text in one line, without control characters; empty where there is none.
pub(crate) fn text_of(row: &Value, name: &str) -> String {
    printable_line(row[name].as_str().unwrap_or_default()).into_owned()
}
