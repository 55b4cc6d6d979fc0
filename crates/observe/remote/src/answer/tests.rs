//! Complete, truncated, invalid and endless answers.

use super::*;

const NO_LIMIT: u64 = u64::MAX;

fn read_rows(body: &[u8]) -> Result<(Vec<QueryRow>, Vec<String>), AnswerFault> {
    let mut rows = Vec::new();
    let warnings = read_matrix(body, NO_LIMIT, &GRID, &mut |row| {
        rows.push(row.clone());
        Ok(())
    })?;
    Ok((rows, warnings))
}

const GRID: QueryGrid = QueryGrid { first_ms: 1_000_000, step_ms: 15_000, count: 3, shift_ms: 0 };

#[test]
fn points_fall_on_their_ticks_and_gaps_stay() {
    let body = br#"{"status":"success","isPartial":true,"data":{"resultType":"matrix","result":[
        {"metric":{"device":"sda"},"values":[[1000,"1.5"],[1030.000,"NaN"],[9999,"7"]]},
        {"metric":{},"value":[1015,"2"]}]}}"#;
    let (rows, warnings) = read_rows(body).unwrap();
    assert_eq!(rows[0].label_value("device"), Some("sda"));
    assert_eq!(rows[0].values[0], 1.5);
    assert!(rows[0].values[1].is_nan() && rows[0].values[2].is_nan());
    assert_eq!((rows[1].labels.len(), rows[1].values[1]), (0, 2.0));
    assert_eq!(warnings.len(), 1);
}

#[test]
fn broken_answers_are_errors() {
    let complete = r#"{"status":"success","data":{"result":[{"metric":{"a":"b"},"values":[[1000,"1"]]}]}}"#;
    assert!(read_rows(complete.as_bytes()).is_ok());
    for cut in 0..complete.len() {
        assert!(read_rows(&complete.as_bytes()[..cut]).is_err(), "cut at {cut}");
    }
    let message = |body: &str| read_rows(body.as_bytes()).unwrap_err().to_string();
    assert_eq!(message(r#"{"status":"error","errorType":"bad_data","error":"parse error"}"#), "parse error");
    assert!(message("<html>no</html>").contains("<html>no</html>"));
    for wrong in ["[[1000,1]]", "[[1000,\"x\"]]", "[1000]", "{}", "[[1000,\"1\"]", "[[1,\"1\"] [2,\"2\"]]", "3"] {
        let body = format!(r#"{{"status":"success","data":{{"result":[{{"metric":{{}},"values":{wrong}}}]}}}}"#);
        assert!(read_rows(body.as_bytes()).is_err(), "{wrong}");
    }
}

#[test]
fn the_usual_interval_is_the_median() {
    let body = br#"{"status":"success","data":{"result":[{"metric":{},"values":
        [[100,"1"],[115.1,"1"],[130,"1"],[145,"1"],[900,"1"]]},{"metric":{},"values":[[7,"1"]]}]}}"#;
    assert!((read_sample_times(&body[..], NO_LIMIT).unwrap().unwrap().interval_s - 15.0).abs() < 0.2);
    assert_eq!(read_sample_times(&br#"{"status":"success","data":{"result":[]}}"#[..], NO_LIMIT), Ok(None));
}

#[test]
fn reports_the_slowest_series_but_not_an_outlier() {
    let series = |apart: usize, count: usize| {
        let samples: Vec<String> = (0..count).map(|number| format!("[{},\"1\"]", number * apart)).collect();
        format!(r#"{{"metric":{{}},"values":[{}]}}"#, samples.join(","))
    };
    let intervals_of = |all: &[String]| {
        let body = format!(r#"{{"status":"success","data":{{"result":[{}]}}}}"#, all.join(","));
        let times = read_sample_times(body.as_bytes(), NO_LIMIT).unwrap().unwrap();
        (times.interval_s, times.slowest_s)
    };
    assert_eq!(intervals_of(&[series(15, 20), series(60, 5), series(15, 20), series(3600, 3)]), (15.0, 60.0));
    assert_eq!(intervals_of(&[series(15, 20), series(60, 2)]), (15.0, 15.0), "one interval may be a pause");
}

#[test]
fn grids_lie_within_their_window() {
    let grid = QueryGrid::within_window(1_000, 100_000, 15_000);
    assert_eq!((grid.first_ms, grid.count, grid.last_ms()), (30_000, 5, 90_000));
    assert_eq!(
        QueryGrid::within_window(0, 60_000, 15_000),
        QueryGrid { first_ms: 15_000, step_ms: 15_000, count: 4, shift_ms: 0 }
    );
    assert_eq!(QueryGrid::within_window(50_000, 10_000, 15_000).count, 0);
    let between = QueryGrid::within_window_at_phase(7_000, 100_000, 15_000, 1_000_000_007_500);
    assert_eq!((between.first_ms, between.last_ms(), between.count), (32_500, 77_500, 4));
    assert_eq!(between.shift_ms, 12_500, "asked at multiples of the step, none behind the window");
    let parts: Vec<QueryGrid> = grid.split_parts(2).collect();
    assert_eq!(parts.iter().map(|p| p.count).collect::<Vec<_>>(), [2, 2, 1]);
    assert_eq!(parts[1].first_ms, 60_000);
}

#[test]
fn the_callback_can_stop_reading() {
    let body = br#"{"status":"success","data":["a","b","c"]}"#;
    let mut seen = Vec::new();
    let ended = read_names(&body[..], NO_LIMIT, &mut |name| {
        seen.push(name.clone());
        if seen.len() < 2 { Ok(()) } else { Err(AnswerFault::TooMuch("two names".into())) }
    });
    assert_eq!((ended, seen.len()), (Err(AnswerFault::TooMuch("two names".into())), 2));
    let mut count = 0;
    let body = br#"{"data":[{"__name__":"x","a":"b"},{}],"status":"success"}"#;
    let done = read_series(&body[..], NO_LIMIT, &mut |labels| {
        count += labels.len();
        Ok(())
    });
    assert_eq!((done, count), (Ok(Vec::new()), 2));
    for wrong in [r#"{"status":"success","data":{"result":[]}}"#, r#"{"status":"success"}"#, "[]", "3", ""] {
        assert!(read_series(wrong.as_bytes(), NO_LIMIT, &mut |_| Ok(())).is_err(), "{wrong}");
    }
}

#[test]
fn endless_answers_are_limited() {
    let endless = |start: &'static str, again: &'static str| start.as_bytes().chain(Repeat(again.as_bytes(), 0));
    let max_bytes = 1 << 20;
    let faults = [
        read_matrix(endless(r#"{"status":""#, "x"), max_bytes, &GRID, &mut |_| Ok(())),
        read_matrix(endless(r#"{"x":"#, "["), max_bytes, &GRID, &mut |_| Ok(())),
        read_matrix(endless(r#"{"warnings":["#, r#""x","#), max_bytes, &GRID, &mut |_| Ok(())),
        read_matrix(endless(r#"{"data":{"result":[{"metric":{"#, r#""x":"y","#), max_bytes, &GRID, &mut |_| Ok(())),
        read_matrix(endless(r#"{"data":{"result":[{"values":["#, r#"[1,"1"],"#), max_bytes, &GRID, &mut |_| Ok(())),
        read_matrix(endless(r#"{"data":{"result":["#, "{},"), max_bytes, &GRID, &mut |_| Ok(())),
        read_names(endless(r#"{"data":["#, r#""x","#), max_bytes, &mut |_| Ok(())),
        read_sample_times(endless(r#"{"data":{"result":[{"values":["#, r#"[1,"1"],[2,"1"],"#), max_bytes)
            .map(|_| Vec::new()),
        read_matrix(endless("", " "), max_bytes, &GRID, &mut |_| Ok(())),
    ];
    for (index, fault) in faults.into_iter().enumerate() {
        assert!(matches!(fault, Err(AnswerFault::TooMuch(_) | AnswerFault::Wrong(_))), "{index}: {fault:?}");
    }
}

/// A reader that repeats the same bytes.
struct Repeat(&'static [u8], usize);

impl Read for Repeat {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        for byte in &mut *buffer {
            *byte = self.0[self.1];
            self.1 = (self.1 + 1) % self.0.len();
        }
        Ok(buffer.len())
    }
}
