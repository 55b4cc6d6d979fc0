//! Converts one section of a job file into jobs of the probe.

use std::path::Path;

use super::numbers::{self, WeightedSizes};
use super::{FioSection, OptionValue};
use crate::error::ProbeError;
use crate::pattern::{Durability, NormalSpread, Pace, Pattern, Placement};
use crate::script::{MAX_JOBS, ScriptJob, ScriptNote, TargetAmount, TransferLimit, script_error};

/// Engines with one request in flight for any `iodepth`.
const SYNC_ENGINES: &[&str] = &["sync", "psync", "vsync", "pvsync", "pvsync2"];
/// Engines with `iodepth` requests in flight.
const ASYNC_ENGINES: &[&str] = &["libaio", "io_uring", "posixaio", "windowsaio", "solarisaio"];

/// Typed access to a section's options.
struct SectionOptions<'a> {
    file: &'a str,
    section: &'a FioSection,
    notes: Vec<ScriptNote>,
    /// `kb_base`: 1024 or 1000.
    base: u64,
}

impl<'a> SectionOptions<'a> {
    fn option_value(&self, key: &str) -> Option<&'a OptionValue> {
        self.section.values.get(key)
    }

    fn option_line(&self, key: &str) -> usize {
        self.option_value(key).map_or(self.section.line, |v| v.line)
    }

    fn option_text(&self, key: &str) -> Option<&'a str> {
        self.option_value(key).map(|v| v.text.as_deref().unwrap_or("1"))
    }

    fn option_error(&self, key: &str, because: impl std::fmt::Display) -> ProbeError {
        script_error(self.file, self.option_line(key), format!("{key}: {because}"))
    }

    /// Returns an option's value, parsed by `parse`.
    fn get<T>(&self, key: &str, parse: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, ProbeError> {
        self.option_text(key).map(|text| parse(text).map_err(|because| self.option_error(key, because))).transpose()
    }

    fn parse_flag(&self, key: &str) -> Result<bool, ProbeError> {
        let parse = |text: &str| match text {
            "0" | "false" => Ok(false),
            "1" | "true" => Ok(true),
            _ => Err(format!("expected 0 or 1, found `{text}`")),
        };
        Ok(self.get(key, parse)?.unwrap_or(false))
    }

    fn add_note(&mut self, key: &str, text: &str) {
        let (file, line) = (self.file.to_owned(), self.option_line(key));
        self.notes.push(ScriptNote { file, line, text: format!("{key}: {text}") });
    }
}

/// Builds the jobs of a section; `numjobs` gives their number.
pub(super) fn section_jobs(
    file: &str,
    section: &FioSection,
    notes: &mut Vec<ScriptNote>,
) -> Result<Vec<ScriptJob>, ProbeError> {
    let mut options = SectionOptions { file, section, notes: Vec::new(), base: 1024 };
    let parse_base = |text: &str| match text {
        "1024" => Ok(1024),
        "1000" => Ok(1000),
        _ => Err(format!("expected 1000 or 1024, found `{text}`")),
    };
    options.base = options.get("kb_base", parse_base)?.unwrap_or(1024);
    let template = build_job(&mut options)?;
    let parse_job_count = |text: &str| {
        numbers::parse_count(text).and_then(|n| match n {
            1..=512 => Ok(n),
            _ => Err(format!("expected 1 to {MAX_JOBS} jobs, found `{text}`")),
        })
    };
    let job_count = options.get("numjobs", parse_job_count)?.unwrap_or(1);
    let is_grouped = job_count > 1 && options.parse_flag("group_reporting")?;
    let step = options.get("offset_increment", |t| numbers::parse_amount(t, options.base))?;
    let mut jobs = Vec::new();
    for number in 0..job_count {
        let mut job = template.clone();
        job.group = is_grouped.then(|| template.name.clone());
        job.file = job_file_name(&options, &template.name, number)?;
        job.pattern.seed = job.pattern.seed.wrapping_add(number);
        job.range_start = match (template.range_start, step) {
            (from, None) => from,
            (TargetAmount::Bytes(from), Some(TargetAmount::Bytes(step))) => {
                TargetAmount::Bytes(step.saturating_mul(number).saturating_add(from))
            }
            (TargetAmount::Share(from), Some(TargetAmount::Share(step))) => {
                TargetAmount::Share((from + step * number as f64).min(1.0))
            }
            (TargetAmount::Bytes(0), Some(TargetAmount::Share(step))) => {
                TargetAmount::Share((step * number as f64).min(1.0))
            }
            _ => {
                return Err(options.option_error("offset_increment", "`offset` uses another unit; give both in bytes"));
            }
        };
        jobs.push(job);
    }
    for note in options.notes {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    Ok(jobs)
}

/// Returns the file of a job, named as fio does.
fn job_file_name(options: &SectionOptions<'_>, job: &str, number: u64) -> Result<String, ProbeError> {
    let name = match options.option_text("filename") {
        Some(name) => {
            // a colon separates files; `\:` is a colon in a name
            let masked = name.replace("\\:", "\u{0}");
            if masked.contains(':') {
                return Err(options.option_error("filename", "a job has one file; write a section for each file"));
            }
            masked.replace('\u{0}', ":")
        }
        None => format!("{job}.{number}.0"),
    };
    if name.is_empty() || name.contains('\0') {
        return Err(options.option_error("filename", "expected a file or a block device"));
    }
    match options.option_text("directory") {
        None | Some("") => Ok(name),
        Some(folder) if folder.contains(':') => Err(options.option_error("directory", "expected one folder")),
        Some(folder) => Ok(Path::new(folder).join(name.trim_start_matches('/')).display().to_string()),
    }
}

/// Returns the length of a job's range: up to the end of its file if `filesize` is given, otherwise its
/// `size`; `None` for up to the end of the target.
fn range_length(file_bytes: Option<u64>, from: TargetAmount, size: Option<TargetAmount>) -> Option<TargetAmount> {
    match (file_bytes, from) {
        (Some(bytes), TargetAmount::Bytes(from)) => Some(TargetAmount::Bytes(bytes.saturating_sub(from))),
        (Some(_), TargetAmount::Share(_)) => None,
        (None, _) => size,
    }
}

/// Builds the job that `numjobs` repeats; its file is still missing.
fn build_job(options: &mut SectionOptions<'_>) -> Result<ScriptJob, ProbeError> {
    let name = options.option_text("name").unwrap_or(&options.section.name).to_owned();
    let mode = parse_read_write_mode(options)?;
    let (sizes, write_sizes) = parse_sizes(options, &mode)?;
    let buffered = match options.option_value("buffered") {
        Some(_) => options.parse_flag("buffered")?,
        None => !options.parse_flag("direct")?,
    };
    let depth = parse_depth(options, buffered)?;
    let base = options.base;
    let align = |text: &str| match numbers::split_directions(text) {
        [Some(both), other] if other.is_none() || other == Some(both) => numbers::parse_size(both, base),
        _ => Err("expected one size for both reads and writes".into()),
    };
    let (durable, sync_every) = parse_durability(options, &mode)?;
    let mut pattern = Pattern {
        name: name.clone(),
        read_share: mode.read_share,
        align_bytes: options.get("ba", align)?.unwrap_or(0),
        buffered,
        durable,
        sync_every,
        seed: options.get("randseed", numbers::parse_count)?.unwrap_or(0),
        ramp: options.get("ramp_time", |t| numbers::parse_time(t, 1.0))?.unwrap_or_default(),
        sizes,
        write_sizes,
        ..Pattern::random_reads(4096, depth)
    };
    set_placement(options, &mode, &mut pattern)?;
    set_pace(options, &mode, depth, &mut pattern)?;
    let amount = |text: &str| numbers::parse_amount(text, base);
    let (size, file_bytes) = (options.get("size", amount)?, options.get("filesize", |t| numbers::parse_size(t, base))?);
    let from = options.get("offset", amount)?.unwrap_or(TargetAmount::Bytes(0));
    let range = range_length(file_bytes, from, size);
    let runtime = options.get("runtime", |t| numbers::parse_time(t, 1.0))?.filter(|d| !d.is_zero());
    let time_based = options.parse_flag("time_based")?;
    if time_based && runtime.is_none() {
        return Err(options.option_error("time_based", "it needs a `runtime`"));
    }
    let limit = if time_based {
        TransferLimit::None
    } else {
        parse_limit(options, &pattern, size.filter(|_| file_bytes.is_some()))?
    };
    Ok(ScriptJob {
        name,
        group: None,
        file: String::new(),
        file_bytes,
        pattern,
        range_start: from,
        range_length: range,
        seek_records: None,
        limit,
        start_delay: options.get("startdelay", |t| numbers::parse_time(t, 1.0))?.unwrap_or_default(),
        duration: runtime,
        line: options.section.line,
    })
}

/// The option `rw`: order, share of reads, and the number after a colon.
struct ReadWriteMode {
    random: bool,
    read_share: f64,
    /// Number after the colon: for random requests, how many follow each other; else the size of holes.
    modifier: Option<u64>,
}

impl ReadWriteMode {
    fn has_reads_and_writes(&self) -> bool {
        self.read_share > 0.0 && self.read_share < 1.0
    }
}

fn parse_read_write_mode(options: &SectionOptions<'_>) -> Result<ReadWriteMode, ProbeError> {
    let text = options.option_text("rw").unwrap_or("read");
    let (word, modifier) = text.split_once(':').map_or((text, None), |(word, number)| (word, Some(number)));
    let percent = |text: &str| match numbers::parse_count(text)? {
        percent @ 0..=100 => Ok(percent as f64 / 100.0),
        _ => Err(format!("expected a percentage from 0 to 100, found `{text}`")),
    };
    let reads = options.get("rwmixread", percent)?;
    let mixed = reads.or(options.get("rwmixwrite", percent)?.map(|writes| 1.0 - writes)).unwrap_or(0.5);
    let (random, read_share) = match word {
        "read" => (false, 1.0),
        "write" => (false, 0.0),
        "rw" | "readwrite" => (false, mixed),
        "randread" => (true, 1.0),
        "randwrite" => (true, 0.0),
        "randrw" => (true, mixed),
        _ if word.contains("trim") => return Err(options.option_error("rw", "trims are not supported")),
        _ => {
            let known = "read, write, rw, randread, randwrite or randrw";
            return Err(options.option_error("rw", format!("expected {known}, found `{word}`")));
        }
    };
    let number = |text: &str| match text.strip_prefix('-') {
        Some(_) => Err("sequences that run backwards are not supported".to_owned()),
        None => numbers::parse_size(text, options.base),
    };
    let modifier = modifier.map(|m| number(m).map_err(|because| options.option_error("rw", because))).transpose()?;
    Ok(ReadWriteMode { random, read_share, modifier: modifier.filter(|m| *m > 0) })
}

/// Parses the sizes of requests, and of writes if those differ.
fn parse_sizes(
    options: &SectionOptions<'_>,
    mode: &ReadWriteMode,
) -> Result<(WeightedSizes, WeightedSizes), ProbeError> {
    let base = options.base;
    type SizeParser = fn(&str, u64) -> Result<WeightedSizes, String>;
    let kinds: [(&str, SizeParser); 3] = [
        ("bssplit", numbers::parse_size_split),
        ("bsrange", numbers::parse_size_range),
        ("bs", numbers::parse_fixed_size),
    ];
    let default_sizes = || vec![(4096, 1.0)];
    let mut both = [default_sizes(), default_sizes()];
    for (key, parse) in kinds {
        let Some(text) = options.option_text(key) else { continue };
        for (sizes, part) in both.iter_mut().zip(numbers::split_directions(text)) {
            if let Some(part) = part {
                *sizes = parse(part, base).map_err(|because| options.option_error(key, because))?;
            }
        }
        break;
    }
    let [reads, writes] = both;
    Ok(match mode.read_share {
        1.0 => (reads, Vec::new()),
        0.0 => (writes, Vec::new()),
        _ if reads == writes => (reads, Vec::new()),
        _ => (reads, writes),
    })
}

/// Returns the queue depth that `iodepth` has with the job's engine.
fn parse_depth(options: &mut SectionOptions<'_>, buffered: bool) -> Result<u32, ProbeError> {
    let number = |text: &str| match numbers::parse_count(text)? {
        depth @ 1..=65_536 => Ok(depth as u32),
        _ => Err(format!("expected 1 to 65536, found `{text}`")),
    };
    let depth = options.get("iodepth", number)?.unwrap_or(1);
    let engine = options.option_text("ioengine").unwrap_or("psync");
    if SYNC_ENGINES.contains(&engine) {
        if depth > 1 {
            options.add_note("iodepth", &format!("engine {engine} sends one request at a time, so the depth is 1"));
        }
        return Ok(1);
    }
    if !ASYNC_ENGINES.contains(&engine) {
        let known = [ASYNC_ENGINES, SYNC_ENGINES].concat().join(", ");
        let because = format!("engine `{engine}` is not supported; expected one of {known}");
        return Err(options.option_error("ioengine", because));
    }
    if engine == "libaio" && buffered && depth > 1 {
        options.add_note("iodepth", "the kernel serves buffered libaio requests one at a time, so the depth is 1");
        return Ok(1);
    }
    if engine != "io_uring" {
        options.add_note("ioengine", "the probe uses io_uring, or threads where it is missing, at the same depth");
    }
    Ok(depth)
}

/// Returns how writes are made durable, and after how many writes a sync follows.
fn parse_durability(options: &SectionOptions<'_>, mode: &ReadWriteMode) -> Result<(Durability, u32), ProbeError> {
    let every = |text: &str| numbers::parse_count(text).and_then(|n| u32::try_from(n).map_err(|e| e.to_string()));
    let (fsync, fdatasync) = (options.get("fsync", every)?.unwrap_or(0), options.get("fdatasync", every)?.unwrap_or(0));
    let sync = match options.option_text("sync").unwrap_or("none") {
        "0" | "none" => false,
        "dsync" => true,
        "1" | "sync" => {
            let because = "O_SYNC is not supported; use `sync=dsync`, which omits only the file's timestamps";
            return Err(options.option_error("sync", because));
        }
        other => return Err(options.option_error("sync", format!("expected none or dsync, found `{other}`"))),
    };
    if mode.read_share == 1.0 {
        return Ok((Durability::No, 1));
    }
    match (fsync, fdatasync, sync) {
        (0, 0, false) => Ok((Durability::No, 1)),
        (0, 0, true) => Ok((Durability::Dsync, 1)),
        (every, 0, false) => Ok((Durability::Fsync, every)),
        (0, every, false) => Ok((Durability::Fdatasync, every)),
        _ => Err(options.option_error("fsync", "give one of fsync, fdatasync and sync, not several")),
    }
}

/// Sets the placement of requests.
fn set_placement(
    options: &mut SectionOptions<'_>,
    mode: &ReadWriteMode,
    pattern: &mut Pattern,
) -> Result<(), ProbeError> {
    if !mode.random {
        pattern.placement = Placement::Sequential { streams: 1 };
        pattern.separate_positions = mode.has_reads_and_writes();
        if let Some(hole) = mode.modifier {
            let [(size, _)] = pattern.sizes[..] else {
                return Err(options.option_error("rw", "holes need requests of a single size"));
            };
            if mode.has_reads_and_writes() {
                return Err(options.option_error("rw", "a mix of reads and writes cannot have holes; write two jobs"));
            }
            pattern.placement = Placement::Strided { stride_bytes: hole.saturating_add(u64::from(size)) };
        }
        return Ok(());
    }
    pattern.run_requests = mode.modifier.map_or(1, |m| u32::try_from(m).unwrap_or(u32::MAX));
    let text = options.option_text("random_distribution").unwrap_or("random");
    let (distribution, number) = text.split_once(':').unwrap_or((text, ""));
    let number = number.trim().parse::<f64>().ok().filter(|n| n.is_finite());
    pattern.placement = match (distribution, number) {
        ("random", _) => Placement::Uniform,
        ("zipf", Some(theta)) if theta > 0.0 && theta <= 100.0 && theta != 1.0 => Placement::Zipf { theta },
        ("pareto", Some(power)) if power > 0.0 && power < 1.0 => Placement::Pareto { power },
        ("normal", Some(deviation)) if (0.0..=100.0).contains(&deviation) => {
            // fio takes the mean of 12 uniform numbers, adds a uniform one of this width, and scatters the
            // result by a hash
            let width = (deviation / 100.0).min(0.5);
            pattern.scattered = true;
            Placement::Normal { mean: 0.5, deviation: (1.0 / 144.0 + width * width / 12.0).sqrt() }
        }
        _ => {
            let because = format!(
                "expected random, zipf:θ (θ above 0, not 1), pareto:h (h between 0 and 1) or \
                 normal:percent, found `{text}`"
            );
            return Err(options.option_error("random_distribution", because));
        }
    };
    if pattern.placement == Placement::Uniform && !options.parse_flag("norandommap")? {
        options.add_note("rw", "places are drawn independently, as with norandommap; fio visits each once per pass");
    }
    Ok(())
}

/// Sets the pace of requests.
fn set_pace(
    options: &mut SectionOptions<'_>,
    mode: &ReadWriteMode,
    depth: u32,
    pattern: &mut Pattern,
) -> Result<(), ProbeError> {
    pattern.pace = Pace::Closed { depth };
    if let Some(rate_per_s) = parse_rate(options, mode, pattern)? {
        let poisson = match options.option_text("rate_process").unwrap_or("linear") {
            "linear" => false,
            "poisson" => true,
            other => {
                return Err(
                    options.option_error("rate_process", format!("expected linear or poisson, found `{other}`"))
                );
            }
        };
        pattern.pace = Pace::Open { rate_per_s, poisson };
        pattern.max_in_flight = Some(depth);
        let key = if options.option_value("rate").is_some() { "rate" } else { "rate_iops" };
        options.add_note(key, "latency counts from the time at which a request is due");
    }
    let microseconds = |text: &str| numbers::parse_time(text, 1e-6);
    let think_time = options.get("thinktime", microseconds)?.unwrap_or_default();
    if think_time.is_zero() {
        return Ok(());
    }
    if matches!(pattern.pace, Pace::Open { .. }) {
        return Err(options.option_error("thinktime", "give a rate or a think time, not both"));
    }
    let blocks = options.get("thinktime_blocks", numbers::parse_count)?.unwrap_or(1).max(1);
    if depth > 1 && blocks > 1 {
        return Err(options.option_error("thinktime_blocks", "more than one block needs `iodepth=1`"));
    }
    if depth > 1 {
        options.add_note("thinktime", "as in fio, the depth is 1 whatever `iodepth` says");
    }
    let spin_time = options.get("thinktime_spin", microseconds)?.unwrap_or_default().min(think_time);
    pattern.pace = Pace::Cycles {
        users: 1,
        think_s: NormalSpread::fixed((think_time - spin_time).as_secs_f64()),
        requests: NormalSpread::fixed(blocks as f64),
        compute_s: NormalSpread::fixed(spin_time.as_secs_f64()),
    };
    Ok(())
}

/// Returns the requests per second from `rate_iops`, or from `rate` in bytes.
fn parse_rate(
    options: &SectionOptions<'_>,
    mode: &ReadWriteMode,
    pattern: &Pattern,
) -> Result<Option<f64>, ProbeError> {
    let (key, text) = match (options.option_text("rate_iops"), options.option_text("rate")) {
        (Some(_), Some(_)) => {
            return Err(options.option_error("rate", "give `rate` or `rate_iops`, not both"));
        }
        (Some(text), None) => ("rate_iops", text),
        (None, Some(text)) => ("rate", text),
        (None, None) => return Ok(None),
    };
    if mode.has_reads_and_writes() {
        return Err(
            options.option_error(key, "fio limits the reads and the writes of a mix separately; write two jobs")
        );
    }
    let [reads, writes] = numbers::split_directions(text);
    let Some(text) = (if mode.read_share == 1.0 { reads } else { writes }) else { return Ok(None) };
    let number = numbers::parse_size(text, options.base).map_err(|because| options.option_error(key, because))?;
    if key == "rate_iops" {
        return Ok((number > 0).then_some(number as f64));
    }
    let total_weight: f64 = pattern.sizes.iter().map(|s| s.1).sum();
    let mean_bytes = pattern.sizes.iter().map(|s| f64::from(s.0) * s.1).sum::<f64>() / total_weight;
    Ok((number > 0).then(|| number as f64 / mean_bytes))
}

/// Returns the amount of data after which a job ends. `size` is that amount if `filesize` gives the
/// length of the file.
fn parse_limit(
    options: &SectionOptions<'_>,
    pattern: &Pattern,
    size: Option<TargetAmount>,
) -> Result<TransferLimit, ProbeError> {
    let loops = options.get("loops", numbers::parse_count)?.unwrap_or(1).max(1);
    if let Some(requests) = options.get("number_ios", numbers::parse_count)?.filter(|n| *n > 0) {
        let ([(size, _)], true) = (&pattern.sizes[..], pattern.write_sizes.is_empty()) else {
            return Err(options.option_error("number_ios", "it needs requests of a single size; use `io_size`"));
        };
        return Ok(TransferLimit::Bytes(requests.saturating_mul(u64::from(*size)).saturating_mul(loops)));
    }
    match (options.get("io_size", |t| numbers::parse_amount(t, options.base))?, size) {
        (Some(TargetAmount::Bytes(bytes)), _) | (None, Some(TargetAmount::Bytes(bytes))) if bytes > 0 => {
            Ok(TransferLimit::Bytes(bytes.saturating_mul(loops)))
        }
        (Some(TargetAmount::Share(_)), _) => Err(options.option_error("io_size", "expected a number of bytes")),
        _ => Ok(TransferLimit::Passes(loops)),
    }
}
