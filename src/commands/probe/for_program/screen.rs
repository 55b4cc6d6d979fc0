//! The answer of `probe for` as text: the answer in a line, a row for each requirement, the reasons, the sources.

use diskwright_base::units::{format_significant, format_value};
use diskwright_probe::programs::judge::{Measurement, describe_limit};
use diskwright_report::probe::indent_item;
use diskwright_report::text::wrap;
use diskwright_report::{Align, Ink, Style, TextTable};
use diskwright_results::document::ProbeDocument;
use diskwright_results::facts::SuiteRemark;
use diskwright_results::requirement::{
    LimitKind, ProgramAnswer, RequirementLevel, RequirementResult, RequirementSource, Suitability,
};

/// Draws the answer.
pub fn draw_answer(document: &ProbeDocument, style: &Style) -> String {
    let Some(program) = &document.program else { return String::new() };
    let results = &document.requirements;
    let mut out = draw_head(document, program, style);
    out += &draw_table(results, style);
    let remarks = document.remarks.iter().map(describe_remark);
    out += &draw_items("What limits this answer", remarks.collect(), style);
    out += &draw_items("Chosen by diskwright, because no vendor publishes it", own_choices(results), style);
    out += &draw_items("Sources", source_lines(results), style);
    out += &draw_items("What would tell more", program.more.clone(), style);
    out
}

fn draw_head(document: &ProbeDocument, program: &ProgramAnswer, style: &Style) -> String {
    let device = &document.device;
    let filesystem = device.filesystem.as_ref().map(|kind| match &device.mount {
        Some(mount) => format!("{kind} on {mount}"),
        None => kind.clone(),
    });
    let facts = [Some(device.name.clone()).filter(|n| !n.is_empty()), device.model.clone(), filesystem];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    let facts = if facts.is_empty() { String::new() } else { format!(" ({})", facts.join(", ")) };
    let question = style.clean_text(&format!("Is {}{facts} good enough for {}?", document.target, program.title));
    let (word, ink) = match program.answer {
        Suitability::Yes => ("Yes", Ink::Good),
        Suitability::No => ("No", Ink::Bad),
        Suitability::Unknown => ("Unknown", Ink::Warn),
        Suitability::NotPublished => ("Not judged", Ink::Warn),
    };
    let because = wrap(&style.clean_text(&program.because), style.width, word.len() + 2).join("\n");
    format!("{}\n{}: {because}\n\n", wrap(&question, style.width, 0).join("\n"), style.paint(ink, word))
}

fn draw_table(results: &[RequirementResult], style: &Style) -> String {
    let mut table = TextTable::new()
        .with_text_column("requirement")
        .with_column("measured", Align::Right)
        .with_column("limit", Align::Right)
        .with_column("margin", Align::Right)
        .with_column("met", Align::Left);
    for result in results {
        let title = match &result.device {
            Some(device) => format!("{device}: {}", result.title),
            None => result.title.clone(),
        };
        let measured = Measurement {
            exact: result.measured,
            at_least: result.measured_at_least,
            at_most: result.measured_at_most,
        };
        let found = result.found.clone().unwrap_or_else(|| measured.describe(&result.unit));
        let limit = match result.limit_kind.zip(result.limit) {
            Some((kind, limit)) => describe_limit(kind, limit, &result.unit),
            None if result.level == RequirementLevel::Unlimited => "none published".into(),
            None => String::new(),
        };
        let cells = [title, found, limit, describe_margin(result), describe_met(result).to_owned()];
        table.add_row(cells.map(|cell| style.clean_text(&cell)));
    }
    table.render(style)
}

/// Describes how far the value is from the limit: `4.3 times better`.
fn describe_margin(result: &RequirementResult) -> String {
    let Some((value, (kind, limit))) = result.measured.zip(result.limit_kind.zip(result.limit)) else {
        return String::new();
    };
    let ratio = if kind == LimitKind::AtLeast { value / limit } else { limit / value };
    if !ratio.is_finite() || ratio <= 0.0 {
        return String::new();
    }
    let (times, word) = if ratio >= 1.0 { (ratio, "better") } else { (1.0 / ratio, "worse") };
    format!("{} times {word}", format_significant(times))
}

fn describe_met(result: &RequirementResult) -> &'static str {
    match (result.met, result.level) {
        (Some(true), _) => "yes",
        (Some(false), RequirementLevel::Required) => "no",
        (Some(false), _) => "no (recommended)",
        (None, RequirementLevel::Unlimited) => "-",
        (None, _) if result.limit.is_none() => "-",
        (None, _) => "unknown",
    }
}

/// Describes a remark, with its number.
fn describe_remark(remark: &SuiteRemark) -> String {
    match (remark.value, &remark.unit) {
        (Some(value), Some(unit)) => format!("{}{}{}", format_value(value, unit), remark.separator(), remark.text),
        _ => remark.text.clone(),
    }
}

/// What this program chose itself, each once, with the requirements that it concerns.
fn own_choices(results: &[RequirementResult]) -> Vec<String> {
    let mut lines: Vec<(String, Vec<&str>)> = Vec::new();
    for result in results {
        let Some(ours) = &result.ours else { continue };
        match lines.iter_mut().find(|(text, _)| text == ours) {
            Some((_, titles)) if !titles.contains(&result.title.as_str()) => titles.push(&result.title),
            Some(_) => {}
            None => lines.push((ours.clone(), vec![&result.title])),
        }
    }
    lines.into_iter().map(|(text, titles)| format!("{}: {text}", titles.join("; "))).collect()
}

/// The sources, each once.
fn source_lines(results: &[RequirementResult]) -> Vec<String> {
    let mut sources: Vec<&RequirementSource> = Vec::new();
    for result in results {
        if !sources.contains(&&result.source) {
            sources.push(&result.source);
        }
    }
    sources.iter().map(|s| format!("{} ({}): {}", s.title, s.date, s.url)).collect()
}

fn draw_items(heading: &str, items: Vec<String>, style: &Style) -> String {
    if items.is_empty() {
        return String::new();
    }
    let lines: String = items.iter().flat_map(|text| indent_item(text, style)).map(|line| line + "\n").collect();
    format!("\n{}\n{lines}", style.paint(Ink::Bold, heading))
}
