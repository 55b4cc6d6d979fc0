//! Every check on each side of its limit, and with unreadable facts: made-up hosts and cases as data, in the form of
//! `/sys` and `/proc`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use diskwright_advise::{
    CHECKS, HostAdvice, HostFacts, HostLoad, HostLoadReader, HostTree, HostTrouble, ServerRole, advise,
};
use diskwright_base::{Ceiling, Frame, Schema, Series, Tick};
use diskwright_counters::live::fake::FakeMachine;
use diskwright_counters::live::sources::topology;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HostFile {
    /// Only the devices are known, as in a log without facts.
    #[serde(default)]
    without_facts: bool,
    files: BTreeMap<String, String>,
    #[serde(default)]
    links: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CasesFile {
    case: Vec<Case>,
}

/// Deviations of a host from its description, and the expected result of one check.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    check: String,
    host: String,
    #[serde(default)]
    instance: String,
    #[serde(default)]
    set: BTreeMap<String, String>,
    #[serde(default)]
    links: BTreeMap<String, String>,
    #[serde(default)]
    remove: Vec<String>,
    role: Option<String>,
    /// Counters of 20 ticks of a second: one value, or one for each tick in turn.
    #[serde(default)]
    load: BTreeMap<String, Vec<f64>>,
    /// What a verdict on the log blames: bottleneck and instance.
    #[serde(default)]
    troubles: Vec<(String, String)>,
    /// Read rate of the instance as measured by a probe, bytes per second.
    read_ceiling: Option<f64>,
    /// Disk that was measured, if it is not the instance.
    measured_disk: Option<String>,
    /// Time of a random read as measured by a probe, seconds.
    read_s: Option<f64>,
    expect: Expected,
    /// Texts that the item must contain, in any of its fields.
    #[serde(default)]
    says: Vec<String>,
    /// Predicted gain.
    factor: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Expected {
    Advice,
    Good,
    Absent,
    Unknown,
}

fn folder(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> T {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    diskwright_base::toml_reader::read(&path.display().to_string(), &text).unwrap_or_else(|wrong| panic!("{wrong}"))
}

fn cases() -> Vec<Case> {
    let mut paths: Vec<_> =
        std::fs::read_dir(folder("cases")).expect("cases").map(|e| e.expect("a file").path()).collect();
    paths.sort();
    paths.iter().flat_map(|path| read::<CasesFile>(path).case).collect()
}

/// A host's files on disk, made once: a case changes a few of them and puts them back.
pub struct HostBench {
    host: HostFile,
    pub machine: FakeMachine,
}

impl HostBench {
    pub fn new(name: &str) -> HostBench {
        let host: HostFile = read(&folder("hosts").join(format!("{name}.toml")));
        let machine = FakeMachine::new();
        for (path, text) in &host.files {
            machine.put_file(&placed(path, &host.links), format!("{text}\n"));
        }
        host.links.iter().for_each(|(path, target)| _ = machine.put_link(path, target));
        HostBench { host, machine }
    }

    /// Applies the deviations of a case to the host.
    fn change(&self, case: &Case) {
        for path in &case.remove {
            let links = self.host.links.contains_key(path);
            let place = if links { path.clone() } else { placed(path, &self.host.links) };
            self.machine.remove(&place);
        }
        for (path, text) in &case.set {
            self.machine.put_file(&placed(path, &self.links(case)), format!("{text}\n"));
        }
        for (path, target) in &case.links {
            assert!(!self.host.links.contains_key(path), "{path} leads elsewhere already");
            self.machine.put_link(path, target);
        }
    }

    /// Reverts them.
    fn restore(&self, case: &Case) {
        case.links.keys().for_each(|path| self.forget(path));
        case.set.keys().for_each(|path| self.forget(&placed(path, &self.links(case))));
        let is_changed = |path: &String| {
            case.set.contains_key(path) || case.remove.iter().any(|gone| Path::new(path).starts_with(gone))
        };
        for (path, text) in self.host.files.iter().filter(|(path, _)| is_changed(path)) {
            self.machine.put_file(&placed(path, &self.host.links), format!("{text}\n"));
        }
        for (path, target) in self.host.links.iter().filter(|(path, _)| is_changed(path)) {
            self.machine.put_link(path, target);
        }
    }

    /// Removes a file and the folders that it leaves empty, which would be devices.
    fn forget(&self, path: &str) {
        self.machine.remove(path);
        let above = Path::new(path).ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
        above.take_while(|folder| std::fs::remove_dir(self.machine.folder().join(folder)).is_ok()).for_each(drop);
    }

    fn links(&self, case: &Case) -> BTreeMap<String, String> {
        self.host.links.clone().into_iter().chain(case.links.clone()).collect()
    }
}

/// `sys/block/sda/size` where the link of the device leads.
fn placed(path: &str, links: &BTreeMap<String, String>) -> String {
    let inside = |(link, target): (&String, &String)| {
        let rest = path.strip_prefix(link.as_str())?.strip_prefix('/')?;
        Some(format!("sys/{}/{rest}", target.trim_start_matches("../")))
    };
    links.iter().find_map(inside).unwrap_or_else(|| path.to_owned())
}

fn load(case: &Case) -> Option<HostLoad> {
    let columns: Vec<(&str, &[f64])> =
        case.load.iter().map(|(name, values)| (name.as_str(), values.as_slice())).collect();
    load_of(&columns)
}

/// A load of 20 ticks of a second; `counter@instance`, and a value for each tick in turn.
pub fn load_of(columns: &[(&str, &[f64])]) -> Option<HostLoad> {
    let series = columns.iter().map(|(name, _)| {
        let (counter, instance) = name.split_once('@').unwrap_or((name, ""));
        Series { counter: counter.into(), instance: instance.into(), scale: 1.0 }
    });
    let schema = Arc::new(Schema::new(series.collect()));
    let mut frame = Frame::new(schema, 20);
    for tick in 0..20 {
        let row: Vec<f64> = columns.iter().map(|(_, values)| values[tick % values.len()]).collect();
        frame.push(Tick { time_ns: tick as i64 * 1_000_000_000, elapsed_ns: 1_000_000_000 }, &row);
    }
    let mut reader = HostLoadReader::default();
    reader.add_frame(&frame);
    reader.into_load().filter(|_| !columns.is_empty())
}

fn judged(case: &Case, bench: &HostBench) -> HostAdvice {
    let machine = &bench.machine;
    let role = case.role.as_ref().map(|name| ServerRole::parse(name).unwrap_or_else(|| panic!("role {name}")));
    let ceiling = case.read_ceiling.map(|rate| Ceiling {
        device: case.measured_disk.as_ref().unwrap_or(&case.instance).clone(),
        read_bytes_per_s: Some(rate),
        read_s: case.read_s,
        ..Ceiling::default()
    });
    let ceilings: Vec<Ceiling> = ceiling.into_iter().collect();
    let host = match bench.host.without_facts {
        true => HostFacts::from_facts(HostTree::default(), topology::read_topology(&machine.roots()), role),
        false => HostFacts::read(machine.folder(), role),
    };
    let trouble = |(bottleneck, instance): &(String, String)| HostTrouble {
        bottleneck: bottleneck.clone(),
        instance: instance.clone(),
    };
    let troubles: Vec<HostTrouble> = case.troubles.iter().map(trouble).collect();
    advise(&host.with_load(load(case), &ceilings).with_troubles(&troubles))
}

fn id(case: &Case) -> String {
    if case.instance.is_empty() { case.check.clone() } else { format!("{}@{}", case.check, case.instance) }
}

/// A case leaves nothing behind for the next one.
#[test]
fn case_restores_its_host() {
    let bench = HostBench::new("server");
    let before = HostTree::read(bench.machine.folder());
    for case in cases().iter().filter(|case| case.host == "server") {
        bench.change(case);
        bench.restore(case);
    }
    assert_eq!(before, HostTree::read(bench.machine.folder()));
    assert_eq!(
        topology::read_topology(&bench.machine.roots()).devices,
        topology::read_topology(&HostBench::new("server").machine.roots()).devices
    );
}

/// Result of the case's check.
fn found(case: &Case, advice: &HostAdvice) -> Expected {
    let id = id(case);
    if advice.items.iter().any(|item| item.id == id) {
        return Expected::Advice;
    }
    if advice.unknown.iter().any(|unknown| unknown.id == id) { Expected::Unknown } else { Expected::Good }
}

/// All cases with their results, judged once for all tests.
static JUDGED: LazyLock<Vec<(Case, HostAdvice)>> = LazyLock::new(|| {
    let mut benches: BTreeMap<String, HostBench> = BTreeMap::new();
    let mut judge = |case: Case| {
        let bench = benches.entry(case.host.clone()).or_insert_with_key(|name| HostBench::new(name));
        bench.change(&case);
        let advice = judged(&case, bench);
        bench.restore(&case);
        (case, advice)
    };
    cases().into_iter().map(&mut judge).collect()
});

#[test]
fn every_case_is_judged_as_expected() {
    let mut wrong = Vec::new();
    for (number, (case, advice)) in JUDGED.iter().enumerate() {
        let name = format!("case {number}, {} on {}", id(case), case.host);
        let expected = if case.expect == Expected::Absent { Expected::Good } else { case.expect };
        let seen = found(case, advice);
        let item = advice.items.iter().find(|item| item.id == id(case));
        if seen != expected {
            wrong.push(format!("{name}: expected {expected:?}, found {seen:?}: {item:?}"));
            continue;
        }
        let advice_json = serde_json::to_string(&(item, &advice.unknown)).expect("serializable");
        wrong.extend(
            case.says
                .iter()
                .filter(|text| !advice_json.contains(*text))
                .map(|text| format!("{name}: no `{text}` in {advice_json}")),
        );
        if let Some(expected) = case.factor {
            let factor = item.and_then(|item| item.gain.as_ref()).map_or(f64::NAN, |gain| gain.factor);
            if (factor / expected - 1.0).abs() >= 0.01 {
                wrong.push(format!("{name}: a factor of {factor} instead of {expected}"));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn gives_one_item_per_knob() {
    for (case, advice) in JUDGED.iter() {
        let mut values: BTreeMap<String, String> = BTreeMap::new();
        for write in advice.items.iter().flat_map(|item| &item.writes) {
            let before = values.insert(write.path.clone(), write.after.clone());
            assert_eq!(before, None, "{}: {} is written twice", id(case), write.path);
        }
        // what was dropped said the same, or there would be two opinions and one of them wrong
        for write in advice.dropped.iter().flat_map(|item| &item.writes) {
            let kept = values.get(&write.path);
            assert_eq!(kept, Some(&write.after), "{}: two checks disagree on {}", id(case), write.path);
        }
    }
}

#[test]
fn every_check_has_a_good_a_bad_and_an_unreadable_case() {
    let cases = cases();
    let mut missing = Vec::new();
    for check in CHECKS.iter() {
        let has = |expected: &[Expected]| cases.iter().any(|c| c.check == check.id && expected.contains(&c.expect));
        for (case_kind, expected) in [
            ("advice", &[Expected::Advice][..]),
            ("good", &[Expected::Good]),
            ("unreadable", &[Expected::Unknown, Expected::Absent]),
        ] {
            if !has(expected) {
                missing.push(format!("{}: no case {case_kind}", check.id));
            }
        }
    }
    assert!(missing.is_empty(), "\n{}", missing.join("\n"));
}

#[test]
fn documentation_has_a_row_for_every_check() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/advise.md");
    let text = std::fs::read_to_string(path).expect("the document");
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| `")).collect();
    let expected: Vec<String> =
        CHECKS.iter().map(|check| format!("| `{}` | {} | {} |", check.id, check.what, check.good)).collect();
    assert_eq!(rows, expected);
}
