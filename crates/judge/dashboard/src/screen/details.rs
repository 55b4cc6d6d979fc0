//! What an engineer in an incident wants to know next: what to do against each bottleneck, with the commands to type,
//! and the evidence. It stands where a screen has rows for it.

use diskwright_diagnosis::Verdict;
use diskwright_report::remedies::{Remedy, evidence_lines, remedies_in_order};
use diskwright_report::text::{cut_text, wrap};

use super::layout::ScreenLayout;
use super::pen::{Pen, Tone};

/// Columns before a remedy's words, after its number.
const INDENT: &str = "   ";

/// A line, and its meaning.
type DetailLine = (String, Tone);

/// Returns the lines for a screen of this width; none without a verdict that blames anything.
pub(super) fn detail_lines(pen: &Pen<'_>, verdict: Option<&Verdict>) -> Vec<DetailLine> {
    let Some(verdict) = verdict.filter(|verdict| verdict.bottleneck.blames()) else { return Vec::new() };
    let remedies = remedies_in_order(verdict);
    let (acts, later): (Vec<&Remedy>, Vec<&Remedy>) = remedies.iter().partition(|remedy| remedy.is_act());
    let mut lines = Vec::new();
    let headings =
        [("What to do, cheapest first (v: the verdict in full)", acts), ("What to do later, cheapest first", later)];
    let mut number = 0;
    for (heading, remedies) in headings {
        if !remedies.is_empty() {
            lines.push((heading.to_owned(), Tone::Strong));
        }
        for remedy in remedies {
            number += 1;
            add_remedy(pen, number, remedy, &mut lines);
        }
    }
    let evidence = evidence_lines(verdict);
    if !evidence.is_empty() {
        lines.push(("Evidence".to_owned(), Tone::Strong));
    }
    let width = usize::from(pen.area.width);
    lines.extend(evidence.iter().map(|text| {
        let text = pen.clean_text(text);
        (format!("{INDENT}{}", cut_text(&text, width.saturating_sub(INDENT.len()), "...")), Tone::Plain)
    }));
    lines
}

/// Adds a remedy: its words, then what to type whole, because half a command cannot be typed.
fn add_remedy(pen: &Pen<'_>, number: usize, remedy: &Remedy, lines: &mut Vec<DetailLine>) {
    let columns = usize::from(pen.area.width).saturating_sub(INDENT.len()).max(1);
    let mut add = |text: &str, first: &str, tone: Tone| {
        let folded = wrap(&pen.clean_text(text), columns, 0);
        let prefixes = std::iter::once(first).chain(std::iter::repeat(INDENT));
        lines.extend(folded.iter().zip(prefixes).map(|(line, prefix)| (format!("{prefix}{line}"), tone)));
    };
    add(&remedy.words(), &format!("{:<3}", format!("{number}.")), Tone::Plain);
    if let Some(command) = &remedy.command {
        add(&format!("$ {command}"), INDENT, Tone::Strong);
    }
    if let Some(undo) = &remedy.undo {
        add(&format!("back: {undo}"), INDENT, Tone::Dim);
    }
}

/// Draws the lines that have rows; the last one says that there is more.
pub(super) fn draw_details(pen: &mut Pen<'_>, lines: &[DetailLine], layout: &ScreenLayout) {
    let rows = usize::from(layout.detail_rows);
    for (index, (text, tone)) in lines.iter().take(rows).enumerate() {
        let is_cut = index + 1 == rows && lines.len() > rows;
        let (text, tone) = if is_cut { ("   ... (v)", Tone::Dim) } else { (text.as_str(), *tone) };
        let row = layout.details + u16::try_from(index).unwrap_or(u16::MAX);
        pen.write_text((0, row), pen.area.width, text, tone);
    }
}
