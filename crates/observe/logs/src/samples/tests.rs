use std::collections::BTreeMap;
use std::ops::ControlFlow;

use diskwright_base::{Catalogue, Note};

use crate::{LogInput, LogOptions, LogPiece, ReadSummary};

type Values = BTreeMap<(String, String), Vec<f64>>;

fn read_values(text: &str, host: Option<&str>) -> (Values, Vec<String>, ReadSummary) {
    let (mut values, mut notes) = (Values::new(), Vec::new());
    let mut sink = |piece: LogPiece<'_>| {
        match piece {
            LogPiece::Note(note) if note.kind == Note::WARNING => notes.push(note.into_text()),
            LogPiece::Note(_) => {}
            LogPiece::Frame(frame) => {
                for (column, series) in frame.schema().series.iter().enumerate() {
                    let found = values.entry((series.counter.clone(), series.instance.clone())).or_default();
                    found.extend(frame.column(column).iter().map(|value| value * series.scale));
                }
            }
        }
        ControlFlow::Continue(())
    };
    let mut input = LogInput::from_bytes("x", text.as_bytes().to_vec()).unwrap();
    let options = LogOptions { host: host.map(str::to_owned), ..LogOptions::default() };
    let summary = crate::read(&mut input, &options, &mut sink).unwrap();
    (values, notes, summary)
}

fn value_of(values: &Values, counter: &str, instance: &str) -> Vec<f64> {
    let found = values.get(&(counter.to_owned(), instance.to_owned())).cloned().unwrap_or_default();
    found.into_iter().filter(|value| !value.is_nan()).map(|value| (value * 1e6).round() / 1e6).collect()
}

#[test]
fn series_of_an_answer_become_pages() {
    let text = r#"{"status":"success","data":{"resultType":"matrix","result":[
{"metric":{"__name__":"node_disk_writes_completed_total","instance":"app3:9100","device":"sdc"},
 "values":[[1795000000,"70"],[1795000030,"370"],[1795000060,"970"]]},
{"metric":{"__name__":"node_disk_io_time_seconds_total","instance":"app3:9100","device":"sdc"},
 "values":[[1795000000,"5"],[1795000030,"20"],[1795000060,"50"]]},
{"metric":{"__name__":"node_load1","instance":"other:9100"},"values":[[1795000000,"3"]]},
{"metric":{"device":"sdc"},"values":[[1795000000,"3"]]}]}}"#;
    let (values, _, summary) = read_values(text, None);
    assert_eq!((summary.format, summary.host.as_str(), summary.ticks), ("prometheus-json", "app3", 3));
    assert_eq!(value_of(&values, "physical_disk.writes", "sdc"), [300.0, 600.0]);
    assert_eq!(value_of(&values, "physical_disk.busy_time_s", "sdc"), [15.0, 30.0]);
    let reasons: Vec<&str> = summary.skipped.iter().map(|skip| skip.reason.as_str()).collect();
    assert!(reasons.iter().any(|because| because.contains("without a name")), "{reasons:?}");
    assert!(value_of(&values, "system.load_1", "").is_empty());
    let (values, _, _) = read_values(text, Some("other"));
    assert_eq!(value_of(&values, "system.load_1", ""), [3.0]);
}

#[test]
fn a_vector_is_one_page() {
    let text = r#"{"status":"success","data":{"resultType":"vector","result":[
{"metric":{"__name__":"node_procs_blocked","instance":"app3:9100"},"value":[1795000000.123,"17"]}]}}"#;
    let (values, _, summary) = read_values(text, None);
    assert_eq!((value_of(&values, "system.blocked", ""), summary.ticks), (vec![17.0], 1));
}

#[test]
fn fields_of_telegraf_become_counters() {
    let text = "\
> cpu,cpu=cpu-total,host=app\\ 3 usage_iowait=61.5,usage_idle=20 1795000000000000000
> diskio,host=app\\ 3,name=sdc reads=100i,io_time=2000i,weighted_io_time=9000i 1795000000000000000
> diskio,host=app\\ 3,name=sdc1 reads=7i 1795000000000000000
> system,host=app\\ 3 load1=3.5,uptime_format=\"3 days, 2:01\" 1795000000000000000
> net,host=app\\ 3,interface=lo bytes_recv=5i 1795000000000000000
> diskio,host=app\\ 3,name=sdc reads=400i,io_time=12000i,weighted_io_time=29000i 1795000010000000000
> diskio,host=app\\ 3,name=sdc1 reads=27i 1795000010000000000
nonsense
";
    let (values, _, summary) = read_values(text, None);
    assert_eq!((summary.format, summary.host.as_str(), summary.ticks), ("influx-lines", "app 3", 2));
    assert_eq!(value_of(&values, "processor.iowait", "_total"), [0.615]);
    assert_eq!(value_of(&values, "processor.busy", "_total"), [0.8]);
    assert_eq!(value_of(&values, "physical_disk.reads", "sdc"), [300.0]);
    assert_eq!(value_of(&values, "physical_disk.busy_time_s", "sdc"), [10.0]);
    assert_eq!(value_of(&values, "physical_disk.weighted_time_s", "sdc"), [20.0]);
    assert_eq!(value_of(&values, "logical_disk.reads", "sdc1"), [20.0]);
    assert_eq!(value_of(&values, "system.load_1", ""), [3.5]);
    assert!(values.keys().all(|(_, instance)| instance != "lo"));
    assert_eq!(summary.skipped.len(), 1, "{:?}", summary.skipped);
}

/// An export of one metric: its attributes, times in seconds, and values.
fn export(name: &str, temporality: u32, attributes: &[(&str, &str)], points: &[(u64, u64, &str)]) -> String {
    let attributes: Vec<String> = attributes
        .iter()
        .map(|(key, value)| format!(r#"{{"key":"{key}","value":{{"stringValue":"{value}"}}}}"#))
        .collect();
    let point = |(start, time, value): &(u64, u64, &str)| {
        format!(
            r#"{{"startTimeUnixNano":"{start}000000000","timeUnixNano":"{time}000000000","asInt":"{value}",
                "attributes":[{}]}}"#,
            attributes.join(",")
        )
        .replace('\n', "")
    };
    let points: Vec<String> = points.iter().map(point).collect();
    let host = r#"{"attributes":[{"key":"host.name","value":{"stringValue":"app3"}}]}"#;
    let sum = format!(r#"{{"aggregationTemporality":{temporality},"dataPoints":[{}]}}"#, points.join(","));
    let metrics = format!(r#"[{{"name":"{name}","sum":{sum}}}]"#);
    format!(r#"{{"resourceMetrics":[{{"resource":{host},"scopeMetrics":[{{"metrics":{metrics}}}]}}]}}"#)
}

#[test]
fn totals_of_opentelemetry_are_cumulative_or_differences() {
    let disk = [("device", "sdc"), ("direction", "read")];
    let cumulative = [(1, 1_795_000_000, "100"), (1, 1_795_000_010, "400")];
    let delta = [(1_795_000_000, 1_795_000_010, "300"), (1_795_000_010, 1_795_000_020, "50")];
    let (values, _, summary) = read_values(&export("system.disk.operations", 2, &disk, &cumulative), None);
    assert_eq!((summary.format, summary.host.as_str()), ("otlp-json", "app3"));
    assert_eq!(value_of(&values, "physical_disk.reads", "sdc"), [300.0]);
    let (values, _, _) = read_values(&export("system.disk.operations", 1, &disk, &delta), None);
    assert_eq!(value_of(&values, "physical_disk.reads", "sdc"), [300.0, 50.0]);
    // newer names of attributes
    let cpu = [("cpu.mode", "iowait"), ("cpu.logical_number", "cpu2")];
    let seconds = [(1, 1_795_000_000, "100"), (1, 1_795_000_010, "104")];
    let (values, _, _) = read_values(&export("system.cpu.time", 2, &cpu, &seconds), None);
    assert_eq!(value_of(&values, "processor.iowait_s", "cpu2"), [4.0]);
}

#[test]
fn parts_of_opentelemetrys_memory_add_up() {
    let lines: Vec<String> = [("used", "600"), ("free", "100"), ("cached", "250"), ("buffered", "50")]
        .iter()
        .map(|(state, bytes)| export("system.memory.usage", 2, &[("state", state)], &[(1, 1_795_000_000, bytes)]))
        .collect();
    let (values, _, _) = read_values(&lines.join("\n"), None);
    assert_eq!(value_of(&values, "memory.total_bytes", ""), [1000.0]);
    assert_eq!(value_of(&values, "memory.cached_bytes", ""), [250.0]);
}

#[test]
fn every_mapping_goes_to_a_counter_of_the_catalogue() {
    let read = |text| diskwright_base::toml_reader::read_built_in::<super::metric_mapping::MetricMappings>("x", text);
    for table in [read(include_str!("line_protocol.toml")), read(include_str!("otlp.toml"))] {
        for counter in table.counters() {
            assert!(Catalogue::builtin().get(counter).is_some(), "{counter}");
        }
    }
}

/// Stores write `null` for what they do not have.
#[test]
fn a_null_is_a_gap_and_costs_nothing_else() {
    let answer = r#"{"status":"success","data":{"resultType":"matrix","result":[null,
{"metric":{"__name__":"node_procs_blocked","instance":"app3:9100","job":null},
 "values":[[1795000000,"7"],[1795000010,null],null,[1795000020,9]],"value":null},
{"metric":{"__name__":"node_load1","instance":"app3:9100"},
 "values":[[1795000000,"3"],[1795000010,"4"],[null,"5"],[1795000020,"NaN"]]},
{"metric":null,"values":null}]},"error":null}"#;
    let (values, _, summary) = read_values(answer, None);
    assert_eq!((summary.format, summary.ticks), ("prometheus-json", 3));
    let blocked = &values[&("system.blocked".to_owned(), String::new())];
    assert!(blocked[0] == 7.0 && blocked[1].is_nan() && blocked[2] == 9.0, "{blocked:?}");
    assert_eq!(value_of(&values, "system.load_1", ""), [3.0, 4.0]);
    let disk = [("device", "sdc"), ("direction", "read")];
    let points = [(1, 1_795_000_000, "100"), (1, 1_795_000_010, "250"), (1, 1_795_000_020, "400")];
    let export = export("system.disk.operations", 2, &disk, &points);
    let point = r#""asInt":"250""#;
    assert!(export.contains(point));
    for (what, with) in [
        (point, r#""asInt":null"#),
        (r#""scopeMetrics":["#, r#""schemaUrl":null,"scopeMetrics":[null,"#),
        (r#""dataPoints":["#, r#""dataPoints":[null,"#),
    ] {
        let (values, _, _) = read_values(&export.replace(what, with), None);
        let sum: f64 = value_of(&values, "physical_disk.reads", "sdc").iter().sum();
        assert!(sum > 0.0, "{what}: {values:?}");
    }
}
