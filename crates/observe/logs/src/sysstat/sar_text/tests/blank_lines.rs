//! Averages below tables, and tables whose blank lines were removed.

use super::{HEAD, two_tables};
use crate::sysstat::testing::read_text;

/// Unknown tables too: their headings stand below the averages of the table before.
#[test]
fn tables_without_blank_lines_keep_their_own_columns() {
    let table = |names: &str, value: &str| {
        format!("00:00:05 {names}\n00:20:05 {value} 0.00\n23:40:05 {value} 0.00\nAverage: {value} 0.00\n")
    };
    let text = table("imsg/s omsg/s", "3.00") + &table("ierr/s oerr/s", "0.00") + &table("pswpin/s pswpout/s", "8.00");
    for text in [text.clone(), text.replace("Average", "\nAverage").replace("0.00\n00:", "0.00\n\n00:")] {
        let read = read_text(&(HEAD.to_owned() + &text));
        assert_eq!(read.ticks.len(), 2, "{:?}", read.ticks);
        assert_eq!(read.series_values("foreign.imsg.imsg", ""), [3.0; 2]);
        assert_eq!(read.series_values("paging.swap_in_pages_per_s", ""), [8.0; 2]);
    }
}

#[test]
fn skips_averages_in_all_languages() {
    let full_text = two_tables(["13:20:19", "13:20:29", "13:20:19", "13:20:29"]);
    for word in ["Durchschn.:", "Moyenne :", "平均時間：", "Среднее:", "Trung bình:", "Average:"] {
        let both = format!(
            "Average: CPU %user %idle\nAverage: all 15.00 85.00\n{full_text}Average: CPU %user %idle\n\
                            Average: all 15.00 85.00\n"
        );
        let read = read_text(&full_text.replace("Average:", word));
        assert!(read.summary.unwrap().skipped.is_empty(), "{word}");
        let read = read_text(&both.split_once('\n').unwrap().1.split_once('\n').unwrap().1.replace("Average:", word));
        assert!(read.summary.unwrap().skipped.is_empty(), "{word}");
    }
}
