//! SCSI and SAS: log pages by LOG SENSE, and sense data, after SPC-5 and SBC-4.

use crate::DriveHealth;
use crate::bytes::read_be;

/// Log pages that are read: error counters of write, read and verify, temperature, background scan, self-tests,
/// endurance, informational exceptions. The page of the background scan has the power-on hours, from which the age of
/// a self-test is computed, so it comes first.
pub const LOG_PAGES: [u8; 8] = [0x02, 0x03, 0x05, 0x0d, 0x15, 0x10, 0x11, 0x2f];

/// Parses sense data: sense key, additional sense code and its qualifier.
pub fn parse_sense(bytes: &[u8]) -> Option<(u8, u8, u8)> {
    let byte = |offset: usize| bytes.get(offset).copied();
    match byte(0)? & 0x7f {
        0x70 | 0x71 => Some((byte(2)? & 0xf, byte(12)?, byte(13)?)),
        0x72 | 0x73 => Some((byte(1)? & 0xf, byte(2)?, byte(3)?)),
        _ => None,
    }
}

/// Returns true if sense data report a sleeping drive: code 5Eh, with a qualifier for standby.
pub fn is_asleep(bytes: &[u8]) -> bool {
    // standby and standby_y, each by timer and by command, and sleep
    matches!(parse_sense(bytes), Some((_, 0x5e, 0x02 | 0x04 | 0x09 | 0x0a | 0x43 | 0x45 | 0x46)))
        // not ready until a START STOP UNIT command
        || matches!(parse_sense(bytes), Some((0x2, 0x04, 0x02)))
}

/// Returns the parameters of a log page: code and value of each.
fn log_parameters(page: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let length = read_be(page, 2, 2).unwrap_or(0) as usize;
    let mut rest = page.get(4..).unwrap_or_default();
    rest = rest.get(..length).unwrap_or(rest);
    std::iter::from_fn(move || {
        let code = read_be(rest, 0, 2)?;
        let end = 4 + usize::from(*rest.get(3)?);
        let value = rest.get(4..end)?;
        rest = &rest[end..];
        Some((code, value))
    })
}

/// Reads a log page; counters that several pages share are added up.
pub fn apply_log_page(page: &[u8], health: &mut DriveHealth) {
    let Some(code) = page.first().map(|byte| byte & 0x3f) else { return };
    let add = |field: &mut Option<u64>, more: Option<u64>| {
        if let Some(more) = more {
            *field = Some(field.unwrap_or(0).saturating_add(more));
        }
    };
    for (parameter, value) in log_parameters(page) {
        let byte = |offset: usize| read_be(value, offset, 1);
        match (code, parameter) {
            // total uncorrected errors; total bytes processed
            (0x02 | 0x03 | 0x05, 0x0006) => add(&mut health.media_errors, read_be(value, 0, value.len())),
            (0x02, 0x0005) => health.written_bytes = read_be(value, 0, value.len()),
            (0x03, 0x0005) => health.read_bytes = read_be(value, 0, value.len()),
            (0x0d, 0x0000) => health.temperature_c = byte(1).filter(|degrees| *degrees != 0xff),
            (0x0d, 0x0001) => health.temperature_limit_c = byte(1).filter(|degrees| !matches!(degrees, 0 | 0xff)),
            // minutes of power
            (0x15, 0x0000) => health.power_on_h = read_be(value, 0, 4).map(|minutes| minutes / 60),
            (0x10, 0x0001) => apply_self_test(value, health),
            (0x11, 0x0001) => health.wear_percent = byte(3),
            // 5Dh predicts a failure
            (0x2f, 0x0000) => health.failing = byte(0).map(|asc| asc == 0x5d),
            _ => {}
        }
    }
}

/// Reads the newest self-test: type, result, and power-on hours at its time.
fn apply_self_test(value: &[u8], health: &mut DriveHealth) {
    let Some((first, hours)) = read_be(value, 0, 1).zip(read_be(value, 2, 2)) else { return };
    let (test, result) = (first >> 5, first & 0xf);
    if test == 0 && hours == 0 {
        return;
    }
    health.self_test_failed = match result {
        0 => Some(false),
        3..=7 => Some(true),
        _ => None,
    };
    // FFFFh means 65535 hours or more
    health.self_test_age_h = health.power_on_h.filter(|_| hours != 0xffff).and_then(|now| now.checked_sub(hours));
}
