//! Markup of HTML and SVG. `maud` escapes every text that stands in a page, and [`finish_page`] makes the
//! finished page safe to show, wherever its text comes from (host and process names, bookmarks, mount points).

use diskwright_base::text::is_control;
use maud::{Markup, html};

/// Turns a page into text. Control characters, which neither HTML nor XML allows, and marks that change the
/// direction of text become U+FFFD. This is the only way out of [`Markup`] (`clippy.toml` bans `into_string`),
/// so that no template can forget it.
pub(crate) fn finish_page(page: Markup) -> String {
    #[expect(clippy::disallowed_methods, reason = "this is the gate that all pages leave by")]
    let page = page.into_string();
    if !page.contains(is_unprintable) {
        return page;
    }
    let shown = |c: char| match c {
        '\t' | '\r' => ' ',
        c if is_unprintable(c) => '\u{fffd}',
        c => c,
    };
    page.chars().map(shown).collect()
}

/// Returns true if a character may not stand in a page. A line end may: it is shown as a blank.
fn is_unprintable(c: char) -> bool {
    c != '\n' && is_control(c) || matches!(c, '\u{fffe}' | '\u{ffff}')
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
        let evil = "<script>alert(\"x\")</script> & \u{0}\u{1b}\u{202e}\u{fffe}\t\n";
        let page = finish_page(html! { p title=(evil) { (evil) (mark_code(evil)) } });
        let safe = "&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt; &amp; \u{fffd}\u{fffd}\u{fffd}\u{fffd} \n";
        assert_eq!(page, format!("<p title=\"{safe}\">{safe}{safe}</p>"));
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
