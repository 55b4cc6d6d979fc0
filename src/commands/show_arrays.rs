//! `show` with declared arrays (`--array`, `--topology`): what the array does, what each member does, and how many
//! requests it has in flight.

use std::collections::BTreeMap;
use std::sync::Arc;

use diskwright_base::units::format_value;
use diskwright_base::{Catalogue, CounterPlan, Frame, LogPiece, Schema};
use diskwright_planner::series::{FrontLoad, LoadCollector};
use diskwright_report::{Align, Style, TextTable};
use serde::Serialize;

use super::Failure;
use super::log::Logs;
use super::plan::from_log::collect_piece;

/// Load of an array and of each of its members, means over the window.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ArrayLoad {
    name: String,
    level: Option<&'static str>,
    members: usize,
    requests_per_s: f64,
    /// Requests in flight; `None` if the log does not show them.
    queue: Option<f64>,
    /// Share of the time in which it was at work, of an array that is not measured itself that of its busiest disk;
    /// `None` if the log does not show it.
    busy: Option<f64>,
    /// I/Os per second of each member, by the level's factor for writes.
    member_transfers_per_s: f64,
    member_queue: Option<f64>,
    /// The members that the log measures, as measured; none of an array behind a controller.
    disks: Vec<MemberLoad>,
}

/// A measured member, means over the window.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct MemberLoad {
    name: String,
    transfers_per_s: Option<f64>,
    queue: Option<f64>,
    busy: Option<f64>,
}

/// Counters of a member, in the order of the fields.
const MEMBER_COUNTERS: [&str; 3] = ["transfers_per_s", "avg_queue_length", "busy"];

/// Reads the load of the arrays of a log. A device with one member is not an array.
pub fn read_array_loads(logs: &Logs) -> Result<Vec<ArrayLoad>, Failure> {
    let (mut collector, mut means) = (LoadCollector::default(), DiskMeans::default());
    logs.read::<Failure>(|piece: LogPiece<'_>| {
        if let LogPiece::Frame(frame) = &piece {
            means.add_frame(frame);
        }
        collect_piece(&mut collector, &piece)
    })?;
    let fronts = collector.finish().fronts;
    Ok(fronts.iter().filter(|front| front.members > 1).map(|front| describe_array(front, &means)).collect())
}

fn describe_array(front: &FrontLoad, means: &DiskMeans) -> ArrayLoad {
    let sums = &front.sums;
    let members = front.leaves.iter().filter(|leaf| **leaf != front.name);
    let disks: Vec<MemberLoad> = members.map(|leaf| means.describe_disk(leaf)).collect();
    let own_busy = means.describe_disk(&front.name).busy;
    let busiest = disks.iter().filter_map(|disk| disk.busy).max_by(f64::total_cmp);
    ArrayLoad {
        name: front.name.clone(),
        level: front.level.map(|level| level.name()),
        members: front.members,
        requests_per_s: sums.requests_per_s(),
        queue: front.queue(),
        busy: own_busy.or(busiest),
        member_transfers_per_s: front.member_load(sums.reads / sums.seconds, sums.writes / sums.seconds),
        member_queue: front.member_queue(),
        disks,
    }
}

/// Means of every disk over the window.
#[derive(Default)]
struct DiskMeans {
    plans: Option<(Arc<Schema>, Vec<DiskPlans>)>,
    sums: BTreeMap<String, [WeightedSum; MEMBER_COUNTERS.len()]>,
    scratch: Vec<f64>,
}

/// A disk and the plans for its counters.
type DiskPlans = (String, [Option<CounterPlan>; MEMBER_COUNTERS.len()]);

/// A sum of values times seconds, and the seconds.
#[derive(Clone, Copy, Debug, Default)]
struct WeightedSum {
    sum: f64,
    seconds: f64,
}

impl DiskMeans {
    fn add_frame(&mut self, frame: &Frame) {
        if self.plans.as_ref().is_none_or(|(schema, _)| !Arc::ptr_eq(schema, frame.schema())) {
            self.plans = Some((Arc::clone(frame.schema()), plan_disks(frame.schema())));
        }
        let plans = self.plans.as_ref().map(|(_, plans)| plans.as_slice()).unwrap_or_default();
        for (disk, plans) in plans {
            let sums = self.sums.entry(disk.clone()).or_default();
            for (sum, plan) in sums.iter_mut().zip(plans) {
                let Some(plan) = plan else { continue };
                plan.compute_values(frame, &mut self.scratch);
                for (value, tick) in self.scratch.iter().zip(frame.ticks()).filter(|(value, _)| !value.is_nan()) {
                    let seconds = tick.elapsed_ns as f64 * 1e-9;
                    sum.sum += value * seconds;
                    sum.seconds += seconds;
                }
            }
        }
    }

    fn describe_disk(&self, name: &str) -> MemberLoad {
        let mean = |index: usize| {
            let sums = self.sums.get(name)?.get(index)?;
            Some(sums.sum / sums.seconds).filter(|mean| mean.is_finite())
        };
        MemberLoad { name: name.to_owned(), transfers_per_s: mean(0), queue: mean(1), busy: mean(2) }
    }
}

/// Plans for the counters of all disks of a schema, of partitions and volumes only where they are no disks.
fn plan_disks(schema: &Schema) -> Vec<DiskPlans> {
    let mut planned: Vec<DiskPlans> = Vec::new();
    for object in ["physical_disk", "logical_disk"] {
        let known: Vec<String> = planned.iter().map(|(name, _)| name.clone()).collect();
        for instance in schema.instances(object) {
            if known.iter().any(|name| name == instance) {
                continue;
            }
            let plan = |name: &str| {
                CounterPlan::resolve_counter(Catalogue::builtin(), schema, &format!("{object}.{name}"), instance)
            };
            planned.push((instance.to_owned(), MEMBER_COUNTERS.map(plan)));
        }
    }
    planned
}

/// Draws the arrays with the load of each member.
pub fn draw_arrays(arrays: &[ArrayLoad], style: &Style) -> String {
    if arrays.is_empty() {
        return String::new();
    }
    let mut table = TextTable::new().with_text_column("array");
    for title in ["requests", "in flight", "busy", "transfers by member", "in flight by member"] {
        table = table.with_column(title, Align::Right);
    }
    let show = |value: Option<f64>, unit: &str| value.map_or("no data".to_owned(), |value| format_value(value, unit));
    for array in arrays {
        let level = array.level.map_or(String::new(), |level| format!("{level} of "));
        table.add_row([
            format!("{}: {level}{}", array.name, array.members),
            format_value(array.requests_per_s, "per_s"),
            show(array.queue, "count"),
            show(array.busy, "fraction"),
            format_value(array.member_transfers_per_s, "per_s"),
            show(array.member_queue, "count"),
        ]);
        for disk in &array.disks {
            table.add_row([
                format!("  {}", disk.name),
                String::new(),
                String::new(),
                show(disk.busy, "fraction"),
                show(disk.transfers_per_s, "per_s"),
                show(disk.queue, "count"),
            ]);
        }
    }
    format!("\n{}", table.render(style))
}
