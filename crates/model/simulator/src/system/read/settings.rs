//! Settings that replace values of a description, for sweeps and experiments: `workload.users=16`,
//! `data.stripe_unit=128KB`.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::description_toml::{DescriptionSource, did_you_mean};

/// A key and its value, as typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Table and key: `workload.users` (of every workload), `data.stripe_unit` (of the part named `data`),
    /// `host.cache.size`.
    pub key: String,
    /// The value: TOML, or a string without its quotes.
    pub value: String,
}

impl Setting {
    /// Parses `KEY=VALUE`; `None` without `=` or without a key.
    pub fn parse(text: &str) -> Option<Setting> {
        let (key, value) = text.split_once('=')?;
        let (key, value) = (key.trim(), value.trim());
        (!key.is_empty() && !value.is_empty()).then(|| Setting { key: key.to_owned(), value: value.to_owned() })
    }
}

/// Applies settings to a parsed table; reports those without a matching part.
pub(super) fn apply_settings<'t>(source: &DescriptionSource<'t>, table: &mut DeTable<'t>, settings: &'t [Setting]) {
    for setting in settings {
        let mut parts = setting.key.split('.').map(str::trim);
        let first = parts.next().unwrap_or_default();
        let key_path: Vec<&'t str> = parts.collect();
        let item = format!("setting {}={}", setting.key, setting.value);
        if key_path.is_empty() || key_path.iter().any(|key| key.is_empty()) {
            source.report_problem(0, &item, "a setting needs a part and a key, such as workload.users=16");
            continue;
        }
        let mut changed_count = 0;
        for (key, value) in table.iter_mut() {
            let is_table_name = key.get_ref() == first;
            changed_count += match value.get_mut() {
                DeValue::Table(inner) if is_table_name => set_key(inner, &key_path, &setting.value),
                DeValue::Array(list) => list
                    .iter_mut()
                    .filter_map(|element| match element.get_mut() {
                        DeValue::Table(inner) if is_table_name || has_name(inner, first) => Some(inner),
                        _ => None,
                    })
                    .map(|inner| set_key(inner, &key_path, &setting.value))
                    .sum(),
                _ => 0,
            };
        }
        // a table that a description omits is a table of defaults
        if changed_count == 0 && ["system", "watch", "host"].contains(&first) {
            let mut inner = DeTable::new();
            changed_count = set_key(&mut inner, &key_path, &setting.value);
            table.insert(Spanned::new(0..0, first.into()), Spanned::new(0..0, DeValue::Table(inner)));
        }
        if changed_count == 0 {
            let names = list_part_names(table);
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let suggestion = did_you_mean(first, &names);
            source.report_problem(
                0,
                &item,
                format!("unknown part `{first}`; known are {}{suggestion}", names.join(", ")),
            );
        }
    }
}

/// Lists the names that settings can use: tables, and parts by their names.
fn list_part_names(table: &DeTable<'_>) -> Vec<String> {
    let mut names = Vec::new();
    for (key, value) in table.iter() {
        names.push(key.get_ref().to_string());
        let list = value.get_ref().as_array().into_iter().flat_map(|list| list.iter());
        let part_names = list.filter_map(|element| element.get_ref().as_table().and_then(table_name));
        names.extend(part_names.map(str::to_owned));
    }
    names
}

fn table_name<'a>(table: &'a DeTable<'_>) -> Option<&'a str> {
    table.iter().find(|(key, _)| key.get_ref() == "name").and_then(|(_, value)| value.get_ref().as_str())
}

fn has_name(table: &DeTable<'_>, name: &str) -> bool {
    table_name(table) == Some(name)
}

/// Sets a key of a table, or of tables within it; returns the number of changed values.
fn set_key<'t>(table: &mut DeTable<'t>, path: &[&'t str], text: &'t str) -> usize {
    let Some((key, rest)) = path.split_first() else { return 0 };
    let known = table.iter().find(|(k, _)| k.get_ref() == key).map(|(k, v)| (k.clone(), v.span()));
    let (name, span) = known.unwrap_or_else(|| (Spanned::new(0..0, (*key).into()), 0..0));
    if rest.is_empty() {
        table.insert(name, Spanned::new(span, parse_value(text)));
        return 1;
    }
    match table.get_mut(&name).map(Spanned::get_mut) {
        Some(DeValue::Table(inner)) => set_key(inner, rest, text),
        Some(DeValue::Array(list)) => list
            .iter_mut()
            .filter_map(|element| match element.get_mut() {
                DeValue::Table(inner) => Some(set_key(inner, rest, text)),
                _ => None,
            })
            .sum(),
        _ => {
            let mut inner = DeTable::new();
            let changed_count = set_key(&mut inner, rest, text);
            table.insert(name, Spanned::new(span, DeValue::Table(inner)));
            changed_count
        }
    }
}

/// Parses a value: as TOML if possible, otherwise as a string.
fn parse_value(text: &str) -> DeValue<'_> {
    match DeValue::parse(text) {
        Ok(value) => value.into_inner(),
        Err(_) => DeValue::String(text.into()),
    }
}
