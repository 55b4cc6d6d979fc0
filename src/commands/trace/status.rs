//! `trace status`: possible methods of tracing, and running traces.

use std::fs;

use diskwright_blocktrace::{BlockEventKind, Tracefs, kernel};
use serde_json::{Value, json};

use super::super::record::trace_control;
use super::super::{Failure, output};
use super::recorder_control;

/// Prints the status of tracing.
pub fn print_status(as_json: bool) -> Result<(), Failure> {
    let (usable, because, instances, has_start) = match Tracefs::open() {
        Ok(tracefs) => match tracefs.read_event_table() {
            Ok((table, _)) => (true, None, tracefs.instances(), table.find_layout(BlockEventKind::Start).is_some()),
            Err(error) => (false, Some(error.to_string()), tracefs.instances(), false),
        },
        Err(error) => (false, Some(error.to_string()), Vec::new(), false),
    };
    let bpf = is_bpf_open_to_all();
    let bpf_access = kernel::check_access();
    let recording: Vec<Value> = trace_control::list_recorders().into_iter().map(|(_, status)| status).collect();
    if as_json {
        let instance = |(name, lives): &(String, bool)| json!({ "name": name, "alive": lives });
        return output::print_json(&json!({
            "schema": "diskwright.trace-status/1",
            "tracefs": usable,
            "because": because,
            "request_start": has_start,
            "bpf": bpf,
            "bpf_usable": bpf_access.is_ok(),
            "bpf_because": bpf_access.as_ref().err().map(ToString::to_string),
            "instances": instances.iter().map(instance).collect::<Vec<Value>>(),
            "recorders": recording,
        }));
    }
    let mut text = match &because {
        None => String::from("tracefs: usable\n"),
        Some(because) => format!("tracefs: not usable: {because}\n"),
    };
    text.push_str(&match (&bpf_access, bpf) {
        (Ok(()), _) => "bpf: usable\n".to_owned(),
        (Err(error), _) if rustix::process::geteuid().is_root() => {
            format!("bpf: not usable, even by root here: {error}\n")
        }
        (Err(_), Some(_)) => "bpf: needs root, or CAP_BPF and CAP_PERFMON\n".to_owned(),
        (Err(_), None) => "bpf: not available in this kernel\n".to_owned(),
    });
    if usable && !has_start {
        text.push_str("this kernel does not report when a request starts (6.5 and later do)\n");
    }
    for (name, lives) in &instances {
        let state = if *lives { "traces now" } else { "was left by a killed process; the next trace removes it" };
        text.push_str(&format!("{}: {state}\n", output::escape_name(name)));
    }
    if instances.is_empty() && usable {
        text.push_str("no trace of this program is running\n");
    }
    recording.iter().for_each(|status| text.push_str(&recorder_control::recorder_line(status)));
    output::print_text(&text)
}

/// True if BPF is open to everyone; `None` if the kernel has no BPF.
fn is_bpf_open_to_all() -> Option<bool> {
    let text = fs::read_to_string("/proc/sys/kernel/unprivileged_bpf_disabled").ok()?;
    Some(text.trim() == "0")
}
