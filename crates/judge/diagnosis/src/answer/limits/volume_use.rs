//! Cloud volumes and their instance in the verdict: how near each is to its limits, and how long its bursts last.

use diskwright_base::units::{format_count as count_of, format_value};
use serde::Serialize;

use crate::rules::{Pseudo, Rule, format_count};
use crate::run::{LimitWatch, Observation, WatchedVolume};

/// A cloud volume, and how much of its limits was used in the window.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VolumeUse {
    /// Name of the disk.
    pub device: String,
    /// Id of its type: `aws-gp3`.
    #[serde(rename = "type")]
    pub type_id: String,
    /// Full name of its type.
    pub name: String,
    /// `aws`, `azure`, `gcp`.
    pub provider: String,
    /// Size, bytes; null where it was not told.
    pub size_bytes: Option<u64>,
    /// Requests.
    pub requests: LimitUse,
    /// Bytes.
    pub bytes: LimitUse,
    /// Who told its type: an option, or the cloud's metadata.
    pub told_by: String,
    /// Source of the limits, with its date.
    pub source: String,
    /// Reason not to trust the limits; null where there is none.
    pub unconfirmed: Option<String>,
    /// How near it is to its limits, in words.
    pub sentence: String,
}

/// An instance of a cloud, and how much of its limits all volumes together used in the window.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct InstanceUse {
    /// Its type: `m6i.large`.
    #[serde(rename = "type")]
    pub type_id: String,
    /// `aws`, `azure`, `gcp`.
    pub provider: String,
    /// Requests; null where the limits are not known, or where no volume is.
    pub requests: Option<LimitUse>,
    /// Bytes; null like `requests`.
    pub bytes: Option<LimitUse>,
    /// Who told its type.
    pub told_by: String,
    /// Source of the limits, with its date; empty where they are not known.
    pub source: String,
    /// Reason not to trust the limits; null where there is none.
    pub unconfirmed: Option<String>,
    /// How near it is to its limits, in words.
    pub sentence: String,
}

/// Use of one limit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LimitUse {
    /// What is always allowed, per second.
    pub limit_per_s: f64,
    /// What is allowed while there are credits, per second; null without bursts.
    pub burst_per_s: Option<f64>,
    /// Mean per second; null without a tick that shows it.
    pub mean_per_s: Option<f64>,
    /// Highest of a tick, per second.
    pub max_per_s: f64,
    /// Mean share of what was allowed at the time; null without a tick that shows it.
    pub used: Option<f64>,
    /// Highest share of a tick.
    pub max_used: f64,
    /// Time with at least 80 % of what was allowed, s.
    pub near_limit_s: f64,
    /// Time with at least 95 % of what was allowed, s.
    pub at_limit_s: f64,
    /// Burst credits; null without bursts.
    pub credits: Option<CreditsLeft>,
}

/// Burst credits at the end of the window. Nothing tells how many there were at its start, so that they are a range.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CreditsLeft {
    /// A full bucket: requests or bytes.
    pub full: f64,
    /// At least and at most so many are left.
    pub balance: [f64; 2],
    /// At least and at most so long they last at the rate of the last minute, s; null where that does not draw on them.
    pub left_s: Option<[f64; 2]>,
    /// True if the rate stayed at the baseline while requests waited: the credits were used up.
    pub was_spent: bool,
}

impl LimitUse {
    fn new(watch: &LimitWatch) -> LimitUse {
        let cap = watch.cap;
        LimitUse {
            limit_per_s: cap.baseline,
            burst_per_s: cap.has_credits().then_some(cap.burst),
            mean_per_s: watch.mean(),
            max_per_s: watch.max,
            used: watch.mean_share(),
            max_used: watch.max_share,
            near_limit_s: watch.near_s,
            at_limit_s: watch.at_s,
            credits: cap.has_credits().then(|| CreditsLeft {
                full: cap.credits,
                balance: watch.levels,
                left_s: watch.left_s(),
                was_spent: watch.was_spent,
            }),
        }
    }
}

/// Volumes of the window whose type is known.
pub(crate) fn volume_uses(observed: &Observation) -> Vec<VolumeUse> {
    observed.volumes.volumes.iter().filter_map(describe_volume).collect()
}

fn describe_volume(watched: &WatchedVolume) -> Option<VolumeUse> {
    let (volume, limits) = watched.volume.as_ref().zip(watched.limits.as_ref())?;
    Some(VolumeUse {
        device: watched.device.clone(),
        type_id: volume.type_id.clone(),
        name: volume.name.clone(),
        provider: volume.provider.clone(),
        size_bytes: volume.size_bytes,
        requests: LimitUse::new(&limits[0]),
        bytes: LimitUse::new(&limits[1]),
        told_by: volume.told_by.clone(),
        source: volume.source.clone(),
        unconfirmed: volume.unconfirmed.clone(),
        sentence: format!("volume {} ({}): {}", watched.device, volume.name, describe_limits(limits)),
    })
}

/// The instance of the window, if its type is known.
pub(crate) fn instance_use(observed: &Observation) -> Option<InstanceUse> {
    let (instance, limits) = (observed.volumes.instance.as_ref()?, observed.volumes.instance_limits.as_ref());
    let seen = limits.filter(|limits| limits[0].seconds > 0.0);
    let text = match (limits, seen) {
        (_, Some(limits)) => describe_limits(limits),
        (Some(_), None) => "no load of a volume was seen".into(),
        (None, None) => "its limits are not known".into(),
    };
    let limit_use = |index: usize| seen.map(|limits| LimitUse::new(&limits[index]));
    Some(InstanceUse {
        type_id: instance.type_id.clone(),
        provider: instance.provider.clone(),
        requests: limit_use(0),
        bytes: limit_use(1),
        told_by: instance.told_by.clone(),
        source: instance.source.clone(),
        unconfirmed: instance.unconfirmed.clone(),
        sentence: format!("instance {}: {text}", instance.type_id),
    })
}

/// `97 % of its 3,000 requests/s`, of the limit that is used more, and what is left of the credits.
fn describe_limits(limits: &[LimitWatch; 2]) -> String {
    let share = |watch: &LimitWatch| watch.mean_share().unwrap_or(0.0);
    let by_bytes = share(&limits[1]) > share(&limits[0]);
    let watch = &limits[usize::from(by_bytes)];
    if watch.seconds == 0.0 {
        return "no load was seen".into();
    }
    let used = format_value(share(watch), "fraction");
    let most = format_value(watch.max_share, "fraction");
    let mut text = format!("{used} of its {} on average, {most} at most", rate_text(watch.allowed(), by_bytes));
    // the other limit may be the one whose credits end first
    for (limit, is_of_bytes) in limits.iter().zip([false, true]) {
        if let Some(credits) = describe_credits(limit, is_of_bytes) {
            text = format!("{text}; {credits}");
        }
    }
    text
}

/// A rate in the unit of its limit: `125 MB/s`, `3,000 requests/s`.
fn rate_text(value: f64, is_of_bytes: bool) -> String {
    match is_of_bytes {
        true => format_value(value, "bytes_per_s"),
        false => format!("{} requests/s", format_count(value)),
    }
}

/// How long credits last, where they are drawn on or are used up.
fn describe_credits(watch: &LimitWatch, is_of_bytes: bool) -> Option<String> {
    let baseline = rate_text(watch.cap.baseline, is_of_bytes);
    let word = if is_of_bytes { "bytes" } else { "requests" };
    if watch.was_spent && watch.levels[1] == 0.0 {
        return Some(format!("its burst credits ({word}) are used up: {baseline} until they fill again"));
    }
    let [least, most] = watch.left_s()?;
    let minutes = |seconds: f64| (seconds / 60.0).floor() as u64;
    let minutes_text = match (minutes(least), minutes(most)) {
        (_, 0) => "less than a minute".to_owned(),
        (least, most) if least == most => format!("about {}", count_of(most, "minute", "minutes")),
        (0, most) => format!("at most {}", count_of(most, "minute", "minutes")),
        (least, most) => format!("{least} to {most} minutes"),
    };
    Some(format!("its burst credits ({word}) last {minutes_text} more at this rate, then it has {baseline}"))
}

/// Origin of a finding's limit, where that is a limit of a cloud: how much of it was used, and who told it.
pub(crate) fn volume_limit_text(observed: &Observation, rule: &Rule, instance: &str) -> Option<String> {
    let pseudos: Vec<Pseudo> =
        rule.conditions().flat_map(|c| c.quantity.counters()).filter_map(|name| name.pseudo).collect();
    if pseudos.iter().any(|p| matches!(p, Pseudo::VolumeUsed | Pseudo::VolumeBaselineUsed)) {
        let watched = observed.volumes.volumes.iter().find(|watched| watched.device == instance)?;
        let (volume, limits) = watched.volume.as_ref().zip(watched.limits.as_ref())?;
        return Some(format!("{} ({}, by {})", describe_limits(limits), volume.name, volume.told_by));
    }
    if pseudos.iter().any(|p| matches!(p, Pseudo::InstanceUsed | Pseudo::InstanceBaselineUsed)) {
        let limits = observed.volumes.instance_limits.as_ref()?;
        let known = observed.volumes.instance.as_ref()?;
        return Some(format!("{} ({}, by {})", describe_limits(limits), known.type_id, known.told_by));
    }
    None
}
