//! Channels and controllers that share the members of one array: each I/O passes one of
//! them, as it visits one of the members, so that they are one center.

use crate::system::{Channel, Controller, Set, System};

/// Parts of one kind that share the members of an array: which, and how many members on each.
pub(super) type SharedParts = Vec<(usize, u32)>;

/// The channels of an array, and their controllers, where they are alike and nobody else uses them.
pub(super) fn shared(system: &System, set: &Set) -> Option<(SharedParts, SharedParts)> {
    let channels = shares(set, |member| channel_of(system, member));
    let alone = channels.iter().all(|(channel, _)| is_alone(system, set, *channel));
    let like = |a: &Channel, b: &Channel| {
        (a.rate, a.overhead, a.disconnects) == (b.rate, b.overhead, b.disconnects)
            && a.controller.is_some() == b.controller.is_some()
    };
    if channels.len() < 2 || !alone || !alike(&channels, |index| system.channels.get(index), like) {
        return None;
    }
    let controllers = shares(set, |member| system.channels.get(channel_of(system, member)?)?.controller);
    let like = |a: &Controller, b: &Controller| unnamed(a) == unnamed(b);
    alike(&controllers, |index| system.controllers.get(index), like).then_some((channels, controllers))
}

fn unnamed(controller: &Controller) -> Controller {
    Controller { name: String::new(), ..controller.clone() }
}

fn channel_of(system: &System, drive: u32) -> Option<usize> {
    system.drives[system.group_of(drive)?.0].channel
}

/// What the members of an array are on, and how many on each.
fn shares(set: &Set, of: impl Fn(u32) -> Option<usize>) -> Vec<(usize, u32)> {
    let mut all: Vec<(usize, u32)> = Vec::new();
    for index in set.members.iter().filter_map(|member| of(*member)) {
        match all.iter_mut().find(|known| known.0 == index) {
            Some(known) => known.1 += 1,
            None => all.push((index, 1)),
        }
    }
    all
}

fn alike<'a, T: 'a>(
    shares: &[(usize, u32)],
    of: impl Fn(usize) -> Option<&'a T>,
    like: impl Fn(&T, &T) -> bool,
) -> bool {
    let Some(first) = shares.first().and_then(|(index, _)| of(*index)) else { return shares.is_empty() };
    shares.iter().all(|(index, _)| of(*index).is_some_and(|other| like(first, other)))
}

/// True where no drive of a channel is outside the array.
fn is_alone(system: &System, set: &Set, channel: usize) -> bool {
    (0..system.drive_count())
        .filter(|drive| channel_of(system, *drive) == Some(channel))
        .all(|drive| set.members.contains(&drive) || set.spares.contains(&drive))
}
