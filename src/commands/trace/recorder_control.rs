//! `trace on` and `trace off`: commands to running recorders.

use std::path::{Path, PathBuf};

use diskwright_base::units::format_count;
use serde_json::{Value, json};

use super::super::record::trace_control;
use super::super::{Failure, output};

/// Sends a command to the recorder of this log, or to the only one that runs.
pub fn send_command(command: &str, log: Option<&str>, budget: f64, as_json: bool) -> Result<(), Failure> {
    let (path, status) = choose_recorder(trace_control::list_recorders(), log)?;
    let answer = trace_control::send_command(&path, command, budget).map_err(|error| {
        Failure::Failed(format!("the recorder (process {}) does not respond: {error}", status["pid"]))
    })?;
    if let Some(error) = answer["error"].as_str() {
        return Err(Failure::Failed(output::escape_name(error)));
    }
    if as_json {
        return output::print_json(
            &json!({ "schema": "diskwright.trace-order/1", "order": command, "recorder": answer }),
        );
    }
    output::print_text(&recorder_line(&answer))
}

/// Describes a recorder in one line.
pub fn recorder_line(status: &Value) -> String {
    let log = status["log"].as_str().map_or_else(|| "no log".to_owned(), output::escape_name);
    let trace = &status["trace"];
    let state = match trace["method"].as_str() {
        None => "does not trace single requests".to_owned(),
        Some(method) => {
            let cost = trace["cost_share"]
                .as_f64()
                .map_or_else(String::new, |s| format!(", {:.2} % of the processors", s * 100.0));
            let sampled = match trace["sampled"].as_u64() {
                None | Some(1) => String::new(),
                Some(one_of) => format!(", 1 of {one_of} address ranges"),
            };
            let (requests, lost) =
                (trace["requests"].as_u64().unwrap_or(0), trace["lost_events"].as_u64().unwrap_or(0));
            let (requests, lost) =
                (format_count(requests, "request", "requests"), format_count(lost, "event", "events"));
            format!("traces single requests ({}{sampled}): {requests}, {lost} lost{cost}", output::escape_name(method))
        }
    };
    format!("recorder {} ({log}): {state}\n", status["pid"])
}

fn choose_recorder(recorders: Vec<(PathBuf, Value)>, log: Option<&str>) -> Result<(PathBuf, Value), Failure> {
    if recorders.is_empty() {
        let hint = "to start one that traces, run `diskwright record DIR --trace`";
        return Err(Failure::Failed(format!("no recorder of this user is running; {hint}")));
    }
    let log_path = log.map(|log| std::fs::canonicalize(log).unwrap_or_else(|_| PathBuf::from(log)));
    let is_match = |status: &Value| match (&log_path, status["log"].as_str()) {
        (None, _) => true,
        (Some(log_path), Some(log)) => {
            *log_path == std::fs::canonicalize(log).unwrap_or_else(|_| Path::new(log).into())
        }
        (Some(_), None) => false,
    };
    let names = recorders.iter().map(|(_, status)| recorder_line(status)).collect::<String>();
    let mut matches: Vec<(PathBuf, Value)> = recorders.into_iter().filter(|(_, status)| is_match(status)).collect();
    match (matches.pop(), matches.len()) {
        (Some(recorder), 0) => Ok(recorder),
        (None, _) => Err(Failure::Failed(format!("no recorder writes that log; running recorders:\n{names}"))),
        (Some(_), _) => Err(Failure::Usage(format!("name the log of one of these recorders:\n{names}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorder_status(pid: u32, log: &str) -> (PathBuf, Value) {
        (format!("/run/{pid}.sock").into(), json!({ "pid": pid, "log": log, "tracing": false, "trace": null }))
    }

    #[test]
    fn chooses_the_only_recorder_or_that_of_the_log() {
        let one = || recorder_status(7, "/var/log/a");
        assert_eq!(choose_recorder(vec![one()], None).map(|(path, _)| path).ok(), Some("/run/7.sock".into()));
        let two = || vec![one(), recorder_status(8, "/var/log/b")];
        assert!(matches!(choose_recorder(two(), None), Err(Failure::Usage(_))));
        assert_eq!(choose_recorder(two(), Some("/var/log/b")).map(|(path, _)| path).ok(), Some("/run/8.sock".into()));
        assert!(matches!(choose_recorder(two(), Some("/var/log/c")), Err(Failure::Failed(_))));
        assert!(matches!(choose_recorder(vec![], None), Err(Failure::Failed(_))));
    }

    #[test]
    fn describes_a_recorder_in_a_line() {
        let trace = json!({ "method": "bpf", "sampled": 2, "requests": 9, "lost_events": 0, "cost_share": 0.004 });
        let text = recorder_line(&json!({ "pid": 7, "log": "/a", "trace": trace }));
        let expected =
            "traces single requests (bpf, 1 of 2 address ranges): 9 requests, 0 events lost, 0.40 % of the processors";
        assert_eq!(text, format!("recorder 7 (/a): {expected}\n"));
        assert_eq!(recorder_line(&recorder_status(7, "/a").1), "recorder 7 (/a): does not trace single requests\n");
    }
}
