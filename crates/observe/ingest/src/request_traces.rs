//! Recognition of request traces among what a command line names.

use std::io::BufRead;
use std::path::{Path, PathBuf};

use diskwright_traces::{InputHead, LogInput, ambiguous_formats, recognise_format};

/// True if the first of the paths is a request trace. Standard input is only peeked at.
pub fn is_request_trace(paths: &[PathBuf]) -> bool {
    match paths.first() {
        Some(path) if path == Path::new("-") => {
            let mut input = std::io::stdin().lock();
            input.fill_buf().is_ok_and(|bytes| may_be_trace(&InputHead { name: "-", bytes }))
        }
        // bytes read from another pipe would be missing for its reader, so it is taken for a log
        Some(path) if is_pipe(path) => false,
        Some(path) => LogInput::open(path).is_ok_and(|input| may_be_trace(&input.head())),
        None => false,
    }
}

/// True for a file that can be read only once, such as `/dev/stdin` behind a pipe.
pub(crate) fn is_pipe(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}

/// True for a request trace, even if its format must be given by the user.
pub fn may_be_trace(head: &InputHead<'_>) -> bool {
    recognise_format(head).is_some() || ambiguous_formats(head).is_some()
}
