//! A device of latencies, rates and limits: a request takes its latency plus its bytes over a rate, with many requests
//! in parallel, and starts when the limits of operations and bytes allow it. Volumes, throttled disks and network
//! storage are of this kind; so is anything with one server.

use diskwright_base::units::format_count;

use super::ModelKind;
use super::known_cells::KnownCells;
use super::model_form::ModelForm;
use crate::io::BLOCK_BYTES;
use crate::service_time::ServiceTimeDistribution;
use crate::volume::{RateLimit, VolumeSpec};

/// Concurrent requests where they are not limited.
pub(super) const UNLIMITED_SLOTS: u32 = 1024;
/// Largest request that counts as one operation, bytes.
pub(super) const OPERATION_BYTES: u64 = 1 << 30;

/// The limits of a form.
#[derive(Clone, Copy)]
struct LimitChoices {
    slots: u32,
    operations: bool,
    bytes: bool,
    /// True if writes have separate limits.
    separate_writes: bool,
    /// True if the bytes of a single request have a separate rate.
    stream: bool,
}

impl LimitChoices {
    fn from_form(form: &ModelForm) -> LimitChoices {
        let on = |index: usize| form.choices.get(index).is_some_and(|choice| *choice > 0);
        LimitChoices {
            slots: form.choices.first().copied().unwrap_or(UNLIMITED_SLOTS),
            operations: on(1),
            bytes: on(2),
            separate_writes: on(3),
            stream: on(4),
        }
    }

    fn to_description(self) -> String {
        let limit = |on: bool, limit_name: &'static str| on.then_some(limit_name);
        let slots = (self.slots < UNLIMITED_SLOTS)
            .then(|| format!("{} at a time", format_count(self.slots, "request", "requests")));
        let limits = [
            limit(self.operations, "operations"),
            limit(self.bytes, "bytes"),
            limit(self.separate_writes, "writes apart"),
            limit(self.stream, "bytes of one request"),
        ];
        let names: Vec<String> = slots.into_iter().chain(limits.into_iter().flatten().map(str::to_owned)).collect();
        if names.is_empty() { "times alone".into() } else { format!("limits: {}", names.join(", ")) }
    }
}

/// Returns all combinations, with initial numbers taken from the cells.
pub(super) fn limit_forms(known: &KnownCells) -> Vec<ModelForm> {
    let (reads, writes) = (known.reads, known.write_direction());
    let parallel_requests =
        (reads.max_per_s * reads.standalone_s).round().clamp(1.0, f64::from(UNLIMITED_SLOTS)) as u32;
    let mut forms = Vec::new();
    for bits in 0..32_u32 {
        let on = |bit: u32| bits >> bit & 1 == 1;
        let slots = if on(0) { parallel_requests } else { UNLIMITED_SLOTS };
        let choices = LimitChoices { slots, operations: on(1), bytes: on(2), separate_writes: on(3), stream: on(4) };
        if choices.separate_writes && (known.writes.is_none() || !(choices.operations || choices.bytes)) {
            continue;
        }
        let mut numbers = vec![reads.standalone_s];
        if known.writes.is_some() {
            numbers.push(writes.standalone_s);
        }
        let both = |figures: [f64; 2]| {
            if choices.separate_writes { figures.to_vec() } else { vec![figures[0].max(figures[1])] }
        };
        if choices.operations {
            numbers.extend(both([reads.max_per_s, writes.max_per_s]));
        }
        if choices.bytes {
            numbers.extend(both([reads.max_bytes_per_s, writes.max_bytes_per_s]));
        }
        if choices.stream {
            numbers.push(2.0 * reads.stream_bytes_per_s.max(writes.stream_bytes_per_s));
        }
        let list =
            [slots, choices.operations.into(), choices.bytes.into(), choices.separate_writes.into(), u32::from(on(4))];
        forms.push(ModelForm {
            kind: ModelKind::Limits,
            choices: list.to_vec(),
            numbers,
            chosen_count: usize::from(on(0)),
            description: choices.to_description(),
        });
    }
    forms
}

/// Returns the volume.
pub(super) fn limited_volume(form: &ModelForm, numbers: &[f64], known: &KnownCells) -> VolumeSpec {
    let choices = LimitChoices::from_form(form);
    let mut next = numbers.iter().copied();
    let mut next_number = || next.next().unwrap_or(f64::INFINITY);
    let read_s = next_number();
    let write_s = if known.writes.is_some() { next_number() } else { read_s };
    let mut limits = |on: bool| match (on, choices.separate_writes) {
        (true, true) => [next_number(), next_number()],
        (true, false) => [next_number(); 2],
        (false, _) => [f64::INFINITY; 2],
    };
    let (operations, bytes) = (limits(choices.operations), limits(choices.bytes));
    let stream = if choices.stream { next_number() } else { f64::INFINITY };
    debug_assert!(next.next().is_none(), "the form has more numbers than the volume");
    let time = |s: f64| ServiceTimeDistribution::Constant((s * 1e9).round() as u64);
    let steady_limits =
        |index: usize| [RateLimit::constant_rate(operations[index]), RateLimit::constant_rate(bytes[index])];
    let [first, second] = steady_limits(0);
    VolumeSpec {
        name: known.device.name.clone(),
        blocks: known.device.bytes / BLOCK_BYTES,
        slots: choices.slots,
        operations: first,
        bytes: second,
        operation_bytes: OPERATION_BYTES,
        merges: false,
        whole_operations: false,
        write_cost: 1.0,
        writes: choices.separate_writes.then(|| steady_limits(1)),
        shared: None,
        window_ns: 0,
        read: time(read_s),
        write: time(write_s),
        stream_bytes_per_s: stream,
    }
}
