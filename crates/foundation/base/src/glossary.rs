//! Glossary of storage terms that are not counters, for `explain`.

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::toml_reader;

/// A term of storage performance.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct GlossaryTerm {
    /// Its id: the name in small letters.
    pub id: String,
    /// Spellings that people type, the usual one first.
    pub names: Vec<String>,
    /// Definition in one line.
    pub title: String,
    /// Meaning.
    pub explain: String,
    /// The way in which it misleads.
    #[serde(default)]
    pub beware: String,
    /// Source of the definition.
    pub source: String,
    /// Counters that measure it.
    #[serde(default)]
    pub counters: Vec<String>,
    /// Rules of the default pack that judge it.
    #[serde(default)]
    pub rules: Vec<String>,
    /// Suites of `probe` that measure it.
    #[serde(default)]
    pub suites: Vec<String>,
    /// Drives of the catalogue that show it.
    #[serde(default)]
    pub drives: Vec<String>,
    /// Other terms.
    #[serde(default)]
    pub terms: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GlossaryFile {
    term: Vec<GlossaryTerm>,
}

/// Returns all terms of the built-in glossary.
///
/// # Panics
/// Never: a test reads the file.
pub fn builtin_terms() -> &'static [GlossaryTerm] {
    static READ: OnceLock<Vec<GlossaryTerm>> = OnceLock::new();
    READ.get_or_init(|| {
        toml_reader::read_built_in::<GlossaryFile>("glossary.toml", include_str!("../glossary.toml")).term
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::Catalogue;

    #[test]
    fn every_term_is_complete_and_has_valid_references() {
        let ids: HashSet<&str> = builtin_terms().iter().map(|t| t.id.as_str()).collect();
        assert_eq!(ids.len(), builtin_terms().len(), "an id twice");
        for term in builtin_terms() {
            let GlossaryTerm { id, names, title, explain, source, .. } = term;
            assert!(!names.is_empty() && !title.is_empty() && explain.len() > 60 && !source.is_empty(), "{id}");
            assert!(title.len() <= 100, "{id}: {title}");
            let counters = term.counters.iter().filter(|c| Catalogue::builtin().get(c).is_none());
            assert_eq!(counters.collect::<Vec<_>>(), Vec::<&String>::new(), "{id}: no such counter");
            let others = term.terms.iter().filter(|t| !ids.contains(t.as_str()));
            assert_eq!(others.collect::<Vec<_>>(), Vec::<&String>::new(), "{id}: no such term");
            assert!(!term.counters.is_empty(), "{id}: nothing measures it");
        }
    }
}
