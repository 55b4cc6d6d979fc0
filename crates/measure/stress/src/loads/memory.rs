//! Loads on memory: threads that copy memory, and threads that need more than their cgroup allows.

use std::fs;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use diskwright_base::Rng;
use diskwright_workload::files::WorkFile;
use rustix::io::Errno;

use super::affinity::spread_workers;
use super::{FullLevel, LoadOptions, StressLoad, WorkStep, create_uncached_file};
use crate::class::StressClass;
use crate::{StressError, io_error};

const PAGE_BYTES: usize = 4096;
/// Bytes copied per step.
const COPY_BYTES: usize = 1 << 20;
/// Pages touched per step.
const PAGES_PER_STEP: usize = 16;
/// Size of the blocks with which a cgroup is filled.
const FILL_BLOCK_BYTES: usize = 256 << 10;

/// Returns the memory that a class takes, MiB. The class that copies memory needs more on many processors.
#[must_use]
pub fn needed_mib(class: &StressClass, processors: usize) -> u64 {
    let blocks = if class.id == "memory-bandwidth" { (2 * processors.max(1) * COPY_BYTES) as u64 >> 20 } else { 0 };
    class.memory_mib.max(blocks)
}

/// Makes the load of memory bandwidth: one thread per processor copies between two blocks, which together are larger
/// than usual caches.
pub(super) fn bandwidth_load(class: &StressClass, options: &LoadOptions) -> Result<StressLoad, StressError> {
    let blocks = 2 * options.processors.max(1) as u64;
    // a whole number of copies
    let block = ((needed_mib(class, options.processors) << 20) / blocks) as usize / COPY_BYTES * COPY_BYTES;
    let workers = spread_workers(options.processors).map(|cpu| cpu.pin_steps(copy_step(block))).collect();
    Ok(StressLoad::new(workers, FullLevel::Measured))
}

fn copy_step(block: usize) -> WorkStep {
    let (from, mut into) = (vec![1_u8; block], vec![0_u8; block]);
    let mut offset = 0;
    Box::new(move || {
        into[offset..offset + COPY_BYTES].copy_from_slice(&from[offset..offset + COPY_BYTES]);
        black_box(&mut into);
        offset = (offset + COPY_BYTES) % block;
        // bytes read plus bytes written
        Ok(2.0 * COPY_BYTES as f64)
    })
}

/// Makes the load of a filled cgroup: fills it to a share of its limit, and keeps touching the memory slowly.
pub(super) fn filled_cgroup_load(class: &StressClass, options: &LoadOptions) -> Result<StressLoad, StressError> {
    let Some(usage) = options.memory_usage_file.clone() else {
        return Err(StressError::Unavailable("no cgroup shows how much memory is used".into()));
    };
    let limit = (class.limit_mib << 20) as f64;
    let used = move || {
        let text = fs::read_to_string(&usage).unwrap_or_default();
        text.trim().parse::<f64>().map_or(f64::NAN, |bytes| bytes / limit)
    };
    if used().is_nan() {
        return Err(StressError::Unavailable("the cgroup's memory usage cannot be read".into()));
    }
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    while used() < options.share {
        blocks.push(vec![1_u8; FILL_BLOCK_BYTES]);
        let filled_bytes = (blocks.len() * FILL_BLOCK_BYTES) as u64;
        assert!(filled_bytes <= class.limit_mib << 20, "the group counts what is taken");
    }
    let mut next = 0;
    let step: WorkStep = Box::new(move || {
        let count = blocks.len().max(1);
        if let Some(block) = blocks.get_mut(next % count) {
            (0..block.len()).step_by(PAGE_BYTES).for_each(|byte| block[byte] = block[byte].wrapping_add(1));
        }
        next += 1;
        crate::run::sleep_for(Duration::from_millis(2));
        Ok(1.0)
    });
    Ok(StressLoad::new(vec![step], FullLevel::Filled(Box::new(used))))
}

/// Makes the load over the limit: anonymous memory of three quarters of the limit, and a file of half the limit:
/// together a quarter more than allowed.
pub(super) fn over_limit_load(class: &StressClass, options: &LoadOptions) -> Result<StressLoad, StressError> {
    debug_assert_eq!(class.file_mib * 2, class.limit_mib);
    let mut anonymous = vec![1_u8; ((class.limit_mib << 20) / 4 * 3) as usize];
    let mut load = file_cache_load(class, options)?;
    // the first worker also touches the anonymous memory
    let mut workers = load.workers.drain(..);
    if let Some(mut read_file) = workers.next() {
        let mut next = 0;
        let step: WorkStep = Box::new(move || {
            for _ in 0..PAGES_PER_STEP {
                anonymous[next] = anonymous[next].wrapping_add(1);
                next = (next + PAGE_BYTES) % anonymous.len();
            }
            read_file()
        });
        let workers = std::iter::once(step).chain(workers).collect();
        return Ok(StressLoad::new(workers, FullLevel::Measured));
    }
    Err(StressError::Unavailable("no worker".into()))
}

/// Makes the load of cache misses: four threads read random pages of a file through the file cache.
pub(super) fn file_cache_load(class: &StressClass, options: &LoadOptions) -> Result<StressLoad, StressError> {
    let bytes = class.file_mib << 20;
    let file = Arc::new(create_uncached_file(class, options, bytes)?);
    // without read-ahead, each miss reads one page, not its neighbors
    rustix::fs::fadvise(file.file(), 0, None, rustix::fs::Advice::Random)
        .map_err(io_error(&options.folder, "cannot be read at random"))?;
    let workers =
        (0..4).map(|worker| cached_read_step(Arc::clone(&file), bytes, Rng::new(options.seed, worker))).collect();
    Ok(StressLoad::new(workers, FullLevel::Measured))
}

/// Returns true for an error that means lack of memory. In a cgroup at its limit, a page fault waits, but a read fails:
/// with ENOMEM if there is no page for the file's content, with EFAULT if the reader's buffer was swapped out and
/// cannot come back. The next try may succeed.
fn is_short_of_memory(error: &std::io::Error) -> bool {
    [Errno::NOMEM, Errno::FAULT].iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

fn cached_read_step(file: Arc<WorkFile>, bytes: u64, mut rng: Rng) -> WorkStep {
    let mut page = vec![0_u8; PAGE_BYTES];
    Box::new(move || {
        let offset = rng.next_below(bytes / PAGE_BYTES as u64) * PAGE_BYTES as u64;
        match file.file().read_exact_at(&mut page, offset) {
            Ok(()) => {
                black_box(&mut page);
                Ok(1.0)
            }
            Err(error) if is_short_of_memory(&error) => {
                crate::run::sleep_for(Duration::from_millis(1));
                Ok(0.0)
            }
            Err(error) => Err(io_error(file.path(), "cannot be read")(error)),
        }
    })
}

/// Makes the load of paging: two threads touch random pages, each of its half of the class's memory.
pub(super) fn paging_load(class: &StressClass, options: &LoadOptions) -> Result<StressLoad, StressError> {
    let bytes = ((class.memory_mib << 20) / 2) as usize;
    let touch_step = |worker: u64| -> WorkStep {
        let (mut memory, mut rng) = (vec![1_u8; bytes], Rng::new(options.seed, worker));
        Box::new(move || {
            for _ in 0..PAGES_PER_STEP {
                let page = rng.next_below((memory.len() / PAGE_BYTES) as u64) as usize;
                memory[page * PAGE_BYTES] = memory[page * PAGE_BYTES].wrapping_add(1);
            }
            Ok(PAGES_PER_STEP as f64)
        })
    };
    Ok(StressLoad::new((0..2).map(touch_step).collect(), FullLevel::Measured))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 200 processors copy between 400 blocks of 1 MiB.
    #[test]
    fn many_processors_need_more_memory_to_copy() {
        let needed = |id: &str, processors: usize| needed_mib(&crate::class::find_class(id).unwrap(), processors);
        assert_eq!(["memory-bandwidth", "memory-limit"].map(|id| needed(id, 8)), [256, 256]);
        assert_eq!(["memory-bandwidth", "memory-limit"].map(|id| needed(id, 200)), [400, 256]);
        assert_eq!(needed("memory-bandwidth", 0), 256);
    }

    #[test]
    fn a_read_without_memory_is_retried() {
        for (number, again) in [(12, true), (14, true), (5, false), (9, false)] {
            assert_eq!(is_short_of_memory(&std::io::Error::from_raw_os_error(number)), again, "{number}");
        }
    }
}
