//! What a log must show before a bottleneck can be ruled out, and the commands that show it. The data are in
//! `rules/record.toml`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::rules::Bottleneck;
use crate::rules::log_origin::LogOrigin;
use crate::rules::recording_hints::recording_data;

/// Evidence that a bottleneck needs, and how to get it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BottleneckProof {
    /// The bottleneck's name.
    bottleneck: String,
    /// Sets of counters; a log needs one of each.
    groups: Vec<Vec<String>>,
    /// A level that shows at a moment that nothing is short, if it is so high. It rules nothing out: what happens
    /// between two looks, or in a cgroup, it does not show.
    ample: Option<AmpleLevel>,
    /// True where our own logs have what there is, and only logs of others need the counters.
    #[serde(default, rename = "foreign")]
    is_for_foreign: bool,
    /// What the command tells.
    shows: String,
    linux: String,
    windows: String,
    unix: String,
    /// Commands that tell which program it is.
    who: SystemCommands,
}

/// A level and how high it must be.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AmpleLevel {
    counter: String,
    at_least: f64,
}

/// A command for each kind of system.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SystemCommands {
    linux: String,
    windows: String,
    unix: String,
}

/// A command whose output would tell what a log does not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NextCommand {
    /// What it tells, as a part of a sentence: `which disk it is`.
    pub shows: String,
    /// The command, for the system that the log is of.
    pub command: String,
}

/// What a command of [`BottleneckProof::who`] tells.
const WHICH_PROGRAM: &str = "which program it is";

impl BottleneckProof {
    /// The entry of a bottleneck; `None` where its rules need no further evidence.
    pub fn for_bottleneck(bottleneck: Bottleneck) -> Option<&'static BottleneckProof> {
        recording_data().proof.iter().find(|proof| proof.bottleneck == bottleneck.name())
    }

    /// True where the counters suffice to rule the bottleneck out.
    pub fn is_given_by(&self, seen: &BTreeMap<&str, Option<f64>>) -> bool {
        self.groups.iter().all(|group| group.iter().any(|counter| seen.contains_key(counter.as_str())))
    }

    /// True where a log of this origin needs the counters.
    pub fn is_needed_of(&self, source: LogOrigin) -> bool {
        !self.is_for_foreign || source != LogOrigin::Live
    }

    /// True where nobody needs to be asked for the evidence.
    pub fn is_answered_by(&self, seen: &BTreeMap<&str, Option<f64>>) -> bool {
        let is_ample = |ample: &AmpleLevel| {
            seen.get(ample.counter.as_str()).is_some_and(|mean| mean.is_some_and(|mean| mean >= ample.at_least))
        };
        self.is_given_by(seen) || self.ample.as_ref().is_some_and(is_ample)
    }

    /// The command that shows the evidence, on the system of a log.
    pub fn evidence_command(&self, source: LogOrigin) -> NextCommand {
        let command = command_for(source, [&self.linux, &self.windows, &self.unix]);
        NextCommand { shows: self.shows.clone(), command }
    }

    /// The command that shows the program, on the system of a log.
    pub fn program_command(&self, source: LogOrigin) -> NextCommand {
        let command = command_for(source, [&self.who.linux, &self.who.windows, &self.who.unix]);
        NextCommand { shows: WHICH_PROGRAM.into(), command }
    }
}

fn command_for(source: LogOrigin, [linux, windows, unix]: [&String; 3]) -> String {
    match source {
        LogOrigin::Perfmon => windows.clone(),
        LogOrigin::Unix => unix.clone(),
        _ => linux.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pseudo_counters::find_pseudo_counter;
    use diskwright_base::Catalogue;

    #[test]
    fn every_proof_names_a_bottleneck_and_counters_that_exist() {
        for proof in &recording_data().proof {
            let is_named = |bottleneck: &Bottleneck| bottleneck.name() == proof.bottleneck;
            assert!(Bottleneck::ALL.iter().any(is_named), "{}", proof.bottleneck);
            let ample = proof.ample.iter().map(|ample| &ample.counter);
            for counter in proof.groups.iter().flatten().chain(ample) {
                let is_pseudo =
                    || counter.split_once('.').is_some_and(|(o, name)| find_pseudo_counter(o, name).is_some());
                assert!(Catalogue::builtin().get(counter).is_some() || is_pseudo(), "{counter}");
            }
        }
    }

    #[test]
    fn a_proof_needs_a_counter_of_each_group() {
        let memory = BottleneckProof::for_bottleneck(Bottleneck::Memory).expect("there");
        let seen = |names: &[&'static str]| names.iter().map(|name| (*name, None)).collect::<BTreeMap<_, _>>();
        assert!(!memory.is_given_by(&seen(&["paging.swap_in_pages_per_s"])));
        assert!(memory.is_given_by(&seen(&["paging.swap_in_pages_per_s", "memory.cached_bytes"])));
        assert!(memory.is_given_by(&seen(&["pressure.memory_some"])));
        for (mean, is_answered) in [(0.7, true), (0.1, false)] {
            let free = BTreeMap::from([("memory.available_fraction", Some(mean))]);
            assert_eq!((memory.is_given_by(&free), memory.is_answered_by(&free)), (false, is_answered));
        }
        assert_eq!(memory.evidence_command(LogOrigin::Sysstat).command, "vmstat 1 30");
        assert!(memory.evidence_command(LogOrigin::Perfmon).command.starts_with("typeperf"));
    }
}
