//! Samples of simulated time, written to a Diskwright log.

use std::path::Path;

use diskwright_base::{Note, Tick};
use diskwright_datastore::{LogWriter, WriterOptions};
use diskwright_simulator::SimulationReport;
use diskwright_simulator::System;
use diskwright_simulator::sample_rows::SampleRows;

use super::super::Failure;

/// A Diskwright log for samples.
pub struct SimulationLog {
    writer: LogWriter,
    samples: SampleRows,
    row: Vec<f64>,
}

impl SimulationLog {
    /// Creates or continues a log. Virtual time began at `epoch_ns` (nanoseconds since 1970); `source` names the
    /// producer of the samples.
    pub fn open(
        dir: &Path,
        system: &System,
        epoch_ns: i64,
        source: &str,
        options: WriterOptions,
    ) -> Result<SimulationLog, Failure> {
        let samples = SampleRows::starting_at(system, epoch_ns).with_latency();
        diskwright_guard::check_new(&dir.join("log"))?;
        let mut writer = LogWriter::create_or_append(dir, options)?;
        let begin = epoch_ns.saturating_add(i64::try_from(system.watch.warm_up).unwrap_or(i64::MAX));
        writer.add_note(&Note::new(begin, Note::SOURCE, source))?;
        writer.add_note(&Note::topology(begin, samples.topology().clone()))?;
        let gaps = vec![f64::NAN; samples.schema().series.len()];
        writer.push(samples.schema(), Tick { time_ns: begin, elapsed_ns: 0 }, &gaps)?;
        Ok(SimulationLog { writer, samples, row: gaps })
    }

    /// Adds an interval.
    pub fn add_interval(&mut self, report: &SimulationReport) -> Result<(), Failure> {
        let tick = self.samples.build_row(report, &mut self.row);
        self.writer.push(self.samples.schema(), tick, &self.row)?;
        Ok(())
    }

    /// Writes the remaining samples and closes the log.
    pub fn close_log(self) -> Result<(), Failure> {
        self.writer.close()?;
        Ok(())
    }
}
