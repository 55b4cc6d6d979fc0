//! `vcgencmd get_throttled` and `measure_temp` of a Raspberry Pi: whether its firmware lowers the clock for want of
//! voltage or because of heat.

use diskwright_base::counter_ids::hardware;

use super::{PROCESSORS, Snapshot};

/// Bits of the voltage, now and since boot.
const LOW_VOLTAGE: u32 = 1 | 1 << 16;
/// Bits of the limit of heat, now and since boot.
const HEAT: u32 = 1 << 3 | 1 << 19;
/// Bits of a clock that was lowered, now and since boot.
const LOWERED: u32 = 0b110 | 0b110 << 16;

/// Reads `throttled=0x50000`, `temp=61.2'C`, `volt=0.86V`.
pub fn read_line(snapshot: &mut Snapshot<'_, '_>, line: &str) -> bool {
    let Some((name, value)) = line.trim().split_once('=') else { return false };
    match name {
        "throttled" => {
            let digits = value.strip_prefix("0x").unwrap_or(value);
            let Ok(bits) = u32::from_str_radix(digits, 16) else { return false };
            snapshot.begin_piece("throttled");
            let is_low = bits & LOW_VOLTAGE != 0;
            let is_hot = bits & HEAT != 0 || bits & LOWERED != 0 && !is_low;
            snapshot.put_value(hardware::UNDER_VOLTAGES, PROCESSORS, f64::from(u8::from(is_low)));
            snapshot.put_value(hardware::THERMAL_THROTTLES, PROCESSORS, f64::from(u8::from(is_hot)));
        }
        "temp" => {
            let Some(degrees) = value.split(['\'', '°', 'C']).next().and_then(|text| text.parse().ok()) else {
                return false;
            };
            snapshot.replace_value(hardware::TEMPERATURE, PROCESSORS, degrees);
        }
        "volt" if value.ends_with('V') => {}
        _ => return false,
    }
    true
}
