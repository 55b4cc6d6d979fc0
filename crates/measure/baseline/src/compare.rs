//! Two baselines side by side: a machine then and now, or two machines.
//!
//! It compares speeds: rates directly, times by their inverse. Several figures are combined by the
//! geometric mean (Fleming and Wallace 1986: no other mean of ratios is independent of which side
//! is the reference), first within each group and then over the groups, so that six latencies do
//! not outweigh one clock.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::document::{BaselineDocument, FigureResult};
use crate::figure::{FigureKind, GROUPS};

/// Usual difference of a figure between two runs on one quiet machine, as a share.
const RUN_TO_RUN_VARIATION: f64 = 0.03;

/// The comparison, `diskwright.baseline-compare/1`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BaselineComparison {
    /// `diskwright.baseline-compare/1`.
    pub schema: &'static str,
    /// Figures that both baselines have.
    pub rows: Vec<BaselineRow>,
    /// Speed of the second machine with one thread, as a multiple of the first; `null` if they have no figure in
    /// common.
    pub speed_one_thread: Option<f64>,
    /// The same speed with as many threads as each machine has processors.
    pub speed_all_threads: Option<f64>,
    /// The speed with one thread, by group.
    pub groups: Vec<GroupSpeed>,
    /// Differences between the machines.
    pub differences: Vec<String>,
    /// Figures that only one baseline has reliably, or that were measured by different methods.
    pub only_in_one: Vec<String>,
}

/// Relative speed of a group of figures with one thread.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupSpeed {
    /// `processor`, `memory` and so on.
    pub group: &'static str,
    /// Speed of the second as a multiple of the first.
    pub speed: f64,
}

/// Number of threads of compared figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComparedThreads {
    /// The same number on both machines.
    Count(usize),
    /// As many as each machine has processors.
    All,
}

impl ComparedThreads {
    /// A single thread.
    pub const ONE: ComparedThreads = ComparedThreads::Count(1);
}

impl fmt::Display for ComparedThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ComparedThreads::Count(count) => count.fmt(f),
            ComparedThreads::All => f.write_str("all"),
        }
    }
}

impl Serialize for ComparedThreads {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A figure that both baselines have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BaselineRow {
    /// Id in the list of figures.
    pub id: String,
    /// Title for people.
    pub title: String,
    /// Unit.
    pub unit: String,
    /// Number of threads.
    pub threads: ComparedThreads,
    /// Median of the first.
    pub first: f64,
    /// Median of the second.
    pub second: f64,
    /// Speed of the second as a multiple of the first: above 1 it is faster.
    pub speed: f64,
    /// The difference is larger than both spreads together and larger than the usual variation
    /// between runs.
    pub differs: bool,
}

/// Returns the speed of the second as a multiple of the first.
fn relative_speed(first: &FigureResult, second: &FigureResult) -> Option<f64> {
    let (first_median, second_median) = (first.median?, second.median?);
    let is_rate = first.better == FigureKind::Rate.better_direction();
    let speed = if is_rate { second_median / first_median } else { first_median / second_median };
    (speed.is_finite() && speed > 0.0).then_some(speed)
}

/// Returns the geometric mean; `None` if there are no values.
fn geometric_mean(speeds: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = speeds.fold((0.0, 0u32), |(sum, count), speed| (sum + f64::ln(speed), count + 1));
    (count > 0).then(|| (sum / f64::from(count)).exp())
}

/// Compares two results of a figure.
fn compare_figure(first: &FigureResult, second: &FigureResult, threads: ComparedThreads) -> Option<BaselineRow> {
    let speed = relative_speed(first, second)?;
    let noise = (first.spread + second.spread).max(RUN_TO_RUN_VARIATION);
    Some(BaselineRow {
        id: first.id.clone(),
        title: first.title.clone(),
        unit: first.unit.clone(),
        threads,
        first: first.median?,
        second: second.median?,
        speed,
        differs: speed.ln().abs() > noise,
    })
}

/// Finds the figure of the other baseline: with the same number of threads, or with all threads of
/// each machine.
fn find_partner<'a>(
    figure: &FigureResult,
    sides: [&BaselineDocument; 2],
    second: &'a BaselineDocument,
) -> Option<(&'a FigureResult, ComparedThreads)> {
    let [first_processors, other_processors] = sides.map(|side| side.machine.processors);
    let uses_all = figure.threads == first_processors && figure.threads > 1;
    let threads = if uses_all { other_processors } else { figure.threads };
    let partner = second.find_figure(&figure.id, threads).filter(|partner| is_same_work(figure, partner))?;
    Some((partner, if uses_all { ComparedThreads::All } else { ComparedThreads::Count(figure.threads) }))
}

/// Returns true if two results are comparable: same method, unit and direction.
fn is_same_work(first: &FigureResult, second: &FigureResult) -> bool {
    first.method == second.method && first.unit == second.unit && first.better == second.better
}

/// Finds the figure with all threads of the other machine, if this machine has one processor: its one thread is all of
/// its threads.
fn find_all_threads_partner<'a>(
    figure: &FigureResult,
    sides: [&BaselineDocument; 2],
    second: &'a BaselineDocument,
) -> Option<&'a FigureResult> {
    let [first_processors, other_processors] = sides.map(|side| side.machine.processors);
    let is_single = figure.threads == 1 && first_processors == 1 && other_processors > 1;
    second.find_figure(&figure.id, other_processors).filter(|partner| is_single && is_same_work(figure, partner))
}

/// Returns the relative speed of each group for a number of threads.
fn group_speeds(rows: &[BaselineRow], threads: ComparedThreads) -> Vec<GroupSpeed> {
    let speed = |group: &str| {
        let is_in_group = |row: &&BaselineRow| row.threads == threads && row.id.split('.').next() == Some(group);
        geometric_mean(rows.iter().filter(is_in_group).map(|row| row.speed))
    };
    GROUPS.iter().filter_map(|(group, _)| Some(GroupSpeed { group, speed: speed(group)? })).collect()
}

/// Combines the speeds of the groups.
fn overall_speed(groups: &[GroupSpeed]) -> Option<f64> {
    geometric_mean(groups.iter().map(|group| group.speed))
}

/// Lists the differences between two machines.
fn machine_differences(first: &BaselineDocument, second: &BaselineDocument) -> Vec<String> {
    let (one, two) = (&first.machine, &second.machine);
    let or_unknown = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
    let list = [
        ("processor", or_unknown(&one.processor), or_unknown(&two.processor)),
        ("processors", one.processors.to_string(), two.processors.to_string()),
        ("memory", format!("{} MiB", one.memory_bytes >> 20), format!("{} MiB", two.memory_bytes >> 20)),
        ("kernel", one.kernel.clone(), two.kernel.clone()),
        ("governor", or_unknown(&one.governor), or_unknown(&two.governor)),
        ("huge pages", or_unknown(&one.huge_pages), or_unknown(&two.huge_pages)),
        ("limit of the cgroup", or_unknown(&one.processor_limit), or_unknown(&two.processor_limit)),
        ("version", first.version.clone(), second.version.clone()),
    ];
    let different = list.into_iter().filter(|(_, one, two)| one != two);
    different.map(|(property, one, two)| format!("{property}: {one} -> {two}")).collect()
}

/// Compares two baselines.
#[must_use]
pub fn compare_baselines(first: &BaselineDocument, second: &BaselineDocument) -> BaselineComparison {
    let compare_with_partner = |figure: &FigureResult| {
        let (other, threads) = find_partner(figure, [first, second], second)?;
        compare_figure(figure, other, threads)
    };
    let compare_with_all_threads = |figure: &FigureResult| {
        compare_figure(figure, find_all_threads_partner(figure, [first, second], second)?, ComparedThreads::All)
    };
    let rows: Vec<BaselineRow> = first
        .figures
        .iter()
        .flat_map(|figure| [compare_with_partner(figure), compare_with_all_threads(figure)])
        .flatten()
        .collect();
    let name = |figure: &FigureResult| format!("{} ({})", figure.id, figure.threads);
    let only_in = |side: &BaselineDocument, other: &BaselineDocument| {
        let is_missing = |figure: &&FigureResult| {
            let partner = find_partner(figure, [side, other], other).and_then(|(partner, _)| partner.median);
            figure.median.is_some() && partner.is_none()
        };
        side.figures.iter().filter(is_missing).map(name).collect::<Vec<String>>()
    };
    let groups = group_speeds(&rows, ComparedThreads::ONE);
    BaselineComparison {
        schema: "diskwright.baseline-compare/1",
        speed_one_thread: overall_speed(&groups),
        speed_all_threads: overall_speed(&group_speeds(&rows, ComparedThreads::All)),
        groups,
        differences: machine_differences(first, second),
        only_in_one: [only_in(first, second), only_in(second, first)].concat(),
        rows,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::find_definition;
    use crate::machine::BaselineMachine;

    fn document(processors: usize, figures: &[(&str, usize, f64)]) -> BaselineDocument {
        let figure = |&(id, threads, value): &(&str, usize, f64)| {
            FigureResult::from_values(find_definition(id).expect("known"), threads, &[value; 5])
        };
        let machine = BaselineMachine { processors, ..BaselineMachine::default() };
        BaselineDocument { machine, figures: figures.iter().map(figure).collect(), ..BaselineDocument::default() }
    }

    /// Half of the rate is half of the speed, and so is twice the time; sqrt(1/2 x 1) = 0.7071 of the processor and
    /// 1/2 of memory: sqrt(0.7071 x 0.5) = 0.5946.
    #[test]
    fn groups_have_equal_weight() {
        let figures = [("processor.integer", 1, 8.0), ("processor.floating", 1, 8.0), ("memory.latency.1M", 1, 1e-9)];
        let slower = [("processor.integer", 1, 4.0), ("processor.floating", 1, 8.0), ("memory.latency.1M", 1, 2e-9)];
        let comparison = compare_baselines(&document(1, &figures), &document(1, &slower));
        let speeds: Vec<(&str, f64)> = comparison.groups.iter().map(|g| (g.group, g.speed)).collect();
        assert!((speeds[0].1 - 0.5f64.sqrt()).abs() < 1e-12 && (speeds[1].1 - 0.5).abs() < 1e-12, "{speeds:?}");
        assert!(comparison.speed_one_thread.is_some_and(|speed| (speed - 0.594_6).abs() < 1e-4));
        assert_eq!(comparison.rows.iter().map(|row| row.differs).collect::<Vec<_>>(), [true, false, true]);
        assert_eq!(comparison.speed_all_threads, None);
    }

    /// Two processors against four: one thread with one, all with all.
    #[test]
    fn compares_all_threads_of_each_machine() {
        let two = document(2, &[("memory.read", 1, 10.0), ("memory.read", 2, 15.0)]);
        let four = document(4, &[("memory.read", 1, 10.0), ("memory.read", 4, 30.0)]);
        let comparison = compare_baselines(&two, &four);
        assert_eq!((comparison.speed_one_thread, comparison.rows[1].threads), (Some(1.0), ComparedThreads::All));
        assert!(comparison.speed_all_threads.is_some_and(|speed| (speed - 2.0).abs() < 1e-12), "{comparison:?}");
        assert!(comparison.differences.iter().any(|text| text == "processors: 2 -> 4"));
        assert!(comparison.only_in_one.is_empty(), "{comparison:?}");
        // one processor against four, in both directions: the one thread is all threads of its
        // machine
        let one = document(1, &[("memory.read", 1, 10.0)]);
        for (comparison, all) in [(compare_baselines(&one, &four), 3.0), (compare_baselines(&four, &one), 1.0 / 3.0)] {
            assert!(comparison.speed_all_threads.is_some_and(|speed| (speed - all).abs() < 1e-12), "{comparison:?}");
            assert_eq!((comparison.speed_one_thread, comparison.only_in_one.len()), (Some(1.0), 0), "{comparison:?}");
        }
    }

    #[test]
    fn ignores_noise_and_lists_incomparable_figures() {
        let first = document(1, &[("memory.read", 1, 100.0), ("memory.triad", 1, 5.0)]);
        let mut second = document(1, &[("memory.read", 1, 98.0)]);
        let comparison = compare_baselines(&first, &second);
        assert!(!comparison.rows[0].differs && comparison.only_in_one == ["memory.triad (1)"]);
        // a figure that one of them refused is listed, one that both refused is not
        let wide =
            |id| FigureResult::from_values(find_definition(id).expect("known"), 1, &[50.0, 70.0, 100.0, 130.0, 150.0]);
        let noisy = BaselineDocument { figures: vec![wide("memory.read"), wide("memory.triad")], ..first.clone() };
        let comparison = compare_baselines(&first, &noisy);
        assert_eq!(comparison.only_in_one, ["memory.read (1)", "memory.triad (1)"]);
        assert_eq!((compare_baselines(&noisy, &first).only_in_one, comparison.rows.len()), (comparison.only_in_one, 0));
        assert!(compare_baselines(&noisy, &noisy).only_in_one.is_empty());
        // another unit, another direction, other work
        let changes: [fn(&mut FigureResult); 3] =
            [|figure| figure.unit = "s".into(), |figure| figure.better = "lower".into(), |figure| figure.method = 9];
        for change in changes {
            let mut other = second.clone();
            change(&mut other.figures[0]);
            assert_eq!(compare_baselines(&first, &other).speed_one_thread, None);
        }
        // numbers whose quotient is not finite
        second.figures[0].median = Some(f64::MIN_POSITIVE / 4.0);
        let first = document(1, &[("memory.read", 1, f64::MAX)]);
        assert!(
            compare_baselines(&first, &second).rows.is_empty() && compare_baselines(&second, &first).rows.is_empty()
        );
    }
}
