//! Requests that a server has not answered. The kernel counts transmissions and answers, and a request that is sent
//! twice is answered once: the difference never returns to zero. The floor to which it returns is learned while answers
//! come; while none come, all requests above the floor are waiting.

/// Period whose lowest difference becomes the floor, nanoseconds.
const LEARNING_PERIOD_NS: u64 = 30_000_000_000;

/// The difference between transmissions and answers, and its floor.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UnansweredRequests {
    /// Number of transmissions that will never be answered; `None` before the first update.
    floor: Option<u64>,
    /// Lowest difference since `since_ns`, while answers came.
    lowest: u64,
    since_ns: u64,
    replies: u64,
}

impl UnansweredRequests {
    /// Updates the state and returns the number of requests that wait for an answer now.
    pub fn update_level(&mut self, sends: u64, replies: u64, now_ns: u64) -> u64 {
        let difference = sends.saturating_sub(replies);
        let Some(floor) = self.floor else {
            *self = UnansweredRequests { floor: Some(difference), lowest: difference, since_ns: now_ns, replies };
            return 0;
        };
        let mut floor = floor.min(difference);
        if replies == self.replies {
            // without answers nothing can be learned about the floor
            self.since_ns = now_ns;
            self.lowest = difference;
        } else {
            self.replies = replies;
            self.lowest = self.lowest.min(difference);
            if now_ns.saturating_sub(self.since_ns) >= LEARNING_PERIOD_NS {
                floor = self.lowest;
                self.lowest = difference;
                self.since_ns = now_ns;
            }
        }
        self.floor = Some(floor);
        difference - floor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn a_silent_server_has_waiting_requests_while_it_is_silent() {
        let mut requests = UnansweredRequests::default();
        assert_eq!(requests.update_level(100, 98, S), 0, "what was open at the first look is not known to be lost");
        assert_eq!(requests.update_level(120, 120, 2 * S), 0);
        for second in 3..600 {
            assert_eq!(requests.update_level(124, 120, second * S), 4);
        }
        assert_eq!(requests.update_level(126, 126, 600 * S), 0);
    }

    #[test]
    fn retransmitted_requests_are_forgotten_when_answers_come() {
        let mut requests = UnansweredRequests::default();
        requests.update_level(10, 10, 0);
        // three were sent again after the connection was lost
        let mut last = 0;
        for second in 1..70 {
            last = requests.update_level(13 + second, 10 + second, second * S);
        }
        assert_eq!(last, 0);
    }

    #[test]
    fn idle_mounts_keep_a_level_of_zero() {
        let mut requests = UnansweredRequests::default();
        requests.update_level(10, 10, 0);
        assert_eq!(requests.update_level(10, 10, 100 * S), 0);
        assert_eq!(requests.update_level(11, 10, 101 * S), 1);
        assert_eq!(requests.update_level(11, 10, 300 * S), 1);
    }
}
