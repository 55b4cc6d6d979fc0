//! The page cache around a buffered run: drops the target's pages before the run, and measures
//! afterwards how much the cache served.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::Advice;
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use crate::error::ProbeError;
use crate::target::ProbeTarget;

/// Number of pages that are sampled to estimate the cached share.
const SAMPLE_COUNT: u64 = 64;

/// Returns the bytes that the kernel has read from disks for this process; `None` if the kernel
/// does not count them (no task I/O accounting).
pub fn process_disk_read_bytes() -> Option<f64> {
    let text = fs::read_to_string("/proc/self/io").ok()?;
    text.lines().find_map(|l| l.strip_prefix("read_bytes:"))?.trim().parse().ok()
}

/// Drops a target's pages from the page cache. Dirty pages are written first, because the kernel keeps
/// them.
///
/// # Errors
/// If the target cannot be opened, or its pages cannot be written or dropped.
pub fn drop_target_pages(target: &ProbeTarget) -> Result<(), ProbeError> {
    let file = target.open(false, true, false)?;
    rustix::fs::fdatasync(&file).map_err(|e| ProbeError::io(&target.name, "its dirty pages cannot be written", e))?;
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)
        .map_err(|e| ProbeError::io(&target.name, "its pages cannot be dropped from the cache", e))
}

/// Returns the share of a target that the page cache holds, estimated from a sample of its pages: a
/// read that must not wait (`RWF_NOWAIT`) is served from memory or fails. `None` if the filesystem does
/// not support such reads.
pub fn cached_share(target: &ProbeTarget) -> Option<f64> {
    let file = target.open(false, true, false).ok()?;
    let step = (target.bytes / SAMPLE_COUNT).max(4096) / 4096 * 4096;
    let mut sampled = 0.0;
    let mut cached = 0.0;
    for offset in (0..SAMPLE_COUNT).map(|i| i * step).take_while(|offset| offset + 512 <= target.bytes) {
        sampled += 1.0;
        cached += f64::from(u8::from(is_page_cached(file.as_fd(), offset)?));
    }
    (sampled > 0.0).then(|| cached / sampled)
}

fn is_page_cached(file: BorrowedFd<'_>, offset: u64) -> Option<bool> {
    let mut buffer = [0; 512];
    match preadv2(file, &mut [std::io::IoSliceMut::new(&mut buffer)], offset, ReadWriteFlags::NOWAIT) {
        Ok(_) => Some(true),
        Err(Errno::AGAIN) => Some(false),
        Err(_) => None,
    }
}

/// Returns two limits of dirty pages, bytes: at the first the kernel begins to write them back, at the
/// second it makes writers wait. The kernel computes both from `vm.dirty_*` and the available memory.
/// `None` if it does not show them.
pub fn dirty_limits() -> Option<(f64, f64)> {
    parse_dirty_limits(&fs::read_to_string("/proc/vmstat").ok()?, rustix::param::page_size() as f64)
}

fn parse_dirty_limits(vmstat: &str, page_bytes: f64) -> Option<(f64, f64)> {
    let bytes_of = |name: &str| {
        let line = vmstat.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(' '))?;
        line.trim().parse::<f64>().ok().map(|pages| pages * page_bytes)
    };
    Some((bytes_of("nr_dirty_background_threshold")?, bytes_of("nr_dirty_threshold")?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::TargetOptions;

    #[test]
    fn dirty_limits_come_in_pages() {
        let text = "nr_free_pages 5\nnr_dirty 7\nnr_dirty_threshold 1000\nnr_dirty_background_threshold 500\n";
        assert_eq!(parse_dirty_limits(text, 4096.0), Some((500.0 * 4096.0, 1000.0 * 4096.0)));
        assert_eq!(parse_dirty_limits("nr_dirty 7\n", 4096.0), None);
        assert_eq!(parse_dirty_limits("nr_dirty_threshold x\nnr_dirty_background_threshold 1\n", 4096.0), None);
    }

    #[test]
    fn a_real_file_leaves_the_cache_and_comes_back() {
        let folder = tempfile::Builder::new().tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = folder.path().join("cached.dat");
        fs::write(&path, vec![7; 4 << 20]).unwrap();
        let target = ProbeTarget::open_or_create(
            &path,
            &TargetOptions { buffered: true, ..TargetOptions::default() },
            &mut |_, _| true,
        )
        .unwrap();
        let Some(before) = cached_share(&target) else { return eprintln!("skipped: no reads without waiting here") };
        assert!(before > 0.9, "{before}");
        drop_target_pages(&target).unwrap();
        let after = cached_share(&target).unwrap();
        assert!(after < 0.2, "{after}");
    }
}
