//! Whole tables, and broken ones.

use super::CsvColumn;
use crate::LogOptions;
use crate::sysstat::testing::{ReadOutcome, read_bytes, read_text};

fn named(columns: &[&str]) -> LogOptions {
    let columns = columns.iter().map(|text| CsvColumn::parse(text).unwrap()).collect();
    LogOptions { columns, ..LogOptions::default() }
}

fn seconds(read: &ReadOutcome) -> Vec<i64> {
    read.ticks.iter().map(|(time_ns, _)| time_ns / 1_000_000_000 - 1_795_244_700).collect()
}

const GRAFANA: &str = "\"Time\",\"sda reads\",\"sda busy\",\"throughput\"\n2026-11-21 07:05:00,10,45%,1.5 MB/s\n\
    2026-11-21 07:06:00,20,50%,500 kB/s\n2026-11-21 07:07:00,,55%,\n";

#[test]
fn reads_a_panel_of_grafana_with_given_names() {
    let options = named(&[
        "sda reads=physical_disk.reads_per_s:sda",
        "* busy=physical_disk.busy",
        "throughput=physical_disk.bytes_per_s:sda:MB/s",
    ]);
    let read = read_bytes(GRAFANA.as_bytes(), &options);
    assert_eq!(seconds(&read), [0, 60, 120]);
    assert_eq!(read.series_values("physical_disk.reads_per_s", "sda")[..2], [10.0, 20.0]);
    assert_eq!(read.series_values("physical_disk.busy", "sda"), [0.45, 0.5, 0.55]);
    assert_eq!(read.series_values("physical_disk.bytes_per_s", "sda")[..2], [1.5e6, 0.5e6]);
    assert!(read.series_values("physical_disk.reads_per_s", "sda")[2].is_nan());
    let summary = read.summary.unwrap();
    assert_eq!((summary.format, summary.skipped.len()), ("csv", 0));
    // what is not named stays
    let read = read_bytes(GRAFANA.as_bytes(), &named(&["sda reads=physical_disk.reads_per_s:sda"]));
    assert!(read.series_values("foreign.csv.sda busy", "")[0] > 0.0);
}

#[test]
fn tables_in_succession_have_their_own_columns() {
    let text = "Time,sda reads,sda busy\n2026-11-21 07:05:00,10,45\n2026-11-21 07:06:00,20,40\n\
        Time,sda busy,sda reads,sdb reads\n2026-11-21 07:07:00,50,30,7\n";
    let options = named(&["* reads=physical_disk.reads_per_s", "* busy=physical_disk.busy:*:%"]);
    let read = read_bytes(text.as_bytes(), &options);
    assert_eq!(seconds(&read), [0, 60, 120]);
    assert_eq!(read.series_values("physical_disk.reads_per_s", "sda"), [10.0, 20.0, 30.0]);
    assert_eq!(read.series_values("physical_disk.busy", "sda"), [0.45, 0.4, 0.5]);
    assert_eq!(read.series_values("physical_disk.reads_per_s", "sdb")[2], 7.0);
    assert_eq!(read.summary.unwrap().skipped.len(), 0);
}

#[test]
fn reads_date_and_time_of_day_from_two_columns() {
    for (date, clock) in [("Date", "Time"), ("day", "hour"), ("", "")] {
        for day in ["2026-11-21", "11/21/2026", "\"2026-11-21\""] {
            let text = format!(
                "{date},{clock},sda reads\n{day},07:05:00,10\n{day},07:06:00,20\n{day},,30\n{day},07:07:00,40\n"
            );
            let read = read_bytes(text.as_bytes(), &named(&["sda reads=physical_disk.reads_per_s:sda"]));
            assert_eq!(seconds(&read), [0, 60, 120], "{text}");
            assert_eq!(read.series_values("physical_disk.reads_per_s", "sda"), [10.0, 20.0, 40.0], "{text}");
            let skipped = &read.summary.expect("read").skipped;
            assert!(skipped.len() == 1 && skipped[0].reason.contains("without a readable time"), "{skipped:?}");
        }
    }
}

#[test]
fn an_error_lists_the_columns_if_none_is_known() {
    let error = read_text(GRAFANA).summary.unwrap_err().to_string();
    for part in ["`sda reads`", "`sda busy`", "`throughput`", "--column 'NAME=counter[:instance[:unit]]'"] {
        assert!(error.contains(part), "{error}");
    }
    assert!(!error.contains("`Time`"), "{error}");
}

#[test]
fn reads_series_in_succession() {
    let text = "\"Series\";\"Time\";\"Value\"\n\"reads\";\"2026-11-21T07:05:00Z\";\"1\"\n\
                \"reads\";\"2026-11-21T07:06:00Z\";\"2\"\n\"queue\";\"2026-11-21T07:05:00Z\";\"0,5\"\n\
                \"queue\";\"2026-11-21T07:06:00Z\";null\n";
    let options = named(&["reads=physical_disk.reads_per_s:sda", "queue=physical_disk.avg_queue_length:sda"]);
    let read = read_bytes(text.as_bytes(), &options);
    assert_eq!(seconds(&read), [0, 60]);
    assert_eq!(read.series_values("physical_disk.reads_per_s", "sda"), [1.0, 2.0]);
    assert_eq!(read.series_values("physical_disk.avg_queue_length", "sda")[0], 0.5);
    let error = read_text(text).summary.unwrap_err().to_string();
    assert!(error.contains("`queue`, `reads`"), "{error}");
}

#[test]
fn the_delimiter_tells_groups_of_digits_from_decimal_commas() {
    let reads = |text: &str| read_text(text).series_values("physical_disk.reads_per_s", "storage");
    let grouped = "time,ReadIOPS\n2026-11-21 07:05:00,\"1,234\"\n2026-11-21 07:06:00,\"1,234.5\"\n\
                   2026-11-21 07:07:00,\"0,5\"\n2026-11-21 07:08:00,999\n";
    assert_eq!(reads(grouped), [1234.0, 1234.5, 0.5, 999.0]);
    let wide = "time;ReadIOPS\n2026-11-21 07:05:00;12,345\n2026-11-21 07:06:00;0,5\n";
    assert_eq!(reads(wide), [12.345, 0.5]);
    let long = "Series;Time;Value\nReadIOPS;2026-11-21T07:05:00Z;12,345\nReadIOPS;2026-11-21T07:06:00Z;0,5\n";
    assert_eq!(reads(long), [12.345, 0.5]);
    // with tabs, commas before three digits may mean both, unless another number shows what they mean
    let tabs = "time\tReadIOPS\n2026-11-21 07:05:00\t1,234\n2026-11-21 07:06:00\t99\n";
    let warned = |text: &str| read_text(text).notes.iter().filter(|note| note.text().contains("1,234")).count();
    assert_eq!((reads(tabs), warned(tabs)), (vec![1.234, 99.0], 1));
    assert_eq!(warned(&tabs.replace("99", "0,5")), 0);
    assert_eq!(warned(wide), 0);
}

#[test]
fn reads_metrics_of_clouds_under_several_lines_of_headings() {
    let text = "Label,db1 ReadIOPS,db1 ReadLatency,db1 CPUUtilization,db1 BurstBalance\nPeriod,300,300,300,300\n\
                2026/11/21 07:10:00,120.5,0.004,37.5,99\n2026/11/21 07:05:00,100,0.002,25,99\n";
    let read = read_text(text);
    // newest first
    assert_eq!(seconds(&read), [0, 300]);
    assert_eq!(read.series_values("physical_disk.reads_per_s", "db1"), [100.0, 120.5]);
    assert_eq!(read.series_values("physical_disk.avg_read_queue_length", "db1"), [0.2, 0.482]);
    assert_eq!(read.series_values("processor.busy", "_total"), [0.25, 0.375]);
    let azure =
        "\"Timestamp (UTC)\",\"OS Disk Queue Depth (Avg), vm7\"\n11/21/2026 7:05 AM,1.5\n11/21/2026 7:06 AM,2\n";
    assert_eq!(read_text(azure).series_values("physical_disk.avg_queue_length", "vm7 os"), [1.5, 2.0]);
}

#[test]
fn lines_before_a_table_are_no_headings() {
    let table = "time,ReadIOPS,WriteIOPS\n2026-11-21 07:05:00,1,2\n2026-11-21 07:06:00,1,2\n";
    let pasted = "Last login: Sat, Nov 21\n[root@db1 ~]# cat a,b\n";
    let read = read_text(&(pasted.to_owned() + &"motd\n".repeat(70) + table));
    assert_eq!(read.series_values("physical_disk.reads_per_s", "storage"), [1.0, 1.0], "{:?}", read.summary);
    let skipped = read.summary.unwrap().skipped;
    assert!(skipped.iter().any(|s| s.reason == "a line before the table" && s.count == 72), "{skipped:?}");
    // headings that lack the cell behind the last delimiter
    let ended = table.replace(",2\n", ",2,\n");
    assert_eq!(read_text(&ended).series_values("physical_disk.writes_per_s", "storage"), [2.0, 2.0]);
}

#[test]
fn a_last_cell_that_may_be_cut_is_a_gap() {
    for (last, kept) in
        [("2026-11-21 07:06:00,3,12", 2), ("2026-11-21 07:06:00,3,\"12\"", 3), ("2026-11-21 07:06:0", 0)]
    {
        let read = read_text(&("time,ReadIOPS,WriteIOPS\n2026-11-21 07:05:00,1,2\n".to_owned() + last));
        let values =
            ["physical_disk.reads_per_s", "physical_disk.writes_per_s"].map(|c| read.series_values(c, "storage"));
        let of_last = values.iter().filter_map(|v| v.get(1)).filter(|v| !v.is_nan()).count();
        assert_eq!(of_last, kept - usize::from(kept > 0), "{last}: {values:?}");
        assert_eq!(read.ticks.len(), 1 + usize::from(kept > 0), "{last}");
        assert_eq!(read.summary.unwrap().skipped.is_empty(), kept == 3, "{last}");
    }
}

#[test]
fn reads_times_in_many_forms() {
    for (first, second) in [
        ("2026-11-21T07:05:00Z", "2026-11-21T07:06:00Z"),
        ("2026-11-21T08:05:00+01:00", "2026-11-21T08:06:00+01:00"),
        ("2026-11-21 07:05:00.000 UTC", "2026-11-21 07:06:00.000 UTC"),
        ("2026-11-21 07:05", "2026-11-21 07:06"),
        ("11/21/2026 7:05:00 AM", "11/21/2026 7:06:00 AM"),
        ("1795244700", "1795244760"),
        ("1795244700000", "1795244760000"),
        ("1795244700000000000", "1795244760000000000"),
    ] {
        for (delimiter, quote) in [(",", ""), (";", "\""), ("\t", "")] {
            let row = |time: &str| format!("{quote}{time}{quote}{delimiter}1.5\r\n");
            let text = format!("time{delimiter}ReadIOPS\r\n{}{}", row(first), row(second));
            let read = read_text(&text);
            assert_eq!(seconds(&read), [0, 60], "{first} with {delimiter}: {:?}", read.summary);
        }
    }
}

#[test]
fn reports_broken_rows_and_keeps_the_rest() {
    let good = "time,ReadIOPS,WriteIOPS\n2026-11-21 07:05:00,1,2\n2026-11-21 07:06:00,1,2\n";
    for (wrong, because) in [
        ("2026-11-21 07:07:00,1\n", "fewer cells"),
        ("2026-11-21 07:07:00,1,2,3\n", "more cells"),
        ("2026-11-21 07:07:00,much,2\n", "a unit that does not fit"),
        ("2026-11-21 07:07:00,5 ms,2\n", "a unit that does not fit"),
        ("2026-11-21 07:07:00,-5,2\n", "an impossible value: physical_disk.reads_per_s storage"),
        ("2026-13-41 07:07:00,1,2\n", "without a readable time"),
        ("99999999999999999999,1,2\n", "without a readable time"),
        ("2026-11-21 07:04:00,1,2\n", "time goes backwards"),
    ] {
        let read = read_text(&(good.to_owned() + wrong));
        assert_eq!(read.series_values("physical_disk.reads_per_s", "storage")[..2], [1.0, 1.0], "{wrong}");
        let skipped = read.summary.unwrap().skipped;
        assert!(skipped.iter().any(|s| s.reason.contains(because)), "{wrong}: {skipped:?}");
    }
}

#[test]
fn does_not_recognize_other_tables() {
    for text in [
        "a,b,c\n1,2,3\n",
        "name,value\nx,1\n",
        "2026-11-21 07:05:00,1,2\n",
        "128166372003061629,hm,1,Read,383496192,32768,413\n128166372003061630,hm,1,Read,383496192,32768,413\n",
        "arrival_s,device,operation,offset_bytes,length_bytes,issued_s,completion_s\n0.1,sda,read,0,4096,0.1,0.2\n",
    ] {
        assert!(read_text(text).summary.unwrap_err().to_string().contains("not a log of a known format"), "{text}");
    }
}

#[test]
fn a_change_to_or_from_summer_time_is_no_gap_and_loses_nothing() {
    let options = named(&["sda reads=physical_disk.reads_per_s:sda"]);
    for (day, clocks) in [
        ("2026-10-25", ["02:58:00", "02:59:00", "02:00:00", "02:01:00"]),
        ("2026-03-29", ["01:58:00", "01:59:00", "03:00:00", "03:01:00"]),
    ] {
        let rows: String = clocks.iter().map(|clock| format!("{day} {clock},10\n")).collect();
        let read = read_bytes(format!("Time,sda reads\n{rows}").as_bytes(), &options);
        let lengths: Vec<u64> = read.ticks.iter().map(|(_, ns)| ns / 1_000_000_000).collect();
        assert_eq!(lengths, [0, 60, 60, 60], "{day}");
    }
    // another table of the same hour
    for headings in ["Time,sda reads,sdb reads", "Time,sda reads"] {
        let rows = "2026-10-24 02:58:00,10\n2026-10-24 02:59:00,10\n";
        let text = format!("Time,sda reads\n{rows}{headings}\n2026-10-24 02:00:00,10\n2026-10-24 02:01:00,10\n");
        let read = read_bytes(text.as_bytes(), &options);
        assert_eq!(read.ticks.len(), 2, "{headings}");
    }
}
