//! `df` of Linux (also -h, -i, -T and -P, in any language), the BSDs, macOS, Solaris and AIX, `bdf` of HP-UX, and
//! lists of volumes of Windows: sizes of file systems and what is free in them.

use diskwright_base::counter_ids::logical_disk;

use super::Snapshot;
use super::memory::parse_size;
use crate::top::parse_size_bytes;

/// Table whose rows follow.
#[derive(Default)]
pub struct FileSystemState {
    table: SizeTable,
    /// Bytes of a number without a letter; 0 before the headings.
    unit: f64,
    /// Name of a device that stands on a line of its own.
    device: String,
    /// Headings of a list of volumes of Windows.
    volume_headings: Vec<String>,
    /// Set if the line before these rows speaks of inodes: headings in other languages are not known.
    is_behind_inodes: bool,
    /// Drive whose bytes fsutil shows, and its size.
    drive: String,
    drive_bytes: f64,
}

/// Columns before the percentage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum SizeTable {
    /// Size, used, free.
    #[default]
    Blocks,
    /// The same of inodes.
    Inodes,
    /// Size and free, as AIX prints them.
    WithoutUsed,
}

/// File systems without a disk of the machine.
const IGNORED: [&str; 10] =
    ["devtmpfs", "udev", "none", "overlay", "cgroup", "cgroup2", "proc", "sysfs", "devfs", "efivarfs"];
/// File systems in memory, which matter only while they are full.
const IN_MEMORY: [&str; 4] = ["tmpfs", "shm", "swap", "ramfs"];
/// Kinds of images that nobody can write: full by nature.
const IMAGES: [&str; 5] = ["squashfs", "iso9660", "udf", "cd9660", "erofs"];
/// Beginnings of the devices and places of images.
const IMAGE_PLACES: [&str; 8] =
    ["/dev/loop", "/dev/sr", "/dev/cd", "/dev/scd", "/snap/", "/var/lib/snapd/", "/media/cdrom", "/cdrom"];
/// Largest free part of a file system in memory that is told.
const MAX_TOLD_FREE: f64 = 0.01;

/// Reads a line.
pub fn read_line(snapshot: &mut Snapshot<'_, '_>, line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    if read_heading(snapshot, &words) || read_volume(snapshot, &words) || read_drive(snapshot, line) {
        return true;
    }
    if let [device] = words[..]
        && device.starts_with('/')
        && snapshot.file_systems.unit > 0.0
    {
        device.clone_into(&mut snapshot.file_systems.device);
        return true;
    }
    if snapshot.file_systems.unit > 0.0 || is_plain_row(&words) {
        return read_row(snapshot, &words);
    }
    let lower = line.to_lowercase();
    snapshot.file_systems.is_behind_inodes = lower.contains("inod") || lower.contains("i-nod");
    false
}

/// Reads `Filesystem 1K-blocks Used Available Use% Mounted on` and its like.
fn read_heading(snapshot: &mut Snapshot<'_, '_>, words: &[&str]) -> bool {
    let has = |name: &str| words.iter().any(|word| word.eq_ignore_ascii_case(name));
    if !words.first().is_some_and(|first| first.eq_ignore_ascii_case("filesystem")) || !has("mounted") {
        return false;
    }
    let of_word = |word: &&str| match *word {
        "kbytes" => Some(1024.0),
        // `GB blocks` of AIX
        "MB" => Some(1_048_576.0),
        "GB" => Some(1_073_741_824.0),
        word => parse_size_bytes(word.strip_suffix("-blocks")?, 1.0),
    };
    let unit = words.iter().find_map(of_word).unwrap_or(1.0);
    let table = match () {
        () if has("Inodes") => SizeTable::Inodes,
        () if has("Free") && !has("Used") => SizeTable::WithoutUsed,
        () => SizeTable::Blocks,
    };
    begin_table(snapshot, table, unit);
    true
}

fn begin_table(snapshot: &mut Snapshot<'_, '_>, table: SizeTable, unit: f64) {
    snapshot.begin_piece(if table == SizeTable::Inodes { "df -i" } else { "df" });
    snapshot.file_systems = FileSystemState { table, unit, ..FileSystemState::default() };
}

/// True for `/dev/sda1 50G 20G 28G 42% /`, whose percentage is that of its numbers: headings are translated.
fn is_plain_row(words: &[&str]) -> bool {
    let size = |index: usize| parse_size(words.get(index)?, 1.0);
    let [_, .., mount] = words else { return false };
    let share = words.iter().position(|word| word.ends_with('%'));
    let Some(share) = share.filter(|share| *share >= 4 && share + 2 == words.len()) else { return false };
    let percent = words[share].trim_end_matches('%').parse::<f64>();
    let (Some(total), Some(used), Some(free)) = (size(share - 3), size(share - 2), size(share - 1)) else {
        return false;
    };
    let computed = 100.0 * used / (used + free).max(1.0);
    mount.starts_with('/')
        && total > 0.0
        && used + free <= total * 1.02
        && percent.is_ok_and(|percent| (percent - computed).abs() <= 2.0)
}

/// Reads `/dev/sda1 50G 20G 28G 42% /`.
fn read_row(snapshot: &mut Snapshot<'_, '_>, words: &[&str]) -> bool {
    if snapshot.file_systems.unit == 0.0 {
        let is_inodes = snapshot.file_systems.is_behind_inodes;
        begin_table(snapshot, if is_inodes { SizeTable::Inodes } else { SizeTable::Blocks }, 1024.0);
    }
    let state = &mut snapshot.file_systems;
    let device = std::mem::take(&mut state.device);
    let (table, unit) = (state.table, if state.table == SizeTable::Inodes { 1.0 } else { state.unit });
    let columns = if table == SizeTable::WithoutUsed { 2 } else { 3 };
    let is_share = |word: &str| word.ends_with('%') && word.starts_with(|c: char| c.is_ascii_digit()) || word == "-";
    let Some(share) = words.iter().position(|word| is_share(word)).filter(|share| *share >= columns) else {
        return false;
    };
    let Some(place) = words[share..].iter().position(|word| word.starts_with('/')) else { return false };
    let mount = words[share + place..].join(" ");
    let size = |index: usize| parse_size(words[index].trim_start_matches('-'), unit);
    let (Some(total), Some(free)) = (size(share - columns), size(share - 1)) else { return false };
    // what root alone may use is less than nothing to all others
    let free = if words[share - 1].starts_with('-') { 0.0 } else { free };
    let names = if device.is_empty() { words[..share - columns].join(" ") } else { device };
    if !put_sizes(snapshot, &names, &mount, table == SizeTable::Inodes, [total, free]) {
        return true;
    }
    let count = |index: usize| parse_size(words.get(index)?, 1.0);
    // iused, ifree and %iused of the BSDs; iused and %iused of AIX
    let is_inode_share = |index: usize| words.get(index).is_some_and(|word| is_share(word));
    if is_inode_share(share + 3)
        && let (Some(used), Some(free)) = (count(share + 1), count(share + 2))
    {
        put_sizes(snapshot, &names, &mount, true, [used + free, free]);
    } else if is_inode_share(share + 2)
        && let (Some(used), Some(percent)) =
            (count(share + 1), words[share + 2].trim_end_matches('%').parse::<f64>().ok())
        && percent > 0.0
    {
        let total = used * 100.0 / percent;
        put_sizes(snapshot, &names, &mount, true, [total, (total - used).max(0.0)]);
    }
    true
}

/// Puts what a file system holds and what is free in it. Returns false for one that does not matter.
fn put_sizes(
    snapshot: &mut Snapshot<'_, '_>,
    names: &str,
    mount: &str,
    is_inodes: bool,
    [total, free]: [f64; 2],
) -> bool {
    let is_any = |list: &[&str]| names.split_whitespace().any(|name| list.contains(&name));
    let is_image = is_any(&IMAGES)
        || IMAGE_PLACES.iter().any(|place| names.starts_with(place) || format!("{mount}/").starts_with(place));
    let is_roomy = free > total * MAX_TOLD_FREE;
    if total <= 0.0 || is_image || is_any(&IGNORED) || is_any(&IN_MEMORY) && is_roomy {
        return false;
    }
    let (total_counter, free_counter) = if is_inodes {
        (logical_disk::INODES_TOTAL, logical_disk::INODES_FREE)
    } else {
        (logical_disk::TOTAL_BYTES, logical_disk::FREE_BYTES)
    };
    snapshot.replace_value(total_counter, mount, total);
    snapshot.replace_value(free_counter, mount, free);
    snapshot.replace_value(logical_disk::READ_ONLY, mount, 0.0);
    true
}

/// Reads headings and rows of `wmic logicaldisk get caption,freespace,size`, Get-PSDrive and Get-Volume.
fn read_volume(snapshot: &mut Snapshot<'_, '_>, words: &[&str]) -> bool {
    let joined = words.join(" ").to_lowercase().replace(" (gb)", "(gb)").replace(" ()", "");
    let lower: Vec<&str> = joined.split_whitespace().collect();
    let has = |name: &str| lower.contains(&name);
    let is_heading = has("freespace") && has("size")
        || has("used(gb)") && has("free(gb)") && has("provider")
        || has("sizeremaining") && has("size") && has("driveletter");
    if is_heading {
        snapshot.begin_piece("volumes");
        snapshot.file_systems = FileSystemState {
            volume_headings: lower.iter().map(|word| (*word).to_owned()).collect(),
            ..FileSystemState::default()
        };
        return true;
    }
    let headings = snapshot.file_systems.volume_headings.clone();
    let Some(first) = words.first().filter(|_| !headings.is_empty()) else { return false };
    if words.iter().all(|word| word.bytes().all(|b| b == b'-')) {
        return true;
    }
    let drive =
        words.iter().find(|word| word.trim_end_matches(':').len() == 1 && word.starts_with(char::is_alphabetic));
    let Some(drive) = drive.map(|drive| format!("{}:", drive.trim_end_matches(':'))) else { return false };
    let sizes: Option<[f64; 2]> = if headings.iter().any(|heading| heading == "used(gb)") {
        let number = |index: usize| words.get(index)?.replace(',', ".").parse::<f64>().ok();
        number(1).zip(number(2)).map(|(used, free)| [(used + free) * 1_073_741_824.0, free * 1_073_741_824.0])
    } else if headings.iter().any(|heading| heading == "sizeremaining") {
        // SizeRemaining and Size stand last: `12.4 GB 237 GB`
        size_with_unit(words, words.len()).and_then(|(total, index)| Some([total, size_with_unit(words, index)?.0]))
    } else {
        let numbers: Vec<f64> = words.iter().filter_map(|word| word.parse::<f64>().ok()).collect();
        let place = |name: &str| headings.iter().position(|heading| heading == name);
        match numbers[..] {
            [first, second] if place("freespace") < place("size") => Some([second, first]),
            [first, second] => Some([first, second]),
            _ => None,
        }
    };
    // a drive without a disk in it has no sizes
    let Some([total, free]) = sizes else { return first.len() <= 2 };
    put_sizes(snapshot, "", &drive, false, [total, free]);
    true
}

/// Parses a size that ends before a word, with its unit; returns also where it begins.
fn size_with_unit(words: &[&str], end: usize) -> Option<(f64, usize)> {
    let unit = match *words.get(end.checked_sub(1)?)? {
        "B" => 1.0,
        "KB" => 1024.0,
        "MB" => 1_048_576.0,
        "GB" => 1_073_741_824.0,
        "TB" => 1_099_511_627_776.0,
        _ => return None,
    };
    let begin = end.checked_sub(2)?;
    Some((words[begin].replace(',', ".").parse::<f64>().ok()? * unit, begin))
}

/// Reads the lines of `fsutil volume diskfree C:`.
fn read_drive(snapshot: &mut Snapshot<'_, '_>, line: &str) -> bool {
    if let Some((_, drive)) = line.split_once("fsutil volume diskfree ") {
        snapshot.begin_piece("fsutil");
        drive.trim().to_uppercase().clone_into(&mut snapshot.file_systems.drive);
        return true;
    }
    let Some((name, value)) = line.split_once(':') else { return false };
    let name = name.trim().to_lowercase().replace("# of ", "");
    if !matches!(
        name.as_str(),
        "total free bytes" | "total bytes" | "total avail free bytes" | "total quota free bytes"
    ) {
        return false;
    }
    let digits: String = value.split('(').next().unwrap_or_default().chars().filter(char::is_ascii_digit).collect();
    let Ok(bytes) = digits.parse::<f64>() else { return false };
    let drive = match snapshot.file_systems.drive.as_str() {
        "" => "the volume".to_owned(),
        drive => drive.to_owned(),
    };
    match name.as_str() {
        "total free bytes" => snapshot.replace_value(logical_disk::FREE_BYTES, &drive, bytes),
        "total bytes" => snapshot.file_systems.drive_bytes = bytes,
        _ => {}
    }
    let total = snapshot.file_systems.drive_bytes;
    if let Some(free) = snapshot.value(logical_disk::FREE_BYTES, &drive).filter(|_| total > 0.0) {
        put_sizes(snapshot, "", &drive, false, [total, free]);
    }
    true
}
