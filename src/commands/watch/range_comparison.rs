//! Two ranges of the watched history side by side, as `compare` shows them.

use diskwright_base::LogPiece;
use diskwright_base::timestamp::now_ns;
use diskwright_base::units::format_count;
use diskwright_dashboard::History;
use diskwright_diagnosis::compare::{self, CounterWindow, WindowComparison};
use diskwright_diagnosis::{Judge, JudgeOptions, Pack, Verdict};
use diskwright_report::{DisplayZone, Style, compare as drawn};

use super::super::{Failure, ceilings, output};

/// Maximum number of rows of the table.
const MAX_ROWS: usize = 40;
/// Ranges that overlap by less than this are adjacent, nanoseconds: a page knows times in rounded milliseconds.
const TOUCH_TOLERANCE_NS: i64 = 4_000;

/// Formats the changes from the first range to the second, as `compare` shows them.
pub fn compare_as_text(
    history: &dyn History,
    pack: &Pack,
    first: (i64, i64),
    second: (i64, i64),
) -> Result<String, Failure> {
    let comparison = compare_ranges(history, pack, first, second)?;
    let style = Style { colour: false, ..output::stdout_style() };
    Ok(drawn::render_screen(&comparison, MAX_ROWS, &DisplayZone::local(), &style))
}

/// Compares the second range with the first.
pub fn compare_ranges(
    history: &dyn History,
    pack: &Pack,
    first: (i64, i64),
    second: (i64, i64),
) -> Result<WindowComparison, Failure> {
    let (first, second) = separate_ranges(first, second);
    let (before, after) = (read_side(history, pack, first)?, read_side(history, pack, second)?);
    let comparison = compare::compare_windows(&before.0, &after.0, before.1, after.1);
    require_common_counters(&comparison, "stretches")?;
    Ok(comparison)
}

/// Fails if nothing can be compared; `windows` names what was to be compared.
pub fn require_common_counters(comparison: &WindowComparison, windows: &str) -> Result<(), Failure> {
    if !comparison.counters.is_empty() {
        return Ok(());
    }
    let shortest = comparison.before.window.ticks.min(comparison.after.window.ticks);
    Err(Failure::Failed(match shortest {
        // the first tick of a log covers no time, so that no rate can be computed from it
        0 | 1 => format!(
            "one of the two {windows} has only {}; a comparison needs at least 2 in each",
            format_count(shortest, "tick", "ticks")
        ),
        _ => format!("the two {windows} have no counter and instance in common"),
    }))
}

/// Separates the ranges: if one begins at the end of the other, the tick there belongs to only one of them, because it
/// covers the time before it.
pub fn separate_ranges(first: (i64, i64), second: (i64, i64)) -> ((i64, i64), (i64, i64)) {
    let touch = |earlier: (i64, i64), later: (i64, i64)| {
        let common = earlier.1.saturating_sub(later.0);
        earlier != later && earlier.0 <= later.0 && earlier.1 <= later.1 && (0..TOUCH_TOLERANCE_NS).contains(&common)
    };
    if touch(first, second) {
        return (first, (first.1 + 1, second.1));
    }
    if touch(second, first) {
        return ((second.1 + 1, first.1), second);
    }
    (first, second)
}

fn read_side(history: &dyn History, pack: &Pack, range: (i64, i64)) -> Result<(CounterWindow, Verdict), Failure> {
    let known = ceilings::known_ceilings().to_vec();
    let mut judge = Judge::new(
        vec![pack.clone()],
        JudgeOptions { expected: Some(range), ceilings: known, clock: Some(now_ns), ..JudgeOptions::default() },
    );
    let mut counters = CounterWindow::new(range);
    let handle = &mut |piece: LogPiece<'_>| match piece {
        LogPiece::Frame(frame) => {
            judge.add_frame(frame);
            counters.add_frame(frame);
        }
        LogPiece::Note(note) => {
            judge.add_note(&note);
            counters.add_note(&note);
        }
    };
    history.read(range.0, range.1, handle).map_err(Failure::Failed)?;
    let verdict = judge.finish().into_iter().next();
    verdict.map(|verdict| (counters, verdict)).ok_or_else(|| Failure::Failed("no rule pack gave a verdict".into()))
}

#[cfg(test)]
mod tests {
    use super::separate_ranges;

    #[test]
    fn tick_between_two_ranges_belongs_to_the_earlier() {
        const SECOND: i64 = 1_000_000_000;
        let (early, late) = ((10 * SECOND, 20 * SECOND), (20 * SECOND, 30 * SECOND));
        let cut = (20 * SECOND + 1, 30 * SECOND);
        assert_eq!(separate_ranges(early, late), (early, cut));
        assert_eq!(separate_ranges(late, early), (cut, early), "in either order");
        // as the page passes them: wider by the rounding of its times
        let wide = |stretch: (i64, i64)| (stretch.0 - 1_000, stretch.1 + 1_000);
        assert_eq!(separate_ranges(wide(early), wide(late)), (wide(early), (20 * SECOND + 1_001, 30 * SECOND + 1_000)));
        // a change at the very first tick, and at the very last
        assert_eq!(separate_ranges((5, 5), (5, 30 * SECOND)), ((5, 5), (6, 30 * SECOND)));
        assert_eq!(separate_ranges(early, (20 * SECOND, 20 * SECOND)), (early, (20 * SECOND + 1, 20 * SECOND)));
        // nested ranges and distant ones stay as they are
        for (one, other) in [(early, early), (early, (15 * SECOND, 30 * SECOND)), (early, (21 * SECOND, 30 * SECOND))] {
            assert_eq!(separate_ranges(one, other), (one, other));
        }
    }
}
