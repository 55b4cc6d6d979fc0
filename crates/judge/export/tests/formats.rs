//! Every format preserves its input: gaps never become zeros, numbers are read back
//! exactly, and any names are kept.
#![allow(clippy::expect_used)]

use std::fs::File;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use diskwright_base::{CounterKind, Tick};
use diskwright_export::{
    CountingWriter, ExportBatch, ExportColumn, ExportFormat, ExportTally, create_sink, format_rfc3339,
};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use proptest::prelude::*;

/// Output that can be read after its writer was dropped.
#[derive(Clone, Default)]
struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

impl Write for SharedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("one thread").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const SECOND_NS: i64 = 1_000_000_000;
const START_NS: i64 = 1_700_000_000 * SECOND_NS + 123_456_789;

fn test_column(counter: &str, instance: &str) -> ExportColumn {
    let (unit, kind) = match counter.strip_suffix("_per_s") {
        Some(_) => ("per_s", Some(CounterKind::Rate)),
        None if counter.starts_with("foreign.") => ("", None),
        None => ("count", Some(CounterKind::Total)),
    };
    ExportColumn {
        counter: counter.into(),
        instance: instance.into(),
        unit: unit.into(),
        kind,
        explain: if kind.is_some() { "Says \"something\" \\ here.".into() } else { String::new() },
        metric: kind.map(|kind| {
            let ending = if kind == CounterKind::Total { "_total" } else { "" };
            format!("diskwright_{}{ending}", counter.replace('.', "_"))
        }),
    }
}

/// Columns with one value per tick; `None` if the log lacks the series.
type ColumnData = Vec<(ExportColumn, Vec<Option<f64>>)>;

fn test_ticks(count: usize) -> Vec<Tick> {
    (0..count as i64).map(|index| Tick { time_ns: START_NS + index * SECOND_NS, elapsed_ns: 1_000_000_000 }).collect()
}

/// Exports in batches of `size` ticks; a column without any value in a batch is
/// missing in it.
fn export_batches(
    format: ExportFormat,
    data: &ColumnData,
    ticks: &[Tick],
    size: usize,
    expected: u64,
) -> (Vec<u8>, ExportTally) {
    let shared = SharedBuffer::default();
    let columns = data.iter().map(|(column, _)| column.clone()).collect();
    let mut sink =
        create_sink(format, columns, expected, CountingWriter::new(Box::new(shared.clone()))).expect("memory");
    for pass in 0..sink.pass_count() {
        let wanted = sink.wanted_columns(pass);
        for from in (0..ticks.len()).step_by(size) {
            let to = ticks.len().min(from + size);
            let cells = |index: &usize| {
                let cells = &data[*index].1[from..to];
                let there = cells.iter().any(Option::is_some);
                there.then(|| cells.iter().map(|cell| cell.unwrap_or(f64::NAN)).collect::<Vec<f64>>())
            };
            let values: Vec<Option<Vec<f64>>> = wanted.iter().map(cells).collect();
            let values: Vec<Option<&[f64]>> = values.iter().map(|v| v.as_deref()).collect();
            sink.write(&ExportBatch { ticks: &ticks[from..to], values: &values }).expect("memory");
        }
        sink.end_pass().expect("memory");
    }
    let tally = sink.finish().expect("memory");
    let bytes = shared.0.lock().expect("one thread").clone();
    assert_eq!(tally.bytes, bytes.len() as u64);
    (bytes, tally)
}

fn export_text(format: ExportFormat, data: &ColumnData, count: usize) -> String {
    String::from_utf8(export_batches(format, data, &test_ticks(count), 2, 4).0).expect("text")
}

fn small_data() -> ColumnData {
    vec![
        (test_column("physical_disk.reads", "sda"), vec![Some(10.0), Some(f64::NAN), Some(5.5)]),
        (test_column("physical_disk.reads_per_s", "sda"), vec![Some(0.1), Some(0.0), None]),
        (test_column(r#"foreign.\Odd, "n"(a b)\% x"#, "Gerät \"1\"\n"), vec![None, None, Some(-0.0)]),
    ]
}

#[test]
fn csv_has_empty_cells_for_gaps_and_quotes_by_rfc_4180() {
    let text = export_text(ExportFormat::Csv, &small_data(), 3);
    let lines: Vec<&str> = text.split("\r\n").collect();
    let odd = "\"foreign.\\Odd, \"\"n\"\"(a b)\\% x{Gerät \"\"1\"\"\n}\"";
    assert_eq!(lines[0], format!("time,physical_disk.reads{{sda}},physical_disk.reads_per_s{{sda}},{odd}"));
    assert_eq!(lines[1], "2023-11-14T22:13:20.123456Z,10,0.1,");
    assert_eq!(lines[2], "2023-11-14T22:13:21.123456Z,,0,");
    assert_eq!(lines[3], "2023-11-14T22:13:22.123456Z,5.5,,-0");
    assert_eq!(lines[4..], [""]);
}

#[test]
fn long_csv_has_a_line_for_a_gap_and_none_for_a_missing_series() {
    let text = export_text(ExportFormat::CsvLong, &small_data()[..2].to_vec(), 3);
    let expected = "time,counter,instance,unit,value\r
2023-11-14T22:13:20.123456Z,physical_disk.reads,sda,count,10\r
2023-11-14T22:13:20.123456Z,physical_disk.reads_per_s,sda,per_s,0.1\r
2023-11-14T22:13:21.123456Z,physical_disk.reads,sda,count,\r
2023-11-14T22:13:21.123456Z,physical_disk.reads_per_s,sda,per_s,0\r
2023-11-14T22:13:22.123456Z,physical_disk.reads,sda,count,5.5\r
";
    assert_eq!(text, expected);
}

#[test]
fn json_lines_are_objects_with_nulls() {
    let mut data = small_data();
    data[1].1[2] = Some(f64::INFINITY);
    let (bytes, tally) = export_batches(ExportFormat::JsonLines, &data, &test_ticks(3), 2, 4);
    // the third column is missing in the first two ticks
    assert_eq!((tally.values, tally.gaps), (5, 2), "a null is a gap");
    let text = String::from_utf8(bytes).expect("text");
    let objects: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    assert_eq!(objects.len(), 3);
    assert_eq!(objects[0]["time"], "2023-11-14T22:13:20.123456Z");
    assert_eq!(objects[0]["physical_disk.reads{sda}"], 10);
    assert!(objects[1]["physical_disk.reads{sda}"].is_null());
    assert!(objects[2]["physical_disk.reads_per_s{sda}"].is_null(), "an infinity");
    let odd = data[2].0.name();
    assert!(objects[0].get(&odd).is_some_and(serde_json::Value::is_null));
    assert_eq!(objects[2][&odd].as_f64().map(f64::to_bits), Some((-0.0f64).to_bits()));
}

#[test]
fn prometheus_text_goes_series_by_series_and_counts_up() {
    let expected = r#"# TYPE diskwright_foreign_odd_n_a_b_percent_x gauge
# HELP diskwright_foreign_odd_n_a_b_percent_x A counter of another tool.
diskwright_foreign_odd_n_a_b_percent_x{counter="foreign.\\Odd, \"n\"(a b)\\% x",name="Gerät \"1\"\n"} -0 1700000002.123
# TYPE diskwright_physical_disk_reads counter
# HELP diskwright_physical_disk_reads Says \"something\" \\ here.
diskwright_physical_disk_reads_total{device="sda"} 10 1700000000.123
diskwright_physical_disk_reads_total{device="sda"} 15.5 1700000002.123
# TYPE diskwright_physical_disk_reads_per_s gauge
# HELP diskwright_physical_disk_reads_per_s Says \"something\" \\ here.
diskwright_physical_disk_reads_per_s{device="sda"} 0.1 1700000000.123
diskwright_physical_disk_reads_per_s{device="sda"} 0 1700000001.123
# EOF
"#;
    // however many passes it takes
    for expected_ticks in [1, 4_000_000, 1 << 23, u64::MAX] {
        let (bytes, tally) = export_batches(ExportFormat::Prometheus, &small_data(), &test_ticks(3), 2, expected_ticks);
        assert_eq!(String::from_utf8(bytes).expect("text"), expected, "{expected_ticks} ticks");
        assert_eq!((tally.rows, tally.values, tally.skipped_samples), (5, 5, 0));
    }
}

#[test]
fn prometheus_gets_one_ordered_sample_per_millisecond() {
    let times = [0, 1, 1, 5, 3, 6].map(|ms| Tick { time_ns: ms * 1_000_000, elapsed_ns: 0 });
    let data = vec![(test_column("physical_disk.reads", ""), (1..=6).map(|v| Some(f64::from(v))).collect())];
    let (bytes, tally) = export_batches(ExportFormat::Prometheus, &data, &times, 6, 6);
    let text = String::from_utf8(bytes).expect("text");
    let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let name = "diskwright_physical_disk_reads_total";
    // skipped samples are still counted in the total
    let expected = ["1 0.000", "3 0.001", "10 0.005", "21 0.006"].map(|sample| format!("{name} {sample}"));
    assert_eq!(samples, expected);
    assert_eq!((tally.rows, tally.skipped_samples), (4, 2));
}

#[test]
fn times_before_1970_are_negative() {
    let times = [-1500, -1000, -1, 0].map(|ms| Tick { time_ns: ms * 1_000_000, elapsed_ns: 0 });
    let data = vec![(test_column("physical_disk.reads_per_s", ""), vec![Some(1.0); 4])];
    let text = String::from_utf8(export_batches(ExportFormat::Prometheus, &data, &times, 4, 4).0).expect("text");
    let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let name = "diskwright_physical_disk_reads_per_s";
    let expected = ["-1.500", "-1.000", "-0.001", "0.000"].map(|time| format!("{name} 1 {time}"));
    assert_eq!(samples, expected);
}

/// Reads the rows of a Parquet file through a temporary file.
fn parquet_rows(bytes: &[u8]) -> Vec<Vec<(String, Field)>> {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("diskwright-export-{}-{number}.parquet", std::process::id()));
    std::fs::write(&path, bytes).expect("a temporary file");
    let reader = SerializedFileReader::new(File::open(&path).expect("just written")).expect("Parquet");
    std::fs::remove_file(&path).expect("just written");
    let rows = reader.get_row_iter(None).expect("rows");
    rows.map(|row| row.expect("a row").into_columns()).collect()
}

fn field_named(row: &[(String, Field)], name: &str) -> Field {
    row.iter().find(|(field, _)| field == name).map(|(_, field)| field.clone()).expect("a field")
}

#[test]
fn tidy_parquet_has_a_row_per_tick_and_series_and_nulls_for_gaps() {
    let (bytes, tally) = export_batches(ExportFormat::Parquet, &small_data(), &test_ticks(3), 2, 3);
    let rows = parquet_rows(&bytes);
    // the third column is missing in the first batch, the second in the last
    assert_eq!((rows.len(), tally.rows, tally.values, tally.gaps), (6, 6, 5, 1));
    let text = |row: &[(String, Field)], name| match field_named(row, name) {
        Field::Str(text) => text,
        other => panic!("{other:?}"),
    };
    let rows_of = |counter: &str| rows.iter().filter(|row| text(row, "counter") == counter).collect::<Vec<_>>();
    let reads = rows_of("physical_disk.reads");
    let values: Vec<Field> = reads.iter().map(|row| field_named(row, "value")).collect();
    assert_eq!(values, [Field::Double(10.0), Field::Null, Field::Double(5.5)]);
    assert_eq!(field_named(reads[0], "time"), Field::TimestampMicros(START_NS / 1000));
    assert_eq!((text(reads[2], "instance"), text(reads[2], "unit")), ("sda".into(), "count".into()));
    assert_eq!(rows_of(&small_data()[2].0.counter).len(), 1);
}

#[test]
fn wide_parquet_has_a_column_per_series() {
    let (bytes, tally) = export_batches(ExportFormat::ParquetWide, &small_data(), &test_ticks(3), 2, 3);
    let rows = parquet_rows(&bytes);
    assert_eq!((rows.len(), tally.rows), (3, 3));
    let reads = "physical_disk.reads{sda}";
    assert_eq!(rows.iter().map(|r| field_named(r, reads)).collect::<Vec<_>>()[1], Field::Null);
    assert_eq!(field_named(&rows[2], "physical_disk.reads_per_s{sda}"), Field::Null);
    assert_eq!(field_named(&rows[1], "physical_disk.reads_per_s{sda}"), Field::Double(0.0));
    assert_eq!(field_named(&rows[2], "time"), Field::TimestampMicros(START_NS / 1000 + 2_000_000));
}

#[test]
fn a_log_of_gaps_has_no_zeros() {
    let data = vec![(test_column("physical_disk.reads", "sda"), vec![Some(f64::NAN); 5])];
    for format in [
        ExportFormat::Csv,
        ExportFormat::CsvLong,
        ExportFormat::JsonLines,
        ExportFormat::Parquet,
        ExportFormat::ParquetWide,
        ExportFormat::Prometheus,
    ] {
        let (bytes, tally) = export_batches(format, &data, &test_ticks(5), 2, 5);
        assert_eq!((tally.values, tally.gaps), (0, 5), "{format:?}");
        assert!(!bytes.is_empty());
    }
}

#[test]
fn an_output_that_fails_is_an_error() {
    struct FullWriter;
    impl Write for FullWriter {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    for format in [
        ExportFormat::Csv,
        ExportFormat::JsonLines,
        ExportFormat::Parquet,
        ExportFormat::ParquetWide,
        ExportFormat::Prometheus,
    ] {
        let columns = vec![test_column("physical_disk.reads", "sda")];
        let result = create_sink(format, columns, 1, CountingWriter::new(Box::new(FullWriter))).and_then(|mut sink| {
            sink.write(&ExportBatch { ticks: &test_ticks(1), values: &[Some(&[1.0])] })?;
            sink.end_pass()?;
            sink.finish()
        });
        let error = result.expect_err("nothing was written");
        assert_eq!(error.io_error().map(io::Error::kind), Some(io::ErrorKind::StorageFull), "{format:?}: {error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_numbers_round_trip_exactly(
        values in proptest::collection::vec(any::<u64>().prop_map(f64::from_bits), 1..40),
        size in 1..50usize,
        instance in ".{0,8}",
    ) {
        let all: Vec<Option<f64>> = values.iter().copied().map(Some).collect();
        let data = vec![(test_column("physical_disk.reads_per_s", &instance), all)];
        let ticks = test_ticks(values.len());
        let bits = |value: f64| if value.is_nan() { f64::NAN.to_bits() } else { value.to_bits() };
        let expected: Vec<u64> = values.iter().map(|v| bits(*v)).collect();
        for format in [ExportFormat::Parquet, ExportFormat::ParquetWide] {
            let rows = parquet_rows(&export_batches(format, &data, &ticks, size, 1).0);
            let value = |row: &Vec<(String, Field)>| match row.last() {
                Some((_, Field::Double(value))) => bits(*value),
                _ => f64::NAN.to_bits(),
            };
            prop_assert_eq!(rows.iter().map(value).collect::<Vec<_>>(), expected.clone());
        }
        let csv = String::from_utf8(export_batches(ExportFormat::CsvLong, &data, &ticks, size, 1).0).expect("text");
        let cells = csv.trim_end_matches("\r\n").rsplit("\r\n").take(values.len());
        let mut read: Vec<u64> = cells.map(|line| {
            let cell = line.rsplit(',').next().unwrap_or("");
            if cell.is_empty() { f64::NAN.to_bits() } else { cell.parse().map(bits).expect("a number") }
        }).collect();
        read.reverse();
        prop_assert_eq!(read, expected);
    }

    #[test]
    fn any_time_can_be_formatted(time_ns in any::<i64>()) {
        let text = format_rfc3339(time_ns);
        prop_assert_eq!(text.len(), "2026-11-22T01:02:03.123456Z".len());
    }
}
