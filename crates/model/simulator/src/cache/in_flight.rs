//! I/Os in flight below, and the requests that wait for them.

use std::collections::VecDeque;

use crate::io::Io;

/// Marks the absence of a flight or link.
pub(super) const NO_FLIGHT: u32 = u32::MAX;

/// An I/O in flight below, of pages `from..to`.
#[derive(Clone, Copy, Debug)]
pub(super) struct IoInFlight {
    pub first_page: u64,
    /// End page; equal to `first_page` if the number is free.
    pub end_page: u64,
    pub write: bool,
    /// First link of the list of requests that wait for it, in order of arrival.
    first_link: u32,
    /// Last link of that list.
    last_link: u32,
}

/// A request that is not complete.
#[derive(Clone, Copy, Debug)]
pub(super) struct CacheRequest {
    /// Caller's id.
    pub request_id: u32,
    /// Requested blocks.
    pub io: Io,
    /// Pages below this one are served or in flight.
    pub next_page: u64,
    /// End page.
    pub end_page: u64,
    /// End of the pages to read along with it; equal to `end_page` if there are none.
    pub read_ahead_end: u64,
    /// Number of flights it waits for.
    pub pending_flights: u32,
    /// True if it waits in a queue for space.
    pub is_queued: bool,
    /// True if some pages were cached.
    pub has_hits: bool,
    /// True if some pages were already in flight.
    pub has_joins: bool,
    /// True if some pages were missing.
    pub has_misses: bool,
    /// Sequence number of its wait for space; later waits have higher numbers.
    pub turn: u64,
}

#[derive(Clone, Copy, Debug)]
struct WaitLink {
    request: u32,
    next: u32,
}

/// I/Os in flight, requests, and the links between them. Numbers are reused; nothing is allocated beyond the largest
/// numbers in flight at once.
#[derive(Clone, Debug, Default)]
pub(super) struct IosInFlight {
    flights: Vec<IoInFlight>,
    free: Vec<u32>,
    links: Vec<WaitLink>,
    free_links: Vec<u32>,
    requests: Vec<CacheRequest>,
    free_requests: Vec<u32>,
    /// Reads that wait for free pages.
    pub readers: VecDeque<u32>,
    /// Writes that wait for free pages, or for dirty pages to be flushed.
    pub writers: VecDeque<u32>,
}

impl IosInFlight {
    /// Begins an I/O with one page; it is extended page by page.
    pub fn begin_io(&mut self, from: u64, write: bool) -> u32 {
        let flight =
            IoInFlight { first_page: from, end_page: from + 1, write, first_link: NO_FLIGHT, last_link: NO_FLIGHT };
        if let Some(number) = self.free.pop() {
            self.flights[number as usize] = flight;
            return number;
        }
        self.flights.push(flight);
        (self.flights.len() - 1) as u32
    }

    /// Returns an I/O in flight; None for a free number.
    pub fn get(&self, number: u32) -> Option<&IoInFlight> {
        self.flights.get(number as usize).filter(|flight| flight.end_page > flight.first_page)
    }

    /// Iterates over all writes in flight, with their numbers.
    pub fn iter_writes(&self) -> impl Iterator<Item = (u32, &IoInFlight)> {
        (0..).zip(&self.flights).filter(|(_, flight)| flight.write && flight.end_page > flight.first_page)
    }

    /// Extends an I/O by a page.
    pub fn extend_by_page(&mut self, number: u32) {
        self.flights[number as usize].end_page += 1;
    }

    /// Ends an I/O and returns the first link of its waiters, to pass to [`IosInFlight::take_waiter`].
    pub fn end_io(&mut self, number: u32) -> u32 {
        let flight = &mut self.flights[number as usize];
        let first = flight.first_link;
        (flight.end_page, flight.first_link, flight.last_link) = (flight.first_page, NO_FLIGHT, NO_FLIGHT);
        self.free.push(number);
        first
    }

    /// Takes the next waiter; returns its request and the next link.
    pub fn take_waiter(&mut self, link: u32) -> Option<(u32, u32)> {
        let WaitLink { request, next } = self.links.get(link as usize).copied()?;
        self.free_links.push(link);
        Some((request, next))
    }

    /// Returns the flight that covers a page; `hint` is tried first.
    pub fn find_over_page(&self, page: u64, write: bool, hint: u32) -> u32 {
        let covers_page =
            |flight: &IoInFlight| flight.write == write && (flight.first_page..flight.end_page).contains(&page);
        if self.flights.get(hint as usize).is_some_and(covers_page) {
            return hint;
        }
        self.flights.iter().position(covers_page).map_or(NO_FLIGHT, |slot| slot as u32)
    }

    /// Adds a request to the waiters of a flight; a repetition of the last waiter is ignored.
    pub fn add_waiter(&mut self, request: u32, number: u32) {
        debug_assert!(self.get(number).is_some(), "flight {number} is not in flight");
        let Some(flight) = self.flights.get(number as usize) else { return };
        let last = flight.last_link;
        if last != NO_FLIGHT && self.links[last as usize].request == request {
            return;
        }
        let link = WaitLink { request, next: NO_FLIGHT };
        let index = self.free_links.pop().unwrap_or(self.links.len() as u32);
        if index as usize == self.links.len() {
            self.links.push(link);
        } else {
            self.links[index as usize] = link;
        }
        let flight = &mut self.flights[number as usize];
        flight.last_link = index;
        if last == NO_FLIGHT {
            flight.first_link = index;
        } else {
            self.links[last as usize].next = index;
        }
        self.requests[request as usize].pending_flights += 1;
    }

    /// Adds a request that is not complete at once.
    pub fn add_request(&mut self, request: CacheRequest) -> u32 {
        if let Some(slot) = self.free_requests.pop() {
            self.requests[slot as usize] = request;
            return slot;
        }
        self.requests.push(request);
        (self.requests.len() - 1) as u32
    }

    /// Returns the request in a slot.
    pub fn request(&self, slot: u32) -> &CacheRequest {
        &self.requests[slot as usize]
    }

    /// Returns the request in a slot, mutable.
    pub fn request_mut(&mut self, slot: u32) -> &mut CacheRequest {
        &mut self.requests[slot as usize]
    }

    /// Removes a completed request.
    pub fn remove_request(&mut self, slot: u32) {
        self.requests[slot as usize].request_id = NO_FLIGHT;
        self.free_requests.push(slot);
    }

    /// Returns the request in a slot, even if the slot is free; `None` beyond the last slot.
    #[cfg(test)]
    pub fn request_slot(&self, slot: u32) -> Option<&CacheRequest> {
        self.requests.get(slot as usize)
    }

    /// Number of incomplete requests.
    pub fn waiting_requests(&self) -> usize {
        self.requests.len() - self.free_requests.len()
    }

    /// Number of I/Os in flight below.
    pub fn ios_in_flight(&self) -> usize {
        self.flights.len() - self.free.len()
    }
}
