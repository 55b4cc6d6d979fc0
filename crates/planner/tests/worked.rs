//! The documents' worked examples, and rules that others publish.

use diskwright_planner::arithmetic::*;
use diskwright_simulator::ArrayLevel;

fn near(found: f64, expected: f64, within: f64) {
    assert!((found - expected).abs() <= within, "{found} is not {expected}");
}

#[test]
fn doc_002_sizes_by_queue_and_load() {
    // W13, W14: 139 a disk of three; 68 by nine of the ten disks, as printed, and 61.5 by all
    near(back_end(126.0, 73.0, 4.0) / 3.0, 139.0, 0.5);
    near(back_end(147.0, 117.0, 4.0) / 9.0, 68.0, 0.5);
    near(back_end(147.0, 117.0, 4.0) / 10.0, 61.5, 1e-9);
    // a small write on three members really costs three I/Os
    assert_eq!(write_cost(ArrayLevel::Raid5, 3), 3.0);
    near(back_end(126.0, 73.0, write_cost(ArrayLevel::Raid5, 3)) / 3.0, 115.0, 1e-9);
    // W15: 6 allowed then, 20 with ten disks; 8 needed for 16 in flight, 10 recommended
    assert_eq!((queue_limit(3, 2.0), queue_limit(10, 2.0)), (6.0, 20.0));
    assert_eq!((disks_for_queue(16.0, 2.0), with_surplus(disks_for_queue(16.0, 2.0), 0.25)), (8, 10));
    // W16: 36 GB of ten 4 GB disks, and of five 9 GB disks, which hold too many in flight each
    assert_eq!(usable_members(ArrayLevel::Raid5, 10) * 4.0, 36.0);
    assert_eq!(usable_members(ArrayLevel::Raid5, 5) * 9.0, 36.0);
    assert!(16.0 > queue_limit(5, 2.0) && 16.0 <= queue_limit(10, 2.0));
    // and what the ten disks then did would be 123 a second on each of five, where 100 is the most
    near(back_end(147.0, 117.0, 4.0) / 5.0, 123.0, 1e-9);
}

#[test]
fn doc_001_channels_and_buses() {
    // W8 to W12
    assert_eq!(channel_idle(1, 5.0, 40.0), 0.875);
    assert_eq!((parts_that_fill(7.0, 40.0), 6.0 * 7.0), (6, 42.0));
    assert_eq!(parts_that_fill(5.0, 20.0), 4);
    assert_eq!((parts_that_fit(40.0, 133.0), 3.0 * 40.0), (3, 120.0));
    assert_eq!(slowest(&[5.0, 40.0, 40.0, 540.0]), Some(0));
    assert_eq!((14.0 * 2.0, 14.0 * 4.0), (28.0, 56.0));
    assert_eq!(usable_members(ArrayLevel::Raid0, 14) * 2.0, 28.0);
}

#[test]
fn rooms_as_calculators_print_them() {
    for (level, members, usable) in [
        (ArrayLevel::Raid5, 8, 7.0),
        (ArrayLevel::Raid6, 12, 10.0),
        (ArrayLevel::Raid10, 8, 4.0),
        (ArrayLevel::Raid10, 12, 6.0),
        (ArrayLevel::Raid0, 5, 5.0),
        (ArrayLevel::Raid1, 2, 1.0),
    ] {
        assert_eq!(usable_members(level, members), usable, "{level}");
    }
}

#[test]
fn three_rules_that_disagree() {
    // 1,000 at half writes
    let factors = [2.0, 4.0, 6.0].map(|factor| back_end(500.0, 500.0, factor));
    assert_eq!(factors, [1500.0, 2500.0, 3500.0]);
    // five of 180, 16 % writes in RAID 5: 608 by rule 1, 792 by rule 2
    near(front_end(900.0, 0.84, 4.0), 608.0, 0.5);
    near(front_end_blend(900.0, 0.84, 4.0), 792.0, 0.5);
    // the blend overstates by 30 %
    near(front_end_blend(900.0, 0.84, 4.0) / front_end(900.0, 0.84, 4.0), 1.30, 0.005);
    near(front_end_less_parity(5, 180.0, 0.84, 4.0), 756.0 + 28.8, 1e-9);
    near(front_end_blend(8.0 * 180.0, 0.84, 2.0), 1324.8, 0.1);
    // Dell TR1050: 2,358 at 70 % reads in RAID 6 prints 4,480, which is a penalty of 4; 5,895 is right
    near(back_end(0.7 * 2358.0, 0.3 * 2358.0, 6.0), 5895.0, 0.5);
    near(back_end(0.7 * 2358.0, 0.3 * 2358.0, 4.0), 4480.2, 0.1);
}

#[test]
fn members_loads_are_turned_back() {
    for (level, members) in [
        (ArrayLevel::Raid0, 4),
        (ArrayLevel::Raid1, 3),
        (ArrayLevel::Raid10, 6),
        (ArrayLevel::Raid5, 3),
        (ArrayLevel::Raid5, 8),
        (ArrayLevel::Raid6, 8),
    ] {
        let cost = write_cost(level, members);
        let parities = f64::from(level.info().parities);
        let written = if parities > 0.0 { 1.0 + parities } else { cost };
        let (reads, writes) = (126.0 + 73.0 * (cost - written), 73.0 * written);
        let (front_reads, front_writes) = turned_back(level, members, reads, writes).expect("possible");
        near(front_reads, 126.0, 1e-9);
        near(front_writes, 73.0, 1e-9);
    }
    // RAID 5 cannot write without reading
    assert_eq!(turned_back(ArrayLevel::Raid5, 8, 10.0, 200.0), None);
}
