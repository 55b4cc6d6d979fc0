//! Results of the probe, as they are kept, read and compared. Nothing here measures.
//!
//! Reading order: `pattern` (what was asked), `result` (what a run gave), `facts` (the
//! circumstances), `document` (the result file), `compare` and `circumstances` (which
//! differences between results are real, and what else differed).

pub mod circumstances;
pub mod compare;
pub mod document;
pub mod facts;
pub mod pattern;
pub mod result;
