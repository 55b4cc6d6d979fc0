//! How much of the blamed activity belongs to no listed process: to some that have ended, that the tables leave out, or
//! that hide their I/O. A list of culprits that leaves out the most must say so.

use diskwright_base::counter_ids::processor;
use diskwright_base::units::format_value;

use crate::answer::blame::relations::PHYSICAL_DISK;
use crate::answer::verdict::{Culprit, Finding};
use crate::rules::{Bottleneck, LoadFacts};
use crate::run::Observation;

/// Smallest share of the activity that is worth a sentence.
const MIN_SHARE: f64 = 0.25;
/// Smallest processor time that is worth one, processors.
const MIN_PROCESSORS: f64 = 0.2;
/// Smallest rate of a disk that is worth one, bytes per second.
const MIN_RATE: f64 = 1e5;
/// Smallest part of the window that the tables must cover to be compared with it.
const MIN_COVERAGE: f64 = 0.5;

/// Sentence on blamed activity that belongs to no listed process; `None` where the list has most of it, or nothing is
/// known of it.
pub(crate) fn unlisted_activity(
    observed: &Observation,
    leading: &Finding,
    load: &LoadFacts<'_>,
    culprits: &[Culprit],
) -> Option<String> {
    let listed = &observed.culprits.listed;
    if listed.seconds <= 0.0 || listed.seconds < MIN_COVERAGE * observed.window.seconds() {
        return None;
    }
    let rate = |amount: f64| amount / listed.seconds;
    match leading.bottleneck {
        Bottleneck::Cpu if listed.has_processor => {
            processor_text(used_processors(observed)?, rate(listed.processor_s), culprits)
        }
        Bottleneck::Disk | Bottleneck::Channel | Bottleneck::Controller if leading.object == PHYSICAL_DISK => {
            if !listed.has_io {
                return (observed.culprits.unreadable > 0).then(|| {
                    "the I/O of processes could not be read: run as root to see who reads and writes".to_owned()
                });
            }
            let whose = if observed.culprits.unreadable > 0 {
                ", are not listed or hide their I/O"
            } else {
                " or are not listed"
            };
            let text = |done: &str, disk: Option<f64>, listed: f64| {
                let disk = disk.filter(|rate| *rate >= MIN_RATE)?;
                let share = 1.0 - listed / disk;
                (share >= MIN_SHARE).then(|| {
                    let (share, rate) = (format_value(share, "fraction"), format_value(disk, "bytes_per_s"));
                    format!(
                        "{share} of the {rate} that {} {done} belongs to the kernel, or to processes that ended{whose}",
                        leading.instance
                    )
                })
            };
            // of a disk that writes, the pages may be older than the window
            let is_reading = load.read_bytes_per_s >= load.write_bytes_per_s;
            match is_reading {
                true => text("read", load.read_bytes_per_s, rate(listed.read_bytes)),
                false => text("wrote", load.write_bytes_per_s, rate(listed.write_bytes)),
            }
        }
        _ => None,
    }
}

/// Processors that programs and the kernel used on their behalf.
fn used_processors(observed: &Observation) -> Option<f64> {
    let programs = observed.mean_sign(processor::USER)? + observed.mean_sign(processor::SYSTEM)?;
    Some((programs + observed.mean_sign(processor::NICE).unwrap_or(0.0)) * observed.mean_sign("processors")?)
}

fn processor_text(used: f64, listed: f64, culprits: &[Culprit]) -> Option<String> {
    let (unlisted, total) = ((used - listed).max(0.0), format_value(used, "fraction"));
    let share = unlisted / used;
    if unlisted >= MIN_PROCESSORS && share >= MIN_SHARE {
        let share = format_value(share, "fraction");
        return Some(format!("{share} of {total} of processor time belongs to processes that ended or are not listed"));
    }
    // many small ones: an empty list would say that nobody is it
    let is_named = culprits.iter().any(|culprit| culprit.pid.is_some());
    (!is_named && listed > 0.0).then(|| format!("no program has 5 % of the {total} of processor time that many share"))
}
