//! Rows whose times are seconds since 1970: `mpstat -U`, `pidstat -H`.

use super::HEAD;
use crate::sysstat::testing::read_text;

const FIRST: i64 = 1_795_287_946;

#[test]
fn reads_seconds_since_1970_before_headings_and_rows() {
    let row = |second: i64, busy: u32| format!("{} all {busy}.00 0.00 {}.00\n", FIRST + second, 100 - busy);
    let heading = |second: i64| format!("{} CPU %usr %iowait %idle\n", FIRST + second);
    let text = format!("{HEAD}{}{}{}\n{}{}", heading(0), row(10, 10), row(20, 20), heading(20), row(30, 30));
    let read = read_text(&(text + "Average: all 20.00 0.00 80.00\n"));
    let expected: Vec<(i64, u64)> =
        [10, 20, 30].map(|second| ((FIRST + second) * 1_000_000_000, 10_000_000_000)).to_vec();
    assert_eq!(read.ticks, expected);
    assert_eq!(read.series_values("processor.user", "_total"), [0.1, 0.2, 0.3]);
    let summary = read.summary.unwrap();
    assert_eq!(summary.format, "sar-text");
    assert!(summary.skipped.is_empty(), "{:?}", summary.skipped);
    assert!(read.notes.iter().all(|note| note.kind != "warning"), "{:?}", read.notes);
}
