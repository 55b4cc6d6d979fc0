//! Redundant power: the supplies that the kernel shows.

use super::unknown_fact;
use crate::check::{AdviceSeverity, CheckOutcome, Proposal};
use crate::host_facts::HostFacts;

/// Input voltage, mV, from which a PMBus chip is a power supply on the mains or on 48 V, not a regulator on a board.
const MIN_SUPPLY_MILLIVOLTS: f64 = 36_000.0;
/// Types of chassis of servers, which usually have several supplies (SMBIOS 3.6, 7.4.1): main server, rack mount,
/// sealed case, multi-system, blade and its enclosure.
const SERVER_CHASSIS: &[f64] = &[17.0, 23.0, 24.0, 25.0, 28.0, 29.0];

/// A supply, and whether it has power.
struct PowerSupply<'a> {
    name: &'a str,
    is_fed: bool,
}

/// Judges whether power is redundant.
pub(super) fn judge_supplies(host: &HostFacts, _: &str) -> CheckOutcome {
    let is_virtual = host.tree.get("proc/cpuinfo").is_some_and(|text| {
        text.lines()
            .filter(|line| line.starts_with("flags"))
            .any(|line| line.split(' ').any(|flag| flag == "hypervisor"))
    });
    if is_virtual || host.is_container() {
        return CheckOutcome::Absent;
    }
    if !host.has_facts {
        return unknown_fact(host, "sys/class/hwmon");
    }
    let mut supplies = pmbus_supplies(host);
    if supplies.is_empty() {
        supplies = mains_supplies(host);
    }
    let unfed: Vec<&str> = supplies.iter().filter(|supply| !supply.is_fed).map(|supply| supply.name).collect();
    match (supplies.len(), unfed.as_slice()) {
        (0, _) => {
            let chassis = host.tree.number_in("sys/class/dmi/id/chassis_type");
            if !chassis.is_some_and(|kind| SERVER_CHASSIS.contains(&kind)) {
                return CheckOutcome::Absent;
            }
            let ask = "`ipmitool sdr type 'Power Supply'` queries the management controller, if there is one";
            CheckOutcome::Unknown(format!("the kernel shows no power supply (hwmon, power_supply); {ask}"))
        }
        (1, []) => Proposal::new("one power supply: if it fails, the host stops")
            .with_severity(AdviceSeverity::Info)
            .into_outcome(),
        (_, []) => CheckOutcome::Good,
        (count, unfed) => {
            let names = unfed.join(", ");
            Proposal::new(format!("{} of {count} power supplies get no power: {names}", unfed.len())).into_outcome()
        }
    }
}

/// Supplies with chips of their own (PMBus). A chip with the same name as a supply is a supply too, even without power.
fn pmbus_supplies(host: &HostFacts) -> Vec<PowerSupply<'_>> {
    let folder = "sys/class/hwmon";
    let chips: Vec<(&str, &str, f64)> = host
        .tree
        .names_in(folder)
        .into_iter()
        .filter_map(|chip| {
            let file = |name: &str| format!("{folder}/{chip}/{name}");
            let is_input = host.tree.get(&file("in1_label")).is_some_and(|label| label.trim() == "vin");
            let name = host.tree.get(&file("name")).filter(|_| is_input)?.trim();
            Some((chip, name, host.tree.number_in(&file("in1_input"))?))
        })
        .collect();
    let is_fed = |millivolts: f64| millivolts >= MIN_SUPPLY_MILLIVOLTS;
    let is_supply = |name: &str| chips.iter().any(|(_, other, millivolts)| *other == name && is_fed(*millivolts));
    let found = chips.iter().filter(|(_, name, _)| is_supply(name));
    found.map(|(chip, _, millivolts)| PowerSupply { name: chip, is_fed: is_fed(*millivolts) }).collect()
}

/// Supplies that the firmware reports as mains. None if there is a battery: such a machine may have several inputs and
/// need only one of them.
fn mains_supplies(host: &HostFacts) -> Vec<PowerSupply<'_>> {
    let folder = "sys/class/power_supply";
    let names = host.tree.names_in(folder);
    let kind = |name: &str| host.tree.get(&format!("{folder}/{name}/type")).map(str::trim);
    if names.iter().any(|name| kind(name) == Some("Battery")) {
        return Vec::new();
    }
    let supply = |name: &&'_ str| host.tree.number_in(&format!("{folder}/{name}/online"));
    let mains = names.into_iter().filter(|name| kind(name) == Some("Mains"));
    mains.filter_map(|name| Some(PowerSupply { name, is_fed: supply(&name)? > 0.0 })).collect()
}
