//! Counter names in the languages of Windows. The language of a log is detected by its names: it is the one whose table
//! knows most of them. The tables are data, `languages/*.toml`; each states the source of its names.

use std::collections::HashMap;
use std::sync::OnceLock;

use diskwright_base::toml_reader;
use serde::Deserialize;

use super::{CounterPath, counter_key, normalize_name};

/// A language of Windows and the names that are known in it.
pub struct Language {
    /// Its code, such as `de` or `pt-BR`.
    pub id: &'static str,
    /// English name of each object.
    objects: HashMap<String, String>,
    /// English counter by [`counter_key`] of its English object and its own name.
    counters: HashMap<String, String>,
}

impl std::fmt::Debug for Language {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.id)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LanguageFile {
    /// Source of the names.
    source: String,
    /// English object to its name, or its names in several versions of Windows.
    objects: HashMap<String, OneOrMore>,
    /// English object, or several with commas, to its counters: English counter and its name or names.
    counters: HashMap<String, HashMap<String, OneOrMore>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl OneOrMore {
    fn into_names(self) -> Vec<String> {
        match self {
            OneOrMore::One(name) => vec![name],
            OneOrMore::More(names) => names,
        }
    }
}

/// Files of the tables, which a test compares with the folder. English needs none.
const LANGUAGE_FILES: &[(&str, &str)] = &[
    ("de", include_str!("languages/de.toml")),
    ("es", include_str!("languages/es.toml")),
    ("fr", include_str!("languages/fr.toml")),
    ("it", include_str!("languages/it.toml")),
    ("pt-BR", include_str!("languages/pt-BR.toml")),
    ("pt-PT", include_str!("languages/pt-PT.toml")),
    ("ru", include_str!("languages/ru.toml")),
    ("sv", include_str!("languages/sv.toml")),
];

/// All languages but English.
pub fn languages() -> &'static [Language] {
    static LANGUAGES: OnceLock<Vec<Language>> = OnceLock::new();
    LANGUAGES.get_or_init(|| {
        LANGUAGE_FILES
            .iter()
            .map(|(id, text)| load_language(id, text).unwrap_or_else(|e| panic!("{id}.toml: {e}")))
            .collect()
    })
}

fn load_language(id: &'static str, text: &str) -> Result<Language, String> {
    let file: LanguageFile = toml_reader::read(&format!("{id}.toml"), text).map_err(|e| e.to_string())?;
    if file.source.is_empty() {
        return Err("its source is not said".into());
    }
    let mut language = Language { id, objects: HashMap::new(), counters: HashMap::new() };
    for (english, names) in file.objects {
        for name in names.into_names() {
            if let Some(previous) = language.objects.insert(normalize_name(&name), english.clone()) {
                return Err(format!("{name} is {previous} and {english}"));
            }
        }
    }
    for (objects, counters) in file.counters {
        let counters: Vec<(String, Vec<String>)> =
            counters.into_iter().map(|(e, names)| (e, names.into_names())).collect();
        for object in objects.split(", ") {
            if !language.objects.values().any(|o| *o == object) {
                return Err(format!("counters of {object}, which has no name"));
            }
            for (english, name) in counters.iter().flat_map(|(e, names)| names.iter().map(move |n| (e, n))) {
                if let Some(previous) = language.counters.insert(counter_key(object, name), english.clone()) {
                    return Err(format!("{object}: {name} is {previous} and {english}"));
                }
            }
        }
    }
    Ok(language)
}

impl Language {
    /// Translates an object and counter to English; `None` if the table does not know them.
    pub fn to_english(&self, object: &str, counter: &str) -> Option<(&str, &str)> {
        let object = self.objects.get(&normalize_name(object))?;
        let counter = self.counters.get(&counter_key(object, counter))?;
        Some((object, counter))
    }
}

/// Detects the language that knows most of these paths, and how many it knows. The language is `None` if English
/// knows at least as many, or no name is known.
pub fn detect_language(paths: &[CounterPath]) -> (Option<&'static Language>, usize) {
    let pairs = distinct_names(paths);
    let is_known = |pair: &&(&str, &str)| super::is_known_counter(pair.0, pair.1);
    let mut best = (None, pairs.iter().filter(is_known).count());
    for language in languages() {
        let count = pairs.iter().filter(|(object, counter)| language.to_english(object, counter).is_some()).count();
        if count > best.1 {
            best = (Some(language), count);
        }
    }
    best
}

/// Lists the object and counter of the paths, each pair once.
fn distinct_names(paths: &[CounterPath]) -> Vec<(&str, &str)> {
    let mut pairs: Vec<(&str, &str)> = paths.iter().map(|p| (p.object.as_str(), p.counter.as_str())).collect();
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

/// Translates the paths to English if the language knows them. Returns the pairs of names that it does not know.
pub fn translate_paths(language: &Language, paths: &mut [CounterPath]) -> Vec<String> {
    let mut unknown = Vec::new();
    for path in paths {
        match language.to_english(&path.object, &path.counter) {
            Some((object, counter)) => (path.object, path.counter) = (object.to_owned(), counter.to_owned()),
            None => unknown.push(format!("{}\\{}", path.object, path.counter)),
        }
    }
    unknown.sort_unstable();
    unknown.dedup();
    unknown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_in_the_folder_is_registered_and_uses_known_english_names() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/nt/languages");
        let mut on_disk: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|e| e.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        on_disk.sort_unstable();
        let registered: Vec<&str> = LANGUAGE_FILES.iter().map(|(id, _)| *id).collect();
        assert_eq!(on_disk, registered);
        for language in languages() {
            for (key, english) in &language.counters {
                let (object, _) = key.split_once('\\').unwrap();
                let spelt = language.objects.values().find(|o| normalize_name(o) == object).unwrap();
                let known = super::super::is_known_counter(spelt, english);
                let kept = KEPT_FOREIGN.contains(&(spelt.as_str(), english.as_str()));
                assert!(known || kept, "{}: no counter {spelt}\\{english}", language.id);
            }
        }
    }

    /// Names that the catalogue lacks and readers use in English.
    const KEPT_FOREIGN: &[(&str, &str)] = &[("Process", "ID Process")];

    #[test]
    fn detects_the_language_that_knows_most_names() {
        let paths = |texts: &[&str]| texts.iter().map(|t| CounterPath::parse(t).unwrap()).collect::<Vec<_>>();
        let mut german = paths(&[r"\Prozessor(_Total)\Prozessorzeit (%)", r"\Server\Widgets"]);
        let (language, known) = detect_language(&german);
        assert_eq!((language.map(|l| l.id), known), (Some("de"), 1));
        assert_eq!(translate_paths(language.unwrap(), &mut german), [r"Server\Widgets"]);
        assert_eq!((german[0].object.as_str(), german[0].counter.as_str()), ("Processor", "% Processor Time"));
        let (language, known) = detect_language(&paths(&[r"\Memory\Pages/sec"]));
        assert_eq!((language.map(|l| l.id), known), (None, 1));
        assert_eq!(detect_language(&paths(&[r"\A\B"])).1, 0);
    }
}
