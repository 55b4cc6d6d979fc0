//! What a log must show before a bottleneck can be ruled out, and the commands that show it. The data are in
//! `rules/record.toml`.

use std::collections::BTreeSet;

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
    /// What the command tells.
    shows: String,
    linux: String,
    windows: String,
    unix: String,
    /// Commands that tell which program it is.
    who: SystemCommands,
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
    pub fn is_given_by(&self, seen: &BTreeSet<&str>) -> bool {
        self.groups.iter().all(|group| group.iter().any(|counter| seen.contains(counter.as_str())))
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
            for counter in proof.groups.iter().flatten() {
                let is_pseudo =
                    || counter.split_once('.').is_some_and(|(o, name)| find_pseudo_counter(o, name).is_some());
                assert!(Catalogue::builtin().get(counter).is_some() || is_pseudo(), "{counter}");
            }
        }
    }

    #[test]
    fn a_proof_needs_a_counter_of_each_group() {
        let memory = BottleneckProof::for_bottleneck(Bottleneck::Memory).expect("there");
        assert!(!memory.is_given_by(&BTreeSet::from(["paging.swap_in_pages_per_s"])));
        assert!(memory.is_given_by(&BTreeSet::from(["paging.swap_in_pages_per_s", "memory.cached_bytes"])));
        assert!(memory.is_given_by(&BTreeSet::from(["pressure.memory_some"])));
        assert_eq!(memory.evidence_command(LogOrigin::Sysstat).command, "vmstat 1 30");
        assert!(memory.evidence_command(LogOrigin::Perfmon).command.starts_with("typeperf"));
    }
}
