//! Compiles a system to paths, stations and drives.

use diskwright_base::{Histogram, Rng};

use super::arrays::ArrayRun;
use super::caches::CacheRun;
use super::channels::ChannelRun;
use super::drives::DriveRun;
use super::external::ExternalQueue;
use super::loads::{LoadRun, PendingRequests};
use super::path::{PathStart, PathStep, Paths, StepCondition, VisitCost};
use super::report::{ComponentKind, ComponentNames};
use super::{AdmissionGate, IoCounts, Simulation};
use crate::array::ArrayError;
use crate::cache::{Cache, CacheSpecError};
use crate::device::DeviceModel;
use crate::event_queue::EventQueue;
use crate::load::{Load, LoadError};
use crate::station::Station;
use crate::system::{ArraySpec, Controller, RunBy, System, TransferMode, WorkloadTarget};

/// Reasons why a system cannot be simulated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CompileError {
    /// An array is impossible.
    #[error("array `{0}`: {1}")]
    Array(String, ArrayError),
    /// A load is impossible.
    #[error("workload `{0}`: {1}")]
    Load(String, LoadError),
    /// A cache is impossible.
    #[error("cache of `{0}`: {1}")]
    Cache(String, CacheSpecError),
    /// A reference points to a part that does not exist.
    #[error("`{of}` refers to {what} {position}, and there are {count}")]
    Missing {
        /// Name of the referring part.
        of: String,
        /// Kind of the part referred to.
        what: &'static str,
        /// Its position.
        position: usize,
        /// Number of such parts.
        count: usize,
    },
}

/// Volumes begin at multiples of this many blocks in a cache's address space, with at least as many blocks between
/// two: at least what a cache keeps together, so that no sequential stream runs from one volume into the next.
const VOLUME_GAP_BLOCKS: u64 = 1 << 21;

/// The parts of the simulation compiled so far.
struct Compiler<'a> {
    system: &'a System,
    paths: Paths,
    stations: Vec<Station>,
    names: ComponentNames,
    admission_gates: Vec<AdmissionGate>,
    memory: Option<u16>,
    buses: Vec<u16>,
    controllers: Vec<ControllerParts>,
    /// By cache: its volumes.
    cache_volumes: Vec<Vec<(u64, u64, PathStart)>>,
    host_cache: Option<u16>,
}

/// The paths to a volume past the file cache and through it, and its blocks.
type VolumePaths = (PathStart, PathStart, u64);

/// Volumes that already have their paths.
type Volumes = Vec<(WorkloadTarget, VolumePaths)>;

/// Stations and other parts of a controller.
struct ControllerParts {
    command: u16,
    port: Option<u16>,
    parity: u16,
    gate: Option<u16>,
    cache: Option<u16>,
}

impl Simulation {
    /// An idle system at time 0.
    ///
    /// # Errors
    /// Names the part of the system that is impossible.
    pub fn new(system: &System) -> Result<Simulation, CompileError> {
        Simulation::with_external_targets(system, &[])
    }

    /// An idle system at time 0 that also serves external requests to these targets. They bypass the file cache, since
    /// external clients have their own.
    ///
    /// # Errors
    /// Names the part of the system that is impossible.
    pub fn with_external_targets(system: &System, targets: &[WorkloadTarget]) -> Result<Simulation, CompileError> {
        let mut compiler = Compiler::new(system);
        let drives = compiler.build_drives()?;
        let channels = compiler.build_channels();
        let mut arrays = Vec::new();
        for set in &system.arrays {
            arrays.push(compiler.build_array(set, &drives)?);
        }
        let mut known = Volumes::new();
        let loads = compiler.build_loads(&arrays, &mut known)?;
        let served = compiler.build_external_targets(targets, &arrays, &mut known)?;
        let Compiler {
            mut paths,
            stations,
            names,
            admission_gates: gates,
            cache_volumes: regions,
            host_cache,
            controllers,
            ..
        } = compiler;
        let end = paths.add_path(&[]);
        let mut caches = Vec::new();
        for (index, volumes) in regions.into_iter().enumerate() {
            let index = index as u16;
            let owner = controllers.iter().position(|parts| parts.cache == Some(index));
            let (name, spec) = match owner {
                Some(controller) => (&system.controllers[controller].name, &system.controllers[controller].cache),
                None => (&system.name, &system.host.cache),
            };
            debug_assert!(owner.is_some() || host_cache == Some(index));
            let parts: Vec<(u64, u64)> = volumes.iter().map(|(base, blocks, _)| (*base, *blocks)).collect();
            let Some(spec) = spec else { continue };
            spec.check_limits().map_err(|e| CompileError::Cache(name.clone(), e))?;
            let cache = Cache::above_volumes(spec, &parts);
            caches.push(CacheRun::new(cache, volumes));
        }
        let host = &system.host;
        let mut simulation = Simulation {
            events: EventQueue::new(),
            jobs: Default::default(),
            paths,
            end_path: end,
            station_bytes: vec![0; stations.len()],
            stations,
            gates,
            caches,
            arrays,
            drives,
            channels,
            loads,
            pending_requests: PendingRequests::default(),
            processors: 0,
            interrupts: 0,
            interrupt_ns: 0,
            compute_ns: 0,
            other_interrupts_per_s: host.other_interrupts_per_s,
            other_interrupt_ns: host.interrupt_ns,
            external: served,
            latency: Default::default(),
            scheduled_changes: system.events.clone(),
            refused: Vec::new(),
            watch: system.watch,
            names,
            started: false,
            is_finished: false,
        };
        simulation.report_interval();
        Ok(simulation)
    }
}

impl<'a> Compiler<'a> {
    fn new(system: &'a System) -> Compiler<'a> {
        let mut compiler = Compiler {
            system,
            paths: Paths::default(),
            stations: Vec::new(),
            names: ComponentNames::default(),
            admission_gates: Vec::new(),
            memory: None,
            buses: Vec::new(),
            controllers: Vec::new(),
            cache_volumes: Vec::new(),
            host_cache: None,
        };
        compiler.add_station(ComponentKind::Processor, "processors", system.host.processors);
        if system.host.memory_rate.is_some() {
            compiler.memory = Some(compiler.add_station(ComponentKind::Bus, "memory bus", 1));
        }
        for bus in &system.buses {
            let station = compiler.add_station(ComponentKind::Bus, &bus.name, 1);
            compiler.buses.push(station);
        }
        if system.host.cache.is_some() {
            compiler.host_cache = Some(compiler.add_cache("file cache"));
        }
        for controller in &system.controllers {
            let parts = compiler.add_controller(controller);
            compiler.controllers.push(parts);
        }
        compiler
    }

    fn add_station(&mut self, kind: ComponentKind, name: &str, servers: u32) -> u16 {
        self.stations.push(Station::new(servers));
        self.names.stations.push((kind, name.to_owned()));
        (self.stations.len() - 1) as u16
    }

    fn add_cache(&mut self, name: &str) -> u16 {
        self.cache_volumes.push(Vec::new());
        self.names.caches.push(name.to_owned());
        (self.cache_volumes.len() - 1) as u16
    }

    fn add_controller(&mut self, controller: &Controller) -> ControllerParts {
        let name = &controller.name;
        let gate = controller.max_outstanding.map(|max_inside| {
            self.admission_gates.push(AdmissionGate {
                max_inside: max_inside.max(1),
                inside: 0,
                waiting: Default::default(),
            });
            (self.admission_gates.len() - 1) as u16
        });
        ControllerParts {
            command: self.add_station(ComponentKind::Controller, name, 1),
            port: controller.rate.map(|_| self.add_station(ComponentKind::Port, &format!("{name} port"), 1)),
            parity: self.add_station(ComponentKind::Parity, &format!("{name} parity"), 1),
            gate,
            cache: controller.cache.is_some().then(|| self.add_cache(&format!("{name} cache"))),
        }
    }

    fn build_drives(&mut self) -> Result<Vec<DriveRun>, CompileError> {
        let mut drives = Vec::new();
        for group in &self.system.drives {
            let channel = match group.channel {
                Some(index) => Some((index, lookup_part(&self.system.channels, index, &group.name, "channel")?)),
                None => None,
            };
            let device = group.device.with_channel_rate(channel.and_then(|(_, channel)| channel.rate));
            for _ in 0..group.count {
                let number = drives.len() as u32;
                let (seed, channel_index) = (self.system.watch.seed, channel.map(|(index, _)| index as u16));
                let Some(run) = DriveRun::new(device.clone(), (seed, number), group, channel_index) else { continue };
                drives.push(run);
                self.names.drives.push(self.system.drive_name(number));
            }
        }
        Ok(drives)
    }

    fn build_channels(&mut self) -> Vec<ChannelRun> {
        self.names.channels = self.system.channels.iter().map(|channel| channel.name.clone()).collect();
        let run = |channel: &crate::system::Channel| {
            ChannelRun::new(channel.overhead_ns, channel.rate.map_or(0, |rate| rate.max(1)), channel.disconnects)
        };
        self.system.channels.iter().map(run).collect()
    }

    /// Returns the steps on a drive's own channel.
    fn steps_at_drive(&self, drive: u32) -> Vec<PathStep> {
        let group = self.system.find_drive_group(drive).map(|(group, _)| &self.system.drives[group]);
        let parallel = group.is_some_and(|group| !matches!(group.device, DeviceModel::Mechanical(_)));
        match group.and_then(|group| group.channel) {
            Some(channel) if parallel => {
                let channel = channel as u16;
                let (writes, reads) = (StepCondition::Writes, StepCondition::Reads);
                vec![
                    PathStep::Channel { channel, when: writes },
                    PathStep::Drive(drive),
                    PathStep::Channel { channel, when: reads },
                ]
            }
            _ => vec![PathStep::Drive(drive)],
        }
    }

    /// Returns the steps from the host to a drive and back.
    fn steps_to_drive(&mut self, drive: u32, blocks: u64) -> Result<Vec<PathStep>, CompileError> {
        let system = self.system;
        let (group, _) = system
            .find_drive_group(drive)
            .ok_or_else(|| missing_part("system", "drive", drive as usize, system.drive_count() as usize))?;
        let device = self.steps_at_drive(drive);
        let channel = system.drives[group]
            .channel
            .map(|index| lookup_part(&system.channels, index, &system.drives[group].name, "channel"));
        match channel.transpose()?.and_then(|channel| channel.controller) {
            Some(controller) => {
                lookup_part(&system.controllers, controller, &system.drives[group].name, "controller")?;
                let inner = match self.controllers[controller].cache {
                    Some(cache) => {
                        let below = self.paths.add_path(&device);
                        vec![self.add_cache_volume(cache, blocks, below)]
                    }
                    None => device,
                };
                Ok(self.wrap_in_controller(controller, inner))
            }
            None => {
                let mut steps = device;
                steps.push(PathStep::Interrupt {
                    cost: VisitCost { fixed_ns: system.host.interrupt_ns, ..VisitCost::default() },
                });
                Ok(steps)
            }
        }
    }

    /// Adds a volume to a cache and returns the step that enters the cache.
    fn add_cache_volume(&mut self, cache: u16, blocks: u64, below: PathStart) -> PathStep {
        let regions = &mut self.cache_volumes[usize::from(cache)];
        let base = regions
            .last()
            .map_or(0, |(base, blocks, _)| (base + blocks + VOLUME_GAP_BLOCKS).next_multiple_of(VOLUME_GAP_BLOCKS));
        regions.push((base, blocks, below));
        PathStep::Cache { cache, base }
    }

    /// Wraps a controller's inner steps in the transfers to the controller and back.
    fn wrap_in_controller(&self, index: usize, inner: Vec<PathStep>) -> Vec<PathStep> {
        let (controller, parts, host) = (&self.system.controllers[index], &self.controllers[index], &self.system.host);
        let bytes = |rate: Option<u64>| VisitCost {
            rate_bytes_per_s: rate.map_or(0, |rate| rate.max(1)),
            ..VisitCost::default()
        };
        let mut links = Vec::new();
        if let Some(station) = self.memory {
            links.push((station, bytes(host.memory_rate)));
        }
        if let Some(bus) = controller.bus.and_then(|index| self.system.buses.get(index).zip(self.buses.get(index))) {
            links.push((*bus.1, VisitCost { fixed_ns: bus.0.overhead_ns, ..bytes(Some(bus.0.rate)) }));
        }
        if let Some(station) = parts.port {
            links.push((station, bytes(controller.rate)));
        }
        let visit = |(station, cost): &(u16, VisitCost), when| PathStep::Visit { station: *station, when, cost: *cost };
        let mut steps: Vec<PathStep> =
            controller.transfer_blocks.map(|max_blocks| PathStep::Split(max_blocks.max(1))).into_iter().collect();
        steps.extend(parts.gate.map(PathStep::Enter));
        let command = (parts.command, VisitCost { fixed_ns: controller.command_ns, ..VisitCost::default() });
        steps.push(visit(&command, StepCondition::Always));
        steps.extend(links.iter().map(|link| visit(link, StepCondition::Writes)));
        steps.extend(inner);
        steps.extend(links.iter().rev().map(|link| visit(link, StepCondition::Reads)));
        let by_hand = matches!(controller.transfer, TransferMode::Pio { .. });
        steps.extend(parts.gate.filter(|_| !by_hand).map(PathStep::Leave));
        let interrupts = VisitCost { chunk_ns: host.interrupt_ns, ..VisitCost::default() };
        let cost = match controller.transfer {
            TransferMode::Dma { interrupt_blocks } => {
                VisitCost { chunk_blocks: interrupt_blocks.unwrap_or(0), ..interrupts }
            }
            TransferMode::Pio { interrupt_blocks, byte_ps } => {
                VisitCost { chunk_blocks: interrupt_blocks, byte_ps, ..interrupts }
            }
        };
        steps.push(PathStep::Interrupt { cost });
        // a processor that moves the data itself holds the request until it has moved them
        steps.extend(parts.gate.filter(|_| by_hand).map(PathStep::Leave));
        steps
    }

    /// Compiles an array with the paths to its members and spares.
    fn build_array(&mut self, set: &ArraySpec, drives: &[DriveRun]) -> Result<ArrayRun, CompileError> {
        let system = self.system;
        let mut sizes = Vec::new();
        for drive in set.members.iter().chain(&set.spares) {
            let blocks = system.member_blocks(set, *drive);
            sizes.push(blocks.ok_or_else(|| missing_part(&set.name, "drive", *drive as usize, drives.len()))?);
        }
        let array = system.array_geometry(set).map_err(|e| CompileError::Array(set.name.clone(), e))?;
        let mut paths = Vec::new();
        for (drive, blocks) in set.members.iter().chain(&set.spares).zip(sizes) {
            let steps = match set.run_by {
                RunBy::Host => self.steps_to_drive(*drive, blocks)?,
                RunBy::Controller(index) => {
                    let controller = lookup_part(&system.controllers, index, &set.name, "controller")?;
                    let cost = VisitCost { fixed_ns: controller.member_command_ns, ..VisitCost::default() };
                    let command =
                        PathStep::Visit { station: self.controllers[index].command, when: StepCondition::Always, cost };
                    [vec![command], self.steps_at_drive(*drive)].concat()
                }
            };
            paths.push(self.paths.add_path(&steps));
        }
        let spares = paths.split_off(set.members.len());
        // reversed, so that `pop` takes the first spare first
        let spares = set.spares.iter().copied().zip(spares).rev().collect();
        let parity = match set.run_by {
            RunBy::Host => (0, system.host.xor_byte_ps, system.host.gf_mul_byte_ps),
            RunBy::Controller(index) => {
                let controller = &system.controllers[index];
                (self.controllers[index].parity, controller.xor_byte_ps, controller.gf_mul_byte_ps)
            }
        };
        let own = self.paths.add_path(&[PathStep::Array(self.names.arrays.len() as u16)]);
        self.names.arrays.push(set.name.clone());
        let mut run = ArrayRun { background_path: own, ..ArrayRun::new(array, set, paths, spares, parity) };
        match (set.rebuild, set.scrub) {
            (Some(settings), _) if !set.failed.is_empty() => run.start_rebuild(settings),
            (_, Some(settings)) => run.start_scrub(settings),
            _ => {}
        }
        Ok(run)
    }

    /// Returns the steps to a target below the file cache, and its blocks.
    fn steps_to_target(
        &mut self,
        of: &str,
        target: WorkloadTarget,
        arrays: &[ArrayRun],
    ) -> Result<(Vec<PathStep>, u64), CompileError> {
        let (system, host) = (self.system, &self.system.host);
        let request = VisitCost { fixed_ns: host.request_ns, ..VisitCost::default() };
        let mut steps: Vec<PathStep> =
            host.transfer_blocks.map(|max_blocks| PathStep::Split(max_blocks.max(1))).into_iter().collect();
        steps.push(PathStep::Visit { station: 0, when: StepCondition::Always, cost: request });
        match target {
            WorkloadTarget::Drive(drive) => {
                let (group, _) = system
                    .find_drive_group(drive)
                    .ok_or_else(|| missing_part(of, "drive", drive as usize, system.drive_count() as usize))?;
                let blocks = system.drives[group].device.block_count();
                steps.extend(self.steps_to_drive(drive, blocks)?);
                Ok((steps, blocks))
            }
            WorkloadTarget::Array(index) => {
                let set = lookup_part(&system.arrays, index, of, "array")?;
                let blocks = arrays[index].planner.array().capacity_blocks();
                let inner = vec![PathStep::Array(index as u16)];
                match set.run_by {
                    RunBy::Host => steps.extend(inner),
                    RunBy::Controller(controller) => {
                        let inner = match self.controllers[controller].cache {
                            Some(cache) => {
                                let below = self.paths.add_path(&inner);
                                vec![self.add_cache_volume(cache, blocks, below)]
                            }
                            None => inner,
                        };
                        steps.extend(self.wrap_in_controller(controller, inner));
                    }
                }
                Ok((steps, blocks))
            }
        }
    }

    /// Builds the targets that serve external requests.
    fn build_external_targets(
        &mut self,
        targets: &[WorkloadTarget],
        arrays: &[ArrayRun],
        known: &mut Volumes,
    ) -> Result<ExternalQueue, CompileError> {
        let mut served = ExternalQueue::default();
        for target in targets {
            let (past, _, blocks) = self.find_volume_paths("export", *target, arrays, known)?;
            served.targets.push((past, blocks));
        }
        Ok(served)
    }

    fn build_loads(&mut self, arrays: &[ArrayRun], known: &mut Volumes) -> Result<Vec<LoadRun>, CompileError> {
        let mut loads = Vec::new();
        for (position, workload) in self.system.workloads.iter().enumerate() {
            let (mut paths, mut sizes) = (Vec::new(), Vec::new());
            for target in &workload.targets {
                let (past, through, blocks) = self.find_volume_paths(&workload.name, *target, arrays, known)?;
                paths.push((past, through));
                sizes.push(blocks);
            }
            let rng = Rng::new(self.system.watch.seed, position as u64 + 1);
            let load =
                Load::new(&workload.load, &sizes, rng).map_err(|e| CompileError::Load(workload.name.clone(), e))?;
            let name = workload.name.clone();
            let (counts, recent, all) = (IoCounts::default(), Histogram::new(), Histogram::new());
            loads.push(LoadRun { name, load, paths, counts, interval_responses: recent, all_responses: all });
        }
        Ok(loads)
    }

    /// Returns the paths to a volume past the file cache and through it, and its blocks; builds them on first use.
    fn find_volume_paths(
        &mut self,
        of: &str,
        target: WorkloadTarget,
        arrays: &[ArrayRun],
        known: &mut Volumes,
    ) -> Result<VolumePaths, CompileError> {
        if let Some((_, volume)) = known.iter().find(|(other, _)| *other == target) {
            return Ok(*volume);
        }
        let (steps, blocks) = self.steps_to_target(of, target, arrays)?;
        let past = self.paths.add_path(&[vec![PathStep::Compute], steps.clone()].concat());
        let through = match self.host_cache {
            None => past,
            Some(cache) => {
                let below = self.paths.add_path(&steps);
                let enter_cache = self.add_cache_volume(cache, blocks, below);
                let copy = VisitCost { byte_ps: self.system.host.copy_byte_ps, ..VisitCost::default() };
                self.paths.add_path(&[
                    PathStep::Compute,
                    enter_cache,
                    PathStep::Visit { station: 0, when: StepCondition::Always, cost: copy },
                ])
            }
        };
        known.push((target, (past, through, blocks)));
        Ok((past, through, blocks))
    }
}

fn missing_part(of: &str, what: &'static str, position: usize, count: usize) -> CompileError {
    CompileError::Missing { of: of.to_owned(), what, position, count }
}

fn lookup_part<'s, T>(list: &'s [T], position: usize, of: &str, what: &'static str) -> Result<&'s T, CompileError> {
    list.get(position).ok_or_else(|| missing_part(of, what, position, list.len()))
}
