//! Counters and names that the log lists: the counters that were requested, and the table of names by number.

use std::collections::HashMap;

use super::bytes::ByteView;

/// Largest number of counters of a list.
const MOST: usize = 1 << 16;
/// Largest number of names that are kept.
const MOST_NAMES: usize = 1 << 17;
/// Number at the beginning of a list.
const TAG: u32 = 0x6ff;

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
pub(super) fn counters(content: &[u8]) -> (Vec<CounterRequest>, Option<&'static str>) {
    let bytes = ByteView(content);
    let mut found = Vec::new();
    let Some(mut index) = bytes.u16(4).map(usize::from).filter(|&index| bytes.u32(0) == Some(TAG) && index >= 8) else {
        return (found, Some("a counter list that does not begin like one"));
    };
    while index + 52 <= content.len() {
        let Some(entry) = bytes.size(index).filter(|s| *s >= 52).and_then(|size| bytes.part(index, size)) else {
            return (found, Some("a counter list with an entry of impossible length"));
        };
        let Some(wanted) = entry_of(entry) else {
            return (found, Some("a counter list with an entry that is not understood"));
        };
        if found.len() == MOST {
            return (found, Some("a counter list with more counters than the limit"));
        }
        found.push(wanted);
        index += entry.0.len();
    }
    (found, None)
}

fn entry_of(entry: ByteView<'_>) -> Option<CounterRequest> {
    // the first five numbers behind the scale are indexes into the texts
    let texts = entry.from(52)?;
    let text = |index: usize| match entry.i32(index)? {
        -1 => Some(String::new()),
        place => texts.text(usize::try_from(place).ok()?),
    };
    let parent = text(40)?;
    let mut instance = text(36)?;
    let number = entry.u32(44)?;
    if !parent.is_empty() {
        instance = format!("{parent}/{instance}");
    }
    if (1..u32::MAX).contains(&number) {
        instance = format!("{instance}#{number}");
    }
    Some(CounterRequest {
        kind: entry.u32(12)?,
        time_base: entry.u64(16)?,
        machine: text(28)?.trim_start_matches('\\').to_owned(),
        object: text(32)?,
        instance,
        counter: text(48)?,
    })
}

/// Adds an event of names: the machine, then number and name in turn. Returns false where it does not have that form.
pub(super) fn names(content: &[u8], into: &mut HashMap<u32, String>) -> bool {
    let units = content.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]]));
    let text: String = char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
    let mut words = text.split('\0').skip(1);
    let mut is_well_formed = true;
    while let (Some(number), Some(name)) = (words.next(), words.next()) {
        match number.parse() {
            Ok(number) if into.len() < MOST_NAMES => {
                into.insert(number, name.to_owned());
            }
            Ok(_) => {}
            // zeros fill the end
            Err(_) => is_well_formed &= number.is_empty(),
        }
    }
    is_well_formed
}
