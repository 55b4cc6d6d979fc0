//! The items of a log in their order. Decoding is most of what reading costs: in a long log a thread of its own decodes
//! ahead of what is done with the ticks.

use std::sync::mpsc::{channel, sync_channel};

use diskwright_base::Frame;
use diskwright_datastore::{LogItem, LogReader, StoreError};

use super::Failure;

/// So many frames are read without a thread: a short stretch is done before one would help.
const ALONE: usize = 16;
/// So many items may wait, which bounds the memory.
const WAITING: usize = 3;

/// Hands over each item with the frame that it filled; what is given with other items means nothing.
pub fn each_item(
    mut reader: LogReader,
    mut take: impl FnMut(LogItem, &Frame) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let is_alone = std::thread::available_parallelism().is_ok_and(|processors| processors.get() == 1);
    let (mut frame, mut frames) = (Frame::default(), 0);
    while frames < ALONE || is_alone {
        let Some(item) = reader.next(&mut frame)? else { return Ok(()) };
        frames += usize::from(item == LogItem::Frame);
        take(item, &frame)?;
    }
    std::thread::scope(|scope| {
        // who takes no more drops its end, and the thread ends
        let (sender, items) = sync_channel::<(Result<Option<LogItem>, StoreError>, Option<Frame>)>(WAITING);
        let (back, free) = channel();
        scope.spawn(move || {
            let mut frame = Frame::default();
            loop {
                let read = reader.next(&mut frame);
                let is_end = !matches!(read, Ok(Some(_)));
                // notes of a frame come before it, and the reader has filled it by then
                let is_filled = matches!(read, Ok(Some(LogItem::Frame)));
                let filled = is_filled.then(|| std::mem::replace(&mut frame, free.try_recv().unwrap_or_default()));
                if sender.send((read, filled)).is_err() || is_end {
                    return;
                }
            }
        });
        for (read, filled) in items {
            let Some(item) = read? else { break };
            take(item, filled.as_ref().unwrap_or(&frame))?;
            filled.into_iter().for_each(|frame| _ = back.send(frame));
        }
        Ok(())
    })
}
