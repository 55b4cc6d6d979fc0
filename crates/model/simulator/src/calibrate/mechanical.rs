//! A mechanical drive: positioning takes most of its time, gets shorter with the queue, and is avoided by requests that
//! continue the last one.

use diskwright_base::units::format_count;

use super::ModelKind;
use super::known_cells::KnownCells;
use super::model_form::ModelForm;
use crate::drive::{DataSheet, DataSheetSeek, QueuePolicy, TrackRate};

/// Spindle speeds of disks, revolutions per minute. If a commit was measured, one revolution per commit is assumed
/// instead.
const SPINDLE_RPMS: [f64; 4] = [5400.0, 7200.0, 10_000.0, 15_000.0];
/// Queue depths that are tried.
const QUEUE_DEPTHS: [u32; 5] = [1, 8, 32, 64, 128];
/// Scheduling policies that are tried.
const POLICIES: [QueuePolicy; 3] =
    [QueuePolicy::FirstComeFirstServed, QueuePolicy::Elevator, QueuePolicy::ShortestPositioning];
/// Position of the mean of random seeks between the shortest and the longest. Assumed: the true value is between 1/3
/// and 8/15, depending on the shape of the curve (docs/drives.md).
const MEAN_SEEK_POSITION: f64 = 0.45;
/// Ratio of the innermost to the outermost tracks' rate. Assumed: the catalogue's zoned disks lie between 0.47 and
/// 0.80, and a quick probe does not show it.
const INNER_RATE_SHARE: f64 = 0.55;
/// Ratio of the interface's rate to the medium's at the start of the fit.
const INTERFACE_SPEEDUP: f64 = 4.0;

/// Returns all combinations, with initial numbers taken from the cells.
pub(super) fn mechanical_forms(known: &KnownCells) -> Vec<ModelForm> {
    // a mechanical device takes at least a millisecond
    if known.reads.standalone_s < 1e-3 {
        return Vec::new();
    }
    let (read, written) = (known.reads.standalone_s, known.write_direction().standalone_s);
    let rpms: Vec<f64> = match known.device.commit_s {
        // a sequential commit finds that its block has just passed the head: it takes a revolution, plus overhead
        Some(commit) if (3e-3..0.02).contains(&commit) => vec![60.0 / commit],
        _ => SPINDLE_RPMS.to_vec(),
    };
    let rpms: Vec<f64> = rpms.into_iter().filter(|rpm| 30.0 / rpm < 0.95 * read).collect();
    let mut forms = Vec::new();
    for rpm in rpms {
        for (order, policy) in POLICIES.into_iter().enumerate() {
            for queue in
                QUEUE_DEPTHS.into_iter().filter(|queue| (policy == QueuePolicy::FirstComeFirstServed) == (*queue == 1))
            {
                for cached in [false, true] {
                    let turn_ms = 60_000.0 / rpm;
                    let mean = (read * 1e3 - 0.5 * turn_ms).max(0.1);
                    let settle = (written - read).max(5e-5) * 1e3;
                    let outer = 1.1 * known.reads.max_bytes_per_s;
                    let cache_text = ["no write cache", "a write cache"][usize::from(cached)];
                    let requests = format_count(queue, "request", "requests");
                    forms.push(ModelForm {
                        kind: ModelKind::Mechanical,
                        choices: vec![order as u32, queue, u32::from(cached)],
                        numbers: vec![
                            rpm,
                            0.15 * mean,
                            0.9 * mean,
                            0.05 * mean,
                            settle,
                            outer,
                            INTERFACE_SPEEDUP * outer,
                        ],
                        chosen_count: 3,
                        description: format!("an arm, {requests} at a time, {}, {cache_text}", policy.name()),
                    });
                }
            }
        }
    }
    forms
}

/// Returns the drive; `None` if the numbers are impossible.
pub(super) fn data_sheet(form: &ModelForm, numbers: &[f64], known: &KnownCells) -> Option<DataSheet> {
    let &[rpm, next, mean, command, settle, outer, interface] = numbers else { return None };
    let &[order, queue, cached] = form.choices.as_slice() else { return None };
    let full = next + (mean - next) / MEAN_SEEK_POSITION;
    (next < mean).then(|| DataSheet {
        name: known.device.name.clone(),
        rpm,
        heads: 4,
        capacity_bytes: Some(known.device.bytes),
        cylinders: None,
        outer: TrackRate::Sustained(outer),
        inner: TrackRate::Sustained(INNER_RATE_SHARE * outer),
        zones: 16,
        seek: DataSheetSeek::Points([next, mean, full]),
        head_switch_ms: next.min(1.0),
        write_settle_ms: settle,
        command_ms: command,
        hit_ms: command,
        cache_bytes: 1 << 20,
        segments: 8,
        read_ahead: true,
        write_cache: cached > 0,
        interface_bytes_per_s: interface,
        never_disconnects: false,
        on_arrival: false,
        queue_slots: queue,
        queue_policy: POLICIES[order as usize % POLICIES.len()],
    })
}
