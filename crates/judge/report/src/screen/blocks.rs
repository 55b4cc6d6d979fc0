//! The first half of a screen that is too small for sections: a block of a few rows for each bottleneck. A block has
//! the name with the time when it began, the key evidence, who does it with command line and place, and one thing to
//! type.
//!
//! What yields first, step by step: the blank rows between blocks, the step of the levels and all events but one, the
//! second row of the evidence, what a culprit does beside who it is, the bottlenecks behind the third. A command never
//! yields: half of one cannot be typed.

use diskwright_diagnosis::verdict::{Culprit, VerdictBottleneck};
use diskwright_diagnosis::{Advice, Verdict};

use super::Screen;
use crate::changes;
use crate::events;
use crate::identity::culprit_line;
use crate::style::{Ink, Style};
use crate::text::{cut_text, display_width, wrap};
use crate::time::DisplayZone;
use crate::trends;
use crate::verdict_words;

/// Columns before what belongs to a bottleneck.
const INDENT: usize = 2;

/// Rows of the blocks and of what stands before them.
#[derive(Clone, Copy)]
struct BlockDetail {
    blocks: usize,
    is_spaced: bool,
    events: usize,
    change_lines: usize,
    evidence_lines: usize,
    /// What the culprit does, in a row of its own.
    tells_activity: bool,
}

/// Details from generous to terse; the first that fits is used.
const DETAILS: &[BlockDetail] = &[
    BlockDetail::new([5, 3, 3, 2], true, true),
    BlockDetail::new([5, 3, 2, 2], false, true),
    BlockDetail::new([5, 1, 2, 2], false, true),
    BlockDetail::new([5, 1, 0, 2], false, true),
    BlockDetail::new([5, 1, 0, 1], false, true),
    BlockDetail::new([5, 1, 0, 1], false, false),
    BlockDetail::new([3, 1, 0, 1], false, false),
    BlockDetail::new([2, 1, 0, 1], false, false),
    BlockDetail::new([1, 1, 0, 1], false, false),
];

impl BlockDetail {
    const fn new(
        [blocks, events, change_lines, evidence_lines]: [usize; 4],
        is_spaced: bool,
        tells_activity: bool,
    ) -> BlockDetail {
        BlockDetail { blocks, is_spaced, events, change_lines, evidence_lines, tells_activity }
    }
}

/// Draws the bottlenecks as blocks; of the details, those that leave a row on the screen.
pub(super) fn draw_blocks<'a>(verdict: &Verdict, zone: &DisplayZone, style: &'a Style) -> Screen<'a> {
    let mut screen = Screen::new(style);
    for detail in DETAILS {
        screen = Screen::new(style);
        screen.add_blocks(verdict, zone, *detail);
        if screen.lines.len() < style.height {
            break;
        }
    }
    screen
}

impl Screen<'_> {
    fn add_blocks(&mut self, verdict: &Verdict, zone: &DisplayZone, detail: BlockDetail) {
        let observed = verdict_words::headline_text(verdict, zone);
        self.add_words("", 0, &observed, Some(Ink::Dim), if detail.is_spaced { 2 } else { 1 });
        self.lines.push(String::new());
        let events = events::event_lines(verdict, zone);
        let shown = events.len().min(detail.events);
        for line in &events[..shown] {
            self.add_event(line, 2);
        }
        self.add_more_line(events.len(), shown);
        if let Some(line) = trends::warning_line(verdict, zone).filter(|_| detail.change_lines > 0) {
            self.add_words("", 0, &line, None, detail.change_lines);
        }
        if let Some(line) = changes::leading_change_line(verdict, zone).filter(|_| detail.change_lines > 0) {
            self.add_words("", 0, &line, None, detail.change_lines);
        }
        let mut typed: Vec<&Advice> = Vec::new();
        let shown = verdict.bottlenecks.len().min(detail.blocks);
        for (index, listed) in verdict.bottlenecks[..shown].iter().enumerate() {
            if detail.is_spaced && (index > 0 || !events.is_empty()) {
                self.lines.push(String::new());
            }
            self.add_listed_badge(listed, zone);
            self.add_key_evidence(verdict, listed, detail.evidence_lines);
            self.add_main_culprit(listed, detail.tells_activity);
            self.add_main_remedy(listed, &mut typed);
        }
        for listed in &verdict.bottlenecks[shown..] {
            self.add_listed_badge(listed, zone);
        }
    }

    /// Adds the leading finding of a bottleneck: its title, and its value against the limit. Of a long title the end is
    /// cut, not the value.
    fn add_key_evidence(&mut self, verdict: &Verdict, listed: &VerdictBottleneck, max_lines: usize) {
        let Some(finding) = listed.positions.first().map(|position| &verdict.findings[*position]) else { return };
        let limit = verdict_words::limit_text(finding, verdict.window.seconds);
        let value = self.style.clean_text(&format!(" ({}, {limit})", finding.format_value(finding.value)));
        let title = self.style.clean_text(&finding.title);
        let columns = self.style.width.saturating_sub(INDENT);
        if wrap(&format!("{title}{value}"), columns, 0).len() <= max_lines {
            return self.add_words("", INDENT, &format!("{title}{value}"), None, max_lines);
        }
        let title = cut_text(&title, (max_lines * columns).saturating_sub(display_width(&value) + max_lines * 8), "~");
        self.add_words("", INDENT, &format!("{title}{value}"), None, max_lines);
    }

    /// Adds who causes a bottleneck: what it does, and who it is with the place where it runs.
    fn add_main_culprit(&mut self, listed: &VerdictBottleneck, tells_activity: bool) {
        let is_named = |culprit: &&Culprit| culprit.pid.is_some() || culprit.name != listed.instance;
        let culprit = listed.culprits.iter().find(|culprit| culprit.pid.is_some());
        let Some(culprit) = culprit.or_else(|| listed.culprits.iter().find(is_named)) else {
            if let Some(unlisted) = &listed.unlisted {
                self.add_words("", INDENT, unlisted, None, 1);
            }
            return;
        };
        let columns = self.style.width.saturating_sub(INDENT);
        let name = self.style.clean_text(&verdict_words::culprit_name(culprit));
        if tells_activity {
            self.add_words("", INDENT, &format!("{name}: {}", culprit.description), None, 1);
            let line = culprit_line(culprit, columns.saturating_sub(INDENT));
            if !line.is_empty() {
                self.add_row(2 * INDENT, &line, Some(Ink::Dim));
            }
            return;
        }
        let line = culprit_line(culprit, columns.saturating_sub(display_width(&name) + 2));
        let line = if line.is_empty() { &culprit.description } else { &line };
        self.add_row(INDENT, &format!("{name}: {line}"), None);
    }

    /// Adds one row, cut where it is too long.
    fn add_row(&mut self, indent: usize, words: &str, ink: Option<Ink>) {
        let words = cut_text(&self.style.clean_text(words), self.style.width.saturating_sub(indent), "~");
        let words = ink.map_or(words.clone(), |ink| self.style.paint(ink, &words));
        self.lines.push(format!("{}{words}", " ".repeat(indent)));
    }

    /// Adds the first command against a bottleneck that no block before has, or else the first remedy in words.
    fn add_main_remedy<'v>(&mut self, listed: &'v VerdictBottleneck, typed: &mut Vec<&'v Advice>) {
        let is_new = |advice: &&Advice| !typed.iter().any(|known| known.command == advice.command);
        let with_command = || listed.advice.iter().filter(|advice| advice.command.is_some());
        match with_command().find(is_new).or_else(|| with_command().next()) {
            Some(advice) => {
                typed.push(advice);
                let command = advice.command.as_deref().unwrap_or_default();
                self.add_words("", INDENT, &format!("try: {command}"), Some(Ink::Bold), usize::MAX);
            }
            None => {
                if let Some(advice) = listed.advice.first() {
                    self.add_words("", INDENT, &advice.text, None, 1);
                }
            }
        }
    }
}
