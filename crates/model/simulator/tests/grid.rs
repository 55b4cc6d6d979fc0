//! The analysis against the simulation on 500 systems, and the simulation against its recorded results.

#[path = "common/grid.rs"]
mod systems;

use diskwright_simulator::Simulation;
use diskwright_simulator::analytic;

#[test]
fn the_grid_file_matches_the_grid() {
    let rows = systems::simulated();
    let points: Vec<systems::Point> = rows.iter().map(|row| row.point.clone()).collect();
    let (chosen, others) = systems::split();
    assert_eq!(points, chosen, "cargo bench -p diskwright-simulator --bench grid -- --simulate writes it anew");
    assert_eq!((points.len(), others.len()), (systems::SYSTEMS, 2976 - systems::SYSTEMS));
    // Little's law holds of closed users who do not think
    for row in rows {
        let users = row.throughput_per_s * row.response_s;
        assert!((users / f64::from(row.point.users) - 1.0).abs() < 0.02, "{}", systems::line(&row));
    }
}

#[test]
fn the_analysis_is_close_to_the_simulation() {
    let devices = systems::devices();
    let (mut errors, mut far) = (Vec::new(), Vec::new());
    for row in systems::simulated() {
        let solution = analytic::solve(&systems::system(&row.point, &devices)).expect("it can be solved");
        let throughput = solution.throughput_per_s / row.throughput_per_s - 1.0;
        let response = solution.response_s / row.response_s - 1.0;
        let error = throughput.abs().max(response.abs());
        errors.push(error);
        if error > 0.10 {
            far.push(format!("{throughput:+.3} {response:+.3} {}", systems::line(&row)));
        }
    }
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    let largest = errors.iter().copied().fold(0.0, f64::max);
    assert!(mean < 0.03, "a mean of {mean}");
    assert!(far.len() <= 10 && largest < 0.25, "beyond 10 %:\n{}", far.join("\n"));
}

#[test]
fn the_simulation_reproduces_the_grid() {
    let devices = systems::devices();
    for row in systems::simulated().into_iter().skip(30).step_by(83) {
        let report = Simulation::new(&systems::system(&row.point, &devices)).expect("possible").run(|_| {});
        let users = &report.workloads[0];
        let throughput = users.counts.request_count() as f64 / report.elapsed_s();
        let error = throughput / row.throughput_per_s - 1.0;
        assert!(error.abs() < 0.02, "{error:+.3} {}", systems::line(&row));
    }
}
