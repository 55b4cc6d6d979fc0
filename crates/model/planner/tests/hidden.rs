//! Load that saturation hides, compared with simulated systems whose load is known: users with a pause issue
//! `users / pause` requests per second to a device without waiting.

#![allow(clippy::disallowed_macros, reason = "a test prints what it measured")]

use diskwright_base::Frame;
use diskwright_planner::series::hidden_load::{HiddenLoad, find_hidden_load};
use diskwright_planner::series::{LoadCollector, LoadSeries};
use diskwright_simulator::Simulation;
use diskwright_simulator::sample_rows::SampleRows;
use diskwright_simulator::system::read::read;

/// Runs a system and collects its samples as from a log.
pub fn simulate_series(text: &str) -> LoadSeries {
    let system = read("a.toml", text, &[], &|_| Err(String::new())).unwrap_or_else(|p| panic!("{p}")).system;
    let mut samples = SampleRows::new(&system);
    let mut collector = LoadCollector::default();
    collector.set_topology(samples.topology().clone());
    let mut frame = Frame::new(samples.schema().clone(), 1);
    let mut row = Vec::new();
    Simulation::new(&system).expect("possible").run(|report| {
        let tick = samples.build_row(report, &mut row);
        frame.reset(samples.schema().clone(), 1);
        frame.push(tick, &row);
        collector.add_frame(&frame);
    });
    collector.finish()
}

fn estimate_hidden_load(text: &str, users: Option<f64>) -> Option<HiddenLoad> {
    let series = simulate_series(text);
    series.fronts.iter().find_map(|front| find_hidden_load(front, users))
}

const WATCH: &str = "[watch]\nwarm_up = \"60s\"\nduration = \"900s\"\n";

fn system(drives: &str, workload: &str) -> String {
    format!("{WATCH}{drives}\n[[workload]]\nsize = \"8KB\"\n{workload}\n")
}

const ONE_DISK: &str = "[[drive]]\nmodel = \"st32171w\"";
const RAID5: &str = "[[drive]]\nmodel = \"st32171w\"\ncount = 3\n[[array]]\nlevel = 5";
const RAID10: &str = "[[drive]]\nmodel = \"st32171w\"\ncount = 4\n[[array]]\nlevel = 10";
const GP3: &str = "[[drive]]\nmodel = \"aws-gp3\"";

/// Drives, workload, users, pause.
const CASES: [(&str, &str, f64, f64); 9] = [
    (ONE_DISK, "users = 150\nthink = { exponential = \"1s\" }", 150.0, 1.0),
    (ONE_DISK, "users = 400\nthink = { exponential = \"2s\" }", 400.0, 2.0),
    (ONE_DISK, "users = 1000\nthink = { exponential = \"8s\" }", 1000.0, 8.0),
    (RAID5, "users = 250\nread_share = 0.63\nthink = { exponential = \"1s\" }", 250.0, 1.0),
    (RAID5, "users = 900\nread_share = 0.63\nthink = { exponential = \"4s\" }", 900.0, 4.0),
    (RAID10, "users = 800\nread_share = 0.7\nthink = { exponential = \"2s\" }", 800.0, 2.0),
    (RAID10, "users = 2400\nread_share = 0.7\nthink = { exponential = \"6s\" }", 2400.0, 6.0),
    (GP3, "users = 8000\nthink = { exponential = \"2s\" }", 8000.0, 2.0),
    (ONE_DISK, "users = 450\nthink = { erlang = \"3s\", stages = 2 }", 450.0, 3.0),
];

#[test]
fn estimates_load_hidden_by_saturation() {
    let mut errors = Vec::new();
    for (drives, workload, users, pause) in CASES {
        let truth = users / pause;
        let text = system(drives, workload);
        let load = estimate_hidden_load(&text, None).unwrap_or_else(|| panic!("not seen as saturated: {text}"));
        let known = estimate_hidden_load(&text, Some(users)).expect("the same");
        println!(
            "{workload:?} truth {truth:.1} plateau {:.1} queue {:.1} demand {:?} in {:?} ({}); users known: {:?}",
            load.plateau_per_s, load.queue, load.asked_per_s, load.interval_per_s, load.method, known.asked_per_s
        );
        if let Some(demand_per_s) = load.asked_per_s {
            errors.push((demand_per_s / truth - 1.0).abs());
        }
        // with the number of users known, the response time law is within 10 %
        let exact = known.asked_per_s.expect("users are known");
        assert!((exact / truth - 1.0).abs() < 0.1, "{exact} {truth}");
    }
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    println!("errors {errors:?}, mean {mean}");
    assert_eq!(errors.len(), CASES.len(), "{errors:?}");
    assert!(mean < 0.05 && errors.iter().all(|e| *e < 0.15), "{errors:?}");
}

#[test]
fn device_that_keeps_up_hides_nothing() {
    let quiet = system(ONE_DISK, "users = 20\nthink = { exponential = \"1s\" }");
    assert_eq!(estimate_hidden_load(&quiet, None), None);
    let open = system(ONE_DISK, "rate = \"60/s\"");
    assert_eq!(estimate_hidden_load(&open, None), None);
    let eager = estimate_hidden_load(&system(ONE_DISK, "users = 16"), None).expect("saturated");
    assert_eq!(eager.asked_per_s, None, "{eager:?}");
    assert!(eager.method.starts_with("not enough data"), "{eager:?}");
}
