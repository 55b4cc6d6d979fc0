//! I/Os in flight below, and the requests that wait for them.

use std::collections::VecDeque;

use crate::io::Io;

/// Marks the absence of a flight or link.
pub(super) const NOTHING: u32 = u32::MAX;

/// An I/O in flight below, of pages `from..to`.
#[derive(Clone, Copy, Debug)]
pub(super) struct CacheFlight {
    pub from: u64,
    /// End page; equal to `first_page` if the number is free.
    pub to: u64,
    pub write: bool,
    /// First and last link of the list of requests that wait for it, in order of arrival.
    first: u32,
    last: u32,
}

/// A request that is not complete.
#[derive(Clone, Copy, Debug)]
pub(super) struct CacheRequest {
    /// Caller's id.
    pub who: u32,
    /// Requested blocks.
    pub io: Io,
    /// Pages below this one are served or in flight.
    pub next: u64,
    /// End page.
    pub end: u64,
    /// End of the pages to read along with it; equal to `end_page` if there are none.
    pub along: u64,
    /// Number of flights it waits for.
    pub pending: u32,
    /// True if it waits in a queue for room.
    pub queued: bool,
    /// True if some pages were cached, in flight, missing.
    pub found: bool,
    pub joined: bool,
    pub missed: bool,
    /// Number in order of waiting for room; only grows.
    pub turn: u64,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    asked: u32,
    next: u32,
}

/// I/Os in flight, requests, and the links between them. Numbers are reused; nothing is allocated beyond the largest
/// numbers in flight at once.
#[derive(Clone, Debug, Default)]
pub(super) struct CacheFlights {
    all: Vec<CacheFlight>,
    free: Vec<u32>,
    links: Vec<Link>,
    free_links: Vec<u32>,
    asked: Vec<CacheRequest>,
    free_asked: Vec<u32>,
    /// Reads that wait for pages, and writes that wait for pages or for others to be flushed.
    pub readers: VecDeque<u32>,
    pub writers: VecDeque<u32>,
}

impl CacheFlights {
    /// Begins an I/O with one page; it is extended page by page.
    pub fn begin(&mut self, from: u64, write: bool) -> u32 {
        let flight = CacheFlight { from, to: from + 1, write, first: NOTHING, last: NOTHING };
        if let Some(number) = self.free.pop() {
            self.all[number as usize] = flight;
            return number;
        }
        self.all.push(flight);
        (self.all.len() - 1) as u32
    }

    /// Returns an I/O in flight; None for a free number.
    pub fn get(&self, number: u32) -> Option<&CacheFlight> {
        self.all.get(number as usize).filter(|flight| flight.to > flight.from)
    }

    /// Iterates over all writes in flight, with their numbers.
    pub fn writes(&self) -> impl Iterator<Item = (u32, &CacheFlight)> {
        (0..).zip(&self.all).filter(|(_, flight)| flight.write && flight.to > flight.from)
    }

    /// Extends an I/O by a page.
    pub fn extend(&mut self, number: u32) {
        self.all[number as usize].to += 1;
    }

    /// Ends an I/O and returns the first link of its waiters, to pass to [`CacheFlights::take`].
    pub fn end(&mut self, number: u32) -> u32 {
        let flight = &mut self.all[number as usize];
        let first = flight.first;
        (flight.to, flight.first, flight.last) = (flight.from, NOTHING, NOTHING);
        self.free.push(number);
        first
    }

    /// Takes the next waiter; returns its request and the next link.
    pub fn take(&mut self, link: u32) -> Option<(u32, u32)> {
        let Link { asked, next } = self.links.get(link as usize).copied()?;
        self.free_links.push(link);
        Some((asked, next))
    }

    /// Returns the flight that covers a page; `hint` is tried first.
    pub fn over(&self, page: u64, write: bool, hint: u32) -> u32 {
        let is = |flight: &CacheFlight| flight.write == write && (flight.from..flight.to).contains(&page);
        if self.all.get(hint as usize).is_some_and(is) {
            return hint;
        }
        self.all.iter().position(is).map_or(NOTHING, |slot| slot as u32)
    }

    /// Adds a request to the waiters of a flight; a repetition of the last waiter is ignored.
    pub fn wait(&mut self, asked: u32, number: u32) {
        debug_assert!(self.get(number).is_some(), "what is waited for is under way");
        let Some(flight) = self.all.get(number as usize) else { return };
        let last = flight.last;
        if last != NOTHING && self.links[last as usize].asked == asked {
            return;
        }
        let link = Link { asked, next: NOTHING };
        let index = self.free_links.pop().unwrap_or(self.links.len() as u32);
        if index as usize == self.links.len() {
            self.links.push(link);
        } else {
            self.links[index as usize] = link;
        }
        let flight = &mut self.all[number as usize];
        flight.last = index;
        if last == NOTHING {
            flight.first = index;
        } else {
            self.links[last as usize].next = index;
        }
        self.asked[asked as usize].pending += 1;
    }

    /// Adds a request that is not complete at once.
    pub fn ask(&mut self, asked: CacheRequest) -> u32 {
        if let Some(slot) = self.free_asked.pop() {
            self.asked[slot as usize] = asked;
            return slot;
        }
        self.asked.push(asked);
        (self.asked.len() - 1) as u32
    }

    /// Returns the request in a slot.
    pub fn asked(&self, slot: u32) -> &CacheRequest {
        &self.asked[slot as usize]
    }

    /// Returns the request in a slot, mutable.
    pub fn asked_mut(&mut self, slot: u32) -> &mut CacheRequest {
        &mut self.asked[slot as usize]
    }

    /// Removes a completed request.
    pub fn answer(&mut self, slot: u32) {
        self.asked[slot as usize].who = NOTHING;
        self.free_asked.push(slot);
    }

    /// Returns the request in a slot, even if the slot is free; `None` beyond the last slot.
    #[cfg(test)]
    pub fn every_asked(&self, slot: u32) -> Option<&CacheRequest> {
        self.asked.get(slot as usize)
    }

    /// Number of incomplete requests.
    pub fn waiting(&self) -> usize {
        self.asked.len() - self.free_asked.len()
    }

    /// Number of I/Os in flight below.
    pub fn under_way(&self) -> usize {
        self.all.len() - self.free.len()
    }
}
