//! `record DIR --ssh`: logs of other hosts. One host's log is DIR itself; several have a folder each in it.

use std::path::Path;
use std::time::Duration;

use diskwright_base::units::format_count;
use diskwright_datastore::WriterOptions;
use serde_json::json;

use super::arguments::SshArguments;
use super::asked_hosts::{HostRecord, collect_hosts, record_json, report_records};
use crate::commands::{Failure, output};

/// What is recorded, and where.
pub struct HostRecording<'a> {
    pub ssh: &'a SshArguments,
    pub dir: &'a Path,
    pub every: Duration,
    pub lasts: Option<Duration>,
    pub writer: WriterOptions,
    pub as_json: bool,
}

/// Records hosts until the time is over or a signal asks to stop. A connection that breaks is opened again.
///
/// # Errors
/// When a host could not be recorded at all; the others are.
pub fn record_hosts(recording: &HostRecording<'_>) -> Result<(), Failure> {
    let targets = recording.ssh.targets()?;
    diskwright_guard::check_new(&recording.dir.join("log"))?;
    let options = recording.ssh.connect_options(targets.len(), recording.every, recording.lasts)?;
    let is_one = targets.len() == 1;
    if !is_one {
        std::fs::create_dir_all(recording.dir)?;
    }
    let dir_of = |target: &diskwright_sshhosts::SshTarget| match is_one {
        true => recording.dir.to_owned(),
        false => recording.dir.join(target.file_name()),
    };
    let records = collect_hosts(&targets, (options, recording.writer.clone()), true, dir_of)?;
    report_records(&records);
    if recording.as_json {
        let ticks: u64 = records.iter().map(|record| record.ticks).sum();
        let hosts: Vec<_> = records.iter().map(host_json).collect();
        output::print_json(&json!({ "schema": "diskwright.record/1", "ticks": ticks, "hosts": hosts }))?;
    } else {
        for record in records.iter().filter(|record| record.ticks > 0) {
            let ticks = format_count(record.ticks, "tick", "ticks");
            let dir = record.dir.display();
            output::print_note(format_args!(
                "{dir}: recorded {ticks} of {}; next: diskwright why {dir}",
                record.target
            ));
        }
    }
    let lost: u64 = records.iter().map(|record| record.lost_ticks).sum();
    if lost > 0 {
        let lost = format_count(lost, "tick was", "ticks were");
        return Err(Failure::Failed(format!("{lost} lost: the disk of the logs accepted no more data")));
    }
    let failed = records.iter().filter(|record| record.ticks == 0 || record.failure.is_some()).count() as u64;
    match failed {
        0 => Ok(()),
        count => Err(Failure::Failed(format!("{} could not be recorded", format_count(count, "host", "hosts")))),
    }
}

fn host_json(record: &HostRecord) -> serde_json::Value {
    let mut host = record_json(record);
    host["log"] = json!(record.dir.to_string_lossy());
    host
}
