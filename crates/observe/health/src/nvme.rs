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

/// Reads the health log into `health`.
pub fn apply_health_log(log: &[u8], health: &mut DriveHealth) {
    if log.len() < HEALTH_BYTES {
        return;
    }
    let byte = |offset: usize| read_le(log, offset, 1);
    // a temperature beyond its limit (bit 1) is not a failure of the drive
    health.failing = byte(0).map(|warning| warning & !0b10 != 0);
    health.temperature_c = read_le(log, 1, 2).and_then(kelvin_to_celsius);
    health.spare_percent = byte(3);
    health.spare_limit_percent = byte(4);
    health.wear_percent = byte(5);
    let units = |offset: usize| read_le_u128_capped(log, offset).map(|units| units.saturating_mul(DATA_UNIT_BYTES));
    health.read_bytes = units(32);
    health.written_bytes = units(48);
    health.power_on_h = read_le_u128_capped(log, 128);
    health.unsafe_shutdowns = read_le_u128_capped(log, 144);
    health.media_errors = read_le_u128_capped(log, 160);
    let minutes = read_le(log, 192, 4).zip(read_le(log, 196, 4)).map(|(warm, critical)| warm + critical);
    health.hot_s = minutes.map(|minutes| minutes * 60);
    health.thermal_throttles = read_le(log, 216, 4).zip(read_le(log, 220, 4)).map(|(light, heavy)| light + heavy);
}

/// Reads the temperature limit from Identify Controller.
pub fn apply_temperature_limits(identify: &[u8], health: &mut DriveHealth) {
    let (warning, critical) = (read_le(identify, 266, 2), read_le(identify, 268, 2));
    health.temperature_limit_c = warning.and_then(kelvin_to_celsius).or(critical.and_then(kelvin_to_celsius));
}

/// Reads the newest result of the self-test log.
pub fn apply_self_test(log: &[u8], health: &mut DriveHealth) {
    let Some(result) = read_le(log, 4, 1).map(|status| status & 0xf) else { return };
    // 0 passed, 1 to 4 and 8 and 9 were stopped, 5 to 7 found a fault, 15 is an empty entry
    health.self_test_failed = match result {
        0 => Some(false),
        5..=7 => Some(true),
        _ => None,
    };
    if result != 0xf {
        health.self_test_age_h =
            health.power_on_h.zip(read_le(log, 8, 8)).and_then(|(now, then)| now.checked_sub(then));
    }
}
