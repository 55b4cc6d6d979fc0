//! A device with an arm over a turning disk: what it takes to get anywhere is most of its time, falls with
//! the queue, and is spared by what lies behind the last request.

use diskwright_base::units::plural;

use super::ModelKind;
use super::form::ModelForm;
use super::known::KnownCells;
use crate::drive::{DataSheet, DataSheetSeek, QueuePolicy, TrackRate};

/// Turns a minute that disks are made with; where a commit was measured, the nearest to one turn for each.
const TURNS: [f64; 4] = [5400.0, 7200.0, 10_000.0, 15_000.0];
/// Requests that it holds.
const QUEUES: [u32; 5] = [1, 8, 32, 64, 128];
/// In which order.
const ORDERS: [QueuePolicy; 3] = [QueuePolicy::FirstCome, QueuePolicy::Elevator, QueuePolicy::ShortestPositioning];
/// The mean of random seeks lies here between the shortest and the longest. Assumed: between 1/3 and 8/15 by the
/// shape of the curve (docs/drives.md).
const MEAN_AT: f64 = 0.45;
/// The innermost tracks' rate by the outermost's. Assumed: the catalogue's zoned disks lie between 0.47 and 0.80,
/// and nothing in a quick probe tells which it is.
const INNER: f64 = 0.55;
/// The interface is so much faster than the medium, where the fit begins.
const INTERFACE: f64 = 4.0;

/// All combinations, with numbers that the cells show.
pub(super) fn forms(known: &KnownCells) -> Vec<ModelForm> {
    // something that is moved does not answer in less than a millisecond
    if known.reads.alone_s < 1e-3 {
        return Vec::new();
    }
    let (read, written) = (known.reads.alone_s, known.written().alone_s);
    let turns: Vec<f64> = match known.device.commit_s {
        // a write behind the last one has just gone by: a turn, and what else there is
        Some(commit) if (3e-3..0.02).contains(&commit) => vec![60.0 / commit],
        _ => TURNS.to_vec(),
    };
    let turns: Vec<f64> = turns.into_iter().filter(|rpm| 30.0 / rpm < 0.95 * read).collect();
    let mut all = Vec::new();
    for rpm in turns {
        for (order, policy) in ORDERS.into_iter().enumerate() {
            for queue in QUEUES.into_iter().filter(|queue| (policy == QueuePolicy::FirstCome) == (*queue == 1)) {
                for cached in [false, true] {
                    let turn_ms = 60_000.0 / rpm;
                    let mean = (read * 1e3 - 0.5 * turn_ms).max(0.1);
                    let settle = (written - read).max(5e-5) * 1e3;
                    let outer = 1.1 * known.reads.most_bytes_per_s;
                    let words = ["no write cache", "a write cache"][usize::from(cached)];
                    let requests = plural(queue, "request", "requests");
                    all.push(ModelForm {
                        kind: ModelKind::Mechanical,
                        choices: vec![order as u32, queue, u32::from(cached)],
                        numbers: vec![rpm, 0.15 * mean, 0.9 * mean, 0.05 * mean, settle, outer, INTERFACE * outer],
                        chosen: 3,
                        what: format!("an arm, {requests} at a time, {}, {words}", policy.name()),
                    });
                }
            }
        }
    }
    all
}

/// The drive; `None` where its numbers cannot be.
pub(super) fn sheet(form: &ModelForm, numbers: &[f64], known: &KnownCells) -> Option<DataSheet> {
    let &[rpm, next, mean, command, settle, outer, interface] = numbers else { return None };
    let &[order, queue, cached] = form.choices.as_slice() else { return None };
    let full = next + (mean - next) / MEAN_AT;
    (next < mean).then(|| DataSheet {
        name: known.device.name.clone(),
        rpm,
        heads: 4,
        capacity: Some(known.device.bytes),
        cylinders: None,
        outer: TrackRate::Sustained(outer),
        inner: TrackRate::Sustained(INNER * outer),
        zones: 16,
        seek: DataSheetSeek::Points([next, mean, full]),
        head_switch_ms: next.min(1.0),
        write_settle_ms: settle,
        command_ms: command,
        hit_ms: command,
        cache: 1 << 20,
        segments: 8,
        read_ahead: true,
        write_cache: cached > 0,
        interface,
        never_leaves: false,
        on_arrival: false,
        slots: queue,
        policy: ORDERS[order as usize % ORDERS.len()],
    })
}
