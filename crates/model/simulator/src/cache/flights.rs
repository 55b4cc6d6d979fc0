//! What is under way below, and who waits for what.

use std::collections::VecDeque;

use crate::io::Io;

/// Number of nothing.
pub(super) const NOTHING: u32 = u32::MAX;

/// An I/O below, of pages `from..to`.
#[derive(Clone, Copy, Debug)]
pub(super) struct CacheFlight {
    pub from: u64,
    /// Not after `from` where the number is free.
    pub to: u64,
    pub write: bool,
    /// Who waits for it, in the order in which they came: links.
    first: u32,
    last: u32,
}

/// A request that is not done.
#[derive(Clone, Copy, Debug)]
pub(super) struct CacheRequest {
    /// Its number at whoever asked.
    pub who: u32,
    /// What was asked.
    pub io: Io,
    /// Pages up to here are served or under way.
    pub next: u64,
    /// The page after its last.
    pub end: u64,
    /// Pages up to here are to be read along; `end` where nothing more.
    pub along: u64,
    /// Flights it waits for.
    pub pending: u32,
    /// It waits in a queue for room.
    pub queued: bool,
    /// Some of it was found, was under way, was missing.
    pub found: bool,
    pub joined: bool,
    pub missed: bool,
    /// When it came to wait for room; a number that only grows.
    pub turn: u64,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    asked: u32,
    next: u32,
}

/// Both, and the links between. Numbers are given again; nothing is allocated
/// once as many are out as ever will be.
#[derive(Clone, Debug, Default)]
pub(super) struct CacheFlights {
    all: Vec<CacheFlight>,
    free: Vec<u32>,
    links: Vec<Link>,
    free_links: Vec<u32>,
    asked: Vec<CacheRequest>,
    free_asked: Vec<u32>,
    /// Reads that wait for pages, writes that wait for pages or for others to be flushed.
    pub readers: VecDeque<u32>,
    pub writers: VecDeque<u32>,
}

impl CacheFlights {
    /// An I/O that begins at a page; it is as long as it becomes.
    pub fn begin(&mut self, from: u64, write: bool) -> u32 {
        let flight = CacheFlight { from, to: from + 1, write, first: NOTHING, last: NOTHING };
        if let Some(number) = self.free.pop() {
            self.all[number as usize] = flight;
            return number;
        }
        self.all.push(flight);
        (self.all.len() - 1) as u32
    }

    pub fn get(&self, number: u32) -> Option<&CacheFlight> {
        self.all.get(number as usize).filter(|flight| flight.to > flight.from)
    }

    /// The numbers of all writes under way.
    pub fn writes(&self) -> impl Iterator<Item = (u32, &CacheFlight)> {
        (0..).zip(&self.all).filter(|(_, flight)| flight.write && flight.to > flight.from)
    }

    /// It is a page longer.
    pub fn extend(&mut self, number: u32) {
        self.all[number as usize].to += 1;
    }

    /// It is over: who waited for it is taken one by one with [`CacheFlights::take`].
    pub fn end(&mut self, number: u32) -> u32 {
        let flight = &mut self.all[number as usize];
        let first = flight.first;
        (flight.to, flight.first, flight.last) = (flight.from, NOTHING, NOTHING);
        self.free.push(number);
        first
    }

    /// The next of those who waited, and the rest.
    pub fn take(&mut self, link: u32) -> Option<(u32, u32)> {
        let Link { asked, next } = self.links.get(link as usize).copied()?;
        self.free_links.push(link);
        Some((asked, next))
    }

    /// The flight over a page; `hint` is looked at first.
    pub fn over(&self, page: u64, write: bool, hint: u32) -> u32 {
        let is = |flight: &CacheFlight| flight.write == write && (flight.from..flight.to).contains(&page);
        if self.all.get(hint as usize).is_some_and(is) {
            return hint;
        }
        self.all.iter().position(is).map_or(NOTHING, |slot| slot as u32)
    }

    /// A request waits for a flight. Twice in a row is once.
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

    /// A request that is not done at once.
    pub fn ask(&mut self, asked: CacheRequest) -> u32 {
        if let Some(slot) = self.free_asked.pop() {
            self.asked[slot as usize] = asked;
            return slot;
        }
        self.asked.push(asked);
        (self.asked.len() - 1) as u32
    }

    pub fn asked(&self, slot: u32) -> &CacheRequest {
        &self.asked[slot as usize]
    }

    pub fn asked_mut(&mut self, slot: u32) -> &mut CacheRequest {
        &mut self.asked[slot as usize]
    }

    /// A request is done.
    pub fn answer(&mut self, slot: u32) {
        self.asked[slot as usize].who = NOTHING;
        self.free_asked.push(slot);
    }

    /// Requests, also of numbers that are free; `None` beyond them.
    #[cfg(test)]
    pub fn every_asked(&self, slot: u32) -> Option<&CacheRequest> {
        self.asked.get(slot as usize)
    }

    /// Requests not done.
    pub fn waiting(&self) -> usize {
        self.asked.len() - self.free_asked.len()
    }

    /// I/Os under way below.
    pub fn under_way(&self) -> usize {
        self.all.len() - self.free.len()
    }
}
