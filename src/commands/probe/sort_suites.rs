//! Sweeps of `workload sort` under names of suites. A suite sends requests to a target; a sort works with files in
//! folders, so these names run `workload sort`.

use super::{Arguments, EngineName};
use crate::commands::{Failure, workload};

/// A sweep of the sort.
pub struct SortSuite {
    /// Name on the command line.
    pub id: &'static str,
    /// Description in one line.
    pub title: &'static str,
    /// Description of a good result.
    pub good: &'static str,
}

/// Id of the sweep by placement.
const PLACEMENT_SUITE: &str = "sort-places";

/// All sweeps.
pub const SORT_SUITES: [SortSuite; 2] = [
    SortSuite {
        id: "sort-memory",
        title: "time of a sort of real rows by memory, its knee, and SAS 1998's formula",
        good: "a knee far below the memory in which all rows fit",
    },
    SortSuite {
        id: PLACEMENT_SUITE,
        title: "time of a sort with source, runs and result in one to four places",
        good: "each place saves time; where it does not, the places share a disk or the processor is the limit",
    },
];

/// Default size of the rows of a sweep, bytes.
const DEFAULT_BYTES: u64 = 200_000_000;

/// Finds a sweep by name.
pub fn find_sort_suite(id: &str) -> Option<&'static SortSuite> {
    SORT_SUITES.iter().find(|suite| suite.id == id)
}

/// Runs a sweep.
pub fn run_sort_suite(suite: &SortSuite, arguments: &Arguments) -> Result<(), Failure> {
    let id = suite.id;
    let usage_error = |message: String| Err(Failure::Usage(format!("`{id}` {message}")));
    let unused = [
        ("--for", arguments.run_duration.is_some()),
        ("--ramp", arguments.ramp.is_some()),
        ("--repeat", arguments.repeat != 1),
        ("--keep", arguments.keep),
        ("--live", arguments.live),
        ("--destroy-data-on", !arguments.destroy_data_on.is_empty()),
        ("--lanes", arguments.workers.is_some()),
        ("--engine", arguments.engine != EngineName::Best),
        ("--time-to-move", arguments.time_to_move.is_some()),
        ("--output", arguments.output.is_some()),
        ("--save", arguments.save || arguments.replace_profile),
    ];
    if let Some((option, _)) = unused.into_iter().find(|(_, is_given)| *is_given) {
        return usage_error(format!("takes no {option}; `workload sort` has all options of the sort"));
    }
    let Some(folder) = arguments.target.as_ref().filter(|target| target.is_dir()) else {
        return usage_error("sorts in a folder: name one".into());
    };
    let mut folders = vec![folder.clone()];
    match (id == PLACEMENT_SUITE, arguments.members.as_slice()) {
        (true, []) => return usage_error("needs further places: --members DIR2,DIR3,DIR4".into()),
        (false, [_, ..]) => return usage_error("takes one folder; `sort-places` takes several".into()),
        (_, further) => folders.extend_from_slice(further),
    }
    let bytes = arguments.size.unwrap_or(DEFAULT_BYTES);
    workload::run_sort_sweep(&folders, bytes, arguments.buffered, arguments.seed, arguments.json)
}
