//! What began or stopped at the moment of a change.

use diskwright_base::catalogue::display_unit;
use diskwright_base::counter_ids::physical_disk;
use diskwright_base::kernel_threads::is_kernel_thread;
use diskwright_base::units::format_value;
use diskwright_base::{Catalogue, FileRow, ProcessPlace};

use super::change::{BeganKind, Beginning, Change};
use crate::culprits::{Doing, ProcessOnset};
use crate::rules::{Activity, change_quantities};
use crate::run::{MachineOnset, Observation, OnsetKind};
use crate::sums::ChangeSeries;

/// Largest number of processes, and of all others, that a change names.
const MAX_NAMED: usize = 3;
/// Smallest rate of a process beside that of the one that does most.
const MIN_RATE_SHARE: f64 = 0.1;
/// Largest rate of a process over that of the disk, and smallest share of it: a table starts and ends at other times.
const MAX_EXCESS: f64 = 3.0;
const MIN_MOVED_SHARE: f64 = 0.02;
/// Time for which the rate of a disk is taken, nanoseconds.
const AROUND_NS: i64 = 20_000_000_000;
/// Time around a change in which a bookmark belongs to it, nanoseconds: people type.
const BOOKMARK_MARGIN_NS: i64 = 5_000_000_000;

/// What began: processes first, what does most before the others.
pub(super) fn find_began(observed: &Observation, change: &Change, activity: Activity) -> Vec<Beginning> {
    let mut list = processes_at(observed, change, activity, |onset| Some(onset.began), "began to");
    let margin_ns = margin_ns(change);
    // mounts, cgroups and limits are looked at when processes are, so they may be seen that much later
    let late_ns = margin_ns.max((observed.process_onsets.longest_table_s * 1e9) as i64);
    let is_near = |onset: &&MachineOnset| {
        onset.began.0 - margin_ns <= change.time_ns && change.time_ns <= onset.began.1.saturating_add(margin_ns)
            || (0..=late_ns).contains(&onset.began.1.saturating_sub(change.time_ns))
    };
    let others = observed.machine_onsets.list.iter().filter(is_near).filter(|onset| concerns(onset, change));
    list.extend(others.take(MAX_NAMED).map(describe_onset));
    let marks = observed
        .notes
        .bookmarks
        .iter()
        .filter(|mark| change.time_ns.saturating_sub(mark.time_ns).abs() <= margin_ns.max(BOOKMARK_MARGIN_NS));
    list.extend(marks.take(MAX_NAMED).map(|mark| Beginning {
        kind: BeganKind::Bookmark,
        name: mark.text.clone(),
        pid: None,
        command_line: None,
        place: ProcessPlace::default(),
        what: "was set as a bookmark".to_owned(),
        from: mark.time_ns,
        to: mark.time_ns,
    }));
    list
}

/// The processes that stopped.
pub(super) fn find_stopped(observed: &Observation, change: &Change, activity: Activity) -> Vec<Beginning> {
    // what goes on later only paused
    let resumes = |onset: &ProcessOnset| {
        let is_same = |other: &&ProcessOnset| other.pid == onset.pid && other.doing == onset.doing;
        observed.process_onsets.list.iter().filter(is_same).any(|other| other.began.0 > onset.began.0)
    };
    processes_at(observed, change, activity, |onset| onset.stopped.filter(|_| !resumes(onset)), "stopped to")
}

/// How far from a change what belongs to it may be, nanoseconds: one tick more than the change is known to.
fn margin_ns(change: &Change) -> i64 {
    (2.0 * change.precision_s * 1e9) as i64
}

fn processes_at(
    observed: &Observation,
    change: &Change,
    activity: Activity,
    range_of: impl Fn(&ProcessOnset) -> Option<(i64, i64)>,
    verb: &str,
) -> Vec<Beginning> {
    let margin_ns = margin_ns(change);
    let disk = change.counter.starts_with("physical_disk.").then_some(change.instance.as_str());
    let moved = disk.and_then(|disk| bytes_around(observed, disk, change));
    let can_be_here = |onset: &ProcessOnset| {
        disk.is_none_or(|disk| !is_elsewhere(&onset.files, disk) && is_plausible(onset, disk, moved))
    };
    let mut found: Vec<(&ProcessOnset, (i64, i64))> = Vec::new();
    for onset in &observed.process_onsets.list {
        let Some((from, to)) = range_of(onset) else { continue };
        let is_near = from - margin_ns <= change.time_ns && change.time_ns <= to.saturating_add(margin_ns);
        if is_near && is_kind_of(onset.doing, activity) && can_be_here(onset) {
            found.push((onset, (from, to)));
        }
    }
    found.sort_by(|(a, _), (b, _)| {
        let is_kernels = |onset: &ProcessOnset| is_kernel_thread(&onset.name);
        is_kernels(a).cmp(&is_kernels(b)).then(weight(b).total_cmp(&weight(a)))
    });
    let most = found.iter().map(|(onset, _)| weight(onset)).fold(0.0, f64::max);
    let mut list: Vec<Beginning> = Vec::new();
    for (onset, (from, to)) in found.into_iter().filter(|(onset, _)| weight(onset) >= MIN_RATE_SHARE * most) {
        // a loop in a shell starts the same command again and again
        let is_same = |known: &Beginning| {
            known.pid == Some(onset.pid) || known.name == onset.name && known.command_line == onset.command_line
        };
        if list.len() < MAX_NAMED && !list.iter().any(is_same) {
            list.push(describe_process(onset, (from, to), verb));
        }
    }
    list
}

/// Bytes a second of a disk in the time after a rise, or before a fall.
fn bytes_around(observed: &Observation, disk: &str, change: &Change) -> Option<f64> {
    let is_bytes = |series: &&ChangeSeries| {
        series.instance == disk && change_quantities()[series.quantity].counter == physical_disk::BYTES_PER_S
    };
    let series = observed.states.change_series.iter().find(is_bytes)?;
    let after_ns = change.time_ns..change.time_ns.saturating_add(AROUND_NS);
    let before_ns = change.time_ns.saturating_sub(AROUND_NS)..change.time_ns;
    let around_ns = if change.is_rise() { after_ns } else { before_ns };
    let near = series.buckets.filled_buckets().into_iter().filter(|bucket| around_ns.contains(&bucket.time_ns));
    let (sum, weight) = near.fold((0.0, 0.0), |(sum, weight), b| (sum + b.value * b.weight, weight + b.weight));
    (weight > 0.0).then(|| sum / weight)
}

/// False for a process that moves much more than the disk did, or hardly anything of it.
fn is_plausible(onset: &ProcessOnset, disk: &str, moved: Option<f64>) -> bool {
    let Some(moved) = moved else { return true };
    let has_files_here = onset.files.iter().any(|file| file.disks.iter().any(|known| known == disk));
    (has_files_here || onset.rate <= MAX_EXCESS * moved) && onset.rate >= MIN_MOVED_SHARE * moved
}

/// Rate on a scale that bytes and processors share.
fn weight(onset: &ProcessOnset) -> f64 {
    if onset.doing == Doing::Compute { onset.rate * 1e6 } else { onset.rate }
}

fn is_kind_of(doing: Doing, activity: Activity) -> bool {
    match activity {
        Activity::Disk => doing != Doing::Compute,
        Activity::Processor => doing == Doing::Compute,
        Activity::Any => true,
    }
}

/// True where all open files of a process are known to lie on other disks.
fn is_elsewhere(files: &[FileRow], disk: &str) -> bool {
    let is_known = |file: &FileRow| !file.disks.is_empty();
    let is_here = |file: &FileRow| file.disks.iter().any(|known| known == disk);
    !files.is_empty() && files.iter().all(is_known) && !files.iter().any(is_here)
}

fn describe_process(onset: &ProcessOnset, (from, to): (i64, i64), verb: &str) -> Beginning {
    let (doing, rate) = match onset.doing {
        Doing::Read => ("read", format_value(onset.rate, "bytes_per_s")),
        Doing::Write => ("write", format_value(onset.rate, "bytes_per_s")),
        Doing::Compute => ("use processors", format_value(onset.rate, "fraction")),
    };
    let what = match (verb.starts_with("stop"), onset.started) {
        (true, _) => format!("stopped {}", onset.doing.in_progress()),
        (false, true) => format!("started to {doing}, {rate}"),
        (false, false) => format!("{verb} {doing}, {rate}"),
    };
    Beginning {
        kind: BeganKind::Process,
        name: onset.name.clone(),
        pid: Some(onset.pid),
        command_line: onset.command_line.clone(),
        place: onset.place.as_deref().cloned().unwrap_or_default(),
        what,
        from,
        to,
    }
}

/// False for the limit of a cgroup that has nothing to do with the cgroup that changed.
fn concerns(onset: &MachineOnset, change: &Change) -> bool {
    let is_related = |path: &str| path.starts_with(&change.instance) || change.instance.starts_with(path);
    onset.kind != OnsetKind::Limit || !change.counter.starts_with("cgroup.") || is_related(&onset.name)
}

fn describe_onset(onset: &MachineOnset) -> Beginning {
    let (kind, what) = match onset.kind {
        OnsetKind::Mount => (BeganKind::Mount, format!("was mounted ({})", onset.detail)),
        OnsetKind::Resync => (BeganKind::Resync, format!("began a {}", onset.detail)),
        OnsetKind::Unit => (BeganKind::Unit, "appeared".to_owned()),
        OnsetKind::Limit => (BeganKind::Limit, limit_text(onset)),
    };
    Beginning {
        kind,
        name: onset.name.clone(),
        pid: None,
        command_line: None,
        place: ProcessPlace::default(),
        what,
        from: onset.began.0,
        to: onset.began.1,
    }
}

/// `got a limit of memory: 268 MB (before 537 MB)`.
fn limit_text(onset: &MachineOnset) -> String {
    let unit = Catalogue::builtin().get(&onset.detail).map_or("", |counter| counter.unit.as_str());
    let shown = |value: Option<f64>| {
        value.map_or_else(|| "none".to_owned(), |value| format_value(value, display_unit(&onset.detail, unit)))
    };
    let (before, now) = onset.values;
    format!("got a new limit ({}): {}, before {}", onset.detail, shown(now), shown(before))
}
