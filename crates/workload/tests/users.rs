//! Each kind of work on real files, for a moment, with its content read back.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

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
    let database = Database::create(&options, folder.path(), folder.path()).unwrap();
    let outcome = work(&database);
    database.verify().unwrap();
    assert_eq!(outcome.operations[0].operation, "query");
    let wrong = DatabaseOptions { bytes: 4096, ..options };
    assert!(matches!(Database::create(&wrong, folder.path(), folder.path()), Err(WorkError::Usage(_))));
    drop(database);
    assert!(is_empty(folder.path()));
}

#[test]
fn loads_and_scans() {
    let folder = tempfile::tempdir().unwrap();
    // small enough that a load begins anew
    let options = TableOptions { bytes: 1 << 20, batch: 128 << 10 };
    let load = BulkLoad::create(&options, folder.path()).unwrap();
    assert_eq!(work(&load).operations[0].bytes % (128 << 10), 0);
    load.verify().unwrap();
    work(&TableScan::create(&options, folder.path()).unwrap());
    let wrong = TableOptions { bytes: 1 << 20, batch: 100 };
    assert!(matches!(TableScan::create(&wrong, folder.path()), Err(WorkError::Usage(_))));
}

#[test]
fn files_of_a_server_and_of_a_backup() {
    let folder = tempfile::tempdir().unwrap();
    let server = FileServer(FileTree::create(&tree(), folder.path()).unwrap());
    work(&server);
    server.0.verify().unwrap();
    drop(server);
    let backup = Backup { tree: FileTree::create(&tree(), folder.path()).unwrap(), users: 3 };
    let outcome = work(&backup);
    assert!(outcome.operations[0].bytes > 0);
    drop(backup);
    assert!(is_empty(folder.path()));
}

#[test]
fn a_changed_file_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let tree = FileTree::create(&tree(), folder.path()).unwrap();
    let inside = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    let file = std::fs::read_dir(inside.join("0003")).unwrap().next().unwrap().unwrap().path();
    let open = std::fs::OpenOptions::new().write(true).open(file).unwrap();
    open.write_all_at(b"x", 15).unwrap();
    let error = tree.verify().unwrap_err().to_string();
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
