//! File tree workloads: a file server (create, look up, read, append, list, delete) and a backup (reads all files, one
//! after another). Each file has its number and length in its header, and its content follows from the number.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use diskwright_base::Rng;

use crate::files::{WorkFolder, drop_from_cache};
use crate::users::Work;
use crate::{WorkError, check_stop, io_error};

/// Size of a file's header, bytes: its number and its length.
const HEADER_BYTES: usize = 16;
/// Largest size of a file, bytes, unless [`MAX_SIZE_IN_MEANS`] allows more.
const MAX_FILE_BYTES: u64 = 16 << 20;
/// Largest size of a file in multiples of the mean, for trees with a large mean: a lower limit would make the mean
/// smaller than requested.
const MAX_SIZE_IN_MEANS: u64 = 64;

/// Parameters of a file tree.
#[derive(Clone, Debug)]
pub struct TreeOptions {
    /// Number of files at the beginning.
    pub files: u64,
    /// Number of folders over which the files are distributed.
    pub folders: u64,
    /// Mean size of a file, bytes (lognormal: most are small, some are large).
    pub mean_bytes: u64,
    /// Seed of the sizes.
    pub seed: u64,
}

/// Standard deviation of the logarithm of sizes. Agrawal et al. (FAST 2007) found 2.4 to 2.6 for the body of the
/// distribution of file sizes on desktops. We use 1.5, so that a short run sees the requested mean.
const SIZE_SIGMA: f64 = 1.5;

/// A tree of files whose contents are known.
pub struct FileTree {
    folder: WorkFolder,
    options: TreeOptions,
    /// Slots, each for a file: its number and bytes, or `None` if the slot is empty. A slot is locked while its file is
    /// used.
    slots: Vec<Mutex<Option<(u64, u64)>>>,
    next_number: std::sync::atomic::AtomicU64,
}

impl FileTree {
    /// Creates the tree in a folder.
    ///
    /// # Errors
    /// When a file cannot be made, or the workload is stopped.
    pub fn create(options: &TreeOptions, folder: &Path, stop: &AtomicBool) -> Result<FileTree, WorkError> {
        if options.files == 0 || options.folders == 0 || !(1 << 10..=1 << 20).contains(&options.mean_bytes) {
            let message = "a tree has files, folders, and a mean size of 1 KiB to 1 MiB";
            return Err(WorkError::Usage(message.into()));
        }
        let tree = FileTree {
            folder: WorkFolder::create(folder)?,
            options: options.clone(),
            slots: (0..options.files).map(|_| Mutex::new(None)).collect(),
            next_number: options.files.into(),
        };
        for number in 0..options.folders {
            check_stop(stop)?;
            let path = tree.folder_path(number);
            std::fs::create_dir(&path).map_err(io_error(&path, "cannot be made"))?;
        }
        let mut rng = Rng::new(options.seed, u64::MAX);
        for number in 0..options.files {
            check_stop(stop)?;
            let bytes = tree.draw_size(&mut rng);
            tree.create_file(number, bytes, false)?;
            *tree.lock_slot(number as usize) = Some((number, bytes));
        }
        Ok(tree)
    }

    /// Returns the largest number of bytes that the tree needs: four times the mean for each file, and eight standard
    /// deviations of their sum, which count if there are few files.
    #[must_use]
    pub fn max_needed_bytes(options: &TreeOptions) -> u64 {
        let TreeOptions { files, folders, mean_bytes, .. } = *options;
        let deviations = files.isqrt().saturating_mul(24);
        let expected =
            files.saturating_mul(4).saturating_add(deviations).saturating_mul(mean_bytes.saturating_add(4096));
        let max_bytes = files.saturating_mul(max_file_bytes(mean_bytes).saturating_add(4096));
        expected.min(max_bytes).saturating_add(folders.saturating_mul(4096))
    }

    fn lock_slot(&self, index: usize) -> std::sync::MutexGuard<'_, Option<(u64, u64)>> {
        // a panic elsewhere has ended the workload already
        self.slots[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn folder_path(&self, number: u64) -> PathBuf {
        self.folder.path().join(format!("{:04x}", number % self.options.folders))
    }

    fn file_path(&self, number: u64) -> PathBuf {
        self.folder_path(number).join(format!("{number:016x}"))
    }

    fn draw_size(&self, rng: &mut Rng) -> u64 {
        draw_file_size(self.options.mean_bytes, rng)
    }

    /// Creates a file.
    fn create_file(&self, number: u64, bytes: u64, sync: bool) -> Result<(), WorkError> {
        let path = self.file_path(number);
        let mut file = File::create_new(&path).map_err(io_error(&path, "cannot be made"))?;
        file.write_all(&file_content(number, bytes)).map_err(io_error(&path, "cannot be written"))?;
        if sync {
            file.sync_all().map_err(io_error(&path, "cannot be synced"))?;
        }
        Ok(())
    }

    /// Reads a file into the buffer, and checks its content.
    fn read_file(&self, number: u64, bytes: u64, buffer: &mut Vec<u8>) -> Result<(), WorkError> {
        let path = self.file_path(number);
        buffer.clear();
        let read = File::open(&path).and_then(|mut file| file.read_to_end(buffer));
        read.map_err(io_error(&path, "cannot be read"))?;
        if *buffer != file_content(number, bytes) {
            let message = format!("{}: its {} bytes are not those that were written", path.display(), buffer.len());
            return Err(WorkError::VerificationFailed(message));
        }
        Ok(())
    }

    /// Extends a file from `old_bytes` to `new_bytes`: writes its header and what follows the old content.
    fn append_to_file(&self, number: u64, old_bytes: u64, new_bytes: u64) -> Result<(), WorkError> {
        let is_extension = HEADER_BYTES as u64 <= old_bytes && old_bytes <= new_bytes;
        debug_assert!(is_extension, "from {old_bytes} to {new_bytes} bytes");
        let path = self.file_path(number);
        let mut file = OpenOptions::new().write(true).open(&path).map_err(io_error(&path, "cannot be opened"))?;
        let content = file_content(number, new_bytes);
        let written = file.write_all(&content[..HEADER_BYTES]).and_then(|()| {
            std::io::Seek::seek(&mut file, std::io::SeekFrom::Start(old_bytes))?;
            file.write_all(&content[old_bytes as usize..])
        });
        written.map_err(io_error(&path, "cannot be written"))
    }

    /// Writes all files to their device and drops them from the file cache.
    ///
    /// # Errors
    /// When the device fails.
    pub fn sync_and_drop_cache(&self) -> Result<(), WorkError> {
        self.folder.sync()?;
        for index in 0..self.slots.len() {
            let slot = self.lock_slot(index);
            if let Some((number, _)) = *slot {
                let path = self.file_path(number);
                drop_from_cache(&File::open(&path).map_err(io_error(&path, "cannot be opened"))?);
            }
        }
        Ok(())
    }

    /// Reads back all existing files, from their device, and checks them.
    ///
    /// # Errors
    /// The first file that is not as it was written.
    pub fn verify_files(&self, stop: &AtomicBool) -> Result<(), WorkError> {
        self.sync_and_drop_cache()?;
        let mut buffer = Vec::new();
        for index in 0..self.slots.len() {
            check_stop(stop)?;
            let slot = *self.lock_slot(index);
            slot.map_or(Ok(()), |(number, bytes)| self.read_file(number, bytes, &mut buffer))?;
        }
        Ok(())
    }
}

fn max_file_bytes(mean_bytes: u64) -> u64 {
    MAX_FILE_BYTES.max(mean_bytes.saturating_mul(MAX_SIZE_IN_MEANS))
}

/// Draws a file size: lognormal with this mean.
fn draw_file_size(mean_bytes: u64, rng: &mut Rng) -> u64 {
    let median = mean_bytes as f64 / (SIZE_SIGMA * SIZE_SIGMA / 2.0).exp();
    let bytes = median * (SIZE_SIGMA * rng.draw_normal()).exp();
    (bytes as u64).clamp(HEADER_BYTES as u64, max_file_bytes(mean_bytes))
}

/// Returns the content of a file, which follows from its number and length.
fn file_content(number: u64, bytes: u64) -> Vec<u8> {
    let mut content = Vec::with_capacity(bytes as usize + 8);
    content.extend_from_slice(&number.to_le_bytes());
    content.extend_from_slice(&bytes.to_le_bytes());
    let mut rng = Rng::new(number, 1);
    while content.len() < bytes as usize {
        content.extend_from_slice(&rng.next_u64().to_le_bytes());
    }
    content.truncate(bytes as usize);
    content
}

/// Operation of a file server, in the order of [`SERVER_OPERATIONS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServerOperation {
    Stat,
    Read,
    List,
    Create,
    Append,
    Delete,
}

/// Operations of a file server with their names and percentages. Look-ups are most frequent, as in the traces of
/// network file servers that Leung et al. published (USENIX 2008); the percentages are our choice.
const SERVER_OPERATIONS: [(ServerOperation, &str, u64); 6] = [
    (ServerOperation::Stat, "stat", 40),
    (ServerOperation::Read, "read", 25),
    (ServerOperation::List, "list", 10),
    (ServerOperation::Create, "create", 10),
    (ServerOperation::Append, "append", 5),
    (ServerOperation::Delete, "delete", 10),
];

/// Names of the operations, in the order of [`SERVER_OPERATIONS`].
const SERVER_OPERATION_NAMES: [&str; SERVER_OPERATIONS.len()] = {
    let mut names = [""; SERVER_OPERATIONS.len()];
    let mut index = 0;
    while index < names.len() {
        assert!(SERVER_OPERATIONS[index].0 as usize == index, "the list is in the order of the operations");
        names[index] = SERVER_OPERATIONS[index].1;
        index += 1;
    }
    names
};

/// File server workload on a tree.
pub struct FileServer(pub FileTree);

impl FileServer {
    /// Creates the workload, and adds empty slots to the tree, so that a tenth of all slots is empty. An operation on
    /// an empty slot creates a file: as many files are created as deleted, so the number of files is stable.
    #[must_use]
    pub fn new(mut tree: FileTree) -> FileServer {
        let empty_slots = tree.slots.len().div_ceil(9);
        tree.slots.extend((0..empty_slots).map(|_| Mutex::new(None)));
        FileServer(tree)
    }

    /// Draws an operation for a slot with a file: any except creation.
    fn draw_operation(rng: &mut Rng) -> ServerOperation {
        let possible = || SERVER_OPERATIONS.iter().filter(|(operation, ..)| *operation != ServerOperation::Create);
        let mut drawn = rng.next_below(possible().map(|(.., share)| share).sum());
        for (operation, _, share) in possible() {
            if drawn < *share {
                return *operation;
            }
            drawn -= share;
        }
        unreachable!("the number is below the sum of the shares");
    }

    fn check_file_size(&self, number: u64, bytes: u64) -> Result<u64, WorkError> {
        let path = self.0.file_path(number);
        let actual_bytes = std::fs::metadata(&path).map_err(io_error(&path, "cannot be examined"))?.len();
        if actual_bytes == bytes {
            Ok(0)
        } else {
            Err(WorkError::VerificationFailed(format!("{}: {actual_bytes} bytes of {bytes}", path.display())))
        }
    }

    fn list_folder(&self, number: u64) -> Result<u64, WorkError> {
        let path = self.0.folder_path(number);
        let mut entries = std::fs::read_dir(&path).map_err(io_error(&path, "cannot be read"))?;
        entries.try_for_each(|entry| entry.map(|_| ())).map_err(io_error(&path, "cannot be read"))?;
        Ok(0)
    }
}

impl Work for FileServer {
    type User = Vec<u8>;

    fn operation_names(&self) -> &'static [&'static str] {
        &SERVER_OPERATION_NAMES
    }

    fn create_user(&self, _: usize) -> Result<Vec<u8>, WorkError> {
        Ok(Vec::new())
    }

    fn run_operation(&self, buffer: &mut Vec<u8>, rng: &mut Rng) -> Result<(usize, u64), WorkError> {
        let tree = &self.0;
        let mut slot = tree.lock_slot(rng.next_below(tree.slots.len() as u64) as usize);
        // drawn for empty slots too, so that the following random numbers do not depend on the content of slots
        let operation = FileServer::draw_operation(rng);
        let Some((number, bytes)) = *slot else {
            let number = tree.next_number.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let bytes = tree.draw_size(rng);
            tree.create_file(number, bytes, false)?;
            *slot = Some((number, bytes));
            return Ok((ServerOperation::Create as usize, bytes));
        };
        let moved_bytes = match operation {
            ServerOperation::Create => unreachable!("never drawn for a slot with a file"),
            ServerOperation::Stat => self.check_file_size(number, bytes)?,
            ServerOperation::Read => tree.read_file(number, bytes, buffer).map(|()| bytes)?,
            ServerOperation::List => self.list_folder(number)?,
            ServerOperation::Append => {
                let max_bytes = max_file_bytes(tree.options.mean_bytes);
                let new_bytes = (bytes + 1 + rng.next_below(8192)).min(max_bytes).max(bytes);
                tree.append_to_file(number, bytes, new_bytes)?;
                *slot = Some((number, new_bytes));
                new_bytes - bytes
            }
            ServerOperation::Delete => {
                let path = tree.file_path(number);
                std::fs::remove_file(&path).map_err(io_error(&path, "cannot be removed"))?;
                *slot = None;
                0
            }
        };
        Ok((operation as usize, moved_bytes))
    }
}

/// Backup workload on a tree: each user reads its share of the files, one after another, repeatedly.
pub struct Backup {
    tree: FileTree,
    users: usize,
}

impl Backup {
    /// Creates a tree for `users` users in a folder, on its device and dropped from the file cache as far as the kernel
    /// allows.
    ///
    /// # Errors
    /// When the tree cannot be made, or the workload is stopped.
    pub fn create(options: &TreeOptions, users: usize, folder: &Path, stop: &AtomicBool) -> Result<Backup, WorkError> {
        let tree = FileTree::create(options, folder, stop)?;
        tree.sync_and_drop_cache()?;
        Ok(Backup { tree, users })
    }

    /// Reads back all files, from their device, and checks them.
    ///
    /// # Errors
    /// The first file that is not as it was written.
    pub fn verify_files(&self, stop: &AtomicBool) -> Result<(), WorkError> {
        self.tree.verify_files(stop)
    }
}

impl Work for Backup {
    /// Index of the user's next slot, and a buffer.
    type User = (usize, Vec<u8>);

    fn operation_names(&self) -> &'static [&'static str] {
        &["file"]
    }

    fn create_user(&self, number: usize) -> Result<Self::User, WorkError> {
        Ok((number % self.tree.slots.len(), Vec::new()))
    }

    fn run_operation(&self, (next_slot, buffer): &mut Self::User, _: &mut Rng) -> Result<(usize, u64), WorkError> {
        let slot = self.tree.lock_slot(*next_slot);
        *next_slot = (*next_slot + self.users) % self.tree.slots.len();
        let (number, bytes) = slot.expect("a backup's files stay");
        self.tree.read_file(number, bytes, buffer)?;
        Ok((0, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_requested_mean() {
        const DRAWN: u64 = 400_000;
        for mean_bytes in [1 << 10, 32 << 10, 1 << 20] {
            let mut rng = Rng::new(5, mean_bytes);
            let sum: u64 = (0..DRAWN).map(|_| draw_file_size(mean_bytes, &mut rng)).sum();
            // the mean of 400,000 sizes has a standard deviation of half a percent
            let error = sum as f64 / DRAWN as f64 / mean_bytes as f64 - 1.0;
            assert!(error.abs() < 0.025, "{mean_bytes}: {error}");
        }
    }

    /// In 10,000 operations, a share of a tenth has a standard deviation of 0.3 percentage points.
    #[test]
    fn server_operations_have_their_shares_and_keep_the_file_count() {
        let folder = tempfile::tempdir().unwrap();
        let options = TreeOptions { files: 90, folders: 3, mean_bytes: 1 << 10, seed: 1 };
        let tree = FileTree::create(&options, folder.path(), &AtomicBool::new(false)).unwrap();
        let (server, mut rng) = (FileServer::new(tree), Rng::new(7, 7));
        let (mut done, mut buffer) = ([0_u64; 6], Vec::new());
        for _ in 0..10_000 {
            done[server.run_operation(&mut buffer, &mut rng).unwrap().0] += 1;
        }
        for (count, (_, name, share)) in done.into_iter().zip(SERVER_OPERATIONS) {
            assert!((count as f64 / 100.0 - share as f64).abs() < 2.5, "{name}: {done:?}");
        }
        let files = (0..server.0.slots.len()).filter(|index| server.0.lock_slot(*index).is_some()).count();
        assert!((75..=100).contains(&files), "{files} files of 90");
    }

    #[test]
    fn few_files_may_be_much_larger_than_their_mean() {
        let options = |files| TreeOptions { files, folders: 1, mean_bytes: 32 << 10, seed: 1 };
        for files in [1, 10, 100] {
            for seed in 0..200 {
                let mut rng = Rng::new(seed, files);
                let sum: u64 = (0..files).map(|_| draw_file_size(32 << 10, &mut rng).next_multiple_of(4096)).sum();
                assert!(sum <= FileTree::max_needed_bytes(&options(files)), "{files} files, seed {seed}: {sum}");
            }
        }
        assert_eq!(FileTree::max_needed_bytes(&TreeOptions { files: u64::MAX, ..options(1) }), u64::MAX);
    }
}
