//! Escaping and formatting of text for HTML and SVG. All text that comes from a
//! machine (host and process names, bookmarks, mount points) goes through [`escape`].

use diskwright_base::text::is_control;

/// Escapes text to stand between tags or in a quoted attribute. Control
/// characters, which neither HTML nor XML allows, become U+FFFD.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' | '\r' => out.push(' '),
            c if is_control(c) || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// Escapes text as [`escape`] does and sets text in backquotes as `code`.
pub fn escape_code(text: &str) -> String {
    let escaped = escape(text);
    if escaped.matches('`').count() % 2 == 1 {
        return escaped;
    }
    let mut out = String::with_capacity(escaped.len() + 16);
    for (index, part) in escaped.split('`').enumerate() {
        if index % 2 == 1 {
            out.push_str(&format!("<code>{part}</code>"));
        } else {
            out.push_str(part);
        }
    }
    out
}

/// Formats a value with its unit, joined by a no-break space.
pub fn value_html(value: f64, unit: &str) -> String {
    escape(&diskwright_base::units::format_value(value, unit)).replace(' ', "\u{a0}")
}

/// Formats a coordinate with one decimal and no trailing zero.
pub fn format_coordinate(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_is_escaped() {
        let evil = "<script>alert('x')</script> & \"\u{0}\u{1b}\u{202e}";
        let safe = escape(evil);
        assert!(!safe.contains(['<', '>', '"', '\'', '\u{0}', '\u{1b}', '\u{202e}']));
        assert!(safe.starts_with("&lt;script&gt;"));
        assert_eq!(escape_code("run `a<b` now"), "run <code>a&lt;b</code> now");
        assert_eq!(escape_code("a ` alone"), "a ` alone");
    }

    #[test]
    fn coordinates_are_short() {
        assert_eq!(format_coordinate(12.0), "12");
        assert_eq!(format_coordinate(12.345), "12.3");
        assert_eq!(format_coordinate(-0.04), "-0");
    }
}
