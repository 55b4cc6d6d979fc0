//! A plain page of sections with words, charts of one quantity over another, and
//! tables. For answers that are not verdicts, such as a simulation's.

use crate::bar_chart::{self, Bars};
use crate::curves::{Curves, curves_figure};
use crate::html;
use crate::markup::{escape, escape_code};
use crate::sections::html_table;

/// Content of a page.
#[derive(Clone, Debug, Default)]
pub struct PageSheet {
    /// Title: the subject of the page.
    pub title: String,
    /// Kind of answer, above the title, such as "Simulated".
    pub made: String,
    /// The answer in a few sentences, below the title.
    pub lead: Vec<String>,
    /// Sections below the head.
    pub sections: Vec<SheetSection>,
    /// Version of the program, for the foot.
    pub version: String,
}

/// A section of a page.
#[derive(Clone, Debug, Default)]
pub struct SheetSection {
    /// Heading.
    pub title: String,
    /// Paragraphs, which come first.
    pub words: Vec<String>,
    /// Charts, side by side if they fit.
    pub charts: Vec<Curves>,
    /// Bar charts, beside the other charts.
    pub bars: Vec<Bars>,
    /// Tables, below the charts.
    pub tables: Vec<SheetTable>,
}

/// A table: titles, then rows; the first cell names the row.
#[derive(Clone, Debug, Default)]
pub struct SheetTable {
    /// Title of each column.
    pub titles: Vec<String>,
    /// Rows, with as many cells as there are titles.
    pub rows: Vec<Vec<String>>,
}

/// Largest number of rows of a table.
const MAX_TABLE_ROWS: usize = 500;

/// Renders the page.
pub fn render_page(sheet: &PageSheet) -> String {
    let lead: String = sheet.lead.iter().map(|l| format!("<p class=\"dim\">{}</p>\n", escape_code(l))).collect();
    let mut out = format!(
        "<header>\n<p class=\"made\"><b>{}</b></p>\n<div class=\"card verdict none\">\n<h1>{}</h1>\n{lead}</div>\n\
         </header>\n<main>\n",
        escape(&sheet.made),
        escape(&sheet.title)
    );
    out.push_str(&render_sections(&sheet.sections));
    out.push_str("</main>\n");
    html::wrap_document(&sheet.title, &out, &sheet.version)
}

/// Renders the sections one after the other, without empty ones.
pub(crate) fn render_sections(sections: &[SheetSection]) -> String {
    let mut out = String::new();
    for (number, section) in sections.iter().enumerate() {
        let content = section_content(section, number);
        if !content.is_empty() {
            out.push_str(&format!(
                "<section id=\"s{number}\" aria-labelledby=\"s{number}-h\">\n<h2 id=\"s{number}-h\">{}</h2>\n\
                 {content}</section>\n",
                escape(&section.title)
            ));
        }
    }
    out
}

fn section_content(section: &SheetSection, number: usize) -> String {
    let mut out: String = section.words.iter().map(|w| format!("<p>{}</p>\n", escape_code(w))).collect();
    let figures =
        section.charts.iter().enumerate().map(|(index, chart)| curves_figure(chart, &format!("s{number}c{index}")));
    let bar_figures = section
        .bars
        .iter()
        .enumerate()
        .map(|(index, chart)| bar_chart::bars_figure(chart, &format!("s{number}b{index}")));
    let figures = figures.chain(bar_figures);
    let cards: String = figures.filter(|f| !f.is_empty()).map(|f| format!("<div class=\"card\">{f}</div>\n")).collect();
    if !cards.is_empty() {
        out.push_str(&format!("<div class=\"small\">\n{cards}</div>\n"));
    }
    for rows in section.tables.iter().filter(|t| !t.rows.is_empty()) {
        let titles: Vec<&str> = rows.titles.iter().map(String::as_str).collect();
        let escaped = |row: &Vec<String>| row.iter().map(|cell| escape_code(cell)).collect::<Vec<_>>();
        let cells: Vec<Vec<String>> = rows.rows.iter().take(MAX_TABLE_ROWS).map(escaped).collect();
        out.push_str(&format!("<div class=\"scroll\">{}</div>\n", html_table(&titles, &cells)));
        if rows.rows.len() > MAX_TABLE_ROWS {
            out.push_str(&format!("<p>And {} more.</p>\n", rows.rows.len() - MAX_TABLE_ROWS));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_holds_its_sections_and_nothing_foreign_breaks_it() {
        let rows =
            SheetTable { titles: vec!["part".into(), "busy".into()], rows: vec![vec!["<b>".into(), "5 %".into()]] };
        let full = SheetSection {
            title: "Parts".into(),
            words: vec!["a & b".into()],
            tables: vec![rows],
            ..SheetSection::default()
        };
        let sheet = PageSheet {
            title: "A <system>".into(),
            made: "Simulated".into(),
            sections: vec![full, SheetSection { title: "Empty".into(), ..SheetSection::default() }],
            ..PageSheet::default()
        };
        let page = render_page(&sheet);
        assert!(page.contains("A &lt;system&gt;") && page.contains("&lt;b&gt;") && page.contains("a &amp; b"));
        assert!(!page.contains("Empty") && page.ends_with("</html>\n"));
    }
}
