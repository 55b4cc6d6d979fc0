//! Which lines belong to a snapshot: asked line by line, without reading any value.

use super::{PIECES, Snapshot, kernel_log};
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

    /// Returns true for a message of the kernel that counts, and for one with a time that only its log has.
    pub(crate) fn is_kernel_line(&mut self, line: &str) -> bool {
        let (message, is_of_log) = kernel_log::message_of_line(line);
        if message.is_empty() {
            return false;
        }
        let text = line.trim_start();
        // `[18:01:12] …` is a line of a chat
        let has_fraction = text.strip_prefix('[').and_then(|rest| rest.split_once(']')).is_some_and(|(inside, _)| {
            let decimals = inside.rsplit_once('.').map_or("", |(_, decimals)| decimals);
            decimals.len() == 6 && decimals.bytes().all(|b| b.is_ascii_digit()) || inside.split(' ').count() >= 4
        });
        is_of_log && (has_fraction || line.contains(" kernel: "))
            || kernel_log::is_counted_message(&mut self.0, message)
    }
}
