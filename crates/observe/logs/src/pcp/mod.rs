//! Performance Co-Pilot archives, versions 2 and 3, read according to their public specification (LOGARCHIVE(5)). An
//! archive is several files: values in volumes (NAME.0, NAME.1, …), their descriptions in NAME.meta, and an index that
//! is not needed to read all of it.

mod archive_survey;
pub(crate) mod files;
mod mapping;
mod metadata;
mod metric_pace;
mod processes;
mod records;
mod rows;
mod units;
mod values;

use std::collections::BTreeMap;
use std::io::{BufReader, Cursor, Read};

pub use files::archive_base;
use mapping::MetricUse;
use metadata::{InstanceDomains, Metric};
use records::{ArchiveLabel, RecordReader};

use crate::{FrameBatch, InputHead, LogError, LogFormat, LogInput, LogOptions, Skips};

/// The format of PCP archives.
pub const FORMAT: LogFormat = LogFormat {
    id: "pcp",
    title: "Performance Co-Pilot archive (versions 2 and 3)",
    explain: "Any of NAME, NAME.0, NAME.meta or NAME.index, compressed or not; all volumes are read. Metrics are \
              mapped by name and keep the archive's units; counters become increases, mark records become gaps. \
              Unknown metrics become foreign.METRIC (counters per second), processes become process tables. Labels, \
              help texts, strings and event records are not read. Record with pmlogger; include disk.dev, disk.dm, \
              disk.md, kernel, mem.util, mem.vmstat, network.interface, filesys and hinv.",
    recognize: |head: &InputHead<'_>| records::label_version(head.bytes).is_some(),
    read,
};

/// Opens a stream from its beginning, each time anew.
type StreamOpener<'a> = dyn Fn() -> Result<Box<dyn Read>, LogError> + 'a;

/// A file of the archive: its name for errors, and how to open it.
struct ArchiveFile<'a> {
    name: String,
    open: Box<StreamOpener<'a>>,
}

fn read(input: &mut LogInput, _options: &LogOptions, batch: &mut FrameBatch<'_>) -> Result<(), LogError> {
    let Some(path) = input.path() else {
        let because = "a PCP archive is several files; give its name instead of standard input";
        return Err(input.error_at("archive", because));
    };
    let files = files::find_files(path)?;
    let archive_file = |path: std::path::PathBuf| {
        // messages have the folder, or the archive that it was unpacked from, in front
        let name = path.file_name().unwrap_or(path.as_os_str()).display().to_string();
        let open = move || Ok(Box::new(BufReader::with_capacity(1 << 16, LogInput::open(&path)?)) as Box<dyn Read>);
        ArchiveFile { name, open: Box::new(open) }
    };
    read_archive(&archive_file(files.meta), &files.volumes.into_iter().map(archive_file).collect::<Vec<_>>(), batch)
}

/// Reads an archive of bytes in memory: its `.meta` and its volumes. For tests
/// and fuzzing; an ordinary archive is read by its name.
///
/// # Errors
/// As [`crate::read`].
pub fn read_bytes(meta: &[u8], volumes: &[&[u8]], batch: &mut FrameBatch<'_>) -> Result<(), LogError> {
    let archive_file = |name: String, bytes: &[u8]| {
        let bytes = bytes.to_vec();
        ArchiveFile { name, open: Box::new(move || Ok(Box::new(Cursor::new(bytes.clone())) as Box<dyn Read>)) }
    };
    let volumes: Vec<ArchiveFile<'_>> =
        volumes.iter().enumerate().map(|(i, v)| archive_file(format!("archive.{i}"), v)).collect();
    read_archive(&archive_file("archive.meta".into(), meta), &volumes, batch)
}

/// Opens a file and reads its label.
fn open_file(file: &ArchiveFile<'_>) -> Result<(RecordReader<Box<dyn Read>>, ArchiveLabel), LogError> {
    let mut records = RecordReader::new((file.open)()?);
    let label = match records.next() {
        Ok(true) => records::parse_label(records.body()),
        Ok(false) => None,
        Err(fault) => return Err(LogError::broken(&file.name, "byte 0", fault.to_reason())),
    };
    match label {
        Some(label) => Ok((records, label)),
        None => Err(LogError::broken(&file.name, "byte 0", "not a PCP archive of version 2 or 3")),
    }
}

fn read_archive(
    meta: &ArchiveFile<'_>,
    volumes: &[ArchiveFile<'_>],
    batch: &mut FrameBatch<'_>,
) -> Result<(), LogError> {
    let (mut records, label) = open_file(meta)?;
    let mut skips = Skips::default();
    let metrics = metadata::read_metrics(&mut records, &meta.name, &mut skips);
    if metrics.is_empty() {
        return Err(LogError::broken(&meta.name, "archive", "it describes no metric"));
    }
    let Some(first) = volumes.first() else {
        return Err(LogError::broken(&meta.name, "archive", "it has no volume"));
    };
    let indoms = || Ok(InstanceDomains::new(open_file(meta)?.0, &meta.name, label.version));
    let (mut first_records, first_label) = open_file(first)?;
    check_label(first, &first_label, meta, &label)?;
    let survey = archive_survey::survey_archive(&metrics, &mut first_records, &mut indoms()?, &label);
    drop(first_records);
    let uses = mapping::plan_metrics(&metrics, survey.page_bytes);
    batch.merge_skips(skips);
    report_unused(&metrics, &uses, meta, batch);
    if let Some(because) = find_refusal(&metrics, &uses) {
        return Err(LogError::NoSamples { file: meta.name.to_owned(), because });
    }
    batch.push_topology(survey.first_ns.unwrap_or(label.start_ns), &survey.topology);
    let mut reader = ArchiveReader {
        version: label.version,
        indoms: indoms()?,
        rows: rows::PcpRows::new(&metrics, &uses, survey),
        processes: processes::PcpProcesses::new(&metrics, &uses),
        sets: Vec::new(),
        skips: Skips::default(),
    };
    for volume in volumes {
        // the first volume was checked; an error in a later one loses only that volume
        let opened = open_file(volume)
            .and_then(|(records, volume_label)| check_label(volume, &volume_label, meta, &label).map(|()| records));
        match opened {
            Ok(records) => reader.read_volume(records, &volume.name, batch),
            Err(error) => batch.add_skip(&volume.name, format!("a volume is left out: {error}")),
        }
        if batch.is_stopped() {
            break;
        }
    }
    reader.rows.close_tick(batch);
    batch.merge_skips(reader.skips);
    Ok(())
}

/// Checks that a volume has the same label as the archive's `.meta`, as all its files must.
fn check_label(
    volume: &ArchiveFile<'_>,
    volume_label: &ArchiveLabel,
    meta: &ArchiveFile<'_>,
    meta_label: &ArchiveLabel,
) -> Result<(), LogError> {
    if volume_label.is_same_archive(meta_label) {
        return Ok(());
    }
    let describe = |l: &ArchiveLabel| format!("version {}, host {}, process {}", l.version, l.host, l.pid);
    let because = format!(
        "not of the archive of {}: here {}, there {}",
        meta.name,
        describe(volume_label),
        if volume_label.start_ns == meta_label.start_ns {
            describe(meta_label)
        } else {
            format!("{}, another start", describe(meta_label))
        }
    );
    Err(LogError::broken(&volume.name, "label", because))
}

/// Reports the metrics that are not read, by reason.
fn report_unused(metrics: &[Metric], uses: &[MetricUse], meta: &ArchiveFile<'_>, batch: &mut FrameBatch<'_>) {
    let mut unused: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (metric, planned_use) in metrics.iter().zip(uses) {
        if let MetricUse::Unused(because) = planned_use {
            unused.entry(because).or_default().push(&metric.name);
        }
    }
    for (because, names) in unused {
        for name in names {
            batch.add_skip(format!("{}, {name}", meta.name), because);
        }
    }
}

/// Returns the reason to refuse an archive of which no metric is read.
fn find_refusal(metrics: &[Metric], uses: &[MetricUse]) -> Option<String> {
    const MAX_NAMED: usize = 3;
    if uses.iter().any(|planned_use| !matches!(planned_use, MetricUse::Unused(_))) {
        return None;
    }
    let names: Vec<&str> = metrics.iter().take(MAX_NAMED).map(|metric| metric.name.as_str()).collect();
    let ellipsis = if metrics.len() > MAX_NAMED { ", …" } else { "" };
    Some(format!(
        "none of its {} metrics describes the machine: {}{ellipsis}; log disk, kernel and mem as well",
        metrics.len(),
        names.join(", ")
    ))
}

/// State of reading all volumes.
struct ArchiveReader<R> {
    version: u8,
    indoms: InstanceDomains<R>,
    rows: rows::PcpRows,
    processes: processes::PcpProcesses,
    sets: Vec<values::ValueSet>,
    skips: Skips,
}

impl<R: Read> ArchiveReader<R> {
    fn read_volume(&mut self, mut records: RecordReader<impl Read>, name: &str, batch: &mut FrameBatch<'_>) {
        loop {
            match records.next() {
                Ok(true) => {}
                Ok(false) => return,
                Err(fault) => {
                    metadata::report_fault(&records, &fault, name, &mut self.skips);
                    return;
                }
            }
            let body = records.body();
            let context = || format!("{name}, byte {}", records.record_offset());
            let Some(time_ns) = values::read_sets(body, self.version, &mut self.sets) else {
                batch.add_skip(context(), "a record whose numbers contradict its length");
                continue;
            };
            if self.sets.is_empty() {
                self.rows.break_series(time_ns, batch);
                self.processes.forget_processes();
                continue;
            }
            self.indoms.advance(time_ns, &mut self.skips);
            self.rows.add_record(time_ns, &self.sets, body, &self.indoms, &context, batch);
            self.processes.add_record(time_ns, &self.sets, body, &self.indoms, &context, batch);
            if batch.is_stopped() {
                return;
            }
        }
    }
}
