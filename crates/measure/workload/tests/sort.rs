//! Sorts of real files, each compared with the same rows sorted by the standard library.

#![allow(clippy::disallowed_macros, reason = "what a test prints is shown when it fails")]

use std::path::Path;
use std::sync::atomic::Ordering;

use diskwright_workload::WorkError;
use diskwright_workload::sort::rows::RowShape;
use diskwright_workload::sort::{Progress, SortOptions, SortOutcome, SortSource, check_sort, run_sort};

/// Creates a folder on the checkout's filesystem, which may have direct I/O; a folder in memory has none.
fn test_folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn sort_options(folder: &Path, rows: u64, memory: u64) -> SortOptions {
    SortOptions {
        rows,
        shape: RowShape { row_bytes: 100, key_bytes: 10 },
        memory_bytes: memory,
        threads: 1,
        source: folder.to_path_buf(),
        work_folders: vec![folder.to_path_buf()],
        target_folder: folder.to_path_buf(),
        direct: false,
        request_bytes: 0,
        merge_request_bytes: 0,
        sync: false,
        seed: 1,
        keep_as: Some(folder.join("sorted")),
    }
}

/// Sorts, and compares the result with rows sorted by the standard library.
fn sort_and_check(options: &SortOptions) -> SortOutcome {
    check_sort(options).unwrap();
    let progress = Progress::default();
    let source = SortSource::create_or_open(options, &progress).unwrap();
    let outcome = run_sort(options, &source, &progress).unwrap();
    let mut all = vec![0; options.rows as usize * options.shape.row_bytes];
    options.shape.make_rows(options.seed, 0, &mut all);
    let mut rows: Vec<&[u8]> = all.chunks(options.shape.row_bytes).collect();
    rows.sort_by_key(|row| &row[..options.shape.key_bytes]);
    let name = options.keep_as.as_ref().unwrap();
    assert!(std::fs::read(name).unwrap() == rows.concat(), "{outcome:?}");
    std::fs::remove_file(name).unwrap();
    // a single remaining run of a pass is not moved
    let (moved, max_moved) = (progress.rows.load(Ordering::Relaxed), options.rows * u64::from(1 + outcome.passes));
    assert!(moved <= max_moved && moved + options.rows > max_moved, "{moved} of {max_moved}");
    outcome
}

#[test]
fn sorts_in_memory_in_one_pass_and_in_several() {
    let folder = test_folder();
    let rows = 100_003;
    let base = sort_options(folder.path(), rows, 0);
    for threads in [1, 3] {
        for (memory, passes) in [(64 << 20, 0), (4 << 20, 1), (400 << 10, 2)] {
            let options = SortOptions { memory_bytes: memory, threads, ..base.clone() };
            let outcome = sort_and_check(&options);
            if threads == 1 {
                assert_eq!(outcome.passes, passes, "{outcome:?}");
            }
            let read: u64 = outcome.stages.iter().map(|stage| stage.steps.read.bytes).sum();
            let wrote: u64 = outcome.stages.iter().map(|stage| stage.steps.write.bytes).sum();
            let data = rows * 100 * u64::from(1 + outcome.passes);
            // threads also read to find where to cut runs; a single remaining run is not copied
            assert!(read + rows * 100 >= data && read < data + data / 3, "{read} {data} {outcome:?}");
            assert!(wrote <= data && wrote + rows * 100 > data, "{wrote} {data}");
        }
    }
}

#[test]
fn sorts_past_the_file_cache() {
    let folder = test_folder();
    for (threads, memory) in [(1, 4 << 20), (2, 6 << 20), (2, 700 << 10), (2, 64 << 20)] {
        let options =
            SortOptions { direct: true, threads, memory_bytes: memory, ..sort_options(folder.path(), 70_001, 0) };
        if let Err(WorkError::Io { operation, .. }) = SortSource::create_or_open(&options, &Progress::default())
            .and_then(|source| run_sort(&options, &source, &Progress::default()).map(|_| ()))
            && operation.contains("direct")
        {
            println!("skipped: no direct I/O in {}", folder.path().display());
            // the error must come before the rows are made
            assert!(check_sort(&options).is_err_and(|error| error.to_string().contains("try --buffered")));
            return;
        }
        let _ = std::fs::remove_file(folder.path().join("sorted"));
        sort_and_check(&options);
    }
}

#[test]
fn sorts_rows_of_other_shapes_in_several_work_folders() {
    let (a, b) = (test_folder(), test_folder());
    for (row, key) in [(19, 1), (64, 8), (333, 40), (5000, 12)] {
        let base = sort_options(a.path(), 20_000_000 / row as u64 / 10, 1 << 20);
        let work = vec![a.path().to_path_buf(), b.path().to_path_buf()];
        let outcome = sort_and_check(&SortOptions {
            shape: RowShape { row_bytes: row, key_bytes: key },
            work_folders: work,
            threads: 2,
            sync: true,
            ..base
        });
        assert_eq!(outcome.stages.last().unwrap().name, "sync");
        assert!(outcome.verified && outcome.cpu_s > 0.0);
    }
}

#[test]
fn sorts_an_existing_file_and_keeps_it() {
    let folder = test_folder();
    let name = folder.path().join("rows.txt");
    let mut rows = vec![0; 5000 * 100];
    RowShape { row_bytes: 100, key_bytes: 10 }.make_rows(9, 0, &mut rows);
    std::fs::write(&name, &rows).unwrap();
    let given = SortOptions { source: name.clone(), seed: 9, rows: 5000, ..sort_options(folder.path(), 1, 300 << 10) };
    sort_and_check(&given);
    assert_eq!(std::fs::read(&name).unwrap(), rows);
    let other = SortOptions { shape: RowShape { row_bytes: 90, key_bytes: 10 }, ..given.clone() };
    let error = check_sort(&other).unwrap_err().to_string();
    assert!(error.contains("not a whole number of rows of 90 bytes"), "{error}");
    rows[99] = b'x';
    std::fs::write(&name, &rows).unwrap();
    let error = SortSource::create_or_open(&given, &Progress::default()).unwrap_err().to_string();
    assert!(error.contains("row 1 of 100 bytes does not end with a line end"), "{error}");
}

#[test]
fn rejects_missing_space_and_memory_before_writing() {
    let folder = test_folder();
    let much = sort_options(folder.path(), 1 << 50, 1 << 46);
    let error = check_sort(&much).unwrap_err();
    assert!(matches!(error, WorkError::NoRoom { .. }), "{error}");
    let error = check_sort(&sort_options(folder.path(), 100_000, 50_000)).unwrap_err();
    assert!(matches!(error, WorkError::Usage(_)) && error.to_string().contains("at least"), "{error}");
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none());
}

#[test]
fn finds_a_source_that_changes() {
    let folder = test_folder();
    let options = sort_options(folder.path(), 10_000, 400 << 10);
    let source = SortSource::create_or_open(&options, &Progress::default()).unwrap();
    std::os::unix::fs::FileExt::write_all_at(source.file(), b"Z", 12_345).unwrap();
    let error = run_sort(&options, &source, &Progress::default()).unwrap_err().to_string();
    assert!(error.contains("differ from those of the source"), "{error}");
}

#[test]
fn a_stopped_sort_leaves_nothing_behind() {
    let folder = test_folder();
    let options = sort_options(folder.path(), 100_000, 1 << 20);
    let source = SortSource::create_or_open(&options, &Progress::default()).unwrap();
    let stopped = Progress::default();
    stopped.stop.store(true, Ordering::Relaxed);
    assert!(matches!(run_sort(&options, &source, &stopped), Err(WorkError::Stopped)));
    drop(source);
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none());
}
