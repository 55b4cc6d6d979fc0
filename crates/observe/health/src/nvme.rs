//! NVMe: SMART / Health Information (log page 02h), Device Self-test (06h) and Identify Controller, after
//! the NVM Express Base Specification 2.0, figures 207, 212 and 275.

use crate::DriveHealth;
use crate::bytes::{celsius, little, little_128};

/// Length of the health log.
pub const HEALTH_BYTES: usize = 512;
/// Length of the self-test log.
pub const SELF_TEST_BYTES: usize = 564;
/// Length of Identify.
pub const IDENTIFY_BYTES: usize = 4096;

/// Size of a data unit: a thousand blocks of 512 bytes.
const DATA_UNIT_BYTES: u64 = 512_000;

/// Reads the health log into `into`.
pub fn health(log: &[u8], into: &mut DriveHealth) {
    if log.len() < HEALTH_BYTES {
        return;
    }
    let byte = |offset: usize| little(log, offset, 1);
    // a temperature beyond its limit (bit 1) is not a failure of the drive
    into.failing = byte(0).map(|warning| warning & !0b10 != 0);
    into.temperature_c = little(log, 1, 2).and_then(celsius);
    into.spare_percent = byte(3);
    into.spare_limit_percent = byte(4);
    into.wear_percent = byte(5);
    let units = |offset: usize| little_128(log, offset).map(|units| units.saturating_mul(DATA_UNIT_BYTES));
    into.read_bytes = units(32);
    into.written_bytes = units(48);
    into.power_on_h = little_128(log, 128);
    into.unsafe_shutdowns = little_128(log, 144);
    into.media_errors = little_128(log, 160);
    let minutes = little(log, 192, 4).zip(little(log, 196, 4)).map(|(warm, critical)| warm + critical);
    into.hot_s = minutes.map(|minutes| minutes * 60);
    into.thermal_throttles = little(log, 216, 4).zip(little(log, 220, 4)).map(|(light, heavy)| light + heavy);
}

/// Reads the temperature limit from Identify Controller.
pub fn limits(identify: &[u8], into: &mut DriveHealth) {
    let (warning, critical) = (little(identify, 266, 2), little(identify, 268, 2));
    into.temperature_limit_c = warning.and_then(celsius).or(critical.and_then(celsius));
}

/// Reads the newest result of the self-test log.
pub fn self_test(log: &[u8], into: &mut DriveHealth) {
    let Some(result) = little(log, 4, 1).map(|status| status & 0xf) else { return };
    // 0 passed, 1 to 4 and 8 and 9 were stopped, 5 to 7 found a fault, 15 is an empty entry
    into.self_test_failed = match result {
        0 => Some(false),
        5..=7 => Some(true),
        _ => None,
    };
    if result != 0xf {
        into.self_test_age_h = into.power_on_h.zip(little(log, 8, 8)).and_then(|(now, then)| now.checked_sub(then));
    }
}
