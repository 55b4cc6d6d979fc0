//! Measures one pattern, given as JSON, and prints its result as JSON. `benches/probe/run` compares
//! it with fio. Suites measure many patterns; this program measures exactly one.
//!
//!     pattern TARGET PATTERN.json [--lanes N] [--threads]
//!     pattern FILE --fill BYTES
//!
//! The second form creates a file, fills it as every probe does, and keeps it. The first form
//! writes to TARGET if the pattern writes: the bench creates its own devices.

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use diskwright_probe::guard::Consent;
use diskwright_probe::pattern::Pattern;
use diskwright_probe::run::{EngineKind, RunConfig, run};
use diskwright_probe::summary::summarize_run;
use diskwright_probe::{ProbeTarget, TargetOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, pattern, options @ ..] = &arguments[..] else {
        return Err("usage: pattern TARGET PATTERN.json [--lanes N] [--threads]".into());
    };
    if let ("--fill", [bytes]) = (pattern.as_str(), options) {
        let target_options =
            TargetOptions { writes: true, bytes: Some(bytes.parse()?), keep: true, ..TargetOptions::default() };
        ProbeTarget::open_or_create(Path::new(name), &target_options, &mut |_, _| true)?;
        return Ok(());
    }
    let pattern: Pattern = serde_json::from_str(&std::fs::read_to_string(pattern)?)?;
    let after = |word: &str| options.iter().position(|o| o == word).and_then(|index| options.get(index + 1));
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    let making = RunConfig {
        engine: if options.iter().any(|o| o == "--threads") { EngineKind::Threads } else { EngineKind::Best },
        workers: after("--lanes").map(|n| n.parse()).transpose()?.unwrap_or(processors),
        brake: None,
        stop: Arc::default(),
    };
    let consent = Consent { live: false, destroy: Some(name.clone()) };
    let target_options = TargetOptions { writes: pattern.has_writes(), consent, ..TargetOptions::default() };
    let target = ProbeTarget::open_or_create(Path::new(name), &target_options, &mut |_, _| true)?;
    let outcome = run(&target, &pattern, &making, &mut |_, _| {})?;
    writeln!(std::io::stdout(), "{}", serde_json::to_string(&summarize_run(&pattern, &outcome))?)?;
    Ok(())
}
