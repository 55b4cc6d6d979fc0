//! Layouts of the units of a row: md's layouts by md's names.

use std::fmt;

use serde::Deserialize;

use super::level::normalize_name;

/// Placement of units over the members. The first six are those of `drivers/md/raid5.c`. SNIA's DDF has other names for
/// them: left is "rotating parity N", right "rotating parity 0", asymmetric "data restart", symmetric "data
/// continuation". The others are for copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArrayLayout {
    /// Parity from the last member down; data begins after it (md's default).
    LeftSymmetric,
    /// Parity from the last member down; data begins at the first member.
    LeftAsymmetric,
    /// Parity from the first member up; data begins after it.
    RightSymmetric,
    /// Parity from the first member up; data begins at the first member.
    RightAsymmetric,
    /// Parity on the first members always.
    ParityFirst,
    /// Parity on the last members always.
    ParityLast,
    /// Copies side by side.
    Near,
    /// Copies in another section of the next member.
    Far,
    /// Copies in the next row of the next member.
    Offset,
    /// Copies in another set of members.
    Split,
}

impl ArrayLayout {
    /// All layouts.
    pub const ALL: [ArrayLayout; 10] = [
        ArrayLayout::LeftSymmetric,
        ArrayLayout::LeftAsymmetric,
        ArrayLayout::RightSymmetric,
        ArrayLayout::RightAsymmetric,
        ArrayLayout::ParityFirst,
        ArrayLayout::ParityLast,
        ArrayLayout::Near,
        ArrayLayout::Far,
        ArrayLayout::Offset,
        ArrayLayout::Split,
    ];

    /// Name, such as `left_symmetric`.
    pub fn name(self) -> &'static str {
        match self {
            ArrayLayout::LeftSymmetric => "left_symmetric",
            ArrayLayout::LeftAsymmetric => "left_asymmetric",
            ArrayLayout::RightSymmetric => "right_symmetric",
            ArrayLayout::RightAsymmetric => "right_asymmetric",
            ArrayLayout::ParityFirst => "parity_first",
            ArrayLayout::ParityLast => "parity_last",
            ArrayLayout::Near => "near",
            ArrayLayout::Far => "far",
            ArrayLayout::Offset => "offset",
            ArrayLayout::Split => "split",
        }
    }

    /// Parses a name, including mdadm's short ones (`ls`, `la`, `rs`, `ra`).
    pub fn parse(text: &str) -> Option<ArrayLayout> {
        let name = match normalize_name(text).as_str() {
            "ls" => "left_symmetric",
            "la" => "left_asymmetric",
            "rs" => "right_symmetric",
            "ra" => "right_asymmetric",
            "parity_0" => "parity_first",
            "parity_n" => "parity_last",
            other => return ArrayLayout::ALL.into_iter().find(|l| l.name() == other),
        };
        ArrayLayout::ALL.into_iter().find(|l| l.name() == name)
    }
}

impl fmt::Display for ArrayLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Members of one row of a parity level: `parities` of them have parity, P on member `first_parity`, Q and R on those
/// after it, wrapping around.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ParityRow {
    first_parity: u16,
    members: u16,
    parities: u16,
    /// Data begins after the parity and wraps around; otherwise it begins at member 0.
    data_follows_parity: bool,
}

impl ParityRow {
    /// Builds the row whose number modulo `n`, the number of members, is `remainder`.
    #[inline]
    pub(super) fn new(layout: ArrayLayout, remainder: u64, n: u16, p: u16) -> ParityRow {
        debug_assert!(remainder < u64::from(n) && p < n, "row {remainder} of {n} members with {p} parities");
        let remainder = remainder as u16;
        let (first, continues) = match layout {
            ArrayLayout::LeftSymmetric => (n - 1 - remainder, true),
            ArrayLayout::LeftAsymmetric => (n - 1 - remainder, false),
            ArrayLayout::RightSymmetric => (remainder, true),
            ArrayLayout::RightAsymmetric => (remainder, false),
            ArrayLayout::ParityFirst => (0, false),
            _ => (n - p, false),
        };
        ParityRow { first_parity: first, members: n, parities: p, data_follows_parity: continues }
    }

    /// Returns the member of parity unit `j`.
    #[inline]
    pub(super) fn parity_member(self, j: u16) -> u16 {
        wrap_member(self.first_parity + j, self.members)
    }

    /// Returns the member of data unit `d`.
    #[inline]
    pub(super) fn data_member(self, d: u16) -> u16 {
        if self.data_follows_parity {
            return wrap_member(wrap_member(self.first_parity + self.parities, self.members) + d, self.members);
        }
        // parity units that wrapped around lie before the data
        let d = d + (self.first_parity + self.parities).saturating_sub(self.members);
        if d >= self.first_parity { d + self.parities } else { d }
    }

    /// Returns the unit on a member: parity unit j as `Err(j)`, data unit d as `Ok(d)`. The inverse of
    /// [`ParityRow::parity_member`] and [`ParityRow::data_member`].
    #[inline]
    pub(super) fn unit_on_member(self, member: u16) -> Result<u16, u16> {
        let unit = self.find_unit(member);
        debug_assert!(
            member == unit.map_or_else(|j| self.parity_member(j), |d| self.data_member(d)),
            "member {member} does not hold {unit:?}"
        );
        unit
    }

    #[inline]
    fn find_unit(self, member: u16) -> Result<u16, u16> {
        let after = wrap_member(member + self.members - self.first_parity, self.members);
        if after < self.parities {
            return Err(after);
        }
        if self.data_follows_parity {
            return Ok(after - self.parities);
        }
        let wrapped = (self.first_parity + self.parities).saturating_sub(self.members);
        Ok(if member > self.first_parity { member - self.parities } else { member - wrapped })
    }
}

/// Returns `value` modulo `n`, for values below 2 n.
#[inline]
fn wrap_member(value: u16, n: u16) -> u16 {
    if value >= n { value - n } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row as letters: P, Q, R, and data units as numbers.
    fn draw_row(layout: ArrayLayout, row: u64, n: u16, p: u16) -> String {
        let row = ParityRow::new(layout, row % u64::from(n), n, p);
        let unit = |member| match row.unit_on_member(member) {
            Ok(d) => d.to_string(),
            Err(j) => ["P", "Q", "R"][usize::from(j)].to_owned(),
        };
        (0..n).map(unit).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn parity_lies_where_md_puts_it() {
        // RAID 5 of four, rows 0 to 3: drivers/md/raid5.c, raid5_compute_sector
        let raid5: [(ArrayLayout, [&str; 4]); 6] = [
            (ArrayLayout::LeftSymmetric, ["0 1 2 P", "1 2 P 0", "2 P 0 1", "P 0 1 2"]),
            (ArrayLayout::LeftAsymmetric, ["0 1 2 P", "0 1 P 2", "0 P 1 2", "P 0 1 2"]),
            (ArrayLayout::RightSymmetric, ["P 0 1 2", "2 P 0 1", "1 2 P 0", "0 1 2 P"]),
            (ArrayLayout::RightAsymmetric, ["P 0 1 2", "0 P 1 2", "0 1 P 2", "0 1 2 P"]),
            (ArrayLayout::ParityFirst, ["P 0 1 2"; 4]),
            (ArrayLayout::ParityLast, ["0 1 2 P"; 4]),
        ];
        // RAID 6 of five: Q after P, "Q D D D P" where P is on the last member
        let raid6: [(ArrayLayout, [&str; 5]); 6] = [
            (ArrayLayout::LeftSymmetric, ["Q 0 1 2 P", "0 1 2 P Q", "1 2 P Q 0", "2 P Q 0 1", "P Q 0 1 2"]),
            (ArrayLayout::LeftAsymmetric, ["Q 0 1 2 P", "0 1 2 P Q", "0 1 P Q 2", "0 P Q 1 2", "P Q 0 1 2"]),
            (ArrayLayout::RightSymmetric, ["P Q 0 1 2", "2 P Q 0 1", "1 2 P Q 0", "0 1 2 P Q", "Q 0 1 2 P"]),
            (ArrayLayout::RightAsymmetric, ["P Q 0 1 2", "0 P Q 1 2", "0 1 P Q 2", "0 1 2 P Q", "Q 0 1 2 P"]),
            (ArrayLayout::ParityFirst, ["P Q 0 1 2"; 5]),
            (ArrayLayout::ParityLast, ["0 1 2 P Q"; 5]),
        ];
        for (layout, rows) in raid5 {
            let drawn: Vec<String> = (0..4).map(|row| draw_row(layout, row, 4, 1)).collect();
            assert_eq!(drawn, rows, "{layout}");
        }
        for (layout, rows) in raid6 {
            let drawn: Vec<String> = (0..5).map(|row| draw_row(layout, row, 5, 2)).collect();
            assert_eq!(drawn, rows, "{layout}");
        }
        assert_eq!(draw_row(ArrayLayout::LeftSymmetric, 0, 6, 3), "Q R 0 1 2 P");
        assert_eq!(draw_row(ArrayLayout::LeftAsymmetric, 1, 6, 3), "R 0 1 2 P Q");
    }

    #[test]
    fn each_unit_has_one_member() {
        for layout in &ArrayLayout::ALL[..6] {
            for (n, p) in (3..20).flat_map(|n| [(n, 1), (n, 2), (n, 3)]).filter(|(n, p)| n > p) {
                for remainder in 0..u64::from(n) {
                    let row = ParityRow::new(*layout, remainder, n, p);
                    (0..p).for_each(|j| {
                        assert_eq!(row.unit_on_member(row.parity_member(j)), Err(j), "{layout} {n} {p} {remainder}")
                    });
                    (0..n - p).for_each(|d| {
                        assert_eq!(row.unit_on_member(row.data_member(d)), Ok(d), "{layout} {n} {p} {remainder}")
                    });
                }
            }
        }
    }

    #[test]
    fn parses_names() {
        for layout in ArrayLayout::ALL {
            assert_eq!(ArrayLayout::parse(layout.name()), Some(layout));
        }
        assert_eq!(ArrayLayout::parse("Left-Symmetric"), Some(ArrayLayout::LeftSymmetric));
        assert_eq!(ArrayLayout::parse("ra"), Some(ArrayLayout::RightAsymmetric));
        assert_eq!(ArrayLayout::parse("up"), None);
    }
}
