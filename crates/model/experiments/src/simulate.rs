//! Runs experiments on the built-in systems with the simulator, and extracts the numbers of its report by path.

use diskwright_base::counter_ids::processor;
use diskwright_simulator::run::{Component, ComponentKind, IoCounts, Simulation, SimulationReport, WorkloadReport};
use diskwright_simulator::station::StationTotals;
use diskwright_simulator::system::read::{Setting, read};

use crate::data;
use crate::numbers::{Numbers, path_name};
use crate::run::{SimulationResult, Variant, VariantRunner};

/// Returns the runner for the built-in systems.
pub fn built_in_runner(threads: usize) -> VariantRunner<'static> {
    VariantRunner { simulate: &simulate_variant, threads }
}

/// Simulates a variant of a built-in system.
///
/// # Errors
/// Lists mistakes in the description, by line.
pub fn simulate_variant(variant: &Variant) -> SimulationResult {
    let name = &variant.system;
    let text = data::system_text(name).ok_or_else(|| format!("there is no system `{name}`"))?;
    let setting = |(key, value): &(String, String)| Setting { key: key.clone(), value: value.clone() };
    let settings: Vec<Setting> = variant.settings.iter().map(setting).collect();
    let file = format!("experiments/systems/{name}.toml");
    let no_files = |path: &str| Err(format!("`{path}`: systems of experiments name no files"));
    let description = read(&file, text, &settings, &no_files).map_err(|problems| problems.to_string())?;
    let mut simulation = Simulation::new(&description.system).map_err(|error| error.to_string())?;
    let report = simulation.run(|_| {});
    let host = &description.system.host;
    // other interrupts use processor time, but are not simulated as visits to a processor
    let other_interrupt_share =
        host.other_interrupts_per_s * host.interrupt_ns as f64 * 1e-9 / f64::from(host.processors.max(1));
    Ok(report_numbers(&report, other_interrupt_share))
}

/// Extracts the numbers of a report; `other_interrupt_share` is the share of processor time in other interrupts.
fn report_numbers(report: &SimulationReport, other_interrupt_share: f64) -> Numbers {
    let mut numbers = Numbers::default();
    let elapsed_s = report.elapsed_s();
    numbers.insert("elapsed_s", elapsed_s);
    numbers.insert("interrupts_per_s", report.interrupts / elapsed_s);
    let processors = report.components.iter().find(|c| c.kind == ComponentKind::Processor);
    if let Some(processors) = processors {
        numbers.insert(processor::BUSY, (processors.utilisation() + other_interrupt_share).min(1.0));
        let interrupts_s = report.interrupt_ns * 1e-9 / elapsed_s;
        numbers.insert("interrupt_busy", (interrupts_s / f64::from(processors.servers)).min(1.0));
    }
    insert_workloads(&mut numbers, &report.workloads, elapsed_s);
    let mut kinds: Vec<&str> = report.components.iter().map(|c| c.kind.name()).collect();
    kinds.dedup();
    for kind in kinds.into_iter().filter(|kind| *kind != ComponentKind::Processor.name()) {
        let components: Vec<&Component> = report.components.iter().filter(|c| c.kind.name() == kind).collect();
        let quantities = |c: &Component| component_quantities(c.utilisation(), &c.totals, &c.counts, elapsed_s);
        insert_quantities(
            &mut numbers,
            kind,
            &components.iter().map(|c| (c.name.as_str(), quantities(c))).collect::<Vec<_>>(),
        );
    }
    let quantities = |a: &diskwright_simulator::run::ArrayReport| {
        component_quantities(a.totals.busy_share(), &a.totals, &a.counts, elapsed_s)
    };
    insert_quantities(
        &mut numbers,
        "array",
        &report.arrays.iter().map(|a| (a.name.as_str(), quantities(a))).collect::<Vec<_>>(),
    );
    numbers
}

/// Quantities of a component, with their names.
type ComponentQuantities = [(&'static str, f64); 5];

fn component_quantities(busy: f64, totals: &StationTotals, counts: &IoCounts, elapsed_s: f64) -> ComponentQuantities {
    let bytes = (counts.bytes_read + counts.bytes_written) as f64;
    [
        ("busy", busy),
        ("queue", totals.mean_queue()),
        ("requests_per_s", totals.throughput_per_s()),
        ("bytes_per_s", bytes / elapsed_s),
        ("response_s", totals.response_s()),
    ]
}

/// Inserts the quantities of each component by its name, and those of all components: sums of rates, means of the
/// other quantities.
fn insert_quantities(numbers: &mut Numbers, kind: &str, components: &[(&str, ComponentQuantities)]) {
    for (name, values) in components {
        for (quantity, value) in values {
            numbers.insert(format!("{kind}.{}.{quantity}", path_name(name)), *value);
        }
    }
    let Some((_, first)) = components.first() else { return };
    for (index, (quantity, _)) in first.iter().enumerate() {
        let sum: f64 = components.iter().map(|(_, values)| values[index].1).sum();
        let combined = if quantity.ends_with("_per_s") { sum } else { sum / components.len() as f64 };
        numbers.insert(format!("{kind}.{quantity}"), combined);
    }
}

fn insert_workloads(numbers: &mut Numbers, workloads: &[WorkloadReport], elapsed_s: f64) {
    let mut total = WorkloadSums::default();
    for workload in workloads {
        let sums = WorkloadSums::from_report(workload);
        sums.insert_into_numbers(numbers, &format!("workload.{}", path_name(&workload.name)), elapsed_s);
        for operations in &workload.operations {
            let path = format!("workload.{}.{}", path_name(&workload.name), path_name(&operations.name));
            numbers.insert(format!("{path}.operations_per_s"), operations.totals.done as f64 / elapsed_s);
            numbers.insert(format!("{path}.operation_s"), operations.totals.mean_response_s());
            for span in &operations.spans {
                numbers.insert(format!("{path}.{}.span_s", path_name(&span.name)), (span.to - span.from) as f64 * 1e-9);
            }
        }
        total.add_sums(&sums);
    }
    total.insert_into_numbers(numbers, "workload", elapsed_s);
}

/// Sums over workloads.
#[derive(Clone, Copy, Debug, Default)]
struct WorkloadSums {
    counts: IoCounts,
    requests: f64,
    response_s: f64,
    operations: u64,
    operations_s: f64,
}

impl WorkloadSums {
    fn from_report(workload: &WorkloadReport) -> WorkloadSums {
        let responses = &workload.responses;
        let operations = || workload.operations.iter().map(|o| &o.totals);
        WorkloadSums {
            counts: workload.counts,
            requests: responses.count() as f64,
            response_s: responses.sum() as f64 * 1e-9,
            operations: operations().map(|t| t.done).sum(),
            operations_s: operations().map(|t| t.total_response_ns as f64 * 1e-9).sum(),
        }
    }

    fn add_sums(&mut self, other: &WorkloadSums) {
        self.counts.reads += other.counts.reads;
        self.counts.writes += other.counts.writes;
        self.counts.bytes_read += other.counts.bytes_read;
        self.counts.bytes_written += other.counts.bytes_written;
        self.requests += other.requests;
        self.response_s += other.response_s;
        self.operations += other.operations;
        self.operations_s += other.operations_s;
    }

    fn insert_into_numbers(&self, numbers: &mut Numbers, path: &str, elapsed_s: f64) {
        let counts = &self.counts;
        let rates = [
            ("requests_per_s", counts.reads + counts.writes),
            ("reads_per_s", counts.reads),
            ("writes_per_s", counts.writes),
            ("bytes_per_s", counts.bytes_read + counts.bytes_written),
            ("read_bytes_per_s", counts.bytes_read),
            ("write_bytes_per_s", counts.bytes_written),
            ("operations_per_s", self.operations),
        ];
        for (quantity, count) in rates {
            numbers.insert(format!("{path}.{quantity}"), count as f64 / elapsed_s);
        }
        numbers.insert(format!("{path}.response_s"), self.response_s / self.requests);
        numbers.insert(format!("{path}.operation_s"), self.operations_s / self.operations as f64);
    }
}
