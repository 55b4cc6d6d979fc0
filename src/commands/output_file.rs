//! Files that commands write (`-o`, `--svg`, `--html`): completely or not at all, and never over a device, a link or a
//! file that the kernel uses.

use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use diskwright_hostfiles::removed_on_signal::TemporaryPath;
use tempfile::NamedTempFile;

use super::{Failure, output};

/// True if the path stands for standard output.
pub fn is_stdout(path: &Path) -> bool {
    ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].iter().any(|name| path == Path::new(name))
}

/// True if one of these files is standard output, so that nothing else may be printed there.
pub fn is_any_stdout<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> bool {
    paths.into_iter().any(|path| is_stdout(path))
}

/// Checks that a file may be written. Commands call this before minutes of work.
pub fn check_writable(path: &Path) -> Result<(), Failure> {
    if is_stdout(path) {
        return Ok(());
    }
    Ok(diskwright_guard::check_output(path)?)
}

/// Checks several files, which must differ: of two outputs to one file only the last would remain, and standard output
/// would get both.
pub fn check_all_writable<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Result<(), Failure> {
    let mut known: Vec<&Path> = Vec::new();
    for path in paths {
        check_writable(path)?;
        let target = if is_stdout(path) { Path::new("-") } else { path.as_path() };
        if known.contains(&target) && target != Path::new("/dev/null") {
            let name = output::escape_name(path.display());
            return Err(Failure::Usage(format!("two options write to {name}; name two files")));
        }
        known.push(target);
    }
    Ok(())
}

/// Writes a complete file.
pub fn write_file(path: &Path, contents: &[u8]) -> Result<(), Failure> {
    write_in_pieces(path, |mut out| {
        out.write_all(contents).and_then(|()| out.flush()).map_err(|e| path_failure(path, e))
    })
}

/// Writes a file in pieces. If `write` fails, the previous file stays.
pub fn write_in_pieces<T>(
    path: &Path,
    write: impl FnOnce(Box<dyn Write + Send>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    check_writable(path)?;
    if is_stdout(path) {
        return write(output::open_data_stream());
    }
    let wrap = |e| path_failure(path, e);
    let before = fs::metadata(path).ok();
    if before.as_ref().is_some_and(|metadata| !metadata.is_file()) {
        // a pipe gets the bytes as they come
        return write(Box::new(File::options().write(true).open(path).map_err(wrap)?));
    }
    let (new_file, _registered) = create_sibling_file(path).map_err(wrap)?;
    let file = new_file.as_file().try_clone().map_err(wrap)?;
    let result = write(Box::new(file))?;
    if let Some(before) = before {
        copy_mode_and_owner(new_file.as_file(), &before).map_err(wrap)?;
    }
    new_file.as_file().sync_all().map_err(wrap)?;
    new_file.persist(path).map_err(|e| wrap(e.error))?;
    Ok(result)
}

/// Creates a file in the same folder, with the mode of any new file. It is removed with the command unless it replaces
/// the target.
fn create_sibling_file(path: &Path) -> io::Result<(NamedTempFile, TemporaryPath)> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut registered = None;
    // registered before it exists: a signal may come at any time
    let make = |path: &Path| {
        registered = Some(TemporaryPath::new(path));
        // the kernel applies the user's umask
        File::options().read(true).write(true).create_new(true).mode(0o666).open(path)
    };
    let new_file = tempfile::Builder::new().prefix(".diskwright-").make_in(folder, make)?;
    let registered = registered.ok_or(ErrorKind::Other)?;
    Ok((new_file, registered))
}

/// Copies the mode of the previous file and, if possible, its owner.
fn copy_mode_and_owner(file: &File, before: &Metadata) -> io::Result<()> {
    let current = file.metadata()?;
    if (current.uid(), current.gid()) != (before.uid(), before.gid()) {
        // only root may change the owner
        let _ = fchown(file, Some(before.uid()), Some(before.gid()));
    }
    file.set_permissions(Permissions::from_mode(before.mode() & 0o777))
}

fn path_failure(path: &Path, error: io::Error) -> Failure {
    match error.kind() {
        ErrorKind::BrokenPipe => Failure::ClosedPipe,
        _ => Failure::Failed(format!("{}: {error}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn file_names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap().flatten();
        let mut names: Vec<String> = entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn a_file_is_written_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page.html");
        write_file(&path, b"first").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        write_file(&path, b"second").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
        let failed = write_in_pieces(&path, |mut out| {
            out.write_all(b"half").unwrap();
            Err::<(), _>(Failure::Failed("no".into()))
        });
        assert!(failed.is_err());
        assert_eq!(
            (fs::read(&path).unwrap(), file_names(folder.path())),
            (b"second".to_vec(), vec!["page.html".to_owned()])
        );
    }

    #[test]
    fn rejects_two_options_with_one_file() {
        let check = |paths: &[&str]| {
            let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
            check_all_writable(&paths).err().map(|failure| failure.exit_code())
        };
        assert_eq!([check(&[]), check(&["-", "a.svg"]), check(&["a.html", "a.svg"])], [None; 3]);
        for twice in [["-", "-"], ["-", "/dev/stdout"], ["a.svg", "a.svg"]] {
            assert_eq!(check(&twice), Some(2), "{twice:?}");
        }
    }

    #[test]
    fn links_devices_and_the_kernels_folders_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("precious"), "precious").unwrap();
        symlink(path("precious"), path("link")).unwrap();
        symlink(path("nowhere"), path("dangling")).unwrap();
        for refused in
            [path("link"), path("dangling"), path(""), "/dev/new".into(), "/proc/new".into(), "/sys/x".into()]
        {
            assert!(write_file(&refused, b"x").is_err(), "{}", refused.display());
        }
        assert_eq!((fs::read(path("precious")).unwrap(), file_names(folder.path()).len()), (b"precious".to_vec(), 3));
        write_file(Path::new("/dev/null"), b"x").unwrap();
    }
}
