//! The row of a bottleneck: its name, since when, and its confidence.

use diskwright_diagnosis::Bottleneck;
use diskwright_diagnosis::verdict::VerdictBottleneck;

use super::Screen;
use crate::style::{Ink, Style};
use crate::text::{self, cut_text};
use crate::time::{DisplayZone, parse_rfc3339};
use crate::verdict_words;

/// Width from which a row tells since when.
const MIN_SINCE_COLUMNS: usize = 60;

impl Screen<'_> {
    /// Adds one of the bottlenecks, with the time when it began if that is known, or from when to when it was there:
    /// `DISK  sda  since 14:10:12`, `THROTTLE  /web@sda  14:10:12 to 14:12:40`.
    pub(super) fn add_listed_badge(&mut self, listed: &VerdictBottleneck, zone: &DisplayZone) {
        let clock = |time: &str| parse_rfc3339(time).map(|time_ns| zone.format_clock(time_ns));
        let since = listed.since.as_deref().and_then(clock).map(|from| format!("since {from}"));
        let was_there = listed.was_there.as_ref().and_then(|there| clock(&there.from).zip(clock(&there.to)));
        let when = since.or_else(|| was_there.map(|(from, to)| format!("{from} to {to}")));
        let when = when.filter(|_| self.style.width >= MIN_SINCE_COLUMNS).unwrap_or_default();
        self.add_badge((listed.bottleneck, &listed.instance, listed.confidence), &when);
    }

    /// Adds a bottleneck with its confidence.
    pub(super) fn add_badge(&mut self, (bottleneck, instance, confidence): (Bottleneck, &str, f64), since: &str) {
        let style = self.style;
        let ink = match bottleneck {
            Bottleneck::None => Ink::Good,
            Bottleneck::Unknown => Ink::Warn,
            _ => Ink::Bad,
        };
        let badge = verdict_words::bottleneck_name(bottleneck).to_uppercase();
        let bar = share_bar(confidence, if style.width < 60 { 4 } else { 12 }, style);
        let confidence = format!("confidence {}", verdict_words::confidence_percent(confidence));
        let since_columns = if since.is_empty() { 0 } else { text::display_width(since) + 2 };
        let instance_columns = style.width.saturating_sub(badge.len() + 36 + since_columns);
        let instance = cut_text(&style.clean_text(instance), instance_columns, "~");
        let parts = [badge.as_str(), &instance, since];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let subject = parts.join("  ");
        let used_columns: usize = [&subject, &bar, &confidence].map(|text| text::display_width(text)).iter().sum();
        let gap = style.width.saturating_sub(used_columns + 2);
        self.lines.push(format!(
            "{}{}{}  {confidence}",
            style.paint(ink, &badge) + &style.paint(Ink::Bold, &subject[badge.len()..]),
            " ".repeat(gap.max(1)),
            style.paint(Ink::Dim, &bar),
        ));
    }
}

/// Draws a share as a bar of `columns`.
fn share_bar(share: f64, columns: usize, style: &Style) -> String {
    let filled = (share.clamp(0.0, 1.0) * columns as f64).round() as usize;
    style.glyph("█", "#").repeat(filled) + &style.glyph("░", ".").repeat(columns - filled)
}
