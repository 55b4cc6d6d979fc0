//! State of an array's members: failed, being rebuilt.

/// Set of members, by index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Members(u128);

impl Members {
    /// The empty set.
    pub const NONE: Members = Members(0);

    /// Returns the set with `member` added; indices of 128 and more are ignored.
    pub fn with(self, member: u16) -> Members {
        Members(self.0 | 1u128.checked_shl(u32::from(member)).unwrap_or(0))
    }

    /// Returns the set without `member`.
    pub fn without(self, member: u16) -> Members {
        Members(self.0 & !1u128.checked_shl(u32::from(member)).unwrap_or(0))
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
    pub fn and(self, other: Members) -> Members {
        Members(self.0 & other.0)
    }

    /// Returns the members not in `other`.
    pub fn less(self, other: Members) -> Members {
        Members(self.0 & !other.0)
    }

    /// Iterates over the indices in ascending order.
    pub fn iter(self) -> impl Iterator<Item = u16> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let member = rest.trailing_zeros() as u16;
            rest &= rest.wrapping_sub(1);
            (member < 128).then_some(member)
        })
    }

    /// Returns the members with indices below `members`.
    pub fn within(self, members: u16) -> Members {
        Members(self.0 & 1u128.checked_shl(u32::from(members)).map_or(u128::MAX, |bit| bit - 1))
    }
}

impl FromIterator<u16> for Members {
    fn from_iter<T: IntoIterator<Item = u16>>(members: T) -> Members {
        members.into_iter().fold(Members::NONE, Members::with)
    }
}

/// State of an array's members: failed ones, and those being rebuilt onto their replacements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArrayState {
    /// Members whose data is lost, including those being rebuilt until all of their data is rebuilt.
    pub failed: Members,
    /// Members being rebuilt, all in one pass.
    pub rebuilding: Members,
    /// Member block below which they are good again.
    pub good_below: u64,
}

impl ArrayState {
    /// Creates a state with these members failed, none being rebuilt.
    pub fn failed(members: impl IntoIterator<Item = u16>) -> ArrayState {
        ArrayState { failed: members.into_iter().collect(), ..ArrayState::default() }
    }

    /// Members that cannot be read up to member block `end`.
    #[inline]
    pub(crate) fn unreadable(&self, end: u64) -> Members {
        if end <= self.good_below { self.failed.less(self.rebuilding) } else { self.failed }
    }

    /// Members that need not be written from member block `from` on: failed ones, unless already rebuilt there.
    #[inline]
    pub(super) fn unwritten(&self, from: u64) -> Members {
        if from < self.good_below { self.failed.less(self.rebuilding) } else { self.failed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_members() {
        let some: Members = [0, 5, 127, 128, 4000].into_iter().collect();
        assert_eq!(some.count(), 3);
        assert!(some.contains(127) && !some.contains(128) && !some.contains(1));
        assert_eq!(some.within(128), some);
        assert_eq!(some.within(127).count(), 2);
        assert_eq!(some.without(5).without(200).count(), 2);
        assert!(Members::NONE.within(0).is_empty());
    }

    #[test]
    fn what_is_rebuilt_is_good() {
        let failed = Members::NONE.with(1).with(2);
        let state = ArrayState { rebuilding: Members::NONE.with(1), good_below: 100, ..ArrayState::failed([1, 2]) };
        assert_eq!(state.unreadable(100), Members::NONE.with(2));
        assert_eq!(state.unreadable(101), failed);
        assert_eq!(state.unwritten(99), Members::NONE.with(2));
        assert_eq!(state.unwritten(100), failed);
        assert_eq!(failed.and(Members::NONE.with(2).with(3)).iter().collect::<Vec<_>>(), [2]);
        assert_eq!(Members::NONE.with(0).with(127).iter().collect::<Vec<_>>(), [0, 127]);
    }
}
