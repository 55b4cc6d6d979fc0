//! Links and power saving: the speed of SATA and USB, the power saving of links, the frequency of processors.

use diskwright_base::DeviceClass;
use diskwright_base::text::quote_for_shell;

use super::{absent_or_unknown, format_percent, unknown_fact};
use crate::check::{AdviceSeverity, CheckOutcome, Proposal};
use crate::host_facts::HostFacts;

/// Returns the folder of a disk's ATA port, `…/ata1`, and the number of its SCSI host, `0` of `host0`.
fn ata_port<'a>(host: &'a HostFacts, disk: &str) -> Option<(&'a str, &'a str)> {
    let path = host.device_path(disk)?;
    let (port, tail) = path.split_once("/host")?;
    let number = tail.split('/').next()?;
    let is_port = port.rsplit('/').next()?.strip_prefix("ata").is_some_and(|n| n.parse::<u32>().is_ok());
    is_port.then_some((port, number))
}

/// Judges the speed of a SATA link.
pub(super) fn judge_sata(host: &HostFacts, disk: &str) -> CheckOutcome {
    let Some((port, _)) = ata_port(host, disk) else { return CheckOutcome::Absent };
    let links: Vec<&str> = host.tree.names_in(port).into_iter().filter(|name| name.starts_with("link")).collect();
    let [link] = links.as_slice() else {
        return CheckOutcome::Unknown(format!(
            "/{port} shows {} links, so it is unclear which is the disk's",
            links.len()
        ));
    };
    let folder = format!("{port}/{link}/ata_link/{link}");
    let speed = |file: &str| host.tree.number_in(&format!("{folder}/{file}"));
    // a speed reads `<unknown>` if the link is down or nothing limits it
    let Some(now) = speed("sata_spd") else { return unknown_fact(host, &format!("{folder}/sata_spd")) };
    let (max_rate, limit) = (speed("hw_sata_spd_limit"), speed("sata_spd_limit"));
    if let Some(limit) = limit.filter(|limit| max_rate.is_none_or(|max_rate| *limit < max_rate)) {
        let seen = format!("the link runs at {now} Gbit/s; the kernel or its command line limits it to {limit}");
        return match limit < 6.0 {
            true => Proposal::new(seen).with_severity(AdviceSeverity::Warning).into_outcome(),
            false => CheckOutcome::Good,
        };
    }
    // a rotating disk is slower than 3 Gbit/s, and an old one supports no more
    match max_rate {
        Some(max_rate) if now < max_rate && host.device_class(disk) == DeviceClass::Flash => {
            Proposal::new(format!("the link runs at {now} Gbit/s of the port's {max_rate}")).into_outcome()
        }
        _ => CheckOutcome::Good,
    }
}

/// Judges the speed of a USB connection.
pub(super) fn judge_usb(host: &HostFacts, disk: &str) -> CheckOutcome {
    let Some(path) = host.device_path(disk) else { return CheckOutcome::Absent };
    if !path.contains("/usb") {
        return CheckOutcome::Absent;
    }
    // the nearest folder with a speed is the device's; those above belong to hubs
    let mut folder = path;
    let speed = loop {
        let Some((parent, _)) = folder.rsplit_once('/') else { return unknown_fact(host, &format!("{path}/speed")) };
        folder = parent;
        if let Some(speed) = host.tree.number_in(&format!("{folder}/speed")) {
            break speed;
        }
    };
    let Some(version) = host.tree.number_in(&format!("{folder}/version")) else {
        return unknown_fact(host, &format!("{folder}/version"));
    };
    // a USB 3 device reports 2.10 while it runs at USB 2 speed (USB 3.2, 9.6.1)
    if speed > 480.0 || version < 2.1 {
        return CheckOutcome::Good;
    }
    Proposal::new(format!("runs at {speed} Mbit/s; its version suggests a USB 3 device on a USB 2 port")).into_outcome()
}

/// Judges power saving of a link.
pub(super) fn judge_power(host: &HostFacts, disk: &str) -> CheckOutcome {
    let Some((_, number)) = ata_port(host, disk) else { return CheckOutcome::Absent };
    let path = format!("sys/class/scsi_host/host{number}/link_power_management_policy");
    let Some(policy) = host.tree.get(&path) else { return unknown_fact(host, &path) };
    if !matches!(policy, "min_power" | "min_power_with_partial" | "med_power_with_dipm" | "medium_power") {
        return CheckOutcome::Good;
    }
    let load = host.disk_load(disk).filter(|load| load.busy_share() > 0.01);
    let evidence = load.map(|load| {
        (format!("the disk was busy {} of the time", format_percent(load.busy_share())), load.busy_share())
    });
    let mut proposal = Proposal::new(format!("the policy is {policy}")).with_evidence(evidence);
    proposal.writes = vec![(path, "max_performance".into())];
    super::lower_to_info(proposal).into_outcome()
}

/// Drivers of processors that choose their frequency themselves; `powersave` is the default mode of these drivers.
const SELF_GOVERNING_DRIVERS: &[&str] = &["intel_pstate", "amd-pstate-epp"];

/// Judges the frequency governors of the processors.
pub(super) fn judge_governor(host: &HostFacts, _: &str) -> CheckOutcome {
    let folder = "sys/devices/system/cpu/cpufreq";
    let policies: Vec<&str> =
        host.tree.names_in(folder).into_iter().filter(|name| name.starts_with("policy")).collect();
    if policies.is_empty() {
        return absent_or_unknown(host, folder);
    }
    let (mut writes, mut seen, policy_count) = (Vec::new(), "", policies.len());
    for policy in policies {
        let file = |name: &str| format!("{folder}/{policy}/{name}");
        let (governor, preference) = (file("scaling_governor"), file("energy_performance_preference"));
        let Some(now) = host.tree.get(&governor) else { return unknown_fact(host, &governor) };
        let Some(driver) = host.tree.get(&file("scaling_driver")) else {
            return unknown_fact(host, &file("scaling_driver"));
        };
        let preferred = host.tree.get(&preference).unwrap_or_default();
        if now == "powersave" && !SELF_GOVERNING_DRIVERS.contains(&driver) {
            seen = "the governor is powersave, which keeps the processors at their lowest frequency";
            writes.push((governor, "performance".into()));
        } else if SELF_GOVERNING_DRIVERS.contains(&driver) && preferred == "power" {
            seen = "energy_performance_preference is power";
            writes.push((preference, "balance_performance".into()));
        }
    }
    if writes.is_empty() {
        return CheckOutcome::Good;
    }
    let mut proposal = Proposal::new(seen);
    // if all policies get the same change, one command with a wildcard replaces a hundred
    let file_name = |write: &(String, String)| write.0.rsplit('/').next().map(str::to_owned);
    let is_same_file = writes.iter().all(|write| file_name(write) == file_name(&writes[0]));
    let before: Vec<&str> = writes.iter().filter_map(|(path, _)| host.tree.get(path)).collect();
    if let Some(file) = file_name(&writes[0])
        && is_same_file
        && writes.len() == policy_count
        && policy_count > 1
        && before.iter().all(|text| *text == before[0])
    {
        let command = |value: &str| format!("echo {} | tee /{folder}/policy*/{file}", quote_for_shell(value));
        (proposal.apply, proposal.undo) = (Some(command(&writes[0].1)), Some(command(before[0])));
        let line = format!("/etc/tmpfiles.d/advice.conf: w /{folder}/policy*/{file} - - - - {}", writes[0].1);
        proposal.lasting = host.may_have_systemd().then_some(line);
    }
    Proposal { writes, ..proposal }.into_outcome()
}
