//! `why --ssh`: the verdict on another host, or a ranking of several.

use std::time::{Duration, Instant};

use diskwright_datastore::WriterOptions;
use diskwright_diagnosis::{Judge, Verdict};
use serde_json::{Value, json};

use super::arguments::SshArguments;
use super::asked_hosts::{HostRecord, collect_hosts, record_json, report_records};
use crate::commands::fleet::{FleetRank, host_json, ranking_table, sort_ranks};
use crate::commands::log::{self, LogWindow, Logs};
use crate::commands::{Failure, output};

/// What was asked, and how it is judged.
pub struct HostQuestion<'a> {
    pub ssh: &'a SshArguments,
    pub every: Duration,
    pub lasts: Duration,
    pub new_judge: &'a dyn Fn((i64, i64)) -> Judge,
    pub as_json: bool,
}

/// Prints the answer about one host: its verdicts, its log, and how it was asked as JSON.
type HostPrinter<'a> = &'a dyn Fn(&[Verdict], &Logs, Value) -> Result<(), Failure>;

/// Watches the hosts, and answers: with `answer_one` for a single host, with a ranking for several.
///
/// # Errors
/// When no host could be judged.
pub fn answer_for_hosts(question: &HostQuestion<'_>, answer_one: HostPrinter<'_>) -> Result<(), Failure> {
    let started = Instant::now();
    let targets = question.ssh.targets()?;
    let options = question.ssh.connect_options(targets.len(), question.every, Some(question.lasts))?;
    let folder = tempfile::Builder::new().prefix("diskwright-ssh-").tempdir()?;
    // a log that may be lost
    let writer = WriterOptions { sync_every: None, ..WriterOptions::default() };
    let dir_of = |target: &diskwright_sshhosts::SshTarget| folder.path().join(target.file_name());
    let records = collect_hosts(&targets, (options, writer), false, dir_of)?;
    if let [record] = records.as_slice() {
        if let Some(failure) = &record.failure {
            return Err(Failure::Failed(format!("{}: {failure}", record.target)));
        }
        report_records(&records);
        let (verdicts, logs) = judge_record(record, question)?;
        return answer_one(&verdicts, &logs, record_json(record));
    }
    report_records(&records);
    let mut ranks: Vec<FleetRank> = records.iter().map(|record| rank_record(record, question)).collect();
    sort_ranks(&mut ranks);
    if question.as_json {
        output::print_json(&ranking_document(&ranks, &records, question, started.elapsed()))?;
    } else {
        output::print_text(&ranking_table(&ranks).render(&output::wide_table_style()))?;
    }
    match ranks.iter().all(|rank| rank.verdict.is_err()) {
        true => Err(Failure::Failed("no host could be judged".into())),
        false => Ok(()),
    }
}

fn open_record(record: &HostRecord) -> Result<Logs, Failure> {
    if record.ticks < 2 {
        let because = record.breaks.last().map_or("", String::as_str);
        let ticks = record.ticks;
        return Err(Failure::Failed(format!(
            "{}: {ticks} ticks arrived, and two are needed; {because}",
            record.target
        )));
    }
    log::open(std::slice::from_ref(&record.dir), &LogWindow::for_store(None, None))
}

/// Judges what was received of a host.
fn judge_record(record: &HostRecord, question: &HostQuestion<'_>) -> Result<(Vec<Verdict>, Logs), Failure> {
    let logs = open_record(record)?;
    Ok((log::judge_logs(&logs, (question.new_judge)(logs.range_ns))?, logs))
}

fn rank_record(record: &HostRecord, question: &HostQuestion<'_>) -> FleetRank {
    let judge = || -> Result<Verdict, Failure> {
        if let Some(failure) = &record.failure {
            return Err(Failure::Failed(failure.clone()));
        }
        let (verdicts, _) = judge_record(record, question)?;
        verdicts.into_iter().next().ok_or_else(|| Failure::Failed("no rule pack gave a verdict".into()))
    };
    let verdict = judge().map_err(|failure| failure.to_string());
    FleetRank { host: record.target.as_str().to_owned(), verdict, left_out: 0 }
}

fn ranking_document(
    ranks: &[FleetRank],
    records: &[HostRecord],
    question: &HostQuestion<'_>,
    elapsed: Duration,
) -> Value {
    let hosts: Vec<Value> = ranks
        .iter()
        .filter_map(|rank| {
            let mut host = host_json(&rank.host, rank.verdict.as_ref().ok()?, rank.severity_key().1);
            let record = records.iter().find(|record| record.target.as_str() == rank.host)?;
            host["ssh"] = record_json(record);
            Some(host)
        })
        .collect();
    let unjudged: Vec<Value> = ranks
        .iter()
        .filter_map(|rank| Some(json!({ "host": rank.host, "because": rank.verdict.as_ref().err()? })))
        .collect();
    json!({
        "schema": "diskwright.fleet/1",
        "store": Value::Null,
        "pack": ranks.iter().find_map(|rank| Some(rank.verdict.as_ref().ok()?.pack.clone())),
        "window": { "from": Value::Null, "to": Value::Null, "step_s": question.every.as_secs_f64(),
            "seconds": question.lasts.as_secs_f64() },
        "hosts": hosts,
        "unjudged": unjudged,
        "elapsed_s": elapsed.as_secs_f64(),
    })
}
