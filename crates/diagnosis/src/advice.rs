//! What to do about it: texts in `rules/advice.toml`, named by rules.

use std::sync::OnceLock;

use serde::Serialize;

use crate::read::{Fields, RuleError, Source, parse};

/// One remedy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// Id that rules name, such as `memory.add`.
    pub id: String,
    /// What to do.
    pub text: String,
    /// The modern equivalent of a printed remedy; empty where the text says it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub modern: String,
    /// Where it comes from.
    pub source: String,
    /// From 1 (a setting) to 9 (another machine): cheapest first.
    pub cost: u8,
}

/// The texts that are built in.
///
/// # Panics
/// When `rules/advice.toml` is wrong, which a test rules out.
pub fn builtin() -> &'static [Advice] {
    static BUILTIN: OnceLock<Vec<Advice>> = OnceLock::new();
    BUILTIN.get_or_init(|| {
        let text = include_str!("../../../rules/advice.toml");
        load("rules/advice.toml", text).unwrap_or_else(|error| panic!("{error}"))
    })
}

/// Reads a file of `[[advice]]` alone.
pub fn load(file: &str, text: &str) -> Result<Vec<Advice>, RuleError> {
    let source = Source { file, text };
    let table = parse(&source)?;
    let mut top = Fields::new(&source, "", table.get_ref(), 0..text.len());
    let list = take(&mut top)?;
    top.finish()?;
    Ok(list)
}

/// The `[[advice]]` of a file.
pub(crate) fn take(top: &mut Fields<'_, '_>) -> Result<Vec<Advice>, RuleError> {
    let mut list: Vec<Advice> = Vec::new();
    for value in top.list("advice")? {
        let mut fields = Fields::of(top.source, "advice", value)?;
        let id = fields.needed("id")?;
        fields.item = format!("advice {id}");
        let text = fields.needed("text")?;
        let modern = fields.text("modern")?.unwrap_or_default();
        let source = fields.needed("source")?;
        let cost = fields.number("cost")?.ok_or_else(|| fields.wrong("`cost` is missing"))?;
        if !(1.0..=9.0).contains(&cost) || cost.fract() != 0.0 {
            return Err(fields.wrong("`cost` must be a whole number from 1 to 9"));
        }
        fields.finish()?;
        if list.iter().any(|a| a.id == id) {
            return Err(fields.wrong("a second advice with this id"));
        }
        list.push(Advice { id, text, modern, source, cost: cost as u8 });
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_texts_are_read() {
        assert!(builtin().iter().any(|a| a.id == "memory.add"));
    }

    #[test]
    fn wrong_texts_are_refused_with_their_line() {
        let text = "[[advice]]\nid = \"a\"\ntext = \"t\"\nsource = \"s\"\ncost = 10\n";
        let error = load("rules/advice.toml", text).unwrap_err();
        assert_eq!(error.to_string(), "rules/advice.toml:1: advice a: `cost` must be a whole number from 1 to 9");
    }
}
