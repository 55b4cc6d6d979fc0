//! What a verdict says of the host, as far as advice needs it: items that bear on it come first.

use crate::advice::{AdviceItem, HostAdvice, rank_value};
use crate::check::{CHECKS, CheckObject, HostCheck};
use crate::host_facts::HostFacts;
use crate::host_trouble::HostTrouble;

impl HostAdvice {
    /// Marks the items that bear on one of the bottlenecks, and puts them first.
    pub fn put_related_first(&mut self, host: &HostFacts, troubles: &[HostTrouble]) {
        for item in &mut self.items {
            let check = CHECKS.iter().find(|check| check.id == item.check);
            item.bears_on = check
                .and_then(|check| troubles.iter().find(|t| is_related(check, item, host, t)))
                .map(HostTrouble::name);
        }
        let is_unrelated = |item: &AdviceItem| item.bears_on.is_none();
        self.items.sort_by(|a, b| {
            let by_relation = is_unrelated(a).cmp(&is_unrelated(b));
            by_relation.then_with(|| rank_value(b).total_cmp(&rank_value(a))).then_with(|| a.id.cmp(&b.id))
        });
    }
}

/// True if a setting concerns this kind of bottleneck, and its instance is part of what is the bottleneck, or the
/// bottleneck part of it.
fn is_related(check: &HostCheck, item: &AdviceItem, host: &HostFacts, trouble: &HostTrouble) -> bool {
    if !check.bears_on.contains(&trouble.bottleneck) {
        return false;
    }
    // a cgroup's trouble may name a disk too: `group@sda`
    let (group, disk) = trouble.instance.split_once('@').unwrap_or((&trouble.instance, &trouble.instance));
    let is_about = |device: &str| are_stacked(host, device, disk);
    match check.object {
        _ if trouble.instance.is_empty() => true,
        CheckObject::Host => true,
        CheckObject::Disk | CheckObject::Partition | CheckObject::Md | CheckObject::Mapped => is_about(&item.instance),
        CheckObject::Filesystem => {
            let source = host.mount_at(&item.instance).map(|mount| mount.source.trim_start_matches("/dev/"));
            let of_topology = host.topology.filesystems.iter().filter(|known| known.mount == item.instance);
            of_topology.map(|known| known.device.as_str()).chain(source).any(is_about)
        }
        CheckObject::Cgroup => {
            let own = without_controller(&item.instance);
            is_within(own, group) || is_within(group, own)
        }
    }
}

/// True if one of two devices stands on the other.
fn are_stacked(host: &HostFacts, one: &str, other: &str) -> bool {
    let is_below = |upper: &str, lower: &str| {
        host.topology.stands_on(upper, lower)
            || host.find_device(upper).is_some_and(|device| device.below.iter().any(|below| below == lower))
    };
    one == other || is_below(one, other) || is_below(other, one)
}

/// Folders of the version 1 cgroup controllers whose limits are checked. A verdict names groups without these folders.
const CONTROLLERS: [&str; 5] = ["cpu", "cpuacct", "cpu,cpuacct", "cpuacct,cpu", "memory"];

/// The path of a cgroup without the controller of version 1: `/cpu/web` is the group `/web`.
fn without_controller(group: &str) -> &str {
    let rest = |name: &&str| group.strip_prefix('/')?.strip_prefix(*name).filter(|rest| rest.starts_with('/'));
    CONTROLLERS.iter().find_map(rest).unwrap_or(group)
}

/// True if a cgroup is another one or lies in it.
fn is_within(group: &str, parent: &str) -> bool {
    let (group, parent) = (group.trim_matches('/'), parent.trim_matches('/'));
    group.strip_prefix(parent).is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || parent.is_empty())
}

#[cfg(test)]
mod tests {
    use diskwright_base::{Device, DeviceKind, Filesystem, Topology};

    use super::*;
    use crate::check::AdviceSeverity;
    use crate::host_tree::HostTree;

    /// A host with two disks, a partition on the first with a filesystem, and statistics switched off.
    fn host() -> HostFacts {
        let disk = |name: &str| Device { name: name.into(), ..Device::default() };
        let part =
            Device { name: "sda1".into(), kind: DeviceKind::Partition, below: vec!["sda".into()], ..Device::default() };
        let data = Filesystem { mount: "/data".into(), device: "sda1".into(), ..Filesystem::default() };
        let topology =
            Topology { devices: vec![disk("sda"), disk("sdb"), part], filesystems: vec![data], ..Topology::default() };
        HostFacts::from_facts(HostTree::default(), topology, None)
    }

    fn item(check: &str, instance: &str) -> AdviceItem {
        let severity = if check == "filesystem.inodes" { AdviceSeverity::Critical } else { AdviceSeverity::Info };
        crate::advice::tests::made_up_item(check, instance, severity)
    }

    fn order(troubles: &[(&str, &str)]) -> Vec<(String, Option<String>)> {
        let items = [
            ("filesystem.inodes", "/"),
            ("queue.scheduler", "sda"),
            ("queue.scheduler", "sdb"),
            ("filesystem.access-times", "/data"),
            ("memory.swappiness", ""),
            ("limit.group-memory", "/web/one"),
            ("limit.group-processors", "/cpu,cpuacct/web"),
        ];
        let mut advice = HostAdvice {
            items: items.map(|(check, instance)| item(check, instance)).to_vec(),
            ..HostAdvice::default()
        };
        let troubles: Vec<HostTrouble> = troubles
            .iter()
            .map(|(bottleneck, instance)| HostTrouble {
                bottleneck: (*bottleneck).into(),
                instance: (*instance).into(),
            })
            .collect();
        advice.put_related_first(&host(), &troubles);
        advice.items.into_iter().map(|item| (item.id, item.bears_on)).collect()
    }

    #[test]
    fn items_of_the_blamed_disk_come_first_and_those_of_another_disk_do_not() {
        let sorted = order(&[("disk", "sda")]);
        let related: Vec<&str> = sorted.iter().filter(|(_, on)| on.is_some()).map(|(id, _)| id.as_str()).collect();
        assert_eq!(related, ["filesystem.access-times@/data", "queue.scheduler@sda"]);
        assert_eq!(sorted[0].1.as_deref(), Some("disk sda"));
        assert_eq!(sorted[2].0, "filesystem.inodes@/", "then as without a verdict");
    }

    #[test]
    fn a_second_bottleneck_counts_and_a_group_relates_to_the_groups_around_it_only() {
        let related = |troubles: &[(&str, &str)]| -> Vec<String> {
            order(troubles).into_iter().filter(|(_, on)| on.is_some()).map(|(id, _)| id).collect()
        };
        assert_eq!(related(&[("memory", "/web")]), ["memory.swappiness", "limit.group-memory@/web/one"]);
        assert_eq!(related(&[("memory", "/webserver")]), ["memory.swappiness"]);
        assert_eq!(
            related(&[("throttle", "/web")]),
            ["limit.group-memory@/web/one", "limit.group-processors@/cpu,cpuacct/web"]
        );
        assert_eq!(
            related(&[("cpu", ""), ("disk", "sdb")]),
            ["queue.scheduler@sdb", "limit.group-processors@/cpu,cpuacct/web"]
        );
        assert!(related(&[("network", "eth0")]).is_empty() && related(&[]).is_empty());
    }

    #[test]
    fn every_named_bottleneck_is_one_of_a_verdict() {
        let known =
            ["memory", "disk", "cpu", "interrupts", "channel", "controller", "network", "application", "throttle"];
        for check in CHECKS.iter() {
            assert!(
                check.bears_on.iter().all(|name| known.contains(&name.as_str())),
                "{}: {:?}",
                check.id,
                check.bears_on
            );
        }
    }
}
