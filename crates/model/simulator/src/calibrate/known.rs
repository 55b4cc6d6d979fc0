//! What the measured cells say by themselves: where fits begin, and what is missing.

use super::{CalibratedDevice, CalibrationCell, ModelKind};
use crate::io::BLOCK_BYTES;

/// Too little was measured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too few measurements: there is no {}", .0.join(", and no "))]
pub struct MissingCells(
    /// What is missing.
    pub Vec<String>,
);

/// One direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct KnownDirection {
    /// Time of a small request by itself, s.
    pub alone_s: f64,
    /// Most small requests a second, at random.
    pub most_per_s: f64,
    /// Most bytes a second.
    pub most_bytes_per_s: f64,
    /// Bytes a second of one request's data, on top of the time of a small one: at least.
    pub stream_bytes_per_s: f64,
}

/// The cells that are fitted, and what follows from them.
pub(super) struct KnownCells<'a> {
    pub cells: &'a [&'a CalibrationCell],
    pub device: &'a CalibratedDevice,
    /// Blocks of the small requests.
    pub small: u32,
    pub reads: KnownDirection,
    /// None where writing was not measured.
    pub writes: Option<KnownDirection>,
    /// Reads and writes at the same time were measured.
    pub mixes: bool,
}

impl<'a> KnownCells<'a> {
    pub fn of(cells: &'a [&'a CalibrationCell], device: &'a CalibratedDevice) -> Result<KnownCells<'a>, MissingCells> {
        let loops: Vec<&CalibrationCell> = cells.iter().filter(|cell| cell.response_s.is_none()).copied().collect();
        let small = loops.iter().filter(|cell| !cell.load.sequential).map(|cell| cell.load.blocks).min();
        let mut missing = Vec::new();
        let reads = direction(&loops, 1.0, small.unwrap_or(0));
        if let Err(what) = &reads {
            missing.extend(what.iter().map(|what| format!("{what} of reads")));
        }
        let written = loops.iter().any(|cell| cell.load.read_share <= 0.0);
        let writes = written.then(|| direction(&loops, 0.0, small.unwrap_or(0)));
        if let Some(Err(what)) = &writes {
            missing.extend(what.iter().map(|what| format!("{what} of writes")));
        }
        let (Ok(reads), None | Some(Ok(_)), Some(small)) = (reads, &writes, small) else {
            return Err(MissingCells(missing));
        };
        let mixes = cells.iter().any(|cell| cell.load.read_share > 0.0 && cell.load.read_share < 1.0);
        Ok(KnownCells { cells, device, small, reads, writes: writes.and_then(Result::ok), mixes })
    }

    /// Writes, or reads where nothing was written.
    pub fn written(&self) -> KnownDirection {
        self.writes.unwrap_or(self.reads)
    }

    /// What a description of these cells does not know.
    pub fn notes(&self, kind: ModelKind) -> Vec<String> {
        let mut notes = Vec::new();
        if self.writes.is_none() {
            notes.push("writes were not measured and are taken to be like reads".to_owned());
        } else if !self.mixes {
            notes.push("reads and writes were not measured at the same time".to_owned());
        }
        if let Some(credits) = &self.device.credits {
            notes.push(credits.words());
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

/// A series of depths, and a larger size; or what of that is missing.
fn direction(cells: &[&CalibrationCell], share: f64, small: u32) -> Result<KnownDirection, Vec<String>> {
    let of: Vec<&&CalibrationCell> = cells.iter().filter(|cell| cell.load.read_share == share).collect();
    let mut depths: Vec<(u32, f64)> = of
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
    if !of.iter().any(|cell| cell.load.blocks >= 8 * small.max(1)) {
        missing.push("run of requests eight times as large".to_owned());
    }
    let (Some(first), true) = (depths.first(), missing.is_empty()) else {
        return Err(missing);
    };
    let bytes = |cell: &&&CalibrationCell| cell.per_s * f64::from(cell.load.blocks) * BLOCK_BYTES as f64;
    let alone_s = f64::from(first.0) / first.1;
    let stream = |cell: &&&CalibrationCell| {
        let more = f64::from(cell.load.blocks - small) * BLOCK_BYTES as f64;
        more / (f64::from(cell.load.depth) / cell.per_s - alone_s).max(1e-9)
    };
    let of: Vec<&&CalibrationCell> = of.into_iter().filter(|cell| cell.load.blocks >= small).collect();
    Ok(KnownDirection {
        alone_s,
        most_per_s: depths.iter().map(|depth| depth.1).fold(0.0, f64::max),
        most_bytes_per_s: of.iter().map(bytes).fold(0.0, f64::max),
        stream_bytes_per_s: of.iter().filter(|cell| cell.load.blocks > small).map(stream).fold(1e3, f64::max),
    })
}
