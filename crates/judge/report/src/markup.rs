//! Markup of HTML and SVG. `maud` escapes every text that stands in a page, and [`finish_page`] makes the
//! finished page safe to show, wherever its text comes from (host and process names, bookmarks, mount points).

use diskwright_base::text::printable_line;
use maud::{Markup, html};

/// Element that [`finish_page`] fills with the style sheets.
const STYLE_PLACE: &str = "<style></style>";

/// Characters besides control characters that XML does not allow.
const NONCHARACTERS: [&str; 2] = ["\u{fffe}", "\u{ffff}"];

/// Turns a page into text, and puts the style sheets into its empty `style` element. Control characters, which neither
/// HTML nor XML allows, and marks that change the direction of text become U+FFFD; only a tag begins a line. Every page
/// and file leaves through here (`clippy.toml` bans `into_string` elsewhere), so that no template has to think of it.
pub(crate) fn finish_page(page: Markup, styles: &[&'static str]) -> String {
    #[expect(clippy::disallowed_methods, reason = "this is the gate that all pages leave by")]
    let page = page.into_string();
    debug_assert!(page.contains(STYLE_PLACE), "a page has a place for its style sheets");
    let mut out = String::with_capacity(page.len());
    for (index, line) in page.split('\n').enumerate() {
        if index > 0 {
            // text has no `<`: a line end before one is ours, any other may come from outside
            out.push(if line.starts_with('<') { '\n' } else { ' ' });
        }
        out.push_str(&printable_line(line));
    }
    out.push('\n');
    for character in NONCHARACTERS {
        if out.contains(character) {
            out = out.replace(character, "\u{fffd}");
        }
    }
    out.replacen(STYLE_PLACE, &format!("<style>\n{}</style>", styles.concat()), 1)
}

/// Sets text in backquotes as `code`; if one is left over, all of them stay.
pub(crate) fn mark_code(text: &str) -> Markup {
    let is_paired = text.matches('`').count().is_multiple_of(2);
    html! {
        @if is_paired {
            @for (index, part) in text.split('`').enumerate() {
                @if index % 2 == 1 { code { (part) } } @else { (part) }
            }
        } @else {
            (text)
        }
    }
}

/// Sets the name of a rule, a counter or another thing that users type.
pub(crate) fn mark_id(name: &str) -> Markup {
    html! { span.id { (name) } }
}

/// Formats a value with its unit, joined by a no-break space.
pub(crate) fn format_unbroken(value: f64, unit: &str) -> String {
    diskwright_base::units::format_value(value, unit).replace(' ', "\u{a0}")
}

/// Formats a coordinate with one decimal and no trailing zero.
pub(crate) fn format_coordinate(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_cannot_leave_its_place() {
        let evil = "\nwell: <script>alert(\"x\")</script> & <style></style>\u{0}\u{1b}\u{202e}\u{fffe}\t\n\nwell";
        let page = finish_page(html! { p { style {} "\n" b title=(evil) { (evil) (mark_code(evil)) } } }, &["p {}\n"]);
        let safe = " well: &lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt; &amp; &lt;style&gt;&lt;/style&gt;\
                    \u{fffd}\u{fffd}\u{fffd}\u{fffd}   well";
        assert_eq!(page, format!("<p><style>\np {{}}\n</style>\n<b title=\"{safe}\">{safe}{safe}</b></p>\n"));
    }

    #[test]
    fn code_is_marked_in_pairs_of_backquotes() {
        assert_eq!(mark_code("run `a<b` now").0, "run <code>a&lt;b</code> now");
        assert_eq!(mark_code("a ` alone").0, "a ` alone");
    }

    #[test]
    fn coordinates_are_short() {
        assert_eq!(format_coordinate(12.0), "12");
        assert_eq!(format_coordinate(12.345), "12.3");
        assert_eq!(format_coordinate(-0.04), "-0");
    }
}
