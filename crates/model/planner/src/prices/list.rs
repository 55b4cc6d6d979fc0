//! A list of prices: the built-in one, and a user's own that takes precedence.

use serde::Deserialize;

use super::{ByteBurstRule, HardwarePrice, InstanceCaps, InstanceTable, VolumeOffer, VolumeType, day_number};
use crate::controller_path::ControllerOffer;

/// Rows of a price file.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceList {
    /// Volumes.
    #[serde(default, rename = "volume")]
    pub volumes: Vec<VolumeOffer>,
    /// Types of volumes that are not offered: their limits without a price.
    #[serde(default, rename = "volume_type")]
    pub volume_types: Vec<VolumeType>,
    /// Instances.
    #[serde(default, rename = "instance")]
    pub instances: Vec<InstanceCaps>,
    /// Instances in tables, which become rows when the list is read.
    #[serde(default, rename = "instance_table")]
    instance_tables: Vec<InstanceTable>,
    /// Groups of drives.
    #[serde(default, rename = "group")]
    pub groups: Vec<DriveGroup>,
    /// Prices of single drives; they take precedence over those of groups.
    #[serde(default, rename = "drive")]
    pub drives: Vec<DrivePrice>,
    /// Controllers.
    #[serde(default, rename = "controller")]
    pub controllers: Vec<ControllerOffer>,
    /// Whole subsystems.
    #[serde(default, rename = "subsystem")]
    pub subsystems: Vec<Subsystem>,
}

/// Drives that share a price and failure rates.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveGroup {
    /// Id in the data.
    pub id: String,
    /// Full name.
    pub name: String,
    /// Ids of the simulator's catalogue.
    pub drives: Vec<String>,
    /// Their price.
    pub price: Option<HardwarePrice>,
    /// Rates by their data sheets.
    pub spec: Option<SpecRates>,
    /// Rates by reports of large users.
    pub field: Option<FieldRates>,
}

/// Power of a drive at work; in a user's own row a plain number.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum DrivePower {
    /// Watts.
    Plain(f64),
    /// With their source.
    Sourced {
        /// Watts.
        value: f64,
        /// Date of the source, `2026-11-23`.
        date: String,
        /// Source.
        source: String,
    },
}

impl DrivePower {
    /// Watts.
    pub fn watts(&self) -> f64 {
        match self {
            DrivePower::Plain(watts) | DrivePower::Sourced { value: watts, .. } => *watts,
        }
    }

    /// Date and source.
    pub fn day_and_source(&self) -> Option<(&str, &str)> {
        match self {
            DrivePower::Plain(_) => None,
            DrivePower::Sourced { date, source, .. } => Some((date, source)),
        }
    }

    fn check_values(&self) -> Result<(), String> {
        if let Some((date, _)) = self.day_and_source() {
            check_date(date)?;
        }
        match self.watts() {
            watts if is_positive_number(watts) && watts < 1e4 => Ok(()),
            watts => Err(format!("watts: {watts}; omit it if it is unknown")),
        }
    }
}

/// Failure rates of data sheets.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpecRates {
    /// Mean time between failures, hours.
    pub mtbf_hours: f64,
    /// Maximum errors per bit read.
    pub errors_per_bit: f64,
    /// Source.
    pub source: String,
}

/// Failure rates of the field.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FieldRates {
    /// Annual failure rate.
    pub afr: f64,
    /// Source.
    pub source: String,
}

/// The price of one kind of drive.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrivePrice {
    /// Id of the simulator's catalogue.
    pub id: String,
    /// Its price.
    pub price: Option<HardwarePrice>,
    /// Its power at work.
    pub watts: Option<DrivePower>,
}

/// A subsystem that is sold as a whole.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subsystem {
    /// Id in the data.
    pub id: String,
    /// Full name.
    pub name: String,
    /// Its drives, by id of the simulator's catalogue, if it has them.
    pub drive: Option<String>,
    /// Number of drives.
    pub count: u16,
    /// Their level, if published.
    pub level: Option<String>,
    /// GB of a drive, as published.
    pub drive_gb: f64,
    /// Its price.
    pub price: HardwarePrice,
}

impl PriceList {
    /// Returns the volume with a name, with its provider (`aws-gp3`) or without (`gp3`), in any case.
    pub fn find_volume(&self, name: &str) -> Option<&VolumeOffer> {
        let has_name = |id: &str| id.eq_ignore_ascii_case(name);
        let has_short_name = |id: &str| id.split_once('-').is_some_and(|(_, rest)| has_name(rest));
        let by_full_id = self.volumes.iter().find(|offer| has_name(&offer.id));
        by_full_id.or_else(|| self.volumes.iter().find(|offer| has_short_name(&offer.id)))
    }

    /// Returns the type of volume with a name in any case: its id, with its provider (`aws-gp3`) or without (`gp3`), or
    /// another one. Of several types with that name, it is the smallest that holds the size; without a size, there is
    /// none.
    pub fn find_volume_type(&self, name: &str, size_bytes: Option<u64>) -> Option<VolumeType> {
        if let Some(offer) = self.find_volume(name) {
            return Some(offer.volume_type());
        }
        let offered = self.volumes.iter().map(VolumeOffer::volume_type);
        let mut named: Vec<VolumeType> =
            offered.chain(self.volume_types.iter().cloned()).filter(|kind| kind.has_name(name)).collect();
        if named.len() < 2 {
            return named.pop();
        }
        // Azure names a disk by its size, rounded up to the next one that is sold
        let gib = size_bytes? as f64 / 1_073_741_824.0;
        named.retain(|kind| kind.gib[1] >= gib);
        named.into_iter().min_by(|a, b| a.gib[1].total_cmp(&b.gib[1]))
    }

    /// True if several types have this name, so that the size decides.
    pub fn is_shared_type_name(&self, name: &str) -> bool {
        let offered = self.volumes.iter().filter(|offer| offer.also.iter().any(|also| also.eq_ignore_ascii_case(name)));
        offered.count() + self.volume_types.iter().filter(|kind| kind.has_name(name)).count() > 1
    }

    /// Returns the names of all types of volumes.
    pub fn volume_type_ids(&self) -> impl Iterator<Item = &str> {
        let offered = self.volumes.iter().map(|offer| offer.id.as_str());
        offered.chain(self.volume_types.iter().map(|kind| kind.id.as_str()))
    }

    /// Returns an instance by its type, in any case.
    pub fn find_instance(&self, name: &str) -> Option<&InstanceCaps> {
        self.instances.iter().find(|row| row.id.eq_ignore_ascii_case(name))
    }

    /// Turns tables of instances into rows; single rows take precedence.
    pub(super) fn expand_tables(&mut self) {
        for table in std::mem::take(&mut self.instance_tables) {
            let new: Vec<InstanceCaps> =
                table.expand().into_iter().filter(|row| self.find_instance(&row.id).is_none()).collect();
            self.instances.extend(new);
        }
    }

    /// Adds the rows of another list, which take precedence over those of this one.
    pub fn extend(&mut self, other: PriceList) {
        prepend_rows(&mut self.volumes, other.volumes, |row| &row.id);
        prepend_rows(&mut self.volume_types, other.volume_types, |row| &row.id);
        prepend_rows(&mut self.instances, other.instances, |row| &row.id);
        prepend_rows(&mut self.groups, other.groups, |row| &row.id);
        // a row with only a price keeps the power of the row that it replaces
        self.drives.splice(0..0, other.drives);
        prepend_rows(&mut self.controllers, other.controllers, |row| &row.id);
        prepend_rows(&mut self.subsystems, other.subsystems, |row| &row.id);
    }

    /// Returns the group of a drive.
    pub fn find_group(&self, drive: &str) -> Option<&DriveGroup> {
        self.groups.iter().find(|group| group.drives.iter().any(|id| id.eq_ignore_ascii_case(drive)))
    }

    /// Returns the price of a drive in a currency, its own before its group's.
    pub fn drive_price(&self, drive: &str, currency: &str) -> Option<&HardwarePrice> {
        let own_prices = self.own_rows(drive).filter_map(|row| row.price.as_ref());
        let group = self.find_group(drive).and_then(|group| group.price.as_ref());
        own_prices.chain(group).find(|price| price.currency == currency)
    }

    /// Returns the power of a drive at work.
    pub fn drive_power(&self, drive: &str) -> Option<&DrivePower> {
        self.own_rows(drive).find_map(|row| row.watts.as_ref())
    }

    /// Returns a user's own rows of a drive, ignoring case, as everywhere else.
    fn own_rows(&self, drive: &str) -> impl Iterator<Item = &DrivePrice> {
        self.drives.iter().filter(move |row| row.id.eq_ignore_ascii_case(drive))
    }

    /// Currencies of the rows, each once.
    pub fn currencies(&self) -> Vec<&str> {
        let volumes = self.volumes.iter().map(|row| row.price.currency.as_str());
        let groups = self.groups.iter().filter_map(|row| Some(row.price.as_ref()?.currency.as_str()));
        let drives = self.drives.iter().filter_map(|row| Some(row.price.as_ref()?.currency.as_str()));
        let controllers = self.controllers.iter().filter_map(|row| Some(row.price.as_ref()?.currency.as_str()));
        let subsystems = self.subsystems.iter().map(|row| row.price.currency.as_str());
        let currencies = volumes.chain(groups).chain(drives).chain(controllers).chain(subsystems);
        let mut currencies: Vec<&str> = currencies.collect();
        currencies.sort_unstable();
        currencies.dedup();
        currencies
    }

    /// Checks for impossible values: the row, and what is wrong.
    pub(super) fn check_rows(&self) -> Result<(), (String, String)> {
        for row in &self.volumes {
            check_volume(row).map_err(|message| (row.id.clone(), message))?;
        }
        for row in &self.volume_types {
            let checked = check_limits(row).and_then(|()| check_date(&row.date)).and_then(|()| check_sizes(row.gib));
            checked.map_err(|message| (row.id.clone(), message))?;
        }
        for row in &self.instances {
            let caps = [Some(row.baseline), row.burst];
            if caps.into_iter().flatten().any(|cap| !is_positive_number(cap.iops) || !is_positive_number(cap.mb_s)) {
                return Err((row.id.clone(), "mb_s and iops: expected more than 0".into()));
            }
            // credits pay for what exceeds the baseline
            if row.burst.is_some_and(|burst| burst.iops < row.baseline.iops || burst.mb_s < row.baseline.mb_s) {
                return Err((row.id.clone(), "most: expected at least the baseline".into()));
            }
            check_date(&row.date).map_err(|message| (row.id.clone(), message))?;
        }
        for row in &self.groups {
            check_rates(row).map_err(|message| (row.id.clone(), message))?;
        }
        let groups = self.groups.iter().filter_map(|row| Some((&row.id, row.price.as_ref()?)));
        let drives = self.drives.iter().filter_map(|row| Some((&row.id, row.price.as_ref()?)));
        let controllers = self.controllers.iter().filter_map(|row| Some((&row.id, row.price.as_ref()?)));
        let subsystems = self.subsystems.iter().map(|row| (&row.id, &row.price));
        for row in &self.controllers {
            let checked = row.check_values().and_then(|()| check_date(&row.date));
            checked.map_err(|message| (row.id.clone(), message))?;
        }
        for row in &self.drives {
            let checked = row.watts.as_ref().map_or(Ok(()), DrivePower::check_values);
            checked.map_err(|message| (row.id.clone(), message))?;
        }
        for (id, price) in groups.chain(drives).chain(controllers).chain(subsystems) {
            check_price(price).map_err(|message| (id.clone(), message))?;
        }
        Ok(())
    }
}

fn prepend_rows<T>(rows: &mut Vec<T>, other: Vec<T>, id: impl Fn(&T) -> &String) {
    rows.retain(|row| !other.iter().any(|new| id(new).eq_ignore_ascii_case(id(row))));
    // a user's own come first
    rows.splice(0..0, other);
}

fn is_positive_number(value: f64) -> bool {
    value > 0.0 && value.is_finite()
}

fn is_non_negative_number(value: f64) -> bool {
    value >= 0.0 && value.is_finite()
}

/// Checks that failure rates are shares, not percentages.
fn check_rates(row: &DriveGroup) -> Result<(), String> {
    if let Some(spec) = &row.spec
        && !(is_positive_number(spec.mtbf_hours) && (0.0..1.0).contains(&spec.errors_per_bit))
    {
        return Err("spec: expected mtbf_hours above 0, and errors_per_bit from 0 to below 1".into());
    }
    match &row.field {
        Some(field) if !(field.afr > 0.0 && field.afr < 1.0) => {
            Err(format!("field: afr {}; expected a share above 0 and below 1, such as 0.0136 for 1.36 %", field.afr))
        }
        _ => Ok(()),
    }
}

/// Checks the permanent and burst limits of a volume.
fn check_limits(row: &VolumeType) -> Result<(), String> {
    for limit in [&row.iops, &row.rate] {
        let above = limit.with_above.iter().flatten().copied();
        let mut amounts = [Some(limit.base), limit.free, Some(limit.grows_per_gib)].into_iter().flatten().chain(above);
        if !is_positive_number(limit.max) {
            return Err("most: expected more than 0".into());
        }
        if !amounts.all(is_non_negative_number) {
            return Err("with, free, with_above and grows_per_gib: expected 0 or more".into());
        }
        if ![limit.per_gib, limit.per_iops].into_iter().flatten().all(is_positive_number) {
            return Err("per_gib and per_iops: expected more than 0".into());
        }
    }
    let mut burst = row.burst.iter().flat_map(|rule| [rule.iops, rule.credits, rule.below_gib]);
    if !burst.all(is_positive_number) {
        return Err("burst: expected more than 0".into());
    }
    if row.request_bytes == 0 || !is_positive_number(row.write_cost) {
        return Err("request_bytes and write_cost: expected more than 0".into());
    }
    let has_valid_amounts = |rule: &ByteBurstRule| {
        let amounts = [rule.rate, rule.rate_per_gib, rule.credits, rule.credits_per_gib];
        amounts.into_iter().all(is_non_negative_number)
            && is_positive_number(rule.max)
            && is_positive_number(rule.below_gib)
    };
    if let Some(rule) = &row.byte_burst
        && !has_valid_amounts(rule)
    {
        return Err("byte_burst: expected most and below_gib above 0, and the others 0 or more".into());
    }
    Ok(())
}

fn check_date(date: &str) -> Result<(), String> {
    match day_number(date) {
        Some(_) => Ok(()),
        None => Err(format!("date: `{date}`; write it as 2026-10-07")),
    }
}

fn check_currency(currency: &str) -> Result<(), String> {
    let is_code = currency.len() == 3 && currency.chars().all(|c| c.is_ascii_uppercase());
    if is_code { Ok(()) } else { Err(format!("currency: `{currency}`; expected three capitals, such as USD")) }
}

fn check_price(price: &HardwarePrice) -> Result<(), String> {
    check_currency(&price.currency)?;
    check_date(&price.date)?;
    match (price.each, price.per_tb) {
        (Some(value), None) | (None, Some(value)) if is_positive_number(value) => Ok(()),
        (Some(_), Some(_)) => Err("price: give one of `each` and `per_tb`".into()),
        (None, None) => Err("price: give `each` or `per_tb`; omit the price if it is unknown".into()),
        _ => Err("price: expected more than 0; omit it if it is unknown".into()),
    }
}

fn check_sizes(gib: [f64; 2]) -> Result<(), String> {
    let is_range = gib[0] > 0.0 && gib[1] >= gib[0] && gib[1].is_finite();
    if is_range { Ok(()) } else { Err("gib: expected the least and the largest size".into()) }
}

fn check_volume(row: &VolumeOffer) -> Result<(), String> {
    check_date(&row.date)?;
    check_currency(&row.price.currency)?;
    check_sizes(row.gib)?;
    let price = &row.price;
    let single = [price.month, price.gib_month, price.rate_month, price.gib_hour, price.iops_hour, price.rate_hour];
    let tiers = price.iops_month.iter().flatten().map(|tier| tier[1]);
    if single.into_iter().flatten().chain(tiers).any(|value| !is_positive_number(value)) {
        return Err("price: expected more than 0; omit what is unknown".into());
    }
    check_limits(&row.volume_type())?;
    if row.afr.is_some_and(|[low, high]| !(0.0 <= low && low <= high && high < 1.0)) {
        return Err("afr: expected two shares below 1, the lower first".into());
    }
    match diskwright_simulator::catalogue::find_entry(&row.like) {
        Some(entry) if matches!(entry.kind, diskwright_simulator::catalogue::EntryKind::Volume(_)) => Ok(()),
        _ => Err(format!("like: `{}` is not a volume of the catalogue (`diskwright list drives`)", row.like)),
    }
}
