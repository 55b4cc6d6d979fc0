//! Answers of the query API, read as a stream: the caller gets one series at a time, and the rest of the answer is not
//! kept.

use std::collections::VecDeque;
use std::fmt;
use std::io::{BufReader, Read};

use serde::de::{DeserializeSeed, Deserializer as _, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

pub use crate::bounded_reader::AnswerFault;
use crate::bounded_reader::BoundedReader;
pub use crate::query_grid::QueryGrid;

/// Largest total size of the labels of a series, bytes.
const MAX_LABEL_BYTES: usize = 64 << 10;
/// Largest number of warnings kept of an answer.
const MAX_WARNINGS: usize = 20;
/// Largest number of intervals between samples from which the median is taken.
const MAX_INTERVALS: usize = 100_000;
/// Largest ratio of the interval of a series to the median interval; a series with a larger ratio is ignored as an
/// outlier.
const MAX_INTERVAL_RATIO: f64 = 8.0;
/// Largest number of sample times kept, from the end of a series.
const MAX_LAST_TIMES: usize = 31;
/// Largest number of characters of a store's message that are shown.
pub(crate) const MAX_SHOWN_CHARS: usize = 400;

/// One series of an answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueryRow {
    /// Labels of the series.
    pub labels: Labels,
    /// One value per tick of the grid; `NaN` if there is none.
    pub values: Vec<f64>,
}

impl QueryRow {
    /// Returns the value of a label.
    pub fn label_value(&self, name: &str) -> Option<&str> {
        find_label(&self.labels, name)
    }
}

/// Names and values of labels.
pub type Labels = Vec<(String, String)>;

/// Finds the value of a label.
pub fn find_label<'a>(labels: &'a Labels, name: &str) -> Option<&'a str> {
    labels.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
}

/// Callback for the items of an answer, one at a time.
pub type ItemCallback<'a, T> = &'a mut dyn FnMut(&T) -> Result<(), AnswerFault>;

/// Reads the answer of `query_range`, or of `query` (whose single value goes to the tick of its time), and calls `each`
/// with each series. Returns the store's warnings, for example that a part of the answer is missing.
///
/// # Errors
/// When the answer is invalid. Then series that were already passed to `each` must not be used.
pub fn read_matrix(
    source: impl Read,
    max_bytes: u64,
    grid: &QueryGrid,
    each: ItemCallback<'_, QueryRow>,
) -> Result<Vec<String>, AnswerFault> {
    let mut sink = AnswerSink::Grid { grid, row: QueryRow::default(), each };
    read_document(source, max_bytes, AnswerForm::Result, &mut sink)
}

/// Intervals and times of samples.
#[derive(Clone, Debug, PartialEq)]
pub struct SampleTimes {
    /// Median time between two samples, seconds.
    pub interval_s: f64,
    /// Median interval of the slowest series that is not an outlier, seconds.
    pub slowest_s: f64,
    /// Times of the last samples of a series, seconds since 1970.
    pub last_s: Vec<f64>,
}

/// Reads the sample times in an answer of raw samples; `None` if no series has
/// two samples.
///
/// # Errors
/// When the answer is invalid.
pub fn read_sample_times(source: impl Read, max_bytes: u64) -> Result<Option<SampleTimes>, AnswerFault> {
    let (mut intervals, mut times, mut series_medians) = (Vec::new(), VecDeque::new(), Vec::new());
    let mut sink = AnswerSink::Intervals {
        intervals: &mut intervals,
        times: &mut times,
        series_medians: &mut series_medians,
        series_start: 0,
    };
    read_document(source, max_bytes, AnswerForm::Result, &mut sink)?;
    intervals.sort_unstable_by(f64::total_cmp);
    let Some(interval_s) = intervals.get(intervals.len() / 2).copied() else { return Ok(None) };
    let usual = series_medians.into_iter().filter(|median_s| *median_s <= MAX_INTERVAL_RATIO * interval_s);
    Ok(Some(SampleTimes { interval_s, slowest_s: usual.fold(interval_s, f64::max), last_s: times.into() }))
}

/// Reads the answer of `label/…/values`. Returns the store's warnings.
///
/// # Errors
/// When the answer is invalid.
pub fn read_names(
    source: impl Read,
    max_bytes: u64,
    each: ItemCallback<'_, String>,
) -> Result<Vec<String>, AnswerFault> {
    read_document(source, max_bytes, AnswerForm::List, &mut AnswerSink::Names(each))
}

/// Reads the answer of `series`: the labels of each. Returns the store's warnings.
///
/// # Errors
/// When the answer is invalid.
pub fn read_series(
    source: impl Read,
    max_bytes: u64,
    each: ItemCallback<'_, Labels>,
) -> Result<Vec<String>, AnswerFault> {
    read_document(source, max_bytes, AnswerForm::List, &mut AnswerSink::Series { labels: Labels::new(), each })
}

/// Receiver of the parts of an answer.
enum AnswerSink<'a> {
    Grid {
        grid: &'a QueryGrid,
        row: QueryRow,
        each: ItemCallback<'a, QueryRow>,
    },
    Intervals {
        /// Intervals between samples of all series, seconds.
        intervals: &'a mut Vec<f64>,
        /// Times of the last samples of the current series, seconds since 1970.
        times: &'a mut VecDeque<f64>,
        /// Median interval of each series, seconds.
        series_medians: &'a mut Vec<f64>,
        /// Index of the first interval of the current series.
        series_start: usize,
    },
    Names(ItemCallback<'a, String>),
    Series {
        labels: Labels,
        each: ItemCallback<'a, Labels>,
    },
}

impl AnswerSink<'_> {
    fn begin_series(&mut self) {
        match self {
            AnswerSink::Grid { grid, row, .. } => {
                row.labels.clear();
                row.values.clear();
                row.values.resize(grid.count, f64::NAN);
            }
            AnswerSink::Intervals { intervals, times, series_start, .. } => {
                times.clear();
                *series_start = intervals.len();
            }
            AnswerSink::Names(_) | AnswerSink::Series { .. } => {}
        }
    }

    fn add_point(&mut self, seconds: f64, value: f64) {
        match self {
            AnswerSink::Grid { grid, row, .. } => {
                if let Some(tick) = grid.tick_at_time(seconds) {
                    row.values[tick] = if value.is_finite() { value } else { f64::NAN };
                }
            }
            AnswerSink::Intervals { intervals, times, .. } => {
                let interval = times.back().map(|last| seconds - last);
                intervals.extend(interval.filter(|s| *s > 0.0 && intervals.len() < MAX_INTERVALS));
                if times.len() == MAX_LAST_TIMES {
                    times.pop_front();
                }
                times.push_back(seconds);
            }
            AnswerSink::Names(_) | AnswerSink::Series { .. } => {}
        }
    }

    fn end_series(&mut self) -> Result<(), AnswerFault> {
        match self {
            AnswerSink::Grid { row, each, .. } => each(row),
            AnswerSink::Series { labels, each } => each(labels),
            AnswerSink::Intervals { intervals, series_medians, series_start, .. } => {
                assert!(*series_start <= intervals.len(), "the intervals of earlier series stay");
                let series_intervals = &mut intervals[*series_start..];
                series_intervals.sort_unstable_by(f64::total_cmp);
                // a single interval may be a pause in scraping
                let median = series_intervals.get(series_intervals.len() / 2);
                series_medians.extend(median.filter(|_| series_intervals.len() > 1));
                Ok(())
            }
            AnswerSink::Names(_) => Ok(()),
        }
    }

    /// Largest number of points that are accepted in one series.
    fn max_points(&self) -> usize {
        match self {
            // stores round the ends of a window, so there may be more points than ticks
            AnswerSink::Grid { grid, .. } => grid.count * 2 + 16,
            _ => usize::MAX,
        }
    }
}

/// Fields of an answer other than its data.
#[derive(Default)]
struct AnswerHead {
    status: String,
    has_data: bool,
    error: Option<String>,
    warnings: Vec<String>,
    is_partial: bool,
}

/// Form of an answer's `data`.
#[derive(Clone, Copy, PartialEq)]
enum AnswerForm {
    /// A list.
    List,
    /// An object with a list called `result`.
    Result,
}

/// Reads an answer, passes its items to `sink`, and returns its warnings.
fn read_document(
    source: impl Read,
    max_bytes: u64,
    form: AnswerForm,
    sink: &mut AnswerSink<'_>,
) -> Result<Vec<String>, AnswerFault> {
    let mut bounded = BoundedReader::new(source, max_bytes);
    let (mut head, mut fault) = (AnswerHead::default(), None);
    let mut json = serde_json::Deserializer::from_reader(BufReader::with_capacity(1 << 16, &mut bounded));
    let envelope = Envelope { head: &mut head, form, parts: PartReceiver { sink, fault: &mut fault } };
    let result = json.deserialize_map(envelope).and_then(|()| json.end());
    drop(json);
    if let Err(error) = result {
        if let Some(fault) = fault.or(bounded.fault.take()) {
            return Err(fault);
        }
        let start = bounded.shown_beginning();
        return Err(match error.is_eof() {
            true => AnswerFault::Broken(format!(
                "the response broke off at byte {} (it begins: {start})",
                bounded.bytes_read
            )),
            false => AnswerFault::Wrong(format!("not a response of a query API: {error} (it begins: {start})")),
        });
    }
    if head.status != "success" {
        let status = shorten_text(&head.status);
        return Err(AnswerFault::Wrong(
            head.error.map_or_else(|| format!("status {status}"), |error| shorten_text(&error)),
        ));
    }
    if !head.has_data {
        return Err(AnswerFault::Wrong("the response has no data".into()));
    }
    if head.is_partial {
        head.warnings.push("the response is partial: a part of the store did not respond".into());
    }
    Ok(head.warnings)
}

/// Shortens a store's message to the length that is shown.
pub(crate) fn shorten_text(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Visitor of the whole answer.
struct Envelope<'a, 'b> {
    head: &'a mut AnswerHead,
    form: AnswerForm,
    parts: PartReceiver<'a, 'b>,
}

impl<'de> Visitor<'de> for Envelope<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with status and data")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "status" => self.head.status = map.next_value()?,
                "error" => self.head.error = map.next_value()?,
                "isPartial" => self.head.is_partial = map.next_value()?,
                "warnings" => map.next_value_seed(WarningList(&mut self.head.warnings))?,
                "data" if self.head.has_data => return Err(A::Error::custom("data is given twice")),
                "data" => {
                    self.head.has_data = map.next_value_seed(AnswerData { form: self.form, parts: &mut self.parts })?
                }
                _ => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        Ok(())
    }
}

/// Visitor of the warnings, of which it keeps the first [`MAX_WARNINGS`].
struct WarningList<'a>(&'a mut Vec<String>);

impl<'de> DeserializeSeed<'de> for WarningList<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for WarningList<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of warnings")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(warning) = list.next_element::<String>()? {
            if self.0.len() < MAX_WARNINGS {
                self.0.push(shorten_text(&warning));
            }
        }
        Ok(())
    }
}

/// Visitor of `data`; its value is true if there is any.
struct AnswerData<'a, 'b, 'c> {
    form: AnswerForm,
    parts: &'a mut PartReceiver<'b, 'c>,
}

impl<'de> DeserializeSeed<'de> for AnswerData<'_, '_, '_> {
    type Value = bool;

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<bool, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for AnswerData<'_, '_, '_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.form == AnswerForm::List { "a list" } else { "an object with a result" })
    }

    fn visit_unit<E>(self) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<bool, A::Error> {
        if self.form == AnswerForm::List {
            return Err(A::Error::custom("data is not a list"));
        }
        let mut has_result = false;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "result" if has_result => return Err(A::Error::custom("result is given twice")),
                "result" => {
                    map.next_value_seed(AnswerList(self.parts))?;
                    has_result = true;
                }
                _ => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        if has_result { Ok(true) } else { Err(A::Error::missing_field("result")) }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<bool, A::Error> {
        if self.form == AnswerForm::Result {
            return Err(A::Error::custom("data is a list"));
        }
        AnswerList(self.parts).visit_seq(list).map(|()| true)
    }
}

/// Passes the parts of an answer to the sink, and keeps the fault that the sink returns.
struct PartReceiver<'a, 'b> {
    sink: &'a mut AnswerSink<'b>,
    fault: &'a mut Option<AnswerFault>,
}

impl PartReceiver<'_, '_> {
    /// Keeps the fault of a result, and returns an error that ends the parsing.
    fn keep_fault<E: serde::de::Error>(&mut self, result: Result<(), AnswerFault>) -> Result<(), E> {
        result.map_err(|fault| {
            *self.fault = Some(fault);
            E::custom("not taken")
        })
    }
}

/// Visitor of a list of names, of label sets, or of series.
struct AnswerList<'a, 'b, 'c>(&'a mut PartReceiver<'b, 'c>);

impl<'de> DeserializeSeed<'de> for AnswerList<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for AnswerList<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(AnswerItem(self.0))?.is_some() {}
        Ok(())
    }
}

/// Seed of one item of the list.
struct AnswerItem<'a, 'b, 'c>(&'a mut PartReceiver<'b, 'c>);

impl<'de> DeserializeSeed<'de> for AnswerItem<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        if let AnswerSink::Names(each) = self.0.sink {
            let name = <String as serde::Deserialize>::deserialize(from)?;
            let result = each(&name);
            return self.0.keep_fault(result);
        }
        self.0.sink.begin_series();
        match self.0.sink {
            AnswerSink::Series { labels, .. } => LabelSet(labels).deserialize(from)?,
            _ => from.deserialize_map(AnswerSeries(self.0.sink))?,
        }
        let result = self.0.sink.end_series();
        self.0.keep_fault(result)
    }
}

/// Visitor of a series: `{"metric":{…},"values":[[time,"value"],…]}`.
struct AnswerSeries<'a, 'b>(&'a mut AnswerSink<'b>);

impl<'de> Visitor<'de> for AnswerSeries<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a series: metric and values")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match (key.as_str(), &mut *self.0) {
                ("metric", AnswerSink::Grid { row, .. }) => map.next_value_seed(LabelSet(&mut row.labels))?,
                ("values", sink) => map.next_value_seed(Points(sink))?,
                ("value", sink) => map.next_value_seed(AnswerPoint(sink))?,
                _ => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        Ok(())
    }
}

/// Visitor of labels: `{"name":"value",…}`.
struct LabelSet<'a>(&'a mut Labels);

impl<'de> DeserializeSeed<'de> for LabelSet<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for LabelSet<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("labels")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        self.0.clear();
        let mut bytes = 0;
        while let Some((name, value)) = map.next_entry::<String, String>()? {
            bytes += name.len() + value.len() + 2;
            if bytes > MAX_LABEL_BYTES {
                return Err(A::Error::custom("a series has more than 64 KiB of labels"));
            }
            self.0.push((name, value));
        }
        Ok(())
    }
}

/// Visitor of the points of a series: `[[time,"value"],…]`.
struct Points<'a, 'b>(&'a mut AnswerSink<'b>);

impl<'de> DeserializeSeed<'de> for Points<'_, '_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Points<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of points")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let mut points_left = self.0.max_points();
        while list.next_element_seed(AnswerPoint(self.0))?.is_some() {
            points_left -= 1;
            if points_left == 0 {
                return Err(A::Error::custom("a series has more samples than requested"));
            }
        }
        Ok(())
    }
}

/// Visitor of a point: `[time,"value"]`.
struct AnswerPoint<'a, 'b>(&'a mut AnswerSink<'b>);

impl<'de> DeserializeSeed<'de> for AnswerPoint<'_, '_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for AnswerPoint<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a point: [time, \"value\"]")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let format_error = || A::Error::custom("a point is not [time, \"value\"]");
        let seconds: f64 = list.next_element()?.ok_or_else(format_error)?;
        let value = list.next_element_seed(QuotedNumber)?.ok_or_else(format_error)?;
        if list.next_element::<IgnoredAny>()?.is_some() {
            return Err(format_error());
        }
        self.0.add_point(seconds, value);
        Ok(())
    }
}

/// Visitor of a number in quotes; `null` is a gap.
struct QuotedNumber;

impl<'de> DeserializeSeed<'de> for QuotedNumber {
    type Value = f64;

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<f64, D::Error> {
        from.deserialize_any(self)
    }
}

impl Visitor<'_> for QuotedNumber {
    type Value = f64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number in quotes")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<f64, E> {
        text.parse().map_err(|_| E::custom("a value is not a number"))
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<f64, E> {
        Ok(f64::NAN)
    }
}

#[cfg(test)]
mod tests;
