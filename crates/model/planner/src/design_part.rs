//! Parts of designs: drives of the catalogue with their prices and failure rates, and volumes of a size and speed.

use std::sync::Arc;

use diskwright_base::user_input::nearest_word;
use diskwright_simulator::DeviceModel;
use diskwright_simulator::catalogue::{self, CatalogueEntry, DriveClass, EntryKind};
use diskwright_simulator::drive::{DataSheet, TrackRate};
use diskwright_simulator::flash::FlashSpec;
use diskwright_simulator::volume::{RateLimit, VolumeSpec};

use crate::PlanError;
use crate::demand::Demand;
use crate::limits::PlanLimits;
use crate::operation_rule::{OperationRule, continuing_share};
use crate::price_period::PricePeriod;
use crate::prices::bills::VolumeChoice;
use crate::prices::{DrivePower, InstanceCaps, PriceList, VolumeOffer};
use crate::reliability::{MemberReliability, afr};

/// A drive or volume that designs are made of.
#[derive(Clone, Debug)]
pub struct DesignPart {
    /// Its id in the catalogue or the price list.
    pub id: String,
    /// Full name, with size and speed if they were chosen.
    pub name: String,
    /// Class of the drive.
    pub class: DriveClass,
    /// Model for the simulator.
    pub device: DeviceModel,
    /// Capacity, bytes.
    pub capacity_bytes: f64,
    /// Bytes per second of a long transfer, averaged over the drive.
    pub stream_bytes_per_s: Option<f64>,
    /// Bytes per second of a long transfer at the beginning of the drive: on the outer tracks of a disk.
    pub outer_bytes_per_s: Option<f64>,
    /// Price of each.
    pub price: Option<PartPrice>,
    /// Watts of each at work.
    pub watts: Option<DrivePower>,
    /// Reliability by its data sheet, or its provider.
    pub spec_reliability: Option<MemberReliability>,
    /// Reliability by reports of large users.
    pub field_reliability: Option<MemberReliability>,
    /// Limits, if it is a volume.
    pub volume: Option<VolumePart>,
}

/// Limits of a volume.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumePart {
    /// Number of volumes in a design: each part is made for one number.
    pub count: u16,
    /// Operations per second of the volume, and their limit.
    pub iops: (f64, String),
    /// Bytes per second, and their limit.
    pub rate: (f64, String),
}

/// A price.
#[derive(Clone, Debug, PartialEq)]
pub struct PartPrice {
    /// Amount.
    pub amount: f64,
    /// Payment period.
    pub period: PricePeriod,
    /// Date.
    pub date: String,
    /// Source.
    pub source: String,
}

impl DesignPart {
    /// Payment period of the part.
    pub fn price_period(&self) -> PricePeriod {
        if self.volume.is_some() { PricePeriod::Month } else { PricePeriod::Once }
    }
}

/// Bytes per second of a long transfer: the mean of the outer and the inner tracks, and that of the outer.
fn disk_stream_rates(sheet: &DataSheet) -> [f64; 2] {
    let rate = |track: &TrackRate| match track {
        TrackRate::Sectors(sectors) => sectors * 512.0 * sheet.rpm / 60.0,
        TrackRate::Media(rate) | TrackRate::Sustained(rate) => *rate,
    };
    let outer = rate(&sheet.outer);
    [0.5 * (outer + rate(&sheet.inner)), outer].map(|rate| rate.min(sheet.interface_bytes_per_s))
}

/// Bytes per second that all dies program, at most the link's rate.
fn flash_stream_rate(spec: &FlashSpec) -> f64 {
    let dies = f64::from(spec.channels) * f64::from(spec.dies_per_channel) * f64::from(spec.planes);
    (dies * f64::from(spec.page_bytes) / (spec.program_ns as f64 * 1e-9)).min(spec.link_bytes_per_s)
}

/// A drive of the catalogue as a part.
fn drive_part(entry: &CatalogueEntry, prices: &PriceList, limits: &PlanLimits) -> Result<DesignPart, PlanError> {
    let device = entry.build_device().map_err(|because| PlanError::Drive { drive: entry.id.clone(), because })?;
    let group = prices.find_group(&entry.id);
    let price = prices.drive_price(&entry.id, &limits.currency).and_then(|price| {
        let (date, source) = (price.date.clone(), price.source.clone());
        Some(PartPrice {
            amount: price.price_for(entry.capacity_bytes as f64)?,
            period: PricePeriod::Once,
            date,
            source,
        })
    });
    let spec = group.and_then(|group| group.spec.as_ref());
    let field = group.and_then(|group| group.field.as_ref());
    let stream = match &entry.kind {
        EntryKind::Mechanical(sheet) => Some(disk_stream_rates(sheet)),
        EntryKind::Flash(spec) => Some([flash_stream_rate(spec); 2]),
        _ => None,
    };
    Ok(DesignPart {
        id: entry.id.clone(),
        name: entry.name.clone(),
        class: entry.class,
        capacity_bytes: entry.capacity_bytes as f64,
        stream_bytes_per_s: stream.map(|[mean, _]| mean),
        outer_bytes_per_s: stream.map(|[_, outer]| outer),
        device,
        price,
        watts: prices.drive_power(&entry.id).cloned(),
        spec_reliability: spec
            .map(|spec| MemberReliability { afr: afr(spec.mtbf_hours), errors_per_bit: spec.errors_per_bit }),
        field_reliability: field.map(|field| MemberReliability { afr: field.afr, errors_per_bit: 0.0 }),
        volume: None,
    })
}

/// Lists all parts that the limits allow for a demand.
///
/// # Errors
/// Unknown drives and instances, with the nearest names.
pub fn list_parts(demand: &Demand, limits: &PlanLimits) -> Result<Vec<DesignPart>, PlanError> {
    let prices = &limits.prices;
    let mut parts = Vec::new();
    for entry in list_drives(limits)? {
        if limits.allows_kind(entry.class, None) {
            parts.push(drive_part(entry, prices, limits)?);
        }
    }
    add_allowed_volumes(demand, limits, &mut parts)?;
    Ok(parts)
}

/// Adds the volumes that the limits allow for a demand; only they depend on it.
///
/// # Errors
/// Unknown instances, with the nearest names.
pub(crate) fn add_allowed_volumes(
    demand: &Demand,
    limits: &PlanLimits,
    parts: &mut Vec<DesignPart>,
) -> Result<(), PlanError> {
    let prices = &limits.prices;
    let wants_volumes = limits.drives.is_empty() || prices.volumes.iter().any(|offer| limits.names_part(&offer.id));
    if wants_volumes && limits.existing.is_none() {
        let instance = limits.instance_caps()?;
        for offer in &prices.volumes {
            let is_named = limits.drives.is_empty() || limits.names_part(&offer.id);
            let is_of_provider = instance.is_none_or(|caps| caps.provider == offer.provider);
            if is_named && is_of_provider && limits.allows_kind(DriveClass::Cloud, Some(offer)) {
                add_volumes(offer, demand, limits, instance, parts);
            }
        }
    }
    Ok(())
}

/// Lists the drives by name, or a user's own, those with a user's price, and those sold today.
fn list_drives(limits: &PlanLimits) -> Result<Vec<&CatalogueEntry>, PlanError> {
    let prices = &limits.prices;
    let names: Vec<&String> = match (limits.drives.is_empty(), &limits.existing) {
        // members of an array are alike, so additions are the same drive
        (_, Some(existing)) => vec![&existing.drive],
        (true, None) => {
            let own_ids = limits.own_drives.iter().map(|entry| &entry.id);
            let offered = prices.drives.iter().filter(|row| row.price.is_some()).map(|row| &row.id);
            own_ids.chain(offered).chain(prices.groups.iter().flat_map(|group| &group.drives)).collect()
        }
        (false, None) => limits.drives.iter().filter(|id| limits.find_volume(id).is_none()).collect(),
    };
    let mut entries: Vec<&CatalogueEntry> = Vec::new();
    for name in names {
        let Some(entry) = limits.find_drive(name).filter(|entry| entry.class != DriveClass::Cloud) else {
            let drives = limits.own_drives.iter().chain(catalogue::built_in_entries());
            let drive_ids = drives.map(|entry| entry.id.as_str());
            let short_ids = prices.volumes.iter().filter_map(|offer| offer.id.split_once('-')).map(|(_, name)| name);
            let known = drive_ids.chain(prices.volumes.iter().map(|offer| offer.id.as_str())).chain(short_ids);
            let near = nearest_word(&name.to_lowercase(), known).map(str::to_owned);
            return Err(PlanError::Unknown { kind: "drive or volume", name: name.clone(), near });
        };
        if !entries.iter().any(|other| other.id == entry.id) {
            entries.push(entry);
        }
    }
    Ok(entries)
}

/// Utilizations for which volumes are bought: the limits of a volume are the demand divided by one of these.
const UTILIZATION_GRADES: [f64; 6] = [0.95, 0.85, 0.75, 0.6, 0.4, 0.2];

/// Adds volumes of an offer for a demand: a number of them, each with a size and speed.
fn add_volumes(
    offer: &VolumeOffer,
    demand: &Demand,
    limits: &PlanLimits,
    instance: Option<&InstanceCaps>,
    parts: &mut Vec<DesignPart>,
) {
    let Some(like) = catalogue::find_entry(&offer.like) else { return };
    let EntryKind::Volume(like) = &like.kind else { return };
    let need = volume_need(like, demand);
    // an instance counts the bytes moved, the volume the bytes charged
    let instance = instance.map(|caps| (caps, need[1] / demand.bytes_per_s()));
    let needed_gib = demand.capacity_after(limits.horizon_days).unwrap_or(0.0) / GIB;
    for count in 1..=limits.max_volumes.min(limits.max_drives) {
        let n = f64::from(count);
        let mut last_choice = None;
        for grade in UTILIZATION_GRADES {
            let (iops, bytes_per_s) = (need[0] / n / grade, need[1] / n / grade);
            let choice = offer.choose_volume(needed_gib / n, iops, bytes_per_s / offer.unit.bytes());
            let Some(choice) = choice.filter(|choice| last_choice != Some(*choice)) else { continue };
            last_choice = Some(choice);
            parts.push(volume_part(offer, like, &choice, count, limits, instance));
        }
        if last_choice.is_none() {
            // too slow for the demand: the smallest that holds the data and the fastest available, which the search
            // then rejects by name
            let min_gib = (needed_gib / n).max(offer.gib[0]).ceil();
            let mut sizes = vec![min_gib, offer.fastest_gib(min_gib)];
            sizes.dedup();
            for gib in sizes.into_iter().filter(|gib| *gib <= offer.gib[1]) {
                let (iops, rate) = (offer.iops.max_value(gib), offer.rate.max_value(gib));
                parts.push(volume_part(offer, like, &VolumeChoice { gib, iops, rate }, count, limits, instance));
            }
        }
    }
}

const GIB: f64 = 1_073_741_824.0;

/// Counted operations and bytes per second of a demand.
pub fn volume_need(spec: &VolumeSpec, demand: &Demand) -> [f64; 2] {
    let rule = OperationRule::for_volume(spec);
    let continuing = continuing_share(demand.sequential_share, demand.read_share());
    let mut need = [0.0; 2];
    let kinds =
        [(demand.reads_per_s, demand.read_size_bytes, false), (demand.writes_per_s, demand.write_size_bytes, true)];
    for (rate, size, is_write) in kinds.into_iter().filter(|kind| kind.0 > 0.0) {
        let [operations, bytes] = rule.count_request(size, is_write, continuing);
        need[0] += rate * operations;
        need[1] += rate * bytes;
    }
    need
}

fn volume_part(
    offer: &VolumeOffer,
    like: &VolumeSpec,
    choice: &VolumeChoice,
    count: u16,
    limits: &PlanLimits,
    instance: Option<(&InstanceCaps, f64)>,
) -> DesignPart {
    let limit_name = |limit: &str| format!("{} {limit}", offer.id);
    let mut iops = (choice.iops, limit_name("IOPS"));
    let mut rate = (choice.rate * offer.unit.bytes(), limit_name("throughput"));
    if let Some((caps, charged)) = instance {
        // all volumes share the instance's limits
        let (each_iops, each_rate) =
            (caps.baseline.iops / f64::from(count), caps.baseline.mb_s * 1e6 * charged / f64::from(count));
        if each_iops < iops.0 {
            iops = (each_iops, format!("instance {} IOPS", caps.id));
        }
        if each_rate < rate.0 {
            rate = (each_rate, format!("instance {} throughput", caps.id));
        }
    }
    let spec = VolumeSpec {
        name: offer.id.clone(),
        blocks: (choice.gib * GIB / 512.0) as u64,
        operations: RateLimit::constant_rate(iops.0),
        bytes: RateLimit::constant_rate(rate.0),
        ..like.clone()
    };
    let (gib, paid_iops, paid_rate) = (choice.gib, choice.iops.round(), choice.rate.round());
    let bill = offer.monthly_bill(choice).total().filter(|_| offer.price.currency == limits.currency);
    DesignPart {
        id: offer.id.clone(),
        name: format!("{}, {gib} GiB, {paid_iops} IOPS, {paid_rate} {}", offer.name, offer.unit.name()),
        class: DriveClass::Cloud,
        device: DeviceModel::Volume(Arc::new(spec)),
        capacity_bytes: gib * GIB,
        stream_bytes_per_s: None,
        outer_bytes_per_s: None,
        price: bill.map(|amount| PartPrice {
            amount,
            period: PricePeriod::Month,
            date: offer.date.clone(),
            source: offer.source.clone(),
        }),
        watts: None,
        spec_reliability: offer.afr.map(|[_, max_afr]| MemberReliability { afr: max_afr, errors_per_bit: 0.0 }),
        field_reliability: None,
        volume: Some(VolumePart { count, iops, rate }),
    }
}
