//! Status of a served disk, as text.

use diskwright_base::byte_size::ByteSize;
use diskwright_base::units::format_value;
use diskwright_report::text::pad_right;
use serde_json::Value;

use crate::commands::output;

/// Draws the status; empty if there is nothing to report.
pub fn draw_status(status: &Value) -> String {
    let Some(system) = status.get("system").and_then(Value::as_str) else { return String::new() };
    let mut text = format!("{}\n", output::escape_name(system));
    for export in json_array(status, "exports") {
        let clients = export["clients"].as_u64().unwrap_or(0);
        let label = if clients == 1 { "1 client" } else { &format!("{clients} clients") };
        text += &format!(
            "  {} ({}, {}): {label}\n",
            json_text(export, "name"),
            json_text(export, "kind"),
            json_size(export, "bytes")
        );
        text += &format!("    {}\n", json_text(export, "uri"));
    }
    json_array(status, "arrays").iter().for_each(|array| text += &format_array(array));
    let changed = json_array(status, "members");
    if !changed.is_empty() {
        text += "changed\n";
        changed.iter().for_each(|drive| text += &format_changed_drive(drive));
    }
    let busy = json_array(status, "components")
        .iter()
        .filter(|component| component["utilisation"].as_f64().is_some_and(|u| u > 0.0));
    let busy: Vec<String> = busy.map(format_component).collect();
    if !busy.is_empty() {
        text += &format!("in the last {}\n{}", json_seconds(status, "interval_s"), busy.concat());
    }
    let reply_lateness = &status["late_s"];
    if reply_lateness["requests"].as_u64().is_some_and(|requests| requests > 0) {
        let (mean, p99) = (json_seconds(reply_lateness, "mean"), json_seconds(reply_lateness, "p99"));
        text += &format!("replies were {mean} late on average (99 %: within {p99})\n");
    }
    text
}

fn format_array(array: &Value) -> String {
    let mut text = format!("{} ({})\n", json_text(array, "name"), json_text(array, "level"));
    for member in json_array(array, "members") {
        text += &format!("  {} {}\n", pad_right(&json_text(member, "drive"), 12), json_text(member, "state"));
    }
    if let (Some(done_bytes), Some(all_bytes)) =
        (array["background"]["done_bytes"].as_f64(), array["background"]["all_bytes"].as_f64())
    {
        let share = 100.0 * done_bytes / all_bytes;
        let task = json_text(&array["background"], "task");
        text += &format!("  {task}: {share:.1} % of {} per member\n", ByteSize::capacity(all_bytes));
    }
    if let Some(trouble) = array["trouble"].as_str() {
        text += &format!("  {}\n", output::escape_name(trouble));
    }
    if array["lost_blocks"].as_u64().is_some_and(|lost| lost > 0) {
        text += "    requests hit lost data\n";
    }
    text
}

fn format_changed_drive(drive: &Value) -> String {
    let mut changes = Vec::new();
    let number = |key: &str| drive[key].as_f64().unwrap_or(f64::NAN);
    if number("factor") != 1.0 {
        changes.push(format!("slowed down {} times", number("factor")));
    }
    if drive["hangs"] == true {
        changes.push("hangs".to_owned());
    }
    for (key, operations) in [("failing_reads", "reads"), ("failing_writes", "writes")] {
        if number(key) > 0.0 {
            changes.push(format!("{} of its {operations} fail", format_value(number(key), "fraction")));
        }
    }
    format!("  {} {}\n", pad_right(&json_text(drive, "name"), 12), changes.join(", "))
}

fn format_component(component: &Value) -> String {
    let number = |key: &str| component[key].as_f64().unwrap_or(f64::NAN);
    let busy = 100.0 * number("utilisation");
    let (rate, queue) = (number("requests_per_s"), number("queue"));
    let name = pad_right(&json_text(component, "name"), 20);
    format!("  {name} {busy:>5.1} % busy {rate:>9.1}/s  queue {queue:.2}\n")
}

fn json_array<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn json_text(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).map_or_else(|| "?".into(), output::escape_name)
}

fn json_seconds(value: &Value, key: &str) -> String {
    format_value(value[key].as_f64().unwrap_or(f64::NAN), "s")
}

fn json_size(value: &Value, key: &str) -> String {
    ByteSize::capacity(value[key].as_f64().unwrap_or(f64::NAN)).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{draw_status, format_changed_drive};

    #[test]
    fn server_text_cannot_start_a_line() {
        let array = json!({ "name": "set", "level": "raid5", "members": [], "trouble": "lost\n0 members failed" });
        let text = draw_status(&json!({ "system": "old\nserving", "arrays": [array] }));
        assert_eq!(text, "old serving\nset (raid5)\n  lost 0 members failed\n");
    }

    #[test]
    fn shows_shares_as_they_were_typed() {
        let mut drive = json!({ "name": "disk1", "factor": 1.0, "hangs": false, "failing_writes": 0.0 });
        drive["failing_reads"] = json!(0.07);
        assert_eq!(format_changed_drive(&drive), "  disk1        7 % of its reads fail\n");
        // measured in columns of a terminal, where each of these letters takes two
        drive["name"] = json!("磁盘");
        assert_eq!(format_changed_drive(&drive), "  磁盘         7 % of its reads fail\n");
    }
}
