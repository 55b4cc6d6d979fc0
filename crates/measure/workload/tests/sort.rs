//! Sorts of real files, each compared with the same rows sorted by the standard library.

#![allow(clippy::disallowed_macros, reason = "what a test prints is shown when it fails")]

use std::path::Path;
use std::sync::atomic::Ordering;

use diskwright_workload::WorkError;
use diskwright_workload::sort::rows::RowShape;
use diskwright_workload::sort::{Progress, SortOptions, SortOutcome, SortSource, check, sort};

/// Creates a folder on the checkout's filesystem, which may have direct I/O; a folder in memory has none.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn options(folder: &Path, rows: u64, memory: u64) -> SortOptions {
    SortOptions {
        rows,
        shape: RowShape { row: 100, key: 10 },
        memory,
        threads: 1,
        source: folder.to_path_buf(),
        work: vec![folder.to_path_buf()],
        target: folder.to_path_buf(),
        direct: false,
        request: 0,
        merge_request: 0,
        sync: false,
        seed: 1,
        keep: Some(folder.join("sorted")),
    }
}

/// Sorts, and compares the result with rows sorted by the standard library.
fn sorted(options: &SortOptions) -> SortOutcome {
    check(options).unwrap();
    let progress = Progress::default();
    let source = SortSource::make(options, &progress).unwrap();
    let outcome = sort(options, &source, &progress).unwrap();
    let mut all = vec![0; options.rows as usize * options.shape.row];
    options.shape.make(options.seed, 0, &mut all);
    let mut rows: Vec<&[u8]> = all.chunks(options.shape.row).collect();
    rows.sort_by_key(|row| &row[..options.shape.key]);
    let name = options.keep.as_ref().unwrap();
    assert!(std::fs::read(name).unwrap() == rows.concat(), "{outcome:?}");
    std::fs::remove_file(name).unwrap();
    // a single remaining run of a pass is not moved
    let (moved, max_moved) = (progress.rows.load(Ordering::Relaxed), options.rows * u64::from(1 + outcome.passes));
    assert!(moved <= max_moved && moved + options.rows > max_moved, "{moved} of {max_moved}");
    outcome
}

#[test]
fn all_in_memory_in_one_pass_and_in_several() {
    let folder = folder();
    let rows = 100_003;
    let base = options(folder.path(), rows, 0);
    for threads in [1, 3] {
        for (memory, passes) in [(64 << 20, 0), (4 << 20, 1), (400 << 10, 2)] {
            let options = SortOptions { memory, threads, ..base.clone() };
            let outcome = sorted(&options);
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
fn past_the_file_cache() {
    let folder = folder();
    for (threads, memory) in [(1, 4 << 20), (2, 6 << 20), (2, 700 << 10), (2, 64 << 20)] {
        let options = SortOptions { direct: true, threads, memory, ..options(folder.path(), 70_001, 0) };
        if let Err(WorkError::Io { what, .. }) = SortSource::make(&options, &Progress::default())
            .and_then(|source| sort(&options, &source, &Progress::default()).map(|_| ()))
            && what.contains("direct")
        {
            println!("skipped: no direct I/O in {}", folder.path().display());
            // the error must come before the rows are made
            assert!(check(&options).is_err_and(|error| error.to_string().contains("try --buffered")));
            return;
        }
        let _ = std::fs::remove_file(folder.path().join("sorted"));
        sorted(&options);
    }
}

#[test]
fn rows_of_other_shapes_and_several_work_folders() {
    let (a, b) = (folder(), folder());
    for (row, key) in [(19, 1), (64, 8), (333, 40), (5000, 12)] {
        let base = options(a.path(), 20_000_000 / row as u64 / 10, 1 << 20);
        let work = vec![a.path().to_path_buf(), b.path().to_path_buf()];
        let outcome = sorted(&SortOptions { shape: RowShape { row, key }, work, threads: 2, sync: true, ..base });
        assert_eq!(outcome.stages.last().unwrap().name, "sync");
        assert!(outcome.verified && outcome.cpu_s > 0.0);
    }
}

#[test]
fn a_file_that_is_there_is_sorted_and_stays() {
    let folder = folder();
    let name = folder.path().join("rows.txt");
    let mut rows = vec![0; 5000 * 100];
    RowShape { row: 100, key: 10 }.make(9, 0, &mut rows);
    std::fs::write(&name, &rows).unwrap();
    let given = SortOptions { source: name.clone(), seed: 9, rows: 5000, ..options(folder.path(), 1, 300 << 10) };
    sorted(&given);
    assert_eq!(std::fs::read(&name).unwrap(), rows);
    let other = SortOptions { shape: RowShape { row: 90, key: 10 }, ..given.clone() };
    let error = check(&other).unwrap_err().to_string();
    assert!(error.contains("not a whole number of rows of 90 bytes"), "{error}");
    rows[99] = b'x';
    std::fs::write(&name, &rows).unwrap();
    let error = SortSource::make(&given, &Progress::default()).unwrap_err().to_string();
    assert!(error.contains("row 1 of 100 bytes does not end with a line end"), "{error}");
}

#[test]
fn no_room_and_no_memory_are_said_before_anything_is_written() {
    let folder = folder();
    let much = options(folder.path(), 1 << 50, 1 << 46);
    let error = check(&much).unwrap_err();
    assert!(matches!(error, WorkError::NoRoom { .. }), "{error}");
    let error = check(&options(folder.path(), 100_000, 50_000)).unwrap_err();
    assert!(matches!(error, WorkError::Usage(_)) && error.to_string().contains("at least"), "{error}");
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none());
}

#[test]
fn a_source_that_changes_is_found() {
    let folder = folder();
    let options = options(folder.path(), 10_000, 400 << 10);
    let source = SortSource::make(&options, &Progress::default()).unwrap();
    std::os::unix::fs::FileExt::write_all_at(source.file(), b"Z", 12_345).unwrap();
    let error = sort(&options, &source, &Progress::default()).unwrap_err().to_string();
    assert!(error.contains("differ from those of the source"), "{error}");
}

#[test]
fn who_stops_it_finds_nothing_left() {
    let folder = folder();
    let options = options(folder.path(), 100_000, 1 << 20);
    let source = SortSource::make(&options, &Progress::default()).unwrap();
    let stopped = Progress::default();
    stopped.stop.store(true, Ordering::Relaxed);
    assert!(matches!(sort(&options, &source, &stopped), Err(WorkError::Stopped)));
    drop(source);
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none());
}
