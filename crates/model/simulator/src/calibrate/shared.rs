//! A device whose requests share a resource that saturates gradually: a path, a processor, the parts of an SSD. A
//! single request takes its own time; with many in flight, a request takes as long as the work of all of them.

use super::ModelKind;
use super::known_cells::KnownCells;
use super::limits::{OPERATION_BYTES, UNLIMITED_SLOTS};
use super::model_form::ModelForm;
use crate::io::BLOCK_BYTES;
use crate::service_time::ServiceTimeDistribution;
use crate::volume::{RateLimit, SharedWork, VolumeSpec};

/// Initial knee.
const INITIAL_KNEE: f64 = 2.0;

/// Returns all combinations: with and without a separate rate of a single request's bytes, and a fitted knee.
pub(super) fn shared_forms(known: &KnownCells) -> Vec<ModelForm> {
    let (reads, writes) = (known.reads, known.write_direction());
    let small = f64::from(known.small_blocks) * BLOCK_BYTES as f64;
    let mut forms = Vec::new();
    for stream in [false, true] {
        for bends in [false, true] {
            let directions: &[_] = if known.writes.is_some() { &[reads, writes] } else { &[reads] };
            let mut numbers: Vec<f64> = directions.iter().map(|direction| 0.9 * direction.standalone_s).collect();
            let work_per_request_s = |direction: &super::known_cells::KnownDirection| {
                (1.0 / direction.max_per_s - small / direction.max_bytes_per_s).max(0.1 / direction.max_per_s)
            };
            numbers.extend(directions.iter().map(work_per_request_s));
            numbers.extend(directions.iter().map(|direction| 1.05 * direction.max_bytes_per_s));
            if stream {
                numbers.push(2.0 * reads.stream_bytes_per_s.max(writes.stream_bytes_per_s));
            }
            if bends {
                numbers.push(INITIAL_KNEE - 1.0);
            }
            let stream_text = ["", ", bytes of one request"][usize::from(stream)];
            let knee = ["sharp", "bends"][usize::from(bends)];
            forms.push(ModelForm {
                kind: ModelKind::Shared,
                choices: vec![u32::from(stream), u32::from(bends)],
                numbers,
                chosen_count: 0,
                description: format!("times and shared work that {knee}{stream_text}"),
            });
        }
    }
    forms
}

/// Knee of a form without a bend.
const SHARP_KNEE: f64 = 20.0;

/// Returns the volume.
pub(super) fn shared_volume(form: &ModelForm, numbers: &[f64], known: &KnownCells) -> VolumeSpec {
    let on = |index: usize| form.choices.get(index).is_some_and(|choice| *choice > 0);
    let mut next = numbers.iter().copied();
    let mut pair = || {
        let first = next.next().unwrap_or(1.0);
        [first, if known.writes.is_some() { next.next().unwrap_or(first) } else { first }]
    };
    let (standalone, each_s, bytes_per_s) = (pair(), pair(), pair());
    let stream = if on(0) { next.next().unwrap_or(f64::INFINITY) } else { f64::INFINITY };
    let knee = if on(1) { 1.0 + next.next().unwrap_or(1.0) } else { SHARP_KNEE };
    debug_assert!(next.next().is_none(), "the form has more numbers than the volume");
    let [read, write] = standalone.map(|s| ServiceTimeDistribution::Constant((s * 1e9).round() as u64));
    VolumeSpec {
        name: known.device.name.clone(),
        blocks: known.device.bytes / BLOCK_BYTES,
        slots: UNLIMITED_SLOTS,
        operations: RateLimit::unlimited(),
        bytes: RateLimit::unlimited(),
        operation_bytes: OPERATION_BYTES,
        merges: false,
        whole_operations: false,
        write_cost: 1.0,
        writes: None,
        shared: Some(SharedWork { each_s, bytes_per_s, knee: knee.min(SHARP_KNEE) }),
        window_ns: 0,
        read,
        write,
        stream_bytes_per_s: stream,
    }
}
