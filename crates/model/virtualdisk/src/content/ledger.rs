//! Array metadata of a backing file, after the drives: geometry, member states, and the last write
//! in progress. A file of standalone drives has none: it is a plain image.
//!
//! A killed server leaves at most one write half done (writes are made one after another). It is
//! recorded first, as the write intent; the next server makes copies and parity agree there again, or marks
//! the rows as torn if members are lost. A crash of the whole machine is worse: data that the
//! kernel had not written yet are lost, as on any disk without a flush.

use std::ops::Range;

use diskwright_base::units::format_count;
use diskwright_simulator::array::{ArrayLayout, ArrayLevel};
use diskwright_simulator::system::ArraySpec;
use serde::{Deserialize, Serialize};

const SCHEMA: &str = "diskwright.content/1";

/// Size of the write intent, which precedes the rest, bytes.
pub(super) const INTENT_BYTES: u64 = 4096;
/// The used beginning of the write intent while no write is in progress.
pub(super) const NO_INTENT: [u8; 32] = [0; 32];

const INTENT_MAGIC: u64 = u64::from_le_bytes(*b"dwrnote1");

/// Largest number of torn rows saved for each array.
const MAX_TORN_ROWS: usize = 512;

/// Space for an array, bytes.
const ARRAY_ENTRY_BYTES: u64 = 16 << 10;
/// Space for each member of an array, bytes.
const MEMBER_ENTRY_BYTES: u64 = 64;

/// All arrays of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ArrayLedger {
    schema: String,
    pub arrays: Vec<LedgerEntry>,
}

/// An array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LedgerEntry {
    pub shape: ArrayShape,
    pub state: MemberStates,
}

/// Properties that must match for the bytes to be valid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ArrayShape {
    name: String,
    level: String,
    layout: Option<String>,
    copies: Option<u16>,
    unit_blocks: u64,
    member_blocks: Option<u64>,
    members: Vec<u32>,
}

/// State of its members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MemberStates {
    /// Members that are not completely good, and how many of their bytes are good.
    pub lost: Vec<(u16, u64)>,
    /// Failed members that are being rebuilt.
    pub rebuilding: Vec<u16>,
    /// Rows whose parity is not known to be right.
    pub torn: Vec<u64>,
    /// All rows are torn.
    pub all_torn: bool,
}

impl MemberStates {
    /// Limits the torn rows to the available space; marks all as torn if there are more.
    pub fn with_bounded_torn_rows(mut self) -> MemberStates {
        if self.torn.len() > MAX_TORN_ROWS {
            self.torn.clear();
            self.all_torn = true;
        }
        self
    }

    /// Returns whether the state is possible for an array of `members` members.
    fn fits_members(&self, members: usize) -> bool {
        let lost = |member: &u16| self.lost.iter().any(|(m, _)| m == member);
        self.lost.len() <= members
            && self.lost.iter().all(|(m, _)| usize::from(*m) < members)
            && self.rebuilding.iter().all(lost)
            && self.torn.len() <= MAX_TORN_ROWS
    }
}

impl ArrayShape {
    /// Returns the shape of an array, as the ledger stores it.
    pub fn from_array(array: &ArraySpec) -> ArrayShape {
        let level: ArrayLevel = array.level;
        ArrayShape {
            // limited by the available space
            name: array.name.chars().take(256).collect(),
            level: level.info().id.clone(),
            layout: array.layout.map(ArrayLayout::name).map(str::to_owned),
            copies: array.copies,
            unit_blocks: array.unit_blocks,
            member_blocks: array.member_blocks,
            members: array.members.clone(),
        }
    }
}

impl ArrayLedger {
    /// Creates a ledger of these arrays.
    pub fn new(arrays: Vec<LedgerEntry>) -> ArrayLedger {
        ArrayLedger { schema: SCHEMA.to_owned(), arrays }
    }

    /// Returns the bytes that the ledger of these arrays needs, with the write intent; 0 without
    /// arrays.
    pub fn required_bytes(arrays: &[ArraySpec]) -> u64 {
        if arrays.is_empty() {
            return 0;
        }
        let entry_bytes = |array: &ArraySpec| ARRAY_ENTRY_BYTES + MEMBER_ENTRY_BYTES * array.members.len() as u64;
        INTENT_BYTES + arrays.iter().map(entry_bytes).sum::<u64>().next_multiple_of(4096)
    }

    /// Returns the ledger as text padded to `bytes` bytes. `None` if they do not suffice.
    pub fn to_padded_json(&self, bytes: u64) -> Option<Vec<u8>> {
        let mut text = serde_json::to_vec(self).ok()?;
        let padded_bytes = usize::try_from(bytes).ok().filter(|bytes| text.len() < *bytes)?;
        text.resize(padded_bytes, b'\n');
        Some(text)
    }

    /// Parses a file's ledger, and checks it against the expected arrays.
    pub fn read(text: &[u8], expected: &[ArrayShape]) -> Result<ArrayLedger, String> {
        let ledger: ArrayLedger =
            serde_json::from_slice(text).map_err(|e| format!("its array metadata cannot be read: {e}"))?;
        if ledger.schema != SCHEMA {
            return Err(format!("its array metadata has the schema `{}`, not {SCHEMA}", ledger.schema));
        }
        if ledger.arrays.len() != expected.len() {
            return Err(format!(
                "it holds {}, not {}",
                format_count(ledger.arrays.len(), "array", "arrays"),
                expected.len()
            ));
        }
        for (entry, expected) in ledger.arrays.iter().zip(expected) {
            if entry.shape != *expected {
                let (found, expected) = (entry.shape.describe(), expected.describe());
                return Err(format!("it holds {found}, not {expected}"));
            }
            if !entry.state.fits_members(expected.members.len()) {
                return Err(format!("its state of array `{}` is impossible", expected.name));
            }
        }
        Ok(ledger)
    }
}

impl ArrayShape {
    fn describe(&self) -> String {
        let ArrayShape { name, level, unit_blocks, members, .. } = self;
        let layout = self.layout.as_ref().map(|layout| format!(" {layout}")).unwrap_or_default();
        let copies = self.copies.map(|copies| format!(", {copies} copies")).unwrap_or_default();
        let count = |blocks: u64| format_count(blocks, "block", "blocks");
        let blocks = self.member_blocks.map(|blocks| format!(", {} of each member", count(blocks))).unwrap_or_default();
        let unit = format!("stripe units of {}{copies}{blocks}", count(*unit_blocks));
        format!("array `{name}` ({level}{layout} of drives {members:?}, {unit})")
    }
}

/// Encodes the intent to write these bytes of an array.
pub(super) fn encode_intent(array: usize, bytes: Range<u64>) -> [u8; 32] {
    let mut intent = NO_INTENT;
    let words = [INTENT_MAGIC, array as u64, bytes.start, bytes.end];
    for (bytes, word) in intent.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
    intent
}

/// Decodes a write intent; `None` if no write was in progress.
pub(super) fn decode_intent(intent: &[u8; 32]) -> Option<(usize, Range<u64>)> {
    let words = intent.as_chunks::<8>().0;
    let [magic, array, from, to] =
        [0, 1, 2, 3].map(|index| words.get(index).map_or(0, |word| u64::from_le_bytes(*word)));
    (magic == INTENT_MAGIC && from < to).then_some((usize::try_from(array).ok()?, from..to))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape() -> ArrayShape {
        ArrayShape::from_array(&ArraySpec::new("data", ArrayLevel::Raid5, vec![0, 1, 2]))
    }

    #[test]
    fn reads_what_it_writes() {
        let state =
            MemberStates { lost: vec![(1, 512)], rebuilding: vec![1], torn: vec![7], ..MemberStates::default() };
        let ledger = ArrayLedger::new(vec![LedgerEntry { shape: shape(), state }]);
        let text = ledger.to_padded_json(8192).expect("room");
        assert_eq!(text.len(), 8192);
        assert_eq!(ArrayLedger::read(&text, &[shape()]), Ok(ledger.clone()));
        assert!(ledger.to_padded_json(20).is_none());
        let intent = encode_intent(3, 10..20);
        assert_eq!(decode_intent(&intent), Some((3, 10..20)));
        assert_eq!(decode_intent(&NO_INTENT), None);
    }

    #[test]
    fn the_largest_ledger_fits() {
        let members: Vec<u32> = (0..128).map(|d| u32::MAX - d).collect();
        let set = ArraySpec {
            copies: Some(128),
            member_blocks: Some(u64::MAX),
            ..ArraySpec::new("x", ArrayLevel::Raid10, members)
        };
        let set = ArraySpec { name: "\u{7f}".repeat(256), ..set };
        let state = MemberStates {
            lost: (0..128).map(|m| (m, u64::MAX - 1)).collect(),
            rebuilding: (0..128).collect(),
            torn: vec![u64::MAX; MAX_TORN_ROWS],
            all_torn: false,
        };
        let ledger = ArrayLedger::new(vec![LedgerEntry { shape: ArrayShape::from_array(&set), state }]);
        assert!(ledger.to_padded_json(ArrayLedger::required_bytes(&[set]) - INTENT_BYTES).is_some());
        assert_eq!(ArrayLedger::required_bytes(&[]), 0);
    }

    #[test]
    fn rejects_invalid_ledgers() {
        let text = |ledger: &ArrayLedger| serde_json::to_string(ledger).expect("text");
        let good = ArrayLedger::new(vec![LedgerEntry { shape: shape(), state: MemberStates::default() }]);
        let good = text(&good);
        let cases = [
            (String::new(), "its array metadata cannot be read: EOF"),
            ("\0\0\0".to_owned(), "its array metadata cannot be read: expected value"),
            (good.replace("content/1", "content/9"), "not diskwright.content/1"),
            (good.replace("\"raid5\"", "\"raid6\""), "it holds array `data` (raid6 of drives [0, 1, 2], stripe"),
            (good.replace("[0,1,2]", "[0,1,3]"), "[0, 1, 3]"),
            (good.replace("\"lost\":[]", "\"lost\":[[3,0]]"), "is impossible"),
            (good.replace("\"rebuilding\":[]", "\"rebuilding\":[0]"), "is impossible"),
            (good.replace("\"lost\":[]", "\"lost\":[[-1,0]]"), "invalid value"),
            (good.replace("\"arrays\":[", "\"arrays\":[],\"more\":["), "unknown field"),
        ];
        for (text, wanted) in cases {
            let error = ArrayLedger::read(text.as_bytes(), &[shape()]).expect_err(&text);
            assert!(error.contains(wanted), "{error} / {wanted}");
        }
        assert!(ArrayLedger::read(good.as_bytes(), &[]).expect_err("none").contains("it holds 1 array, not 0"));
    }
}
