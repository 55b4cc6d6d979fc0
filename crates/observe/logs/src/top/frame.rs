//! Lines above top's processes, of every generation of procps.

use crate::sysstat::time::{DAY_S, parse_time_of_day};
use diskwright_base::counter_ids::{memory, processor};

/// First line: `top - 17:48:41 up 54 min,  1 user,  load average: 7.93, 5.37, 3.95`.
pub(crate) struct TopFirstLine {
    pub(crate) clock_s: i64,
    pub(crate) loads: [f64; 3],
    /// Time since the machine started, if it is there.
    pub(crate) uptime_s: Option<i64>,
}

pub(crate) fn parse_first_line(text: &str) -> Option<TopFirstLine> {
    let rest = text.trim_start();
    // without the program's name it is the line of uptime
    let rest = rest.strip_prefix("top - ").unwrap_or(rest);
    let words: Vec<&str> = rest.split_whitespace().collect();
    let (clock, word_count) = parse_time_of_day(&words)?;
    let is_up = words.get(word_count) == Some(&"up");
    let (_, loads_text) = rest.split_once("load average: ")?;
    let mut loads = [0.0; 3];
    // `7,93, 5,37, 3,95` of locales with decimal commas
    let mut parts = loads_text.split(", ");
    for load in &mut loads {
        *load = parts.next()?.trim().replace(',', ".").parse().ok().filter(|load| (0.0..1e6).contains(load))?;
    }
    let uptime_s = rest.split_once(" up ").and_then(|(_, rest)| parse_uptime(rest));
    is_up.then_some(TopFirstLine { clock_s: clock, loads, uptime_s })
}

/// Parses `3 days,  2:01,  2 users, …`, `54 min,  1 user`, seconds.
fn parse_uptime(text: &str) -> Option<i64> {
    let (mut seconds, mut is_found) = (0, false);
    for part in text.split(',').map(str::trim) {
        let (number, unit) = part.split_once(' ').unwrap_or((part, ""));
        let unit_s = match unit.trim() {
            unit if unit.starts_with("day") => DAY_S,
            unit if unit.starts_with("hr") || unit.starts_with("hour") => 3600,
            unit if unit.starts_with("min") => 60,
            unit if unit.starts_with("sec") => 1,
            "" => match number.split_once(':') {
                Some((hours, minutes)) => {
                    let (hours, minutes): (u32, u32) = (hours.parse().ok()?, minutes.parse().ok()?);
                    seconds += i64::from(hours) * 3600 + i64::from(minutes) * 60;
                    is_found = true;
                    continue;
                }
                None => break,
            },
            _ => break,
        };
        seconds += number.parse::<i64>().ok()?.checked_mul(unit_s)?;
        is_found = true;
    }
    is_found.then_some(seconds)
}

/// Parses busybox' line of the load, `Load average: 1.89 1.94 1.98 1/151 21947`.
pub(super) fn parse_busybox_load(text: &str) -> Option<[f64; 3]> {
    let rest = text.trim_start().strip_prefix("Load average:")?;
    let mut words = rest.split_whitespace();
    let mut load = || words.next()?.trim_end_matches(',').parse().ok().filter(|load| (0.0..1e6).contains(load));
    Some([load()?, load()?, load()?])
}

/// Line of tasks: `Tasks:  95 total,   1 running, …`, or `Threads:`.
pub(super) struct TopTasks {
    pub(super) is_threads: bool,
}

pub(super) fn parse_tasks(text: &str) -> Option<TopTasks> {
    let (kind, rest) = text.trim_start().split_once(':')?;
    let is_threads = kind == "Threads";
    let is_line = (is_threads || kind == "Tasks") && rest.contains("total,");
    is_line.then_some(TopTasks { is_threads })
}

/// Shares of a processor's time by their letters (top(1)); `sy` is without interrupts.
const SHARE_LETTERS: &[(&[&str], &str)] = &[
    (&["us", "usr", "user"], processor::USER),
    (&["sy", "sys", "system", "kernel"], processor::SYSTEM),
    (&["ni", "nic", "nice"], processor::NICE),
    (&["id", "idle"], processor::IDLE),
    (&["wa", "io", "iowait"], processor::IOWAIT),
    (&["hi", "irq", "interrupt"], processor::IRQ),
    (&["si", "sirq", "softirq"], processor::SOFTIRQ),
    (&["st", "steal"], processor::STEAL),
];

/// Parses a processor and its shares, percent. A line that was cut at its end lacks the last share.
pub(super) fn parse_processor(text: &str) -> Option<(String, Vec<(&'static str, f64)>)> {
    let (name, rest) = text.trim_start().split_once(':')?;
    let name = name.trim().trim_start_matches('%');
    let name = name.strip_prefix("Cpu").or_else(|| name.strip_prefix("CPU"))?;
    let instance = match name.trim() {
        "(s)" | "" | "states" | "usage" => "_total".to_owned(),
        number if number.bytes().all(|b| b.is_ascii_digit()) => format!("cpu{number}"),
        _ => return None,
    };
    let mut shares = Vec::new();
    let mut rest = rest;
    while let Some(position) = rest.find(|c: char| c.is_ascii_digit()) {
        let tail = &rest[position..];
        let Some(end) = tail.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ',') else { break };
        let number = tail[..end].trim_end_matches(',').replace(',', ".");
        let letters = tail[end..].trim_start_matches([' ', '%']);
        let length = letters.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(letters.len());
        let word = &letters[..length];
        let known = SHARE_LETTERS.iter().find(|(names, _)| names.contains(&word));
        match known {
            Some((_, counter)) => shares.push((*counter, number.parse().ok()?)),
            None if length == letters.len() => break,
            None => return None,
        }
        rest = &letters[length..];
    }
    (shares.len() >= 3).then_some((instance, shares))
}

/// Parses the memory line of busybox, `Mem: 239452K used, 157136K free, …, 26558K cached`, bytes; it has no total.
fn parse_busybox_memory(rest: &str, unit: f64) -> Vec<(&'static str, f64)> {
    let size = |wanted: &str| {
        let part = rest.split(',').map(str::trim).find_map(|part| part.strip_suffix(wanted))?;
        parse_size_bytes(part.trim(), unit)
    };
    let Some(used) = size("used") else { return Vec::new() };
    let free = size("free");
    let others = [(memory::BUFFERS_BYTES, size("buff")), (memory::CACHED_BYTES, size("cached"))];
    let total = free.map(|free| used + free);
    let sizes = [(memory::TOTAL_BYTES, total), (memory::FREE_BYTES, free)].into_iter().chain(others);
    sizes.filter_map(|(counter, size)| Some((counter, size?))).collect()
}

/// Parses the sizes of a line of memory or swap space, bytes. A number that is too wide ends with a `+` in place of its
/// last digit and of the blank: `13186480+total` is ten times as much, `1031857.+total` lacks only its decimals.
pub(super) fn parse_memory(text: &str) -> Option<Vec<(&'static str, f64)>> {
    let (name, rest) = text.trim_start().split_once(':')?;
    let (unit, kind) = name.trim().split_once(' ').unwrap_or(("", name.trim()));
    let unit = match unit {
        "" | "KiB" => 1024.0,
        "MiB" => 1_048_576.0,
        "GiB" => 1_073_741_824.0,
        "TiB" => 1_099_511_627_776.0,
        _ => return None,
    };
    let is_swap = match kind.trim() {
        "Mem" => false,
        "Swap" => true,
        _ => return None,
    };
    if !is_swap && !rest.contains("total") {
        let sizes = parse_busybox_memory(rest, unit);
        return (!sizes.is_empty()).then_some(sizes);
    }
    let mut sizes = Vec::new();
    let rest = rest.replace('+', "+ ");
    let words: Vec<&str> = rest.split_whitespace().collect();
    for pair in words.windows(2) {
        let word = pair[1].trim_end_matches([',', '.']);
        let counter = match (is_swap, word) {
            (false, "total") => memory::TOTAL_BYTES,
            (false, "free") => memory::FREE_BYTES,
            (false, "buffers") => memory::BUFFERS_BYTES,
            (true, "total") => memory::SWAP_TOTAL_BYTES,
            (true, "free") => memory::SWAP_FREE_BYTES,
            // these two are in the line of the swap space
            (true, "avail") => memory::AVAILABLE_BYTES,
            (true, "cached") => memory::CACHED_BYTES,
            _ => continue,
        };
        if let Some(size) = parse_size_bytes(pair[0], unit) {
            sizes.push((counter, size));
        }
    }
    (!sizes.is_empty()).then_some(sizes)
}

/// Parses `16266528`, `24105.6`, `8166428k` or `6.4g` into bytes; a number without a letter counts units of `unit`
/// bytes.
pub(crate) fn parse_size_bytes(text: &str, unit: f64) -> Option<f64> {
    let (text, factor) = match text.strip_suffix('+') {
        Some(kept) if kept.contains(['.', ',']) => (kept.trim_end_matches(['.', ',']), 1.0),
        // one digit is cut
        Some(kept) => (kept, 10.0),
        None => (text, 1.0),
    };
    let (number, unit) = match text.char_indices().next_back()? {
        (position, 'k' | 'K') => (&text[..position], 1024.0),
        (position, 'm' | 'M') => (&text[..position], 1_048_576.0),
        (position, 'g' | 'G') => (&text[..position], 1_073_741_824.0),
        (position, 't' | 'T') => (&text[..position], 1_099_511_627_776.0),
        _ => (text, unit),
    };
    if !number.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let value: f64 = number.replace(',', ".").parse().ok()?;
    let bytes = value * factor * unit;
    (bytes < 1e18).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_every_generation() {
        for line in [
            "%Cpu(s):  3.3 us,  1.0 sy,  0.0 ni, 95.4 id,  0.3 wa,  0.0 hi,  0.0 si,  0.0 st",
            "Cpu(s):  3.3%us,  1.0%sy,  0.0%ni, 95.4%id,  0.3%wa,  0.0%hi,  0.0%si,  0.0%st",
            "Cpu(s):  3.3% us,  1.0% sy,  0.0% ni, 95.4% id,  0.3% wa,  0.0% hi,  0.0% si,  0.0% st",
            "%Cpu(s):  3,3 us,  1,0 sy,  0,0 ni,95,4 id,  0,3 wa,  0,0 hi,  0,0 si,  0,0 st",
        ] {
            let (instance, shares) = parse_processor(line).expect(line);
            let values: Vec<f64> = shares.iter().map(|(_, share)| *share).collect();
            assert_eq!(
                (instance.as_str(), values),
                ("_total", vec![3.3, 1.0, 0.0, 95.4, 0.3, 0.0, 0.0, 0.0]),
                "{line}"
            );
        }
        for (line, instance) in [
            ("CPU:   3% usr   1% sys   0% nic  96% idle   0% io   0% irq   0% sirq", "_total"),
            ("CPU7:  3.0% usr  1.0% sys  0.0% nic 96.0% idle  0.0% io  0.0% irq  0.0% sirq", "cpu7"),
            ("CPU states:  3.0% user, 0.0% nice, 1.0% system, 0.0% interrupt, 96.0% idle", "_total"),
            ("CPU usage: 3.0% user, 1.0% sys, 96.0% idle", "_total"),
            ("Cpu2 :  3.0%us,  1.0%sy,  0.0%ni, 96.0%id,  0.0%s", "cpu2"),
        ] {
            let (found, shares) = parse_processor(line).expect(line);
            let share = |counter: &str| shares.iter().find(|(name, _)| *name == counter).map(|(_, share)| *share);
            let wanted = [Some(3.0), Some(1.0), Some(96.0)];
            let found_shares = [processor::USER, processor::SYSTEM, processor::IDLE].map(share);
            assert_eq!((found.as_str(), found_shares), (instance, wanted), "{line}");
        }
        assert_eq!(parse_processor("%Cpu12  :  0.0 us,  0.0 sy,  0.0 ni,100.0 id").expect("one").0, "cpu12");
        let first =
            parse_first_line("top - 17:48:41 up 54 min,  1 user,  load average: 7,93, 5,37, 3,95").expect("a frame");
        assert_eq!((first.clock_s, first.loads), (64_121, [7.93, 5.37, 3.95]));
        for (uptime, seconds) in [
            ("54 min", 54 * 60),
            ("2:05", 2 * 3600 + 5 * 60),
            ("3 days,  2:01", 3 * 86_400 + 2 * 3600 + 60),
            ("1 day, 12 min", 86_400 + 12 * 60),
            ("9 day(s), 10 hrs", 9 * 86_400 + 36_000),
        ] {
            let line = format!("17:48:41 up {uptime},  1 user,  load average: 7.93, 5.37, 3.95");
            assert_eq!(parse_first_line(&line).and_then(|first| first.uptime_s), Some(seconds), "{line}");
        }
    }

    #[test]
    fn parses_sizes_of_every_generation() {
        let sizes_kib =
            |line: &str| parse_memory(line).expect(line).into_iter().map(|(c, v)| (c, v / 1024.0)).collect::<Vec<_>>();
        let (total, free) = ("memory.total_bytes", "memory.free_bytes");
        assert_eq!(
            sizes_kib("KiB Mem :  1000 total,   200 free,   300 used,   500 buff/cache"),
            [(total, 1000.0), (free, 200.0)]
        );
        assert_eq!(sizes_kib("MiB Mem :  1.5 total,   0.5 free"), [(total, 1536.0), (free, 512.0)]);
        assert_eq!(
            sizes_kib("Mem:   1000k total,  800k used,   200k free,   50k buffers"),
            [(total, 1000.0), (free, 200.0), ("memory.buffers_bytes", 50.0)]
        );
        assert_eq!(
            sizes_kib("KiB Swap:  100 total,  60 free,  40 used.  833 avail Mem "),
            [("memory.swap_total_bytes", 100.0), ("memory.swap_free_bytes", 60.0), ("memory.available_bytes", 833.0)]
        );
        assert_eq!(
            sizes_kib("Swap: 100k total, 0k used, 100k free, 54k cached").last(),
            Some(&("memory.cached_bytes", 54.0))
        );
        // eight digits of nine
        assert_eq!(
            sizes_kib("KiB Mem : 13186480+total, 11628044+free,  8467496 used,  7106856 buff/cache"),
            [(total, 131_864_800.0), (free, 116_280_440.0)]
        );
        assert_eq!(
            sizes_kib("KiB Swap:  4194300 total,  4194300 free,        0 used. 12296545+avail Mem "),
            [
                ("memory.swap_total_bytes", 4_194_300.0),
                ("memory.swap_free_bytes", 4_194_300.0),
                ("memory.available_bytes", 122_965_450.0)
            ]
        );
        assert_eq!(
            sizes_kib("Mem: 3000K used, 1000K free, 20K shrd, 30K buff, 400K cached"),
            [(total, 4000.0), (free, 1000.0), ("memory.buffers_bytes", 30.0), ("memory.cached_bytes", 400.0)]
        );
        assert_eq!(
            sizes_kib("MiB Mem : 1031857.+total, 131072.5+free,   2329.0 used"),
            [(total, 1_056_621_568.0), (free, 134_218_240.0)]
        );
    }

    #[test]
    fn rejects_other_lines() {
        for line in
            ["", "top", "top - noon up 3 days", "Mem: lots", "Cpu: 3", "Cpu(s): 3 xx", "%Cpu(s): us", "CPUs: 3 us"]
        {
            assert!(
                parse_first_line(line).is_none() && parse_memory(line).is_none() && parse_processor(line).is_none(),
                "{line}"
            );
        }
    }
}
