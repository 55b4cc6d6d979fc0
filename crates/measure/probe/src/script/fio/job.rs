//! Converts one section of a job file into jobs of the probe.

use std::path::Path;

use super::numbers::{self, WeightedSizes};
use super::{FioSection, OptionValue};
use crate::error::ProbeError;
use crate::pattern::{Durable, NormalSpread, Pace, Pattern, Placement};
use crate::script::{MOST_JOBS, ScriptJob, ScriptNote, TargetAmount, Total, wrong};

/// Engines with one request in flight, whatever `iodepth` says.
const ONE_AT_A_TIME: &[&str] = &["sync", "psync", "vsync", "pvsync", "pvsync2"];
/// Engines with `iodepth` requests in flight.
const MANY: &[&str] = &["libaio", "io_uring", "posixaio", "windowsaio", "solarisaio"];

/// Typed access to a section's options.
struct SectionOptions<'a> {
    file: &'a str,
    section: &'a FioSection,
    notes: Vec<ScriptNote>,
    base: u64,
}

impl<'a> SectionOptions<'a> {
    fn value(&self, key: &str) -> Option<&'a OptionValue> {
        self.section.values.get(key)
    }

    fn line(&self, key: &str) -> usize {
        self.value(key).map_or(self.section.line, |v| v.line)
    }

    fn text(&self, key: &str) -> Option<&'a str> {
        self.value(key).map(|v| v.text.as_deref().unwrap_or("1"))
    }

    fn wrong(&self, key: &str, because: impl std::fmt::Display) -> ProbeError {
        wrong(self.file, self.line(key), format!("{key}: {because}"))
    }

    /// Returns an option's value, parsed by `parse`.
    fn get<T>(&self, key: &str, parse: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, ProbeError> {
        self.text(key).map(|text| parse(text).map_err(|because| self.wrong(key, because))).transpose()
    }

    fn flag(&self, key: &str) -> Result<bool, ProbeError> {
        let yes = |text: &str| match text {
            "0" | "false" => Ok(false),
            "1" | "true" => Ok(true),
            _ => Err(format!("expected 0 or 1, found `{text}`")),
        };
        Ok(self.get(key, yes)?.unwrap_or(false))
    }

    fn note(&mut self, key: &str, text: &str) {
        let (file, line) = (self.file.to_owned(), self.line(key));
        self.notes.push(ScriptNote { file, line, text: format!("{key}: {text}") });
    }
}

/// Builds the jobs of a section: one, or as many as `numjobs` says.
pub(super) fn jobs(
    file: &str,
    section: &FioSection,
    notes: &mut Vec<ScriptNote>,
) -> Result<Vec<ScriptJob>, ProbeError> {
    let mut options = SectionOptions { file, section, notes: Vec::new(), base: 1024 };
    let base = |text: &str| match text {
        "1024" => Ok(1024),
        "1000" => Ok(1000),
        _ => Err(format!("expected 1000 or 1024, found `{text}`")),
    };
    options.base = options.get("kb_base", base)?.unwrap_or(1024);
    let one = job(&mut options)?;
    let many = |text: &str| {
        numbers::count(text).and_then(|n| match n {
            1..=512 => Ok(n),
            _ => Err(format!("expected 1 to {MOST_JOBS} jobs, found `{text}`")),
        })
    };
    let times = options.get("numjobs", many)?.unwrap_or(1);
    let grouped = times > 1 && options.flag("group_reporting")?;
    let step = options.get("offset_increment", |t| numbers::amount(t, options.base))?;
    let mut jobs = Vec::new();
    for number in 0..times {
        let mut next = one.clone();
        next.group = grouped.then(|| one.name.clone());
        next.file = name_file(&options, &one.name, number)?;
        next.pattern.seed = next.pattern.seed.wrapping_add(number);
        next.from = match (one.from, step) {
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
                return Err(options.wrong("offset_increment", "`offset` uses another unit; give both in bytes"));
            }
        };
        jobs.push(next);
    }
    for note in options.notes {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    Ok(jobs)
}

/// Returns the file of a job, named as fio does.
fn name_file(options: &SectionOptions<'_>, job: &str, number: u64) -> Result<String, ProbeError> {
    let name = match options.text("filename") {
        Some(name) => {
            let plain = name.replace("\\:", "\u{0}");
            if plain.contains(':') {
                return Err(options.wrong("filename", "a job has one file; write a section for each file"));
            }
            plain.replace('\u{0}', ":")
        }
        None => format!("{job}.{number}.0"),
    };
    if name.is_empty() || name.contains('\0') {
        return Err(options.wrong("filename", "expected a file or a block device"));
    }
    match options.text("directory") {
        None | Some("") => Ok(name),
        Some(folder) if folder.contains(':') => Err(options.wrong("directory", "expected one folder")),
        Some(folder) => Ok(Path::new(folder).join(name.trim_start_matches('/')).display().to_string()),
    }
}

fn job(options: &mut SectionOptions<'_>) -> Result<ScriptJob, ProbeError> {
    let name = options.text("name").unwrap_or(&options.section.name).to_owned();
    let mode = way(options)?;
    let (sizes, write_sizes) = sizes(options, &mode)?;
    let buffered = match options.value("buffered") {
        Some(_) => options.flag("buffered")?,
        None => !options.flag("direct")?,
    };
    let depth = depth(options, buffered)?;
    let base = options.base;
    let align = |text: &str| match numbers::directions(text) {
        [Some(both), other] if other.is_none() || other == Some(both) => numbers::size(both, base),
        _ => Err("expected one size for both reads and writes".into()),
    };
    let (durable, sync_every) = durable(options, &mode)?;
    let mut pattern = Pattern {
        name: name.clone(),
        read_share: mode.read_share,
        align_bytes: options.get("ba", align)?.unwrap_or(0),
        buffered,
        durable,
        sync_every,
        seed: options.get("randseed", numbers::count)?.unwrap_or(0),
        ramp: options.get("ramp_time", |t| numbers::time(t, 1.0))?.unwrap_or_default(),
        sizes,
        write_sizes,
        ..Pattern::random_reads(4096, depth)
    };
    place(options, &mode, &mut pattern)?;
    pace(options, &mode, depth, &mut pattern)?;
    let amount = |text: &str| numbers::amount(text, base);
    let (size, file_bytes) = (options.get("size", amount)?, options.get("filesize", |t| numbers::size(t, base))?);
    let from = options.get("offset", amount)?.unwrap_or(TargetAmount::Bytes(0));
    let range = match (file_bytes, from) {
        (Some(bytes), TargetAmount::Bytes(from)) => Some(TargetAmount::Bytes(bytes.saturating_sub(from))),
        (Some(_), TargetAmount::Share(_)) => None,
        (None, _) => size,
    };
    let runtime = options.get("runtime", |t| numbers::time(t, 1.0))?.filter(|d| !d.is_zero());
    let time_based = options.flag("time_based")?;
    if time_based && runtime.is_none() {
        return Err(options.wrong("time_based", "it needs a `runtime`"));
    }
    let total = if time_based { Total::None } else { total(options, &pattern, size.filter(|_| file_bytes.is_some()))? };
    Ok(ScriptJob {
        name,
        group: None,
        file: String::new(),
        file_bytes,
        pattern,
        from,
        range,
        seek_records: None,
        total,
        after: options.get("startdelay", |t| numbers::time(t, 1.0))?.unwrap_or_default(),
        lasts: runtime,
        line: options.section.line,
    })
}

/// The option `rw`: order, share of reads, and the number after a colon.
struct ReadWriteMode {
    random: bool,
    read_share: f64,
    modifier: Option<u64>,
}

impl ReadWriteMode {
    fn mixed(&self) -> bool {
        self.read_share > 0.0 && self.read_share < 1.0
    }
}

fn way(options: &SectionOptions<'_>) -> Result<ReadWriteMode, ProbeError> {
    let text = options.text("rw").unwrap_or("read");
    let (word, modifier) = text.split_once(':').map_or((text, None), |(word, number)| (word, Some(number)));
    let percent = |text: &str| match numbers::count(text)? {
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
        _ if word.contains("trim") => return Err(options.wrong("rw", "trims are not supported")),
        _ => {
            let known = "read, write, rw, randread, randwrite or randrw";
            return Err(options.wrong("rw", format!("expected {known}, found `{word}`")));
        }
    };
    let number = |text: &str| match text.strip_prefix('-') {
        Some(_) => Err("sequences that run backwards are not supported".to_owned()),
        None => numbers::size(text, options.base),
    };
    let modifier = modifier.map(|m| number(m).map_err(|because| options.wrong("rw", because))).transpose()?;
    Ok(ReadWriteMode { random, read_share, modifier: modifier.filter(|m| *m > 0) })
}

/// Parses the sizes of requests, and of writes if those differ.
fn sizes(options: &SectionOptions<'_>, mode: &ReadWriteMode) -> Result<(WeightedSizes, WeightedSizes), ProbeError> {
    let base = options.base;
    type SizeParser = fn(&str, u64) -> Result<WeightedSizes, String>;
    let kinds: [(&str, SizeParser); 3] =
        [("bssplit", numbers::parts), ("bsrange", numbers::range), ("bs", numbers::fixed)];
    let default_sizes = || vec![(4096, 1.0)];
    let mut both = [default_sizes(), default_sizes()];
    for (key, parse) in kinds {
        let Some(text) = options.text(key) else { continue };
        for (sizes, part) in both.iter_mut().zip(numbers::directions(text)) {
            if let Some(part) = part {
                *sizes = parse(part, base).map_err(|because| options.wrong(key, because))?;
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

/// Returns the queue depth, from `iodepth` and what the engine makes of it.
fn depth(options: &mut SectionOptions<'_>, buffered: bool) -> Result<u32, ProbeError> {
    let number = |text: &str| match numbers::count(text)? {
        depth @ 1..=65_536 => Ok(depth as u32),
        _ => Err(format!("expected 1 to 65536, found `{text}`")),
    };
    let depth = options.get("iodepth", number)?.unwrap_or(1);
    let engine = options.text("ioengine").unwrap_or("psync");
    if ONE_AT_A_TIME.contains(&engine) {
        if depth > 1 {
            options.note("iodepth", &format!("engine {engine} sends one request at a time, so the depth is 1"));
        }
        return Ok(1);
    }
    if !MANY.contains(&engine) {
        let known = [MANY, ONE_AT_A_TIME].concat().join(", ");
        let because = format!("engine `{engine}` is not supported; expected one of {known}");
        return Err(options.wrong("ioengine", because));
    }
    if engine == "libaio" && buffered && depth > 1 {
        options.note("iodepth", "the kernel serves buffered libaio requests one at a time, so the depth is 1");
        return Ok(1);
    }
    if engine != "io_uring" {
        options.note("ioengine", "the probe uses io_uring, or threads where it is missing, at the same depth");
    }
    Ok(depth)
}

fn durable(options: &SectionOptions<'_>, mode: &ReadWriteMode) -> Result<(Durable, u32), ProbeError> {
    let every = |text: &str| numbers::count(text).and_then(|n| u32::try_from(n).map_err(|e| e.to_string()));
    let (fsync, fdatasync) = (options.get("fsync", every)?.unwrap_or(0), options.get("fdatasync", every)?.unwrap_or(0));
    let sync = match options.text("sync").unwrap_or("none") {
        "0" | "none" => false,
        "dsync" => true,
        "1" | "sync" => {
            let because = "O_SYNC is not supported; use `sync=dsync`, which omits only the file's timestamps";
            return Err(options.wrong("sync", because));
        }
        other => return Err(options.wrong("sync", format!("expected none or dsync, found `{other}`"))),
    };
    if mode.read_share == 1.0 {
        return Ok((Durable::No, 1));
    }
    match (fsync, fdatasync, sync) {
        (0, 0, false) => Ok((Durable::No, 1)),
        (0, 0, true) => Ok((Durable::Dsync, 1)),
        (every, 0, false) => Ok((Durable::Fsync, every)),
        (0, every, false) => Ok((Durable::Fdatasync, every)),
        _ => Err(options.wrong("fsync", "give one of fsync, fdatasync and sync, not several")),
    }
}

/// Sets the placement of requests.
fn place(options: &mut SectionOptions<'_>, mode: &ReadWriteMode, pattern: &mut Pattern) -> Result<(), ProbeError> {
    if !mode.random {
        pattern.placement = Placement::Sequential { streams: 1 };
        pattern.apart = mode.mixed();
        if let Some(hole) = mode.modifier {
            let [(size, _)] = pattern.sizes[..] else {
                return Err(options.wrong("rw", "holes need requests of a single size"));
            };
            if mode.mixed() {
                return Err(options.wrong("rw", "a mix of reads and writes cannot have holes; write two jobs"));
            }
            pattern.placement = Placement::Strided { stride_bytes: hole.saturating_add(u64::from(size)) };
        }
        return Ok(());
    }
    pattern.run_requests = mode.modifier.map_or(1, |m| u32::try_from(m).unwrap_or(u32::MAX));
    let text = options.text("random_distribution").unwrap_or("random");
    let (distribution, number) = text.split_once(':').unwrap_or((text, ""));
    let number = number.trim().parse::<f64>().ok().filter(|n| n.is_finite());
    pattern.placement = match (distribution, number) {
        ("random", _) => Placement::Uniform,
        ("zipf", Some(theta)) if theta > 0.0 && theta <= 100.0 && theta != 1.0 => Placement::Zipf { theta },
        ("pareto", Some(power)) if power > 0.0 && power < 1.0 => Placement::Pareto { power },
        ("normal", Some(deviation)) if (0.0..=100.0).contains(&deviation) => {
            // the mean of 12 uniform numbers plus a uniform one of this width; then a hash
            let width = (deviation / 100.0).min(0.5);
            pattern.scattered = true;
            Placement::Normal { mean: 0.5, deviation: (1.0 / 144.0 + width * width / 12.0).sqrt() }
        }
        _ => {
            let because = format!(
                "expected random, zipf:θ (θ above 0, not 1), pareto:h (h between 0 and 1) or \
                 normal:percent, found `{text}`"
            );
            return Err(options.wrong("random_distribution", because));
        }
    };
    if pattern.placement == Placement::Uniform && !options.flag("norandommap")? {
        options.note("rw", "places are drawn independently, as with norandommap; fio visits each once per pass");
    }
    Ok(())
}

/// Sets the pace of requests.
fn pace(
    options: &mut SectionOptions<'_>,
    mode: &ReadWriteMode,
    depth: u32,
    pattern: &mut Pattern,
) -> Result<(), ProbeError> {
    pattern.pace = Pace::Closed { depth };
    if let Some(rate_per_s) = rate(options, mode, pattern)? {
        let poisson = match options.text("rate_process").unwrap_or("linear") {
            "linear" => false,
            "poisson" => true,
            other => return Err(options.wrong("rate_process", format!("expected linear or poisson, found `{other}`"))),
        };
        pattern.pace = Pace::Open { rate_per_s, poisson };
        pattern.most_outstanding = Some(depth);
        let key = if options.value("rate").is_some() { "rate" } else { "rate_iops" };
        options.note(key, "latency counts from the time at which a request is due");
    }
    let microseconds = |text: &str| numbers::time(text, 1e-6);
    let thinks = options.get("thinktime", microseconds)?.unwrap_or_default();
    if thinks.is_zero() {
        return Ok(());
    }
    if matches!(pattern.pace, Pace::Open { .. }) {
        return Err(options.wrong("thinktime", "give a rate or a think time, not both"));
    }
    let blocks = options.get("thinktime_blocks", numbers::count)?.unwrap_or(1).max(1);
    if depth > 1 && blocks > 1 {
        return Err(options.wrong("thinktime_blocks", "more than one block needs `iodepth=1`"));
    }
    if depth > 1 {
        options.note("thinktime", "as in fio, the depth is 1 whatever `iodepth` says");
    }
    let spins = options.get("thinktime_spin", microseconds)?.unwrap_or_default().min(thinks);
    pattern.pace = Pace::Cycles {
        users: 1,
        think_s: NormalSpread::fixed((thinks - spins).as_secs_f64()),
        requests: NormalSpread::fixed(blocks as f64),
        compute_s: NormalSpread::fixed(spins.as_secs_f64()),
    };
    Ok(())
}

/// Returns the requests per second from `rate_iops`, or from `rate` in bytes.
fn rate(options: &SectionOptions<'_>, mode: &ReadWriteMode, pattern: &Pattern) -> Result<Option<f64>, ProbeError> {
    let (key, text) = match (options.text("rate_iops"), options.text("rate")) {
        (Some(_), Some(_)) => {
            return Err(options.wrong("rate", "give `rate` or `rate_iops`, not both"));
        }
        (Some(text), None) => ("rate_iops", text),
        (None, Some(text)) => ("rate", text),
        (None, None) => return Ok(None),
    };
    if mode.mixed() {
        return Err(options.wrong(key, "fio limits the reads and the writes of a mix separately; write two jobs"));
    }
    let [reads, writes] = numbers::directions(text);
    let Some(text) = (if mode.read_share == 1.0 { reads } else { writes }) else { return Ok(None) };
    let number = numbers::size(text, options.base).map_err(|because| options.wrong(key, because))?;
    if key == "rate_iops" {
        return Ok((number > 0).then_some(number as f64));
    }
    let weights: f64 = pattern.sizes.iter().map(|s| s.1).sum();
    let mean = pattern.sizes.iter().map(|s| f64::from(s.0) * s.1).sum::<f64>() / weights;
    Ok((number > 0).then(|| number as f64 / mean))
}

/// Returns the limit at which a job without a time limit ends. `size` is the total if `filesize`
/// gives the length of the file.
fn total(options: &SectionOptions<'_>, pattern: &Pattern, size: Option<TargetAmount>) -> Result<Total, ProbeError> {
    let loops = options.get("loops", numbers::count)?.unwrap_or(1).max(1);
    if let Some(requests) = options.get("number_ios", numbers::count)?.filter(|n| *n > 0) {
        let ([(size, _)], true) = (&pattern.sizes[..], pattern.write_sizes.is_empty()) else {
            return Err(options.wrong("number_ios", "it needs requests of a single size; use `io_size`"));
        };
        return Ok(Total::Bytes(requests.saturating_mul(u64::from(*size)).saturating_mul(loops)));
    }
    match (options.get("io_size", |t| numbers::amount(t, options.base))?, size) {
        (Some(TargetAmount::Bytes(bytes)), _) | (None, Some(TargetAmount::Bytes(bytes))) if bytes > 0 => {
            Ok(Total::Bytes(bytes.saturating_mul(loops)))
        }
        (Some(TargetAmount::Share(_)), _) => Err(options.wrong("io_size", "expected a number of bytes")),
        _ => Ok(Total::Passes(loops)),
    }
}
