//! What is reported of logs that are joined.

use std::collections::{BTreeMap, BTreeSet};

use diskwright_base::timestamp::format_rfc3339;
use diskwright_base::units::{format_count, format_value};

use super::member::MergeMember;
use super::outline::{COMPARED, MemberOutline, SHARES_OF_ONE_LOG, ShareOwners, spans_overlap};
use crate::report::Reporter;

/// Maximum number of lines about one thing; beyond it only their number is reported.
const MAX_LINES: usize = 5;

/// Reports which logs are joined, and whose counters are used if several have them at once.
pub fn report_joining(
    members: &[MergeMember],
    (outlines, share_owners): (&[MemberOutline], &ShareOwners),
    reporter: &Reporter,
) {
    let names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
    let shown = names.iter().take(MAX_LINES).copied().collect::<Vec<_>>().join(", ");
    let more = if names.len() > MAX_LINES { format!(" and {} more", names.len() - MAX_LINES) } else { String::new() };
    reporter.warn(format_args!("{shown}{more} overlap in time; they are merged as one log of one machine"));
    let mut owners: BTreeMap<&(String, String), Vec<usize>> = BTreeMap::new();
    let mut shared: BTreeMap<(usize, usize), BTreeSet<&str>> = BTreeMap::new();
    for (rank, outline) in outlines.iter().enumerate() {
        let Some(extent) = outline.total_span() else { continue };
        for series in &outline.series {
            let owners = owners.entry(series).or_default();
            if SHARES_OF_ONE_LOG.contains(&series.0.as_str()) {
                let owner = share_owners.owner(&series.1, rank);
                if owner != rank {
                    shared.entry((owner, rank)).or_default().insert(&series.0);
                }
                continue;
            }
            let overlaps =
                |rank: &&usize| outlines[**rank].total_span().is_some_and(|span| spans_overlap(extent, span));
            if let Some(first) = owners.iter().find(overlaps) {
                shared.entry((*first, rank)).or_default().insert(&series.0);
            }
            owners.push(rank);
        }
    }
    for ((used, unused), counters) in shared.iter().take(MAX_LINES) {
        const MAX_NAMED_COUNTERS: usize = 4;
        let shown: Vec<&str> = counters.iter().copied().take(MAX_NAMED_COUNTERS).collect();
        let more = if counters.len() > MAX_NAMED_COUNTERS {
            format!(", … ({} in total)", counters.len())
        } else {
            String::new()
        };
        let (shown, from, not) = (shown.join(", "), names[*used], names[*unused]);
        reporter.warn(format_args!("{shown}{more}: taken from {from}, not from {not}"));
    }
    if shared.len() > MAX_LINES {
        let more = format_count(shared.len() - MAX_LINES, "more pair of logs has", "more pairs of logs have");
        reporter.warn(format_args!("{more} counters in common; each is taken from one of them"));
    }
}

/// Difference of two shares of the processors' time from which on two tools contradict each other.
const MIN_CONTRADICTION: f64 = 0.3;

/// True if two logs are of the same time for the most part.
fn cover_the_same(one: &MemberOutline, other: &MemberOutline) -> bool {
    let (Some(one), Some(other)) = (one.total_span(), other.total_span()) else { return false };
    let shared = one.1.min(other.1) - one.0.max(other.0);
    shared * 2 >= (one.1 - one.0).max(other.1 - other.0)
}

/// Finds a value of the whole machine on which logs of the same time do not agree: a sentence that shows both.
pub fn find_contradiction(
    members: &[MergeMember],
    (outlines, share_owners): (&[MemberOutline], &ShareOwners),
) -> Option<String> {
    let used = share_owners.owner("_total", 0);
    let mean = |rank: usize, counter: &str| outlines[rank].compared_mean(counter);
    for counter in COMPARED {
        let Some(mean_used) = mean(used, counter) else { continue };
        let beside = (0..members.len()).filter(|rank| cover_the_same(&outlines[used], &outlines[*rank]));
        let others = beside.filter_map(|rank| Some((rank, mean(rank, counter)?)));
        let Some((other, mean_other)) = others.into_iter().find(|(_, m)| (m - mean_used).abs() >= MIN_CONTRADICTION)
        else {
            continue;
        };
        let what = counter.rsplit('.').next().unwrap_or(counter);
        let [mean_used, mean_other] = [mean_used, mean_other].map(|mean| format_value(mean, "fraction"));
        return Some(format!(
            "the tools contradict each other: {what} is {mean_used} in {}, which is used, and {mean_other} in {}; they \
             saw different times, or one of them is wrong",
            members[used].name, members[other].name
        ));
    }
    None
}

/// Reports which members have times twice, of which only the first are used.
pub fn report_set_back_clocks(members: &[MergeMember], outlines: &[MemberOutline], reporter: &Reporter) {
    let set_back = members.iter().zip(outlines).filter(|(_, outline)| outline.set_back_ns.is_some());
    for (member, outline) in set_back.take(MAX_LINES) {
        let (name, ticks, back) =
            (&member.name, outline.repeated_ticks, outline.set_back_ns.map_or_else(String::new, format_rfc3339));
        reporter.warn(format_args!(
            "{name}: the clock was set back to {back}; {ticks} ticks until it had caught up are left out"
        ));
    }
}
