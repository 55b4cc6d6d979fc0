//! ATA: IDENTIFY DEVICE, SMART attributes and their thresholds, Device Statistics (log 04h), after ACS-4
//! and, for attributes, SFF-8035i. Attributes beyond a few are the vendor's own and are left alone.

use crate::DriveHealth;
use crate::bytes::little;

/// Length of every reply.
pub const REPLY_BYTES: usize = 512;

/// Pages of the device statistics that are read.
pub const STATISTICS: [u8; 6] = [0x01, 0x03, 0x04, 0x05, 0x06, 0x07];

/// What IDENTIFY says can be asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtaAbilities {
    /// SMART is there and on.
    pub smart: bool,
    /// General purpose logs can be read.
    pub logs: bool,
    /// Bytes of a logical sector.
    pub sector_bytes: u64,
}

/// Reads IDENTIFY; `None` where it is none.
pub fn identify(reply: &[u8]) -> Option<AtaAbilities> {
    let word = |number: usize| little(reply, number * 2, 2);
    // words 82 to 87 count where 83 and 87 say so in their highest bits
    let valid = |number: usize| word(number).is_some_and(|bits| bits >> 14 == 1);
    let bit = |number: usize, bit: u32| word(number).is_some_and(|bits| bits >> bit & 1 == 1);
    word(0)?;
    // word 106: bit 12 says that a logical sector is longer than 256 words
    let long = valid(106) && bit(106, 12);
    let sector_bytes = if long { (word(117)? | word(118)? << 16) * 2 } else { 512 };
    Some(AtaAbilities { smart: valid(83) && bit(82, 0) && bit(85, 0), logs: valid(83) && bit(84, 5), sector_bytes })
}

/// The drive spins down, or has.
pub fn is_asleep(count: u8) -> bool {
    // CHECK POWER MODE: standby, standby_y, and asleep with its cache awake
    matches!(count, 0x00 | 0x01 | 0x40)
}

/// Bytes of a page add up to zero.
fn is_whole(page: &[u8]) -> bool {
    page.len() >= REPLY_BYTES && page[..REPLY_BYTES].iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)) == 0
}

/// The entries of a table of thirty: id and the rest.
fn entries(page: &[u8]) -> impl Iterator<Item = &[u8]> {
    page.get(2..362).unwrap_or_default().chunks_exact(12).filter(|entry| entry[0] != 0)
}

/// Reads SMART READ DATA and SMART READ THRESHOLDS. A page whose sum is wrong is not believed.
pub fn smart(data: &[u8], thresholds: &[u8], into: &mut DriveHealth) {
    if !is_whole(data) {
        return;
    }
    for entry in entries(data) {
        let raw = |bytes: usize| little(entry, 5, bytes);
        match entry[0] {
            5 => into.reallocated = raw(4),
            9 => into.power_on_h = raw(3),
            187 => into.media_errors = raw(4),
            193 => into.load_cycles = raw(4),
            // minimum and maximum share the raw value
            190 if into.temperature_c.is_none() => into.temperature_c = raw(1),
            194 => into.temperature_c = raw(1),
            197 => into.pending = raw(4),
            199 => into.link_errors = raw(4),
            _ => {}
        }
    }
    // the test that ran last: 3 to 8 found a fault, 15 is under way
    into.self_test_failed = match data[363] >> 4 {
        0 => Some(false),
        3..=8 => Some(true),
        _ => None,
    };
    if is_whole(thresholds) {
        let limit = |id: u8| entries(thresholds).find(|entry| entry[0] == id).map(|entry| entry[1]);
        // flag 0 of an attribute says that it foretells a failure; a value of 0, 254 or 255 is none
        let crossed = |entry: &[u8]| {
            let threshold = limit(entry[0]).filter(|limit| (1..=253).contains(limit));
            entry[1] & 1 == 1 && (1..=253).contains(&entry[3]) && threshold.is_some_and(|limit| entry[3] <= limit)
        };
        into.failing = Some(entries(data).any(crossed));
    }
}

/// Reads a page of the device statistics. They are standard, and go before attributes.
pub fn statistics(page: &[u8], sector_bytes: u64, into: &mut DriveHealth) {
    // a statistic: its value, and in the highest byte whether it is supported and valid
    let value = |offset: usize, bytes: usize| {
        let flags = little(page, offset + 7, 1)?;
        (flags & 0xc0 == 0xc0).then(|| little(page, offset, bytes))?
    };
    let take = |field: &mut Option<u64>, found: Option<u64>| *field = found.or(*field);
    // signed: below zero there is none
    let degrees = |offset: usize| value(offset, 1).filter(|degrees| *degrees < 128);
    match page.get(2) {
        Some(0x01) => {
            take(&mut into.power_on_h, value(16, 4));
            take(&mut into.written_bytes, value(24, 6).map(|sectors| sectors.saturating_mul(sector_bytes)));
            take(&mut into.read_bytes, value(40, 6).map(|sectors| sectors.saturating_mul(sector_bytes)));
        }
        Some(0x03) => {
            take(&mut into.load_cycles, value(24, 4));
            take(&mut into.reallocated, value(32, 4));
            take(&mut into.pending, value(56, 4));
        }
        Some(0x04) => take(&mut into.media_errors, value(8, 4)),
        Some(0x05) => {
            take(&mut into.temperature_c, degrees(8));
            take(&mut into.hot_s, value(80, 4).map(|minutes| minutes * 60));
            take(&mut into.temperature_limit_c, degrees(88));
        }
        Some(0x06) => take(&mut into.link_errors, value(24, 4)),
        Some(0x07) => take(&mut into.wear_percent, value(8, 1)),
        _ => {}
    }
}
