//! Every limit of our own pack is held from both sides: whoever changes a rule
//! a little sees one of its cases fail. One thing is changed at a time: a limit
//! up or down by a twentieth, a comparison with or without the limit itself,
//! how long the rule must hold, and each class, counter and other rule that it
//! names, left out.

use std::collections::BTreeSet;

use diskwright_diagnosis::pseudo_counters::Pseudo;
use diskwright_diagnosis::rule::{Comparator, Condition, RuleLimit};
use diskwright_diagnosis::{Pack, Rule};

use crate::packs::{JudgeInput, OWN, cases, pack, report};

/// Changes that no recording shows, each with the reason: pack, rule, change.
const UNSEEN: &[(&str, &str, &str)] = &[];

/// A changed rule, and what was changed.
type Mutant = (String, Rule);

fn changed(rule: &Rule, description: String, change: impl FnOnce(&mut Rule)) -> Mutant {
    let mut other = rule.clone();
    change(&mut other);
    (description, other)
}

fn condition(rule: &mut Rule, index: usize) -> &mut Condition {
    let all = rule.all.len();
    if index < all { &mut rule.all[index] } else { &mut rule.any[index - all] }
}

fn limit_text(limit: &RuleLimit) -> String {
    match limit {
        RuleLimit::Number(number) => number.to_string(),
        RuleLimit::EachDisk { each_disk } => format!("{each_disk} for each disk"),
        RuleLimit::Counter { counter, times } => format!("{} x {times}", counter.id),
    }
}

/// The limit a twentieth higher or lower; one of nothing by one.
fn moved(limit: &RuleLimit, up: bool) -> RuleLimit {
    let (by, one) = if up { (1.05, 1.0) } else { (0.95, -1.0) };
    match limit {
        RuleLimit::Number(number) if *number == 0.0 => RuleLimit::Number(one),
        RuleLimit::Number(number) => RuleLimit::Number(number * by),
        RuleLimit::EachDisk { each_disk } => RuleLimit::EachDisk { each_disk: each_disk * by },
        RuleLimit::Counter { counter, times } => RuleLimit::Counter { counter: counter.clone(), times: times * by },
    }
}

fn swapped(compare: Comparator) -> Comparator {
    match compare {
        Comparator::Above => Comparator::AtLeast,
        Comparator::AtLeast => Comparator::Above,
        Comparator::Below => Comparator::AtMost,
        Comparator::AtMost => Comparator::Below,
    }
}

fn of_conditions(rule: &Rule) -> Vec<Mutant> {
    let mut mutants = Vec::new();
    for (index, of) in rule.conditions().enumerate() {
        let condition_text = format!("{} {} {}", of.quantity.formula_text(), of.compare.name(), limit_text(&of.limit));
        match of.quantity.counter.pseudo {
            // yes or no: there is nothing beside the limit
            Some(Pseudo::CeilingFirm | Pseudo::WaitingUnseen | Pseudo::PagingUnseen | Pseudo::DisksUnseen) => {
                let opposite = if of.compare.is_upper() { Comparator::Below } else { Comparator::Above };
                mutants.push(changed(rule, format!("{condition_text}: reversed"), |r| {
                    condition(r, index).compare = opposite
                }));
                continue;
            }
            // a whole number
            Some(Pseudo::Processors) => {}
            _ => {
                for (up, word) in [(true, "up"), (false, "down")] {
                    let limit = moved(&of.limit, up);
                    mutants.push(changed(rule, format!("{condition_text}: {word}"), |r| {
                        condition(r, index).limit = limit
                    }));
                }
            }
        }
        // what is computed of the whole window meets its limit by chance alone
        if !of.is_window_value() {
            let other = swapped(of.compare);
            mutants.push(changed(rule, format!("{condition_text}: {}", other.name()), |r| {
                condition(r, index).compare = other
            }));
        }
    }
    mutants
}

fn of_time(rule: &Rule) -> Vec<Mutant> {
    let lasts = rule.sustained;
    let mut mutants = Vec::new();
    for (by, step, word) in [(1.05, 1.0, "longer"), (0.95, -1.0, "shorter")] {
        let share = if lasts.share == 0.0 { by - 1.0 } else { lasts.share * by };
        if share > 0.0 {
            mutants.push(changed(rule, format!("share: {word}"), |r| r.sustained.share = share));
        }
        if lasts.at_least_s > 0.0 {
            mutants.push(changed(rule, format!("at_least: {word}"), |r| r.sustained.at_least_s += step));
        }
        if lasts.in_a_row_s > 0.0 {
            mutants.push(changed(rule, format!("in_a_row: {word}"), |r| r.sustained.in_a_row_s += step));
        }
        if lasts.times > 1 {
            let times = if step > 0.0 { lasts.times + 1 } else { lasts.times - 1 };
            mutants.push(changed(rule, format!("times: {word}"), |r| r.sustained.times = times));
        }
    }
    mutants
}

/// Entries of a rule's `none`: ids, and families that are listed as a whole.
fn explained_by(pack: &Pack, rule: &Rule) -> BTreeSet<String> {
    let entry = |id: &String| {
        let family = id.split_once('.').map_or("", |(family, _)| family).to_owned() + ".";
        let others = |r: &&Rule| r.weight > 0.0 && r.id.starts_with(&family) && r.id != rule.id;
        let excludes_family = pack.rules.iter().filter(others).all(|r| rule.none.contains(&r.id));
        if excludes_family { family } else { id.clone() }
    };
    rule.none.iter().map(entry).collect()
}

fn of_lists(pack: &Pack, rule: &Rule) -> Vec<Mutant> {
    let mut mutants = Vec::new();
    for class in rule.classes.iter().copied() {
        mutants.push(changed(rule, format!("classes: without {class:?}"), |r| r.classes.retain(|c| *c != class)));
    }
    for class in rule.except_classes.iter().copied() {
        let description = format!("except_classes: without {class:?}");
        mutants.push(changed(rule, description, |r| r.except_classes.retain(|c| *c != class)));
    }
    for counter in &rule.without {
        let description = format!("without: without {}", counter.id);
        mutants.push(changed(rule, description, |r| r.without.retain(|c| c.id != counter.id)));
    }
    for entry in explained_by(pack, rule) {
        let family = entry.ends_with('.');
        let is = |id: &String| if family { id.starts_with(&entry) } else { *id == entry };
        mutants.push(changed(rule, format!("none: without {entry}"), |r| r.none.retain(|id| !is(id))));
    }
    mutants
}

/// The rule with those that may set it aside, and nothing else.
fn around(bare: &Pack, pack: &Pack, rule: &Rule) -> Pack {
    let mut wanted: BTreeSet<&str> = BTreeSet::new();
    let mut pending: Vec<&str> = rule.none.iter().map(String::as_str).collect();
    while let Some(id) = pending.pop() {
        if wanted.insert(id) {
            pending.extend(pack.find_rule(id).into_iter().flat_map(|r| &r.none).map(String::as_str));
        }
    }
    let others = pack.rules.iter().filter(|r| wanted.contains(r.id.as_str())).cloned();
    Pack { rules: others.chain([rule.clone()]).collect(), ..bare.clone() }
}

#[test]
fn a_changed_rule_fails_one_of_its_cases() {
    let mut wrong = Vec::new();
    let mut unseen: Vec<(&str, &str, &str)> = UNSEEN.to_vec();
    for id in OWN {
        let (pack, cases) = (pack(id), cases(id));
        let bare = Pack { rules: Vec::new(), advice: Vec::new(), ..pack.clone() };
        for rule in &pack.rules {
            let mut recordings: Vec<(JudgeInput, bool)> = Vec::new();
            for case in cases.iter().filter(|c| c.rule == rule.id) {
                recordings.push((case.recording.input(), true));
                recordings.extend(case.not.iter().map(|not| (case.recording.with(&not.changes).input(), false)));
            }
            for (description, changed) in
                of_conditions(rule).into_iter().chain(of_time(rule)).chain(of_lists(&pack, rule))
            {
                let around = around(&bare, &pack, &changed);
                let fails = |(r, found): &(JudgeInput, bool)| r.findings(&around).contains(&rule.id) != *found;
                if let Some(index) = recordings.iter().position(fails) {
                    // what shows one change often shows the next, and is tried first
                    recordings.swap(0, index);
                    continue;
                }
                match unseen.iter().position(|u| *u == (*id, rule.id.as_str(), description.as_str())) {
                    Some(index) => {
                        unseen.remove(index);
                    }
                    None => wrong.push(format!("{id}: {}: no case fails with {description}", rule.id)),
                }
            }
        }
    }
    wrong.extend(
        unseen.iter().map(|(id, rule, description)| format!("{id}: {rule}: a case does fail with {description}")),
    );
    report(wrong);
}
