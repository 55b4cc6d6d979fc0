//! Explanations of counters, rules, packs and glossary terms, for `explain`.

use diskwright_base::catalogue::{Formula, FormulaDivisor, OverInstances, display_unit};
use diskwright_base::glossary::GlossaryTerm;
use diskwright_base::{Counter, CounterKind, units};
use diskwright_diagnosis::recording_hints::LogOrigin;
use diskwright_diagnosis::rule::{Comparator, Condition, ConditionSpan, Pack, Rule, RuleLimit};

use crate::axis;
use crate::style::{Ink, Style};
use crate::text;
use crate::time::format_duration;

/// Explains a counter: meaning, trap, unit, aggregation, formula, other names, source.
pub fn explain_counter(counter: &Counter, style: &Style) -> String {
    let mut page = ExplainPage::new(style, &counter.id, &axis::counter_words(&counter.id));
    page.add_paragraph("", &counter.explain);
    page.add_paragraph("Beware: ", &counter.trap);
    page.add_field("unit", &unit_text(&counter.unit));
    page.add_field("over time", over_time(counter.kind));
    page.add_field("over instances", over_instances(counter.over_instances));
    for (number, formula) in counter.derive.iter().enumerate() {
        let name = if number == 0 { "computed as" } else { "or as" };
        page.add_field(name, &formula_text(formula, counter.object_name()));
    }
    let names = &counter.names;
    let names_by_tool: [(&str, &[String]); 5] = [
        ("Windows NT", &names.nt),
        ("sysstat", &names.sysstat),
        ("Prometheus", &names.prometheus),
        ("Linux", &names.linux),
        ("PCP", &names.pcp),
    ];
    for (tool, names) in names_by_tool.into_iter().filter(|(_, names)| !names.is_empty()) {
        page.add_field(tool, &names.join(", "));
    }
    page.add_field("source", &counter.source);
    page.out
}

/// Names a counter in a few words: `time per transfer (physical disk)`.
pub fn counter_label(counter: &Counter) -> String {
    format!("{} ({})", axis::counter_words(&counter.id), counter.object_name().replace('_', " "))
}

/// Explains a term of the field, with the counters, rules and suites that concern it.
pub fn explain_term(term: &GlossaryTerm, style: &Style) -> String {
    let mut page = ExplainPage::new(style, &term.names[0], &term.title);
    page.add_paragraph("", &term.explain);
    page.add_paragraph("Beware: ", &term.beware);
    page.add_field("also called", &term.names[1..].join(", "));
    page.add_field("counters", &term.counters.join(", "));
    page.add_field("rules", &term.rules.join(", "));
    page.add_field("measured by", &term.suites.iter().map(|s| format!("probe {s}")).collect::<Vec<_>>().join(", "));
    page.add_field("drives", &term.drives.join(", "));
    page.add_field("see also", &term.terms.join(", "));
    page.add_field("source", &term.source);
    page.out
}

/// Explains a rule: its verdict and reason, its conditions and how long they must
/// hold, advice, source.
pub fn explain_rule(pack: &Pack, rule: &Rule, style: &Style) -> String {
    let mut page = ExplainPage::new(style, &format!("{}/{}", pack.id, rule.id), &rule.title);
    page.add_paragraph("", &rule.explain);
    page.add_paragraph("In logs of Windows: ", rule.windows.as_deref().unwrap_or_default());
    page.add_field("says", rule.bottleneck.name());
    page.add_field("severity", rule.severity.name());
    page.add_field("judges", &judged_objects(rule));
    for (number, condition) in rule.all.iter().enumerate() {
        page.add_field(if number == 0 { "holds when" } else { "and" }, &self::condition_text(condition));
    }
    for (number, condition) in rule.any.iter().enumerate() {
        page.add_field(if number == 0 { "and one of" } else { "or" }, &self::condition_text(condition));
    }
    let mut sustained = format!("{} of the time", units::format_value(rule.sustained.share, "fraction"));
    if rule.sustained.at_least_s > 0.0 {
        let duration = format_duration(rule.sustained.at_least_s);
        sustained.push_str(&format!(", and {duration} in total (at most half of the window)"));
    }
    if rule.sustained.in_a_row_s > 0.0 {
        let duration = format_duration(rule.sustained.in_a_row_s);
        sustained.push_str(&format!(", and {duration} without a break (at most half of the window)"));
    }
    page.add_field("for at least", &sustained);
    page.add_field("set aside by", &rule.none.join(", "));
    // what does not exist on that system is left out
    let system = if pack.is_of_windows { LogOrigin::Perfmon } else { LogOrigin::Live };
    let named = rule.advice.iter().filter_map(|id| pack.advice.iter().find(|advice| advice.id == *id));
    for (number, advice) in named.filter_map(|advice| advice.for_system(system)).enumerate() {
        page.add_field(if number == 0 { "then do" } else { "then" }, &advice.text);
    }
    page.add_field("source", &rule.source);
    page.out
}

/// Explains anything else: a name, a title line, a paragraph, and fields with their titles.
pub fn explain_entry(name: &str, title: &str, text: &str, fields: &[(&str, &str)], style: &Style) -> String {
    let mut page = ExplainPage::new(style, name, title);
    page.add_paragraph("", text);
    fields.iter().for_each(|(title, value)| page.add_field(title, value));
    page.out
}

/// Explains a pack: its author's view and its rules.
pub fn explain_pack(pack: &Pack, style: &Style) -> String {
    let mut page = ExplainPage::new(style, &pack.id, &pack.title);
    page.add_paragraph("", &pack.explain);
    page.add_field("source", &pack.source);
    for rule in &pack.rules {
        let summary = format!("{}: {} ({}, {})", rule.id, rule.title, rule.bottleneck.name(), rule.severity.name());
        page.add_field(if rule.line == pack.rules[0].line { "rules" } else { "" }, &summary);
    }
    page.out
}

/// Text page of a heading, paragraphs, and named fields whose texts stand in one column.
struct ExplainPage<'a> {
    style: &'a Style,
    out: String,
}

/// Width of a field's name, columns.
const NAME_COLUMNS: usize = 16;

impl<'a> ExplainPage<'a> {
    fn new(style: &'a Style, id: &str, words: &str) -> ExplainPage<'a> {
        let mut page = ExplainPage { style, out: String::new() };
        let used = text::display_width(id) + 2;
        let lines = text::wrap(&style.clean_text(words), style.width - 2, used);
        let first = format!("{}  {}", style.paint(Ink::Bold, &style.clean_text(id)), lines[0]);
        page.out.push_str(first.trim_end());
        page.out.push('\n');
        for line in &lines[1..] {
            page.out.push_str(&format!("  {line}\n"));
        }
        page
    }

    fn add_paragraph(&mut self, lead: &str, words: &str) {
        if words.is_empty() {
            return;
        }
        let lines = text::wrap(&self.style.clean_text(words), self.style.width - 2, text::display_width(lead));
        for (index, line) in lines.iter().enumerate() {
            let lead = if index == 0 { self.style.paint(Ink::Warn, lead) } else { String::new() };
            self.out.push_str(&format!("  {lead}{line}\n"));
        }
        self.out.push('\n');
    }

    fn add_field(&mut self, name: &str, words: &str) {
        if words.is_empty() {
            return;
        }
        let lines = text::wrap(&self.style.clean_text(words), self.style.width - 2 - NAME_COLUMNS, 0);
        for (index, line) in lines.iter().enumerate() {
            let name = text::pad_right(if index == 0 { name } else { "" }, NAME_COLUMNS);
            self.out.push_str(&format!("  {}{line}\n", self.style.paint(Ink::Dim, &name)));
        }
    }
}

fn unit_text(unit: &str) -> String {
    match unit {
        "fraction" => "fraction (0 to 1; shown as a percentage)".into(),
        "" => "a number without a unit".into(),
        other => axis::unit_words(other),
    }
}

/// Describes how values of a kind are combined over a period of time.
pub fn over_time(kind: CounterKind) -> &'static str {
    match kind {
        CounterKind::Rate => "a rate: averaged by time",
        CounterKind::AveragePerOperation => "an average per operation: weighted by the operations, never by time",
        CounterKind::BusyFraction => "a share of time: averaged by time",
        CounterKind::Level => "a level: averaged by time, with its minimum and maximum",
        CounterKind::Total => "an amount: added up",
    }
}

fn over_instances(over: OverInstances) -> &'static str {
    match over {
        OverInstances::Sum => "added up",
        OverInstances::Mean => "their mean (a sum would not be a share of the whole)",
        OverInstances::Weighted => "weighted by each one's operations",
        OverInstances::Max => "the largest counts",
        OverInstances::None => "meaningless, or there is only one",
    }
}

/// Writes a formula as text; counters of the same object appear by their short names.
fn formula_text(formula: &Formula, object: &str) -> String {
    let short_id = |id: &String| id.strip_prefix(object).and_then(|r| r.strip_prefix('.')).unwrap_or(id).to_owned();
    let list = |ids: &[String], sign: &str| ids.iter().map(short_id).collect::<Vec<_>>().join(sign);
    let mut words = list(&formula.sum, " + ");
    for id in &formula.optional {
        words.push_str(&format!(" + {} (where there is one)", short_id(id)));
    }
    if !formula.minus.is_empty() {
        words.push_str(&format!(" - {}", list(&formula.minus, " - ")));
    }
    let has_several_terms = formula.sum.len() + formula.optional.len() + formula.minus.len() > 1;
    let is_divided = !matches!(formula.per, FormulaDivisor::Nothing);
    if has_several_terms && (is_divided || formula.times != 1.0) {
        words = format!("({words})");
    }
    match &formula.per {
        FormulaDivisor::Nothing => {}
        FormulaDivisor::Time(_) => words.push_str(" / seconds of the tick"),
        FormulaDivisor::Counters(ids) if ids.len() == 1 => words.push_str(&format!(" / {}", short_id(&ids[0]))),
        FormulaDivisor::Counters(ids) => words.push_str(&format!(" / ({})", list(ids, " + "))),
    }
    if formula.per_second {
        words.push_str(" / seconds of the tick");
    }
    if formula.times != 1.0 {
        words.push_str(&format!(" x {}", units::format_significant(formula.times)));
    }
    if formula.complement {
        words = format!("1 - {words}");
    }
    if let Some(cap) = formula.cap {
        words.push_str(&format!(", at most {}", units::format_significant(cap)));
    }
    words
}

/// Describes the objects that a rule judges, with its restrictions to classes and roles.
fn judged_objects(rule: &Rule) -> String {
    let mut words = match rule.object.as_str() {
        "machine" => "the machine".to_owned(),
        object => format!("each {}", object.replace('_', " ")),
    };
    let name = |c: &diskwright_base::DeviceClass| format!("{c:?}").to_lowercase();
    if !rule.classes.is_empty() {
        let classes: Vec<String> = rule.classes.iter().map(name).collect();
        words.push_str(&format!(", only {}", classes.join(" or ")));
    }
    if !rule.except_classes.is_empty() {
        let classes: Vec<String> = rule.except_classes.iter().map(name).collect();
        words.push_str(&format!(", but not {}", classes.join(" or ")));
    }
    if !rule.roles.is_empty() {
        words.push_str(&format!(", in the role {}", rule.roles.join(" or ")));
    }
    if !rule.except_roles.is_empty() {
        words.push_str(&format!(", but not in the role {}", rule.except_roles.join(" or ")));
    }
    words
}

/// Puts a condition in words: `avg_queue_length per spindle above 2`.
pub fn condition_text(condition: &Condition) -> String {
    let quantity = condition.quantity.formula_text();
    let quantity = match condition.over {
        ConditionSpan::Tick => quantity,
        ConditionSpan::Change { share } => {
            format!("{quantity}, relative to its mean over the first {}", units::format_value(share, "fraction"))
        }
        ConditionSpan::Step => format!("{quantity}, relative to the tick before"),
        ConditionSpan::Norm => format!("{quantity}, relative to its own median of the last day"),
        ConditionSpan::RunsOut => format!("time until {quantity} is used up, by its trend"),
        ConditionSpan::Steadiness => format!("variation of {quantity} (0 is perfectly steady)"),
        ConditionSpan::Trend => format!("growth per day of {quantity}, relative to its mean"),
    };
    let unit = if condition.over == ConditionSpan::Tick { condition.quantity.unit.as_str() } else { "" };
    let limit = match &condition.limit {
        RuleLimit::Number(number) => units::format_value(*number, display_unit(&condition.quantity.counter.id, unit)),
        RuleLimit::EachDisk { each_disk } => {
            let unit = display_unit(&condition.quantity.counter.id, unit);
            format!("{} for each disk of an array", units::format_value(*each_disk, unit))
        }
        RuleLimit::Counter { counter, times } if *times == 1.0 => counter.id.clone(),
        RuleLimit::Counter { counter, times } => format!("{} x {}", units::format_significant(*times), counter.id),
    };
    format!("{quantity} {} {limit}", comparator_text(condition.compare))
}

/// Puts a comparison in words.
pub fn comparator_text(compare: Comparator) -> &'static str {
    match compare {
        Comparator::Above => "above",
        Comparator::AtLeast => "at least",
        Comparator::Below => "below",
        Comparator::AtMost => "at most",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diskwright_base::Catalogue;
    use diskwright_diagnosis::packs;

    #[test]
    fn every_counter_rule_and_pack_is_explained_within_the_margin() {
        let styles = [Style::plain(80), Style { unicode: false, ..Style::plain(60) }];
        for style in styles {
            let mut pages: Vec<String> =
                Catalogue::builtin().counters().iter().map(|c| explain_counter(c, &style)).collect();
            for p in packs::builtin_packs().expect("built-in packs load") {
                pages.push(explain_pack(&p, &style));
                pages.extend(p.rules.iter().map(|r| explain_rule(&p, r, &style)));
            }
            for page in pages {
                assert!(style.unicode || page.is_ascii());
                for line in page.lines() {
                    assert!(text::display_width(line) <= style.width, "{line}");
                }
            }
        }
    }

    #[test]
    fn a_formula_reads_as_it_is_computed() {
        let entry = Catalogue::builtin().get("physical_disk.avg_queue_length").unwrap();
        let text = explain_counter(entry, &Style::plain(100));
        assert!(text.contains("weighted_time_s / seconds of the tick"), "{text}");
        assert!(text.contains("Avg. Disk Queue Length"), "{text}");
    }

    #[test]
    fn explains_the_limits_of_a_rule() {
        let packs = packs::builtin_packs().expect("built-in packs load");
        let pack = packs.iter().find(|p| p.id == "default").expect("there is a default pack");
        let paging = pack.find_rule("memory.paging").expect("the first suspect");
        let text = explain_rule(pack, paging, &Style::plain(100));
        assert!(text.contains("above 10"), "{text}");
        assert!(text.contains("memory"), "{text}");
    }
}
