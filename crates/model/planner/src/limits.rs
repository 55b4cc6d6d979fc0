//! Limits that designs must meet: the budget, levels, drives, instance, time.

use diskwright_base::units::format_count;
use diskwright_base::user_input::nearest_word;
use diskwright_simulator::ArrayLevel;
use diskwright_simulator::catalogue::{self, CatalogueEntry, DriveClass};

use crate::PlanError;
use crate::prices::{InstanceCaps, PriceList, VolumeOffer};

/// Limits that designs must meet.
#[derive(Clone, Debug)]
pub struct PlanLimits {
    /// Maximum cost of a design over the mission, in the currency.
    pub budget: Option<f64>,
    /// Currency of all prices; prices are not converted.
    pub currency: String,
    /// Maximum number of drives, including spares.
    pub max_drives: u16,
    /// Maximum number of volumes in a design.
    pub max_volumes: u16,
    /// Levels for drives; several volumes are striped.
    pub levels: Vec<ArrayLevel>,
    /// Kinds of parts; empty for all.
    pub only: Vec<PartFilter>,
    /// Drives and volumes by id; empty for those sold today.
    pub drives: Vec<String>,
    /// A user's own drives, which take precedence over the catalogue's.
    pub own_drives: Vec<CatalogueEntry>,
    /// Controllers to try, by id; empty for ports of the machine that limit nothing.
    pub controllers: Vec<String>,
    /// Maximum number of controllers in a design.
    pub max_controllers: u16,
    /// Size of the controllers' caches, if it differs from their own.
    pub cache_bytes: Option<f64>,
    /// Existing drives that are kept: they cost nothing, and every design has them.
    pub existing: Option<ExistingDrives>,
    /// The instance that the volumes are attached to.
    pub instance: Option<String>,
    /// Numbers of spares to try.
    pub spares: Vec<u16>,
    /// Stripe units to try, bytes.
    pub stripe_units: Vec<u64>,
    /// The mission for costs and losses, years.
    pub years: f64,
    /// Days for which the capacity must last.
    pub horizon_days: f64,
    /// Largest chance of a loss over the mission, by data-sheet rates.
    pub max_loss: Option<f64>,
    /// Recommended members beyond those needed, as a share (NT Magazine 1998: 10 for 8).
    pub surplus: f64,
    /// Requests in flight that a mechanical drive may hold (NT Magazine 1998, NT Resource Kit: 2).
    pub queue_each: f64,
    /// Hours until a failed drive is replaced if there is no spare.
    pub replace_hours: f64,
    /// Number of designs on the short list.
    pub list_length: usize,
    /// Requests that a simulation of a design should process.
    pub simulated_requests: u32,
    /// Prices.
    pub prices: PriceList,
    /// Today's date, `2026-11-23`.
    pub today: String,
}

/// Drives that exist already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExistingDrives {
    /// Number of drives.
    pub count: u16,
    /// Id of the drive.
    pub drive: String,
}

/// Largest number of drives that a plan may have.
pub const MAX_DRIVES: u16 = 1024;

/// A kind of parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartFilter {
    /// Drives that turn.
    Hdd,
    /// Flash drives.
    Ssd,
    /// Volumes of any cloud.
    Cloud,
    /// Volumes of one provider.
    Provider(String),
}

impl PartFilter {
    /// Parses `hdd`, `ssd`, `cloud`, `cloud:aws`.
    pub fn parse(text: &str) -> Option<PartFilter> {
        match text.trim().to_ascii_lowercase().as_str() {
            "hdd" => Some(PartFilter::Hdd),
            "ssd" => Some(PartFilter::Ssd),
            "cloud" => Some(PartFilter::Cloud),
            other => other.strip_prefix("cloud:").map(|provider| PartFilter::Provider(provider.to_owned())),
        }
    }

    /// Its name, as [`PartFilter::parse`] reads it.
    pub fn name(&self) -> String {
        match self {
            PartFilter::Hdd => "hdd".into(),
            PartFilter::Ssd => "ssd".into(),
            PartFilter::Cloud => "cloud".into(),
            PartFilter::Provider(provider) => format!("cloud:{provider}"),
        }
    }
}

impl PlanLimits {
    /// Default limits: levels with redundancy, 24 drives, five years.
    pub fn with_defaults(prices: PriceList, today: &str) -> PlanLimits {
        PlanLimits {
            budget: None,
            currency: "USD".into(),
            max_drives: 24,
            max_volumes: 8,
            levels: vec![ArrayLevel::Raid1, ArrayLevel::Raid10, ArrayLevel::Raid5, ArrayLevel::Raid6],
            only: Vec::new(),
            drives: Vec::new(),
            own_drives: Vec::new(),
            controllers: Vec::new(),
            max_controllers: 4,
            cache_bytes: None,
            existing: None,
            instance: None,
            spares: vec![0, 1],
            stripe_units: [16, 64, 256, 1024].map(|kib| kib * 1024).to_vec(),
            years: 5.0,
            horizon_days: 0.0,
            max_loss: None,
            surplus: 0.25,
            queue_each: 2.0,
            replace_hours: 24.0,
            list_length: 5,
            simulated_requests: 20_000,
            prices,
            today: today.to_owned(),
        }
    }

    /// Checks for contradictions.
    ///
    /// # Errors
    /// The two limits that contradict each other.
    pub fn check_consistency(&self) -> Result<(), PlanError> {
        let contradiction = |reason: String| Err(PlanError::Contradiction(reason));
        let currencies = self.prices.currencies();
        if !currencies.contains(&self.currency.as_str()) {
            let known = currencies.join(", ");
            let currency = &self.currency;
            return contradiction(format!(
                "there are no prices in {currency}; prices are in {known} and are not converted"
            ));
        }
        if self.instance.is_some() && self.only.iter().any(|f| matches!(f, PartFilter::Hdd | PartFilter::Ssd)) {
            return contradiction("--instance is for cloud volumes, but --only selects drives".into());
        }
        if let Some(spares) = self.spares.iter().min().filter(|spares| **spares >= self.max_drives) {
            let drives = format_count(self.max_drives, "drive", "drives");
            return contradiction(format!("--spares {spares} leaves nothing of the {drives} that --max-drives allows"));
        }
        self.check_named()?;
        for filter in &self.only {
            let PartFilter::Provider(provider) = filter else { continue };
            let mut known: Vec<&str> = self.prices.volumes.iter().map(|offer| offer.provider.as_str()).collect();
            known.sort_unstable();
            known.dedup();
            if !known.contains(&provider.as_str()) {
                let near = nearest_word(provider, known.iter().copied()).map(str::to_owned);
                return Err(PlanError::Unknown { kind: "cloud", name: provider.clone(), near });
            }
            if let Some(caps) = self.instance_caps()?.filter(|caps| caps.provider != *provider) {
                let InstanceCaps { id, provider: own_provider, .. } = caps;
                return contradiction(format!("instance {id} is of {own_provider}, but --only selects {provider}"));
            }
        }
        self.check_hardware()?;
        let min_members = self.levels.iter().map(|level| level.info().min_members).min().unwrap_or(1);
        if min_members > self.max_drives {
            let max_drives = self.max_drives;
            return contradiction(format!(
                "no level of --levels works with --max-drives {max_drives}; at least {min_members} are needed"
            ));
        }
        Ok(())
    }

    /// Checks that named parts are of the requested kinds.
    fn check_named(&self) -> Result<(), PlanError> {
        let kept = self.existing.as_ref().map(|existing| ("--keep-existing", &existing.drive));
        for (option, name) in self.drives.iter().map(|name| ("--drives", name)).chain(kept) {
            let offer = self.find_volume(name);
            let class = match (offer, self.find_drive(name)) {
                (Some(_), _) => DriveClass::Cloud,
                (None, Some(entry)) => entry.class,
                (None, None) => continue,
            };
            if !self.allows_kind(class, offer) {
                let option_name = if self.instance.is_some() { "--instance" } else { "--only" };
                return Err(PlanError::Contradiction(format!("{option} names {name}, which {option_name} excludes")));
            }
        }
        Ok(())
    }

    /// Checks that existing drives and controllers are not combined with a cloud.
    fn check_hardware(&self) -> Result<(), PlanError> {
        let contradiction = |reason: String| Err(PlanError::Contradiction(reason));
        let hardware = [("--keep-existing", self.existing.is_some()), ("--controllers", !self.controllers.is_empty())];
        let is_cloud = |f: &PartFilter| matches!(f, PartFilter::Cloud | PartFilter::Provider(_));
        let is_cloud_only = self.instance.is_some() || !self.only.is_empty() && self.only.iter().all(is_cloud);
        if let Some((option, _)) = hardware.iter().find(|(_, is_given)| *is_given && is_cloud_only) {
            return contradiction(format!("{option} is for drives, but --instance and --only cloud select volumes"));
        }
        if let Some((option, _)) = hardware.iter().find(|(_, is_given)| *is_given && self.names_volumes_alone()) {
            return contradiction(format!("{option} is for drives, but --drives names only cloud volumes"));
        }
        if self.cache_bytes.is_some() && self.controllers.is_empty() {
            return contradiction("--cache applies to controllers: name one with --controllers".into());
        }
        let Some(existing) = &self.existing else { return Ok(()) };
        if !self.drives.is_empty() && !self.names_part(&existing.drive) {
            return contradiction(format!("--keep-existing keeps {}, but --drives selects others", existing.drive));
        }
        if existing.count > self.max_drives {
            let (count, max_drives) = (existing.count, self.max_drives);
            return contradiction(format!("there are already {count} drives, but --max-drives is {max_drives}"));
        }
        Ok(())
    }

    /// Returns the named instance, if there is one.
    ///
    /// # Errors
    /// The nearest name if the instance is unknown.
    pub fn instance_caps(&self) -> Result<Option<&InstanceCaps>, PlanError> {
        let Some(name) = &self.instance else { return Ok(None) };
        let all = &self.prices.instances;
        match all.iter().find(|row| row.id.eq_ignore_ascii_case(name)) {
            Some(caps) => Ok(Some(caps)),
            None => {
                let near = nearest_word(&name.to_lowercase(), all.iter().map(|row| row.id.as_str())).map(str::to_owned);
                Err(PlanError::Unknown { kind: "instance", name: name.clone(), near })
            }
        }
    }

    /// True if `--drives` names it.
    pub(crate) fn names_part(&self, id: &str) -> bool {
        self.drives.iter().any(|name| name.eq_ignore_ascii_case(id))
    }

    /// True if `--drives` names only volumes.
    pub fn names_volumes_alone(&self) -> bool {
        !self.drives.is_empty() && self.drives.iter().all(|name| self.find_volume(name).is_some())
    }

    /// Returns the drive with a name: a user's own, or the catalogue's.
    pub fn find_drive(&self, id: &str) -> Option<&CatalogueEntry> {
        self.own_drives.iter().find(|entry| entry.id.eq_ignore_ascii_case(id)).or_else(|| catalogue::find_entry(id))
    }

    /// Returns the volume offer with a name.
    pub(crate) fn find_volume(&self, id: &str) -> Option<&VolumeOffer> {
        self.prices.volumes.iter().find(|offer| offer.id.eq_ignore_ascii_case(id))
    }

    /// True if the kind of a part is allowed.
    pub(crate) fn allows_kind(&self, class: DriveClass, offer: Option<&VolumeOffer>) -> bool {
        if self.instance.is_some() && offer.is_none() {
            return false;
        }
        self.only.is_empty()
            || self.only.iter().any(|filter| match filter {
                PartFilter::Hdd => class == DriveClass::Hdd,
                PartFilter::Ssd => matches!(class, DriveClass::SataSsd | DriveClass::SasSsd | DriveClass::NvmeSsd),
                PartFilter::Cloud => class == DriveClass::Cloud,
                PartFilter::Provider(provider) => offer.is_some_and(|offer| offer.provider == *provider),
            })
    }
}
