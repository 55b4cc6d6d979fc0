//! Requests that wait at a drive, and which of them is next.

use std::collections::VecDeque;

use super::{MechanicalDrive, SectorAddress};
use crate::Ns;
use crate::io::Io;

/// Which of the queued requests is served next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueuePolicy {
    /// In the order in which they came.
    #[default]
    FirstCome,
    /// On in one direction while there is one there, then back (SCAN, as LOOK).
    Elevator,
    /// On in one direction, then from the other end again (C-LOOK).
    CircularLook,
    /// The one whose cylinder is nearest.
    ShortestSeek,
    /// The one whose first sector can be under the head soonest, less a share of the time that
    /// it waited; what the cache holds is there at once.
    ShortestPositioning,
}

/// Shortest positioning ages, as in drives, which without it leave requests lying while others
/// go on behind each other: each millisecond of waiting counts as so many microseconds of arm and
/// rotation (Jacobson and Wilkes, "Disk scheduling algorithms based on rotational position",
/// HPL-CSP-91-7, 1991, aged shortest access time first; Worthington, Ganger and Patt,
/// "Scheduling algorithms for modern disk drives", SIGMETRICS 1994). So no request waits
/// much longer than the longest positioning by this share, about four seconds. Six costs
/// random reads on a drive of 1997 nothing up to 16 of them and 3 % at 64; 15 would cost 2 and 12 %.
const AGE_US_A_MS: u64 = 6;

/// What goes on from the buffer needs no arm, and a drive moves it for others meanwhile; here one request
/// is served at a time. So that a stream leaves something to those that need the arm, they are passed by
/// for this many times as long as the arm would take, and no longer. The number is set here.
const PASSED_TIMES: u64 = 10;

/// A request that came since the queue was looked at last.
const JUST_CAME: Ns = Ns::MAX;

impl QueuePolicy {
    /// All of them.
    pub const ALL: [QueuePolicy; 5] = [
        QueuePolicy::FirstCome,
        QueuePolicy::Elevator,
        QueuePolicy::CircularLook,
        QueuePolicy::ShortestSeek,
        QueuePolicy::ShortestPositioning,
    ];

    /// `first-come`, `elevator`, `c-look`, `shortest-seek` or `shortest-positioning`.
    pub fn name(self) -> &'static str {
        ["first-come", "elevator", "c-look", "shortest-seek", "shortest-positioning"][self as usize]
    }

    /// The policy of this [`QueuePolicy::name`].
    pub fn from_name(name: &str) -> Option<QueuePolicy> {
        QueuePolicy::ALL.into_iter().find(|policy| policy.name() == name)
    }
}

/// A waiting request.
#[derive(Clone, Copy, Debug)]
struct DriveQueueEntry<T> {
    io: Io,
    place: SectorAddress,
    /// When the queue was looked at first with it there.
    came: Ns,
    /// What the drive had served without its arm until then.
    aside: Ns,
    tag: T,
}

/// Requests that wait, each with the caller's tag. Its memory grows to the
/// deepest it was, and no further.
#[derive(Clone, Debug)]
pub struct DriveQueue<T> {
    policy: QueuePolicy,
    waiting: VecDeque<DriveQueueEntry<T>>,
    /// Where the last one taken ended; the sweeps go on from there.
    position: u64,
    up: bool,
    /// Time in which the drive served what needed no arm; and since when it does, if it does.
    aside: Ns,
    since: Option<Ns>,
}

impl<T: Copy> DriveQueue<T> {
    /// An empty queue.
    pub fn new(policy: QueuePolicy) -> DriveQueue<T> {
        DriveQueue { policy, waiting: VecDeque::new(), position: 0, up: true, aside: 0, since: None }
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// True where none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Another one waits for `drive`.
    #[inline]
    pub fn push(&mut self, drive: &MechanicalDrive, io: Io, tag: T) {
        // only these two look at where it lies
        let place = match self.policy {
            QueuePolicy::ShortestSeek | QueuePolicy::ShortestPositioning => drive.place(&io),
            _ => SectorAddress::default(),
        };
        self.waiting.push_back(DriveQueueEntry { io, place, came: JUST_CAME, aside: 0, tag });
    }

    /// Takes the next one, for a drive that is free now.
    #[inline]
    pub fn next(&mut self, now: Ns, drive: &MechanicalDrive) -> Option<(Io, T)> {
        let index = match self.policy {
            _ if self.waiting.len() < 2 => 0,
            QueuePolicy::FirstCome => 0,
            QueuePolicy::Elevator => self.sweep(false),
            QueuePolicy::CircularLook => self.sweep(true),
            QueuePolicy::ShortestSeek => {
                let cylinder = drive.cylinder();
                self.least(|waiting| u64::from(waiting.place.cylinder.abs_diff(cylinder)))
            }
            QueuePolicy::ShortestPositioning => self.soonest(now, drive),
        };
        let next = if index == 0 { self.waiting.pop_front()? } else { self.waiting.remove(index)? };
        self.position = next.io.first;
        Some((next.io, next.tag))
    }

    /// Position of the one that can be there soonest, less its age.
    #[inline]
    fn soonest(&mut self, now: Ns, drive: &MechanicalDrive) -> usize {
        if let Some(since) = self.since.take() {
            self.aside += now.saturating_sub(since);
        }
        let aside = self.aside;
        for waiting in self.waiting.iter_mut().rev().take_while(|waiting| waiting.came == JUST_CAME) {
            (waiting.came, waiting.aside) = (now, aside);
        }
        let age = |waiting: &DriveQueueEntry<T>| {
            now.saturating_sub(waiting.came) / 1000 * AGE_US_A_MS + (aside - waiting.aside) / PASSED_TIMES
        };
        // the first one came first: with its age added to all, no cost is below zero
        let most = self.waiting.front().map_or(0, age);
        let mut best = (0, u64::MAX, 0);
        for (index, waiting) in self.waiting.iter().enumerate() {
            let positioning = drive.positioning(now, &waiting.io, &waiting.place);
            let cost = positioning + most - age(waiting).min(most);
            if cost < best.1 {
                best = (index, cost, positioning);
            }
        }
        self.since = (best.2 == 0).then_some(now);
        best.0
    }

    /// Position of the one with the least cost, the one that came first of equals.
    #[inline]
    fn least(&self, cost: impl Fn(&DriveQueueEntry<T>) -> u64) -> usize {
        let mut best = (0, u64::MAX);
        for (index, waiting) in self.waiting.iter().enumerate() {
            let cost = cost(waiting);
            if cost < best.1 {
                best = (index, cost);
            }
        }
        best.0
    }

    /// The nearest one in the direction of the sweep; where there is none, the
    /// sweep turns round or begins again.
    fn sweep(&mut self, circular: bool) -> usize {
        let from = self.position;
        let (up, down) = (
            |w: &DriveQueueEntry<T>| if w.io.first >= from { w.io.first - from } else { u64::MAX },
            |w: &DriveQueueEntry<T>| if w.io.first <= from { from - w.io.first } else { u64::MAX },
        );
        let any_up = self.waiting.iter().any(|w| w.io.first >= from);
        let any_down = self.waiting.iter().any(|w| w.io.first <= from);
        if circular {
            return if any_up { self.least(up) } else { self.least(|w| w.io.first) };
        }
        if (self.up && !any_up) || (!self.up && !any_down) {
            self.up = !self.up;
        }
        if self.up { self.least(up) } else { self.least(down) }
    }
}
