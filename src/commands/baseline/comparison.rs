//! Comparison of two baselines: `compare A.json B.json`, and a machine compared with its own baseline.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use diskwright_base::units::format_value;
use diskwright_baseline::compare::{BaselineComparison, ComparedThreads, compare_baselines};
use diskwright_baseline::document::{BaselineDocument, is_baseline};
use diskwright_baseline::profile_store;
use diskwright_hostfiles::bounded_file;
use diskwright_report::{Align, Ink, Style, TextTable};

use super::saved;
use crate::commands::{Failure, output};

/// Maximum size of a file.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// True for a file marked as a baseline, of any version.
pub fn is_baseline_file(path: &Path) -> bool {
    let mut head = Vec::new();
    // only a file is opened: the bytes read from a pipe would be missing for its next reader, and a folder is a log
    if let Some(file) = path.is_file().then(|| File::open(path).ok()).flatten() {
        let _ = file.take(4096).read_to_end(&mut head);
    }
    is_baseline(&head) || is_profile(&head)
}

/// True for a saved profile of a machine, which is not a single measurement.
fn is_profile(head: &[u8]) -> bool {
    String::from_utf8_lossy(&head[..head.len().min(100)])
        .contains(&format!("\"schema\": \"{}\"", profile_store::SCHEMA))
}

fn read_baseline(path: &Path) -> Result<BaselineDocument, Failure> {
    let wrong = |why: String| Failure::Failed(format!("{}: {why}", output::escape_name(path.display())));
    let bytes = bounded_file::read_file(path, MAX_FILE_BYTES).map_err(|error| wrong(error.to_string()))?;
    if is_profile(&bytes) {
        let why = "the saved baseline of a machine with its newest measurement; `baseline -o FILE` writes one of them";
        return Err(wrong(why.into()));
    }
    if !is_baseline(&bytes) {
        return Err(wrong("not a baseline; a baseline can only be compared with a baseline".into()));
    }
    BaselineDocument::parse(&bytes).map_err(wrong)
}

/// Compares two files of baselines.
pub fn run(first: &Path, second: &Path, json: bool) -> Result<(), Failure> {
    let (first, second) = (read_baseline(first)?, read_baseline(second)?);
    let comparison = compare_baselines(&first, &second);
    if json {
        output::print_json(&comparison)?;
    } else {
        output::print_text(&comparison_text(&comparison, [&first, &second], &output::wide_table_style()))?;
    }
    if comparison.rows.is_empty() {
        return Err(Failure::Failed("the baselines have no reliable figure in common".into()));
    }
    Ok(())
}

fn comparison_text(comparison: &BaselineComparison, sides: [&BaselineDocument; 2], style: &Style) -> String {
    let mut out = String::new();
    for (name, side) in ["first", "second"].into_iter().zip(sides) {
        let day = side.measured.get(..10).unwrap_or(&side.measured);
        let model = side.machine.processor.as_deref().unwrap_or("processor unknown");
        let disturbances = saved::describe_disturbances(&side.circumstances);
        let disturbance_text =
            if disturbances.is_empty() { String::new() } else { format!("; {}", disturbances.join(", ")) };
        let line = format!("{name}: {}, {model}, measured on {day}{disturbance_text}", side.machine.host);
        out += &format!("{}\n", style.paint(Ink::Dim, &style.clean_text(&line)));
    }
    for line in &comparison.differences {
        out += &format!("{}\n", style.paint(Ink::Warn, &style.clean_text(&format!("differs: {line}"))));
    }
    let speed = |threads_text: &str, threads: ComparedThreads, speed: Option<f64>| {
        speed.map(|speed| format!("{} with {threads_text}", describe_total_speed(comparison, threads, speed)))
    };
    let one_thread = speed("one thread", ComparedThreads::ONE, comparison.speed_one_thread);
    let all_threads = speed("all threads", ComparedThreads::All, comparison.speed_all_threads);
    let speeds: Vec<String> = [one_thread, all_threads].into_iter().flatten().collect();
    if !speeds.is_empty() {
        out += &format!("\n{}\n", style.paint(Ink::Bold, &format!("The second is {}.", speeds.join("; "))));
    }
    let mut table = TextTable::new().with_text_column("figure");
    for title in ["threads", "first", "second", "speed", ""] {
        table = table.with_column(title, Align::Right);
    }
    for row in &comparison.rows {
        table.add_row([
            format!("{} ({})", row.id, row.title),
            row.threads.to_string(),
            format_value(row.first, &row.unit),
            format_value(row.second, &row.unit),
            format!("x {}", format_value(row.speed, "count")),
            if row.differs { String::new() } else { "noise".into() },
        ]);
    }
    out += &format!("\n{}", table.render(style));
    if !comparison.only_in_one.is_empty() {
        let line = format!("Reliable in one only: {}.", comparison.only_in_one.join(", "));
        out += &format!("\n{}\n", diskwright_report::text::wrap(&style.clean_text(&line), style.width, 0).join("\n"));
    }
    out
}

/// Describes a speed.
fn describe_speed(speed: f64) -> String {
    let share = |value: f64| format_value(value, "fraction");
    match speed {
        speed if (speed - 1.0).abs() < 0.005 => "as fast".into(),
        speed if speed < 1.0 => format!("{} slower", share(1.0 - speed)),
        speed => format!("{} faster", share(speed - 1.0)),
    }
}

/// Describes the speed over all figures with this many threads; if each figure's difference is noise, so is their mean.
fn describe_total_speed(comparison: &BaselineComparison, threads: ComparedThreads, speed: f64) -> String {
    let differs = comparison.rows.iter().any(|row| row.threads == threads && row.differs);
    if differs { describe_speed(speed) } else { "as fast within noise".into() }
}

/// Compares a machine with its own baseline.
pub fn describe_against_baseline(
    comparison: &BaselineComparison,
    before: &BaselineDocument,
    now: &BaselineDocument,
    style: &Style,
) -> String {
    let day = before.measured.get(..10).unwrap_or(&before.measured);
    let mut out = match (saved::describe_slowdown(comparison, before, now), comparison.speed_one_thread) {
        (Some(sentence), _) => {
            let sentence = format!("{}{}.", sentence[..1].to_uppercase(), &sentence[1..]);
            format!("{}\n", style.paint(Ink::Bad, &style.clean_text(&sentence)))
        }
        (None, Some(speed)) => {
            format!(
                "Compared with the baseline of {day}: {} with one thread.\n",
                describe_total_speed(comparison, ComparedThreads::ONE, speed)
            )
        }
        (None, None) => format!("No reliable figure in common with the baseline of {day}.\n"),
    };
    for line in &comparison.differences {
        out += &format!("  differs: {}\n", style.clean_text(line));
    }
    for row in comparison.rows.iter().filter(|row| row.differs) {
        let (first, second) = (format_value(row.first, &row.unit), format_value(row.second, &row.unit));
        out += &format!("  {} ({} thr.): {first} -> {second}, {}\n", row.title, row.threads, describe_speed(row.speed));
    }
    out
}

#[cfg(test)]
mod tests {
    use diskwright_baseline::document::FigureResult;
    use diskwright_baseline::figure::find_definition;

    use super::*;

    fn sample_document(rate: f64) -> BaselineDocument {
        let figure = FigureResult::from_values(find_definition("memory.read").expect("known"), 1, &[rate; 5]);
        BaselineDocument { figures: vec![figure], ..BaselineDocument::default() }
    }

    #[test]
    fn noise_in_every_figure_is_no_difference() {
        let first = sample_document(100.0);
        for (rate, expected) in [(98.0, "as fast within noise"), (90.0, "10 % slower")] {
            let second = sample_document(rate);
            let comparison = compare_baselines(&first, &second);
            let style = Style::plain(80);
            let sides = comparison_text(&comparison, [&first, &second], &style);
            assert!(sides.contains(&format!("The second is {expected} with one thread.")), "{sides}");
            let own = describe_against_baseline(&comparison, &first, &second, &style);
            assert!(own.contains(if rate > 95.0 { expected } else { "is 10 % slower" }), "{own}");
        }
    }
}
