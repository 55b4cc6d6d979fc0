//! Who got more and who got less of what was short: of two programs that want the same processors or disk, a remedy
//! takes from the one that took most, and the others get more. Means over all requests, or over all processors, do not
//! show that.

use diskwright_base::ProcessPlace;
use diskwright_base::units::format_duration;
use diskwright_statistics::blocks::{MIN_BLOCKS, weighted_mean};
use diskwright_statistics::{Bounds, Contrast, MeanVariance, WeightedPoint};
use serde::Serialize;

use super::answer_quantities::{ChangeDirection, MIN_CHANGE, arrow_text, change_direction};
use super::change_outcome::ChangeOutcome;
use super::program_window::{ProgramKey, ProgramUse, ProgramWindow, UsedQuantity};
use super::{CounterWindow, TestedDifference};
use crate::answer::Verdict;
use crate::rules::Bottleneck;

/// Largest number of programs that are judged for a quantity: those that use most of it in either window.
const MAX_PROGRAMS: usize = 6;
/// Smallest use that is judged, as a share of that of the program which uses most: of processors, and of disks, where a
/// program that reads small pieces waits for one that reads large ones. Our choice.
const MIN_SHARE: [f64; 2] = [0.05, 0.01];
/// Smallest use that is judged: of a processor, and bytes per second. Our choice.
const MIN_USE: [f64; 2] = [0.01, 10_000.0];
/// Smallest number of tables of a window that tell what a program used.
const MIN_TABLES: usize = 3;
/// Smallest relevant change where there are fewer tables than a series needs: they do not tell how much it wanders. Our
/// choice.
const MIN_CHANGE_OF_FEW: f64 = 0.25;
/// A program takes the most if it uses at least this part of what the largest does.
const MIN_TAKING_SHARE: f64 = 0.5;
/// Largest number of programs of one direction that a sentence names.
const MAX_NAMED: usize = 2;

/// What a program used of a resource that a verdict blames, in both windows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProgramChange {
    /// Name of the program.
    pub name: String,
    /// The script that it runs, where it is an interpreter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// Command line of one of its processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command_line: Option<String>,
    /// Its cgroup.
    pub cgroup: String,
    /// Unit, container, pod or machine in which it runs.
    #[serde(flatten)]
    pub place: ProcessPlace,
    /// What is blamed: `cpu` or `disk`.
    pub bottleneck: Bottleneck,
    /// Unit: `fraction` of a processor, or `bytes_per_s`. `unit` is that of systemd.
    #[serde(rename = "quantity_unit")]
    pub unit: &'static str,
    /// Mean of the first window.
    pub before: f64,
    /// Mean of the second.
    pub after: f64,
    /// Direction of the change.
    pub change: ChangeDirection,
    /// Lower end of the ratio of the second mean over the first, at the level of its test; `null` where it is unknown.
    pub ratio_low: Option<f64>,
    /// The upper end.
    pub ratio_high: Option<f64>,
    /// True for one that uses most of it in either window.
    pub takes_most: bool,
}

/// A program that is to be judged, and its test.
pub(super) struct ProgramTest {
    bottleneck: Bottleneck,
    quantity: UsedQuantity,
    user: LargeUser,
    takes_most: bool,
    test: usize,
    has_few_points: bool,
}

/// A program that uses much of something: what it used in each window, `None` where no table lists it.
struct LargeUser {
    key: ProgramKey,
    used: [Option<ProgramUse>; 2],
    means: [f64; 2],
}

impl LargeUser {
    fn largest(&self) -> f64 {
        self.means[0].max(self.means[1])
    }
}

/// Selects the programs that share what the verdict on the first window blames, and appends their tests.
pub(super) fn select_programs(
    windows: [&CounterWindow; 2],
    before: &Verdict,
    tests: &mut Vec<TestedDifference>,
) -> Vec<ProgramTest> {
    let windows = windows.map(|window| &window.programs);
    let mut list: Vec<ProgramTest> = Vec::new();
    for bottleneck in before.bottlenecks.iter().map(|listed| listed.bottleneck) {
        let quantity = match bottleneck {
            Bottleneck::Cpu => UsedQuantity::Processor,
            Bottleneck::Disk => UsedQuantity::DiskBytes,
            _ => continue,
        };
        if list.iter().any(|known| known.quantity == quantity) {
            continue;
        }
        let users = largest_users(windows, quantity);
        let most = users.first().map_or(0.0, LargeUser::largest);
        for user in users {
            let means = [0, 1].map(|index| mean_of_points(&windows[index].points(user.used[index].as_ref())));
            let [(first, is_first_short), (second, is_second_short)] = means;
            let contrast = first.zip(second).map(|(a, b)| Contrast::compare_means(&a, &b, Bounds::POSITIVE));
            let mut tested = TestedDifference::from_contrast(contrast);
            tested.is_leading = true;
            let takes_most = user.largest() >= MIN_TAKING_SHARE * most;
            let has_few_points = is_first_short || is_second_short;
            list.push(ProgramTest { bottleneck, quantity, user, takes_most, test: tests.len(), has_few_points });
            tests.push(tested);
        }
    }
    list
}

/// Mean of what a program used by the tables of a window, and whether they are too few for a series. A short window has
/// few, at uneven times: each is a mean over seconds, and they count as repetitions, because so few do not tell whether
/// they depend on each other.
fn mean_of_points(points: &[WeightedPoint]) -> (Option<MeanVariance>, bool) {
    let of_series = MeanVariance::from_points(points);
    if of_series.is_some() || points.len() < MIN_TABLES {
        return (of_series, false);
    }
    let (value, count) = (weighted_mean(points), points.len() as f64);
    let weight: f64 = points.iter().map(|point| point.weight).sum();
    let squares: f64 = points.iter().map(|point| (point.weight * (point.value - value)).powi(2)).sum();
    let variance = squares / (weight * weight) * count / (count - 1.0);
    (Some(MeanVariance { value, variance, df: count - 1.0 }), true)
}

/// The programs that use most of a quantity in either window, the largest first.
fn largest_users(windows: [&ProgramWindow; 2], quantity: UsedQuantity) -> Vec<LargeUser> {
    let [mut first, second] = windows.map(|window| window.users(quantity));
    let user = |key: ProgramKey, used: [Option<ProgramUse>; 2]| {
        let mean = |index: usize| used[index].as_ref().map_or(0.0, |used| windows[index].mean(used));
        LargeUser { means: [mean(0), mean(1)], key, used }
    };
    let mut list: Vec<LargeUser> = Vec::new();
    for (key, after) in second {
        let before = first.remove(&key);
        list.push(user(key, [before, Some(after)]));
    }
    list.extend(first.into_iter().map(|(key, before)| user(key, [Some(before), None])));
    list.sort_by(|a, b| b.largest().total_cmp(&a.largest()).then_with(|| a.key.cmp(&b.key)));
    let most = list.first().map_or(0.0, LargeUser::largest);
    list.retain(|user| user.largest() >= (MIN_SHARE[quantity as usize] * most).max(MIN_USE[quantity as usize]));
    // who came or went has no other window to compare with, but for one that took most and was stopped
    list.retain(|user| user.used[0].is_some() && (user.used[1].is_some() || user.largest() >= MIN_TAKING_SHARE * most));
    list.truncate(MAX_PROGRAMS);
    list
}

/// Completes the judgment of the programs with the results of their tests.
pub(super) fn judge_programs(programs: Vec<ProgramTest>, tests: &[TestedDifference]) -> Vec<ProgramChange> {
    let complete = |program: ProgramTest| {
        let LargeUser { key, used: [first, second], means: [before, after] } = program.user;
        let tested = &tests[program.test];
        // one that takes most of a processor gives up little of its own to double what another gets
        let is_of_few = program.has_few_points && !program.takes_most;
        let smallest = if is_of_few { MIN_CHANGE_OF_FEW } else { MIN_CHANGE };
        let is_small = (after - before).abs() < smallest * before.max(after);
        let ratio = tested.contrast.as_ref().and_then(|c| c.ratio_interval(tested.test_result.level));
        let told = second.or(first);
        ProgramChange {
            command_line: told.as_ref().and_then(|used| used.command_line.clone()),
            place: told.map(|used| used.place).unwrap_or_default(),
            name: key.name,
            script: key.script,
            cgroup: key.cgroup,
            bottleneck: program.bottleneck,
            unit: match program.quantity {
                UsedQuantity::Processor => "fraction",
                UsedQuantity::DiskBytes => "bytes_per_s",
            },
            before,
            after,
            change: change_direction(tested.is_noise(), is_small, after > before),
            ratio_low: ratio.map(|r| r.0).filter(|low| low.is_finite()),
            ratio_high: ratio.map(|r| r.1).filter(|high| high.is_finite()),
            takes_most: program.takes_most,
        }
    };
    programs.into_iter().map(complete).collect()
}

/// Says that a window has too few process tables to show which programs got more and which got less, although the use
/// of one seems to have changed much. `None` if there are enough tables, if nothing seems to have changed, and without
/// any table.
pub(super) fn too_few_tables(windows: [&CounterWindow; 2], programs: &[ProgramChange]) -> Option<String> {
    let [(first, first_s), (second, second_s)] = windows.map(|window| window.programs.table_count());
    let is_open = |program: &&ProgramChange| {
        let difference = (program.after - program.before).abs();
        let is_large = difference >= MIN_CHANGE_OF_FEW * program.before.max(program.after);
        is_large && matches!(program.change, ChangeDirection::Unknown | ChangeDirection::Same)
    };
    let open = programs.iter().find(is_open)?;
    if first.min(second) >= MIN_BLOCKS || first.max(second) == 0 {
        return None;
    }
    let resource = if open.bottleneck == Bottleneck::Cpu { "processors" } else { "disk" };
    let needed = format_duration((MIN_BLOCKS as f64 * first_s.max(second_s)).ceil());
    Some(format!(
        "too few process tables ({first} and {second}) to show which programs use more of the {resource} and which \
         less: record longer, {needed} or more for each window"
    ))
}

/// What the programs say of the change. It helped where one that takes the most got less, and others got more, and none
/// of the others got less; also if what those that take the most lost may be noise. It got worse in the opposite case.
/// `None` where neither is so.
pub(super) fn outcome_of_programs(programs: &[ProgramChange]) -> Option<ChangeOutcome> {
    let outcomes: Vec<ChangeOutcome> =
        [Bottleneck::Cpu, Bottleneck::Disk].into_iter().filter_map(|of| outcome_of_resource(programs, of)).collect();
    let first = *outcomes.first()?;
    outcomes.iter().all(|outcome| *outcome == first).then_some(first)
}

/// What the programs say where the machine's counters say something else: who gets what is nearer to those who wait
/// than means over all.
pub(super) fn outcome_beside_machine(programs: &[ProgramChange], of_machine: ChangeOutcome) -> Option<ChangeOutcome> {
    let of_programs = outcome_of_programs(programs).filter(|of_programs| *of_programs != of_machine);
    of_programs.filter(|_| of_machine != ChangeOutcome::Helped)
}

fn outcome_of_resource(programs: &[ProgramChange], bottleneck: Bottleneck) -> Option<ChangeOutcome> {
    let of_resource = || programs.iter().filter(move |program| program.bottleneck == bottleneck);
    let any = |takes_most: bool, change: ChangeDirection| {
        of_resource().any(|program| program.takes_most == takes_most && program.change == change)
    };
    use ChangeDirection::{Down, Up};
    let (more, less) = (any(true, Up) || any(false, Up), any(true, Down));
    if less && more && !any(false, Down) {
        return Some(ChangeOutcome::Helped);
    }
    // what a small program gains may be lost in the noise of one that takes many times as much
    let is_lost_in_noise = of_resource()
        .filter(|program| program.takes_most)
        .all(|program| program.change == ChangeDirection::Same && program.after < program.before);
    if any(false, Up) && !any(false, Down) && is_lost_in_noise {
        return Some(ChangeOutcome::Helped);
    }
    (any(true, Up) && any(false, Down) && !any(false, Up)).then_some(ChangeOutcome::Worse)
}

/// The effect as the programs show it, without verdicts on the machine.
pub(super) fn programs_sentence(programs: &[ProgramChange], outcome: ChangeOutcome) -> String {
    let begin = if outcome == ChangeOutcome::Helped { "The change helped" } else { "It got worse" };
    format!("{begin}: {}.", changes_text(programs, outcome))
}

/// `python3 service.py gets 12 → 29 % of a processor; runaway 90 → 30 %`.
pub(super) fn changes_text(programs: &[ProgramChange], outcome: ChangeOutcome) -> String {
    let directions = match outcome {
        ChangeOutcome::Worse => [ChangeDirection::Down, ChangeDirection::Up],
        _ => [ChangeDirection::Up, ChangeDirection::Down],
    };
    let of_outcome = |program: &&ProgramChange| outcome_of_resource(programs, program.bottleneck) == Some(outcome);
    let mut parts: Vec<String> = Vec::new();
    for bottleneck in [Bottleneck::Cpu, Bottleneck::Disk] {
        let of_resource = || programs.iter().filter(of_outcome).filter(|program| program.bottleneck == bottleneck);
        for direction in directions {
            let mut changed: Vec<&ProgramChange> = of_resource().filter(|one| one.change == direction).collect();
            changed.sort_by(|a, b| (b.after - b.before).abs().total_cmp(&(a.after - a.before).abs()));
            for (index, program) in changed.into_iter().take(MAX_NAMED).enumerate() {
                let of_what = match (direction == directions[0] && index == 0, bottleneck) {
                    (true, Bottleneck::Cpu) => " of a processor",
                    (true, _) => " of disks",
                    (false, _) => "",
                };
                let verb = if of_what.is_empty() { "" } else { " gets" };
                parts.push(format!(
                    "{}{verb} {}{of_what}",
                    program_name(program, programs),
                    arrow_text(program.before, program.after, program.unit)
                ));
            }
        }
    }
    parts.join("; ")
}

/// The program with the name of its script's file: `python3 service.py`. Of several of one name, each has the first
/// word of its command line by which it differs.
fn program_name(program: &ProgramChange, all: &[ProgramChange]) -> String {
    let file = program.script.as_deref().map(|script| script.rsplit('/').next().unwrap_or(script));
    let name = file.map_or_else(|| program.name.clone(), |file| format!("{} {file}", program.name));
    let command_line = program.command_line.as_deref().unwrap_or_default();
    let is_same = |other: &&ProgramChange| other.name == program.name && other.script == program.script;
    let others = || all.iter().filter(is_same).filter_map(|other| other.command_line.as_deref());
    let differs = |(index, word): &(usize, &str)| {
        others().any(|other| other != command_line && other.split_whitespace().nth(*index) != Some(*word))
    };
    match command_line.split_whitespace().enumerate().find(differs) {
        Some((_, word)) => format!("{name} {word}"),
        None => name,
    }
}
