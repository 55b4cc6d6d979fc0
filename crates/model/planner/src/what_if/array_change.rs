//! An array after a change of its disks or of its level, or why it cannot be changed so.

use diskwright_base::RaidLevel;
use diskwright_base::units::format_count;

use super::WhatIfError;
use crate::arithmetic::usable_members;
use crate::series::FrontLoad;

/// An array after a change.
pub(super) struct ChangedArray {
    pub level: Option<RaidLevel>,
    pub members: usize,
    pub notes: Vec<String>,
}

/// Returns an array with more disks, or with fewer.
pub(super) fn change_disks(text: &str, front: &FrontLoad, added: i32) -> Result<ChangedArray, WhatIfError> {
    let (name, members) = (&front.name, front.members);
    let Some(level) = front.level else {
        return Err(refuse_name(text, format!("the log does not show {name} as an array that could take more disks")));
    };
    let count = members as i64 + i64::from(added);
    let min = match level {
        RaidLevel::Raid4 | RaidLevel::Raid5 => 3,
        RaidLevel::Raid6 | RaidLevel::Raid10 => 4,
        _ => 2,
    };
    // there may be fewer than usual
    let min = min.min(members as i64);
    if count < min {
        let disks = count_disks(members);
        return Err(refuse_name(text, format!("{name} has {disks}; {} needs at least {min}", level.name())));
    }
    if level == RaidLevel::Raid1 {
        return Err(refuse_change(text, "more disks in a mirror are more copies; try 'raid1 to raid10' first"));
    }
    if level == RaidLevel::Linear {
        return Err(refuse_change(text, "the disks are concatenated, and the log does not show where the load goes"));
    }
    let grown = format_count(members, "disk becomes", "disks become");
    let notes = vec![format!("{name}: {grown} {count}, all of the same kind")];
    Ok(ChangedArray { level: Some(level), members: count as usize, notes })
}

/// Returns an array with another level on the same disks.
pub(super) fn change_level(
    text: &str,
    front: &FrontLoad,
    from: Option<RaidLevel>,
    to: RaidLevel,
) -> Result<ChangedArray, WhatIfError> {
    let (name, members) = (&front.name, front.members);
    let Some(level) = front.level else {
        return Err(refuse_name(text, format!("the log does not show {name} as an array (declare it with --array)")));
    };
    if let Some(from) = from.filter(|from| *from != level) {
        return Err(refuse_name(text, format!("{name} is {}, not {}", level.name(), from.name())));
    }
    if to == RaidLevel::Linear {
        return Err(refuse_change(text, "with concatenated disks, the log does not show where the load would go"));
    }
    let min = [(RaidLevel::Raid4, 3), (RaidLevel::Raid5, 3), (RaidLevel::Raid6, 4), (RaidLevel::Raid10, 4)];
    if let Some((_, min)) = min.iter().find(|(other, min)| *other == to && members < *min) {
        return Err(refuse_name(text, format!("{name} has {}; {} needs {min}", count_disks(members), to.name())));
    }
    let usable = |level: RaidLevel| {
        let level = diskwright_simulator::ArrayLevel::parse(level.name())?;
        Some(usable_members(level, u16::try_from(members).ok()?))
    };
    let mut notes = Vec::new();
    if let (Some(before), Some(after)) = (usable(level), usable(to)) {
        notes.push(format!("usable space: {before} disks' worth of {members} becomes {after}"));
    }
    Ok(ChangedArray { level: Some(to), members, notes })
}

fn count_disks(number: usize) -> String {
    format_count(number, "disk", "disks")
}

fn refuse_name(text: &str, because: String) -> WhatIfError {
    WhatIfError::Names(text.into(), because)
}

fn refuse_change(text: &str, because: &str) -> WhatIfError {
    WhatIfError::Refused(text.into(), because.into())
}
