//! Which segments a log has, and which of them are too old or too many.

use std::path::Path;

use crate::error::StoreError;
use crate::format::{BLOCK, BlockHead, segment_name, segment_number};
use crate::segment::{GLANCE, Peek, Scanner};

/// Numbers of the segments in `dir`, oldest first.
pub(crate) fn segments(dir: &Path) -> Result<Vec<u32>, StoreError> {
    let wrap = |e| StoreError::io(dir, e);
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(wrap)? {
        let name = entry.map_err(wrap)?.file_name();
        numbers.extend(name.to_str().and_then(segment_number));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Least and greatest tick time of a file, by its closing record or by the
/// heads of its blocks; `None` where it has no tick.
pub(crate) fn times(path: &Path) -> Result<Option<(i64, i64)>, StoreError> {
    let mut scanner = Scanner::open(path, GLANCE)?;
    if let Some(end) = scanner.closing()? {
        return Ok((end.least_ns <= end.most_ns).then_some((end.least_ns, end.most_ns)));
    }
    let mut span: Option<(i64, i64)> = None;
    loop {
        match scanner.peek()? {
            Peek::Record(header) if header.kind == BLOCK => {
                if let Some(head) = scanner.take(&header)?.and_then(BlockHead::parse) {
                    let (least, most) = span.unwrap_or((head.from_ns, head.to_ns));
                    span = Some((least.min(head.from_ns), most.max(head.to_ns)));
                }
            }
            Peek::Record(header) => scanner.pass(&header),
            Peek::Lost { loss: crate::Loss::Damaged, .. } => {}
            Peek::Lost { .. } | Peek::End => return Ok(span),
        }
    }
}

/// Deletes whole segments from the oldest on, never the newest, while the log
/// is larger than `keep_bytes` or its oldest segment ended before `keep_from_ns`.
pub(crate) fn trim(dir: &Path, keep_bytes: Option<u64>, keep_from_ns: Option<i64>) -> Result<(), StoreError> {
    if keep_bytes.is_none() && keep_from_ns.is_none() {
        return Ok(());
    }
    let numbers = segments(dir)?;
    let size = |number: &u32| std::fs::metadata(dir.join(segment_name(*number))).map_or(0, |m| m.len());
    let mut total: u64 = numbers.iter().map(size).sum();
    let Some((_newest, older)) = numbers.split_last() else { return Ok(()) };
    for number in older {
        let path = dir.join(segment_name(*number));
        let too_large = keep_bytes.is_some_and(|most| total > most);
        let too_old = match keep_from_ns {
            Some(from) if !too_large => times(&path)?.is_none_or(|(_, most)| most < from),
            _ => false,
        };
        if !too_large && !too_old {
            break;
        }
        total -= size(number);
        std::fs::remove_file(&path).map_err(|e| StoreError::io(&path, e))?;
    }
    Ok(())
}
