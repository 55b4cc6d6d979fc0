//! The section of the page on database servers.

use diskwright_diagnosis::Verdict;
use maud::{Markup, Render, html};

use super::html_table;
use crate::databases::{DatabaseTable, summarize_databases};

/// The section of the page.
pub(crate) fn databases_section(verdict: &Verdict) -> Markup {
    html! {
        @for server in summarize_databases(verdict) {
            h3 { (server.title) }
            @for sentence in &server.sentences { p { (sentence) } }
            @for table in &server.tables { (table_markup(table)) }
        }
    }
}

fn table_markup(table: &DatabaseTable) -> Markup {
    let cell = |(index, text): (usize, &String)| match (table.statements == Some(index), text.is_empty()) {
        (true, false) => html! { code { (text) } },
        _ => text.render(),
    };
    let rows: Vec<Vec<Markup>> = table.rows.iter().map(|row| row.iter().enumerate().map(cell).collect()).collect();
    html! { h4 { (table.title) } (html_table(&table.columns, &rows)) }
}
