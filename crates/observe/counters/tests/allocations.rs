//! A steady-state tick allocates nothing. This is a separate program because it counts
//! the allocations of the whole process.

#![allow(unsafe_code, reason = "an allocator that counts cannot be written without")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

use diskwright_counters::live::fake::FakeMachine;
use diskwright_counters::live::{Roots, Sampler, SamplerOptions, SystemClock};

thread_local! {
    /// Allocations of this thread; the test harness has others.
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is handed to the system's allocator as it is; counting
// touches a thread-local number that needs no allocation itself.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: the caller's promises are passed on
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = COUNT.try_with(|c| c.set(c.get() + 1));
        // SAFETY: the same promise, passed on
        unsafe { System.alloc(layout) }
    }

    // SAFETY: the caller's promises are passed on
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the same promise, passed on
        unsafe { System.dealloc(pointer, layout) }
    }

    // SAFETY: the caller's promises are passed on
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let _ = COUNT.try_with(|c| c.set(c.get() + 1));
        // SAFETY: the same promise, passed on
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(mut action: impl FnMut()) -> u64 {
    let before = COUNT.with(Cell::get);
    action();
    COUNT.with(Cell::get) - before
}

/// Options without slow ticks after the first, and without processes, which are
/// also scanned when tasks wait.
fn steady() -> SamplerOptions {
    SamplerOptions { slow_interval: Duration::from_secs(3600), processes: false, ..SamplerOptions::default() }
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(std::hint::black_box(vec![1u8; 100]))), 1);
}

fn made_up(disks: u32) {
    let machine = FakeMachine::new();
    let text = |n: u32| -> String {
        let line = |i| format!("8 {i} sd{i:04}x {n} 0 8{n} 1 {n} 0 8 1 0 1 2 0 0 0 0 {n} 1\n8 {i} sd{i}a1 {n} 0 8 1\n");
        (0..disks).map(line).collect()
    };
    machine.put_ordinary_files().put_file("proc/diskstats", text(10)).put_file(
        "proc/self/mountinfo",
        "1 0 8:0 / / rw - ext4 /dev/sda rw\n2 1 0:20 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
    );
    machine.put_file("sys/fs/cgroup/a/memory.max", "1000\n").put_file("sys/fs/cgroup/a/memory.current", "900\n");
    machine.put_file("sys/fs/cgroup/a/io.stat", "8:0 rbytes=1 wbytes=2 rios=3 wios=4\n");
    machine.put_file("sys/fs/btrfs/aaaa/devinfo/1/error_stats", "write_errs 4\nread_errs 1\n");
    machine
        .put_file("sys/fs/btrfs/aaaa/label", "data\n")
        .put_file("sys/fs/btrfs/aaaa/allocation/data/raid0/total_bytes", "9\n");
    machine.put_file("sys/fs/btrfs/aaaa/devices/sda/size", "1\n").put_file("sys/fs/btrfs/aaaa/devices/sdb/size", "1\n");
    machine.put_file("proc/mdstat", "md0 : active raid1 sda[0] sdb[1]\n  9 blocks [2/2] [UU]\n");
    let mut sampler = Sampler::new(machine.roots(), Box::new(machine.clock.clone()), steady());
    sampler.tick();
    assert!(sampler.schema().series.len() > 17 * disks as usize);
    for n in 11..20 {
        machine.put_file("proc/diskstats", text(n));
        machine.clock.advance(1.0);
        let count = allocations(|| sampler.tick());
        assert_eq!(count, 0, "tick {n} with {disks} disks");
    }
    let column = sampler.schema().column("physical_disk.reads", "sd0003x").expect("a disk");
    assert_eq!(sampler.row()[column], 1.0, "and it still reads");
}

#[test]
fn a_tick_with_24_disks_allocates_nothing() {
    made_up(24);
}

#[test]
fn a_tick_with_1000_disks_allocates_nothing() {
    made_up(1000);
}

#[test]
fn a_tick_of_this_machine_allocates_nothing() {
    let mut sampler = Sampler::new(Roots::default(), Box::new(SystemClock), steady());
    sampler.tick();
    sampler.tick();
    // an interface or an interrupt may come up between two ticks of a real machine, but not between all of them
    let counts: Vec<u64> = (0..20).map(|_| allocations(|| sampler.tick())).collect();
    let quiet = counts.iter().filter(|n| **n == 0).count();
    assert!(quiet >= 15, "allocations of 20 ticks: {counts:?}");
}
