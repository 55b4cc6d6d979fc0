//! `plan --from LOG… --fleet`, `plan --prometheus URL --fleet`: each machine's demand and design, and one purchase list
//! for all.

use std::collections::BTreeMap;
use std::time::Duration;

use diskwright_base::byte_size::ByteSize;
use diskwright_base::counter_ids::{logical_disk, memory, paging, physical_disk};
use diskwright_base::units::format_value;
use diskwright_planner::answer::PricePeriod;
use diskwright_planner::series::{LoadCollector, LoadSeries, MeasureOptions, MeasuredDemand, demand_from_series};
use diskwright_planner::{PlanAnswer, PlanLimits, PlannedDesign, plan};
use diskwright_remote::fleet::{Fleet, FleetMember, stored_counters_for};
use diskwright_report::{Align, TextTable};
use serde_json::{Value, json};

use super::{Arguments, from_log, screen};
use crate::commands::log;
use crate::commands::{Failure, output};

/// Default window of a store: a week includes a weekend.
const DEFAULT_WINDOW: Duration = Duration::from_secs(7 * 86_400);
/// Counters that demands are computed from.
const DEMAND_COUNTERS: [&str; 13] = [
    physical_disk::READS,
    physical_disk::WRITES,
    physical_disk::READ_BYTES,
    physical_disk::WRITE_BYTES,
    physical_disk::READ_TIME_S,
    physical_disk::WRITE_TIME_S,
    physical_disk::WEIGHTED_TIME_S,
    physical_disk::BUSY_TIME_S,
    logical_disk::TOTAL_BYTES,
    logical_disk::FREE_BYTES,
    paging::SWAP_IN_PAGES,
    paging::SWAP_OUT_PAGES,
    memory::TOTAL_BYTES,
];

/// One machine: its demand and design, or the reason why there is none.
struct PlannedMachine {
    name: String,
    outcome: Result<(MeasuredDemand, Option<PlanAnswer>), Failure>,
}

/// A row of the purchase list.
#[derive(Default)]
struct PurchaseRow {
    count: u64,
    machines: u64,
    /// Sum of the prices; `None` if one of them is unknown.
    price: Option<f64>,
    monthly: bool,
}

/// Plans every machine.
pub fn run(arguments: &Arguments, options: &MeasureOptions, limits: &PlanLimits) -> Result<(), Failure> {
    let limits = PlanLimits { list_length: 1, ..limits.clone() };
    let mut loads: Vec<(String, Result<LoadSeries, Failure>)> = Vec::new();
    if arguments.from.store.is_given()? {
        load_store_machines(arguments, &mut loads)?;
    } else {
        for path in &arguments.from.logs {
            let logs = log::open(std::slice::from_ref(path), &arguments.from.log_window());
            let load = logs.and_then(|logs| from_log::load_from_logs(&logs.without_distributions(), &[]));
            loads.push((path.display().to_string(), load));
        }
    }
    let planned: Vec<PlannedMachine> = loads
        .into_iter()
        .map(|(name, load)| {
            let outcome = load.and_then(|series| plan_machine(arguments, series, options, &limits));
            PlannedMachine { name, outcome }
        })
        .collect();
    if planned.iter().all(|machine| machine.outcome.is_err()) {
        let first = planned.into_iter().find_map(|machine| Some((machine.name, machine.outcome.err()?)));
        return Err(match first {
            // an unreadable log is not wrong usage, alone or among others
            Some((name, Failure::Usage(failure))) => Failure::Usage(format!("{name}: {failure}")),
            Some((name, failure)) => Failure::Failed(format!("{name}: {failure}")),
            None => Failure::Usage("there is no machine to plan for".into()),
        });
    }
    let purchases = sum_purchases(&planned);
    if arguments.json {
        return output::print_json(&fleet_document(&planned, &purchases, &limits));
    }
    output::print_text(&fleet_text(&planned, &purchases, &limits))
}

fn plan_machine(
    arguments: &Arguments,
    mut series: LoadSeries,
    options: &MeasureOptions,
    limits: &PlanLimits,
) -> Result<(MeasuredDemand, Option<PlanAnswer>), Failure> {
    let options = from_log::with_end_offset(options, &mut series);
    let mut measured = demand_from_series(&series, &options).map_err(|error| Failure::Usage(error.to_string()))?;
    measured.demand = arguments.demand.complete_measured(measured.demand)?;
    let answer = match arguments.from.demand_only {
        true => None,
        false => Some(plan(&measured.demand, limits).map_err(super::plan_failure)?),
    };
    Ok((measured, answer))
}

/// Loads all machines of a store, chunk by chunk.
fn load_store_machines(
    arguments: &Arguments,
    loads: &mut Vec<(String, Result<LoadSeries, Failure>)>,
) -> Result<(), Failure> {
    let store_arguments = &arguments.from.store;
    arguments.from.log_window().refuse_log_options()?;
    let store = store_arguments.open_store()?;
    let query = store_arguments.host_query(&arguments.from.log_window(), DEFAULT_WINDOW)?;
    let fleet = Fleet::discover_hosts(&store, query, &stored_counters_for(DEMAND_COUNTERS))?;
    for hosts in fleet.host_chunks() {
        for FleetMember { host, samples } in fleet.fetch_members(&store, hosts)? {
            let load = samples.map(|samples| {
                let mut collector = LoadCollector::default();
                collector.set_topology(samples.topology);
                collector.add_frame(&samples.frame);
                collector.finish()
            });
            let load = load.map_err(Failure::Failed);
            loads.push((host, load));
        }
    }
    Ok(())
}

/// Sums up the items of each machine's first design.
fn sum_purchases(planned: &[PlannedMachine]) -> BTreeMap<String, PurchaseRow> {
    let mut rows: BTreeMap<String, PurchaseRow> = BTreeMap::new();
    for design in planned.iter().filter_map(first_design) {
        let monthly = design.price_period == PricePeriod::Month;
        for item in &design.bought {
            // volumes differ in size
            let name = if monthly { &design.name } else { &item.item };
            let row =
                rows.entry(name.clone()).or_insert_with(|| PurchaseRow { price: Some(0.0), ..PurchaseRow::default() });
            row.count += u64::from(item.count);
            row.machines += 1;
            row.monthly = monthly;
            // an unknown price makes the sum unknown, never smaller
            row.price = row.price.zip(item.price).map(|(sum, price)| sum + price);
        }
    }
    rows
}

/// Number of machines that the purchase list leaves out.
fn count_without_design(planned: &[PlannedMachine]) -> usize {
    planned.iter().filter(|machine| first_design(machine).is_none()).count()
}

fn first_design(machine: &PlannedMachine) -> Option<&PlannedDesign> {
    let (_, answer) = machine.outcome.as_ref().ok()?;
    answer.as_ref().filter(|answer| answer.feasible)?.designs.first()
}

/// Total price of a period, and the number of rows without a known price.
fn total_price(rows: &BTreeMap<String, PurchaseRow>, monthly: bool) -> (f64, usize) {
    let period_rows = || rows.values().filter(move |row| row.monthly == monthly);
    // starting at 0, because the sum of nothing is -0
    let sum = period_rows().filter_map(|row| row.price).fold(0.0, |sum, price| sum + price);
    (sum, period_rows().filter(|row| row.price.is_none()).count())
}

fn fleet_text(planned: &[PlannedMachine], purchases: &BTreeMap<String, PurchaseRow>, limits: &PlanLimits) -> String {
    let style = output::wide_table_style();
    let mut loads = TextTable::new().with_text_column("machine");
    for title in ["reads", "writes", "size", "capacity", "confidence"] {
        loads = loads.with_column(title, Align::Right);
    }
    let mut designs =
        TextTable::new().with_text_column("machine").with_text_column("design").with_column("price", Align::Right);
    for machine in planned {
        let name = machine.name.clone();
        let (measured, answer) = match &machine.outcome {
            Ok(found) => found,
            Err(failure) => {
                designs.add_row([name, failure.to_string(), String::new()]);
                continue;
            }
        };
        let demand = &measured.demand;
        loads.add_row([
            name.clone(),
            format_value(demand.reads_per_s, "per_s"),
            format_value(demand.writes_per_s, "per_s"),
            format_value(demand.size_bytes(), "bytes"),
            demand.capacity_bytes.map_or("no data".into(), |bytes| ByteSize::capacity(bytes).to_string()),
            format!("{:.0} %", measured.summary.rating.confidence * 100.0),
        ]);
        match (first_design(machine), answer) {
            (Some(design), _) => {
                designs.add_row([name, screen::design_title(design), screen::format_design_price(design)])
            }
            (None, Some(_)) => designs.add_row([name, "nothing within the limits".into(), String::new()]),
            (None, None) => {}
        }
    }
    let mut out = loads.render(&style);
    if !designs.is_empty() {
        out += &format!("\n{}", designs.render(&style));
    }
    if purchases.is_empty() {
        return out;
    }
    out + &purchase_list(planned, purchases, &limits.currency)
}

/// Formats the purchase list, and what it leaves out.
fn purchase_list(planned: &[PlannedMachine], purchases: &BTreeMap<String, PurchaseRow>, currency: &str) -> String {
    let mut list = TextTable::new()
        .with_text_column("to buy")
        .with_column("number", Align::Right)
        .with_column("machines", Align::Right);
    list = list.with_column("price", Align::Right);
    let amount = |price: Option<f64>, monthly: bool| match price {
        Some(price) => format!("{price:.2} {currency}{}", if monthly { " per month" } else { "" }),
        None => "unknown".into(),
    };
    for (name, row) in purchases {
        list.add_row([name.clone(), row.count.to_string(), row.machines.to_string(), amount(row.price, row.monthly)]);
    }
    let mut out = format!("\n{}", list.render(&output::wide_table_style()));
    for monthly in [false, true] {
        let (sum, unknown) = total_price(purchases, monthly);
        if sum > 0.0 || unknown > 0 {
            out += &match (sum > 0.0, unknown) {
                (true, 0) => format!("total: {}\n", amount(Some(sum), monthly)),
                (true, _) => format!("total: {}, and {unknown} of unknown price\n", amount(Some(sum), monthly)),
                (false, _) => format!("total: unknown ({unknown} of unknown price)\n"),
            };
        }
    }
    match count_without_design(planned) {
        0 => {}
        1 => out += "1 machine has no design and is not included.\n",
        n => out += &format!("{n} machines have no design and are not included.\n"),
    }
    out
}

fn fleet_document(planned: &[PlannedMachine], purchases: &BTreeMap<String, PurchaseRow>, limits: &PlanLimits) -> Value {
    let machines: Vec<Value> = planned
        .iter()
        .map(|machine| match &machine.outcome {
            Ok((measured, answer)) => json!({
                "machine": machine.name,
                "demand": from_log::demand_json(measured),
                "load": measured.summary,
                "feasible": answer.as_ref().map(|answer| answer.feasible),
                "design": first_design(machine),
            }),
            Err(failure) => json!({ "machine": machine.name, "because": failure.to_string() }),
        })
        .collect();
    let rows: Vec<Value> = purchases
        .iter()
        .map(|(name, row)| {
            json!({
                "part": name,
                "count": row.count,
                "machines": row.machines,
                "price": row.price,
                "price_period": if row.monthly { "month" } else { "once" },
            })
        })
        .collect();
    let sums = [false, true].map(|monthly| total_price(purchases, monthly));
    json!({
        "schema": "diskwright.plan/1",
        "machines": machines,
        "purchases": rows,
        "total_once": sums[0].0,
        "total_month": sums[1].0,
        "unknown_prices": sums[0].1 + sums[1].1,
        "without_design": count_without_design(planned),
        "currency": limits.currency,
    })
}
