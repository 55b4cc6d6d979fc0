//! Pages that other readers make: samples with times, as stores and agents write them, series by series.

use super::exposition_line::ExpositionSample;
use super::exposition_pages::ExpositionPages;
use crate::{FrameBatch, LogError, LogOptions};

/// Pages that a reader makes of samples with times, series by series.
pub(crate) struct SampledPages<'b, 'a> {
    pages: ExpositionPages<'b, 'a>,
}

impl<'b, 'a> SampledPages<'b, 'a> {
    pub(crate) fn new(file: &str, options: &LogOptions, batch: &'b mut FrameBatch<'a>) -> SampledPages<'b, 'a> {
        SampledPages { pages: ExpositionPages::new(file.to_owned(), options, None, batch) }
    }

    /// Adds a sample to the page; `key` distinguishes its series.
    pub(crate) fn add_sample(
        &mut self,
        metric: &str,
        labels: &str,
        key: &str,
        value: f64,
        time_ns: i64,
    ) -> Result<(), LogError> {
        let sample = ExpositionSample { metric, labels, key, value, time_ns: Some(time_ns) };
        self.pages.read_sample(self.pages.page_number, &sample)
    }

    pub(crate) fn end_page(&mut self) -> Result<(), LogError> {
        self.pages.finish_page()
    }

    /// Ends the log, of which so many samples were read.
    pub(crate) fn finish_log(self, samples: u64) -> Result<(), LogError> {
        self.pages.finish_log(samples)
    }
}
