//! PCP archives of real machines, where they are available: in the folder that `DISKWRIGHT_SAMPLES` names, or in
//! `shared/samples` beside the checkout. They are not part of the project; without them these tests print a message and
//! pass.

#![allow(clippy::disallowed_macros, reason = "what a test prints is shown when it fails")]

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use diskwright_base::{DeviceKind, Note, Topology};
use diskwright_logs::{LogInput, LogOptions, LogPiece, ReadSummary};

/// Returns summary, topology and the sums over ticks of the wanted counters by instance.
fn read_sample(name: &str, wanted: &[(&str, &str)]) -> Option<(ReadSummary, Topology, Vec<f64>)> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../../shared/samples");
    let folder = std::env::var_os("DISKWRIGHT_SAMPLES").map_or_else(|| PathBuf::from(beside), PathBuf::from);
    let path = folder.join("pcp").join(name);
    if !folder.join("pcp").is_dir() {
        println!("skipped: no sample {}", path.display());
        return None;
    }
    let (mut topology, mut sums) = (Topology::default(), vec![0.0; wanted.len()]);
    let mut sink = |piece: LogPiece<'_>| {
        match piece {
            LogPiece::Note(note) if note.kind == Note::TOPOLOGY => {
                topology = Arc::unwrap_or_clone(note.read_topology().expect("JSON"));
            }
            LogPiece::Note(_) => {}
            LogPiece::Frame(frame) => {
                for ((counter, instance), sum) in wanted.iter().zip(&mut sums) {
                    let Some(column) = frame.schema().column(counter, instance) else { continue };
                    let scale = frame.schema().series[column].scale;
                    *sum += frame.column(column).iter().filter(|v| !v.is_nan()).map(|v| v * scale).sum::<f64>();
                }
            }
        }
        ControlFlow::Continue(())
    };
    let mut input = LogInput::open(&path).expect("opens");
    let summary = diskwright_logs::read(&mut input, &LogOptions::default(), &mut sink).expect("is read");
    Some((summary, topology, sums))
}

#[test]
fn reads_a_disk_of_2005() {
    let wanted =
        [("physical_disk.reads", "hda"), ("physical_disk.writes", "hda"), ("physical_disk.busy_time_s", "hda")];
    let Some((summary, topology, sums)) = read_sample("kenj-pc-diskstat", &wanted) else { return };
    assert_eq!((summary.ticks, topology.host.as_str()), (11, "kenj-pc"));
    // pmdumplog's last value less its first
    assert_eq!(sums[..2], [6002.0, 1424.0]);
    assert!((sums[2] - 99.372).abs() < 1e-6, "busy for nearly all of 100 s: {}", sums[2]);
}

#[test]
fn reads_stacked_devices_of_version_3() {
    let Some((summary, topology, sums)) = read_sample("disk-a.index", &[("physical_disk.reads", "vda")]) else {
        return;
    };
    assert_eq!((summary.ticks, sums[0]), (5, 379.0));
    let kinds = |kind| topology.devices.iter().filter(|d| d.kind == kind).count();
    assert_eq!((kinds(DeviceKind::Disk), kinds(DeviceKind::Md), kinds(DeviceKind::Dm)), (3, 1, 1));
    assert!(topology.is_leaf("vda") && !topology.is_leaf("raid1"), "an array is no disk of its own");
}

#[test]
fn reads_twelve_hundred_disks_and_a_packed_sample() {
    let Some((summary, topology, _)) = read_sample("dstat-disks.0", &[]) else { return };
    assert_eq!((summary.ticks, summary.host.as_str(), topology.devices.len()), (3, "shard", 1272));
    let Some((summary, topology, _)) = read_sample("simple-nvme-a.0.xz", &[]) else { return };
    assert_eq!(summary.values, 0, "counters of one record say nothing");
    assert!(topology.devices.iter().any(|d| d.name == "nvme0n1"));
    let Some((summary, _, sums)) = read_sample("zero_disk_activity", &[("physical_disk.reads", "sda")]) else { return };
    assert_eq!((summary.ticks, sums[0]), (7, 0.0));
}
