//! Disks beside their models in the catalogue, in words: for `why`, `plan --from` and `probe`.

use diskwright_base::units::{format_significant, format_value};
use diskwright_planner::series::model_distance::DeviceDistance;
use diskwright_report::text::wrap;
use diskwright_report::{Ink, Style};
use diskwright_results::document::ProbeDocument;
use diskwright_results::facts::SuiteRemark;
use diskwright_results::result::RunResult;
use diskwright_simulator::catalogue::{
    BusyLoad, CatalogueEntry, ModelDistance, built_in_entries, find_entry_of_model, measure_distance,
};

use super::{Failure, name_search};

/// Differences of less than this share are none: a simulation is stable to one or two percent.
const EQUAL_SHARE: f64 = 0.03;
/// A target of at least this share of its device is all of it.
const WHOLE_DEVICE_SHARE: f64 = 0.95;

/// Checks that a model that was given is one of the catalogue.
pub fn check_model(model: &str) -> Result<(), Failure> {
    find_entry(model).map(|_| ())
}

fn find_entry(model: &str) -> Result<&'static CatalogueEntry, Failure> {
    find_entry_of_model(model, None).ok_or_else(|| {
        let ids = built_in_entries().iter().map(|entry| entry.id.as_str());
        let suggestion = name_search::suggestion_hint(model, ids);
        Failure::Usage(format!(
            "--drive: the catalogue has no drive `{model}`{suggestion}; `diskwright list drives` shows all"
        ))
    })
}

/// Draws disks beside their models, and the reasons why others are not compared, with a heading; empty without any.
pub fn draw_distances(distances: &[DeviceDistance], uncompared: &[(String, String)], style: &Style) -> String {
    let columns = style.width.saturating_sub(4);
    let wrapped = |text: &str| wrap(&style.clean_text(text), columns, 0).join("\n    ");
    let compared = distances.iter().map(describe_device);
    let reasons = uncompared.iter().map(|(device, because)| format!("{device}: not compared: {because}"));
    let lines: String = compared.chain(reasons).map(|text| format!("  {}\n", wrapped(&text))).collect();
    if lines.is_empty() {
        return lines;
    }
    format!("\n{}\n{lines}", style.paint(Ink::Bold, "Disks beside their models"))
}

/// Describes a disk of a log beside its model.
fn describe_device(found: &DeviceDistance) -> String {
    let busy = format_value(found.busy_s, "s");
    let at_work = match found.by_queue {
        false => format!("at work all the time for {busy}"),
        true => format!("taken as at work for {busy}, by its queue: the log has no busy time"),
    };
    describe_distance(&format!("{} ({}), {at_work}", found.device, found.distance.name), &found.distance)
}

/// Describes a comparison; a log does not show the order of requests, so random places are the slowest that they can
/// have been.
fn describe_distance(subject: &str, found: &ModelDistance) -> String {
    let rates = |per_s: f64, response_s: f64| {
        format!("{}, each in {}", format_value(per_s, "per_s"), format_value(response_s, "s"))
    };
    let (size, share) = (format_value(found.size_bytes, "bytes"), format!("{:.0} %", found.slower_share.abs() * 100.0));
    let (order, reading) = match found.is_sequential {
        true => ("in order", "reads"),
        false => ("at random places", "requests"),
    };
    let conclusion = match found.slower_share {
        _ if found.is_far => format!(
            "it is {share} slower than a drive of its model; look for errors and temperature (docs/health.md), \
             background work of the drive, or a link that it shares"
        ),
        slower if slower < 0.0 && slower.abs() > 1.0 => {
            let times = format_significant(1.0 - slower);
            format!("{times} times as fast, so the requests were in order, close together or in a cache")
        }
        slower if slower.abs() < EQUAL_SHARE => "it does what its model gives".into(),
        slower if slower < 0.0 => format!("{share} faster than that"),
        _ => format!("{share} slower than that, which is within what such a comparison can tell"),
    };
    format!(
        "{subject}: {} with {} in flight ({reading} of {size}); its model gives {} {order}: {conclusion}",
        rates(found.measured_per_s, found.measured_response_s),
        found.in_flight,
        rates(found.model_per_s, found.model_response_s),
    )
}

/// Remarks on a measured device beside its model, or beside the drive that was declared: random reads, alone and with
/// the most in flight, and reads in order.
pub fn compare_probed(document: &ProbeDocument, declared: Option<&str>) -> Result<Vec<SuiteRemark>, Failure> {
    let entry = match (declared, &document.device.model) {
        (Some(model), _) => Some(find_entry(model)?),
        (None, Some(model)) => find_entry_of_model(model, document.device.bytes),
        (None, None) => None,
    };
    let Some(entry) = entry.filter(|_| !document.buffered) else { return Ok(Vec::new()) };
    let remarks = comparable_runs(document).into_iter().filter_map(|run| {
        let distance = measure_distance(entry, &load_of_run(document, run)?)?;
        let subject = format!("{} on {}, beside {}", run.name, document.target, entry.name);
        let text = describe_distance(&subject, &distance);
        let (value, unit) = (Some(distance.slower_share), Some("fraction".to_owned()));
        Some(SuiteRemark { id: "beside_model".into(), text, value, unit })
    });
    Ok(remarks.collect())
}

/// The runs whose load the model knows: reads of the document's target, alone, with a constant number in flight.
fn comparable_runs(document: &ProbeDocument) -> Vec<&RunResult> {
    let is_plain = |run: &&RunResult| {
        let is_alone = run.concurrent_runs.is_empty() && run.combines.is_empty() && run.target.is_none();
        is_alone && run.pace == "closed" && run.depth.is_some() && run.read_share >= 1.0 && run.failed == 0
    };
    let of_place = |place: &'static str| document.runs.iter().filter(is_plain).filter(move |run| run.place == place);
    let depth = |run: &&RunResult| run.depth;
    let mut chosen: Vec<&RunResult> = of_place("uniform").min_by_key(depth).into_iter().collect();
    chosen
        .extend(of_place("uniform").max_by_key(depth).filter(|run| Some(run.depth) != chosen.first().map(|c| c.depth)));
    // a part of a disk may be its slow inner tracks
    let of_whole = of_place("sequential").filter(|_| range_bytes(document).is_none());
    chosen.extend(of_whole.max_by(|a, b| a.bytes_per_s.total_cmp(&b.bytes_per_s)));
    chosen
}

fn load_of_run(document: &ProbeDocument, run: &RunResult) -> Option<BusyLoad> {
    Some(BusyLoad {
        is_sequential: run.place == "sequential",
        requests_per_s: run.requests_per_s,
        read_share: run.read_share,
        size_bytes: run.size_bytes,
        in_flight: f64::from(run.depth?),
        range_bytes: range_bytes(document),
    })
}

/// The part of the device that was measured; `None` for all of it.
fn range_bytes(document: &ProbeDocument) -> Option<u64> {
    let is_whole =
        document.device.bytes.is_some_and(|bytes| document.target_bytes as f64 >= WHOLE_DEVICE_SHARE * bytes as f64);
    (!is_whole).then_some(document.target_bytes)
}

#[cfg(test)]
mod tests {
    use diskwright_results::facts::DeviceFacts;

    use super::*;

    fn probed(model: &str, runs: Vec<RunResult>) -> ProbeDocument {
        let bytes = 18_000_207_937_536;
        let device = DeviceFacts { model: Some(model.into()), bytes: Some(bytes), ..DeviceFacts::default() };
        ProbeDocument { target: "/dev/sda".into(), target_bytes: bytes, device, runs, ..ProbeDocument::default() }
    }

    fn run(place: &str, depth: u32, requests_per_s: f64) -> RunResult {
        RunResult {
            name: format!("{place}-{depth}"),
            place: place.into(),
            pace: "closed".into(),
            depth: Some(depth),
            size_bytes: 4096.0,
            read_share: 1.0,
            requests_per_s,
            bytes_per_s: requests_per_s * 4096.0,
            ..RunResult::default()
        }
    }

    #[test]
    fn a_probed_disk_is_put_beside_its_model() {
        let runs = || vec![run("uniform", 1, 40.0), run("uniform", 4, 110.0), run("uniform", 16, 165.0)];
        let remarks = compare_probed(&probed("ATA ST18000NM000J-2T", runs()), None).expect("known");
        let [alone, queued] = &remarks[..] else { panic!("{remarks:?}") };
        // the data sheet: 81 reads/s, and about 170 with 16 in flight
        assert!(alone.text.contains("slower than a drive of its model"), "{}", alone.text);
        assert!(alone.value.is_some_and(|share| (0.45..0.55).contains(&share)), "{alone:?}");
        assert!(!queued.text.contains("slower than a drive of its model"), "{}", queued.text);
        assert_eq!((alone.id.as_str(), alone.unit.as_deref()), ("beside_model", Some("fraction")));
        let of_unknown = |model: &str, drive: Option<&str>| compare_probed(&probed(model, runs()), drive);
        assert_eq!(of_unknown("QEMU HARDDISK", None).expect("no error"), []);
        assert_eq!(of_unknown("QEMU HARDDISK", Some("st18000nm000j")).expect("declared").len(), 2);
        let Err(Failure::Usage(text)) = of_unknown("QEMU HARDDISK", Some("st18000nm000k")) else { panic!("refused") };
        assert!(text.contains("did you mean `st18000nm000j`?"), "{text}");
    }

    #[test]
    fn runs_whose_order_or_place_the_model_does_not_know_are_not_compared() {
        let none = |run: RunResult| compare_probed(&probed("ST18000NM000J", vec![run]), None).expect("no error");
        assert_eq!(none(run("zipf", 1, 40.0)), []);
        assert_eq!(none(RunResult { read_share: 0.5, ..run("uniform", 1, 40.0) }), []);
        assert_eq!(none(RunResult { pace: "open".into(), ..run("uniform", 1, 40.0) }), []);
        let buffered = ProbeDocument { buffered: true, ..probed("ST18000NM000J", vec![run("uniform", 1, 40.0)]) };
        assert_eq!(compare_probed(&buffered, None).expect("no error"), []);
        // reads in order of a file may be of the inner tracks
        let file = ProbeDocument { target_bytes: 1 << 30, ..probed("ST18000NM000J", vec![run("sequential", 4, 9e3)]) };
        assert_eq!(compare_probed(&file, None).expect("no error"), []);
    }

    #[test]
    fn the_conclusion_follows_the_distance() {
        let told = |slower_share: f64, is_far: bool| {
            let distance = ModelDistance {
                drive: "id".into(),
                name: "A drive".into(),
                is_sequential: false,
                read_share: 1.0,
                size_bytes: 4096.0,
                in_flight: 2,
                measured_per_s: 100.0 * (1.0 - slower_share),
                model_per_s: 100.0,
                measured_response_s: 0.02,
                model_response_s: 0.02,
                slower_share,
                is_far,
            };
            describe_distance("sda", &distance)
        };
        assert!(told(0.5, true).contains("50 % slower than a drive of its model"), "{}", told(0.5, true));
        assert!(told(0.1, false).contains("10 % slower than that, which is within"), "{}", told(0.1, false));
        assert!(told(-0.1, false).ends_with("10 % faster than that"), "{}", told(-0.1, false));
        assert!(told(-0.001, false).ends_with("it does what its model gives"), "{}", told(-0.001, false));
        assert!(told(-9.0, false).contains("10 times as fast"), "{}", told(-9.0, false));
        assert!(told(0.1, false).starts_with("sda: 90/s, each in 20 ms with 2 in flight"), "{}", told(0.1, false));
    }
}
