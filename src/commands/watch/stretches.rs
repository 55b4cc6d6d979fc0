//! Two stretches of what is watched, side by side, as `compare` shows them.

use diskwright_base::LogPiece;
use diskwright_dashboard::History;
use diskwright_diagnosis::compare::{self, CounterWindow, WindowComparison};
use diskwright_diagnosis::{Judge, JudgeOptions, Pack, Verdict};
use diskwright_report::{DisplayZone, Style, compare as drawn};

use super::super::{Failure, ceilings, output};

/// Rows of the table.
const ROWS: usize = 40;

/// What changed from the first stretch to the second, as `compare` shows it.
pub fn compared(history: &dyn History, pack: &Pack, first: (i64, i64), second: (i64, i64)) -> Result<String, Failure> {
    let comparison = comparison(history, pack, first, second)?;
    let style = Style { colour: false, ..output::style() };
    Ok(drawn::screen(&comparison, ROWS, &DisplayZone::local(), &style))
}

/// What changed from the first stretch to the second.
pub fn comparison(
    history: &dyn History,
    pack: &Pack,
    first: (i64, i64),
    second: (i64, i64),
) -> Result<WindowComparison, Failure> {
    let (before, after) = (side(history, pack, first)?, side(history, pack, second)?);
    let comparison = compare::compare(&before.0, &after.0, before.1, after.1);
    if comparison.counters.is_empty() {
        return Err(Failure::Failed("the two stretches have no counter and instance in common".into()));
    }
    Ok(comparison)
}

fn side(history: &dyn History, pack: &Pack, range: (i64, i64)) -> Result<(CounterWindow, Verdict), Failure> {
    let known = ceilings::known().to_vec();
    let mut judge = Judge::new(vec![pack.clone()], JudgeOptions { role: None, expected: Some(range), ceilings: known });
    let mut counters = CounterWindow::new(range);
    let each = &mut |piece: LogPiece<'_>| match piece {
        LogPiece::Frame(frame) => {
            judge.frame(frame);
            counters.frame(frame);
        }
        LogPiece::Note(note) => {
            judge.note(&note);
            counters.note(&note);
        }
    };
    history.read(range.0, range.1, each).map_err(Failure::Failed)?;
    let verdict = judge.finish().into_iter().next();
    verdict.map(|verdict| (counters, verdict)).ok_or_else(|| Failure::Failed("no rule pack gave a verdict".into()))
}
