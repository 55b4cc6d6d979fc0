//! Random systems of six kinds for the comparison of analysis and simulation: volumes, volumes with credits, several
//! workloads, positions, caches and degraded arrays, in turn. A system is determined by its seed and number; the
//! generator was written before any error was known, and is independent of the analysis.

use std::sync::Arc;

use diskwright_base::Rng;
use diskwright_simulator::ArrayLevel;
use diskwright_simulator::DeviceModel;
use diskwright_simulator::Ns;
use diskwright_simulator::cache::{BlockCacheSpec, CacheReadAhead, WriteBackPolicy, WritePolicy};
use diskwright_simulator::catalogue;
use diskwright_simulator::device::PlainSpec;
use diskwright_simulator::load::{
    AccessPattern, ClosedSpec, DurationDistribution, LoadSpec, OpenSpec, OperationClass, OperationTransfer,
    RequestSizes, TargetPart,
};
use diskwright_simulator::service_time::ServiceTimeDistribution;
use diskwright_simulator::system::{
    ArraySpec, BackgroundWork, Controller, DriveGroupSpec, RunBy, System, WatchSpec, Workload, WorkloadTarget,
};
use diskwright_simulator::volume::{RateLimit, VolumeSpec};

const SECOND: Ns = 1_000_000_000;

/// The kinds, in turn.
pub const KINDS: [&str; 6] = ["volume", "burst", "several", "places", "cache", "degraded"];

const MECHANICAL: [&str; 6] = ["st32171w", "hp97560", "ibm-36lzx", "st9600204ss", "st4000nm0023", "huc156060css200"];
const FLASH: [&str; 3] = ["intel-s3700-800", "samsung-pm983-3840", "intel-p4500-1tb"];
const VOLUMES: [&str; 8] = [
    "aws-gp3",
    "aws-gp3-most",
    "aws-io1-20000",
    "azure-p30",
    "azure-premium-v2",
    "gcp-pd-balanced-500",
    "gcp-pd-ssd-500",
    "gcp-hyperdisk-balanced",
];

/// Simulated result of a workload of a system.
#[derive(Clone, Debug, PartialEq)]
pub struct SimulatedWorkload {
    /// Seed and number of the system, position of the workload.
    pub seed: u64,
    pub number: usize,
    pub workload: usize,
    /// Requests a second.
    pub throughput_per_s: f64,
    /// Mean response, s, and the 95th and 99th percentile.
    pub response_s: f64,
    pub p95_s: f64,
    pub p99_s: f64,
    /// The most used part, and its utilization.
    pub part: String,
    pub utilization: f64,
}

/// Heading of the files.
pub const HEADING: &str = "seed,number,workload,throughput_per_s,response_s,p95_s,p99_s,most_used_part,utilization";

/// Parses the simulated results, system by system.
pub fn simulated(text: &str) -> Vec<Vec<SimulatedWorkload>> {
    let mut systems: Vec<Vec<SimulatedWorkload>> = Vec::new();
    for line in text.lines().filter(|line| *line != HEADING) {
        let row = parse_row(line).unwrap_or_else(|| panic!("a bad line: {line}"));
        match systems.last_mut().filter(|last| last[0].number == row.number) {
            Some(last) => last.push(row),
            None => systems.push(vec![row]),
        }
    }
    systems
}

fn parse_row(line: &str) -> Option<SimulatedWorkload> {
    let fields: Vec<&str> = line.split(',').collect();
    let [seed, number, workload, throughput, response, p95, p99, part, utilization] = fields[..] else { return None };
    Some(SimulatedWorkload {
        seed: seed.parse().ok()?,
        number: number.parse().ok()?,
        workload: workload.parse().ok()?,
        throughput_per_s: throughput.parse().ok()?,
        response_s: response.parse().ok()?,
        p95_s: p95.parse().ok()?,
        p99_s: p99.parse().ok()?,
        part: part.to_owned(),
        utilization: utilization.parse().ok()?,
    })
}

/// Outcome of the comparison for a system.
#[derive(Clone, Debug, PartialEq)]
pub enum MixedOutcome {
    /// Refused: why.
    Refused(String),
    /// The largest error of throughput, response and the most used part's utilization; errors of the
    /// percentiles of each workload.
    Solved(f64, Vec<[f64; 2]>),
}

/// Solves a system and compares the solution with the simulation.
pub fn outcome(rows: &[SimulatedWorkload]) -> MixedOutcome {
    let solution = match diskwright_simulator::analytic::solve(&system(rows[0].seed, rows[0].number)) {
        Ok(solution) => solution,
        Err(why) => return MixedOutcome::Refused(why.to_string()),
    };
    let (mut worst, mut percentiles) = (0.0f64, Vec::new());
    for row in rows {
        let found = &solution.workloads[row.workload];
        worst = worst.max((found.throughput_per_s / row.throughput_per_s - 1.0).abs());
        worst = worst.max((found.response_s / row.response_s - 1.0).abs());
        percentiles.push([found.percentile_s(0.95) / row.p95_s - 1.0, found.percentile_s(0.99) / row.p99_s - 1.0]);
    }
    // relative errors of small utilizations are meaningless
    if rows[0].utilization > 0.02 {
        let used = solution.utilisations.iter().find(|(name, _)| *name == rows[0].part).map_or(0.0, |used| used.1);
        worst = worst.max((used / rows[0].utilization - 1.0).abs());
    }
    MixedOutcome::Solved(worst, percentiles)
}

/// A device with its approximate capacity, by arithmetic alone: requests per second, and bytes per second.
struct NominalDevice {
    device: DeviceModel,
    requests_per_s: f64,
    bytes_per_s: f64,
}

/// Draws one system.
struct SystemGenerator {
    rng: Rng,
}

/// The kind of a system.
pub fn kind(number: usize) -> &'static str {
    KINDS[number % KINDS.len()]
}

/// A system, and requests a second that each open workload brings.
pub fn system(seed: u64, number: usize) -> System {
    let mut make = SystemGenerator { rng: Rng::new(seed, number as u64) };
    let mut system = match kind(number) {
        "volume" => make.volumes(false),
        "burst" => make.volumes(true),
        "several" => make.several_workloads(),
        "places" => make.places(),
        "cache" => make.cached(),
        _ => make.degraded(),
    };
    system.name = format!("{} {seed}/{number}", kind(number));
    system.watch.seed = seed ^ number as u64;
    system
}

impl SystemGenerator {
    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.rng.next_below(of.len() as u64) as usize].clone()
    }

    fn uniform(&mut self, from: f64, to: f64) -> f64 {
        from + (to - from) * self.rng.next_f64()
    }

    /// Draws uniformly over the logarithm.
    fn log_uniform(&mut self, from: f64, to: f64) -> f64 {
        self.uniform(from.ln(), to.ln()).exp()
    }

    fn catalogued(&mut self, ids: &[&str], requests_per_s: f64, bytes_per_s: f64) -> NominalDevice {
        let id = self.pick(ids);
        let device = catalogue::find_entry(id).expect("in the catalogue").build_device().expect("possible");
        NominalDevice { device, requests_per_s, bytes_per_s }
    }

    fn mechanical(&mut self) -> NominalDevice {
        self.catalogued(&MECHANICAL, 70.0, 15e6)
    }

    fn device(&mut self) -> NominalDevice {
        match self.rng.next_below(4) {
            0 => self.catalogued(&FLASH, 15_000.0, 250e6),
            1 => self.volume(false),
            2 => self.plain(),
            _ => self.mechanical(),
        }
    }

    fn service_time(&mut self, mean: f64) -> ServiceTimeDistribution {
        let time = mean as Ns;
        match self.rng.next_below(5) {
            0 => ServiceTimeDistribution::Constant(time),
            1 => ServiceTimeDistribution::Exponential { mean: time },
            2 => ServiceTimeDistribution::Uniform { min: time / 2, max: time * 3 / 2 },
            3 => ServiceTimeDistribution::Erlang { stages: 4, mean: time },
            _ => ServiceTimeDistribution::LogNormal { median: time, sigma: self.uniform(0.2, 0.6) },
        }
    }

    fn plain(&mut self) -> NominalDevice {
        let (mean, servers) = (self.log_uniform(5e5, 2e7), self.pick(&[1, 1, 2, 4, 8]));
        let service = self.service_time(mean);
        let spec = PlainSpec { name: "plain".into(), blocks: 1 << 28, servers, service, bytes_per_s: f64::INFINITY };
        let requests_per_s = f64::from(servers) * 1e9 / mean;
        NominalDevice { device: DeviceModel::Plain(Arc::new(spec)), requests_per_s, bytes_per_s: 1e12 }
    }

    fn volume(&mut self, bursts: bool) -> NominalDevice {
        if !bursts && self.rng.next_bool(0.4) {
            let id = self.pick(&VOLUMES);
            let device = catalogue::find_entry(id).expect("in the catalogue").build_device().expect("possible");
            let DeviceModel::Volume(spec) = &device else { panic!("{id} is a volume") };
            let (requests_per_s, bytes_per_s) = (spec.operations.baseline, spec.bytes.baseline);
            return NominalDevice { device, requests_per_s, bytes_per_s };
        }
        let (operations, bytes) = (self.log_uniform(300.0, 30_000.0), self.log_uniform(2e7, 1e9));
        let mut spec = VolumeSpec {
            name: "volume".into(),
            blocks: 1 << 28,
            slots: self.pick(&[8, 32, 64, 128, 256]),
            operations: RateLimit::constant_rate(operations),
            bytes: RateLimit::constant_rate(bytes),
            operation_bytes: self.pick(&[16 << 10, 64 << 10, 256 << 10]),
            merges: false,
            whole_operations: false,
            write_cost: self.pick(&[1.0, 1.0, 2.0]),
            writes: None,
            shared: None,
            window_ns: self.pick(&[0, SECOND / 1000, SECOND / 100, SECOND / 10]),
            read: ServiceTimeDistribution::Constant(0),
            write: ServiceTimeDistribution::Constant(0),
            stream_bytes_per_s: self.pick(&[f64::INFINITY, 5e8]),
        };
        let means = [self.log_uniform(1e5, 5e6), self.log_uniform(1e5, 5e6)];
        (spec.read, spec.write) = (self.service_time(means[0]), self.service_time(means[1]));
        if bursts {
            let which = self.rng.next_below(3);
            for (kind, limit) in [(0, &mut spec.operations), (1, &mut spec.bytes)] {
                if which == 2 || which == kind {
                    let over = self.uniform(1.5, 8.0);
                    let full_s = self.log_uniform(1.0, 100.0);
                    limit.burst = limit.baseline * over;
                    limit.credits = full_s * (limit.burst - limit.baseline);
                }
            }
        }
        NominalDevice { device: DeviceModel::Volume(Arc::new(spec)), requests_per_s: operations, bytes_per_s: bytes }
    }

    fn sizes(&mut self) -> RequestSizes {
        match self.rng.next_below(4) {
            0 | 1 => RequestSizes::One(self.pick(&[4096, 8192, 16_384, 65_536])),
            2 => RequestSizes::Weighted(vec![(4096, 0.7), (65_536, 0.3)]),
            _ => RequestSizes::One(4096),
        }
    }

    fn transfer(&mut self) -> OperationTransfer {
        let read_share = self.pick(&[1.0, 1.0, 0.9, 0.7, 0.5, 0.3, 0.0]);
        OperationTransfer { read_share, bytes: self.sizes(), ..OperationTransfer::default() }
    }

    /// Draws users or arrivals: a share of the devices' capacity, by arithmetic.
    fn load(&mut self, classes: Vec<OperationClass>, most_per_s: f64) -> LoadSpec {
        if self.rng.next_bool(0.4) {
            let rate = most_per_s * self.uniform(0.1, 0.8);
            let gap = DurationDistribution::Exponential { mean_s: 1.0 / rate };
            return LoadSpec::Open(OpenSpec { gap, classes, ..OpenSpec::default() });
        }
        let users = self.pick(&[1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64]);
        let think_s = f64::from(users) / most_per_s * self.uniform(0.2, 3.0);
        let think = match self.rng.next_below(3) {
            0 => DurationDistribution::Exponential { mean_s: think_s },
            _ => DurationDistribution::NONE,
        };
        LoadSpec::Closed(ClosedSpec { users, think, classes, ..ClosedSpec::default() })
    }

    /// Upper bound of the devices' requests per second, by arithmetic.
    fn max_requests_per_s(&self, of: &NominalDevice, set: Option<&ArraySpec>, transfer: &OperationTransfer) -> f64 {
        let bytes = match &transfer.bytes {
            RequestSizes::One(bytes) => *bytes as f64,
            _ => 0.7 * 4096.0 + 0.3 * 65_536.0,
        };
        let each = 1.0 / (1.0 / of.requests_per_s + bytes / of.bytes_per_s);
        let Some(set) = set else { return each * 0.8 };
        let members = set.members.len() as f64;
        let cost = match set.level {
            ArrayLevel::Raid1 => members,
            ArrayLevel::Raid10 => 2.0,
            ArrayLevel::Raid5 => 4.0,
            ArrayLevel::Raid6 => 6.0,
            _ => 1.0,
        };
        let gone = if set.failed.is_empty() { 1.0 } else { 0.5 };
        0.8 * gone * members * each / (transfer.read_share + (1.0 - transfer.read_share) * cost)
    }

    /// One device or an array of equal ones; the system has no workload yet.
    fn base_system(&mut self, of: &NominalDevice, array: bool) -> System {
        let levels = [ArrayLevel::Raid0, ArrayLevel::Raid1, ArrayLevel::Raid10, ArrayLevel::Raid5, ArrayLevel::Raid6];
        let level = self.pick(&levels);
        let members = match level {
            ArrayLevel::Raid1 => 2,
            ArrayLevel::Raid10 => self.pick(&[4, 6, 8]),
            ArrayLevel::Raid6 => self.pick(&[4, 6, 8, 10]),
            _ => self.pick(&[3, 4, 5, 8]),
        };
        let count = if array { members } else { 1 };
        let mut drives = DriveGroupSpec::new("drive", count, of.device.clone());
        if let DeviceModel::Mechanical(model) = &of.device {
            (drives.order, drives.depth) = (model.queue_policy(), model.queue_slots());
        }
        let arrays = if array { vec![ArraySpec::new("set", level, (0..members).collect())] } else { Vec::new() };
        System { watch: watch_spec(&of.device), drives: vec![drives], arrays, ..System::new("random") }
    }

    fn add_single_workload(&mut self, of: &NominalDevice, system: &mut System, transfers: Vec<OperationTransfer>) {
        let target = if system.arrays.is_empty() { WorkloadTarget::Drive(0) } else { WorkloadTarget::Array(0) };
        let count = system.workloads.len();
        let max_per_s = transfers.iter().map(|transfer| self.max_requests_per_s(of, system.arrays.first(), transfer));
        let max_per_s = max_per_s.fold(f64::INFINITY, f64::min);
        let classes = transfers.into_iter().enumerate();
        let classes =
            classes.map(|(index, t)| OperationClass::with_transfer(&format!("class{index}"), 1.0, t)).collect();
        let load = self.load(classes, max_per_s);
        system.workloads.push(Workload { name: format!("load{count}"), targets: vec![target], load });
    }

    fn volumes(&mut self, bursts: bool) -> System {
        let of = self.volume(bursts);
        let array = self.rng.next_bool(0.4);
        let mut system = self.base_system(&of, array);
        let transfer = self.transfer();
        self.add_single_workload(&of, &mut system, vec![transfer]);
        system
    }

    fn several_workloads(&mut self) -> System {
        let of = self.device();
        let array = self.rng.next_bool(0.6);
        let mut system = self.base_system(&of, array);
        let count = self.pick(&[2, 2, 3]);
        for _ in 0..count {
            let transfer = self.transfer();
            self.add_single_workload(&of, &mut system, vec![transfer]);
            if let Some(LoadSpec::Open(spec)) = system.workloads.last_mut().map(|workload| &mut workload.load) {
                spec.gap = DurationDistribution::Exponential { mean_s: spec.gap.mean_s() * f64::from(count) };
            }
        }
        if self.rng.next_bool(0.3) {
            // a second device, which some of them also use
            let mut other = self.base_system(&of, false);
            other.drives[0].name = "other".into();
            let number = system.drive_count();
            system.drives.push(other.drives.remove(0));
            system.workloads[0].targets.push(WorkloadTarget::Drive(number));
            let mut transfer = self.transfer();
            transfer.target = 1;
            let class = OperationClass::with_transfer("elsewhere", self.uniform(0.2, 1.0), transfer);
            match &mut system.workloads[0].load {
                LoadSpec::Closed(spec) => spec.classes.push(class),
                LoadSpec::Open(spec) => spec.classes.push(class),
                _ => {}
            }
        }
        system
    }

    fn place(&mut self, transfer: &mut OperationTransfer) {
        match self.rng.next_below(4) {
            0 => {
                let from = self.uniform(0.0, 0.9);
                transfer.part = TargetPart::Share { from, to: from + self.uniform(0.02, 1.0 - from) };
            }
            1 => {
                transfer.access =
                    AccessPattern::Normal { mean: self.rng.next_f64(), deviation: self.log_uniform(0.02, 0.5) }
            }
            2 => transfer.access = AccessPattern::Zipf { theta: self.uniform(0.3, 1.2) },
            _ => {
                let bytes = (self.log_uniform(3e7, 1e9) as u64).next_multiple_of(65_536);
                transfer.part = TargetPart::Bytes { from: 65_536 * self.rng.next_below(4096), bytes };
            }
        }
    }

    fn places(&mut self) -> System {
        let of = if self.rng.next_bool(0.7) { self.mechanical() } else { self.device() };
        let array = self.rng.next_bool(0.5);
        let mut system = self.base_system(&of, array);
        let transfers = (0..self.pick(&[1, 1, 2])).map(|_| {
            let mut transfer = self.transfer();
            self.place(&mut transfer);
            transfer
        });
        let transfers = transfers.collect();
        self.add_single_workload(&of, &mut system, transfers);
        system
    }

    fn cached(&mut self) -> System {
        let of = self.device();
        let array = self.rng.next_bool(0.5);
        let mut system = self.base_system(&of, array);
        let mechanical = matches!(of.device, DeviceModel::Mechanical(_));
        let area = self.log_uniform(4e6, if mechanical { 3e7 } else { 3e8 }) as u64;
        let back = WriteBackPolicy { flush_after: Some(SECOND * self.pick(&[1, 5, 30])), ..WriteBackPolicy::default() };
        let write = match self.rng.next_below(3) {
            0 => WritePolicy::Back(back),
            1 => WritePolicy::Back(WriteBackPolicy::battery_backed()),
            _ => WritePolicy::Through,
        };
        let read = self.pick(&[CacheReadAhead::None, CacheReadAhead::Doubling { from: 32, to: 256 }]);
        let bytes = (area as f64 * self.log_uniform(0.1, 2.0)) as u64;
        let cache = BlockCacheSpec { bytes, read_ahead: read, write, ..BlockCacheSpec::default() };
        let mut transfer = self.transfer();
        transfer.part = TargetPart::Bytes { from: 0, bytes: area.next_multiple_of(65_536) };
        if self.rng.next_bool(0.4) {
            transfer.access = AccessPattern::Zipf { theta: self.uniform(0.5, 1.1) };
        }
        if self.rng.next_bool(0.5) {
            system.host.cache = Some(cache);
            system.host.copy_byte_ps = self.pick(&[1000, 3000]);
            transfer.cached = true;
        } else {
            system.controllers =
                vec![Controller { cache: Some(cache), command_ns: 50_000, ..Controller::new("adapter") }];
            if let Some(set) = system.arrays.first_mut() {
                set.run_by = RunBy::Controller(0);
            }
            let channel = diskwright_simulator::system::Channel {
                name: "channel".into(),
                controller: Some(0),
                rate: None,
                overhead_ns: 0,
                disconnects: true,
            };
            system.channels = vec![channel];
            system.drives[0].channel = Some(0);
        }
        system.watch.warm_up *= 4;
        let max_per_s = self.max_requests_per_s(&of, system.arrays.first(), &transfer);
        self.add_single_workload(&of, &mut system, vec![transfer]);
        if let LoadSpec::Closed(spec) = &mut system.workloads[0].load {
            // a user with only hits and no think time would send requests forever at one point in time
            let mean_s = f64::from(spec.users) / max_per_s * self.uniform(0.3, 3.0);
            spec.think = DurationDistribution::Exponential { mean_s };
        }
        system
    }

    fn degraded(&mut self) -> System {
        let of = self.device();
        let mut system = self.base_system(&of, true);
        let set = &mut system.arrays[0];
        if set.level == ArrayLevel::Raid0 {
            set.level = ArrayLevel::Raid5;
        }
        let members = set.members.len() as u64;
        set.failed = vec![self.rng.next_below(members) as u16];
        if set.level == ArrayLevel::Raid6 && self.rng.next_bool(0.4) {
            set.failed.push((set.failed[0] + 1) % members as u16);
        }
        if self.rng.next_bool(0.4) {
            let set = &mut system.arrays[0];
            let count = set.failed.len() as u32;
            set.spares = (members as u32..members as u32 + count).collect();
            let rate = self.pick(&[None, Some(2_000_000), Some(10_000_000)]);
            set.rebuild = Some(BackgroundWork { step_blocks: 1024, depth: self.pick(&[1, 2, 4]), rate });
            system.drives[0].count += count;
        }
        let transfer = self.transfer();
        self.add_single_workload(&of, &mut system, vec![transfer]);
        system
    }
}

/// A run long enough for a mean accurate to a per cent or two.
fn watch_spec(device: &DeviceModel) -> WatchSpec {
    let (warm_up, duration) = match device {
        DeviceModel::Mechanical(_) => (40_000, 240_000),
        DeviceModel::Flash(_) => (500, 1500),
        DeviceModel::Volume(_) => (2000, 16_000),
        DeviceModel::Plain(_) => (10_000, 80_000),
    };
    let second = SECOND / 1000;
    WatchSpec { seed: 1, warm_up: warm_up * second, duration: duration * second, interval: duration / 8 * second }
}
