//! From the numbers of a server's samples to the cells of ticks. A total is stored as its increase between ticks; what
//! was not measured at a tick is a gap, and so is the increase across a gap.

use std::collections::BTreeMap;

use diskwright_base::counter_ids::database;
use diskwright_base::{Catalogue, CounterKind, Series};

/// Numbers of one sample by counter: running totals and levels. What the server does not measure is not there.
pub(crate) type SampleValues = BTreeMap<&'static str, f64>;

/// Counters whose largest value of a tick counts, not the mean.
const LARGEST: [&str; 4] = [
    database::LONGEST_LOCK_WAIT_S,
    database::LONGEST_TRANSACTION_S,
    database::CONNECTIONS_USED_FRACTION,
    database::CHECKPOINT_AGE_FRACTION,
];
/// Seconds of a total as stored: whole microseconds.
const US_TO_S: f64 = 1e-6;

/// How samples become a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Cell {
    /// Total at the last tick and in the last sample since; `None` where it is not known.
    Total { previous: Option<f64>, latest: Option<f64> },
    /// Sum of the samples since the last tick, and their number.
    Mean { sum: f64, count: u32 },
    /// Largest sample since the last tick.
    Largest { value: Option<f64> },
}

impl Cell {
    fn for_counter(counter: &str) -> Cell {
        let kind = Catalogue::builtin().get(counter).map(|counter| counter.kind);
        match kind {
            Some(CounterKind::Total) => Cell::Total { previous: None, latest: None },
            _ if LARGEST.contains(&counter) => Cell::Largest { value: None },
            _ => Cell::Mean { sum: 0.0, count: 0 },
        }
    }

    fn add_sample(&mut self, new: f64) {
        match self {
            Cell::Total { latest, .. } => *latest = Some(new),
            Cell::Mean { sum, count } => (*sum, *count) = (*sum + new, *count + 1),
            Cell::Largest { value } => *value = Some(value.map_or(new, |known| known.max(new))),
        }
    }

    fn take_tick(&mut self) -> f64 {
        match self {
            Cell::Total { previous, latest } => {
                let before = std::mem::replace(previous, latest.take());
                // a total that shrank was reset
                let increase = previous.zip(before).map(|(now, before)| now - before);
                increase.filter(|increase| *increase >= 0.0).unwrap_or(f64::NAN)
            }
            Cell::Mean { sum, count } => {
                let mean = if *count > 0 { *sum / f64::from(*count) } else { f64::NAN };
                (*sum, *count) = (0.0, 0);
                mean
            }
            Cell::Largest { value } => value.take().unwrap_or(f64::NAN),
        }
    }

    fn scale(self, counter: &str) -> f64 {
        if matches!(self, Cell::Total { .. }) && counter.ends_with("_s") { US_TO_S } else { 1.0 }
    }
}

/// The cells of one server. A counter has a column from the first sample on that has it.
#[derive(Debug, Default)]
pub(crate) struct CellBoard {
    cells: BTreeMap<&'static str, Cell>,
    has_new_series: bool,
}

impl CellBoard {
    /// Adds a sample.
    pub fn add_sample(&mut self, values: &SampleValues) {
        for (counter, value) in values.iter().filter(|(_, value)| value.is_finite()) {
            let cell = self.cells.entry(counter).or_insert_with(|| {
                self.has_new_series = true;
                Cell::for_counter(counter)
            });
            let scale = cell.scale(counter);
            cell.add_sample(if scale == 1.0 { *value } else { (value / scale).round() });
        }
    }

    /// Forgets the totals: another server answers, or the same one after a restart.
    pub fn forget_totals(&mut self) {
        for cell in self.cells.values_mut() {
            if let Cell::Total { previous, latest } = cell {
                (*previous, *latest) = (None, None);
            }
        }
    }

    /// Returns true once after counters were added.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.has_new_series)
    }

    /// Appends the series.
    pub fn append_series(&self, instance: &str, out: &mut Vec<Series>) {
        out.extend(self.cells.iter().map(|(counter, cell)| Series {
            counter: (*counter).to_owned(),
            instance: instance.to_owned(),
            scale: cell.scale(counter),
        }));
    }

    /// Appends the cells of a tick, and begins the next one.
    pub fn take_tick(&mut self, out: &mut Vec<f64>) {
        out.extend(self.cells.values_mut().map(Cell::take_tick));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tick(board: &mut CellBoard) -> Vec<f64> {
        let mut cells = Vec::new();
        board.take_tick(&mut cells);
        cells
    }

    #[test]
    fn a_total_is_its_increase_and_never_across_a_gap() {
        let mut board = CellBoard::default();
        let mut cell_after = |value: Option<f64>| {
            let values = value.map(|value| (database::COMMITS, value));
            board.add_sample(&values.into_iter().collect());
            tick(&mut board).first().copied().filter(|cell| !cell.is_nan())
        };
        let seen: Vec<Option<f64>> =
            [Some(10.0), Some(15.0), Some(15.0), None, Some(40.0), Some(41.0), Some(3.0), Some(4.0)]
                .into_iter()
                .map(&mut cell_after)
                .collect();
        assert_eq!(seen, [None, Some(5.0), Some(0.0), None, None, Some(1.0), None, Some(1.0)]);
    }

    #[test]
    fn levels_are_means_and_ages_are_the_largest() {
        let mut board = CellBoard::default();
        for (waiting, longest) in [(0.0, 1.0), (3.0, 7.0), (3.0, 2.0)] {
            let values = [(database::SESSIONS_WAITING_LOCK, waiting), (database::LONGEST_LOCK_WAIT_S, longest)].into();
            board.add_sample(&values);
        }
        assert!(board.take_changed() && !board.take_changed());
        let mut series = Vec::new();
        board.append_series("postgres:shop", &mut series);
        let names: Vec<&str> = series.iter().map(|series| series.counter.as_str()).collect();
        assert_eq!(names, [database::LONGEST_LOCK_WAIT_S, database::SESSIONS_WAITING_LOCK]);
        assert_eq!(tick(&mut board), [7.0, 2.0]);
        assert!(tick(&mut board).iter().all(|cell| cell.is_nan()), "no sample is no zero");
    }

    #[test]
    fn what_is_not_measured_has_no_column() {
        let mut board = CellBoard::default();
        board.add_sample(&[(database::READ_TIME_S, f64::NAN), (database::LOG_SYNC_TIME_S, 0.25)].into());
        let mut series = Vec::new();
        board.append_series("a", &mut series);
        assert_eq!(series.len(), 1);
        assert_eq!((series[0].counter.as_str(), series[0].scale), (database::LOG_SYNC_TIME_S, 1e-6));
        tick(&mut board);
        board.add_sample(&[(database::LOG_SYNC_TIME_S, 0.75)].into());
        assert_eq!(tick(&mut board), [500_000.0]);
        board.forget_totals();
        board.add_sample(&[(database::LOG_SYNC_TIME_S, 0.8)].into());
        assert!(tick(&mut board)[0].is_nan());
    }
}
