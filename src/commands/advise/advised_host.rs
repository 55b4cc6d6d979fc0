//! The host that `advise` is about: its facts, its load in a log, and what a verdict on that log blames.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use diskwright_advise::{HostFacts, HostLoad, HostLoadReader, HostTree, HostTrouble, ServerRole};
use diskwright_base::{Ceiling, LogPiece, Note, Topology};
use diskwright_diagnosis::{Judge, JudgeOptions, Verdict, packs};
use serde_json::{Value, json};

use super::{Arguments, live_log};
use crate::commands::log::{self, Logs};
use crate::commands::{Failure, ceilings};

/// Origin of a host's facts.
pub enum FactOrigin {
    /// Read on this host.
    ThisHost,
    /// Recorded in a log.
    Log,
    /// Read in a folder with another host's files.
    Folder(PathBuf),
}

impl fmt::Display for FactOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FactOrigin::ThisHost => f.write_str("this host"),
            FactOrigin::Log => f.write_str("the log"),
            FactOrigin::Folder(path) => path.display().fmt(f),
        }
    }
}

/// A host, and the origin of its facts.
pub struct AdvisedHost {
    pub facts: HostFacts,
    pub origin: FactOrigin,
    /// Remarks on missing facts.
    pub remarks: Vec<String>,
    /// The log with its load, if it was found and not named.
    pub found_log: Option<PathBuf>,
    /// What the load shows; `None` without a log.
    pub verdict: Option<LogVerdict>,
}

/// What a verdict on a log says of a host.
pub struct LogVerdict {
    pub sentence: String,
    pub troubles: Vec<HostTrouble>,
}

impl LogVerdict {
    fn from_verdict(verdict: &Verdict) -> LogVerdict {
        let trouble = |bottleneck: &diskwright_diagnosis::verdict::VerdictBottleneck| HostTrouble {
            bottleneck: bottleneck.bottleneck.name().to_owned(),
            instance: bottleneck.instance.clone(),
        };
        LogVerdict { sentence: verdict.sentence.clone(), troubles: verdict.bottlenecks.iter().map(trouble).collect() }
    }

    /// The verdict as JSON.
    pub fn document(&self) -> Value {
        let trouble = |t: &HostTrouble| json!({ "bottleneck": t.bottleneck, "instance": t.instance });
        let troubles: Vec<Value> = self.troubles.iter().map(trouble).collect();
        json!({ "sentence": self.sentence, "bottlenecks": troubles })
    }
}

/// The bottlenecks of a verdict; none without a verdict.
fn troubles_of(verdict: Option<&LogVerdict>) -> &[HostTrouble] {
    verdict.map_or(&[], |verdict| &verdict.troubles)
}

impl AdvisedHost {
    /// Returns the host of the logs, of a folder, or this one.
    pub fn load(arguments: &Arguments, role: Option<ServerRole>) -> Result<AdvisedHost, Failure> {
        if !arguments.log.is_empty() {
            return load_recorded_host(arguments, role);
        }
        if !arguments.window.is_whole() {
            return Err(Failure::Usage("--from and --to need a log".into()));
        }
        arguments.window.refuse_log_options()?;
        let root = arguments.root.as_deref().unwrap_or(Path::new("/"));
        if !root.is_dir() {
            return Err(Failure::Failed(format!("{}: not a folder", root.display())));
        }
        let origin = arguments.root.clone().map_or(FactOrigin::ThisHost, FactOrigin::Folder);
        let facts = HostFacts::read(root, role);
        let is_own_load_wanted = arguments.root.is_none() && !arguments.no_log;
        let found = if is_own_load_wanted { live_log::read_live_log() } else { live_log::FoundLog::not_wanted() };
        let (load, verdict) = found.recorded.map_or((None, None), |recorded| (recorded.load, recorded.verdict));
        let facts = facts.with_load(load, ceilings::known_ceilings()).with_troubles(troubles_of(verdict.as_ref()));
        Ok(AdvisedHost { facts, origin, remarks: found.remarks, found_log: found.dir, verdict })
    }
}

fn load_recorded_host(arguments: &Arguments, role: Option<ServerRole>) -> Result<AdvisedHost, Failure> {
    let recorded = RecordedHost::read(&log::open(&arguments.log, &arguments.window)?)?;
    let ceilings = if recorded.ceilings.is_empty() { ceilings::known_ceilings() } else { &recorded.ceilings };
    let (facts, origin, remarks) = match (&arguments.root, recorded.tree) {
        // settings are judged as they are now, with the load that the log shows
        (None, _) if arguments.apply.is_some() && is_this_host(&recorded.topology) => {
            (HostFacts::read(Path::new("/"), role), FactOrigin::ThisHost, Vec::new())
        }
        (Some(root), _) => (HostFacts::read(root, role), FactOrigin::Folder(root.clone()), Vec::new()),
        (None, Some(tree)) => (HostFacts::from_facts(tree, recorded.topology, role), FactOrigin::Log, Vec::new()),
        (None, None) if is_this_host(&recorded.topology) => {
            let remark = "the log has no facts about the host; it is a log of this host, so its present settings were \
                          read"
                .to_owned();
            (HostFacts::read(Path::new("/"), role), FactOrigin::ThisHost, vec![remark])
        }
        (None, None) => {
            let remark = "the log has no facts about the host; only its devices are known".to_owned();
            (HostFacts::from_facts(HostTree::default(), recorded.topology, role), FactOrigin::Log, vec![remark])
        }
    };
    let facts = facts.with_load(recorded.load, ceilings).with_troubles(troubles_of(recorded.verdict.as_ref()));
    Ok(AdvisedHost { facts, origin, remarks, found_log: None, verdict: recorded.verdict })
}

/// True if a log's host is this one: name, kernel, memory and at least one disk are the same.
pub fn is_this_host(recorded: &Topology) -> bool {
    let this_host =
        diskwright_counters::live::sources::topology::read_topology(&diskwright_counters::live::Roots::default());
    let identity = (&recorded.host, &recorded.kernel, recorded.memory_bytes);
    // machines made from one image are alike, but their disks are not
    let serials = |topology: &Topology| -> BTreeSet<String> {
        topology.devices.iter().filter_map(|device| device.serial.clone()).collect()
    };
    let (recorded_serials, own_serials) = (serials(recorded), serials(&this_host));
    let has_other_disks =
        !recorded_serials.is_empty() && !own_serials.is_empty() && recorded_serials.is_disjoint(&own_serials);
    !recorded.host.is_empty()
        && !has_other_disks
        && identity == (&this_host.host, &this_host.kernel, this_host.memory_bytes)
}

/// Facts about a host in a log.
#[derive(Default)]
pub struct RecordedHost {
    tree: Option<HostTree>,
    pub topology: Topology,
    ceilings: Vec<Ceiling>,
    pub load: Option<HostLoad>,
    pub verdict: Option<LogVerdict>,
    /// The verdict in full.
    judged: Option<Verdict>,
}

impl RecordedHost {
    /// When what held the host back ended, before the window did, nanoseconds since 1970 UTC.
    pub fn ended_ns(&self) -> Option<i64> {
        self.judged.as_ref()?.ended_ns()
    }

    /// Takes the verdict of a later part of the same window, which begins where the bottleneck ended.
    pub fn replace_verdict(&mut self, recent: RecordedHost, ended_ns: i64) {
        let Some(mut verdict) = recent.judged else { return };
        self.judged.iter().for_each(|earlier| verdict.set_after(earlier, ended_ns));
        self.verdict = Some(LogVerdict::from_verdict(&verdict));
        self.judged = Some(verdict);
    }

    /// Reads the window of a log once, for facts, load and verdict.
    pub fn read(logs: &Logs) -> Result<RecordedHost, Failure> {
        let mut host = RecordedHost::default();
        let mut load = HostLoadReader::default();
        let pack = packs::builtin_pack("default").transpose()?;
        let options = JudgeOptions {
            expected: Some(logs.range_ns),
            ceilings: ceilings::known_ceilings().to_vec(),
            ..JudgeOptions::default()
        };
        let mut judge = Judge::new(pack.into_iter().collect(), options);
        logs.read::<Failure>(|piece| {
            match piece {
                LogPiece::Frame(frame) => {
                    load.add_frame(frame);
                    judge.add_frame(frame);
                }
                LogPiece::Note(note) => {
                    judge.add_note(&note);
                    host.handle_note(&note)?;
                }
            }
            Ok(())
        })?;
        host.load = load.into_load();
        host.judged = judge.finish().into_iter().next();
        host.verdict = host.judged.as_ref().map(LogVerdict::from_verdict);
        Ok(host)
    }

    /// The last note of each kind counts: the host as it was at the end.
    fn handle_note(&mut self, note: &Note) -> Result<(), Failure> {
        match note.kind.as_str() {
            Note::TOPOLOGY => self.topology = Arc::unwrap_or_clone(note.read_topology()?),
            Note::HOST => self.tree = Some(serde_json::from_str(note.text())?),
            Note::CEILINGS => self.ceilings = Arc::unwrap_or_clone(note.read_ceilings()?),
            _ => {}
        }
        Ok(())
    }
}
