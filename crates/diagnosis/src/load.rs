//! From the text of a pack to its rules. Everything that can be checked
//! without a log is checked here: keys, words, counters, units, references.

use diskwright_base::units::parse_duration;
use diskwright_base::words::{did_you_mean, number};

use crate::advice::{self, Advice};
use crate::names::{RuleCounter, comparable, objects, product_unit, quotient_unit};
use crate::read::{PackFields, PackValue, parse};
use crate::rule::*;
use diskwright_base::{Problem, ProblemSource};

const PER: &[(&str, QuantityDivisor)] =
    &[("spindle", QuantityDivisor::Spindle), ("processor", QuantityDivisor::Processor)];
const ABSENT: &[(&str, Absent)] = &[("unjudged", Absent::Unjudged), ("inapplicable", Absent::Inapplicable)];

impl Pack {
    /// Reads a pack. `file` is what errors call it.
    pub fn load(file: &str, text: &str) -> Result<Pack, Problem> {
        let source = ProblemSource { file, text };
        let table = parse(&source)?;
        let mut top = PackFields::new(&source, "", table.get_ref(), 0..text.len());
        let head = top.take("pack").ok_or_else(|| source.problem(0, "pack", "the [pack] table is missing"))?;
        let own_advice = advice::take(&mut top)?;
        let mut rules: Vec<Rule> = Vec::new();
        let mut wanted = AdviceSelection { own: &own_advice, taken: Vec::new() };
        let tables = top.list("rule")?;
        for value in &tables {
            let rule = read_rule(&source, value, &mut wanted)?;
            if let Some(first) = rules.iter().find(|r| r.id == rule.id) {
                let message = format!("a second rule with this id; the first is on line {}", first.line);
                return Err(source.problem(value.span().start, &format!("rule {}", rule.id), message));
            }
            rules.push(rule);
        }
        top.finish()?;
        spell_out(&mut rules);
        check_relations(&source, &rules, &tables)?;
        let mut head = PackFields::of(&source, "pack", head)?;
        let pack = Pack {
            id: head.needed("id")?,
            title: head.needed("title")?,
            source: head.needed("source")?,
            explain: head.needed("explain")?,
            stand_ins: head.truth("stand_ins")?.unwrap_or(true),
            file: file.into(),
            rules,
            advice: wanted.taken,
        };
        head.finish()?;
        if pack.rules.is_empty() {
            return Err(head.wrong("the pack has no [[rule]]"));
        }
        Ok(pack)
    }
}

/// Advice that rules asked for so far.
struct AdviceSelection<'a> {
    own: &'a [Advice],
    taken: Vec<Advice>,
}

impl AdviceSelection<'_> {
    /// Settles an id; the error is a suggestion.
    fn want(&mut self, id: &str) -> Result<(), String> {
        let known = || self.own.iter().chain(advice::builtin());
        let Some(found) = known().find(|a| a.id == id) else {
            return Err(did_you_mean(id, known().map(|a| a.id.as_str())));
        };
        if !self.taken.iter().any(|a| a.id == id) {
            self.taken.push(found.clone());
        }
        Ok(())
    }
}

/// `none = ["memory.*"]` stands for every rule of that name that blames something.
fn spell_out(rules: &mut [Rule]) {
    let blaming: Vec<String> = rules.iter().filter(|r| r.weight > 0.0).map(|r| r.id.clone()).collect();
    for rule in rules {
        let listed = std::mem::take(&mut rule.none);
        for id in listed {
            let family = id.strip_suffix('*').filter(|prefix| prefix.ends_with('.'));
            let of_family = || blaming.iter().filter(|b| family.is_some_and(|prefix| b.starts_with(prefix)));
            let named = of_family().filter(|b| **b != rule.id).cloned();
            match of_family().next() {
                Some(_) => rule.none.extend(named),
                None => rule.none.push(id),
            }
        }
        let mut seen: Vec<String> = Vec::new();
        rule.none.retain(|id| {
            !seen.contains(id) && {
                seen.push(id.clone());
                true
            }
        });
    }
}

/// `none` names rules of the pack, and no rule sets itself aside, be it over others.
fn check_relations(source: &ProblemSource<'_>, rules: &[Rule], tables: &[PackValue<'_, '_>]) -> Result<(), Problem> {
    for (rule, table) in rules.iter().zip(tables) {
        let wrong = |message: String| source.problem(table.span().start, &format!("rule {}", rule.id), message);
        for id in &rule.none {
            if !rules.iter().any(|r| r.id == *id) {
                let near = did_you_mean(id, rules.iter().map(|r| r.id.as_str()));
                return Err(wrong(format!("`none` names no rule of this pack: `{id}`{near}")));
            }
        }
        let mut pending: Vec<&str> = rule.none.iter().map(String::as_str).collect();
        let mut seen: Vec<&str> = Vec::new();
        while let Some(id) = pending.pop() {
            if id == rule.id {
                return Err(wrong("`none` leads back to this rule in a circle".into()));
            }
            if !seen.contains(&id) {
                seen.push(id);
                let next = rules.iter().find(|r| r.id == id).into_iter().flat_map(|r| &r.none);
                pending.extend(next.map(String::as_str));
            }
        }
    }
    Ok(())
}

fn read_rule(
    source: &ProblemSource<'_>,
    value: PackValue<'_, '_>,
    wanted: &mut AdviceSelection<'_>,
) -> Result<Rule, Problem> {
    let mut fields = PackFields::of(source, "rule", value)?;
    let id = fields.needed("id")?;
    fields.item = format!("rule {id}");
    let object = read_object(&mut fields)?;
    let bottlenecks = Bottleneck::ALL.map(|b| (b.name(), b));
    let bottleneck = fields.word("bottleneck", &bottlenecks)?.ok_or_else(|| fields.wrong("`bottleneck` is missing"))?;
    let severities = Severity::ALL.map(|s| (s.name(), s));
    let severity = fields.word("severity", &severities)?.ok_or_else(|| fields.wrong("`severity` is missing"))?;
    let weight = fields.number("weight")?.unwrap_or(severity.weight());
    if !(0.0..=2.0).contains(&weight) {
        return Err(fields.wrong("`weight` must be from 0 to 2"));
    }
    let default_which = if object == "physical_disk" { InstanceFilter::Leaf } else { InstanceFilter::All };
    let which = fields.word("which", &InstanceFilter::ALL)?.unwrap_or(default_which);
    if matches!(which, InstanceFilter::Set | InstanceFilter::Stacked) && object != "physical_disk" {
        return Err(fields.wrong("`which` is set or stacked only for physical_disk"));
    }
    let classes = fields.classes("classes")?;
    let except_classes = fields.classes("except_classes")?;
    let classed = !classes.is_empty() || !except_classes.is_empty();
    if classed && !matches!(object.as_str(), "physical_disk" | "array") {
        return Err(fields.wrong("`classes` go with physical_disk and array only"));
    }
    let all = read_conditions(&mut fields, "all", &object)?;
    let any = read_conditions(&mut fields, "any", &object)?;
    if all.is_empty() && any.is_empty() {
        return Err(fields.wrong("a rule needs conditions in `all` or `any`"));
    }
    if any.iter().any(Condition::is_of_window) {
        return Err(fields.wrong("what is of the whole window (`steadiness`, `trend`, such counters) belongs in `all`"));
    }
    let rule = Rule {
        title: fields.needed("title")?,
        object,
        bottleneck,
        severity,
        weight,
        which,
        classes,
        except_classes,
        roles: fields.texts("roles")?.into_iter().map(|(role, _)| role).collect(),
        absent: fields.word("absent", ABSENT)?.unwrap_or(Absent::Unjudged),
        all,
        any,
        none: fields.texts("none")?.into_iter().map(|(id, _)| id).collect(),
        without: Vec::new(),
        sustained: read_sustained(&mut fields)?,
        evidence: Vec::new(),
        source: fields.needed("source")?,
        explain: fields.needed("explain")?,
        advice: Vec::new(),
        line: source.line(value.span().start),
        id,
    };
    read_lists(fields, rule, wanted)
}

/// What is shown of every disk that is blamed: rates, sizes, both directions, queue and busy time.
fn always_shown(rule: &Rule) -> &'static [&'static str] {
    let disk = matches!(rule.object.as_str(), "physical_disk" | "logical_disk");
    if !disk || !(rule.bottleneck.blames() || rule.bottleneck == Bottleneck::Unknown) {
        return &[];
    }
    &[
        "reads_per_s",
        "writes_per_s",
        "read_bytes_per_s",
        "write_bytes_per_s",
        "avg_s_per_read",
        "avg_s_per_write",
        "avg_queue_length",
        "busy",
    ]
}

/// The lists that name counters and advice; then the rule is complete.
fn read_lists(
    mut fields: PackFields<'_, '_>,
    mut rule: Rule,
    wanted: &mut AdviceSelection<'_>,
) -> Result<Rule, Problem> {
    for (text, value) in fields.texts("evidence")? {
        let name = RuleCounter::settle(&rule.object, &text).map_err(|m| fields.wrong_at(value, m))?;
        rule.evidence.push(name);
    }
    for counter in always_shown(&rule) {
        let name = RuleCounter::settle(&rule.object, counter).map_err(|m| fields.wrong(m))?;
        if !rule.evidence.contains(&name) {
            rule.evidence.push(name);
        }
    }
    for (text, value) in fields.texts("without")? {
        let name = RuleCounter::settle(&rule.object, &text).map_err(|m| fields.wrong_at(value, m))?;
        rule.without.push(name);
    }
    for (id, value) in fields.texts("advice")? {
        wanted.want(&id).map_err(|near| fields.wrong_at(value, format!("unknown advice `{id}`{near}")))?;
        rule.advice.push(id);
    }
    fields.finish()?;
    Ok(rule)
}

fn read_object(fields: &mut PackFields<'_, '_>) -> Result<String, Problem> {
    let object = fields.needed("object")?;
    let known = objects();
    if known.contains(object.as_str()) {
        return Ok(object);
    }
    let near = did_you_mean(&object, known.iter().copied());
    let known: Vec<&str> = known.iter().copied().collect();
    let value = fields.take("object");
    let message = format!("unknown object `{object}`{near}; it takes {}", known.join(", "));
    Err(value.map_or_else(|| fields.wrong(message.clone()), |v| fields.wrong_at(v, message.clone())))
}

fn read_sustained(fields: &mut PackFields<'_, '_>) -> Result<Sustained, Problem> {
    let mut sustained = Sustained::default();
    let Some(value) = fields.take("sustained") else { return Ok(sustained) };
    let mut inner = PackFields::of(fields.source, &fields.item, value)?;
    if let Some(share) = inner.number("share")? {
        if !(0.0..=1.0).contains(&share) {
            return Err(inner.wrong(format!("`share` must be from 0 to 1, not {share}")));
        }
        sustained.share = share;
    }
    if let Some(text) = inner.text("at_least")? {
        sustained.at_least_s = parse_duration(&text).map_err(|e| inner.wrong(e.to_string()))?.as_secs_f64();
    }
    if let Some(text) = inner.text("in_a_row")? {
        sustained.in_a_row_s = parse_duration(&text).map_err(|e| inner.wrong(e.to_string()))?.as_secs_f64();
    }
    if let Some(times) = inner.number("times")? {
        if times < 1.0 || times.fract() != 0.0 || times > 1e6 {
            return Err(inner.wrong(format!("`times` must be a whole number from 1 on, not {times}")));
        }
        sustained.times = times as u64;
    }
    inner.finish()?;
    Ok(sustained)
}

fn read_conditions(
    fields: &mut PackFields<'_, '_>,
    key: &'static str,
    object: &str,
) -> Result<Vec<Condition>, Problem> {
    let values = fields.list(key)?;
    let read = |value| read_condition(PackFields::of(fields.source, &fields.item, value)?, object);
    values.into_iter().map(read).collect()
}

fn read_condition(mut fields: PackFields<'_, '_>, object: &str) -> Result<Condition, Problem> {
    let quantity = read_quantity(&mut fields, object)?;
    let over = read_over(&mut fields)?;
    let mut found: Option<(&'static str, Comparator, PackValue<'_, '_>)> = None;
    for (key, compare) in Comparator::ALL {
        let Some(value) = fields.take(key) else { continue };
        if let Some((first, ..)) = found {
            return Err(fields.wrong_at(value, format!("both `{first}` and `{key}`: one condition has one limit")));
        }
        found = Some((key, compare, value));
    }
    let factor = fields.number("limit_times")?;
    // an unknown key first: it is most likely the limit, mistyped
    fields.finish()?;
    let Some((key, compare, value)) = found else {
        return Err(fields.wrong("the limit is missing: one of `above`, `at_least`, `below`, `at_most`"));
    };
    let limit = read_limit(&fields, object, key, value, factor)?;
    let condition = Condition { quantity, over, compare, limit };
    check_window_counters(&fields, &condition)?;
    check_limit(&fields, value, &condition)?;
    Ok(condition)
}

fn read_quantity(fields: &mut PackFields<'_, '_>, object: &str) -> Result<RuleQuantity, Problem> {
    let Some(value) = fields.take("counter") else {
        return Err(fields.wrong("a condition needs a `counter`"));
    };
    let Some(text) = value.get_ref().as_str() else {
        return Err(fields.wrong_at(value, "`counter` must be a text"));
    };
    let counter = RuleCounter::settle(object, text).map_err(|m| fields.wrong_at(value, m))?;
    let mut unit = counter.unit.clone();
    let mut lists = [Vec::new(), Vec::new()];
    for (key, list) in ["plus", "minus"].into_iter().zip(&mut lists) {
        for (text, value) in fields.texts(key)? {
            let name = RuleCounter::settle(object, &text).map_err(|m| fields.wrong_at(value, m))?;
            if !comparable(&name.unit, &unit) {
                let message = format!("`{key}`: {} is in {}, {} in {unit}", name.id, name.unit, counter.id);
                return Err(fields.wrong_at(value, message));
            }
            list.push(name);
        }
    }
    let times = read_operand(fields, "times", object)?;
    if let Some(Operand::Counter(name)) = &times {
        unit = product_unit(&unit, &name.unit);
    }
    let over = read_operand(fields, "over", object)?;
    if let Some(Operand::Counter(name)) = &over {
        unit = quotient_unit(&unit, &name.unit);
    }
    let per = fields.word("per", PER)?;
    let [plus, minus] = lists;
    Ok(RuleQuantity { counter, plus, minus, times, over, per, unit })
}

fn read_operand(fields: &mut PackFields<'_, '_>, key: &'static str, object: &str) -> Result<Option<Operand>, Problem> {
    let Some(value) = fields.take(key) else { return Ok(None) };
    if let Some(text) = value.get_ref().as_str() {
        let name = RuleCounter::settle(object, text).map_err(|m| fields.wrong_at(value, m))?;
        return Ok(Some(Operand::Counter(name)));
    }
    match number(value) {
        Some(0.0) if key == "over" => Err(fields.wrong_at(value, "`over` is zero")),
        Some(number) => Ok(Some(Operand::Number(number))),
        None => Err(fields.wrong_at(value, format!("`{key}` must be a counter or a number"))),
    }
}

fn read_over(fields: &mut PackFields<'_, '_>) -> Result<ConditionSpan, Problem> {
    let mut over = ConditionSpan::Tick;
    if let Some(value) = fields.take("change") {
        let mut inner = PackFields::of(fields.source, &fields.item, value)?;
        let against = inner.word("against", &[("start", false), ("previous", true)])?;
        let previous = against.ok_or_else(|| inner.wrong("`change` needs `against`: \"start\" or \"previous\""))?;
        let share = inner.number("share")?;
        if previous && share.is_some() {
            return Err(inner.wrong("`share` goes with a change against the start"));
        }
        let share = share.unwrap_or(0.25);
        if !(0.01..=0.9).contains(&share) {
            return Err(inner.wrong("`share` of a change must be from 0.01 to 0.9"));
        }
        inner.finish()?;
        over = if previous { ConditionSpan::Step } else { ConditionSpan::Change { share } };
    }
    for (key, span) in [("steadiness", ConditionSpan::Steadiness), ("trend", ConditionSpan::Trend)] {
        let Some(value) = fields.take(key) else { continue };
        if value.get_ref().as_bool() != Some(true) {
            return Err(fields.wrong_at(value, format!("`{key}` can only be true")));
        }
        if over != ConditionSpan::Tick {
            return Err(fields.wrong_at(value, "`change`, `steadiness` and `trend` exclude each other"));
        }
        over = span;
    }
    Ok(over)
}

fn read_limit(
    fields: &PackFields<'_, '_>,
    object: &str,
    key: &str,
    value: PackValue<'_, '_>,
    factor: Option<f64>,
) -> Result<RuleLimit, Problem> {
    if let Some(text) = value.get_ref().as_str() {
        let counter = RuleCounter::settle(object, text).map_err(|m| fields.wrong_at(value, m))?;
        return Ok(RuleLimit::Counter { counter, times: factor.unwrap_or(1.0) });
    }
    let limit =
        number(value).ok_or_else(|| fields.wrong_at(value, format!("`{key}` must be a number or a counter")))?;
    match factor {
        Some(_) => Err(fields.wrong_at(value, "`limit_times` goes with a counter as the limit")),
        None => Ok(RuleLimit::Number(limit)),
    }
}

/// Counters of the whole window go with neither sums, changes nor limits.
fn check_window_counters(fields: &PackFields<'_, '_>, condition: &Condition) -> Result<(), Problem> {
    let quantity = &condition.quantity;
    let limit = match &condition.limit {
        RuleLimit::Counter { counter, .. } => Some(counter),
        RuleLimit::Number(_) => None,
    };
    let mut elsewhere = quantity.plus.iter().chain(&quantity.minus).chain(limit);
    if let Some(name) = elsewhere.find(|name| name.is_of_window()) {
        return Err(fields.wrong(format!("{} is of the whole window: only a `counter`, `times` or `over`", name.id)));
    }
    match quantity.names().find(|name| name.is_of_window()) {
        Some(name) if condition.over != ConditionSpan::Tick || matches!(condition.limit, RuleLimit::Counter { .. }) => {
            Err(fields.wrong(format!("{} is of the whole window and goes only with a plain number", name.id)))
        }
        _ => Ok(()),
    }
}

/// A limit must be in the quantity's unit.
fn check_limit(fields: &PackFields<'_, '_>, value: PackValue<'_, '_>, condition: &Condition) -> Result<(), Problem> {
    let quantity = &condition.quantity;
    let of_window = condition.over != ConditionSpan::Tick;
    match &condition.limit {
        RuleLimit::Counter { counter, .. } if of_window => {
            let message = format!("a change, steadiness or trend has no unit; its limit cannot be {}", counter.id);
            Err(fields.wrong_at(value, message))
        }
        RuleLimit::Counter { counter, .. } if !comparable(&counter.unit, &quantity.unit) => {
            let message =
                format!("{} is in {}, but {} is in {}", quantity.text(), quantity.unit, counter.id, counter.unit);
            Err(fields.wrong_at(value, message))
        }
        RuleLimit::Number(limit)
            if !of_window && quantity.is_plain() && quantity.unit == "fraction" && *limit > 2.0 =>
        {
            let message = format!(
                "{} is a fraction, so {limit} cannot be its limit; write {} for {limit} %",
                quantity.text(),
                limit / 100.0
            );
            Err(fields.wrong_at(value, message))
        }
        _ => Ok(()),
    }
}
