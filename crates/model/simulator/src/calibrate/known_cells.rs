//! Figures that follow directly from the measured cells: initial values of the fits, and missing measurements.

use super::{CalibratedDevice, CalibrationCell, ModelKind};
use crate::io::BLOCK_BYTES;

/// Error: too few measurements.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too few measurements: there is no {}", .0.join(", and no "))]
pub struct MissingCells(
    /// Descriptions of the missing measurements.
    pub Vec<String>,
);

/// Figures of reads, or of writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct KnownDirection {
    /// Response time of a small request at queue depth 1, s.
    pub standalone_s: f64,
    /// Highest rate of small random requests, per second.
    pub max_per_s: f64,
    /// Highest rate, bytes/s.
    pub max_bytes_per_s: f64,
    /// Lower bound of the transfer rate of a single request's data, bytes/s, on top of the time of a small one.
    pub stream_bytes_per_s: f64,
}

/// The fitted cells, and the figures that follow from them.
pub(super) struct KnownCells<'a> {
    pub cells: &'a [&'a CalibrationCell],
    pub device: &'a CalibratedDevice,
    /// Blocks of a small request.
    pub small_blocks: u32,
    pub reads: KnownDirection,
    /// `None` if writing was not measured.
    pub writes: Option<KnownDirection>,
    /// True if mixes of reads and writes were measured.
    pub has_mixes: bool,
}

impl<'a> KnownCells<'a> {
    /// Derives the figures, or lists the missing measurements.
    pub fn from_cells(
        cells: &'a [&'a CalibrationCell],
        device: &'a CalibratedDevice,
    ) -> Result<KnownCells<'a>, MissingCells> {
        let loops: Vec<&CalibrationCell> = cells.iter().filter(|cell| cell.response_s.is_none()).copied().collect();
        let small = loops.iter().filter(|cell| !cell.load.sequential).map(|cell| cell.load.blocks).min();
        let mut missing = Vec::new();
        let reads = known_direction(&loops, 1.0, small.unwrap_or(0));
        if let Err(missing_cell) = &reads {
            missing.extend(missing_cell.iter().map(|missing_cell| format!("{missing_cell} of reads")));
        }
        let has_writes = loops.iter().any(|cell| cell.load.read_share <= 0.0);
        let writes = has_writes.then(|| known_direction(&loops, 0.0, small.unwrap_or(0)));
        if let Some(Err(missing_cell)) = &writes {
            missing.extend(missing_cell.iter().map(|missing_cell| format!("{missing_cell} of writes")));
        }
        let (Ok(reads), None | Some(Ok(_)), Some(small)) = (reads, &writes, small) else {
            return Err(MissingCells(missing));
        };
        let has_mixes = cells.iter().any(|cell| cell.load.read_share > 0.0 && cell.load.read_share < 1.0);
        Ok(KnownCells { cells, device, small_blocks: small, reads, writes: writes.and_then(Result::ok), has_mixes })
    }

    /// Returns the figures of writes, or of reads if writing was not measured.
    pub fn write_direction(&self) -> KnownDirection {
        self.writes.unwrap_or(self.reads)
    }

    /// Returns the gaps of a description made from these cells.
    pub fn description_notes(&self, kind: ModelKind) -> Vec<String> {
        let mut notes = Vec::new();
        if self.writes.is_none() {
            notes.push("writes were not measured and are taken to be like reads".to_owned());
        } else if !self.has_mixes {
            notes.push("reads and writes were not measured at the same time".to_owned());
        }
        if let Some(credits) = &self.device.credits {
            notes.push(credits.to_sentence());
        }
        match kind {
            ModelKind::Limits | ModelKind::Shared => {}
            ModelKind::Flash => notes.push(
                "the rate of writes is taken to be lasting: what garbage collection costs is in the time to program"
                    .to_owned(),
            ),
            ModelKind::Mechanical => {
                notes.push("assumed: heads, zones, the share of the inner tracks' rate, the size of the buffer".into());
            }
        }
        notes
    }
}

/// Derives the figures of a direction from a series of depths and a larger size; or lists what is missing.
fn known_direction(cells: &[&CalibrationCell], share: f64, small: u32) -> Result<KnownDirection, Vec<String>> {
    let selected: Vec<&&CalibrationCell> = cells.iter().filter(|cell| cell.load.read_share == share).collect();
    let mut depths: Vec<(u32, f64)> = selected
        .iter()
        .filter(|cell| !cell.load.sequential && cell.load.blocks == small)
        .map(|cell| (cell.load.depth, cell.per_s))
        .collect();
    depths.sort_by_key(|depth| depth.0);
    let mut missing = Vec::new();
    if depths.first().is_none_or(|first| first.0 > 2) {
        missing.push("random run with one request at a time".to_owned());
    }
    if depths.last().is_none_or(|last| last.0 < 16) {
        missing.push("random run with 16 and more requests at a time".to_owned());
    }
    if !selected.iter().any(|cell| cell.load.blocks >= 8 * small.max(1)) {
        missing.push("run of requests eight times as large".to_owned());
    }
    let (Some(first), true) = (depths.first(), missing.is_empty()) else {
        return Err(missing);
    };
    let bytes = |cell: &&&CalibrationCell| cell.per_s * f64::from(cell.load.blocks) * BLOCK_BYTES as f64;
    let standalone_s = f64::from(first.0) / first.1;
    let stream = |cell: &&&CalibrationCell| {
        let additional_bytes = f64::from(cell.load.blocks - small) * BLOCK_BYTES as f64;
        additional_bytes / (f64::from(cell.load.depth) / cell.per_s - standalone_s).max(1e-9)
    };
    let selected: Vec<&&CalibrationCell> = selected.into_iter().filter(|cell| cell.load.blocks >= small).collect();
    Ok(KnownDirection {
        standalone_s,
        max_per_s: depths.iter().map(|depth| depth.1).fold(0.0, f64::max),
        max_bytes_per_s: selected.iter().map(bytes).fold(0.0, f64::max),
        stream_bytes_per_s: selected.iter().filter(|cell| cell.load.blocks > small).map(stream).fold(1e3, f64::max),
    })
}
