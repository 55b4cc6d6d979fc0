//! How far busy disks are from what their models in the catalogue give.
//!
//! A log does not show where requests go, so a disk is compared with random places, the slowest order. One that is
//! faster may have read in order or from its cache; one that is slower has a reason that is not its load.

use diskwright_simulator::catalogue::{BusyLoad, MIN_READ_SHARE, ModelDistance, find_entry_of_model, measure_distance};
use serde::Serialize;

use super::{FrontLoad, FrontSums, LoadSeries};

/// Share of a tick in which a disk must be at work: else its rate shows what was requested, not what it can do.
pub const MIN_BUSY: f64 = 0.9;
/// Requests in flight on average from which a disk counts as at work, in a log without busy times (Windows NT 4 has no
/// % Idle Time): four or more at once leave it idle only if all of them come in bursts. Our choice.
pub const MIN_BUSY_QUEUE: f64 = 4.0;
/// Shortest time of such ticks that is compared, s.
const MIN_BUSY_S: f64 = 10.0;
/// Most disks that are compared: each is simulated.
const MAX_COMPARED: usize = 16;

/// A disk beside its model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceDistance {
    /// Its name in the log.
    pub device: String,
    /// The model that it reports.
    pub model: String,
    /// Seconds in which it was at work nearly all the time; the comparison is of these.
    pub busy_s: f64,
    /// True if the log has no busy times, and the queue shows that it was at work.
    pub by_queue: bool,
    /// The comparison.
    #[serde(flatten)]
    pub distance: ModelDistance,
}

/// Compares the disks of a load whose models are in the catalogue, and which were busy with reads; arrays are not
/// compared.
pub fn find_model_distances(series: &LoadSeries) -> Vec<DeviceDistance> {
    let busy = series.fronts.iter().filter(|front| front.members == 1 && front.busy_sums.seconds >= MIN_BUSY_S);
    busy.filter_map(compare_with_model).take(MAX_COMPARED).collect()
}

/// Why disks of which a model is known are not compared, each with the reason.
pub fn find_uncompared(series: &LoadSeries) -> Vec<(String, String)> {
    let with_model = series.fronts.iter().filter_map(|front| Some((front, front.model.as_ref()?)));
    let uncompared = with_model.filter(|(front, _)| {
        front.members != 1 || front.busy_sums.seconds < MIN_BUSY_S || compare_with_model(front).is_none()
    });
    uncompared.map(|(front, model)| (front.name.clone(), obstacle(front, model))).collect()
}

/// What keeps a disk from being compared.
fn obstacle(front: &FrontLoad, model: &str) -> String {
    let FrontSums { reads, writes, read_bytes, write_bytes, .. } = front.busy_sums;
    if front.members != 1 {
        "an array is not compared, only a single disk is".into()
    } else if front.busy_sums.seconds < MIN_BUSY_S && front.sums.busy_s <= 0.0 {
        format!(
            "the log does not show when it was at work: it has no busy time (% Idle Time), and {MIN_BUSY_QUEUE} \
             requests or more, which would tell without it, were hardly ever in flight"
        )
    } else if front.busy_sums.seconds < MIN_BUSY_S {
        "it was at work all the time for less than 10 s, so its rate shows what programs wanted".into()
    } else if find_entry_of_model(model, front.bytes.map(|bytes| bytes as u64)).is_none() {
        format!("the catalogue has no drive {model}")
    } else if reads < MIN_READ_SHARE * (reads + writes) {
        "too many of its requests were writes, which end in the drive's cache".into()
    } else if read_bytes + write_bytes == 0.0 || (read_bytes + write_bytes).is_nan() {
        "the log does not show the size of its requests".into()
    } else {
        "the log lacks its queue or its requests".into()
    }
}

fn compare_with_model(front: &FrontLoad) -> Option<DeviceDistance> {
    let model = front.model.as_ref()?;
    let entry = find_entry_of_model(model, front.bytes.map(|bytes| bytes as u64))?;
    let FrontSums { seconds, reads, writes, read_bytes, write_bytes, queue_s, .. } = front.busy_sums;
    let requests = reads + writes;
    let load = BusyLoad {
        is_sequential: false,
        requests_per_s: requests / seconds,
        read_share: reads / requests,
        size_bytes: (read_bytes + write_bytes) / requests,
        in_flight: queue_s / seconds,
        range_bytes: None,
    };
    let distance = measure_distance(entry, &load)?;
    let by_queue = front.busy_by_queue_s > 0.0;
    Some(DeviceDistance { device: front.name.clone(), model: model.clone(), busy_s: seconds, by_queue, distance })
}
