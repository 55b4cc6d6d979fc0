//! Queueing theory through the complete engine: loads, paths, devices, arrays and reports against closed forms. Here
//! each to about 1 %; `cargo bench --bench queueing` tests more of them, to a quarter of that.

#[path = "common/truth.rs"]
mod truth;

use truth::*;

/// Half-width of the 95 % interval, as a share of the mean. A correct engine is four standard errors off once in
/// sixteen thousand runs.
const MAX_RELATIVE_HALF_WIDTH: f64 = 0.005;

fn check_cases(cases: &[Case]) {
    for case in cases {
        let row = case.run(MAX_RELATIVE_HALF_WIDTH);
        assert!(
            row.found.relative_half_width() < 2.0 * MAX_RELATIVE_HALF_WIDTH,
            "{}: {:?} is not sure",
            row.label,
            row.found
        );
        assert!(
            row.error.abs() < 2.0 * MAX_RELATIVE_HALF_WIDTH,
            "{}: {:?} where {} is right",
            row.label,
            row.found,
            row.truth_s
        );
        assert!(row.others < 0.01, "{}: {}", row.label, row.others);
        assert!(row.requests > 10_000, "{}", row.requests);
    }
}

#[test]
fn one_server_matches_closed_forms() {
    check_cases(&[mm1_at(0.3), mm1_at(0.5), md1_at(0.6), me1_at(0.5), mh1_at(0.2)]);
}

#[test]
fn several_servers_and_repairmen_match_closed_forms() {
    check_cases(&[mmc_at(3, 0.5), repairman(10, 9.0, 1), repairman(20, 5.0, 4)]);
}

#[test]
fn forks_and_joins_match_closed_forms() {
    check_cases(&[fork_two(0.2), fork_two(0.4), fork_closed(1), fork_closed(4), fork_alone(8)]);
}

#[test]
fn processors_and_devices_match_closed_forms() {
    check_cases(&[tandem(0.3, 0.5), network(4, 2.0, 0.5)]);
}
