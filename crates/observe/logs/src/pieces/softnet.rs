//! /proc/net/softnet_stat: packets that each processor took since boot, those that were dropped because its queue was
//! full, and how often it had to stop with packets left. A row is of one processor, in hexadecimal numbers.

use diskwright_base::counter_ids::network;

use super::Snapshot;
use super::interrupts::{MIN_TOLD_SHARE, RECEIVE_TOTAL};

/// Row that follows.
#[derive(Default)]
pub struct SoftnetState {
    /// Numbers of this dump by processor: packets, drops, times that packets were left.
    rows: Vec<[f64; 3]>,
}

/// Fewest and most columns of a kernel.
const COLUMNS: std::ops::RangeInclusive<usize> = 9..=16;
/// Name of the queues of all processors among the adapters.
const QUEUES: &str = "queues of the processors";
/// Fewest times that packets were left in the queues that are told.
const MIN_TOLD_SQUEEZES: f64 = 1000.0;

/// Reads a row.
pub fn read_line(snapshot: &mut Snapshot<'_, '_>, line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_row = COLUMNS.contains(&words.len()) && words.iter().all(|word| word.len() == 8);
    let numbers: Option<Vec<u32>> = words.iter().map(|word| u32::from_str_radix(word, 16).ok()).collect();
    let Some(numbers) = numbers.filter(|_| is_row) else { return false };
    let rows = &mut snapshot.softnet.rows;
    let cpu = rows.len();
    rows.push([0, 1, 2].map(|index| f64::from(numbers[index])));
    snapshot.put_total(RECEIVE_TOTAL, &format!("cpu{cpu}"), f64::from(numbers[0]));
    true
}

/// Puts what the rows tell of the tick. The numbers have 32 bits, so they may have begun again.
pub fn put_shares(snapshot: &mut Snapshot<'_, '_>) {
    let rows = std::mem::take(&mut snapshot.softnet.rows);
    if rows.len() < 2 {
        return;
    }
    let sum = |index: usize| rows.iter().map(|row| row[index]).sum::<f64>();
    let (packets, dropped, squeezed) = (sum(0), sum(1), sum(2));
    // that a queue is never full tells nothing of its processor
    if packets > 0.0 && dropped > 0.0 {
        snapshot.replace_value(network::RECEIVED_DROP_FRACTION, QUEUES, dropped / packets);
    }
    if packets > 0.0 && squeezed > 0.0 {
        let most = rows.iter().map(|row| row[0]).fold(0.0, f64::max);
        snapshot.replace_value(network::RECEIVE_BUSIEST_SHARE, QUEUES, most / packets);
        snapshot.replace_value(network::RECEIVE_SQUEEZED, QUEUES, squeezed);
    }
    let is_most = |row: &[f64; 3]| row[2] >= MIN_TOLD_SHARE * squeezed;
    if let Some(cpu) = rows.iter().position(is_most).filter(|_| squeezed >= MIN_TOLD_SQUEEZES) {
        snapshot.push_warning(format!(
            "cpu{cpu} stopped {} times with packets left in its queue, the other {} processors together {} times: it \
             takes more packets than it can serve",
            rows[cpu][2],
            rows.len() - 1,
            squeezed - rows[cpu][2],
        ));
    }
}
