//! Busy disks beside their models in the catalogue.

use diskwright_planner::series::LoadSeries;
use diskwright_planner::series::model_distance::{DeviceDistance, find_model_distances, find_uncompared};

use crate::hidden::simulate_series;

/// A disk that one user reads at random places without a pause.
fn busy_disk(drive: &str) -> LoadSeries {
    simulate_series(&format!(
        "[watch]\nduration = \"120s\"\n[[drive]]\nmodel = \"{drive}\"\n[[workload]]\nusers = 1\nsize = \"4KB\"\n"
    ))
}

fn only(series: &LoadSeries) -> DeviceDistance {
    let found = find_model_distances(series);
    let [one] = &found[..] else { panic!("{found:?}") };
    one.clone()
}

#[test]
fn a_disk_is_as_its_model() {
    for drive in ["st32171w", "st18000nm000j"] {
        let found = only(&busy_disk(drive));
        assert_eq!(found.distance.drive, drive);
        assert!(found.distance.slower_share.abs() < 0.05 && !found.distance.is_far, "{found:?}");
        assert!(found.busy_s > 100.0 && found.distance.in_flight == 1, "{found:?}");
    }
}

/// A disk that does what one of 1997 does, and reports that it is of 15,000 rpm.
#[test]
fn a_disk_slower_than_its_model_is_far_from_it() {
    let mut series = busy_disk("st32171w");
    (series.fronts[0].model, series.fronts[0].bytes) = (Some("SEAGATE ST3600057SS".into()), None);
    let found = only(&series).distance;
    assert!(found.is_far && found.measured_per_s < 0.6 * found.model_per_s, "{found:?}");
}

#[test]
fn idle_disks_writes_arrays_and_unknown_models_are_not_compared() {
    let changed = |change: fn(&mut LoadSeries)| {
        let mut series = busy_disk("st32171w");
        change(&mut series);
        find_model_distances(&series).len()
    };
    assert_eq!(changed(|_| ()), 1);
    assert_eq!(changed(|series| series.fronts[0].model = Some("QEMU HARDDISK".into())), 0);
    assert_eq!(changed(|series| series.fronts[0].model = None), 0);
    assert_eq!(changed(|series| series.fronts[0].members = 2), 0);
    // a minute at work shows more than a moment
    assert_eq!(changed(|series| series.fronts[0].busy_sums.seconds = 5.0), 0);
    assert_eq!(changed(|series| series.fronts[0].busy_sums.writes = series.fronts[0].busy_sums.reads), 0);
    let idle = simulate_series(
        "[watch]\nduration = \"120s\"\n[[drive]]\nmodel = \"st32171w\"\n[[workload]]\nrate = \"10/s\"\n\
         size = \"4KB\"\n",
    );
    assert_eq!(find_model_distances(&idle), []);
}

/// Whoever names a model learns why there is no comparison.
#[test]
fn what_is_not_compared_has_a_reason() {
    let reason = |change: fn(&mut LoadSeries)| {
        let mut series = busy_disk("st32171w");
        change(&mut series);
        let found = find_uncompared(&series);
        found.first().map_or(String::new(), |(_, because)| because.clone())
    };
    assert_eq!(reason(|_| ()), "");
    assert!(reason(|series| series.fronts[0].members = 2).contains("array"));
    assert!(reason(|series| series.fronts[0].busy_sums.seconds = 5.0).contains("less than 10 s"));
    assert!(reason(|series| series.fronts[0].busy_sums.writes = 1e6).contains("writes"));
    let without_busy = reason(|series| {
        (series.fronts[0].busy_sums, series.fronts[0].sums.busy_s) = (Default::default(), 0.0);
    });
    assert!(without_busy.contains("% Idle Time"), "{without_busy}");
}
