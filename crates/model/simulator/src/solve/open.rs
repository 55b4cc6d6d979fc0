//! Open queues: jobs arrive from outside, at a rate that does not depend on the queue.

/// Steady state of a queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueueSolution {
    /// Utilization of each server.
    pub utilisation: f64,
    /// Mean time from arrival to completion, s.
    pub response_s: f64,
    /// Mean time before service, s.
    pub wait_s: f64,
    /// Mean number of jobs waiting and in service.
    pub jobs: f64,
}

/// Builds the solution from the mean wait; Little's law gives the other values.
fn queue_solution(arrivals_per_s: f64, service_s: f64, servers: f64, wait_s: f64) -> Option<QueueSolution> {
    let (utilisation, response_s) = (arrivals_per_s * service_s / servers, wait_s + service_s);
    let is_valid = arrivals_per_s >= 0.0 && service_s >= 0.0 && utilisation < 1.0 && wait_s >= 0.0;
    is_valid.then_some(QueueSolution { utilisation, response_s, wait_s, jobs: arrivals_per_s * response_s })
}

/// M/M/1: random arrivals, exponential service, one server. R = S / (1 - rho) (Kleinrock, Queueing Systems 1, 1975,
/// 3.2).
///
/// ```
/// use diskwright_simulator::solve::mm1;
/// // 80 requests a second of 10 ms each: utilization 80 %, 50 ms, four jobs on average
/// let queue = mm1(80.0, 0.010).unwrap();
/// assert!((queue.response_s - 0.050).abs() < 1e-12 && (queue.jobs - 4.0).abs() < 1e-9);
/// assert_eq!(mm1(100.0, 0.010), None);
/// ```
pub fn mm1(arrivals_per_s: f64, service_s: f64) -> Option<QueueSolution> {
    mg1(arrivals_per_s, service_s, 1.0)
}

/// M/G/1: random arrivals, any service of this mean and squared coefficient of variation, one server (Pollaczek 1930,
/// Khinchin 1932): R = S + lambda E[S²] / (2 (1 - rho)), with E[S²] = S² (1 + cv²).
///
/// ```
/// use diskwright_simulator::solve::mg1;
/// // half of M/M/1's wait if service is always the same: 10 + 40/2 ms
/// assert!((mg1(80.0, 0.010, 0.0).unwrap().response_s - 0.030).abs() < 1e-12);
/// ```
pub fn mg1(arrivals_per_s: f64, service_s: f64, service_cv2: f64) -> Option<QueueSolution> {
    let rho = arrivals_per_s * service_s;
    let square = service_s * service_s * (1.0 + service_cv2);
    queue_solution(arrivals_per_s, service_s, 1.0, arrivals_per_s * square / (2.0 * (1.0 - rho)))
}

/// M/D/1: as M/M/1 with constant service.
pub fn md1(arrivals_per_s: f64, service_s: f64) -> Option<QueueSolution> {
    mg1(arrivals_per_s, service_s, 0.0)
}

/// M/M/c: `servers` equal servers with one queue (Erlang 1917; Kleinrock 1, 3.5).
///
/// ```
/// use diskwright_simulator::solve::mmc;
/// // two servers, 3 a second, 0.5 s each: utilization 75 %, R = S / (1 - rho²) = 8/7 s
/// assert!((mmc(3.0, 0.5, 2).unwrap().response_s - 8.0 / 7.0).abs() < 1e-12);
/// ```
pub fn mmc(arrivals_per_s: f64, service_s: f64, servers: u32) -> Option<QueueSolution> {
    let servers = servers.max(1);
    let load = arrivals_per_s * service_s;
    let waiting_share = erlang_c(load, servers)?;
    let wait_s = waiting_share * service_s / (f64::from(servers) - load);
    queue_solution(arrivals_per_s, service_s, f64::from(servers), wait_s)
}

/// Erlang's C: the share of jobs that wait at `servers` servers under a load of `erlangs` (arrival rate times service
/// time). `None` at capacity and beyond.
///
/// Computed by the recurrence of Erlang's B, which stays exact for any number
/// of servers.
pub fn erlang_c(erlangs: f64, servers: u32) -> Option<f64> {
    let c = f64::from(servers);
    if !(erlangs >= 0.0 && erlangs < c) {
        return None;
    }
    let blocked = (1..=servers).fold(1.0, |b, k| erlangs * b / (f64::from(k) + erlangs * b));
    Some(blocked / (1.0 - erlangs / c * (1.0 - blocked)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_near(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-9, "{found} is not {expected}");
    }

    #[test]
    fn special_cases_agree() {
        for rho in [0.1, 0.5, 0.9, 0.99] {
            let (one, same) = (mm1(rho, 1.0).unwrap(), mmc(rho, 1.0, 1).unwrap());
            assert_near(one.response_s, 1.0 / (1.0 - rho));
            assert_near(same.response_s, one.response_s);
            assert_near(same.utilisation, rho);
            assert_near(md1(rho, 1.0).unwrap().wait_s, one.wait_s / 2.0);
            assert_near(mg1(rho, 1.0, 1.0).unwrap().jobs, rho / (1.0 - rho));
        }
    }

    #[test]
    fn matches_erlangs_tables() {
        // two servers: C = 2 rho² / (1 + rho)
        assert_near(erlang_c(1.5, 2).unwrap(), 2.0 * 0.5625 / 1.75);
        // c = 5, 4 erlangs: 0.5541 in Erlang's table
        assert!((erlang_c(4.0, 5).unwrap() - 0.5541).abs() < 5e-5);
        assert_eq!(erlang_c(5.0, 5), None);
        assert!(erlang_c(900.0, 1000).unwrap() > 0.0);
    }

    #[test]
    fn saturated_queues_have_no_solution() {
        for (arrivals, service) in [(1.0, 1.0), (2.0, 1.0), (f64::NAN, 1.0), (-1.0, 1.0), (1.0, -1.0), (1.0, f64::NAN)]
        {
            assert_eq!(mm1(arrivals, service), None, "{arrivals} {service}");
            assert_eq!(mmc(arrivals, service, 1), None, "{arrivals} {service}");
        }
        assert_eq!(mm1(0.0, 0.5).unwrap().response_s, 0.5);
    }
}
