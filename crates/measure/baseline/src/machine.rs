//! Properties of the machine, and the array sizes that a measurement needs on it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use diskwright_hostfiles::cgroup;
use serde::{Deserialize, Serialize};

/// Smallest size of a STREAM array, as a multiple of the largest cache.
const STREAM_CACHE_MULTIPLE: u64 = 4;
/// Assumed size of the largest cache if the kernel does not report it, bytes.
const DEFAULT_CACHE_BYTES: u64 = 32 << 20;

/// Sizes of the memory that the work may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkingSizes {
    /// Size of each of the three arrays for one thread, bytes.
    pub array_bytes: u64,
    /// Size of each array for all threads together, which use all caches of the last level, bytes.
    pub all_threads_bytes: u64,
    /// Memory available to programs, bytes.
    pub available_bytes: u64,
}

/// The machine that was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BaselineMachine {
    /// Host name.
    pub host: String,
    /// Model of the processor, if the kernel reports it.
    pub processor: Option<String>,
    /// Processors that this program may use.
    pub processors: usize,
    /// Processors that are online.
    pub online: usize,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// Sizes of the first processor's caches, bytes: `L1d`, `L2`, `L3`.
    pub caches: BTreeMap<String, u64>,
    /// Total size of all caches of the last level, bytes; 0 if the kernel does not report it.
    pub last_level_bytes: u64,
    /// Kernel release.
    pub kernel: String,
    /// Frequency governor, if there is one.
    pub governor: Option<String>,
    /// Transparent huge pages: `always`, `madvise` or `never`.
    pub huge_pages: Option<String>,
    /// Tightest limit on processor time of this program's cgroups: quota and period, microseconds,
    /// separated by a space.
    pub processor_limit: Option<String>,
}

/// Reads a file below the root, trimmed; `None` if it is missing or empty.
fn read_text(root: &Path, path: &str) -> Option<String> {
    let text = fs::read_to_string(root.join(path)).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Parses a size as sysfs writes it: `32K`.
fn parse_cache_size(text: &str) -> Option<u64> {
    let unit = match text.as_bytes().last()? {
        b'K' => 10,
        b'M' => 20,
        _ => 0,
    };
    text.trim_end_matches(['K', 'M']).parse::<u64>().ok().map(|number| number << unit)
}

/// Reads the sizes of the first processor's caches, bytes.
fn read_caches(root: &Path) -> BTreeMap<String, u64> {
    let folder = "sys/devices/system/cpu/cpu0/cache";
    let entries = fs::read_dir(root.join(folder)).into_iter().flatten().flatten();
    let read_cache = |name: String| {
        let read_file = |file: &str| read_text(root, &format!("{folder}/{name}/{file}"));
        let kind = match read_file("type")?.as_str() {
            "Data" => "d",
            "Instruction" => "i",
            _ => "",
        };
        Some((format!("L{}{kind}", read_file("level")?), parse_cache_size(&read_file("size")?)?))
    };
    entries.filter_map(|entry| read_cache(entry.file_name().into_string().ok()?)).collect()
}

/// Returns the total size of all caches of the last level, bytes; a cache that processors share
/// counts once.
fn last_level_cache_bytes(root: &Path) -> u64 {
    let folders = |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut caches: BTreeMap<(u64, String), u64> = BTreeMap::new();
    for processor in folders(root.join("sys/devices/system/cpu")) {
        for cache in folders(processor.join("cache")) {
            let level = read_text(&cache, "level").and_then(|level| level.parse().ok());
            let bytes = read_text(&cache, "size").and_then(|bytes| parse_cache_size(&bytes));
            let (Some(level), Some(bytes)) = (level, bytes) else { continue };
            if read_text(&cache, "type").as_deref() != Some("Instruction") {
                caches.insert((level, read_text(&cache, "shared_cpu_list").unwrap_or_default()), bytes);
            }
        }
    }
    let last_level = caches.keys().map(|(level, _)| *level).max();
    caches.iter().filter(|((level, _), _)| Some(*level) == last_level).map(|(_, bytes)| *bytes).sum()
}

/// Reads a line of `/proc/meminfo`, bytes.
fn read_meminfo_bytes(root: &Path, name: &str) -> Option<u64> {
    let text = read_text(root, "proc/meminfo")?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

impl BaselineMachine {
    /// Reads the machine whose files lie below a folder, `/` for this one.
    #[must_use]
    pub fn read(root: &Path) -> BaselineMachine {
        let cpuinfo = read_text(root, "proc/cpuinfo").unwrap_or_default();
        let model = |line: &str| line.strip_prefix("model name")?.split_once(':').map(|(_, m)| m.trim().to_owned());
        let active_choice = |text: String| text.split(['[', ']']).nth(1).map(str::to_owned);
        BaselineMachine {
            host: read_text(root, "proc/sys/kernel/hostname").unwrap_or_default(),
            processor: cpuinfo.lines().find_map(model),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            online: cpuinfo.lines().filter(|line| line.starts_with("processor")).count(),
            memory_bytes: read_meminfo_bytes(root, "MemTotal").unwrap_or(0),
            caches: read_caches(root),
            last_level_bytes: last_level_cache_bytes(root),
            kernel: read_text(root, "proc/sys/kernel/osrelease").unwrap_or_default(),
            governor: read_text(root, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            huge_pages: read_text(root, "sys/kernel/mm/transparent_hugepage/enabled").and_then(active_choice),
            processor_limit: cgroup::processor_limit(root).map(|(quota, period)| format!("{quota} {period}")),
        }
    }

    /// Returns the number of processors that the limit of its cgroups leaves to this program.
    #[must_use]
    pub fn limited_processors(&self) -> Option<f64> {
        let (quota, period) = self.processor_limit.as_ref()?.split_once(' ')?;
        let (quota, period) = (quota.parse::<f64>().ok()?, period.parse::<f64>().ok()?);
        Some(quota / period).filter(|processors| processors.is_finite())
    }

    /// Returns the size of the largest cache, bytes.
    #[must_use]
    pub fn largest_cache_bytes(&self) -> Option<u64> {
        self.caches.values().copied().max()
    }

    /// Returns the array sizes: four times the caches that are used, as STREAM requires (for one
    /// thread the largest cache, for all threads all caches of the last level), but all three
    /// arrays in at most a quarter of the available memory.
    #[must_use]
    pub fn working_sizes(&self, root: &Path) -> WorkingSizes {
        // exceeding the limit of its cgroup would kill this program, not slow it down
        let available_bytes = cgroup::available_memory_bytes(root).unwrap_or(self.memory_bytes / 2);
        let max_bytes = available_bytes / 12;
        let one_thread = STREAM_CACHE_MULTIPLE * self.largest_cache_bytes().unwrap_or(DEFAULT_CACHE_BYTES);
        let all_threads = one_thread.max(STREAM_CACHE_MULTIPLE * self.last_level_bytes);
        WorkingSizes {
            array_bytes: one_thread.min(max_bytes),
            all_threads_bytes: all_threads.min(max_bytes),
            available_bytes,
        }
    }

    /// Returns a remark if the arrays are smaller than they should be.
    #[must_use]
    pub fn small_array_remark(&self, sizes: &WorkingSizes) -> Option<String> {
        let cache = self.largest_cache_bytes()?;
        let is_small = sizes.array_bytes < STREAM_CACHE_MULTIPLE * cache
            || sizes.all_threads_bytes < STREAM_CACHE_MULTIPLE * self.last_level_bytes;
        is_small.then(|| {
            "there is no memory for arrays of four times the caches: bandwidth is partly that of a cache".into()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_sysfs_writes_them() {
        assert_eq!(
            [parse_cache_size("32K"), parse_cache_size("16M"), parse_cache_size("64"), parse_cache_size("")],
            [Some(32768), Some(16 << 20), Some(64), None]
        );
    }

    #[test]
    fn a_machine_is_read_from_its_files() {
        let root = tempfile::tempdir().expect("a folder");
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        };
        put("proc/cpuinfo", "processor\t: 0\nmodel name\t: Fast 9\nprocessor\t: 1\nmodel name\t: Fast 9\n");
        put("proc/meminfo", "MemTotal:  4096 kB\nMemFree: 1 kB\nMemAvailable:  3072 kB\n");
        put("proc/sys/kernel/hostname", "db1\n");
        put("proc/self/cgroup", "0::/a/b\n");
        put("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        put("sys/fs/cgroup/a/b/cpu.max", "50000 100000\n");
        put("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
        for (index, level, kind, size) in
            [(0, 1, "Data", "32K"), (1, 1, "Instruction", "32K"), (2, 3, "Unified", "64K")]
        {
            let folder = format!("sys/devices/system/cpu/cpu0/cache/index{index}");
            put(&format!("{folder}/level"), &level.to_string());
            put(&format!("{folder}/type"), kind);
            put(&format!("{folder}/size"), size);
        }
        let machine = BaselineMachine::read(root.path());
        assert_eq!((machine.host.as_str(), machine.processor.as_deref()), ("db1", Some("Fast 9")));
        assert_eq!((machine.online, machine.memory_bytes), (2, 4 << 20));
        assert_eq!(
            (machine.huge_pages.as_deref(), machine.processor_limit.as_deref()),
            (Some("madvise"), Some("50000 100000"))
        );
        assert_eq!((machine.caches["L1d"], machine.largest_cache_bytes()), (32768, Some(65536)));
        assert_eq!(machine.limited_processors(), Some(0.5));
        // four times 64 KiB are 256 KiB, and a twelfth of 3 MiB is as much
        let sizes = machine.working_sizes(root.path());
        assert_eq!((sizes.array_bytes, machine.small_array_remark(&sizes)), (262_144, None));
        assert!(machine.small_array_remark(&WorkingSizes { array_bytes: 1024, ..sizes }).is_some());
        // a cgroup may have less memory than the machine
        put("sys/fs/cgroup/a/memory.max", "130000\n");
        put("sys/fs/cgroup/a/memory.current", "10000\n");
        let sizes = machine.working_sizes(root.path());
        assert_eq!(sizes, WorkingSizes { array_bytes: 10_000, all_threads_bytes: 10_000, available_bytes: 120_000 });
        assert!(machine.small_array_remark(&sizes).is_some());
    }

    /// Processors 0 and 1 share a cache of the last level, 2 has its own: 128 KiB for all threads, 64 for one.
    #[test]
    fn threads_on_all_processors_use_all_caches_of_the_last_level() {
        let root = tempfile::tempdir().expect("a folder");
        for (processor, shared) in [(0, "0-1"), (1, "0-1"), (2, "2")] {
            for (index, level, size, list) in [(0, "1", "32K", processor.to_string()), (1, "3", "64K", shared.into())] {
                let folder = format!("sys/devices/system/cpu/cpu{processor}/cache/index{index}");
                let folder = root.path().join(folder);
                fs::create_dir_all(&folder).expect("made");
                let list = ("shared_cpu_list", list.as_str());
                for (file, text) in [("level", level), ("size", size), ("type", "Data"), list] {
                    fs::write(folder.join(file), text).expect("written");
                }
            }
        }
        fs::create_dir_all(root.path().join("proc")).expect("made");
        fs::write(root.path().join("proc/meminfo"), "MemTotal: 64000 kB\nMemAvailable: 60000 kB\n").expect("written");
        let machine = BaselineMachine::read(root.path());
        assert_eq!((machine.last_level_bytes, machine.largest_cache_bytes()), (128 << 10, Some(64 << 10)));
        let sizes = machine.working_sizes(root.path());
        assert_eq!(
            (sizes.array_bytes, sizes.all_threads_bytes, machine.small_array_remark(&sizes)),
            (256 << 10, 512 << 10, None)
        );
        assert!(machine.small_array_remark(&WorkingSizes { all_threads_bytes: 256 << 10, ..sizes }).is_some());
    }
}
