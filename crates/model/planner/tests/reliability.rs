//! Published and recomputed values of the planner's reliability formulas.

use diskwright_planner::reliability::mission_simulation::{MissionPlan, simulate_missions};
use diskwright_planner::reliability::*;
use diskwright_simulator::ArrayLevel;
use diskwright_simulator::theory::unreadable_probability;

fn near(found: f64, expected: f64, within: f64) {
    assert!((found / expected - 1.0).abs() <= within, "{found} is not {expected}");
}

/// A million hours, a day of repair, no unreadable sectors; years.
fn years(level: ArrayLevel, members: u16) -> f64 {
    let member = MemberReliability { afr: afr(1e6), errors_per_bit: 0.0 };
    mttdl_hours(level, members, member, 0.0, 24.0, 1.0).expect("enough members") / YEAR_HOURS
}

#[test]
fn mean_times_to_data_loss_match_recomputed_values() {
    let raid5 = [(2, 2_378_234.0), (4, 396_372.0), (8, 84_937.0), (12, 36_034.0)];
    for (members, expected) in raid5.into_iter().skip(1) {
        near(years(ArrayLevel::Raid5, members), expected, 1e-5);
    }
    // two members of RAID 5 are a mirror, which is how the level is written here
    near(years(ArrayLevel::Raid1, 2), raid5[0].1, 1e-5);
    for (members, expected) in [(4, 8.258e9), (8, 5.898e8), (12, 1.501e8)] {
        near(years(ArrayLevel::Raid6, members), expected, 3e-4);
    }
    for (members, expected) in [(4, 1_189_117.0), (8, 594_559.0), (12, 396_372.0)] {
        near(years(ArrayLevel::Raid10, members), expected, 1e-5);
    }
    // ten drives of 100,000 hours in single parity, a day: 4.63e6 h, 528 years
    let member = MemberReliability { afr: afr(1e5), errors_per_bit: 0.0 };
    let hours = mttdl_hours(ArrayLevel::Raid5, 10, member, 0.0, 24.0, 1.0).expect("enough members");
    near(hours, 4.63e6, 1e-3);
    near(hours / YEAR_HOURS, 528.0, 2e-3);
    // no redundancy: M / N
    near(years(ArrayLevel::Raid0, 4), 1e6 / 4.0 / YEAR_HOURS, 1e-9);
}

#[test]
fn unreadable_sectors_match_published_values() {
    let cases = [
        (12.5e12, 1e-14, 63.2),
        (12e12, 1e-14, 61.7),
        (12e12, 1e-15, 9.15),
        (4e12, 1e-14, 27.4),
        (140e12, 1e-15, 67.4),
    ];
    for (bytes, errors, percent) in cases {
        near(unreadable_probability(bytes, errors) * 100.0, percent, 1.2e-3);
    }
    // single parity by this way alone: M / (N P_u), and both ways together
    let member = MemberReliability { afr: afr(1e6), errors_per_bit: 1e-14 };
    let clean = MemberReliability { errors_per_bit: 0.0, ..member };
    let of = |member| mttdl_hours(ArrayLevel::Raid5, 8, member, 4e12, 24.0, 1.0).expect("enough members");
    let by_sectors = 1e6 / (8.0 * unreadable_probability(7.0 * 4e12, 1e-14));
    near(of(member), combined_mttdl_hours(of(clean), by_sectors), 1e-9);
    // double parity: M^2 / (N (N-1) R P_u) with both ways
    let of = |member| mttdl_hours(ArrayLevel::Raid6, 8, member, 4e12, 24.0, 1.0).expect("enough members");
    let by_sectors = 1e12 / (8.0 * 7.0 * 24.0 * unreadable_probability(6.0 * 4e12, 1e-14));
    near(of(member), combined_mttdl_hours(of(clean), by_sectors), 1e-9);
}

#[test]
fn window_model_matches_backblaze() {
    // 4 data and 2 parity, 10 % a year, a day of repair
    near(window_term(6, 3, 0.10, 1.0), 4.10786e-10, 1e-5);
    near(window_loss(6, 2, 0.10, 1.0), 1.49968e-7, 1e-5);
    assert_eq!(survival_nines(window_loss(6, 2, 0.10, 1.0)).floor(), 6.0);
    // the same table without parity, with one and with three
    for (parities, expected) in [(0, 0.4512), (1, 4.105e-4), (3, 3.082e-11)] {
        near(window_loss(6, parities, 0.10, 1.0), expected, 2e-4);
    }
    // 17 + 3, 0.405 %, 6.5 days: 7.36e-12 a year, about 11.1 nines
    near(window_loss(20, 3, 0.00405, 6.5), 7.36e-12, 2e-3);
    assert_eq!((survival_nines(window_loss(20, 3, 0.00405, 6.5)) * 10.0).round(), 111.0);
}

#[test]
fn rates_of_data_sheets_and_of_the_field() {
    near(mtbf_hours(afr(1.2e6)), 1.2e6, 1e-9);
    // Backblaze 2025: 4,317 failures in 115,638,676 drive-days
    let (rate, low, high) = field_rate(4317.0, 115_638_676.0);
    near(rate, 0.013626, 1e-4);
    assert!(low > 0.0132 && high < 0.0141 && low < rate && rate < high, "{low} {high}");
    // nothing failed yet: the rate is not known to be 0 (3.69 is the count of 95 %, on both sides)
    let (rate, low, high) = field_rate(0.0, 36_500.0);
    assert_eq!((rate, low), (0.0, 0.0));
    near(high, 0.03689, 1e-3);
}

#[test]
fn rebuilds_take_capacity_over_rate() {
    for (tb, mb, hours) in [(10.0, 150.0, 18.5), (20.0, 200.0, 27.8), (22.0, 150.0, 40.7), (24.0, 100.0, 66.7)] {
        near(rebuild_hours(tb * 1e12, mb * 1e6), hours, 3e-3);
    }
    let (best, floor) = md_rebuild_hours(24e12, 250e6);
    near(best, 24e12 / 204.8e6 / 3600.0, 1e-9);
    assert!(floor / 24.0 / 30.0 > 9.0, "months at the floor of md: {floor} h");
}

#[test]
fn mission_loss_of_groups() {
    near(mission_loss(1e6, 1e4), 9.95e-3, 1e-4);
    near(nested_mttdl_hours(years(ArrayLevel::Raid5, 4), 3.0) * 3.0, years(ArrayLevel::Raid5, 4), 1e-12);
}

#[test]
fn simulated_missions_agree_with_the_formula() {
    let member = MemberReliability { afr: 0.3, errors_per_bit: 0.0 };
    for (level, members, repair) in [
        (ArrayLevel::Raid5, 6u16, 48.0),
        (ArrayLevel::Raid10, 8, 240.0),
        (ArrayLevel::Raid01, 8, 240.0),
        (ArrayLevel::Raid6, 8, 240.0),
        (ArrayLevel::Raid0, 3, 24.0),
    ] {
        let hours = mttdl_hours(level, members, member, 0.0, repair, 1.0).expect("enough members");
        let plan = MissionPlan {
            level,
            members: u32::from(members),
            member,
            member_bytes: 1e12,
            repair_hours: repair,
            correlation: 1.0,
            years: 5.0,
        };
        let outcome = simulate_missions(&plan, 20_000, 7);
        let formula = mission_loss(hours, 5.0 * YEAR_HOURS);
        let (low, high) = outcome.loss_interval;
        // the formula leaves out terms of the order of repairs over lives, up to a tenth here
        assert!(formula > 0.85 * low && formula < 1.15 * high, "{level}: {formula} is not {outcome:?}");
        assert_eq!(outcome, simulate_missions(&plan, 20_000, 7));
        assert_ne!(outcome, simulate_missions(&plan, 20_000, 8));
    }
}

#[test]
fn correlated_failures_and_sectors_agree_with_simulated_missions() {
    let member = MemberReliability { afr: 0.05, errors_per_bit: 1e-15 };
    let of = |correlation, member| {
        let hours = mttdl_hours(ArrayLevel::Raid5, 6, member, 10e12, 48.0, correlation).expect("enough members");
        let plan = MissionPlan {
            level: ArrayLevel::Raid5,
            members: 6,
            member,
            member_bytes: 10e12,
            repair_hours: 48.0,
            correlation,
            years: 5.0,
        };
        (mission_loss(hours, 5.0 * YEAR_HOURS), simulate_missions(&plan, 20_000, 3))
    };
    let (formula, drawn) = of(1.0, member);
    assert!(formula > 0.95 * drawn.loss_interval.0 && formula < 1.05 * drawn.loss_interval.1, "{formula} {drawn:?}");
    // a sector that cannot be read costs a stripe, and not the array
    assert!(drawn.lost_share < drawn.loss / 20.0, "{drawn:?}");
    let clean = MemberReliability { errors_per_bit: 0.0, ..member };
    let ((once, _), (five, drawn)) = (of(1.0, clean), of(5.0, clean));
    near(five / once, 5.0, 0.05);
    assert!(five > 0.8 * drawn.loss_interval.0 && five < 1.2 * drawn.loss_interval.1, "{five} {drawn:?}");
}
