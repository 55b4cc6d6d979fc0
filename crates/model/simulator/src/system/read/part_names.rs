//! Names of the parts read so far, and the references to them.

use crate::description_toml::{DescriptionFields, did_you_mean};
use crate::system::{DriveGroupSpec, WorkloadTarget};

/// Names of one kind, by position.
#[derive(Clone, Debug, Default)]
pub(super) struct NameList {
    names: Vec<String>,
}

/// Names of all parts, by kind.
#[derive(Clone, Debug, Default)]
pub(super) struct PartNames {
    pub buses: NameList,
    pub controllers: NameList,
    pub channels: NameList,
    /// Groups of drives.
    pub drives: NameList,
    pub arrays: NameList,
    /// By drive number: the array that it belongs to as a member or a spare.
    pub used_by: Vec<Option<usize>>,
}

/// The word for no part.
const NO_PART: &str = "none";

impl NameList {
    /// Adds the name of the next table of a kind: its own, or `kind`, `kind2`, …
    pub fn add_name(&mut self, fields: &DescriptionFields<'_, '_>, kind: &str, others: &[&NameList]) -> String {
        let explicit_name = fields.read_text("name").map(str::to_owned);
        let name = explicit_name.clone().unwrap_or_else(|| match self.names.len() {
            0 => kind.to_owned(),
            n => format!("{kind}{}", n + 1),
        });
        if explicit_name.is_some() && (name == NO_PART || name == "host") {
            fields.report_key_problem("name", format!("`{name}` is a reserved word; choose another name"));
        }
        if std::iter::once(&*self).chain(others.iter().copied()).any(|list| list.names.contains(&name)) {
            fields.report_key_problem("name", format!("the name `{name}` is already used; choose another name"));
        }
        self.names.push(name.clone());
        name
    }

    /// Returns the number of parts.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns the name at a position, or nothing behind the last.
    pub fn name(&self, index: usize) -> &str {
        self.names.get(index).map_or("", String::as_str)
    }

    /// Returns the position of a name.
    pub fn find_index(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|n| n == name)
    }

    /// Iterates over the names in the order of the description.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Resolves a reference: the named part; without the key, the only part there is; `None` for "none" or if there is
    /// nothing to refer to.
    pub fn parse_reference(&self, fields: &DescriptionFields<'_, '_>, key: &'static str) -> Option<usize> {
        if !fields.has_key(key) {
            fields.mark_known(&[key]);
            if self.len() > 1 {
                let known = self.names.join(", ");
                fields.report_problem(format!("`{key}` is missing; choose one of {known}, or {key} = \"{NO_PART}\""));
            }
            return (self.len() == 1).then_some(0);
        }
        let name = fields.read_text(key)?;
        if name == NO_PART {
            return None;
        }
        let found = self.find_index(name);
        if found.is_none() {
            fields.report_key_problem(key, self.unknown_message(key, name));
        }
        found
    }

    /// Returns the message that a name is unknown.
    pub fn unknown_message(&self, kind: &str, name: &str) -> String {
        unknown_name_message(kind, name, &self.names.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

/// Returns the message that a name is unknown, with the known ones.
fn unknown_name_message(kind: &str, name: &str, names: &[&str]) -> String {
    const MAX_SHOWN: usize = 20;
    let known = match names.len() {
        0 => "there are none".to_owned(),
        n if n > MAX_SHOWN => format!("known are {} and {} more", names[..MAX_SHOWN].join(", "), n - MAX_SHOWN),
        _ => format!("known are {}", names.join(", ")),
    };
    format!("unknown {kind} `{name}`; {known}{}", did_you_mean(name, names))
}

/// Number of the first drive of a group.
pub(super) fn first_drive(drives: &[DriveGroupSpec], group: usize) -> u32 {
    drives.iter().take(group).map(|g| g.count).sum()
}

/// Returns the group of a drive, and its position there.
pub(super) fn find_drive_group(drives: &[DriveGroupSpec], drive: u32) -> Option<(&DriveGroupSpec, u32)> {
    let mut left = drive;
    for group in drives {
        if left < group.count {
            return Some((group, left));
        }
        left -= group.count;
    }
    None
}

/// Resolves a text to drives: a group (`disk`), one of its drives (`disk3`), or a range (`disk0-3`).
pub(super) fn find_drives(drives: &[DriveGroupSpec], text: &str) -> Result<Vec<u32>, String> {
    if let Some(group) = drives.iter().position(|g| g.name == text) {
        let first = first_drive(drives, group);
        return Ok((first..first + drives[group].count).collect());
    }
    let mut range_error = None;
    for (index, group) in drives.iter().enumerate() {
        let Some(number_text) = text.strip_prefix(group.name.as_str()) else { continue };
        let (from, to) = number_text.split_once('-').unwrap_or((number_text, number_text));
        let (Ok(from), Ok(to)) = (from.parse::<u32>(), to.parse::<u32>()) else { continue };
        if from > to || to >= group.count {
            // another group's name may be this one's with a digit appended: `d12` is in `d1` if `d` is a single drive
            if range_error.is_none() {
                let last = group.count.saturating_sub(1);
                range_error = Some(format!("`{text}`: the drives of `{}` are numbered 0 to {last}", group.name));
            }
            continue;
        }
        let first = first_drive(drives, index);
        return Ok((first + from..=first + to).collect());
    }
    let names: Vec<&str> = drives.iter().map(|g| g.name.as_str()).collect();
    Err(range_error.unwrap_or_else(|| unknown_name_message("drive", text, &names)))
}

/// True if a group, or a single drive of one, has this name.
pub(super) fn is_drive_name(drives: &[DriveGroupSpec], text: &str) -> bool {
    drives.iter().any(|group| {
        let number = text.strip_prefix(group.name.as_str()).and_then(|number| number.parse::<u32>().ok());
        // a single drive has no number, and `disk02` is not `disk2`
        let is_drive_number = |n: u32| group.count > 1 && n < group.count && format!("{}{n}", group.name) == text;
        group.name == text || number.is_some_and(is_drive_number)
    })
}

/// Resolves a text to workload targets: an array, or single drives.
pub(super) fn find_targets(
    drives: &[DriveGroupSpec],
    names: &PartNames,
    text: &str,
) -> Result<Vec<WorkloadTarget>, String> {
    if let Some(array) = names.arrays.find_index(text) {
        return Ok(vec![WorkloadTarget::Array(array)]);
    }
    let found = find_drives(drives, text).map_err(|_| {
        let all_names: Vec<&str> = names.arrays.iter().chain(names.drives.iter()).collect();
        unknown_name_message("array or drive", text, &all_names)
    })?;
    let member = found.iter().find_map(|d| names.used_by.get(*d as usize).copied().flatten());
    match member {
        Some(array) => {
            let array = names.arrays.name(array);
            Err(format!("`{text}` is a member of `{array}`; use on = \"{array}\""))
        }
        None => Ok(found.into_iter().map(WorkloadTarget::Drive).collect()),
    }
}
