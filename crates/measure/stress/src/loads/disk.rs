//! Threads that read and write a disk through its filesystem. Their calls block, because the kernel counts threads that
//! wait that way.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use diskwright_base::Rng;
use diskwright_workload::files::{WorkFile, WorkFolder};
use diskwright_workload::sort::row_io::AlignedBuffer;

use super::{FullLevel, LoadOptions, StressLoad, WorkStep, create_uncached_file};
use crate::class::StressClass;
use crate::{StressError, io_error};

/// Largest number of threads tried.
const MAX_WORKERS: u64 = 64;
const SMALL_BYTES: usize = 4096;
const LARGE_BYTES: usize = 1 << 20;

/// A file opened for direct I/O, which exists while it is read.
struct DirectFile {
    file: File,
    work_file: WorkFile,
    bytes: u64,
}

fn open_direct_file(class: &StressClass, options: &LoadOptions) -> Result<Arc<DirectFile>, StressError> {
    let bytes = class.file_mib << 20;
    let kept = create_uncached_file(class, options, bytes)?;
    Ok(Arc::new(DirectFile { file: kept.open_direct()?, work_file: kept, bytes }))
}

fn read_step(
    file: Arc<DirectFile>,
    size: usize,
    mut next: impl FnMut(u64) -> u64 + Send + 'static,
    unit: f64,
) -> WorkStep {
    let mut buffer = AlignedBuffer::new(size);
    Box::new(move || {
        let offset = next(file.bytes / size as u64) * size as u64;
        file.file
            .read_exact_at(buffer.bytes_mut(), offset)
            .map_err(io_error(file.work_file.path(), "cannot be read"))?;
        Ok(unit)
    })
}

/// Makes the load of random small reads.
pub(super) fn random_load(class: &StressClass, options: &LoadOptions) -> Result<StressLoad, StressError> {
    let file = open_direct_file(class, options)?;
    let worker = |worker| {
        let mut rng = Rng::new(options.seed, worker);
        read_step(Arc::clone(&file), SMALL_BYTES, move |count| rng.next_below(count), 1.0)
    };
    Ok(StressLoad::new((0..MAX_WORKERS).map(worker).collect(), FullLevel::MeasuredByDoubling))
}

/// Makes the load of large sequential reads.
pub(super) fn sequential_load(class: &StressClass, options: &LoadOptions) -> Result<StressLoad, StressError> {
    const WORKERS: u64 = 16;
    let file = open_direct_file(class, options)?;
    let worker = |worker| {
        // each worker starts at its own offset and reads through the whole file
        let mut place = worker * (file.bytes / LARGE_BYTES as u64) / WORKERS;
        let next = move |count: u64| {
            place = (place + 1) % count;
            place
        };
        read_step(Arc::clone(&file), LARGE_BYTES, next, LARGE_BYTES as f64)
    };
    Ok(StressLoad::new((0..WORKERS).map(worker).collect(), FullLevel::MeasuredByDoubling))
}

/// Makes the load of small synced writes: each worker overwrites its own part of a file, like the log of a database.
pub(super) fn sync_load(class: &StressClass, options: &LoadOptions) -> Result<StressLoad, StressError> {
    let bytes = class.file_mib << 20;
    let file = Arc::new(create_uncached_file(class, options, bytes)?);
    let worker = |worker: u64| -> WorkStep {
        let (file, part) = (Arc::clone(&file), bytes / MAX_WORKERS);
        let (mut place, block) = (0, vec![worker as u8; SMALL_BYTES]);
        Box::new(move || {
            let offset = worker * part + place;
            file.file().write_all_at(&block, offset).map_err(io_error(file.path(), "cannot be written"))?;
            file.file().sync_data().map_err(io_error(file.path(), "cannot be synced"))?;
            place = (place + SMALL_BYTES as u64) % part;
            Ok(1.0)
        })
    };
    Ok(StressLoad::new((0..MAX_WORKERS).map(worker).collect(), FullLevel::MeasuredByDoubling))
}

/// Makes the load of file creations, renames and removals.
pub(super) fn metadata_load(_: &StressClass, options: &LoadOptions) -> Result<StressLoad, StressError> {
    let folder = Arc::new(WorkFolder::create(&options.folder)?);
    let worker = |worker: u64| -> Result<WorkStep, StressError> {
        let path = folder.path().join(worker.to_string());
        fs::create_dir(&path).map_err(io_error(&path, "cannot be made"))?;
        let open = File::open(&path).map_err(io_error(&path, "cannot be opened"))?;
        // the folder is removed with the last worker
        let (kept, mut number) = (Arc::clone(&folder), 0_u64);
        Ok(Box::new(move || {
            let _ = &kept;
            number += 1;
            replace_file(&path, &open, number)?;
            Ok(1.0)
        }))
    };
    let workers = (0..MAX_WORKERS).map(worker).collect::<Result<_, _>>()?;
    Ok(StressLoad::new(workers, FullLevel::MeasuredByDoubling))
}

/// Creates a file, renames it, and removes the previous one.
fn replace_file(folder: &Path, open: &File, number: u64) -> Result<(), StressError> {
    let (temporary, name) = (folder.join("new"), folder.join(number.to_string()));
    let file = File::create_new(&temporary).map_err(io_error(&temporary, "cannot be made"))?;
    file.sync_all().map_err(io_error(&temporary, "cannot be synced"))?;
    fs::rename(&temporary, &name).map_err(io_error(&name, "cannot be named"))?;
    if number > 1 {
        let before = folder.join((number - 1).to_string());
        fs::remove_file(&before).map_err(io_error(&before, "cannot be removed"))?;
    }
    open.sync_all().map_err(io_error(folder, "cannot be synced"))
}
