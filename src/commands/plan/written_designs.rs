//! `--write DIR`: the designs of the short list as descriptions that `simulate` and `disk` read.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use diskwright_base::text::quote_for_shell;
use diskwright_planner::description::OWN_DRIVES_FILE;
use diskwright_planner::{PlanAnswer, PlannedDesign};
use diskwright_report::Style;
use serde_json::{Value, json};

use super::screen::wrap_indented;
use crate::commands::Failure;

/// Files of the designs, in their order.
pub struct WrittenDesigns(Vec<PathBuf>);

/// Writes the designs into a folder, which is made where it is missing, with the user's own drives beside them. No file
/// is replaced.
pub fn write_designs(folder: &Path, answer: &PlanAnswer, own_drives: Option<&Path>) -> Result<WrittenDesigns, Failure> {
    fs::create_dir_all(folder).map_err(|error| write_failure(folder, &error))?;
    if let Some(source) = own_drives {
        let text = fs::read(source).map_err(|error| write_failure(source, &error))?;
        write_new(&folder.join(OWN_DRIVES_FILE), &text)?;
    }
    let mut files = Vec::new();
    for design in &answer.designs {
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
const NEXT_STEP: &str = "Next: with `--write DIR`, the designs become descriptions: `diskwright simulate` shows each \
                             part at work, `diskwright disk` serves one to real programs.";

impl WrittenDesigns {
    /// Adds the name of its file to each design of the JSON answer.
    pub fn add_to_json(&self, document: &mut Value) {
        let Some(designs) = document["designs"].as_array_mut() else { return };
        for (design, file) in designs.iter_mut().zip(&self.0) {
            design["description"] = json!(file.display().to_string());
        }
    }

    /// What to do with the files.
    fn draw(&self, style: &Style) -> String {
        let Some(first) = self.0.first() else { return String::new() };
        let quoted = quote_for_shell(&first.display().to_string());
        let count = self.0.len();
        let written = if count == 1 { "written:".into() } else { format!("{count} descriptions written, the first:") };
        let mut out = wrap_indented(&format!("{written} {}", first.display()), 0, style);
        out += &format!("  diskwright simulate {quoted}\n    what it does under this load, part by part\n");
        out += &format!("  diskwright disk {quoted}\n    serves it to real programs as a block device\n");
        out
    }
}

/// Says what to do with the designs, written or not.
pub fn draw_next_step(written: Option<&WrittenDesigns>, style: &Style) -> String {
    match written {
        Some(written) => written.draw(style),
        None => wrap_indented(NEXT_STEP, 0, style),
    }
}
