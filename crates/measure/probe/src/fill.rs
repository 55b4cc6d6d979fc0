//! Fills a new file with bytes that cannot be reduced: no two pages are equal, and no page can be
//! compressed. A device or filesystem that compresses or deduplicates gains nothing.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;

use rustix::fs::{Advice, FallocateFlags, Mode, OFlags};

use diskwright_base::Rng;
use diskwright_guard::proc_fd_path;

/// Size of a write while filling, bytes. The size of a filled file is a multiple of it.
pub const CHUNK_BYTES: usize = 1 << 20;
/// Number of writers: while one generates bytes, another waits for the device.
const WRITER_COUNT: usize = 4;
/// Buffer alignment that direct I/O needs, bytes.
const DIRECT_IO_ALIGN_BYTES: usize = 4096;
/// Chunks that a writer writes between two reports of progress.
const CHUNKS_PER_PROGRESS: u64 = 8;

/// Generates the bytes of a chunk. They also depend on the size of the file, so that files of different
/// sizes share no blocks.
fn generate_chunk(bytes: u64, chunk: u64, buffer: &mut [u8]) {
    let mut rng = Rng::new(bytes, chunk);
    for word in buffer.chunks_exact_mut(8) {
        word.copy_from_slice(&rng.next_u64().to_ne_bytes());
    }
}

/// Fills the file. `progress` receives the bytes done and the total, and stops the filling by
/// returning `false`; the result is then `Ok(false)`.
///
/// # Errors
/// If a write fails.
pub fn fill_file(file: &OwnedFd, bytes: u64, progress: &mut dyn FnMut(u64, u64) -> bool) -> io::Result<bool> {
    // allocated at once if the filesystem can; otherwise writing extends the file
    let _ = rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes);
    // direct writes are several times faster, and do not push other data out of the page cache
    let direct = rustix::fs::open(proc_fd_path(file), OFlags::WRONLY | OFlags::DIRECT | OFlags::CLOEXEC, Mode::empty());
    let job =
        FillJob { file: direct.as_ref().unwrap_or(file), bytes, next_chunk: AtomicU64::new(0), stop: false.into() };
    let (sender, receiver) = channel();
    let result = std::thread::scope(|scope| {
        let start_writer = || {
            let (sender, job) = (sender.clone(), &job);
            // the receiver may have left after an error
            std::thread::Builder::new().spawn_scoped(scope, move || sender.send(job.run_writer(&sender)))
        };
        let started = (0..WRITER_COUNT).map(|_| start_writer());
        let failures: Vec<io::Error> = started.filter_map(Result::err).collect();
        if failures.len() == WRITER_COUNT {
            return failures.into_iter().next().map_or(Ok(false), Err);
        }
        drop(sender);
        let (mut done, mut result) = (0, Ok(true));
        for chunks in receiver {
            match chunks {
                Ok(chunks) => done += chunks * CHUNK_BYTES as u64,
                Err(error) => result = result.and(Err(error)),
            }
            if result.is_err() || !progress(done, bytes) {
                job.stop.store(true, Ordering::Relaxed);
                result = result.map(|_| false);
            }
        }
        result
    })?;
    let file = File::from(file.try_clone()?);
    file.sync_all()?;
    // a buffered run must not be served from memory
    let _ = rustix::fs::fadvise(&file, 0, None, Advice::DontNeed);
    Ok(result)
}

/// Allocates the blocks of a file without writing to them; returns false if the filesystem cannot do that.
pub fn allocate_file(file: &OwnedFd, bytes: u64) -> bool {
    rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes).is_ok() && rustix::fs::fsync(file).is_ok()
}

/// State shared by all writers.
struct FillJob<'a> {
    file: &'a OwnedFd,
    bytes: u64,
    next_chunk: AtomicU64,
    stop: AtomicBool,
}

impl FillJob<'_> {
    /// Writes chunks until none is left; returns the number of written chunks that it has not reported yet.
    fn run_writer(&self, sender: &std::sync::mpsc::Sender<io::Result<u64>>) -> io::Result<u64> {
        let mut memory = vec![0u8; CHUNK_BYTES + DIRECT_IO_ALIGN_BYTES];
        let buffer_start = memory.as_ptr().align_offset(DIRECT_IO_ALIGN_BYTES).min(DIRECT_IO_ALIGN_BYTES);
        let buffer = &mut memory[buffer_start..buffer_start + CHUNK_BYTES];
        let mut unreported = 0;
        while !self.stop.load(Ordering::Relaxed) {
            let chunk = self.next_chunk.fetch_add(1, Ordering::Relaxed);
            if chunk >= self.bytes / CHUNK_BYTES as u64 {
                break;
            }
            generate_chunk(self.bytes, chunk, buffer);
            self.write_all_at(buffer, chunk * CHUNK_BYTES as u64)?;
            unreported += 1;
            if unreported == CHUNKS_PER_PROGRESS {
                // the receiver outlives the writers
                let _ = sender.send(Ok(std::mem::take(&mut unreported)));
            }
        }
        Ok(unreported)
    }

    fn write_all_at(&self, buffer: &[u8], offset: u64) -> io::Result<()> {
        let mut done = 0;
        while done < buffer.len() {
            match rustix::io::pwrite(self.file, &buffer[done..], offset + done as u64) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => done += count,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Returns whether a file of this size looks like one that [`fill_file`] wrote: at least one page of its
/// first chunk is unchanged.
///
/// # Errors
/// If the file cannot be read.
pub fn was_filled_by_probe(file: &OwnedFd, bytes: u64) -> io::Result<bool> {
    if bytes == 0 || !bytes.is_multiple_of(CHUNK_BYTES as u64) {
        return Ok(false);
    }
    let (mut expected, mut found) = (vec![0u8; CHUNK_BYTES], vec![0u8; DIRECT_IO_ALIGN_BYTES]);
    generate_chunk(bytes, 0, &mut expected);
    for (index, page) in expected.chunks_exact(DIRECT_IO_ALIGN_BYTES).enumerate() {
        let count = rustix::io::pread(file, &mut found[..], (index * DIRECT_IO_ALIGN_BYTES) as u64)?;
        if count == DIRECT_IO_ALIGN_BYTES && page == &found[..] {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::fs;

    use super::*;

    fn filled(bytes: u64) -> (OwnedFd, Vec<u8>) {
        let folder = tempfile::Builder::new().tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = folder.path().join("filled");
        let file = OwnedFd::from(File::options().read(true).write(true).create_new(true).open(&path).unwrap());
        let mut last = 0;
        let outcome = fill_file(&file, bytes, &mut |done, all| {
            assert!(done >= last && all == bytes);
            last = done;
            true
        });
        assert!(outcome.unwrap() && last == bytes);
        (file, fs::read(path).unwrap())
    }

    #[test]
    fn every_page_differs_and_bytes_are_uniform() {
        let (file, bytes) = filled(12 << 20);
        assert_eq!(bytes.len(), 12 << 20);
        let pages: HashSet<&[u8]> = bytes.chunks(512).collect();
        assert_eq!(pages.len(), bytes.len() / 512);
        // chi-square over 256 values: 255 degrees of freedom, deviation 22.6; six of them
        let mut counts = [0u64; 256];
        bytes.iter().for_each(|b| counts[usize::from(*b)] += 1);
        let expected = bytes.len() as f64 / 256.0;
        let chi: f64 = counts.iter().map(|c| (*c as f64 - expected).powi(2) / expected).sum();
        assert!((chi - 255.0).abs() < 6.0 * 22.6, "{chi}");
        assert!(was_filled_by_probe(&file, 12 << 20).unwrap());
        // another size has other bytes
        assert!(!was_filled_by_probe(&file, 11 << 20).unwrap());
    }

    #[test]
    fn recognizes_a_filled_file_after_most_of_it_was_overwritten() {
        let (file, _) = filled(2 << 20);
        rustix::io::pwrite(&file, &vec![0; CHUNK_BYTES - DIRECT_IO_ALIGN_BYTES], 0).unwrap();
        assert!(was_filled_by_probe(&file, 2 << 20).unwrap());
        rustix::io::pwrite(&file, &vec![0; CHUNK_BYTES], 0).unwrap();
        assert!(!was_filled_by_probe(&file, 2 << 20).unwrap());
    }
}
