//! ATA: IDENTIFY DEVICE, SMART attributes and their thresholds, Device Statistics (log 04h), after ACS-4
//! and, for attributes, SFF-8035i. Most attributes are vendor-specific and are ignored.

use crate::DriveHealth;
use crate::bytes::read_le;

/// Length of every reply.
pub const REPLY_BYTES: usize = 512;

/// Pages of the device statistics that are read.
pub const STATISTICS_PAGES: [u8; 6] = [0x01, 0x03, 0x04, 0x05, 0x06, 0x07];

/// Capabilities that IDENTIFY reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtaCapabilities {
    /// SMART is supported and enabled.
    pub smart: bool,
    /// General purpose logs can be read.
    pub logs: bool,
    /// Bytes of a logical sector.
    pub sector_bytes: u64,
}

/// Parses IDENTIFY; `None` if the reply is empty.
pub fn parse_identify(reply: &[u8]) -> Option<AtaCapabilities> {
    let word = |number: usize| read_le(reply, number * 2, 2);
    // words 82 to 87 are valid only if the highest bits of 83 and 87 are 01
    let is_valid_word = |number: usize| word(number).is_some_and(|bits| bits >> 14 == 1);
    let is_bit_set = |number: usize, bit: u32| word(number).is_some_and(|bits| bits >> bit & 1 == 1);
    word(0)?;
    // word 106, bit 12: a logical sector is longer than 256 words
    let is_long_sector = is_valid_word(106) && is_bit_set(106, 12);
    let sector_bytes = if is_long_sector { (word(117)? | word(118)? << 16) * 2 } else { 512 };
    Some(AtaCapabilities {
        smart: is_valid_word(83) && is_bit_set(82, 0) && is_bit_set(85, 0),
        logs: is_valid_word(83) && is_bit_set(84, 5),
        sector_bytes,
    })
}

/// Returns true if the drive is spinning down or has stopped, by the count register of CHECK POWER MODE.
pub fn is_asleep(count: u8) -> bool {
    // standby, standby_y, and a stopped spindle with an active NV cache
    matches!(count, 0x00 | 0x01 | 0x40)
}

/// Returns true if the page is complete and its bytes add up to zero.
fn has_valid_checksum(page: &[u8]) -> bool {
    page.len() >= REPLY_BYTES && page[..REPLY_BYTES].iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)) == 0
}

/// Returns the used entries of a table of thirty attributes or thresholds. The first byte of an entry is its id.
fn attribute_entries(page: &[u8]) -> impl Iterator<Item = &[u8]> {
    page.get(2..362).unwrap_or_default().chunks_exact(12).filter(|entry| entry[0] != 0)
}

/// Reads SMART READ DATA and SMART READ THRESHOLDS. A page with a wrong checksum is ignored.
pub fn apply_smart(data: &[u8], thresholds: &[u8], health: &mut DriveHealth) {
    if !has_valid_checksum(data) {
        return;
    }
    for entry in attribute_entries(data) {
        let raw = |bytes: usize| read_le(entry, 5, bytes);
        match entry[0] {
            5 => health.reallocated = raw(4),
            9 => health.power_on_h = raw(3),
            187 => health.media_errors = raw(4),
            193 => health.load_cycles = raw(4),
            // minimum and maximum share the raw value
            190 if health.temperature_c.is_none() => health.temperature_c = raw(1),
            194 => health.temperature_c = raw(1),
            197 => health.pending = raw(4),
            199 => health.link_errors = raw(4),
            _ => {}
        }
    }
    // the last self-test: 3 to 8 found a fault, 15 is running
    health.self_test_failed = match data[363] >> 4 {
        0 => Some(false),
        3..=8 => Some(true),
        _ => None,
    };
    if has_valid_checksum(thresholds) {
        let limit = |id: u8| attribute_entries(thresholds).find(|entry| entry[0] == id).map(|entry| entry[1]);
        // flag 0 marks an attribute that predicts failure; 0, 254 and 255 are not valid values
        let has_crossed_threshold = |entry: &[u8]| {
            let threshold = limit(entry[0]).filter(|limit| (1..=253).contains(limit));
            entry[1] & 1 == 1 && (1..=253).contains(&entry[3]) && threshold.is_some_and(|limit| entry[3] <= limit)
        };
        health.failing = Some(attribute_entries(data).any(has_crossed_threshold));
    }
}

/// Reads a page of the device statistics. They are standardized and override attributes.
pub fn apply_statistics(page: &[u8], sector_bytes: u64, health: &mut DriveHealth) {
    // a statistic has its value in the low bytes; the flags "supported" and "valid" are in the highest byte
    let value = |offset: usize, bytes: usize| {
        let flags = read_le(page, offset + 7, 1)?;
        (flags & 0xc0 == 0xc0).then(|| read_le(page, offset, bytes))?
    };
    let set = |field: &mut Option<u64>, found: Option<u64>| *field = found.or(*field);
    // the byte is signed; temperatures below zero are ignored
    let degrees = |offset: usize| value(offset, 1).filter(|degrees| *degrees < 128);
    match page.get(2) {
        Some(0x01) => {
            set(&mut health.power_on_h, value(16, 4));
            set(&mut health.written_bytes, value(24, 6).map(|sectors| sectors.saturating_mul(sector_bytes)));
            set(&mut health.read_bytes, value(40, 6).map(|sectors| sectors.saturating_mul(sector_bytes)));
        }
        Some(0x03) => {
            set(&mut health.load_cycles, value(24, 4));
            set(&mut health.reallocated, value(32, 4));
            set(&mut health.pending, value(56, 4));
        }
        Some(0x04) => set(&mut health.media_errors, value(8, 4)),
        Some(0x05) => {
            set(&mut health.temperature_c, degrees(8));
            set(&mut health.hot_s, value(80, 4).map(|minutes| minutes * 60));
            set(&mut health.temperature_limit_c, degrees(88));
        }
        Some(0x06) => set(&mut health.link_errors, value(24, 4)),
        Some(0x07) => set(&mut health.wear_percent, value(8, 1)),
        _ => {}
    }
}
