//! A model before it is fitted.

use super::ModelKind;

/// A model with its choices made and its numbers open.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ModelForm {
    pub kind: ModelKind,
    /// The choices, in the order that the kind defines.
    pub choices: Vec<u32>,
    /// Initial values of the numbers to fit, all above 0.
    pub numbers: Vec<f64>,
    /// Number of choices that count like fitted numbers in Schwarz's criterion.
    pub chosen_count: usize,
    /// Description in words.
    pub description: String,
}
