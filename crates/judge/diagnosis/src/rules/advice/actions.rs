//! Commands to type now: templates in `rules/actions.toml` that are filled with the process, group and device of a
//! finding.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use diskwright_base::text::quote_for_shell;
use serde::Deserialize;

use crate::rules::{Advice, AdviceCondition, Bottleneck};

/// Facts about a finding by the names that `rules/actions.toml` gives them; a fact without a value is an empty text.
pub(crate) type ActionFacts = BTreeMap<&'static str, String>;

/// A command that may fit a finding.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Action {
    id: String,
    bottleneck: Bottleneck,
    #[serde(default)]
    objects: Vec<String>,
    /// Facts that must be known beside those that the texts name.
    #[serde(default)]
    needs: Vec<String>,
    /// Facts that must not be known.
    #[serde(default)]
    unless: Vec<String>,
    text: String,
    command: String,
    undo: Option<String>,
    source: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ActionFile {
    /// Schedulers that honor the priorities of I/O.
    priority_schedulers: Vec<String>,
    /// Programs that can wait.
    batch_programs: Vec<String>,
    /// Programs that others wait for.
    server_programs: Vec<String>,
    action: Vec<Action>,
}

/// Content of `rules/actions.toml`.
///
/// # Panics
/// Where the file is wrong, which a test excludes.
fn builtin_actions() -> &'static ActionFile {
    static BUILTIN: OnceLock<ActionFile> = OnceLock::new();
    BUILTIN.get_or_init(|| {
        let text = include_str!("../../../../../../rules/actions.toml");
        diskwright_base::toml_reader::read_built_in("rules/actions.toml", text)
    })
}

/// True for a scheduler that honors the priorities of I/O.
pub(crate) fn honors_priorities(scheduler: &str) -> bool {
    builtin_actions().priority_schedulers.iter().any(|known| known == scheduler)
}

/// True for a program that can wait: a copy, a backup, an index.
pub(crate) fn is_batch_program(name: &str) -> bool {
    builtin_actions().batch_programs.iter().any(|known| known == name)
}

/// True for a program that others wait for: a database, a file server.
pub(crate) fn is_server_program(name: &str) -> bool {
    builtin_actions().server_programs.iter().any(|known| known == name)
}

/// Facts that a shell reads as several words: ids of processes, and lists of their threads. They are not quoted.
const SHELL_FACTS: [&str; 2] = ["pids", "tasks"];

/// Writes a fact into a command.
fn write_in_command(fact: &str, value: &str) -> String {
    if SHELL_FACTS.contains(&fact) { value.to_owned() } else { quote_for_shell(value) }
}

/// The actions that fit a finding, in the order of the file.
pub(crate) fn fitting_actions(bottleneck: Bottleneck, object: &str, facts: &ActionFacts) -> Vec<Advice> {
    let fits = |action: &&Action| {
        let is_about = action.objects.is_empty() || action.objects.iter().any(|known| known == object);
        let has_facts = action.needs.iter().all(|fact| facts.contains_key(fact.as_str()))
            && !action.unless.iter().any(|fact| facts.contains_key(fact.as_str()));
        action.bottleneck == bottleneck && is_about && has_facts
    };
    builtin_actions().action.iter().filter(fits).filter_map(|action| fill_action(action, facts)).collect()
}

/// Fills the texts of an action; `None` where they name a fact that is not known.
fn fill_action(action: &Action, facts: &ActionFacts) -> Option<Advice> {
    let undo = action.undo.as_deref().map(|undo| fill_template(undo, facts, write_in_command));
    Some(Advice {
        id: action.id.clone(),
        text: fill_template(&action.text, facts, |_, value| value.to_owned())?,
        modern: String::new(),
        source: action.source.clone(),
        cost: 1,
        command: Some(fill_template(&action.command, facts, write_in_command)?),
        undo: match undo {
            Some(undo) => Some(undo?),
            None => None,
        },
        windows: None,
        unix: None,
        when: AdviceCondition::default(),
    })
}

/// Replaces `{fact}` by its value, written by `write`; `None` where a fact is not known.
fn fill_template(template: &str, facts: &ActionFacts, write: fn(&str, &str) -> String) -> Option<String> {
    let mut parts = template.split('{');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (fact, rest) = part.split_once('}')?;
        text += &write(fact, facts.get(fact)?);
        text += rest;
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_action_is_made_of_known_facts() {
        const FACTS: [&str; 40] = [
            "pids",
            "tasks",
            "alone",
            "together",
            "name",
            "unit",
            "group",
            "device",
            "half_read",
            "half_write",
            "limit",
            "more",
            "priorities",
            "batch",
            "unified",
            "legacy",
            "realtime",
            "crowded",
            "lock_holder",
            "idle_holder",
            "postgres_url",
            "mysql_place",
            "commit_delay",
            "waits_for_log",
            "max_wal_size",
            "more_wal",
            "some_wal",
            "enough_wal",
            "times",
            "nice",
            "urgent",
            "server",
            "several",
            "postgres_socket",
            "postgres_port",
            "more_size",
            "io_limit",
            "twice",
            "io_key",
            "io_file",
        ];
        let all: ActionFacts = FACTS.into_iter().map(|fact| (fact, "x".to_owned())).collect();
        for action in &builtin_actions().action {
            assert!(action.needs.iter().all(|fact| all.contains_key(fact.as_str())), "{action:?}");
            let filled = fill_action(action, &all).unwrap_or_else(|| panic!("{}: an unknown fact", action.id));
            assert!(filled.command.is_some_and(|command| !command.contains(['{', '}'])), "{action:?}");
        }
    }

    #[test]
    fn an_action_without_its_facts_is_left_out() {
        let facts: ActionFacts = ["name=tar", "tasks=$(ls /proc/7/task)", "crowded=", "urgent=", "nice=5"]
            .map(|fact| fact.split_once('=').expect("name and value"))
            .map(|(fact, value)| (fact, value.to_owned()))
            .into();
        let commands = |bottleneck| -> Vec<String> {
            fitting_actions(bottleneck, "physical_disk", &facts).into_iter().filter_map(|a| a.command).collect()
        };
        assert_eq!(commands(Bottleneck::Cpu), ["renice -n 19 -p $(ls /proc/7/task)"]);
        assert!(commands(Bottleneck::Disk).is_empty());
    }

    #[test]
    fn what_others_named_is_one_word_of_a_command() {
        let facts: ActionFacts = [
            ("group", "/a b';reboot".to_owned()),
            ("limit", "1".into()),
            ("more", "2".into()),
            ("more_size", "2 B".into()),
            ("unified", String::new()),
        ]
        .into();
        let found = fitting_actions(Bottleneck::Memory, "cgroup", &facts);
        assert_eq!(found[0].command.as_deref(), Some("echo 2 > /sys/fs/cgroup'/a b'\\'';reboot'/memory.max"));
    }
}
