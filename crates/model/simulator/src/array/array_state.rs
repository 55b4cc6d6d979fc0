//! State of an array's members: failed, being rebuilt.

/// Set of members, by index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberSet(u128);

impl MemberSet {
    /// The empty set.
    pub const NONE: MemberSet = MemberSet(0);

    /// Returns the set with `member` added; indices of 128 and more are ignored.
    pub fn with_member(self, member: u16) -> MemberSet {
        MemberSet(self.0 | 1u128.checked_shl(u32::from(member)).unwrap_or(0))
    }

    /// Returns the set without `member`.
    pub fn without_member(self, member: u16) -> MemberSet {
        MemberSet(self.0 & !1u128.checked_shl(u32::from(member)).unwrap_or(0))
    }

    /// Returns true if `member` is in the set.
    #[inline]
    pub fn contains(self, member: u16) -> bool {
        member < 128 && self.0 >> member & 1 == 1
    }

    /// Number of members in the set.
    pub fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Returns true if the set is empty.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the members in both sets.
    pub fn intersection(self, other: MemberSet) -> MemberSet {
        MemberSet(self.0 & other.0)
    }

    /// Returns the members not in `other`.
    pub fn difference(self, other: MemberSet) -> MemberSet {
        MemberSet(self.0 & !other.0)
    }

    /// Iterates over the indices in ascending order.
    pub fn iter(self) -> impl Iterator<Item = u16> {
        let mut bits_left = self.0;
        std::iter::from_fn(move || {
            let member = bits_left.trailing_zeros() as u16;
            bits_left &= bits_left.wrapping_sub(1);
            (member < 128).then_some(member)
        })
    }

    /// Returns the members with indices below `members`.
    pub fn below(self, members: u16) -> MemberSet {
        MemberSet(self.0 & 1u128.checked_shl(u32::from(members)).map_or(u128::MAX, |bit| bit - 1))
    }
}

impl FromIterator<u16> for MemberSet {
    fn from_iter<T: IntoIterator<Item = u16>>(members: T) -> MemberSet {
        members.into_iter().fold(MemberSet::NONE, MemberSet::with_member)
    }
}

/// State of an array's members: failed ones, and those being rebuilt onto their replacements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArrayState {
    /// Members whose data is lost, including those being rebuilt until all of their data is rebuilt.
    pub failed: MemberSet,
    /// Members being rebuilt, all in one pass.
    pub rebuilding: MemberSet,
    /// Member block below which they are good again.
    pub good_below: u64,
}

impl ArrayState {
    /// Creates a state with these members failed, none being rebuilt.
    pub fn with_failed(members: impl IntoIterator<Item = u16>) -> ArrayState {
        ArrayState { failed: members.into_iter().collect(), ..ArrayState::default() }
    }

    /// Members that cannot be read up to member block `end`.
    #[inline]
    pub(crate) fn unreadable_members(&self, end: u64) -> MemberSet {
        if end <= self.good_below { self.failed.difference(self.rebuilding) } else { self.failed }
    }

    /// Members that need not be written from member block `from` on: failed ones, unless already rebuilt there.
    #[inline]
    pub(super) fn members_not_to_write(&self, from: u64) -> MemberSet {
        if from < self.good_below { self.failed.difference(self.rebuilding) } else { self.failed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn member_sets_hold_positions_below_128() {
        let some: MemberSet = [0, 5, 127, 128, 4000].into_iter().collect();
        assert_eq!(some.count(), 3);
        assert!(some.contains(127) && !some.contains(128) && !some.contains(1));
        assert_eq!(some.below(128), some);
        assert_eq!(some.below(127).count(), 2);
        assert_eq!(some.without_member(5).without_member(200).count(), 2);
        assert!(MemberSet::NONE.below(0).is_empty());
    }

    #[test]
    fn rebuilt_blocks_are_readable() {
        let failed = MemberSet::NONE.with_member(1).with_member(2);
        let state = ArrayState {
            rebuilding: MemberSet::NONE.with_member(1),
            good_below: 100,
            ..ArrayState::with_failed([1, 2])
        };
        assert_eq!(state.unreadable_members(100), MemberSet::NONE.with_member(2));
        assert_eq!(state.unreadable_members(101), failed);
        assert_eq!(state.members_not_to_write(99), MemberSet::NONE.with_member(2));
        assert_eq!(state.members_not_to_write(100), failed);
        assert_eq!(failed.intersection(MemberSet::NONE.with_member(2).with_member(3)).iter().collect::<Vec<_>>(), [2]);
        assert_eq!(MemberSet::NONE.with_member(0).with_member(127).iter().collect::<Vec<_>>(), [0, 127]);
    }
}
