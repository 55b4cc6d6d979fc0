//! Results of the probe: storing, reading and comparing. Nothing here measures.
//!
//! Reading order: `pattern` (the requested load), `result` (the result of a run), `facts` (the
//! circumstances), `requirement` (published requirements and how they are met), `document` (the
//! result file), `compare` and `circumstances` (real
//! differences between results, and other differences).

pub mod circumstances;
pub mod compare;
pub mod document;
pub mod facts;
pub mod pattern;
pub mod requirement;
pub mod result;
