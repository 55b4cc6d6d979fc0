//! Each workload on real files, briefly, with its content read back.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use diskwright_base::Rng;
use diskwright_workload::WorkError;
use diskwright_workload::mail::MailStore;
use diskwright_workload::table::{BulkLoad, TableOptions, TableScan};
use diskwright_workload::transactions::{Database, DatabaseOptions};
use diskwright_workload::tree::{Backup, FileServer, FileTree, TreeOptions};
use diskwright_workload::users::{RunControl, UserOptions, UserOutcome, Work, run};

fn run_briefly(work: &impl Work) -> UserOutcome {
    let lasts = Duration::from_millis(400);
    let options = UserOptions {
        users: 3,
        mean_think_time: Duration::from_micros(100),
        rate_per_s: None,
        duration: lasts,
        seed: 4,
    };
    let outcome = run(work, &options, &RunControl::default()).unwrap();
    assert!(outcome.operations.iter().map(|operation| operation.done).sum::<u64>() > 0, "{outcome:?}");
    for operation in &outcome.operations {
        assert_eq!(operation.done > 0, operation.latency_s.is_some(), "{operation:?}");
    }
    outcome
}

/// A stop flag that is never set.
static NOT_STOPPED: AtomicBool = AtomicBool::new(false);

fn is_folder_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().next().is_none()
}

fn small_tree() -> TreeOptions {
    TreeOptions { files: 100, folders: 7, mean_bytes: 8192, seed: 1 }
}

#[test]
fn transactions_keep_committed_changes() {
    let folder = tempfile::tempdir().unwrap();
    let options = DatabaseOptions { data_bytes: 16 << 20, ..DatabaseOptions::default() };
    let database = Database::create(&options, folder.path(), folder.path(), &NOT_STOPPED).unwrap();
    let outcome = run_briefly(&database);
    database.verify_pages(&NOT_STOPPED).unwrap();
    assert_eq!(outcome.operations[0].operation, "query");
    let wrong = DatabaseOptions { data_bytes: 4096, ..options };
    assert!(matches!(Database::create(&wrong, folder.path(), folder.path(), &NOT_STOPPED), Err(WorkError::Usage(_))));
    drop(database);
    assert!(is_folder_empty(folder.path()));
}

#[test]
fn loads_and_scans_verify() {
    let folder = tempfile::tempdir().unwrap();
    // small enough that a load starts over
    let options = TableOptions { table_bytes: 1 << 20, batch_bytes: 128 << 10 };
    let load = BulkLoad::create(&options, folder.path()).unwrap();
    assert_eq!(run_briefly(&load).operations[0].bytes % (128 << 10), 0);
    load.verify_loaded(&NOT_STOPPED).unwrap();
    run_briefly(&TableScan::create(&options, folder.path(), &NOT_STOPPED).unwrap());
    let wrong = TableOptions { table_bytes: 1 << 20, batch_bytes: 100 };
    assert!(matches!(TableScan::create(&wrong, folder.path(), &NOT_STOPPED), Err(WorkError::Usage(_))));
}

#[test]
fn file_server_and_backup_verify() {
    let folder = tempfile::tempdir().unwrap();
    let server = FileServer::new(FileTree::create(&small_tree(), folder.path(), &NOT_STOPPED).unwrap());
    run_briefly(&server);
    server.0.verify_files(&NOT_STOPPED).unwrap();
    drop(server);
    let backup = Backup::create(&small_tree(), 3, folder.path(), &NOT_STOPPED).unwrap();
    let outcome = run_briefly(&backup);
    assert!(outcome.operations[0].bytes > 0);
    backup.verify_files(&NOT_STOPPED).unwrap();
    drop(backup);
    assert!(is_folder_empty(folder.path()));
}

#[test]
fn a_changed_file_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let tree = FileTree::create(&small_tree(), folder.path(), &NOT_STOPPED).unwrap();
    let inside = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    let file = std::fs::read_dir(inside.join("0003")).unwrap().next().unwrap().unwrap().path();
    let open = std::fs::OpenOptions::new().write(true).open(file).unwrap();
    open.write_all_at(b"x", 15).unwrap();
    let error = tree.verify_files(&NOT_STOPPED).unwrap_err().to_string();
    assert!(error.contains("not those that were written"), "{error}");
}

#[test]
fn mail_is_delivered_read_and_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let mail = MailStore::create(2048, folder.path()).unwrap();
    assert!(run_briefly(&mail).operations[0].done > 0);
    drop(mail);
    assert!(is_folder_empty(folder.path()));
}

/// Returns the files below a folder, at any depth.
fn files_below(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

/// Mail that a user never read is read back at the end: here a message is changed before that.
#[test]
fn unread_mail_is_verified_at_the_end() {
    struct Changed<'a>(MailStore, &'a Path);

    impl Work for Changed<'_> {
        type User = <MailStore as Work>::User;

        fn operation_names(&self) -> &'static [&'static str] {
            self.0.operation_names()
        }

        fn create_user(&self, number: usize) -> Result<Self::User, WorkError> {
            self.0.create_user(number)
        }

        fn run_operation(&self, user: &mut Self::User, rng: &mut Rng) -> Result<(usize, u64), WorkError> {
            self.0.run_operation(user, rng)
        }

        fn verify_user(&self, user: Self::User, stop: &AtomicBool) -> Result<(), WorkError> {
            let message = files_below(self.1).into_iter().find(|path| !path.ends_with(".lock")).unwrap();
            let open = std::fs::OpenOptions::new().write(true).open(message).unwrap();
            open.write_all_at(b"x", 2).unwrap();
            self.0.verify_user(user, stop)
        }
    }

    let folder = tempfile::tempdir().unwrap();
    let mail = Changed(MailStore::create(2048, folder.path()).unwrap(), folder.path());
    let lasts = Duration::from_millis(200);
    let options = UserOptions { users: 1, mean_think_time: Duration::ZERO, rate_per_s: None, duration: lasts, seed: 4 };
    let error = run(&mail, &options, &RunControl::default()).unwrap_err().to_string();
    assert!(error.contains("not as it was delivered"), "{error}");
}

#[test]
fn stops_while_files_are_made_or_verified() {
    let folder = tempfile::tempdir().unwrap();
    let (path, stop) = (folder.path(), &AtomicBool::new(true));
    let table = TableOptions { table_bytes: 1 << 20, batch_bytes: 128 << 10 };
    let database = DatabaseOptions { data_bytes: 16 << 20, ..DatabaseOptions::default() };
    let stopped = [
        Database::create(&database, path, path, stop).map(|_| ()),
        TableScan::create(&table, path, stop).map(|_| ()),
        FileTree::create(&small_tree(), path, stop).map(|_| ()),
        Backup::create(&small_tree(), 2, path, stop).map(|_| ()),
        BulkLoad::create(&table, path).unwrap().verify_loaded(stop),
        FileTree::create(&small_tree(), path, &NOT_STOPPED).unwrap().verify_files(stop),
    ];
    assert!(stopped.iter().all(|result| matches!(result, Err(WorkError::Stopped))), "{stopped:?}");
    assert!(is_folder_empty(path));
}
