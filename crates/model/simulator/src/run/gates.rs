//! Gates: at most a fixed number of requests are inside at a time.

use std::collections::VecDeque;

/// A gate that admits at most a fixed number of requests at a time.
#[derive(Debug)]
pub(super) struct AdmissionGate {
    max_inside: u32,
    inside: u32,
    waiting: VecDeque<u32>,
}

impl AdmissionGate {
    /// An open gate with nothing inside; at least one request may enter.
    pub fn new(max_inside: u32) -> AdmissionGate {
        AdmissionGate { max_inside: max_inside.max(1), inside: 0, waiting: VecDeque::new() }
    }

    /// Admits a job. False if the gate is full; the job then waits in front of it.
    pub fn enter(&mut self, job: u32) -> bool {
        if self.inside == self.max_inside {
            self.waiting.push_back(job);
            return false;
        }
        self.inside += 1;
        self.check();
        true
    }

    /// Lets one request out. Returns the waiting job that enters in its place.
    pub fn leave(&mut self) -> Option<u32> {
        debug_assert!(self.inside > 0, "a request leaves a gate that none is inside of");
        let next = self.waiting.pop_front();
        if next.is_none() {
            self.inside -= 1;
        }
        self.check();
        next
    }

    fn check(&self) {
        debug_assert!(self.inside <= self.max_inside, "{} of {} are inside a gate", self.inside, self.max_inside);
        debug_assert!(self.waiting.is_empty() || self.inside == self.max_inside, "a job waits at a gate with room");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_enter_in_their_order() {
        let mut gate = AdmissionGate::new(2);
        assert_eq!([gate.enter(1), gate.enter(2), gate.enter(3), gate.enter(4)], [true, true, false, false]);
        assert_eq!([gate.leave(), gate.leave(), gate.leave(), gate.leave()], [Some(3), Some(4), None, None]);
        assert!(gate.enter(5));
    }
}
