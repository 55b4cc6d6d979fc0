//! A plain page of sections with words, charts of one quantity over another, and
//! tables. For answers that are not verdicts, such as a simulation's.

use maud::{Markup, html};

use crate::bar_chart::{self, Bars};
use crate::curves::{Curves, curves_figure};
use crate::html::{self, page_section};
use crate::markup::mark_code;
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
    let body = html! {
        header {
            p.made { b { (sheet.made) } }
            div.card.verdict.none {
                h1 { (sheet.title) }
                @for line in &sheet.lead { p.dim { (mark_code(line)) } }
            }
        }
        main { (render_sections(&sheet.sections)) }
    };
    html::wrap_document(&sheet.title, body, &sheet.version)
}

/// Renders the sections one after the other, without empty ones.
pub(crate) fn render_sections(sections: &[SheetSection]) -> Markup {
    html! {
        @for (number, section) in sections.iter().enumerate() {
            (page_section(&format!("s{number}"), &section.title, &section_content(section, number)))
        }
    }
}

fn section_content(section: &SheetSection, number: usize) -> Markup {
    let curves = section.charts.iter().enumerate();
    let bars = section.bars.iter().enumerate();
    let figures = curves
        .map(|(index, chart)| curves_figure(chart, &format!("s{number}c{index}")))
        .chain(bars.map(|(index, chart)| bar_chart::bars_figure(chart, &format!("s{number}b{index}"))));
    html! {
        @for words in &section.words { p { (mark_code(words)) } }
        (chart_cards(figures))
        @for table in section.tables.iter().filter(|t| !t.rows.is_empty()) { (sheet_table(table)) }
    }
}

/// Puts figures on cards, two beside each other if they fit; empty ones are left out.
pub(crate) fn chart_cards(figures: impl Iterator<Item = Markup>) -> Markup {
    let drawn: Vec<Markup> = figures.filter(|figure| !figure.0.is_empty()).collect();
    html! {
        @if !drawn.is_empty() {
            div.small { @for figure in &drawn { div.card { (figure) } } }
        }
    }
}

fn sheet_table(table: &SheetTable) -> Markup {
    let titles: Vec<&str> = table.titles.iter().map(String::as_str).collect();
    let cells = |row: &Vec<String>| row.iter().map(|cell| mark_code(cell)).collect();
    let rows: Vec<Vec<Markup>> = table.rows.iter().take(MAX_TABLE_ROWS).map(cells).collect();
    let more = table.rows.len() - rows.len();
    html! {
        div.scroll { (html_table(&titles, &rows)) }
        @if more > 0 { p { "And " (more) " more." } }
    }
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
