//! Paths to a disk: the USB driver, SAS links, NVMe paths.

use diskwright_base::DeviceClass;
use diskwright_base::diskstats::parse_nvme_path;

use super::{format_percent, unknown_fact};
use crate::check::{AdviceSeverity, CheckOutcome, Proposal};
use crate::host_facts::HostFacts;

/// Returns the last folder of a path whose name is this prefix and a number: `port-6:0`.
fn folder_with_prefix<'a>(path: &'a str, prefix: &str) -> Option<&'a str> {
    let is_match = |name: &&str| name.strip_prefix(prefix).is_some_and(|tail| tail.starts_with(char::is_numeric));
    path.split('/').rev().find(is_match)
}

/// Judges the driver of a USB disk.
pub(super) fn judge_usb_driver(host: &HostFacts, disk: &str) -> CheckOutcome {
    let Some(device_path) = host.device_path(disk).filter(|path| path.contains("/usb")) else {
        return CheckOutcome::Absent;
    };
    let Some(adapter) = folder_with_prefix(device_path, "host") else { return CheckOutcome::Absent };
    let path = format!("sys/class/scsi_host/{adapter}/proc_name");
    // the driver uas has no name here: the kernel writes (null)
    let Some(driver) = host.tree.get(&path) else { return unknown_fact(host, &path) };
    let mut parents = device_path.match_indices('/').rev().map(|(end, _)| &device_path[..end]);
    let speed = parents.find_map(|folder| host.tree.number_in(&format!("{folder}/speed")));
    if driver != "usb-storage" || speed.is_none_or(|speed| speed <= 480.0) {
        return CheckOutcome::Good;
    }
    let load = host.disk_load(disk).filter(|load| load.busy_share() > 0.01);
    let evidence = load.map(|load| {
        (format!("the disk was busy {} of the time", format_percent(load.busy_share())), load.busy_share())
    });
    super::lower_to_info(Proposal::new("usb-storage drives it, one request after the other").with_evidence(evidence))
        .into_outcome()
}

/// Returns the phys of a disk's SAS port.
fn phys_of_disk<'a>(host: &'a HostFacts, disk: &str) -> Result<Vec<&'a str>, Box<CheckOutcome>> {
    let port = host
        .device_path(disk)
        .filter(|path| path.contains("/end_device-"))
        .and_then(|path| folder_with_prefix(path, "port-"));
    let Some(port) = port else { return Err(Box::new(CheckOutcome::Absent)) };
    let is_of_port = |phy: &&str| {
        let target = host.tree.link_target(&format!("sys/class/sas_phy/{phy}/device/port"));
        target.and_then(|target| target.rsplit('/').next()) == Some(port)
    };
    let phys: Vec<&str> = host.tree.names_in("sys/class/sas_phy").into_iter().filter(is_of_port).collect();
    if phys.is_empty() {
        return Err(Box::new(unknown_fact(host, &format!("sys/class/sas_phy/*/device/port of {port}"))));
    }
    Ok(phys)
}

/// Parses `12.0 Gbit`; `None` for `Unknown` and `Phy disabled`.
fn phy_rate(host: &HostFacts, phy: &str, file: &str) -> Option<f64> {
    host.tree.number_in(&format!("sys/class/sas_phy/{phy}/{file}"))
}

/// Rate of a disk's slowest phy.
fn slowest_phy_rate(host: &HostFacts, disk: &str) -> Option<f64> {
    let phys = phys_of_disk(host, disk).ok()?;
    phys.iter().filter_map(|phy| phy_rate(host, phy, "negotiated_linkrate")).reduce(f64::min)
}

/// Judges the rate of a SAS link.
pub(super) fn judge_sas(host: &HostFacts, disk: &str) -> CheckOutcome {
    let phys = match phys_of_disk(host, disk) {
        Ok(phys) => phys,
        Err(outcome) => return *outcome,
    };
    for phy in &phys {
        let Some(now) = phy_rate(host, phy, "negotiated_linkrate") else {
            return unknown_fact(host, &format!("sys/class/sas_phy/{phy}/negotiated_linkrate"));
        };
        let limit = phy_rate(host, phy, "maximum_linkrate");
        let hardware = phy_rate(host, phy, "maximum_linkrate_hw");
        let is_limited = |(limit, hardware): &(f64, f64)| limit < hardware && now >= *limit;
        if let Some((_, hardware)) = limit.zip(hardware).filter(is_limited) {
            let seen = format!("{phy} runs at {now} Gbit/s, as fast as it is allowed to; it could run at {hardware}");
            return Proposal::new(seen).into_outcome();
        }
        // the disk's maximum is not shown; a faster disk of the same model reveals it
        let twin_rates =
            same_model_disks(host, disk).into_iter().filter_map(|twin| Some((slowest_phy_rate(host, twin)?, twin)));
        let fastest = twin_rates.reduce(|a, b| if b.0 > a.0 { b } else { a });
        let max_rate = limit.or(hardware);
        if let Some((rate, twin)) = fastest.filter(|(rate, _)| *rate > now && max_rate.is_none_or(|max| *rate <= max)) {
            let seen = format!("{phy} runs at {now} Gbit/s; {twin}, of the same model, at {rate}");
            return Proposal::new(seen).into_outcome();
        }
    }
    CheckOutcome::Good
}

/// Other disks of the same model.
fn same_model_disks<'a>(host: &'a HostFacts, disk: &str) -> Vec<&'a str> {
    let model = host.block_file(disk, "device/model");
    let is_twin = |name: &&str| *name != disk && model.is_some() && host.block_file(name, "device/model") == model;
    host.topology.devices.iter().map(|device| device.name.as_str()).filter(is_twin).collect()
}

/// Error counts of a phy that a bad cable or connector increases.
const PHY_ERRORS: [&str; 4] =
    ["invalid_dword_count", "running_disparity_error_count", "loss_of_dword_sync_count", "phy_reset_problem_count"];
/// Errors that starting a link can cause; more are reported. Our choice.
const NOTABLE_ERROR_COUNT: f64 = 100.0;

/// Judges errors of a SAS link.
pub(super) fn judge_sas_errors(host: &HostFacts, disk: &str) -> CheckOutcome {
    let phys = match phys_of_disk(host, disk) {
        Ok(phys) => phys,
        Err(outcome) => return *outcome,
    };
    let mut seen = Vec::new();
    for phy in phys {
        let mut errors = 0.0;
        for file in PHY_ERRORS {
            let path = format!("sys/class/sas_phy/{phy}/{file}");
            let Some(count) = host.tree.number_in(&path) else { return unknown_fact(host, &path) };
            errors += count;
        }
        if errors > NOTABLE_ERROR_COUNT {
            seen.push(format!("{phy} has counted {errors:.0} errors"));
        }
    }
    if seen.is_empty() { CheckOutcome::Good } else { Proposal::new(seen.join(", ")).into_outcome() }
}

/// A path of an NVMe disk with several controllers.
struct NvmePath<'a> {
    /// Number of the controller.
    controller: &'a str,
    is_working: bool,
    is_optimized: bool,
    is_local: bool,
}

/// Returns the names of the hidden paths to an NVMe disk: `nvme0c1n1` of `nvme0n1`.
pub(super) fn hidden_nvme_paths<'a>(host: &'a HostFacts, disk: &str) -> Vec<&'a str> {
    let leads_to = |name: &&str| parse_nvme_path(name).is_some_and(|(head, _)| head == disk);
    host.tree.names_in("sys/block").into_iter().filter(leads_to).collect()
}

/// Returns the hidden paths with their state, or the missing file.
fn nvme_paths<'a>(host: &'a HostFacts, disk: &str) -> Result<Vec<NvmePath<'a>>, String> {
    let (subsystem, namespace) = disk.strip_prefix("nvme").and_then(|tail| tail.split_once('n')).unwrap_or_default();
    let (prefix, suffix) = (format!("nvme{subsystem}c"), format!("n{namespace}"));
    let mut paths = Vec::new();
    for name in host.tree.names_in("sys/block") {
        let number = name.strip_prefix(&prefix).and_then(|tail| tail.strip_suffix(&suffix));
        let Some(number) = number.filter(|n| !namespace.is_empty() && n.bytes().all(|b| b.is_ascii_digit())) else {
            continue;
        };
        let file = |file: &str| format!("sys/class/nvme/nvme{number}/{file}");
        let Some(state) = host.tree.get(&file("state")) else { return Err(file("state")) };
        // without asymmetric namespace access every path is optimized, and the kernel shows no state
        let access = host.block_file(name, "ana_state").unwrap_or("optimized");
        let is_working = state == "live" && matches!(access, "optimized" | "non-optimized");
        let is_local = host.tree.get(&file("transport")).is_none_or(|transport| transport == "pcie");
        paths.push(NvmePath {
            controller: number,
            is_working,
            is_optimized: is_working && access == "optimized",
            is_local,
        });
    }
    Ok(paths)
}

/// Judges the paths of an NVMe disk.
pub(super) fn judge_nvme(host: &HostFacts, disk: &str) -> CheckOutcome {
    if host.device_class(disk) != DeviceClass::Nvme && !disk.starts_with("nvme") {
        return CheckOutcome::Absent;
    }
    let paths = match nvme_paths(host, disk) {
        Ok(paths) => paths,
        Err(path) => return unknown_fact(host, &path),
    };
    // a disk in a slot has one path, and needs only one
    if paths.len() < 2 && paths.iter().all(|path| path.is_local) {
        return CheckOutcome::Absent;
    }
    let (total, working) = (paths.len(), paths.iter().filter(|path| path.is_working).count());
    if working < 2 {
        let severity = if working == 0 { AdviceSeverity::Critical } else { AdviceSeverity::Warning };
        return Proposal::new(format!("{working} of {total} paths work")).with_severity(severity).into_outcome();
    }
    if paths.iter().any(|path| path.is_optimized) {
        return CheckOutcome::Good;
    }
    let names: Vec<String> = paths.iter().map(|path| format!("nvme{}", path.controller)).collect();
    let seen = format!("no path is optimized; all requests take the longer way ({})", names.join(", "));
    Proposal::new(seen).with_severity(AdviceSeverity::Notice).into_outcome()
}
