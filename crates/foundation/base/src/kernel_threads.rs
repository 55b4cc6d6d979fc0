//! Threads of the kernel that are known by name.

/// Beginnings of the names of threads that free memory or arrange it.
const RECLAIM_THREADS: [&str; 8] =
    ["kswapd", "kcompactd", "khugepaged", "kscand", "arc_reclaim", "arc_prune", "arc_evict", "arc_reap"];

/// Returns true for a thread that frees memory or arranges it, with or without the brackets that tools put around it.
pub fn is_reclaim_thread(name: &str) -> bool {
    let name = name.trim_start_matches('[');
    RECLAIM_THREADS.iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::is_reclaim_thread;

    #[test]
    fn threads_of_the_kernel_and_of_zfs_reclaim() {
        assert!(["kswapd0", "[kcompactd1]", "arc_prune"].into_iter().all(is_reclaim_thread));
        assert!(!["ksoftirqd/0", "bash", ""].into_iter().any(is_reclaim_thread));
    }
}
