//! Threads of the kernel that are known by name.

/// Beginnings of the names of threads that free memory or arrange it.
const RECLAIM_THREADS: [&str; 8] =
    ["kswapd", "kcompactd", "khugepaged", "kscand", "arc_reclaim", "arc_prune", "arc_evict", "arc_reap"];

/// Returns true for a thread that frees memory or arranges it, with or without the brackets that tools put around it.
pub fn is_reclaim_thread(name: &str) -> bool {
    let name = name.trim_start_matches('[');
    RECLAIM_THREADS.iter().any(|start| name.starts_with(start))
}

/// Beginnings of the names of other threads of the kernel that do I/O or compute for programs.
const WORK_THREADS: [&str; 19] = [
    "kworker",
    "ksoftirqd",
    "migration/",
    "rcu_",
    "rcuop",
    "rcuog",
    "kthreadd",
    "jbd2/",
    "ext4-",
    "xfs-",
    "xfsaild",
    "xfs_",
    "btrfs-",
    "dmcrypt_write",
    "nfsd",
    "lockd",
    "kblockd",
    "ksmd",
    "irq/",
];

/// Returns true for a name that only threads of the kernel have: priorities and limits of it help nobody.
pub fn is_kernel_thread(name: &str) -> bool {
    let bare = name.trim_start_matches('[');
    let is_numbered = |start: &str, end: &str| {
        let middle = bare.strip_prefix(start).and_then(|rest| rest.strip_suffix(end));
        middle.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
    };
    let is_array = bare.strip_prefix("md").and_then(|rest| rest.split_once("_raid")).is_some();
    is_reclaim_thread(name)
        || is_array
        || is_numbered("loop", "")
        || WORK_THREADS.iter().any(|start| bare.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::{is_kernel_thread, is_reclaim_thread};

    #[test]
    fn threads_that_work_for_programs_are_the_kernels() {
        let threads = ["kworker/u8:1-flush-254:0", "jbd2/vda1-8", "md0_raid5", "loop3", "[ksoftirqd/1]", "kswapd0"];
        assert!(threads.into_iter().all(is_kernel_thread));
        assert!(!["tar", "loopback-test", "mdadm", "postgres", ""].into_iter().any(is_kernel_thread));
    }

    #[test]
    fn threads_of_the_kernel_and_of_zfs_reclaim() {
        assert!(["kswapd0", "[kcompactd1]", "arc_prune"].into_iter().all(is_reclaim_thread));
        assert!(!["ksoftirqd/0", "bash", ""].into_iter().any(is_reclaim_thread));
    }
}
