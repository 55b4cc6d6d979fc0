//! The path from a host to the drives of a design: controllers, their channels, the bus that they share, and a
//! controller's own cache.
//!
//! Members are assigned to the channels in turn. Data pass the channel, the controller's link and the bus, one after
//! another; the utilizations show which of them saturates first. A cache accepts writes at once and passes them on as
//! fast as the drives can (a battery preserves them). The drives do as much work as without a cache.

use diskwright_base::user_input::nearest_word;
use diskwright_simulator::DeviceModel;
use diskwright_simulator::cache::{BlockCacheSpec, CacheReadAhead, WriteBackPolicy, WritePolicy};
use diskwright_simulator::catalogue::DriveClass;
use diskwright_simulator::system::{Bus, Channel, Controller, DriveGroupSpec, RunBy, System};
use serde::Deserialize;

use crate::PlanError;
use crate::limits::PlanLimits;
use crate::prices::HardwarePrice;

/// A controller that can be bought. Rates are in MB/s (10^6 bytes).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControllerOffer {
    /// Id: `sas3-hba-8`.
    pub id: String,
    /// Full name.
    pub name: String,
    /// Classes of drives that it supports: `hdd`, `sata-ssd`, `sas-ssd`.
    pub takes: Vec<String>,
    /// Number of channels.
    pub channels: u16,
    /// Maximum number of drives per channel.
    pub drives_per_channel: u16,
    /// Rate of a channel.
    pub channel_mb_s: f64,
    /// Arbitration, command and status of a request on a channel, us.
    #[serde(default)]
    pub channel_overhead_us: f64,
    /// Rate of its own link to the host, if it has one.
    pub link_mb_s: Option<f64>,
    /// The bus that all controllers share.
    pub bus: Option<ControllerBus>,
    /// Its cache with a battery, MiB.
    pub cache_mib: Option<f64>,
    /// Price of each.
    pub price: Option<HardwarePrice>,
    /// Watts of each at work.
    pub watts: Option<f64>,
    /// Date of the row.
    pub date: String,
    /// Source of the row.
    pub source: String,
}

/// A bus that controllers share.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControllerBus {
    /// Full name.
    pub name: String,
    /// Its rate.
    pub mb_s: f64,
}

impl ControllerOffer {
    /// Number of drives that this many controllers support.
    pub fn drive_capacity(&self, controllers: u16) -> u16 {
        self.channels.saturating_mul(self.drives_per_channel).saturating_mul(controllers)
    }

    /// True if it supports drives of a class.
    pub fn takes_class(&self, class: DriveClass) -> bool {
        self.takes.iter().any(|name| name == class.name())
    }

    /// Checks for impossible values.
    pub(crate) fn check_values(&self) -> Result<(), String> {
        let rates = [Some(self.channel_mb_s), self.link_mb_s, self.bus.as_ref().map(|bus| bus.mb_s), self.cache_mib];
        if rates.into_iter().flatten().any(|rate| !(rate > 0.0 && rate <= 1e7)) {
            return Err("channel_mb_s, link_mb_s, bus and cache_mib: expected more than 0, up to 10,000,000".into());
        }
        if self.channels == 0 || self.drives_per_channel == 0 || self.drive_capacity(1) > 1024 {
            return Err("channels and drives_per_channel: expected 1 to 1024 drives in all".into());
        }
        if !(0.0..=1e6).contains(&self.channel_overhead_us) {
            return Err("channel_overhead_us: expected 0 to 1,000,000".into());
        }
        let known: Vec<&str> = DriveClass::ALL.iter().map(|class| class.name()).collect();
        match self.takes.iter().find(|class| !known.contains(&class.as_str())) {
            Some(class) => Err(format!("takes: `{class}`; expected some of {}", known.join(", "))),
            None if self.takes.is_empty() => Err("takes: name the classes of drives, such as hdd".into()),
            None => Ok(()),
        }
    }
}

/// Kind of a part of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathPart {
    /// Channels between controllers and drives.
    Channels,
    /// Links between controllers and host.
    HostLinks,
    /// Processors of the controllers.
    Processors,
    /// The bus that all controllers share.
    Bus,
}

/// Several controllers in front of a design.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DesignPath<'a> {
    /// The kind of controller.
    pub offer: &'a ControllerOffer,
    /// Number of controllers.
    pub controllers: u16,
    /// True if its cache accepts writes.
    pub write_back: bool,
}

/// A path of a judged design, with the index of its controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JudgedPath {
    /// Index among the result of [`find_controllers`].
    pub offer_index: usize,
    /// Number of controllers.
    pub controllers: u16,
    /// True if its cache accepts writes.
    pub write_back: bool,
}

/// Returns the controllers that the limits name, with a given cache size if there is one.
///
/// # Errors
/// Unknown names, with the nearest ones.
pub fn find_controllers(limits: &PlanLimits) -> Result<Vec<ControllerOffer>, PlanError> {
    let known = &limits.prices.controllers;
    let mut found: Vec<ControllerOffer> = Vec::new();
    for name in &limits.controllers {
        let Some(row) = known.iter().find(|row| row.id.eq_ignore_ascii_case(name)) else {
            let near = nearest_word(&name.to_lowercase(), known.iter().map(|row| row.id.as_str())).map(str::to_owned);
            return Err(PlanError::Unknown { kind: "controller", name: name.clone(), near });
        };
        if !found.iter().any(|other| other.id == row.id) {
            let cache_mib = limits.cache_bytes.map(|bytes| bytes / 1_048_576.0).or(row.cache_mib);
            found.push(ControllerOffer { cache_mib, ..row.clone() });
        }
    }
    Ok(found)
}

/// Lists paths to drives of a class: only the direct one if no controller was named.
pub(crate) fn list_paths(
    class: DriveClass,
    offers: &[ControllerOffer],
    limits: &PlanLimits,
) -> Vec<Option<JudgedPath>> {
    if offers.is_empty() || class == DriveClass::Cloud {
        return vec![None];
    }
    let mut paths = Vec::new();
    for (offer_index, offer) in offers.iter().enumerate().filter(|(_, offer)| offer.takes_class(class)) {
        for controllers in 1..=limits.max_controllers {
            paths.push(Some(JudgedPath { offer_index, controllers, write_back: false }));
        }
        if offer.cache_mib.is_some() {
            // an array that a controller manages is on that controller alone
            paths.push(Some(JudgedPath { offer_index, controllers: 1, write_back: true }));
        }
    }
    paths
}

impl DesignPath<'_> {
    /// Formats ` on 2 x sas3-hba-8`.
    pub fn describe_path(&self) -> String {
        let cache = if self.write_back { ", write-back" } else { "" };
        match self.controllers {
            1 => format!(" on {}{cache}", self.offer.id),
            n => format!(" on {n} x {}{cache}", self.offer.id),
        }
    }

    /// Number of channels of all controllers.
    pub fn channel_count(&self) -> u16 {
        self.offer.channels * self.controllers
    }

    /// Bytes per second of a channel: a disk sends at its own interface's rate if that is slower.
    pub(crate) fn channel_rate(&self, device: &DeviceModel) -> f64 {
        let rate = self.offer.channel_mb_s * 1e6;
        match device {
            DeviceModel::Mechanical(model) => rate.min(512e9 / model.channel().read_block as f64),
            _ => rate,
        }
    }

    /// Seconds that a request takes through link and bus.
    pub(crate) fn pass_s(&self, bytes: f64) -> f64 {
        let rates = [self.offer.link_mb_s, self.offer.bus.as_ref().map(|bus| bus.mb_s)];
        rates.into_iter().flatten().map(|rate| bytes / (rate * 1e6)).sum()
    }

    /// Number of drives on a channel, if drives are assigned in turn.
    fn drives_on_channel(&self, drives: u32, channel: u16) -> u32 {
        let channels = u32::from(self.channel_count());
        drives / channels + u32::from(u32::from(channel) < drives % channels)
    }

    /// Number that the simulator gives to a drive: those of the first channel come first.
    pub(crate) fn simulator_number(&self, drive: u32, drives: u32) -> u32 {
        let channels = u32::from(self.channel_count());
        let channel = (drive % channels) as u16;
        (0..channel).map(|earlier| self.drives_on_channel(drives, earlier)).sum::<u32>() + drive / channels
    }

    /// Puts the drives of a system with one group on channels and controllers.
    pub(crate) fn attach_drives(&self, system: &mut System) {
        let Some(group) = system.drives.pop() else { return };
        let rate = |mb_s: f64| (mb_s * 1e6) as u64;
        if let Some(bus) = &self.offer.bus {
            system.buses = vec![Bus { name: bus.name.clone(), rate: rate(bus.mb_s), overhead_ns: 0 }];
        }
        let controller = |number: u16| Controller {
            bus: self.offer.bus.is_some().then_some(0),
            rate: self.offer.link_mb_s.map(rate),
            cache: self.cache_spec(),
            ..Controller::new(&format!("controller{number}"))
        };
        system.controllers = (0..self.controllers).map(controller).collect();
        for channel in 0..self.channel_count() {
            let count = self.drives_on_channel(group.count, channel);
            if count == 0 {
                continue;
            }
            system.channels.push(Channel {
                name: format!("channel{channel}"),
                // neighbours are on different controllers
                controller: Some(usize::from(channel % self.controllers)),
                rate: Some(rate(self.offer.channel_mb_s)),
                overhead_ns: (self.offer.channel_overhead_us * 1e3) as u64,
                disconnects: true,
            });
            let name = format!("{}{channel}-", group.name);
            let channel = Some(system.channels.len() - 1);
            system.drives.push(DriveGroupSpec { name, count, channel, ..group.clone() });
        }
        for set in &mut system.arrays {
            for drive in set.members.iter_mut().chain(&mut set.spares) {
                *drive = self.simulator_number(*drive, group.count);
            }
            if self.write_back {
                set.run_by = RunBy::Controller(0);
            }
        }
    }

    fn cache_spec(&self) -> Option<BlockCacheSpec> {
        let bytes = self.offer.cache_mib.filter(|_| self.write_back)? * 1_048_576.0;
        Some(BlockCacheSpec {
            bytes: bytes as u64,
            read_ahead: CacheReadAhead::None,
            write: WritePolicy::Back(WriteBackPolicy::battery_backed()),
            ..BlockCacheSpec::default()
        })
    }

    /// Name of a part of the system in an answer; `None` if it is not part of the path.
    pub(crate) fn part_name(&self, name: &str) -> Option<String> {
        let kind = match name {
            name if name.starts_with("channel") => PathPart::Channels,
            name if name.starts_with("controller") && name.ends_with(" port") => PathPart::HostLinks,
            name if name.starts_with("controller") => PathPart::Processors,
            _ => return None,
        };
        self.name_of_part(kind)
    }

    /// Name of a kind of part in an answer; `None` if the path has none.
    pub(crate) fn name_of_part(&self, kind: PathPart) -> Option<String> {
        match kind {
            PathPart::Channels => Some(format!("channels of {}", self.offer.id)),
            PathPart::HostLinks => Some(format!("host links of {}", self.offer.id)),
            PathPart::Processors => Some(format!("processors of {}", self.offer.id)),
            PathPart::Bus => self.offer.bus.as_ref().map(|bus| bus.name.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prices::built_in_prices;

    #[test]
    fn deals_drives_out_in_turn() {
        let prices = built_in_prices();
        let offer = prices.controllers.iter().find(|row| row.id == "ultra-wide-scsi").expect("doc 001's adapter");
        assert_eq!((offer.drive_capacity(1), offer.drive_capacity(3)), (14, 42));
        let path = DesignPath { offer, controllers: 3, write_back: false };
        // seven over three channels: 3, 2, 2
        assert_eq!([0, 1, 2].map(|channel| path.drives_on_channel(7, channel)), [3, 2, 2]);
        let numbers: Vec<u32> = (0..7).map(|drive| path.simulator_number(drive, 7)).collect();
        assert_eq!(numbers, [0, 3, 5, 1, 4, 6, 2]);
    }
}
