//! The table of devices: values averaged over a stretch of time, and one quantity over the timeline.

use std::collections::HashMap;
use std::sync::Arc;

use diskwright_base::counter_ids::physical_disk;
use diskwright_base::{
    Catalogue, Ceiling, CounterPlan, CounterSummary, Device, DeviceClass, DeviceKind, Frame, Schema, Topology,
};
use diskwright_diagnosis::DeviceLoad;
use serde::Serialize;

use crate::panels::DevicePanel;

/// Values of a device, averaged over the shown stretch.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DeviceRow {
    /// Its name.
    pub name: String,
    /// True for a device that is built on others. They count its requests too, so it does not belong in a sum.
    pub stacked: bool,
    /// True for a device that has a row only while it does something.
    #[serde(skip)]
    pub(crate) hides_when_idle: bool,
    /// One value for each column of the table; `null` where nothing was measured or nothing happened.
    pub values: Vec<Option<f64>>,
    /// Share of its measured ceiling in use, of requests or of bytes, whichever is larger; `null` where it is unknown.
    pub ceiling_used: Option<f64>,
    /// True where a ceiling is known, even if only for some kinds of requests.
    pub ceiling_known: bool,
    /// The history's counter over the timeline, evenly spaced; `null` is a gap.
    pub history: Vec<Option<f64>>,
}

impl DeviceRow {
    /// True for a device that has nothing to show: no request in the shown stretch, and none over the timeline.
    pub(crate) fn is_hidden(&self) -> bool {
        let is_active = self.values.iter().chain(&self.history).flatten().any(|value| *value > 0.0);
        self.hides_when_idle && !is_active
    }
}

/// Plans in the order of the requested counters; `None` for counters that a schema lacks.
type QueryPlans = Vec<Option<Arc<CounterPlan>>>;

/// Counters that a view needs of one schema and topology. Consecutive views mostly need the same ones, so the query is
/// kept from view to view.
pub(crate) struct MomentQuery {
    schema: Arc<Schema>,
    topology: Option<Arc<Topology>>,
    all_devices: bool,
    /// The devices that have rows.
    pub names: Vec<String>,
    /// Pairs of counter and instance: device by device, then those of the machine.
    requested: Vec<(String, String)>,
    /// The schema of the last frame, and the plans for the requested counters in it.
    plans: Option<(Arc<Schema>, QueryPlans)>,
}

impl MomentQuery {
    /// Requests the counters of the devices' rows, and `machine_counters` of the whole machine.
    pub fn new<'p>(
        panel: &'p DevicePanel,
        machine_counters: impl Iterator<Item = &'p str>,
        (schema, topology, all_devices): (&Arc<Schema>, Option<Arc<Topology>>, bool),
    ) -> MomentQuery {
        let mut names = device_names(panel, schema, topology.as_deref(), all_devices);
        names.extend(further_loops(panel, schema, topology.as_deref(), &names));
        let for_devices =
            names.iter().flat_map(|name| row_counters(panel).map(|counter| (counter.to_owned(), name.clone())));
        let requested =
            for_devices.chain(machine_counters.map(|counter| (counter.to_owned(), String::new()))).collect();
        MomentQuery { schema: Arc::clone(schema), topology, all_devices, names, requested, plans: None }
    }

    /// True where it was made from the same schema, topology and option.
    pub fn matches_inputs(&self, schema: &Arc<Schema>, topology: Option<&Arc<Topology>>, all_devices: bool) -> bool {
        let is_same = match (&self.topology, topology) {
            (Some(known), Some(topology)) => Arc::ptr_eq(known, topology),
            (known, topology) => known.is_none() && topology.is_none(),
        };
        is_same && Arc::ptr_eq(&self.schema, schema) && self.all_devices == all_devices
    }

    /// Plans of the requested counters in a schema; those of the last schema are kept.
    fn counter_plans(&mut self, schema: &Arc<Schema>) -> &[Option<Arc<CounterPlan>>] {
        let known = self.plans.take().filter(|(known, _)| Arc::ptr_eq(known, schema));
        let requested = &self.requested;
        let resolve = || {
            let plan =
                |(counter, instance): &(String, String)| resolve_counter(schema, counter, instance).map(Arc::new);
            (Arc::clone(schema), requested.iter().map(plan).collect())
        };
        &self.plans.insert(known.unwrap_or_else(resolve)).1
    }
}

/// Sums of the requested counters over a stretch.
pub(crate) struct StretchSums<'q> {
    query: &'q mut MomentQuery,
    sums: Vec<CounterSummary>,
    /// The last plan of each counter, which turns its sum into a value.
    last_plans: Vec<Option<Arc<CounterPlan>>>,
}

impl StretchSums<'_> {
    /// Starts empty sums for a query.
    pub fn new(query: &mut MomentQuery) -> StretchSums<'_> {
        let count = query.requested.len();
        StretchSums { query, sums: vec![CounterSummary::default(); count], last_plans: vec![None; count] }
    }

    /// Adds the ticks of a frame that end after this time.
    pub fn add_frame(&mut self, frame: &Frame, after_ns: i64) {
        let ticks = frame.ticks();
        for (index, plan) in self.query.counter_plans(frame.schema()).iter().enumerate() {
            let Some(plan) = plan else { continue };
            self.sums[index].merge_summary(&plan.summarise_ticks(frame, |tick| ticks[tick].time_ns > after_ns));
            self.last_plans[index] = Some(Arc::clone(plan));
        }
    }

    /// The values, in the order of the requested counters.
    pub fn values(&self) -> Vec<Option<f64>> {
        self.last_plans.iter().zip(&self.sums).map(|(plan, sum)| plan.as_ref()?.summary_value(sum)).collect()
    }
}

/// Plan for a counter of an instance; for the machine (an empty instance), that of `_total` where the log has no other.
pub(crate) fn resolve_counter(schema: &Schema, counter: &str, instance: &str) -> Option<CounterPlan> {
    let catalogue = Catalogue::builtin();
    let found = CounterPlan::resolve_counter(catalogue, schema, counter, instance);
    if instance.is_empty() {
        found.or_else(|| CounterPlan::resolve_counter(catalogue, schema, counter, "_total"))
    } else {
        found
    }
}

/// Names of the devices of a schema: the machine's physical disks; with `all_devices`, all block devices; of another
/// object, all instances.
pub(crate) fn device_names(
    panel: &DevicePanel,
    schema: &Schema,
    topology: Option<&Topology>,
    all_devices: bool,
) -> Vec<String> {
    let names = match panel.object.as_str() {
        "physical_disk" if !all_devices => diskwright_diagnosis::physical_disks(schema, topology),
        object => schema.instances(object),
    };
    names.into_iter().filter(|name| *name != "_total").map(str::to_owned).collect()
}

/// Loop devices that are bound to a file and not among these names, because they are built on a disk or are memory.
fn further_loops(panel: &DevicePanel, schema: &Schema, topology: Option<&Topology>, names: &[String]) -> Vec<String> {
    if panel.object != "physical_disk" {
        return Vec::new();
    }
    let is_loop = |name: &&str| {
        let device = topology.and_then(|topology| topology.find_device(name));
        device.is_some_and(|device| device.kind == DeviceKind::Loop)
    };
    let measured = schema.instances("physical_disk").into_iter().filter(is_loop);
    measured.filter(|name| !names.iter().any(|known| known == name)).map(str::to_owned).collect()
}

/// Counters from which the share of a ceiling is computed.
const LOAD_COUNTERS: [&str; 4] = [
    physical_disk::READS_PER_S,
    physical_disk::WRITES_PER_S,
    physical_disk::READ_BYTES_PER_S,
    physical_disk::WRITE_BYTES_PER_S,
];

/// Counters of a device's row: its columns, then the load that is compared with a ceiling.
pub(crate) fn row_counters(panel: &DevicePanel) -> impl Iterator<Item = &str> {
    panel.columns.iter().map(|column| column.counter.as_str()).chain(LOAD_COUNTERS)
}

/// Rows of these devices; `values` holds the values of [`row_counters`], device by device.
pub(crate) fn device_rows(
    panel: &DevicePanel,
    names: Vec<String>,
    values: &[Option<f64>],
    (ceilings, topology): (&[Ceiling], Option<&Topology>),
) -> Vec<DeviceRow> {
    let columns = panel.columns.len();
    let devices = topology.map_or(&[][..], |topology| topology.devices.as_slice());
    let known: HashMap<&str, &Device> = devices.iter().map(|d| (d.name.as_str(), d)).collect();
    let ceilings: HashMap<&str, &Ceiling> = ceilings.iter().rev().map(|c| (c.device.as_str(), c)).collect();
    let row = |(name, values): (String, &[Option<f64>])| {
        let (shown, load) = values.split_at(columns);
        let device = known.get(name.as_str());
        let class = device.map_or_else(DeviceClass::default, |device| device.class);
        let stacked = device.is_some_and(|d| !d.below.is_empty() && d.kind != DeviceKind::Multipath);
        let hides_when_idle =
            device.is_some_and(|d| d.kind == DeviceKind::Loop && (stacked || d.class == DeviceClass::Memory));
        let ceiling = ceilings.get(name.as_str());
        let ceiling_used =
            ceiling.and_then(|ceiling| diskwright_diagnosis::ceiling_used(ceiling, class, device_load(load)?));
        DeviceRow {
            name,
            stacked,
            hides_when_idle,
            values: shown.to_vec(),
            ceiling_used,
            ceiling_known: ceiling.is_some(),
            history: Vec::new(),
        }
    };
    names.into_iter().zip(values.chunks_exact(columns + LOAD_COUNTERS.len())).map(row).collect()
}

/// Load of a device from the values of the load counters; `None` where one is missing.
fn device_load(values: &[Option<f64>]) -> Option<DeviceLoad> {
    match values {
        [Some(reads), Some(writes), Some(read_bytes), Some(write_bytes)] => Some(DeviceLoad {
            reads_per_s: *reads,
            writes_per_s: *writes,
            read_bytes_per_s: *read_bytes,
            write_bytes_per_s: *write_bytes,
        }),
        _ => None,
    }
}
