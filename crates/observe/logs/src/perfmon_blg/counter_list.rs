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
    /// Instance with its parent and number, empty where there is none; `*` for all.
    pub instance: String,
    pub counter: String,
}

/// Reads the list. A broken entry ends it; the second value is the reason.
pub(super) fn read_counters(content: &[u8]) -> (Vec<CounterRequest>, Option<&'static str>) {
    let bytes = ByteView(content);
    let mut found = Vec::new();
    let Some(mut index) =
        bytes.read_u16(4).map(usize::from).filter(|&index| bytes.read_u32(0) == Some(LIST_TAG) && index >= 8)
    else {
        return (found, Some("a counter list that does not begin like one"));
    };
    while index + 52 <= content.len() {
        let Some(entry) = bytes.read_size(index).filter(|s| *s >= 52).and_then(|size| bytes.slice(index, size)) else {
            return (found, Some("a counter list with an entry of impossible length"));
        };
        let Some(wanted) = read_entry(entry) else {
            return (found, Some("a counter list with an entry that is not understood"));
        };
        if found.len() == MAX_COUNTERS {
            return (found, Some("a counter list with more counters than the limit"));
        }
        found.push(wanted);
        index += entry.0.len();
    }
    (found, None)
}

fn read_entry(entry: ByteView<'_>) -> Option<CounterRequest> {
    // the first five numbers behind the scale are indexes into the texts
    let texts = entry.tail(52)?;
    let text = |index: usize| match entry.read_i32(index)? {
        -1 => Some(String::new()),
        place => texts.read_text(usize::try_from(place).ok()?),
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

/// Adds an event of names: the machine, then number and name in turn. Returns false where it does not have that form.
pub(super) fn read_names(content: &[u8], into: &mut HashMap<u32, String>) -> bool {
    let units = content.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]]));
    let text: String = char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
    let mut words = text.split('\0').skip(1);
    let mut is_well_formed = true;
    while let (Some(number), Some(name)) = (words.next(), words.next()) {
        match number.parse() {
            Ok(number) if into.len() < MAX_NAMES => {
                into.insert(number, name.to_owned());
            }
            Ok(_) => {}
            // zeros fill the end
            Err(_) => is_well_formed &= number.is_empty(),
        }
    }
    is_well_formed
}
