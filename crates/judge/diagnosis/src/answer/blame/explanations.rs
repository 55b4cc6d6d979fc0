//! Which outcomes another rule explains. Outcomes are looked up by rule and instance: a log of a hundred thousand disks
//! has as many of each rule.

use std::collections::HashMap;

use crate::answer::blame::relations::{Relations, are_judged_alike, can_explain};
use crate::answer::rule_outcome::RuleOutcome;
use crate::rules::Rule;

/// Outcomes by the id of their rule.
pub(crate) struct OutcomesByRule<'o, 'a> {
    groups: HashMap<&'a str, Vec<OutcomeGroup<'o, 'a>>>,
}

/// The outcomes of one rule; what it became on logical disks is another rule of the same id.
struct OutcomeGroup<'o, 'a> {
    rule: &'a Rule,
    all: Vec<&'o RuleOutcome<'a>>,
    by_instance: HashMap<&'a str, Vec<&'o RuleOutcome<'a>>>,
}

impl<'o, 'a> OutcomesByRule<'o, 'a> {
    /// Groups outcomes.
    pub fn new(outcomes: impl Iterator<Item = &'o RuleOutcome<'a>>) -> OutcomesByRule<'o, 'a> {
        let mut groups: HashMap<&'a str, Vec<OutcomeGroup<'o, 'a>>> = HashMap::new();
        for outcome in outcomes {
            let of_id = groups.entry(outcome.rule.id.as_str()).or_default();
            let position = of_id.iter().position(|group| std::ptr::eq(group.rule, outcome.rule));
            let position = position.unwrap_or_else(|| {
                of_id.push(OutcomeGroup { rule: outcome.rule, all: Vec::new(), by_instance: HashMap::new() });
                of_id.len() - 1
            });
            let group = &mut of_id[position];
            group.all.push(outcome);
            group.by_instance.entry(outcome.progress.instance.as_str()).or_default().push(outcome);
        }
        OutcomesByRule { groups }
    }

    /// The outcomes of a rule that may explain this one, those at its instance first: of a rule that is judged alike,
    /// only these.
    pub fn possible_explanations(&self, rule: &str, of: &RuleOutcome<'_>) -> impl Iterator<Item = &'o RuleOutcome<'a>> {
        let groups = self.groups.get(rule).map_or(&[][..], Vec::as_slice);
        let instance = of.progress.instance.as_str();
        let rule = of.rule;
        groups.iter().flat_map(move |group| {
            let own = group.by_instance.get(instance).map_or(&[][..], Vec::as_slice);
            let others = if are_judged_alike(group.rule, rule) { &[][..] } else { group.all.as_slice() };
            own.iter().chain(others).copied()
        })
    }

    fn rules_called(&self, id: &str) -> impl Iterator<Item = &'a Rule> + use<'o, 'a> {
        let rules: Vec<&'a Rule> = self.groups.get(id).into_iter().flatten().map(|group| group.rule).collect();
        rules.into_iter()
    }

    fn outcomes_of(&self, rule: &str) -> impl Iterator<Item = &'o RuleOutcome<'a>> {
        self.groups.get(rule).into_iter().flatten().flat_map(|group| group.all.iter().copied())
    }
}

/// Separates the outcomes that are findings from those that another rule explains, with that rule's id.
pub(crate) fn separate_explained<'a, 'b>(
    relations: &Relations<'_>,
    outcomes: &'b [RuleOutcome<'a>],
) -> (Vec<&'b RuleOutcome<'a>>, Vec<(&'b RuleOutcome<'a>, String)>) {
    let held = || outcomes.iter().filter(|o| o.holds);
    let mut search = ExplanationSearch { relations, held: OutcomesByRule::new(held()), findings: HashMap::new() };
    let mut findings = Vec::new();
    let mut set_aside = Vec::new();
    for outcome in held() {
        search.find_findings(&outcome.rule.id);
        match search.explaining_rule(outcome) {
            Some(rule) => set_aside.push((outcome, rule)),
            None => findings.push(outcome),
        }
    }
    (findings, set_aside)
}

/// Finds out of each rule once which of its outcomes nothing explains.
struct ExplanationSearch<'o, 'a, 'e> {
    relations: &'e Relations<'e>,
    held: OutcomesByRule<'o, 'a>,
    /// Findings of the rules that were searched, by the rule's id.
    findings: HashMap<String, OutcomesByRule<'o, 'a>>,
}

impl<'o, 'a> ExplanationSearch<'o, 'a, '_> {
    /// Finds the findings of a rule and of all that may explain them. It ends because the loader refuses circles.
    fn find_findings(&mut self, rule: &str) {
        if self.findings.contains_key(rule) {
            return;
        }
        for other in self.held.rules_called(rule).flat_map(|own| &own.none) {
            self.find_findings(other);
        }
        let unexplained = self.held.outcomes_of(rule).filter(|outcome| self.explaining_rule(outcome).is_none());
        let unexplained = OutcomesByRule::new(unexplained);
        self.findings.insert(rule.to_owned(), unexplained);
    }

    /// The first rule of `none` that is a finding itself and can explain this one.
    fn explaining_rule(&self, outcome: &RuleOutcome<'_>) -> Option<String> {
        let explains = |id: &&String| {
            let mut findings =
                self.findings.get(*id).into_iter().flat_map(|of_id| of_id.possible_explanations(id, outcome));
            findings.any(|other| can_explain(self.relations, other, outcome))
        };
        outcome.rule.none.iter().find(explains).cloned()
    }
}
