//! Compiles a system to paths, stations and drives.

use diskwright_base::Rng;

use super::Simulation;
use super::arrays::{ArrayRun, ParityEngine};
use super::caches::{CacheRun, VolumeInCache};
use super::changes::ScheduledChanges;
use super::channels::ChannelRun;
use super::drives::DriveRun;
use super::external::{ExternalRequests, ExternalTarget};
use super::gates::AdmissionGate;
use super::job::JobFlow;
use super::loads::{LoadRun, Loads, TargetPaths};
use super::path::{PathStart, PathStep, Paths, StepCondition, VisitCost};
use super::report::ComponentKind;
use super::snapshot::OtherInterrupts;
use super::stations::{PROCESSORS, Stations};
use crate::array::ArrayError;
use crate::cache::{BlockCacheSpec, Cache, CacheSpecError};
use crate::device::DeviceModel;
use crate::load::{Load, LoadError};
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
    #[error("`{of}` refers to {part} {position}, and there are {count}")]
    Missing {
        /// Name of the referring part.
        of: String,
        /// Kind of the part referred to.
        part: &'static str,
        /// Its position.
        position: usize,
        /// Number of such parts.
        count: usize,
    },
}

/// Volumes begin at multiples of this many blocks in a cache's address space, with at least as many blocks between two
/// of them. That is at least the largest entry of a cache, so no sequential stream runs from one volume into the next.
const VOLUME_GAP_BLOCKS: u64 = 1 << 21;

/// The parts of the simulation compiled so far.
struct Compiler<'a> {
    system: &'a System,
    paths: Paths,
    stations: Stations,
    admission_gates: Vec<AdmissionGate>,
    memory: Option<u16>,
    buses: Vec<u16>,
    controllers: Vec<ControllerParts>,
    caches: Vec<CacheParts<'a>>,
    host_cache: Option<u16>,
}

/// A cache while its volumes are added.
struct CacheParts<'a> {
    name: String,
    /// Name of the part that it belongs to.
    owner: &'a str,
    spec: &'a BlockCacheSpec,
    volumes: Vec<VolumeInCache>,
}

/// The paths to a volume, and its blocks.
type VolumePaths = (TargetPaths, u64);

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
    /// Creates an idle system at time 0.
    ///
    /// # Errors
    /// Names the part of the system that is impossible.
    pub fn new(system: &System) -> Result<Simulation, CompileError> {
        Simulation::with_external_targets(system, &[])
    }

    /// Creates an idle system at time 0 that also serves external requests to these targets. They bypass the file
    /// cache, since external clients have their own.
    ///
    /// # Errors
    /// Names the part of the system that is impossible.
    pub fn with_external_targets(system: &System, targets: &[WorkloadTarget]) -> Result<Simulation, CompileError> {
        let mut compiler = Compiler::new(system);
        let drives = compiler.build_drives()?;
        let channels = compiler.build_channels();
        let mut arrays = Vec::new();
        for (number, spec) in (0..).zip(&system.arrays) {
            arrays.push(compiler.build_array(number, spec, &drives)?);
        }
        let mut known = Volumes::new();
        let loads = compiler.build_loads(&arrays, &mut known)?;
        let external_targets = compiler.build_external_targets(targets, &arrays, &mut known)?;
        let Compiler { paths, stations, admission_gates, caches, .. } = compiler;
        let caches = (0..).zip(caches).map(|(number, parts)| parts.build(number)).collect::<Result<_, _>>()?;
        let mut simulation = Simulation {
            flow: JobFlow::default(),
            paths,
            stations,
            gates: admission_gates,
            caches,
            arrays,
            drives,
            channels,
            loads: Loads::new(loads),
            external: ExternalRequests::new(external_targets),
            changes: ScheduledChanges::new(system.events.clone()),
            other_interrupts: OtherInterrupts {
                rate_per_s: system.host.other_interrupts_per_s,
                time_ns: system.host.interrupt_ns,
            },
            watch: system.watch,
            last_report: None,
            is_started: false,
        };
        simulation.report_interval();
        Ok(simulation)
    }
}

impl CacheParts<'_> {
    /// Builds the cache with all its volumes.
    fn build(self, number: u16) -> Result<CacheRun, CompileError> {
        self.spec.check_limits().map_err(|e| CompileError::Cache(self.owner.to_owned(), e))?;
        let regions: Vec<(u64, u64)> = self.volumes.iter().map(|volume| (volume.base, volume.blocks)).collect();
        Ok(CacheRun::new(number, self.name, Cache::above_volumes(self.spec, &regions), self.volumes))
    }
}

impl<'a> Compiler<'a> {
    fn new(system: &'a System) -> Compiler<'a> {
        let mut compiler = Compiler {
            system,
            paths: Paths::default(),
            stations: Stations::default(),
            admission_gates: Vec::new(),
            memory: None,
            buses: Vec::new(),
            controllers: Vec::new(),
            caches: Vec::new(),
            host_cache: None,
        };
        let processors = compiler.stations.add_station(ComponentKind::Processor, "processors", system.host.processors);
        assert_eq!(processors, PROCESSORS, "the processors are the first station");
        if system.host.memory_rate.is_some() {
            compiler.memory = Some(compiler.stations.add_station(ComponentKind::Bus, "memory bus", 1));
        }
        for bus in &system.buses {
            let station = compiler.stations.add_station(ComponentKind::Bus, &bus.name, 1);
            compiler.buses.push(station);
        }
        if let Some(spec) = &system.host.cache {
            compiler.host_cache = Some(compiler.add_cache("file cache".to_owned(), &system.name, spec));
        }
        for (index, controller) in system.controllers.iter().enumerate() {
            let parts = compiler.add_controller(index, controller);
            compiler.controllers.push(parts);
        }
        compiler
    }

    fn add_cache(&mut self, name: String, owner: &'a str, spec: &'a BlockCacheSpec) -> u16 {
        self.caches.push(CacheParts { name, owner, spec, volumes: Vec::new() });
        (self.caches.len() - 1) as u16
    }

    fn add_controller(&mut self, index: usize, controller: &'a Controller) -> ControllerParts {
        let name = &controller.name;
        let gate = controller.max_outstanding.map(|max_inside| {
            self.admission_gates.push(AdmissionGate::new(max_inside));
            (self.admission_gates.len() - 1) as u16
        });
        let cache = controller.cache.as_ref().map(|spec| self.add_cache(format!("{name} cache"), name, spec));
        let mut add = |kind, name: &str| self.stations.add_controller_part(kind, name, index);
        ControllerParts {
            command: add(ComponentKind::Controller, name),
            port: controller.rate.map(|_| add(ComponentKind::Port, &format!("{name} port"))),
            parity: add(ComponentKind::Parity, &format!("{name} parity")),
            gate,
            cache,
        }
    }

    fn build_drives(&self) -> Result<Vec<DriveRun>, CompileError> {
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
                let name = self.system.drive_name(number);
                let run = DriveRun::new((number, name), device.clone(), seed, group, channel_index);
                drives.extend(run);
            }
        }
        Ok(drives)
    }

    fn build_channels(&self) -> Vec<ChannelRun> {
        (0..).zip(&self.system.channels).map(|(number, channel)| ChannelRun::new(number, channel)).collect()
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
        let volumes = &mut self.caches[usize::from(cache)].volumes;
        let base = volumes
            .last()
            .map_or(0, |last| (last.base + last.blocks + VOLUME_GAP_BLOCKS).next_multiple_of(VOLUME_GAP_BLOCKS));
        volumes.push(VolumeInCache { base, blocks, path: below });
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
        let is_pio = matches!(controller.transfer, TransferMode::Pio { .. });
        steps.extend(parts.gate.filter(|_| !is_pio).map(PathStep::Leave));
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
        steps.extend(parts.gate.filter(|_| is_pio).map(PathStep::Leave));
        steps
    }

    /// Compiles an array with the paths to its members and spares.
    fn build_array(&mut self, number: u16, spec: &ArraySpec, drives: &[DriveRun]) -> Result<ArrayRun, CompileError> {
        let system = self.system;
        let mut sizes = Vec::new();
        for drive in spec.members.iter().chain(&spec.spares) {
            let blocks = system.member_blocks(spec, *drive);
            sizes.push(blocks.ok_or_else(|| missing_part(&spec.name, "drive", *drive as usize, drives.len()))?);
        }
        let array = system.array_geometry(spec).map_err(|e| CompileError::Array(spec.name.clone(), e))?;
        let mut paths = Vec::new();
        for (drive, blocks) in spec.members.iter().chain(&spec.spares).zip(sizes) {
            let steps = match spec.run_by {
                RunBy::Host => self.steps_to_drive(*drive, blocks)?,
                RunBy::Controller(index) => {
                    let controller = lookup_part(&system.controllers, index, &spec.name, "controller")?;
                    let cost = VisitCost { fixed_ns: controller.member_command_ns, ..VisitCost::default() };
                    let command =
                        PathStep::Visit { station: self.controllers[index].command, when: StepCondition::Always, cost };
                    [vec![command], self.steps_at_drive(*drive)].concat()
                }
            };
            paths.push(self.paths.add_path(&steps));
        }
        let spares = paths.split_off(spec.members.len());
        // reversed, so that `pop` takes the first spare first
        let spares = spec.spares.iter().copied().zip(spares).rev().collect();
        let parity = match spec.run_by {
            RunBy::Host => ParityEngine {
                station: PROCESSORS,
                xor_byte_ps: system.host.xor_byte_ps,
                gf_mul_byte_ps: system.host.gf_mul_byte_ps,
            },
            RunBy::Controller(index) => ParityEngine {
                station: self.controllers[index].parity,
                xor_byte_ps: system.controllers[index].xor_byte_ps,
                gf_mul_byte_ps: system.controllers[index].gf_mul_byte_ps,
            },
        };
        let background_path = self.paths.add_path(&[PathStep::Array(number)]);
        let mut run = ArrayRun { background_path, ..ArrayRun::new(number, array, spec, paths, spares, parity) };
        match (spec.rebuild, spec.scrub) {
            (Some(settings), _) if !spec.failed.is_empty() => run.start_rebuild(settings),
            (_, Some(settings)) => run.start_scrub(settings),
            _ => {}
        }
        Ok(run)
    }

    /// Returns the steps to a target below the file cache, and the target's blocks; an error names `owner`.
    fn steps_to_target(
        &mut self,
        owner: &str,
        target: WorkloadTarget,
        arrays: &[ArrayRun],
    ) -> Result<(Vec<PathStep>, u64), CompileError> {
        let (system, host) = (self.system, &self.system.host);
        let request = VisitCost { fixed_ns: host.request_ns, ..VisitCost::default() };
        let mut steps: Vec<PathStep> =
            host.transfer_blocks.map(|max_blocks| PathStep::Split(max_blocks.max(1))).into_iter().collect();
        steps.push(PathStep::Visit { station: PROCESSORS, when: StepCondition::Always, cost: request });
        match target {
            WorkloadTarget::Drive(drive) => {
                let (group, _) = system
                    .find_drive_group(drive)
                    .ok_or_else(|| missing_part(owner, "drive", drive as usize, system.drive_count() as usize))?;
                let blocks = system.drives[group].device.block_count();
                steps.extend(self.steps_to_drive(drive, blocks)?);
                Ok((steps, blocks))
            }
            WorkloadTarget::Array(index) => {
                let spec = lookup_part(&system.arrays, index, owner, "array")?;
                let blocks = arrays[index].planner.array().capacity_blocks();
                let inner = vec![PathStep::Array(index as u16)];
                match spec.run_by {
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
    ) -> Result<Vec<ExternalTarget>, CompileError> {
        let mut external_targets = Vec::new();
        for target in targets {
            let (paths, blocks) = self.find_volume_paths("export", *target, arrays, known)?;
            external_targets.push(ExternalTarget { path: paths.past_file_cache, blocks });
        }
        Ok(external_targets)
    }

    fn build_loads(&mut self, arrays: &[ArrayRun], known: &mut Volumes) -> Result<Vec<LoadRun>, CompileError> {
        let mut loads = Vec::new();
        for (position, workload) in self.system.workloads.iter().enumerate() {
            let (mut paths, mut sizes) = (Vec::new(), Vec::new());
            for target in &workload.targets {
                let (target_paths, blocks) = self.find_volume_paths(&workload.name, *target, arrays, known)?;
                paths.push(target_paths);
                sizes.push(blocks);
            }
            let rng = Rng::new(self.system.watch.seed, position as u64 + 1);
            let load =
                Load::new(&workload.load, &sizes, rng).map_err(|e| CompileError::Load(workload.name.clone(), e))?;
            loads.push(LoadRun::new(workload.name.clone(), load, paths));
        }
        Ok(loads)
    }

    /// Returns the paths to a volume, and its blocks; builds the paths on first use.
    fn find_volume_paths(
        &mut self,
        owner: &str,
        target: WorkloadTarget,
        arrays: &[ArrayRun],
        known: &mut Volumes,
    ) -> Result<VolumePaths, CompileError> {
        if let Some((_, volume)) = known.iter().find(|(other, _)| *other == target) {
            return Ok(*volume);
        }
        let (steps, blocks) = self.steps_to_target(owner, target, arrays)?;
        let past_file_cache = self.paths.add_path(&[vec![PathStep::Compute], steps.clone()].concat());
        let through_file_cache = match self.host_cache {
            None => past_file_cache,
            Some(cache) => {
                let below = self.paths.add_path(&steps);
                let enter_cache = self.add_cache_volume(cache, blocks, below);
                let copy = VisitCost { byte_ps: self.system.host.copy_byte_ps, ..VisitCost::default() };
                self.paths.add_path(&[
                    PathStep::Compute,
                    enter_cache,
                    PathStep::Visit { station: PROCESSORS, when: StepCondition::Always, cost: copy },
                ])
            }
        };
        let volume = (TargetPaths { past_file_cache, through_file_cache }, blocks);
        known.push((target, volume));
        Ok(volume)
    }
}

fn missing_part(owner: &str, part: &'static str, position: usize, count: usize) -> CompileError {
    CompileError::Missing { of: owner.to_owned(), part, position, count }
}

fn lookup_part<'s, T>(list: &'s [T], position: usize, owner: &str, part: &'static str) -> Result<&'s T, CompileError> {
    list.get(position).ok_or_else(|| missing_part(owner, part, position, list.len()))
}
