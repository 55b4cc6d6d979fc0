//! Mail workload: many small syncs. A message is written into a file, synced, and renamed in its mailbox, and the
//! mailbox is synced, like a delivery into a maildir; users read and delete messages.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use diskwright_base::Rng;

use crate::files::{WorkFolder, forget_cached};
use crate::users::Work;
use crate::{WorkError, go_on, io};

/// Largest number of messages of a mailbox; at the limit the next operation deletes one.
const MOST: usize = 200;

/// A mail store.
pub struct Mail {
    folder: WorkFolder,
    mean_bytes: u64,
    next: AtomicU64,
}

/// A user's mailbox.
pub struct Mailbox {
    path: PathBuf,
    open: File,
    /// Messages, oldest first: number and bytes.
    messages: VecDeque<(u64, u64)>,
}

impl Mail {
    /// Creates an empty mail store in a folder; message sizes are exponential with this mean.
    ///
    /// # Errors
    /// When nothing can be made in the folder.
    pub fn create(mean_bytes: u64, folder: &Path) -> Result<Mail, WorkError> {
        if !(256..=1 << 20).contains(&mean_bytes) {
            return Err(WorkError::Usage("messages have a mean size of 256 bytes to 1 MiB".into()));
        }
        Ok(Mail { folder: WorkFolder::create(folder)?, mean_bytes, next: AtomicU64::new(0) })
    }

    /// Returns the largest number of bytes that `users` users need.
    #[must_use]
    pub fn needed(mean_bytes: u64, users: usize) -> u64 {
        let each = mean_bytes.saturating_mul(4).saturating_add(4096);
        (users as u64).saturating_mul(MOST as u64).saturating_mul(each)
    }

    fn deliver(&self, mailbox: &mut Mailbox, rng: &mut Rng) -> Result<u64, WorkError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let bytes = (rng.draw_exponential(self.mean_bytes as f64) as u64).clamp(16, 4 << 20);
        let (temporary, name) = (mailbox.path.join("tmp"), mailbox.name(number));
        let mut file = File::create_new(&temporary).map_err(io(&temporary, "cannot be made"))?;
        file.write_all(&text(number, bytes)).map_err(io(&temporary, "cannot be written"))?;
        file.sync_all().map_err(io(&temporary, "cannot be synced"))?;
        std::fs::rename(&temporary, &name).map_err(io(&name, "cannot be named"))?;
        mailbox.open.sync_all().map_err(io(&mailbox.path, "cannot be synced"))?;
        mailbox.messages.push_back((number, bytes));
        Ok(bytes)
    }
}

impl Mailbox {
    fn name(&self, number: u64) -> PathBuf {
        self.path.join(format!("{number:016x}"))
    }

    fn read(&self, (number, bytes): (u64, u64), from_device: bool) -> Result<u64, WorkError> {
        let (name, mut found) = (self.name(number), Vec::new());
        let read = File::open(&name).and_then(|mut file| {
            if from_device {
                forget_cached(&file);
            }
            file.read_to_end(&mut found)
        });
        read.map_err(io(&name, "cannot be read"))?;
        if found != text(number, bytes) {
            return Err(WorkError::Wrong(format!("{}: the message is not as it was delivered", name.display())));
        }
        Ok(bytes)
    }

    fn delete_oldest(&mut self) -> Result<(), WorkError> {
        let Some((number, _)) = self.messages.pop_front() else { return Ok(()) };
        let name = self.name(number);
        std::fs::remove_file(&name).map_err(io(&name, "cannot be removed"))
    }
}

/// Returns the text of a message, which follows from its number.
fn text(number: u64, bytes: u64) -> Vec<u8> {
    let mut rng = Rng::new(number, 2);
    let mut text = format!("{number:016x}").into_bytes();
    while text.len() < bytes as usize {
        text.extend_from_slice(&rng.next_u64().to_le_bytes());
    }
    text.truncate(bytes as usize);
    text
}

impl Work for Mail {
    type User = Mailbox;

    fn operations(&self) -> &'static [&'static str] {
        &["deliver", "read", "delete"]
    }

    fn user(&self, number: usize) -> Result<Mailbox, WorkError> {
        let path = self.folder.path().join(format!("{number:04}"));
        std::fs::create_dir(&path).map_err(io(&path, "cannot be made"))?;
        let open = File::open(&path).map_err(io(&path, "cannot be opened"))?;
        Ok(Mailbox { path, open, messages: VecDeque::new() })
    }

    fn operate(&self, mailbox: &mut Mailbox, rng: &mut Rng) -> Result<(usize, u64), WorkError> {
        if mailbox.messages.len() >= MOST {
            return mailbox.delete_oldest().map(|()| (2, 0));
        }
        if mailbox.messages.is_empty() || rng.next_bool(0.6) {
            return self.deliver(mailbox, rng).map(|bytes| (0, bytes));
        }
        let index = rng.next_below(mailbox.messages.len() as u64) as usize;
        mailbox.read(mailbox.messages[index], false).map(|bytes| (1, bytes))
    }

    fn read_back(&self, mailbox: Mailbox, stop: &AtomicBool) -> Result<(), WorkError> {
        mailbox.messages.iter().try_for_each(|message| {
            go_on(stop)?;
            mailbox.read(*message, true).map(|_| ())
        })
    }
}
