//! Mail workload: many small syncs. As in a delivery into a maildir, a message is written into a file, synced, and
//! renamed in its mailbox, and the mailbox is synced. Users read and delete messages.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use diskwright_base::Rng;

use crate::files::{WorkFolder, drop_from_cache};
use crate::users::Work;
use crate::{WorkError, check_stop, io_error};

/// Largest number of messages of a mailbox; at the limit, the next operation deletes the oldest.
const MAX_MAILBOX_MESSAGES: usize = 200;

/// A mail store.
pub struct MailStore {
    folder: WorkFolder,
    mean_bytes: u64,
    next_message: AtomicU64,
}

/// A user's mailbox.
pub struct Mailbox {
    path: PathBuf,
    directory: File,
    /// Messages, oldest first: number and bytes.
    messages: VecDeque<(u64, u64)>,
}

impl MailStore {
    /// Creates an empty mail store in a folder; message sizes are exponential with this mean.
    ///
    /// # Errors
    /// When nothing can be made in the folder.
    pub fn create(mean_bytes: u64, folder: &Path) -> Result<MailStore, WorkError> {
        if !(256..=1 << 20).contains(&mean_bytes) {
            return Err(WorkError::Usage("messages have a mean size of 256 bytes to 1 MiB".into()));
        }
        Ok(MailStore { folder: WorkFolder::create(folder)?, mean_bytes, next_message: AtomicU64::new(0) })
    }

    /// Returns the largest number of bytes that `users` users need.
    #[must_use]
    pub fn max_needed_bytes(mean_bytes: u64, users: usize) -> u64 {
        let bytes_per_message = mean_bytes.saturating_mul(4).saturating_add(4096);
        (users as u64).saturating_mul(MAX_MAILBOX_MESSAGES as u64).saturating_mul(bytes_per_message)
    }

    /// Delivers a new message; returns its bytes.
    fn deliver_message(&self, mailbox: &mut Mailbox, rng: &mut Rng) -> Result<u64, WorkError> {
        let number = self.next_message.fetch_add(1, Ordering::Relaxed);
        let bytes = (rng.draw_exponential(self.mean_bytes as f64) as u64).clamp(16, 4 << 20);
        let (temporary, path) = (mailbox.path.join("tmp"), mailbox.message_path(number));
        let mut file = File::create_new(&temporary).map_err(io_error(&temporary, "cannot be made"))?;
        file.write_all(&message_text(number, bytes)).map_err(io_error(&temporary, "cannot be written"))?;
        file.sync_all().map_err(io_error(&temporary, "cannot be synced"))?;
        std::fs::rename(&temporary, &path).map_err(io_error(&path, "cannot be named"))?;
        mailbox.directory.sync_all().map_err(io_error(&mailbox.path, "cannot be synced"))?;
        mailbox.messages.push_back((number, bytes));
        Ok(bytes)
    }
}

impl Mailbox {
    fn message_path(&self, number: u64) -> PathBuf {
        self.path.join(format!("{number:016x}"))
    }

    /// Reads a message, if requested from the device and not the file cache, and checks its text.
    fn read_message(&self, (number, bytes): (u64, u64), from_device: bool) -> Result<u64, WorkError> {
        let (path, mut text) = (self.message_path(number), Vec::new());
        let read = File::open(&path).and_then(|mut file| {
            if from_device {
                drop_from_cache(&file);
            }
            file.read_to_end(&mut text)
        });
        read.map_err(io_error(&path, "cannot be read"))?;
        if text != message_text(number, bytes) {
            return Err(WorkError::VerificationFailed(format!(
                "{}: the message is not as it was delivered",
                path.display()
            )));
        }
        Ok(bytes)
    }

    fn delete_oldest(&mut self) -> Result<(), WorkError> {
        let Some((number, _)) = self.messages.pop_front() else { return Ok(()) };
        let path = self.message_path(number);
        std::fs::remove_file(&path).map_err(io_error(&path, "cannot be removed"))
    }
}

/// Returns the text of a message, which follows from its number.
fn message_text(number: u64, bytes: u64) -> Vec<u8> {
    let mut rng = Rng::new(number, 2);
    let mut text = format!("{number:016x}").into_bytes();
    while text.len() < bytes as usize {
        text.extend_from_slice(&rng.next_u64().to_le_bytes());
    }
    text.truncate(bytes as usize);
    text
}

impl Work for MailStore {
    type User = Mailbox;

    fn operation_names(&self) -> &'static [&'static str] {
        &["deliver", "read", "delete"]
    }

    fn create_user(&self, number: usize) -> Result<Mailbox, WorkError> {
        let path = self.folder.path().join(format!("{number:04}"));
        std::fs::create_dir(&path).map_err(io_error(&path, "cannot be made"))?;
        let directory = File::open(&path).map_err(io_error(&path, "cannot be opened"))?;
        Ok(Mailbox { path, directory, messages: VecDeque::new() })
    }

    fn run_operation(&self, mailbox: &mut Mailbox, rng: &mut Rng) -> Result<(usize, u64), WorkError> {
        if mailbox.messages.len() >= MAX_MAILBOX_MESSAGES {
            return mailbox.delete_oldest().map(|()| (2, 0));
        }
        if mailbox.messages.is_empty() || rng.next_bool(0.6) {
            return self.deliver_message(mailbox, rng).map(|bytes| (0, bytes));
        }
        let index = rng.next_below(mailbox.messages.len() as u64) as usize;
        mailbox.read_message(mailbox.messages[index], false).map(|bytes| (1, bytes))
    }

    fn verify_user(&self, mailbox: Mailbox, stop: &AtomicBool) -> Result<(), WorkError> {
        mailbox.messages.iter().try_for_each(|message| {
            check_stop(stop)?;
            mailbox.read_message(*message, true).map(|_| ())
        })
    }
}
