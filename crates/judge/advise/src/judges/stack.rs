//! Layers between disks and filesystems: alignment through md and the device mapper, snapshots, encryption, the stripe
//! cache, XFS.

use diskwright_base::DeviceKind;

use super::{absent_or_unknown, format_bytes, unknown_fact};
use crate::check::{CheckOutcome, Proposal};
use crate::host_facts::{HostFacts, sysfs_name};

/// Returns the start of a device on its disk, in sectors, and the disk; or the missing file.
fn start_sector<'a>(host: &'a HostFacts, device: &'a str) -> Result<(f64, &'a str), String> {
    let Some(partition) = host.find_device(device).filter(|found| found.kind == DeviceKind::Partition) else {
        return Ok((0.0, device));
    };
    let Some(disk) = partition.below.first() else { return Ok((0.0, device)) };
    let path = format!("sys/block/{}/{}/start", sysfs_name(disk), sysfs_name(device));
    host.tree.number_in(&path).map(|start| (start, disk.as_str())).ok_or(path)
}

/// Judges the alignment of an array's members.
pub(super) fn judge_array_alignment(host: &HostFacts, array: &str) -> CheckOutcome {
    let folder = format!("sys/block/{}/md", sysfs_name(array));
    let members: Vec<&str> =
        host.tree.names_in(&folder).into_iter().filter_map(|name| name.strip_prefix("dev-")).collect();
    if members.is_empty() {
        return unknown_fact(host, &format!("{folder}/dev-*/offset"));
    }
    let mut seen = Vec::new();
    for member in members {
        let path = format!("{folder}/dev-{member}/offset");
        let Some(offset) = host.tree.number_in(&path) else { return unknown_fact(host, &path) };
        let name = member.replace('!', "/");
        let (start, disk) = match start_sector(host, &name) {
            Ok(start_and_disk) => start_and_disk,
            Err(path) => return unknown_fact(host, &path),
        };
        let Some(block) = host.queue_number(disk, "physical_block_size") else {
            return unknown_fact(host, &format!("sys/block/{}/queue/physical_block_size", sysfs_name(disk)));
        };
        // the first block of some disks begins before the first sector
        let first_block = host.block_number(disk, "alignment_offset").unwrap_or(0.0);
        let misalignment = ((start + offset) * 512.0 - first_block).rem_euclid(block.max(512.0));
        if misalignment != 0.0 {
            seen.push(format!(
                "data on {name} starts {misalignment:.0} bytes into a block of {block:.0} bytes of {disk}"
            ));
        }
    }
    if seen.is_empty() { CheckOutcome::Good } else { Proposal::new(seen.join("; ")).into_outcome() }
}

/// Judges the alignment of a mapped device.
pub(super) fn judge_mapped_alignment(host: &HostFacts, device: &str) -> CheckOutcome {
    let path = format!("sys/block/{}/alignment_offset", sysfs_name(device));
    match host.tree.get(&path) {
        None => absent_or_unknown(host, &path),
        Some("0") => CheckOutcome::Good,
        // the kernel writes -1 if no offset aligns the blocks
        Some("-1") => {
            Proposal::new("its blocks do not fit those of the disks below it (alignment_offset is -1)").into_outcome()
        }
        Some(_) => match host.tree.number_in(&path) {
            Some(bytes) => Proposal::new(format!("alignment_offset is {bytes:.0}")).into_outcome(),
            None => unknown_fact(host, &path),
        },
    }
}

/// Returns the UUID of a mapped device, or the outcome if it is not known.
fn uuid<'a>(host: &'a HostFacts, device: &str) -> Result<&'a str, Box<CheckOutcome>> {
    let path = format!("sys/block/{}/dm/uuid", sysfs_name(device));
    host.tree.get(&path).ok_or_else(|| Box::new(unknown_fact(host, &path)))
}

/// Judges a snapshot of a mapped device.
pub(super) fn judge_snapshot(host: &HostFacts, device: &str) -> CheckOutcome {
    match uuid(host, device) {
        Err(outcome) => *outcome,
        // LVM gives this name to the space for copied blocks; snapshots of thin volumes have no such space
        Ok(uuid) if uuid.starts_with("LVM-") && uuid.ends_with("-cow") => {
            let name = host.block_file(device, "dm/name").unwrap_or(device);
            Proposal::new(format!("{name} keeps the copied blocks of a snapshot")).into_outcome()
        }
        Ok(_) => CheckOutcome::Good,
    }
}

/// Judges the sector size of encryption.
pub(super) fn judge_crypt_sectors(host: &HostFacts, device: &str) -> CheckOutcome {
    // only LUKS can change the sector size; its first version has only sectors of 512 bytes
    let version = match uuid(host, device) {
        Err(outcome) => return *outcome,
        Ok(uuid) if uuid.starts_with("CRYPT-LUKS2-") => 2,
        Ok(uuid) if uuid.starts_with("CRYPT-LUKS1-") => 1,
        Ok(_) => return CheckOutcome::Absent,
    };
    let size = |file: &str| {
        let path = format!("sys/block/{}/queue/{file}", sysfs_name(device));
        host.tree.number_in(&path).ok_or_else(|| Box::new(unknown_fact(host, &path)))
    };
    // dm-crypt shows the size of its sectors as the logical block size
    match (size("logical_block_size"), size("physical_block_size")) {
        (Err(outcome), _) | (_, Err(outcome)) => *outcome,
        (Ok(logical), Ok(physical)) if logical < 4096.0 && physical >= 4096.0 => {
            let load = host.disk_load(device).filter(|load| load.busy_share() > 0.01);
            let evidence = load.map(|load| {
                (
                    format!("the device was busy {} of the time", super::format_percent(load.busy_share())),
                    load.busy_share(),
                )
            });
            let seen = format!("it encrypts {logical:.0} bytes at a time, on blocks of {physical:.0} bytes");
            let mut proposal = Proposal::new(seen).with_evidence(evidence);
            if version == 1 {
                proposal.apply = Some(LUKS1_ADVICE.into());
            }
            super::lower_to_info(proposal).into_outcome()
        }
        _ => CheckOutcome::Good,
    }
}

const LUKS1_ADVICE: &str =
    "LUKS1 always uses sectors of 512 bytes. When you set up the disk again, use LUKS2: it adapts to the disk.";

/// The kernel's default size of the stripe cache, stripes.
const DEFAULT_STRIPES: f64 = 256.0;
/// Largest size of the stripe cache that the kernel accepts, stripes.
const MAX_STRIPES: f64 = 32_768.0;

/// Judges the stripe cache of an array.
pub(super) fn judge_stripe_cache(host: &HostFacts, array: &str) -> CheckOutcome {
    if !host.block_file(array, "md/level").is_some_and(|level| matches!(level, "raid4" | "raid5" | "raid6")) {
        return CheckOutcome::Absent;
    }
    let path = |file: &str| format!("sys/block/{}/md/{file}", sysfs_name(array));
    let number = |file: &str| host.tree.number_in(&path(file)).ok_or_else(|| Box::new(unknown_fact(host, &path(file))));
    let (stripes, active, disks) =
        match (number("stripe_cache_size"), number("stripe_cache_active"), number("raid_disks")) {
            (Ok(stripes), Ok(active), Ok(disks)) => (stripes, active, disks),
            (Err(outcome), ..) | (_, Err(outcome), _) | (.., Err(outcome)) => return *outcome,
        };
    let cache_bytes = |stripes: f64| stripes * disks * 4096.0;
    if host.memory_bytes().is_some_and(|memory| cache_bytes(stripes) > 0.05 * memory) {
        let seen = format!("{stripes:.0} stripes of {disks:.0} pages reserve {}", format_bytes(cache_bytes(stripes)));
        return Proposal::new(seen).with_good("at most a twentieth of memory").with_value("256").into_outcome();
    }
    if stripes < DEFAULT_STRIPES {
        return Proposal::new(format!("{stripes:.0} stripes")).with_value("256").into_outcome();
    }
    let proposed = (4.0 * stripes).min(MAX_STRIPES);
    let is_affordable = host.memory_bytes().is_some_and(|memory| cache_bytes(proposed) <= 0.01 * memory);
    if active < 0.9 * stripes || proposed <= stripes || !is_affordable {
        return CheckOutcome::Good;
    }
    let seen = format!(
        "{active:.0} of {stripes:.0} stripes were in use; {proposed:.0} would take {}",
        format_bytes(cache_bytes(proposed))
    );
    super::lower_to_info(Proposal::new(seen).with_value(format!("{proposed:.0}"))).into_outcome()
}

/// Judges whether an XFS filesystem fails pending writes when it is unmounted (`fail_at_unmount`).
pub(super) fn judge_xfs_unmount(host: &HostFacts, point: &str) -> CheckOutcome {
    if host.mount_at(point).is_none_or(|mount| mount.kind != "xfs") {
        return CheckOutcome::Absent;
    }
    let filesystem = host.topology.filesystems.iter().find(|filesystem| filesystem.mount == point);
    let Some(device) = filesystem.map(|filesystem| filesystem.device.as_str()).filter(|device| !device.is_empty())
    else {
        return CheckOutcome::Unknown(format!("the device of {point} is not known"));
    };
    let path = format!("sys/fs/xfs/{}/error/fail_at_unmount", sysfs_name(device));
    match host.tree.get(&path) {
        None => unknown_fact(host, &path),
        Some("0") => {
            let mut proposal = Proposal::new(format!("fail_at_unmount of {device} is 0"));
            proposal.writes = vec![(path, "1".into())];
            proposal.into_outcome()
        }
        Some(_) => CheckOutcome::Good,
    }
}
