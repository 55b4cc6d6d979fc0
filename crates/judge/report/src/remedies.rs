//! Remedies as pages and screens show them: in the order to try them, with what to type on a line of its own.

use diskwright_base::units::format_value;
use diskwright_diagnosis::Verdict;
use diskwright_diagnosis::verdict::VerdictBottleneck;

use crate::verdict_words::{self, bottleneck_title, in_turns};

/// A remedy against a bottleneck.
#[derive(Clone, Debug, PartialEq)]
pub struct Remedy {
    /// The bottleneck that it is against; empty where there is only one.
    pub against: String,
    /// What to do, in a sentence or two; a command within it is between backticks.
    pub text: String,
    /// What to type.
    pub command: Option<String>,
    /// What takes it back.
    pub undo: Option<String>,
}

impl Remedy {
    /// True if there is something to type now. Other remedies are advice for later: larger requests, another disk.
    pub fn is_act(&self) -> bool {
        self.command.is_some() || self.text.contains('`')
    }

    /// The remedy in words, with the bottleneck that it is against.
    pub fn words(&self) -> String {
        if self.against.is_empty() { self.text.clone() } else { format!("{}: {}", self.against, self.text) }
    }

    /// All of it in a line: in words, with its command and the way back.
    pub fn sentence(&self) -> String {
        let words = self.words();
        match (&self.command, &self.undo) {
            (None, _) => words,
            (Some(command), None) => format!("{words} `{command}`"),
            (Some(command), Some(undo)) => format!("{words} `{command}` (back: `{undo}`)"),
        }
    }

    /// What to type, with the bottleneck that it is against: for a screen without room for words.
    pub fn typed(&self) -> Option<String> {
        let command = self.command.as_ref()?;
        Some(if self.against.is_empty() { command.clone() } else { format!("{}: {command}", self.against) })
    }
}

/// Returns the remedies in the order to try them: the first against each bottleneck, then the others. If any has a
/// command, the first of these leads, because in an incident it is of use at once.
pub fn remedies_in_order(verdict: &Verdict) -> Vec<Remedy> {
    let of_bottleneck = |listed: &VerdictBottleneck| -> Vec<Remedy> {
        let title = match verdict.bottlenecks.len() {
            1 => String::new(),
            _ => bottleneck_title(listed.bottleneck, &listed.instance),
        };
        listed.advice.iter().map(|advice| remedy(title.clone(), advice)).collect()
    };
    if verdict.bottlenecks.is_empty() {
        return verdict.advice.iter().map(|advice| remedy(String::new(), advice)).collect();
    }
    let of_each: Vec<Vec<Remedy>> = verdict.bottlenecks.iter().map(of_bottleneck).collect();
    let mut list: Vec<Remedy> = Vec::new();
    for remedy in in_turns(&of_each) {
        let is_known = |known: &Remedy| known.text == remedy.text && known.command == remedy.command;
        if !list.iter().any(is_known) {
            list.push(remedy);
        }
    }
    if let Some(first_act) = list.iter().position(|remedy| remedy.command.is_some()) {
        list[..=first_act].rotate_right(1);
    }
    list
}

fn remedy(against: String, advice: &diskwright_diagnosis::Advice) -> Remedy {
    Remedy { against, text: advice.text.clone(), command: advice.command.clone(), undo: advice.undo.clone() }
}

/// Returns what a verdict is based on, a line each: `sda: requests queue: 6.2, more than 2 for 93 % of the time`.
pub fn evidence_lines(verdict: &Verdict) -> Vec<String> {
    let line = |finding: &diskwright_diagnosis::Finding| {
        let value = format_value(finding.value, finding.display_unit());
        let limit = verdict_words::limit_text(finding, verdict.window.seconds);
        format!("{}: {value}, {limit}", verdict_words::finding_title(finding))
    };
    verdict_words::evidence_in_order(verdict).into_iter().map(line).collect()
}
