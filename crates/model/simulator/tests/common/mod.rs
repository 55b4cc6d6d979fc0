//! Every kind of array, small.

use diskwright_simulator::array::{ArrayDescription, ArrayGeometry, ArrayLevel, LevelForm};

/// All levels x layouts x copies, for so many members and this unit, with
/// member sizes that leave something over.
pub fn arrays_of(members: u16, unit: u64, rows: u64) -> Vec<ArrayGeometry> {
    let mut all = Vec::new();
    for level in ArrayLevel::ALL {
        let info = level.info();
        if members < info.min_members {
            continue;
        }
        let mut layouts: Vec<_> = info.layouts.iter().copied().map(Some).collect();
        layouts.push(None);
        let copies: Vec<Option<u16>> = match (info.form, level) {
            (LevelForm::Copies, ArrayLevel::Raid10 | ArrayLevel::Raid01) => (2..=members.min(4)).map(Some).collect(),
            _ => vec![None],
        };
        for layout in layouts {
            for copies in &copies {
                let sizes = (0..u64::from(members)).map(|m| unit * rows + m * 3 % (unit + 2) + unit / 2).collect();
                let description =
                    ArrayDescription { level, members: sizes, unit_blocks: unit, layout, copies: *copies };
                all.extend(ArrayGeometry::new(&description).ok());
            }
        }
    }
    all
}
