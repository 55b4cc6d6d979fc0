//! Exposition pages as a log: the output of `curl http://host:9100/metrics`, one page or several in succession.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use diskwright_base::counter_ids::processor;
use diskwright_base::units::format_count;
use diskwright_base::{Note, Schema};

use super::exposition_line::{self, ExpositionLine, ExpositionSample};
use super::flush_histograms::FlushHistograms;
use super::machine_facts::MachineFacts;
use super::metric_names::{MetricConversion, MetricVocabulary};
use super::series_targets::SeriesTargets;
use crate::first_report::REPORT_STEP_NS;
use crate::plain_text;
use crate::sysstat::StreamWindow;
use crate::{FrameBatch, InputHead, LogError, LogFormat, LogInput, LogOptions, TimeBasis};

/// The format of exposition pages.
pub const TEXT: LogFormat = LogFormat {
    id: "prometheus-text",
    title: "Prometheus exposition pages (text and OpenMetrics) of node_exporter or windows_exporter",
    explain: "Pages of exporters, one or many per file. Rates need at least two pages: append one every few seconds, \
              as in `while sleep 15; do curl -s localhost:9100/metrics; done > pages.prom`. The time of a page comes \
              from its timestamps or from node_time_seconds; if it has neither, use --interval. Metrics that the \
              catalogue does not know become foreign.NAME.",
    recognize: is_exposition,
    read,
};

/// Beginning of the line that [`open_joined`] puts before each file: its time, and its name.
const FILE_LINE: &str = "# diskwright file ";

/// Returns true if there are several files, each with pages of metrics.
pub fn are_pages(files: &[(PathBuf, String)]) -> bool {
    let is_page =
        |path: &PathBuf| path.is_file() && LogInput::open(path).is_ok_and(|input| is_exposition(&input.head()));
    files.len() > 1 && files.iter().all(|(path, _)| is_page(path))
}

/// Opens files for which [`are_pages`] is true, path and name of each, as one log in the order given.
///
/// # Errors
/// When the first cannot be read.
pub fn open_joined(files: Vec<(PathBuf, String)>) -> Result<LogInput, LogError> {
    let line = |input: &LogInput| format!("\n# EOF\n{FILE_LINE}{} {}\n", modified_ns(input).unwrap_or(0), input.name());
    LogInput::open_joined(files, line)
}

/// Returns the time when a file was last written, nanoseconds since 1970.
fn modified_ns(input: &LogInput) -> Option<i64> {
    let time = input.path()?.metadata().ok()?.modified().ok()?;
    i64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_nanos()).ok()
}

/// Largest number of series that are followed.
const MAX_SERIES: usize = 50_000;
const ASSUMED_TIMES_NOTE: &str = "the pages do not show when they were scraped: their times are assumed from \
                                  --interval, so only durations are reliable";
const UNSPACED_PAGES_NOTE: &str = "the pages do not show when they were scraped, and their interval is not known: only \
                                   levels are read, a second apart (--interval 15s sets the interval)";
const SINGLE_PAGE_LEVELS: &str = "a single page holds only totals, and rates need two pages, so only levels were \
                                  judged. Give a second page, scraped some seconds later";
const SINGLE_PAGE_AVERAGES: &str = "a single page: its rates are averages since the machine started, which hide what \
                                    happens now. Give a second page, scraped some seconds later";
const LACKS_TIME: &str = "a page without a timestamp, unlike other pages";
/// Increase of the page number after a page without a time: the gap in the numbers prevents a rate between the pages
/// before and after it.
const RATE_GAP_PAGES: u64 = 2;
/// Longest line that is read, bytes.
const MAX_LINE_BYTES: usize = 1 << 20;

/// Returns true for a page: it has a line with a metric's type, or a sample that the vocabulary knows.
fn is_exposition(head: &InputHead<'_>) -> bool {
    const METRIC_KINDS: &[&str] =
        &["counter", "gauge", "histogram", "summary", "untyped", "unknown", "info", "stateset", "gaugehistogram"];
    head.text_lines().any(|line| match exposition_line::parse_line(&line) {
        Ok(ExpositionLine::Type { kind, .. }) => METRIC_KINDS.contains(&kind),
        Ok(ExpositionLine::Sample(sample)) => !MetricVocabulary::builtin().sources_of(sample.metric).is_empty(),
        Ok(_) | Err(_) => false,
    })
}

fn read(input: &mut LogInput, options: &LogOptions, batch: &mut FrameBatch<'_>) -> Result<(), LogError> {
    let modified = modified_ns(input);
    let file = input.name().to_owned();
    let mut pages = ExpositionPages::new(file.clone(), options, modified, batch);
    let mut reader = BufReader::with_capacity(1 << 16, input);
    let mut line = Vec::new();
    let mut number = 0_u64;
    loop {
        line.clear();
        let read = (&mut reader).take(MAX_LINE_BYTES as u64).read_until(b'\n', &mut line);
        if read.map_err(|e| LogError::io(&file, e))? == 0 {
            break;
        }
        number += 1;
        if pages.begin_file(&line)? {
            number = 0;
            continue;
        }
        if line.len() == MAX_LINE_BYTES && line.last() != Some(&b'\n') {
            pages.batch.add_skip(pages.line_context(number), "a line longer than 1 MiB");
            skip_line(&mut reader).map_err(|e| LogError::io(&file, e))?;
            continue;
        }
        let is_unfinished = line.last() != Some(&b'\n') && !line.trim_ascii_start().starts_with(b"#");
        if is_unfinished && !line.trim_ascii().is_empty() {
            pages.batch.add_skip(pages.line_context(number), StreamWindow::UNFINISHED_LINE);
            break;
        }
        match std::str::from_utf8(&line) {
            Ok(text) if text.contains('\u{1b}') => pages.read_line(number, &plain_text::clean_line(&line))?,
            Ok(text) => pages.read_line(number, text)?,
            Err(_) => pages.batch.add_skip(pages.line_context(number), "not valid UTF-8"),
        }
        if pages.batch.is_stopped() {
            return Ok(());
        }
    }
    pages.finish_log(number)
}

fn skip_line(reader: &mut impl BufRead) -> std::io::Result<()> {
    loop {
        let chunk = reader.fill_buf()?;
        let end = chunk.iter().position(|&b| b == b'\n').map(|index| index + 1);
        let used = end.unwrap_or(chunk.len());
        reader.consume(used);
        if end.is_some() || used == 0 {
            return Ok(());
        }
    }
}

/// State of a series.
struct SeriesState {
    cells: Vec<SeriesCell>,
    value: f64,
    previous: f64,
    /// Page in which it was seen last.
    last_page: u64,
    /// Page in which it was seen before that.
    previous_page: u64,
}

impl SeriesState {
    /// What was added since the page before this one; `None` if the series was not there. Pages are counted from 1.
    fn growth(&self, page_number: u64) -> Option<f64> {
        let is_compared = page_number > 1 && self.previous_page + 1 == page_number;
        is_compared.then_some(self.value - self.previous)
    }
}

/// Target cell of a series' value.
#[derive(Clone, Copy)]
struct SeriesCell {
    column: usize,
    conversion: MetricConversion,
    is_complement: bool,
    is_summed: bool,
    is_positive_only: bool,
}

/// Source of the pages' times, as far as the pages read so far show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PageTimes {
    /// No page was read.
    Unknown,
    /// The first page has no time; that of its file stands for it until another page shows more.
    FileTime,
    /// Times are assumed from the option's interval; this was reported.
    Assumed,
    /// Neither times nor an interval are known; this was reported.
    Unspaced,
    /// Pages have times. One without is skipped.
    Stamped,
}

/// State of reading pages.
pub(super) struct ExpositionPages<'b, 'a> {
    file: String,
    interval_ns: Option<i64>,
    modified_ns: Option<i64>,
    batch: &'b mut FrameBatch<'a>,
    by_key: HashMap<String, usize>,
    series_states: Vec<SeriesState>,
    histograms: FlushHistograms,
    /// Metrics that `# TYPE` calls counters.
    counters: HashMap<String, bool>,
    targets: SeriesTargets,
    schema: Arc<Schema>,
    machine: MachineFacts,
    pub(super) page_number: u64,
    /// Name of the file among several, in front of places in messages.
    file_prefix: String,
    /// Set until the first page of this file was finished: only then does the file's own time count.
    is_first_page_of_file: bool,
    /// The first series of this page.
    first_series: Option<usize>,
    timestamp_ns: Option<i64>,
    clock_ns: Option<i64>,
    /// Start of the machine, with which its totals begin.
    boot_ns: Option<i64>,
    last_ns: Option<i64>,
    page_times: PageTimes,
    /// Tick of the first page, held until it is known whether there is a second.
    first_tick: Option<(i64, Vec<f64>)>,
}

impl<'b, 'a> ExpositionPages<'b, 'a> {
    pub(super) fn new(
        file: String,
        options: &LogOptions,
        modified_ns: Option<i64>,
        batch: &'b mut FrameBatch<'a>,
    ) -> ExpositionPages<'b, 'a> {
        ExpositionPages {
            file,
            interval_ns: options.interval.and_then(|d| i64::try_from(d.as_nanos()).ok()),
            modified_ns,
            batch,
            by_key: HashMap::new(),
            series_states: Vec::new(),
            histograms: FlushHistograms::default(),
            counters: HashMap::new(),
            targets: SeriesTargets::default(),
            schema: Arc::default(),
            machine: MachineFacts::default(),
            page_number: 1,
            file_prefix: String::new(),
            is_first_page_of_file: true,
            first_series: None,
            timestamp_ns: None,
            clock_ns: None,
            boot_ns: None,
            last_ns: None,
            page_times: PageTimes::Unknown,
            first_tick: None,
        }
    }

    /// Begins a file of several; returns true for the line before each.
    fn begin_file(&mut self, line: &[u8]) -> Result<bool, LogError> {
        let Some(rest) = line.strip_prefix(FILE_LINE.as_bytes()) else { return Ok(false) };
        self.finish_page()?;
        let text = String::from_utf8_lossy(rest);
        let (time, name) = text.trim_end().split_once(' ').unwrap_or((text.trim_end(), ""));
        self.modified_ns = time.parse().ok().filter(|t| *t > 0);
        self.file_prefix = format!("{name}: ");
        self.is_first_page_of_file = true;
        Ok(true)
    }

    /// Returns the position of a line, for messages.
    fn line_context(&self, number: u64) -> String {
        format!("{}line {number}", self.file_prefix)
    }

    /// Returns the position of the current page, for messages.
    fn page_context(&self) -> String {
        format!("{}page {}", self.file_prefix, self.page_number)
    }

    fn read_line(&mut self, number: u64, text: &str) -> Result<(), LogError> {
        match exposition_line::parse_line(text) {
            Ok(ExpositionLine::Blank) => Ok(()),
            Ok(ExpositionLine::End) => self.finish_page(),
            Ok(ExpositionLine::Type { metric, kind }) => {
                if self.counters.len() < MAX_SERIES {
                    self.counters.insert(metric.to_owned(), kind == "counter");
                }
                Ok(())
            }
            Ok(ExpositionLine::Sample(sample)) => self.read_sample(number, &sample),
            Err(because) => {
                self.batch.add_skip(self.line_context(number), because);
                Ok(())
            }
        }
    }

    pub(super) fn read_sample(&mut self, number: u64, sample: &ExpositionSample<'_>) -> Result<(), LogError> {
        let index = match self.by_key.get(sample.key) {
            Some(&known) => known,
            None if self.series_states.len() >= MAX_SERIES => {
                self.batch.add_skip(self.line_context(number), format!("more series than the limit ({MAX_SERIES})"));
                return Ok(());
            }
            None => match self.add_series(sample) {
                Ok(added) => added,
                Err(because) => {
                    self.batch.add_skip(self.line_context(number), because);
                    return Ok(());
                }
            },
        };
        // an answer of a query lists all times of the first series before the second series begins, so that the second
        // series is the first whose time goes back
        let is_second_series = self.series_states.len() == 2;
        if is_second_series && sample.time_ns.is_some_and(|time| Some(time) <= self.last_ns) {
            let because = "the samples are ordered by series; only pages are read, each with all series of one time";
            return Err(LogError::broken(&self.file, self.line_context(number), because));
        }
        if self.series_states[index].last_page == self.page_number {
            // the page's first series is repeated: the next page begins
            if self.first_series != Some(index) {
                self.batch.add_skip(self.line_context(number), "a series twice in one page");
                return Ok(());
            }
            self.finish_page()?;
        }
        self.first_series.get_or_insert(index);
        let series = &mut self.series_states[index];
        (series.previous, series.previous_page) = (series.value, series.last_page);
        (series.value, series.last_page) = (sample.value, self.page_number);
        if sample.value.is_infinite() {
            self.batch.add_skip(self.line_context(number), "an infinite value");
            self.series_states[index].value = f64::NAN;
        }
        self.timestamp_ns = self.timestamp_ns.max(sample.time_ns);
        if sample.value < 9e9 && MetricVocabulary::builtin().facts.is_clock(sample.metric) {
            self.clock_ns = Some((sample.value * 1e6).round() as i64 * 1000);
        }
        // a moment, in seconds since 1970, and no time that has passed since
        let is_moment = (1e8..9e9).contains(&sample.value);
        if is_moment && MetricVocabulary::builtin().facts.boot.iter().any(|name| name == sample.metric) {
            self.boot_ns = Some((sample.value * 1e6).round() as i64 * 1000);
        }
        Ok(())
    }

    fn add_series(&mut self, sample: &ExpositionSample<'_>) -> Result<usize, &'static str> {
        let labels = exposition_line::parse_labels(sample.labels)?;
        let label = |name: &str| labels.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str());
        self.machine.learn_series(sample.metric, label);
        let targets = self.targets.find_targets(sample.metric, label);
        let mut cells: Vec<SeriesCell> = targets
            .iter()
            .map(|target| {
                let s = target.source;
                SeriesCell {
                    column: target.column,
                    conversion: s.conversion,
                    is_complement: s.is_complement,
                    is_summed: s.is_summed || s.is_part,
                    is_positive_only: s.is_positive_only,
                }
            })
            .collect();
        if MetricVocabulary::builtin().sources_of(sample.metric).is_empty() {
            let column = self.targets.foreign_column(format!("foreign.{}", sample.metric), sample.labels.to_owned());
            let is_counter = self.counters.get(sample.metric).copied();
            let has_total_suffix =
                ["_total", "_sum", "_count", "_bucket"].iter().any(|end| sample.metric.ends_with(end));
            let conversion =
                if is_counter.unwrap_or(has_total_suffix) { MetricConversion::Added } else { MetricConversion::Level };
            cells.push(SeriesCell {
                column,
                conversion,
                is_complement: false,
                is_summed: false,
                is_positive_only: false,
            });
        }
        let index = self.series_states.len();
        self.histograms.learn_series(sample.metric, label("le"), index, &mut self.targets);
        self.by_key.insert(sample.key.to_owned(), index);
        self.series_states.push(SeriesState {
            cells,
            value: f64::NAN,
            previous: f64::NAN,
            last_page: 0,
            previous_page: 0,
        });
        Ok(index)
    }

    /// Emits a tick for the page.
    pub(super) fn finish_page(&mut self) -> Result<(), LogError> {
        if self.first_series.is_none() {
            return Ok(());
        }
        let Some(time_ns) = self.page_time()? else {
            self.batch.add_skip(self.page_context(), LACKS_TIME);
            self.page_number += RATE_GAP_PAGES;
            (self.is_first_page_of_file, self.first_series) = (false, None);
            return Ok(());
        };
        if self.last_ns.is_some_and(|last| time_ns <= last) {
            self.drop_page(time_ns);
            return Ok(());
        }
        let elapsed_ns = self.last_ns.map_or(0, |last| time_ns.saturating_sub(last));
        self.emit_first_page(None);
        if self.schema.series.len() != self.targets.len() {
            self.schema = Arc::new(self.targets.build_schema());
        }
        let row = self.build_row(elapsed_ns as f64 * 1e-9);
        if self.last_ns.is_none() {
            let facts = &MetricVocabulary::builtin().facts;
            let fact_value = |id: &str| self.targets.find_column(id, "").map(|c| row[c] * self.schema.series[c].scale);
            let processor_instances = self
                .targets
                .counter_instances(processor::IDLE_S)
                .chain(self.targets.counter_instances(processor::IDLE));
            let processors = fact_value(&facts.processors).unwrap_or(processor_instances.count() as f64);
            let topology = self.machine.topology("", Some(processors), fact_value(&facts.memory));
            self.batch.push_topology(time_ns, &topology);
        }
        match self.last_ns {
            None => self.first_tick = Some((time_ns, row)),
            Some(_) => self.batch.push_tick(&self.schema, time_ns, None, &row),
        }
        self.last_ns = Some(time_ns);
        self.page_number += 1;
        self.is_first_page_of_file = false;
        (self.first_series, self.timestamp_ns, self.clock_ns) = (None, None, None);
        Ok(())
    }

    /// Drops a page that is not later than the one before: the growth up to it counts with the next page.
    fn drop_page(&mut self, time_ns: i64) {
        let is_same = self.last_ns == Some(time_ns);
        let because = if is_same { "a second page with the same time" } else { "time goes backwards" };
        self.batch.add_skip(self.page_context(), because);
        let page = self.page_number;
        for series in self.series_states.iter_mut().filter(|series| series.last_page == page) {
            (series.value, series.last_page) = (series.previous, series.previous_page);
        }
        self.is_first_page_of_file = false;
        (self.first_series, self.timestamp_ns, self.clock_ns) = (None, None, None);
    }

    fn emit_first_page(&mut self, elapsed_ns: Option<u64>) {
        if let Some((time_ns, row)) = self.first_tick.take() {
            self.batch.push_tick(&self.schema, time_ns, elapsed_ns, &row);
        }
    }

    /// Returns the time when the page was scraped: its timestamps, the machine's clock, the user's interval, or, for a
    /// single page, the file's own time. `None` if it is not known, because the page was cut before its time.
    fn page_time(&mut self) -> Result<Option<i64>, LogError> {
        if let Some(time) = self.timestamp_ns.or(self.clock_ns) {
            self.drop_untimed_first_page();
            self.page_times = PageTimes::Stamped;
            return Ok(Some(time));
        }
        match (self.last_ns, self.interval_ns) {
            _ if self.page_times == PageTimes::Stamped => Ok(None),
            (Some(last), Some(interval)) => {
                self.note_assumed_times(last);
                Ok(Some(last.saturating_add(interval)))
            }
            (None, _) => {
                self.page_times = PageTimes::FileTime;
                Ok(Some(self.modified_ns.unwrap_or(0)))
            }
            // one page per file: the files' own times distinguish them
            (Some(last), None) if self.is_first_page_of_file && self.modified_ns.is_some_and(|time| time > last) => {
                Ok(self.modified_ns)
            }
            (Some(last), None) => {
                if self.page_times != PageTimes::Unspaced {
                    self.page_times = PageTimes::Unspaced;
                    self.batch.push_note(Note::new(last, Note::WARNING, UNSPACED_PAGES_NOTE));
                    self.batch.note_time_basis(TimeBasis::Reports);
                }
                Ok(Some(last.saturating_add(REPORT_STEP_NS)))
            }
        }
    }

    /// Drops the first page, which had no time, when a later page has one.
    fn drop_untimed_first_page(&mut self) {
        if !matches!(self.page_times, PageTimes::FileTime | PageTimes::Assumed) {
            return;
        }
        self.batch.add_skip("page 1", LACKS_TIME);
        (self.first_tick, self.last_ns) = (None, None);
        self.series_states.iter_mut().for_each(|series| series.previous_page = 0);
    }

    fn note_assumed_times(&mut self, time_ns: i64) {
        if self.page_times != PageTimes::Assumed {
            self.page_times = PageTimes::Assumed;
            self.batch.push_note(Note::new(time_ns, Note::WARNING, ASSUMED_TIMES_NOTE));
            self.batch.note_time_basis(TimeBasis::Counted);
        }
    }

    fn build_row(&mut self, seconds: f64) -> Vec<f64> {
        let mut row = vec![f64::NAN; self.schema.series.len()];
        let mut restarts = 0_u64;
        for series in &self.series_states {
            if series.last_page != self.page_number || series.value.is_nan() {
                continue;
            }
            let growth = series.growth(self.page_number).filter(|_| self.page_times != PageTimes::Unspaced);
            let added = growth.unwrap_or(f64::NAN);
            let has_restarted = added < 0.0;
            for cell in &series.cells {
                let mut value = match cell.conversion {
                    MetricConversion::Level => series.value,
                    MetricConversion::Added | MetricConversion::Rate if has_restarted => f64::NAN,
                    MetricConversion::Added => added,
                    MetricConversion::Rate if seconds > 0.0 => added / seconds,
                    MetricConversion::Rate => f64::NAN,
                };
                restarts += u64::from(has_restarted && cell.conversion.is_total());
                if cell.is_complement {
                    value = if value.is_nan() { value } else { (1.0 - value).max(0.0) };
                }
                if value.is_nan() || (cell.is_positive_only && value <= 0.0) {
                    continue;
                }
                let target = &mut row[cell.column];
                *target = if target.is_nan() {
                    value
                } else if cell.is_summed {
                    *target + value
                } else {
                    target.max(value)
                };
            }
        }
        for _ in 0..restarts {
            self.batch.add_skip(self.page_context(), "a counter restarted; this tick is a gap");
        }
        self.targets.fill_stalls(&mut row);
        self.histograms.put_percentiles(&mut row, |index| {
            let series = &self.series_states[index];
            match series.last_page == self.page_number {
                true => series.growth(self.page_number).unwrap_or(series.value),
                false => f64::NAN,
            }
        });
        row
    }

    pub(super) fn finish_log(mut self, lines: u64) -> Result<(), LogError> {
        self.finish_page()?;
        match self.page_number {
            1 => self.batch.add_skip(format_count(lines, "line", "lines"), "it contains no samples"),
            _ if self.first_tick.is_some() => self.finish_single_page(),
            _ => {}
        }
        Ok(())
    }

    /// Emits the only page: with averages since the start of the machine, if it shows when that was, else its levels.
    fn finish_single_page(&mut self) {
        let time_ns = self.last_ns.unwrap_or(0);
        let since_boot = self.boot_ns.map(|boot_ns| time_ns.saturating_sub(boot_ns)).filter(|since| *since > 0);
        let text = match since_boot {
            Some(since_ns) if self.page_times == PageTimes::Stamped => {
                for series in self.series_states.iter_mut().filter(|series| series.last_page + 1 == self.page_number) {
                    (series.previous, series.previous_page, series.last_page) =
                        (0.0, series.last_page, self.page_number);
                }
                let row = self.build_row(since_ns as f64 * 1e-9);
                self.first_tick = Some((time_ns, row));
                self.emit_first_page(Some(since_ns.unsigned_abs()));
                SINGLE_PAGE_AVERAGES
            }
            _ => {
                // a single level counts for one second, so that it can be judged
                self.emit_first_page(Some(1_000_000_000));
                SINGLE_PAGE_LEVELS
            }
        };
        self.batch.add_skip("page 1", text);
        self.batch.push_note(Note::new(time_ns, Note::WARNING, text));
    }
}
