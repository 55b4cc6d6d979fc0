//! What is reported of logs that are joined.

use std::collections::{BTreeMap, BTreeSet};

use diskwright_base::timestamp::format_rfc3339;
use diskwright_base::units::format_count;

use super::member::MergeMember;
use super::outline::{MemberOutline, spans_overlap};
use crate::report::Reporter;

/// Maximum number of lines about one thing; beyond it only their number is reported.
const MAX_LINES: usize = 5;

/// Reports which logs are joined, and whose counters are used if several have them at once.
pub fn report_joining(members: &[MergeMember], outlines: &[MemberOutline], reporter: &Reporter) {
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
