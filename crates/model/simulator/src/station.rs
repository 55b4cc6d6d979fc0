//! A station: a number of equal servers with one queue in front, first come first served, and its statistics. Urgent
//! jobs, as interrupts are to a processor, go before all others that wait. A station has no clock: its owner reports
//! each event with its time and schedules the returned completions.

use std::collections::VecDeque;

use crate::Ns;

/// A job for a station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StationJob {
    /// The owner's number; the station ignores it.
    pub id: u32,
    /// Arrival time.
    pub arrived_ns: Ns,
    /// Service time.
    pub service_ns: Ns,
}

/// Time integrals of a station since the beginning. The difference of two snapshots ([`StationTotals::delta_since`])
/// is a sample: every statistic of the period follows from it with the right weights.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StationTotals {
    /// Elapsed time, ns.
    pub elapsed_ns: u64,
    /// Service time, summed over all servers, ns.
    pub service_ns: u128,
    /// Time with at least one busy server, ns.
    pub busy_ns: u64,
    /// Integral of the number of jobs waiting and in service, job ns.
    pub queue_ns: u128,
    /// Arrivals.
    pub arrived: u64,
    /// Completions.
    pub completed: u64,
    /// Sum of the response times of completed jobs, ns.
    pub response_ns: u128,
    /// Sum of the squares of these response times, s².
    pub response_squares_s2: f64,
}

impl StationTotals {
    /// Returns the difference from an earlier snapshot.
    pub fn delta_since(&self, earlier: &StationTotals) -> StationTotals {
        StationTotals {
            elapsed_ns: self.elapsed_ns - earlier.elapsed_ns,
            service_ns: self.service_ns - earlier.service_ns,
            busy_ns: self.busy_ns - earlier.busy_ns,
            queue_ns: self.queue_ns - earlier.queue_ns,
            arrived: self.arrived - earlier.arrived,
            completed: self.completed - earlier.completed,
            response_ns: self.response_ns - earlier.response_ns,
            response_squares_s2: self.response_squares_s2 - earlier.response_squares_s2,
        }
    }

    /// Mean number of busy servers; NaN if no time passed.
    pub fn utilisation(&self) -> f64 {
        self.service_ns as f64 / self.elapsed_ns as f64
    }

    /// Share of time with a busy server; NaN if no time passed.
    pub fn busy_share(&self) -> f64 {
        self.busy_ns as f64 / self.elapsed_ns as f64
    }

    /// Mean number of jobs waiting and in service; NaN if no time passed.
    pub fn mean_queue(&self) -> f64 {
        self.queue_ns as f64 / self.elapsed_ns as f64
    }

    /// Completions per second; NaN if no time passed.
    pub fn throughput_per_s(&self) -> f64 {
        self.completed as f64 / (self.elapsed_ns as f64 * 1e-9)
    }

    /// Mean response time, s; NaN if nothing was completed.
    pub fn response_s(&self) -> f64 {
        self.response_ns as f64 * 1e-9 / self.completed as f64
    }

    /// Standard deviation of the response time, s; NaN if nothing was completed.
    pub fn response_deviation_s(&self) -> f64 {
        let mean = self.response_s();
        (self.response_squares_s2 / self.completed as f64 - mean * mean).max(0.0).sqrt()
    }
}

/// Counts arrivals, starts and completions anywhere. Its owner reports each event with its time.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    working: u32,
    present: u32,
    totals: StationTotals,
}

impl Meter {
    /// Number of jobs waiting and in service.
    #[inline]
    pub fn jobs_present(&self) -> u32 {
        self.present
    }

    /// Number of busy servers.
    #[inline]
    pub fn servers_working(&self) -> u32 {
        self.working
    }

    /// Returns the integrals up to now.
    pub fn totals(&mut self, now: Ns) -> StationTotals {
        self.advance_to(now);
        self.totals
    }

    /// Records an arrival.
    #[inline]
    pub fn record_arrival(&mut self, now: Ns) {
        self.advance_to(now);
        self.totals.arrived += 1;
        self.present += 1;
    }

    /// Records that a server starts on a job.
    #[inline]
    pub fn record_start(&mut self, now: Ns) {
        self.advance_to(now);
        self.working += 1;
    }

    /// Records that a server drops a job that is not done.
    pub fn record_stop(&mut self, now: Ns) {
        self.advance_to(now);
        self.working = self.working.saturating_sub(1);
    }

    /// Records the completion of a job that arrived at `arrived`.
    #[inline]
    pub fn record_completion(&mut self, now: Ns, arrived: Ns) {
        self.advance_to(now);
        debug_assert!(self.present > 0, "a job completes that is not present");
        self.present = self.present.saturating_sub(1);
        self.working = self.working.saturating_sub(1);
        let response = now.saturating_sub(arrived);
        self.totals.completed += 1;
        self.totals.response_ns += u128::from(response);
        let seconds = response as f64 * 1e-9;
        self.totals.response_squares_s2 += seconds * seconds;
    }

    /// Advances the integrals to now.
    #[inline]
    fn advance_to(&mut self, now: Ns) {
        let elapsed = now.saturating_sub(self.totals.elapsed_ns);
        if elapsed > 0 {
            self.totals.elapsed_ns = now;
            self.totals.service_ns += u128::from(elapsed) * u128::from(self.working);
            self.totals.busy_ns += if self.working > 0 { elapsed } else { 0 };
            self.totals.queue_ns += u128::from(elapsed) * u128::from(self.present);
        }
        debug_assert!(self.totals.busy_ns <= self.totals.elapsed_ns, "the busy time exceeds the elapsed time");
    }
}

/// A number of servers and the queue in front of them.
#[derive(Clone, Debug)]
pub struct Station {
    servers: u32,
    waiting: VecDeque<StationJob>,
    /// Urgent jobs that wait.
    urgent: VecDeque<StationJob>,
    meter: Meter,
}

impl Station {
    /// A station with at least one server.
    pub fn new(servers: u32) -> Station {
        Station { servers: servers.max(1), waiting: VecDeque::new(), urgent: VecDeque::new(), meter: Meter::default() }
    }

    /// Number of jobs waiting and in service.
    pub fn jobs_present(&self) -> usize {
        self.meter.jobs_present() as usize
    }

    /// Number of servers.
    pub fn server_count(&self) -> u32 {
        self.servers
    }

    /// Returns the integrals up to now.
    pub fn totals(&mut self, now: Ns) -> StationTotals {
        self.meter.totals(now)
    }

    /// Adds a job. If a server is free, the job starts at once, and its end is returned.
    #[must_use = "the end of service must be scheduled"]
    #[inline]
    pub fn add_job(&mut self, now: Ns, job: StationJob) -> Option<Ns> {
        let end = self.start_if_free(now, &job);
        if end.is_none() {
            self.waiting.push_back(job);
        }
        end
    }

    /// Adds a job that goes before all others that wait, but after the urgent ones before it; the jobs in service stay.
    #[must_use = "the end of service must be scheduled"]
    #[inline]
    pub fn add_urgent_job(&mut self, now: Ns, job: StationJob) -> Option<Ns> {
        let end = self.start_if_free(now, &job);
        if end.is_none() {
            self.urgent.push_back(job);
        }
        end
    }

    /// Records an arrival, and starts the job if a server is free: returns its end.
    #[inline]
    fn start_if_free(&mut self, now: Ns, job: &StationJob) -> Option<Ns> {
        self.meter.record_arrival(now);
        debug_assert!(
            self.meter.servers_working() <= self.servers,
            "{} of {} servers",
            self.meter.servers_working(),
            self.servers
        );
        if self.meter.servers_working() == self.servers {
            return None;
        }
        debug_assert!(self.waiting.is_empty() && self.urgent.is_empty(), "no server is free while a job waits");
        self.meter.record_start(now);
        Some(now.saturating_add(job.service_ns))
    }

    /// Completes a job. Returns the job that starts in its place, if one waits, and its end.
    #[must_use = "the end of service must be scheduled"]
    #[inline]
    pub fn complete_job(&mut self, now: Ns, job: &StationJob) -> Option<(Ns, StationJob)> {
        let waiting = self.waiting.len() + self.urgent.len();
        debug_assert!(self.jobs_present() > waiting, "a job completes that was not in service");
        self.meter.record_completion(now, job.arrived_ns);
        let next = self.urgent.pop_front().or_else(|| self.waiting.pop_front())?;
        self.meter.record_start(now);
        debug_assert_eq!(self.meter.servers_working(), self.servers, "no server is free while a job waits");
        Some((now.saturating_add(next.service_ns), next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integrates_one_server() {
        let mut station = Station::new(1);
        let job = |id, arrived| StationJob { id, arrived_ns: arrived, service_ns: 100 };
        assert_eq!(station.add_job(0, job(1, 0)), Some(100));
        assert_eq!(station.add_job(40, job(2, 40)), None);
        assert_eq!(station.jobs_present(), 2);
        assert_eq!(station.complete_job(100, &job(1, 0)), Some((200, job(2, 40))));
        assert_eq!(station.complete_job(200, &job(2, 40)), None);
        let totals = station.totals(400);
        // two jobs at 40 to 100, one at 0 to 40 and 100 to 200
        assert_eq!((totals.elapsed_ns, totals.busy_ns, totals.service_ns), (400, 200, 200));
        assert_eq!((totals.queue_ns, totals.arrived, totals.completed), (260, 2, 2));
        assert_eq!(totals.response_ns, 100 + 160);
        assert_eq!((totals.busy_share(), totals.mean_queue(), totals.response_s()), (0.5, 0.65, 130e-9));
        assert!((totals.response_deviation_s() - 30e-9).abs() < 1e-12);
        // Little's law: jobs present = arrival rate times time in the station
        assert!((totals.mean_queue() - totals.throughput_per_s() * totals.response_s()).abs() < 1e-12);
    }

    #[test]
    fn urgent_jobs_go_before_those_that_wait_and_not_before_those_in_service() {
        let mut station = Station::new(1);
        let job = |id| StationJob { id, arrived_ns: 0, service_ns: 10 };
        assert_eq!((station.add_job(0, job(1)), station.add_job(0, job(2))), (Some(10), None));
        assert_eq!((station.add_urgent_job(5, job(3)), station.add_urgent_job(6, job(4))), (None, None));
        assert_eq!(station.complete_job(10, &job(1)), Some((20, job(3))));
        assert_eq!(station.complete_job(20, &job(3)), Some((30, job(4))));
        assert_eq!(station.complete_job(30, &job(4)), Some((40, job(2))));
        assert_eq!((station.complete_job(40, &job(2)), station.jobs_present()), (None, 0));
        assert_eq!(station.add_urgent_job(50, job(5)), Some(60), "a free server starts at once");
    }

    #[test]
    fn integrates_two_servers_over_two_stretches() {
        let mut station = Station::new(2);
        let job = |id| StationJob { id, arrived_ns: 0, service_ns: 10 };
        assert_eq!((station.add_job(0, job(1)), station.add_job(0, job(2))), (Some(10), Some(10)));
        assert_eq!(station.add_job(0, job(3)), None);
        let first = station.totals(5);
        assert_eq!((first.utilisation(), first.busy_share(), first.mean_queue()), (2.0, 1.0, 3.0));
        assert_eq!(station.complete_job(10, &job(1)), Some((20, job(3))));
        assert_eq!(station.complete_job(10, &job(2)), None);
        assert_eq!(station.complete_job(20, &job(3)), None);
        let rest = station.totals(20).delta_since(&first);
        assert_eq!((rest.elapsed_ns, rest.service_ns, rest.queue_ns, rest.completed), (15, 20, 25, 3));
        assert!(StationTotals::default().mean_queue().is_nan() && StationTotals::default().response_s().is_nan());
    }
}
