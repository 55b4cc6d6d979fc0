//! Parser of one line of a dump: its file, and its numbers.

use diskwright_base::diskstats::MAX_NUMBERS;

/// A line of a dump.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum DumpLine<'a> {
    /// Known, but not read.
    Ignored,
    /// Of /proc/diskstats. Numbers that an old kernel lacks are `None`.
    Disk(&'a str, [Option<u64>; MAX_NUMBERS]),
    /// Of `vmstat -d`.
    VmstatDisk(&'a str, [u64; 10]),
    /// Of /proc/stat: a processor, or all (`cpu`).
    Processor(&'a str, [Option<u64>; 9]),
    /// Of /proc/loadavg, in hundredths.
    Load([u64; 3]),
    /// A name and a number: /proc/meminfo (the name with its colon), /proc/vmstat, /proc/stat.
    Named(&'a str, u64),
    /// Of `vmstat -s`: a number and its description.
    Summary(u64, &'a str),
}

/// Parses a line; `None` if it belongs to no known file.
pub(super) fn parse_line(line: &str) -> Option<DumpLine<'_>> {
    let line = line.trim_end();
    let bare = line.trim_start();
    let mut words = bare.split_ascii_whitespace();
    let first = words.next()?;
    match first.as_bytes()[0] {
        b'0'..=b'9' => parse_disk(bare).or_else(|| parse_load(bare)).or_else(|| parse_summary(bare)),
        b'=' if first == "==>" && line.ends_with("<==") => Some(DumpLine::Ignored),
        b'd' if first == "disk-" => Some(DumpLine::Ignored),
        b't' if bare.starts_with("total merged sectors") => Some(DumpLine::Ignored),
        b'c' if first.starts_with("cpu") && first.bytes().skip(3).all(|b| b.is_ascii_digit()) => {
            let mut numbers = [None; 9];
            let mut count = 0;
            for (number, word) in numbers.iter_mut().zip(words) {
                *number = Some(parse_unsigned(word)?);
                count += 1;
            }
            (count >= 4).then_some(DumpLine::Processor(first, numbers))
        }
        _ => parse_named(first, words).or_else(|| parse_vmstat_disk(bare)),
    }
}

fn parse_unsigned(word: &str) -> Option<u64> {
    if word.is_empty() || word.len() > 20 || !word.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    word.parse().ok()
}

fn parse_disk(line: &str) -> Option<DumpLine<'_>> {
    let mut words = line.split_ascii_whitespace();
    parse_unsigned(words.next()?)?;
    parse_unsigned(words.next()?)?;
    let name = words.next().filter(|name| name.bytes().any(|b| b.is_ascii_alphabetic()))?;
    let mut numbers = [None; MAX_NUMBERS];
    let mut count = 0;
    for (number, word) in numbers.iter_mut().zip(words) {
        *number = Some(parse_unsigned(word)?);
        count += 1;
    }
    match count {
        // a partition before 2.6.25: reads, sectors, writes, sectors
        4 => {
            let [reads, read, writes, written] = [numbers[0], numbers[1], numbers[2], numbers[3]];
            numbers = [None; MAX_NUMBERS];
            (numbers[0], numbers[2], numbers[4], numbers[6]) = (reads, read, writes, written);
        }
        11 | 15 | 17 => {}
        // cut within its numbers: the last one may lack digits
        _ => return None,
    }
    // some kernels let the requests in flight fall below zero and print them unsigned
    numbers[8] = numbers[8].filter(|n| *n < 1 << 31);
    Some(DumpLine::Disk(name, numbers))
}

/// Parses `sda 12345 678 901234 5678 … 0 12`, ten numbers behind the name.
fn parse_vmstat_disk(line: &str) -> Option<DumpLine<'_>> {
    let mut words = line.split_ascii_whitespace();
    let name = words.next()?;
    let mut numbers = [0; 10];
    for number in &mut numbers {
        *number = parse_unsigned(words.next()?)?;
    }
    words.next().is_none().then_some(DumpLine::VmstatDisk(name, numbers))
}

/// Parses `0.20 0.18 0.12 1/80 11206`.
fn parse_load(line: &str) -> Option<DumpLine<'_>> {
    let mut words = line.split_ascii_whitespace();
    let mut loads = [0; 3];
    for load in &mut loads {
        let (integer, fraction) = words.next()?.split_once('.')?;
        *load =
            parse_unsigned(integer)?.checked_mul(100)? + parse_unsigned(fraction).filter(|_| fraction.len() == 2)?;
    }
    let (running, threads) = words.next()?.split_once('/')?;
    parse_unsigned(running).and(parse_unsigned(threads))?;
    words.next().and_then(parse_unsigned)?;
    words.next().is_none().then_some(DumpLine::Load(loads))
}

/// Parses a number and words.
fn parse_summary(line: &str) -> Option<DumpLine<'_>> {
    let (number, words) = line.split_once(' ')?;
    let words = words.trim_start();
    let is_plain = words.bytes().all(|b| b.is_ascii_alphabetic() || b == b' ' || b == b'-');
    Some(DumpLine::Summary(parse_unsigned(number)?, words)).filter(|_| is_plain && words.len() > 4)
}

fn parse_named<'a>(key: &'a str, mut words: impl Iterator<Item = &'a str>) -> Option<DumpLine<'a>> {
    let value = parse_unsigned(words.next()?)?;
    // these list further numbers behind the first
    if matches!(key, "intr" | "softirq" | "page" | "swap") {
        return Some(if key == "intr" { DumpLine::Named(key, value) } else { DumpLine::Ignored });
    }
    let is_meminfo = key.ends_with(':') && key.starts_with(|c: char| c.is_ascii_uppercase());
    let unit = words.next();
    let is_single = unit.is_none() || (is_meminfo && unit == Some("kB") && words.next().is_none());
    let is_name_byte = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'(' | b')' | b':' | b'.');
    let is_name = key.bytes().all(is_name_byte) && (is_meminfo || key.starts_with(|c: char| c.is_ascii_lowercase()));
    (is_single && is_name).then_some(DumpLine::Named(key, value))
}

/// Returns true for `sda1`, `vdb2`, `nvme0n1p1`, `mmcblk0p2`, `md0p1`; false for `sda`, `nvme0n1`, `md127`, `dm-3`.
pub(super) fn is_partition(name: &str) -> bool {
    diskwright_base::diskstats::disk_of_partition(name).is_some()
}

/// Returns true for devices that drivers create in advance.
pub(super) fn may_be_unbound(name: &str) -> bool {
    let drivers = ["loop", "ram", "zram", "nbd", "fd", "sr"];
    let is_numbered = |driver: &&str| name.strip_prefix(*driver).is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()));
    drivers.iter().any(is_numbered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_lines_of_each_file() {
        let disk = |line: &str| match parse_line(line) {
            Some(DumpLine::Disk(name, numbers)) => (name.to_owned(), numbers.iter().flatten().count(), numbers[8]),
            other => panic!("{line}: {other:?}"),
        };
        assert_eq!(disk("   8       0 sda 1 2 3 4 5 6 7 8 9 10 11"), ("sda".into(), 11, Some(9)));
        assert_eq!(disk(" 259 0 nvme0n1 1 2 3 4 5 6 7 8 0 10 11 12 13 14 15"), ("nvme0n1".into(), 15, Some(0)));
        assert_eq!(disk("8 0 sda 1 2 3 4 5 6 7 8 4294967295 10 11 12 13 14 15 16 17"), ("sda".into(), 16, None));
        assert_eq!(disk("8 1 sda1 1 2 3 4"), ("sda1".into(), 4, None));
        assert_eq!(
            parse_line("cpu0 1 2 3 4"),
            Some(DumpLine::Processor("cpu0", [1, 2, 3, 4, 0, 0, 0, 0, 0].map(Some).map(|n| n.filter(|n| *n > 0))))
        );
        assert_eq!(parse_line("0.20 0.18 12.12 1/80 11206"), Some(DumpLine::Load([20, 18, 1212])));
        assert_eq!(parse_line("MemFree:         123 kB"), Some(DumpLine::Named("MemFree:", 123)));
        assert_eq!(parse_line("HugePages_Total:   0"), Some(DumpLine::Named("HugePages_Total:", 0)));
        assert_eq!(parse_line("nr_free_pages 5"), Some(DumpLine::Named("nr_free_pages", 5)));
        assert_eq!(parse_line("intr 77 1 2 3"), Some(DumpLine::Named("intr", 77)));
        assert_eq!(parse_line("     16314032 K total memory"), Some(DumpLine::Summary(16_314_032, "K total memory")));
        let of_vmstat = parse_line("sda    1 2 3 4 5 6 7 8 0 12");
        assert_eq!(of_vmstat, Some(DumpLine::VmstatDisk("sda", [1, 2, 3, 4, 5, 6, 7, 8, 0, 12])));
        for nothing in
            ["==> /proc/stat <==", "disk- ----reads----", "       total merged sectors      ms", "softirq 1 2"]
        {
            assert_eq!(parse_line(nothing), Some(DumpLine::Ignored), "{nothing}");
        }
    }

    #[test]
    fn rejects_lines_of_no_known_file() {
        for other in [
            "",
            "hello, world",
            "8 0 sda 1 2 3",
            "8 0 sda 1 2 3 4 5 6 7 8 9 10 11 12",
            "8 0 sda 1 2 x 4 5 6 7 8 9 10 11",
            "8 0 12 1 2 3 4 5 6 7 8 9 10 11",
            "cpu0 1 2",
            "cpufreq 1 2 3 4",
            "MemFree: -1 kB",
            "MemFree: 1 MB",
            "sda 1 2 3 4 5 6 7 8 0",
            "99999999999999999999999 K total memory",
            "12:00:00 all 1 2",
            "1.0 2.0 3.0 4.0 5.0",
            "12 3",
        ] {
            assert_eq!(parse_line(other), None, "{other}");
        }
    }
}
