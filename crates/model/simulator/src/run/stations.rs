//! Stations at work: the processors, buses, controllers' processors, ports and parity engines.

use super::job::JobFlow;
use super::path::{StepCondition, VisitCost};
use super::report::{Component, ComponentKind};
use super::{Event, IoCounts, QUANTUM_NS};
use crate::Ns;
use crate::io::BLOCK_BYTES;
use crate::station::{Station, StationJob, StationTotals};

/// The station of the processors.
pub(super) const PROCESSORS: u16 = 0;

/// A station in the system.
struct StationRun {
    kind: ComponentKind,
    name: String,
    /// Position of the controller that it is a part of.
    controller: Option<usize>,
    station: Station,
    /// Bytes transferred through it.
    bytes: u64,
}

/// Processor time by its cause.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ProcessorUse {
    /// Interrupts of requests.
    pub interrupts: u64,
    /// Their time, programmed transfers included.
    pub interrupt_ns: u64,
    /// Time of programs.
    pub compute_ns: u64,
}

/// All stations, the processors first, and the use of the processors.
#[derive(Default)]
pub(super) struct Stations {
    stations: Vec<StationRun>,
    processor_use: ProcessorUse,
}

/// All stations' counters at a point in time.
#[derive(Clone, Debug)]
pub(super) struct StationsSnapshot {
    stations: Vec<(StationTotals, u64)>,
    pub processor_use: ProcessorUse,
}

impl Stations {
    /// Adds a station and returns its number.
    pub fn add_station(&mut self, kind: ComponentKind, name: &str, servers: u32) -> u16 {
        let station = Station::new(servers);
        self.stations.push(StationRun { kind, name: name.to_owned(), controller: None, station, bytes: 0 });
        (self.stations.len() - 1) as u16
    }

    /// Adds a part of the controller at this position and returns its number.
    pub fn add_controller_part(&mut self, kind: ComponentKind, name: &str, controller: usize) -> u16 {
        let number = self.add_station(kind, name, 1);
        self.stations[usize::from(number)].controller = Some(controller);
        number
    }

    /// Sends a job to a station for a service time.
    #[inline]
    pub fn visit(&mut self, now: Ns, station: u16, job: u32, service_ns: Ns, flow: &mut JobFlow) {
        flow.jobs[job].arrived_ns = now;
        let visit = StationJob { id: job, arrived_ns: now, service_ns };
        if let Some(end) = self.stations[usize::from(station)].station.add_job(now, visit) {
            flow.events.schedule(end, Event::VisitComplete { station, job });
        }
    }

    /// Sends a job's interrupts to the processors, where they go before all programs (Windows NT DDK of June 1998,
    /// Kernel-mode Drivers, Design Guide, 1: drivers' code at a raised IRQL runs before all threads). A program's time
    /// slice that has begun ends first, which is 1 ms at most.
    #[inline]
    fn visit_as_interrupt(&mut self, now: Ns, job: u32, service_ns: Ns, flow: &mut JobFlow) {
        flow.jobs[job].arrived_ns = now;
        let visit = StationJob { id: job, arrived_ns: now, service_ns };
        if let Some(end) = self.stations[usize::from(PROCESSORS)].station.add_urgent_job(now, visit) {
            flow.events.schedule(end, Event::VisitComplete { station: PROCESSORS, job });
        }
    }

    /// Sends a job to a station for a transfer. False if the visit does not apply to it or takes no time.
    #[inline]
    pub fn visit_for_transfer(
        &mut self,
        now: Ns,
        station: u16,
        job: u32,
        (when, cost): (StepCondition, &VisitCost),
        flow: &mut JobFlow,
    ) -> bool {
        let io = flow.jobs[job].transferred_io();
        let time = if when.applies_to(io.write) { cost.visit_time_ns(&io) } else { 0 };
        if time > 0 {
            self.stations[usize::from(station)].bytes += u64::from(io.blocks) * BLOCK_BYTES;
            self.visit(now, station, job, time, flow);
        }
        time > 0
    }

    /// Sends the interrupts of a job's transfer to the processors. False if they take no time.
    #[inline]
    pub fn interrupt(&mut self, now: Ns, job: u32, cost: &VisitCost, flow: &mut JobFlow) -> bool {
        let io = flow.jobs[job].transferred_io();
        let time = cost.visit_time_ns(&io);
        self.processor_use.interrupts += cost.chunk_count(&io);
        self.processor_use.interrupt_ns += time;
        if time > 0 {
            self.visit_as_interrupt(now, job, time, flow);
        }
        time > 0
    }

    /// Runs the next time slice of a job's program on a processor. False if the program needs no more time.
    #[inline]
    pub fn run_time_slice(&mut self, now: Ns, job: u32, flow: &mut JobFlow) -> bool {
        let left = flow.jobs[job].compute_ns;
        if left > 0 {
            let slice = left.min(QUANTUM_NS);
            self.processor_use.compute_ns += slice;
            flow.jobs[job].compute_ns = left - slice;
            self.visit(now, PROCESSORS, job, slice, flow);
        }
        left > 0
    }

    /// Ends a job's visit to a station and starts the next job there.
    #[inline]
    pub fn complete_visit(&mut self, now: Ns, station: u16, job: u32, flow: &mut JobFlow) {
        let visit = StationJob { id: job, arrived_ns: flow.jobs[job].arrived_ns, service_ns: 0 };
        if let Some((end, next)) = self.stations[usize::from(station)].station.complete_job(now, &visit) {
            flow.events.schedule(end, Event::VisitComplete { station, job: next.id });
        }
    }

    /// Takes a snapshot of all counters.
    pub fn take_snapshot(&mut self, now: Ns) -> StationsSnapshot {
        StationsSnapshot {
            stations: self.stations.iter_mut().map(|run| (run.station.totals(now), run.bytes)).collect(),
            processor_use: self.processor_use,
        }
    }

    /// Reports the time between two snapshots.
    pub fn report(&self, from: &StationsSnapshot, to: &StationsSnapshot) -> impl Iterator<Item = Component> {
        let periods = from.stations.iter().zip(&to.stations);
        self.stations.iter().zip(periods).map(|(run, ((totals_before, bytes_before), (totals, bytes)))| Component {
            kind: run.kind,
            name: run.name.clone(),
            controller: run.controller,
            servers: run.station.server_count(),
            totals: totals.delta_since(totals_before),
            counts: IoCounts { bytes_read: bytes - bytes_before, ..IoCounts::default() },
            scarcest_share: None,
            flash: None,
        })
    }
}
