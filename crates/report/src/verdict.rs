//! STAND-IN until diskwright_diagnosis has its verdict; replaced then.
#![allow(missing_docs)]

pub use diskwright_diagnosis::{Bottleneck, Severity};

#[derive(Clone, Debug)]
pub struct Verdict {
    pub pack: String,
    pub host: String,
    pub bottleneck: Bottleneck,
    pub instance: String,
    pub confidence: f64,
    pub sentence: String,
    pub findings: Vec<Finding>,
    pub ruled_out: Vec<RuledOut>,
    pub set_aside: Vec<SetAside>,
    pub unjudged: Vec<Unjudged>,
    pub culprits: Vec<Culprit>,
    pub advice: Vec<Remedy>,
    pub notes: Vec<String>,
    pub certainty_limits: Vec<String>,
    pub window: Window,
}

#[derive(Clone, Debug)]
pub struct Window {
    pub from_ns: i64,
    pub to_ns: i64,
    pub seconds: f64,
    pub ticks: u64,
    pub gaps: u64,
}

#[derive(Clone, Debug)]
pub struct Finding {
    pub rule: String,
    pub title: String,
    pub bottleneck: Bottleneck,
    pub severity: Severity,
    pub object: String,
    pub instance: String,
    pub counter: String,
    pub value: f64,
    pub limit: f64,
    pub above: bool,
    pub unit: String,
    pub share: f64,
    pub from_ns: i64,
    pub to_ns: i64,
    pub explain: String,
    pub source: String,
    pub evidence: Vec<Evidence>,
    pub series: Vec<f64>,
}

#[derive(Clone, Debug)]
pub struct Evidence {
    pub counter: String,
    pub instance: String,
    pub value: f64,
    pub unit: String,
}

#[derive(Clone, Debug)]
pub struct RuledOut {
    pub bottleneck: Bottleneck,
    pub because: String,
}

#[derive(Clone, Debug)]
pub struct SetAside {
    pub rule: String,
    pub instance: String,
    pub because: String,
}

#[derive(Clone, Debug)]
pub struct Unjudged {
    pub rule: String,
    pub missing: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct Culprit {
    pub name: String,
    pub pid: Option<u32>,
    pub cgroup: String,
    pub does: String,
}

#[derive(Clone, Debug)]
pub struct Remedy {
    pub id: String,
    pub text: String,
    pub source: String,
}
