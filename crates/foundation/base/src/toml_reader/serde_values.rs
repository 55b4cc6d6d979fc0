//! Deserialization of serde types that reports every mistake. serde stops at the first one, so the faulty part is
//! removed and the rest deserialized again, until all mistakes are reported.

use std::ops::Range;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeArray, DeValue, ValueDeserializer};

use super::{MAX_PROBLEMS, TomlSource};
use crate::user_input::did_you_mean;

/// Implements [`TomlSource::deserialize_value`].
pub(super) fn deserialize_reporting_all<'t, T: DeserializeOwned>(
    source: &TomlSource<'t>,
    item: &str,
    value: Spanned<DeValue<'t>>,
) -> Option<T> {
    let mut remaining = value.clone();
    let mut error = match T::deserialize(ValueDeserializer::from(value.clone())) {
        Ok(read) => return Some(read),
        Err(error) => error,
    };
    // spans of tables and lists from which something was removed: the removal explains a missing key or wrong length
    let mut cut: Vec<Range<usize>> = Vec::new();
    for _ in 0..MAX_PROBLEMS {
        let span = error.span().unwrap_or_else(|| remaining.span());
        // removal changes the numbers of items that have no name, so the item is located in the original value
        let found = locate_span(&remaining, &span, item);
        let item = locate_span(&value, &span, item).item;
        let mistake = SerdeMistake::from_message(error.message());
        let is_missing = matches!(mistake, SerdeMistake::MissingField(_));
        let may_be_removal = is_missing || mistake == SerdeMistake::InvalidLength;
        if !(may_be_removal && cut.contains(&span)) {
            let key = found.steps.iter().rev().find_map(|step| match step {
                Step::Key(key) => Some(key.as_str()),
                Step::Index(_) => None,
            });
            source.report_problem(span.start, &item, translate_message(error.message(), key.filter(|_| !is_missing)));
        }
        if !remove_path(&mut remaining, &found.steps, &mut cut) {
            break;
        }
        match T::deserialize(ValueDeserializer::from(remaining.clone())) {
            Ok(_) => break,
            Err(next) => error = next,
        }
    }
    None
}

/// One step of a path from a value to a value inside it.
#[derive(Clone)]
enum Step {
    Key(String),
    Index(usize),
}

/// Path to a mistake and the name of the item that holds it.
#[derive(Default)]
struct MistakeLocation {
    steps: Vec<Step>,
    item: String,
}

/// Finds the innermost key or value at this span.
fn locate_span(value: &Spanned<DeValue<'_>>, span: &Range<usize>, item: &str) -> MistakeLocation {
    let mut found = MistakeLocation { steps: Vec::new(), item: item.to_owned() };
    search_span(value, span, &mut Vec::new(), item, None, &mut found);
    found
}

fn search_span(
    value: &Spanned<DeValue<'_>>,
    span: &Range<usize>,
    steps: &mut Vec<Step>,
    item: &str,
    key: Option<&str>,
    found: &mut MistakeLocation,
) {
    match value.get_ref() {
        DeValue::Table(table) => {
            for (name, inner) in table.iter() {
                steps.push(Step::Key(name.get_ref().to_string()));
                if name.span() == *span || inner.span() == *span {
                    *found = MistakeLocation { steps: steps.clone(), item: item.to_owned() };
                }
                let inner_item = match (inner.get_ref(), item.strip_suffix(']')) {
                    (DeValue::Table(_), Some(outer)) => format!("{outer}.{}]", name.get_ref()),
                    (DeValue::Table(_), None) if item.is_empty() => format!("[{}]", name.get_ref()),
                    (DeValue::Table(_), None) => format!("{item}, {}", name.get_ref()),
                    _ => item.to_owned(),
                };
                if matches!(inner.get_ref(), DeValue::Table(_)) && inner.span() == *span {
                    found.item = inner_item.clone();
                }
                search_span(inner, span, steps, &inner_item, Some(name.get_ref()), found);
                steps.pop();
            }
        }
        DeValue::Array(list) => {
            for (index, inner) in list.iter().enumerate() {
                steps.push(Step::Index(index));
                let inner_item = match table_name(inner) {
                    _ if inner.get_ref().as_table().is_none() => item.to_owned(),
                    Some(name) => format!("{} {name}", key.unwrap_or("item")),
                    None => format!("{} {}", key.unwrap_or("item"), index + 1),
                };
                if inner.span() == *span {
                    *found = MistakeLocation { steps: steps.clone(), item: inner_item.clone() };
                }
                search_span(inner, span, steps, &inner_item, key, found);
                steps.pop();
            }
        }
        _ => {}
    }
}

/// Name of a table: its `id`, else its `name`.
fn table_name<'a>(value: &'a Spanned<DeValue<'_>>) -> Option<&'a str> {
    let table = value.get_ref().as_table()?;
    let text = |key: &str| table.iter().find(|(k, _)| k.get_ref() == key).and_then(|(_, v)| v.get_ref().as_str());
    text("id").or_else(|| text("name"))
}

/// Removes the value at the end of these steps and adds its parent's span to `cut`; false if there is none.
fn remove_path(value: &mut Spanned<DeValue<'_>>, steps: &[Step], cut: &mut Vec<Range<usize>>) -> bool {
    let Some((step, inner_steps)) = steps.split_first() else { return false };
    let span = value.span();
    match (value.get_mut(), step) {
        (DeValue::Table(table), Step::Key(key)) => {
            let Some(name) = table.iter().find(|(k, _)| k.get_ref() == key.as_str()).map(|(k, _)| k.clone()) else {
                return false;
            };
            if !inner_steps.is_empty() {
                return table.get_mut(&name).is_some_and(|inner| remove_path(inner, inner_steps, cut));
            }
            cut.push(span);
            table.remove(&name).is_some()
        }
        (DeValue::Array(list), Step::Index(index)) => {
            if !inner_steps.is_empty() {
                return list.get_mut(*index).is_some_and(|inner| remove_path(inner, inner_steps, cut));
            }
            cut.push(span);
            let kept = list.clone().into_iter().enumerate().filter(|(i, _)| i != index);
            *list = kept.map(|(_, inner)| inner).collect::<DeArray<'_>>();
            true
        }
        _ => false,
    }
}

/// Returns the word in backticks that follows `prefix` at the beginning of a message.
fn quoted_word<'m>(message: &'m str, prefix: &str) -> Option<&'m str> {
    message.strip_prefix(prefix)?.trim_start().strip_prefix('`')?.split('`').next()
}

/// Kind of a mistake, and the name of the field or variant in question. serde reports the kind by calling a method of
/// `serde::de::Error`, but the error type of `toml` keeps only the text. So the kind is parsed from the beginning of
/// that text, here and nowhere else. If a release changes the wording, the tests below fail.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SerdeMistake<'m> {
    MissingField(&'m str),
    UnknownField(&'m str),
    UnknownVariant(&'m str),
    InvalidLength,
    Other,
}

impl SerdeMistake<'_> {
    fn from_message(message: &str) -> SerdeMistake<'_> {
        if let Some(name) = quoted_word(message, "missing field") {
            SerdeMistake::MissingField(name)
        } else if let Some(name) = quoted_word(message, "unknown field") {
            SerdeMistake::UnknownField(name)
        } else if let Some(name) = quoted_word(message, "unknown variant") {
            SerdeMistake::UnknownVariant(name)
        } else if message.starts_with("invalid length") {
            SerdeMistake::InvalidLength
        } else {
            SerdeMistake::Other
        }
    }
}

/// Translates serde's message into this project's wording, with the key before it.
fn translate_message(message: &str, key: Option<&str>) -> String {
    // "..., expected one of `a`, `b`": every second part is a word
    let known: Vec<&str> =
        message.split_once(", expected ").map_or(Vec::new(), |(_, list)| list.split('`').skip(1).step_by(2).collect());
    let suggest = |wrong: &str, list_heading: &str| {
        let suggestion = did_you_mean(wrong, &known);
        if suggestion.is_empty() { format!("; {list_heading} {}", known.join(", ")) } else { suggestion }
    };
    let subject = key.map_or(String::new(), |key| format!("`{key}`"));
    match SerdeMistake::from_message(message) {
        SerdeMistake::UnknownField(wrong) => format!("unknown key `{wrong}`{}", suggest(wrong, "known keys are")),
        SerdeMistake::MissingField(missing) => format!("`{missing}` is missing"),
        SerdeMistake::UnknownVariant(wrong) => {
            format!("{subject} cannot be `{wrong}`{}", suggest(wrong, "it takes")).trim_start().to_owned()
        }
        SerdeMistake::InvalidLength | SerdeMistake::Other if subject.is_empty() => message.to_owned(),
        SerdeMistake::InvalidLength | SerdeMistake::Other => format!("{subject}: {message}"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::super::read;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Farm {
        title: String,
        #[serde(default)]
        row: Vec<FarmRow>,
        #[serde(default)]
        runs: BTreeMap<String, FarmRun>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct FarmRow {
        id: String,
        value: f64,
        kind: FarmKind,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum FarmKind {
        Disk,
        Tape,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct FarmRun {
        system: String,
        range: [f64; 2],
    }

    #[test]
    fn reports_all_mistakes_of_a_file() {
        let text = "titel = 'x'\n\
            [runs.a]\nsystem = 3\nrange = [1, 2]\n\
            [runs.b]\nsystem = 'x'\nrange = [1, 'x']\n\
            [[row]]\nid = 'S1'\nvalue = 'fast'\nkind = 'dsk'\n\
            [[row]]\nid = 'S2'\nkind = 'disk'\n\
            [[row]]\nvalue = true\nkind = 'drum'\nfoo = 1\n\
            [[row]]\nid = 'S4'\nvalue = 1\nkind = 'tape'\n";
        let found = read::<Farm>("farm.toml", text).unwrap_err().to_string();
        let expected = [
            "farm.toml:1: unknown key `titel`; did you mean `title`?",
            "farm.toml:3: [runs.a]: `system`: invalid type: integer `3`, expected a string",
            "farm.toml:7: [runs.b]: `range`: invalid type: string \"x\", expected f64",
            "farm.toml:10: row S1: `value`: invalid type: string \"fast\", expected f64",
            "farm.toml:11: row S1: `kind` cannot be `dsk`; did you mean `disk`?",
            "farm.toml:12: row S2: `value` is missing",
            "farm.toml:16: row 3: `value`: invalid type: boolean `true`, expected f64",
            "farm.toml:17: row 3: `kind` cannot be `drum`; it takes disk, tape",
            "farm.toml:18: row 3: unknown key `foo`; known keys are id, value, kind",
        ];
        assert_eq!(found.lines().collect::<Vec<_>>(), expected, "{found}");
    }

    #[test]
    fn reads_valid_files_and_reports_invalid_toml() {
        let farm = read::<Farm>("farm.toml", "title = 't'\n[[row]]\nid = 'a'\nvalue = 2\nkind = 'tape'\n").unwrap();
        assert_eq!((farm.row.len(), farm.row[0].value), (1, 2.0));
        let found = read::<Farm>("farm.toml", "title = \n").unwrap_err().to_string();
        assert!(found.starts_with("farm.toml:1: invalid TOML: "), "{found}");
        assert_eq!(read::<Farm>("farm.toml", "").unwrap_err().to_string(), "farm.toml:1: `title` is missing");
    }
}
