//! Channels, and controllers, among which the members of one array are divided. Each I/O passes one of them, just as it
//! visits one of the members, so they form one center.

use crate::system::{ArraySpec, Channel, Controller, System};

/// Parts of one kind among which the members of an array are divided: index of the part, and its number of members.
pub(super) type SharedParts = Vec<(usize, u32)>;

/// Finds the channels of an array, and their controllers, if they are alike and used by nothing else.
pub(super) fn find_shared_parts(system: &System, array: &ArraySpec) -> Option<(SharedParts, SharedParts)> {
    let channels = count_members(array, |member| drive_channel(system, member));
    let exclusive = channels.iter().all(|(channel, _)| is_exclusive(system, array, *channel));
    let like = |a: &Channel, b: &Channel| {
        (a.rate, a.overhead_ns, a.disconnects) == (b.rate, b.overhead_ns, b.disconnects)
            && a.controller.is_some() == b.controller.is_some()
    };
    if channels.len() < 2 || !exclusive || !are_alike(&channels, |index| system.channels.get(index), like) {
        return None;
    }
    let controllers = count_members(array, |member| system.channels.get(drive_channel(system, member)?)?.controller);
    let like = |a: &Controller, b: &Controller| without_name(a) == without_name(b);
    are_alike(&controllers, |index| system.controllers.get(index), like).then_some((channels, controllers))
}

fn without_name(controller: &Controller) -> Controller {
    Controller { name: String::new(), ..controller.clone() }
}

fn drive_channel(system: &System, drive: u32) -> Option<usize> {
    system.drives[system.find_drive_group(drive)?.0].channel
}

/// Counts the members of an array on each part.
fn count_members(array: &ArraySpec, part_of: impl Fn(u32) -> Option<usize>) -> Vec<(usize, u32)> {
    let mut counts: Vec<(usize, u32)> = Vec::new();
    for index in array.members.iter().filter_map(|member| part_of(*member)) {
        match counts.iter_mut().find(|known| known.0 == index) {
            Some(known) => known.1 += 1,
            None => counts.push((index, 1)),
        }
    }
    counts
}

fn are_alike<'a, T: 'a>(
    shares: &[(usize, u32)],
    find: impl Fn(usize) -> Option<&'a T>,
    like: impl Fn(&T, &T) -> bool,
) -> bool {
    let Some(first) = shares.first().and_then(|(index, _)| find(*index)) else { return shares.is_empty() };
    shares.iter().all(|(index, _)| find(*index).is_some_and(|other| like(first, other)))
}

/// True if every drive of a channel belongs to the array.
fn is_exclusive(system: &System, array: &ArraySpec, channel: usize) -> bool {
    (0..system.drive_count())
        .filter(|drive| drive_channel(system, *drive) == Some(channel))
        .all(|drive| array.members.contains(&drive) || array.spares.contains(&drive))
}
