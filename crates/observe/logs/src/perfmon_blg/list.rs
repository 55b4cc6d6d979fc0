//! What the log says of its counters: the list of what was asked for, and the
//! table of names by number.

use std::collections::HashMap;

use super::bytes::ByteView;

/// Counters of a list at most.
const MOST: usize = 1 << 16;
/// Names that are kept at most.
const MOST_NAMES: usize = 1 << 17;
/// Content of a list begins with this.
const TAG: u32 = 0x6ff;

/// A counter that was asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct CounterRequest {
    /// Type of its values; of a whole object it means nothing.
    pub kind: u32,
    /// F of its formula, a second.
    pub time_base: u64,
    pub machine: String,
    pub object: String,
    /// Instance with its parent and number, empty where there is none; `*` for all.
    pub instance: String,
    pub counter: String,
}

/// The list. What is broken ends it; the second value says so.
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
    // the first five numbers behind the scale are places in the texts
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

/// Adds an event of names: the machine, then number and name by turns.
/// False where it is not of that form.
pub(super) fn names(content: &[u8], into: &mut HashMap<u32, String>) -> bool {
    let units = content.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]]));
    let text: String = char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
    let mut words = text.split('\0').skip(1);
    let mut all = true;
    while let (Some(number), Some(name)) = (words.next(), words.next()) {
        match number.parse() {
            Ok(number) if into.len() < MOST_NAMES => {
                into.insert(number, name.to_owned());
            }
            Ok(_) => {}
            // zeros fill the end
            Err(_) => all &= number.is_empty(),
        }
    }
    all
}
