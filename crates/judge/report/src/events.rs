//! Wording of the events that lead an answer, each with its time: kills, filesystems, devices.

use diskwright_diagnosis::verdict::{Verdict, VerdictEvent};

use crate::time::DisplayZone;

/// Returns a line for each event, the newest first; of the same event that came several times, one.
pub fn event_lines(verdict: &Verdict, zone: &DisplayZone) -> Vec<String> {
    // a log without dates counts its times from 1970
    let is_dated = verdict.window.is_dated;
    let mut groups: Vec<(&VerdictEvent, u64)> = Vec::new();
    for event in verdict.events.iter().rev() {
        let is_same = |(known, _): &&mut (&VerdictEvent, u64)| {
            let key = |event: &VerdictEvent| (event.kind, event.victim.clone(), event.group.clone(), event.limit_bytes);
            key(known) == key(event)
        };
        match groups.iter_mut().find(is_same) {
            Some((_, times)) => *times += event.times,
            None => groups.push((event, event.times)),
        }
    }
    groups.into_iter().map(|(event, times)| event_line(event, times, is_dated, zone)).collect()
}

/// `14:10:12 python3 (4711) in /app was killed because memory ran out: … (3 times, this is the last)`.
fn event_line(event: &VerdictEvent, times: u64, is_dated: bool, zone: &DisplayZone) -> String {
    let time = event.time_ns.filter(|_| is_dated).map(|time_ns| zone.format_clock(time_ns));
    let time = time.or_else(|| event.time_text.clone()).map_or_else(String::new, |time| format!("{time} "));
    let more = if times > event.times { format!(" ({times} times; this is the last)") } else { String::new() };
    format!("{time}{}{more}", event.sentence)
}
