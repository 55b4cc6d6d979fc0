//! Cgroup of a load: version 2 if that has the memory controller, otherwise version 1. It is removed with its load. If
//! a load is killed, its empty group stays; the next load recognizes it by its name, and removes it.

use std::fs;
use std::path::{Path, PathBuf};

use diskwright_hostfiles::cgroup::{self, OwnCgroup};
use diskwright_hostfiles::mounts;
use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::{sched_getaffinity, sched_setaffinity};

use crate::memory_relief::{self, MemoryRelief};
use crate::{StressError, io_error};

/// Prefix of the names of cgroups of loads; the process id follows.
const GROUP_NAME_PREFIX: &str = "diskwright-stress-";
/// File of a group that lists the controllers delegated to its child groups.
const SUBTREE_CONTROL_FILE: &str = "cgroup.subtree_control";
/// Controllers of version 1 in which a load has a group: `memory` limits it, the others count its usage.
const CONTROLLERS: [&str; 4] = ["memory", "cpu", "cpuacct", "blkio"];

/// Roots below which cgroups of loads are created.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CgroupRoots {
    /// One root of version 2, or one for each controller of version 1.
    roots: Vec<PathBuf>,
    /// Root below which groups can have a memory limit.
    memory_root: Option<PathBuf>,
    /// True for version 2.
    is_unified: bool,
}

impl CgroupRoots {
    /// Finds the roots in a table of mounts (`/proc/self/mounts`).
    #[must_use]
    pub fn from_mounts(mounts: &str) -> CgroupRoots {
        let rows = mounts.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let rows: Vec<_> = rows.filter(|row| row.len() >= 4).collect();
        let point = |row: &Vec<&str>| PathBuf::from(row[1]);
        let unified = rows.iter().find(|row| row[2] == "cgroup2").map(point);
        if let Some(root) = unified.filter(|root| has_controller(&root.join("cgroup.controllers"), "memory")) {
            return CgroupRoots { roots: vec![root.clone()], memory_root: Some(root), is_unified: true };
        }
        let root_of = |controller: &str| {
            let has = |row: &&Vec<&str>| row[2] == "cgroup" && row[3].split(',').any(|option| option == controller);
            rows.iter().find(has).map(point)
        };
        let mut roots: Vec<PathBuf> = CONTROLLERS.iter().filter_map(|controller| root_of(controller)).collect();
        // several controllers may have one hierarchy
        roots.sort();
        roots.dedup();
        CgroupRoots { roots, memory_root: root_of("memory"), is_unified: false }
    }

    /// Finds the roots of the host. If the groups of this process have limits, the roots are these groups, so that the
    /// limits apply to a load, too.
    #[must_use]
    pub fn of_host() -> CgroupRoots {
        let roots = CgroupRoots::from_mounts(&mounts::read_table("/proc/self/mounts"));
        let host_root = Path::new("/");
        if cgroup::is_limited(host_root) { roots.below_own_groups(host_root) } else { roots }
    }

    /// Replaces the roots by the groups of this process; `host_root` is `/`, or the folder of a fake host.
    fn below_own_groups(self, host_root: &Path) -> CgroupRoots {
        let own = |controller: &str| OwnCgroup::for_controller(host_root, controller);
        if !self.is_unified {
            let folder = |controller: &str| Some(own(controller)?.folder().to_owned());
            // version 1 limits disks for the processes of a group, not for child groups: a load stays in our group
            let below = CONTROLLERS.iter().filter(|controller| **controller != "blkio");
            let mut roots: Vec<PathBuf> = below.filter_map(|controller| folder(controller)).collect();
            roots.sort();
            roots.dedup();
            return CgroupRoots { roots, memory_root: folder("memory"), is_unified: false };
        }
        let Some(own) = own("memory") else { return self };
        // a group can have a memory limit only below one that delegates this controller; a group with processes cannot
        // delegate it
        let delegates = |folder: &&Path| has_controller(&folder.join(SUBTREE_CONTROL_FILE), "memory");
        let memory_root = own.folders().find(delegates).map(Path::to_owned).or(self.memory_root);
        CgroupRoots { roots: vec![own.folder().to_owned()], memory_root, is_unified: true }
    }

    /// Removes groups that killed loads left, and returns their paths.
    #[must_use]
    pub fn remove_leftovers(&self) -> Vec<PathBuf> {
        let mut removed = Vec::new();
        let roots = self.roots.iter().chain(self.memory_root.iter().filter(|memory| !self.roots.contains(memory)));
        for entry in roots.filter_map(|root| fs::read_dir(root).ok()).flatten().flatten() {
            // the kernel removes no group with processes; but a group is empty too while its load is just starting, so
            // its creator must be gone
            let name = entry.file_name().to_string_lossy().into_owned();
            let creator = name.strip_prefix(GROUP_NAME_PREFIX).and_then(|id| id.parse::<u32>().ok());
            let is_leftover = creator.is_some_and(|id| !Path::new(&format!("/proc/{id}")).exists());
            if is_leftover && fs::remove_dir(entry.path()).is_ok() {
                removed.push(entry.path());
            }
        }
        removed
    }

    /// Creates a group for a load of this process, with a memory limit if one is given (bytes).
    ///
    /// # Errors
    /// The reason why none can be created.
    pub fn create_group(&self, limit: Option<u64>) -> Result<LoadGroup, StressError> {
        if self.roots.is_empty() {
            return Err(StressError::Unavailable("no cgroups are mounted".into()));
        }
        let mut group = LoadGroup {
            folders: Vec::new(),
            memory_folder: None,
            is_unified: self.is_unified,
            delegated_roots: Vec::new(),
            relief: None,
        };
        // version 2: a single group, below the root that allows a limit if one is given
        let roots: &[PathBuf] = match &self.memory_root {
            Some(memory) if self.is_unified && limit.is_some() => std::slice::from_ref(memory),
            _ => &self.roots,
        };
        for root in roots {
            let folder = root.join(format!("{GROUP_NAME_PREFIX}{}", std::process::id()));
            if self.is_unified {
                // without the permission to delegate, setting the limit below fails
                let control = root.join(SUBTREE_CONTROL_FILE);
                let was_delegated = has_controller(&control, "memory");
                if fs::write(&control, "+memory").is_ok() && !was_delegated {
                    group.delegated_roots.push(root.clone());
                }
            }
            fs::create_dir(&folder).map_err(io_error(&folder, "cannot create a cgroup"))?;
            if self.memory_root.as_ref() == Some(root) {
                group.memory_folder = Some(folder.clone());
            }
            group.folders.push(folder);
        }
        if let Some(limit) = limit {
            group.set_memory_limit(limit)?;
        }
        Ok(group)
    }
}

/// Returns true if a file lists a controller.
fn has_controller(list: &Path, controller: &str) -> bool {
    let text = fs::read_to_string(list).unwrap_or_default();
    text.split_whitespace().any(|name| name == controller)
}

/// Cgroup of a load, removed on drop.
#[derive(Debug)]
pub struct LoadGroup {
    folders: Vec<PathBuf>,
    /// Folder with the memory controller's files.
    memory_folder: Option<PathBuf>,
    is_unified: bool,
    /// Roots of version 2 that delegate the memory controller only since this group was created.
    delegated_roots: Vec<PathBuf>,
    /// `Some` if the group waits for memory instead of being killed.
    relief: Option<MemoryRelief>,
}

impl LoadGroup {
    fn set_memory_limit(&mut self, bytes: u64) -> Result<(), StressError> {
        let Some(folder) = &self.memory_folder else {
            return Err(StressError::Unavailable("the kernel has no memory controller for cgroups".into()));
        };
        let file = folder.join(if self.is_unified { "memory.max" } else { memory_relief::LIMIT_FILE });
        fs::write(&file, bytes.to_string()).map_err(io_error(&file, "the limit cannot be set"))?;
        if !self.is_unified {
            self.relief = MemoryRelief::start(folder, bytes);
        }
        Ok(())
    }

    /// Returns a message if the kernel killed a process of the load for lack of memory.
    #[must_use]
    pub fn oom_kill_reason(&self) -> Option<&'static str> {
        let file = if self.is_unified { "memory.events" } else { memory_relief::OOM_CONTROL_FILE };
        let text = fs::read_to_string(self.memory_folder.as_ref()?.join(file)).ok()?;
        (memory_relief::parse_table_value(&text, "oom_kill")? > 0)
            .then_some("killed by the kernel, out of memory in its cgroup")
    }

    /// Returns the `cgroup.procs` files, to which a process writes itself to enter the group.
    #[must_use]
    pub fn procs_files(&self) -> Vec<PathBuf> {
        self.folders.iter().map(|folder| folder.join("cgroup.procs")).collect()
    }

    /// Returns the file with the memory usage of the group.
    #[must_use]
    pub fn memory_usage_file(&self) -> Option<PathBuf> {
        let name = if self.is_unified { "memory.current" } else { "memory.usage_in_bytes" };
        self.memory_folder.as_ref().map(|folder| folder.join(name))
    }
}

/// Returns true if a load has a group below this root: without the controller, it would lose its limit.
fn has_loads(root: &Path) -> bool {
    let is_load = |entry: fs::DirEntry| entry.file_name().to_string_lossy().starts_with(GROUP_NAME_PREFIX);
    fs::read_dir(root).is_ok_and(|mut entries| entries.any(|entry| entry.is_ok_and(is_load)))
}

impl Drop for LoadGroup {
    fn drop(&mut self) {
        self.relief = None;
        // a group can be removed only when its last task is gone, which may be shortly after it was waited for
        for _ in 0..100 {
            self.folders.retain(|folder| folder.exists() && fs::remove_dir(folder).is_err());
            if self.folders.is_empty() {
                // undo the delegation of the memory controller
                for root in self.delegated_roots.drain(..).filter(|root| !has_loads(root)) {
                    let _ = fs::write(root.join(SUBTREE_CONTROL_FILE), "-memory");
                }
                return;
            }
            crate::run::sleep_for(std::time::Duration::from_millis(20));
        }
    }
}

/// Returns true if processes of a version 1 group wait for memory instead of being killed.
fn waits_for_memory(control: &Path) -> bool {
    fs::read_to_string(control).is_ok_and(|text| memory_relief::parse_table_value(&text, "oom_kill_disable") == Some(1))
}

/// Moves this process into a group, by its `cgroup.procs` files.
///
/// # Errors
/// If the kernel refuses.
pub fn enter_group(procs_files: &[PathBuf]) -> Result<(), StressError> {
    if procs_files
        .iter()
        .any(|procs_file| waits_for_memory(&procs_file.with_file_name(memory_relief::OOM_CONTROL_FILE)))
    {
        // the parent raises the limit for waiting processes. If it died, they would wait forever, and handle no signal
        // but SIGKILL
        set_parent_process_death_signal(Some(Signal::KILL))
            .map_err(io_error(Path::new("parent"), "cannot be followed"))?;
    }
    let before = sched_getaffinity(None).ok();
    procs_files.iter().try_for_each(|procs_file| {
        fs::write(procs_file, "0").map_err(io_error(procs_file, "the group cannot be entered"))
    })?;
    // entering the group may leave a cpuset and so allow more processors than before: restore the previous mask
    let Some(before) = before.filter(|before| sched_getaffinity(None).is_ok_and(|after| after != *before)) else {
        return Ok(());
    };
    sched_setaffinity(None, &before)
        .map_err(io_error(Path::new("processors"), "the group does not have those allowed before"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roots_from_mounts(folder: &Path, rows: &[(&str, &str, &str)]) -> CgroupRoots {
        let row = |(point, kind, options): &(&str, &str, &str)| {
            let point = folder.join(point);
            fs::create_dir_all(&point).unwrap();
            format!("none {} {kind} {options} 0 0\n", point.display())
        };
        CgroupRoots::from_mounts(&rows.iter().map(row).collect::<String>())
    }

    #[test]
    fn version_1_creates_a_group_for_each_controller() {
        let folder = tempfile::tempdir().unwrap();
        let rows = [
            ("memory", "cgroup", "rw,memory"),
            ("cpu", "cgroup", "rw,cpu,cpuacct"),
            ("unified", "cgroup2", "rw"),
            ("devices", "cgroup", "rw,devices"),
        ];
        let place = roots_from_mounts(folder.path(), &rows);
        let group = place.create_group(Some(1 << 20)).unwrap();
        assert_eq!(group.procs_files().len(), 2);
        let usage = group.memory_usage_file().unwrap();
        assert!(usage.starts_with(folder.path().join("memory")) && usage.ends_with("memory.usage_in_bytes"));
        let limit = usage.with_file_name("memory.limit_in_bytes");
        assert_eq!(fs::read_to_string(&limit).unwrap(), "1048576");
        // the kernel's OOM killer is off, and its counter is read
        let control = usage.with_file_name("memory.oom_control");
        assert_eq!(fs::read_to_string(&control).unwrap(), "1");
        assert_eq!(group.oom_kill_reason(), None);
        fs::write(&control, "oom_kill_disable 1\nunder_oom 0\noom_kill 1\n").unwrap();
        assert_eq!(group.oom_kill_reason(), Some("killed by the kernel, out of memory in its cgroup"));
        // an ordinary folder goes only when it is empty
        fs::remove_file(limit).unwrap();
        fs::remove_file(control).unwrap();
        drop(group);
        assert!(fs::read_dir(folder.path().join("memory")).unwrap().next().is_none());
    }

    #[test]
    fn version_2_creates_one_group_below_the_memory_controller() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("all")).unwrap();
        fs::write(folder.path().join("all/cgroup.controllers"), "cpu io memory\n").unwrap();
        let place = roots_from_mounts(folder.path(), &[("all", "cgroup2", "rw")]);
        let group = place.create_group(None).unwrap();
        assert!(group.procs_files().len() == 1 && group.memory_usage_file().unwrap().ends_with("memory.current"));
        assert_eq!(CgroupRoots::from_mounts("").create_group(None).unwrap_err().to_string(), "no cgroups are mounted");
        // the controller was not delegated before, and is not afterwards; another running load keeps it
        let control = folder.path().join("all").join(SUBTREE_CONTROL_FILE);
        let other = folder.path().join("all").join(format!("{GROUP_NAME_PREFIX}1"));
        let after = |group: LoadGroup| {
            drop(group);
            fs::read_to_string(&control).unwrap()
        };
        assert_eq!(after(group), "-memory");
        fs::create_dir(&other).unwrap();
        assert_eq!(after(place.create_group(None).unwrap()), "+memory");
        fs::remove_dir(&other).unwrap();
        fs::write(&control, "cpu memory\n").unwrap();
        assert_eq!(after(place.create_group(None).unwrap()), "+memory");
    }

    #[test]
    fn limits_of_this_process_bind_its_loads() {
        let folder = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("proc/self/cgroup", "0::/app/web\n");
        put("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        put("sys/fs/cgroup/cgroup.subtree_control", "cpu memory\n");
        put("sys/fs/cgroup/app/cgroup.subtree_control", "cpu memory\n");
        put("sys/fs/cgroup/app/web/cgroup.subtree_control", "\n");
        let top = folder.path().join("sys/fs/cgroup");
        let root = CgroupRoots { roots: vec![top.clone()], memory_root: Some(top.clone()), is_unified: true };
        let place = root.below_own_groups(folder.path());
        let (own, above) = (top.join("app/web"), top.join("app"));
        let expected = CgroupRoots { roots: vec![own.clone()], memory_root: Some(above.clone()), is_unified: true };
        assert_eq!(place, expected);
        let (free, limited) = (place.create_group(None).unwrap(), place.create_group(Some(1 << 20)).unwrap());
        assert!(free.folders[0].starts_with(&own) && free.folders.len() == 1);
        assert!(limited.folders[0].parent() == Some(&above) && limited.memory_usage_file().is_some());
        fs::write(limited.folders[0].join("memory.events"), "oom 3\noom_kill 0\n").unwrap();
        assert_eq!(limited.oom_kill_reason(), None);
        fs::write(limited.folders[0].join("memory.events"), "oom 3\noom_kill 2\n").unwrap();
        assert!(limited.oom_kill_reason().is_some());
        // an ordinary folder goes only when it is empty
        fs::remove_file(limited.folders[0].join("memory.max")).unwrap();
        fs::remove_file(limited.folders[0].join("memory.events")).unwrap();
        // version 1: each controller's own group
        put("proc/self/cgroup", "5:blkio:/c\n4:memory:/a\n2:cpu:/b\n");
        put(
            "proc/self/mountinfo",
            "31 23 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n33 23 0:30 / /sys/fs/cgroup/blkio rw - cgroup \
             cgroup rw,blkio\n32 23 0:29 / /sys/fs/cgroup/memory rw - cgroup \
             cgroup rw,memory\n",
        );
        fs::create_dir_all(top.join("cpu/b")).unwrap();
        fs::create_dir_all(top.join("memory/a")).unwrap();
        fs::create_dir_all(top.join("blkio/c")).unwrap();
        let place = CgroupRoots::default().below_own_groups(folder.path());
        assert_eq!(place.roots, [top.join("cpu/b"), top.join("memory/a")]);
        assert_eq!(place.memory_root, Some(top.join("memory/a")));
    }

    /// Environment variable that tells a child of this test how many MiB to fill, and its `cgroup.procs` file.
    const CHILD: &str = "DISKWRIGHT_TEST_GROUP";

    /// Runs a process in a group of this host that needs `mib` MiB; returns true if it got them.
    fn gets_memory_in_group(group: &LoadGroup, mib: usize) -> bool {
        let procs_file = group.memory_folder.as_ref().unwrap().join("cgroup.procs");
        let name = "cgroup::tests::a_group_of_version_1_waits_for_memory_and_a_death_has_its_reason";
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", name]).env(CHILD, format!("{mib} {}", procs_file.display()));
        child.output().unwrap().status.success()
    }

    #[test]
    fn a_group_of_version_1_waits_for_memory_and_a_death_has_its_reason() {
        const LIMIT: u64 = 32 << 20;
        if let Ok(text) = std::env::var(CHILD) {
            let (mib, procs_file) = text.split_once(' ').unwrap();
            enter_group(&[procs_file.into()]).unwrap();
            std::hint::black_box(vec![1_u8; mib.parse::<usize>().unwrap() << 20]);
            return;
        }
        let place = CgroupRoots::of_host();
        let has_swap = fs::read_to_string("/proc/swaps").is_ok_and(|swaps| swaps.lines().count() > 1);
        let created = if place.is_unified || has_swap { None } else { place.create_group(Some(LIMIT)).ok() };
        let Some(group) = created.filter(|group| group.relief.is_some()) else {
            eprintln!("skipped: no group of version 1 can be made here, or there is swap space");
            return;
        };
        // 1.5 times the limit: it waits until the limit is raised
        assert_eq!((gets_memory_in_group(&group, 48), group.oom_kill_reason()), (true, None));
        let limit = fs::read_to_string(group.memory_folder.as_ref().unwrap().join(memory_relief::LIMIT_FILE)).unwrap();
        let limit: u64 = limit.trim().parse().unwrap();
        assert!(limit > LIMIT && limit <= 2 * LIMIT, "{limit}");
        // four times the limit is too much
        assert!(!gets_memory_in_group(&group, 128));
        assert_eq!(group.oom_kill_reason(), Some("killed by the kernel, out of memory in its cgroup"));
    }

    /// The death signal is set for this test's thread only.
    #[test]
    fn a_process_that_may_wait_for_memory_dies_with_its_parent() {
        let folder = tempfile::tempdir().unwrap();
        let procs_file = folder.path().join("cgroup.procs");
        let entered = |control: &str| {
            fs::write(folder.path().join("memory.oom_control"), control).unwrap();
            enter_group(std::slice::from_ref(&procs_file)).unwrap();
            rustix::process::parent_process_death_signal().unwrap()
        };
        std::thread::scope(|scope| {
            let tried = || {
                assert_eq!(entered("oom_kill_disable 0\nunder_oom 0\n"), None);
                assert_eq!(entered("oom_kill_disable 1\nunder_oom 0\n"), Some(Signal::KILL));
            };
            scope.spawn(tried).join().unwrap();
        });
    }

    /// A version 1 cpuset accepts single threads: it contains only this test's thread.
    #[test]
    fn entering_a_group_keeps_the_allowed_processors() {
        let top = Path::new("/sys/fs/cgroup/cpuset");
        let narrow = top.join(format!("diskwright-test-{}", std::process::id()));
        let allowed = sched_getaffinity(None).unwrap();
        let last = (0..rustix::thread::CpuSet::MAX_CPU).rfind(|processor| allowed.is_set(*processor)).unwrap();
        if allowed.count() < 2 || fs::create_dir(&narrow).is_err() {
            eprintln!("skipped: no cpuset of version 1 can be made, or there is one processor only");
            return;
        }
        let within = || -> std::io::Result<_> {
            fs::write(narrow.join("cpuset.mems"), fs::read_to_string(top.join("cpuset.mems"))?)?;
            fs::write(narrow.join("cpuset.cpus"), last.to_string())?;
            fs::write(narrow.join("tasks"), "0")?;
            let before = sched_getaffinity(None)?;
            enter_group(&[top.join("tasks")]).map_err(std::io::Error::other)?;
            Ok((before, sched_getaffinity(None)?))
        };
        let outcome = std::thread::scope(|scope| scope.spawn(within).join());
        // the thread may not have left it yet
        for _ in 0..100 {
            if fs::remove_dir(&narrow).is_ok() {
                break;
            }
            crate::run::sleep_for(std::time::Duration::from_millis(20));
        }
        let (before, after) = outcome.unwrap().unwrap();
        assert!(before.count() == 1 && before.is_set(last) && after == before, "{before:?} {after:?}");
    }

    #[test]
    fn removes_leftover_groups_and_keeps_groups_in_use() {
        let folder = tempfile::tempdir().unwrap();
        let place = roots_from_mounts(folder.path(), &[("memory", "cgroup", "rw,memory")]);
        let name = |id: &str| folder.path().join("memory").join(format!("{GROUP_NAME_PREFIX}{id}"));
        let alive = std::process::id().to_string();
        // no process has so high a number: the kernel's limit is 2^22
        for id in ["4194305", "4194306", &alive, "x"] {
            fs::create_dir(name(id)).unwrap();
        }
        fs::write(name("4194306").join("tasks"), "1").unwrap();
        assert_eq!(place.remove_leftovers(), [name("4194305")]);
        assert!(name(&alive).exists() && name("4194306").exists() && name("x").exists());
    }
}
