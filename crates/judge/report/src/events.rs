//! Wording of the events that lead an answer, each with its time: kills, filesystems, devices.

use diskwright_base::EventKind;
use diskwright_diagnosis::verdict::{Verdict, VerdictEvent};

use crate::time::DisplayZone;

/// Largest number of killed programs that a line names.
const MAX_NAMED: usize = 3;

/// Events that are told in a line, the newest first.
struct EventGroup<'v> {
    events: Vec<&'v VerdictEvent>,
}

/// Returns a line for each event, the newest first; of the same event that came several times, one. All kills are told
/// in one line: the last, how many there were, and who was killed.
pub fn event_lines(verdict: &Verdict, zone: &DisplayZone) -> Vec<String> {
    // a log without dates counts its times from 1970
    let is_dated = verdict.window.is_dated;
    let mut groups: Vec<EventGroup<'_>> = Vec::new();
    for event in verdict.events.iter().rev() {
        let is_same = |group: &&mut EventGroup<'_>| {
            let known = group.events[0];
            known.kind == event.kind && (event.kind == EventKind::OomKill || known.victim == event.victim)
        };
        match groups.iter_mut().find(is_same) {
            Some(group) => group.events.push(event),
            None => groups.push(EventGroup { events: vec![event] }),
        }
    }
    groups.into_iter().map(|group| group.line(is_dated, zone)).collect()
}

impl EventGroup<'_> {
    /// `14:10:12 python3 (4711) in /app was killed because memory ran out (the last of 3 kills: python3 twice, web)`.
    fn line(&self, is_dated: bool, zone: &DisplayZone) -> String {
        let last = self.events[0];
        let time = last.time_ns.filter(|_| is_dated).map(|time_ns| zone.format_clock(time_ns));
        let time = time.or_else(|| last.time_text.clone()).map_or_else(String::new, |time| format!("{time} "));
        let times: u64 = self.events.iter().map(|event| event.times).sum();
        let more = match (times > last.times, last.kind) {
            (false, _) => String::new(),
            (true, EventKind::OomKill) => format!(" (the last of {times} kills{})", self.victims_text()),
            (true, _) => format!(" ({times} times; this is the last)"),
        };
        format!("{time}{}{more}", last.sentence)
    }

    /// `: web 3 times, python3, 2 of others`: who was killed, the most frequent first; empty where no source names any.
    fn victims_text(&self) -> String {
        let mut named: Vec<(&str, u64)> = Vec::new();
        for event in &self.events {
            let Some(victim) = event.victim.as_deref() else { continue };
            match named.iter_mut().find(|(known, _)| *known == victim) {
                Some((_, times)) => *times += event.times,
                None => named.push((victim, event.times)),
            }
        }
        // stable, so that of equals the last comes first
        named.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
        let unnamed: u64 = self.events.iter().filter(|event| event.victim.is_none()).map(|event| event.times).sum();
        if named.is_empty() {
            return String::new();
        }
        let one = |(name, times): &(&str, u64)| match times {
            1 => (*name).to_owned(),
            2 => format!("{name} twice"),
            times => format!("{name} {times} times"),
        };
        let mut parts: Vec<String> = named.iter().take(MAX_NAMED).map(one).collect();
        let others = named.iter().skip(MAX_NAMED).map(|(_, times)| times).sum::<u64>();
        parts.extend((others > 0).then(|| format!("{others} of others")));
        parts.extend((unnamed > 0).then(|| format!("{unnamed} whose program no source tells")));
        format!(": {}", parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn kill(second: i64, victim: Option<&str>, times: u64) -> VerdictEvent {
        VerdictEvent {
            kind: EventKind::OomKill,
            time_ns: Some(1_767_225_600_000_000_000 + second * 1_000_000_000),
            time_text: None,
            victim: victim.map(str::to_owned),
            pid: None,
            group: None,
            limit_bytes: None,
            times,
            because: "/proc/vmstat counts oom_kill".into(),
            sentence: format!("{} was killed", victim.unwrap_or("a program")),
        }
    }

    fn lines(events: Vec<VerdictEvent>) -> Vec<String> {
        event_lines(&Verdict { events, ..fixture::sample_verdict() }, &DisplayZone::utc())
    }

    #[test]
    fn of_several_kills_the_last_the_count_and_the_names_are_told() {
        assert_eq!(lines(vec![kill(1, Some("web"), 1)]), ["00:00:01 web was killed"]);
        let many = vec![kill(1, Some("web"), 1), kill(2, Some("db"), 1), kill(3, Some("web"), 1)];
        assert_eq!(lines(many), ["00:00:03 web was killed (the last of 3 kills: web twice, db)"]);
        let names = ["a", "b", "c", "d", "e"].iter().enumerate();
        let many = names.map(|(second, name)| kill(second as i64, Some(name), 1)).chain([kill(9, None, 2)]).collect();
        let expected = "00:00:09 a program was killed (the last of 7 kills: e, d, c, 2 of others, 2 whose program no \
                        source tells)";
        assert_eq!(lines(many), [expected]);
        assert_eq!(
            lines(vec![kill(1, None, 1), kill(2, None, 1)]),
            ["00:00:02 a program was killed (the last of 2 kills)"]
        );
    }

    #[test]
    fn another_kind_of_event_has_a_line_of_its_own() {
        let full = VerdictEvent { kind: EventKind::Full, sentence: "/ is full".into(), ..kill(1, Some("/"), 1) };
        assert_eq!(lines(vec![full, kill(2, Some("web"), 1)]), ["00:00:02 web was killed", "00:00:01 / is full"]);
    }
}
