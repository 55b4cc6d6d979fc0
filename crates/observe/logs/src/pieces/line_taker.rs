//! Which lines belong to a snapshot: asked line by line, without reading any value.

use super::{PIECES, Snapshot};
use crate::LogOptions;

/// Follows a text of several small commands.
pub(crate) struct LineTaker(Snapshot<'static, 'static>);

impl LineTaker {
    pub(crate) fn new() -> LineTaker {
        LineTaker(Snapshot::new(None, &LogOptions::default()))
    }

    /// Returns true if a reader of a piece takes the line, as things stand behind the lines before.
    pub(crate) fn takes(&mut self, line: &str) -> bool {
        if self.0.read_file_name(line) {
            return true;
        }
        let line = self.0.take_file_prefix(line);
        PIECES.iter().any(|piece| piece(&mut self.0, line))
    }
}
