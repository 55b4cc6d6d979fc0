//! Command-line options as a demand and limits.

use std::path::{Path, PathBuf};

use clap::Args;
use diskwright_base::byte_size::{parse_capacity, parse_memory_size};
use diskwright_base::units::{parse_duration, parse_share};
use diskwright_counters::live::{Clock, SystemClock};
use diskwright_hostfiles::bounded_file::{MAX_DESCRIPTION_BYTES, read_file, read_text_file};
use diskwright_planner::arithmetic::front_end_from_member_io;
use diskwright_planner::demand::{CapacityGrowth, ResponseStatistic, ResponseTarget};
use diskwright_planner::limits::{ExistingDrives, MAX_DRIVES};
use diskwright_planner::prices::{PriceList, built_in_prices, read_price_list};
use diskwright_planner::{Demand, DemandError, PartFilter, PlanLimits};
use diskwright_simulator::{ArrayLevel, catalogue};

use crate::commands::Failure;
use crate::commands::time_argument::rfc3339;

/// Most values of one option that are tried: the designs are the product of all lists.
const MAX_LIST_VALUES: usize = 64;
/// Default size of a request, bytes.
const DEFAULT_REQUEST_BYTES: u64 = 8192;

/// Requirements of a load.
#[derive(Args)]
#[command(next_help_heading = "Demand")]
pub struct DemandOptions {
    /// Reads per second
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    reads: Option<f64>,
    /// Writes per second
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    writes: Option<f64>,
    /// Size of a request [default: 8K]
    #[arg(long, value_name = "SIZE", value_parser = parse_memory_size)]
    size: Option<u64>,
    /// Size of a write, if it differs from that of a read
    #[arg(long, value_name = "SIZE", value_parser = parse_memory_size)]
    write_size: Option<u64>,
    /// Capacity needed (36GB)
    #[arg(long, value_name = "SIZE", value_parser = parse_capacity)]
    capacity: Option<u64>,
    /// Longest acceptable response time (20ms)
    #[arg(long, value_name = "TIME")]
    response: Option<String>,
    /// Statistic of the response time that --response limits: mean, p95 or p99
    #[arg(long, value_name = "STATISTIC", requires = "response", default_value = "mean")]
    response_of: String,
    /// Requests in flight, as measured today; mechanical drives are sized at two each
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    queue: Option<f64>,
    /// Share of requests that are sequential (30%)
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    sequential: Option<f64>,
    /// Growth of the capacity per day (1GB)
    #[arg(long, value_name = "SIZE", value_parser = parse_capacity)]
    growth: Option<u64>,
    /// How long the capacity must last (365d)
    #[arg(long, value_name = "TIME")]
    horizon: Option<String>,
    /// The rates are those of all members of an array together; give its level and number of members (raid5:3)
    #[arg(long, value_name = "LEVEL:N")]
    members_of: Option<String>,
}

/// Limits that designs must meet.
#[derive(Args)]
#[command(next_help_heading = "Limits")]
pub struct LimitOptions {
    /// Maximum cost of a design over its years of use (5000, 5000EUR)
    #[arg(long, value_name = "PRICE", allow_hyphen_values = true)]
    budget: Option<String>,
    /// Currency of prices; currencies are not converted
    #[arg(long, value_name = "CODE")]
    currency: Option<String>,
    /// Maximum number of drives, including spares
    #[arg(long, value_name = "N", default_value_t = 24)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=i64::from(MAX_DRIVES)))]
    max_drives: u16,
    /// RAID levels to try [default: raid1,raid10,raid5,raid6]
    #[arg(long, value_name = "LEVELS", value_delimiter = ',')]
    levels: Vec<String>,
    /// Kinds of parts to try: hdd, ssd, cloud, cloud:aws
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    only: Vec<String>,
    /// Drives and volumes to try, by name, instead of those sold today
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    drives: Vec<String>,
    /// A TOML file of your own drives, such as `--calibrate` writes; they are tried beside those
    /// sold today, or by name with --drives
    #[arg(long, value_name = "FILE")]
    catalogue: Option<PathBuf>,
    /// Controllers to try (sas3-hba-8,sas3-raid-8) [default: ports without any limit]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    controllers: Vec<String>,
    /// Maximum number of controllers in a design
    #[arg(long, value_name = "N", default_value_t = 4, requires = "controllers",
          value_parser = clap::value_parser!(u16).range(1..=16))]
    max_controllers: u16,
    /// Size of the controllers' battery-backed caches, instead of their own (1GB)
    #[arg(long, value_name = "SIZE", value_parser = parse_memory_size, requires = "controllers")]
    cache: Option<u64>,
    /// Keep the existing drives and add to them: their number and name (3:compaq-4gb); with --from,
    /// you may omit the number
    #[arg(long, value_name = "[N:]DRIVE", conflicts_with = "fleet")]
    keep_existing: Option<String>,
    /// Cloud instance that limits its volumes (m6i.large)
    #[arg(long, value_name = "NAME")]
    instance: Option<String>,
    /// Spare drives [default: without and with one]
    #[arg(long, value_name = "N")]
    spares: Option<u16>,
    /// Stripe units to try [default: 16K,64K,256K,1M]
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = parse_memory_size)]
    stripe_unit: Vec<u64>,
    /// Years of use, for costs and losses
    #[arg(long, value_name = "N", default_value_t = 5.0, allow_negative_numbers = true)]
    years: f64,
    /// Largest chance of losing data over these years (0.1%)
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true, value_parser = parse_share)]
    max_loss: Option<f64>,
    /// Extra drives to recommend beyond those needed (25%)
    #[arg(long, value_name = "SHARE", default_value = "25%", value_parser = parse_share)]
    surplus: f64,
    /// Number of designs to list
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=20))]
    list: u8,
    /// A TOML file of prices and limits that override the built-in ones (docs/planner.md)
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
}

fn usage_failure(text: impl Into<String>) -> Failure {
    Failure::Usage(text.into())
}

/// Describes what is wrong with a typed demand, by the option that gave it.
fn describe_demand_error(error: &DemandError) -> String {
    let DemandError::Number { field, value, expected } = error else { return error.to_string() };
    let options = [
        ("reads_per_s", "--reads"),
        ("writes_per_s", "--writes"),
        ("read_size_bytes", "--size"),
        ("write_size_bytes", "--write-size"),
        ("sequential_share", "--sequential"),
        ("capacity_bytes", "--capacity"),
        ("response", "--response"),
        ("queue", "--queue"),
    ];
    match options.iter().find(|(name, _)| name == field) {
        Some((_, option)) => format!("{option} {value}: expected {expected}"),
        None => error.to_string(),
    }
}

fn parse_seconds(option: &str, text: &str) -> Result<f64, Failure> {
    // parse_duration does not know microseconds, which flash needs
    let microseconds = text.trim().strip_suffix("us").and_then(|number| number.trim().parse::<f64>().ok());
    if let Some(us) = microseconds.filter(|us| *us > 0.0 && us.is_finite()) {
        return Ok(us * 1e-6);
    }
    let time = parse_duration(text).map_err(|error| usage_failure(format!("{option}: {error}, or us")))?;
    Ok(time.as_secs_f64())
}

/// Parses a level such as `raid5`; the error lists all levels.
fn parse_level(text: &str) -> Result<ArrayLevel, Failure> {
    ArrayLevel::parse(text).ok_or_else(|| {
        let known: Vec<&str> = ArrayLevel::ALL.iter().map(|level| level.name()).collect();
        usage_failure(format!("unknown level `{text}`; expected one of {}", known.join(", ")))
    })
}

impl DemandOptions {
    /// Returns the demand.
    pub fn to_demand(&self) -> Result<Demand, Failure> {
        if self.reads.is_none() && self.writes.is_none() {
            return Err(usage_failure(
                "plan needs a demand: --reads N and --writes N (per second), or a log: --from LOG",
            ));
        }
        if self.growth.is_some() && self.capacity.is_none() {
            return Err(usage_failure("--growth needs --capacity, the capacity in use today"));
        }
        if self.horizon.is_some() && self.growth.is_none() {
            return Err(usage_failure("--horizon needs --growth"));
        }
        let (mut reads, mut writes) = (self.reads.unwrap_or(0.0), self.writes.unwrap_or(0.0));
        if let Some(array) = &self.members_of {
            (reads, writes) = front_end_rates(array, reads, writes)?;
        }
        let size = self.size.unwrap_or(DEFAULT_REQUEST_BYTES) as f64;
        let demand = Demand {
            write_size_bytes: self.write_size.map_or(size, |size| size as f64),
            sequential_share: self.sequential,
            capacity_bytes: self.capacity.map(|bytes| bytes as f64),
            response: self.response_target()?,
            queue: self.queue,
            growth: self.typed_growth(),
            ..Demand::from_rates(reads, writes, size)
        };
        demand.check_values().map_err(|error| usage_failure(describe_demand_error(&error)))?;
        // checked here, so that a wrong horizon is reported before anything is planned
        self.horizon_days()?;
        Ok(demand)
    }

    fn typed_growth(&self) -> Option<CapacityGrowth> {
        self.growth.map(|bytes| CapacityGrowth { bytes_per_day: bytes as f64, interval_bytes_per_day: None })
    }

    /// Returns the required response time.
    fn response_target(&self) -> Result<Option<ResponseTarget>, Failure> {
        let statistic = ResponseStatistic::ALL.into_iter().find(|statistic| statistic.name() == self.response_of);
        let statistic = statistic
            .ok_or_else(|| usage_failure(format!("--response-of `{}`: expected mean, p95 or p99", self.response_of)))?;
        let response = self.response.as_deref().map(|text| parse_seconds("--response", text)).transpose()?;
        Ok(response.map(|target_s| ResponseTarget { target_s, statistic }))
    }

    /// True if the capacity was typed.
    pub fn gives_capacity(&self) -> bool {
        self.capacity.is_some()
    }

    /// True if a load was typed.
    pub fn is_typed(&self) -> bool {
        self.reads.is_some() || self.writes.is_some()
    }

    /// Refuses options for values that a log provides itself.
    pub fn refuse_with_log(&self) -> Result<(), Failure> {
        let options = [
            ("--reads", self.reads.is_some()),
            ("--writes", self.writes.is_some()),
            ("--size", self.size.is_some()),
            ("--write-size", self.write_size.is_some()),
            ("--queue", self.queue.is_some()),
            ("--members-of", self.members_of.is_some()),
        ];
        match options.iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => {
                Err(usage_failure(format!("{option}: the log already contains that; use --comfort to plan for more")))
            }
            None => Ok(()),
        }
    }

    /// Completes a measured demand with the typed capacity and response time.
    pub fn complete_measured(&self, measured: Demand) -> Result<Demand, Failure> {
        let demand = Demand {
            capacity_bytes: self.capacity.map(|bytes| bytes as f64).or(measured.capacity_bytes),
            response: self.response_target()?,
            growth: self.typed_growth().or(measured.growth),
            sequential_share: self.sequential.or(measured.sequential_share),
            ..measured
        };
        demand.check_values().map_err(|error| usage_failure(error.to_string()))?;
        Ok(demand)
    }

    /// Days for which the capacity must last.
    pub fn horizon_days(&self) -> Result<f64, Failure> {
        self.horizon.as_deref().map_or(Ok(0.0), |text| Ok(parse_seconds("--horizon", text)? / 86_400.0))
    }
}

/// Converts rates of all members together to those of the array.
fn front_end_rates(array: &str, reads: f64, writes: f64) -> Result<(f64, f64), Failure> {
    let failure =
        || usage_failure(format!("--members-of `{array}`: write a level and a number of members, such as raid5:3"));
    let (name, members) = array.split_once(':').ok_or_else(failure)?;
    let members: u16 = members.trim().parse().map_err(|_| failure())?;
    let level = parse_level(name)?;
    if members < level.info().min_members {
        return Err(usage_failure(format!("{level} needs at least {} members", level.info().min_members)));
    }
    front_end_from_member_io(level, members, reads, writes).ok_or_else(|| {
        usage_failure(format!(
            "{level} of {members} cannot have so few reads for so many writes: small writes read before they write"
        ))
    })
}

impl LimitOptions {
    /// The file of the user's own drives.
    pub fn own_catalogue(&self) -> Option<&Path> {
        self.catalogue.as_deref()
    }

    /// Returns the limits; `horizon_days` comes from the demand.
    pub fn plan_limits(&self, horizon_days: f64) -> Result<PlanLimits, Failure> {
        self.check_list_lengths()?;
        let (prices, own_currency) = self.load_price_list()?;
        let now = rfc3339(SystemClock.read_clocks().wall_ns);
        let mut limits = PlanLimits::with_defaults(prices, now.get(..10).unwrap_or_default());
        let (budget, currency) = self.budget.as_deref().map_or(Ok((None, None)), parse_budget)?;
        limits.budget = budget;
        limits.currency = self.common_currency(currency, own_currency)?;
        limits.max_drives = self.max_drives;
        if !self.levels.is_empty() {
            limits.levels = self.levels.iter().map(|text| parse_level(text)).collect::<Result<_, _>>()?;
        }
        for text in &self.only {
            let filter = PartFilter::parse(text);
            let known = "expected hdd, ssd, cloud or cloud:PROVIDER";
            limits.only.push(filter.ok_or_else(|| usage_failure(format!("--only `{text}`: {known}")))?);
        }
        let id = |name: &String| limits.prices.find_volume(name).map_or(name.clone(), |offer| offer.id.clone());
        limits.drives = self.drives.iter().map(id).collect();
        if let Some(path) = &self.catalogue {
            let name = path.display().to_string();
            let text =
                read_text_file(path, MAX_DESCRIPTION_BYTES).map_err(|e| usage_failure(format!("{name}: {e}")))?;
            limits.own_drives =
                catalogue::read(&name, &text).map_err(|problems| usage_failure(problems.to_string()))?;
        }
        limits.instance = self.instance.clone();
        self.check_levels(&limits)?;
        limits.controllers = self.controllers.clone();
        limits.max_controllers = self.max_controllers;
        limits.cache_bytes = self.cache.map(|bytes| bytes as f64);
        if let Some(spares) = self.spares {
            limits.spares = vec![spares];
        }
        if !self.stripe_unit.is_empty() {
            let is_valid = |unit: &u64| (512..=1 << 30).contains(unit) && unit.is_multiple_of(512);
            if let Some(unit) = self.stripe_unit.iter().find(|unit| !is_valid(unit)) {
                return Err(usage_failure(format!(
                    "--stripe-unit {unit}: expected a multiple of 512 bytes up to 1 GiB"
                )));
            }
            limits.stripe_units = self.stripe_unit.clone();
        }
        if !(self.years > 0.0 && self.years <= 100.0) {
            return Err(usage_failure(format!("--years {}: expected more than 0, up to 100", self.years)));
        }
        limits.years = self.years;
        if let Some(max_loss) = self.max_loss.filter(|max_loss| !(*max_loss > 0.0 && *max_loss <= 1.0)) {
            return Err(usage_failure(format!("--max-loss {max_loss}: expected a chance above 0, up to 1")));
        }
        limits.max_loss = self.max_loss;
        if self.surplus > 10.0 {
            return Err(usage_failure(format!("--surplus {}%: expected at most 1000%", 100.0 * self.surplus)));
        }
        limits.surplus = self.surplus;
        limits.list_length = self.list.into();
        limits.horizon_days = horizon_days;
        Ok(limits)
    }

    /// Refuses lists that multiply the designs beyond what can be tried.
    fn check_list_lengths(&self) -> Result<(), Failure> {
        let lists = [
            ("--levels", self.levels.len()),
            ("--only", self.only.len()),
            ("--drives", self.drives.len()),
            ("--controllers", self.controllers.len()),
            ("--stripe-unit", self.stripe_unit.len()),
        ];
        match lists.into_iter().find(|(_, count)| *count > MAX_LIST_VALUES) {
            Some((option, count)) => {
                Err(usage_failure(format!("{option}: {count} values to try; the limit is {MAX_LIST_VALUES}")))
            }
            None => Ok(()),
        }
    }

    /// Loads the built-in prices, overridden by the user's own, and the one currency of the latter.
    fn load_price_list(&self) -> Result<(PriceList, Option<String>), Failure> {
        let mut prices = built_in_prices();
        let mut own_currency = None;
        if let Some(path) = &self.prices {
            let name = path.display().to_string();
            let bytes = read_file(path, MAX_DESCRIPTION_BYTES).map_err(|e| usage_failure(format!("{name}: {e}")))?;
            let own = read_price_list(&name, &String::from_utf8_lossy(&bytes))
                .map_err(|error| usage_failure(error.to_string()))?;
            match own.currencies()[..] {
                [] => {}
                [currency] => own_currency = Some(currency.to_owned()),
                ref currencies => {
                    return Err(usage_failure(format!(
                        "{name}: prices in {}; currencies are not converted, so choose one",
                        currencies.join(" and ")
                    )));
                }
            }
            prices.extend(own);
        }
        Ok((prices, own_currency))
    }

    /// Checks that the levels apply to drives, and that spares are used with redundant levels.
    fn check_levels(&self, limits: &PlanLimits) -> Result<(), Failure> {
        let has_no_redundancy = |level: &ArrayLevel| matches!(level, ArrayLevel::Linear | ArrayLevel::Raid0);
        if self.spares.is_some_and(|spares| spares > 0) && limits.levels.iter().all(has_no_redundancy) {
            return Err(usage_failure("--spares is for levels with redundancy, but --levels has none of them"));
        }
        let is_cloud = |filter: &PartFilter| matches!(filter, PartFilter::Cloud | PartFilter::Provider(_));
        let only_cloud = !limits.only.is_empty() && limits.only.iter().all(is_cloud);
        let volumes = match (limits.instance.is_some(), only_cloud, limits.names_volumes_alone()) {
            (true, ..) => "--instance is for cloud volumes",
            (_, true, _) => "--only is for cloud volumes",
            (.., true) => "--drives names only cloud volumes",
            _ => return Ok(()),
        };
        let options = [
            ("--levels", !self.levels.is_empty()),
            ("--spares", self.spares.is_some()),
            ("--stripe-unit", !self.stripe_unit.is_empty()),
        ];
        match options.iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => Err(usage_failure(format!("{option} is for drives, but {volumes}"))),
            None => Ok(()),
        }
    }

    /// Returns the existing drives that are kept; `members` is their number in the log, if there is one.
    pub fn existing_drives(&self, members: Option<usize>) -> Result<Option<ExistingDrives>, Failure> {
        let Some(text) = &self.keep_existing else { return Ok(None) };
        let failure = |reason: &str| usage_failure(format!("--keep-existing `{text}`: {reason}"));
        let (count, drive) = match text.split_once(':') {
            Some((count, drive)) => (count.trim().parse().ok(), drive),
            None => (members.and_then(|count| u16::try_from(count).ok()), text.as_str()),
        };
        let count = count.filter(|count| *count > 0).ok_or_else(|| {
            failure("write the number and the drive, such as 3:compaq-4gb (`diskwright list drives` shows all)")
        })?;
        Ok(Some(ExistingDrives { count, drive: drive.trim().to_owned() }))
    }

    /// Returns the one currency of all typed prices.
    fn common_currency(&self, budget: Option<String>, own: Option<String>) -> Result<String, Failure> {
        let typed = self.currency.as_ref().map(|code| code.to_uppercase());
        let currencies = [("--currency", &typed), ("--budget", &budget), ("--prices", &own)];
        let mut currencies = currencies.into_iter().filter_map(|(option, code)| Some((option, code.as_ref()?)));
        let Some((first, code)) = currencies.next() else { return Ok("USD".into()) };
        match currencies.find(|(_, other)| *other != code) {
            Some((option, other)) => Err(usage_failure(format!(
                "{first} is in {code}, but {option} in {other}: prices in different currencies cannot be compared"
            ))),
            None => Ok(code.clone()),
        }
    }
}

/// Parses `5000`, `5000EUR`: an amount, and its currency if given.
fn parse_budget(text: &str) -> Result<(Option<f64>, Option<String>), Failure> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, code) = (&text[..end], text[end..].trim().to_uppercase());
    let is_code = code.is_empty() || code.len() == 3 && code.chars().all(|c| c.is_ascii_uppercase());
    match number.parse::<f64>() {
        Ok(amount) if amount > 0.0 && is_code => Ok((Some(amount), Some(code).filter(|code| !code.is_empty()))),
        _ => Err(usage_failure(format!("--budget `{text}`: write an amount such as 5000 or 5000EUR"))),
    }
}
