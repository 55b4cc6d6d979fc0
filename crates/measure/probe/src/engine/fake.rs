//! A fake device for tests, in virtual time: it serves a number of requests at once, each for a given
//! time. Nothing is read or written, so that a run of an hour takes a moment. The device can stall and
//! fail.

use std::collections::VecDeque;
use std::io;

use super::{Action, Completion, IoEngine, Op, WaitFor};

/// Behavior of the fake device: from a request and the time at which its service begins, returns the
/// service time, nanoseconds, or an error number.
pub type FakeService = Box<dyn FnMut(&Op, u64) -> Result<u64, i32> + Send>;

/// The fake engine.
pub struct FakeDevice {
    now: u64,
    /// Time at which each server becomes free.
    servers: Vec<u64>,
    service: FakeService,
    batch: Vec<Op>,
    /// Future completions, in order of time.
    pending: VecDeque<(u64, Completion)>,
    /// Virtual time that submitting a request takes, nanoseconds.
    pub overhead_ns: u64,
    /// Delay of every wake-up from a timed wait, nanoseconds.
    pub wake_delay_ns: u64,
}

impl FakeDevice {
    /// Creates a device with a number of servers.
    pub fn new(servers: usize, service: FakeService) -> FakeDevice {
        let servers = vec![0; servers.max(1)];
        FakeDevice {
            now: 0,
            servers,
            service,
            batch: Vec::new(),
            pending: VecDeque::new(),
            overhead_ns: 0,
            wake_delay_ns: 0,
        }
    }

    /// Creates a device that serves every request in the same time.
    pub fn with_service_time(servers: usize, service_ns: u64) -> FakeDevice {
        FakeDevice::new(servers, Box::new(move |_, _| Ok(service_ns)))
    }

    fn start(&mut self, op: &Op) {
        let server = self.servers.iter().enumerate().min_by_key(|(_, free_at)| **free_at).map_or(0, |(i, _)| i);
        let begin = self.servers[server].max(self.now);
        let (end, result) = match (self.service)(op, begin) {
            Ok(_) if matches!(op.action, Action::Fdatasync | Action::Fsync) => (begin, 0),
            Ok(service_ns) => (begin + service_ns, i32::try_from(op.length).unwrap_or(i32::MAX)),
            Err(number) => (begin, -number),
        };
        self.servers[server] = end;
        let index = self.pending.partition_point(|(time, _)| *time <= end);
        self.pending.insert(index, (end, Completion { slot: op.slot, result }));
    }
}

impl IoEngine for FakeDevice {
    fn now(&self) -> u64 {
        self.now
    }

    fn queue_op(&mut self, op: Op) {
        self.batch.push(op);
    }

    fn consume_cpu(&mut self, ns: u64) {
        self.now += ns;
    }

    fn submit_and_wait(&mut self, wait: WaitFor, done: &mut Vec<Completion>) -> io::Result<()> {
        for op in std::mem::take(&mut self.batch) {
            self.now += self.overhead_ns;
            self.start(&op);
        }
        let next = self.pending.front().map(|(time, _)| *time);
        self.now = match (wait, next) {
            (WaitFor::Nothing, _) | (WaitFor::One, None) => self.now,
            (WaitFor::One, Some(next)) => self.now.max(next),
            (WaitFor::Until(until), Some(next)) if next <= until => self.now.max(next),
            (WaitFor::Until(until), _) => self.now.max(until) + self.wake_delay_ns,
        };
        while let Some((time, completion)) = self.pending.front() {
            if *time > self.now {
                break;
            }
            done.push(*completion);
            self.pending.pop_front();
        }
        Ok(())
    }
}
