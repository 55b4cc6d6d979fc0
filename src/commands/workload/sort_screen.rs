//! Sorts as text: one in detail, several as a table and a chart with the knee and the value of SAS 1998's formula.

use std::fmt::Write as _;

use diskwright_base::byte_size::ByteSize;
use diskwright_base::units::{format_count, format_value};
use diskwright_report::curves::{Axis, AxisScale, ChartCurve, CurvePoint, Curves};
use diskwright_report::{Align, Ink, TextTable, terminal_curves};
use diskwright_workload::sort::merge_plan::{memory_in_place, published_memory};
use diskwright_workload::sort::rows::RowShape;
use diskwright_workload::sort::{SortOutcome, StageTime};

use super::sort::PlacedSort;
use crate::commands::output;

/// Draws the screen.
pub fn draw_sorts(runs: &[PlacedSort]) -> String {
    let style = output::stdout_style();
    let Some(first) = runs.first() else { return String::new() };
    let outcome = &first.outcome;
    let data = (outcome.rows * outcome.row_bytes) as f64;
    let rows = format_count(outcome.rows, "row", "rows");
    let mut out = style.paint(Ink::Bold, &format!("Sort of {rows}, {}", ByteSize::capacity(data)));
    let _ = writeln!(
        out,
        "\n{} of {} with a key of {}; {}, {}",
        outcome.rows,
        format_value(outcome.row_bytes as f64, "bytes"),
        format_value(outcome.key_bytes as f64, "bytes"),
        format_count(outcome.threads, "thread", "threads"),
        if first.options.direct { "direct, without the file cache" } else { "through the file cache" },
    );
    match runs {
        [run] => out += &draw_single_sort(&run.outcome),
        _ => {
            out += &format!("\n{}", sort_table(runs).render(&style));
            out += &format!("\n{}", terminal_curves::draw_curves(&sort_chart(runs), &style, 10));
        }
    }
    out += "\nThe result was read back; order, number and content of the rows are correct.\n";
    out + &describe_formula(first) + &describe_knee(runs)
}

/// Describes the memory that SAS 1998's formula gives for these rows.
fn describe_formula(run: &PlacedSort) -> String {
    format!(
        "In memory, the formula of SAS 1998 requires {}; this sort needs {}.\n",
        ByteSize::memory(formula_memory_bytes(&run.outcome) as f64),
        ByteSize::memory(needed_memory_bytes(run) as f64)
    )
}

/// Memory by SAS 1998's formula, bytes.
pub fn formula_memory_bytes(outcome: &SortOutcome) -> u64 {
    let RowShape { row_bytes: row, key_bytes: key } =
        RowShape { row_bytes: outcome.row_bytes as usize, key_bytes: outcome.key_bytes as usize };
    published_memory(outcome.rows, row, &[key])
}

/// Memory that this sort needs to hold all rows, bytes; with less, it forms runs.
pub fn needed_memory_bytes(run: &PlacedSort) -> u64 {
    let SortOutcome { rows, row_bytes, threads, .. } = run.outcome;
    memory_in_place(rows, row_bytes as usize, threads, run.options.request_bytes)
}

/// Memory beyond the knee saves at most this share of the time.
const SMALL_SAVING: f64 = 0.10;

/// Finds the smallest measured memory beyond which more of it saves little; `None` for fewer than three sizes.
pub fn find_knee(runs: &[PlacedSort]) -> Option<u64> {
    let mut points: Vec<(u64, f64)> = runs.iter().map(|run| (run.outcome.memory_bytes, run.outcome.wall_s)).collect();
    points.sort_unstable_by_key(|point| point.0);
    points.dedup_by_key(|point| point.0);
    let saves_little =
        |index: &usize| points[index + 1..].iter().all(|later| later.1 >= points[*index].1 * (1.0 - SMALL_SAVING));
    (points.len() >= 3).then(|| (0..points.len()).find(saves_little).map(|index| points[index].0))?
}

/// Describes the knee in a sentence.
fn describe_knee(runs: &[PlacedSort]) -> String {
    let Some(knee) = find_knee(runs) else { return String::new() };
    let largest = runs.iter().map(|run| run.outcome.memory_bytes).max();
    match largest == Some(knee) {
        true => "No knee: the most memory that was measured was the best by more than 10 %.\n".into(),
        false => format!("Knee at {}: more memory saved at most 10 % of the time.\n", ByteSize::memory(knee as f64)),
    }
}

fn draw_single_sort(outcome: &SortOutcome) -> String {
    let style = output::stdout_style();
    let rate = (outcome.rows * outcome.row_bytes) as f64 / outcome.wall_s;
    let mut out = format!(
        "\n  {}   {} of rows sorted; processor time {}\n",
        style.paint(Ink::Bold, &format_value(outcome.wall_s, "s")),
        format_value(rate, "bytes_per_s"),
        format_value(outcome.cpu_s, "s"),
    );
    let _ = writeln!(
        out,
        "  {}\n",
        match (outcome.runs, outcome.passes) {
            (1, _) => format!("everything fits into {} of memory", ByteSize::memory(outcome.memory_bytes as f64)),
            (runs, 1) =>
                format!("{} of memory: {runs} runs, merged in one pass", ByteSize::memory(outcome.memory_bytes as f64)),
            (runs, passes) => format!(
                "{} of memory: {runs} runs, merged {} at a time in {passes} passes",
                ByteSize::memory(outcome.memory_bytes as f64),
                outcome.fan_in
            ),
        }
    );
    out += &stage_table(outcome).render(&style);
    out + &describe_rates(outcome)
}

/// Describes the rates of stages that move bytes, in a sentence: beside the times, the table would be wider than 80
/// columns.
fn describe_rates(outcome: &SortOutcome) -> String {
    let moving = outcome.stages.iter().filter(|stage| stage.bytes_per_s > 0.0);
    let rate = |stage: &StageTime| format!("{} {}", stage.name, format_value(stage.bytes_per_s, "bytes_per_s"));
    let rates = moving.map(rate).collect::<Vec<_>>().join(", ");
    if rates.is_empty() { rates } else { output::wrap_paragraph(&format!("Read and written in a second: {rates}.")) }
}

/// Table of stages: bytes, and how the threads spent their time.
fn stage_table(outcome: &SortOutcome) -> TextTable {
    let mut table = TextTable::new().with_text_column("stage");
    for title in ["time", "read", "written", "computing", "reading", "writing", "waiting"] {
        table = table.with_column(title, Align::Right);
    }
    let threads = outcome.threads as f64;
    for StageTime { name, wall_s, steps, .. } in &outcome.stages {
        let per_thread = |thread_s: f64| format_value(thread_s / threads, "s");
        let waiting = steps.read.waiting_s() + steps.write.waiting_s();
        table.add_row([
            name.clone(),
            format_value(*wall_s, "s"),
            ByteSize::capacity(steps.read.bytes as f64).to_string(),
            ByteSize::capacity(steps.write.bytes as f64).to_string(),
            per_thread(steps.compute.thread_s),
            per_thread(steps.read.thread_s),
            per_thread(steps.write.thread_s),
            per_thread(waiting),
        ]);
    }
    table
}

/// Table of several sorts, one per row.
fn sort_table(runs: &[PlacedSort]) -> TextTable {
    let mut table = TextTable::new().with_text_column("sort");
    for title in ["time", "a second", "runs", "passes", "processor", "waiting"] {
        table = table.with_column(title, Align::Right);
    }
    for run in runs {
        let outcome = &run.outcome;
        let waiting: f64 =
            outcome.stages.iter().map(|stage| stage.steps.read.waiting_s() + stage.steps.write.waiting_s()).sum();
        table.add_row([
            run.name.clone(),
            format_value(outcome.wall_s, "s"),
            format_value((outcome.rows * outcome.row_bytes) as f64 / outcome.wall_s, "bytes_per_s"),
            outcome.runs.to_string(),
            outcome.passes.to_string(),
            format_value(outcome.cpu_s, "s"),
            format_value(waiting / outcome.threads as f64, "s"),
        ]);
    }
    table
}

/// Chart of time against memory, against the number of places, or, for sorts that differ in neither, in their order.
pub fn sort_chart(runs: &[PlacedSort]) -> Curves {
    let differ =
        |is_other: fn(&PlacedSort, &PlacedSort) -> bool| runs.windows(2).any(|pair| is_other(&pair[0], &pair[1]));
    let by_memory = differ(|a, b| a.outcome.memory_bytes != b.outcome.memory_bytes);
    let by_place = differ(|a, b| {
        (&a.options.work_folders, &a.options.target_folder) != (&b.options.work_folders, &b.options.target_folder)
    });
    let place = |(number, run): (usize, &PlacedSort)| {
        let x = if by_memory { run.outcome.memory_bytes as f64 } else { number as f64 + 1.0 };
        CurvePoint { x, y: run.outcome.wall_s, interval: None }
    };
    let mut points: Vec<CurvePoint> = runs.iter().enumerate().map(place).collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    let (title, words, unit, scale) = match (by_memory, by_place) {
        (true, _) => ("Time of the sort by memory", "Memory for the sort", "bytes", AxisScale::Log),
        (false, true) => ("Time of the sort by placement", "Places: source, runs, result", "count", AxisScale::Linear),
        (false, false) => ("Time of the sort", "Sort", "count", AxisScale::Linear),
    };
    let x = Axis { words: words.into(), unit: unit.into(), scale };
    let y = Axis { words: "Time".into(), unit: "s".into(), scale: AxisScale::Linear };
    let mut lines = vec![ChartCurve { name: String::new(), points }];
    if by_memory && let Some(first) = runs.first() {
        lines[0].name = "measured".into();
        lines.extend(vertical_line(
            "SAS 1998's formula",
            formula_memory_bytes(&first.outcome) as f64,
            &lines[0].points,
        ));
        lines.extend(vertical_line("this sort's need", needed_memory_bytes(first) as f64, &lines[0].points));
    }
    Curves { title: title.into(), x, y, lines }
}

/// Vertical line at a position within a curve.
fn vertical_line(name: &str, x: f64, curve: &[CurvePoint]) -> Option<ChartCurve> {
    let ends = curve.first().zip(curve.last())?;
    let highest = curve.iter().map(|point| point.y).fold(0.0, f64::max);
    let points = (0..=20).map(|step| CurvePoint { x, y: highest * f64::from(step) / 20.0, interval: None });
    (ends.0.x <= x && x <= ends.1.x).then(|| ChartCurve { name: name.into(), points: points.collect() })
}

#[cfg(test)]
mod tests {
    use diskwright_workload::sort::SortOptions;

    use super::*;

    fn sort_run(memory_bytes: u64, wall_s: f64) -> PlacedSort {
        let folder = std::path::PathBuf::from("x");
        let options = SortOptions {
            rows: 1_000_000,
            shape: RowShape { row_bytes: 100, key_bytes: 10 },
            memory_bytes,
            threads: 1,
            source: folder.clone(),
            work_folders: vec![folder.clone()],
            target_folder: folder,
            direct: false,
            request_bytes: 0,
            merge_request_bytes: 0,
            sync: true,
            seed: 1,
            keep_as: None,
        };
        let outcome = SortOutcome {
            rows: options.rows,
            row_bytes: 100,
            key_bytes: 10,
            memory_bytes,
            threads: 1,
            runs: 2,
            fan_in: 2,
            passes: 1,
            request_bytes: 4096,
            merge_request_bytes: 4096,
            wall_s,
            cpu_s: 1.0,
            stages: Vec::new(),
            verified: true,
        };
        PlacedSort { name: String::new(), options, outcome }
    }

    #[test]
    fn finds_the_knee_where_more_memory_saves_little() {
        let sorts = |times: &[f64]| {
            times.iter().enumerate().map(|(index, wall_s)| sort_run(1 << (20 + index), *wall_s)).collect::<Vec<_>>()
        };
        assert_eq!(find_knee(&sorts(&[10.0, 5.0, 4.8, 4.6])), Some(2 << 20));
        // a small memory may beat a medium one until all rows fit (SAS 1998)
        assert_eq!(find_knee(&sorts(&[5.0, 6.0, 6.0, 3.0])), Some(8 << 20));
        assert!(describe_knee(&sorts(&[5.0, 6.0, 6.0, 3.0])).starts_with("No knee"));
        assert_eq!(find_knee(&sorts(&[5.0, 4.0])), None);
    }

    #[test]
    fn shows_rates_of_stages_that_move_bytes() {
        let mut sort = sort_run(1 << 20, 2.0).outcome;
        assert_eq!(describe_rates(&sort), "");
        let stage = |name: &str, bytes_per_s: f64| {
            let steps = diskwright_workload::sort::SortSteps::default();
            StageTime { name: name.into(), wall_s: 2.0, bytes_per_s, steps }
        };
        sort.stages = vec![stage("form runs", 5e7), stage("sync", 0.0), stage("final merge", 2e8)];
        let [form, merge] = [5e7, 2e8].map(|rate| format_value(rate, "bytes_per_s"));
        let words = describe_rates(&sort).replace('\n', " ");
        assert_eq!(words, format!("Read and written in a second: form runs {form}, final merge {merge}. "));
    }

    #[test]
    fn chart_axis_shows_what_differs_between_sorts() {
        let words = |sorts: &[PlacedSort]| sort_chart(sorts).x.words;
        let mut placed = sort_run(1 << 20, 2.0);
        placed.options.work_folders = vec!["y".into()];
        assert_eq!(words(&[sort_run(1 << 20, 3.0), sort_run(2 << 20, 2.0)]), "Memory for the sort");
        assert_eq!(words(&[sort_run(1 << 20, 3.0), placed]), "Places: source, runs, result");
        // several identical sorts, and a single one
        assert_eq!(words(&[sort_run(1 << 20, 3.0), sort_run(1 << 20, 2.0)]), "Sort");
        assert_eq!(words(&[sort_run(1 << 20, 3.0)]), "Sort");
    }

    #[test]
    fn chart_shows_the_formula_beside_the_measurements() {
        // (16 + 100) x 1.1 x 1,000,000 = 127.6 MB, and 116 MB with a writer's 1 MiB and a block
        let chart = sort_chart(&[sort_run(64 << 20, 3.0), sort_run(100 << 20, 2.0), sort_run(256 << 20, 1.0)]);
        let lines: Vec<(&str, f64)> = chart.lines.iter().map(|line| (line.name.as_str(), line.points[0].x)).collect();
        let expected =
            [("measured", 67_108_864.0), ("SAS 1998's formula", 127_600_000.0), ("this sort's need", 117_052_672.0)];
        assert_eq!(lines, expected);
        let few = super::sort_chart(&[sort_run(1 << 20, 3.0), sort_run(2 << 20, 2.0)]);
        assert_eq!(few.lines.len(), 1);
    }
}
