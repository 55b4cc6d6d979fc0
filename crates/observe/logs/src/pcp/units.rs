//! Units of a metric as its descriptor packs them: three small dimensions (space, time, count) and their scales
//! (PMAPI(3), pmUnits).

/// Dimensions and scales.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Units {
    pub space: i8,
    pub time: i8,
    pub count: i8,
    space_scale: u8,
    time_scale: u8,
    count_scale: i8,
}

/// Seconds of the time scales: nanosecond to hour.
const TIME_SCALE_SECONDS: [f64; 6] = [1e-9, 1e-6, 1e-3, 1.0, 60.0, 3600.0];

impl Units {
    /// Unpacks the descriptor's word.
    pub fn unpack(word: u32) -> Units {
        let nibble = |bit: u32| (word >> bit & 15) as u8;
        let signed = |bit: u32| ((nibble(bit) << 4).cast_signed()) >> 4;
        Units {
            space: signed(28),
            time: signed(24),
            count: signed(20),
            space_scale: nibble(16),
            time_scale: nibble(12),
            count_scale: signed(8),
        }
    }

    /// Returns the factor to bytes, seconds and single counts. `None` for a scale that the manual does not define.
    pub fn to_base_factor(self) -> Option<f64> {
        let mut factor = 1.0;
        if self.space != 0 {
            let bytes = 1024f64.powi(i32::from(self.space_scale));
            factor *= (self.space_scale <= 6).then_some(bytes)?.powi(i32::from(self.space));
        }
        if self.time != 0 {
            factor *= TIME_SCALE_SECONDS.get(usize::from(self.time_scale))?.powi(i32::from(self.time));
        }
        if self.count != 0 {
            factor *= 10f64.powi(i32::from(self.count_scale)).powi(i32::from(self.count));
        }
        Some(factor)
    }

    /// Returns true if the dimensions are those of a catalogue's unit. `per_time` is subtracted from the time
    /// dimension first (1 for a counter's growth per second).
    pub fn has_dimensions_of(self, unit: &str, per_time: i8) -> bool {
        let dimensions = (self.space, self.time - per_time, self.count);
        match unit {
            "bytes" => dimensions == (1, 0, 0),
            "s" => dimensions == (0, 1, 0),
            "bytes_per_s" => dimensions == (1, -1, 0),
            "per_s" | "pages_per_s" => matches!(dimensions, (0, -1, 1 | 0)),
            "count" | "requests" | "pages" => matches!(dimensions, (0, 0, 1 | 0)),
            "fraction" | "processors" => dimensions == (0, 0, 0),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_unpack_and_convert() {
        // kilobytes; milliseconds; thousands of counts
        let kilobyte = Units::unpack(0x1001_0000);
        assert!(kilobyte.has_dimensions_of("bytes", 0) && kilobyte.to_base_factor() == Some(1024.0));
        let millisecond = Units::unpack(0x0100_2000);
        assert!(millisecond.has_dimensions_of("s", 0) && millisecond.has_dimensions_of("fraction", 1));
        assert_eq!(millisecond.to_base_factor(), Some(1e-3));
        assert_eq!(Units::unpack(0x0010_0300).to_base_factor(), Some(1000.0));
        // megabytes a second: dimension -1 of time
        let rate = Units::unpack(0x1f02_3000);
        assert!(rate.has_dimensions_of("bytes_per_s", 0) && !rate.has_dimensions_of("bytes", 0));
        assert_eq!(rate.to_base_factor(), Some(1024.0 * 1024.0));
        assert_eq!(Units::unpack(0x0100_9000).to_base_factor(), None);
    }
}
