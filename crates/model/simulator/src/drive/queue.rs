//! Queue of requests at a drive, and the policies that select the next one.

use std::collections::VecDeque;

use super::{MechanicalDrive, SectorAddress};
use crate::Ns;
use crate::io::Io;

/// Policy that selects the next queued request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueuePolicy {
    /// In order of arrival.
    #[default]
    FirstComeFirstServed,
    /// In one direction while there are requests, then back (SCAN, as LOOK).
    Elevator,
    /// In one direction, then from the other end again (C-LOOK).
    CircularLook,
    /// The request whose cylinder is nearest.
    ShortestSeek,
    /// The request whose first sector can be under the head soonest, minus a share of its waiting time; cache hits
    /// cost no positioning.
    ShortestPositioning,
}

/// Aging of shortest positioning first: each millisecond of waiting counts as this many microseconds of positioning
/// (Jacobson and Wilkes, "Disk scheduling algorithms based on rotational position", HPL-CSP-91-7, 1991, aged shortest
/// access time first; Worthington, Ganger and Patt, "Scheduling algorithms for modern disk drives", SIGMETRICS 1994).
/// Without aging, which real drives have, requests would starve while others continue sequentially. With it, no request
/// waits much longer than the longest positioning divided by this share, about four seconds. Six costs random reads on
/// a drive of 1997 nothing up to a queue depth of 16, and 3 % at 64; 15 would cost 2 and 12 %.
const AGE_CREDIT_US_PER_MS: u64 = 6;

/// Requests served from the buffer need no arm, and a real drive serves them while the arm works for others; in this
/// model one request is served at a time. So that a stream does not starve requests that need the arm, such requests
/// are bypassed for at most this many times their positioning time. The factor is our choice.
const CACHE_BYPASS_FACTOR: u64 = 10;

/// Marks a request that arrived since the queue was last examined.
const JUST_ARRIVED: Ns = Ns::MAX;

impl QueuePolicy {
    /// All policies.
    pub const ALL: [QueuePolicy; 5] = [
        QueuePolicy::FirstComeFirstServed,
        QueuePolicy::Elevator,
        QueuePolicy::CircularLook,
        QueuePolicy::ShortestSeek,
        QueuePolicy::ShortestPositioning,
    ];

    /// Returns `first-come`, `elevator`, `c-look`, `shortest-seek` or `shortest-positioning`.
    pub fn name(self) -> &'static str {
        match self {
            QueuePolicy::FirstComeFirstServed => "first-come",
            QueuePolicy::Elevator => "elevator",
            QueuePolicy::CircularLook => "c-look",
            QueuePolicy::ShortestSeek => "shortest-seek",
            QueuePolicy::ShortestPositioning => "shortest-positioning",
        }
    }

    /// Returns the policy with this [`QueuePolicy::name`].
    pub fn from_name(name: &str) -> Option<QueuePolicy> {
        QueuePolicy::ALL.into_iter().find(|policy| policy.name() == name)
    }
}

/// A waiting request.
#[derive(Clone, Copy, Debug)]
struct DriveQueueEntry<T> {
    io: Io,
    place: SectorAddress,
    /// Time at which the queue was first examined with it.
    arrived: Ns,
    /// Value of [`DriveQueue::cache_time`] at that time.
    cache_time_before: Ns,
    tag: T,
}

/// Queue of waiting requests, each with the caller's tag. Its memory grows to its largest length, and no further.
#[derive(Clone, Debug)]
pub struct DriveQueue<T> {
    policy: QueuePolicy,
    waiting: VecDeque<DriveQueueEntry<T>>,
    /// First block of the last request taken; sweeps continue from there.
    position: u64,
    is_ascending: bool,
    /// Time that the drive spent on requests that needed no arm.
    cache_time: Ns,
    /// Start of the current request, if it needs no arm.
    cache_service_since: Option<Ns>,
}

impl<T: Copy> DriveQueue<T> {
    /// Creates an empty queue.
    pub fn new(policy: QueuePolicy) -> DriveQueue<T> {
        DriveQueue {
            policy,
            waiting: VecDeque::new(),
            position: 0,
            is_ascending: true,
            cache_time: 0,
            cache_service_since: None,
        }
    }

    /// Number of waiting requests.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Returns true if no request waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Adds a request that waits for `drive`.
    #[inline]
    pub fn push(&mut self, drive: &MechanicalDrive, io: Io, tag: T) {
        // only these two policies use the position
        let place = match self.policy {
            QueuePolicy::ShortestSeek | QueuePolicy::ShortestPositioning => drive.locate_request(&io),
            _ => SectorAddress::default(),
        };
        self.waiting.push_back(DriveQueueEntry { io, place, arrived: JUST_ARRIVED, cache_time_before: 0, tag });
    }

    /// Removes the next request, for a drive that is free now.
    #[inline]
    pub fn next(&mut self, now: Ns, drive: &MechanicalDrive) -> Option<(Io, T)> {
        let index = match self.policy {
            _ if self.waiting.len() < 2 => 0,
            QueuePolicy::FirstComeFirstServed => 0,
            QueuePolicy::Elevator => self.find_next_in_sweep(false),
            QueuePolicy::CircularLook => self.find_next_in_sweep(true),
            QueuePolicy::ShortestSeek => {
                let cylinder = drive.cylinder();
                self.find_cheapest(|waiting| u64::from(waiting.place.cylinder.abs_diff(cylinder)))
            }
            QueuePolicy::ShortestPositioning => self.find_soonest(now, drive),
        };
        let next = if index == 0 { self.waiting.pop_front()? } else { self.waiting.remove(index)? };
        self.position = next.io.first;
        Some((next.io, next.tag))
    }

    /// Returns the index of the request with the shortest positioning time minus its age credit.
    #[inline]
    fn find_soonest(&mut self, now: Ns, drive: &MechanicalDrive) -> usize {
        if let Some(since) = self.cache_service_since.take() {
            self.cache_time += now.saturating_sub(since);
        }
        let cache_time = self.cache_time;
        for waiting in self.waiting.iter_mut().rev().take_while(|waiting| waiting.arrived == JUST_ARRIVED) {
            (waiting.arrived, waiting.cache_time_before) = (now, cache_time);
        }
        let age = |waiting: &DriveQueueEntry<T>| {
            now.saturating_sub(waiting.arrived) / 1000 * AGE_CREDIT_US_PER_MS
                + (cache_time - waiting.cache_time_before) / CACHE_BYPASS_FACTOR
        };
        // the first entry is the oldest: with its age added to all, no cost is below zero
        let max_age = self.waiting.front().map_or(0, age);
        let mut best = (0, u64::MAX, 0);
        for (index, waiting) in self.waiting.iter().enumerate() {
            let positioning = drive.positioning_time(now, &waiting.io, &waiting.place);
            let cost = positioning + max_age - age(waiting).min(max_age);
            if cost < best.1 {
                best = (index, cost, positioning);
            }
        }
        self.cache_service_since = (best.2 == 0).then_some(now);
        best.0
    }

    /// Returns the index of the request with the lowest cost, the oldest among equals.
    #[inline]
    fn find_cheapest(&self, cost: impl Fn(&DriveQueueEntry<T>) -> u64) -> usize {
        debug_assert!(!self.waiting.is_empty(), "nothing to choose from");
        let mut best = (0, u64::MAX);
        for (index, waiting) in self.waiting.iter().enumerate() {
            let cost = cost(waiting);
            if cost < best.1 {
                best = (index, cost);
            }
        }
        best.0
    }

    /// Returns the index of the nearest request in the direction of the sweep. If there is none, the sweep reverses, or
    /// begins again from the other end.
    fn find_next_in_sweep(&mut self, circular: bool) -> usize {
        let from = self.position;
        // requests in the other direction have the highest cost: they are chosen only if there are no others
        let up = |w: &DriveQueueEntry<T>| w.io.first.checked_sub(from).unwrap_or(u64::MAX);
        let down = |w: &DriveQueueEntry<T>| from.checked_sub(w.io.first).unwrap_or(u64::MAX);
        let any_up = self.waiting.iter().any(|w| w.io.first >= from);
        let any_down = self.waiting.iter().any(|w| w.io.first <= from);
        if circular {
            return if any_up { self.find_cheapest(up) } else { self.find_cheapest(|w| w.io.first) };
        }
        if (self.is_ascending && !any_up) || (!self.is_ascending && !any_down) {
            self.is_ascending = !self.is_ascending;
        }
        debug_assert!(if self.is_ascending { any_up } else { any_down }, "the sweep goes where nothing waits");
        if self.is_ascending { self.find_cheapest(up) } else { self.find_cheapest(down) }
    }
}
