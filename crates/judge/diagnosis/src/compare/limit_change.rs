//! A limit of I/O that held a cgroup back in the first window, and was raised or removed before the second.
//!
//! Nothing of that is a matter of noise: a group at its limit cannot exceed it, so that a rate above the earlier limit
//! shows that more work is done than it allowed.

use diskwright_base::counter_ids::cgroup;

use serde::Serialize;

use super::CounterWindow;
use super::answer_quantities::{MIN_CHANGE, arrow_text};
use crate::answer::Verdict;
use crate::rules::Bottleneck;

/// Each limit, and what it limits.
const LIMITED: [(&str, &str, &str); 4] = [
    (cgroup::READ_LIMIT_PER_S, cgroup::READS_PER_S, "reads"),
    (cgroup::WRITE_LIMIT_PER_S, cgroup::WRITES_PER_S, "writes"),
    (cgroup::READ_LIMIT_BYTES_PER_S, cgroup::READ_BYTES_PER_S, "read bytes"),
    (cgroup::WRITE_LIMIT_BYTES_PER_S, cgroup::WRITE_BYTES_PER_S, "written bytes"),
];

/// A rate above a limit of the first window.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExceededLimit {
    /// The cgroup on its device, as `/web@sda`.
    pub instance: String,
    /// What the limit is for: reads, writes, read bytes or written bytes.
    pub what: &'static str,
    /// Unit of all values.
    pub unit: &'static str,
    /// The limit in the first window.
    pub limit: f64,
    /// Mean rate in the first window.
    pub before: f64,
    /// Mean rate in the second.
    pub after: f64,
}

/// The limit that the first verdict blames, if the group does more in the second window than it allowed, whether or not
/// another limit holds it now.
pub(super) fn find_exceeded_limit(
    [first, second]: [&CounterWindow; 2],
    [before, after]: [&Verdict; 2],
) -> Option<ExceededLimit> {
    if before.bottleneck != Bottleneck::Throttle || after.bottleneck == Bottleneck::Unknown {
        return None;
    }
    let mean = |window: &CounterWindow, counter: &str| {
        window.find_counter(counter, &before.instance).and_then(|found| found.window_mean()).map(|mean| mean.mean)
    };
    LIMITED.into_iter().find_map(|(limit_counter, rate_counter, what)| {
        let (limit, rate) = (mean(first, limit_counter)?, mean(first, rate_counter)?);
        let after = mean(second, rate_counter)?;
        let was_at_limit = rate >= (1.0 - 2.0 * MIN_CHANGE) * limit;
        let unit = if what.ends_with("bytes") { "bytes_per_s" } else { "per_s" };
        let exceeds = limit > 0.0 && was_at_limit && after > (1.0 + MIN_CHANGE) * limit;
        let instance = before.instance.clone();
        exceeds.then_some(ExceededLimit { instance, what, unit, limit, before: rate, after })
    })
}

/// `The change helped: /web@sda does more than its earlier limit allowed: read bytes 2 → 10.2 MB/s.`
pub(super) fn exceeded_sentence(limit: &ExceededLimit) -> String {
    let ExceededLimit { instance, what, unit, before, after, .. } = limit;
    format!(
        "The change helped: {instance} does more than its earlier limit allowed: {what} {}.",
        arrow_text(*before, *after, unit)
    )
}
