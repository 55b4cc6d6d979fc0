//! The document packs against print, peers' packs against what they publish,
//! and our own pack against what it says. `tests/packs/<pack>.toml` (or the folder of that name) has for every
//! rule a recording that is just over its limits, and for every condition of
//! the rule one that is not; `tests/packs/disagreements.toml` has the table of
//! `docs/documents.md`, one recording a row, with what each pack finds in it.
//!
//! A recording is 120 ticks made up from `cells`, as a foreign
//! log brings them: a counter's ready value at every tick. Keys of a recording:
//!
//! - `cells`: counter id, `@instance` behind it where the usual one of
//!   [`instance_of`] is not meant; a number, `{ step = [a, b] }` (a in the
//!   first quarter, then b), `{ alternate = [a, b] }`, `{ ramp = [a, b] }` or
//!   `{ runs = [[10, a], [15, b]] }` (a for ten ticks, then b for fifteen; the
//!   recording is as long as its longest runs, and `nan` is a gap)
//! - `lacks`: in a `not`, cells of the case that it leaves out
//! - `tick_s`: seconds a tick, 1 unless said
//! - `class`: class of the disks, `rotational` unless said
//! - `set`: level and members of an array `md0`
//! - `processors`: their number, 1 unless said
//! - `roles`: the first is given to the judge
//! - `link_bytes_per_s`: of the disk
//! - `ceilings`: what a probe measured, with the keys of [`Ceiling`]; of `sda`
//!   where `device` is not said
//! - `volume`, `instance`: limits of `sda` as a cloud volume, and of the instance, with the keys of [`Limits`]
//! - `swaps`: the devices that bear the swap space, a gigabyte each
//!
//! A `not` changes the keys that it names and leaves the others; `finds` lists
//! what other rules find.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use diskwright_base::cloud_volume::{REQUEST_BYTES, RateCap};
use diskwright_base::topology::{Device, DeviceClass, DeviceKind, RaidLevel, Swap};
use diskwright_base::{Catalogue, CloudInstance, CloudVolume, Frame, Note, Schema, Series, Tick, Topology};
use diskwright_diagnosis::rule::Absent;
use diskwright_diagnosis::{Ceiling, Judge, JudgeOptions, Pack, Rule};
use serde::Deserialize;

/// Ticks of a recording without runs.
const TICKS: usize = 120;
const START: i64 = 850_000_000_000_000_000;

/// The packs that have cases, in the columns of the table of disagreements.
const DOCUMENTS: &[&str] = &["nt-resource-kit", "sas-1998", "ntmag-1998", "compaq-1997", "sql7-1999"];
/// The packs that carry over what other programs ship.
const PEERS: &[&str] = &["pal", "netdata", "node-mixin", "pcp", "atop", "live-optics", "awesome-prometheus-alerts"];
/// The packs of our own: their rules have sources of many kinds.
pub const OWN: &[&str] = &["default"];

fn with_cases() -> impl Iterator<Item = &'static str> {
    DOCUMENTS.iter().chain(PEERS).chain(OWN).copied()
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, untagged)]
enum Cell {
    Constant(f64),
    Step { step: [f64; 2] },
    Alternate { alternate: [f64; 2] },
    Ramp { ramp: [f64; 2] },
    Runs { runs: Vec<(usize, f64)> },
}

impl Cell {
    /// The value at a tick of so many.
    fn value_at(&self, tick: usize, ticks: usize) -> f64 {
        match self {
            Cell::Constant(value) => *value,
            Cell::Step { step } => step[usize::from(tick >= ticks / 4)],
            Cell::Alternate { alternate } => alternate[tick % 2],
            Cell::Ramp { ramp: [from, to] } => from + (to - from) * tick as f64 / (ticks - 1) as f64,
            Cell::Runs { runs } => {
                let mut ends = runs.iter().scan(0, |end, (ticks, value)| {
                    *end += ticks;
                    Some((*end, *value))
                });
                let last = runs.last().map_or(f64::NAN, |(_, value)| *value);
                ends.find(|(end, _)| tick < *end).map_or(last, |(_, value)| value)
            }
        }
    }

    /// Number of its ticks, where it is fixed.
    fn ticks(&self) -> Option<usize> {
        match self {
            Cell::Runs { runs } => Some(runs.iter().map(|(ticks, _)| ticks).sum()),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Set {
    level: RaidLevel,
    members: usize,
}

/// Limits that a cloud sets.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Limits {
    requests: RateCap,
    bytes: RateCap,
}

/// Recorded cells and known facts about the machine.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Recording {
    cells: BTreeMap<String, Cell>,
    lacks: Vec<String>,
    class: Option<DeviceClass>,
    set: Option<Set>,
    processors: Option<u32>,
    tick_s: Option<f64>,
    roles: Option<Vec<String>>,
    link_bytes_per_s: Option<f64>,
    ceilings: Option<Vec<BTreeMap<String, toml::Value>>>,
    volume: Option<Limits>,
    instance: Option<Limits>,
    swaps: Option<Vec<String>>,
    /// Mistyped keys end up here.
    #[serde(flatten)]
    unknown: BTreeMap<String, toml::Value>,
}

#[derive(Debug, Deserialize)]
pub struct Not {
    because: String,
    #[serde(default)]
    finds: Vec<String>,
    #[serde(flatten)]
    pub changes: Recording,
}

#[derive(Debug, Deserialize)]
pub struct Case {
    pub rule: String,
    pub not: Vec<Not>,
    #[serde(default)]
    finds: Vec<String>,
    #[serde(flatten)]
    pub recording: Recording,
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
    pub fn with(&self, changes: &Recording) -> Recording {
        let mut cells = self.cells.clone();
        cells.extend(changes.cells.clone());
        cells.retain(|counter, _| !changes.lacks.contains(counter));
        Recording {
            cells,
            lacks: Vec::new(),
            class: changes.class.or(self.class),
            set: changes.set.or(self.set),
            processors: changes.processors.or(self.processors),
            tick_s: changes.tick_s.or(self.tick_s),
            roles: changes.roles.clone().or_else(|| self.roles.clone()),
            link_bytes_per_s: changes.link_bytes_per_s.or(self.link_bytes_per_s),
            ceilings: changes.ceilings.clone().or_else(|| self.ceilings.clone()),
            volume: changes.volume.or(self.volume),
            instance: changes.instance.or(self.instance),
            swaps: changes.swaps.clone().or_else(|| self.swaps.clone()),
            unknown: self.unknown.iter().chain(&changes.unknown).map(|(k, v)| (k.clone(), v.clone())).collect(),
        }
    }

    /// Nanoseconds of a tick.
    fn tick(&self) -> i64 {
        (self.tick_s.unwrap_or(1.0) * 1e9).round() as i64
    }

    fn ticks(&self) -> usize {
        self.cells.values().filter_map(Cell::ticks).max().unwrap_or(TICKS)
    }

    fn topology(&self) -> Topology {
        let members = self.set.map_or(1, |set| set.members);
        let disk = |letter: u8| Device {
            name: format!("sd{}", char::from(letter)),
            kind: DeviceKind::Disk,
            class: self.class.unwrap_or(DeviceClass::Rotational),
            link_bytes_per_s: self.link_bytes_per_s,
            cloud_volume: self.volume.filter(|_| letter == b'a').map(|limits| CloudVolume {
                requests: limits.requests,
                bytes: limits.bytes,
                request_bytes: REQUEST_BYTES,
                write_cost: 1.0,
                ..CloudVolume::default()
            }),
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
        let swap = |device: &String| Swap { path: format!("/dev/{device}"), device: device.clone(), bytes: 1 << 30 };
        let swaps = self.swaps.iter().flatten().map(swap).collect();
        let cloud_instance = self.instance.map(|limits| CloudInstance {
            requests: Some(limits.requests),
            bytes: Some(limits.bytes),
            ..CloudInstance::default()
        });
        Topology { processors: self.processors.unwrap_or(1), devices, swaps, cloud_instance, ..Topology::default() }
    }

    fn ceilings(&self) -> Vec<Ceiling> {
        let known = serde_json::to_value(Ceiling::default()).expect("a ceiling is JSON");
        let ceiling = |keys: &BTreeMap<String, toml::Value>| {
            let strange = keys.keys().find(|key| known.get(key.as_str()).is_none());
            assert!(strange.is_none(), "a ceiling has no {strange:?}");
            let value = serde_json::to_value(keys).expect("TOML can be JSON");
            let read: Ceiling = serde_json::from_value(value).expect("a ceiling");
            let device = if read.device.is_empty() { "sda".into() } else { read.device.clone() };
            Ceiling { device, ..read }
        };
        self.ceilings.iter().flatten().map(ceiling).collect()
    }

    fn frame(&self) -> Frame {
        let series = |key: &String| {
            let (counter, instance) = key.split_once('@').unwrap_or((key, instance_of(key)));
            assert!(Catalogue::builtin().get(counter).is_some(), "unknown counter {counter}");
            Series { counter: counter.into(), instance: instance.into(), scale: 1.0 }
        };
        let schema = Schema::new(self.cells.keys().map(series).collect());
        let ticks = self.ticks();
        let mut frame = Frame::new(Arc::new(schema), ticks);
        for index in 0..ticks {
            let row: Vec<f64> = self.cells.values().map(|cell| cell.value_at(index, ticks)).collect();
            let tick = Tick { time_ns: START + (index as i64 + 1) * self.tick(), elapsed_ns: self.tick() as u64 };
            frame.push(tick, &row);
        }
        frame
    }

    /// Input of a judge, made from it.
    pub fn input(&self) -> JudgeInput {
        assert!(self.unknown.is_empty(), "unknown keys: {:?}", self.unknown);
        let options = JudgeOptions {
            role: self.roles.as_ref().and_then(|roles| roles.first().cloned()),
            expected: Some((START, START + self.ticks() as i64 * self.tick())),
            ceilings: self.ceilings(),
            clock: None,
        };
        let topology = serde_json::to_string(&self.topology()).expect("a topology is JSON");
        JudgeInput { options, topology: Note::new(START, Note::TOPOLOGY, topology), frame: self.frame() }
    }

    /// Ids of the rules of a pack that find something in it.
    fn findings(&self, pack: &Pack) -> BTreeSet<String> {
        self.input().findings(pack)
    }
}

/// A recording as a judge takes it, made once for many judges.
pub struct JudgeInput {
    options: JudgeOptions,
    topology: Note,
    frame: Frame,
}

impl JudgeInput {
    /// Ids of the rules of a pack that find something in it.
    pub fn findings(&self, pack: &Pack) -> BTreeSet<String> {
        let mut judge = Judge::new(vec![pack.clone()], self.options.clone());
        judge.add_note(&self.topology);
        judge.add_frame(&self.frame);
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
        "path" => "nvme0n1:nvme0c1n1",
        "network_filesystem" => "/mnt",
        "database" => "postgres:shop",
        "processor" => "_total",
        "cgroup" => "/jobs",
        _ => "",
    }
}

/// The pack's file as it lies in `rules/`; that it is the built-in one is tested there.
pub fn pack(id: &str) -> Pack {
    let path = format!("{}/../../../rules/{id}.toml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    Pack::load(&format!("rules/{id}.toml"), &text).unwrap_or_else(|error| panic!("{error}"))
}

/// A file of `tests/packs`, or all files of a folder there, with their names.
fn read(name: &str) -> Vec<(String, String)> {
    let folder = format!("{}/tests/packs", env!("CARGO_MANIFEST_DIR"));
    let mut files: Vec<String> = match std::fs::read_dir(format!("{folder}/{name}")) {
        Ok(entries) => entries.map(|e| e.expect("readable").path().display().to_string()).collect(),
        Err(_) => vec![format!("{folder}/{name}.toml")],
    };
    files.sort();
    let text = |path: String| {
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        (path, text)
    };
    files.into_iter().map(text).collect()
}

pub fn cases(id: &str) -> Vec<Case> {
    let parse = |(path, text): (String, String)| -> Cases {
        toml::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
    };
    read(id).into_iter().flat_map(|file| parse(file).case).collect()
}

fn set_of<'a>(ids: impl IntoIterator<Item = &'a String>) -> BTreeSet<String> {
    ids.into_iter().cloned().collect()
}

pub fn report(wrong: Vec<String>) {
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
fn the_nt_resource_kit_pack_matches_its_cases() {
    check("nt-resource-kit");
}

#[test]
fn the_sas_1998_pack_matches_its_cases() {
    check("sas-1998");
}

#[test]
fn the_ntmag_1998_pack_matches_its_cases() {
    check("ntmag-1998");
}

#[test]
fn the_compaq_1997_pack_matches_its_cases() {
    check("compaq-1997");
}

#[test]
fn the_sql7_1999_pack_matches_its_cases() {
    check("sql7-1999");
}

#[test]
fn the_packs_of_peer_programs_match_their_cases() {
    report(PEERS.iter().flat_map(|id| wrong_in(id)).collect());
}

#[test]
fn our_own_packs_match_their_cases() {
    report(OWN.iter().flat_map(|id| wrong_in(id)).collect());
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

/// Each rule says in `source` where in its document it stands; of our own, where its limits come from.
#[test]
fn every_rule_cites_its_document() {
    let mut wrong = Vec::new();
    for id in with_cases() {
        let pack = pack(id);
        let document = if OWN.contains(&id) { String::new() } else { format!("{}, ", pack.source) };
        for rule in &pack.rules {
            if rule.source.trim().is_empty() || !rule.source.starts_with(&document) {
                wrong.push(format!("{id}: {}: {}", rule.id, rule.source));
            }
        }
    }
    report(wrong);
}

#[test]
fn authorities_disagree_as_documented() {
    let situations: Situations = toml::from_str(&read("disagreements")[0].1).unwrap_or_else(|error| panic!("{error}"));
    let documented = include_str!("../../../../docs/documents.md");
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
fn missing_counters_of_a_log_are_named() {
    let mut wrong = Vec::new();
    for id in with_cases() {
        let mut judge = Judge::new(vec![pack(id)], JudgeOptions::default());
        judge.add_frame(&Recording::default().frame());
        let verdict = judge.finish().remove(0);
        // a machine without arrays lacks nothing, and what no tool can show of any is not missing
        let nothing_to_lack =
            ["array", "channel", "controller", "database", "hardware", "network_filesystem", "nfs_server", "path"];
        // without a profile a rule on a ceiling or on a cloud's limit is as if it were not there, and the machine may
        // have no such thing
        let is_told = |id: &str| id.contains(".ceiling.") || id.contains(".volume.");
        let of_ceiling = |rule: &Rule| rule.all.iter().any(|c| is_told(&c.quantity.counter.id));
        let silent = |rule: &Rule| {
            rule.absent == Absent::Inapplicable && (of_ceiling(rule) || rule.optional || rule.object == "machine")
        };
        let needs_counter =
            |rule: &&Rule| rule.roles.is_empty() && !nothing_to_lack.contains(&rule.object.as_str()) && !silent(rule);
        for rule in pack(id).rules.iter().filter(needs_counter) {
            let unjudged = verdict.unjudged.iter().find(|u| u.rule == rule.id);
            if unjudged.is_none_or(|u| u.missing.is_empty()) {
                wrong.push(format!("{id}: {} names nothing that is missing", rule.id));
            }
        }
    }
    report(wrong);
}

/// A role that no rule of the pack depends on is not silently accepted.
#[test]
fn a_role_that_a_pack_does_not_know_is_told() {
    let limits = |id: &str, role: &str| {
        let options = JudgeOptions { role: Some(role.into()), ..JudgeOptions::default() };
        let mut judge = Judge::new(vec![pack(id)], options);
        judge.add_frame(&Recording::default().frame());
        judge.finish().remove(0).certainty_limits.join("\n")
    };
    let unused = limits("default", "fast-wide-scsi-2");
    assert!(unused.contains("no rule of the pack default depends on the role fast-wide-scsi-2"), "{unused}");
    assert!(unused.contains("--pack compaq-1997"), "{unused}");
    for (pack, role) in [("compaq-1997", "fast-wide-scsi-2"), ("sas-1998", "data-warehouse")] {
        assert!(!limits(pack, role).contains("depends on the role"), "{pack}");
    }
}
