//! Search over everything that can be explained: terms, counters, rules, packs, suites, drives, RAID levels, formats,
//! experiments.

use diskwright_base::user_input::nearest_word;
use diskwright_base::{Catalogue, glossary};
use diskwright_diagnosis::Pack;
use diskwright_report::explain::counter_label;
use diskwright_simulator::ArrayLevel;
use serde_json::{Value, json};

/// Something that can be explained.
#[derive(Clone, Debug, PartialEq)]
pub struct ExplainEntry {
    /// `term`, `counter`, `rule`, …
    pub kind: &'static str,
    /// Name to type for it.
    pub name: String,
    /// Description in one line.
    pub title: String,
    /// Other names.
    names: Vec<String>,
    /// Full text, for searching.
    text: String,
}

/// Quality of a match, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MatchQuality {
    /// Its title or text has all of the words.
    Text,
    /// A name contains the text.
    Part,
    /// A name has all of the words.
    Words,
    /// A name equals the text.
    Exact,
}

fn new_entry(kind: &'static str, name: &str, title: &str, names: Vec<String>, text: &str) -> ExplainEntry {
    ExplainEntry { kind, name: name.to_owned(), title: title.to_owned(), names, text: text.to_owned() }
}

/// All entries.
pub fn all_entries(packs: &[Pack]) -> Vec<ExplainEntry> {
    let mut entries = Vec::new();
    for term in glossary::builtin_terms() {
        entries.push(new_entry("term", &term.id, &term.title, term.names.clone(), &term.explain));
    }
    for counter in Catalogue::builtin().counters() {
        let names = counter.names.iter().map(str::to_owned).collect();
        entries.push(new_entry("counter", &counter.id, &counter_label(counter), names, &counter.explain));
    }
    for pack in packs {
        entries.push(new_entry("pack", &pack.id, &pack.title, Vec::new(), &pack.explain));
        for rule in &pack.rules {
            let name = format!("{}/{}", pack.id, rule.id);
            entries.push(new_entry("rule", &name, &rule.title, vec![rule.id.clone()], &rule.explain));
        }
    }
    for suite in diskwright_probe::SUITES {
        entries.push(new_entry("suite", suite.id, suite.title, Vec::new(), suite.explain));
    }
    for drive in diskwright_simulator::catalogue::built_in_entries() {
        entries.push(new_entry("drive", &drive.id, &drive.name, vec![drive.class.name().to_owned()], &drive.vendor));
    }
    for level in ArrayLevel::ALL {
        let info = level.info();
        let title = format!("RAID level: {}", first_sentence(&info.explain));
        let aliases = info.aliases.iter().filter(|n| n.chars().any(char::is_alphabetic)).cloned();
        let names = aliases.chain(info.aliases.iter().map(|n| format!("raid {n}"))).collect();
        entries.push(new_entry("level", level.name(), &title, names, &info.explain));
    }
    entries
}

fn first_sentence(text: &str) -> &str {
    text.trim().split_inclusive(". ").next().unwrap_or_default().trim().trim_end_matches('.')
}

/// Minimum number of letters for a match within a name: shorter parts occur in too many names.
const MIN_PART_LETTERS: usize = 4;

/// Keeps only letters and digits, in lower case.
fn normalize_letters(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

fn split_words(text: &str) -> Vec<String> {
    let parts = text.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty());
    parts.map(str::to_lowercase).collect()
}

impl ExplainEntry {
    /// Returns how well the entry matches the typed text; `None` if it does not.
    pub fn match_quality(&self, typed: &str) -> Option<MatchQuality> {
        let (normalized, typed_words) = (normalize_letters(typed), split_words(typed));
        if normalized.is_empty() {
            return None;
        }
        let names = || self.names.iter().chain([&self.name]);
        let has_all = |text: &str| {
            let words = split_words(text);
            typed_words.iter().all(|word| words.contains(word))
        };
        if names().any(|name| normalize_letters(name) == normalized) {
            return Some(MatchQuality::Exact);
        }
        if names().any(|name| has_all(name)) {
            return Some(MatchQuality::Words);
        }
        if normalized.len() >= MIN_PART_LETTERS && names().any(|name| normalize_letters(name).contains(&normalized)) {
            return Some(MatchQuality::Part);
        }
        (has_all(&self.title) || has_all(&self.text)).then_some(MatchQuality::Text)
    }

    /// Returns the entry as JSON.
    pub fn summary_json(&self) -> Value {
        json!({ "kind": self.kind, "name": self.name, "title": self.title })
    }
}

/// Finds matching entries, best first.
pub fn find_matching<'a>(entries: &'a [ExplainEntry], typed: &str) -> Vec<(MatchQuality, &'a ExplainEntry)> {
    let mut matches: Vec<(MatchQuality, &ExplainEntry)> =
        entries.iter().filter_map(|e| Some((e.match_quality(typed)?, e))).collect();
    // short names first: they are more general
    matches.sort_by_key(|(quality, e)| (std::cmp::Reverse(*quality), e.name.len()));
    matches
}

/// Finds names similar to a mistyped one.
pub fn find_similar<'a>(entries: &'a [ExplainEntry], typed: &str) -> Vec<&'a ExplainEntry> {
    let lowercase = typed.to_lowercase();
    let mut candidates: Vec<(String, &ExplainEntry)> = Vec::new();
    for entry in entries {
        let last_part = entry.name.rsplit(['/', '.']).next().unwrap_or_default();
        let names = entry.names.iter().map(String::as_str).chain([entry.name.as_str(), last_part]);
        candidates.extend(names.map(|n| (n.to_lowercase(), entry)));
    }
    let mut similar: Vec<&ExplainEntry> = Vec::new();
    while similar.len() < 3 {
        let Some(name) = nearest_word(&lowercase, candidates.iter().map(|(n, _)| n.as_str())).map(str::to_owned) else {
            break;
        };
        for (_, entry) in candidates.iter().filter(|(n, _)| *n == name) {
            if similar.len() < 3 && !similar.contains(entry) {
                similar.push(entry);
            }
        }
        candidates.retain(|(n, _)| *n != name);
    }
    similar
}

/// Formats ` (did you mean `x`?)`, or nothing.
pub fn suggestion_hint<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest_word(typed, known).map_or(String::new(), |nearest| format!(" (did you mean `{nearest}`?)"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use diskwright_diagnosis::packs;

    #[test]
    fn finds_what_people_type() {
        let packs = packs::builtin_packs().expect("built-in packs load");
        let all = all_entries(&packs);
        let typed = [
            "PSI",
            "svctm",
            "raid5",
            "RAID 5",
            "await",
            "%util",
            "iowait",
            "load average",
            "dirty pages",
            "fsync",
            "queue depth",
            "NVMe",
            "page cache",
            "write penalty",
            "steal",
            "IOPS",
            "D state",
            "swap",
            "seek",
            "stripe",
            "TRIM",
            "oom",
            "loadavg",
            "utilization",
            "disk.saturated",
            "minread",
            "aqu-sz",
            "mirror",
        ];
        for typed in typed {
            let best = find_matching(&all, typed).first().map(|(fit, _)| *fit);
            assert_eq!(best, Some(MatchQuality::Exact), "{typed}");
        }
        // short words do not match parts of longer ones
        assert!(find_matching(&all, "io").iter().all(|(fit, _)| *fit != MatchQuality::Part));
        assert!(find_matching(&all, "").is_empty() && find_matching(&all, "--").is_empty());
    }

    #[test]
    fn suggests_the_intended_name_for_typing_errors() {
        let all = all_entries(&packs::builtin_packs().expect("built-in packs load"));
        let first = |typed: &str| find_similar(&all, typed).first().map(|e| e.name.clone()).unwrap_or_default();
        assert!(first("iowiat").contains("iowait"), "{}", first("iowiat"));
        assert_eq!((first("raid55"), first("mnread")), ("raid5".into(), "minread".into()));
        assert!(find_similar(&all, "xyzzyplugh").is_empty());
    }

    #[test]
    fn every_glossary_link_resolves() {
        let packs = packs::builtin_packs().expect("built-in packs load");
        let default = packs.iter().find(|p| p.id == "default").expect("there is one");
        for term in glossary::builtin_terms() {
            let suite = |id: &String| diskwright_probe::suites::find_suite(id).is_none();
            let drive = |id: &String| diskwright_simulator::catalogue::find_entry(id).is_none();
            let missing: Vec<&String> = term.rules.iter().filter(|id| default.find_rule(id).is_none()).collect();
            let missing: Vec<&String> = missing.into_iter().chain(term.suites.iter().filter(|id| suite(id))).collect();
            let missing: Vec<&String> = missing.into_iter().chain(term.drives.iter().filter(|id| drive(id))).collect();
            assert!(missing.is_empty(), "{}: {missing:?}", term.id);
        }
    }
}
