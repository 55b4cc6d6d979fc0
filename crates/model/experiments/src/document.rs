//! One document's experiments as written: rows, the simulations that they
//! need, and the parameters that its fit rows set.

use std::collections::BTreeMap;

use diskwright_base::Problems;
use diskwright_base::toml_reader::{TomlFields, TomlSource, did_you_mean};
use serde::Deserialize;
use toml::Spanned;
use toml::de::DeValue;

use crate::expression::{Expression, Test};

/// A document.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExperimentDocument {
    /// Its number: the three digits in front of its file's name.
    pub doc: String,
    /// What it is called, by whom and when.
    pub title: String,
    /// Simulations, by the name under which measures speak of them.
    #[serde(default)]
    pub runs: BTreeMap<String, ExperimentRun>,
    /// Free parameters, each set by fit rows.
    #[serde(default, rename = "fit")]
    pub fits: Vec<FitParameter>,
    /// What was printed.
    #[serde(rename = "row")]
    pub rows: Vec<PublishedRow>,
}

/// A simulation: a system, some of its keys set otherwise.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExperimentRun {
    /// `experiments/systems/NAME.toml`.
    pub system: String,
    /// Keys (`disk.count`), and what they are here.
    #[serde(default)]
    pub set: BTreeMap<String, toml::Value>,
    /// How often it is simulated, each time by another seed: its numbers are means. 1 if left out.
    #[serde(default = "once")]
    pub repeat: u32,
    /// What is particular about it.
    #[serde(default)]
    pub because: String,
}

fn once() -> u32 {
    1
}

/// A free parameter and the rows that set it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FitParameter {
    /// What it is.
    pub name: String,
    /// Its value, in the unit that `written` writes.
    pub value: f64,
    /// Least and most that is possible.
    pub range: [f64; 2],
    /// The fit rows that set it, no others.
    pub rows: Vec<String>,
    /// The keys that it stands in: `SYSTEM:KEY`.
    pub keys: Vec<String>,
    /// How the value is written where `{}` stands (`{}us`, `{}KB/s`); a plain number if empty.
    #[serde(default)]
    pub written: String,
    /// The key takes whole numbers only.
    #[serde(default)]
    pub whole: bool,
    /// Worked out by hand from what is printed with the rows; a search leaves it alone.
    #[serde(default)]
    pub worked_out: bool,
    /// What it means, and whether the value is plausible.
    pub because: String,
}

/// What a row may be used for. The split is frozen.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum RowUse {
    /// It may set free parameters.
    Fit,
    /// It is predicted.
    Predict,
    /// Its shape is predicted: how its parts compare, not how much each is.
    Shape,
    /// Neither: arithmetic on print, or prices.
    None,
}

impl RowUse {
    /// `fit`, `predict`, `shape` or `none`.
    pub fn name(self) -> &'static str {
        ["fit", "predict", "shape", "none"][self as usize]
    }
}

/// Where print gives a bound and no value.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    /// At least the published value.
    Least,
    /// Between its negative and itself.
    Within,
}

/// What a naive reader predicts.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct NaivePrediction {
    /// A fit row of the same document; its published value...
    #[serde(default)]
    pub row: Option<String>,
    /// ... times this (disks by disks, for what scales with them).
    #[serde(default = "one")]
    pub times: f64,
    /// A value, where no row gives one.
    #[serde(default)]
    pub value: Option<f64>,
    /// Why it is that.
    #[serde(default)]
    pub because: String,
}

fn one() -> f64 {
    1.0
}

/// One printed quantity.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedRow {
    /// `S1`, `M28a`; parts of one row are `M8a.processor`.
    pub id: String,
    /// The quantity.
    pub what: String,
    /// What was printed, in `unit`; none where only a shape is told.
    #[serde(default)]
    pub published: Option<f64>,
    /// How `published` follows from what is printed, where that number itself is not.
    #[serde(default)]
    pub derived: Option<String>,
    /// Unit of the printed and the simulated value.
    pub unit: String,
    /// A gain, printed as a percentage: errors are percentage points.
    #[serde(default)]
    pub gain: bool,
    /// The printed value is a bound.
    #[serde(default)]
    pub bound: Option<Bound>,
    /// What it may be used for.
    #[serde(rename = "use")]
    pub usage: RowUse,
    /// What a naive reader predicts.
    #[serde(default)]
    pub baseline: Option<NaivePrediction>,
    /// The number of simulations that stands against it, in `unit`.
    #[serde(default)]
    pub measure: Option<Expression>,
    /// What must hold of a shape.
    #[serde(default)]
    pub holds: Vec<Test>,
    /// Why it is not simulated, why the model differs, or what is to be known.
    #[serde(default)]
    pub because: String,
}

impl PublishedRow {
    /// True where the row is meant by an id: itself, or a part of it (`M28` means `M28a`, `M8a` means `M8a.processor`).
    pub fn is_meant_by(&self, id: &str) -> bool {
        let Some(rest) = self.id.get(..id.len()).filter(|head| head.eq_ignore_ascii_case(id)) else { return false };
        let rest = &self.id[rest.len()..];
        rest.is_empty() || rest.starts_with('.') || rest.starts_with(|c: char| c.is_ascii_lowercase())
    }

    /// Names of the runs that it needs, each once.
    pub fn runs(&self) -> Vec<&str> {
        let measure = self.measure.iter().flat_map(|m| m.names());
        let mut runs: Vec<&str> =
            measure.chain(self.holds.iter().flat_map(|t| t.names())).map(|(run, _)| run).collect();
        runs.sort_unstable();
        runs.dedup();
        runs
    }
}

impl ExperimentDocument {
    /// Reads a document's file and checks that its parts fit together.
    ///
    /// # Errors
    /// Everything that is wrong, by line, and what would be right.
    pub fn read(file: &str, text: &str) -> Result<ExperimentDocument, Problems> {
        let source = TomlSource::new(file, text);
        let document = source.parse().and_then(|table| {
            let value = Spanned::new(table.span(), DeValue::Table(table.get_ref().clone()));
            let document: ExperimentDocument = source.typed("", value)?;
            document.check(&TomlFields::of_table(&source, &table));
            Some(document)
        });
        source.finish(document).map(|(document, _)| document)
    }

    /// The row of an id.
    pub fn row(&self, id: &str) -> Option<&PublishedRow> {
        self.rows.iter().find(|row| row.id == id)
    }

    /// Value of a row's naive prediction, in the row's unit.
    pub fn baseline(&self, row: &PublishedRow) -> Option<f64> {
        let baseline = row.baseline.as_ref()?;
        match &baseline.row {
            Some(id) => self.row(id)?.published.map(|value| value * baseline.times),
            None => baseline.value,
        }
    }

    fn check(&self, top: &TomlFields<'_, '_>) {
        let places = |key| top.tables(key).into_iter().map(|table| table.span().start);
        for ((index, row), place) in self.rows.iter().enumerate().zip(places("row")) {
            if let Err(message) = self.check_row(index, row) {
                top.source.wrong(place, &format!("row {}", row.id), message);
            }
        }
        if let Some(runs) = top.inner("runs") {
            for (name, _) in self.runs.iter().filter(|(_, run)| !(1..=100).contains(&run.repeat)) {
                top.source.wrong(runs.place(name), &format!("run {name}"), "`repeat` is 1 to 100");
            }
        }
        for (fitted, place) in self.fits.iter().zip(places("fit")) {
            if let Err(message) = self.check_fitted(fitted) {
                top.source.wrong(place, &format!("fit `{}`", fitted.name), message);
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
        if let Some(run) = row.runs().into_iter().find(|run| !self.runs.contains_key(*run)) {
            let near = did_you_mean(run, self.runs.keys());
            return Err(format!("names run `{run}`, which is not in [runs]{near}"));
        }
        self.check_baseline(row)
    }

    fn check_baseline(&self, row: &PublishedRow) -> Result<(), String> {
        let Some(baseline) = &row.baseline else { return Ok(()) };
        match (&baseline.row, baseline.value) {
            (Some(id), None) => match self.row(id) {
                Some(fit) if fit.usage == RowUse::Fit => Ok(()),
                Some(_) => Err(format!("its baseline is row {id}, which is not a fit row")),
                None => Err(format!("its baseline is row {id}, which does not exist")),
            },
            (None, Some(_)) if !baseline.because.is_empty() => Ok(()),
            (None, Some(_)) => Err("a baseline with a value of its own needs a `because`".into()),
            _ => Err("a baseline has either `row` or `value`".into()),
        }
    }

    fn check_fitted(&self, fitted: &FitParameter) -> Result<(), String> {
        let [least, most] = fitted.range;
        if !(least..=most).contains(&fitted.value) {
            return Err(format!("its value {} is outside its range {least} to {most}", fitted.value));
        }
        if fitted.rows.is_empty() || fitted.keys.is_empty() {
            return Err("it needs `rows` that set it and `keys` that use it".into());
        }
        if let Some(key) = fitted.keys.iter().find(|key| !key.contains(':')) {
            return Err(format!("key `{key}` names no system: write SYSTEM:KEY"));
        }
        for id in &fitted.rows {
            match self.row(id) {
                Some(row) if row.usage == RowUse::Fit => {}
                Some(row) => return Err(format!("row {id} is for `{}` and must not set anything", row.usage.name())),
                None => return Err(format!("there is no row {id}")),
            }
        }
        Ok(())
    }
}
