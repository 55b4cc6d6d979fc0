//! Which rows of a comparison are shown, in which order, and their cells.

use diskwright_base::counter_ids::{physical_disk, pressure, processor};
use diskwright_base::units;
use diskwright_diagnosis::compare::{ALL_INSTANCES, ComparisonRow, WindowComparison};

/// Counters that are listed first, for all instances together.
pub const MAIN_COUNTERS: &[&str] = &[
    physical_disk::TRANSFERS_PER_S,
    physical_disk::AVG_S_PER_TRANSFER,
    physical_disk::AVG_QUEUE_LENGTH,
    physical_disk::BYTES_PER_S,
    processor::BUSY,
    pressure::IO_SOME,
    pressure::MEMORY_SOME,
    pressure::CPU_SOME,
];

/// Smallest factor of a change that is listed among the first.
const MIN_CHANGE_RATIO: f64 = 1.05;
/// If one end of an interval lies farther from the mean than the other by more than
/// this factor, both ends are printed instead of `±`.
const MAX_UNEVEN_RATIO: f64 = 1.25;
/// Orders the rows by interest: changes beyond noise first; among them the most
/// certain, then the largest, before the others.
pub fn rank_rows(comparison: &WindowComparison) -> Vec<&ComparisonRow> {
    let is_duplicate = |r: &ComparisonRow| {
        // the row of a single disk already stands for all disks together
        let is_of_instance = |o: &&ComparisonRow| o.counter == r.counter && o.instance != ALL_INSTANCES;
        r.instance == ALL_INSTANCES && comparison.counters.iter().filter(is_of_instance).count() == 1
    };
    let mut rows: Vec<&ComparisonRow> = comparison.counters.iter().filter(|r| !is_duplicate(r)).collect();
    let noise_rank = |r: &ComparisonRow| match r.noise {
        Some(false) if change_ratio(r) >= MIN_CHANGE_RATIO => 0,
        Some(false) => 1,
        None => 2,
        Some(true) => 3,
    };
    rows.sort_by(|a, b| {
        let significance = |r: &ComparisonRow| r.significance.unwrap_or(1.0);
        // in half decades; probabilities below 1e-6 count as equal
        let significance_rank = |r: &ComparisonRow| (significance(r).max(1e-6).log10() * 2.0) as i64;
        let is_single_instance = |r: &ComparisonRow| r.instance != ALL_INSTANCES;
        let by_noise = noise_rank(a).cmp(&noise_rank(b)).then(significance_rank(a).cmp(&significance_rank(b)));
        let by_change = by_noise.then(change_ratio(b).total_cmp(&change_ratio(a)));
        by_change.then(is_single_instance(a).cmp(&is_single_instance(b)))
    });
    rows
}

/// The disk that the comparison is about, if there are several.
pub fn lead_device(comparison: &WindowComparison) -> Option<&str> {
    let [first, _, ..] = comparison.devices.as_slice() else { return None };
    Some(&first.instance)
}

/// The rows of [`MAIN_COUNTERS`]: those of the disk in question, or else of the machine.
pub fn main_rows<'a>(comparison: &WindowComparison, ranked: &[&'a ComparisonRow]) -> Vec<&'a ComparisonRow> {
    let lead = lead_device(comparison);
    let main_row = |counter: &&str| {
        let lead = lead.filter(|_| counter.starts_with(DISK_PREFIX));
        let is_wanted = |row: &ComparisonRow| match lead {
            Some(lead) => row.instance == lead,
            None => is_whole_machine(row, ranked),
        };
        ranked.iter().copied().find(|row| row.counter == **counter && is_wanted(row))
    };
    MAIN_COUNTERS.iter().filter_map(main_row).collect()
}

/// What the ids of a disk's counters begin with.
const DISK_PREFIX: &str = "physical_disk.";

/// Returns the rows that the screen shows: those of the disk in question and of the machine, then those that changed.
/// Sums over several disks come last.
pub(super) fn screen_rows(comparison: &WindowComparison, max_rows: usize) -> Vec<&ComparisonRow> {
    let ranked = rank_rows(comparison);
    if max_rows >= ranked.len() {
        return order_rows(comparison);
    }
    let mut rows = main_rows(comparison, &ranked);
    for row in order_rows(comparison).into_iter().filter(|r| r.noise == Some(false)) {
        if rows.len() < max_rows && !rows.iter().any(|known| std::ptr::eq(*known, row)) {
            rows.push(row);
        }
    }
    rows
}

/// Returns all rows for readers of only the first few: those of the disk in question and of the machine, then the rest
/// in the order of [`rank_rows`]. Sums over several disks come last.
pub fn order_rows(comparison: &WindowComparison) -> Vec<&ComparisonRow> {
    let ranked = rank_rows(comparison);
    let mut rows = main_rows(comparison, &ranked);
    let main_count = rows.len();
    let is_sum = |row: &ComparisonRow| {
        lead_device(comparison).is_some() && row.instance == ALL_INSTANCES && row.counter.starts_with(DISK_PREFIX)
    };
    let (sums, others): (Vec<_>, Vec<_>) = ranked.into_iter().partition(|row| is_sum(row));
    for row in others.into_iter().chain(sums) {
        if !rows[..main_count].iter().any(|known| std::ptr::eq(*known, row)) {
            rows.push(row);
        }
    }
    rows
}

/// Returns true if a row stands for the whole machine: for all instances, or for the
/// only instance in `among`.
pub fn is_whole_machine(row: &ComparisonRow, among: &[&ComparisonRow]) -> bool {
    let is_total = ["", "_total", ALL_INSTANCES].contains(&row.instance.as_str());
    is_total || among.iter().filter(|r| r.counter == row.counter).count() == 1
}

/// Returns how many times larger the larger mean is than the smaller one.
fn change_ratio(row: &ComparisonRow) -> f64 {
    let (a, b) = (row.before.mean.abs(), row.after.mean.abs());
    let (small, large) = (a.min(b), a.max(b));
    // a change from zero has no ratio: it counts as 1000
    if large == 0.0 { 1.0 } else { (large / small).min(1e3) }
}

/// Formats a mean with its interval: `1.2 ±0.1 ms`, or `36 (9 to 140) ms` if the ends
/// lie unevenly; the mean alone if the interval is unknown. `is_after` selects the second window.
pub(super) fn format_estimate(row: &ComparisonRow, is_after: bool) -> String {
    let side = if is_after { &row.after } else { &row.before };
    let show = |v: f64| units::format_value(v, row.display_unit());
    match (side.low, side.high) {
        (Some(low), Some(high)) if high > low => {
            let (below, above) = (side.mean - low, high - side.mean);
            if above.max(below) <= MAX_UNEVEN_RATIO * above.min(below) {
                return join_values(&show(side.mean), " ±", &show((high - low) / 2.0));
            }
            format!("{} ({})", show(side.mean), join_values(&show(low), " to ", &show(high)))
        }
        _ => show(side.mean),
    }
}

/// Joins two formatted values; a unit that they share is written once.
pub(crate) fn join_values(first: &str, separator: &str, second: &str) -> String {
    let unit = |text: &str| text.trim_start_matches(|c: char| !c.is_alphabetic() && !"/%".contains(c)).to_owned();
    let first_number = first.strip_suffix(&unit(first)).unwrap_or(first).trim_end();
    let first = if unit(first) == unit(second) { first_number } else { first };
    format!("{first}{separator}{second}")
}

/// Formats a difference with its sign.
pub(crate) fn format_signed(v: f64, unit: &str) -> String {
    let sign = if v > 0.0 { "+" } else { "" };
    format!("{sign}{}", units::format_value(v, unit))
}

/// Formats the interval of the difference, which may be open at one end.
pub(super) fn format_interval(row: &ComparisonRow) -> String {
    match (row.difference_low, row.difference_high) {
        (Some(low), Some(high)) if high > low => {
            join_values(&format_signed(low, row.display_unit()), " to ", &format_signed(high, row.display_unit()))
        }
        (Some(_), Some(_)) => String::new(),
        (Some(low), None) => format!("{} or more", format_signed(low, row.display_unit())),
        (None, Some(high)) => format!("{} or less", format_signed(high, row.display_unit())),
        (None, None) => "unknown".into(),
    }
}

pub(super) fn format_ratio(row: &ComparisonRow) -> String {
    row.ratio.map_or(String::new(), |r| {
        if r < 1000.0 { format!("x {}", units::format_significant(r)) } else { "x 1000+".into() }
    })
}

pub(super) fn noise_word(row: &ComparisonRow) -> &'static str {
    match row.noise {
        Some(true) if row.difference == 0.0 && row.difference_low == row.difference_high => "same",
        Some(true) => "noise",
        Some(false) => "",
        None => "unknown",
    }
}

pub(super) fn instance_name(row: &ComparisonRow) -> &str {
    if row.instance == ALL_INSTANCES { "all" } else { &row.instance }
}

/// Short change of a row: the ratio with its range, `x 0.33 (0.31 to 0.35)`, or that it may be noise.
pub(super) fn change_cell(row: &ComparisonRow) -> String {
    let word = noise_word(row);
    let range = match (row.ratio_low, row.ratio_high) {
        (Some(low), Some(high)) if high > low && word.is_empty() => {
            format!(" ({} to {})", units::format_significant(low), units::format_significant(high))
        }
        _ => String::new(),
    };
    match row.ratio {
        Some(_) if word.is_empty() => format!("{}{range}", format_ratio(row)),
        None if word.is_empty() => format_signed(row.difference, row.display_unit()),
        _ => word.to_owned(),
    }
}
