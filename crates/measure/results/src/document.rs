//! The result file, which `probe` prints as JSON and stores, and its reader.
//! The schema's version is raised when an old reader would misread a new file; added
//! fields do not change it, so the reader ignores fields that it does not know.

use std::io;
use std::path::Path;

use diskwright_hostfiles::bounded_file;
use serde::{Deserialize, Serialize};

use crate::facts::{DeviceFacts, ProbeMachine, ProfileUpdate, ScriptFacts, SuiteRemark};
use crate::requirement::{ProgramAnswer, RequirementResult};
use crate::result::RunResult;

/// Schema that is written, and the newest that is read.
pub const SCHEMA: &str = "diskwright.probe/1";
/// Beginning of the schemas of results; the version follows.
const SCHEMA_PREFIX: &str = "diskwright.probe/";
/// Newest version that is read.
const MAX_VERSION: u32 = 1;
/// Largest file that is read, bytes: a hundred times the result of an hour's suite.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// A result, as it is printed and stored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProbeDocument {
    /// [`SCHEMA`].
    pub schema: String,
    /// The suite.
    pub suite: String,
    /// The measured target, as the user named it.
    pub target: String,
    /// Size of the target, bytes.
    pub target_bytes: u64,
    /// Device of the target.
    pub device: DeviceFacts,
    /// Other circumstances of the machine.
    #[serde(default)]
    pub machine: ProbeMachine,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Start time, RFC 3339.
    pub started: String,
    /// Version of the program.
    pub version: String,
    /// Command line, for repeating the measurement.
    pub command: Vec<String>,
    /// True if it was measured through the page cache.
    pub buffered: bool,
    /// True if every run was completed.
    pub complete: bool,
    /// Reason why it is not complete.
    #[serde(rename = "because")]
    pub incomplete_reason: Option<String>,
    /// Number of bytes to which `moving_s` of the runs refers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moving_bytes: Option<u64>,
    /// The script, if one was run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<ScriptFacts>,
    /// All targets, if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<TargetFacts>,
    /// The runs, in the order of execution.
    pub runs: Vec<RunResult>,
    /// Findings of the suite.
    pub remarks: Vec<SuiteRemark>,
    /// The program that the target is meant for, and the answer; only of `probe for`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<ProgramAnswer>,
    /// Its vendor's requirements and how they are met; only of `probe for`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requirements: Vec<RequirementResult>,
    /// Result of storing it as the device's profile.
    #[serde(default)]
    pub profile: ProfileUpdate,
}

/// One of several targets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TargetFacts {
    /// Name in the script or on the command line.
    pub name: String,
    /// Size, bytes.
    pub bytes: u64,
}

/// Reason why a result file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The operating system reported an error.
    #[error("{file}: {source}")]
    Io {
        /// The file.
        file: String,
        /// The system's error.
        source: io::Error,
    },
    /// The file is too large for a result.
    #[error("{file}: larger than {MAX_FILE_BYTES} bytes, so it is not a result of `probe`")]
    Large {
        /// The file.
        file: String,
    },
    /// The file is other JSON.
    #[error("{file}: not a result of `probe`: its `schema` is {found}, but `{SCHEMA}` is expected")]
    Other {
        /// The file.
        file: String,
        /// The schema in the file.
        found: String,
    },
    /// A later version wrote the file.
    #[error("{file}: written by a newer diskwright as `{found}`; this version reads up to `{SCHEMA}`")]
    Newer {
        /// The file.
        file: String,
        /// Its schema.
        found: String,
    },
    /// A part of the file is invalid.
    #[error("{file}:{line}:{column}: {place}{because}")]
    Damaged {
        /// The file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// The field and a colon; empty if the text is not JSON up to there.
        place: String,
        /// Description of the fault.
        because: String,
    },
    /// A number in the file is impossible.
    #[error("{file}: `{field}`: {because}")]
    Wrong {
        /// The file.
        file: String,
        /// The field.
        field: String,
        /// Description of the fault.
        because: String,
    },
}

/// The field that identifies the schema.
#[derive(Deserialize)]
struct SchemaHead {
    #[serde(default)]
    schema: Option<serde_json::Value>,
}

/// Returns true for the beginning of a file whose schema is a result of any version.
pub fn is_result(head: &[u8]) -> bool {
    let text = String::from_utf8_lossy(head);
    text.trim_start_matches('\u{feff}').trim_start().starts_with('{') && text.contains(&format!("\"{SCHEMA_PREFIX}"))
}

impl ProbeDocument {
    /// Reads a file.
    ///
    /// # Errors
    /// When it is not a result, of a later schema, or damaged.
    pub fn read(path: &Path) -> Result<ProbeDocument, ReadError> {
        let name = path.display().to_string();
        let failed = |source| ReadError::Io { file: name.clone(), source };
        let bytes = match bounded_file::read_file(path, MAX_FILE_BYTES) {
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => return Err(ReadError::Large { file: name }),
            read => read.map_err(failed)?,
        };
        ProbeDocument::parse(&name, &bytes)
    }

    /// Parses the content of a file; `file` is its name in messages.
    ///
    /// # Errors
    /// As [`ProbeDocument::read`].
    pub fn parse(file: &str, bytes: &[u8]) -> Result<ProbeDocument, ReadError> {
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(ReadError::Large { file: file.into() });
        }
        // editors of other systems write a byte order mark
        let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
        if bytes.trim_ascii_start().starts_with(b"[") {
            return Err(ReadError::Other { file: file.into(), found: "missing (it is a list)".into() });
        }
        // the schema is checked first, so that fields of another schema are not criticized
        check_schema(file, &parse_json::<SchemaHead>(file, bytes)?)?;
        let document: ProbeDocument = parse_json(file, bytes)?;
        for (index, run) in document.runs.iter().enumerate() {
            if let Some((field, because)) = run.find_fault() {
                return Err(ReadError::Wrong { file: file.into(), field: format!("runs[{index}].{field}"), because });
            }
        }
        Ok(document)
    }
}

/// Checks the schema of a file.
fn check_schema(file: &str, head: &SchemaHead) -> Result<(), ReadError> {
    let found = head.schema.as_ref().and_then(|s| s.as_str()).unwrap_or_default();
    match found.strip_prefix(SCHEMA_PREFIX).and_then(|v| v.parse::<u32>().ok()) {
        Some(version) if (1..=MAX_VERSION).contains(&version) => Ok(()),
        Some(version) if version > MAX_VERSION => Err(ReadError::Newer { file: file.into(), found: found.into() }),
        _ => {
            let found = head.schema.as_ref().map_or("missing".into(), |s| format!("`{}`", shorten_value(s)));
            Err(ReadError::Other { file: file.into(), found })
        }
    }
}

/// Formats a foreign value for a message: without control characters, and shortened.
fn shorten_value(value: &serde_json::Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    diskwright_base::text::truncate_text(&text, 60)
}

/// Parses JSON; errors have the path of the field.
fn parse_json<T: for<'a> Deserialize<'a>>(file: &str, bytes: &[u8]) -> Result<T, ReadError> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let result = serde_path_to_error::deserialize(&mut json);
    let damage_error = |place: String, error: &serde_json::Error| {
        // the position is in its own part of the message
        let text = error.to_string();
        let because = text.rsplit_once(" at line ").map_or(text.as_str(), |(because, _)| because).to_owned();
        ReadError::Damaged { file: file.into(), line: error.line(), column: error.column(), place, because }
    };
    let value = result.map_err(|error| {
        let path = error.path().to_string();
        let place = if path == "." { String::new() } else { format!("`{path}`: ") };
        damage_error(place, error.inner())
    })?;
    json.end().map_err(|error| damage_error(String::new(), &error))?;
    Ok(value)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A small result.
    pub fn sample() -> ProbeDocument {
        let run = RunResult { name: "one".into(), engine: "fake".into(), ..RunResult::default() };
        ProbeDocument {
            schema: SCHEMA.into(),
            suite: "minread".into(),
            target: "/tmp/x".into(),
            target_bytes: 1 << 20,
            device: DeviceFacts::default(),
            machine: ProbeMachine::default(),
            seed: 1,
            started: "2026-01-01T00:00:00.000Z".into(),
            version: "0.1.0".into(),
            command: vec!["diskwright".into()],
            buffered: false,
            complete: true,
            incomplete_reason: None,
            moving_bytes: None,
            script: None,
            targets: Vec::new(),
            runs: vec![run],
            remarks: vec![SuiteRemark { id: "a".into(), text: "b".into(), value: Some(1.5), unit: Some("s".into()) }],
            program: None,
            requirements: Vec::new(),
            profile: ProfileUpdate::default(),
        }
    }

    fn error_message(text: &str) -> String {
        ProbeDocument::parse("a.json", text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn a_written_document_is_read_back() {
        let text = serde_json::to_string_pretty(&sample()).unwrap();
        assert_eq!(ProbeDocument::parse("a.json", text.as_bytes()).unwrap(), sample());
        assert_eq!(ProbeDocument::parse("a.json", format!("\u{feff}{text}").as_bytes()).unwrap(), sample());
        assert!(is_result(text.as_bytes()) && !is_result(b"{\"schema\": \"diskwright.verdict/1\"}"));
    }

    #[test]
    fn a_file_of_the_first_version_stays_readable() {
        let bytes = include_bytes!("../tests/fixtures/depth.json");
        let document = ProbeDocument::parse("depth.json", bytes).unwrap();
        assert_eq!((document.suite.as_str(), document.runs.len()), ("depth", 3));
        assert!(document.runs.iter().all(|r| r.pattern.as_ref().is_some_and(|p| p.name == r.name)));
    }

    #[test]
    fn unknown_fields_are_ignored_and_missing_ones_get_defaults() {
        let mut value = serde_json::to_value(sample()).unwrap();
        value["weather"] = "fine".into();
        value["runs"][0]["phase_of_the_moon"] = 0.5.into();
        value["runs"][0]["pattern"] = serde_json::json!({ "place": "spiral" });
        value["device"]["firmware"] = serde_json::json!({ "a": [1] });
        value.as_object_mut().unwrap().remove("machine");
        assert_eq!(ProbeDocument::parse("a.json", value.to_string().as_bytes()).unwrap(), sample());
    }

    #[test]
    fn errors_of_damaged_files_have_file_place_and_field() {
        let good = serde_json::to_string_pretty(&sample()).unwrap();
        let with = |from: &str, to: &str| {
            assert!(good.contains(from), "{from}");
            good.replacen(from, to, 1)
        };
        let cases = [
            (with("probe/1", "probe/2"), "newer diskwright as `diskwright.probe/2`; this version reads up to"),
            (with("probe/1", "probe/40"), "`diskwright.probe/40`"),
            (with("probe/1", "verdict/1"), "its `schema` is `diskwright.verdict/1`, but `diskwright.probe/1`"),
            (with("probe/1", "probe/0"), "`diskwright.probe/0`"),
            (with("probe/1", "probe/-1\\u001b[2J"), "its `schema` is `diskwright.probe/-1\u{fffd}[2J`"),
            (with("\"diskwright.probe/1\"", "7"), "its `schema` is `7`"),
            (with("schema", "scheme"), "its `schema` is missing"),
            (with("\"seed\": 1", "\"seed\": \"one\""), "`seed`: invalid type: string \"one\", expected u64"),
            (with("\"read_share\": 0.0", "\"read_share\": 1e999"), "`runs[0].read_share`: number out of range"),
            (with("\"read_share\": 0.0", "\"read_share\": 2"), "a.json: `runs[0].read_share`: 2 is not between"),
            (with("\"size_bytes\": 0.0", "\"size_bytes\": -1"), "`runs[0].size_bytes`: -1 is less than 0"),
            (with("\"mean\": null", "\"mean\": -1e-9"), "`runs[0].latency_s.mean`"),
            (with("\"failed\": 0", "\"failed\": -5"), "`runs[0].failed`: invalid value"),
            (with("\"requests_per_s\": 0.0,", ""), "`runs[0]`: missing field `requests_per_s`"),
            (good[..good.len() / 2].to_owned(), "EOF while parsing"),
            (good.clone() + "x", "trailing characters"),
            (String::new(), "a.json:1:0: EOF"),
            ("[1, 2]".into(), "`schema` is missing (it is a list)"),
            ("[".repeat(100_000), ""),
            ("\u{0}\u{1}".into(), "a.json:1:1: expected value"),
        ];
        for (text, expected) in cases {
            let message = error_message(&text);
            assert!(message.starts_with("a.json") && message.contains(expected), "{message}");
        }
        let message = error_message(&with("\"suite\": \"minread\"", "\"suite\": 5"));
        assert_eq!(message, "a.json:3:12: `suite`: invalid type: integer `5`, expected a string");
    }

    #[test]
    fn errors_of_missing_files_and_folders_have_the_path() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path().to_path_buf(), folder.path().join("none.json")] {
            let message = ProbeDocument::read(&path).unwrap_err().to_string();
            assert!(message.starts_with(&path.display().to_string()), "{message}");
        }
    }
}
