//! How far busy disks are from what their models in the catalogue give.
//!
//! A log does not show where requests go, so a disk is compared with random places, the slowest order. One that is
//! faster may have read in order or from its cache; one that is slower has a reason that is not its load.

use diskwright_simulator::catalogue::{BusyLoad, ModelDistance, find_entry_of_model, measure_distance};
use serde::Serialize;

use super::{FrontLoad, FrontSums, LoadSeries};

/// Share of a tick in which a disk must be at work: else its rate shows what was requested, not what it can do.
pub const MIN_BUSY: f64 = 0.9;
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
    Some(DeviceDistance { device: front.name.clone(), model: model.clone(), busy_s: seconds, distance })
}
