//! Each workload on real files, briefly, with its content read back.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use diskwright_base::Rng;
use diskwright_workload::WorkError;
use diskwright_workload::mail::Mail;
use diskwright_workload::table::{BulkLoad, TableOptions, TableScan};
use diskwright_workload::transactions::{Database, DatabaseOptions};
use diskwright_workload::tree::{Backup, FileServer, FileTree, TreeOptions};
use diskwright_workload::users::{UserOptions, UserOutcome, UserWatch, Work, run};

fn work(work: &impl Work) -> UserOutcome {
    let lasts = Duration::from_millis(400);
    let options = UserOptions { users: 3, think: Duration::from_micros(100), rate: None, lasts, seed: 4 };
    let outcome = run(work, &options, &UserWatch::default()).unwrap();
    assert!(outcome.operations.iter().map(|operation| operation.done).sum::<u64>() > 0, "{outcome:?}");
    for operation in &outcome.operations {
        assert_eq!(operation.done > 0, operation.latency_s.is_some(), "{operation:?}");
    }
    outcome
}

/// A stop flag that is never set.
static GO_ON: AtomicBool = AtomicBool::new(false);

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().next().is_none()
}

fn tree() -> TreeOptions {
    TreeOptions { files: 100, folders: 7, mean_bytes: 8192, seed: 1 }
}

#[test]
fn transactions_keep_what_they_committed() {
    let folder = tempfile::tempdir().unwrap();
    let options = DatabaseOptions { bytes: 16 << 20, ..DatabaseOptions::default() };
    let database = Database::create(&options, folder.path(), folder.path(), &GO_ON).unwrap();
    let outcome = work(&database);
    database.verify(&GO_ON).unwrap();
    assert_eq!(outcome.operations[0].operation, "query");
    let wrong = DatabaseOptions { bytes: 4096, ..options };
    assert!(matches!(Database::create(&wrong, folder.path(), folder.path(), &GO_ON), Err(WorkError::Usage(_))));
    drop(database);
    assert!(is_empty(folder.path()));
}

#[test]
fn loads_and_scans() {
    let folder = tempfile::tempdir().unwrap();
    // small enough that a load starts over
    let options = TableOptions { bytes: 1 << 20, batch: 128 << 10 };
    let load = BulkLoad::create(&options, folder.path()).unwrap();
    assert_eq!(work(&load).operations[0].bytes % (128 << 10), 0);
    load.verify(&GO_ON).unwrap();
    work(&TableScan::create(&options, folder.path(), &GO_ON).unwrap());
    let wrong = TableOptions { bytes: 1 << 20, batch: 100 };
    assert!(matches!(TableScan::create(&wrong, folder.path(), &GO_ON), Err(WorkError::Usage(_))));
}

#[test]
fn files_of_a_server_and_of_a_backup() {
    let folder = tempfile::tempdir().unwrap();
    let server = FileServer::new(FileTree::create(&tree(), folder.path(), &GO_ON).unwrap());
    work(&server);
    server.0.verify(&GO_ON).unwrap();
    drop(server);
    let backup = Backup::create(&tree(), 3, folder.path(), &GO_ON).unwrap();
    let outcome = work(&backup);
    assert!(outcome.operations[0].bytes > 0);
    backup.verify(&GO_ON).unwrap();
    drop(backup);
    assert!(is_empty(folder.path()));
}

#[test]
fn a_changed_file_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let tree = FileTree::create(&tree(), folder.path(), &GO_ON).unwrap();
    let inside = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    let file = std::fs::read_dir(inside.join("0003")).unwrap().next().unwrap().unwrap().path();
    let open = std::fs::OpenOptions::new().write(true).open(file).unwrap();
    open.write_all_at(b"x", 15).unwrap();
    let error = tree.verify(&GO_ON).unwrap_err().to_string();
    assert!(error.contains("not those that were written"), "{error}");
}

#[test]
fn mail_is_delivered_read_and_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let mail = Mail::create(2048, folder.path()).unwrap();
    assert!(work(&mail).operations[0].done > 0);
    drop(mail);
    assert!(is_empty(folder.path()));
}

/// Returns the files below a folder, at any depth.
fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Mail that a user never read is read back at the end: here a message is changed before that.
#[test]
fn mail_that_nobody_read_is_read_back() {
    struct Changed<'a>(Mail, &'a Path);

    impl Work for Changed<'_> {
        type User = <Mail as Work>::User;

        fn operations(&self) -> &'static [&'static str] {
            self.0.operations()
        }

        fn user(&self, number: usize) -> Result<Self::User, WorkError> {
            self.0.user(number)
        }

        fn operate(&self, user: &mut Self::User, rng: &mut Rng) -> Result<(usize, u64), WorkError> {
            self.0.operate(user, rng)
        }

        fn read_back(&self, user: Self::User, stop: &AtomicBool) -> Result<(), WorkError> {
            let message = files(self.1).into_iter().find(|path| !path.ends_with(".lock")).unwrap();
            let open = std::fs::OpenOptions::new().write(true).open(message).unwrap();
            open.write_all_at(b"x", 2).unwrap();
            self.0.read_back(user, stop)
        }
    }

    let folder = tempfile::tempdir().unwrap();
    let mail = Changed(Mail::create(2048, folder.path()).unwrap(), folder.path());
    let lasts = Duration::from_millis(200);
    let options = UserOptions { users: 1, think: Duration::ZERO, rate: None, lasts, seed: 4 };
    let error = run(&mail, &options, &UserWatch::default()).unwrap_err().to_string();
    assert!(error.contains("not as it was delivered"), "{error}");
}

#[test]
fn who_stops_it_while_files_are_made_or_read_back_is_heard() {
    let folder = tempfile::tempdir().unwrap();
    let (path, stop) = (folder.path(), &AtomicBool::new(true));
    let table = TableOptions { bytes: 1 << 20, batch: 128 << 10 };
    let database = DatabaseOptions { bytes: 16 << 20, ..DatabaseOptions::default() };
    let stopped = [
        Database::create(&database, path, path, stop).map(|_| ()),
        TableScan::create(&table, path, stop).map(|_| ()),
        FileTree::create(&tree(), path, stop).map(|_| ()),
        Backup::create(&tree(), 2, path, stop).map(|_| ()),
        BulkLoad::create(&table, path).unwrap().verify(stop),
        FileTree::create(&tree(), path, &GO_ON).unwrap().verify(stop),
    ];
    assert!(stopped.iter().all(|result| matches!(result, Err(WorkError::Stopped))), "{stopped:?}");
    assert!(is_empty(path));
}
