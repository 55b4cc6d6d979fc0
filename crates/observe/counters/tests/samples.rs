//! Files of other people's machines, where they are at hand: the folder that
//! `DISKWRIGHT_SAMPLES` names, or `shared/samples` beside the checkout. They
//! are not part of the project; without them these tests say so and pass.

#![allow(clippy::disallowed_macros, reason = "what a test prints is shown when it fails")]

use std::path::PathBuf;

use diskwright_base::{DeviceKind, Note, RaidLevel};
use diskwright_counters::live::fake::FakeMachine;
use diskwright_counters::live::sources::{diskstats, mdstat};
use diskwright_counters::live::text_scan::text_lines;

fn folder() -> Option<PathBuf> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../../shared/samples");
    let folder = std::env::var_os("DISKWRIGHT_SAMPLES").map_or_else(|| PathBuf::from(beside), PathBuf::from);
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: no samples at {}", folder.display());
    None
}

/// Puts the files of a text archive (`ttar`) that lie below `from` into the
/// made-up machine below `to`. Gives how many.
fn unpack(machine: &FakeMachine, archive: &str, from: &str, to: &str) -> usize {
    let mut count = 0;
    let mut lines = archive.lines();
    let mut path = None;
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("Path: ") {
            path = name.strip_prefix(from).map(|rest| format!("{to}/{rest}"));
        } else if let Some(target) = line.strip_prefix("SymlinkTo: ") {
            if let Some(path) = path.take() {
                machine.put_link(&path, target);
                count += 1;
            }
        } else if let Some(number) = line.strip_prefix("Lines: ") {
            let number = number.parse().expect("a number of lines");
            let text: Vec<&str> = lines.by_ref().take(number).collect();
            let text = text.join("\n") + "\n";
            // the archive's way to write a zero byte and a missing last line end
            let text = text.replace("NULLBYTE", "\0").replace("EOF\n", "");
            if let Some(path) = path.take() {
                machine.put_file(&path, text);
                count += 1;
            }
        }
    }
    count
}

#[test]
fn diskstats_of_many_kernels_are_parsed() {
    let Some(folder) = folder() else { return };
    let text = std::fs::read(folder.join("procfs/ne_diskstats")).expect("the sample");
    let all: Vec<_> = text_lines(&text).filter(|l| !l.is_empty()).collect();
    let read: Vec<_> = all.iter().filter_map(|l| diskstats::parse_line(l)).collect();
    assert_eq!(read.len(), all.len(), "every line is understood");
    let disk = read.iter().find(|l| l.name == b"sda").expect("sda");
    assert!(disk.numbers[0].is_some_and(|n| n > 1000));
}

#[test]
fn mdstat_of_many_machines_is_parsed() {
    let Some(folder) = folder() else { return };
    for entry in std::fs::read_dir(folder.join("mdstat")).expect("the samples") {
        let path = entry.expect("an entry").path();
        let text = std::fs::read(&path).expect("a file");
        let mut found = 0;
        mdstat::parse_arrays(&text, |array| {
            found += 1;
            assert!(array.members > 0, "{}: {array:?}", path.display());
            assert_eq!(array.background.is_some(), array.done_kib.is_some(), "{}: {array:?}", path.display());
        });
        assert!(found > 0, "{}", path.display());
    }
    let text = std::fs::read(folder.join("mdstat/field_raid10_degraded_bitmap")).expect("the sample");
    let mut missing = Vec::new();
    mdstat::parse_arrays(&text, |a| missing.push(a.missing));
    assert_eq!(missing, [1, 0]);
}

#[test]
fn a_complete_proc_and_sys_is_sampled() {
    let Some(folder) = folder() else { return };
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect("the sample");
    let machine = FakeMachine::new();
    let proc = unpack(&machine, &read("procfs/procfs_fixtures.ttar"), "fixtures/proc/", "proc");
    let sys = unpack(&machine, &read("procfs/node_exporter_sys.ttar"), "sys/", "sys");
    assert!(proc > 100 && sys > 100, "{proc} {sys}");
    let mut watch = machine.watch_default();
    watch.tick().tick_after(1.0).tick_after(10.0);
    for note in watch.notes.iter().filter(|n| n.kind != Note::TOPOLOGY) {
        println!("{}: {}", note.kind, note.text());
    }
    let objects: std::collections::BTreeSet<&str> =
        watch.sampler.schema().series.iter().filter_map(|s| s.counter.split('.').next()).collect();
    println!("{objects:?}");
    for object in ["physical_disk", "processor", "memory", "system", "array", "network", "pressure"] {
        assert!(objects.contains(object), "{object} of {objects:?}");
    }
    let topology = watch.last_topology();
    println!("{topology:#?}");
    let sets = topology.devices.iter().filter(|d| d.kind == DeviceKind::Btrfs).collect::<Vec<_>>();
    assert!(sets.iter().any(|d| d.level == Some(RaidLevel::Raid0)), "{sets:?}");
}
