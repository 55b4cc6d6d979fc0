//! The control groups of this process, version 1 or 2, and their limits: a program in a container has fewer resources
//! than the machine. The limits of all groups above the innermost apply too.

use std::fs;
use std::path::{Path, PathBuf};

use crate::mounts::{self, MountRow};

/// Memory limit from which version 1 means "no limit": the kernel then reports almost 2^63; no machine has so much.
const UNLIMITED_BYTES: u64 = 1 << 60;

/// The groups of this process in the hierarchy of a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnCgroup {
    /// Folder of the innermost group first, then those of the groups above it, as far as they are visible.
    folders: Vec<PathBuf>,
    /// True for version 2.
    is_unified: bool,
}

/// A mount of control groups.
struct CgroupMount {
    /// The group that is mounted.
    root: PathBuf,
    point: PathBuf,
    is_unified: bool,
}

/// Returns the mount of a controller: of version 1 if there is one, else of version 2.
fn find_cgroup_mount(mountinfo: &str, controller: &str) -> Option<CgroupMount> {
    let cgroup_mount = |row: MountRow<'_>| {
        let is_unified = match row.kind {
            "cgroup2" => true,
            "cgroup" if row.options.split(',').any(|option| option == controller) => false,
            _ => return None,
        };
        Some(CgroupMount { root: row.root, point: row.point, is_unified })
    };
    mounts::parse_mounts(mountinfo).filter_map(cgroup_mount).min_by_key(|mount| mount.is_unified)
}

impl OwnCgroup {
    /// Finds the group for a controller (`cpu`, `memory`). `machine` is the machine's root folder, `/` for this one.
    #[must_use]
    pub fn for_controller(machine: &Path, controller: &str) -> Option<OwnCgroup> {
        let mount = find_cgroup_mount(&mounts::read_table(machine.join("proc/self/mountinfo")), controller)?;
        let groups = mounts::read_table(machine.join("proc/self/cgroup"));
        let path = groups.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            let is_match = if mount.is_unified {
                controllers.is_empty()
            } else {
                controllers.split(',').any(|name| name == controller)
            };
            is_match.then_some(path)
        })?;
        let top = machine.join(mount.point.strip_prefix("/").unwrap_or(&mount.point));
        // in a container, its own group may be mounted as the whole hierarchy, while the path is the one seen outside
        let relative = Path::new(path).strip_prefix(&mount.root).unwrap_or(Path::new(""));
        let innermost = Some(top.join(relative)).filter(|folder| folder.is_dir()).unwrap_or_else(|| top.clone());
        let folders = innermost.ancestors().take_while(|folder| folder.starts_with(&top)).map(Path::to_owned).collect();
        Some(OwnCgroup { folders, is_unified: mount.is_unified })
    }

    /// Folder of the innermost group.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folders[0]
    }

    /// Folder of the innermost group, then those of the groups above it.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        self.folders.iter().map(PathBuf::as_path)
    }

    /// Folder of each group that has a file, and the file's text; its name is `unified` in version 2, `old` in 1.
    fn read_files<'a>(&'a self, unified: &'a str, old: &'a str) -> impl Iterator<Item = (&'a Path, String)> {
        let name = if self.is_unified { unified } else { old };
        self.folders().filter_map(move |folder| Some((folder, fs::read_to_string(folder.join(name)).ok()?)))
    }
}

fn parse_number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// Returns the value of a named line of a table: `throttled_usec 5`.
fn table_value(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| parse_number(line.strip_prefix(name)?.strip_prefix(' ')?))
}

/// Memory that the limits of this process's groups leave to it, bytes; reclaimable file pages count as free. `None`
/// if there is no limit.
#[must_use]
pub fn memory_left_bytes(machine: &Path) -> Option<u64> {
    let group = OwnCgroup::for_controller(machine, "memory")?;
    let (usage, pages) = match group.is_unified {
        true => ("memory.current", ["active_file", "inactive_file"]),
        false => ("memory.usage_in_bytes", ["total_active_file", "total_inactive_file"]),
    };
    let limits = group.read_files("memory.max", "memory.limit_in_bytes");
    let left_bytes = |(folder, limit): (&Path, String)| {
        let limit = parse_number(&limit).filter(|limit| *limit < UNLIMITED_BYTES)?;
        let used = parse_number(&fs::read_to_string(folder.join(usage)).ok()?)?;
        let stat = fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
        let file_bytes: u64 = pages.iter().filter_map(|name| table_value(&stat, name)).sum();
        Some(limit.saturating_sub(used.saturating_sub(file_bytes)))
    };
    limits.filter_map(left_bytes).min()
}

/// Memory that the machine has available, bytes; `None` if the kernel does not report it.
#[must_use]
pub fn machine_available_bytes(machine: &Path) -> Option<u64> {
    let text = fs::read_to_string(machine.join("proc/meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    parse_number(line.trim().strip_suffix("kB")?)?.checked_mul(1024)
}

/// Memory that this process can get, bytes: the memory available on the machine, within the limits of its groups.
#[must_use]
pub fn available_memory_bytes(machine: &Path) -> Option<u64> {
    machine_available_bytes(machine).into_iter().chain(memory_left_bytes(machine)).min()
}

/// The tightest limit of processor time of this process's groups: quota and period, microseconds.
#[must_use]
pub fn processor_limit(machine: &Path) -> Option<(u64, u64)> {
    let group = OwnCgroup::for_controller(machine, "cpu")?;
    let limits = group.read_files("cpu.max", "cpu.cfs_quota_us").filter_map(|(folder, text)| {
        let mut words = text.split_whitespace();
        let quota = parse_number(words.next()?)?;
        let period = match words.next() {
            Some(period) => parse_number(period)?,
            None => parse_number(&fs::read_to_string(folder.join("cpu.cfs_period_us")).ok()?)?,
        };
        (period > 0).then_some((quota, period))
    });
    limits.min_by(|a, b| (a.0 as f64 / a.1 as f64).total_cmp(&(b.0 as f64 / b.1 as f64)))
}

/// Time for which each of this process's groups was throttled by its processor limit, seconds; the innermost group
/// first. Empty if the kernel does not report it.
#[must_use]
pub fn throttled_s(machine: &Path) -> Vec<f64> {
    let Some(group) = OwnCgroup::for_controller(machine, "cpu") else { return Vec::new() };
    let throttled = group.read_files("cpu.stat", "cpu.stat").filter_map(|(_, text)| {
        let unified_s = table_value(&text, "throttled_usec").map(|us| us as f64 / 1e6);
        unified_s.or_else(|| table_value(&text, "throttled_time").map(|ns| ns as f64 / 1e9))
    });
    throttled.collect()
}

/// Returns true if a limit of processor time, memory or disks applies to this process.
#[must_use]
pub fn is_limited(machine: &Path) -> bool {
    let disk_limits = ["read_bps_device", "write_bps_device", "read_iops_device", "write_iops_device"];
    let has_disk_limit = || {
        let Some(group) = OwnCgroup::for_controller(machine, "blkio") else { return false };
        let is_set = |name: String| group.read_files("io.max", &name).any(|(_, text)| !text.trim().is_empty());
        disk_limits.iter().any(|limit| is_set(format!("blkio.throttle.{limit}")))
    };
    processor_limit(machine).is_some() || memory_left_bytes(machine).is_some() || has_disk_limit()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    const VERSION_2: (&str, &str) =
        ("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw,nsdelegate\n");

    #[test]
    fn limits_of_version_2_apply_at_each_level() {
        let root = machine(&[
            VERSION_2,
            ("proc/self/cgroup", "0::/app/web\n"),
            ("sys/fs/cgroup/app/cpu.max", "50000 100000\n"),
            ("sys/fs/cgroup/app/cpu.stat", "usage_usec 9\nthrottled_usec 2500000\n"),
            ("sys/fs/cgroup/app/web/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/app/web/cpu.stat", "usage_usec 9\nthrottled_usec 0\n"),
            ("sys/fs/cgroup/app/memory.max", "1000\n"),
            ("sys/fs/cgroup/app/memory.current", "700\n"),
            ("sys/fs/cgroup/app/memory.stat", "file 400\nactive_file 100\ninactive_file 200\n"),
            ("sys/fs/cgroup/app/web/memory.max", "max\n"),
            ("sys/fs/cgroup/app/web/memory.current", "600\n"),
        ]);
        assert_eq!(processor_limit(root.path()), Some((50_000, 100_000)));
        assert_eq!((throttled_s(root.path()), memory_left_bytes(root.path())), (vec![0.0, 2.5], Some(600)));
        assert_eq!(available_memory_bytes(root.path()), Some(600));
        fs::write(root.path().join("proc/meminfo"), "MemTotal: 9 kB\nMemAvailable:    0 kB\n").unwrap();
        assert_eq!(available_memory_bytes(root.path()), Some(0));
        let own = OwnCgroup::for_controller(root.path(), "memory").unwrap();
        assert!(own.folder().ends_with("app/web") && own.folders().count() == 3 && is_limited(root.path()));
    }

    /// The kernel writes the bytes of a name as they are: here a disk that is mounted at a name in Latin-1.
    #[test]
    fn a_mount_with_a_non_utf8_name_hides_no_limit() {
        let root = machine(&[VERSION_2, ("proc/self/cgroup", "0::/\n"), ("sys/fs/cgroup/memory.max", "1000\n")]);
        fs::write(root.path().join("sys/fs/cgroup/memory.current"), "400\n").unwrap();
        let mut table = b"29 23 8:17 / /mnt/B\xf6se rw - ext4 /dev/sdb1 rw\n".to_vec();
        table.extend_from_slice(VERSION_2.1.as_bytes());
        fs::write(root.path().join("proc/self/mountinfo"), table).unwrap();
        assert_eq!(memory_left_bytes(root.path()), Some(600));
    }

    #[test]
    fn limits_of_version_1_are_read_where_each_controller_is_mounted() {
        let rows = "31 23 0:28 / /sys/fs/cgroup/cpu\\040x rw shared:5 - cgroup cgroup rw,cpu,cpuacct\n\
                    32 23 0:29 /docker/7 /sys/fs/cgroup/memory rw shared:6 - cgroup cgroup rw,memory\n\
                    33 23 0:30 / /sys/fs/cgroup/unified rw shared:7 - cgroup2 cgroup2 rw\n";
        let root = machine(&[
            ("proc/self/mountinfo", rows),
            ("proc/self/cgroup", "4:memory:/docker/7\n2:cpu,cpuacct:/a\n0::/\n"),
            ("sys/fs/cgroup/cpu x/a/cpu.cfs_quota_us", "150000\n"),
            ("sys/fs/cgroup/cpu x/a/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/cpu x/a/cpu.stat", "nr_periods 4\nnr_throttled 2\nthrottled_time 1500000000\n"),
            ("sys/fs/cgroup/cpu x/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "500\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "450\n"),
            ("sys/fs/cgroup/memory/memory.stat", "active_file 1\ntotal_active_file 10\ntotal_inactive_file 20\n"),
        ]);
        assert_eq!((processor_limit(root.path()), throttled_s(root.path())), (Some((150_000, 100_000)), vec![1.5]));
        // the container's own group is all that is mounted
        assert_eq!(memory_left_bytes(root.path()), Some(80));
    }

    #[test]
    fn a_group_without_limits_has_none() {
        let root = machine(&[
            VERSION_2,
            ("proc/self/cgroup", "0::/gone\n"),
            ("sys/fs/cgroup/memory.max", "max\n"),
            ("sys/fs/cgroup/memory.current", "1\n"),
            ("sys/fs/cgroup/io.max", "\n"),
        ]);
        assert_eq!(available_memory_bytes(root.path()), None);
        assert!(!is_limited(root.path()) && OwnCgroup::for_controller(root.path(), "cpu").is_some());
        // version 1 writes a number near the largest
        let rows = "32 23 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let root = machine(&[
            ("proc/self/mountinfo", rows),
            ("proc/self/cgroup", "4:memory:/\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "1\n"),
        ]);
        assert_eq!((memory_left_bytes(root.path()), is_limited(root.path())), (None, false));
        assert_eq!(OwnCgroup::for_controller(machine(&[]).path(), "cpu"), None);
    }
}
