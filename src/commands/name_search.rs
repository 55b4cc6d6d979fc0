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
    /// Its text has all words.
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
    let mut all = Vec::new();
    for term in glossary::builtin_terms() {
        all.push(new_entry("term", &term.id, &term.title, term.names.clone(), &term.explain));
    }
    for counter in Catalogue::builtin().counters() {
        let names = counter.names.iter().map(str::to_owned).collect();
        all.push(new_entry("counter", &counter.id, &counter_label(counter), names, &counter.explain));
    }
    for pack in packs {
        all.push(new_entry("pack", &pack.id, &pack.title, Vec::new(), &pack.explain));
        for rule in &pack.rules {
            let name = format!("{}/{}", pack.id, rule.id);
            all.push(new_entry("rule", &name, &rule.title, vec![rule.id.clone()], &rule.explain));
        }
    }
    for suite in diskwright_probe::SUITES {
        all.push(new_entry("suite", suite.id, suite.title, Vec::new(), suite.explain));
    }
    for drive in diskwright_simulator::catalogue::built_in_entries() {
        all.push(new_entry("drive", &drive.id, &drive.name, vec![drive.class.name().to_owned()], &drive.vendor));
    }
    for level in ArrayLevel::ALL {
        let info = level.info();
        let title = format!("RAID level: {}", first_sentence(&info.explain));
        let also = info.aliases.iter().filter(|n| n.chars().any(char::is_alphabetic)).cloned();
        let names = also.chain(info.aliases.iter().map(|n| format!("raid {n}"))).collect();
        all.push(new_entry("level", level.name(), &title, names, &info.explain));
    }
    all
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
        let (wanted, typed_words) = (normalize_letters(typed), split_words(typed));
        if wanted.is_empty() {
            return None;
        }
        let names = || self.names.iter().chain([&self.name]);
        let has_all = |text: &str| {
            let there = split_words(text);
            typed_words.iter().all(|word| there.contains(word))
        };
        if names().any(|name| normalize_letters(name) == wanted) {
            return Some(MatchQuality::Exact);
        }
        if names().any(|name| has_all(name)) {
            return Some(MatchQuality::Words);
        }
        if wanted.len() >= MIN_PART_LETTERS && names().any(|name| normalize_letters(name).contains(&wanted)) {
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
pub fn find_matching<'a>(all: &'a [ExplainEntry], typed: &str) -> Vec<(MatchQuality, &'a ExplainEntry)> {
    let mut found: Vec<(MatchQuality, &ExplainEntry)> =
        all.iter().filter_map(|e| Some((e.match_quality(typed)?, e))).collect();
    // short names first: they are more general
    found.sort_by_key(|(fit, e)| (std::cmp::Reverse(*fit), e.name.len()));
    found
}

/// Finds names similar to a mistyped one.
pub fn find_similar<'a>(all: &'a [ExplainEntry], typed: &str) -> Vec<&'a ExplainEntry> {
    let wanted = typed.to_lowercase();
    let mut left: Vec<(String, &ExplainEntry)> = Vec::new();
    for entry in all {
        let own = entry.name.rsplit(['/', '.']).next().unwrap_or_default();
        let names = entry.names.iter().map(String::as_str).chain([entry.name.as_str(), own]);
        left.extend(names.map(|n| (n.to_lowercase(), entry)));
    }
    let mut found: Vec<&ExplainEntry> = Vec::new();
    while found.len() < 3 {
        let Some(name) = nearest_word(&wanted, left.iter().map(|(n, _)| n.as_str())).map(str::to_owned) else { break };
        for (_, entry) in left.iter().filter(|(n, _)| *n == name) {
            if found.len() < 3 && !found.contains(entry) {
                found.push(entry);
            }
        }
        left.retain(|(n, _)| *n != name);
    }
    found
}

/// Formats ` (did you mean `x`?)`, or nothing.
pub fn suggestion_hint<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest_word(typed, known).map_or(String::new(), |near| format!(" (did you mean `{near}`?)"))
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
