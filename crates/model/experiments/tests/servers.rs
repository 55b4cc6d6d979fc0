//! The servers of Compaq 1997 and NT Magazine 1998, in runs much shorter than those of the tables: relations that must
//! hold whatever is refined.

use diskwright_experiments::numbers::Numbers;
use diskwright_experiments::run::Variant;
use diskwright_experiments::simulate::simulate_variant;

fn simulate_system(system: &str, settings: &[(&str, &str)]) -> Numbers {
    let settings = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    simulate_variant(&Variant { system: system.to_owned(), settings, repeat: 1 })
        .unwrap_or_else(|because| panic!("{because}"))
}

fn netbench_bytes_per_s(system: &str, settings: &[(&str, &str)]) -> f64 {
    // users with think time need the table's 40 s until the caches are warm
    let short = [("watch.warm_up", "40s"), ("watch.duration", "40s")];
    let all: Vec<(&str, &str)> = short.iter().chain(settings).copied().collect();
    simulate_system(system, &all).get("workload.bytes_per_s").unwrap()
}

#[test]
fn gains_of_netbench_fall_as_drives_are_added() {
    let drives =
        |left: &str, right: &str| netbench_bytes_per_s("netbench-1", &[("left.count", left), ("right.count", right)]);
    let (four, eight, twelve) = (drives("2", "2"), drives("4", "4"), drives("6", "6"));
    let (first, second) = (eight / four - 1.0, twelve / eight - 1.0);
    assert!((0.35..0.85).contains(&first), "{first}");
    assert!((0.0..0.4).contains(&second) && second < first, "{second} after {first}");
}

#[test]
fn a_second_controller_helps_raid_5_more_than_raid_0() {
    let twelve = [("left.count", "6"), ("right.count", "6"), ("drive.model", "compaq-4gb")];
    let raid_5 = [("array.level", "raid5"), ("array.stripe_unit", "16KB")];
    let one_of_5: Vec<_> = twelve.iter().chain(&raid_5).copied().collect();
    let gain_0 = netbench_bytes_per_s("netbench-2", &[]) / netbench_bytes_per_s("netbench-1", &twelve) - 1.0;
    let gain_5 = netbench_bytes_per_s("netbench-2", &raid_5) / netbench_bytes_per_s("netbench-1", &one_of_5) - 1.0;
    assert!(gain_5 > gain_0 && (-0.1..0.15).contains(&gain_0), "{gain_5} against {gain_0}");
}

#[test]
fn copying_users_gain_less_than_disks_are_added() {
    let copy_with = |disks: &str| {
        let numbers = simulate_system("nt-copy", &[("watch.duration", "3min"), ("disk.count", disks)]);
        let number = |path: &str| numbers.get(path).unwrap();
        (number("workload.bytes_per_s"), number("workload.operation_s"), number("array.response_s"))
    };
    let (three, ten) = (copy_with("3"), copy_with("10"));
    let gain = ten.0 / three.0;
    assert!((1.1..1.8).contains(&gain), "{gain}");
    assert!(ten.1 < three.1 && ten.2 < three.2 * 0.8, "{three:?} {ten:?}");
}
