//! Files of an archive: NAME.meta, NAME.index and the volumes NAME.0, NAME.1, …, each perhaps packed.

use std::path::{Path, PathBuf};

use crate::LogError;

/// Endings of packed files, behind their own ending.
pub(crate) const PACKED_ENDINGS: [&str; 5] = ["", ".xz", ".zst", ".gz", ".bz2"];

/// Paths of an archive's files that are read.
#[derive(Debug)]
pub(super) struct ArchiveFiles {
    pub meta: PathBuf,
    /// In order of their numbers.
    pub volumes: Vec<PathBuf>,
}

/// Returns the file NAME.meta, packed or not, of a base name that is no file itself.
pub(crate) fn meta_of_base(path: &Path) -> Option<PathBuf> {
    PACKED_ENDINGS.iter().map(|p| with_ending(path, &format!(".meta{p}"))).find(|p| p.is_file())
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Splits NAME.0.xz into NAME and `0`.
fn split_name(name: &str) -> Option<(&str, &str)> {
    let plain = PACKED_ENDINGS[1..].iter().find_map(|p| name.strip_suffix(p)).unwrap_or(name);
    let (base, ending) = plain.rsplit_once('.')?;
    let is_number = !ending.is_empty() && ending.bytes().all(|b| b.is_ascii_digit());
    (matches!(ending, "meta" | "index") || is_number).then_some((base, ending))
}

/// Returns the base name, with its folder, of the archive that a file belongs to by its name.
pub fn archive_base(path: &Path) -> Option<PathBuf> {
    let (base, _) = split_name(path.file_name()?.to_str()?)?;
    Some(path.with_file_name(base))
}

/// Finds the files of the archive that one of them belongs to.
///
/// # Errors
/// When `.meta` or every volume is missing, or the folder cannot be read.
pub(super) fn find_files(path: &Path) -> Result<ArchiveFiles, LogError> {
    let display_name = path.display().to_string();
    let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    let Some((base, _)) = split_name(name) else {
        let because = "a file of a PCP archive, but not named NAME.0, NAME.meta or NAME.index, so its other files \
                       cannot be found";
        return Err(LogError::broken(&display_name, "name", because));
    };
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let meta = meta_of_base(&folder.join(base)).ok_or_else(|| {
        let because = format!("{base}.meta is not beside it; an archive is {base}.0, {base}.meta and {base}.index");
        LogError::broken(&display_name, "archive", because)
    })?;
    let mut volumes: Vec<(u64, PathBuf)> = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|e| LogError::io(&display_name, e))? {
        let entry = entry.map_err(|e| LogError::io(&display_name, e))?.path();
        let Some((entry_base, ending)) = entry.file_name().and_then(|n| n.to_str()).and_then(split_name) else {
            continue;
        };
        if let (true, Ok(number)) = (entry_base == base, ending.parse()) {
            // a volume that exists both packed and unpacked counts once
            match volumes.iter_mut().find(|(n, _)| *n == number) {
                Some((_, known)) if entry < *known => *known = entry,
                Some(_) => {}
                None => volumes.push((number, entry)),
            }
        }
    }
    volumes.sort_unstable();
    if volumes.is_empty() {
        return Err(LogError::broken(&display_name, "archive", format!("no volume ({base}.0, …) is beside it")));
    }
    Ok(ArchiveFiles { meta, volumes: volumes.into_iter().map(|(_, path)| path).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_names() {
        assert_eq!(split_name("20261122.0"), Some(("20261122", "0")));
        assert_eq!(split_name("a.b.12.xz"), Some(("a.b", "12")));
        assert_eq!(split_name("x.meta.zst"), Some(("x", "meta")));
        assert_eq!(split_name("x.3.bz2"), Some(("x", "3")));
        for no in ["x", "x.log", "x.", "x.-1", "x.0x"] {
            assert_eq!(split_name(no), None, "{no}");
        }
    }
}
