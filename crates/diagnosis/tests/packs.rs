//! The document packs against print, and peers' packs against what they
//! publish. `tests/packs/<pack>.toml` has for every
//! rule a recording that is just over its limits, and for every condition of
//! the rule one that is not; `tests/packs/disagreements.toml` has the table of
//! `docs/documents.md`, one recording a row, with what each pack finds in it.
//!
//! A recording is 120 ticks made up from `cells`, as a foreign
//! log brings them: a counter's ready value at every tick. Keys of a recording:
//!
//! - `cells`: counter id, `@instance` behind it where the usual one of
//!   [`instance_of`] is not meant; a number, `{ step = [a, b] }` (a in the
//!   first quarter, then b), `{ alternate = [a, b] }` or `{ ramp = [a, b] }`
//! - `tick_s`: seconds a tick, 1 unless said
//! - `class`: class of the disks, `rotational` unless said
//! - `set`: level and members of an array `md0`
//! - `processors`: their number, 1 unless said
//! - `roles`: the first is given to the judge
//! - `link_bytes_per_s`, `ceiling_bytes_per_s`: of the disk
//!
//! A `not` changes the keys that it names and leaves the others; `finds` lists
//! what other rules find.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use diskwright_base::topology::{Device, DeviceClass, DeviceKind, RaidLevel};
use diskwright_base::{Catalogue, Frame, Note, Schema, Series, Tick, Topology};
use diskwright_diagnosis::{Ceiling, Judge, JudgeOptions, Pack, Rule};
use serde::Deserialize;

const TICKS: usize = 120;
const SECOND: i64 = 1_000_000_000;
const START: i64 = 850_000_000 * SECOND;

/// The packs that have cases, in the columns of the table of disagreements.
const DOCUMENTS: &[&str] = &["nt-resource-kit", "sas-1998", "ntmag-1998", "compaq-1997", "sql7-1999"];
/// The packs that carry over what other programs ship.
const PEERS: &[&str] = &["pal", "netdata", "node-mixin", "pcp", "atop", "live-optics", "awesome-prometheus-alerts"];

fn with_cases() -> impl Iterator<Item = &'static str> {
    DOCUMENTS.iter().chain(PEERS).copied()
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, untagged)]
enum Cell {
    Constant(f64),
    Step { step: [f64; 2] },
    Alternate { alternate: [f64; 2] },
    Ramp { ramp: [f64; 2] },
}

impl Cell {
    fn at(&self, tick: usize) -> f64 {
        match self {
            Cell::Constant(value) => *value,
            Cell::Step { step } => step[usize::from(tick >= TICKS / 4)],
            Cell::Alternate { alternate } => alternate[tick % 2],
            Cell::Ramp { ramp: [from, to] } => from + (to - from) * tick as f64 / (TICKS - 1) as f64,
        }
    }
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Set {
    level: RaidLevel,
    members: usize,
}

/// What is recorded, and what is known of the machine.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Recording {
    cells: BTreeMap<String, Cell>,
    class: Option<DeviceClass>,
    set: Option<Set>,
    processors: Option<u32>,
    tick_s: Option<i64>,
    roles: Option<Vec<String>>,
    link_bytes_per_s: Option<f64>,
    ceiling_bytes_per_s: Option<f64>,
    /// Mistyped keys end up here.
    #[serde(flatten)]
    unknown: BTreeMap<String, toml::Value>,
}

#[derive(Debug, Deserialize)]
struct Not {
    because: String,
    #[serde(default)]
    finds: Vec<String>,
    #[serde(flatten)]
    changes: Recording,
}

#[derive(Debug, Deserialize)]
struct Case {
    rule: String,
    not: Vec<Not>,
    #[serde(default)]
    finds: Vec<String>,
    #[serde(flatten)]
    recording: Recording,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cases {
    case: Vec<Case>,
}

#[derive(Debug, Deserialize)]
struct Situation {
    name: String,
    finds: BTreeMap<String, Vec<String>>,
    #[serde(flatten)]
    recording: Recording,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Situations {
    situation: Vec<Situation>,
}

impl Recording {
    /// This recording with the changes of another.
    fn with(&self, changes: &Recording) -> Recording {
        let mut cells = self.cells.clone();
        cells.extend(changes.cells.clone());
        Recording {
            cells,
            class: changes.class.or(self.class),
            set: changes.set.or(self.set),
            processors: changes.processors.or(self.processors),
            tick_s: changes.tick_s.or(self.tick_s),
            roles: changes.roles.clone().or_else(|| self.roles.clone()),
            link_bytes_per_s: changes.link_bytes_per_s.or(self.link_bytes_per_s),
            ceiling_bytes_per_s: changes.ceiling_bytes_per_s.or(self.ceiling_bytes_per_s),
            unknown: self.unknown.iter().chain(&changes.unknown).map(|(k, v)| (k.clone(), v.clone())).collect(),
        }
    }

    /// Nanoseconds of a tick.
    fn tick(&self) -> i64 {
        self.tick_s.unwrap_or(1) * SECOND
    }

    fn topology(&self) -> Topology {
        let members = self.set.map_or(1, |set| set.members);
        let disk = |letter: u8| Device {
            name: format!("sd{}", char::from(letter)),
            kind: DeviceKind::Disk,
            class: self.class.unwrap_or(DeviceClass::Rotational),
            link_bytes_per_s: self.link_bytes_per_s,
            ..Device::default()
        };
        let mut devices: Vec<Device> = (b'a'..).take(members).map(disk).collect();
        if let Some(set) = self.set {
            devices.push(Device {
                name: "md0".into(),
                kind: DeviceKind::Md,
                class: self.class.unwrap_or(DeviceClass::Rotational),
                below: devices.iter().map(|d| d.name.clone()).collect(),
                level: Some(set.level),
                ..Device::default()
            });
        }
        Topology { processors: self.processors.unwrap_or(1), devices, ..Topology::default() }
    }

    fn frame(&self) -> Frame {
        let series = |key: &String| {
            let (counter, instance) = key.split_once('@').unwrap_or((key, instance_of(key)));
            assert!(Catalogue::builtin().get(counter).is_some(), "unknown counter {counter}");
            Series { counter: counter.into(), instance: instance.into(), scale: 1.0 }
        };
        let schema = Schema::new(self.cells.keys().map(series).collect());
        let mut frame = Frame::new(Arc::new(schema), TICKS);
        for at in 0..TICKS {
            let row: Vec<f64> = self.cells.values().map(|cell| cell.at(at)).collect();
            let tick = Tick { time_ns: START + (at as i64 + 1) * self.tick(), elapsed_ns: self.tick() as u64 };
            frame.push(tick, &row);
        }
        frame
    }

    /// Ids of the rules of a pack that find something in it.
    fn findings(&self, pack: &Pack) -> BTreeSet<String> {
        assert!(self.unknown.is_empty(), "unknown keys: {:?}", self.unknown);
        let ceiling = |bytes| Ceiling { device: "sda".into(), bytes_per_s: Some(bytes), ..Ceiling::default() };
        let options = JudgeOptions {
            role: self.roles.as_ref().and_then(|roles| roles.first().cloned()),
            expected: Some((START, START + TICKS as i64 * self.tick())),
            ceilings: self.ceiling_bytes_per_s.map(ceiling).into_iter().collect(),
        };
        let mut judge = Judge::new(vec![pack.clone()], options);
        let topology = serde_json::to_string(&self.topology()).expect("a topology is JSON");
        judge.note(&Note::new(START, Note::TOPOLOGY, topology));
        judge.frame(&self.frame());
        let verdicts = judge.finish();
        verdicts[0].findings.iter().map(|finding| finding.rule.clone()).collect()
    }
}

/// The instance that a counter's cells are of, where a case names none.
fn instance_of(counter: &str) -> &'static str {
    match counter.split_once('.').map_or("", |(object, _)| object) {
        "physical_disk" => "sda",
        "logical_disk" => "/",
        "channel" | "controller" => "0",
        "network" => "eth0",
        "array" => "md0",
        "processor" => "_total",
        _ => "",
    }
}

/// The pack's file as it lies in `rules/`; that it is the built-in one is tested there.
fn pack(id: &str) -> Pack {
    let path = format!("{}/../../rules/{id}.toml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    Pack::load(&format!("rules/{id}.toml"), &text).unwrap_or_else(|error| panic!("{error}"))
}

fn read(name: &str) -> String {
    let path = format!("{}/tests/packs/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn cases(id: &str) -> Vec<Case> {
    let cases: Cases = toml::from_str(&read(id)).unwrap_or_else(|error| panic!("{id}.toml: {error}"));
    cases.case
}

fn set_of<'a>(ids: impl IntoIterator<Item = &'a String>) -> BTreeSet<String> {
    ids.into_iter().cloned().collect()
}

fn report(wrong: Vec<String>) {
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

fn check(id: &str) {
    report(wrong_in(id));
}

fn wrong_in(id: &str) -> Vec<String> {
    let pack = pack(id);
    let mut wrong = Vec::new();
    for case in cases(id) {
        let expected = set_of(case.finds.iter().chain([&case.rule]));
        let found = case.recording.findings(&pack);
        if found != expected {
            wrong.push(format!("{id}: {}: found {found:?}, not {expected:?}", case.rule));
        }
        for not in &case.not {
            let found = case.recording.with(&not.changes).findings(&pack);
            let expected = set_of(&not.finds);
            if found != expected {
                wrong.push(format!("{id}: {}, but {}: found {found:?}, not {expected:?}", case.rule, not.because));
            }
        }
    }
    wrong
}

#[test]
fn nt_resource_kit() {
    check("nt-resource-kit");
}

#[test]
fn sas_1998() {
    check("sas-1998");
}

#[test]
fn ntmag_1998() {
    check("ntmag-1998");
}

#[test]
fn compaq_1997() {
    check("compaq-1997");
}

#[test]
fn sql7_1999() {
    check("sql7-1999");
}

#[test]
fn peers() {
    report(PEERS.iter().flat_map(|id| wrong_in(id)).collect());
}

/// No rule without a case, no condition without a `not`, and no `not` that expects the rule.
#[test]
fn every_rule_and_every_condition_has_a_case() {
    let mut wrong = Vec::new();
    for id in with_cases() {
        let cases = cases(id);
        for rule in &pack(id).rules {
            let nots: Vec<&Not> = cases.iter().filter(|c| c.rule == rule.id).flat_map(|c| &c.not).collect();
            if nots.len() < rule.conditions().count().max(1) {
                wrong.push(format!("{id}: {}: {} conditions, {} nots", rule.id, rule.conditions().count(), nots.len()));
            }
            if nots.iter().any(|not| not.finds.contains(&rule.id)) {
                wrong.push(format!("{id}: {}: a `not` expects the rule", rule.id));
            }
        }
    }
    report(wrong);
}

/// Each rule says in `source` where in its document it stands.
#[test]
fn every_rule_cites_its_document() {
    let mut wrong = Vec::new();
    for id in with_cases() {
        let pack = pack(id);
        for rule in &pack.rules {
            if !rule.source.starts_with(&format!("{}, ", pack.source)) {
                wrong.push(format!("{id}: {}: {}", rule.id, rule.source));
            }
        }
    }
    report(wrong);
}

#[test]
fn authorities_disagree_as_documented() {
    let situations: Situations = toml::from_str(&read("disagreements")).unwrap_or_else(|error| panic!("{error}"));
    let documented = include_str!("../../../docs/documents.md");
    let mut wrong = Vec::new();
    for situation in &situations.situation {
        if !documented.contains(&format!("| {} |", situation.name)) {
            wrong.push(format!("no row `{}` in docs/documents.md", situation.name));
        }
        for id in DOCUMENTS {
            let expected = set_of(situation.finds.get(*id).into_iter().flatten());
            let found = situation.recording.findings(&pack(id));
            if found != expected {
                wrong.push(format!("{}: {id} found {found:?}, not {expected:?}", situation.name));
            }
        }
    }
    report(wrong);
}

/// A rule whose counters a log lacks is unjudged and names them; it is never
/// silently taken for not found.
#[test]
fn what_a_log_lacks_is_named() {
    let mut wrong = Vec::new();
    for id in with_cases() {
        let mut judge = Judge::new(vec![pack(id)], JudgeOptions::default());
        judge.frame(&Recording::default().frame());
        let verdict = judge.finish().remove(0);
        // a machine without arrays lacks nothing, and what no tool can show of any is not missing
        let nothing_to_lack = ["array", "channel", "controller"];
        let asked = |rule: &&Rule| rule.roles.is_empty() && !nothing_to_lack.contains(&rule.object.as_str());
        for rule in pack(id).rules.iter().filter(asked) {
            let unjudged = verdict.unjudged.iter().find(|u| u.rule == rule.id);
            if unjudged.is_none_or(|u| u.missing.is_empty()) {
                wrong.push(format!("{id}: {} names nothing that is missing", rule.id));
            }
        }
    }
    report(wrong);
}
