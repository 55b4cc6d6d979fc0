//! Which members work.

/// A set of members, by position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Members(u128);

impl Members {
    /// None.
    pub const NONE: Members = Members(0);

    /// With one more; positions of 128 and more are not kept.
    pub fn with(self, member: u16) -> Members {
        Members(self.0 | 1u128.checked_shl(u32::from(member)).unwrap_or(0))
    }

    /// With one less.
    pub fn without(self, member: u16) -> Members {
        Members(self.0 & !1u128.checked_shl(u32::from(member)).unwrap_or(0))
    }

    /// Whether it is among them.
    #[inline]
    pub fn contains(self, member: u16) -> bool {
        member < 128 && self.0 >> member & 1 == 1
    }

    /// How many.
    pub fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// True when there is none.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those that are in both.
    pub fn and(self, other: Members) -> Members {
        Members(self.0 & other.0)
    }

    /// Those that are not in the other.
    pub fn less(self, other: Members) -> Members {
        Members(self.0 & !other.0)
    }

    /// Their positions, ascending.
    pub fn iter(self) -> impl Iterator<Item = u16> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let member = rest.trailing_zeros() as u16;
            rest &= rest.wrapping_sub(1);
            (member < 128).then_some(member)
        })
    }

    /// Those below `members`.
    pub fn within(self, members: u16) -> Members {
        Members(self.0 & 1u128.checked_shl(u32::from(members)).map_or(u128::MAX, |bit| bit - 1))
    }
}

impl FromIterator<u16> for Members {
    fn from_iter<T: IntoIterator<Item = u16>>(members: T) -> Members {
        members.into_iter().fold(Members::NONE, Members::with)
    }
}

/// What a planner has to reckon with: failed members, and those that are being
/// rebuilt onto their replacements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArrayState {
    /// Members whose data is lost. Those being rebuilt stay among them until
    /// all of it is done.
    pub failed: Members,
    /// Members being rebuilt, all in one pass.
    pub rebuilding: Members,
    /// The member block below which those are good again.
    pub good_below: u64,
}

impl ArrayState {
    /// So many failed, none being rebuilt.
    pub fn failed(members: impl IntoIterator<Item = u16>) -> ArrayState {
        ArrayState { failed: members.into_iter().collect(), ..ArrayState::default() }
    }

    /// Members that cannot be read up to member block `end`.
    #[inline]
    pub(crate) fn unreadable(&self, end: u64) -> Members {
        if end <= self.good_below { self.failed.less(self.rebuilding) } else { self.failed }
    }

    /// Members that need not be written from member block `from` on: failed
    /// ones, except what has been rebuilt already.
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
