//! Builds entries from a file's keys: converts units, checks ranges, and requires exactly one kind of device.

use std::collections::BTreeMap;

use diskwright_base::Problems;
use diskwright_base::toml_reader::{self, TomlSource, TomlValue};

use super::{CatalogueEntry, EntryKind, raw};
use crate::Ns;
use crate::device::PlainSpec;
use crate::drive::{DataSheet, DataSheetSeek, QueuePolicy, RootAndLine, TrackRate};
use crate::flash::{FlashSpec, InitialState, SlcCache};
use crate::io::BLOCK_BYTES;
use crate::service_time::ServiceTimeDistribution;
use crate::volume::{RateLimit, SharedWork, VolumeSpec};

/// Largest number of drives in a file.
const MAX_DRIVES: usize = 10_000;
/// Default rate of a single request: no limit.
const UNLIMITED_RATE: f64 = f64::INFINITY;

/// Reads a file.
pub(super) fn read_entries(file: &str, text: &str) -> Result<Vec<CatalogueEntry>, Problems> {
    let parsed: raw::CatalogueFile = toml_reader::read(file, text)?;
    let source = TomlSource::new(file, text);
    if parsed.drive.len() > MAX_DRIVES {
        source.report_problem(0, "", format!("{} drives; the limit is {MAX_DRIVES}", parsed.drive.len()));
        return source.into_result(None).map(|(entries, _)| entries);
    }
    let mut entries: Vec<CatalogueEntry> = Vec::with_capacity(parsed.drive.len());
    for drive in parsed.drive {
        let offset = drive.span().start;
        let drive = drive.into_inner();
        let item = format!("drive {}", drive.id);
        let report = |message: String| source.report_problem(offset, &item, message);
        let Ok(entry) = build_entry(drive, source.line_number(offset)).map_err(report) else { continue };
        if let Some(same) = entries.iter().find(|other| other.id.eq_ignore_ascii_case(&entry.id)) {
            report(format!("the id is already used at line {}", same.line));
        }
        if entry.build_device().map_err(report).is_ok() {
            entries.push(entry);
        }
    }
    source.into_result(Some(entries)).map(|(entries, _)| entries)
}

fn build_entry(drive: raw::RawDrive, line: usize) -> Result<CatalogueEntry, String> {
    super::check_id(&drive.id).map_err(|message| format!("id: {message}"))?;
    if !(1950..=2100).contains(&drive.year) {
        return Err(format!("year: {}; expected 1950 to 2100", drive.year));
    }
    if !(1e-5..=1e7).contains(&drive.capacity_gb) {
        return Err(format!("capacity_gb: {}; expected 0.00001 to 10,000,000", drive.capacity_gb));
    }
    let capacity = (drive.capacity_gb * 1e9).round() as u64;
    let blocks = (capacity / BLOCK_BYTES).max(1);
    let name = drive.name;
    let kind = match (drive.mechanical, drive.flash, drive.volume, drive.plain) {
        (Some(m), None, None, None) => EntryKind::Mechanical(Box::new(build_mechanical(&name, capacity, m)?)),
        (None, Some(f), None, None) => EntryKind::Flash(Box::new(build_flash(&name, blocks, &f)?)),
        (None, None, Some(v), None) => EntryKind::Volume(Box::new(build_volume(&name, blocks, &v)?)),
        (None, None, None, Some(p)) => EntryKind::Plain(Box::new(build_plain(&name, blocks, &p)?)),
        (None, None, None, None) => {
            return Err("expected one of [drive.mechanical], [drive.flash], [drive.volume], [drive.plain]".into());
        }
        _ => return Err("expected only one of mechanical, flash, volume and plain".into()),
    };
    for check in &drive.checks {
        check.check_limits()?;
    }
    Ok(CatalogueEntry {
        id: drive.id,
        name,
        vendor: drive.vendor,
        year: drive.year,
        class: drive.class,
        capacity_bytes: capacity,
        interface: drive.interface,
        source: drive.source,
        sources: sources_by_key(drive.sources)?,
        notes: drive.notes,
        kind,
        checks: drive.checks,
        line,
    })
}

/// Builds a device from a table in another file; see [`super::read_inline`].
pub(super) fn build_inline<'t>(
    source: &TomlSource<'t>,
    item: &str,
    drive: (&str, u64),
    kind: &str,
    table: TomlValue<'_, 't>,
) -> Option<EntryKind> {
    let ((name, capacity), offset) = (drive, table.span().start);
    let (blocks, table) = ((capacity / BLOCK_BYTES).max(1), table.clone());
    let built = match kind {
        "mechanical" => build_mechanical(name, capacity, source.deserialize_value(item, table)?)
            .map(|built| EntryKind::Mechanical(Box::new(built))),
        "flash" => build_flash(name, blocks, &source.deserialize_value(item, table)?)
            .map(|built| EntryKind::Flash(Box::new(built))),
        "volume" => build_volume(name, blocks, &source.deserialize_value(item, table)?)
            .map(|built| EntryKind::Volume(Box::new(built))),
        _ => build_plain(name, blocks, &source.deserialize_value(item, table)?)
            .map(|built| EntryKind::Plain(Box::new(built))),
    };
    built.map_err(|message| source.report_problem(offset, item, message)).ok()
}

fn build_plain(name: &str, blocks: u64, p: &raw::RawPlain) -> Result<PlainSpec, String> {
    Ok(PlainSpec {
        name: name.to_owned(),
        blocks,
        servers: check_range("servers", p.servers, 1, 1 << 20)?,
        service: build_distribution("service", &p.service)?,
        bytes_per_s: p.mb_s.map_or(Ok(UNLIMITED_RATE), |rate| check_positive("mb_s", rate))? * 1e6,
    })
}

/// Returns the source of each key.
fn sources_by_key(sources: BTreeMap<String, Vec<String>>) -> Result<Vec<(String, String)>, String> {
    let mut keys: Vec<(String, String)> = Vec::new();
    for (source, source_keys) in sources {
        for key in source_keys {
            if keys.iter().any(|(known, _)| *known == key) {
                return Err(format!("sources: `{key}` has two sources; give one"));
            }
            keys.push((key, source.clone()));
        }
    }
    Ok(keys)
}

fn check_positive(item: &str, number: f64) -> Result<f64, String> {
    if number > 0.0 && number < 1e15 { Ok(number) } else { Err(format!("{item}: {number}; expected more than 0")) }
}

fn check_range(item: &str, number: u32, min: u32, max: u32) -> Result<u32, String> {
    if (min..=max).contains(&number) { Ok(number) } else { Err(format!("{item}: {number}; expected {min} to {max}")) }
}

/// Converts microseconds to ns.
fn us_to_ns(item: &str, us: f64) -> Result<Ns, String> {
    if (0.0..=1e9).contains(&us) {
        Ok((us * 1e3).round() as Ns)
    } else {
        Err(format!("{item}: {us}; expected 0 to 1,000,000,000 microseconds"))
    }
}

/// Converts a size in a unit of `unit` bytes to whole bytes.
fn to_bytes(item: &str, size: f64, unit: f64) -> Result<u64, String> {
    let bytes = size * unit;
    if (0.0..=1e16).contains(&bytes) { Ok(bytes.round() as u64) } else { Err(format!("{item}: {size} is not a size")) }
}

fn build_mechanical(name: &str, capacity: u64, m: raw::RawMechanical) -> Result<DataSheet, String> {
    let to_tracks = |pair: [f64; 2], make: fn(f64) -> TrackRate| pair.map(make);
    let rates = [
        m.sectors.map(|pair| to_tracks(pair, TrackRate::Sectors)),
        m.media_mb_s.map(|pair| to_tracks(pair.map(|mb| mb * 1e6), TrackRate::Media)),
        m.sustained_mb_s.map(|pair| to_tracks(pair.map(|mb| mb * 1e6), TrackRate::Sustained)),
    ];
    let mut rates = rates.into_iter().flatten();
    let (Some([outer, inner]), None) = (rates.next(), rates.next()) else {
        return Err("give one of `sectors`, `media_mb_s` and `sustained_mb_s`, as [outer, inner] tracks".into());
    };
    let seek = match (m.seek_ms, m.seek_curve) {
        (Some(ms), None) => DataSheetSeek::Points(ms),
        (None, Some(c)) => DataSheetSeek::Curve(RootAndLine {
            long_from_cylinders: c.from,
            short_ms: c.short,
            root_ms: c.root,
            long_ms: c.long,
            slope_ms: c.slope,
            measured_ms: Vec::new(),
        }),
        _ => return Err("give one of `seek_ms` and `seek_curve`".into()),
    };
    let policy = QueuePolicy::from_name(&m.policy).ok_or_else(|| {
        let known: Vec<&str> = QueuePolicy::ALL.iter().map(|policy| policy.name()).collect();
        format!("policy: `{}`; expected one of {}", m.policy, known.join(", "))
    })?;
    Ok(DataSheet {
        name: name.to_owned(),
        rpm: m.rpm,
        heads: m.heads,
        capacity_bytes: Some(capacity),
        cylinders: m.cylinders,
        outer,
        inner,
        zones: m.zones,
        seek,
        head_switch_ms: m.head_switch_ms,
        write_settle_ms: m.write_settle_ms,
        command_ms: m.command_ms,
        hit_ms: m.hit_ms.unwrap_or(m.command_ms),
        cache_bytes: to_bytes("cache_kb", m.cache_kb, 1024.0)?,
        segments: m.segments,
        read_ahead: m.read_ahead,
        write_cache: m.write_cache,
        interface_bytes_per_s: check_positive("interface_mb_s", m.interface_mb_s)? * 1e6,
        never_disconnects: m.never_leaves,
        on_arrival: m.on_arrival,
        queue_slots: check_range("queue", m.queue, 1, 1 << 20)?,
        queue_policy: policy,
    })
}

fn build_flash(name: &str, blocks: u64, f: &raw::RawFlash) -> Result<FlashSpec, String> {
    let slc = match (f.slc_gb, f.slc_program_us, f.slc_fold_mb_s) {
        (None, None, None) => None,
        (Some(gb), Some(program), Some(fold)) => Some(SlcCache {
            bytes: to_bytes("slc_gb", gb, 1e9)?,
            program_ns: us_to_ns("slc_program_us", program)?,
            fold_bytes_per_s: check_positive("slc_fold_mb_s", fold)? * 1e6,
        }),
        _ => return Err("`slc_gb`, `slc_program_us` and `slc_fold_mb_s` must be given together".into()),
    };
    let size = |item: &str, kb: f64| to_bytes(item, kb, 1024.0).map(|b| u32::try_from(b).unwrap_or(u32::MAX));
    Ok(FlashSpec {
        name: name.to_owned(),
        blocks,
        queue_slots: check_range("queue", f.queue, 1, 1 << 20)?,
        link_bytes_per_s: check_positive("link_mb_s", f.link_mb_s)? * 1e6,
        duplex: f.duplex,
        command_read: us_to_ns("command_us", f.command_us[0])?,
        command_write: us_to_ns("command_us", f.command_us[1])?,
        latency_read: us_to_ns("latency_us", f.latency_us[0])?,
        latency_write: us_to_ns("latency_us", f.latency_us[1])?,
        channels: f.channels,
        dies_per_channel: f.dies,
        planes: f.planes,
        independent_planes: f.independent_planes,
        page_bytes: size("page_kb", f.page_kb)?,
        pages_per_block: f.pages,
        unit_bytes: size("unit_kb", f.unit_kb)?,
        read_ns: us_to_ns("read_us", f.read_us)?,
        program_ns: us_to_ns("program_us", f.program_us)?,
        erase_ns: us_to_ns("erase_us", f.erase_us)?,
        suspend_ns: f.suspend_us.map(|time| us_to_ns("suspend_us", time)).transpose()?,
        channel_bytes_per_s: check_positive("channel_mb_s", f.channel_mb_s)? * 1e6,
        spare_share: f.spare,
        buffer_bytes: to_bytes("buffer_mb", f.buffer_mb, 1048576.0)?,
        survives_power_loss: f.protected,
        slc,
        initial_state: InitialState { filled_share: f.filled, overwrite_passes: f.overwritten },
    })
}

/// Builds a limit from its baseline rate, burst rate and credits.
fn build_limit(item: &str, unit: f64, rates: [Option<f64>; 3]) -> Result<RateLimit, String> {
    let [baseline, burst, credits] = rates.map(|number| number.map(|n| n * unit));
    let Some(baseline) = baseline else {
        return match (burst, credits) {
            (None, None) => Ok(RateLimit::unlimited()),
            _ => Err(format!("a burst needs `{item}`, the baseline rate")),
        };
    };
    match (burst, credits) {
        (None, None) => Ok(RateLimit::constant_rate(baseline)),
        (Some(burst), Some(credits)) => Ok(RateLimit { baseline, burst, credits }),
        _ => Err(format!("`{item}`: burst and credits must be given together")),
    }
}

fn build_volume(name: &str, blocks: u64, v: &raw::RawVolume) -> Result<VolumeSpec, String> {
    Ok(VolumeSpec {
        name: name.to_owned(),
        blocks,
        slots: check_range("queue", v.queue, 1, 1 << 20)?,
        operations: build_limit("iops", 1.0, [v.iops, v.burst_iops, v.iops_credits])?,
        bytes: build_limit("mb_s", 1e6, [v.mb_s, v.burst_mb_s, v.mb_credits])?,
        operation_bytes: to_bytes("operation_kb", v.operation_kb, 1024.0)?,
        merges: v.merges,
        whole_operations: v.whole_operations,
        write_cost: v.write_cost,
        writes: match (v.write_iops, v.write_mb_s) {
            (None, None) => None,
            (iops, mb_s) => Some([
                build_limit("write_iops", 1.0, [iops, None, None])?,
                build_limit("write_mb_s", 1e6, [mb_s, None, None])?,
            ]),
        },
        shared: v.shared.as_ref().map(|shared| SharedWork {
            each_s: shared.each_us.map(|us| us * 1e-6),
            bytes_per_s: shared.mb_s.map_or([UNLIMITED_RATE; 2], |rates| rates.map(|rate| rate * 1e6)),
            knee: shared.knee,
        }),
        window_ns: us_to_ns("window_ms", v.window_ms * 1000.0)?,
        read: build_distribution("read", &v.read)?,
        write: build_distribution("write", &v.write)?,
        stream_bytes_per_s: v.stream_mb_s.map_or(Ok(UNLIMITED_RATE), |rate| check_positive("stream_mb_s", rate))? * 1e6,
    })
}

fn build_distribution(item: &str, raw: &raw::RawDistribution) -> Result<ServiceTimeDistribution, String> {
    let time = |value: f64| us_to_ns(item, value);
    let mut found = Vec::new();
    if let Some(constant) = raw.constant_us {
        found.push(ServiceTimeDistribution::Constant(time(constant)?));
    }
    if let Some(mean) = raw.exponential_us {
        found.push(ServiceTimeDistribution::Exponential { mean: time(mean)? });
    }
    if let Some(mean) = raw.erlang_us {
        let stages = raw.stages.ok_or_else(|| format!("{item}: `erlang_us` needs `stages`"))?;
        found.push(ServiceTimeDistribution::Erlang { stages, mean: time(mean)? });
    }
    if let Some([min, max]) = raw.uniform_us {
        found.push(ServiceTimeDistribution::Uniform { min: time(min)?, max: time(max)? });
    }
    if let Some(median) = raw.median_us {
        let sigma = raw.sigma.ok_or_else(|| format!("{item}: `median_us` needs `sigma`"))?;
        found.push(ServiceTimeDistribution::LogNormal { median: time(median)?, sigma });
    }
    if let Some(points) = &raw.quantiles_us {
        let points: Result<_, String> = points.iter().map(|(share, us)| Ok((*share, time(*us)?))).collect();
        found.push(ServiceTimeDistribution::Quantiles(points?));
    }
    let kinds = "`constant_us`, `exponential_us`, `erlang_us`, `uniform_us`, `median_us`, `quantiles_us`";
    let (Some(distribution), true) = (found.pop(), found.is_empty()) else {
        return Err(format!("{item}: expected one of {kinds}"));
    };
    if raw.stages.is_some() && raw.erlang_us.is_none() || raw.sigma.is_some() && raw.median_us.is_none() {
        return Err(format!("{item}: `stages` belongs to `erlang_us` and `sigma` to `median_us`"));
    }
    distribution.check_parameters().map_err(|e| format!("{item}: {e}"))?;
    Ok(distribution)
}
