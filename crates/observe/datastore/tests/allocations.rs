//! Once it has written a block, a recorder allocates no more memory. This is a separate
//! program, because it replaces the allocator to count allocations.

#![allow(unsafe_code, reason = "an allocator that counts cannot be written without")]
#![allow(clippy::expect_used)]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use common::{TempDir, options, schema, tick};
use diskwright_datastore::LogWriter;

thread_local! {
    /// Allocations of this thread; the test harness has others.
    static ALLOCATION_COUNT: Cell<u64> = const { Cell::new(0) };
}

struct CountingAllocator;

// SAFETY: every call is passed unchanged to the system's allocator; counting
// changes a thread-local number, which needs no allocation.
unsafe impl GlobalAlloc for CountingAllocator {
    // SAFETY: the caller's promises are passed on
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATION_COUNT.try_with(|c| c.set(c.get() + 1));
        // SAFETY: the same promise, passed on
        unsafe { System.alloc(layout) }
    }

    // SAFETY: the caller's promises are passed on
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the same promise, passed on
        unsafe { System.dealloc(place, layout) }
    }

    // SAFETY: the caller's promises are passed on
    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let _ = ALLOCATION_COUNT.try_with(|c| c.set(c.get() + 1));
        // SAFETY: the same promise, passed on
        unsafe { System.realloc(place, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Cells of all kinds: constant, sparse, noisy, with decimals, with gaps.
fn cells_of_all_sorts(i: u64, row: &mut [f64]) {
    for (column, cell) in row.iter_mut().enumerate() {
        let noise = (i * 131 + column as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52;
        *cell = match column % 5 {
            0 => 7.0,
            1 => f64::from(u8::from(noise < 40)),
            2 => noise as f64,
            3 => noise as f64 / 100.0,
            _ if noise < 200 => f64::NAN,
            _ => (noise * column as u64) as f64,
        };
    }
}

#[test]
fn a_steady_recorder_allocates_nothing() {
    let dir = TempDir::new();
    let schema = schema(100);
    let mut writer = LogWriter::create_or_append(&dir.0, options(30)).expect("new log");
    let mut row = vec![0.0; 100];
    let mut push = |i: u64| {
        cells_of_all_sorts(i, &mut row);
        writer.push(&schema, tick(i), &row).expect("writable");
    };
    let count = || ALLOCATION_COUNT.with(Cell::get);
    // Memory grows to the need of the largest block; then it is kept.
    (0..300).for_each(&mut push);
    assert!(count() > 0, "the counter counts");
    let before = count();
    (300..600).for_each(&mut push);
    assert_eq!(count() - before, 0, "ten blocks later");
}
