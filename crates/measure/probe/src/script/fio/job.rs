//! One section of a job file as jobs of ours.

use std::path::Path;

use super::numbers::{self, WeightedSizes};
use super::{FioSection, OptionValue};
use crate::error::ProbeError;
use crate::pattern::{Durable, NormalSpread, Pace, Pattern, Placement};
use crate::script::{MOST_JOBS, ScriptJob, ScriptNote, TargetAmount, Total, wrong};

/// Engines that have one request at a time, whatever `iodepth` says.
const ONE_AT_A_TIME: &[&str] = &["sync", "psync", "vsync", "pvsync", "pvsync2"];
/// Engines that have `iodepth` requests at a time.
const MANY: &[&str] = &["libaio", "io_uring", "posixaio", "windowsaio", "solarisaio"];

/// A section's options, asked one by one.
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

    /// An option's value as `parse` understands it.
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

/// The jobs of a section: one, or as many as `numjobs` says.
pub(super) fn jobs(
    file: &str,
    section: &FioSection,
    notes: &mut Vec<ScriptNote>,
) -> Result<Vec<ScriptJob>, ProbeError> {
    let mut asked = SectionOptions { file, section, notes: Vec::new(), base: 1024 };
    let base = |text: &str| match text {
        "1024" => Ok(1024),
        "1000" => Ok(1000),
        _ => Err(format!("expected 1000 or 1024, found `{text}`")),
    };
    asked.base = asked.get("kb_base", base)?.unwrap_or(1024);
    let one = job(&mut asked)?;
    let many = |text: &str| {
        numbers::count(text).and_then(|n| match n {
            1..=512 => Ok(n),
            _ => Err(format!("expected 1 to {MOST_JOBS} jobs, found `{text}`")),
        })
    };
    let times = asked.get("numjobs", many)?.unwrap_or(1);
    let grouped = times > 1 && asked.flag("group_reporting")?;
    let step = asked.get("offset_increment", |t| numbers::amount(t, asked.base))?;
    let mut jobs = Vec::new();
    for number in 0..times {
        let mut next = one.clone();
        next.group = grouped.then(|| one.name.clone());
        next.file = name_file(&asked, &one.name, number)?;
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
                return Err(asked.wrong("offset_increment", "`offset` uses another unit; give both in bytes"));
            }
        };
        jobs.push(next);
    }
    for note in asked.notes {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    Ok(jobs)
}

/// The file that a job works on, as fio names it.
fn name_file(asked: &SectionOptions<'_>, job: &str, number: u64) -> Result<String, ProbeError> {
    let name = match asked.text("filename") {
        Some(name) => {
            let plain = name.replace("\\:", "\u{0}");
            if plain.contains(':') {
                return Err(asked.wrong("filename", "a job has one file; write a section for each file"));
            }
            plain.replace('\u{0}', ":")
        }
        None => format!("{job}.{number}.0"),
    };
    if name.is_empty() || name.contains('\0') {
        return Err(asked.wrong("filename", "expected a file or a block device"));
    }
    match asked.text("directory") {
        None | Some("") => Ok(name),
        Some(folder) if folder.contains(':') => Err(asked.wrong("directory", "expected one folder")),
        Some(folder) => Ok(Path::new(folder).join(name.trim_start_matches('/')).display().to_string()),
    }
}

fn job(asked: &mut SectionOptions<'_>) -> Result<ScriptJob, ProbeError> {
    let name = asked.text("name").unwrap_or(&asked.section.name).to_owned();
    let way = way(asked)?;
    let (sizes, write_sizes) = sizes(asked, &way)?;
    let buffered = match asked.value("buffered") {
        Some(_) => asked.flag("buffered")?,
        None => !asked.flag("direct")?,
    };
    let depth = depth(asked, buffered)?;
    let base = asked.base;
    let align = |text: &str| match numbers::directions(text) {
        [Some(both), other] if other.is_none() || other == Some(both) => numbers::size(both, base),
        _ => Err("expected one size for both reads and writes".into()),
    };
    let (durable, sync_every) = durable(asked, &way)?;
    let mut pattern = Pattern {
        name: name.clone(),
        read_share: way.read_share,
        align_bytes: asked.get("ba", align)?.unwrap_or(0),
        buffered,
        durable,
        sync_every,
        seed: asked.get("randseed", numbers::count)?.unwrap_or(0),
        ramp: asked.get("ramp_time", |t| numbers::time(t, 1.0))?.unwrap_or_default(),
        sizes,
        write_sizes,
        ..Pattern::random_reads(4096, depth)
    };
    place(asked, &way, &mut pattern)?;
    pace(asked, &way, depth, &mut pattern)?;
    let whole = |text: &str| numbers::amount(text, base);
    let (size, file_bytes) = (asked.get("size", whole)?, asked.get("filesize", |t| numbers::size(t, base))?);
    let from = asked.get("offset", whole)?.unwrap_or(TargetAmount::Bytes(0));
    let range = match (file_bytes, from) {
        (Some(bytes), TargetAmount::Bytes(from)) => Some(TargetAmount::Bytes(bytes.saturating_sub(from))),
        (Some(_), TargetAmount::Share(_)) => None,
        (None, _) => size,
    };
    let runtime = asked.get("runtime", |t| numbers::time(t, 1.0))?.filter(|d| !d.is_zero());
    let time_based = asked.flag("time_based")?;
    if time_based && runtime.is_none() {
        return Err(asked.wrong("time_based", "it needs a `runtime`"));
    }
    let total = if time_based { Total::None } else { total(asked, &pattern, size.filter(|_| file_bytes.is_some()))? };
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
        after: asked.get("startdelay", |t| numbers::time(t, 1.0))?.unwrap_or_default(),
        lasts: runtime,
        line: asked.section.line,
    })
}

/// `rw`: direction, order, share of reads, and the number behind a colon.
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

fn way(asked: &SectionOptions<'_>) -> Result<ReadWriteMode, ProbeError> {
    let text = asked.text("rw").unwrap_or("read");
    let (word, modifier) = text.split_once(':').map_or((text, None), |(word, number)| (word, Some(number)));
    let percent = |text: &str| match numbers::count(text)? {
        percent @ 0..=100 => Ok(percent as f64 / 100.0),
        _ => Err(format!("expected a percentage from 0 to 100, found `{text}`")),
    };
    let reads = asked.get("rwmixread", percent)?;
    let mixed = reads.or(asked.get("rwmixwrite", percent)?.map(|writes| 1.0 - writes)).unwrap_or(0.5);
    let (random, read_share) = match word {
        "read" => (false, 1.0),
        "write" => (false, 0.0),
        "rw" | "readwrite" => (false, mixed),
        "randread" => (true, 1.0),
        "randwrite" => (true, 0.0),
        "randrw" => (true, mixed),
        _ if word.contains("trim") => return Err(asked.wrong("rw", "trims are not supported")),
        _ => {
            let known = "read, write, rw, randread, randwrite or randrw";
            return Err(asked.wrong("rw", format!("expected {known}, found `{word}`")));
        }
    };
    let number = |text: &str| match text.strip_prefix('-') {
        Some(_) => Err("sequences that run backwards are not supported".to_owned()),
        None => numbers::size(text, asked.base),
    };
    let modifier = modifier.map(|m| number(m).map_err(|because| asked.wrong("rw", because))).transpose()?;
    Ok(ReadWriteMode { random, read_share, modifier: modifier.filter(|m| *m > 0) })
}

/// Sizes of requests, and of writes where those are others.
fn sizes(asked: &SectionOptions<'_>, way: &ReadWriteMode) -> Result<(WeightedSizes, WeightedSizes), ProbeError> {
    let base = asked.base;
    type SizeParser = fn(&str, u64) -> Result<WeightedSizes, String>;
    let kinds: [(&str, SizeParser); 3] =
        [("bssplit", numbers::parts), ("bsrange", numbers::range), ("bs", numbers::fixed)];
    let usual = || vec![(4096, 1.0)];
    let mut both = [usual(), usual()];
    for (key, parse) in kinds {
        let Some(text) = asked.text(key) else { continue };
        for (sizes, part) in both.iter_mut().zip(numbers::directions(text)) {
            if let Some(part) = part {
                *sizes = parse(part, base).map_err(|because| asked.wrong(key, because))?;
            }
        }
        break;
    }
    let [reads, writes] = both;
    Ok(match way.read_share {
        1.0 => (reads, Vec::new()),
        0.0 => (writes, Vec::new()),
        _ if reads == writes => (reads, Vec::new()),
        _ => (reads, writes),
    })
}

/// Requests outstanding, by `iodepth` and what the engine makes of it.
fn depth(asked: &mut SectionOptions<'_>, buffered: bool) -> Result<u32, ProbeError> {
    let number = |text: &str| match numbers::count(text)? {
        depth @ 1..=65_536 => Ok(depth as u32),
        _ => Err(format!("expected 1 to 65536, found `{text}`")),
    };
    let depth = asked.get("iodepth", number)?.unwrap_or(1);
    let engine = asked.text("ioengine").unwrap_or("psync");
    if ONE_AT_A_TIME.contains(&engine) {
        if depth > 1 {
            asked.note("iodepth", &format!("engine {engine} sends one request at a time, so the depth is 1"));
        }
        return Ok(1);
    }
    if !MANY.contains(&engine) {
        let known = [MANY, ONE_AT_A_TIME].concat().join(", ");
        let because = format!("engine `{engine}` is not supported; expected one of {known}");
        return Err(asked.wrong("ioengine", because));
    }
    if engine == "libaio" && buffered && depth > 1 {
        asked.note("iodepth", "the kernel serves buffered libaio requests one at a time, so the depth is 1");
        return Ok(1);
    }
    if engine != "io_uring" {
        asked.note("ioengine", "the probe uses io_uring, or threads where it is missing, at the same depth");
    }
    Ok(depth)
}

fn durable(asked: &SectionOptions<'_>, way: &ReadWriteMode) -> Result<(Durable, u32), ProbeError> {
    let every = |text: &str| numbers::count(text).and_then(|n| u32::try_from(n).map_err(|e| e.to_string()));
    let (fsync, fdatasync) = (asked.get("fsync", every)?.unwrap_or(0), asked.get("fdatasync", every)?.unwrap_or(0));
    let sync = match asked.text("sync").unwrap_or("none") {
        "0" | "none" => false,
        "dsync" => true,
        "1" | "sync" => {
            let because = "O_SYNC is not supported; use `sync=dsync`, which omits only the file's timestamps";
            return Err(asked.wrong("sync", because));
        }
        other => return Err(asked.wrong("sync", format!("expected none or dsync, found `{other}`"))),
    };
    if way.read_share == 1.0 {
        return Ok((Durable::No, 1));
    }
    match (fsync, fdatasync, sync) {
        (0, 0, false) => Ok((Durable::No, 1)),
        (0, 0, true) => Ok((Durable::Dsync, 1)),
        (every, 0, false) => Ok((Durable::Fsync, every)),
        (0, every, false) => Ok((Durable::Fdatasync, every)),
        _ => Err(asked.wrong("fsync", "give one of fsync, fdatasync and sync, not several")),
    }
}

/// Where requests go.
fn place(asked: &mut SectionOptions<'_>, way: &ReadWriteMode, pattern: &mut Pattern) -> Result<(), ProbeError> {
    if !way.random {
        pattern.placement = Placement::Sequential { streams: 1 };
        pattern.apart = way.mixed();
        if let Some(hole) = way.modifier {
            let [(size, _)] = pattern.sizes[..] else {
                return Err(asked.wrong("rw", "holes need requests of a single size"));
            };
            if way.mixed() {
                return Err(asked.wrong("rw", "a mix of reads and writes cannot have holes; write two jobs"));
            }
            pattern.placement = Placement::Strided { stride_bytes: hole.saturating_add(u64::from(size)) };
        }
        return Ok(());
    }
    pattern.run_requests = way.modifier.map_or(1, |m| u32::try_from(m).unwrap_or(u32::MAX));
    let text = asked.text("random_distribution").unwrap_or("random");
    let (law, number) = text.split_once(':').unwrap_or((text, ""));
    let number = number.trim().parse::<f64>().ok().filter(|n| n.is_finite());
    pattern.placement = match (law, number) {
        ("random", _) => Placement::Uniform,
        ("zipf", Some(theta)) if theta > 0.0 && theta <= 100.0 && theta != 1.0 => Placement::Zipf { theta },
        ("pareto", Some(power)) if power > 0.0 && power < 1.0 => Placement::Pareto { power },
        ("normal", Some(deviation)) if (0.0..=100.0).contains(&deviation) => {
            // the mean of 12 even numbers, and an even one of this width on top; then a hash
            let width = (deviation / 100.0).min(0.5);
            pattern.scattered = true;
            Placement::Normal { mean: 0.5, deviation: (1.0 / 144.0 + width * width / 12.0).sqrt() }
        }
        _ => {
            let because = format!(
                "expected random, zipf:θ (θ above 0, not 1), pareto:h (h between 0 and 1) or \
                 normal:percent, found `{text}`"
            );
            return Err(asked.wrong("random_distribution", because));
        }
    };
    if pattern.placement == Placement::Uniform && !asked.flag("norandommap")? {
        asked.note("rw", "places are drawn independently, as with norandommap; fio visits each once per pass");
    }
    Ok(())
}

/// When requests are made.
fn pace(
    asked: &mut SectionOptions<'_>,
    way: &ReadWriteMode,
    depth: u32,
    pattern: &mut Pattern,
) -> Result<(), ProbeError> {
    pattern.pace = Pace::Closed { depth };
    if let Some(rate_per_s) = rate(asked, way, pattern)? {
        let poisson = match asked.text("rate_process").unwrap_or("linear") {
            "linear" => false,
            "poisson" => true,
            other => return Err(asked.wrong("rate_process", format!("expected linear or poisson, found `{other}`"))),
        };
        pattern.pace = Pace::Open { rate_per_s, poisson };
        pattern.most_outstanding = Some(depth);
        let key = if asked.value("rate").is_some() { "rate" } else { "rate_iops" };
        asked.note(key, "latency counts from the time at which a request is due");
    }
    let microseconds = |text: &str| numbers::time(text, 1e-6);
    let thinks = asked.get("thinktime", microseconds)?.unwrap_or_default();
    if thinks.is_zero() {
        return Ok(());
    }
    if matches!(pattern.pace, Pace::Open { .. }) {
        return Err(asked.wrong("thinktime", "give a rate or a think time, not both"));
    }
    let blocks = asked.get("thinktime_blocks", numbers::count)?.unwrap_or(1).max(1);
    if depth > 1 && blocks > 1 {
        return Err(asked.wrong("thinktime_blocks", "more than one block needs `iodepth=1`"));
    }
    if depth > 1 {
        asked.note("thinktime", "as in fio, the depth is 1 whatever `iodepth` says");
    }
    let spins = asked.get("thinktime_spin", microseconds)?.unwrap_or_default().min(thinks);
    pattern.pace = Pace::Cycles {
        users: 1,
        think_s: NormalSpread::fixed((thinks - spins).as_secs_f64()),
        requests: NormalSpread::fixed(blocks as f64),
        compute_s: NormalSpread::fixed(spins.as_secs_f64()),
    };
    Ok(())
}

/// Requests a second of `rate_iops`, or of `rate` in bytes.
fn rate(asked: &SectionOptions<'_>, way: &ReadWriteMode, pattern: &Pattern) -> Result<Option<f64>, ProbeError> {
    let (key, text) = match (asked.text("rate_iops"), asked.text("rate")) {
        (Some(_), Some(_)) => {
            return Err(asked.wrong("rate", "give `rate` or `rate_iops`, not both"));
        }
        (Some(text), None) => ("rate_iops", text),
        (None, Some(text)) => ("rate", text),
        (None, None) => return Ok(None),
    };
    if way.mixed() {
        return Err(asked.wrong(key, "fio limits the reads and the writes of a mix separately; write two jobs"));
    }
    let [reads, writes] = numbers::directions(text);
    let Some(text) = (if way.read_share == 1.0 { reads } else { writes }) else { return Ok(None) };
    let number = numbers::size(text, asked.base).map_err(|because| asked.wrong(key, because))?;
    if key == "rate_iops" {
        return Ok((number > 0).then_some(number as f64));
    }
    let weights: f64 = pattern.sizes.iter().map(|s| s.1).sum();
    let mean = pattern.sizes.iter().map(|s| f64::from(s.0) * s.1).sum::<f64>() / weights;
    Ok((number > 0).then(|| number as f64 / mean))
}

/// When a job that time does not end has asked for enough. `size` is the total
/// where `filesize` says how long the file is.
fn total(asked: &SectionOptions<'_>, pattern: &Pattern, size: Option<TargetAmount>) -> Result<Total, ProbeError> {
    let loops = asked.get("loops", numbers::count)?.unwrap_or(1).max(1);
    if let Some(requests) = asked.get("number_ios", numbers::count)?.filter(|n| *n > 0) {
        let ([(size, _)], true) = (&pattern.sizes[..], pattern.write_sizes.is_empty()) else {
            return Err(asked.wrong("number_ios", "it needs requests of a single size; use `io_size`"));
        };
        return Ok(Total::Bytes(requests.saturating_mul(u64::from(*size)).saturating_mul(loops)));
    }
    match (asked.get("io_size", |t| numbers::amount(t, asked.base))?, size) {
        (Some(TargetAmount::Bytes(bytes)), _) | (None, Some(TargetAmount::Bytes(bytes))) if bytes > 0 => {
            Ok(Total::Bytes(bytes.saturating_mul(loops)))
        }
        (Some(TargetAmount::Share(_)), _) => Err(asked.wrong("io_size", "expected a number of bytes")),
        _ => Ok(Total::Passes(loops)),
    }
}
