//! Status report of a running disk.

use diskwright_simulator::run::{ArrayReport, Component};
use serde_json::{Value, json};

use super::service::DiskServer;

const SECONDS_PER_NS: f64 = 1e-9;

/// Builds the complete status document.
pub fn status_document(server: &DiskServer) -> Value {
    let exports: Vec<Value> = server
        .exports()
        .enumerate()
        .map(|(index, (export, bytes))| {
            let clients = server.clients.iter().flatten().filter(|client| client.export_index() == Some(index)).count();
            json!({
                "name": export.name,
                "kind": export.kind,
                "bytes": bytes,
                "uri": server.address().uri(&export.name),
                "clients": clients,
            })
        })
        .collect();
    let last_report = server.last_report.as_ref();
    json!({
        "schema": "diskwright.disk_status/1",
        "system": server.system.name,
        "pid": std::process::id(),
        "exports": exports,
        "arrays": array_documents(server),
        "members": changed_drive_documents(server),
        "components": last_report
            .map(|report| report.components.iter().map(component_document).collect::<Vec<Value>>()),
        "interval_s": last_report.map(|report| report.elapsed_s()),
        "under_way": server.engine.in_flight(),
        "virtual_s": server.clock.now() as f64 * SECONDS_PER_NS,
        "speed": server.clock.speed(),
        "late_s": reply_lateness_document(server),
        "memory_bytes": server.engine.content.memory_bytes(),
    })
}

/// Reports how late replies were given to the kernel, by the wall clock, seconds.
fn reply_lateness_document(server: &DiskServer) -> Value {
    let seconds = |ns: Option<f64>| ns.map(|ns| ns * SECONDS_PER_NS);
    let lateness = &server.reply_lateness;
    json!({
        "requests": lateness.count(),
        "mean": seconds(lateness.mean()),
        "p50": seconds(lateness.quantile(0.5)),
        "p99": seconds(lateness.quantile(0.99)),
        "max": seconds(lateness.max().map(|max_ns| max_ns as f64)),
    })
}

fn component_document(component: &Component) -> Value {
    let utilisation = component.utilisation();
    json!({
        "name": component.name,
        "kind": component.kind.name(),
        // omitted if no time has passed
        "utilisation": utilisation.is_finite().then_some(utilisation),
        "requests_per_s": component.totals.throughput_per_s(),
        "queue": component.totals.mean_queue(),
    })
}

fn array_documents(server: &DiskServer) -> Vec<Value> {
    let describe_array = |(index, array): (usize, &diskwright_simulator::system::ArraySpec)| {
        let (failed, rebuilding) = server.engine.content.member_state(index).unwrap_or_default();
        let report: Option<&ArrayReport> = server.last_report.as_ref().and_then(|report| report.arrays.get(index));
        let background = report.and_then(|array| array.background);
        let model = server.engine.simulation.array_state(index).unwrap_or_default();
        let members: Vec<Value> = (0..array.members.len() as u16)
            .map(|member| {
                // an earlier server started this rebuild, and nothing continues it automatically
                let is_stalled = model.rebuilding.is_empty() && model.failed.contains(member);
                let state = match (failed.contains(member), rebuilding.contains(member) && !is_stalled) {
                    (_, true) => "rebuilding",
                    (true, false) => "failed",
                    _ => "well",
                };
                json!({ "member": member, "drive": member_drive_name(server, index, member), "state": state })
            })
            .collect();
        json!({
            "name": array.name,
            "level": array.level.to_string(),
            "members": members,
            "trouble": server.engine.content_errors.get(&index),
            "lost_blocks": report.map(|array| array.lost_blocks),
            "background": background.filter(|work| work.ended_ns.is_none()).map(|work| json!({
                "task": work.task.name(),
                "done_bytes": work.done_bytes,
                "all_bytes": work.all_bytes,
            })),
        })
    };
    server.system.arrays.iter().enumerate().map(describe_array).collect()
}

/// Reports the drives that commands have changed.
fn changed_drive_documents(server: &DiskServer) -> Vec<Value> {
    let changed = server.engine.changes.changed_drives();
    changed
        .map(|(drive, change)| {
            json!({
                "name": server.system.drive_name(drive),
                "factor": change.factor,
                "hangs": change.hangs,
                "failing_reads": change.failing_reads,
                "failing_writes": change.failing_writes,
            })
        })
        .collect()
}

/// Returns the name of the drive that serves a member.
fn member_drive_name(server: &DiskServer, array: usize, member: u16) -> Option<String> {
    let drives = server.engine.simulation.array_drives(array)?;
    drives.get(usize::from(member)).map(|drive| server.system.drive_name(*drive))
}
