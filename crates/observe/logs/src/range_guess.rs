//! Guesses where a log begins and ends from its first and last lines: judging needs the window beforehand, and a log of
//! gigabytes should not be read twice for it. The caller compares the guess with the ticks that come.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::ControlFlow;
use std::path::Path;

use crate::{LogInput, LogOptions};

/// Bytes read at each end. The heading of a log of 10,000 columns takes as many.
const END_BYTES: u64 = 1 << 20;

/// Guesses the times of the first and the last tick of a large log, nanoseconds since 1970 UTC; `None` if it is
/// packed or not text, if its last lines cannot be read without those before, or if it is small enough to be read
/// twice.
pub fn probable_range(path: &Path, name: &str, options: &LogOptions) -> Option<(i64, i64)> {
    let mut file = File::open(path).ok()?;
    let length = file.metadata().ok().filter(std::fs::Metadata::is_file)?.len();
    if length <= 2 * END_BYTES {
        return None;
    }
    let mut first = read_end(&mut file, 0)?;
    let mut last = read_end(&mut file, length - END_BYTES)?;
    first.truncate(first.iter().rposition(|b| *b == b'\n')? + 1);
    last.drain(..=last.iter().position(|b| *b == b'\n')?);
    first.append(&mut last);
    let mut input = LogInput::from_bytes(name, first).ok()?;
    let mut sink = |_: crate::LogPiece<'_>| ControlFlow::Continue(());
    crate::read(&mut input, options, &mut sink).ok()?.range
}

/// Reads the bytes of one end; `None` if they are not text.
fn read_end(file: &mut File, offset: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(offset)).ok()?;
    file.take(END_BYTES).read_to_end(&mut bytes).ok()?;
    (!bytes.contains(&0)).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    /// A table of Performance Monitor with a line every 15 seconds, from 2026-11-21 on.
    fn table(lines: u32) -> String {
        let mut text = "\"(PDH-CSV 4.0) (Coordinated Universal Time)(0)\",\"\\\\A\\Memory\\Pages/sec\"\r\n".to_owned();
        for line in 0..lines {
            let (day, second) = (1 + line / 5760, line % 5760 * 15);
            let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
            writeln!(text, "\"11/{day:02}/2026 {hour:02}:{minute:02}:{second:02}.000\",\"{line}\"\r").unwrap();
        }
        text
    }

    fn range_of(bytes: &[u8]) -> Option<(i64, i64)> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, bytes).unwrap();
        probable_range(&path, "log", &LogOptions::default())
    }

    #[test]
    fn the_ends_of_a_large_table_are_those_of_all_its_lines() {
        let text = table(70_000);
        let mut input = LogInput::from_bytes("log", text.clone().into_bytes()).unwrap();
        let summary = crate::read(&mut input, &LogOptions::default(), &mut |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(range_of(text.as_bytes()), summary.range);
        assert!(summary.range.is_some_and(|(from, to)| to - from == 69_999 * 15_000_000_000));
    }

    #[test]
    fn guesses_no_range_for_a_file_that_is_small_packed_or_no_log() {
        let text = table(70_000);
        assert_eq!(range_of(table(1000).as_bytes()), None);
        assert_eq!(range_of(&"no log at all\n".repeat(400_000).into_bytes()), None);
        assert_eq!(range_of(&[b"\x28\xb5\x2f\xfd\0", text.as_bytes()].concat()), None);
        // no line ends within the last bytes
        assert_eq!(range_of(&[text.as_bytes(), &vec![b'x'; 2 << 20]].concat()), None);
    }
}
