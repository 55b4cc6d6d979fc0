//! The disk part of a baseline: runs `probe quick` in a separate process, as from a shell.

use std::path::Path;
use std::process::{Command, Stdio};

use diskwright_baseline::document::{BaselineDisk, DiskFigure};
use diskwright_probe::profile::{MeasurementContext, Profile};
use diskwright_probe::target::reason_not_measurable;
use diskwright_results::document::ProbeDocument;

use crate::commands::{Failure, output};

/// Refuses a target that can neither be measured nor created, before minutes of measuring.
pub fn check_target(target: &Path) -> Result<(), Failure> {
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let reason = match std::fs::metadata(target) {
        Ok(metadata) => reason_not_measurable(&metadata),
        Err(_) => (!folder.is_dir()).then_some("there is no such folder"),
    };
    match reason {
        None => Ok(()),
        Some(reason) => Err(Failure::Usage(format!("--disk {}: {reason}", output::escape_name(target.display())))),
    }
}

/// Measures a target; the device's profile is saved as usual.
pub fn measure_disk(target: &Path) -> Result<BaselineDisk, Failure> {
    let child = Command::new("/proc/self/exe")
        .args(["probe", "quick"])
        .arg(target)
        .arg("--json")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let child_output = child.wait_with_output()?;
    if !child_output.status.success() {
        let reason = format!("`probe quick {}` failed; nothing was saved", output::escape_name(target.display()));
        return Err(Failure::Failed(reason));
    }
    let document: ProbeDocument = serde_json::from_slice(&child_output.stdout)?;
    let context = MeasurementContext {
        target_bytes: document.target_bytes,
        complete: document.complete,
        ..MeasurementContext::default()
    };
    let profile = Profile::from_runs(&document.device, &document.runs, &context);
    let figure = |figure: diskwright_probe::profile::ProfileFigure| DiskFigure {
        figure: figure.figure,
        unit: figure.unit,
        value: figure.value,
    };
    let figures = profile.figures.into_iter().map(figure).collect();
    Ok(BaselineDisk { target: document.target, figures })
}
