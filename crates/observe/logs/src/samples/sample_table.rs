//! Samples of series, put in order of time and handed on page by page.

use std::collections::HashMap;
use std::fmt::Write as _;

use diskwright_base::text::is_same_host;

use crate::prometheus::SampledPages;
use crate::{FrameBatch, LogError, LogInput, LogOptions};

/// Largest number of samples that are held.
const MAX_SAMPLES: usize = 10_000_000;
/// Largest number of series.
const MAX_SERIES: usize = 50_000;
/// Remark on samples beyond these limits.
pub(super) const TOO_MANY: &str = "more series or samples than the limit";
/// Shortest time between two samples of a series that tells how often it is taken, nanoseconds.
const MIN_STEP_NS: i64 = 1_000_000;

/// Series of a page that a source's values go to.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PageTarget {
    pub metric: String,
    /// Labels as a page has them between braces.
    pub labels: String,
    /// Factor from the source's unit.
    pub scale: f64,
    /// Set if it is one less the value.
    pub is_complement: bool,
}

impl PageTarget {
    /// A target with these labels, values unchanged.
    pub(super) fn new(metric: String, labels: &[(String, String)]) -> PageTarget {
        let mut text = String::new();
        for (name, value) in labels {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let comma = if text.is_empty() { "" } else { "," };
            let _ = write!(text, "{comma}{name}=\"{value}\"");
        }
        PageTarget { metric, labels: text, scale: 1.0, is_complement: false }
    }
}

/// A series as its tool names it.
struct SourceSeries {
    /// Machine; empty if the source does not name it.
    host: String,
    name: String,
    /// Indices of the page's series, and their targets.
    targets: Vec<(usize, PageTarget)>,
}

struct Sample {
    time_ns: i64,
    series: usize,
    value: f64,
}

/// All samples of a log.
#[derive(Default)]
pub(super) struct SampleTable {
    series: Vec<SourceSeries>,
    by_key: HashMap<String, usize>,
    /// Series of the pages: metric, labels and both.
    page_series: Vec<(String, String, String)>,
    by_page_key: HashMap<String, usize>,
    samples: Vec<Sample>,
}

impl SampleTable {
    /// Returns the series of a name; a new one goes to the targets that `find_targets` returns. `None` if there are too
    /// many.
    pub(super) fn find_series(
        &mut self,
        host: &str,
        name: String,
        find_targets: impl FnOnce() -> Vec<PageTarget>,
    ) -> Option<usize> {
        if let Some(index) = self.by_key.get(&name) {
            return Some(*index);
        }
        if self.series.len() >= MAX_SERIES {
            return None;
        }
        let targets = find_targets().into_iter().map(|target| (self.page_index(host, &target), target)).collect();
        self.by_key.insert(name.clone(), self.series.len());
        self.series.push(SourceSeries { host: host.to_owned(), name, targets });
        Some(self.series.len() - 1)
    }

    fn page_index(&mut self, host: &str, target: &PageTarget) -> usize {
        let key = format!("{host} {}{{{}}}", target.metric, target.labels);
        let next = self.page_series.len();
        let index = *self.by_page_key.entry(key.clone()).or_insert(next);
        if index == next {
            self.page_series.push((target.metric.clone(), target.labels.clone(), key));
        }
        index
    }

    /// Adds a sample; returns false if there are too many.
    pub(super) fn add_sample(&mut self, series: usize, time_ns: i64, value: f64) -> bool {
        let has_room = self.samples.len() < MAX_SAMPLES;
        if has_room {
            self.samples.push(Sample { time_ns, series, value });
        }
        has_room
    }

    /// Reads the samples of one machine as pages.
    pub(super) fn read_pages(
        mut self,
        input: &LogInput,
        options: &LogOptions,
        batch: &mut FrameBatch<'_>,
    ) -> Result<(), LogError> {
        if self.samples.is_empty() {
            return Ok(());
        }
        if let Some(host) = self.choose_host(input, options)? {
            for series in self.series.iter().filter(|s| !s.host.is_empty() && !is_same_host(&s.host, &host)) {
                batch.add_other_host(&series.name, &series.host);
            }
            let series = &self.series;
            let is_of_host = |sample: &Sample| {
                let of = &series[sample.series].host;
                of.is_empty() || is_same_host(of, &host)
            };
            self.samples.retain(is_of_host);
            batch.set_default_host(host);
        }
        self.samples.sort_by_key(|sample| (sample.time_ns, sample.series));
        let count = self.samples.len();
        self.samples.dedup_by_key(|sample| (sample.time_ns, sample.series));
        if count > self.samples.len() {
            batch.add_skip(format!("{} samples", count - self.samples.len()), "a second sample of one time");
        }
        let mut pages = SampledPages::new(input.name(), options, batch);
        self.emit_pages(&mut pages)?;
        pages.finish_log(self.samples.len() as u64)
    }

    /// Returns the machine to read, if the log names one.
    fn choose_host(&self, input: &LogInput, options: &LogOptions) -> Result<Option<String>, LogError> {
        let mut hosts: Vec<&str> = self.series.iter().map(|s| s.host.as_str()).filter(|h| !h.is_empty()).collect();
        hosts.dedup();
        let Some(first) = hosts.first() else { return Ok(None) };
        let Some(wanted) = &options.host else { return Ok(Some((*first).to_owned())) };
        let found = hosts.iter().find(|host| is_same_host(host, wanted));
        if let Some(host) = found {
            return Ok(Some((*host).to_owned()));
        }
        let because = format!("it has no series of {wanted}, but of {}", hosts[..hosts.len().min(5)].join(", "));
        Err(LogError::NoSamples { file: input.name().to_owned(), because })
    }

    /// Hands the samples on; a page ends where a series comes again, or half a step later.
    fn emit_pages(&self, pages: &mut SampledPages<'_, '_>) -> Result<(), LogError> {
        let step_ns = self.shortest_step();
        let mut values = vec![f64::NAN; self.page_series.len()];
        let mut seen = vec![false; self.series.len()];
        let mut begin_ns = self.samples.first().map_or(0, |sample| sample.time_ns);
        let mut time_ns = begin_ns;
        for sample in &self.samples {
            let is_late = step_ns.is_some_and(|step| sample.time_ns - begin_ns > step / 2);
            if seen[sample.series] || is_late {
                self.emit_page(pages, time_ns, &mut values)?;
                seen.fill(false);
                begin_ns = sample.time_ns;
            }
            seen[sample.series] = true;
            time_ns = sample.time_ns;
            for (index, target) in &self.series[sample.series].targets {
                let scaled = sample.value * target.scale;
                let value = if target.is_complement { 1.0 - scaled } else { scaled };
                // several series of a tool may be parts of one counter
                values[*index] = if values[*index].is_nan() { value } else { values[*index] + value };
            }
        }
        self.emit_page(pages, time_ns, &mut values)
    }

    fn emit_page(&self, pages: &mut SampledPages<'_, '_>, time_ns: i64, values: &mut [f64]) -> Result<(), LogError> {
        for ((metric, labels, key), value) in self.page_series.iter().zip(values.iter()) {
            if !value.is_nan() {
                pages.add_sample(metric, labels, key, *value, time_ns)?;
            }
        }
        values.fill(f64::NAN);
        pages.end_page()
    }

    /// Returns the shortest time between two samples of a series.
    fn shortest_step(&self) -> Option<i64> {
        let mut last = vec![None; self.series.len()];
        let mut shortest = None;
        for sample in &self.samples {
            if let Some(before) = last[sample.series].replace(sample.time_ns) {
                let step = sample.time_ns - before;
                if step >= MIN_STEP_NS && shortest.is_none_or(|known| step < known) {
                    shortest = Some(step);
                }
            }
        }
        shortest
    }
}
