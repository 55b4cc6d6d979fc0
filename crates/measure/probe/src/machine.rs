//! Circumstances of a measurement other than the device: the processor, the kernel's settings of the
//! device's queue, and limits on this process. A measurement can be compared with its repetition only
//! if they are equal.

use std::collections::BTreeMap;
use std::fs;

use diskwright_counters::live::{Roots, mountinfo};

use crate::facts::ProbeMachine;

/// Settings of a block device queue that affect a measurement.
const QUEUE_SETTINGS: &[&str] = &[
    "scheduler",
    "nr_requests",
    "read_ahead_kb",
    "max_sectors_kb",
    "max_hw_sectors_kb",
    "logical_block_size",
    "physical_block_size",
    "minimum_io_size",
    "optimal_io_size",
    "rotational",
    "write_cache",
    "fua",
    "nomerges",
    "rq_affinity",
    "wbt_lat_usec",
    "io_poll",
    "iostats",
];

/// Files of a blkio cgroup (version 1) that hold limits.
const THROTTLE_FILES: &[&str] = &[
    "blkio.throttle.read_bps_device",
    "blkio.throttle.write_bps_device",
    "blkio.throttle.read_iops_device",
    "blkio.throttle.write_iops_device",
];

/// Largest number of I/O limits that are reported.
const MAX_LIMITS: usize = 64;

/// Reads the circumstances. `device` is the kernel's name of the block device.
pub fn read_machine(roots: &Roots, device: &str, memory_bytes: u64) -> ProbeMachine {
    let cpuinfo = read_trimmed(roots, "/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|l| l.strip_prefix("model name")?.split_once(':').map(|(_, m)| m.trim()));
    let is_block_device = !device.is_empty() && !device.contains('/');
    let setting = |name: &&str| {
        let text = read_trimmed(roots, &format!("/sys/block/{device}/queue/{name}"))?;
        Some(((*name).to_owned(), text))
    };
    let groups = parse_cgroups(&read_trimmed(roots, "/proc/self/cgroup").unwrap_or_default());
    ProbeMachine {
        processor: model.map(str::to_owned).filter(|m| !m.is_empty()),
        governor: read_trimmed(roots, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        memory_bytes: Some(memory_bytes).filter(|b| *b > 0),
        queue: if is_block_device { QUEUE_SETTINGS.iter().filter_map(setting).collect() } else { BTreeMap::new() },
        io_limits: read_io_limits(roots, &groups),
        cgroup: groups.into_iter().next().map(|g| g.path),
    }
}

fn read_trimmed(roots: &Roots, path: &str) -> Option<String> {
    let text = fs::read_to_string(roots.resolve_path(path)).ok()?;
    Some(text.trim().to_owned()).filter(|t| !t.is_empty())
}

/// A cgroup of a process.
#[derive(Debug, PartialEq)]
struct ProcessCgroup {
    /// True for version 2, false for the blkio controller of version 1.
    is_unified: bool,
    path: String,
}

/// Returns the process's cgroups that can limit I/O, version 1's blkio first if there is one.
fn parse_cgroups(text: &str) -> Vec<ProcessCgroup> {
    let parse_line = |line: &str| {
        let mut fields = line.splitn(3, ':');
        let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let is_unified = number == "0" && controllers.is_empty();
        (is_unified || controllers.split(',').any(|c| c == "blkio"))
            .then(|| ProcessCgroup { is_unified, path: path.to_owned() })
    };
    let mut groups: Vec<ProcessCgroup> = text.lines().filter_map(parse_line).collect();
    groups.sort_by_key(|g| g.is_unified);
    groups
}

/// Returns the I/O limits of these cgroups and of their parents, a line each.
fn read_io_limits(roots: &Roots, groups: &[ProcessCgroup]) -> Vec<String> {
    let mounts = mountinfo::parse_mounts(&fs::read(roots.resolve_path("/proc/self/mountinfo")).unwrap_or_default());
    let mut found = Vec::new();
    for group in groups {
        let is_hierarchy = |m: &&mountinfo::Mount| {
            if group.is_unified { m.kind == "cgroup2" } else { m.kind == "cgroup" && m.point.contains("blkio") }
        };
        let Some(mount) = mounts.iter().find(is_hierarchy) else { continue };
        let files: &[&str] = if group.is_unified { &["io.max"] } else { THROTTLE_FILES };
        // a parent's limit applies to all its descendants
        let mut path = group.path.trim_end_matches('/');
        loop {
            for file in files {
                let text = read_trimmed(roots, &format!("{}{path}/{file}", mount.point)).unwrap_or_default();
                let shown = if path.is_empty() { "/" } else { path };
                found.extend(text.lines().map(|line| format!("{shown} {file}: {line}")));
            }
            match path.rsplit_once('/') {
                Some((parent, _)) => path = parent,
                None => break,
            }
        }
    }
    found.truncate(MAX_LIMITS);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a machine made of files in a temporary folder.
    fn made_up(files: &[(&str, &str)]) -> (tempfile::TempDir, Roots) {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let place = folder.path().join(path.trim_start_matches('/'));
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::write(place, text).unwrap();
        }
        let roots = Roots::from_root(folder.path());
        (folder, roots)
    }

    #[test]
    fn reads_what_is_there_and_leaves_out_what_is_missing() {
        let (_folder, roots) = made_up(&[
            ("/proc/cpuinfo", "processor\t: 0\nmodel name\t: Slow 486\nmodel name\t: Other\n"),
            ("/sys/block/sda/queue/nr_requests", "64\n"),
            ("/sys/block/sda/queue/read_ahead_kb", "128\n"),
            ("/proc/self/cgroup", "4:cpu,cpuacct:/x\n3:blkio:/a/b\n0::/u\n"),
            (
                "/proc/self/mountinfo",
                "30 29 0:26 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n\
                 31 29 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
            ),
            ("/sys/fs/cgroup/blkio/a/blkio.throttle.read_iops_device", "8:0 50\n"),
            ("/sys/fs/cgroup/unified/u/io.max", "8:0 rbps=1048576 wbps=max\n"),
        ]);
        let seen = read_machine(&roots, "sda", 0);
        assert_eq!((seen.processor.as_deref(), seen.governor, seen.memory_bytes), (Some("Slow 486"), None, None));
        assert_eq!(seen.queue["nr_requests"], "64");
        assert_eq!(seen.queue.len(), 2);
        assert_eq!(seen.cgroup.as_deref(), Some("/a/b"));
        let expected = ["/a blkio.throttle.read_iops_device: 8:0 50", "/u io.max: 8:0 rbps=1048576 wbps=max"];
        assert_eq!(seen.io_limits, expected);
        assert_eq!(
            read_machine(&made_up(&[]).1, "sda", 5),
            ProbeMachine { memory_bytes: Some(5), ..ProbeMachine::default() }
        );
    }
}
