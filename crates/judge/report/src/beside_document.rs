//! Measurements from outside, made while the logs were recorded: an application's
//! figures, curves and remarks, which the page that compares the logs shows too. The
//! user who ran the application supplies them in a JSON file (docs/json.md).

use serde::Deserialize;

use crate::bar_chart::Bars;
use crate::curves::{Axis, AxisScale, ChartCurve, CurvePoint, Curves};
use crate::sheet::{SheetSection, SheetTable};

/// Name of the file's format.
pub const SCHEMA: &str = "diskwright.beside/1";
/// Size of the largest file that is read.
pub const MAX_FILE_BYTES: u64 = 8 << 20;

/// Content of such a file.
#[derive(Clone, Debug, Default)]
pub struct BesideDocument {
    /// Heading of the page in place of the comparison's sentence; if empty, that sentence is the heading.
    pub title: String,
    /// Sentences below the heading.
    pub lead: Vec<String>,
    /// Names of the two sides; `Before` and `After` if absent.
    pub names: Option<[String; 2]>,
    /// Sections above those of the comparison.
    pub sections: Vec<SheetSection>,
}

/// Reason why a file cannot be used.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum BesideError {
    /// Not JSON, or JSON of another shape than the format's.
    #[error("line {line}, column {column}: {problem}; the format is described in docs/json.md")]
    Shape {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// Description of the mistake.
        problem: String,
    },
    /// An unknown schema.
    #[error("schema {0:?}, where `{SCHEMA}` is read")]
    Schema(String),
    /// A part with inconsistent lengths, which cannot be drawn.
    #[error("section {section:?}: {problem}")]
    Part {
        /// Title of the section.
        section: String,
        /// Description of the mistake and of the remedy.
        problem: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawBeside {
    schema: String,
    #[serde(default)]
    title: String,
    #[serde(default)]
    lead: Vec<String>,
    names: Option<[String; 2]>,
    #[serde(default)]
    sections: Vec<RawSection>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSection {
    title: String,
    #[serde(default)]
    words: Vec<String>,
    #[serde(default)]
    charts: Vec<RawChart>,
    #[serde(default)]
    bars: Vec<RawBars>,
    #[serde(default)]
    tables: Vec<RawTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawChart {
    title: String,
    x: RawAxis,
    y: RawAxis,
    lines: Vec<RawLine>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAxis {
    words: String,
    unit: String,
    #[serde(default)]
    log: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLine {
    #[serde(default)]
    name: String,
    points: Vec<[f64; 2]>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawBars {
    title: String,
    unit: String,
    full: Option<f64>,
    names: Vec<String>,
    groups: Vec<(String, Vec<Option<f64>>)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTable {
    titles: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// Parses such a file.
///
/// # Errors
/// If it is not JSON of this schema, or if a table or bar chart has rows of the
/// wrong length. The error names the position.
pub fn parse(text: &[u8]) -> Result<BesideDocument, BesideError> {
    let shape_error = |e: serde_json::Error| {
        let message = e.to_string();
        let problem = message.rsplit_once(" at line ").map_or(message.as_str(), |(problem, _)| problem).to_owned();
        BesideError::Shape { line: e.line(), column: e.column(), problem }
    };
    let raw: RawBeside = serde_json::from_slice(text).map_err(shape_error)?;
    if raw.schema != SCHEMA {
        return Err(BesideError::Schema(raw.schema.chars().take(80).collect()));
    }
    let sections = raw.sections.into_iter().map(build_section).collect::<Result<_, _>>()?;
    Ok(BesideDocument { title: raw.title, lead: raw.lead, names: raw.names, sections })
}

/// Checks the lengths of rows and groups, then builds the section.
fn build_section(raw: RawSection) -> Result<SheetSection, BesideError> {
    let part_error = |problem: String| BesideError::Part { section: raw.title.clone(), problem };
    for table in &raw.tables {
        let columns = table.titles.len();
        if let Some(row) = table.rows.iter().position(|row| row.len() != columns) {
            let cells = table.rows[row].len();
            return Err(part_error(format!("row {} of a table has {cells} cells under {columns} titles", row + 1)));
        }
    }
    for bars in &raw.bars {
        let names = bars.names.len();
        if let Some((group, values)) = bars.groups.iter().find(|(_, values)| values.len() != names) {
            let message =
                format!("bars of {group:?}: {} values for {names} names; use null for an unknown value", values.len());
            return Err(part_error(message));
        }
    }
    Ok(SheetSection {
        title: raw.title,
        words: raw.words,
        charts: raw.charts.into_iter().map(build_curves).collect(),
        bars: raw.bars.into_iter().map(build_bars).collect(),
        tables: raw.tables.into_iter().map(|t| SheetTable { titles: t.titles, rows: t.rows }).collect(),
    })
}

fn build_curves(raw: RawChart) -> Curves {
    let axis = |raw: RawAxis| {
        let scale = if raw.log { AxisScale::Log } else { AxisScale::Linear };
        Axis { words: raw.words, unit: raw.unit, scale }
    };
    let line = |raw: RawLine| {
        let points = raw.points.into_iter().map(|[x, y]| CurvePoint { x, y, interval: None }).collect();
        ChartCurve { name: raw.name, points }
    };
    Curves { title: raw.title, x: axis(raw.x), y: axis(raw.y), lines: raw.lines.into_iter().map(line).collect() }
}

fn build_bars(raw: RawBars) -> Bars {
    Bars { title: raw.title, unit: raw.unit, full_value: raw.full, names: raw.names, groups: raw.groups }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPLETE_DOCUMENT: &str = r#"{"schema": "diskwright.beside/1", "title": "Ten disks are faster", "lead": ["a"],
        "names": ["three", "ten"], "sections": [{"title": "Throughput", "words": ["w"],
        "charts": [{"title": "c", "x": {"words": "time", "unit": "s"},
                    "y": {"words": "rate", "unit": "per_s", "log": true},
                    "lines": [{"name": "three", "points": [[0, 1.5], [1, 2]]}]}],
        "bars": [{"title": "b", "unit": "fraction", "full": 1, "names": ["three"], "groups": [["disk0", [null]]]}],
        "tables": [{"titles": ["a", "b"], "rows": [["1", "2"]]}]}]}"#;

    #[test]
    fn reads_a_complete_document() {
        let read = parse(COMPLETE_DOCUMENT.as_bytes()).expect("valid");
        assert_eq!(read.names, Some(["three".into(), "ten".into()]));
        let section = &read.sections[0];
        assert_eq!((section.charts.len(), section.bars.len(), section.tables[0].rows.len()), (1, 1, 1));
        assert_eq!(section.charts[0].lines[0].points[1].y, 2.0);
        assert_eq!(section.charts[0].y.scale, AxisScale::Log);
    }

    #[test]
    fn errors_name_the_line_or_section() {
        let section =
            |inside: &str| format!(r#"{{"schema": "diskwright.beside/1", "sections": [{{"title": "S", {inside}}}]}}"#);
        let cases = [
            (String::new(), "line 1, column 0: EOF"),
            ("{}".into(), "missing field `schema`"),
            (r#"{"schema": "diskwright.probe/1"}"#.into(), "schema \"diskwright.probe/1\""),
            (r#"{"schema": "diskwright.beside/1", "names": ["a"]}"#.into(), "invalid length 1"),
            (
                "{\n\"schema\": \"diskwright.beside/1\",\n\"heading\": 1}".into(),
                "line 3, column 9: unknown field `heading`",
            ),
            (section(r#""tables": [{"titles": ["a"], "rows": [["1"], ["1", "2"]]}]"#), "row 2 of a table has 2 cells"),
            (
                section(r#""bars": [{"title": "", "unit": "s", "names": [], "groups": [["d", [1]]]}]"#),
                "bars of \"d\": 1 values for 0 names",
            ),
            (section(r#""charts": [{"title": "t", "lines": [{"points": [[1e999, 1]]}]}]"#), "number out of range"),
        ];
        for (text, wanted) in cases {
            let message = parse(text.as_bytes()).expect_err(&text).to_string();
            assert!(message.contains(wanted), "{text}: {message}");
        }
    }
}
