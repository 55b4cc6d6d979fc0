//! How far a device is from what its model in the catalogue gives: the same load, simulated on the drive.

use serde::Serialize;

use super::CatalogueEntry;
use super::measure::{DriveLoad, MAX_DEPTH, measure_load};
use crate::io::BLOCK_BYTES;

/// Share of reads from which a load says something about the drive: writes end in its cache, so their time is that of
/// the cache. Our choice.
pub const MIN_READ_SHARE: f64 = 0.9;
/// Share by which a device may be slower than its model without being far from it. Our choice: published figures of a
/// catalogue are met within 5 to 20 % (`checks` there), and the number in flight was not constant.
pub const MAX_SLOWER_SHARE: f64 = 0.25;
/// Requests of a simulation: stable to one or two percent.
const SIMULATED_REQUESTS: u32 = 20_000;

/// What a device did while it had requests all the time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BusyLoad {
    /// True if each request continued the one before; false for random places, and where the order is not known.
    pub is_sequential: bool,
    /// Requests per second.
    pub requests_per_s: f64,
    /// Share of reads.
    pub read_share: f64,
    /// Mean size of a request, bytes.
    pub size_bytes: f64,
    /// Mean number of requests in flight.
    pub in_flight: f64,
    /// The part of the device in use, bytes from its begin; `None` for all of it, and where it is not known.
    pub range_bytes: Option<u64>,
}

/// A device beside its model under the same load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelDistance {
    /// Id of the drive in the catalogue.
    pub drive: String,
    /// Its name there.
    pub name: String,
    /// True for a load in order, false for random places.
    #[serde(rename = "sequential")]
    pub is_sequential: bool,
    /// Share of reads.
    pub read_share: f64,
    /// Mean size of a request, bytes.
    pub size_bytes: f64,
    /// Requests in flight.
    pub in_flight: u32,
    /// Requests per second, as measured.
    pub measured_per_s: f64,
    /// Requests per second of the simulated drive.
    pub model_per_s: f64,
    /// Mean response, as measured, s.
    pub measured_response_s: f64,
    /// Mean response of the simulated drive, s.
    pub model_response_s: f64,
    /// Share by which the device is slower than its model; below 0 if it is faster.
    pub slower_share: f64,
    /// True if it is slower by more than 25 %.
    pub is_far: bool,
}

/// Simulates a load on a drive, and compares. `None` if the load says nothing about the drive: writes, or values that
/// cannot be.
///
/// The measured response follows from Little's law.
pub fn measure_distance(entry: &CatalogueEntry, load: &BusyLoad) -> Option<ModelDistance> {
    let numbers = [load.requests_per_s, load.read_share, load.size_bytes, load.in_flight];
    if !numbers.iter().all(|value| value.is_finite() && *value > 0.0) || load.read_share < MIN_READ_SHARE {
        return None;
    }
    let device = entry.build_device().ok()?;
    let in_flight = load.in_flight.round().clamp(1.0, f64::from(MAX_DEPTH)) as u32;
    let blocks = (load.size_bytes / BLOCK_BYTES as f64).round().clamp(1.0, 65_536.0) as u32;
    let range = load.range_bytes.map(|bytes| (bytes / BLOCK_BYTES).max(u64::from(blocks)));
    let simulated = DriveLoad {
        sequential: load.is_sequential,
        read_share: load.read_share.min(1.0),
        blocks,
        depth: in_flight,
        range,
    };
    let model = measure_load(&device, &simulated, SIMULATED_REQUESTS);
    if !(model.iops.is_finite() && model.iops > 0.0) {
        return None;
    }
    let slower_share = 1.0 - load.requests_per_s / model.iops;
    Some(ModelDistance {
        drive: entry.id.clone(),
        name: entry.name.clone(),
        is_sequential: load.is_sequential,
        read_share: load.read_share.min(1.0),
        size_bytes: load.size_bytes,
        in_flight,
        measured_per_s: load.requests_per_s,
        model_per_s: model.iops,
        measured_response_s: load.in_flight / load.requests_per_s,
        model_response_s: model.mean_s,
        slower_share,
        is_far: slower_share > MAX_SLOWER_SHARE,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::find_entry;

    const RANDOM_READS: BusyLoad = BusyLoad {
        is_sequential: false,
        requests_per_s: 80.0,
        read_share: 1.0,
        size_bytes: 4096.0,
        in_flight: 1.0,
        range_bytes: None,
    };

    /// The data sheet's random read: 8.0 ms seek, 4.17 ms latency and 0.15 ms overhead are 81 reads/s.
    #[test]
    fn a_disk_as_its_data_sheet_is_near_and_one_at_half_is_far() {
        let entry = find_entry("st18000nm000j").expect("built in");
        let found = measure_distance(entry, &RANDOM_READS).expect("comparable");
        assert!(found.slower_share.abs() < 0.1 && !found.is_far, "{found:?}");
        assert_eq!(found.measured_response_s, 1.0 / 80.0);
        let half = BusyLoad { requests_per_s: 40.0, ..RANDOM_READS };
        let found = measure_distance(entry, &half).expect("comparable");
        assert!(found.is_far && (0.45..0.55).contains(&found.slower_share), "{found:?}");
    }

    /// NT Resource Kit: a disk that is read from its cache or in order is faster than any random pattern.
    #[test]
    fn a_disk_faster_than_random_places_allow_is_never_far() {
        let entry = find_entry("st18000nm000j").expect("built in");
        let cached = BusyLoad { requests_per_s: 5000.0, ..RANDOM_READS };
        let found = measure_distance(entry, &cached).expect("comparable");
        assert!(found.slower_share < 0.0 && !found.is_far, "{found:?}");
    }

    #[test]
    fn writes_and_impossible_values_are_not_compared() {
        let entry = find_entry("st18000nm000j").expect("built in");
        for load in [
            BusyLoad { read_share: 0.5, ..RANDOM_READS },
            BusyLoad { requests_per_s: 0.0, ..RANDOM_READS },
            BusyLoad { in_flight: f64::NAN, ..RANDOM_READS },
            BusyLoad { size_bytes: f64::INFINITY, ..RANDOM_READS },
        ] {
            assert_eq!(measure_distance(entry, &load), None, "{load:?}");
        }
    }

    #[test]
    fn a_small_part_of_the_disk_is_faster_in_the_model_too() {
        let entry = find_entry("st18000nm000j").expect("built in");
        let whole = measure_distance(entry, &RANDOM_READS).expect("comparable");
        let part = BusyLoad { range_bytes: Some(10 << 30), ..RANDOM_READS };
        let part = measure_distance(entry, &part).expect("comparable");
        assert!(part.model_per_s > 1.2 * whole.model_per_s, "{} and {}", part.model_per_s, whole.model_per_s);
    }
}
