//! NVMe: SMART / Health Information (log page 02h), Device Self-test (06h) and Identify Controller, after
//! the NVM Express Base Specification 2.0, figures 207, 212 and 275.

use crate::DriveHealth;
use crate::bytes::{kelvin_to_celsius, read_le, read_le_u128_capped};

/// Length of the health log.
pub const HEALTH_BYTES: usize = 512;
/// Length of the self-test log.
pub const SELF_TEST_BYTES: usize = 564;
/// Length of Identify.
pub const IDENTIFY_BYTES: usize = 4096;

/// Size of a data unit: a thousand blocks of 512 bytes.
const DATA_UNIT_BYTES: u64 = 512_000;

/// Reads the health log into `into`.
pub fn apply_health_log(log: &[u8], into: &mut DriveHealth) {
    if log.len() < HEALTH_BYTES {
        return;
    }
    let byte = |offset: usize| read_le(log, offset, 1);
    // a temperature beyond its limit (bit 1) is not a failure of the drive
    into.failing = byte(0).map(|warning| warning & !0b10 != 0);
    into.temperature_c = read_le(log, 1, 2).and_then(kelvin_to_celsius);
    into.spare_percent = byte(3);
    into.spare_limit_percent = byte(4);
    into.wear_percent = byte(5);
    let units = |offset: usize| read_le_u128_capped(log, offset).map(|units| units.saturating_mul(DATA_UNIT_BYTES));
    into.read_bytes = units(32);
    into.written_bytes = units(48);
    into.power_on_h = read_le_u128_capped(log, 128);
    into.unsafe_shutdowns = read_le_u128_capped(log, 144);
    into.media_errors = read_le_u128_capped(log, 160);
    let minutes = read_le(log, 192, 4).zip(read_le(log, 196, 4)).map(|(warm, critical)| warm + critical);
    into.hot_s = minutes.map(|minutes| minutes * 60);
    into.thermal_throttles = read_le(log, 216, 4).zip(read_le(log, 220, 4)).map(|(light, heavy)| light + heavy);
}

/// Reads the temperature limit from Identify Controller.
pub fn apply_temperature_limits(identify: &[u8], into: &mut DriveHealth) {
    let (warning, critical) = (read_le(identify, 266, 2), read_le(identify, 268, 2));
    into.temperature_limit_c = warning.and_then(kelvin_to_celsius).or(critical.and_then(kelvin_to_celsius));
}

/// Reads the newest result of the self-test log.
pub fn apply_self_test(log: &[u8], into: &mut DriveHealth) {
    let Some(result) = read_le(log, 4, 1).map(|status| status & 0xf) else { return };
    // 0 passed, 1 to 4 and 8 and 9 were stopped, 5 to 7 found a fault, 15 is an empty entry
    into.self_test_failed = match result {
        0 => Some(false),
        5..=7 => Some(true),
        _ => None,
    };
    if result != 0xf {
        into.self_test_age_h = into.power_on_h.zip(read_le(log, 8, 8)).and_then(|(now, then)| now.checked_sub(then));
    }
}
