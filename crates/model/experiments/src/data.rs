//! The built-in data: each document's file and each system's file is one line here; a test compares both lists with the
//! folders.

use diskwright_base::Problems;

use crate::document::ExperimentDocument;

/// File name and text of each document's experiments, in the order of the documents.
pub const DOCUMENTS: &[(&str, &str)] = &[
    ("experiments/000.toml", include_str!("../../../../experiments/000.toml")),
    ("experiments/001.toml", include_str!("../../../../experiments/001.toml")),
    ("experiments/002.toml", include_str!("../../../../experiments/002.toml")),
    ("experiments/003.toml", include_str!("../../../../experiments/003.toml")),
    ("experiments/004.toml", include_str!("../../../../experiments/004.toml")),
];

/// Name and text of each system.
pub const SYSTEMS: &[(&str, &str)] = &[
    ("compaq-path", include_str!("../../../../experiments/systems/compaq-path.toml")),
    ("flashdisk", include_str!("../../../../experiments/systems/flashdisk.toml")),
    ("netbench-1", include_str!("../../../../experiments/systems/netbench-1.toml")),
    ("netbench-2", include_str!("../../../../experiments/systems/netbench-2.toml")),
    ("nt-copy", include_str!("../../../../experiments/systems/nt-copy.toml")),
    ("nt-pio", include_str!("../../../../experiments/systems/nt-pio.toml")),
    ("nt-scsi", include_str!("../../../../experiments/systems/nt-scsi.toml")),
    ("nt-stripes", include_str!("../../../../experiments/systems/nt-stripes.toml")),
    ("raidzone", include_str!("../../../../experiments/systems/raidzone.toml")),
    ("sort-ide", include_str!("../../../../experiments/systems/sort-ide.toml")),
    ("sort-ide-work", include_str!("../../../../experiments/systems/sort-ide-work.toml")),
    ("sort-scsi", include_str!("../../../../experiments/systems/sort-scsi.toml")),
    ("sort-scsi-work", include_str!("../../../../experiments/systems/sort-scsi-work.toml")),
    ("sort-ultra", include_str!("../../../../experiments/systems/sort-ultra.toml")),
    ("sort-ultra-work", include_str!("../../../../experiments/systems/sort-ultra-work.toml")),
];

/// Reads all documents.
///
/// # Errors
/// Lists all mistakes in the first file that has any.
pub fn load_documents() -> Result<Vec<ExperimentDocument>, Problems> {
    DOCUMENTS.iter().map(|(file, text)| ExperimentDocument::read(file, text)).collect()
}

/// Returns the text of a built-in system; the current directory does not matter.
pub fn system_text(name: &str) -> Option<&'static str> {
    SYSTEMS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list_files(folder: &str) -> Vec<String> {
        let folder = format!("{}/../../../experiments/{folder}", env!("CARGO_MANIFEST_DIR"));
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|e| e.unwrap().path())
            .filter(|p| p.extension().is_some_and(|e| e == "toml"))
            .map(|p| p.file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        files.sort_unstable();
        files
    }

    #[test]
    fn files_in_the_folders_are_those_registered() {
        let documents: Vec<String> = DOCUMENTS.iter().map(|(file, _)| file[12..15].to_owned()).collect();
        assert_eq!(list_files(""), documents);
        let mut systems: Vec<&str> = SYSTEMS.iter().map(|(name, _)| *name).collect();
        systems.sort_unstable();
        assert_eq!(list_files("systems"), systems);
    }

    #[test]
    fn documents_carry_the_numbers_of_their_files() {
        for (file, text) in DOCUMENTS {
            let document = ExperimentDocument::read(file, text).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(*file, format!("experiments/{}.toml", document.doc));
        }
    }
}
