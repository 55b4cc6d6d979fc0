//! What a log of Windows leaves open of the interrupts: the disks' part of the processor time is their share of all
//! interrupts times the time in interrupts, and each of these needs a counter of its own.

use diskwright_base::counter_ids::{interrupts, processor};
use diskwright_base::units::format_value;

use crate::rules::LogOrigin;
use crate::run::Observation;

/// Share of the time in interrupts, and of busy processors, from which on the disks' part matters: the limits of
/// interrupts.share.
const MIN_INTERRUPT_TIME: f64 = 0.2;
const MIN_BUSY: f64 = 0.8;
/// Interrupts per second of the clock of Windows NT (NT Resource Kit, Interrupts and Disk Use).
const CLOCK_PER_S: f64 = 100.0;

/// Sentence on what is known of the disks' interrupts, and what to record or give for the rest; `None` where interrupts
/// are few, or all is known.
pub(crate) fn interrupts_text(observed: &Observation) -> Option<String> {
    if observed.notes.source != LogOrigin::Perfmon {
        return None;
    }
    let mean = |counter: &str| observed.mean_sign(counter);
    let (time, count) = (mean(processor::INTERRUPT), mean(interrupts::TOTAL_PER_S));
    let percent = |share: f64| format_value(share, "fraction");
    let is_known = mean(interrupts::DISK_SHARE).is_some();
    match (time, count) {
        (Some(time), None) if time > MIN_INTERRUPT_TIME => Some(format!(
            "interrupts take {} of the processors, and the log does not count them: the disks take this much at most. \
             Record System\\Total Interrupts/sec too, and give --clock and --network-interrupts",
            percent(time)
        )),
        (Some(time), Some(count)) if time > MIN_INTERRUPT_TIME && !is_known => Some(format!(
            "interrupts take {} of the processors; of {} a second, nobody has said how many are of clock and network. \
             Give these, and the rest is the disks': --clock 100 --network-interrupts 200 (0 without a network)",
            percent(time),
            format_value(count, "")
        )),
        (None, Some(count)) if count > 2.0 * CLOCK_PER_S && mean(processor::BUSY).is_some_and(|b| b > MIN_BUSY) => {
            Some(format!(
                "the log counts {} interrupts a second and does not show how much of the busy processors they take. \
                 Record System\\% Total Interrupt Time too",
                format_value(count, "")
            ))
        }
        _ => None,
    }
}
