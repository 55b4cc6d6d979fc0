use std::fs::File;
use std::io::Write;
use std::time::Instant;

use super::ring::Ring;
use super::threads::ThreadEngine;
use super::*;

#[test]
fn reduces_slots_to_the_limits_and_says_so() {
    let room = |slots, largest| BufferSpec { slots, max_request_bytes: largest, seed: 1, writes: false };
    let mut usual = room(64, 4096);
    assert_eq!((usual.fit_to_limits(MAX_BUFFER_BYTES, 512), usual.slots), (None, 64));
    let mut many = room(600, 4096);
    let sentence = many.fit_to_limits(MAX_BUFFER_BYTES, 512).unwrap();
    assert!(many.slots == 512 && sentence.contains("512 of 600") && sentence.contains("engine"), "{sentence}");
    let mut large = room(4096, 8 << 20);
    let sentence = large.fit_to_limits(MAX_BUFFER_BYTES, 65_536).unwrap();
    assert!(large.slots == 128 && sentence.contains("1024 MiB"), "{sentence}");
    // one is always served
    let mut huge = room(2, u32::MAX);
    assert!(huge.fit_to_limits(MAX_BUFFER_BYTES, 512).is_some() && huge.slots == 1);
}

/// Creates a file of `blocks` blocks of 512 bytes.
fn file_of_blocks(blocks: u32) -> File {
    let mut file = tempfile::tempfile().unwrap();
    for block in 0..blocks {
        file.write_all(&[block as u8; 512]).unwrap();
    }
    file
}

fn read_op(slot: u32, block: u64) -> Op {
    Op { slot, action: Action::Read, offset: block * 512, length: 512 }
}

/// Waits for `count` completions; returns them in the order of their slots.
fn wait_for_completions(engine: &mut impl IoEngine, count: usize) -> Vec<(u32, i32)> {
    let mut done = Vec::new();
    while done.len() < count {
        engine.submit_and_wait(WaitFor::One, &mut done).unwrap();
    }
    let mut done: Vec<_> = done.iter().map(|d| (d.slot, d.result)).collect();
    done.sort_unstable();
    done
}

/// Checks that an engine handles requests that succeed and requests that fail.
fn check_engine(engine: &mut impl IoEngine, file: &File, slots: u32) {
    let mut none = Vec::new();
    // with nothing in flight, waiting for a completion ends at once, and waiting for a time at that
    // time
    engine.submit_and_wait(WaitFor::One, &mut none).unwrap();
    let until = engine.now() + 2_000_000;
    engine.submit_and_wait(WaitFor::Until(until), &mut none).unwrap();
    assert!(engine.now() >= until && none.is_empty());
    for _ in 0..3 {
        (0..slots).for_each(|slot| engine.queue_op(read_op(slot, u64::from(slot) % 8)));
        let expected: Vec<_> = (0..slots).map(|slot| (slot, 512)).collect();
        assert_eq!(wait_for_completions(engine, slots as usize), expected);
    }
    // at the end of the file less is read, past it nothing
    engine.queue_op(Op { length: 1024, ..read_op(0, 7) });
    assert_eq!(wait_for_completions(engine, 1), [(0, 512)]);
    engine.queue_op(read_op(0, 8));
    assert_eq!(wait_for_completions(engine, 1), [(0, 0)]);
    // an offset that no file has
    engine.queue_op(Op { offset: i64::MAX as u64, ..read_op(0, 0) });
    let (_, result) = wait_for_completions(engine, 1)[0];
    assert!(result < 0, "{result}");
    engine.queue_op(Op { slot: 0, action: Action::Write, offset: 0, length: 512 });
    assert_eq!(wait_for_completions(engine, 1), [(0, 512)]);
    for action in [Action::Fdatasync, Action::Fsync] {
        engine.queue_op(Op { slot: 0, action, offset: 0, length: 0 });
        assert_eq!(wait_for_completions(engine, 1), [(0, 0)]);
    }
    let mut text = [1; 512];
    std::os::unix::fs::FileExt::read_exact_at(file, &mut text, 0).unwrap();
    assert!(text.iter().any(|byte| *byte != text[0]), "what was written can be made smaller");
}

#[test]
fn threads_serve_one_slot_and_many() {
    for slots in [1, 2, 40] {
        let file = file_of_blocks(8);
        let spec = BufferSpec { slots, max_request_bytes: 1024, seed: 1, writes: true };
        let mut threads = ThreadEngine::new(file.try_clone().unwrap().into(), &spec, Instant::now()).unwrap();
        assert_eq!((threads.slot_count(), threads.notes()), (slots, &[][..]));
        check_engine(&mut threads, &file, slots);
    }
}

#[test]
fn a_ring_serves_more_slots_than_its_queue_holds() {
    for (slots, queue) in [(1, 2), (64, 64), (64, 16), (40, 2)] {
        let file = file_of_blocks(8);
        let spec = BufferSpec { slots, max_request_bytes: 1024, seed: 1, writes: true };
        let file_copy = file.try_clone().unwrap().into();
        let mut ring = match Ring::with_queue_size(file_copy, &spec, Instant::now(), queue) {
            Ok(ring) => ring,
            Err(why) => {
                eprintln!("skipped: no io_uring here: {why}");
                return;
            }
        };
        check_engine(&mut ring, &file, slots);
        // dropping the ring waits for the requests in flight
        (0..slots).for_each(|slot| ring.queue_op(read_op(slot, 0)));
    }
}

/// Set in the process that runs the test below with very little locked memory.
const INNER_TEST_VARIABLE: &str = "DISKWRIGHT_TEST_WITHOUT_LOCKED_MEMORY";

#[test]
fn without_locked_memory_buffers_are_plain_and_that_is_said() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    if std::env::var_os(INNER_TEST_VARIABLE).is_none() {
        // the limit applies to the whole process, so the test runs in a child process
        let name = "engine::tests::without_locked_memory_buffers_are_plain_and_that_is_said";
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let output = child.args([name, "--exact", "--nocapture"]).env(INNER_TEST_VARIABLE, "1").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    setrlimit(Resource::Memlock, Rlimit { current: Some(8192), maximum: Some(8192) }).unwrap();
    let mut sets = rustix::thread::capabilities(None).unwrap();
    // root may lock what it likes
    sets.effective.remove(rustix::thread::CapabilitySet::IPC_LOCK);
    rustix::thread::set_capabilities(None, sets).unwrap();
    let file = file_of_blocks(8);
    let spec = BufferSpec { slots: 64, max_request_bytes: 4096, seed: 1, writes: true };
    let Ok(mut ring) = Ring::new(file.try_clone().unwrap().into(), &spec, Instant::now()) else {
        // older kernels count the ring itself too: threads serve there
        eprintln!("skipped: no io_uring with so little memory");
        return;
    };
    assert!(ring.notes()[0].contains("not registered"), "{:?}", ring.notes());
    check_engine(&mut ring, &file, 64);
}
