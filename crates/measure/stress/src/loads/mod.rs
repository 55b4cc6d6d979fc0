//! Loads of the classes: workers, each a function that does one small step at a time.

mod affinity;
mod disk;
mod kernel;
mod memory;
mod network;
mod processor;

pub use memory::needed_mib;

use std::path::PathBuf;
use std::time::Duration;

use diskwright_workload::files::WorkFile;

use crate::StressError;
use crate::class::StressClass;

/// Does a small step, and returns the amount done in the class's unit.
pub type WorkStep = Box<dyn FnMut() -> Result<f64, StressError> + Send>;

/// Definition of 100 % for a load.
pub enum FullLevel {
    /// A known rate, units per second of all workers together.
    KnownRate(f64),
    /// Measured, with all workers.
    Measured,
    /// Measured, doubling the workers while that increases the rate.
    MeasuredByDoubling,
    /// A resource is filled; the function returns the share that is filled.
    Filled(Box<dyn Fn() -> f64 + Send>),
}

/// A load: its workers, and its definition of 100 %.
pub struct StressLoad {
    /// Workers, which run in parallel.
    pub workers: Vec<WorkStep>,
    /// Definition of 100 %.
    pub full_level: FullLevel,
    /// Warm-up before 100 % is measured.
    pub warm_up: Duration,
}

impl StressLoad {
    /// Creates a load without a warm-up, which `prepare_load` takes from the class.
    fn new(workers: Vec<WorkStep>, full_level: FullLevel) -> StressLoad {
        StressLoad { workers, full_level, warm_up: Duration::ZERO }
    }
}

/// Options for making a load.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// Folder for files.
    pub folder: PathBuf,
    /// Number of processors to use.
    pub processors: usize,
    /// Level as a share of 1, for loads that fill something.
    pub share: f64,
    /// File with the memory usage of the load's cgroup.
    pub memory_usage_file: Option<PathBuf>,
    /// Seed for all random numbers.
    pub seed: u64,
}

/// Function that makes the load of a class.
type LoadMaker = fn(&StressClass, &LoadOptions) -> Result<StressLoad, StressError>;

/// For each class, its id and the function that makes its load.
const LOAD_MAKERS: &[(&str, LoadMaker)] = &[
    ("processor", processor::all_processors_load),
    ("one-thread", processor::one_thread_load),
    ("memory-bandwidth", memory::bandwidth_load),
    ("memory-under", memory::filled_cgroup_load),
    ("memory-limit", memory::over_limit_load),
    ("paging", memory::paging_load),
    ("file-cache", memory::file_cache_load),
    ("disk-random", disk::random_load),
    ("disk-sequential", disk::sequential_load),
    ("disk-sync", disk::sync_load),
    ("disk-metadata", disk::metadata_load),
    ("network", network::stream_load),
    ("interrupts", network::datagram_load),
    ("context-switches", kernel::context_switch_load),
    ("locks", kernel::lock_load),
    ("completions", kernel::completion_load),
    ("descriptors", kernel::descriptor_load),
];

/// Makes a load: its files, memory and connections.
///
/// # Errors
/// If the host refuses.
pub fn prepare_load(class: &StressClass, options: &LoadOptions) -> Result<StressLoad, StressError> {
    let maker = LOAD_MAKERS.iter().find(|(id, _)| *id == class.id);
    let Some((_, maker)) = maker else {
        return Err(StressError::Usage(format!("nothing makes the class {}", class.id)));
    };
    let warm_up = Duration::from_millis(class.warm_up_ms);
    Ok(StressLoad { warm_up, ..maker(class, options)? })
}

/// Creates a file of `bytes` bytes with random content, no part of which is in the file cache.
fn create_uncached_file(class: &StressClass, options: &LoadOptions, bytes: u64) -> Result<WorkFile, StressError> {
    use std::os::unix::fs::FileExt;
    assert!(bytes <= class.file_mib << 20, "free space was checked for the class's files only");
    let file = WorkFile::create(&options.folder)?;
    let mut rng = diskwright_base::Rng::new(options.seed, 0);
    let mut block = vec![0_u8; 1 << 20];
    for offset in (0..bytes).step_by(block.len()) {
        block.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&rng.next_u64().to_le_bytes()));
        file.file().write_all_at(&block, offset).map_err(crate::io_error(&options.folder, "cannot be written"))?;
    }
    file.file().sync_all().map_err(crate::io_error(&options.folder, "cannot be synced"))?;
    rustix::fs::fadvise(file.file(), 0, None, rustix::fs::Advice::DontNeed)
        .map_err(crate::io_error(&options.folder, "cannot leave the file cache"))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::read_classes;
    use crate::run::{measure_maximum, run_at_share};
    use std::sync::atomic::AtomicBool;

    #[test]
    fn every_class_has_a_maker_and_every_maker_a_class() {
        let ids: Vec<String> = read_classes().unwrap().into_iter().map(|class| class.id).collect();
        let makers: Vec<&str> = LOAD_MAKERS.iter().map(|(id, _)| *id).collect();
        assert_eq!(ids, makers);
    }

    #[test]
    fn a_load_is_warmed_up_for_as_long_as_its_class_says() {
        let folder = tempfile::tempdir().unwrap();
        let options = LoadOptions { folder: folder.path().to_path_buf(), processors: 1, ..LoadOptions::default() };
        let mut class = crate::class::find_class("one-thread").unwrap();
        assert_eq!(prepare_load(&class, &options).unwrap().warm_up, Duration::from_millis(500));
        class.warm_up_ms = 1700;
        assert_eq!(prepare_load(&class, &options).unwrap().warm_up, Duration::from_millis(1700));
        assert_eq!(crate::class::find_class("paging").unwrap().warm_up_ms, 5000);
    }

    #[test]
    fn loads_that_need_no_cgroup_do_something() {
        let folder = tempfile::tempdir().unwrap();
        let options = LoadOptions {
            folder: folder.path().to_path_buf(),
            processors: 1,
            share: 0.02,
            memory_usage_file: None,
            seed: 7,
        };
        let stop = AtomicBool::new(false);
        for class in read_classes().unwrap() {
            // classes with a limit fill it, and large files take long
            if class.limit_mib > 0 || class.file_mib > 64 {
                continue;
            }
            let mut load = match prepare_load(&class, &options) {
                Err(StressError::Unavailable(reason)) => {
                    eprintln!("skipped: {}: {reason}", class.id);
                    continue;
                }
                made => made.unwrap(),
            };
            let known = crate::run::LoadMaximum { max_per_s: 1e12, workers: load.workers.len() };
            let known = if class.unit == "fraction" { measure_maximum(&mut load, &stop).unwrap() } else { known };
            let outcome = run_at_share(&mut load, known, 1.0, Duration::from_millis(100), &stop).unwrap();
            assert!(outcome.per_s > 0.0, "{}: {outcome:?}", class.id);
            drop(load);
            assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none(), "{} left something", class.id);
        }
    }
}
