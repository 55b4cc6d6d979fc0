//! A description and its errors, as JSON and as text.

use diskwright_base::units::{format_count, format_significant, format_value};
use diskwright_planner::what_if::MAX_TRUSTED_ERROR;
use diskwright_report::{Align, TextTable};
use diskwright_simulator::calibrate::{CalibratedDrive, CellPrediction, MeasurementNoise, TestedProperty};
use serde_json::{Value, json};

use super::UnusedRun;
use crate::commands::output;
use crate::commands::plan::screen::wrap_indented;

/// Returns mean, largest and number of the errors; `None` without cells.
fn summarize_errors<'a>(cells: impl Iterator<Item = &'a CellPrediction>) -> Option<[f64; 3]> {
    let errors: Vec<f64> = cells.map(|cell| cell.error.abs()).collect();
    let worst = errors.iter().copied().fold(0.0, f64::max);
    let count = errors.len() as f64;
    (count > 0.0).then(|| [errors.iter().sum::<f64>() / count, worst, count])
}

/// True if the error of a description is small enough; `None` if nothing was kept aside to test it.
fn is_trusted(drive: &CalibratedDrive) -> Option<bool> {
    summarize_errors(drive.held_out.iter()).map(|[mean, ..]| mean <= MAX_TRUSTED_ERROR)
}

fn errors_json(cells: &[CellPrediction]) -> Value {
    let entries =
        |errors: Option<[f64; 3]>| errors.map(|[mean, worst, n]| json!({ "mean": mean, "worst": worst, "runs": n }));
    let mut document =
        entries(summarize_errors(cells.iter())).unwrap_or(json!({ "mean": null, "worst": null, "runs": 0 }));
    for property in TestedProperty::ALL {
        let errors = summarize_errors(cells.iter().filter(|cell| cell.tested == property));
        document["by"][property.name()] = json!(entries(errors));
    }
    document
}

/// Returns the calibration as JSON.
pub(super) fn calibration_document(drive: &CalibratedDrive, unused: &[UnusedRun]) -> Value {
    let unused: Vec<Value> = unused.iter().map(|run| json!({ "run": run.name, "because": run.reason })).collect();
    json!({
        "schema": "diskwright.calibration/1",
        "kind": drive.kind,
        "tried": drive.tried,
        "errors_aside": errors_json(&drive.held_out),
        "trusted": is_trusted(drive),
        "repeats": drive.noise,
        "errors_fitted": errors_json(&drive.fitted),
        "aside": drive.held_out,
        "fitted": drive.fitted,
        "unused": unused,
        "notes": drive.notes,
        "drive": drive.entry.id,
        "description": drive.toml,
    })
}

fn format_percent(share: f64) -> String {
    format!("{:+.1} %", 100.0 * share)
}

/// Formats the measured or predicted value of a cell, in the unit in which it is judged.
fn format_figure(cell: &CellPrediction, per_s: f64, response_s: f64) -> String {
    match cell.tested {
        TestedProperty::Log => format_value(response_s, "s"),
        _ => format!("{}/s", format_significant(per_s)),
    }
}

fn cells_table(cells: &[CellPrediction]) -> TextTable {
    let mut table =
        TextTable::new().with_text_column("run").with_text_column("tries").with_column("measured", Align::Right);
    table = table.with_column("described", Align::Right).with_column("off", Align::Right);
    for cell in cells {
        table.add_row([
            cell.run.clone(),
            cell.tested.name().to_owned(),
            format_figure(cell, cell.measured_per_s, cell.measured_s),
            format_figure(cell, cell.predicted_per_s, cell.predicted_s),
            format_percent(cell.error),
        ]);
    }
    table
}

/// Mean error that a description should not exceed.
const TARGET_MEAN_ERROR: f64 = 0.1;

/// Describes how much the device itself varies: no description can be more exact.
fn describe_noise(noise: Option<&MeasurementNoise>) -> String {
    let Some(noise) = noise else {
        return "No setting was measured twice, so the error contains an unknown variation of the device itself; \
                `probe quick TARGET --repeat 3` shows it."
            .into();
    };
    let [mean, worst, min_error] = [noise.mean, noise.worst, noise.min_error].map(|share| 100.0 * share);
    let settings = if noise.settings == 1 { "setting" } else { "settings" };
    let mut text = format!(
        "The same setting measured twice differs by {mean:.1} % on average ({} {settings}; most: {}, {worst:.1} %). ",
        noise.settings, noise.worst_run
    );
    text += &match noise.min_error > TARGET_MEAN_ERROR {
        true => format!(
            "The device itself varies by more than a description may: against a single measurement, no error can be \
             below {min_error:.1} %."
        ),
        false => format!("That alone makes an error of {min_error:.1} % against a single measurement."),
    };
    text + " Errors here are against the medians of repeated settings."
}

/// Draws the calibration as text: its error comes first.
pub(super) fn draw_calibration(drive: &CalibratedDrive, unused: &[UnusedRun], is_written: bool) -> String {
    let style = output::wide_table_style();
    let mut text = match (summarize_errors(drive.held_out.iter()), drive.tried.first()) {
        (Some([mean, worst, count]), Some(best)) => wrap_indented(
            &format!(
                "Described as {}: average error {:.1} % over {} kept aside, at worst {:.1} %{}.",
                best.form,
                100.0 * mean,
                format_count(count, "run", "runs"),
                100.0 * worst,
                if is_trusted(drive) == Some(false) { "; the description is unreliable" } else { "" }
            ),
            0,
            &style,
        ),
        (_, best) => wrap_indented(
            &format!("Described as {}; no runs were kept aside to test it.", best.map_or("", |model| &model.form)),
            0,
            &style,
        ),
    };
    text += &wrap_indented(&describe_noise(drive.noise.as_ref()), 0, &style);
    for (title, cells) in
        [("Kept aside for the test (not used in the fit)", &drive.held_out), ("Fitted", &drive.fitted)]
    {
        let Some([mean, _, count]) = summarize_errors(cells.iter()) else { continue };
        let errors_by_property = TestedProperty::ALL.iter().filter_map(|property| {
            let [mean, _, count] = summarize_errors(cells.iter().filter(|cell| cell.tested == *property))?;
            let name = property.name();
            Some(format!("{name} {:.1} % ({count})", 100.0 * mean))
        });
        let errors_by_property: Vec<String> = errors_by_property.collect();
        let line =
            format!("{title}: average error {:.1} % over {count}; {}", 100.0 * mean, errors_by_property.join(", "));
        text += &format!("\n{}{}", wrap_indented(&line, 0, &style), cells_table(cells).render(&style));
    }
    text += "\nCandidate models; the lowest criterion wins (error plus a penalty for each parameter, Schwarz 1978)\n";
    for (index, tried) in drive.tried.iter().enumerate() {
        let line = format!(
            "{}: {} ({} parameters, error of the fit {:.1} %, criterion {:.0})",
            if index == 0 { "taken" } else { "not taken" },
            tried.form,
            tried.parameters,
            100.0 * tried.mean_error,
            tried.criterion
        );
        text += &wrap_indented(&line, 3, &style);
    }
    let unused = unused.iter().map(|run| format!("Not used: {}, because {}", run.name, run.reason));
    let notes = drive.notes.iter().map(|note| format!("Note: {note}"));
    text += "\n";
    text.extend(unused.chain(notes).map(|line| wrap_indented(&line, 0, &style)));
    if !is_written {
        text += &format!("\n{}", drive.toml);
    }
    text
}
