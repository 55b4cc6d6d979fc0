//! Files of a cgroup, of both versions: cpu.stat, memory.events, memory.stat, io.stat, blkio.throttle.*, and files of
//! one number such as memory.current. Those without names of their own need the line that names their file.

use diskwright_base::counter_ids::cgroup;

use super::Snapshot;
use super::pressure::cgroup_of_file;

/// Usual length of a period, seconds (cpu.cfs_period_us).
const PERIOD_S: f64 = 0.1;

/// Numbers that were read.
#[derive(Default)]
pub struct CgroupState {
    periods: f64,
    /// Set below the first line of memory.events.
    is_events: bool,
}

/// Files of one number, and what it is; a total counts since the cgroup began.
const NUMBER_FILES: [(&str, &str, bool); 9] = [
    ("memory.current", cgroup::MEMORY_BYTES, false),
    ("memory.usage_in_bytes", cgroup::MEMORY_BYTES, false),
    ("memory.max", cgroup::MEMORY_LIMIT_BYTES, false),
    ("memory.limit_in_bytes", cgroup::MEMORY_LIMIT_BYTES, false),
    ("memory.high", cgroup::MEMORY_HIGH_BYTES, false),
    ("memory.swap.current", cgroup::SWAP_BYTES, false),
    ("memory.failcnt", cgroup::MEMORY_LIMIT_HITS, true),
    ("memory.peak", "foreign.cgroup.memory_peak_bytes", false),
    ("memory.max_usage_in_bytes", "foreign.cgroup.memory_peak_bytes", false),
];

/// Lines of memory.stat.
const MEMORY_STAT: [(&str, &str, bool); 7] = [
    ("anon", cgroup::MEMORY_ANONYMOUS_BYTES, false),
    ("rss", cgroup::MEMORY_ANONYMOUS_BYTES, false),
    ("file", cgroup::MEMORY_FILE_BYTES, false),
    ("cache", cgroup::MEMORY_FILE_BYTES, false),
    ("pgmajfault", cgroup::MAJOR_FAULTS, true),
    ("workingset_refault_file", cgroup::REFAULTS_FILE, true),
    ("workingset_refault_anon", cgroup::REFAULTS_ANON, true),
];

/// Largest limit that is one; larger numbers stand for none.
const MAX_LIMIT_BYTES: f64 = 1e15;

/// Reads a line of any of the files.
pub fn read_line(snapshot: &mut Snapshot<'_, '_>, line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let file = snapshot.file.rsplit('/').next().unwrap_or_default().to_owned();
    let instance = if snapshot.file.is_empty() { "/".to_owned() } else { cgroup_of_file(&snapshot.file) };
    match words[..] {
        [number] => read_number(snapshot, &file, &instance, number),
        [name, number] => match number.parse::<f64>() {
            Ok(_) if file == "cpu.max" => true,
            Ok(number) if file == "memory.stat" => read_memory_stat(snapshot, &instance, name, number),
            Ok(number) => {
                read_cpu_stat(snapshot, &instance, name, number)
                    || read_memory_events(snapshot, &file, &instance, name, number)
            }
            Err(_) => false,
        },
        [device, direction, number] if file.starts_with("blkio.") => {
            read_block_totals(snapshot, &file, &instance, [device, direction, number])
        }
        [device, ..] if is_device_number(device) => read_io_stat(snapshot, &instance, &words[1..]),
        _ => false,
    }
}

fn is_device_number(word: &str) -> bool {
    word.split_once(':').is_some_and(|(major, minor)| major.parse::<u32>().is_ok() && minor.parse::<u32>().is_ok())
}

fn read_number(snapshot: &mut Snapshot<'_, '_>, file: &str, instance: &str, word: &str) -> bool {
    let Some((_, counter, is_total)) = NUMBER_FILES.iter().find(|(name, _, _)| *name == file) else { return false };
    if word == "max" {
        return true;
    }
    let Ok(number) = word.parse::<f64>() else { return false };
    snapshot.begin_piece(&format!("{file} {instance}"));
    if *is_total {
        put_hits(snapshot, instance, number);
    } else if number < MAX_LIMIT_BYTES {
        snapshot.put_value(counter, instance, number);
    }
    true
}

/// Reads a line of cpu.stat.
fn read_cpu_stat(snapshot: &mut Snapshot<'_, '_>, instance: &str, name: &str, number: f64) -> bool {
    let throttled_s = match name {
        "nr_periods" => {
            snapshot.begin_piece(&format!("cpu.stat {instance}"));
            snapshot.cgroup.periods = number;
            snapshot.put_total(cgroup::CPU_PERIODS, instance, number);
            return true;
        }
        "nr_throttled" => {
            let share = if snapshot.cgroup.periods > 0.0 { number / snapshot.cgroup.periods } else { 0.0 };
            snapshot.put_value(cgroup::CPU_THROTTLED, instance, share.min(1.0));
            snapshot.put_total(cgroup::CPU_THROTTLED_PERIODS, instance, number);
            return true;
        }
        "throttled_time" => number * 1e-9,
        "throttled_usec" => number * 1e-6,
        "usage_usec" => {
            snapshot.put_total(cgroup::CPU_TIME_S, instance, number * 1e-6);
            return true;
        }
        _ => {
            return matches!(name, "user_usec" | "system_usec" | "nr_bursts" | "burst_usec" | "burst_time")
                || name.starts_with("core_sched.");
        }
    };
    snapshot.put_total(cgroup::CPU_THROTTLED_S, instance, throttled_s);
    // since the cgroup began; its time passes only while it runs
    let seconds = snapshot.cgroup.periods * PERIOD_S;
    if seconds > 0.0 {
        snapshot.put_value(cgroup::PROCESSORS_THROTTLED, instance, throttled_s / seconds);
    }
    true
}

/// Reads a line of memory.events, which begins with `low`.
fn read_memory_events(snapshot: &mut Snapshot<'_, '_>, file: &str, instance: &str, name: &str, number: f64) -> bool {
    if name == "low" {
        snapshot.begin_piece(&format!("memory.events {instance}"));
        snapshot.cgroup.is_events = true;
        return true;
    }
    if !snapshot.cgroup.is_events && !file.starts_with("memory.events") {
        return false;
    }
    match name {
        "max" => put_hits(snapshot, instance, number),
        "oom_kill" => {
            snapshot.put_total(cgroup::OOM_KILLS, instance, number);
            if number > 0.0 {
                snapshot.push_warning(format!(
                    "{instance}: {number:.0} tasks were killed because memory ran out, since the cgroup began"
                ));
            }
        }
        "high" | "oom" | "oom_group_kill" | "sock_throttled" => {}
        _ => {
            snapshot.cgroup.is_events = false;
            return false;
        }
    }
    true
}

/// Puts how often a cgroup reached its limit of memory.
fn put_hits(snapshot: &mut Snapshot<'_, '_>, instance: &str, hits: f64) {
    snapshot.put_total(cgroup::MEMORY_LIMIT_HITS, instance, hits);
    snapshot.put_value("foreign.cgroup.memory_limit_hits_since_start", instance, hits);
    if hits > 0.0 {
        snapshot.push_warning(format!("{instance}: the limit of memory was reached {hits:.0} times since it began"));
    }
}

fn read_memory_stat(snapshot: &mut Snapshot<'_, '_>, instance: &str, name: &str, number: f64) -> bool {
    if matches!(name, "anon" | "cache") {
        snapshot.begin_piece(&format!("memory.stat {instance}"));
    }
    if let Some((_, counter, is_total)) = MEMORY_STAT.iter().find(|(known, _, _)| *known == name) {
        if *is_total {
            snapshot.put_total(counter, instance, number);
        } else {
            snapshot.put_value(counter, instance, number);
        }
    }
    true
}

/// Reads `8:0 rbytes=12 wbytes=34 rios=5 wios=6`.
fn read_io_stat(snapshot: &mut Snapshot<'_, '_>, instance: &str, words: &[&str]) -> bool {
    let value = |name: &str| {
        let text = words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))?;
        text.parse::<f64>().ok()
    };
    let totals = [
        (cgroup::READ_BYTES, value("rbytes")),
        (cgroup::WRITE_BYTES, value("wbytes")),
        (cgroup::READS, value("rios")),
        (cgroup::WRITES, value("wios")),
    ];
    if totals.iter().all(|(_, total)| total.is_none()) {
        return false;
    }
    for (counter, total) in totals {
        if let Some(total) = total {
            snapshot.add_total(counter, instance, total);
        }
    }
    true
}

/// Reads `8:0 Read 12` of blkio.throttle.io_serviced and io_service_bytes.
fn read_block_totals(snapshot: &mut Snapshot<'_, '_>, file: &str, instance: &str, words: [&str; 3]) -> bool {
    let Ok(number) = words[2].parse::<f64>() else { return false };
    let counter = match (file.contains("io_service_bytes"), file.contains("io_serviced"), words[1]) {
        (true, _, "Read") => cgroup::READ_BYTES,
        (true, _, "Write") => cgroup::WRITE_BYTES,
        (_, true, "Read") => cgroup::READS,
        (_, true, "Write") => cgroup::WRITES,
        _ => return true,
    };
    snapshot.add_total(counter, instance, number);
    true
}

/// Puts how many processors' worth of time a cgroup was stopped between two dumps, in place of since it began.
pub fn put_throttled(snapshot: &mut Snapshot<'_, '_>) {
    if !snapshot.totals.has_before() {
        return;
    }
    for instance in snapshot.totals.instances(cgroup::CPU_THROTTLED_S) {
        let added = |counter: &str| snapshot.totals.added(counter, &instance).unwrap_or(0.0);
        let seconds = added(cgroup::CPU_PERIODS) * PERIOD_S;
        let throttled_s = added(cgroup::CPU_THROTTLED_S);
        if seconds > 0.0 {
            snapshot.replace_value(cgroup::PROCESSORS_THROTTLED, &instance, throttled_s / seconds);
        }
    }
}
