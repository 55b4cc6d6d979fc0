//! Reads the text of a pack into rules. Everything that can be checked without a log is checked here: keys, words,
//! counters, units, references.

use diskwright_base::Problems;
use diskwright_base::toml_reader::{TomlFields, TomlSource, TomlValue, did_you_mean, toml_number};
use diskwright_base::units::parse_duration;
use diskwright_base::{DeviceClass, EventKind};

use crate::rules::advice::{self, Advice};
use crate::rules::counter_names::{RuleCounter, are_comparable, product_unit, quotient_unit, rule_objects};
use crate::rules::rule::*;

const DIVISORS: &[(&str, QuantityDivisor)] =
    &[("spindle", QuantityDivisor::Spindle), ("processor", QuantityDivisor::Processor)];
/// Words of `each`, what a limit is multiplied by.
const EACH: &[(&str, ())] = &[("disk", ())];
const ABSENT_MEANINGS: &[(&str, Absent)] = &[("unjudged", Absent::Unjudged), ("inapplicable", Absent::Inapplicable)];

/// Device classes by their names in packs.
pub(crate) const DEVICE_CLASSES: &[(&str, DeviceClass)] = &[
    ("rotational", DeviceClass::Rotational),
    ("flash", DeviceClass::Flash),
    ("nvme", DeviceClass::Nvme),
    ("virtual", DeviceClass::Virtual),
    ("network", DeviceClass::Network),
    ("memory", DeviceClass::Memory),
    ("unknown", DeviceClass::Unknown),
];

impl Pack {
    /// Reads a pack; `file` is its name in error messages.
    ///
    /// # Errors
    /// Everything that is wrong, by line. References between rules are checked only once every rule can be read.
    pub fn load(file: &str, text: &str) -> Result<Pack, Problems> {
        let source = TomlSource::new(file, text);
        let pack = source.parse().and_then(|table| read_pack(&TomlFields::for_root_table(&source, &table)));
        source.into_result(pack).map(|(pack, _)| pack)
    }
}

fn read_pack(top: &TomlFields<'_, '_>) -> Option<Pack> {
    let source = top.source;
    let head = top.read_table("pack");
    let pack_advice = advice::read_advice_list(top);
    let mut selection = AdviceSelection { pack_advice: &pack_advice, selected: Vec::new() };
    let tables = top.read_tables("rule");
    let mut rules: Vec<(Rule, usize)> = Vec::new();
    for value in &tables {
        let Some(rule) = read_rule(source, value, &mut selection) else { continue };
        if let Some((first, _)) = rules.iter().find(|(r, _)| r.id == rule.id) {
            let message = format!("a second rule with this id; the first is on line {}", first.line);
            source.report_problem(value.span().start, &format!("rule {}", rule.id), message);
        }
        rules.push((rule, value.span().start));
    }
    top.reject_unknown_keys();
    if head.is_none() && !top.has_key("pack") {
        source.report_problem(0, "", "the [pack] table is missing");
    }
    let head = head?;
    let texts = ["id", "title", "source", "explain"].map(|key| head.require_text(key, "\"...\""));
    let stand_ins = head.read_bool("stand_ins").unwrap_or(true);
    let is_of_windows = head.read_word("system", &[("windows", true), ("any", false)]).unwrap_or(false);
    head.reject_unknown_keys();
    if tables.is_empty() {
        head.report_problem("the pack has no [[rule]]");
    }
    expand_rule_families(&mut rules);
    if source.has_no_problems() {
        check_relations(source, &rules);
    }
    let [Some(id), Some(title), Some(from), Some(explain)] = texts else { return None };
    Some(Pack {
        id: id.to_owned(),
        title: title.to_owned(),
        source: from.to_owned(),
        explain: explain.to_owned(),
        stand_ins,
        is_of_windows,
        file: source.file_name().to_owned(),
        rules: rules.into_iter().map(|(rule, _)| rule).collect(),
        advice: selection.selected,
    })
}

/// Advice that rules have named so far.
struct AdviceSelection<'a> {
    pack_advice: &'a [Advice],
    selected: Vec<Advice>,
}

impl AdviceSelection<'_> {
    /// Selects the advice of an id: the pack's own, or a built-in one. The error is a suggestion.
    fn select_advice(&mut self, id: &str) -> Result<(), String> {
        let known = || self.pack_advice.iter().chain(advice::builtin_advice());
        let Some(found) = known().find(|a| a.id == id) else {
            return Err(did_you_mean(id, known().map(|a| a.id.as_str())));
        };
        if !self.selected.iter().any(|a| a.id == id) {
            self.selected.push(found.clone());
        }
        Ok(())
    }
}

/// Expands `none = ["memory.*"]` to every rule of that family that has a weight.
fn expand_rule_families(rules: &mut [(Rule, usize)]) {
    let blaming: Vec<String> =
        rules.iter().map(|(rule, _)| rule).filter(|r| r.weight > 0.0).map(|r| r.id.clone()).collect();
    for (rule, _) in rules {
        let listed = std::mem::take(&mut rule.none);
        for id in listed {
            let family = id.strip_suffix('*').filter(|prefix| prefix.ends_with('.'));
            let of_family = || blaming.iter().filter(|b| family.is_some_and(|prefix| b.starts_with(prefix)));
            let other_rules = of_family().filter(|b| **b != rule.id).cloned();
            match of_family().next() {
                Some(_) => rule.none.extend(other_rules),
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

/// Checks that `none` names rules of the pack, and that no rule sets itself aside, even through others.
fn check_relations(source: &TomlSource<'_>, rules: &[(Rule, usize)]) {
    let known = || rules.iter().map(|(rule, _)| rule);
    for (rule, offset) in rules {
        let report = |message: &str| source.report_problem(*offset, &format!("rule {}", rule.id), message);
        for id in rule.none.iter().filter(|id| !known().any(|r| r.id == **id)) {
            let suggestion = did_you_mean(id, known().map(|r| r.id.as_str()));
            report(&format!("`none` names no rule of this pack: `{id}`{suggestion}"));
        }
        let mut pending: Vec<&str> = rule.none.iter().map(String::as_str).collect();
        let mut seen: Vec<&str> = Vec::new();
        while let Some(id) = pending.pop() {
            if id == rule.id {
                report("`none` leads back to this rule in a circle");
                break;
            }
            if !seen.contains(&id) {
                seen.push(id);
                let next = known().find(|r| r.id == id).into_iter().flat_map(|r| &r.none);
                pending.extend(next.map(String::as_str));
            }
        }
    }
}

fn read_rule(source: &TomlSource<'_>, value: TomlValue<'_, '_>, selection: &mut AdviceSelection<'_>) -> Option<Rule> {
    let mut fields = TomlFields::from_value(source, "rule", value)?;
    let id = fields.require_text("id", "\"disk.busy\"");
    fields.item = id.map_or("rule".to_owned(), |id| format!("rule {id}"));
    let object = read_object(&fields);
    let bottleneck = fields.require_word("bottleneck", &Bottleneck::ALL.map(|b| (b.name(), b)));
    let severity = fields.require_word("severity", &Severity::ALL.map(|s| (s.name(), s)));
    let weight = fields.read_number("weight", 0.0, 2.0);
    let conditions = ["all", "any"].map(|key| read_conditions(&fields, key, object.unwrap_or("machine")));
    let alert = fields.read_table_same_item("alert").map(|inner| read_alert(&inner, object.unwrap_or("machine")));
    let texts = ["title", "source", "explain"].map(|key| fields.require_text(key, "\"...\""));
    let texts_of = |key| fields.read_texts(key).into_iter().map(|(text, _)| text.to_owned()).collect();
    let rule = Rule {
        title: String::new(),
        object: object.unwrap_or_default().to_owned(),
        bottleneck: bottleneck.unwrap_or(Bottleneck::None),
        severity: severity.unwrap_or(Severity::Info),
        weight: weight.or(severity.map(Severity::default_weight)).unwrap_or(0.0),
        optional: fields.read_bool("optional").unwrap_or(false),
        lasting: fields.read_bool("lasting").unwrap_or(false),
        confidence: fields.read_number("confidence", 0.0, 1.0).unwrap_or(1.0),
        which: read_instance_filter(&fields, object),
        classes: fields.read_words("classes", DEVICE_CLASSES),
        except_classes: fields.read_words("except_classes", DEVICE_CLASSES),
        roles: texts_of("roles"),
        except_roles: texts_of("except_roles"),
        absent: fields.read_word("absent", ABSENT_MEANINGS).unwrap_or(Absent::Unjudged),
        all: Vec::new(),
        any: Vec::new(),
        none: texts_of("none"),
        without: Vec::new(),
        sustained: fields.read_table_same_item("sustained").map(|inner| read_sustained(&inner)).unwrap_or_default(),
        evidence: Vec::new(),
        source: String::new(),
        explain: String::new(),
        windows: fields.read_text("windows").map(str::to_owned),
        advice: Vec::new(),
        alert: None,
        line: source.line_number(value.span().start),
        id: id.unwrap_or_default().to_owned(),
    };
    check_classes(&fields, object);
    if conditions.iter().all(|list| list.as_ref().is_some_and(Vec::is_empty)) {
        fields.report_problem("a rule needs conditions in `all` or `any`");
    }
    let rule = read_lists(&fields, rule, selection);
    let ([all, any], [title, from, explain]) = (conditions, texts);
    let (all, any) = (all?, any?);
    if any.iter().any(Condition::is_window_value) {
        fields.report_problem("what is of the whole window (`steadiness`, `trend`, such counters) belongs in `all`");
    }
    if alert.is_some() && all.iter().any(Condition::is_window_value) {
        fields.report_problem(
            "an alert is judged at each tick: no `steadiness`, no `trend`, no counter of the whole window",
        );
    }
    // a missing field has been reported above
    let _ = (id?, object?, bottleneck?, severity?);
    let (title, from, explain) = (title?.to_owned(), from?.to_owned(), explain?.to_owned());
    Some(Rule { title, source: from, explain, all, any, alert: alert.flatten(), ..rule })
}

fn check_classes(fields: &TomlFields<'_, '_>, object: Option<&str>) {
    let has_classes = fields.has_key("classes") || fields.has_key("except_classes");
    if has_classes && object.is_some_and(|object| !matches!(object, "physical_disk" | "array")) {
        fields.report_key_problem("classes", "`classes` go with physical_disk and array only");
    }
}

/// Reads the instance filter. The default is the leaves for disks, and all instances for other objects.
fn read_instance_filter(fields: &TomlFields<'_, '_>, object: Option<&str>) -> InstanceFilter {
    let is_disk = object == Some("physical_disk");
    let which = fields.read_word("which", &InstanceFilter::ALL);
    let is_for_disks = matches!(which, Some(InstanceFilter::Single | InstanceFilter::Set | InstanceFilter::Stacked));
    if is_for_disks && object.is_some() && !is_disk {
        fields.report_key_problem("which", "`which` is set or stacked only for physical_disk");
    }
    which.unwrap_or(if is_disk { InstanceFilter::Leaf } else { InstanceFilter::All })
}

/// Counters shown with every finding on a disk: rates, bytes and latency of both directions, queue and busy time.
fn always_shown(rule: &Rule) -> &'static [&'static str] {
    let is_disk = matches!(rule.object.as_str(), "physical_disk" | "logical_disk");
    if !is_disk || !(rule.bottleneck.blames() || rule.bottleneck == Bottleneck::Unknown) {
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

/// Resolves a counter named at an offset of the file; an unknown one is reported.
fn read_counter(fields: &TomlFields<'_, '_>, object: &str, text: &str, offset: usize) -> Option<RuleCounter> {
    RuleCounter::resolve_name(object, text).map_err(|m| fields.source.report_problem(offset, &fields.item, m)).ok()
}

/// Reads a list of counters.
fn read_counters(fields: &TomlFields<'_, '_>, key: &'static str, object: &str) -> Vec<RuleCounter> {
    let texts = fields.read_texts(key).into_iter();
    texts.filter_map(|(text, offset)| read_counter(fields, object, text, offset)).collect()
}

/// Reads the lists that name counters and advice.
fn read_lists(fields: &TomlFields<'_, '_>, mut rule: Rule, selection: &mut AdviceSelection<'_>) -> Rule {
    rule.evidence = read_counters(fields, "evidence", &rule.object);
    for shown in always_shown(&rule) {
        let Some(name) = RuleCounter::find_name(&rule.object, shown) else { continue };
        if !rule.evidence.contains(&name) {
            rule.evidence.push(name);
        }
    }
    rule.without = read_counters(fields, "without", &rule.object);
    for (id, offset) in fields.read_texts("advice") {
        match selection.select_advice(id) {
            Ok(()) => rule.advice.push(id.to_owned()),
            Err(suggestion) => {
                fields.source.report_problem(offset, &fields.item, format!("unknown advice `{id}`{suggestion}"))
            }
        }
    }
    fields.reject_unknown_keys();
    rule
}

fn read_object<'a>(fields: &TomlFields<'a, '_>) -> Option<&'a str> {
    let object = fields.require_text("object", "\"physical_disk\"")?;
    let known = rule_objects();
    if !known.contains(object) {
        let suggestion = did_you_mean(object, known.iter());
        let known: Vec<&str> = known.iter().copied().collect();
        fields.report_key_problem(
            "object",
            format!("unknown object `{object}`{suggestion}; it takes {}", known.join(", ")),
        );
        return None;
    }
    Some(object)
}

fn read_sustained(inner: &TomlFields<'_, '_>) -> Sustained {
    let seconds = |key| {
        let text = inner.read_text(key)?;
        parse_duration(text).map(|d| d.as_secs_f64()).map_err(|e| inner.report_key_problem(key, e.to_string())).ok()
    };
    let usual = Sustained::default();
    let sustained = Sustained {
        share: inner.read_number("share", 0.0, 1.0).unwrap_or(usual.share),
        at_least_s: seconds("at_least").unwrap_or(usual.at_least_s),
        in_a_row_s: seconds("in_a_row").unwrap_or(usual.in_a_row_s),
        times: inner.read_integer("times", 1, 1_000_000).unwrap_or(usual.times),
    };
    inner.reject_unknown_keys();
    sustained
}

fn read_alert(inner: &TomlFields<'_, '_>, object: &str) -> Option<AlertTerms> {
    let seconds = |key| {
        let text = inner.read_text(key)?;
        parse_duration(text).map(|d| d.as_secs_f64()).map_err(|e| inner.report_key_problem(key, e.to_string())).ok()
    };
    let clear = if inner.has_key("clear") { read_conditions(inner, "clear", object) } else { Some(Vec::new()) };
    let [hold, clear_hold, silence] = ["hold", "clear_hold", "silence"].map(seconds);
    let kind = |name: &str| EventKind::ALL.into_iter().find(|kind| kind.name() == name);
    let event = inner.read_text("event").and_then(|name| {
        let found = kind(name);
        if found.is_none() {
            inner.report_key_problem("event", format!("`{name}` is not a kind of event"));
        }
        found
    });
    let has_no_unknown_keys = inner.reject_unknown_keys();
    let terms = AlertTerms {
        hold_s: hold.unwrap_or(0.0),
        clear: clear?,
        clear_hold_s: clear_hold.or(hold).unwrap_or(0.0),
        silence_s: silence.unwrap_or(0.0),
        event,
    };
    if terms.clear.iter().any(Condition::is_window_value) {
        inner.report_problem(
            "an alert ends at a tick: `clear` takes no `steadiness`, no `trend`, no counter of the whole window",
        );
    }
    has_no_unknown_keys.then_some(terms)
}

/// Reads a list of conditions; `None` where one of them is wrong.
fn read_conditions(fields: &TomlFields<'_, '_>, key: &'static str, object: &str) -> Option<Vec<Condition>> {
    let tables = fields.read_tables(key).into_iter();
    let read = |value| read_condition(&TomlFields::from_value(fields.source, &fields.item, value)?, object);
    // all are read before `None` is returned, so that every mistake is reported
    let conditions: Vec<Option<Condition>> = tables.map(read).collect();
    conditions.into_iter().collect()
}

fn read_condition(fields: &TomlFields<'_, '_>, object: &str) -> Option<Condition> {
    let quantity = read_quantity(fields, object);
    let over = read_span(fields);
    let limits: Vec<_> = Comparator::ALL
        .into_iter()
        .filter_map(|(key, compare)| Some((key, compare, fields.read_value(key)?)))
        .collect();
    let factor = fields.read_number("limit_times", f64::MIN, f64::MAX);
    let is_each_disk = fields.read_word("each", EACH).is_some();
    // unknown keys are reported first: an unknown key is most likely the mistyped limit
    let has_no_unknown_keys = fields.reject_unknown_keys();
    let (key, compare, value) = match limits[..] {
        [limit] => limit,
        [] if !has_no_unknown_keys => return None,
        [] => {
            fields.report_problem("the limit is missing: one of `above`, `at_least`, `below`, `at_most`");
            return None;
        }
        [(first, ..), (second, ..), ..] => {
            fields.report_key_problem(second, format!("both `{first}` and `{second}`: one condition has one limit"));
            return None;
        }
    };
    let limit = match read_limit(fields, object, key, value, factor) {
        Some(RuleLimit::Number(number)) if is_each_disk => Some(RuleLimit::EachDisk { each_disk: number }),
        Some(RuleLimit::Counter { .. }) if is_each_disk => {
            fields.report_key_problem("each", "`each` goes with a number as the limit");
            None
        }
        limit => limit,
    };
    let condition = Condition { quantity: quantity?, over: over?, compare, limit: limit? };
    check_window_counters(fields, &condition);
    check_limit(fields, key, &condition);
    Some(condition)
}

fn read_quantity(fields: &TomlFields<'_, '_>, object: &str) -> Option<RuleQuantity> {
    let first = match fields.has_key("counter") {
        true => fields
            .read_text("counter")
            .and_then(|text| read_counter(fields, object, text, fields.value_offset("counter"))),
        false => {
            fields.report_problem("a condition needs a `counter`");
            None
        }
    };
    let read_addends = |key| {
        let list = read_counters(fields, key, object);
        let first = first.as_ref();
        for name in list.iter().filter(|name| first.is_some_and(|first| !are_comparable(&name.unit, &first.unit))) {
            let first = first.map_or(("", ""), |first| (&first.id, &first.unit));
            let message = format!("`{key}`: {} is in {}, {} in {}", name.id, name.unit, first.0, first.1);
            fields.report_key_problem(key, message);
        }
        list
    };
    let (plus, minus) = (read_addends("plus"), read_addends("minus"));
    let times = read_operand(fields, "times", object);
    let over = read_operand(fields, "over", object);
    let per = fields.read_word("per", DIVISORS);
    let counter = first?;
    let mut unit = counter.unit.clone();
    if let Some(Operand::Counter(name)) = &times {
        unit = product_unit(&unit, &name.unit);
    }
    if let Some(Operand::Counter(name)) = &over {
        unit = quotient_unit(&unit, &name.unit);
    }
    Some(RuleQuantity { counter, plus, minus, times, over, per, unit })
}

fn read_operand(fields: &TomlFields<'_, '_>, key: &'static str, object: &str) -> Option<Operand> {
    let value = fields.read_value(key)?;
    if let Some(text) = value.get_ref().as_str() {
        return read_counter(fields, object, text, value.span().start).map(Operand::Counter);
    }
    match toml_number(value) {
        Some(0.0) if key == "over" => fields.report_key_problem(key, "`over` is zero"),
        Some(number) => return Some(Operand::Number(number)),
        None => fields.report_key_problem(key, format!("`{key}` must be a counter or a number")),
    }
    None
}

fn read_change(inner: &TomlFields<'_, '_>) -> Option<ConditionSpan> {
    let start = ConditionSpan::Change { share: 0.25 };
    let spans = [("start", start), ("previous", ConditionSpan::Step), ("norm", ConditionSpan::Norm)];
    let against = inner.require_word("against", &spans);
    let share = inner.read_number("share", 0.01, 0.9);
    if against.is_some_and(|span| span != start) && inner.has_key("share") {
        inner.report_key_problem("share", "`share` goes with a change against the start");
    }
    inner.reject_unknown_keys();
    Some(match (against?, share) {
        (ConditionSpan::Change { .. }, Some(share)) => ConditionSpan::Change { share },
        (span, _) => span,
    })
}

fn read_span(fields: &TomlFields<'_, '_>) -> Option<ConditionSpan> {
    let mut over = match fields.read_table_same_item("change") {
        Some(inner) => read_change(&inner)?,
        None => ConditionSpan::Tick,
    };
    let spans = [
        ("steadiness", ConditionSpan::Steadiness),
        ("trend", ConditionSpan::Trend),
        ("runs_out", ConditionSpan::RunsOut),
    ];
    for (key, span) in spans {
        match fields.read_bool(key) {
            Some(false) => fields.report_key_problem(key, format!("`{key}` can only be true")),
            Some(true) if over != ConditionSpan::Tick => {
                fields.report_key_problem(key, "`change`, `steadiness`, `trend` and `runs_out` exclude each other");
            }
            Some(true) => over = span,
            None => {}
        }
    }
    Some(over)
}

fn read_limit(
    fields: &TomlFields<'_, '_>,
    object: &str,
    key: &str,
    value: TomlValue<'_, '_>,
    factor: Option<f64>,
) -> Option<RuleLimit> {
    if let Some(text) = value.get_ref().as_str() {
        let counter = read_counter(fields, object, text, value.span().start)?;
        return Some(RuleLimit::Counter { counter, times: factor.unwrap_or(1.0) });
    }
    if factor.is_some() {
        fields.report_key_problem(key, "`limit_times` goes with a counter as the limit");
    }
    let limit = toml_number(value);
    if limit.is_none() {
        fields.report_key_problem(key, format!("`{key}` must be a number or a counter"));
    }
    limit.map(RuleLimit::Number)
}

/// Rejects counters of the whole window in sums, changes and limits.
fn check_window_counters(fields: &TomlFields<'_, '_>, condition: &Condition) {
    let quantity = &condition.quantity;
    let limit = match &condition.limit {
        RuleLimit::Counter { counter, .. } => Some(counter),
        RuleLimit::Number(_) | RuleLimit::EachDisk { .. } => None,
    };
    let mut not_allowed = quantity.plus.iter().chain(&quantity.minus).chain(limit);
    if let Some(name) = not_allowed.find(|name| name.is_window_value()) {
        fields.report_problem(format!("{} is of the whole window: only a `counter`, `times` or `over`", name.id));
    } else if let Some(name) = quantity.counters().find(|name| name.is_window_value())
        && (condition.over != ConditionSpan::Tick || limit.is_some())
    {
        fields.report_problem(format!("{} is of the whole window and goes only with a plain number", name.id));
    }
}

/// Checks that the limit has the quantity's unit, and that the limit of a fraction is not given in percent.
fn check_limit(fields: &TomlFields<'_, '_>, key: &str, condition: &Condition) {
    let quantity = &condition.quantity;
    let is_relative = condition.over != ConditionSpan::Tick;
    let (text, unit) = (quantity.formula_text(), &quantity.unit);
    match &condition.limit {
        RuleLimit::EachDisk { .. } if is_relative || condition.is_window_value() => {
            fields.report_key_problem("each", "`each` goes with a quantity of each tick");
        }
        RuleLimit::Counter { counter, .. } if is_relative => {
            let message = format!("a change, steadiness or trend has no unit; its limit cannot be {}", counter.id);
            fields.report_key_problem(key, message);
        }
        RuleLimit::Counter { counter, .. } if !are_comparable(&counter.unit, unit) => {
            fields.report_key_problem(key, format!("{text} is in {unit}, but {} is in {}", counter.id, counter.unit));
        }
        RuleLimit::Number(limit) if !is_relative && quantity.is_plain() && unit == "fraction" && *limit > 2.0 => {
            let fraction = limit / 100.0;
            let message =
                format!("{text} is a fraction, so {limit} cannot be its limit; write {fraction} for {limit} %");
            fields.report_key_problem(key, message);
        }
        _ => {}
    }
}
