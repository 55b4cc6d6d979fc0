//! How fragmented the largest open files are, and how much time it would save if each were in one piece.

use diskwright_base::byte_size::ByteSize;
use diskwright_base::units::format_value;
use diskwright_base::{Ceiling, DeviceClass};

use super::{format_percent, unknown_fact};
use crate::check::{AdviceSeverity, CheckOutcome, Proposal};
use crate::file_extents::{self, FileExtents};
use crate::host_facts::HostFacts;
use crate::host_tree::TreeGap;

/// Share of the time of a sequential read that seeks between the pieces must take. Our choice.
const MIN_GAIN: f64 = 0.1;
/// Mean size of a piece, bytes, below which a file on a disk that was not measured counts as fragmented. Our choice: at
/// 100 MB/s, such a piece takes about as long to read as a seek takes.
const SMALL_PIECE_BYTES: f64 = (1 << 20) as f64;
/// Longest plausible time of a random 4 KiB read by a disk arm, seconds.
const MAX_SEEK_S: f64 = 0.1;

/// Judges how fragmented the files of a filesystem are.
pub(super) fn judge_fragmentation(host: &HostFacts, point: &str) -> CheckOutcome {
    let filesystem = host.topology.filesystems.iter().find(|filesystem| filesystem.mount == point);
    let Some(filesystem) = filesystem else { return CheckOutcome::Absent };
    let disks = host.topology.leaves_under(&filesystem.device);
    // flash needs no seeks, and what is below a virtual disk is unknown
    if disks.is_empty() || disks.iter().any(|disk| host.device_class(disk) != DeviceClass::Rotational) {
        return CheckOutcome::Absent;
    }
    let text = match host.tree.text_of(file_extents::EXTENTS_FILE) {
        Ok(text) => text,
        Err(TreeGap::Refused(because)) => return CheckOutcome::Unknown(because),
        // no process that we are allowed to inspect has a large file open
        Err(TreeGap::Absent) => return CheckOutcome::Absent,
    };
    let files = file_extents::parse_extents(text);
    if files.is_empty() {
        return unknown_fact(host, file_extents::EXTENTS_FILE);
    }
    let files: Vec<&FileExtents> = files.iter().filter(|file| file.mount == point).collect();
    if files.is_empty() {
        return CheckOutcome::Absent;
    }
    let speed = disk_speed(host, &disks);
    let gain = |file: &FileExtents| speed.map(|speed| defragmented_gain(file, disks.len() as f64, speed));
    let is_scattered = |file: &&FileExtents| match gain(file) {
        Some(gain) => gain >= MIN_GAIN,
        None => file.bytes / file.pieces < SMALL_PIECE_BYTES,
    };
    let cost = |file: &FileExtents| gain(file).unwrap_or(0.0) * file.bytes + file.pieces;
    let worst = files.iter().copied().filter(is_scattered).max_by(|a, b| cost(a).total_cmp(&cost(b)));
    let Some(worst) = worst else { return CheckOutcome::Good };
    propose_defragmenting(worst, files.len(), gain(worst), speed)
}

fn propose_defragmenting(
    file: &FileExtents,
    files: usize,
    gain: Option<f64>,
    speed: Option<(f64, f64)>,
) -> CheckOutcome {
    let at_least = if file.is_complete { "" } else { "at least " };
    let mean = ByteSize::capacity(file.bytes / file.pieces);
    let size = ByteSize::capacity(file.bytes);
    let of = if files > 1 { format!(", the worst of {files} large open files") } else { String::new() };
    let seen = format!("{}: {size} in {at_least}{} pieces of {mean}{of}", file.path, file.pieces);
    let (Some(gain), Some((seek_s, _))) = (gain, speed) else {
        let seen = format!("{seen}; the time of a seek was not measured (run `probe`)");
        return Proposal::new(seen).with_severity(AdviceSeverity::Info).into_outcome();
    };
    let seek = format_value(seek_s, "s");
    let (lost, share) = (format_value(gain_s(file, seek_s), "s"), format_percent(gain));
    let text = format!("a sequential read spends {lost} on seeks of {seek} between pieces");
    let text = format!("{text}; in one piece, it would take {share} less time");
    Proposal::new(format!("{seen}; {text}")).into_outcome()
}

/// Seconds of a seek with its rotation, and bytes per second of one disk, as a probe measured them.
fn disk_speed(host: &HostFacts, disks: &[&str]) -> Option<(f64, f64)> {
    let of_disk = |disk: &&str| host.ceilings.iter().find(|ceiling| ceiling.device == **disk);
    let speed = |ceiling: &Ceiling| {
        let seek_s = ceiling.read_s.filter(|seek_s| *seek_s > 0.0 && *seek_s < MAX_SEEK_S)?;
        Some((seek_s, ceiling.read_bytes_per_s.filter(|rate| *rate > 0.0)?))
    };
    disks.iter().filter_map(of_disk).find_map(speed)
}

/// Seconds that a file read in sequence spends between its pieces.
fn gain_s(file: &FileExtents, seek_s: f64) -> f64 {
    (file.pieces - 1.0) * seek_s
}

/// Share of the time of reading a file in sequence that is spent between its pieces. Several disks transfer at once,
/// and the arm of each moves for its own pieces.
fn defragmented_gain(file: &FileExtents, disks: f64, (seek_s, bytes_per_s): (f64, f64)) -> f64 {
    let between_s = gain_s(file, seek_s) / disks;
    between_s / (between_s + file.bytes / (bytes_per_s * disks))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1 GB at 100 MB/s takes 10 s; 1001 pieces cost 1000 seeks of 10 ms, another 10 s.
    #[test]
    fn the_gain_is_the_time_between_the_pieces() {
        let file = |pieces| FileExtents { mount: "/".into(), path: "/a".into(), bytes: 1e9, pieces, is_complete: true };
        let speed = (0.01, 100e6);
        assert!((defragmented_gain(&file(1001.0), 1.0, speed) - 0.5).abs() < 1e-9);
        assert!((defragmented_gain(&file(1001.0), 4.0, speed) - 0.5).abs() < 1e-9);
        assert_eq!(defragmented_gain(&file(1.0), 1.0, speed), 0.0);
    }
}
