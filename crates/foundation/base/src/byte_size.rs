//! Sizes in bytes: parsing what people write, formatting for screens, and the one rule about prefixes.
//!
//! - `KiB`, `MiB` … are binary everywhere.
//! - `K`, `KB`, `M`, `MB` … are binary where a size means memory, a request, a record, a stripe unit, a block or a
//!   cache, and decimal where it means a capacity, a rate or an amount of data on a disk.
//! - Screens print `KiB` or `kB`, so that a reader need not know the meaning.

use std::fmt;

use crate::units::{UnitError, format_significant, split_number_and_unit};

/// Unit of values that are capacities, for [`format_value`](crate::units::format_value): JSON and the catalogue use
/// `bytes` for them too; [`display_unit`](crate::catalogue::display_unit) tells them apart.
pub const CAPACITY_UNIT: &str = "capacity_bytes";

/// The binary prefix Ki.
const KI: f64 = 1024.0;

/// Units in lower case, each with its bytes in a size of memory and its bytes in a capacity.
const UNITS: [(&str, f64, f64); 16] = [
    ("b", 1.0, 1.0),
    ("k", KI, 1e3),
    ("kb", KI, 1e3),
    ("kib", KI, KI),
    ("m", KI * KI, 1e6),
    ("mb", KI * KI, 1e6),
    ("mib", KI * KI, KI * KI),
    ("g", KI * KI * KI, 1e9),
    ("gb", KI * KI * KI, 1e9),
    ("gib", KI * KI * KI, KI * KI * KI),
    ("t", KI * KI * KI * KI, 1e12),
    ("tb", KI * KI * KI * KI, 1e12),
    ("tib", KI * KI * KI * KI, KI * KI * KI * KI),
    ("p", KI * KI * KI * KI * KI, 1e15),
    ("pb", KI * KI * KI * KI * KI, 1e15),
    ("pib", KI * KI * KI * KI * KI, KI * KI * KI * KI * KI),
];

/// Units of [`SizeMeaning::Memory`] and their sizes, bytes.
pub(crate) const MEMORY_UNITS: &[(&str, f64)] = &select_units(SizeMeaning::Memory);
/// Units of [`SizeMeaning::Capacity`] and their sizes, bytes.
pub(crate) const CAPACITY_UNITS: &[(&str, f64)] = &select_units(SizeMeaning::Capacity);

/// Selects the column of a meaning from [`UNITS`].
const fn select_units(meaning: SizeMeaning) -> [(&'static str, f64); UNITS.len()] {
    let mut units = [("", 0.0); UNITS.len()];
    let mut index = 0;
    while index < UNITS.len() {
        let (name, memory_bytes, capacity_bytes) = UNITS[index];
        let bytes = match meaning {
            SizeMeaning::Memory => memory_bytes,
            SizeMeaning::Capacity => capacity_bytes,
        };
        units[index] = (name, bytes);
        index += 1;
    }
    units
}

/// The meaning of a size, which decides whether its prefixes are binary or decimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SizeMeaning {
    /// Memory, a request, a record, a stripe unit, a block or a cache: binary.
    Memory,
    /// The capacity of a disk, or data on one such as a file, a database or a log: decimal, as drives are sold.
    Capacity,
}

impl SizeMeaning {
    /// Units in lower case and their sizes, bytes.
    pub(crate) fn units(self) -> &'static [(&'static str, f64)] {
        match self {
            SizeMeaning::Memory => MEMORY_UNITS,
            SizeMeaning::Capacity => CAPACITY_UNITS,
        }
    }
}

/// A number of bytes and its meaning. Its `Display` has three significant digits: `64 KiB`, `36 GB`.
///
/// ```
/// use diskwright_base::byte_size::{ByteSize, SizeMeaning};
/// assert_eq!(ByteSize::parse("256MB", SizeMeaning::Memory).unwrap().to_string(), "256 MiB");
/// assert_eq!(ByteSize::parse("36GB", SizeMeaning::Capacity).unwrap().to_string(), "36 GB");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ByteSize {
    bytes: f64,
    meaning: SizeMeaning,
}

impl ByteSize {
    /// A size of memory, of requests, records, stripe units, blocks or caches, bytes; a mean need not be whole.
    pub fn memory(bytes: f64) -> ByteSize {
        ByteSize { bytes, meaning: SizeMeaning::Memory }
    }

    /// A capacity, or an amount of data on a disk, bytes.
    pub fn capacity(bytes: f64) -> ByteSize {
        ByteSize { bytes, meaning: SizeMeaning::Capacity }
    }

    /// Parses `512`, `8K`, `64KiB`, `4GB`; a number without a unit is bytes.
    ///
    /// # Errors
    ///
    /// [`UnitError::Size`] if the text is not a number with a known unit, or not a whole number of bytes below 2^63.
    pub fn parse(text: &str, meaning: SizeMeaning) -> Result<ByteSize, UnitError> {
        let wrong = || UnitError::Size(text.to_owned());
        let (number, unit) = split_number_and_unit(text).ok_or_else(wrong)?;
        let unit = unit.to_ascii_lowercase();
        let found = meaning.units().iter().find(|(name, _)| *name == unit || unit.is_empty());
        let bytes = number * found.ok_or_else(wrong)?.1;
        // 2.3GB is 2,299,999,999.9999995 in floating point
        let rounded = bytes.round();
        if (bytes - rounded).abs() > rounded * 1e-12 || rounded > 2f64.powi(63) {
            return Err(wrong());
        }
        Ok(ByteSize { bytes: rounded, meaning })
    }

    /// The size, whole bytes.
    pub fn whole_bytes(self) -> u64 {
        debug_assert!(self.bytes >= 0.0, "a negative size");
        self.bytes.round() as u64
    }

    /// Splits the size into a number and its unit for screens: 64.0 and `KiB`.
    pub fn scale(self) -> (f64, &'static str) {
        let (base, names) = match self.meaning {
            SizeMeaning::Memory => (KI, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]),
            SizeMeaning::Capacity => (1e3, ["B", "kB", "MB", "GB", "TB", "PB"]),
        };
        let mut scaled = self.bytes;
        let mut names = names.into_iter();
        let mut name = names.next().unwrap_or("B");
        for next in names {
            // above this limit the number would be shown as 1024 (or 1000) of its unit
            if scaled.abs() < base - 0.5 {
                break;
            }
            (scaled, name) = (scaled / base, next);
        }
        (scaled, name)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.bytes.is_nan() {
            return f.pad("no data");
        }
        let (number, unit) = self.scale();
        f.pad(&format!("{} {unit}", format_significant(number)))
    }
}

/// Parses an option that is a size of memory, of a request, record, stripe unit, block or cache, bytes.
pub fn parse_memory_size(text: &str) -> Result<u64, UnitError> {
    ByteSize::parse(text, SizeMeaning::Memory).map(ByteSize::whole_bytes)
}

/// Parses an option that is a capacity, or an amount of data on a disk, bytes.
pub fn parse_capacity(text: &str) -> Result<u64, UnitError> {
    ByteSize::parse(text, SizeMeaning::Capacity).map(ByteSize::whole_bytes)
}

/// Parses an option that is a rate in bytes per second: `10MB/s`, or `10MB`. Its prefixes are decimal.
pub fn parse_byte_rate(text: &str) -> Result<u64, UnitError> {
    let bytes = text.trim().strip_suffix("/s").unwrap_or(text);
    parse_capacity(bytes).map_err(|_| UnitError::Size(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_follow_the_meaning() {
        for (text, memory, capacity) in [
            ("512", 512, 512),
            ("512 B", 512, 512),
            ("8K", 8192, 8000),
            ("8kb", 8192, 8000),
            ("64KiB", 65_536, 65_536),
            ("256MB", 268_435_456, 256_000_000),
            ("36GB", 38_654_705_664, 36_000_000_000),
            ("1g", 1 << 30, 1_000_000_000),
            ("2TiB", 2 << 40, 2 << 40),
            ("1PB", 1 << 50, 1_000_000_000_000_000),
            ("1.5K", 1536, 1500),
        ] {
            assert_eq!((parse_memory_size(text), parse_capacity(text)), (Ok(memory), Ok(capacity)), "{text}");
        }
        assert_eq!(parse_capacity("2.3GB"), Ok(2_300_000_000));
        for wrong in ["K", "4X", "0.3B", "0.3", "-1K", "", "9000000PB", "nan"] {
            assert_eq!(parse_memory_size(wrong), Err(UnitError::Size(wrong.to_owned())), "{wrong}");
            assert!(parse_capacity(wrong).is_err(), "{wrong}");
        }
        assert_eq!((parse_byte_rate("10MB"), parse_byte_rate("10 MB/s")), (Ok(10_000_000), Ok(10_000_000)));
        assert_eq!(parse_byte_rate("10/min"), Err(UnitError::Size("10/min".into())));
    }

    #[test]
    fn screens_show_an_unambiguous_unit() {
        for (bytes, memory, capacity) in [
            (0.0, "0 B", "0 B"),
            (512.0, "512 B", "512 B"),
            (1023.4, "1023 B", "1.02 kB"),
            (1023.6, "1 KiB", "1.02 kB"),
            (65_536.0, "64 KiB", "65.5 kB"),
            (999_600.0, "976 KiB", "1 MB"),
            (-4096.0, "-4 KiB", "-4.1 kB"),
            (36e9, "33.5 GiB", "36 GB"),
            (4e18, "3553 PiB", "4000 PB"),
            (f64::NAN, "no data", "no data"),
        ] {
            assert_eq!(ByteSize::memory(bytes).to_string(), memory);
            assert_eq!(ByteSize::capacity(bytes).to_string(), capacity);
        }
        assert_eq!(format!("{:>8}", ByteSize::memory(1024.0)), "   1 KiB");
    }
}
