//! Cost of a request at a volume: operations and bytes, as its provider counts them. Designs and the replay of a log
//! use the same rules.

use diskwright_simulator::catalogue::{EntryKind, find_entry};
use diskwright_simulator::volume::VolumeSpec;

use crate::prices::VolumeOffer;

/// Counting rule of a provider.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OperationRule {
    /// Size of the largest request that is one operation, bytes.
    pub unit_bytes: f64,
    /// Each counted operation uses a whole unit of the bytes, however small it was (AWS st1 and sc1).
    pub draws_whole_units: bool,
    /// Operations that a write counts for.
    pub write_cost: f64,
    /// Requests that continue where the last one ended count together. Only if whole units are used: others merge such
    /// requests if they can, and no purchase should depend on that.
    pub merges_sequential: bool,
}

/// Rule of most volumes and of all instances: 256 KiB.
pub const DEFAULT_RULE: OperationRule =
    OperationRule { unit_bytes: 262_144.0, draws_whole_units: false, write_cost: 1.0, merges_sequential: false };

impl OperationRule {
    /// Returns the rule of a volume in the catalogue.
    pub fn for_volume(spec: &VolumeSpec) -> OperationRule {
        OperationRule {
            unit_bytes: spec.operation_bytes as f64,
            draws_whole_units: spec.whole_operations,
            write_cost: spec.write_cost,
            merges_sequential: spec.merges && spec.whole_operations,
        }
    }

    /// Returns the rule of an offer, taken from the catalogue's volume of this kind.
    pub fn for_offer(offer: &VolumeOffer) -> OperationRule {
        match find_entry(&offer.like).map(|entry| &entry.kind) {
            Some(EntryKind::Volume(spec)) => OperationRule::for_volume(spec),
            _ => DEFAULT_RULE,
        }
    }

    /// Operations and bytes that a request of a size counts for on average, if the share `continuing` of the requests
    /// continue where the last one ended.
    pub fn count_request(&self, bytes: f64, is_write: bool, continuing: f64) -> [f64; 2] {
        let unmerged = (bytes / self.unit_bytes).ceil().max(1.0);
        let merged_share = if self.merges_sequential { continuing } else { 0.0 };
        let counted = unmerged * (1.0 - merged_share) + bytes / self.unit_bytes * merged_share;
        let drawn = if self.draws_whole_units { counted * self.unit_bytes } else { bytes };
        [counted * if is_write { self.write_cost } else { 1.0 }, drawn]
    }
}

/// Share of the requests that continue where the previous one ended: the previous request must belong to the stream as
/// well, and be of the same kind.
pub fn continuing_share(sequential_share: Option<f64>, read_share: f64) -> f64 {
    let share = sequential_share.unwrap_or(0.0);
    share * share * (read_share * read_share + (1.0 - read_share) * (1.0 - read_share))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_requests_draw_whole_units_unless_sequential() {
        let prices = crate::prices::built_in_prices();
        let rule = |name: &str| OperationRule::for_offer(prices.find_volume(name).expect(name));
        // AWS EC2 user guide, hdd-vols.md: a random request counts as 1 MiB, sequential ones by their bytes
        assert_eq!(rule("st1").count_request(8192.0, false, 0.0), [1.0, 1_048_576.0]);
        assert_eq!(rule("st1").count_request(8192.0, false, 1.0), [1.0 / 128.0, 8192.0]);
        assert_eq!(rule("gp3").count_request(1_048_576.0, true, 0.0), [4.0, 1_048_576.0]);
        assert_eq!(rule("gp3").count_request(8192.0, true, 1.0), [1.0, 8192.0]);
        // a write to a standard disk of Google counts for half a read
        assert_eq!(rule("pd-standard").count_request(4096.0, true, 0.0)[0], 0.5);
        assert_eq!(
            (continuing_share(None, 0.5), continuing_share(Some(1.0), 1.0), continuing_share(Some(0.5), 0.5)),
            (0.0, 1.0, 0.125)
        );
    }
}
