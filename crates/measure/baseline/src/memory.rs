//! Memory: bandwidth of arrays that no cache holds (STREAM, McCalpin 1995) and latency of following
//! pointers in random order through a working set (lmbench's lat_mem_rd, McVoy and Staelin 1996).

use std::hint::black_box;

use crate::BaselineError;
use crate::machine::WorkingSizes;
use crate::work_kernel::{ThreadShare, WorkKernel};

/// Size of a cache line, bytes. A line of 128 bytes counts as two, of which the second comes along
/// with the first.
const LINE_BYTES: usize = 64;
/// Words of 8 bytes in a line.
const WORDS_PER_LINE: usize = LINE_BYTES / 8;

/// Returns the number of 8-byte elements in this thread's part of an array.
fn elements_per_thread(sizes: &WorkingSizes, share: ThreadShare) -> usize {
    let bytes = if share.threads == 1 { sizes.array_bytes } else { sizes.all_threads_bytes };
    (bytes as usize / 8 / share.threads).max(WORDS_PER_LINE)
}

/// Makes the read kernel: it sums an array; a round is one pass.
pub fn make_read_kernel(sizes: &WorkingSizes, share: ThreadShare) -> Result<WorkKernel, BaselineError> {
    let length = elements_per_thread(sizes, share);
    let array: Vec<u64> = (0..length as u64).collect();
    let work = move |rounds: u64| {
        let mut total = 0u64;
        for _ in 0..rounds {
            total = total.wrapping_add(black_box(&array).iter().fold(0, |sum, x| sum ^ x.rotate_left(1)));
            total = black_box(total.rotate_left(3));
        }
        Ok(total)
    };
    Ok(WorkKernel { run_rounds: Box::new(work), units_per_round: (length * 8) as f64, is_repeatable: true })
}

/// Makes the STREAM triad kernel: a[i] = b[i] + q c[i]. It counts 24 bytes an element, as STREAM
/// does; lines that a cache reads before it writes them are not counted.
pub fn make_triad_kernel(sizes: &WorkingSizes, share: ThreadShare) -> Result<WorkKernel, BaselineError> {
    let length = elements_per_thread(sizes, share);
    let mut a = vec![1.0f64; length];
    let (b, c) = (vec![2.0f64; length], vec![0.5f64; length]);
    let work = move |rounds: u64| {
        let q = black_box(3.0);
        for _ in 0..rounds {
            let (b, c) = (black_box(&b), black_box(&c));
            for ((a, b), c) in a.iter_mut().zip(b).zip(c) {
                *a = b + q * c;
            }
            black_box(&mut a);
        }
        // check the result, as STREAM does: 2 + 3 x 0.5
        if a.iter().any(|x| *x != 3.5) {
            return Err(BaselineError::InconsistentResult { figure: "memory.triad" });
        }
        Ok(rounds)
    };
    Ok(WorkKernel { run_rounds: Box::new(work), units_per_round: (length * 24) as f64, is_repeatable: true })
}

/// Makes the latency kernel: it follows a random cycle through all lines of a working set (Sattolo
/// 1986), each load depending on the one before. A unit is a load.
pub fn make_latency_kernel<const BYTES: usize>(
    sizes: &WorkingSizes,
    _: ThreadShare,
) -> Result<WorkKernel, BaselineError> {
    const LOADS_PER_ROUND: u64 = 1 << 12;
    if BYTES as u64 > sizes.available_bytes / 4 {
        return Err(BaselineError::Unsupported(
            "the working set is larger than a quarter of the available memory".into(),
        ));
    }
    let chain = build_random_cycle(BYTES / LINE_BYTES);
    let work = move |rounds: u64| {
        let mut position = 0u64;
        for _ in 0..rounds {
            for _ in 0..LOADS_PER_ROUND {
                position = chain[position as usize];
            }
            position = black_box(position);
        }
        Ok(position)
    };
    Ok(WorkKernel { run_rounds: Box::new(work), units_per_round: LOADS_PER_ROUND as f64, is_repeatable: true })
}

/// Builds an array in which the first word of each line holds the index of the next line's first
/// word, all in one cycle.
fn build_random_cycle(lines: usize) -> Vec<u64> {
    assert!(lines > 1 && u32::try_from(lines).is_ok(), "a cycle of {lines} lines");
    let mut order: Vec<u32> = (0..lines as u32).collect();
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    for last in (1..lines).rev() {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // the partner is below `last`, never `last` itself: this makes it one single cycle
        order.swap(last, ((random >> 33) % last as u64) as usize);
    }
    let mut chain = vec![0u64; lines * WORDS_PER_LINE];
    for (line, next) in order.into_iter().enumerate() {
        chain[line * WORDS_PER_LINE] = u64::from(next) * WORDS_PER_LINE as u64;
    }
    debug_assert_eq!(count_cycle_lines(&chain), lines, "a shorter cycle would fit into a cache");
    chain
}

/// Counts the lines that are visited before the first one comes again.
fn count_cycle_lines(chain: &[u64]) -> usize {
    let (mut position, mut visits) = (0, 0);
    loop {
        assert_eq!(position % WORDS_PER_LINE, 0, "not the first word of a line");
        position = chain[position] as usize;
        visits += 1;
        if position == 0 || visits == chain.len() {
            return visits;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cycle_visits_each_line_once() {
        for lines in [2, 3, 64, 1000] {
            assert_eq!(count_cycle_lines(&build_random_cycle(lines)), lines);
        }
    }

    #[test]
    fn parts_of_an_array_are_equal_and_bytes_are_counted() {
        let sizes = WorkingSizes { array_bytes: 1 << 20, all_threads_bytes: 1 << 20, available_bytes: 1 << 30 };
        let full = make_triad_kernel(&sizes, ThreadShare { index: 0, threads: 1 }).expect("made");
        let mut half = make_triad_kernel(&sizes, ThreadShare { index: 0, threads: 2 }).expect("made");
        assert_eq!((full.units_per_round, half.units_per_round), (3.0 * 1_048_576.0, 3.0 * 524_288.0));
        assert_eq!((half.run_rounds)(2).expect("right"), 2);
        let mut sum = make_read_kernel(&sizes, ThreadShare { index: 0, threads: 4096 }).expect("made");
        // 32 numbers, 0 to 31, doubled: their exclusive or is 0
        assert_eq!((sum.units_per_round, (sum.run_rounds)(1).expect("read")), (256.0, 0));
    }

    #[test]
    fn the_arrays_of_all_threads_exceed_all_caches() {
        let sizes = WorkingSizes { array_bytes: 1 << 20, all_threads_bytes: 4 << 20, available_bytes: 1 << 30 };
        let bytes =
            |threads| make_read_kernel(&sizes, ThreadShare { index: 0, threads }).expect("made").units_per_round;
        assert_eq!((bytes(1), 2.0 * bytes(2)), (1_048_576.0, 4_194_304.0));
    }

    #[test]
    fn a_working_set_larger_than_memory_is_refused() {
        let sizes = WorkingSizes { array_bytes: 1 << 20, all_threads_bytes: 1 << 20, available_bytes: 32 << 10 };
        assert!(make_latency_kernel::<{ 16 << 10 }>(&sizes, ThreadShare { index: 0, threads: 1 }).is_err());
    }
}
