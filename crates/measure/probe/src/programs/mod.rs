//! Whether storage is good enough for a program: what its vendor publishes (`programs.toml`), the load that measures
//! it, and the answer.
//!
//! No limit is made up. Where a vendor publishes no number, a figure is measured and not judged; what this program
//! chose itself is named in `ours`.

pub mod judge;
mod suites;

use std::sync::OnceLock;

use diskwright_base::{Problems, toml_reader};
use serde::Deserialize;

use crate::error::ProbeError;
use crate::pattern::{Durability, Pattern, Placement};
use crate::result::RunResult;
use crate::suites::{SEQUENTIAL, SuiteSession};
use diskwright_results::requirement::{LimitKind, RequirementLevel, RequirementSource};

pub use suites::{PROGRAM_SUITES, find_program_suite};

/// A program with the requirements of its vendor.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Id on the command line.
    pub id: String,
    /// Name.
    pub title: String,
    /// Its use of storage, in words.
    #[serde(rename = "use")]
    pub use_of_storage: String,
    /// Size of the file that is created, bytes.
    pub file_bytes: u64,
    /// True if the program writes to blocks that were never written; the file is then allocated and not filled.
    pub new_blocks: bool,
    /// What the vendor publishes instead of limits for figures, if it publishes none.
    pub no_number: Option<String>,
    /// What would tell more than this measurement, a phrase each.
    pub more: Vec<String>,
    /// The loads, in the order in which they are measured.
    #[serde(rename = "load")]
    pub loads: Vec<Load>,
    /// The requirements.
    #[serde(rename = "requirement")]
    pub requirements: Vec<Requirement>,
}

/// A load that measures requirements.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Name of its run.
    pub name: String,
    /// True for one sequential stream, false for uniformly random places.
    pub sequential: bool,
    /// Size of a request, bytes.
    pub size_bytes: u32,
    /// Requests in flight.
    pub depth: u32,
    /// Share of reads, 0 to 1.
    pub read_share: f64,
    /// Method of making writes durable.
    #[serde(default)]
    pub durable: Durability,
    /// True if the program writes through the page cache, so that the size need not be a multiple of a sector.
    #[serde(default)]
    pub buffered: bool,
    /// The run ends after this many bytes.
    pub max_bytes: Option<u64>,
}

/// A requirement of a vendor: of a figure, or of a property.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requirement {
    /// Id, unique in its program.
    pub id: String,
    /// The quantity or property, in words.
    pub title: String,
    /// Weight.
    pub level: RequirementLevel,
    /// Name of the load that measures it.
    pub run: Option<String>,
    /// Figure of that run.
    pub figure: Option<Figure>,
    /// Property of the target instead of a figure.
    pub property: Option<Property>,
    below: Option<f64>,
    at_most: Option<f64>,
    at_least: Option<f64>,
    /// Unit, by its name in the catalogue; empty for a property.
    #[serde(default)]
    pub unit: String,
    /// Where a log has the same quantity.
    pub from_log: Option<LogQuantity>,
    /// What follows if it is not met.
    #[serde(default)]
    pub effect: String,
    /// What this program chose itself.
    pub ours: Option<String>,
    /// Publication.
    pub source: RequirementSource,
}

/// A figure of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Mean latency, seconds.
    Mean,
    /// 99th percentile of the latency, seconds.
    P99,
    /// Longest latency, seconds.
    Max,
    /// Mean latency of reads, seconds.
    ReadMean,
    /// Mean latency of writes, seconds.
    WriteMean,
    /// Requests per second.
    RequestsPerS,
    /// Bytes per second.
    BytesPerS,
}

/// A property of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Property {
    /// The filesystem is not on another machine.
    LocalFilesystem,
    /// The disk does not rotate.
    NotRotating,
    /// A mount of NFS has the option `hard`.
    HardMount,
}

/// A quantity in a log that tells the same as a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogQuantity {
    /// 99th percentile of a commit: a synchronous write and a flush.
    CommitP99,
    /// Longest commit.
    CommitLongest,
    /// Mean flush of a database's log, by its own statistics.
    CommitMean,
    /// Mean latency of reads.
    ReadMean,
    /// Mean latency of writes.
    WriteMean,
    /// Mean latency of reads and writes.
    Mean,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProgramFile {
    program: Vec<Program>,
}

/// Loads all programs. The file is part of this program: a test reads it.
///
/// # Errors
/// Everything that is wrong with the file.
pub fn load_programs() -> Result<Vec<Program>, Problems> {
    toml_reader::read::<ProgramFile>("programs.toml", include_str!("programs.toml")).map(|file| file.program)
}

/// Returns all programs, in the order in which they are listed.
pub fn builtin_programs() -> &'static [Program] {
    static PROGRAMS: OnceLock<Vec<Program>> = OnceLock::new();
    PROGRAMS.get_or_init(|| load_programs().unwrap_or_default())
}

/// Finds a program by its id.
pub fn find_program(id: &str) -> Option<&'static Program> {
    builtin_programs().iter().find(|program| program.id == id)
}

impl Requirement {
    /// Returns the limit and how the figure compares with it; `None` where no limit is published.
    pub fn limit(&self) -> Option<(LimitKind, f64)> {
        let below = self.below.map(|limit| (LimitKind::Below, limit));
        let at_most = self.at_most.map(|limit| (LimitKind::AtMost, limit));
        below.or(at_most).or(self.at_least.map(|limit| (LimitKind::AtLeast, limit)))
    }
}

impl Load {
    /// Builds the load as a pattern. On a device there is no page cache between program and disk: requests are then
    /// direct, and as large as whole sectors.
    fn build_pattern(&self, session: &SuiteSession<'_>) -> Pattern {
        let settings = &session.settings;
        let is_buffered = settings.buffered || self.buffered && !settings.is_device;
        let sector = settings.sector.max(1);
        let whole_sectors = u64::from(self.size_bytes).next_multiple_of(sector);
        let size = if is_buffered { self.size_bytes } else { u32::try_from(whole_sectors).unwrap_or(self.size_bytes) };
        let placement = if self.sequential { SEQUENTIAL } else { Placement::Uniform };
        let base = session.build_pattern(self.name.clone(), placement, size, self.depth);
        // a database's commits have no ramp: the first one is as good as the last one
        let ramp = if self.durable == Durability::No { base.ramp } else { std::time::Duration::ZERO };
        Pattern {
            read_share: if settings.writes { self.read_share } else { 1.0 },
            durable: self.durable,
            buffered: is_buffered,
            // its own pages are of no use to it: it only writes
            warm: is_buffered && self.read_share == 0.0,
            max_bytes: self.max_bytes,
            ramp,
            ..base
        }
    }
}

/// Measures the loads of a program. Loads that only write are left out where writing is not allowed.
///
/// # Errors
/// The error of the first run that failed.
pub fn measure_program(session: &mut SuiteSession<'_>, id: &str) -> Result<(), ProbeError> {
    let unknown = || ProbeError::Pattern { name: id.into(), because: "no such program".into() };
    for load in &find_program(id).ok_or_else(unknown)?.loads {
        if load.read_share == 0.0 && !session.settings.writes {
            let text = format!("{} was not measured: writing to this target is not allowed", load.name);
            session.report_text("not_written", text);
            continue;
        }
        if load.read_share > 0.0 && load.read_share < 1.0 && !session.settings.writes {
            let text = format!("{} was measured with reads alone: writing to this target is not allowed", load.name);
            session.report_text("only_read", text);
        }
        session.run(&load.build_pattern(session))?;
    }
    Ok(())
}

/// Returns a figure of a run; `None` if it was not measured.
fn figure_of(run: &RunResult, figure: Figure) -> Option<f64> {
    match figure {
        Figure::Mean => run.latency_s.mean,
        Figure::P99 => run.latency_s.p99,
        Figure::Max => run.latency_s.max,
        Figure::ReadMean => run.reads?.latency_s.mean,
        Figure::WriteMean => run.writes?.latency_s.mean,
        Figure::RequestsPerS => Some(run.requests_per_s),
        Figure::BytesPerS => Some(run.bytes_per_s),
    }
}

#[cfg(test)]
mod tests;
