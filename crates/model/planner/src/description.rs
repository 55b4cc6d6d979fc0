//! Writes a design as a description that `simulate` and `disk` read (docs/systems.md): what was planned can be
//! simulated, changed, and served to a real database.

use std::fmt::Write;

use diskwright_simulator::DeviceModel;
use diskwright_simulator::array::ParityUpdate;
use diskwright_simulator::calibrate::{quote_toml, volume_table};
use diskwright_simulator::load::{AccessPattern, LoadSpec, OpenSpec, RequestSizes};
use diskwright_simulator::system::{ArraySpec, Controller, DriveGroupSpec, RunBy, System};

use crate::analysis::StorageDesign;
use crate::demand::Demand;

/// Simulated seconds, unless these have too few requests or more than are needed.
const WATCH_S: f64 = 60.0;
/// Minimum number of simulated requests: one in twenty of them is beyond the 95th percentile.
const MIN_REQUESTS: f64 = 10_000.0;
/// Number of requests from which less time is simulated.
const MAX_REQUESTS: f64 = 200_000.0;

/// Name of the file beside the descriptions that holds a user's own drives.
pub const OWN_DRIVES_FILE: &str = "own-drives.toml";

/// Describes a design under a demand. With `is_own_drive`, the drive is described in [`OWN_DRIVES_FILE`].
pub fn describe_system(design: &StorageDesign<'_>, demand: &Demand, spares: u16, is_own_drive: bool) -> String {
    let system = design.to_system(demand, spares);
    let mut text = String::from("# Written by `diskwright plan`; keys and units are in docs/systems.md.\n[system]\n");
    write_line(&mut text, "name", &quote_toml(&design.part.name));
    let about = format!("{} of {}, for {:.0} requests/s", design.level.name(), design.count, demand.requests_per_s());
    write_line(&mut text, "about", &quote_toml(&about));
    if is_own_drive {
        write_line(&mut text, "catalogue", &quote_toml(OWN_DRIVES_FILE));
    }
    let seconds = WATCH_S.min(MAX_REQUESTS / demand.requests_per_s()).max(MIN_REQUESTS / demand.requests_per_s());
    let whole_ms = |seconds: f64| (seconds * 1e3).ceil();
    write_line(&mut text, "\n[watch]\nwarm_up", &format!("\"{}ms\"", whole_ms(seconds / 6.0)));
    write_line(&mut text, "duration", &format!("\"{}ms\"", whole_ms(seconds)));
    write_path(&mut text, &system);
    for group in &system.drives {
        write_drives(&mut text, group, &system, &design.part.id);
    }
    for array in &system.arrays {
        write_array(&mut text, array, &system);
    }
    for workload in &system.workloads {
        if let LoadSpec::Open(load) = &workload.load {
            write_workload(&mut text, &workload.name, load);
        }
    }
    text
}

fn write_line(text: &mut String, key: &str, value: &str) {
    let _ = writeln!(text, "{key} = {value}");
}

/// Buses, controllers and channels.
fn write_path(text: &mut String, system: &System) {
    for bus in &system.buses {
        write_line(text, "\n[[bus]]\nname", &quote_toml(&bus.name));
        write_line(text, "rate", &format!("\"{}B/s\"", bus.rate));
    }
    for controller in &system.controllers {
        write_controller(text, controller, system);
    }
    for channel in &system.channels {
        write_line(text, "\n[[channel]]\nname", &quote_toml(&channel.name));
        if let Some(controller) = channel.controller {
            write_line(text, "controller", &quote_toml(&system.controllers[controller].name));
        }
        if let Some(rate) = channel.rate {
            write_line(text, "rate", &format!("\"{rate}B/s\""));
        }
        write_line(text, "overhead", &format!("\"{}ns\"", channel.overhead_ns));
    }
}

fn write_controller(text: &mut String, controller: &Controller, system: &System) {
    write_line(text, "\n[[controller]]\nname", &quote_toml(&controller.name));
    if let Some(bus) = controller.bus {
        write_line(text, "bus", &quote_toml(&system.buses[bus].name));
    }
    if let Some(rate) = controller.rate {
        write_line(text, "rate", &format!("\"{rate}B/s\""));
    }
    if let Some(cache) = &controller.cache {
        // what else a planned cache has is the default of a controller's
        write_line(text, "\n[controller.cache]\nsize", &format!("\"{}B\"", cache.bytes));
        write_line(text, "read_ahead", "\"none\"");
        write_line(text, "write", "\"back\"");
    }
}

fn write_drives(text: &mut String, group: &DriveGroupSpec, system: &System, model: &str) {
    write_line(text, "\n[[drive]]\nname", &quote_toml(&group.name));
    write_line(text, "count", &group.count.to_string());
    if let Some(channel) = group.channel {
        write_line(text, "channel", &quote_toml(&system.channels[channel].name));
    }
    match &group.device {
        DeviceModel::Volume(volume) => {
            write_line(text, "capacity", &format!("\"{}B\"", volume.blocks * 512));
            let _ = write!(text, "[drive.volume]\n{}", volume_table(volume));
        }
        _ => write_line(text, "model", &quote_toml(model)),
    }
}

fn write_array(text: &mut String, array: &ArraySpec, system: &System) {
    let names = |drives: &[u32]| {
        let names: Vec<String> = drives.iter().map(|drive| quote_toml(&system.drive_name(*drive))).collect();
        format!("[{}]", names.join(", "))
    };
    write_line(text, "\n[[array]]\nname", &quote_toml(&array.name));
    write_line(text, "level", &quote_toml(array.level.name()));
    write_line(text, "drives", &names(&array.members));
    write_line(text, "stripe_unit", &format!("\"{}B\"", array.unit_blocks * 512));
    // the plan's own way; a description's default for software arrays is md's
    if array.policy.write_by == ParityUpdate::Fewest && array.run_by == RunBy::Host {
        write_line(text, "write_by", "\"fewest\"");
    }
    if let RunBy::Controller(controller) = array.run_by {
        write_line(text, "run_by", &quote_toml(&system.controllers[controller].name));
    }
    if !array.spares.is_empty() {
        write_line(text, "spares", &names(&array.spares));
        write_line(text, "rebuild", "true");
    }
}

fn write_workload(text: &mut String, name: &str, load: &OpenSpec) {
    write_line(text, "\n[[workload]]\nname", &quote_toml(name));
    write_line(text, "rate", &format!("\"{}/s\"", 1.0 / load.gap.mean_s()));
    write_line(text, "most_outstanding", &load.most_outstanding.to_string());
    for class in &load.classes {
        write_line(text, "\n[[workload.class]]\nname", &quote_toml(&class.name));
        write_line(text, "weight", &class.weight.to_string());
        for transfer in &class.transfers {
            write_line(text, "read_share", &transfer.read_share.to_string());
            for (key, sizes) in [("size", Some(&transfer.bytes)), ("write_size", transfer.write_bytes.as_ref())] {
                if let Some(RequestSizes::One(bytes)) = sizes {
                    write_line(text, key, &format!("\"{bytes}B\""));
                }
            }
            if let AccessPattern::Sequential { streams } = transfer.access {
                write_line(text, "access", "\"sequential\"");
                write_line(text, "streams", &streams.to_string());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PlanLimits;
    use crate::controller_path::DesignPath;
    use crate::design_part::list_parts;
    use diskwright_simulator::{ArrayLevel, Simulation};

    fn limits() -> PlanLimits {
        PlanLimits::with_defaults(crate::prices::built_in_prices(), "2026-11-21")
    }

    fn demand() -> Demand {
        let rates = Demand::from_rates(126.0, 73.0, 8192.0);
        Demand { write_size_bytes: 4096.0, sequential_share: Some(0.2), ..rates }
    }

    /// The description of a design simulates as the design itself does, to the last request.
    fn check_description(design: &StorageDesign<'_>, spares: u16) {
        let text = describe_system(design, &demand(), spares, false);
        let no_files = |_: &str| Err("no file".to_owned());
        let read = diskwright_simulator::system::read::read("design.toml", &text, &[], &no_files);
        let mut read = read.unwrap_or_else(|problems| panic!("{problems}\n{text}")).system;
        let mut planned = design.to_system(&demand(), spares);
        planned.watch = read.watch;
        // what a spare does once a member fails is not part of the plan's own simulation
        read.arrays.iter_mut().for_each(|array| array.rebuild = None);
        let results = [&planned, &read].map(|system| {
            let report = Simulation::new(system).expect("it is valid").run_without_samples();
            let found = &report.workloads[0];
            (found.counts.request_count(), found.responses.mean(), found.responses.quantile(0.99))
        });
        let [planned, read] = results;
        assert_eq!(planned.0, read.0, "{text}");
        for (planned, read) in [(planned.1, read.1), (planned.2, read.2)] {
            let (planned, read) = (planned.expect("requests"), read.expect("requests"));
            assert!((planned / read - 1.0).abs() < 1e-9, "{planned} {read}: {text}");
        }
    }

    #[test]
    fn a_description_simulates_as_the_design_that_was_planned() {
        let limits = limits();
        let parts = list_parts(&demand(), &limits).expect("parts");
        let mut classes = Vec::new();
        for part in parts.iter().filter(|part| part.volume.is_none()) {
            let class = (std::mem::discriminant(&part.device), part.class);
            if !classes.contains(&class) {
                classes.push(class);
                let design = StorageDesign { part, level: ArrayLevel::Raid5, count: 4, unit_bytes: 65_536, path: None };
                check_description(&design, 1);
                check_description(&StorageDesign { level: ArrayLevel::Raid0, count: 1, ..design }, 0);
            }
        }
        assert!(classes.len() >= 2, "{classes:?}");
    }

    #[test]
    fn a_description_has_the_controllers_of_the_design() {
        let limits = limits();
        let parts = list_parts(&demand(), &limits).expect("parts");
        let part = parts.iter().find(|part| part.volume.is_none()).expect("a drive");
        for offer in &limits.prices.controllers {
            let path = DesignPath { offer, controllers: 2, write_back: offer.cache_mib.is_some() };
            let design =
                StorageDesign { part, level: ArrayLevel::Raid10, count: 6, unit_bytes: 65_536, path: Some(path) };
            check_description(&design, 0);
        }
    }

    #[test]
    fn a_volume_is_written_with_its_limits() {
        let parts = list_parts(&demand(), &limits()).expect("parts");
        let mut offers = Vec::new();
        for part in parts.iter().filter(|part| part.volume.is_some()) {
            if !offers.contains(&part.id) {
                offers.push(part.id.clone());
                let count = part.volume.as_ref().map_or(1, |volume| volume.count);
                let design = StorageDesign { part, level: ArrayLevel::Raid0, count, unit_bytes: 65_536, path: None };
                check_description(&design, 0);
            }
        }
        assert!(offers.len() >= 3, "{offers:?}");
    }
}
