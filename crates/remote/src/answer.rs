//! Answers of the query API, read straight into columns of ticks.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

/// The ticks that were asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Moment of the first tick, milliseconds since 1970; each tick covers the
    /// step before its moment.
    pub first_ms: i64,
    /// Time between two ticks, milliseconds.
    pub step_ms: i64,
    /// Ticks.
    pub count: usize,
}

impl Grid {
    /// Ticks of `step_ms` that lie wholly in a window; on multiples of the
    /// step, so that stores can cache.
    pub fn within(from_ms: i64, to_ms: i64, step_ms: i64) -> Grid {
        let step_ms = step_ms.max(1);
        let start = from_ms.div_euclid(step_ms) + i64::from(from_ms.rem_euclid(step_ms) != 0);
        let end = to_ms.div_euclid(step_ms);
        Grid { first_ms: (start + 1) * step_ms, step_ms, count: usize::try_from(end - start).unwrap_or(0) }
    }

    /// One moment; stores may round it to a second.
    pub fn moment(at_ms: i64) -> Grid {
        Grid { first_ms: at_ms, step_ms: 3_600_000, count: 1 }
    }

    /// Moment of a tick, milliseconds since 1970.
    pub fn at_ms(&self, tick: usize) -> i64 {
        self.first_ms + tick as i64 * self.step_ms
    }

    /// Moment of the last tick.
    pub fn last_ms(&self) -> i64 {
        self.at_ms(self.count.saturating_sub(1))
    }

    /// Parts of at most `most` ticks, in order.
    pub fn parts(self, most: usize) -> impl Iterator<Item = Grid> {
        let most = most.max(1);
        (0..self.count.div_ceil(most)).map(move |part| {
            let from = part * most;
            Grid { first_ms: self.at_ms(from), step_ms: self.step_ms, count: most.min(self.count - from) }
        })
    }

    fn tick(&self, seconds: f64) -> Option<usize> {
        let tick = (seconds * 1e3 - self.first_ms as f64) / self.step_ms as f64;
        let near = tick.round();
        let fits = (tick - near).abs() < 0.01 && near >= 0.0 && near < self.count as f64;
        fits.then_some(near as usize)
    }
}

/// One series of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its labels.
    pub labels: Vec<(String, String)>,
    /// A value a tick of the grid; `NaN` where there is none.
    pub values: Vec<f64>,
}

impl Row {
    /// Value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }
}

/// Cells of one answer at most: a series without points is short in the answer and long on the grid.
const MOST_CELLS: usize = 50_000_000;

/// What a query answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Matrix {
    /// The series.
    pub rows: Vec<Row>,
    /// What the store wants to be known: a part of it is missing, …
    pub warnings: Vec<String>,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    status: Cow<'a, str>,
    #[serde(borrow)]
    data: Option<Data<'a>>,
    error: Option<String>,
    #[serde(default)]
    warnings: Option<Vec<String>>,
    #[serde(default, rename = "isPartial")]
    is_partial: bool,
}

#[derive(Deserialize)]
struct Data<'a> {
    #[serde(borrow)]
    result: Vec<Series<'a>>,
}

#[derive(Deserialize)]
struct Series<'a> {
    #[serde(default)]
    metric: BTreeMap<String, String>,
    #[serde(borrow)]
    values: Option<&'a RawValue>,
    #[serde(borrow)]
    value: Option<&'a RawValue>,
}

/// Reads the answer of `query_range`, or of `query` (whose one value goes to
/// the tick of its moment).
///
/// # Errors
/// What is wrong with it.
pub fn matrix(body: &[u8], grid: &Grid) -> Result<Matrix, String> {
    let envelope: Envelope<'_> = serde_json::from_slice(body).map_err(|e| no_json(body, &e))?;
    if envelope.status != "success" {
        return Err(envelope.error.unwrap_or_else(|| format!("status {}", envelope.status)));
    }
    let Some(data) = envelope.data else { return Err("an answer without data".into()) };
    let mut matrix = Matrix { warnings: envelope.warnings.unwrap_or_default(), ..Matrix::default() };
    if envelope.is_partial {
        matrix.warnings.push("the store's answer is partial: a part of it did not answer".into());
    }
    if data.result.len().saturating_mul(grid.count) > MOST_CELLS {
        return Err(format!("{} series at {} ticks are too many at once", data.result.len(), grid.count));
    }
    for series in data.result {
        let mut values = vec![f64::NAN; grid.count];
        if let Some(raw) = series.values {
            points(raw.get(), |seconds, value| {
                if let Some(tick) = grid.tick(seconds) {
                    values[tick] = value;
                }
            })?;
        } else if let Some(raw) = series.value {
            // [time, "value"], as one point of a list
            points(&format!("[{}]", raw.get()), |seconds, value| {
                if let Some(tick) = grid.tick(seconds) {
                    values[tick] = value;
                }
            })?;
        }
        matrix.rows.push(Row { labels: series.metric.into_iter().collect(), values });
    }
    Ok(matrix)
}

/// The usual time between two samples in an answer of raw samples, seconds:
/// the median; `None` where no series has two.
///
/// # Errors
/// What is wrong with the answer.
pub fn usual_interval(body: &[u8]) -> Result<Option<f64>, String> {
    let envelope: Envelope<'_> = serde_json::from_slice(body).map_err(|e| no_json(body, &e))?;
    let Some(data) = envelope.data.filter(|_| envelope.status == "success") else {
        return Err(envelope.error.unwrap_or_else(|| format!("status {}, without data", envelope.status)));
    };
    let mut between = Vec::new();
    for raw in data.result.iter().filter_map(|series| series.values) {
        let mut last = f64::NAN;
        points(raw.get(), |seconds, _| {
            if seconds > last {
                between.push(seconds - last);
            }
            last = seconds;
        })?;
    }
    between.sort_by(f64::total_cmp);
    Ok(between.get(between.len() / 2).copied())
}

/// Reads `[[time,"value"],…]`.
fn points(text: &str, mut each: impl FnMut(f64, f64)) -> Result<(), String> {
    let wrong = || "a point that is no [time, \"value\"]".to_owned();
    let inside = text.trim().strip_prefix('[').and_then(|t| t.strip_suffix(']')).ok_or_else(wrong)?;
    let mut rest = inside.trim_start();
    while !rest.is_empty() {
        let point = rest.strip_prefix('[').ok_or_else(wrong)?;
        let (time, after) = point.split_once(',').ok_or_else(wrong)?;
        let after = after.trim_start().strip_prefix('"').ok_or_else(wrong)?;
        let (value, after) = after.split_once('"').ok_or_else(wrong)?;
        let after = after.trim_start().strip_prefix(']').ok_or_else(wrong)?.trim_start();
        let time: f64 = time.trim().parse().map_err(|_| wrong())?;
        let value: f64 = value.parse().map_err(|_| wrong())?;
        each(time, if value.is_finite() { value } else { f64::NAN });
        rest = match after.strip_prefix(',') {
            Some(next) => next.trim_start(),
            None if after.is_empty() => after,
            None => return Err(wrong()),
        };
    }
    Ok(())
}

#[derive(Deserialize)]
struct Listed<T> {
    status: String,
    data: Option<T>,
    error: Option<String>,
}

fn listed<T: for<'a> Deserialize<'a>>(body: &[u8]) -> Result<T, String> {
    let listed: Listed<T> = serde_json::from_slice(body).map_err(|e| no_json(body, &e))?;
    match listed.data {
        Some(data) if listed.status == "success" => Ok(data),
        _ => Err(listed.error.unwrap_or_else(|| format!("status {}, without data", listed.status))),
    }
}

/// Reads the answer of `label/…/values`.
///
/// # Errors
/// What is wrong with it.
pub fn names(body: &[u8]) -> Result<Vec<String>, String> {
    listed(body)
}

/// Reads the answer of `series`: the labels of each.
///
/// # Errors
/// What is wrong with it.
pub fn series(body: &[u8]) -> Result<Vec<BTreeMap<String, String>>, String> {
    listed(body)
}

fn no_json(body: &[u8], error: &serde_json::Error) -> String {
    let start = String::from_utf8_lossy(&body[..body.len().min(80)]).into_owned();
    let start = start.split_whitespace().collect::<Vec<_>>().join(" ");
    if error.is_eof() {
        format!("the answer breaks off after {} bytes (it begins: {start})", body.len())
    } else {
        format!("no answer of a query API: {error} (it begins: {start})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRID: Grid = Grid { first_ms: 1_000_000, step_ms: 15_000, count: 3 };

    #[test]
    fn points_fall_on_their_ticks_and_gaps_stay() {
        let body = br#"{"status":"success","isPartial":true,"data":{"resultType":"matrix","result":[
            {"metric":{"device":"sda"},"values":[[1000,"1.5"],[1030.000,"NaN"],[9999,"7"]]},
            {"metric":{},"value":[1015,"2"]}]}}"#;
        let got = matrix(body, &GRID).unwrap();
        assert_eq!(got.rows[0].label("device"), Some("sda"));
        assert_eq!(got.rows[0].values[0], 1.5);
        assert!(got.rows[0].values[1].is_nan() && got.rows[0].values[2].is_nan());
        assert_eq!(got.rows[1].values[1], 2.0);
        assert_eq!(got.warnings.len(), 1);
    }

    #[test]
    fn broken_answers_are_told() {
        let whole = r#"{"status":"success","data":{"result":[{"metric":{"a":"b"},"values":[[1000,"1"]]}]}}"#;
        assert!(matrix(whole.as_bytes(), &GRID).is_ok());
        for cut in 0..whole.len() {
            assert!(matrix(&whole.as_bytes()[..cut], &GRID).is_err(), "cut at {cut}");
        }
        let said = |body: &str| matrix(body.as_bytes(), &GRID).unwrap_err();
        assert_eq!(said(r#"{"status":"error","errorType":"bad_data","error":"parse error"}"#), "parse error");
        assert!(said("<html>no</html>").contains("<html>no</html>"));
        for wrong in ["[[1000,1]]", "[[1000,\"x\"]]", "[1000]", "{}", "[[1000,\"1\"]", "[[1,\"1\"] [2,\"2\"]]", "3"] {
            let body = format!(r#"{{"status":"success","data":{{"result":[{{"metric":{{}},"values":{wrong}}}]}}}}"#);
            assert!(matrix(body.as_bytes(), &GRID).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_usual_interval_is_the_median() {
        let body = br#"{"status":"success","data":{"result":[{"metric":{},"values":
            [[100,"1"],[115.1,"1"],[130,"1"],[145,"1"],[900,"1"]]},{"metric":{},"values":[[7,"1"]]}]}}"#;
        assert!((usual_interval(body).unwrap().unwrap() - 15.0).abs() < 0.2);
        assert_eq!(usual_interval(br#"{"status":"success","data":{"result":[]}}"#), Ok(None));
    }

    #[test]
    fn grids_lie_within_their_window() {
        let grid = Grid::within(1_000, 100_000, 15_000);
        assert_eq!((grid.first_ms, grid.count, grid.last_ms()), (30_000, 5, 90_000));
        assert_eq!(Grid::within(0, 60_000, 15_000), Grid { first_ms: 15_000, step_ms: 15_000, count: 4 });
        assert_eq!(Grid::within(50_000, 10_000, 15_000).count, 0);
        let parts: Vec<Grid> = grid.parts(2).collect();
        assert_eq!(parts.iter().map(|p| p.count).collect::<Vec<_>>(), [2, 2, 1]);
        assert_eq!(parts[1].first_ms, 60_000);
    }
}
