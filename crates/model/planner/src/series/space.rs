//! Space in use on the devices of a load: which filesystems are on them, and whether the sizes in the log agree.

use diskwright_base::byte_size::ByteSize;
use serde::Serialize;

use super::{FrontLoad, LoadSeries};

/// Filesystems larger than their devices by this factor show that the log has a wrong size.
const MAX_SIZE_RATIO: f64 = 1.02;
/// Share of the devices below which the space that their filesystems cover is reported.
const MIN_COVERED_SHARE: f64 = 0.9;
/// Share of the load from which a device without a filesystem is reported.
const MIN_LOAD_SHARE: f64 = 0.05;

/// A filesystem, as at the end of the load.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FilesystemSpace {
    /// Mount point.
    pub mount: String,
    /// Device that holds it; `None` if that is unknown.
    pub device: Option<String>,
    /// Size, bytes.
    pub total_bytes: f64,
    /// Bytes in use; in a log without that counter, with those reserved for root.
    pub used_bytes: f64,
    /// Why its space does not count; `None` if it counts.
    pub because: Option<&'static str>,
    /// Devices of the load that hold it.
    #[serde(skip)]
    pub fronts: Vec<String>,
}

/// Origin of the space that designs must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SpaceSource {
    /// Counters of the log, which are those of `df`.
    Log,
    /// `df` of the machine of the log, now.
    Host,
    /// Typed.
    Given,
}

/// Space on the devices of a load.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SpaceSummary {
    /// Origin of the demand's capacity; `None` if it is unknown.
    pub source: Option<SpaceSource>,
    /// Bytes in use on the filesystems that count.
    pub used_bytes: Option<f64>,
    /// Size of the filesystems that count.
    pub total_bytes: Option<f64>,
    /// Size of their devices by the log; `None` if it is unknown.
    pub device_bytes: Option<f64>,
    /// Filesystems on the devices of the load.
    pub filesystems: Vec<FilesystemSpace>,
    /// Filesystems elsewhere, with the reason.
    pub left_out: Vec<FilesystemSpace>,
    /// What does not agree, what is unknown, and how to give it.
    pub remarks: Vec<String>,
}

/// Sums the space of a load; `source` is where its filesystems are from.
pub fn summarize_space(series: &LoadSeries, source: SpaceSource) -> SpaceSummary {
    let known = series.filesystems.iter().filter(|filesystem| filesystem.total_bytes > 0.0).cloned();
    let (filesystems, left_out): (Vec<_>, Vec<_>) = known.partition(|filesystem| filesystem.because.is_none());
    let sum = |bytes: fn(&FilesystemSpace) -> f64| {
        (!filesystems.is_empty()).then(|| filesystems.iter().map(bytes).sum::<f64>())
    };
    let (used_bytes, total_bytes) = (sum(|f| f.used_bytes), sum(|f| f.total_bytes));
    let holders = holders_of(&series.fronts, &filesystems);
    let sizes: Option<f64> = holders.iter().map(|front| front.bytes).sum();
    let device_bytes = sizes.filter(|_| !holders.is_empty() && filesystems.iter().all(|f| !f.fronts.is_empty()));
    let mut remarks = Vec::new();
    if let Some((total, device)) = total_bytes.zip(device_bytes) {
        remarks.extend(describe_sizes(&holders, total, device, series.is_of_windows));
    }
    let unplaced: Vec<&str> = filesystems.iter().filter(|f| f.fronts.is_empty()).map(|f| f.mount.as_str()).collect();
    if filesystems.is_empty() {
        remarks.push(describe_unknown_space(series, &left_out));
    } else if !unplaced.is_empty() {
        remarks.push(format!(
            "the log does not show which disk holds {}; they count as if they were on these disks",
            unplaced.join(", ")
        ));
    } else {
        remarks.extend(describe_bare_devices(&series.fronts, &holders));
    }
    let source = used_bytes.map(|_| source);
    SpaceSummary { source, used_bytes, total_bytes, device_bytes, filesystems, left_out, remarks }
}

/// Devices of the load that hold any of these filesystems, each once.
fn holders_of<'a>(fronts: &'a [FrontLoad], filesystems: &[FilesystemSpace]) -> Vec<&'a FrontLoad> {
    let mut holders: Vec<&FrontLoad> = Vec::new();
    for front in fronts {
        let holds = filesystems.iter().any(|filesystem| filesystem.fronts.contains(&front.name));
        if holds && !holders.iter().any(|holder| holder.name == front.name) {
            holders.push(front);
        }
    }
    holders
}

fn front_names(fronts: &[&FrontLoad]) -> String {
    fronts.iter().map(|front| front.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// Sizes of the filesystems and of their devices that do not agree, or leave a part of the devices unknown.
fn describe_sizes(holders: &[&FrontLoad], total_bytes: f64, device_bytes: f64, is_of_windows: bool) -> Option<String> {
    let (names, total, device) =
        (front_names(holders), ByteSize::capacity(total_bytes), ByteSize::capacity(device_bytes));
    if total_bytes > MAX_SIZE_RATIO * device_bytes {
        return Some(format!(
            "the sizes in the log do not agree: {names} with {device}, filesystems of {total} on it; check the sizes \
             with {}, and give --capacity",
            if is_of_windows { "Disk Management (diskmgmt.msc)" } else { "`df` and `lsblk`" }
        ));
    }
    (total_bytes < MIN_COVERED_SHARE * device_bytes).then(|| {
        format!("the filesystems cover {total} of the {device} of {names}; the log does not show what the rest holds")
    })
}

/// Why the space in use is unknown, and how to give it.
fn describe_unknown_space(series: &LoadSeries, left_out: &[FilesystemSpace]) -> String {
    let names = front_names(&series.fronts.iter().collect::<Vec<_>>());
    let given = "give the needed space with --capacity";
    let (shows_space, shows_places) = match series.is_of_windows {
        true => ("the properties of the drive show the space in use", "Disk Management shows it"),
        false => ("`df` shows the space in use", "`df`, `lsblk`"),
    };
    if left_out.is_empty() {
        return format!("the sizes of filesystems are unknown; {given} ({shows_space})");
    }
    match left_out.iter().all(|filesystem| filesystem.device.is_none()) {
        true => format!("the log does not show which filesystems are on {names}; {given} ({shows_places})"),
        false => format!("no filesystem of the log is on {names}; {given}"),
    }
}

/// Devices with a part of the load and no filesystem: a database on the bare device, or one that was not mounted.
fn describe_bare_devices(fronts: &[FrontLoad], holders: &[&FrontLoad]) -> Option<String> {
    let requests = |front: &FrontLoad| front.sums.reads + front.sums.writes;
    let all: f64 = fronts.iter().map(requests).sum();
    let is_bare = |front: &&FrontLoad| {
        requests(front) >= MIN_LOAD_SHARE * all && !holders.iter().any(|holder| holder.name == front.name)
    };
    let bare: Vec<&FrontLoad> = fronts.iter().filter(is_bare).collect();
    (!bare.is_empty()).then(|| {
        format!("no filesystem of the log is on {}: its space is not included; give --capacity", front_names(&bare))
    })
}
