//! Meaning of the columns of a disk's row on each system, from its manual page.

use crate::level_row::LevelRow;

/// System whose tool wrote a table of disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnixSystem {
    Solaris,
    FreeBsd,
    Aix,
    HpUx,
}

/// Name, counter, and the factor from a value to the counter's unit.
type UnixColumns = &'static [(&'static str, &'static str, f64)];

const KIB: f64 = 1024.0;
const MIB: f64 = 1_048_576.0;

/// Columns that have a counter of their own: name, counter, and factor.
///
/// - Solaris, iostat(1M): `svc_t` is the response time of a transaction in ms, waiting included.
/// - FreeBSD, iostat(8): `ms/r`, `ms/w` and `ms/t` are durations in ms, `qlen` is the queue now.
/// - AIX, iostat: `% tm_act` is busy time.
/// - HP-UX, iostat(1): `bps` is kilobytes per second.
const SINGLE_COLUMNS: &[(UnixSystem, UnixColumns)] = &[
    (
        UnixSystem::Solaris,
        &[
            ("r/s", "reads_per_s", 1.0),
            ("w/s", "writes_per_s", 1.0),
            ("kr/s", "read_bytes_per_s", KIB),
            ("kw/s", "write_bytes_per_s", KIB),
            ("Mr/s", "read_bytes_per_s", MIB),
            ("Mw/s", "write_bytes_per_s", MIB),
            ("%b", "busy", 0.01),
        ],
    ),
    (
        UnixSystem::FreeBsd,
        &[
            ("r/s", "reads_per_s", 1.0),
            ("w/s", "writes_per_s", 1.0),
            ("kr/s", "read_bytes_per_s", KIB),
            ("kw/s", "write_bytes_per_s", KIB),
            ("ms/r", "avg_s_per_read", 1e-3),
            ("ms/w", "avg_s_per_write", 1e-3),
            ("qlen", "current_queue_length", 1.0),
            ("%b", "busy", 0.01),
        ],
    ),
    (UnixSystem::Aix, &[("%tm_act", "busy", 0.01), ("Kbps", "bytes_per_s", KIB), ("tps", "transfers_per_s", 1.0)]),
    (UnixSystem::HpUx, &[("bps", "bytes_per_s", KIB)]),
];

/// Detects the system of a heading's words, and the index of the disk among them.
pub(super) fn detect_system(words: &[&str]) -> Option<(UnixSystem, usize)> {
    let has = |wanted: &str| words.contains(&wanted);
    let disk_index = words.iter().position(|word| matches!(*word, "device" | "Disks:" | "disk"))?;
    let system = if has("%tm_act") && has("tps") {
        UnixSystem::Aix
    } else if has("actv") && (has("svc_t") || has("asvc_t")) {
        UnixSystem::Solaris
    } else if has("qlen") && has("%b") && has("r/s") {
        UnixSystem::FreeBsd
    } else if has("bps") && has("sps") && has("msps") {
        UnixSystem::HpUx
    } else {
        return None;
    };
    Some((system, disk_index))
}

/// Puts the counters of a disk's row. `elapsed_s` is the time that it covers, if known.
pub(super) fn put_disk(
    row: &mut LevelRow,
    system: UnixSystem,
    disk: &str,
    names: &[String],
    cells: &[f64],
    elapsed_s: Option<f64>,
) {
    let value =
        |name: &str| names.iter().position(|heading| heading == name).and_then(|index| cells.get(index)).copied();
    let object = if is_disk_slice(system, disk) { "logical_disk." } else { "physical_disk." };
    let mut put = |counter: &str, value: Option<f64>| {
        if let Some(value) = value {
            row.put_object_value(object, counter, disk, value);
        }
    };
    let columns = SINGLE_COLUMNS.iter().find(|(known, _)| *known == system).map_or(&[][..], |(_, columns)| columns);
    for (name, counter, scale) in columns {
        put(counter, value(name).map(|value| value * scale));
    }
    let transfers = value("r/s").zip(value("w/s")).map(|(reads, writes)| reads + writes);
    put("transfers_per_s", transfers);
    // 0.0 without requests is no response time
    let is_idle = transfers == Some(0.0);
    let ms = |time: Option<f64>| time.filter(|_| !is_idle).map(|ms| ms * 1e-3);
    match system {
        UnixSystem::Solaris => {
            let response = value("wsvc_t").zip(value("asvc_t")).map(|(wait, service)| wait + service);
            put("avg_s_per_transfer", ms(response.or(value("svc_t"))));
            put("avg_queue_length", value("wait").zip(value("actv")).map(|(wait, active)| wait + active));
        }
        UnixSystem::FreeBsd => {
            let response = value("ms/t").or(value("svc_t"));
            put("avg_s_per_transfer", ms(response));
            // Little's law; `qlen` is of a moment
            put("avg_queue_length", transfers.zip(response).map(|(transfers, ms)| transfers * ms * 1e-3));
        }
        // kilobytes of the interval, not per second
        UnixSystem::Aix => {
            let moved = value("Kb_read").zip(value("Kb_wrtn")).map(|(read, written)| read + written);
            // the rate of both gives the length, if nothing else does
            let length = moved.zip(value("Kbps")).map(|(moved, rate)| moved / rate);
            if let Some(elapsed) = elapsed_s.or(length).filter(|elapsed| *elapsed > 0.0 && elapsed.is_finite()) {
                put("read_bytes_per_s", value("Kb_read").map(|kib| kib * KIB / elapsed));
                put("write_bytes_per_s", value("Kb_wrtn").map(|kib| kib * KIB / elapsed));
            }
        }
        UnixSystem::HpUx => {}
    }
}

/// Returns true for parts of disks, which `iostat -p` prints beside the disks: `sd0,a`, `c0t1d0s6`.
fn is_disk_slice(system: UnixSystem, disk: &str) -> bool {
    let is_solaris_slice = disk.rsplit_once('s').is_some_and(|(target, slice)| {
        let is_number = !slice.is_empty() && slice.bytes().all(|b| b.is_ascii_digit());
        is_number && target.starts_with('c') && target.contains('d') && target.ends_with(|c: char| c.is_ascii_digit())
    });
    system == UnixSystem::Solaris && (disk.contains(',') || is_solaris_slice)
}

/// Returns the reason why a row is not a disk's.
pub(super) fn not_a_disk_reason(system: UnixSystem, disk: &str) -> Option<&'static str> {
    let is_numbered = |driver: &str| {
        disk.strip_prefix(driver).is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    };
    match system {
        UnixSystem::Solaris if disk.contains(':') || is_numbered("nfs") => Some("a file server, not a disk"),
        UnixSystem::FreeBsd if is_numbered("pass") => Some("a pass-through device shows a disk's requests again"),
        _ => None,
    }
}
