//! One machine of a metric store, read like a log.

use std::ops::ControlFlow;
use std::path::Path;

use diskwright_base::LogPiece;
use diskwright_base::byte_size::ByteSize;
use diskwright_base::text::printable_line;
use diskwright_logs::ReadSummary;
use diskwright_remote::MetricStore;
use diskwright_remote::host::{self, HostQuery};

use crate::IngestError;
use crate::log_writer::open_writer;
use crate::logs::OpenedLogs;
use crate::report::Reporter;
use crate::skip_report::report_skipped;

/// Reads one machine of a store into a Diskwright log.
///
/// # Errors
/// When the store gives no answer, or the log cannot be written.
pub fn import_store(
    store: &MetricStore,
    query: &HostQuery,
    to: &Path,
    reporter: &Reporter,
) -> Result<ReadSummary, IngestError> {
    let mut writer = open_writer(to)?;
    let mut failure = None;
    let read = host::read(store, query, &mut |piece: LogPiece<'_>| {
        let added = match piece {
            LogPiece::Note(note) => writer.add_note(&note).map(drop),
            LogPiece::Frame(frame) => writer.push_frame(frame),
        };
        match added {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failure = Some(error);
                ControlFlow::Break(())
            }
        }
    });
    failure.map_or_else(|| writer.close(), Err)?;
    let summary = read?;
    report_reading(store, &summary, reporter);
    Ok(summary)
}

/// Reads one machine of a store.
///
/// # Errors
/// When the store gives no answer, or no tick.
pub fn open_store(store: &MetricStore, query: &HostQuery, reporter: &Reporter) -> Result<OpenedLogs, IngestError> {
    OpenedLogs::from_pieces("the store", reporter, |sink| {
        let summary = host::read(store, query, sink)?;
        report_reading(store, &summary, reporter);
        Ok::<(), IngestError>(())
    })
}

/// Reports what was skipped and what the queries took.
fn report_reading(store: &MetricStore, summary: &ReadSummary, reporter: &Reporter) {
    report_skipped(store.shown_address(), summary, reporter);
    report_store_warnings(store, reporter);
    let (queries, seconds, bytes) = store.request_statistics();
    let size = ByteSize::capacity(bytes as f64);
    reporter.warn(format_args!("{}: {queries} queries, {seconds:.2} s, {size}", store.shown_address()));
}

/// Reports the store's warnings: if a part of the store did not respond, its machines are missing.
pub fn report_store_warnings(store: &MetricStore, reporter: &Reporter) {
    for warning in store.warnings() {
        reporter.warn(format_args!("{}: {}", store.shown_address(), printable_line(&warning)));
    }
}
