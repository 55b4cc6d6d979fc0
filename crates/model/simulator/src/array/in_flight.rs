//! Requests in flight: the member I/Os of a plan that are not complete, and when its second phase may begin. The caller
//! sends `reads` and `writes` when a request begins, reports each completed I/O, and gets the next step.

use super::{MemberIo, MemberIoPlan, ParityWork};

/// Consequence of a completed I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayProgress<'a> {
    /// Other I/Os of the request are still in flight.
    Waiting,
    /// All reads are complete: once this work is computed, send these writes.
    Send(&'a [MemberIo], ParityWork),
    /// The request is complete; its number may be reused.
    Done,
}

/// Requests in flight, by number. Numbers are reused, the latest freed first; nothing is allocated beyond the largest
/// number in flight at once.
#[derive(Clone, Debug, Default)]
pub struct RequestsInFlight {
    slots: Vec<RequestInFlight>,
    free_slots: Vec<u32>,
}

#[derive(Clone, Debug, Default)]
struct RequestInFlight {
    /// Reads in flight.
    reads_left: u32,
    /// Writes in flight.
    writes_left: u32,
    /// Writes that wait for the reads.
    writes_after_reads: Vec<MemberIo>,
    work: ParityWork,
}

impl RequestsInFlight {
    /// Creates an empty set.
    pub fn new() -> RequestsInFlight {
        RequestsInFlight::default()
    }

    /// Number of requests in flight.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free_slots.len()
    }

    /// Returns true if no request is in flight.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Begins a plan and returns the number of its request. `None` if it has no I/O at all (everything lost, or
    /// nothing requested), and so is complete. Takes the plan's second phase; `reads` and `writes` are left for
    /// sending.
    #[inline]
    pub fn begin_plan(&mut self, plan: &mut MemberIoPlan) -> Option<u32> {
        if plan.reads.is_empty() {
            plan.writes.append(&mut plan.writes_after_reads);
            if plan.writes.is_empty() {
                return None;
            }
        }
        let number = self.free_slots.pop().unwrap_or(self.slots.len() as u32);
        if number as usize == self.slots.len() {
            self.slots.push(RequestInFlight::default());
        }
        let flight = &mut self.slots[number as usize];
        flight.reads_left = plan.reads.len() as u32;
        flight.writes_left = plan.writes.len() as u32;
        flight.work = plan.work;
        flight.writes_after_reads.clear();
        std::mem::swap(&mut flight.writes_after_reads, &mut plan.writes_after_reads);
        Some(number)
    }

    /// Takes the writes of a request's second phase, to send them; they count as in flight since
    /// [`ArrayProgress::Send`]. [`RequestsInFlight::recycle_list`] returns the list.
    #[inline]
    pub fn take_second_phase(&mut self, number: u32) -> Vec<MemberIo> {
        self.slots
            .get_mut(number as usize)
            .map(|flight| std::mem::take(&mut flight.writes_after_reads))
            .unwrap_or_default()
    }

    /// Returns the memory of a list from [`RequestsInFlight::take_second_phase`] for reuse.
    #[inline]
    pub fn recycle_list(&mut self, number: u32, mut after: Vec<MemberIo>) {
        after.clear();
        if let Some(flight) = self.slots.get_mut(number as usize)
            && flight.writes_after_reads.capacity() == 0
        {
            flight.writes_after_reads = after;
        }
    }

    /// Cancels the writes that were to be sent after the reads. Returns true if nothing else of the request is in
    /// flight: it is complete, and its number may be reused.
    pub fn cancel_second_phase(&mut self, number: u32) -> bool {
        let Some(flight) = self.slots.get_mut(number as usize) else { return false };
        flight.writes_left = flight.writes_left.saturating_sub(flight.writes_after_reads.len() as u32);
        flight.writes_after_reads.clear();
        let done = flight.reads_left == 0 && flight.writes_left == 0;
        if done {
            self.free_slots.push(number);
        }
        done
    }

    /// Reports a completed I/O of a request. A number that is not in flight, or an I/O that was not sent, is ignored
    /// with [`ArrayProgress::Waiting`].
    #[inline]
    pub fn complete_io(&mut self, number: u32, write: bool) -> ArrayProgress<'_> {
        let Some(flight) = self.slots.get_mut(number as usize) else { return ArrayProgress::Waiting };
        let ios_left = if write { &mut flight.writes_left } else { &mut flight.reads_left };
        if *ios_left == 0 {
            return ArrayProgress::Waiting;
        }
        *ios_left -= 1;
        if !write && flight.reads_left == 0 && !flight.writes_after_reads.is_empty() {
            flight.writes_left += flight.writes_after_reads.len() as u32;
            return ArrayProgress::Send(
                &self.slots[number as usize].writes_after_reads,
                self.slots[number as usize].work,
            );
        }
        if flight.reads_left == 0 && flight.writes_left == 0 {
            flight.writes_after_reads.clear();
            self.free_slots.push(number);
            return ArrayProgress::Done;
        }
        ArrayProgress::Waiting
    }
}

#[cfg(test)]
mod tests {
    use diskwright_base::Rng;

    use super::super::*;

    #[test]
    fn a_small_raid5_write_has_two_phases() {
        let array = ArrayGeometry::new(&ArrayDescription::new(ArrayLevel::Raid5, 8, 1 << 20, 128)).expect("valid");
        let (mut planner, mut plan, mut flights) =
            (Planner::new(array, ArrayPolicy::default()), MemberIoPlan::new(), RequestsInFlight::new());
        planner.plan_request(ArrayRequest::write(0, 8), &mut plan);
        let (after, work) = (plan.writes_after_reads.clone(), plan.work);
        let number = flights.begin_plan(&mut plan).expect("it has I/Os");
        assert_eq!((plan.reads.len(), plan.writes.len(), flights.len()), (2, 0, 1));
        assert_eq!(flights.complete_io(number, true), ArrayProgress::Waiting, "no write is out yet");
        assert_eq!(flights.complete_io(number, false), ArrayProgress::Waiting);
        assert_eq!(flights.complete_io(number, false), ArrayProgress::Send(&after, work));
        assert_eq!(flights.complete_io(number, true), ArrayProgress::Waiting);
        assert_eq!(flights.complete_io(number, true), ArrayProgress::Done);
        assert_eq!(flights.complete_io(number, true), ArrayProgress::Waiting, "it is done already");
        assert!(flights.is_empty());
        assert_eq!(flights.complete_io(77, false), ArrayProgress::Waiting);
    }

    /// Every I/O of every plan is sent once and every request completes once, in whatever order the members complete.
    #[test]
    fn nothing_is_lost_or_done_twice() {
        let mut rng = Rng::new(2, 8);
        for (level, failed) in [
            (ArrayLevel::Raid5, None),
            (ArrayLevel::Raid6, Some(2)),
            (ArrayLevel::Raid10, None),
            (ArrayLevel::Raid0, None),
        ] {
            let array = ArrayGeometry::new(&ArrayDescription::new(level, 6, 1 << 16, 16)).expect("valid");
            let mut planner = Planner::new(array, ArrayPolicy::default());
            planner.set_state(ArrayState::with_failed(failed));
            let (mut plan, mut flights) = (MemberIoPlan::new(), RequestsInFlight::new());
            let mut out: Vec<(u32, MemberIo)> = Vec::new();
            let (mut begun, mut done, mut planned, mut sent) = (0, 0, 0, 0);
            while begun < 3000 || !out.is_empty() {
                if begun < 3000 && flights.len() < 20 {
                    let request = ArrayRequest::read(
                        rng.next_below(planner.array().capacity_blocks() - 300),
                        rng.next_below(300) as u32,
                    );
                    planner.plan_request(ArrayRequest { write: rng.next_bool(0.5), ..request }, &mut plan);
                    planned += plan.io_count();
                    begun += 1;
                    match flights.begin_plan(&mut plan) {
                        Some(number) => out.extend(plan.reads.iter().chain(&plan.writes).map(|io| (number, *io))),
                        None => done += 1,
                    }
                    continue;
                }
                let (number, io) = out.swap_remove(rng.next_below(out.len() as u64) as usize);
                sent += 1;
                let mut still_out = out.iter().filter(|(n, _)| *n == number);
                match flights.complete_io(number, io.write) {
                    ArrayProgress::Waiting => {}
                    ArrayProgress::Send(ios, _) => {
                        assert!(still_out.all(|(_, io)| io.write), "{level}: before all was read");
                        out.extend(ios.iter().map(|io| (number, *io)));
                    }
                    ArrayProgress::Done => {
                        assert_eq!(still_out.next(), None, "{level}: before all was done");
                        done += 1;
                    }
                }
            }
            assert_eq!((done, sent, flights.len()), (begun, planned, 0), "{level}");
        }
    }
}
