//! The page: one document with inline styles and scripts.

use std::sync::LazyLock;

use diskwright_report::html::PALETTE_CSS;

/// The document.
const HTML: &str = include_str!("page/page.html");
/// Its styles.
const CSS: &str = include_str!("page/page.css");
/// Its scripts, in the order in which they run.
const SCRIPTS: [&str; 6] = [
    include_str!("page/format.js"),
    include_str!("page/state.js"),
    include_str!("page/charts.js"),
    include_str!("page/panels.js"),
    include_str!("page/pointer.js"),
    include_str!("page/main.js"),
];

/// Removes indentation, empty lines and comment lines from a text.
fn strip_comments_and_indents(text: &str) -> String {
    let lines = text.lines().map(str::trim_start).filter(|line| !line.is_empty() && !line.starts_with("//"));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// Renders the page; `nonce` is that of its scripts and styles.
pub fn render_page(nonce: &str, version: &str) -> String {
    static PARTS: LazyLock<[String; 3]> = LazyLock::new(|| {
        let script = format!("\"use strict\";\n(() => {{\n{}}})();\n", SCRIPTS.concat());
        [
            strip_comments_and_indents(HTML),
            strip_comments_and_indents(&[PALETTE_CSS, CSS].concat()),
            strip_comments_and_indents(&script),
        ]
    });
    let version: String = version.chars().filter(|c| c.is_ascii_alphanumeric() || ".-+".contains(*c)).collect();
    let [html, css, script] = &*PARTS;
    let parts = [("{{css}}", css.as_str()), ("{{script}}", script), ("{{nonce}}", nonce), ("{{version}}", &version)];
    parts.into_iter().fold(html.clone(), |page, (placeholder, text)| page.replace(placeholder, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_small_and_loads_nothing() {
        let page = render_page("n0nce", "1.0<b>");
        assert!(page.len() < 80_000, "{} bytes", page.len());
        assert!(!page.contains("{{") && page.contains("1.0b"), "marks are filled in");
        for foreign in ["http://", "https://", "src=", "@import", "url(", " style=\"", "onclick=", "<link"] {
            assert!(!page.replace("\"http://www.w3.org/2000/svg\"", "").contains(foreign), "{foreign}");
        }
        assert_eq!(page.matches("nonce=\"n0nce\"").count(), 2);
    }

    #[test]
    fn text_from_outside_is_never_made_markup() {
        for script in SCRIPTS {
            for way in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"] {
                assert!(!script.contains(way), "{way}");
            }
        }
    }
}
