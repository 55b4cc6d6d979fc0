//! Describes a device by measurements of it: closed loops of one request size and mix at a fixed depth, as `probe` runs
//! them, and logged requests that arrived independently. Four kinds of device are tried, each based on physics only:
//! latencies and rates with limits (`limits.rs`), the same with work shared by all requests (`shared.rs`), parallel
//! parts behind a processor (`flash.rs`), and an arm over a rotating disk (`mechanical.rs`). Each is fitted by
//! simulating the measurements (`fit.rs`), and the kind with the best criterion is chosen. Held-out cells never enter
//! the fit; the error is reported on them. `repeats.rs` estimates the device's own variation, and `burst.rs` finds
//! credits that run out.

pub mod burst;
mod fit;
mod flash;
mod known_cells;
mod limits;
mod mechanical;
mod model_form;
mod repeats;
mod shared;
mod toml_writer;

use serde::Serialize;

use crate::catalogue::measure::{DriveLoad, DriveMeasurement, measure_arrivals, measure_load};
use crate::catalogue::{self, CatalogueEntry, EntryKind};
use crate::device::DeviceModel;
use crate::io::BLOCK_BYTES;
use burst::MeasuredCredits;
pub use known_cells::MissingCells;
pub use repeats::MeasurementNoise;
pub use toml_writer::{quote_toml, volume_table};

/// A measurement: a closed loop, or requests that arrived independently.
#[derive(Clone, Debug, PartialEq)]
pub struct CalibrationCell {
    /// Its name.
    pub name: String,
    /// Its load.
    pub load: DriveLoad,
    /// Measured throughput, or arrival rate, requests per second.
    pub per_s: f64,
    /// Mean response time of independent arrivals, s; the depth of the load is then not used.
    pub response_s: Option<f64>,
    /// True if it is held out of the fit, to test the fit.
    pub held_out: bool,
}

/// Other facts about the measured device.
#[derive(Clone, Debug, PartialEq)]
pub struct CalibratedDevice {
    /// Its id in the description.
    pub id: String,
    /// Its name, in words.
    pub name: String,
    /// Capacity, bytes.
    pub bytes: u64,
    /// Source of the measurements.
    pub source: String,
    /// Year of the measurements.
    pub year: u16,
    /// Time of a small sequential write that must reach the medium, s, if measured.
    pub commit_s: Option<f64>,
    /// Credits that ran out during the measurements. Later measurements are not among the cells.
    pub credits: Option<MeasuredCredits>,
}

impl CalibrationCell {
    /// Returns the mean response time, s; for a closed loop by Little's law.
    pub fn response_s(&self) -> f64 {
        self.response_s.unwrap_or(f64::from(self.load.depth) / self.per_s)
    }
}

/// Kinds of models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelKind {
    /// Latencies, rates, and limits of operations and bytes.
    Limits,
    /// Latencies, and work shared by requests in flight.
    Shared,
    /// Parallel parts behind one processor, with a buffer for writes.
    Flash,
    /// One arm over a rotating disk.
    Mechanical,
}

/// Property of a drive that a measurement tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TestedProperty {
    /// Small random requests, at some queue depth.
    Depth,
    /// Larger random requests.
    Size,
    /// Reads and writes at once.
    Mix,
    /// Sequential requests.
    Sequence,
    /// The load of a log: requests that arrive independently of completions.
    Log,
}

impl TestedProperty {
    /// All properties, in the order of reports.
    pub const ALL: [TestedProperty; 5] = [
        TestedProperty::Depth,
        TestedProperty::Size,
        TestedProperty::Mix,
        TestedProperty::Sequence,
        TestedProperty::Log,
    ];

    /// Returns its name in JSON documents.
    pub fn name(self) -> &'static str {
        match self {
            TestedProperty::Depth => "depth",
            TestedProperty::Size => "size",
            TestedProperty::Mix => "mix",
            TestedProperty::Sequence => "sequence",
            TestedProperty::Log => "log",
        }
    }

    fn from_cell(cell: &CalibrationCell, known: &known_cells::KnownCells) -> TestedProperty {
        let load = &cell.load;
        if cell.response_s.is_some() {
            TestedProperty::Log
        } else if load.sequential {
            TestedProperty::Sequence
        } else if load.read_share > 0.0 && load.read_share < 1.0 {
            TestedProperty::Mix
        } else if load.blocks == known.small_blocks {
            TestedProperty::Depth
        } else {
            TestedProperty::Size
        }
    }
}

/// A measurement and its prediction by the description.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellPrediction {
    /// Name of the run.
    pub run: String,
    /// The property it tests.
    #[serde(rename = "tries")]
    pub tested: TestedProperty,
    /// Measured requests per second.
    pub measured_per_s: f64,
    /// Predicted requests per second; for a log, the arrival rate.
    pub predicted_per_s: f64,
    /// Measured mean response time, s.
    pub measured_s: f64,
    /// Predicted mean response time, s.
    pub predicted_s: f64,
    /// Predicted over measured, minus 1: of the throughput for a closed loop, of the response time for a log.
    pub error: f64,
}

/// A kind that was tried.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TriedModel {
    /// The kind.
    pub kind: ModelKind,
    /// Its best form.
    pub form: String,
    /// Number of fitted numbers, including choices.
    pub parameters: usize,
    /// Mean error on the fitted cells.
    pub mean_error: f64,
    /// Schwarz's criterion: the lowest value is chosen.
    pub criterion: f64,
}

/// A description, and its quality.
#[derive(Clone, Debug, PartialEq)]
pub struct CalibratedDrive {
    /// The chosen kind.
    pub kind: ModelKind,
    /// All kinds, the best first.
    pub tried: Vec<TriedModel>,
    /// The `[[drive]]` of a catalogue file.
    pub toml: String,
    /// The same, as parsed by the catalogue's reader.
    pub entry: CatalogueEntry,
    /// Predictions of the fitted cells.
    pub fitted: Vec<CellPrediction>,
    /// Predictions of the held-out cells.
    pub held_out: Vec<CellPrediction>,
    /// The device's own variation, if a setting was measured twice.
    pub noise: Option<MeasurementNoise>,
    /// Gaps of the description.
    pub notes: Vec<String>,
}

/// Reasons why a device cannot be described.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CalibrationError {
    /// Too few measurements.
    #[error(transparent)]
    Missing(#[from] MissingCells),
    /// The description cannot be read back.
    #[error("the description cannot be used: {0}")]
    Description(String),
}

/// Holds out the middle depth of each series. A series is at least three random closed loops of one size and mix that
/// differ only in depth.
pub fn hold_out_middle_depths(cells: &mut [CalibrationCell]) {
    let series = |cell: &CalibrationCell| {
        let load = &cell.load;
        let is_random_loop = !load.sequential && cell.response_s.is_none();
        is_random_loop.then(|| (load.blocks, load.read_share.to_bits(), load.range))
    };
    for index in 0..cells.len() {
        let Some(key) = series(&cells[index]) else { continue };
        let mut depths: Vec<u32> = cells.iter().filter(|c| series(c) == Some(key)).map(|c| c.load.depth).collect();
        depths.sort_unstable();
        depths.dedup();
        cells[index].held_out = depths.len() >= 3 && cells[index].load.depth == depths[depths.len() / 2];
    }
}

/// Describes a device.
///
/// # Errors
/// Lists measurements that are needed and missing.
pub fn calibrate_device(
    cells: &[CalibrationCell],
    device: &CalibratedDevice,
) -> Result<CalibratedDrive, CalibrationError> {
    let noise = repeats::measure_noise(cells);
    let cells = &repeats::median_cells(cells);
    let fitted: Vec<&CalibrationCell> = cells.iter().filter(|cell| !cell.held_out).collect();
    let known = known_cells::KnownCells::from_cells(&fitted, device)?;
    let best = fit::fit_best_forms(&known, candidate_forms(&known));
    let Some((chosen, mut spec)) = best.first().and_then(|found| Some((found, found.to_catalogue_entry(&known)?)))
    else {
        return Err(CalibrationError::Description("no kind of device can be made of these figures".into()));
    };
    let notes = known.description_notes(chosen.form.kind);
    let unusable = |message: String| CalibrationError::Description(message);
    let tried = best.iter().map(|found| found.to_tried_model(&known)).collect();
    // the measurements were made with credits left
    let model = chosen
        .to_catalogue_entry(&known)
        .ok_or_else(|| unusable("it is empty".into()))?
        .build_device()
        .map_err(unusable)?;
    if let (EntryKind::Volume(volume), Some(credits)) = (&mut spec, &device.credits) {
        credits.apply_limit(volume);
    }
    let toml = toml_writer::catalogue_toml(device, &spec, &chosen.form.description, &notes);
    // predictions are made from the text that users will read
    let entries = catalogue::read("the description", &toml).map_err(|problems| unusable(problems.to_string()))?;
    let entry = entries.into_iter().next().ok_or_else(|| unusable("it is empty".into()))?;
    let model = if device.credits.is_some() { model } else { entry.build_device().map_err(unusable)? };
    let predict = |cell: &&CalibrationCell| predict_cell(&model, cell, &known);
    Ok(CalibratedDrive {
        kind: chosen.form.kind,
        tried,
        toml,
        fitted: fitted.iter().map(predict).collect(),
        held_out: cells.iter().filter(|cell| cell.held_out).map(|cell| predict(&cell)).collect(),
        noise,
        entry,
        notes,
    })
}

/// Returns all forms to be tried; a device with credits is described by limits.
fn candidate_forms(known: &known_cells::KnownCells) -> Vec<model_form::ModelForm> {
    let mut forms = limits::limit_forms(known);
    if known.device.credits.is_none() {
        forms.extend(shared::shared_forms(known));
        forms.extend(flash::flash_forms(known));
        forms.extend(mechanical::mechanical_forms(known));
    }
    forms
}

/// Factor by which reported predictions simulate more requests than the fit.
const PREDICTION_FACTOR: u32 = 5;

fn predict_cell(model: &DeviceModel, cell: &CalibrationCell, known: &known_cells::KnownCells) -> CellPrediction {
    let found = simulate_cell(model, cell, PREDICTION_FACTOR);
    CellPrediction {
        run: cell.name.clone(),
        tested: TestedProperty::from_cell(cell, known),
        measured_per_s: cell.per_s,
        predicted_per_s: found.iops,
        measured_s: cell.response_s(),
        predicted_s: found.mean_s,
        error: found.log_error(cell).exp() - 1.0,
    }
}

impl DriveMeasurement {
    /// Logarithm of simulated over measured: of the throughput for a closed loop, otherwise of the response time.
    fn log_error(&self, cell: &CalibrationCell) -> f64 {
        match cell.response_s {
            Some(response_s) => (self.mean_s / response_s).ln(),
            None => (self.iops / cell.per_s).ln(),
        }
    }
}

/// Simulates a cell on a device.
fn simulate_cell(model: &DeviceModel, cell: &CalibrationCell, times: u32) -> DriveMeasurement {
    let load = &cell.load;
    let pieces = (u64::from(load.blocks) * BLOCK_BYTES).div_ceil(16 << 10) as u32;
    let (default_count, min_count) = match model {
        DeviceModel::Mechanical(_) => (1000, 6 * load.depth),
        DeviceModel::Flash(_) => (4000, 20 * load.depth),
        _ => (1000, 20 * load.depth),
    };
    let requests = times * (default_count / pieces.max(1)).max(min_count).max(100);
    match cell.response_s {
        Some(_) => measure_arrivals(model, load, cell.per_s, requests),
        None => measure_load(model, load, requests),
    }
}
