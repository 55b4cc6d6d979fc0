//! `--write DIR`, `--try N`: the designs of the short list as descriptions that `simulate` and `disk` read, and what to
//! do with them.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use diskwright_base::text::quote_for_shell;
use diskwright_planner::description::OWN_DRIVES_FILE;
use diskwright_planner::{PlanAnswer, PlannedDesign};
use diskwright_report::Style;
use serde_json::{Value, json};

use super::Arguments;
use super::screen::wrap_indented;
use super::tried_designs::{TriedDesign, draw_tried, try_design};
use crate::commands::Failure;
use crate::commands::next_steps::NextStep;

/// Files of designs, in their order.
struct WrittenDesigns(Vec<PathBuf>);

/// What was done with the designs of an answer.
#[derive(Default)]
pub struct UsedDesigns {
    written: Option<WrittenDesigns>,
    tried: Option<Vec<TriedDesign>>,
}

impl Arguments {
    /// Writes the designs if a folder is given, and simulates the best of them for `--try`.
    pub fn use_designs(&self, answer: &PlanAnswer) -> Result<UsedDesigns, Failure> {
        let own_drives = self.limits.own_catalogue();
        let write = |folder: &PathBuf| write_designs(folder, &answer.designs, own_drives);
        let written = self.write.as_ref().map(write).transpose()?;
        let Some(count) = self.tried else { return Ok(UsedDesigns { written, tried: None }) };
        let best = &answer.designs[..answer.designs.len().min(count.into())];
        let tried = match &written {
            Some(written) => self.try_designs(answer, best, written, true)?,
            None => {
                // removed with all that is in it, also after a failure
                let folder = tempfile::Builder::new().prefix("diskwright-plan-").tempdir();
                let folder = folder.map_err(|error| Failure::Failed(format!("--try: a temporary folder: {error}")))?;
                self.try_designs(answer, best, &write_designs(folder.path(), best, own_drives)?, false)?
            }
        };
        Ok(UsedDesigns { written, tried: Some(tried) })
    }

    fn try_designs(
        &self,
        answer: &PlanAnswer,
        designs: &[PlannedDesign],
        files: &WrittenDesigns,
        is_kept: bool,
    ) -> Result<Vec<TriedDesign>, Failure> {
        let attempt = |(design, file): (&PlannedDesign, &PathBuf)| {
            let tried = try_design(design, &answer.demand, file, self.seed)?;
            Ok(tried.with_description(Some(file.as_path()).filter(|_| is_kept)))
        };
        designs.iter().zip(&files.0).map(attempt).collect()
    }
}

/// Writes the designs into a folder, which is created if it is missing, with the user's own drives beside them. No file
/// is replaced.
fn write_designs(
    folder: &Path,
    designs: &[PlannedDesign],
    own_drives: Option<&Path>,
) -> Result<WrittenDesigns, Failure> {
    fs::create_dir_all(folder).map_err(|error| write_failure(folder, &error))?;
    if let Some(source) = own_drives {
        let text = fs::read(source).map_err(|error| write_failure(source, &error))?;
        write_new(&folder.join(OWN_DRIVES_FILE), &text)?;
    }
    let mut files = Vec::new();
    for design in designs {
        let file = folder.join(file_name(design));
        write_new(&file, design.description.as_bytes())?;
        files.push(file);
    }
    Ok(WrittenDesigns(files))
}

/// `2-raid10-of-6-hus726t6tale6l4.toml`.
fn file_name(design: &PlannedDesign) -> String {
    let array = if design.count > 1 { format!("{}-of-{}-", design.level, design.count) } else { String::new() };
    let text = format!("{}-{array}{}", design.rank, design.part).to_lowercase();
    let clean: String = text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    clean + ".toml"
}

fn write_new(file: &Path, contents: &[u8]) -> Result<(), Failure> {
    let mut opened = OpenOptions::new().write(true).create_new(true).open(file).map_err(|error| {
        if error.kind() == std::io::ErrorKind::AlreadyExists {
            return Failure::Usage(format!("--write: {} is already there; give another folder", file.display()));
        }
        write_failure(file, &error)
    })?;
    opened.write_all(contents).map_err(|error| write_failure(file, &error))
}

fn write_failure(file: &Path, error: &std::io::Error) -> Failure {
    Failure::Failed(format!("--write: {}: {error}", file.display()))
}

/// What can be done next with designs that were not written.
const NEXT_STEP: &str = "Next: `--write DIR` writes the designs as descriptions. `diskwright simulate FILE` then shows \
                             each part at work, and `diskwright disk FILE --socket PATH` serves a design to a real \
                             database.";
/// The same for designs that were not simulated.
const TRY_STEP: &str = " `--try 3` simulates the three best designs now.";

impl UsedDesigns {
    /// Adds the file of each design, what was tried, and the next steps to the JSON answer.
    pub fn add_to_json(&self, document: &mut Value) {
        if let (Some(written), Some(designs)) = (&self.written, document["designs"].as_array_mut()) {
            for (design, file) in designs.iter_mut().zip(&written.0) {
                design["description"] = json!(file.display().to_string());
            }
        }
        if let Some(tried) = &self.tried {
            document["tried"] = json!(tried);
        }
        document["next_steps"] = json!(self.next_steps());
    }

    /// Draws what was tried, and what to do with the designs, written or not.
    pub fn draw_designs(&self, style: &Style) -> String {
        let mut out = self.tried.as_deref().map_or(String::new(), |tried| draw_tried(tried, style));
        let Some(first) = self.written.as_ref().and_then(|written| written.0.first()) else {
            let try_step = if self.tried.is_none() { TRY_STEP } else { "" };
            return out + &wrap_indented(&format!("{NEXT_STEP}{try_step}"), 0, style);
        };
        let count = self.written.as_ref().map_or(0, |written| written.0.len());
        let written = if count == 1 { "written:".into() } else { format!("{count} descriptions written, the first:") };
        out += &wrap_indented(&format!("{written} {}", first.display()), 0, style);
        for NextStep { command, shows } in self.next_steps() {
            out += &format!("  {}\n    {shows}\n", style.clean_text(&command));
        }
        out
    }

    /// Commands for the first design; none if no design was written.
    fn next_steps(&self) -> Vec<NextStep> {
        let Some(first) = self.written.as_ref().and_then(|written| written.0.first()) else { return Vec::new() };
        let file = quote_for_shell(&first.display().to_string());
        let mut steps = Vec::new();
        if self.tried.is_none() {
            let command = format!("diskwright simulate {file}");
            steps.push(NextStep { command, shows: "each part of the design under this load".into() });
        }
        let command = format!("diskwright disk {file} --socket plan.sock");
        let shows = "serves the design to a real database, whose response times you measure (docs/disk.md)".into();
        steps.push(NextStep { command, shows });
        steps
    }
}
