//! Counters and names that the log lists: the counters that were requested, and the table of names by number.

use std::collections::HashMap;

use super::byte_view::ByteView;

/// Largest number of counters of a list.
const MAX_COUNTERS: usize = 1 << 16;
/// Largest number of names that are kept.
const MAX_NAMES: usize = 1 << 17;
/// Number at the beginning of a list.
const LIST_TAG: u32 = 0x6ff;

/// A counter that was requested.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct CounterRequest {
    /// Type of its values; meaningless for a whole object.
    pub kind: u32,
    /// F of its formula, ticks per second.
    pub time_base: u64,
    pub machine: String,
    pub object: String,
    /// Instance with its parent and number, empty if there is none; `*` for all.
    pub instance: String,
    pub counter: String,
}

/// Reads the list. A broken entry ends it; the second value is then the reason.
pub(super) fn read_counters(content: &[u8]) -> (Vec<CounterRequest>, Option<&'static str>) {
    let bytes = ByteView(content);
    let mut requests = Vec::new();
    let Some(mut offset) =
        bytes.read_u16(4).map(usize::from).filter(|&offset| bytes.read_u32(0) == Some(LIST_TAG) && offset >= 8)
    else {
        return (requests, Some("a counter list that does not begin like one"));
    };
    while offset + 52 <= content.len() {
        let Some(entry) = bytes.read_size(offset).filter(|s| *s >= 52).and_then(|size| bytes.slice(offset, size))
        else {
            return (requests, Some("a counter list with an entry of impossible length"));
        };
        let Some(request) = read_entry(entry) else {
            return (requests, Some("a counter list with an entry that is not understood"));
        };
        if requests.len() == MAX_COUNTERS {
            return (requests, Some("a counter list with more counters than the limit"));
        }
        requests.push(request);
        offset += entry.0.len();
    }
    (requests, None)
}

fn read_entry(entry: ByteView<'_>) -> Option<CounterRequest> {
    // numbers of an entry are offsets into the texts behind it; -1 is an empty text
    let texts = entry.tail(52)?;
    let text = |offset: usize| match entry.read_i32(offset)? {
        -1 => Some(String::new()),
        text_offset => texts.read_text(usize::try_from(text_offset).ok()?),
    };
    let parent = text(40)?;
    let mut instance = text(36)?;
    let number = entry.read_u32(44)?;
    if !parent.is_empty() {
        instance = format!("{parent}/{instance}");
    }
    if (1..u32::MAX).contains(&number) {
        instance = format!("{instance}#{number}");
    }
    Some(CounterRequest {
        kind: entry.read_u32(12)?,
        time_base: entry.read_u64(16)?,
        machine: text(28)?.trim_start_matches('\\').to_owned(),
        object: text(32)?,
        instance,
        counter: text(48)?,
    })
}

/// Adds an event of names: the machine, then number and name in turn. Returns false if it does not have that form.
pub(super) fn read_names(content: &[u8], names: &mut HashMap<u32, String>) -> bool {
    let units = content.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]]));
    let text: String = char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
    let mut words = text.split('\0').skip(1);
    let mut is_well_formed = true;
    while let (Some(number), Some(name)) = (words.next(), words.next()) {
        match number.parse() {
            Ok(number) if names.len() < MAX_NAMES => {
                names.insert(number, name.to_owned());
            }
            Ok(_) => {}
            // zeros fill the end
            Err(_) => is_well_formed &= number.is_empty(),
        }
    }
    is_well_formed
}
