//! Formats that are recognized but not supported, so that the error can say what a file is and what to do with it. All
//! of them are data (`kinds.toml`).

use std::sync::OnceLock;

use diskwright_base::toml_reader;
use serde::Deserialize;

use crate::InputHead;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KindsFile {
    #[serde(rename = "kind")]
    formats: Vec<UnsupportedFormat>,
}

/// A format that is not supported.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UnsupportedFormat {
    #[serde(rename = "what")]
    name: String,
    #[serde(rename = "instead")]
    suggestion: String,
    #[serde(default)]
    magic: Vec<MagicBytes>,
    #[serde(default)]
    lines: Vec<String>,
    version: Option<VersionPlace>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MagicBytes {
    #[serde(rename = "at")]
    offset: usize,
    bytes: String,
}

/// Position of the program's version in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VersionPlace {
    #[serde(rename = "at")]
    offset: Option<usize>,
    line: Option<String>,
}

fn unsupported_formats() -> &'static [UnsupportedFormat] {
    static BUILTIN: OnceLock<Vec<UnsupportedFormat>> = OnceLock::new();
    BUILTIN.get_or_init(|| toml_reader::read_built_in::<KindsFile>("kinds.toml", include_str!("kinds.toml")).formats)
}

/// Identifies a file that no reader accepts; returns what it is, and what to do with it.
pub(crate) fn identify_unsupported(head: &InputHead<'_>) -> Option<(String, &'static str)> {
    let format = unsupported_formats().iter().find(|format| format.matches_head(head))?;
    let version = format.version.as_ref().and_then(|place| place.read_version(head));
    let name = version.map_or_else(|| format.name.clone(), |version| format!("{} (version {version})", format.name));
    Some((name, &format.suggestion))
}

impl UnsupportedFormat {
    fn matches_head(&self, head: &InputHead<'_>) -> bool {
        let has_magic = self.magic.iter().any(|magic| {
            let bytes = magic.to_bytes();
            head.bytes.get(magic.offset..magic.offset + bytes.len()).is_some_and(|found| *found == bytes[..])
        });
        // `start` must match whole words: `top` does not match `topology`
        let is_start = |line: &str, start: &String| {
            line.strip_prefix(start.as_str()).is_some_and(|rest| {
                rest.is_empty() || !start.ends_with(char::is_alphanumeric) || !rest.starts_with(char::is_alphanumeric)
            })
        };
        // columns are as wide as what stands in them
        let collapse = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let starts: Vec<String> = self
            .lines
            .iter()
            .map(|start| {
                let end = if start.ends_with(' ') { " " } else { "" };
                collapse(start) + end
            })
            .collect();
        let has_line = || {
            head.text_lines().any(|line| {
                let line = collapse(&line) + " ";
                starts.iter().any(|start| is_start(&line, start))
            })
        };
        has_magic || !self.lines.is_empty() && !head.bytes.contains(&0) && has_line()
    }
}

impl MagicBytes {
    fn to_bytes(&self) -> Vec<u8> {
        let digits = self.bytes.as_bytes();
        let decode_pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        digits.chunks_exact(2).filter_map(decode_pair).collect()
    }
}

impl VersionPlace {
    fn read_version(&self, head: &InputHead<'_>) -> Option<String> {
        if let Some(index) = self.offset {
            let [minor, major] = *head.bytes.get(index..index + 2)?.first_chunk::<2>()?;
            // the highest bit marks a version
            return (major & 0x80 != 0).then(|| format!("{}.{minor}", major & 0x7f));
        }
        let start = self.line.as_ref()?;
        head.text_lines().find_map(|line| {
            let rest = line.trim_start().strip_prefix(start.as_str())?;
            let version = rest.split([' ', ',', '"', '\t']).find(|word| !word.is_empty())?;
            let is_version = version.len() <= 20 && version.contains(|c: char| c.is_ascii_digit());
            is_version.then(|| version.trim_start_matches('V').to_owned())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LogInput;

    fn identified_name(bytes: &[u8]) -> Option<String> {
        identify_unsupported(&InputHead { name: "x", bytes }).map(|(name, _)| name)
    }

    #[test]
    fn recognizes_every_format_by_its_own_signs() {
        assert!(unsupported_formats().len() >= 20);
        for format in unsupported_formats() {
            assert!(!format.magic.is_empty() || !format.lines.is_empty(), "{}: no signature", format.name);
            for magic in &format.magic {
                let bytes = magic.to_bytes();
                assert_eq!(bytes.len() * 2, magic.bytes.len(), "{}: {}", format.name, magic.bytes);
                let found = identified_name(&[&vec![1; magic.offset], &bytes[..], &[1; 300]].concat());
                assert!(found.as_ref().is_some_and(|f| f.starts_with(&format.name)), "{}: {found:?}", format.name);
            }
            for line in &format.lines {
                let found = identified_name(format!("\n{line}\n").as_bytes());
                assert!(found.as_ref().is_some_and(|f| f.starts_with(&format.name)), "{line}: {found:?}");
            }
        }
    }

    #[test]
    fn versions_stand_beside_the_name() {
        for (bytes, version) in [
            (&b"################\n# Collectl:   V4.3.1-1  HiRes: 1\n"[..], Some("4.3.1-1")),
            (b"# Collectl:\n", None),
            (b"#<----CPU[HYPER]----->\n", None),
        ] {
            let version = version.map_or(String::new(), |version| format!(" (version {version})"));
            let wanted = format!("output of collectl as on a terminal{version}");
            assert_eq!(identified_name(bytes), Some(wanted), "{bytes:?}");
        }
    }

    #[test]
    fn identifies_no_format_in_other_files() {
        for bytes in [&b"hello\n"[..], b"SEPARATOR\nRESETTING\n", b"\x7fEL", b"topmost - 1\n", b"PK", &[0; 600]] {
            assert_eq!(identified_name(bytes), None, "{bytes:?}");
        }
        let refusal = |bytes: &[u8]| {
            let input = LogInput::from_bytes("x", bytes.to_vec()).unwrap();
            crate::recognize_format(&input).err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert_eq!(
            refusal(b"%PDF-1.4\n"),
            "x: a PDF document, which is not read here; ask for the log that it was made of"
        );
        assert!(refusal(b"hello\n").contains("not a log of a known format"));
        assert_eq!(refusal(b""), "x is empty; give a log file");
    }
}
