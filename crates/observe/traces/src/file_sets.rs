//! Finds the files of one trace.

use std::path::{Path, PathBuf};

/// Returns the paths, and for each `NAME.blktrace.CPU` also the files of the other
/// processors, because a request may complete on another processor than the one that sent it.
pub(crate) fn expand_file_sets(paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut expanded: Vec<PathBuf> = Vec::new();
    for path in paths {
        for file in find_siblings(path).unwrap_or_else(|| vec![path.clone()]) {
            if !expanded.contains(&file) {
                expanded.push(file);
            }
        }
    }
    expanded
}

/// Parses `NAME.blktrace.CPU` into the name and the processor's number.
fn parse_processor_file(file: &str) -> Option<(&str, u32)> {
    let (name, number) = file.rsplit_once('.')?;
    Some((name.strip_suffix(".blktrace")?, number.parse().ok()?))
}

/// Lists the files of all processors, in order of their number.
fn find_siblings(path: &Path) -> Option<Vec<PathBuf>> {
    let (name, _) = parse_processor_file(path.file_name()?.to_str()?)?;
    let folder = path.parent()?;
    let listed_folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let mut siblings: Vec<(u32, PathBuf)> = Vec::new();
    for entry in std::fs::read_dir(listed_folder).ok()? {
        let file = entry.ok()?.file_name();
        if let Some((file_name, number)) = file.to_str().and_then(parse_processor_file)
            && file_name == name
        {
            siblings.push((number, folder.join(&file)));
        }
    }
    siblings.sort_unstable();
    (!siblings.is_empty()).then(|| siblings.into_iter().map(|(_, path)| path).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_of_a_set_expands_to_the_set() {
        let folder = std::env::temp_dir().join(format!("diskwright-traces-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        for file in ["a.blktrace.0", "a.blktrace.10", "a.blktrace.2", "b.blktrace.0", "a.blktrace.x", "a.csv"] {
            std::fs::write(folder.join(file), "").expect("a file");
        }
        let names = |paths: &[&str]| -> Vec<String> {
            let paths: Vec<PathBuf> = paths.iter().map(|p| folder.join(p)).collect();
            let expanded = expand_file_sets(&paths);
            expanded.iter().map(|p| p.file_name().expect("a name").to_string_lossy().into_owned()).collect()
        };
        assert_eq!(names(&["a.blktrace.2", "a.blktrace.0"]), ["a.blktrace.0", "a.blktrace.2", "a.blktrace.10"]);
        assert_eq!(names(&["a.csv", "gone.blktrace.0"]), ["a.csv", "gone.blktrace.0"]);
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
