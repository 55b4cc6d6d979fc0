//! fio's number formats: sizes with `k`, `m`, `g`, times with `s`, `ms`, `us`, ranges and lists for
//! reads and writes (HOWTO, "Parameter types").

use std::time::Duration;

use crate::script::TargetAmount;

/// Largest number of sizes in a range or split.
const MAX_SIZES: usize = 4096;
/// Largest request, bytes.
const MAX_REQUEST_BYTES: u64 = 1 << 30;

/// Splits a text into a whole number, decimal or after `0x`, and its unit in lower case.
fn split_unit(text: &str) -> Option<(u64, String)> {
    let text = text.trim().to_lowercase();
    let (digits, radix) = text.strip_prefix("0x").map_or((text.as_str(), 10), |rest| (rest, 16));
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    let number = u64::from_str_radix(&digits[..end], radix).ok()?;
    Some((number, digits[end..].trim().to_owned()))
}

/// Parses a whole number without a unit.
pub fn parse_count(text: &str) -> Result<u64, String> {
    match split_unit(text) {
        Some((number, rest)) if rest.is_empty() => Ok(number),
        _ => Err(format!("expected a whole number, found `{text}`")),
    }
}

/// Parses a size. `base` is `kb_base`: with 1024, `k` is 1024 and `ki` is 1000, as in old scripts;
/// with 1000 it is the other way round.
pub fn parse_size(text: &str, base: u64) -> Result<u64, String> {
    let wrong = || format!("expected a size such as 4096, 4k or 10g, found `{text}`");
    let (number, unit) = split_unit(text).ok_or_else(wrong)?;
    let unit = unit.strip_suffix('b').unwrap_or(&unit);
    let (power, binary) = match unit.strip_suffix('i') {
        Some(power) if !power.is_empty() => (power, base == 1000),
        _ => (unit, base == 1024),
    };
    let power = match power {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        _ => return Err(wrong()),
    };
    let unit: u64 = if binary { 1024u64.pow(power) } else { 1000u64.pow(power) };
    number.checked_mul(unit).ok_or_else(wrong)
}

/// Parses a size, or a share of the file such as `50%`.
pub fn parse_amount(text: &str, base: u64) -> Result<TargetAmount, String> {
    match text.trim().strip_suffix('%') {
        Some(percent) => match percent.trim().parse::<f64>() {
            Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(TargetAmount::Share(percent / 100.0)),
            _ => Err(format!("expected a size or a share up to 100%, found `{text}`")),
        },
        None => parse_size(text, base).map(TargetAmount::Bytes),
    }
}

/// Parses a time; `unit_s` is the unit of a number without one, seconds.
pub fn parse_time(text: &str, unit_s: f64) -> Result<Duration, String> {
    let wrong = || format!("expected a time such as 30, 10m or 500ms, found `{text}`");
    let (number, unit) = split_unit(text).ok_or_else(wrong)?;
    let unit_s = match unit.as_str() {
        "" => unit_s,
        "d" => 86_400.0,
        "h" => 3600.0,
        "m" => 60.0,
        "s" | "sec" => 1.0,
        "ms" | "msec" => 1e-3,
        "us" | "usec" => 1e-6,
        _ => return Err(wrong()),
    };
    let seconds = number as f64 * unit_s;
    if seconds > 366.0 * 86_400.0 { Err(wrong()) } else { Ok(Duration::from_secs_f64(seconds)) }
}

/// Splits a list into the values for reads and for writes: `a`, `a,b`, `,b`. A third value, for
/// trims, is ignored. An empty value is `None`.
pub fn split_directions(text: &str) -> [Option<&str>; 2] {
    let values: Vec<&str> = text.split(',').map(str::trim).collect();
    let value_at = |index: usize| values.get(index).copied().filter(|value| !value.is_empty());
    // a single value without a comma applies to both
    let writes = if values.len() == 1 { value_at(0) } else { value_at(1) };
    [value_at(0), writes]
}

/// Sizes of requests with their weights.
pub type WeightedSizes = Vec<(u32, f64)>;

fn parse_request_size(text: &str, base: u64) -> Result<u32, String> {
    let bytes = parse_size(text, base)?;
    match u32::try_from(bytes) {
        Ok(size) if (1..=MAX_REQUEST_BYTES).contains(&bytes) => Ok(size),
        _ => Err(format!("expected a request of 1 to {MAX_REQUEST_BYTES} bytes, found {bytes}")),
    }
}

/// Parses `bs`: one size.
pub fn parse_fixed_size(text: &str, base: u64) -> Result<WeightedSizes, String> {
    Ok(vec![(parse_request_size(text, base)?, 1.0)])
}

/// Parses `bsrange`: every multiple of the smallest size up to the largest, with equal probability
/// (fio draws a number up to the largest, adds the smallest, and rounds down to a multiple).
pub fn parse_size_range(text: &str, base: u64) -> Result<WeightedSizes, String> {
    let (min_size, max_size) = text.split_once(['-', ':']).ok_or("expected a range such as 4k-64k")?;
    let (a, b) = (parse_request_size(min_size, base)?, parse_request_size(max_size, base)?);
    let (min_size, max_size) = (a.min(b), a.max(b));
    let steps = max_size / min_size;
    if max_size % min_size != 0 || steps as usize > MAX_SIZES {
        return Err(format!("{text}: the larger size must be a multiple of the smaller, up to {MAX_SIZES} times"));
    }
    Ok((1..=steps).map(|times| (min_size * times, 1.0)).collect())
}

/// Parses `bssplit`: `size/percent:size/percent`. Sizes without a percentage share the remainder equally.
pub fn parse_size_split(text: &str, base: u64) -> Result<WeightedSizes, String> {
    let mut sizes: Vec<(u32, Option<f64>)> = Vec::new();
    for part in text.split(':') {
        let (bytes, percent) = part.split_once('/').unwrap_or((part, ""));
        let percent = match percent.trim() {
            "" => None,
            percent => Some(parse_count(percent)? as f64),
        };
        sizes.push((parse_request_size(bytes, base)?, percent));
        if sizes.len() > MAX_SIZES {
            return Err(format!("more than {MAX_SIZES} sizes"));
        }
    }
    let total: f64 = sizes.iter().filter_map(|s| s.1).sum();
    let open_count = sizes.iter().filter(|s| s.1.is_none()).count();
    if total > 100.0 || (open_count == 0 && total < 100.0) {
        return Err(format!("{text}: the percentages sum to {total}, not 100"));
    }
    let open_share = if open_count > 0 { (100.0 - total) / open_count as f64 } else { 0.0 };
    let sizes: WeightedSizes =
        sizes.into_iter().map(|(size, percent)| (size, percent.unwrap_or(open_share))).filter(|s| s.1 > 0.0).collect();
    if sizes.is_empty() { Err(format!("{text}: no size has a percentage")) } else { Ok(sizes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_sizes_as_fio_does() {
        // HOWTO, "Parameter types": 4 KiB is 4k with kb_base=1024 and 4ki with 1000
        for (text, base, bytes) in [
            ("4096", 1024, 4096),
            ("4k", 1024, 4096),
            ("4kB", 1024, 4096),
            ("4KB", 1024, 4096),
            ("1024k", 1024, 1 << 20),
            ("1mi", 1024, 1_000_000),
            ("4ki", 1000, 4096),
            ("1m", 1000, 1_000_000),
            ("0x10k", 1024, 16_384),
            ("1t", 1024, 1 << 40),
        ] {
            assert_eq!(parse_size(text, base), Ok(bytes), "{text}");
        }
        for text in ["", "k", "1.5g", "4q", "-1", "99999999999p", "4 4", "4kk", "0x"] {
            assert!(parse_size(text, 1024).is_err(), "{text}");
        }
    }

    #[test]
    fn parses_times_shares_and_directions() {
        assert_eq!(parse_time("10m", 1.0), Ok(Duration::from_secs(600)));
        assert_eq!(parse_time("500", 1e-6), Ok(Duration::from_micros(500)));
        assert_eq!(parse_time("2ms", 1e-6), Ok(Duration::from_millis(2)));
        assert!(parse_time("5x", 1.0).is_err() && parse_time("99999999999999d", 1.0).is_err());
        assert_eq!(parse_amount("50%", 1024), Ok(TargetAmount::Share(0.5)));
        assert!(parse_amount("150%", 1024).is_err() && parse_amount("%", 1024).is_err());
        assert_eq!(split_directions("8k"), [Some("8k"), Some("8k")]);
        assert_eq!(split_directions("8k,32k"), [Some("8k"), Some("32k")]);
        assert_eq!(split_directions(",8k"), [None, Some("8k")]);
        assert_eq!(split_directions("8k,"), [Some("8k"), None]);
    }

    #[test]
    fn parses_splits_and_ranges() {
        assert_eq!(parse_size_split("4k/50:1k/:32k/", 1024), Ok(vec![(4096, 50.0), (1024, 25.0), (32_768, 25.0)]));
        assert_eq!(parse_size_range("4k-16k", 1024), Ok(vec![(4096, 1.0), (8192, 1.0), (12_288, 1.0), (16_384, 1.0)]));
        assert_eq!(parse_size_range("4k-4k", 1024), Ok(vec![(4096, 1.0)]));
        for text in ["4k/60:8k/60", "4k/10", "4k/x", "/50", "0/100", ""] {
            assert!(parse_size_split(text, 1024).is_err(), "{text}");
        }
        for text in ["4k", "1-1g", "4k-6k", "-", "0-4k"] {
            assert!(parse_size_range(text, 1024).is_err(), "{text}");
        }
    }
}
