//! What is learned about a log before it is joined with others: its ticks, series and machine.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use diskwright_base::counter_ids::processor;
use diskwright_base::{Frame, Note, Schema, Tick, Topology};
use diskwright_datastore::LogItem;

use super::timeline::TickSpan;
use crate::IngestError;
use crate::stored_log::StoredLog;

/// Facts about a member before its values are read.
pub struct MemberOutline {
    /// Spans of its ticks, in order of time.
    pub spans: Vec<TickSpan>,
    /// Number of ticks whose times occurred before, because the clock was set back. They are left out.
    pub repeated_ticks: usize,
    /// Time of the first repeated tick.
    pub set_back_ns: Option<i64>,
    pub series: BTreeSet<(String, String)>,
    /// Sums and numbers of the values of the whole machine that logs of the same time must agree on.
    pub compared: BTreeMap<&'static str, (f64, u32)>,
    pub topology: Option<Topology>,
}

/// Counters of the whole machine that two logs of the same time must agree on.
pub const COMPARED: [&str; 2] = [processor::IOWAIT, processor::IDLE];

/// Reads the ticks, series and machine of a log.
pub fn outline_member(log: &StoredLog, window: (i64, i64)) -> Result<MemberOutline, IngestError> {
    let mut outline = MemberOutline {
        spans: Vec::new(),
        repeated_ticks: 0,
        set_back_ns: None,
        series: BTreeSet::new(),
        compared: BTreeMap::new(),
        topology: None,
    };
    let mut order = TickOrder::default();
    let mut reader = log.open_reader()?;
    reader.set_window(window.0, window.1);
    let mut frame = Frame::default();
    let mut last_schema: Option<Arc<Schema>> = None;
    while let Some(item) = reader.next(&mut frame)? {
        match item {
            LogItem::Frame => {
                for tick in frame.ticks() {
                    if order.is_repeated_tick(tick) {
                        outline.repeated_ticks += 1;
                        outline.set_back_ns = outline.set_back_ns.or(Some(tick.time_ns));
                        continue;
                    }
                    outline.spans.push(tick_span(tick));
                }
                outline.add_compared(&frame);
                if last_schema.as_ref() != Some(frame.schema()) {
                    let series = frame.schema().series.iter();
                    outline.series.extend(series.map(|s| (s.counter.clone(), s.instance.clone())));
                    last_schema = Some(Arc::clone(frame.schema()));
                }
            }
            LogItem::Note(note) if note.kind == Note::TOPOLOGY && outline.topology.is_none() => {
                outline.topology = note.read_topology().ok().map(Arc::unwrap_or_clone);
            }
            _ => {}
        }
    }
    Ok(outline)
}

/// Shares that fill the time of a processor together: of two logs that contradict each other, those of one are used.
pub const SHARES_OF_ONE_LOG: [&str; 3] = [processor::IDLE, processor::IOWAIT, processor::BUSY];

/// The members whose shares of a processor are used in the time of others.
pub struct ShareOwners(HashMap<(usize, String), usize>);

impl ShareOwners {
    /// Finds the owner for each member and each instance that any of them has.
    pub fn find(outlines: &[MemberOutline]) -> ShareOwners {
        let series = outlines.iter().flat_map(|outline| &outline.series);
        let shares = series.filter(|(counter, _)| SHARES_OF_ONE_LOG.contains(&counter.as_str()));
        let instances: BTreeSet<&String> = shares.map(|(_, instance)| instance).collect();
        let keys = (0..outlines.len()).flat_map(|rank| instances.iter().map(move |instance| (rank, *instance)));
        let owner =
            |(rank, instance): (usize, &String)| ((rank, instance.clone()), find_share_owner(outlines, instance, rank));
        ShareOwners(keys.map(owner).collect())
    }

    /// Returns the member whose shares of a processor are used in the time of this one.
    pub fn owner(&self, instance: &str, rank: usize) -> usize {
        self.0.get(&(rank, instance.to_owned())).copied().unwrap_or(rank)
    }
}

/// Returns the member whose shares of a processor are used in the time of another: one that shows when it idles, else
/// the first.
fn find_share_owner(outlines: &[MemberOutline], instance: &str, rank: usize) -> usize {
    let own = outlines[rank].total_span();
    let has =
        |other: &usize, counter: &str| outlines[*other].series.contains(&(counter.to_owned(), instance.to_owned()));
    let overlaps = |other: &usize| {
        *other == rank || own.zip(outlines[*other].total_span()).is_some_and(|(own, span)| spans_overlap(own, span))
    };
    let members: Vec<usize> = (0..outlines.len()).filter(overlaps).collect();
    let with_idle = members.iter().find(|other| has(other, processor::IDLE));
    let first = || members.iter().find(|other| SHARES_OF_ONE_LOG.iter().any(|counter| has(other, counter)));
    with_idle.or_else(first).copied().unwrap_or(rank)
}

/// Detects ticks whose times a log already had, because its clock was set back.
#[derive(Default)]
pub struct TickOrder {
    latest_ns: Option<i64>,
    is_back: bool,
}

impl TickOrder {
    /// Handles the next tick; true until the clock has caught up.
    pub fn is_repeated_tick(&mut self, tick: &Tick) -> bool {
        let latest = self.latest_ns.unwrap_or(tick.time_ns);
        self.is_back = tick.time_ns < latest || self.is_back && tick.time_ns == latest;
        self.latest_ns = Some(latest.max(tick.time_ns));
        self.is_back
    }
}

/// Time that a tick covers.
pub fn tick_span(tick: &Tick) -> TickSpan {
    (tick.start_ns(), tick.time_ns)
}

impl MemberOutline {
    /// Adds the values of a frame that are compared.
    fn add_compared(&mut self, frame: &Frame) {
        for counter in COMPARED {
            let Some(column) = frame.schema().column(counter, "_total") else { continue };
            let scale = frame.schema().series[column].scale;
            let (sum, count) = self.compared.entry(counter).or_default();
            for value in frame.column(column).iter().filter(|value| !value.is_nan()) {
                *sum += value * scale;
                *count += 1;
            }
        }
    }

    /// Mean of a value that is compared.
    pub fn compared_mean(&self, counter: &str) -> Option<f64> {
        self.compared.get(counter).filter(|(_, count)| *count > 0).map(|(sum, count)| sum / f64::from(*count))
    }

    /// From the beginning of the first tick to the end of the last.
    pub fn total_span(&self) -> Option<TickSpan> {
        Some((self.spans.first()?.0, self.spans.last()?.1))
    }
}

/// True if two spans share some time, or one is a point in the other.
pub fn spans_overlap(one: TickSpan, other: TickSpan) -> bool {
    one.0.max(other.0) < one.1.min(other.1) || one.0 == one.1 && other.0 < one.0 && one.0 <= other.1
}
