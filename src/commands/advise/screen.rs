//! Advice as text: the most worthwhile item first, three items in full.

use diskwright_advise::{AdviceItem, AdviceSeverity, HostAdvice, HostPlatform, SettingChange};
use diskwright_base::text::quote_for_shell;
use diskwright_base::units::format_count;
use diskwright_report::text::{cut_text, wrap};
use diskwright_report::{Ink, Style};

use super::advised_host::AdvisedHost;

/// Maximum number of items in full on the first screen, critical ones apart.
const MAX_FULL_ITEMS: usize = 3;
/// Maximum number of instances, and of commands, in one heading.
const MAX_NAMES: usize = 3;

/// Items with the same text for several instances.
struct AdviceGroup<'a> {
    /// The first item of the group.
    item: &'a AdviceItem,
    /// All items of the group.
    items: Vec<&'a AdviceItem>,
}

/// Draws the advice.
pub fn draw_advice(
    host: &AdvisedHost,
    advice: &HostAdvice,
    ignored: usize,
    applied: &[SettingChange],
    show_all: bool,
    style: &Style,
) -> String {
    let groups = group_items(&advice.items);
    let mut out = draw_head(host, advice, groups.len(), style);
    // what bears on a verdict comes first, and endangered data is never in the short list behind it
    let is_full = |(number, group): &(usize, &AdviceGroup<'_>)| {
        show_all || *number < MAX_FULL_ITEMS || group.item.severity == AdviceSeverity::Critical
    };
    let (full, short): (Vec<_>, Vec<_>) = groups.iter().enumerate().partition(is_full);
    for (number, (_, group)) in full.into_iter().enumerate() {
        out += &draw_group(number + 1, group, show_all, style);
    }
    if !short.is_empty() {
        out += &format!("\n{}\n", style.paint(Ink::Bold, "More"));
        for (_, group) in short {
            let text = style.clean_text(&format!("{}: {}", group_title(group), group.item.seen));
            out += &cut_line(&format!("  {text}"), style);
        }
    }
    out += &draw_foot(advice, ignored, applied, show_all, style);
    out
}

fn draw_head(host: &AdvisedHost, advice: &HostAdvice, groups: usize, style: &Style) -> String {
    let facts = &host.facts;
    let role = match &facts.role_program {
        Some(program) => format!("{} ({} runs)", facts.role.name(), style.clean_text(program)),
        None => facts.role.name().to_owned(),
    };
    let count = match groups {
        0 => "Nothing is worth changing".to_owned(),
        1 => "1 thing is worth changing".to_owned(),
        n => format!("{n} things are worth changing"),
    };
    let passed = format_count(advice.well as u64, "check", "checks");
    let text = format!("{count} on {}. Role: {role}. {passed} passed.", style.clean_text(&host.origin.to_string()));
    let mut out = style.paint(Ink::Bold, wrap(&text, style.width, 0).join("\n").as_str()) + "\n";
    let platform = HostPlatform::from_tree(facts.tree());
    if let Some(description) = platform.describe_platform() {
        out += &indent_text("machine: ", &style.clean_text(&description), style);
    }
    for (disk, kind) in &platform.volumes {
        out += &indent_text(&format!("{}: ", style.clean_text(disk)), kind, style);
    }
    if let Some(verdict) = &host.verdict {
        out += &indent_text("verdict: ", &style.clean_text(&verdict.sentence), style);
        if !verdict.troubles.is_empty() && !advice.items.iter().any(|item| item.bears_on.is_some()) {
            let log = host.found_log.as_deref().map_or("LOG".into(), |dir| quote_for_shell(&dir.to_string_lossy()));
            let text = format!("no setting that was checked concerns it; `diskwright why {log}` says what to do");
            out += &indent_text("", &style.clean_text(&text), style);
        }
    }
    for remark in &host.remarks {
        out += &indent_text("note: ", &style.clean_text(remark), style);
    }
    out
}

/// Groups items of one check with the same text, in the order of each group's first item.
fn group_items(items: &[AdviceItem]) -> Vec<AdviceGroup<'_>> {
    let mut groups: Vec<AdviceGroup<'_>> = Vec::new();
    for item in items {
        let has_same_text = |group: &&mut AdviceGroup<'_>| {
            let first = group.item;
            first.check == item.check
                && first.seen == item.seen
                && first.good == item.good
                && first.evidence == item.evidence
                && first.bears_on == item.bears_on
        };
        match groups.iter_mut().find(has_same_text) {
            Some(group) => group.items.push(item),
            None => groups.push(AdviceGroup { item, items: vec![item] }),
        }
    }
    groups
}

fn group_title(group: &AdviceGroup<'_>) -> String {
    let names = group.items.iter().take(MAX_NAMES).map(|item| item.instance.as_str()).collect::<Vec<_>>().join(", ");
    match group.items.len() {
        _ if names.is_empty() => group.item.check.clone(),
        1 => group.item.id.clone(),
        n if n <= MAX_NAMES => format!("{} on {names}", group.item.check),
        n => format!("{} on {names} and {} more", group.item.check, n - MAX_NAMES),
    }
}

fn draw_group(number: usize, group: &AdviceGroup<'_>, show_all: bool, style: &Style) -> String {
    let item = group.item;
    let ink = match item.severity {
        AdviceSeverity::Critical => Ink::Bad,
        AdviceSeverity::Warning => Ink::Warn,
        AdviceSeverity::Notice | AdviceSeverity::Info => Ink::Dim,
    };
    let severity = style.paint(ink, item.severity.name());
    let mut out =
        format!("\n{number}. {} ({severity}, risk {})\n", style.clean_text(&group_title(group)), item.risk.name());
    let mut add_text = |label: &str, text: &str| out += &indent_text(label, &style.clean_text(text), style);
    if let Some(trouble) = &item.bears_on {
        add_text("bears on the verdict: ", trouble);
    }
    add_text("", &format!("{}: {}. Good: {}.", item.what, item.seen, item.good));
    match &item.evidence {
        Some(evidence) => add_text("evidence: ", evidence),
        None if item.severity >= AdviceSeverity::Warning => add_text("evidence: ", "none in a log"),
        None => add_text("evidence: ", "none in a log, so this item ranks low"),
    }
    if let Some(gain) = &item.gain {
        add_text("gain: ", &format!("{} (model: {})", gain.text, gain.basis));
    }
    if show_all {
        add_text("why: ", &format!("{} [{}]", item.reason, item.source));
        add_text("risk: ", &item.risk_text);
    }
    distinct_texts(group, |item| Some(item.apply.as_str())).iter().for_each(|apply| add_text("apply: ", apply));
    distinct_texts(group, |item| item.undo.as_deref()).iter().for_each(|undo| add_text("undo: ", undo));
    if show_all {
        distinct_texts(group, |item| item.lasting.as_deref())
            .iter()
            .for_each(|lasting| add_text("to keep it: ", lasting));
        add_text("verify: ", &item.verify);
    }
    out
}

/// Texts of a group's items, each once: a command names its own instance.
fn distinct_texts(group: &AdviceGroup<'_>, extract: fn(&AdviceItem) -> Option<&str>) -> Vec<String> {
    let mut texts: Vec<&str> = Vec::new();
    for text in group.items.iter().filter_map(|item| extract(item)) {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    let more = texts.len().saturating_sub(MAX_NAMES);
    let mut shown: Vec<String> = texts.into_iter().take(MAX_NAMES).map(str::to_owned).collect();
    if more > 0 {
        shown.push(format!("the same for {more} more; --json has all commands"));
    }
    shown
}

fn draw_foot(advice: &HostAdvice, ignored: usize, applied: &[SettingChange], show_all: bool, style: &Style) -> String {
    let mut out = String::new();
    if !advice.unknown.is_empty() {
        if show_all {
            out += &format!("\n{}\n", style.paint(Ink::Bold, "Could not be checked"));
            for unknown in &advice.unknown {
                let text = format!("{}: {}. {}", unknown.id, unknown.because, unknown.reach);
                out += &indent_text("", &style.clean_text(&text), style);
            }
        } else {
            let count = match advice.unknown.len() {
                1 => "1 check".to_owned(),
                n => format!("{n} checks"),
            };
            out += &format!("\n{}", cut_line(&format!("{count} could not be carried out; --all shows why."), style));
        }
    }
    if !applied.is_empty() {
        let ids: Vec<&str> = applied.iter().map(|change| change.id.as_str()).collect();
        out += &indent_text("applied by --apply: ", &style.clean_text(&ids.join(", ")), style);
    }
    if ignored > 0 {
        out += &format!("{ignored} ignored; --unignore ID lists one again.\n");
    }
    let harmless = advice.items.iter().find(|item| item.harmless);
    if let Some(item) = harmless.filter(|_| !show_all) {
        let text = format!(
            "--all shows reasons, risks and how to verify. --apply {} applies the first low-risk item.",
            item.id
        );
        out += &indent_text("", &style.clean_text(&text), style);
    }
    out
}

/// Wraps text under a heading, indented by three columns.
fn indent_text(label: &str, text: &str, style: &Style) -> String {
    let lines = wrap(text, style.width.saturating_sub(3), label.len());
    let mut out = String::new();
    for (number, text) in lines.iter().enumerate() {
        let label = if number == 0 { label } else { "" };
        out += &format!("   {label}{text}\n");
    }
    out
}

/// Cuts a line at the width of the screen.
fn cut_line(text: &str, style: &Style) -> String {
    cut_text(text, style.width, if style.unicode { "…" } else { "..." }) + "\n"
}
