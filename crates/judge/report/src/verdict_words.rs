//! Wording of the parts of a verdict, shared by screen and page.

use diskwright_base::timestamp::format_rfc3339;
use diskwright_base::units::format_count;
use diskwright_base::{Note, units};
use diskwright_diagnosis::Bottleneck;
use diskwright_diagnosis::recording_hints::LogOrigin;
use diskwright_diagnosis::verdict::{
    AttributionCertainty, Culprit, Episode, Evidence, Finding, NextCommand, OperationRequesters, ProgramActivity,
    RequestingProgram, Verdict, VerdictBottleneck, VerdictPhase, seen_s,
};

use crate::axis;
use crate::time::{DisplayZone, format_duration, parse_rfc3339};

const SECOND_NS: i64 = 1_000_000_000;

/// Short names and titles of the documents that sources cite.
const CITED_DOCUMENTS: [(&str, &str); 5] = [
    ("SAS 1998", "\u{201c}Help! My NT Server Is Too Slow\u{201d}, SAS Institute, 1998"),
    ("Compaq 1997", "\u{201c}Disk Subsystem Performance and Scalability\u{201d}, Compaq, 1997"),
    (
        "NT Magazine 1998",
        "\u{201c}Obtaining maximum performance while adding storage\u{201d}, Windows NT Magazine, 1998",
    ),
    (
        "NT Resource Kit",
        "\u{201c}Detecting Disk Bottlenecks\u{201d}, Windows NT Workstation 4.0 Resource Kit, chapter 14",
    ),
    ("InfoStor 1999", "\u{201c}Testing SQL 7.0 with various RAID systems\u{201d}, InfoStor, 1999"),
];

/// Returns short name and title of the documents that a text cites.
pub(crate) fn cited_documents(text: &str) -> Vec<(&'static str, &'static str)> {
    CITED_DOCUMENTS.into_iter().filter(|(name, _)| text.contains(name)).collect()
}

/// Returns a bottleneck's name as it is shown.
pub(crate) fn bottleneck_name(bottleneck: Bottleneck) -> &'static str {
    match bottleneck {
        Bottleneck::None => "no bottleneck",
        Bottleneck::Unknown => "not enough data",
        Bottleneck::Cpu => "processor",
        other => other.name(),
    }
}

/// Formats a confidence in whole per cent.
pub(crate) fn confidence_percent(confidence: f64) -> String {
    format!("{} %", (confidence * 100.0).round())
}

/// Returns a bottleneck with its instance: `disk sdb`.
pub(crate) fn bottleneck_title(bottleneck: Bottleneck, instance: &str) -> String {
    match instance {
        "" => bottleneck_name(bottleneck).to_owned(),
        instance => format!("{} {instance}", bottleneck_name(bottleneck)),
    }
}

/// Returns the culprits with what they do, in the order to show them. With several bottlenecks, the first of each come
/// first, each says of which it is, and a cgroup that the bottleneck is named with is left out.
pub(crate) fn culprit_rows(verdict: &Verdict) -> Vec<(&Culprit, String)> {
    if verdict.bottlenecks.len() < 2 {
        return verdict.culprits.iter().map(|culprit| (culprit, culprit.description.clone())).collect();
    }
    let told = |listed: &VerdictBottleneck, culprit: &Culprit| culprit.pid.is_some() || culprit.name != listed.instance;
    let of_each: Vec<Vec<(&Culprit, String)>> = verdict
        .bottlenecks
        .iter()
        .map(|listed| {
            let title = bottleneck_title(
                listed.bottleneck,
                if listed.bottleneck == Bottleneck::Disk { &listed.instance } else { "" },
            );
            let shown = listed.culprits.iter().filter(|culprit| told(listed, culprit));
            shown.map(|culprit| (culprit, format!("{title}: {}", culprit.description))).collect()
        })
        .collect();
    in_turns(&of_each)
}

/// Takes the first of each list, then the second of each, and so on.
pub(crate) fn in_turns<T: Clone>(lists: &[Vec<T>]) -> Vec<T> {
    let most = lists.iter().map(Vec::len).max().unwrap_or(0);
    (0..most).flat_map(|turn| lists.iter().filter_map(move |list| list.get(turn).cloned())).collect()
}

/// Returns the findings to show as evidence: the leading one of each bottleneck, then the others.
pub(crate) fn evidence_in_order(verdict: &Verdict) -> Vec<&Finding> {
    let leads = |finding: &&Finding| {
        let mut leading = verdict.bottlenecks.iter().filter_map(|listed| listed.positions.first());
        leading.any(|position| std::ptr::eq(&raw const verdict.findings[*position], *finding))
    };
    let mut list: Vec<&Finding> = verdict.evidence().collect();
    list.sort_by_key(|finding| !leads(finding));
    list
}

/// Returns the prefix of a text on an instance: `sda: `. The name of a Windows disk already ends in a colon: `0 C:`.
pub(crate) fn instance_prefix(instance: &str) -> String {
    if instance.is_empty() { String::new() } else { format!("{}: ", instance.trim_end_matches(':')) }
}

/// Returns instance and title of a finding: `sda: more than two requests wait for each disk`.
pub(crate) fn finding_title(finding: &Finding) -> String {
    format!("{}{}", instance_prefix(&finding.instance), finding.title)
}

/// Returns the comparison of the value with the limit in words: `more than`.
pub(crate) fn comparison_words(finding: &Finding) -> &'static str {
    match finding.compare {
        "at_least" => "at least",
        "below" => "less than",
        "at_most" => "at most",
        _ => "more than",
    }
}

/// Describes the limit and how long it was exceeded: `more than 2 for 93 % of the time`.
pub(crate) fn limit_text(finding: &Finding, window_s: f64) -> String {
    let limit = axis::axis_label(finding.limit, finding.display_unit());
    let share = units::format_value(finding.share_of_value(), "fraction");
    let time = finding_time_text(finding, window_s);
    format!("{} {limit} for {share} of {time}", comparison_words(finding))
}

/// Returns the time of which a finding tells the share: `the time`, or `the last 26 s` of what began within the window.
pub(crate) fn finding_time_text(finding: &Finding, window_s: f64) -> String {
    match finding.since {
        Some(_) => format!("the last {}", format_duration(finding.judged_s)),
        None => observed_time_text(finding.seen_s(window_s)),
    }
}

/// Returns `the time`, or `the 26 s it was seen` if most of the window has no data on it.
pub(crate) fn observed_time_text(seen_s: Option<f64>) -> String {
    seen_s.map_or("the time".to_owned(), |seen| format!("the {} it was seen", format_duration(seen)))
}

/// Describes a phase: `22:15:05 to 22:15:30 (25 s): disk vda, it is overloaded (confidence 87 %)`; a phase without
/// a bottleneck has no title. Further bottlenecks follow: `; and processor, all processors are busy (…)`.
pub fn phase_text(phase: &VerdictPhase, zone: &DisplayZone) -> String {
    let blamed = |bottleneck: Bottleneck, instance: &str, title: &str, confidence: f64| {
        let subject = bottleneck_title(bottleneck, instance);
        let title = if title.is_empty() { String::new() } else { format!(", {title}") };
        let confidence = match bottleneck {
            Bottleneck::Unknown => String::new(),
            _ => format!(" (confidence {:.0} %)", confidence * 100.0),
        };
        format!("{subject}{title}{confidence}")
    };
    let first = blamed(phase.bottleneck, &phase.instance, &phase.title, phase.confidence);
    let also: String = phase
        .also
        .iter()
        .map(|one| format!("; and {}", blamed(one.bottleneck, &one.instance, &one.title, one.confidence)))
        .collect();
    let bookmark =
        if phase.bookmark.is_empty() { String::new() } else { format!(" after \u{201c}{}\u{201d}", phase.bookmark) };
    let when = zone.format_range_between(&phase.from, &phase.to);
    format!("{when} ({}){bookmark}: {first}{also}", format_duration(phase.seconds))
}

/// Returns further measurements of a finding, as far as the log has them: name,
/// value and unit. The name of a counter of another object includes that object.
pub(crate) fn evidence_values(finding: &Finding) -> Vec<(String, f64, &str)> {
    let name = |e: &Evidence| {
        let object = e.counter.split('.').next().unwrap_or_default();
        let is_own_object = object == finding.object || object == "pressure";
        if is_own_object { axis::counter_words(&e.counter) } else { axis::counter_title(&e.counter, &[]) }
    };
    finding.evidence.iter().filter_map(|e| Some((name(e), e.value?, e.display_unit()))).collect()
}

/// Describes a measurement without saying its rate twice: `125 transfers/s`, `512 kB/s`, `busy 100 %`.
pub(crate) fn measurement_text(name: &str, value: f64, unit: &str) -> String {
    let shown = units::format_value(value, unit);
    match (unit, name.strip_suffix("bytes per second"), name.strip_suffix(" per second")) {
        ("bytes_per_s", Some(direction), _) => format!("{direction}{shown}"),
        ("per_s", _, Some(noun)) if shown.ends_with("/s") => format!("{} {noun}/s", shown.trim_end_matches("/s")),
        _ => format!("{name} {shown}"),
    }
}

/// Returns the series of a finding with gaps as `NaN`.
pub(crate) fn finding_series(finding: &Finding) -> Vec<f64> {
    finding.series.iter().map(|v| v.unwrap_or(f64::NAN)).collect()
}

/// Returns the name of a culprit: `postgres (812)`.
pub(crate) fn culprit_name(culprit: &Culprit) -> String {
    match culprit.pid {
        Some(pid) => format!("{} ({pid})", culprit.name),
        None => culprit.name.clone(),
    }
}

/// Returns the name of a program: `postgres (812)`.
pub(crate) fn program_name(program: &ProgramActivity) -> String {
    format!("{} ({})", program.name, program.pid)
}

/// Names the host and the observed time: `db1, 22:10 to 22:15 (5 min, 300 ticks)`.
pub(crate) fn headline_text(verdict: &Verdict, zone: &DisplayZone) -> String {
    let when = window_time_text(verdict, zone).map_or(String::new(), |when| format!(", {when}"));
    format!("{}{when} ({})", host_text(verdict, "this machine"), observation_text(verdict))
}

/// Returns the host's name, or `unnamed` for a machine of ours that has none; a log of another program may have neither
/// a host nor a date.
pub(crate) fn host_text<'a>(verdict: &'a Verdict, unnamed: &'a str) -> &'a str {
    match verdict.host.as_str() {
        "" if verdict.missing.source == LogOrigin::Live => unnamed,
        "" if !verdict.window.is_dated => "a log without host and date",
        "" => "a log without host",
        host => host,
    }
}

/// Returns beginning and end of the window; `None` where the log has no times.
pub(crate) fn window_time_text(verdict: &Verdict, zone: &DisplayZone) -> Option<String> {
    let window = &verdict.window;
    if window.reports.is_some() {
        return None;
    }
    let when = zone.format_range_between(&window.from, &window.to);
    // the day of a time that was only counted is no day
    Some(if window.is_dated { when } else { COUNTED_DAYS.iter().fold(when, |when, day| when.replace(day, "")) })
}

/// Days on which times without a date begin, as they are shown east and west of Greenwich.
const COUNTED_DAYS: [&str; 2] = ["1970-01-01 ", "1969-12-31 "];

/// Describes the observed time: `5 min, 288 ticks, 12 missed, 1 gap`.
pub(crate) fn observation_text(verdict: &Verdict) -> String {
    let window = &verdict.window;
    if let Some(reports) = window.reports {
        return format_count(reports, "report", "reports");
    }
    let gaps = if window.gaps == 0 { String::new() } else { format!(", {}", format_count(window.gaps, "gap", "gaps")) };
    let missed = if window.ticks_missed == 0 { String::new() } else { format!(", {} missed", window.ticks_missed) };
    format!("{}, {}{missed}{gaps}", format_duration(window.seconds), format_count(window.ticks, "tick", "ticks"))
}

/// Says what to run to learn what a log does not show.
pub(crate) fn next_command_text(next: &NextCommand) -> String {
    format!("Not in this log: {}. `{}` shows it.", next.shows, next.command)
}

/// Lists in a line what could not be judged or read; if there was not enough data for a verdict, also what would help.
pub(crate) fn unjudged_text(verdict: &Verdict) -> String {
    let mut parts = Vec::new();
    if !verdict.unjudged.is_empty() {
        parts.push(format!("{} lacked data", format_count(verdict.unjudged.len(), "rule", "rules")));
    }
    let unseen = verdict.notes.iter().filter(|remark| remark.kind == Note::UNSEEN).count();
    if unseen > 0 {
        parts.push(format!("{} could not be read", format_count(unseen, "source", "sources")));
    }
    let summary = parts.join(", ");
    match verdict.missing.summary.as_str() {
        _ if summary.is_empty() => summary,
        advice if verdict.bottleneck == Bottleneck::Unknown && !advice.is_empty() => {
            format!("{summary}. To judge more next time, {advice} (commands: `--json`, `report`)")
        }
        _ => format!("{summary} (`--json`, `report`)"),
    }
}

/// Returns a remark's kind as it is shown; `None` for kinds that are shown elsewhere.
pub(crate) fn remark_kind(kind: &str) -> Option<&'static str> {
    match kind {
        "gap" => Some("Gap"),
        "missed" => Some("Missed"),
        "clock" => Some("Clock"),
        "warning" => Some("Warning"),
        "unseen" => Some("Not seen"),
        _ => None,
    }
}

/// Describes an episode: `sda: requests queue, for 12 min from 02:10 (8 % of the time in
/// total); look at it with --from … --to …`.
pub fn episode_text(episode: &Episode, window_s: f64, zone: &DisplayZone) -> String {
    let prefix = instance_prefix(&episode.instance);
    let title = &episode.title;
    let duration = format_duration(episode.longest_s);
    let from = parse_rfc3339(&episode.from).map_or_else(|| episode.from.clone(), |ns| zone.format_moment(ns));
    let share = units::format_value(episode.share, "fraction");
    let time = observed_time_text(seen_s(episode.judged_s, window_s));
    // rounded to seconds, which are easier to type. A window includes the ticks that end in it, even the tick that ends
    // exactly at its start; that tick covers the time before, so the start is rounded up to the next second
    let to_second = |time: &str, added_ns: i64| {
        let whole_seconds_ns = |ns: i64| ns.saturating_add(added_ns).div_euclid(SECOND_NS) * SECOND_NS;
        parse_rfc3339(time).map_or_else(|| time.to_owned(), |ns| format_rfc3339(whole_seconds_ns(ns)))
    };
    let (start, end) = (to_second(&episode.from, SECOND_NS), to_second(&episode.to, SECOND_NS - 1));
    let options = format!("--from {start} --to {end}");
    format!("{prefix}{title}, for {duration} from {from} ({share} of {time} in total); look at it with {options}")
}

/// Describes the programs that requested an operation; for writes by the kernel, also
/// the programs that dirtied the pages.
pub(crate) fn requesters_text(operation: &OperationRequesters) -> String {
    let share = |program: &RequestingProgram| format!("{} {:.0} %", program.name, program.share * 100.0);
    let list = |programs: &[RequestingProgram]| programs.iter().map(share).collect::<Vec<_>>().join(", ");
    let name = operation.operation.replace('_', " ");
    let mut words = format!("{name}: {} of its time at the disk", list(&operation.askers));
    if operation.programs > operation.askers.len() {
        words.push_str(&format!(" ({} programs in all)", operation.programs));
    }
    let writers = |certainty: &str| {
        let dirtied_by = list(&operation.dirtied_by);
        format!("; the kernel wrote for other programs, {certainty}: {dirtied_by} of the bytes")
    };
    words
        + &match operation.certainty {
            AttributionCertainty::Sure => String::new(),
            AttributionCertainty::Likely => writers("likely"),
            AttributionCertainty::Guess => writers("a guess"),
            AttributionCertainty::Unknown => "; the kernel wrote for other programs; which ones is unknown".into(),
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_says_its_rate_once() {
        assert_eq!(measurement_text("transfers per second", 125.0, "per_s"), "125 transfers/s");
        assert_eq!(measurement_text("bytes per second", 512e3, "bytes_per_s"), "512 kB/s");
        assert_eq!(measurement_text("read bytes per second", 5e6, "bytes_per_s"), "read 5 MB/s");
        assert_eq!(measurement_text("busy", 1.0, "fraction"), "busy 100 %");
    }

    #[test]
    fn shares_refer_to_the_observed_time() {
        let mut verdict = crate::fixture::sample_verdict();
        let finding = &mut verdict.findings[0];
        assert!(limit_text(finding, 300.0).ends_with(" for 93 % of the time"), "{}", limit_text(finding, 300.0));
        finding.judged_s = 26.0;
        assert!(
            limit_text(finding, 300.0).ends_with(" for 93 % of the 26 s it was seen"),
            "{}",
            limit_text(finding, 300.0)
        );
        let mut bad = verdict.episodes.remove(0);
        bad.judged_s = 26.0;
        assert!(episode_text(&bad, 300.0, &DisplayZone::utc()).contains("of the 26 s it was seen in total"));
    }

    #[test]
    fn episode_options_select_exactly_its_ticks() {
        let mut bad = crate::fixture::sample_verdict().episodes.remove(0);
        let mut text_of = |from: &str, to: &str| {
            (bad.from, bad.to) = (from.into(), to.into());
            episode_text(&bad, 300.0, &DisplayZone::utc())
        };
        // sar's ticks of ten minutes: the one that ends at two o'clock is no part of it
        let words = text_of("2026-11-21T02:00:00Z", "2026-11-21T02:10:00Z");
        assert!(words.ends_with("--from 2026-11-21T02:00:01Z --to 2026-11-21T02:10:00Z"), "{words}");
        // ticks of a second that end at nine tenths: the first ends at 01.9, the last at 10.9
        let words = text_of("2026-11-21T02:00:00.900Z", "2026-11-21T02:02:10.900Z");
        assert!(words.ends_with("--from 2026-11-21T02:00:01Z --to 2026-11-21T02:02:11Z"), "{words}");
    }

    #[test]
    fn a_log_of_others_is_not_called_this_machine() {
        let zone = DisplayZone::utc();
        let mut verdict = crate::fixture::sample_verdict();
        assert!(headline_text(&verdict, &zone).starts_with("db1, "), "{}", headline_text(&verdict, &zone));
        verdict.host = String::new();
        assert!(headline_text(&verdict, &zone).starts_with("a log without host, "));
        verdict.window.is_dated = false;
        verdict.window.from = "1970-01-01T00:00:00Z".into();
        verdict.window.to = "1970-01-01T00:00:30Z".into();
        assert!(!headline_text(&verdict, &zone).contains("1970"), "{}", headline_text(&verdict, &zone));
        verdict.window.reports = Some(9);
        assert_eq!(headline_text(&verdict, &zone), "a log without host and date (9 reports)");
        verdict.missing.source = LogOrigin::Live;
        assert!(headline_text(&verdict, &zone).starts_with("this machine ("));
    }

    #[test]
    fn cited_documents_are_found_and_years_are_not() {
        let names = |text: &str| cited_documents(text).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        let text = "NT Resource Kit, Recognizing Disk Bottlenecks; SAS 1998, tip 7";
        assert_eq!(names(text), ["SAS 1998", "NT Resource Kit"]);
        assert!(names("ours: 1,998 requests, 1998").is_empty());
    }
}
