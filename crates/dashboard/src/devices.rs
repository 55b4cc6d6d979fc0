//! The table of devices: values of one stretch, and a quantity over time.

use std::sync::Arc;

use diskwright_base::{Catalogue, Ceiling, CounterPlan, CounterSummary, DeviceClass, Frame, Schema, Topology};
use diskwright_diagnosis::DeviceLoad;
use serde::Serialize;

use crate::panels::DevicePanel;

/// A device in the stretch that is shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DeviceRow {
    /// Its name.
    pub name: String,
    /// One value a column of the table; `null` where nothing was measured or nothing happened.
    pub values: Vec<Option<f64>>,
    /// Share of the most that was measured of it, of requests or bytes, whichever is more; `null`
    /// where no ceiling is known.
    pub ceiling_used: Option<f64>,
    /// Whether one is known, be it only of some of its requests.
    pub ceiling_known: bool,
    /// The history's counter over the time line, evenly spaced; `null` is a gap.
    pub history: Vec<Option<f64>>,
}

/// The plans of what was wanted last, which most frames want again.
#[derive(Default)]
pub(crate) struct PlanCache {
    wanted: Vec<(String, String)>,
    schema: Option<Arc<Schema>>,
    plans: Vec<Option<Arc<CounterPlan>>>,
}

impl PlanCache {
    /// Finds the plans of these counters in a schema; nothing is done where they are known.
    fn find(&mut self, wanted: &[(&str, String)], schema: &Arc<Schema>) {
        let is_known =
            |(known, wanted): (&(String, String), &(&str, String))| known.0 == wanted.0 && known.1 == wanted.1;
        let is_same = self.schema.as_ref().is_some_and(|known| Arc::ptr_eq(known, schema))
            && self.wanted.len() == wanted.len()
            && self.wanted.iter().zip(wanted).all(is_known);
        if is_same {
            return;
        }
        let plan = |(counter, instance): &(&str, String)| resolve(schema, counter, instance).map(Arc::new);
        self.plans = wanted.iter().map(plan).collect();
        self.wanted = wanted.iter().map(|(counter, instance)| ((*counter).to_owned(), instance.clone())).collect();
        self.schema = Some(Arc::clone(schema));
    }
}

/// What is wanted of a machine's counters, summed over a stretch.
pub(crate) struct StretchSums<'p> {
    wanted: Vec<(&'p str, String)>,
    cache: PlanCache,
    sums: Vec<CounterSummary>,
    /// The plans that were last found, which divide the sums.
    finish: Vec<Option<Arc<CounterPlan>>>,
}

impl<'p> StretchSums<'p> {
    /// Sums of these counters of these instances.
    pub fn new(wanted: Vec<(&'p str, String)>, cache: PlanCache) -> StretchSums<'p> {
        let count = wanted.len();
        StretchSums { wanted, cache, sums: vec![CounterSummary::default(); count], finish: vec![None; count] }
    }

    /// Adds the ticks that end after a moment.
    pub fn add(&mut self, frame: &Frame, after_ns: i64) {
        self.cache.find(&self.wanted, frame.schema());
        let ticks = frame.ticks();
        for (index, plan) in self.cache.plans.iter().enumerate() {
            let Some(plan) = plan else { continue };
            self.sums[index].add(&plan.summarise(frame, |tick| ticks[tick].time_ns > after_ns));
            self.finish[index] = Some(Arc::clone(plan));
        }
    }

    /// What is kept for the next time.
    pub fn into_cache(self) -> PlanCache {
        self.cache
    }

    /// The values, in the order in which they were wanted.
    pub fn values(&self) -> Vec<Option<f64>> {
        self.finish.iter().zip(&self.sums).map(|(plan, sum)| plan.as_ref()?.value(sum)).collect()
    }
}

/// A counter of an instance; that of the machine, where the instance has no name, also as its total.
pub(crate) fn resolve(schema: &Schema, counter: &str, instance: &str) -> Option<CounterPlan> {
    let catalogue = Catalogue::builtin();
    let found = CounterPlan::resolve(catalogue, schema, counter, instance);
    if instance.is_empty() {
        found.or_else(|| CounterPlan::resolve(catalogue, schema, counter, "_total"))
    } else {
        found
    }
}

/// The devices that a schema has: the machine's own disks, unless all are wanted, or all instances of another object.
pub(crate) fn names(panel: &DevicePanel, schema: &Schema, topology: Option<&Topology>, all: bool) -> Vec<String> {
    let names = match panel.object.as_str() {
        "physical_disk" if !all => diskwright_diagnosis::disks(schema, topology),
        object => schema.instances(object),
    };
    names.into_iter().filter(|name| *name != "_total").map(str::to_owned).collect()
}

/// What the share of a ceiling is computed from.
const LOAD: [&str; 4] = [
    "physical_disk.reads_per_s",
    "physical_disk.writes_per_s",
    "physical_disk.read_bytes_per_s",
    "physical_disk.write_bytes_per_s",
];

/// The counters that a device's row needs: its columns, then what a ceiling is held against.
pub(crate) fn counters(panel: &DevicePanel) -> impl Iterator<Item = &str> {
    panel.columns.iter().map(|column| column.counter.as_str()).chain(LOAD)
}

/// Rows of these devices, of values that lie one device after the other.
pub(crate) fn rows(
    panel: &DevicePanel,
    names: Vec<String>,
    values: &[Option<f64>],
    (ceilings, topology): (&[Ceiling], Option<&Topology>),
) -> Vec<DeviceRow> {
    let columns = panel.columns.len();
    let row = |(name, values): (String, &[Option<f64>])| {
        let (shown, load) = values.split_at(columns);
        let class = topology.and_then(|topology| topology.device(&name)).map_or(DeviceClass::default(), |d| d.class);
        let ceiling = ceilings.iter().find(|ceiling| ceiling.device == name);
        let ceiling_used = ceiling.and_then(|ceiling| diskwright_diagnosis::ceiling_used(ceiling, class, of(load)?));
        DeviceRow { name, values: shown.to_vec(), ceiling_used, ceiling_known: ceiling.is_some(), history: Vec::new() }
    };
    names.into_iter().zip(values.chunks_exact(columns + LOAD.len())).map(row).collect()
}

/// The load that a device's last values are; `None` where one is missing.
fn of(values: &[Option<f64>]) -> Option<DeviceLoad> {
    match values {
        [Some(reads), Some(writes), Some(read_bytes), Some(write_bytes)] => {
            Some(DeviceLoad { reads: *reads, writes: *writes, read_bytes: *read_bytes, write_bytes: *write_bytes })
        }
        _ => None,
    }
}
