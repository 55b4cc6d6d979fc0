//! Checks whether this machine can run a class, and why not. The checks write nothing.

use std::fs;
use std::path::Path;

use diskwright_baseline::circumstances::parse_processor_times;
use diskwright_counters::live::mountinfo::{self, Mount};
use diskwright_hostfiles::mounts::read_table;
use diskwright_hostfiles::{cgroup, programs};
use diskwright_stress::cgroup::CgroupRoots;
use diskwright_stress::class::StressClass;
use diskwright_stress::loads::needed_mib;
use diskwright_stress::{safety, swap};
use diskwright_workload::files::check_free_space;

/// Number of processors that threads may run on.
pub fn processor_count() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Returns why this machine cannot run a class, if it cannot.
pub fn find_obstacle(class: &StressClass, folder: &Path) -> Option<String> {
    let checks: [&dyn Fn() -> Option<String>; 6] = [
        &|| {
            let has_too_few = processor_count() < class.min_processors;
            has_too_few.then(|| {
                format!("it needs {} processors; this process may use {}", class.min_processors, processor_count())
            })
        },
        &|| memory_obstacle(class),
        &|| cgroup_obstacle(class),
        &|| disk_obstacle(class, folder),
        &|| swap_obstacle(class),
        &|| (class.needs_ring && !diskwright_probe::engine::ring::has_io_uring()).then(|| "no io_uring here".into()),
    ];
    checks.iter().find_map(|check| check())
}

fn memory_obstacle(class: &StressClass) -> Option<String> {
    let (available, reserve) = safety::available_and_reserve(Path::new("/proc/meminfo"))?;
    // the load's cgroup will be a child of this process's cgroup, whose limit applies too
    let usable_mib =
        available.saturating_sub(reserve).min(cgroup::memory_left_bytes(Path::new("/")).unwrap_or(u64::MAX)) >> 20;
    let needed = needed_mib(class, processor_count());
    (usable_mib < needed).then(|| format!("it needs {needed} MiB of memory; {usable_mib} MiB may be used"))
}

/// Tests a memory limit on a cgroup that is removed at once.
fn cgroup_obstacle(class: &StressClass) -> Option<String> {
    if class.limit_mib == 0 {
        return None;
    }
    let result = CgroupRoots::of_host().create_group(Some(class.limit_mib << 20));
    result.err().map(|error| format!("it needs a cgroup with a memory limit: {error}"))
}

fn disk_obstacle(class: &StressClass, folder: &Path) -> Option<String> {
    if class.needed_bytes() == 0 {
        return None;
    }
    if let Err(error) = check_free_space(&[(folder, class.needed_bytes())]) {
        return Some(error.to_string());
    }
    let real_folder = fs::canonicalize(folder).ok()?;
    not_on_disk_reason(&mountinfo::parse_mounts(&fs::read("/proc/self/mountinfo").unwrap_or_default()), &real_folder)
}

/// Returns why a folder is not on a disk of this machine.
fn not_on_disk_reason(mounts: &[Mount], folder: &Path) -> Option<String> {
    // a name may hold any bytes; the mount table escapes non-text in the same form
    let mount = mountinfo::find_mount(mounts, &folder.to_string_lossy())?;
    let folder_name = folder.display();
    if mount.is_memory() {
        return Some(format!("{folder_name} is in memory ({}); give a folder on a disk with --dir", mount.kind));
    }
    (mount.is_remote() || !(mount.is_on_disk() || mount.kind == "overlay")).then(|| {
        format!("{folder_name} is not on a disk of this machine ({}); give a folder on one with --dir", mount.kind)
    })
}

/// Returns why a swap file cannot be added if swap space is too small: that needs root and three programs.
fn swap_obstacle(class: &StressClass) -> Option<String> {
    if !needs_swap_file(class) {
        return None;
    }
    if !rustix::process::geteuid().is_root() {
        return Some("there is too little swap space, and adding some needs root".into());
    }
    let missing = ["mkswap", "swapon", "swapoff"].into_iter().find(|name| programs::find_program(name).is_none())?;
    Some(format!("there is too little swap space, and the program {missing}, which adds some, is missing"))
}

/// True if a class needs more swap space than there is.
pub fn needs_swap_file(class: &StressClass) -> bool {
    swap::free_swap_bytes(&read_table("/proc/swaps")) < class.swap_mib << 20
}

/// Beginning of an interval over which the use of the processors is measured: processor times used, idle and stolen.
pub struct ProcessorUse(Option<(f64, f64, f64)>);

impl ProcessorUse {
    /// Starts an interval.
    pub fn start_reading() -> ProcessorUse {
        ProcessorUse(ProcessorUse::processor_times())
    }

    fn processor_times() -> Option<(f64, f64, f64)> {
        parse_processor_times(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// Share of the processors in use since the start of the interval. Stolen time counts, because no load here can use
    /// it.
    pub fn busy_share(&self) -> Option<f64> {
        share_used(self.0?, ProcessorUse::processor_times()?)
    }
}

/// Share used between two readings of the times used, idle and stolen.
fn share_used(before: (f64, f64, f64), after: (f64, f64, f64)) -> Option<f64> {
    let used = (after.0 - before.0).max(0.0) + (after.2 - before.2).max(0.0);
    let total = used + (after.1 - before.1).max(0.0);
    (total > 0.0).then(|| used / total)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn rejects_folders_in_memory_or_on_another_machine() {
        let mounts = mountinfo::parse_mounts(
            b"25 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 25 0:26 / /mem rw - tmpfs tmpfs rw\n\
              31 25 0:27 / /far\xff rw - nfs4 server:/x rw\n",
        );
        let refused = |name: &[u8]| not_on_disk_reason(&mounts, Path::new(OsStr::from_bytes(name)));
        assert_eq!([refused(b"/data"), refused(b"/data/\xfc")], [None, None]);
        assert!(refused(b"/mem/a").is_some_and(|why| why.contains("is in memory (tmpfs)")));
        assert!(refused(b"/mem/\xfc").is_some_and(|why| why.contains("is in memory (tmpfs)")));
        assert!(refused(b"/far\xff/a").is_some_and(|why| why.contains("not on a disk of this machine (nfs4)")));
    }

    #[test]
    fn idle_and_waiting_are_not_used() {
        assert_eq!(share_used((10.0, 100.0, 1.0), (12.0, 105.0, 2.0)), Some(0.375));
        assert_eq!(share_used((10.0, 100.0, 1.0), (10.0, 100.0, 1.0)), None);
    }
}
