//! The built-in drives can be read, say where their values come from, and do
//! in the simulation what is printed of them.

use diskwright_simulator::catalogue::measure::{Ask, measure};
use diskwright_simulator::catalogue::{self, EntryKind, FILES};
use diskwright_simulator::device::Device;

#[test]
fn every_file_is_read() {
    let mut count = 0;
    for (file, text) in FILES {
        count += catalogue::read(file, text).unwrap_or_else(|e| panic!("{e}")).len();
    }
    assert_eq!(catalogue::all().len(), count);
    for (at, entry) in catalogue::all().iter().enumerate() {
        let same = catalogue::all()[..at].iter().find(|other| other.id == entry.id);
        assert!(same.is_none(), "{} twice", entry.id);
        assert_eq!(catalogue::find(&entry.id.to_uppercase()).map(|e| &e.id), Some(&entry.id));
    }
}

/// Printed capacities are met: by mechanical drives nearly, as their zones are made from edges.
#[test]
fn capacities_are_those_in_print() {
    for entry in catalogue::all() {
        let device = entry.device().unwrap_or_else(|e| panic!("{}: {e}", entry.id));
        let found = device.blocks() as f64 * 512.0 / entry.capacity as f64;
        let off = if matches!(entry.kind, EntryKind::Mechanical(_)) { 0.03 } else { 1e-3 };
        assert!((found - 1.0).abs() < off, "{}: {found} of the printed capacity", entry.id);
    }
}

#[test]
fn checks_hold() {
    let mut wrong = String::new();
    for entry in catalogue::all() {
        let device = entry.device().unwrap_or_else(|e| panic!("{}: {e}", entry.id));
        for check in &entry.checks {
            // a write buffer must be full many times before the flash behind it shows
            let requests = match device {
                Device::Flash(_) if check.ask == Ask::RandomWrite => 300_000,
                // and what a window lets through at once must be little
                Device::Volume(_) => 100_000,
                _ => 10_000,
            };
            let (found, holds) = check.run(&device, requests);
            if !holds {
                wrong += &format!(
                    "{}: {} of {} KB at {}: {found:.1}, printed: {}\n",
                    entry.id,
                    check.ask.name(),
                    check.kb,
                    check.depth,
                    check.printed
                );
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// `cargo test -p diskwright-simulator --test catalogue -- --ignored --nocapture`: what all of them do.
#[test]
#[ignore = "a table to look at, not a test"]
fn table() {
    for entry in catalogue::all() {
        let device = entry.device().unwrap_or_else(|e| panic!("{}: {e}", entry.id));
        let started = std::time::Instant::now();
        let deep = if matches!(device, Device::Mechanical(_)) { 16 } else { 256 };
        let n = 20_000;
        let line: Vec<String> = Ask::ALL
            .iter()
            .map(|ask| {
                let blocks = if ask.name().starts_with("random") { 8 } else { 256 };
                let one = measure(&device, *ask, blocks, 1, n);
                let many = measure(&device, *ask, blocks, deep, n);
                if blocks == 8 {
                    format!("{:9.0} {:9.0}", one.iops, many.iops)
                } else {
                    format!("{:7.1} {:7.1}", one.bytes_per_s / 1e6, many.bytes_per_s / 1e6)
                }
            })
            .collect();
        eprintln!("{:24} {} ({:.2} s)", entry.id, line.join(" | "), started.elapsed().as_secs_f64());
    }
}
