//! The sampler on the machine that runs the tests: whatever it is, a row fits
//! its schema, every series is of the catalogue, and no value is negative.

#![allow(clippy::disallowed_macros, reason = "what a test prints is shown when it fails")]

use diskwright_base::{Catalogue, Note};
use diskwright_counters::live::{Roots, Sampler, SamplerOptions, SystemClock};

#[test]
fn two_ticks_of_this_machine() {
    let mut sampler = Sampler::new(Roots::default(), Box::new(SystemClock), SamplerOptions::default());
    sampler.tick();
    assert_eq!(sampler.tick_stamp().elapsed_ns, 0);
    let until = std::time::Instant::now() + std::time::Duration::from_millis(20);
    while std::time::Instant::now() < until {
        std::hint::spin_loop();
    }
    sampler.tick();
    assert!(sampler.tick_stamp().elapsed_ns >= 20_000_000);
    let schema = sampler.schema().clone();
    assert_eq!(schema.series.len(), sampler.row().len());
    let mut seen = std::collections::HashSet::new();
    for (series, cell) in schema.series.iter().zip(sampler.row()) {
        assert!(seen.insert((&series.counter, &series.instance)), "{series:?} stands there twice");
        assert!(cell.is_nan() || *cell >= 0.0, "{series:?} is {cell}");
    }
    for note in sampler.take_notes() {
        println!("{}: {}", note.kind, note.text());
        match note.kind.as_str() {
            Note::TOPOLOGY => drop(note.read_topology().unwrap()),
            Note::PROCESSES => drop(note.read_processes().unwrap()),
            _ => {}
        }
    }
    for (series, cell) in schema.series.iter().zip(sampler.row()) {
        println!("{} {:?} {}", series.counter, series.instance, cell * series.scale);
    }
}

#[test]
fn every_series_is_of_the_catalogue() {
    let mut sampler = Sampler::new(Roots::default(), Box::new(SystemClock), SamplerOptions::default());
    sampler.tick();
    for series in &sampler.schema().series {
        assert!(Catalogue::builtin().get(&series.counter).is_some(), "{} is not in the catalogue", series.counter);
    }
}
