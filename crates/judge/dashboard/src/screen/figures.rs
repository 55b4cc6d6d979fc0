//! Numbers in tables: three digits and a unit of one or two letters, so that each fits a narrow column.

use diskwright_base::byte_size::ByteSize;

/// Largest width of a text of [`format_figure`], columns.
pub(super) const MAX_WIDTH: usize = 6;

/// Letters of the powers of a thousand.
const THOUSANDS: [&str; 6] = ["", "k", "M", "G", "T", "P"];

/// Formats a value in at most six columns. The column's title has its unit: seconds are shown as `us`, `ms` and `s`,
/// fractions as percent, sizes as `Ki` and `Mi`, everything else with a letter for thousands. A missing value is a
/// dash, never 0.
pub(super) fn format_figure(value: Option<f64>, unit: &str) -> String {
    let Some(value) = value.filter(|value| value.is_finite()) else { return "-".into() };
    match unit {
        "fraction" => format_percent(value),
        "s" => format_seconds(value),
        "bytes" => format_binary(value),
        _ => format_thousands(value),
    }
}

fn format_percent(fraction: f64) -> String {
    let percent = fraction * 100.0;
    match percent.abs() {
        small if small < 0.05 => "0%".into(),
        small if small < 9.95 => format!("{percent:.1}%"),
        usual if usual < 99_999.0 => format!("{percent:.0}%"),
        _ => ">99k%".into(),
    }
}

fn format_seconds(value: f64) -> String {
    match value.abs() {
        none if none < 5e-8 => "0".into(),
        small if small < 999.5e-6 => format!("{}us", format_three_digits(value * 1e6)),
        small if small < 999.5e-3 => format!("{}ms", format_three_digits(value * 1e3)),
        usual if usual < 99_999.0 => format!("{}s", format_three_digits(value)),
        _ => format_thousands(value),
    }
}

fn format_thousands(value: f64) -> String {
    if value.abs() < 0.05 {
        return "0".into();
    }
    let mut scaled = value;
    for letter in THOUSANDS {
        if scaled.abs() < 999.5 {
            // small counts have one decimal place
            let small = letter.is_empty() && scaled.abs() < 99.95;
            return if small { format!("{scaled:.1}") } else { format!("{}{letter}", format_three_digits(scaled)) };
        }
        scaled /= 1000.0;
    }
    "much".into()
}

/// Formats a size of memory or of requests: `4.00Ki`. The column's title says bytes, so it has no B.
fn format_binary(value: f64) -> String {
    let (scaled, unit) = ByteSize::memory(value).scale();
    let prefix = unit.trim_end_matches('B');
    match scaled.abs() {
        none if none < 0.05 => "0".into(),
        small if prefix.is_empty() && small < 99.95 => format!("{scaled:.1}"),
        usual if usual < 9999.0 => format!("{}{prefix}", format_three_digits(scaled)),
        _ => "much".into(),
    }
}

/// Formats a value with three digits.
fn format_three_digits(value: f64) -> String {
    match value.abs() {
        small if small < 9.995 => format!("{value:.2}"),
        middle if middle < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use diskwright_base::byte_size::CAPACITY_UNIT;

    use super::*;

    #[test]
    fn all_values_fit_and_say_what_they_are() {
        let cases = [
            (0.0, "per_s", "0"),
            (0.04, "per_s", "0"),
            (12.34, "per_s", "12.3"),
            (123.4, "per_s", "123"),
            (1234.0, "per_s", "1.23k"),
            (999_600.0, "bytes_per_s", "1.00M"),
            (35e6, "bytes_per_s", "35.0M"),
            (4096.0, "bytes", "4.00Ki"),
            (4096.0, CAPACITY_UNIT, "4.10k"),
            (1023.6 * 1024.0, "bytes", "1.00Mi"),
            (0.000_85, "s", "850us"),
            (0.001_234, "s", "1.23ms"),
            (0.9996, "s", "1.00s"),
            (12.0, "s", "12.0s"),
            (0.004, "fraction", "0.4%"),
            (0.999, "fraction", "100%"),
            (3.5, "fraction", "350%"),
        ];
        for (value, unit, expected) in cases {
            assert_eq!(format_figure(Some(value), unit), expected, "{value} {unit}");
        }
        assert_eq!((format_figure(None, "s"), format_figure(Some(f64::NAN), "s")), ("-".into(), "-".into()));
    }

    #[test]
    fn no_value_is_wider_than_its_column() {
        for exponent in -12..18 {
            for digit in [1.0, 2.345, 9.94, 9.9949, 9.9951, 9.9999] {
                for unit in ["per_s", "s", "fraction", "bytes", CAPACITY_UNIT, ""] {
                    for sign in [1.0, -1.0] {
                        let value = sign * digit * 10_f64.powi(exponent);
                        let shown = format_figure(Some(value), unit);
                        let room = MAX_WIDTH + usize::from(sign < 0.0);
                        assert!(shown.len() <= room, "{value} {unit}: {shown}");
                    }
                }
            }
        }
    }
}
