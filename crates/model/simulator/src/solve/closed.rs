//! Closed networks: a fixed number of users alternate between thinking and the centers that serve them, one visit after
//! another.

use super::harmonic_number;

/// Kind of a center.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MvaCenter {
    /// One server with a queue; the demand is the service time per round of a user, s (visits times service time).
    Queue(f64),
    /// As many servers as users: a pure delay per round, s.
    Delay(f64),
    /// Several servers with one queue; the demand is that of a round. Solved by the method of Seidmann, Schweitzer and
    /// Shalev-Oren (1987): a queue with the demand divided by the servers, and a delay for the remaining demand.
    Many {
        /// Service time per round, s.
        demand_s: f64,
        /// Servers.
        servers: u32,
    },
    /// Several parallel queues, each with this demand; a user continues when all of them are done (a striped request).
    /// Solved by the method of Varki, "Mean value technique for closed fork-join networks", SIGMETRICS 1999: R(n) = D
    /// (H_K + Q(n-1)). At most 3 % too slow in our simulations of 2 to 8 branches (`tests/queueing.rs`), exact for one
    /// user and in the limit of many.
    Fork {
        /// Service time per round at each branch, s.
        demand_s: f64,
        /// Branches.
        branches: u32,
    },
}

/// A center in the recurrence: R = demand (idle factor + Q) + delay.
struct MvaStation {
    /// Demand on a queue, s.
    demand_s: f64,
    /// Response time of a user that finds the center empty, in demands.
    idle_factor: f64,
    /// Delay besides the queue, s.
    delay_s: f64,
}

impl MvaCenter {
    fn to_station(self) -> MvaStation {
        match self {
            MvaCenter::Queue(demand) => MvaStation { demand_s: demand, idle_factor: 1.0, delay_s: 0.0 },
            MvaCenter::Delay(delay) => MvaStation { demand_s: 0.0, idle_factor: 1.0, delay_s: delay },
            MvaCenter::Many { demand_s, servers } => {
                let servers = f64::from(servers.max(1));
                MvaStation {
                    demand_s: demand_s / servers,
                    idle_factor: 1.0,
                    delay_s: demand_s * (servers - 1.0) / servers,
                }
            }
            MvaCenter::Fork { demand_s, branches } => {
                MvaStation { demand_s, idle_factor: harmonic_number(branches.max(1)), delay_s: 0.0 }
            }
        }
    }
}

/// A closed network of one class of users.
#[derive(Clone, Debug, PartialEq)]
pub struct ClosedNetwork {
    /// Users.
    pub users: u32,
    /// Mean think time between rounds, s.
    pub think_s: f64,
    /// The centers of a round.
    pub centers: Vec<MvaCenter>,
}

/// Steady state of a closed network.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NetworkSolution {
    /// Rounds per second, of all users.
    pub throughput_per_s: f64,
    /// Time of a round without thinking, s.
    pub response_s: f64,
    /// Mean number of users at each center.
    pub queues: Vec<f64>,
    /// Mean number of busy servers at each center (for a delay: users there; for a fork: at each branch).
    pub utilisations: Vec<f64>,
}

/// Exact mean value analysis (Reiser and Lavenberg, "Mean-value analysis of closed multichain queuing networks", JACM
/// 27(2), 1980): an arriving user sees a center in the state with one user fewer. R_k = D_k (1 + Q_k(n-1)),
/// X = n / (Z + sum R_k), Q_k = X R_k. Exact for exponential service; the work is users x centers.
///
/// ```
/// use diskwright_simulator::solve::{ClosedNetwork, MvaCenter, solve_exact};
/// // two users, two equal centers of 1 s: each sees half a user, X = 2/3
/// let network = ClosedNetwork { users: 2, think_s: 0.0, centers: vec![MvaCenter::Queue(1.0); 2] };
/// assert!((solve_exact(&network).throughput_per_s - 2.0 / 3.0).abs() < 1e-12);
/// ```
pub fn solve_exact(network: &ClosedNetwork) -> NetworkSolution {
    let parts: Vec<MvaStation> = network.centers.iter().map(|c| c.to_station()).collect();
    let mut queues = vec![0.0; parts.len()];
    let mut throughput = 0.0;
    for users in 1..=network.users {
        let delays: f64 = parts.iter().map(|p| p.delay_s).sum();
        let waits: f64 =
            parts.iter().zip(&queues).map(|(part, queue)| part.demand_s * (part.idle_factor + queue)).sum();
        throughput = f64::from(users) / (network.think_s + delays + waits);
        for (part, queue) in parts.iter().zip(&mut queues) {
            *queue = throughput * part.demand_s * (part.idle_factor + *queue);
        }
    }
    network_solution(network, &parts, &queues, throughput)
}

/// Schweitzer's approximation (1979; also Bard's): the network with one user fewer is this one, scaled down:
/// Q_k(n-1) = (n-1)/n Q_k(n). Solved by iteration from equal queues; the work does not grow with the users. It is never
/// above the exact throughput; on the networks of our test it is at most 6.3 % below, near the knee, and exact at both
/// ends of the load.
pub fn solve_schweitzer(network: &ClosedNetwork) -> NetworkSolution {
    const MAX_ROUNDS: usize = 10_000;
    let parts: Vec<MvaStation> = network.centers.iter().map(|c| c.to_station()).collect();
    let users = f64::from(network.users);
    if network.users == 0 {
        return solve_exact(network);
    }
    let seen_share = (users - 1.0) / users;
    let mut queues = vec![users / parts.len().max(1) as f64; parts.len()];
    let delays: f64 = parts.iter().map(|p| p.delay_s).sum();
    let mut throughput = 0.0;
    for _ in 0..MAX_ROUNDS {
        let waits: f64 =
            parts.iter().zip(&queues).map(|(p, queue)| p.demand_s * (p.idle_factor + seen_share * queue)).sum();
        throughput = users / (network.think_s + delays + waits);
        let mut change: f64 = 0.0;
        for (part, queue) in parts.iter().zip(&mut queues) {
            let new = throughput * part.demand_s * (part.idle_factor + seen_share * *queue);
            change = change.max((new - *queue).abs());
            *queue = new;
        }
        if change <= 1e-10 * users {
            break;
        }
    }
    network_solution(network, &parts, &queues, throughput)
}

fn network_solution(network: &ClosedNetwork, parts: &[MvaStation], queues: &[f64], throughput: f64) -> NetworkSolution {
    // no users, or no demand: no rounds, or no time per round
    let response_s = if network.users == 0 || !throughput.is_finite() {
        0.0
    } else {
        f64::from(network.users) / throughput - network.think_s
    };
    let rate = if network.users == 0 { 0.0 } else { throughput };
    let queues = parts.iter().zip(queues).map(|(part, queue)| queue + rate * part.delay_s).collect();
    let utilisations = parts.iter().map(|part| rate * (part.demand_s + part.delay_s)).collect();
    NetworkSolution { throughput_per_s: rate, response_s, queues, utilisations }
}

/// Returns lower and upper bounds of the rounds per second of any such network (Muntz and Wong 1974; Denning and Buzen
/// 1978): n / (Z + n D) and min(1 / D_max, n / (Z + D)).
pub fn throughput_bounds(network: &ClosedNetwork) -> (f64, f64) {
    let parts: Vec<MvaStation> = network.centers.iter().map(|c| c.to_station()).collect();
    let users = f64::from(network.users);
    let delay: f64 = network.think_s + parts.iter().map(|p| p.delay_s).sum::<f64>();
    let demand: f64 = parts.iter().map(|p| p.demand_s).sum();
    let max_demand = parts.iter().map(|p| p.demand_s).fold(0.0, f64::max);
    if network.users == 0 {
        return (0.0, 0.0);
    }
    (users / (delay + users * demand), (1.0 / max_demand).min(users / (delay + demand)))
}

/// The machine repairman model: `machines` machines (users), each working for a mean of `think_s` before it needs one
/// of `servers` repairmen for a mean of `service_s`, both exponential. From the balance equations, exact (Palm 1947;
/// Kleinrock 1, 3.8).
///
/// ```
/// use diskwright_simulator::solve::machine_repairman;
/// // one machine never waits: 1 / (9 + 1) repairs a second, 1 s each
/// let alone = machine_repairman(1, 9.0, 1.0, 1);
/// assert!((alone.throughput_per_s - 0.1).abs() < 1e-12 && (alone.response_s - 1.0).abs() < 1e-12);
/// ```
pub fn machine_repairman(machines: u32, think_s: f64, service_s: f64, servers: u32) -> NetworkSolution {
    let servers = servers.max(1);
    // weight of the state with n broken machines, each from the previous one; scaled to stay finite
    let (mut weight, mut weight_sum, mut broken, mut working) = (1.0f64, 1.0f64, 0.0f64, 0.0f64);
    for n in 1..=machines {
        let repaired_by = f64::from(n.min(servers));
        weight *= f64::from(machines - n + 1) * service_s / (think_s * repaired_by);
        weight_sum += weight;
        broken += weight * f64::from(n);
        working += weight * repaired_by;
        if weight_sum > 1e200 {
            (weight, weight_sum, broken, working) =
                (weight * 1e-200, weight_sum * 1e-200, broken * 1e-200, working * 1e-200);
        }
    }
    if !(weight_sum.is_finite() && service_s > 0.0) {
        // no think time: all users are always at the servers
        let busy = f64::from(machines.min(servers));
        let throughput = busy / service_s;
        let response_s = f64::from(machines) / throughput;
        let (queues, utilisations) = (vec![f64::from(machines)], vec![busy]);
        return NetworkSolution { throughput_per_s: throughput, response_s, queues, utilisations };
    }
    let (queue, utilisation) = (broken / weight_sum, working / weight_sum);
    let throughput_per_s = utilisation / service_s;
    let response_s = if machines == 0 { 0.0 } else { queue / throughput_per_s };
    NetworkSolution { throughput_per_s, response_s, queues: vec![queue], utilisations: vec![utilisation] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_near(found: f64, expected: f64, within: f64) {
        assert!((found / expected - 1.0).abs() <= within, "{found} is not {expected}");
    }

    fn queue_network(users: u32, think_s: f64, demands: &[f64]) -> ClosedNetwork {
        ClosedNetwork { users, think_s, centers: demands.iter().map(|d| MvaCenter::Queue(*d)).collect() }
    }

    #[test]
    fn balanced_networks_have_a_closed_form() {
        // K equal centers, no think time: X = n / (D (n + K - 1)) (Denning and Buzen 1978)
        for (users, centers) in [(1, 1), (3, 4), (20, 8), (100, 3)] {
            let solved = solve_exact(&queue_network(users, 0.0, &vec![0.01; centers]));
            assert_near(
                solved.throughput_per_s,
                f64::from(users) / (0.01 * (f64::from(users) + centers as f64 - 1.0)),
                1e-12,
            );
            assert_near(solved.queues.iter().sum::<f64>(), f64::from(users), 1e-12);
            assert_near(solved.queues[0], f64::from(users) / centers as f64, 1e-12);
        }
    }

    #[test]
    fn one_center_is_the_machine_repairman() {
        for users in [1, 2, 5, 20, 200] {
            for think in [0.1, 1.0, 10.0] {
                let solved = solve_exact(&queue_network(users, think, &[0.2]));
                let truth = machine_repairman(users, think, 0.2, 1);
                assert_near(solved.throughput_per_s, truth.throughput_per_s, 1e-9);
                assert_near(solved.response_s, truth.response_s, 1e-9);
                assert_near(solved.utilisations[0], truth.utilisations[0], 1e-9);
            }
        }
    }

    #[test]
    fn repairmen_match_hand_computed_states() {
        // three machines, think 2, service 1: weights 1, 1.5, 1.5, 0.75
        let one = machine_repairman(3, 2.0, 1.0, 1);
        assert_near(one.utilisations[0], 3.75 / 4.75, 1e-12);
        assert_near(one.queues[0], (1.5 + 3.0 + 2.25) / 4.75, 1e-12);
        // two repairmen: weights 1, 1.5, 0.75, 0.1875
        let two = machine_repairman(3, 2.0, 1.0, 2);
        assert_near(two.utilisations[0], (1.5 + 1.5 + 0.375) / 3.4375, 1e-12);
        // as many repairmen as machines: no machine waits
        let all = machine_repairman(50, 2.0, 1.0, 50);
        assert_near(all.response_s, 1.0, 1e-9);
        assert_near(all.throughput_per_s, 50.0 / 3.0, 1e-9);
        // no think time, and very many machines: the single server is never idle
        assert_near(machine_repairman(7, 0.0, 0.5, 1).response_s, 3.5, 1e-12);
        assert_near(machine_repairman(100_000, 1.0, 0.5, 1).throughput_per_s, 2.0, 1e-9);
        assert_eq!(machine_repairman(0, 1.0, 1.0, 1).response_s, 0.0);
    }

    #[test]
    fn schweitzer_is_near_and_costs_the_same_for_a_million() {
        for users in [1, 2, 5, 10, 50, 200] {
            for demands in [&[0.01, 0.01, 0.01][..], &[0.02, 0.005, 0.001], &[0.01; 14]] {
                for think in [0.0, 0.05, 1.0] {
                    let wanted = solve_exact(&queue_network(users, think, demands));
                    let found = solve_schweitzer(&queue_network(users, think, demands));
                    let ratio = found.throughput_per_s / wanted.throughput_per_s;
                    assert!(ratio < 1.0 + 1e-9 && ratio > 0.935, "{ratio}");
                    let (min, max) = throughput_bounds(&queue_network(users, think, demands));
                    let inside = |x: f64| x >= min * (1.0 - 1e-9) && x <= max * (1.0 + 1e-9);
                    assert!(inside(wanted.throughput_per_s) && inside(found.throughput_per_s));
                }
            }
        }
        assert_near(solve_schweitzer(&queue_network(1_000_000, 1.0, &[0.01, 0.02])).throughput_per_s, 50.0, 1e-6);
    }

    #[test]
    fn many_servers_are_near_the_exact_solution() {
        for (users, servers) in [(4, 2), (10, 4), (40, 8), (3, 8)] {
            let centers = vec![MvaCenter::Many { demand_s: 1.0, servers }];
            let found = solve_exact(&ClosedNetwork { users, think_s: 3.0, centers });
            let truth = machine_repairman(users, 3.0, 1.0, servers);
            // Seidmann's split is an approximation
            assert_near(found.throughput_per_s, truth.throughput_per_s, 0.08);
            assert!(found.utilisations[0] <= f64::from(servers));
        }
        let delay = solve_exact(&ClosedNetwork { users: 5, think_s: 1.0, centers: vec![MvaCenter::Delay(4.0)] });
        assert_eq!((delay.throughput_per_s, delay.response_s, delay.queues[0]), (1.0, 4.0, 4.0));
    }

    #[test]
    fn forks_match_their_limits() {
        let fork = |users, branches| {
            let centers = vec![MvaCenter::Fork { demand_s: 0.01, branches }];
            solve_exact(&ClosedNetwork { users, think_s: 0.0, centers })
        };
        // one user: the slowest of K; one branch: a plain queue; many users: every branch saturated
        assert_near(fork(1, 4).response_s, 0.01 * 25.0 / 12.0, 1e-12);
        assert_near(fork(9, 1).response_s, 0.09, 1e-12);
        assert_near(fork(20_000, 8).throughput_per_s, 100.0, 1e-3);
        assert!(fork(5, 8).utilisations[0] <= 1.0);
    }

    #[test]
    fn empty_networks_have_no_throughput() {
        let no_users = queue_network(0, 1.0, &[1.0]);
        for solved in [solve_exact(&no_users), solve_schweitzer(&no_users)] {
            assert_eq!((solved.throughput_per_s, solved.response_s, solved.queues[0]), (0.0, 0.0, 0.0));
        }
        assert_eq!(throughput_bounds(&no_users), (0.0, 0.0));
        let no_centers = solve_exact(&ClosedNetwork { users: 3, think_s: 1.0, centers: vec![] });
        assert_eq!((no_centers.throughput_per_s, no_centers.response_s), (3.0, 0.0));
    }
}
