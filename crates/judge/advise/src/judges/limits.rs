//! Limits that are nearly reached, error counts, trims, scheduled checks, paths.

use diskwright_base::diskstats;
use diskwright_base::units::format_count;
use diskwright_base::{Device, DeviceClass, DeviceKind};

use super::{absent_or_unknown, format_percent, shorten_text, unknown_fact};
use crate::check::{AdviceSeverity, CheckOutcome, Proposal};
use crate::host_facts::{HostFacts, sysfs_name};
use crate::host_tree::{TreeGap, first_number};

/// Share of a limit from which it counts as nearly reached.
const CLOSE_SHARE: f64 = 0.8;

/// Judges the limit of asynchronous I/O.
pub(super) fn judge_aio(host: &HostFacts, _: &str) -> CheckOutcome {
    let Some(used) = host.sysctl_number("fs.aio-nr") else { return unknown_fact(host, "proc/sys/fs/aio-nr") };
    let Some(limit) = host.sysctl_number("fs.aio-max-nr") else {
        return unknown_fact(host, "proc/sys/fs/aio-max-nr");
    };
    // a limit of zero disables asynchronous I/O on purpose
    if used == 0.0 || used < CLOSE_SHARE * limit {
        return CheckOutcome::Good;
    }
    Proposal::new(format!("{used:.0} of {limit:.0} are reserved"))
        .with_value(format!("{:.0}", 2.0 * used.max(limit)))
        .into_outcome()
}

/// Judges the limit of open files.
pub(super) fn judge_files(host: &HostFacts, _: &str) -> CheckOutcome {
    let Some(used) = host.sysctl_number("fs.file-nr") else { return unknown_fact(host, "proc/sys/fs/file-nr") };
    let Some(limit) = host.sysctl_number("fs.file-max") else { return unknown_fact(host, "proc/sys/fs/file-max") };
    if used < CLOSE_SHARE * limit {
        return CheckOutcome::Good;
    }
    Proposal::new(format!("{used:.0} of {limit:.0} are open"))
        .with_value(format!("{:.0}", 2.0 * used.max(limit)))
        .into_outcome()
}

/// First kernel with pressure stall information: 4.20, but distributions have ported it back to 4.18.
const PRESSURE_SINCE: (u32, u32) = (4, 18);

/// Returns `3.10` of `3.10.0-1160.el7.x86_64`.
fn kernel_version(host: &HostFacts) -> Option<(u32, u32)> {
    diskstats::kernel_version(host.tree.get("proc/sys/kernel/osrelease")?)
}

/// Judges whether pressure stall information is available.
pub(super) fn judge_pressure(host: &HostFacts, _: &str) -> CheckOutcome {
    let path = "proc/pressure/io";
    match host.tree.text_of(path) {
        Ok(_) => return CheckOutcome::Good,
        Err(TreeGap::Refused(_)) => return unknown_fact(host, path),
        Err(TreeGap::Absent) => {}
    }
    // a few copied files do not show what the kernel lacks
    if host.tree.get("proc/cmdline").is_none() {
        return unknown_fact(host, path);
    }
    match kernel_version(host) {
        // no setting of such a kernel helps
        Some(version) if version < PRESSURE_SINCE => CheckOutcome::Absent,
        _ => {
            let command_line = host.tree.get("proc/cmdline").unwrap_or_default();
            let off_word = command_line.split_whitespace().find(|word| matches!(*word, "psi=0" | "psi=off" | "psi=n"));
            let mut proposal = Proposal::new("/proc/pressure/io is missing or turned off");
            proposal.apply = off_word.map(|word| format!("Remove {word} from the kernel's command line and restart."));
            proposal.into_outcome()
        }
    }
}

/// Returns the number that follows a name, in a file with a name and a number on each line.
pub(super) fn named_count(text: &str, name: &str) -> Option<f64> {
    let parse_line = |line: &str| first_number(line.strip_prefix(name)?.strip_prefix(' ')?);
    text.lines().find_map(parse_line)
}

pub(super) fn missing_group_file(host: &HostFacts, group: &str, file: &str) -> CheckOutcome {
    absent_or_unknown(host, &format!("sys/fs/cgroup{}/{file}", group.trim_end_matches('/')))
}

pub(super) fn group_file<'a>(host: &'a HostFacts, group: &str, file: &str) -> Option<&'a str> {
    host.tree.get(&format!("sys/fs/cgroup{}/{file}", group.trim_end_matches('/')))
}

/// Judges the processor limit of a cgroup.
pub(super) fn judge_group_processors(host: &HostFacts, group: &str) -> CheckOutcome {
    let Some(text) = group_file(host, group, "cpu.stat") else { return missing_group_file(host, group, "cpu.stat") };
    let (Some(periods), Some(throttled)) = (named_count(text, "nr_periods"), named_count(text, "nr_throttled")) else {
        // the controller is off, so processors are not limited
        return CheckOutcome::Absent;
    };
    // fewer than 600 periods of 100 ms, a minute, are too few to judge
    if periods < 600.0 || throttled < 0.1 * periods {
        return CheckOutcome::Good;
    }
    let share = format_percent(throttled / periods);
    // in version 1 the quota is in another file, negative if there is none
    let limit_in = |file: &'static str| Some((file, group_file(host, group, file)?));
    match limit_in("cpu.max").or_else(|| limit_in("cpu.cfs_quota_us")) {
        // the limit that throttled it has been removed
        Some((_, limit)) if limit.starts_with("max") || limit.starts_with('-') => CheckOutcome::Good,
        Some((file, limit)) => {
            let limit = shorten_text(limit);
            Proposal::new(format!("stopped in {share} of its periods since it was created; {file} is {limit}"))
                .into_outcome()
        }
        None => Proposal::new(format!("stopped in {share} of its periods since it was created")).into_outcome(),
    }
}

/// Returns the block device of a mounted filesystem, if it has one.
fn mounted_device<'a>(host: &'a HostFacts, point: &str) -> Option<&'a str> {
    let filesystem = host.topology.filesystems.iter().find(|filesystem| filesystem.mount == point);
    filesystem.map(|filesystem| filesystem.device.as_str()).filter(|device| !device.is_empty())
}

/// Judges errors of an ext4 filesystem.
pub(super) fn judge_ext4_errors(host: &HostFacts, point: &str) -> CheckOutcome {
    let is_ext4 = host.mount_at(point).is_some_and(|mount| mount.kind == "ext4");
    let Some(device) = mounted_device(host, point).filter(|_| is_ext4) else { return CheckOutcome::Absent };
    let path = format!("sys/fs/ext4/{}/errors_count", sysfs_name(device));
    match host.tree.number_in(&path) {
        None => unknown_fact(host, &path),
        Some(0.0) => CheckOutcome::Good,
        Some(errors) => {
            let errors = format_count(errors, "error", "errors");
            Proposal::new(format!("{errors} of {device} since the last complete fsck")).into_outcome()
        }
    }
}

/// Judges errors of btrfs filesystems.
pub(super) fn judge_btrfs_errors(host: &HostFacts, _: &str) -> CheckOutcome {
    let folder = "sys/fs/btrfs";
    let is_used = host.mounts.iter().any(|mount| mount.kind == "btrfs");
    let (mut seen, mut has_counts) = (Vec::new(), false);
    for volume in host.tree.names_in(folder) {
        for number in host.tree.names_in(&format!("{folder}/{volume}/devinfo")) {
            let text = host.tree.get(&format!("{folder}/{volume}/devinfo/{number}/error_stats")).unwrap_or_default();
            has_counts |= !text.is_empty();
            let is_nonzero =
                |line: &&str| line.split_once(' ').and_then(|(_, n)| first_number(n)).is_some_and(|n| n > 0.0);
            let counts: Vec<&str> = text.lines().filter(is_nonzero).collect();
            if !counts.is_empty() {
                seen.push(format!("device {number} of {volume}: {}", counts.join(", ")));
            }
        }
    }
    match (seen.is_empty(), has_counts) {
        (false, _) => Proposal::new(seen.join("; ")).into_outcome(),
        (true, true) => CheckOutcome::Good,
        (true, false) if is_used => unknown_fact(host, &format!("{folder}/*/devinfo/*/error_stats")),
        (true, false) => CheckOutcome::Absent,
    }
}

/// Filesystems that can trim free space.
const TRIMMING_FILESYSTEMS: &[&str] = &["ext4", "xfs", "btrfs", "f2fs"];
/// Files left by `systemctl enable fstrim.timer` and older packages.
const TRIM_SCHEDULES: &[&str] = &[
    "etc/systemd/system/timers.target.wants/fstrim.timer",
    "usr/lib/systemd/system/timers.target.wants/fstrim.timer",
    "etc/cron.weekly/fstrim",
];

fn has_schedule(host: &HostFacts, files: &[&str]) -> bool {
    files.iter().any(|file| host.tree.has_any_below(file))
}

/// Returns the outcome "unknown" if the folder of schedules is not visible, so that no schedule can be seen.
fn schedule_unknown(host: &HostFacts) -> Option<CheckOutcome> {
    if host.is_container() {
        return Some(CheckOutcome::Unknown("a container does not show the schedules of its host".into()));
    }
    let is_visible = host.tree.has_any_below("etc");
    (!is_visible).then(|| CheckOutcome::Unknown("/etc, where schedules are, is not known".into()))
}

/// Maximum size of a trim for a device, bytes; 0 if it supports none.
fn max_discard_bytes(host: &HostFacts, device: &str) -> Option<f64> {
    host.queue_number(device, "discard_max_bytes")
}

fn are_all_flash(host: &HostFacts, disks: &[&str]) -> bool {
    let is_flash = |disk: &&str| matches!(host.device_class(disk), DeviceClass::Flash | DeviceClass::Nvme);
    !disks.is_empty() && disks.iter().all(is_flash)
}

/// Judges whether a device passes trims on to its disks, if all of them are flash.
fn judge_passed_discards(host: &HostFacts, device: &str) -> CheckOutcome {
    let mut disks = host.topology.leaves_under(device);
    disks.sort_unstable();
    if !are_all_flash(host, &disks) {
        return CheckOutcome::Absent;
    }
    for name in std::iter::once(device).chain(disks.iter().copied()) {
        if max_discard_bytes(host, name).is_none() {
            return unknown_fact(host, &format!("sys/block/{}/queue/discard_max_bytes", sysfs_name(name)));
        }
    }
    let supports_trims = |name: &str| max_discard_bytes(host, name).is_some_and(|max_bytes| max_bytes > 0.0);
    match (supports_trims(device), disks.iter().all(|disk| supports_trims(disk))) {
        (true, _) => CheckOutcome::Good,
        (false, false) => CheckOutcome::Absent,
        (false, true) => super::lower_to_info(Proposal::new(format!(
            "it passes no trims on (discard_max_bytes is 0), though {} support{} them",
            disks.join(", "),
            if disks.len() == 1 { "s" } else { "" }
        )))
        .into_outcome(),
    }
}

/// Judges whether an array passes trims to its members.
pub(super) fn judge_array_discard(host: &HostFacts, array: &str) -> CheckOutcome {
    match host.block_file(array, "md/level") {
        None => unknown_fact(host, &format!("sys/block/{array}/md/level")),
        // other levels pass on what their members support
        Some("raid4" | "raid5" | "raid6") => judge_passed_discards(host, array),
        Some(_) => CheckOutcome::Absent,
    }
}

/// Judges whether a mapped device passes trims on.
pub(super) fn judge_mapped_discard(host: &HostFacts, device: &str) -> CheckOutcome {
    match host.block_file(device, "dm/uuid") {
        None => unknown_fact(host, &format!("sys/block/{device}/dm/uuid")),
        // encryption hides free blocks on purpose; a part of a volume is not used directly
        Some(uuid) if uuid.starts_with("LVM-") && !is_lvm_part(uuid) => judge_passed_discards(host, device),
        Some(_) => CheckOutcome::Absent,
    }
}

/// Returns true for a part of an LVM volume: its UUID has a word after the ids of the group and the volume.
fn is_lvm_part(uuid: &str) -> bool {
    const LENGTH_WITH_IDS: usize = "LVM-".len() + 2 * 32;
    uuid.len() > LENGTH_WITH_IDS
}

/// Judges whether a filesystem on flash is trimmed.
pub(super) fn judge_trim(host: &HostFacts, point: &str) -> CheckOutcome {
    let Some(mount) = host.mount_at(point).filter(|mount| TRIMMING_FILESYSTEMS.contains(&mount.kind.as_str())) else {
        return CheckOutcome::Absent;
    };
    let Some(device) = mounted_device(host, point) else { return CheckOutcome::Absent };
    let leaves = host.topology.leaves_under(device);
    if !are_all_flash(host, &leaves) || mount.flags.split(',').any(|f| f == "ro") {
        return CheckOutcome::Absent;
    }
    // an array or a mapped device may block trims; a partition has no queue
    let is_partition = |device: &&Device| device.kind == DeviceKind::Partition;
    let whole_device = host.find_device(device).filter(is_partition).and_then(|partition| partition.below.first());
    let whole_device = whole_device.map_or(device, String::as_str);
    let Some(max_bytes) = max_discard_bytes(host, whole_device) else {
        return unknown_fact(host, &format!("sys/block/{}/queue/discard_max_bytes", sysfs_name(whole_device)));
    };
    let is_mounted_with_discard =
        mount.options.split(',').any(|option| option == "discard" || option.starts_with("discard="));
    if max_bytes == 0.0 || is_mounted_with_discard || has_schedule(host, TRIM_SCHEDULES) {
        return CheckOutcome::Good;
    }
    if let Some(outcome) = schedule_unknown(host) {
        return outcome;
    }
    let disks = leaves.join(", ");
    let mut proposal = Proposal::new(match leaves.len() {
        1 => format!("{disks} supports trimming, but no known schedule trims it"),
        _ => format!("{disks} support trimming, but no known schedule trims them"),
    });
    if !host.may_have_systemd() {
        proposal.apply = Some("Run `fstrim --all` once a week, for example from cron.".into());
        proposal.undo = Some("Remove that line again.".into());
    }
    proposal.into_outcome()
}

/// Files with which distributions schedule checks of arrays.
const SCRUB_SCHEDULES: &[&str] = &[
    "etc/cron.d/mdadm",
    "etc/cron.d/raid-check",
    "etc/systemd/system/timers.target.wants/mdcheck_start.timer",
    "etc/systemd/system/timers.target.wants/raid-check.timer",
    "usr/lib/systemd/system/timers.target.wants/raid-check.timer",
    "etc/systemd/system/mdmonitor.service.wants/mdcheck_start.timer",
];

/// Judges whether an array is checked regularly.
pub(super) fn judge_scrub(host: &HostFacts, array: &str) -> CheckOutcome {
    let Some(level) = host.block_file(array, "md/level") else {
        return unknown_fact(host, &format!("sys/block/{array}/md/level"));
    };
    if !matches!(level, "raid1" | "raid4" | "raid5" | "raid6" | "raid10") {
        return CheckOutcome::Absent;
    }
    if has_schedule(host, SCRUB_SCHEDULES) {
        return CheckOutcome::Good;
    }
    schedule_unknown(host)
        .unwrap_or_else(|| Proposal::new("none of the usual schedules checks the array").into_outcome())
}

const SINGLE_PATH_ADVICE: &str = "If {instance} is a disk inside this host, exclude it in /etc/multipath.conf; \
                           otherwise find \
                           out why it has no second path (zones, cables, ports).";

/// Judges the number of paths of a multipath device.
pub(super) fn judge_paths(host: &HostFacts, device: &str) -> CheckOutcome {
    let Some(uuid) = host.block_file(device, "dm/uuid") else {
        return unknown_fact(host, &format!("sys/block/{device}/dm/uuid"));
    };
    if !uuid.starts_with("mpath-") {
        return CheckOutcome::Absent;
    }
    let paths = host.tree.names_in(&format!("sys/block/{}/slaves", sysfs_name(device)));
    if paths.is_empty() {
        return unknown_fact(host, &format!("sys/block/{device}/slaves"));
    }
    let is_working =
        |path: &&&str| host.block_file(path, "device/state").is_none_or(|state| matches!(state, "running" | "live"));
    match (paths.iter().filter(is_working).count(), paths.len()) {
        (working, _) if working >= 2 => CheckOutcome::Good,
        // a disk in this host that the multipath daemon took over by mistake has no second path
        (1, 1) => {
            let proposal = Proposal::new("it has a single path").with_severity(AdviceSeverity::Notice);
            let apply = Some(SINGLE_PATH_ADVICE.replace("{instance}", device));
            Proposal { apply, ..proposal }.into_outcome()
        }
        (working, total) => Proposal::new(format!("{working} of {total} paths work")).into_outcome(),
    }
}

/// Judges the number of threads that compute an array's parity.
pub(super) fn judge_threads(host: &HostFacts, array: &str) -> CheckOutcome {
    if !host.block_file(array, "md/level").is_some_and(|level| matches!(level, "raid4" | "raid5" | "raid6")) {
        return CheckOutcome::Absent;
    }
    let Some(threads) = host.block_number(array, "md/group_thread_cnt") else {
        return unknown_fact(host, &format!("sys/block/{array}/md/group_thread_cnt"));
    };
    // one thread suffices for rotating disks
    if threads > 0.0 || !matches!(host.device_class(array), DeviceClass::Flash | DeviceClass::Nvme) {
        return CheckOutcome::Good;
    }
    let load = host.disk_load(array).filter(|load| load.busy_share() > 0.05 && load.writes > 0.0);
    let evidence = load.map(|load| {
        (format!("the array was busy {} of the time", format_percent(load.busy_share())), load.busy_share())
    });
    super::lower_to_info(Proposal::new("one thread computes parity").with_value("4").with_evidence(evidence))
        .into_outcome()
}
