//! Fork and join: a job is split into K parts, each served by its own queue, and is done when the last part is. A
//! striped request is such a job.

/// The K-th harmonic number: the mean of the maximum of K exponential times with mean 1.
pub fn harmonic_number(k: u32) -> f64 {
    (1..=k).map(|i| 1.0 / f64::from(i)).sum()
}

/// Mean response time of two queues with random arrivals and exponential service of mean `service_s`: exact.
/// R2 = (12 - rho) / 8 * S / (1 - rho) (Flatto and Hahn 1984; Nelson and Tantawi 1988).
///
/// ```
/// use diskwright_simulator::solve::fork_join_two;
/// // utilization 50 %: 11.5/8 of M/M/1's 2 s
/// assert!((fork_join_two(0.5, 1.0).unwrap() - 2.875).abs() < 1e-12);
/// ```
pub fn fork_join_two(arrivals_per_s: f64, service_s: f64) -> Option<f64> {
    let rho = arrivals_per_s * service_s;
    let is_valid = arrivals_per_s >= 0.0 && service_s > 0.0 && rho < 1.0;
    is_valid.then(|| (12.0 - rho) / 8.0 * service_s / (1.0 - rho))
}

/// Approximate mean response time of K queues (Nelson and Tantawi, "Approximate analysis of fork/join synchronization
/// in parallel queues", IEEE Trans. Computers 37(6), 1988, quoted as eq. 3 in Thomasian's survey of 2014): `(H_K/H_2 +
/// (1 - H_K/H_2) 4 rho / 11) (1.5 - rho/8) / (mu - lambda)`, which the authors found within 5 % of simulations up to K
/// = 32. Exact for K = 1 and 2.
///
/// ```
/// use diskwright_simulator::solve::fork_join;
/// // K = 4, utilization 50 %: H_4 = 25/12, (1.3889 - 0.3889 x 0.1818) x 1.4375 x 2 = 3.7898
/// assert!((fork_join(4, 0.5, 1.0).unwrap() - 3.7898).abs() < 1e-4);
/// ```
pub fn fork_join(k: u32, arrivals_per_s: f64, service_s: f64) -> Option<f64> {
    let two = fork_join_two(arrivals_per_s, service_s)?;
    let rho = arrivals_per_s * service_s;
    match k {
        0 => None,
        1 => Some(service_s / (1.0 - rho)),
        _ => {
            let ratio = harmonic_number(k) / harmonic_number(2);
            Some((ratio + (1.0 - ratio) * 4.0 * rho / 11.0) * two)
        }
    }
}

/// Throughput of two queues with a fixed number of users, each of whom sends its next request as soon as both parts are
/// done; exponential service of mean `service_s`: exact.
///
/// All users are at the longer queue; the shorter one has d fewer, 0 to N. Both serve at mu, so d rises as often as it
/// falls, but from 0 both transitions lead to 1: d = 1 to N are equally likely, 0 half as likely. A user continues when
/// the longer queue serves: X = mu 2N / (2N + 1).
///
/// ```
/// use diskwright_simulator::solve::fork_join_two_closed;
/// // one user: the longer of two, 1.5 S
/// assert!((fork_join_two_closed(1, 1.0) - 1.0 / 1.5).abs() < 1e-12);
/// ```
pub fn fork_join_two_closed(users: u32, service_s: f64) -> f64 {
    let twice = 2.0 * f64::from(users);
    twice / (twice + 1.0) / service_s
}

/// Mean response time of an otherwise empty system: the slowest of K exponential parts, H_K S; exact, and the limit of
/// [`fork_join`] without load.
pub fn fork_join_empty(k: u32, service_s: f64) -> f64 {
    harmonic_number(k) * service_s
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_match_simpler_formulas() {
        for k in 1..=32 {
            let empty = fork_join(k, 0.0, 0.01).unwrap();
            assert!((empty / fork_join_empty(k, 0.01) - 1.0).abs() < 1e-12, "{k}");
        }
        for rho in [0.2, 0.5, 0.9] {
            assert!((fork_join(2, rho, 1.0).unwrap() - fork_join_two(rho, 1.0).unwrap()).abs() < 1e-12);
            assert!((fork_join(1, rho, 1.0).unwrap() - 1.0 / (1.0 - rho)).abs() < 1e-12);
        }
        assert_eq!((fork_join(0, 0.1, 1.0), fork_join(3, 1.0, 1.0), fork_join_two(0.5, 0.0)), (None, None, None));
        assert!((harmonic_number(4) - 25.0 / 12.0).abs() < 1e-12);
    }
}
