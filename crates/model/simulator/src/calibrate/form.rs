//! A model before it is fitted.

use super::ModelKind;

/// A model with its choices made and its numbers open.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ModelForm {
    pub kind: ModelKind,
    /// What was chosen, as its kind knows it.
    pub choices: Vec<u32>,
    /// Numbers to fit, all above 0, where they begin.
    pub numbers: Vec<f64>,
    /// Choices that cost as much as a number.
    pub chosen: usize,
    /// In words.
    pub what: String,
}
