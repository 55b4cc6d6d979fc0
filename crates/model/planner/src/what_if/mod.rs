//! Prediction of a change to a machine that a log describes: the counters before and after, and first how well the
//! model explains those before.
//!
//! The model is fitted to one half of the log and tested on the other (`model.rs`). Changes that it cannot predict are
//! refused with the reason.

mod array_change;
pub mod bounds;
mod change;
mod model;

use diskwright_base::RaidLevel;
use diskwright_base::units::format_amount;
use serde::Serialize;

use crate::operation_rule::OperationRule;
use crate::prices::{PriceList, VolumeOffer};
use crate::series::hidden_load::{HiddenLoad, find_hidden_load};
use crate::series::{FrontLoad, LoadSeries};
use array_change::{change_disks, change_level};
pub use change::{Change, parse_change};
use model::{ClosedPopulation, LoadPoint, ResponseModel};

/// Reason why there is no prediction.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum WhatIfError {
    /// The change cannot be parsed, or names something that does not exist: wrong usage.
    #[error("--what-if `{0}`: {1}")]
    Names(String, String),
    /// The model cannot predict it.
    #[error("--what-if `{0}` cannot be predicted: {1}")]
    Refused(String, String),
    /// No model fits the log; [`bounds::bound_change`] says what it proves all the same.
    #[error("--what-if `{0}` cannot be predicted: {1}")]
    NoModel(String, String),
}

/// Counters of a device, for the time at or above the percentile of its load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DeviceCounters {
    /// Reads and writes per second.
    pub requests_per_s: f64,
    /// Reads per second.
    pub reads_per_s: f64,
    /// Writes per second.
    pub writes_per_s: f64,
    /// I/Os per second of each member.
    pub member_load_per_s: f64,
    /// Mean response, s.
    pub response_s: f64,
    /// Requests in flight.
    pub queue: f64,
}

/// A prediction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WhatIf {
    /// The change as typed.
    pub change: String,
    /// Device that is changed.
    pub device: String,
    /// Description of the model.
    pub model: String,
    /// Mean error of the model's response on the half of the log that it was not fitted to, as a share.
    pub model_error: f64,
    /// True if the error is at most a quarter.
    pub trusted: bool,
    /// As measured.
    pub before: DeviceCounters,
    /// As modelled.
    pub modelled_before: DeviceCounters,
    /// Prediction.
    pub after: DeviceCounters,
    /// Notes on the prediction.
    pub notes: Vec<String>,
}

/// Error above which a model does not explain the log, so that nothing is predicted.
const MAX_ERROR: f64 = 0.5;
/// Maximum mean error on test data for a model to be trusted: this one, and a description of a device.
pub const MAX_TRUSTED_ERROR: f64 = 0.25;

/// Inputs for predicting a change.
struct Scenario<'a> {
    text: &'a str,
    front: &'a FrontLoad,
    point: LoadPoint,
    model: ResponseModel,
    population: Option<ClosedPopulation>,
    has_given_users: bool,
    hidden: Option<HiddenLoad>,
}

/// Predicts a change on the device with the most requests in flight.
///
/// # Errors
/// A missing object, or why the change cannot be predicted.
pub fn predict_change(
    series: &LoadSeries,
    text: &str,
    percentile: f64,
    users: Option<f64>,
    prices: &PriceList,
) -> Result<WhatIf, WhatIfError> {
    let change = parse_change(text).map_err(|because| WhatIfError::Names(text.into(), because))?;
    let refused = |because: &str| WhatIfError::Refused(text.into(), because.into());
    let front = most_loaded_front(series).ok_or_else(|| refused("the log has no disk with requests in flight"))?;
    let too_few_loads = || {
        let because = "not enough data: the log has too few different loads of the device to fit a model";
        WhatIfError::NoModel(text.into(), because.into())
    };
    let point = LoadPoint::at_percentile(front, percentile).ok_or_else(too_few_loads)?;
    let hidden = find_hidden_load(front, users);
    let population = match users {
        Some(users) => Some(point.population_with_pause(users).ok_or_else(|| {
            let flight = point.requests_per_s() * point.response_s;
            let because = format!("--users {users}: at the highest loads {flight:.1} requests are in flight");
            WhatIfError::Names(text.into(), because)
        })?),
        None => hidden.as_ref().and_then(|h| Some(ClosedPopulation { users: h.population?, think_s: h.think_s? })),
    };
    let model = ResponseModel::fit_to_curve(front, population.map(|p| p.think_s)).ok_or_else(too_few_loads)?;
    let has_given_users = users.is_some();
    let scenario = Scenario { text, front, point, model, population, has_given_users, hidden };
    scenario.check_model()?;
    match change {
        Change::Load(factor) => scenario.predict_load(factor),
        Change::Disks(added) => scenario.predict_disks(added),
        Change::Level(from, to) => scenario.predict_level(from, to),
        Change::Memory(bytes) => scenario.predict_memory(series, bytes),
        Change::MoveSwap => scenario.predict_swap_move(series),
        Change::Volume { volume, iops, rate } => scenario.predict_volume(prices, &volume, iops, rate),
        Change::Controller(_) => Err(scenario.name_error(
            "the log does not show how long requests wait for a controller; describe the machine for `simulate`",
        )),
    }
}

/// The device with the most requests in flight.
fn most_loaded_front(series: &LoadSeries) -> Option<&FrontLoad> {
    let fronts = series.fronts.iter().filter(|f| f.sums.queue_s.is_finite() && f.sums.queue_s > 0.0);
    fronts.max_by(|a, b| a.sums.queue_s.total_cmp(&b.sums.queue_s))
}

impl Scenario<'_> {
    fn name_error(&self, because: impl Into<String>) -> WhatIfError {
        WhatIfError::Names(self.text.into(), because.into())
    }

    fn refusal_error(&self, because: impl Into<String>) -> WhatIfError {
        WhatIfError::Refused(self.text.into(), because.into())
    }

    /// Origin of the number of programs.
    fn population_source(&self) -> &'static str {
        if self.has_given_users { "--users; the pause by Little's law" } else { "estimated" }
    }

    fn check_model(&self) -> Result<(), WhatIfError> {
        let error = self.model.error;
        if error > MAX_ERROR {
            let percent = error * 100.0;
            let because = format!("the model's error for today's response time is {percent:.0} %");
            return Err(WhatIfError::NoModel(self.text.into(), because));
        }
        Ok(())
    }

    /// Builds the answer for a model and a load after the change.
    fn build_answer(
        &self,
        after: &ResponseModel,
        point: LoadPoint,
        population: Option<ClosedPopulation>,
        notes: Vec<String>,
    ) -> Result<WhatIf, WhatIfError> {
        let solve = |model: &ResponseModel, point: LoadPoint, population: Option<ClosedPopulation>| match population {
            Some(population) => model.predict_closed(point, population),
            None => model.predict_open(point),
        };
        let overload = |model: &ResponseModel, point: LoadPoint| {
            let max_rate = model.max_requests_per_s(point);
            self.refusal_error(format!(
                "{:.0} requests/s are more than the {max_rate:.0} that it sustains",
                point.requests_per_s()
            ))
        };
        let before =
            solve(&self.model, self.point, self.population).ok_or_else(|| overload(&self.model, self.point))?;
        let changed = solve(after, point, population).ok_or_else(|| overload(after, point))?;
        let is_beyond_data = changed.member_load_per_s > 1.1 * self.model.max_seen_load;
        if is_beyond_data && self.model.never_slows_down() {
            let (load, seen) = (changed.member_load_per_s, self.model.max_seen_load);
            let because = format!(
                "not enough data: {load:.0} I/Os/s per member, but the log has at most {seen:.0} and shows no slowdown"
            );
            return Err(WhatIfError::NoModel(self.text.into(), because));
        }
        let mut notes = notes;
        if is_beyond_data {
            let seen = self.model.max_seen_load;
            notes.push(format!("beyond the data: the log has at most {seen:.0} I/Os/s per member"));
        }
        notes.push(match population {
            Some(p) => {
                let programs = format_amount(p.users.round(), "program", "programs");
                format!(
                    "the load is that of {programs} with a think time of {:.3} s ({})",
                    p.think_s,
                    self.population_source()
                )
            }
            None => "the load is assumed constant: programs do not send more because they are served faster".into(),
        });
        Ok(WhatIf {
            change: self.text.into(),
            device: self.front.name.clone(),
            model: "response of a member by what is in flight on it, fitted to half of the log".into(),
            model_error: self.model.error,
            trusted: self.model.error <= MAX_TRUSTED_ERROR,
            before: self.point.measured_counters(self.front),
            modelled_before: before,
            after: changed,
            notes,
        })
    }

    fn predict_load(&self, factor: f64) -> Result<WhatIf, WhatIfError> {
        let population = self.population.map(|p| ClosedPopulation { users: p.users * factor, ..p });
        self.build_answer(&self.model, self.point.scaled_by(factor), population, Vec::new())
    }

    fn predict_disks(&self, added: i32) -> Result<WhatIf, WhatIfError> {
        let changed = change_disks(self.text, self.front, added)?;
        let after = self.model.with_members(changed.members);
        self.build_answer(&after, self.point, self.population, changed.notes)
    }

    fn predict_level(&self, from: Option<RaidLevel>, to: RaidLevel) -> Result<WhatIf, WhatIfError> {
        let mut changed = change_level(self.text, self.front, from, to)?;
        if self.model.write_ratio < 1.0 {
            changed.notes.push("writes are faster than reads, thanks to a cache: they stay so".into());
        }
        self.build_answer(&self.model.with_level(to), self.point, self.population, changed.notes)
    }

    /// Share of the device's requests that is swapping: all of it is on the devices that hold swap areas, if that is
    /// known.
    fn swap_share(&self, series: &LoadSeries) -> f64 {
        let has_swap_area = |front: &FrontLoad| front.holds_swap == Some(true);
        let is_known = series.fronts.iter().any(has_swap_area);
        if is_known && !has_swap_area(self.front) {
            return 0.0;
        }
        let holders = series.fronts.iter().filter(|front| !is_known || has_swap_area(front));
        let total: f64 = holders.map(|f| f.sums.reads + f.sums.writes).sum();
        if total > 0.0 { (series.swap[2] / total).min(1.0) } else { 0.0 }
    }

    /// Note for the case that all swapping is on other devices.
    fn swap_elsewhere_note(&self, series: &LoadSeries) -> Option<String> {
        let name = &self.front.name;
        let is_elsewhere = series.swap[2] > 0.0 && self.swap_share(series) == 0.0;
        is_elsewhere.then(|| format!("{name} holds no swap area; ask for the device that does (--device)"))
    }

    fn predict_memory(&self, series: &LoadSeries, bytes: f64) -> Result<WhatIf, WhatIfError> {
        if let Some(because) = self.swap_elsewhere_note(series) {
            return Err(self.refusal_error(because));
        }
        let share = self.swap_share(series);
        let mut notes = Vec::new();
        let removed_share = match series.swapped_out {
            _ if share == 0.0 => 0.0,
            Some(out) if out > 0.0 => (bytes / out).min(1.0),
            _ => return Err(self.refusal_error("the log does not show how much memory is swapped out")),
        };
        if share == 0.0 && series.refault_bytes.is_none() {
            return Err(self.refusal_error("not enough data: the log counts neither swapping on disks nor refaults"));
        }
        notes.push(format!(
            "swapping is {:.1} % of the requests; {:.0} % of it disappears (memory added divided by memory swapped \
             out)",
            share * 100.0,
            removed_share * 100.0
        ));
        if let Some(bytes) = series.refault_bytes.filter(|bytes| *bytes > 0.0) {
            let seconds: f64 = series.ticks.iter().map(|t| f64::from(t.seconds)).sum();
            notes.push(format!(
                "in addition, up to {:.2} MB/s of reads are pages that were evicted too early; the log does not show \
                 how many of them this memory would keep, so they are not subtracted",
                bytes / seconds / 1e6
            ));
        }
        self.build_answer(&self.model, self.point.scaled_by(1.0 - share * removed_share), self.population, notes)
    }

    fn predict_swap_move(&self, series: &LoadSeries) -> Result<WhatIf, WhatIfError> {
        if let Some(because) = self.swap_elsewhere_note(series) {
            return Err(self.name_error(because));
        }
        let share = self.swap_share(series);
        if share == 0.0 {
            return Err(self.name_error("the log shows no swapping on disks, so there is nothing to move"));
        }
        let seconds: f64 = series.ticks.iter().map(|t| f64::from(t.seconds)).sum();
        let notes = vec![
            format!("the swap disk would get {:.1} requests/s on average", series.swap[2] / seconds),
            "add memory first: a separate swap disk eases a shortage but does not end it".into(),
        ];
        self.build_answer(&self.model, self.point.scaled_by(1.0 - share), self.population, notes)
    }

    fn predict_volume(
        &self,
        prices: &PriceList,
        name: &str,
        iops: Option<f64>,
        rate: Option<f64>,
    ) -> Result<WhatIf, WhatIfError> {
        let Some(offer) = prices.find_volume(name) else {
            let known: Vec<&str> = prices.volumes.iter().map(|v| v.id.as_str()).collect();
            return Err(self.name_error(format!("unknown volume `{name}`; volumes: {}", known.join(", "))));
        };
        if rate.is_some() {
            return Err(self.refusal_error("only operations are modeled; to replay bytes, use --volume"));
        }
        let (limit, mut notes) = self.volume_limit(offer, iops.unwrap_or(offer.iops.base))?;
        let Some(hidden) = &self.hidden else {
            return Err(
                self.refusal_error("the device never reached a limit in this log, so another limit changes nothing")
            );
        };
        let Some(population) = self.population else {
            return Err(self.refusal_error(format!("{}; give the number of users with --users", hidden.method)));
        };
        // response of the volume while it is far from its limit
        let unlimited_s = self.model.light_s;
        let counters_at = |limit: f64| {
            let requests = limit.min(population.users / (unlimited_s + population.think_s));
            let response = (population.users / requests - population.think_s).max(unlimited_s);
            self.point.scaled_by(requests / self.point.requests_per_s()).with_response(self.front, response)
        };
        let (before, after) = (counters_at(hidden.plateau_per_s), counters_at(limit));
        let measured = self.point.measured_counters(self.front);
        let error = (before.response_s / measured.response_s - 1.0).abs();
        Ok(WhatIf {
            change: self.text.into(),
            device: self.front.name.clone(),
            model: "users with think time behind a limit of operations (interactive response time law)".into(),
            model_error: error,
            trusted: error <= MAX_TRUSTED_ERROR,
            before: measured,
            modelled_before: before,
            after,
            notes: {
                notes.extend([
                    format!("today's limit is the plateau at {:.0} requests/s", hidden.plateau_per_s),
                    format!(
                        "the load is that of {} with a think time of {:.3} s ({})",
                        format_amount(population.users.round(), "program", "programs"),
                        population.think_s,
                        self.population_source()
                    ),
                ]);
                notes
            },
        })
    }

    /// Requests per second, of the device's sizes, that a volume with this many operations allows, and notes about
    /// them.
    fn volume_limit(&self, offer: &VolumeOffer, iops: f64) -> Result<(f64, Vec<String>), WhatIfError> {
        let limit = &offer.iops;
        if !limit.sold {
            return Err(self.name_error(format!("{} sells no IOPS: its size decides them", offer.id)));
        }
        if !(limit.base..=limit.max).contains(&iops) {
            let (min_value, max_value) = (limit.base, limit.max);
            return Err(
                self.name_error(format!("{} allows {min_value:.0} to {max_value:.0} operations per second", offer.id))
            );
        }
        let mut notes = Vec::new();
        if let Some(per_gib) = limit.per_gib {
            let gib = (iops / per_gib).ceil();
            notes.push(format!("{iops:.0} operations per second need at least {gib:.0} GiB of {}", offer.id));
        }
        let sums = &self.front.sums;
        let size = (sums.read_bytes + sums.write_bytes) / (sums.reads + sums.writes);
        if !(size > 0.0 && size.is_finite()) {
            notes.push("the log has no sizes of requests, so the volume's throughput was not considered".into());
            return Ok((iops, notes));
        }
        let rule = OperationRule::for_offer(offer);
        let share = sums.reads / (sums.reads + sums.writes);
        let counted =
            share * rule.count_request(size, false, 0.0)[0] + (1.0 - share) * rule.count_request(size, true, 0.0)[0];
        let by_iops = iops / counted;
        let unit = offer.unit.bytes();
        let max_value = offer.rate.per_iops.map_or(f64::INFINITY, |per| per * iops).min(offer.rate.max) * unit;
        let allowed = by_iops.min(max_value / size);
        let included = offer.rate.included_value(0.0) * unit;
        if allowed * size > included {
            notes.push(format!(
                "{allowed:.0} requests/s of {} are {:.0} MB/s, but {} includes only {:.0} MB/s: buy throughput as well",
                diskwright_base::units::format_value(size, "bytes"),
                allowed * size / 1e6,
                offer.id,
                included / 1e6
            ));
        }
        if allowed < by_iops {
            notes.push(format!("its throughput is the limit: at most {:.0} MB/s", max_value / 1e6));
        }
        Ok((allowed, notes))
    }
}
