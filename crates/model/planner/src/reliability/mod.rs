//! Probability of data loss: failure rates, mean times to data loss, chances over a mission, and rebuild times. Every
//! figure assumes that members fail independently at a constant rate; `mission_simulation` simulates lives beside the
//! formulas, and [`FailureView`] shows the effect of data-sheet rates, field rates and correlated failures.

pub mod mission_simulation;

use diskwright_simulator::ArrayLevel;
use diskwright_simulator::theory::{self, FailureRates};
use diskwright_statistics::distribution::ln_gamma;

/// Hours of a year of 365 days, as used for published AFRs.
pub const YEAR_HOURS: f64 = 8760.0;

/// Annual failure rate of a mean time between failures, hours: 1 - exp(-8760 / M).
///
/// ```
/// use diskwright_planner::reliability::{afr, mtbf_hours};
/// // data sheets: 2.0 million hours and 0.44 %, 1.6 million hours and 0.55 %
/// assert_eq!((afr(2.0e6) * 1e4).round(), 44.0);
/// assert_eq!((afr(1.6e6) * 1e4).round(), 55.0);
/// assert!((mtbf_hours(afr(1.2e6)) / 1.2e6 - 1.0).abs() < 1e-9);
/// ```
pub fn afr(mtbf_hours: f64) -> f64 {
    -(-YEAR_HOURS / mtbf_hours).exp_m1()
}

/// Mean time between failures of an annual failure rate, hours: -8760 / ln(1 - AFR).
pub fn mtbf_hours(afr: f64) -> f64 {
    -YEAR_HOURS / (-afr).ln_1p()
}

/// Chance of a loss within `hours` if losses come at a constant rate: 1 - exp(-T / MTTDL).
pub fn mission_loss(mttdl_hours: f64, hours: f64) -> f64 {
    -(-hours / mttdl_hours).exp_m1()
}

/// Mean time to data loss of groups if the loss of one is the loss of all (RAID 50 and 60: striped groups of RAID 5 or
/// 6): a group's, divided by the number of groups.
pub fn nested_mttdl_hours(group_hours: f64, groups: f64) -> f64 {
    group_hours / groups
}

/// Combines two independent causes of data loss: rates add.
pub fn combined_mttdl_hours(a_hours: f64, b_hours: f64) -> f64 {
    1.0 / (1.0 / a_hours + 1.0 / b_hours)
}

/// Chance that exactly `k` of `n` fail within `days` at an annual rate, p = 1 - exp(-AFR d / 365)
/// (Backblaze, "erasure-coding-durability").
pub fn window_term(n: u32, k: u32, annual_rate: f64, days: f64) -> f64 {
    let p = -(-annual_rate * days / 365.0).exp_m1();
    let (n, k) = (f64::from(n), f64::from(k));
    let choose = ln_gamma(n + 1.0) - ln_gamma(k + 1.0) - ln_gamma(n - k + 1.0);
    (choose + k * p.ln() + (n - k) * (-p).ln_1p()).exp()
}

/// Annual chance of a loss by the window model: in no window of `days`, in which failed members are replaced, may more
/// than `parities` of `n` fail (Backblaze, as above).
pub fn window_loss(n: u32, parities: u32, annual_rate: f64, days: f64) -> f64 {
    let window: f64 = (parities + 1..=n).map(|k| window_term(n, k, annual_rate, days)).sum();
    -((365.0 / days) * (-window).ln_1p()).exp_m1()
}

/// Number of nines of a survival probability: how many 1 - loss begins with.
pub fn survival_nines(loss: f64) -> f64 {
    -loss.log10()
}

/// Annual rate from a field count, with its 95 % confidence bounds (failures are a Poisson count; the bounds are those
/// of the chi-square distribution).
pub fn field_rate(failures: f64, drive_days: f64) -> (f64, f64, f64) {
    let years = drive_days / 365.0;
    let low = if failures > 0.0 { gamma_quantile(failures, 0.025) } else { 0.0 };
    (failures / years, low / years, gamma_quantile(failures + 1.0, 0.975) / years)
}

/// Quantile of the gamma distribution of scale 1, by bisection.
pub fn gamma_quantile(shape: f64, chance: f64) -> f64 {
    let (mut low, mut high) = (0.0, shape + 10.0 * shape.sqrt() + 40.0);
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if gamma_share(shape, middle) < chance { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// Share of the gamma distribution of scale 1 below `x` (Abramowitz and Stegun 6.5.29 for small x,
/// else Lentz's continued fraction 6.5.31).
pub fn gamma_share(shape: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let front = (shape * x.ln() - x - ln_gamma(shape)).exp();
    if x < shape + 1.0 {
        let (mut term, mut sum, mut n) = (1.0 / shape, 1.0 / shape, shape);
        while term > sum * 1e-14 {
            n += 1.0;
            term *= x / n;
            sum += term;
        }
        return front * sum;
    }
    let (mut b, mut c) = (x + 1.0 - shape, 1e300);
    let mut d = 1.0 / b;
    let mut h = d;
    for i in 1..10_000 {
        let i = f64::from(i);
        let a = -i * (i - shape);
        b += 2.0;
        d = 1.0 / (a * d + b);
        c = b + a / c;
        h *= c * d;
        if (c * d - 1.0).abs() < 1e-14 {
            break;
        }
    }
    1.0 - front * h
}

/// Failure rates of members.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemberReliability {
    /// Annual failure rate.
    pub afr: f64,
    /// Errors per bit read; 0 to leave them out.
    pub errors_per_bit: f64,
}

/// Source of the failure rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureView {
    /// Data-sheet rates, with unreadable sectors at the published bound.
    Spec,
    /// Rates reported by large users, without unreadable sectors: scrubs find far fewer than published.
    Field,
    /// Field rates, with members failing five times as often while one is down (failures correlate within a group:
    /// NetApp, FAST 2020; the factor is a what-if).
    Correlated,
}

/// Factor by which members fail more often while another is down, in [`FailureView::Correlated`].
pub const CORRELATED_FAILURE_FACTOR: f64 = 5.0;

/// Mean time to data loss of a design, hours; `None` if the level cannot have this many members.
pub fn mttdl_hours(
    level: ArrayLevel,
    members: u16,
    member: MemberReliability,
    member_bytes: f64,
    repair_hours: f64,
    correlation: f64,
) -> Option<f64> {
    // a member that fails this much more often while another is down is equivalent to a repair that takes this much
    // longer
    let rates = FailureRates {
        mttf: mtbf_hours(member.afr),
        mttr: repair_hours * correlation,
        member_bytes,
        errors_per_bit: member.errors_per_bit,
    };
    theory::mttdl(level, members, 2, &rates)
}

/// Hours of a rebuild at a rate: capacity over rate.
pub fn rebuild_hours(capacity_bytes: f64, bytes_per_s: f64) -> f64 {
    capacity_bytes / bytes_per_s / 3600.0
}

/// Minimum rate that Linux md keeps up while others use the array, bytes/s per device (md(4): `speed_limit_min`, 1000
/// KiB/s by default).
pub const MD_FLOOR_BYTES_PER_S: f64 = 1_024_000.0;
/// Maximum rate of md, bytes/s per device (`speed_limit_max`, 200,000 KiB/s by default).
pub const MD_CEILING_BYTES_PER_S: f64 = 204_800_000.0;

/// Rebuild times of an md array, hours: at the best rate (the drive's, at most md's maximum), and at the minimum to
/// which md falls while the array is busy.
pub fn md_rebuild_hours(capacity_bytes: f64, drive_bytes_per_s: f64) -> (f64, f64) {
    let best = drive_bytes_per_s.min(MD_CEILING_BYTES_PER_S);
    (rebuild_hours(capacity_bytes, best), rebuild_hours(capacity_bytes, MD_FLOOR_BYTES_PER_S.min(best)))
}
