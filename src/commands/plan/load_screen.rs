//! The measured load as text.

use diskwright_base::units::{format_count, format_significant, format_value};
use diskwright_planner::bucket_replay::{BucketReplay, BucketUnit};
use diskwright_planner::demand::EstimatedField;
use diskwright_planner::series::measured_demand::LoadPercentiles;
use diskwright_planner::series::{MeasureOptions, MeasuredDemand};
use diskwright_planner::what_if::bounds::{Limits, WhatIfBounds};
use diskwright_planner::what_if::{DeviceCounters, WhatIf};
use diskwright_report::{Align, Ink, Style, TextTable};

use super::screen::{wrap_indented, wrap_painted};
use super::space_lines;

/// Draws the load, before the designs.
pub fn draw_load(measured: &MeasuredDemand, options: &MeasureOptions, style: &Style) -> String {
    let (demand, summary) = (&measured.demand, &measured.summary);
    let stars = usize::from(summary.rating.stars);
    let stars = format!("{}{}", "*".repeat(stars), ".".repeat(5_usize.saturating_sub(stars)));
    let mut out = style.paint(Ink::Bold, &format!("Load from {} to {}", summary.from, summary.to));
    let confidence = format!(
        "confidence {stars} ({:.0} %): {}; {} of {}",
        summary.rating.confidence * 100.0,
        summary.rating.words,
        format_count(summary.ticks as u64, "tick", "ticks"),
        format_value(summary.interval_s, "s")
    );
    out += &format!("\n{}\n", wrap_indented(&confidence, 0, style));
    out += &percentile_table(measured).render(style);
    out += "\n";
    out += &device_table(measured, options).render(style);
    for line in load_lines(measured, options) {
        out += &wrap_indented(&line, 0, style);
    }
    for estimate in estimates_by_method(&demand.estimated) {
        out += &wrap_painted(Ink::Dim, &format!("estimated: {estimate}"), style);
    }
    for note in summary.space.remarks.iter().chain(&summary.notes) {
        out += &wrap_painted(Ink::Dim, &format!("note: {note}"), style);
    }
    out + "\n"
}

/// Estimated fields, those of one method together: `reads_per_s, writes_per_s: split by their bytes`.
fn estimates_by_method(estimated: &[EstimatedField]) -> Vec<String> {
    let mut methods: Vec<(&str, Vec<&str>)> = Vec::new();
    for EstimatedField { field, how } in estimated {
        match methods.iter_mut().find(|(known, _)| known == how) {
            Some((_, fields)) => fields.push(field),
            None => methods.push((how, vec![field])),
        }
    }
    methods.into_iter().map(|(how, fields)| format!("{}: {how}", fields.join(", "))).collect()
}

fn percentile_table(measured: &MeasuredDemand) -> TextTable {
    let summary = &measured.summary;
    let mut table = TextTable::new().with_text_column("all disks together");
    for title in ["mean", "50 %", "90 %", "95 %", "99 %", "highest"] {
        table = table.with_column(title, Align::Right);
    }
    let mut row = |name: &str, percentiles: &LoadPercentiles, unit: &str| {
        let values =
            [percentiles.mean, percentiles.p50, percentiles.p90, percentiles.p95, percentiles.p99, percentiles.max]
                .map(|value| format_value(value, unit));
        table.add_row([name.to_owned()].into_iter().chain(values));
    };
    row("requests", &summary.requests_per_s, "per_s");
    row("bytes", &summary.bytes_per_s, "bytes_per_s");
    if let Some(queue) = &summary.queue {
        row("in flight", queue, "count");
    }
    table
}

/// Maximum number of devices shown.
const MAX_DEVICES: usize = 12;

fn device_table(measured: &MeasuredDemand, options: &MeasureOptions) -> TextTable {
    let mut table = TextTable::new()
        .with_text_column("device")
        .with_text_column("type")
        .with_column(&format!("{} %", options.percentile), Align::Right)
        .with_column("by member, mean", Align::Right)
        .with_column("in flight by member", Align::Right)
        .with_column("response", Align::Right);
    for device in measured.summary.devices.iter().take(MAX_DEVICES) {
        let description = match device.level {
            Some(level) => format!("{level} of {}", device.members),
            None => "disk".into(),
        };
        table.add_row([
            device.name.clone(),
            if device.from_members { format!("{description}, from its members") } else { description },
            format_value(device.requests_per_s, "per_s"),
            format_value(device.member_load_per_s, "per_s"),
            device.member_queue.map_or("no data".into(), |queue| format_value(queue, "count")),
            device.response_s.map_or("no data".into(), |s| format_value(s, "s")),
        ]);
    }
    table
}

fn load_lines(measured: &MeasuredDemand, options: &MeasureOptions) -> Vec<String> {
    let (demand, summary) = (&measured.demand, &measured.summary);
    let mut lines = Vec::new();
    if summary.devices.len() > MAX_DEVICES {
        let more = format_count((summary.devices.len() - MAX_DEVICES) as u64, "more device", "more devices");
        lines.push(format!("and {more} (--json shows all)"));
    }
    lines.push(format!(
        "planned for: {} reads/s of {}, {} writes/s of {} (percentile {}, times {})",
        format_significant(demand.reads_per_s),
        format_value(demand.read_size_bytes, "bytes"),
        format_significant(demand.writes_per_s),
        format_value(demand.write_size_bytes, "bytes"),
        options.percentile,
        format_significant(options.comfort)
    ));
    if summary.devices.len() > 1 {
        lines.push(format!(
            "the sum of the devices' own percentiles is {}: it would oversize by {:.0} %",
            format_value(summary.sum_of_percentiles_per_s, "per_s"),
            (summary.oversize - 1.0).max(0.0) * 100.0
        ));
    }
    let burst = demand.burstiness.map_or("no data".into(), format_significant);
    let log_dispersion = summary.dispersion.map_or("no data".into(), format_significant);
    lines.push(format!("bursts: index of dispersion {burst} from tick to tick, {log_dispersion} over the log"));
    if let Some(hours) = &summary.busy_hours {
        let hours: Vec<String> = hours.iter().map(|hour| format!("{hour:02}")).collect();
        lines.push(format!("busy hours of the day: {}", hours.join(" ")));
    }
    lines.extend(space_lines::describe_space(demand, &summary.space));
    if let Some(swap) = &summary.swap {
        lines.push(format!(
            "swapping is not included: {} on average, {:.1} % of all requests; add memory before disks",
            format_value(swap.requests_per_s, "per_s"),
            swap.share * 100.0
        ));
    }
    lines.extend(summary.hidden.iter().map(hidden_load_line));
    lines
}

fn hidden_load_line(hidden_load: &diskwright_planner::series::hidden_load::HiddenLoad) -> String {
    let (device, method) = (&hidden_load.device, &hidden_load.method);
    let (time, rate) = (format_value(hidden_load.saturated_s, "s"), format_value(hidden_load.plateau_per_s, "per_s"));
    let hidden_demand = match (hidden_load.asked_per_s, hidden_load.interval_per_s) {
        (Some(hidden_demand), Some((low, high))) => {
            let high = high.map_or("more".into(), |high| format_value(high, "per_s"));
            format!(
                "the demand behind it is {} ({} to {high})",
                format_value(hidden_demand, "per_s"),
                format_value(low, "per_s")
            )
        }
        (Some(hidden_demand), None) => format!("the demand behind it is {}", format_value(hidden_demand, "per_s")),
        (None, Some((low, _))) => format!("the demand behind it is at least {}", format_value(low, "per_s")),
        (None, None) => "the demand behind it is unknown".into(),
    };
    format!("{device} was saturated for {time} at {rate}; {hidden_demand} ({method})")
}

/// Draws the replay of each limit.
pub fn draw_buckets(replays: &[BucketReplay], style: &Style) -> String {
    let mut table = TextTable::new().with_text_column("limit");
    for title in ["always", "burst", "lowest", "throttled", "at nothing", "delay"] {
        table = table.with_column(title, Align::Right);
    }
    for bucket in replays {
        let unit = if bucket.unit == BucketUnit::Bytes { "bytes_per_s" } else { "per_s" };
        let lowest = bucket.lowest_balance.map_or("no credits".into(), |share| format_value(share, "fraction"));
        table.add_row([
            bucket.bucket.clone(),
            format_value(bucket.baseline_per_s, unit),
            format_value(bucket.burst_per_s, unit),
            lowest,
            format_value(bucket.throttled_s, "s"),
            format_value(bucket.seconds_at_nothing, "s"),
            format_value(bucket.longest_delay_s, "s"),
        ]);
    }
    let heading = style.paint(Ink::Bold, "Limits and credits over the log, with full credits at its start");
    let mut out = format!("{heading}\n{}", table.render(style));
    for bucket in replays {
        let line = match &bucket.first {
            Some(first) => format!("{}: first throttled at {first}", bucket.bucket),
            None => format!("{}: never throttled", bucket.bucket),
        };
        out += &wrap_indented(&line, 0, style);
    }
    out += &wrap_indented(
        "lowest: the lowest balance of credits; delay: the longest delay of throttled requests",
        0,
        style,
    );
    out + "\n"
}

/// Draws a prediction; the model's error comes first.
pub fn draw_what_if(prediction: &WhatIf, style: &Style) -> String {
    let remark = if prediction.trusted { "" } else { "; the prediction is unreliable" };
    let error = format!(
        "On the half of the log not used in the fit, the model's error for the response time is {:.1} %{remark}.",
        prediction.model_error * 100.0
    );
    let ink = if prediction.trusted { Ink::Bold } else { Ink::Bad };
    let mut table =
        TextTable::new().with_text_column(&format!("{} at its highest loads", style.clean_text(&prediction.device)));
    for title in ["measured", "modeled", "after"] {
        table = table.with_column(title, Align::Right);
    }
    type CounterRow = (&'static str, &'static str, fn(&DeviceCounters) -> f64);
    let rows: [CounterRow; 4] = [
        ("requests", "per_s", |c| c.requests_per_s),
        ("I/Os per member", "per_s", |c| c.member_load_per_s),
        ("mean response", "s", |c| c.response_s),
        ("in flight", "count", |c| c.queue),
    ];
    for (name, unit, extract) in rows {
        let values = [&prediction.before, &prediction.modelled_before, &prediction.after]
            .map(|c| format_value(extract(c), unit));
        table.add_row([name.to_owned()].into_iter().chain(values));
    }
    let mut out =
        wrap_painted(ink, &error, style) + &wrap_indented(&format!("model: {}", prediction.model), 0, style) + "\n";
    out += &format!("{}{}", wrap_painted(Ink::Bold, &prediction.change, style), table.render(style));
    for note in &prediction.notes {
        out += &wrap_painted(Ink::Dim, &format!("note: {note}"), style);
    }
    out
}

/// Draws the bounds of a change, and why no model predicts it.
pub fn draw_bounds(found: &WhatIfBounds, because: &str, style: &Style) -> String {
    let heading = format!("These are bounds, not a prediction: {because}.");
    let mut table =
        TextTable::new().with_text_column(&format!("{} at its highest loads", style.clean_text(&found.device)));
    for title in ["measured", "at least", "at most"] {
        table = table.with_column(title, Align::Right);
    }
    let bounds = &found.bounds;
    let rows: [(&str, &str, f64, Limits); 2] = [
        ("requests", "per_s", found.before.requests_per_s, bounds.requests_per_s),
        ("mean response", "s", found.before.response_s, bounds.response_s),
    ];
    for (name, unit, measured, limits) in rows {
        let show = |value: Option<f64>| value.map_or("-".to_owned(), |value| format_value(value, unit));
        table.add_row([name.to_owned(), format_value(measured, unit), show(limits.least), show(limits.most)]);
    }
    let mut out = wrap_painted(Ink::Bold, &heading, style) + &wrap_indented(found.model, 0, style) + "\n";
    out += &format!("{}{}", wrap_painted(Ink::Bold, &found.change, style), table.render(style));
    for note in &found.notes {
        out += &wrap_painted(Ink::Dim, &format!("note: {note}"), style);
    }
    out + &wrap_indented(&format!("For more: {}.", found.record), 0, style)
}

#[cfg(test)]
mod tests {
    use super::*;
    use diskwright_planner::series::hidden_load::HiddenLoad;

    #[test]
    fn escapes_device_names_in_headings() {
        let counters = DeviceCounters {
            requests_per_s: 100.0,
            reads_per_s: 60.0,
            writes_per_s: 40.0,
            member_load_per_s: 100.0,
            response_s: 0.01,
            queue: 1.0,
        };
        let found = WhatIf {
            change: "load +50%".into(),
            device: "sd\u{1b}[31ma".into(),
            model: "a model".into(),
            model_error: 0.1,
            trusted: true,
            before: counters,
            modelled_before: counters,
            after: counters,
            notes: Vec::new(),
        };
        let text = draw_what_if(&found, &Style::plain(80));
        assert!(text.contains("at its highest loads") && !text.contains('\u{1b}'), "{text:?}");
    }

    #[test]
    fn shows_a_lower_bound_if_there_is_no_estimate() {
        let bound = HiddenLoad {
            device: "sda".into(),
            saturated_s: 60.0,
            plateau_per_s: 100.0,
            queue: 8.0,
            think_s: None,
            population: None,
            asked_per_s: None,
            interval_per_s: Some((120.0, None)),
            method: "only a lower bound is given".into(),
        };
        assert!(
            hidden_load_line(&bound).contains("the demand behind it is at least 120"),
            "{}",
            hidden_load_line(&bound)
        );
        let nothing = HiddenLoad { interval_per_s: None, ..bound };
        assert!(
            hidden_load_line(&nothing).contains("the demand behind it is unknown"),
            "{}",
            hidden_load_line(&nothing)
        );
    }
}
