//! A device described from measurements of it: closed loops of one size and mix at a fixed depth, as `probe`
//! makes them, and what a log says of requests that came by themselves. Four kinds of device are tried, each made
//! of physics alone: times and rates with limits (`limits.rs`), the same with work that all share (`shared.rs`),
//! parts that work side by side behind a processor (`flash.rs`), an arm over a turning disk (`arm.rs`). Each is
//! fitted by simulating what was measured (`fit.rs`), and the one for which most speaks is taken. Cells that are
//! put aside are never seen by the fit; the error is told on them. `repeats.rs` says what a device varies by itself,
//! and `burst.rs` finds credits that run out.

mod arm;
pub mod burst;
mod fit;
mod flash;
mod form;
mod known;
mod limits;
mod repeats;
mod shared;
mod write;

use serde::Serialize;

use crate::catalogue::measure::{DriveLoad, DriveMeasurement, measure_arrivals, measure_load};
use crate::catalogue::{self, CatalogueEntry, EntryKind};
use crate::device::DeviceModel;
use crate::io::BLOCK_BYTES;
use burst::MeasuredCredits;
pub use known::MissingCells;
pub use repeats::MeasurementNoise;

/// What was measured: a closed loop, or requests that came by themselves.
#[derive(Clone, Debug, PartialEq)]
pub struct CalibrationCell {
    /// What it is called.
    pub name: String,
    /// What was asked.
    pub load: DriveLoad,
    /// Requests a second that came out, or came by themselves.
    pub per_s: f64,
    /// Their mean response, s, where they came by themselves; the depth of the load is then no part of it.
    pub response_s: Option<f64>,
    /// Kept from the fit, to try it on.
    pub aside: bool,
}

/// What is known of the device besides.
#[derive(Clone, Debug, PartialEq)]
pub struct CalibratedDevice {
    /// Its id in the description.
    pub id: String,
    /// What it is, in words.
    pub name: String,
    /// Bytes that it holds.
    pub bytes: u64,
    /// Where the measurements are from.
    pub source: String,
    /// The year in which it was measured.
    pub year: u16,
    /// Seconds of a small write in order that has to be on the medium, where that was measured.
    pub commit_s: Option<f64>,
    /// Credits that ran out while it was measured. What was measured afterwards is none of the cells.
    pub credits: Option<MeasuredCredits>,
}

impl CalibrationCell {
    /// Mean response, s: by Little's law in a closed loop.
    pub fn response_s(&self) -> f64 {
        self.response_s.unwrap_or(f64::from(self.load.depth) / self.per_s)
    }
}

/// Kinds of models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelKind {
    /// Times, rates, and limits of operations and bytes.
    Limits,
    /// Times, and work that requests under way share.
    Shared,
    /// Parts that work side by side behind one processor, with a buffer for writes.
    Flash,
    /// One arm over a turning disk.
    Mechanical,
}

/// A measurement beside what the description makes of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellPrediction {
    /// The run.
    pub run: String,
    /// What it tries: `depth`, `size`, `mix`, `sequence` or `log`.
    pub tries: &'static str,
    /// Requests a second.
    pub measured_per_s: f64,
    /// Requests a second of the described device; those of a log come by themselves.
    pub predicted_per_s: f64,
    /// Mean response, s.
    pub measured_s: f64,
    /// Mean response of the described device, s.
    pub predicted_s: f64,
    /// Predicted over measured, less 1: of requests a second in a closed loop, of the response in a log.
    pub error: f64,
}

/// A kind that was tried.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TriedModel {
    /// The kind.
    pub kind: ModelKind,
    /// Its best form.
    pub form: String,
    /// Numbers that were fitted, choices included.
    pub parameters: usize,
    /// Mean error on what was fitted.
    pub mean_error: f64,
    /// Schwarz's criterion: the lowest is taken.
    pub criterion: f64,
}

/// A description, and how good it is.
#[derive(Clone, Debug, PartialEq)]
pub struct CalibratedDrive {
    /// What it was taken to be.
    pub kind: ModelKind,
    /// All kinds, the best first.
    pub tried: Vec<TriedModel>,
    /// As `[[drive]]` of a catalogue.
    pub toml: String,
    /// The same, as the catalogue's reader has it.
    pub entry: CatalogueEntry,
    /// Cells that were fitted.
    pub fitted: Vec<CellPrediction>,
    /// Cells that were not.
    pub aside: Vec<CellPrediction>,
    /// What the device varies by itself, where a setting was measured twice.
    pub noise: Option<MeasurementNoise>,
    /// What the description does not know.
    pub notes: Vec<String>,
}

/// Why there is none.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CalibrationError {
    /// Too little was measured.
    #[error(transparent)]
    Missing(#[from] MissingCells),
    /// The description cannot be read.
    #[error("the description cannot be used: {0}")]
    Description(String),
}

/// Puts the middle one of each series of depths aside: of three and more random loops of one size and
/// mix that differ in depth alone.
pub fn put_middles_aside(cells: &mut [CalibrationCell]) {
    let series = |cell: &CalibrationCell| {
        let load = &cell.load;
        let is_random_loop = !load.sequential && cell.response_s.is_none();
        is_random_loop.then(|| (load.blocks, load.read_share.to_bits(), load.range))
    };
    for index in 0..cells.len() {
        let Some(of) = series(&cells[index]) else { continue };
        let mut depths: Vec<u32> = cells.iter().filter(|c| series(c) == Some(of)).map(|c| c.load.depth).collect();
        depths.sort_unstable();
        depths.dedup();
        cells[index].aside = depths.len() >= 3 && cells[index].load.depth == depths[depths.len() / 2];
    }
}

/// Describes a device.
///
/// # Errors
/// What was not measured and is needed.
pub fn calibrate(cells: &[CalibrationCell], device: &CalibratedDevice) -> Result<CalibratedDrive, CalibrationError> {
    let noise = repeats::noise(cells);
    let cells = &repeats::medians(cells);
    let fitted: Vec<&CalibrationCell> = cells.iter().filter(|cell| !cell.aside).collect();
    let known = known::KnownCells::of(&fitted, device)?;
    let best = fit::best(&known, forms(&known));
    let Some((chosen, mut spec)) = best.first().and_then(|found| Some((found, found.entry(&known)?))) else {
        return Err(CalibrationError::Description("no kind of device can be made of these figures".into()));
    };
    let notes = known.notes(chosen.form.kind);
    let wrong = |message: String| CalibrationError::Description(message);
    let tried = best.iter().map(|found| found.tried(&known)).collect();
    // what was measured was measured with credits left
    let model = chosen.entry(&known).ok_or_else(|| wrong("it is empty".into()))?.device().map_err(wrong)?;
    if let (EntryKind::Volume(volume), Some(credits)) = (&mut spec, &device.credits) {
        credits.limit(volume);
    }
    let toml = write::toml(device, &spec, &chosen.form.what, &notes);
    // what is told of it is told of what others will read
    let entries = catalogue::read("the description", &toml).map_err(|problems| wrong(problems.to_string()))?;
    let entry = entries.into_iter().next().ok_or_else(|| wrong("it is empty".into()))?;
    let model = if device.credits.is_some() { model } else { entry.device().map_err(wrong)? };
    let predict = |cell: &&CalibrationCell| predict(&model, cell, &known);
    Ok(CalibratedDrive {
        kind: chosen.form.kind,
        tried,
        toml,
        fitted: fitted.iter().map(predict).collect(),
        aside: cells.iter().filter(|cell| cell.aside).map(|cell| predict(&cell)).collect(),
        noise,
        entry,
        notes,
    })
}

/// All kinds that are tried: what has credits is held by limits.
fn forms(known: &known::KnownCells) -> Vec<form::ModelForm> {
    let mut forms = limits::forms(known);
    if known.device.credits.is_none() {
        forms.extend(shared::forms(known));
        forms.extend(flash::forms(known));
        forms.extend(arm::forms(known));
    }
    forms
}

/// Requests of a prediction that is told, as a multiple of those of the fit.
const TOLD: u32 = 5;

fn predict(model: &DeviceModel, cell: &CalibrationCell, known: &known::KnownCells) -> CellPrediction {
    let found = simulated(model, cell, TOLD);
    let load = &cell.load;
    let tries = match (load.sequential, load.read_share) {
        _ if cell.response_s.is_some() => "log",
        (true, _) => "sequence",
        (_, share) if share > 0.0 && share < 1.0 => "mix",
        _ if load.blocks == known.small => "depth",
        _ => "size",
    };
    CellPrediction {
        run: cell.name.clone(),
        tries,
        measured_per_s: cell.per_s,
        predicted_per_s: found.iops,
        measured_s: cell.response_s(),
        predicted_s: found.mean_s,
        error: found.error(cell).exp() - 1.0,
    }
}

impl DriveMeasurement {
    /// Logarithm of simulated over measured: of requests a second in a closed loop, else of the response.
    fn error(&self, cell: &CalibrationCell) -> f64 {
        match cell.response_s {
            Some(response_s) => (self.mean_s / response_s).ln(),
            None => (self.iops / cell.per_s).ln(),
        }
    }
}

/// What a device makes of a cell.
fn simulated(model: &DeviceModel, cell: &CalibrationCell, times: u32) -> DriveMeasurement {
    let load = &cell.load;
    let pieces = (u64::from(load.blocks) * BLOCK_BYTES).div_ceil(16 << 10) as u32;
    let (usual, least) = match model {
        DeviceModel::Mechanical(_) => (1000, 6 * load.depth),
        DeviceModel::Flash(_) => (4000, 20 * load.depth),
        _ => (1000, 20 * load.depth),
    };
    let requests = times * (usual / pieces.max(1)).max(least).max(100);
    match cell.response_s {
        Some(_) => measure_arrivals(model, load, cell.per_s, requests),
        None => measure_load(model, load, requests),
    }
}
