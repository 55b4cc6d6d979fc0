//! A document's experiments as written: published rows, the simulations that they need, and the parameters that its fit
//! rows set.

use std::collections::BTreeMap;

use diskwright_base::Problems;
use diskwright_base::toml_reader::{TomlFields, TomlSource, did_you_mean};
use serde::Deserialize;
use toml::Spanned;
use toml::de::DeValue;

use crate::expression::{Comparison, Expression};

/// A document.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExperimentDocument {
    /// Number of the document: the three digits at the start of its file name.
    pub doc: String,
    /// Title, authors and date.
    pub title: String,
    /// Simulations, by the names that measures use.
    #[serde(default)]
    pub runs: BTreeMap<String, ExperimentRun>,
    /// Free parameters, each set by fit rows.
    #[serde(default, rename = "fit")]
    pub fits: Vec<FitParameter>,
    /// The published values.
    #[serde(rename = "row")]
    pub rows: Vec<PublishedRow>,
}

/// A simulation: a system with some keys changed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExperimentRun {
    /// `experiments/systems/NAME.toml`.
    pub system: String,
    /// Keys (`disk.count`), and their values in this run.
    #[serde(default)]
    pub set: BTreeMap<String, toml::Value>,
    /// Number of simulations, each with another seed; the results are means. Default: 1.
    #[serde(default = "default_repeat")]
    pub repeat: u32,
    /// Remark.
    #[serde(default)]
    pub because: String,
}

fn default_repeat() -> u32 {
    1
}

/// A free parameter and the rows that set it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FitParameter {
    /// Its name.
    pub name: String,
    /// Its value, in the unit of the value format.
    pub value: f64,
    /// Smallest and largest possible value.
    pub range: [f64; 2],
    /// The fit rows that set it, and no others.
    pub rows: Vec<String>,
    /// The keys that use it: `SYSTEM:KEY`.
    pub keys: Vec<String>,
    /// Text of the value, with `{}` for the number (`{}us`, `{}KB/s`); a plain number if empty.
    #[serde(default, rename = "written")]
    pub value_format: String,
    /// True if the key takes only integers.
    #[serde(default, rename = "whole")]
    pub is_integer: bool,
    /// True if it was calculated by hand from published figures; a search leaves it unchanged.
    #[serde(default)]
    pub worked_out: bool,
    /// Its meaning, and whether the value is plausible.
    pub because: String,
}

/// Permitted use of a row. The split is frozen.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum RowUse {
    /// May set free parameters.
    Fit,
    /// Is predicted.
    Predict,
    /// Only its shape is predicted: the relations of its parts, not their values.
    Shape,
    /// Neither: arithmetic on published figures, or prices.
    None,
}

impl RowUse {
    /// Returns `fit`, `predict`, `shape` or `none`.
    pub fn name(self) -> &'static str {
        match self {
            RowUse::Fit => "fit",
            RowUse::Predict => "predict",
            RowUse::Shape => "shape",
            RowUse::None => "none",
        }
    }
}

/// Kind of a published bound.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    /// The value is at least the published one.
    #[serde(rename = "least")]
    AtLeast,
    /// The value lies between the negative published value and the published value.
    Within,
}

/// A naive prediction, with which the simulated value is compared.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct NaivePrediction {
    /// A fit row of the same document, whose published value is used...
    #[serde(default)]
    pub row: Option<String>,
    /// ... times this factor (the ratio of the numbers of disks, for a quantity that scales with them).
    #[serde(default = "default_factor")]
    pub times: f64,
    /// A fixed value, if no row gives one.
    #[serde(default)]
    pub value: Option<f64>,
    /// Reason for this prediction.
    #[serde(default)]
    pub because: String,
}

fn default_factor() -> f64 {
    1.0
}

/// A published quantity.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedRow {
    /// Its id: `S1`, `M28a`; parts of one row are `M8a.processor`.
    pub id: String,
    /// The quantity.
    #[serde(rename = "what")]
    pub quantity: String,
    /// The published value, in `unit`; `None` if only a shape is given.
    #[serde(default)]
    pub published: Option<f64>,
    /// Derivation of `published`, if that number itself was not published.
    #[serde(default)]
    pub derived: Option<String>,
    /// Unit of the published and the simulated value.
    pub unit: String,
    /// True for a gain that was published as a percentage: its errors are percentage points.
    #[serde(default)]
    pub gain: bool,
    /// Set if the published value is a bound.
    #[serde(default)]
    pub bound: Option<Bound>,
    /// Permitted use.
    #[serde(rename = "use")]
    pub usage: RowUse,
    /// The naive prediction.
    #[serde(default)]
    pub baseline: Option<NaivePrediction>,
    /// Expression over simulation results that is compared with `published`, in `unit`.
    #[serde(default)]
    pub measure: Option<Expression>,
    /// Comparisons that must hold for a shape.
    #[serde(default)]
    pub holds: Vec<Comparison>,
    /// Reason why it is not simulated or why the model differs, or another remark.
    #[serde(default)]
    pub because: String,
}

impl PublishedRow {
    /// True if an id means this row: the row itself, or the whole that it is a part of (`M28` means `M28a`, `M8a` means
    /// `M8a.processor`).
    pub fn matches_id(&self, id: &str) -> bool {
        let Some(head) = self.id.get(..id.len()).filter(|head| head.eq_ignore_ascii_case(id)) else { return false };
        let suffix = &self.id[head.len()..];
        suffix.is_empty() || suffix.starts_with('.') || suffix.starts_with(|c: char| c.is_ascii_lowercase())
    }

    /// Names of the runs that it needs, each once.
    pub fn run_names(&self) -> Vec<&str> {
        let measure = self.measure.iter().flat_map(|m| m.run_paths());
        let mut runs: Vec<&str> =
            measure.chain(self.holds.iter().flat_map(|t| t.run_paths())).map(|(run, _)| run).collect();
        runs.sort_unstable();
        runs.dedup();
        runs
    }
}

impl ExperimentDocument {
    /// Reads a document's file and checks its consistency.
    ///
    /// # Errors
    /// Lists all mistakes, by line, with corrections.
    pub fn read(file: &str, text: &str) -> Result<ExperimentDocument, Problems> {
        let source = TomlSource::new(file, text);
        let document = source.parse().and_then(|table| {
            let value = Spanned::new(table.span(), DeValue::Table(table.get_ref().clone()));
            let document: ExperimentDocument = source.deserialize_value("", value)?;
            document.check_consistency(&TomlFields::for_root_table(&source, &table));
            Some(document)
        });
        source.into_result(document).map(|(document, _)| document)
    }

    /// Finds a row by its id.
    pub fn find_row(&self, id: &str) -> Option<&PublishedRow> {
        self.rows.iter().find(|row| row.id == id)
    }

    /// Value of a row's naive prediction, in the row's unit.
    pub fn baseline_value(&self, row: &PublishedRow) -> Option<f64> {
        let baseline = row.baseline.as_ref()?;
        match &baseline.row {
            Some(id) => self.find_row(id)?.published.map(|value| value * baseline.times),
            None => baseline.value,
        }
    }

    fn check_consistency(&self, top: &TomlFields<'_, '_>) {
        let offsets = |key| top.read_tables(key).into_iter().map(|table| table.span().start);
        for ((index, row), offset) in self.rows.iter().enumerate().zip(offsets("row")) {
            if let Err(message) = self.check_row(index, row) {
                top.source.report_problem(offset, &format!("row {}", row.id), message);
            }
        }
        if let Some(runs) = top.read_table("runs") {
            for (name, _) in self.runs.iter().filter(|(_, run)| !(1..=100).contains(&run.repeat)) {
                top.source.report_problem(runs.value_offset(name), &format!("run {name}"), "`repeat` is 1 to 100");
            }
        }
        for (parameter, offset) in self.fits.iter().zip(offsets("fit")) {
            if let Err(message) = self.check_fit_parameter(parameter) {
                top.source.report_problem(offset, &format!("fit `{}`", parameter.name), message);
            }
        }
    }

    fn check_row(&self, index: usize, row: &PublishedRow) -> Result<(), String> {
        if self.rows[..index].iter().any(|other| other.id == row.id) {
            return Err("a row with this id exists already".into());
        }
        if row.published.is_none() && row.usage != RowUse::Shape {
            return Err("`published` is missing; only a shape has none".into());
        }
        if row.published.is_some_and(|value| !value.is_finite() || value == 0.0) {
            return Err("`published` must be a number other than zero".into());
        }
        if row.measure.is_none() && row.holds.is_empty() && row.because.is_empty() {
            return Err("neither `measure` nor `because`: say why it is not simulated".into());
        }
        if let Some(run) = row.run_names().into_iter().find(|run| !self.runs.contains_key(*run)) {
            let suggestion = did_you_mean(run, self.runs.keys());
            return Err(format!("names run `{run}`, which is not in [runs]{suggestion}"));
        }
        self.check_baseline(row)
    }

    fn check_baseline(&self, row: &PublishedRow) -> Result<(), String> {
        let Some(baseline) = &row.baseline else { return Ok(()) };
        match (&baseline.row, baseline.value) {
            (Some(id), None) => match self.find_row(id) {
                Some(fit) if fit.usage == RowUse::Fit => Ok(()),
                Some(_) => Err(format!("its baseline is row {id}, which is not a fit row")),
                None => Err(format!("its baseline is row {id}, which does not exist")),
            },
            (None, Some(_)) if !baseline.because.is_empty() => Ok(()),
            (None, Some(_)) => Err("a baseline with a value of its own needs a `because`".into()),
            _ => Err("a baseline has either `row` or `value`".into()),
        }
    }

    fn check_fit_parameter(&self, parameter: &FitParameter) -> Result<(), String> {
        let [min, max] = parameter.range;
        if !(min..=max).contains(&parameter.value) {
            return Err(format!("its value {} is outside its range {min} to {max}", parameter.value));
        }
        if parameter.rows.is_empty() || parameter.keys.is_empty() {
            return Err("it needs `rows` that set it and `keys` that use it".into());
        }
        if let Some(key) = parameter.keys.iter().find(|key| !key.contains(':')) {
            return Err(format!("key `{key}` names no system: write SYSTEM:KEY"));
        }
        for id in &parameter.rows {
            match self.find_row(id) {
                Some(row) if row.usage == RowUse::Fit => {}
                Some(row) => return Err(format!("row {id} is for `{}` and must not set anything", row.usage.name())),
                None => return Err(format!("there is no row {id}")),
            }
        }
        Ok(())
    }
}
