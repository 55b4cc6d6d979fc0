//! Result of a simulated run, and its bottleneck in words.

use diskwright_base::units::format_value;
use diskwright_simulator::load::{LoadSpec, Operations, Timing};
use diskwright_simulator::system::Workload;
use diskwright_simulator::{Component, ComponentKind, SimulationReport, System};

/// Utilization from which a component counts as saturated.
pub const FULL_UTILIZATION: f64 = 0.9;
/// Utilization from which a component counts as highly used.
pub const HIGH_UTILIZATION: f64 = 0.7;

/// A run and its result.
pub struct SimulationOutcome {
    /// The system that was run.
    pub system: System,
    /// Remarks on its description.
    pub notes: Vec<String>,
    /// Report on the whole run.
    pub report: SimulationReport,
    /// Utilization in each interval that is drawn.
    pub timeline: Vec<UtilizationSample>,
}

impl SimulationOutcome {
    /// Returns why there are no figures; `None` if there are.
    pub fn unmeasured_reason(&self) -> Option<String> {
        let report = &self.report;
        let seconds = |ns: u64| format_value(ns as f64 / 1e9, "s");
        if !self.is_measured() {
            let (end, warm_up) = (seconds(report.to), seconds(self.system.watch.warm_up));
            return Some(format!(
                "nothing was measured: the load ended after {end}, within the warm-up of {warm_up}; shorten the \
                 warm-up (watch.warm_up) or make the load last longer (its operations or phases)"
            ));
        }
        let is_idle =
            busiest_component(self).is_none() && report.workloads.iter().all(|w| w.counts.request_count() == 0);
        is_idle.then(|| {
            format!(
                "nothing was requested in the measured {}; measure for longer (watch.duration)",
                format_value(report.elapsed_s(), "s")
            )
        })
    }

    /// True if any time was measured: not if the load ends within the warm-up.
    pub fn is_measured(&self) -> bool {
        self.report.to > self.report.from
    }
}

/// An interval of a run.
pub struct UtilizationSample {
    /// End of the interval since the beginning of the simulation, s.
    pub end_s: f64,
    /// Utilization of each component.
    pub utilizations: Vec<f64>,
}

/// Finds the part of the path with the highest utilization, of those that did anything. A channel that a drive holds
/// while it positions is as busy as the drive, but requests wait for the drive.
pub fn busiest_component(outcome: &SimulationOutcome) -> Option<&Component> {
    let report = &outcome.report;
    let busiest = report.bottleneck().filter(|busiest| busiest.utilisation() > 0.0)?;
    let channel = outcome.system.channels.iter().position(|channel| channel.name == busiest.name);
    let held_channel = channel
        .filter(|channel| busiest.kind == ComponentKind::Channel && !outcome.system.channels[*channel].disconnects);
    let drives = report.components.iter().filter(|component| component.kind == ComponentKind::Drive);
    let group_drives = drives.enumerate().filter(|(number, _)| {
        let group = outcome.system.find_drive_group(*number as u32).map(|(group, _)| &outcome.system.drives[group]);
        group.is_some_and(|group| group.channel == held_channel)
    });
    let busiest_drive = group_drives.map(|(_, drive)| drive).max_by(|a, b| a.utilisation().total_cmp(&b.utilisation()));
    let drive =
        busiest_drive.filter(|drive| held_channel.is_some() && drive.utilisation() >= busiest.utilisation() - 0.02);
    Some(drive.unwrap_or(busiest))
}

/// Name of a part: `drive disk0`, `processors`, `raid port`.
pub fn component_name(component: &Component) -> String {
    let kind = component.kind.name();
    match component.name.contains(kind) {
        true => component.name.clone(),
        false => format!("{kind} {}", component.name),
    }
}

/// Describes the bottleneck of the path in one line.
pub fn describe_bottleneck(outcome: &SimulationOutcome) -> String {
    let Some(component) = busiest_component(outcome) else {
        return outcome.unmeasured_reason().unwrap_or_else(|| "no part of the path was busy".to_owned());
    };
    let share = component.utilisation();
    let is_alike = |other: &&Component| other.kind == component.kind && other.utilisation() >= share - 0.02;
    let alike_count = outcome.report.components.iter().filter(is_alike).count();
    let component_text = match alike_count {
        0 | 1 => component_name(component),
        n => format!("{n} {} like {}", plural_kind(component.kind), component.name),
    };
    let busy = format_value(share, "fraction");
    match share {
        s if s >= FULL_UTILIZATION => format!("bottleneck: {component_text}, busy {busy} of the time"),
        s if s >= HIGH_UTILIZATION => {
            format!("highest utilization: {component_text}, busy {busy} of the time; little capacity is left")
        }
        _ => {
            let has_losses = |operations: &Operations| operations.totals.lost > 0;
            let has_rejected =
                outcome.report.workloads.iter().any(|workload| workload.operations.iter().any(has_losses));
            // rejected requests did not arrive at the rate of the load
            let pace = rate_limiter(&outcome.system).filter(|_| !has_rejected);
            let limit = pace.map_or(String::new(), |pace| format!(", {pace}"));
            format!("highest utilization: {component_text}, busy {busy} of the time; nothing is saturated{limit}")
        }
    }
}

/// Plural of a kind of part: `drives`, `buses`.
fn plural_kind(kind: ComponentKind) -> String {
    match kind {
        ComponentKind::Bus => "buses".to_owned(),
        ComponentKind::Parity => "parity engines".to_owned(),
        other => format!("{}s", other.name()),
    }
}

/// Describes what limits the rate if no part of the path does; `None` if the workloads differ in it.
fn rate_limiter(system: &System) -> Option<&'static str> {
    let limiter = |workload: &Workload| match &workload.load {
        LoadSpec::Open(_) => "the given rate is the limit",
        LoadSpec::Trace(trace) if matches!(trace.timing, Timing::Open { .. }) => "the trace sets the rate",
        LoadSpec::Trace(_) | LoadSpec::Sort(_) => "the program limits the rate",
        LoadSpec::Closed(_) | LoadSpec::Netbench(_) | LoadSpec::Scan(_) | LoadSpec::Oltp(_) => {
            "the users limit the rate"
        }
    };
    let mut limiters = system.workloads.iter().map(limiter);
    let first = limiters.next()?;
    limiters.all(|limiter| limiter == first).then_some(first)
}

/// Share of the processors' time spent on interrupts, including programmed I/O.
pub fn interrupt_share(outcome: &SimulationOutcome) -> f64 {
    let processors = f64::from(outcome.system.host.processors);
    outcome.report.interrupt_ns / (outcome.report.elapsed_s() * 1e9 * processors)
}
