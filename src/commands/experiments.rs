//! `experiments [ID...]`: compares the simulator with the measurements published in its source documents.

use clap::Args;
use diskwright_experiments::document::{Bound, ExperimentDocument, PublishedRow, RowUse};
use diskwright_experiments::judge::{DocumentSummary, RowMeans, RowOutcome};
use diskwright_experiments::{data, run, simulate};
use diskwright_report::{Align, TextTable};
use serde_json::{Value, json};

use super::{Failure, name_search, output};

/// Arguments of `experiments`.
#[derive(Args)]
pub struct Arguments {
    /// Rows (S4, M28, M8a.processor) or documents by number (003); by default all
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// Fit the free parameters of one document to its fit rows, and print them
    #[arg(long, value_name = "DOC", conflicts_with_all = ["ids", "json"])]
    fit: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Maximum number of trials for a group of parameters.
const MAX_TRIALS: usize = 60;

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let documents = data::load_documents()?;
    if let Some(doc) = &arguments.fit {
        return fit_parameters(&documents, doc);
    }
    let is_selected = |document: &ExperimentDocument, row: &PublishedRow| {
        arguments.ids.is_empty() || arguments.ids.iter().any(|id| *id == document.doc || row.matches_id(id))
    };
    if let Some(id) = arguments
        .ids
        .iter()
        .find(|id| !documents.iter().any(|d| d.doc == **id || d.rows.iter().any(|row| row.matches_id(id))))
    {
        let known = documents.iter().flat_map(|d| &d.rows).map(|row| row.id.as_str());
        let suggestion = name_search::suggestion_hint(id, known);
        let hint = "`diskwright list experiments` shows all";
        return Err(Failure::Usage(format!("there is no experiment `{id}`{suggestion}; {hint}")));
    }
    let runner = simulate::built_in_runner(thread_count());
    let mut outcomes: Vec<RowOutcome> = Vec::new();
    for document in &documents {
        outcomes.extend(run::simulate_document(&runner, document, |row| is_selected(document, row)));
    }
    if arguments.json {
        return output::print_json(&answer_json(&documents, &outcomes));
    }
    let details = !arguments.ids.is_empty() && outcomes.len() <= 12;
    output::print_text(&draw_screen(&documents, &outcomes, details))
}

/// Short name by which sources cite a document.
fn short_name(doc: &str) -> &str {
    match doc {
        "000" => "SAS 1998",
        "001" => "Compaq 1997",
        "002" => "NT Magazine 1998",
        "003" => "NT Resource Kit",
        "004" => "InfoStor 1999",
        other => other,
    }
}

fn thread_count() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn fit_parameters(documents: &[ExperimentDocument], doc: &str) -> Result<(), Failure> {
    let Some(document) = documents.iter().find(|document| document.doc == doc) else {
        return Err(Failure::Usage(format!("there is no document `{doc}`: 000, 001, 002, 003 or 004")));
    };
    let (parameters, error) = run::search_parameters(&simulate::built_in_runner(thread_count()), document, MAX_TRIALS)?;
    let mut table =
        TextTable::new().with_text_column("parameter").with_column("was", Align::Right).with_column("is", Align::Right);
    for parameter in &parameters {
        table.add_row([parameter.name.clone(), parameter.before.to_string(), parameter.after.to_string()]);
    }
    let summary = format!("\nroot mean square error of the rows that set them: {:.2} %\n", error * 100.0);
    output::print_text(&(table.render(&output::wide_table_style()) + &summary))
}

/// Joins every outcome with its document and row.
fn pair_with_rows<'a>(
    documents: &'a [ExperimentDocument],
    outcomes: &'a [RowOutcome],
) -> Vec<(&'a ExperimentDocument, &'a PublishedRow, &'a RowOutcome)> {
    let find = |outcome: &'a RowOutcome| {
        let document = documents.iter().find(|d| d.doc == outcome.doc)?;
        Some((document, document.find_row(&outcome.id)?, outcome))
    };
    outcomes.iter().filter_map(find).collect()
}

/// Summarizes each document that has predicted rows, then all of them.
fn summarize_documents(outcomes: &[RowOutcome]) -> Vec<DocumentSummary> {
    let mut docs: Vec<&str> = outcomes.iter().map(|o| o.doc.as_str()).collect();
    docs.dedup();
    let outcomes_of =
        |doc: &str| -> Vec<&RowOutcome> { outcomes.iter().filter(|o| doc.is_empty() || o.doc == doc).collect() };
    docs.into_iter()
        .chain([""])
        .map(|doc| DocumentSummary::from_outcomes(doc, &outcomes_of(doc)))
        .filter(|s| s.gains.rows + s.others.rows > 0)
        .collect()
}

fn answer_json(documents: &[ExperimentDocument], outcomes: &[RowOutcome]) -> Value {
    let experiments: Vec<Value> =
        pair_with_rows(documents, outcomes).into_iter().map(|(d, r, o)| outcome_json(d, r, o)).collect();
    let mut summaries = summarize_documents(outcomes);
    let all = summaries.pop().map(|summary| summary_json(&summary));
    json!({
        "schema": "diskwright.experiments/1",
        "experiments": experiments,
        "documents": summaries.iter().map(summary_json).collect::<Vec<_>>(),
        "all": all,
    })
}

fn outcome_json(document: &ExperimentDocument, row: &PublishedRow, outcome: &RowOutcome) -> Value {
    let bound = row.bound.map(|bound| match bound {
        Bound::AtLeast => "at least",
        Bound::Within => "within",
    });
    json!({
        "id": row.id, "doc": document.doc, "what": row.quantity,
        "published": row.published, "derived": row.derived,
        "simulated": outcome.simulated, "baseline": outcome.baseline,
        "unit": row.unit, "gain": row.gain, "bound": bound,
        "error": outcome.error, "baseline_error": outcome.baseline_error,
        "error_unit": if row.gain { "percentage points" } else { "1" },
        "worse_than_naive": outcome.is_worse_than_naive(),
        "use": row.usage.name(), "holds": holds_json(row, outcome),
        "because": outcome_reason(row, outcome),
        "measure": row.measure.as_ref().map(ToString::to_string),
        "runs": runs_json(document, row), "fitted": fitted_json(document, row),
        "baseline_because": row.baseline.as_ref().map(describe_baseline),
    })
}

fn holds_json(row: &PublishedRow, outcome: &RowOutcome) -> Value {
    match outcome.holds {
        Some((holding, tests)) => {
            let texts: Vec<String> = row.holds.iter().map(ToString::to_string).collect();
            json!({ "held": holding, "of": tests, "tests": texts })
        }
        None => Value::Null,
    }
}

/// Remarks on a row: why it has no value, and the row's own note.
fn outcome_reason(row: &PublishedRow, outcome: &RowOutcome) -> String {
    match &outcome.failure {
        Some(failure) if row.because != *failure && row.measure.is_some() => {
            [failure.as_str(), row.because.as_str()].join("; ").trim_end_matches("; ").to_owned()
        }
        _ => row.because.clone(),
    }
}

fn describe_baseline(baseline: &diskwright_experiments::document::NaivePrediction) -> String {
    match &baseline.row {
        Some(row) if baseline.times == 1.0 => format!("row {row}"),
        Some(row) => format!("row {row} times {}", (baseline.times * 1000.0).round() / 1000.0),
        None => baseline.because.clone(),
    }
}

fn runs_json(document: &ExperimentDocument, row: &PublishedRow) -> Vec<Value> {
    let run_json = |name: &str| {
        let run = document.runs.get(name);
        let set = run.map(|run| {
            run.set
                .iter()
                .map(|(key, value)| {
                    (key.clone(), json!(value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
                })
                .collect()
        });
        let set: serde_json::Map<String, Value> = set.unwrap_or_default();
        let because = run.map(|run| run.because.as_str()).filter(|reason| !reason.is_empty());
        json!({ "run": name, "system": run.map(|run| run.system.as_str()), "set": set, "because": because })
    };
    row.run_names().into_iter().map(run_json).collect()
}

/// Fitted parameters of the systems in a row's runs.
fn fitted_json(document: &ExperimentDocument, row: &PublishedRow) -> Vec<Value> {
    let system_of = |name: &str| document.runs.get(name).map(|run| run.system.as_str());
    let systems: Vec<&str> = row.run_names().into_iter().filter_map(system_of).collect();
    let is_of_system = |key: &String| systems.iter().any(|s| key.split(':').next() == Some(s));
    let used = document.fits.iter().filter(|parameter| parameter.keys.iter().any(is_of_system));
    let parameter_json = |parameter: &diskwright_experiments::document::FitParameter| {
        let value_format = if parameter.value_format.is_empty() { "{}" } else { &parameter.value_format };
        json!({
            "name": parameter.name, "value": value_format.replace("{}", &parameter.value.to_string()),
            "rows": parameter.rows, "keys": parameter.keys, "because": parameter.because,
        })
    };
    used.map(parameter_json).collect()
}

fn mean_json(mean: &RowMeans) -> Value {
    json!({
        "rows": mean.rows, "simulated": mean.simulated, "error": mean.error,
        "error_where_baseline": mean.error_where_baseline, "baseline_error": mean.baseline_error,
    })
}

fn summary_json(summary: &DocumentSummary) -> Value {
    let mut document = json!({
        "doc": summary.doc, "gains": mean_json(&summary.gains), "others": mean_json(&summary.others),
        "all": null, "worse_than_naive": summary.worse_than_naive.0, "with_naive": summary.worse_than_naive.1,
        "shapes_held": summary.shapes.0, "shapes": summary.shapes.1,
    });
    if summary.doc.is_empty() {
        document["doc"] = Value::Null;
    }
    document
}

fn format_number(value: Option<f64>) -> String {
    let Some(value) = value else { return "-".into() };
    let digits = (3 - value.abs().max(1e-3).log10().floor() as i32).clamp(0, 4);
    format!("{value:.0$}", digits as usize)
}

fn format_error(error: Option<f64>, gain: bool) -> String {
    match error {
        None => "-".into(),
        Some(error) if gain => format!("{error:.1} pp"),
        Some(error) => format!("{:.1} %", error * 100.0),
    }
}

/// Mark of an error that is larger than that of the naive prediction.
const WORSE_MARK: &str = " *";

fn draw_screen(documents: &[ExperimentDocument], outcomes: &[RowOutcome], details: bool) -> String {
    let style = output::wide_table_style();
    let mut text = String::new();
    let rows = pair_with_rows(documents, outcomes);
    for document in documents {
        let document_rows: Vec<_> = rows.iter().filter(|(d, ..)| d.doc == document.doc).collect();
        if document_rows.is_empty() {
            continue;
        }
        let mut table = TextTable::new()
            .with_column("id", Align::Left)
            .with_text_column("quantity")
            .with_column("unit", Align::Left);
        for title in ["printed", "simulated", "naive", "error", "naive's"] {
            table = table.with_column(title, Align::Right);
        }
        table = table.with_column("use", Align::Left);
        for (_, row, outcome) in &document_rows {
            table.add_row(table_cells(row, outcome));
        }
        text += &format!("{} {}\n\n{}\n", document.doc, document.title, table.render(&style));
    }
    if rows.iter().any(|(_, row, _)| row.derived.is_some()) {
        text += "In brackets: derived from published numbers; not itself published.\n\n";
    }
    if rows.iter().any(|(_, _, outcome)| outcome.is_worse_than_naive() == Some(true)) {
        text += "*  worse than the naive prediction.\n\n";
    }
    for (document, row, outcome) in rows.iter().filter(|_| details) {
        text += &draw_details(document, row, outcome);
    }
    let summaries = summarize_documents(outcomes);
    if !summaries.is_empty() {
        text += &means_table(&summaries).render(&style);
    }
    text
}

fn table_cells(row: &PublishedRow, outcome: &RowOutcome) -> [String; 9] {
    let published = match row.bound {
        Some(Bound::AtLeast) => format!("over {}", format_number(row.published)),
        Some(Bound::Within) => format!("within {}", format_number(row.published)),
        None => format_published(row),
    };
    let error = match outcome.holds {
        Some((holding, tests)) if holding == tests => "holds".to_owned(),
        Some((holding, tests)) => format!("fails {} of {tests}", tests - holding),
        None if row.usage == RowUse::None => format_error(None, row.gain),
        None => {
            let mark = if outcome.is_worse_than_naive() == Some(true) { WORSE_MARK } else { "" };
            format_error(outcome.error, row.gain) + mark
        }
    };
    [
        row.id.clone(),
        row.quantity.clone(),
        row.unit.clone(),
        published,
        format_number(outcome.simulated),
        format_number(outcome.baseline),
        error,
        format_error(outcome.baseline_error, row.gain),
        row.usage.name().to_owned(),
    ]
}

fn draw_details(document: &ExperimentDocument, row: &PublishedRow, outcome: &RowOutcome) -> String {
    let mut text = format!("{}  {}\n", row.id, row.quantity);
    let mut add_line = |name: &str, value: String| {
        if !value.is_empty() {
            text += &format!("  {name:<10} {value}\n");
        }
    };
    add_line("measure", row.measure.as_ref().map(ToString::to_string).unwrap_or_default());
    for test in &row.holds {
        add_line("holds if", test.to_string());
    }
    for run in runs_json(document, row) {
        let set: Vec<String> =
            run["set"].as_object().into_iter().flatten().map(|(k, v)| format!("{k} = {v}")).collect();
        let set = if set.is_empty() { String::new() } else { format!(", with {}", set.join(", ")) };
        let because = run["because"].as_str().map(|reason| format!(" ({reason})")).unwrap_or_default();
        add_line("run", format!("{}: {}{set}{because}", run["run"], run["system"]));
    }
    for fitted in fitted_json(document, row) {
        let rows: Vec<&str> = fitted["rows"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let text_of = |key: &str| fitted[key].as_str().unwrap_or_default().to_owned();
        add_line(
            "fitted",
            format!("{} = {} on {}: {}", text_of("name"), text_of("value"), rows.join(", "), text_of("because")),
        );
    }
    add_line("naive", row.baseline.as_ref().map(describe_baseline).unwrap_or_default());
    add_line("because", outcome_reason(row, outcome));
    text + "\n"
}

fn means_table(summaries: &[DocumentSummary]) -> TextTable {
    let mut table = TextTable::new()
        .with_text_column("predicted rows")
        .with_column("gains", Align::Right)
        .with_column("error", Align::Right);
    for title in ["naive's", "others", "error", "naive's", "worse than naive", "shapes"] {
        table = table.with_column(title, Align::Right);
    }
    let format_mean = |value: f64, scale: f64, unit: &str| match value.is_nan() {
        true => "-".to_owned(),
        false => format!("{:.1} {unit}", value * scale),
    };
    for summary in summaries {
        let name = if summary.doc.is_empty() {
            "all documents".into()
        } else {
            format!("{} ({})", summary.doc, short_name(&summary.doc))
        };
        let mut cells = vec![name];
        for (mean, scale, unit) in [(&summary.gains, 1.0, "pp"), (&summary.others, 100.0, "%")] {
            cells.push(format!("{} of {}", mean.simulated, mean.rows));
            cells.push(format_mean(mean.error, scale, unit));
            cells.push(format_mean(mean.baseline_error, scale, unit));
        }
        for (count, of) in [summary.worse_than_naive, summary.shapes] {
            cells.push(format!("{count} of {of}"));
        }
        table.add_row(cells);
    }
    table
}

/// Formats the published value: in brackets if it was derived from published values and not published itself.
fn format_published(row: &PublishedRow) -> String {
    if row.derived.is_some() { format!("({})", format_number(row.published)) } else { format_number(row.published) }
}

/// Returns name, JSON entries and table for `list experiments`: all rows as published.
pub fn list_experiments() -> Result<(&'static str, Vec<Value>, TextTable), Failure> {
    let mut table =
        TextTable::new().with_column("id", Align::Left).with_column("doc", Align::Left).with_text_column("quantity");
    table = table.with_column("printed", Align::Right).with_column("unit", Align::Left).with_column("use", Align::Left);
    let mut entries = Vec::new();
    for document in data::load_documents()? {
        for row in &document.rows {
            let (id, doc, quantity) = (row.id.clone(), document.doc.clone(), row.quantity.clone());
            table.add_row([id, doc, quantity, format_published(row), row.unit.clone(), row.usage.name().to_owned()]);
            entries.push(json!({
                "id": row.id, "doc": document.doc, "what": row.quantity, "published": row.published,
                "derived": row.derived, "unit": row.unit, "gain": row.gain, "use": row.usage.name(),
            }));
        }
    }
    Ok(("experiments", entries, table))
}
