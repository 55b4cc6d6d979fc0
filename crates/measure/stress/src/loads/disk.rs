//! Threads that read and write a disk through its filesystem. Their calls block, because the kernel counts only such
//! threads as waiting for the disk.

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
/// Size of a random read, and of a synced write.
const SMALL_BYTES: usize = 4096;
/// Size of a sequential read.
const LARGE_BYTES: usize = 1 << 20;

/// A work file that is also open for direct I/O.
struct DirectFile {
    file: File,
    /// Removes the file when dropped.
    work_file: WorkFile,
    bytes: u64,
}

fn open_direct_file(class: &StressClass, options: &LoadOptions) -> Result<Arc<DirectFile>, StressError> {
    let bytes = class.file_mib << 20;
    let work_file = create_uncached_file(class, options, bytes)?;
    Ok(Arc::new(DirectFile { file: work_file.open_direct()?, work_file, bytes }))
}

/// Returns a step that reads one block of `size` bytes and counts as `units`. `next_block` gets the number of blocks,
/// and returns the index of one.
fn read_step(
    file: Arc<DirectFile>,
    size: usize,
    mut next_block: impl FnMut(u64) -> u64 + Send + 'static,
    units: f64,
) -> WorkStep {
    let mut buffer = AlignedBuffer::new(size);
    Box::new(move || {
        let offset = next_block(file.bytes / size as u64) * size as u64;
        file.file
            .read_exact_at(buffer.bytes_mut(), offset)
            .map_err(io_error(file.work_file.path(), "cannot be read"))?;
        Ok(units)
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
        let mut block = worker * (file.bytes / LARGE_BYTES as u64) / WORKERS;
        let next_block = move |count: u64| {
            block = (block + 1) % count;
            block
        };
        read_step(Arc::clone(&file), LARGE_BYTES, next_block, LARGE_BYTES as f64)
    };
    Ok(StressLoad::new((0..WORKERS).map(worker).collect(), FullLevel::MeasuredByDoubling))
}

/// Makes the load of small synced writes: each worker overwrites its own part of a file, like the log of a database.
pub(super) fn sync_load(class: &StressClass, options: &LoadOptions) -> Result<StressLoad, StressError> {
    let bytes = class.file_mib << 20;
    let file = Arc::new(create_uncached_file(class, options, bytes)?);
    let worker = |worker: u64| -> WorkStep {
        let (file, part_bytes) = (Arc::clone(&file), bytes / MAX_WORKERS);
        let (mut part_offset, block) = (0, vec![worker as u8; SMALL_BYTES]);
        Box::new(move || {
            let offset = worker * part_bytes + part_offset;
            file.file().write_all_at(&block, offset).map_err(io_error(file.path(), "cannot be written"))?;
            file.file().sync_data().map_err(io_error(file.path(), "cannot be synced"))?;
            part_offset = (part_offset + SMALL_BYTES as u64) % part_bytes;
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
        let open_folder = File::open(&path).map_err(io_error(&path, "cannot be opened"))?;
        // the work folder is removed with the last worker that owns it
        let (work_folder, mut number) = (Arc::clone(&folder), 0_u64);
        Ok(Box::new(move || {
            let _ = &work_folder;
            number += 1;
            replace_file(&path, &open_folder, number)?;
            Ok(1.0)
        }))
    };
    let workers = (0..MAX_WORKERS).map(worker).collect::<Result<_, _>>()?;
    Ok(StressLoad::new(workers, FullLevel::MeasuredByDoubling))
}

/// Creates a file, renames it to its number, and removes the previous one; syncs the file, then the folder.
fn replace_file(folder: &Path, open_folder: &File, number: u64) -> Result<(), StressError> {
    let (temporary, name) = (folder.join("new"), folder.join(number.to_string()));
    let file = File::create_new(&temporary).map_err(io_error(&temporary, "cannot be made"))?;
    file.sync_all().map_err(io_error(&temporary, "cannot be synced"))?;
    fs::rename(&temporary, &name).map_err(io_error(&name, "cannot be named"))?;
    if number > 1 {
        let previous = folder.join((number - 1).to_string());
        fs::remove_file(&previous).map_err(io_error(&previous, "cannot be removed"))?;
    }
    open_folder.sync_all().map_err(io_error(folder, "cannot be synced"))
}
