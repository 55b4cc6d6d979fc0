//! Processors: sleep states between fast requests, and the distribution of interrupts.

use std::collections::BTreeMap;

use diskwright_base::DeviceClass;
use diskwright_base::counter_ids::processor;

use super::{format_percent, unknown_fact};
use crate::check::{CheckOutcome, Proposal};
use crate::host_facts::HostFacts;
use crate::host_load::DiskLoad;

/// Share of a request's response time from which waking up is reported. Our choice.
const NOTABLE_WAKE_SHARE: f64 = 0.25;

/// A sleep state of a processor.
struct IdleState<'a> {
    /// Name of its folder: `state2`.
    folder: &'a str,
    /// Name that the driver gives it: `C6`.
    name: &'a str,
    /// Time to wake up, microseconds.
    latency_us: f64,
}

/// Returns the states in use, or the missing file.
fn idle_states(host: &HostFacts) -> Result<Vec<IdleState<'_>>, String> {
    let parent = "sys/devices/system/cpu/cpu0/cpuidle";
    let mut states = Vec::new();
    for folder in host.tree.names_in(parent).into_iter().filter(|name| name.starts_with("state")) {
        let file = |file: &str| format!("{parent}/{folder}/{file}");
        let Some(disabled) = host.tree.get(&file("disable")) else { return Err(file("disable")) };
        let Some(latency_us) = host.tree.number_in(&file("latency")) else { return Err(file("latency")) };
        if disabled == "0" {
            states.push(IdleState { folder, name: host.tree.get(&file("name")).unwrap_or(folder), latency_us });
        }
    }
    Ok(states)
}

/// Returns the mean response time, in seconds, of a disk that serves one request after the other; `None` for others.
fn single_request_response_s(load: &DiskLoad) -> Option<f64> {
    let is_serial = load.busy_share() > 0.05 && load.single_request_share()? > 0.5;
    (is_serial && load.reads + load.writes > 0.0).then(|| (load.read_s + load.write_s) / (load.reads + load.writes))
}

/// Judges sleep states of the processors.
pub(super) fn judge_idle(host: &HostFacts, _: &str) -> CheckOutcome {
    let states = match idle_states(host) {
        Ok(states) => states,
        Err(path) => return unknown_fact(host, &path),
    };
    let Some(deepest) = states.iter().max_by(|a, b| a.latency_us.total_cmp(&b.latency_us)) else {
        // in most virtual machines the hypervisor decides
        return if host.has_facts {
            CheckOutcome::Absent
        } else {
            unknown_fact(host, "sys/devices/system/cpu/cpu0/cpuidle")
        };
    };
    // a busy processor does not sleep
    let has_idle_processors =
        host.load.as_ref().is_some_and(|load| load.mean_of(processor::BUSY, "").is_none_or(|busy| busy < 0.5));
    let is_flash = |name: &str| matches!(host.device_class(name), DeviceClass::Nvme | DeviceClass::Flash);
    let disks = host.load.iter().flat_map(|load| &load.disks).filter(|(name, _)| has_idle_processors && is_flash(name));
    let is_notable = |response_s: &f64| deepest.latency_us * 1e-6 >= NOTABLE_WAKE_SHARE * response_s;
    let affected =
        disks.filter_map(|(name, load)| Some((name, load, single_request_response_s(load).filter(is_notable)?)));
    let Some((name, load, response_s)) = affected.max_by(|a, b| a.1.single_request_s.total_cmp(&b.1.single_request_s))
    else {
        return CheckOutcome::Good;
    };
    let share = load.single_request_s / load.seconds;
    let evidence = format!(
        "{name} served one request after the other {} of the time, {:.0} us each",
        format_percent(share),
        response_s * 1e6
    );
    let slow_states: Vec<&str> =
        states.iter().filter(|s| s.latency_us * 1e-6 >= NOTABLE_WAKE_SHARE * response_s).map(|s| s.folder).collect();
    let mut proposal = Proposal::new(format!("{} takes up to {:.0} us to wake from", deepest.name, deepest.latency_us))
        .with_evidence(Some((evidence, share)));
    let commands = |value: char| {
        let command = |state: &&str| format!("echo {value} | tee /sys/devices/system/cpu/cpu*/cpuidle/{state}/disable");
        slow_states.iter().map(command).collect::<Vec<_>>().join("; ")
    };
    // nothing makes this permanent: it holds until the next restart
    (proposal.apply, proposal.undo) = (Some(commands('1')), Some(commands('0')));
    proposal.into_outcome()
}

/// Interrupts of one device's queues.
struct QueueInterrupts {
    /// Number of queues with interrupts.
    queues: usize,
    /// Number of interrupts on each processor.
    by_processor: Vec<f64>,
}

/// Splits the name of a queue's interrupt into device and address: `eth0-TxRx-` and nothing of `eth0-TxRx-3`,
/// `mlx5_comp` and `pci:0000:01:00.0` of `mlx5_comp3@pci:0000:01:00.0`. `None` for a name without a queue's number.
fn device_and_address(name: &str) -> Option<(&str, &str)> {
    let (queue, address) = name.split_once('@').unwrap_or((name, ""));
    let device = queue.trim_end_matches(|c: char| c.is_ascii_digit());
    (device.len() < queue.len() && !device.is_empty()).then_some((device, address))
}

/// Sums the interrupts in `/proc/interrupts` by device and address.
fn queue_interrupts(text: &str) -> BTreeMap<(&str, &str), QueueInterrupts> {
    let mut lines = text.lines();
    let processors = lines.next().map_or(0, |head| head.split_whitespace().count());
    let mut devices: BTreeMap<(&str, &str), QueueInterrupts> = BTreeMap::new();
    for line in lines {
        let Some((number, columns)) = line.split_once(':') else { continue };
        let words: Vec<&str> = columns.split_whitespace().collect();
        let is_device = number.trim().parse::<u32>().is_ok() && words.len() > processors;
        let Some(device) = words.last().filter(|_| is_device).and_then(|name| device_and_address(name)) else {
            continue;
        };
        let counts: Vec<f64> = words[..processors].iter().filter_map(|word| word.parse().ok()).collect();
        if counts.len() != processors || counts.iter().all(|count| *count == 0.0) {
            continue;
        }
        let interrupts =
            devices.entry(device).or_insert_with(|| QueueInterrupts { queues: 0, by_processor: vec![0.0; processors] });
        interrupts.queues += 1;
        interrupts.by_processor.iter_mut().zip(&counts).for_each(|(sum, count)| *sum += count);
    }
    devices
}

/// Interrupts per second from which they are noticeable, and the share on one processor that is too much. Our choice.
const NOTABLE_INTERRUPTS_PER_S: f64 = 1000.0;
const ONE_PROCESSOR_SHARE: f64 = 0.8;

/// Judges the distribution of interrupts.
pub(super) fn judge_interrupts(host: &HostFacts, _: &str) -> CheckOutcome {
    let Some(text) = host.tree.get("proc/interrupts") else { return unknown_fact(host, "proc/interrupts") };
    let Some(uptime_s) = host.tree.number_in("proc/uptime").filter(|s| *s > 0.0) else {
        return unknown_fact(host, "proc/uptime");
    };
    let (mut seen, mut are_bound) = (Vec::new(), true);
    for ((device, address), interrupts) in queue_interrupts(text) {
        let total: f64 = interrupts.by_processor.iter().sum();
        let max = interrupts.by_processor.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
        let Some((processor, max)) = max else { continue };
        // a single queue interrupts one processor, whatever is set
        if interrupts.by_processor.len() < 4
            || interrupts.queues < 2
            || total / uptime_s < NOTABLE_INTERRUPTS_PER_S
            || *max < ONE_PROCESSOR_SHARE * total
        {
            continue;
        }
        let location = if address.is_empty() { String::new() } else { format!(" at {address}") };
        are_bound &= device.starts_with("nvme");
        seen.push(format!(
            "processor {processor} took {} of the interrupts of {} queues of {}{location}",
            format_percent(max / total),
            interrupts.queues,
            device.trim_end_matches(['-', '.', '_'])
        ));
    }
    if seen.is_empty() {
        return CheckOutcome::Good;
    }
    let apply = are_bound.then(|| BOUND_QUEUES_ADVICE.to_owned());
    Proposal { apply, ..Proposal::new(seen.join("; ")) }.into_outcome()
}

/// The kernel distributes the interrupts of NVMe itself, and they cannot be moved (kernel/irq/affinity.c).
const BOUND_QUEUES_ADVICE: &str = "The kernel binds each queue of an NVMe disk to its processors, so nearly all \
                               requests \
                               come from one processor. Find the program that sends them, and let its threads run on \
                               several (taskset, CPUAffinity= of its unit).";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_queues_by_the_numbers_at_the_end_of_their_names() {
        assert_eq!(device_and_address("eth0-TxRx-3"), Some(("eth0-TxRx-", "")));
        assert_eq!(device_and_address("mlx5_comp3@pci:0000:01:00.0"), Some(("mlx5_comp", "pci:0000:01:00.0")));
        assert_eq!(device_and_address("ahci"), None);
        let text = [
            "      CPU0 CPU1",
            "  9: 1 2 IO-APIC 9-fasteoi acpi",
            " 40: 5 0 PCI-MSI 1-edge nvme0q1",
            " 41: 0 7 PCI-MSI 2-edge nvme0q2",
            "LOC: 9 9 Local timer",
        ]
        .join("\n");
        let found = queue_interrupts(&text);
        assert_eq!(found.keys().collect::<Vec<_>>(), [&("nvme0q", "")]);
        assert_eq!(found[&("nvme0q", "")].by_processor, [5.0, 7.0]);
        assert_eq!(found[&("nvme0q", "")].queues, 2);
    }
}
