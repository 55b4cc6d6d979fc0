//! Wording of what changed when: `sda: latency 22 → 68 ms since 14:10:12, when tar (15629) began to read, 52 MB/s`.

use diskwright_base::units::format_value;
use diskwright_diagnosis::verdict::{BeganKind, Beginning, Change, Verdict};

use crate::time::DisplayZone;

/// Changes of one instance at one moment, in one direction.
struct ChangeGroup<'v> {
    changes: Vec<&'v Change>,
}

/// Returns the change that tells most about what is blamed, in one sentence; `None` if there is none.
pub fn leading_change_line(verdict: &Verdict, zone: &DisplayZone) -> Option<String> {
    leading_group(verdict).map(|group| group_line(&group, verdict, zone))
}

/// Returns the time of that change, nanoseconds since 1970.
pub fn leading_change_time(verdict: &Verdict) -> Option<i64> {
    leading_group(verdict).map(|group| group.first().time_ns)
}

fn leading_group(verdict: &Verdict) -> Option<ChangeGroup<'_>> {
    let of_blamed = group_changes(verdict).into_iter().filter(|group| bears_on_blamed(group.first(), verdict));
    of_blamed.max_by(|a, b| {
        let rank = |group: &ChangeGroup<'_>| (group.first().is_rise(), group.height());
        let ((rises_a, height_a), (rises_b, height_b)) = (rank(a), rank(b));
        rises_a.cmp(&rises_b).then(height_a.total_cmp(&height_b))
    })
}

/// Returns all changes, in order of time.
pub fn change_lines(verdict: &Verdict, zone: &DisplayZone) -> Vec<String> {
    group_changes(verdict).iter().map(|group| group_line(group, verdict, zone)).collect()
}

/// Returns each moment of a change, nanoseconds since 1970, with its words but without times: for marks on a timeline.
pub fn change_marks(verdict: &Verdict) -> Vec<(i64, String)> {
    let groups = group_changes(verdict);
    let text = |group: &ChangeGroup<'_>| format!("{}{}", levels_text(group), cause_text(group, verdict));
    groups.iter().map(|group| (group.first().time_ns, text(group))).collect()
}

fn group_changes(verdict: &Verdict) -> Vec<ChangeGroup<'_>> {
    let mut groups: Vec<ChangeGroup<'_>> = Vec::new();
    for change in &verdict.changes {
        let is_same = |group: &&mut ChangeGroup<'_>| {
            let first = group.first();
            first.instance == change.instance
                && first.is_rise() == change.is_rise()
                && first.is_at_same_moment(change)
                && !group.changes.iter().any(|known| known.counter == change.counter)
        };
        match groups.iter_mut().find(is_same) {
            Some(group) => group.changes.push(change),
            None => groups.push(ChangeGroup { changes: vec![change] }),
        }
    }
    groups
}

impl<'v> ChangeGroup<'v> {
    fn first(&self) -> &'v Change {
        self.changes[0]
    }

    /// How much changed, on a scale of ratios.
    fn height(&self) -> f64 {
        let of_one = |change: &&Change| {
            let (low, high) = (change.before.min(change.after), change.before.max(change.after));
            (high / low.max(high / 100.0)).ln()
        };
        self.changes.iter().map(of_one).sum()
    }

    fn began(&self) -> Vec<&'v Beginning> {
        merge(self.changes.iter().flat_map(|change| &change.began))
    }

    fn ended(&self) -> Vec<&'v Beginning> {
        merge(self.changes.iter().flat_map(|change| &change.ended))
    }
}

/// Each beginning once, in order.
fn merge<'v>(all: impl Iterator<Item = &'v Beginning>) -> Vec<&'v Beginning> {
    let mut list: Vec<&Beginning> = Vec::new();
    for one in all {
        if !list.iter().any(|known| (known.kind, known.pid, &known.name) == (one.kind, one.pid, &one.name)) {
            list.push(one);
        }
    }
    list
}

/// True for a change of what is blamed, or of the pressure on it.
fn bears_on_blamed(change: &Change, verdict: &Verdict) -> bool {
    verdict.bottlenecks.iter().any(|listed| change.bears_on(listed.bottleneck, &listed.instance))
}

/// `sda: latency 22 → 68 ms and queue 1.0 → 8.1`.
fn levels_text(group: &ChangeGroup<'_>) -> String {
    let first = group.first();
    let subject = if first.instance.is_empty() { String::new() } else { format!("{}: ", first.instance) };
    let levels: Vec<String> = group.changes.iter().map(|change| level_text(change)).collect();
    let (head, tail) = levels.split_at(levels.len().saturating_sub(1));
    let last = tail.first().map_or("", String::as_str);
    let levels = if head.is_empty() { last.to_owned() } else { format!("{} and {last}", head.join(", ")) };
    subject + &levels
}

fn group_line(group: &ChangeGroup<'_>, verdict: &Verdict, zone: &DisplayZone) -> String {
    let first = group.first();
    let clock = |time_ns: i64| zone.format_clock(time_ns);
    let when = match first.until_ns {
        Some(_) => format!("from {}", clock(first.time_ns)),
        None => format!("since {}", clock(first.time_ns)),
    };
    let until = first.until_ns.map_or_else(String::new, |until_ns| {
        let falls = verdict.changes.iter().filter(|change| {
            change.instance == first.instance && change.time_ns.abs_diff(until_ns) as f64 <= 2e9 * change.precision_s
        });
        let ended = merge(falls.flat_map(|change| &change.ended));
        let why = if ended.is_empty() { String::new() } else { format!(", when {}", list_text(&ended)) };
        format!(" until {}{why}", clock(until_ns))
    });
    format!("{} {when}{}{until}", levels_text(group), cause_text(group, verdict))
}

/// `, when tar (15629) began to read, 52 MB/s`, or that nothing is known to have begun.
fn cause_text(group: &ChangeGroup<'_>, verdict: &Verdict) -> String {
    let (began, ended) = (group.began(), group.ended());
    let named = if began.is_empty() { &ended } else { &began };
    if !named.is_empty() {
        return format!(", when {}", list_text(named));
    }
    match (group.first().is_rise(), verdict.has_process_tables) {
        (true, true) => "; nothing that was recorded began then".to_owned(),
        (true, false) => "; the log has no processes, so it does not show what began then".to_owned(),
        (false, _) => String::new(),
    }
}

fn list_text(list: &[&Beginning]) -> String {
    let one = |beginning: &&Beginning| match (beginning.kind, beginning.pid) {
        (BeganKind::Process, Some(pid)) => format!("{} ({pid}) {}", beginning.name, beginning.what),
        (BeganKind::Bookmark, _) => format!("\u{201c}{}\u{201d} {}", beginning.name, beginning.what),
        _ => format!("{} {}", beginning.name, beginning.what),
    };
    list.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// `latency 22 → 68 ms`.
fn level_text(change: &Change) -> String {
    let [before, after] = [change.before, change.after].map(|value| format_value(value, change.display_unit()));
    let unit_of = |text: &str| text.rsplit_once(' ').map(|(_, unit)| unit.to_owned());
    let before = match unit_of(&before).filter(|unit| Some(unit) == unit_of(&after).as_ref()) {
        Some(unit) => before.trim_end_matches(&unit).trim_end().to_owned(),
        None => before,
    };
    format!("{} {before} → {after}", change.word)
}
