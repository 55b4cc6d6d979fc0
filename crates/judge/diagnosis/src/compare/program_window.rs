//! What programs used in a window, by its tables of processes: processors, and bytes of disks.

use std::collections::{BTreeMap, HashMap};

use diskwright_base::command_line::script_of_command;
use diskwright_base::kernel_threads::is_kernel_thread;
use diskwright_base::{ProcessPlace, ProcessRow, ProcessTable, stable_task_name};
use diskwright_statistics::WeightedPoint;

/// Largest number of parts of the window in which programs are summed.
const MAX_PARTS: i64 = 256;
/// Processes kept when there are too many; pruning starts at twice as many.
const MAX_PROCESSES: usize = 1024;

/// A program that is the same in two windows, whichever its process ids: its name, the script that an interpreter runs,
/// the cgroup in which it runs, and its command line. Of a server whose processes change their titles, the command line
/// says what they do, not who they are.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ProgramKey {
    pub name: String,
    pub script: Option<String>,
    pub cgroup: String,
    pub command_line: Option<String>,
}

/// A quantity that programs use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UsedQuantity {
    /// Processors.
    Processor = 0,
    /// Bytes read from disks and written to them.
    DiskBytes = 1,
}

/// Programs of one window.
#[derive(Default)]
pub(crate) struct ProgramWindow {
    /// Start and end, nanoseconds since 1970.
    range_ns: (i64, i64),
    /// Seconds that the tables of each part cover.
    covered_s: BTreeMap<i64, f64>,
    /// By process id and name.
    processes: HashMap<(u32, String), ProcessUse>,
}

/// What one process used.
#[derive(Clone, Debug, Default)]
struct ProcessUse {
    cgroup: String,
    command_line: Option<String>,
    /// Its command line changed.
    is_retitled: bool,
    place: ProcessPlace,
    /// By part of the window: the amount of each quantity.
    amounts: BTreeMap<i64, [f64; 2]>,
    /// Sum of each.
    sums: [f64; 2],
}

/// What a program used of a quantity in a window.
#[derive(Clone, Debug)]
pub(crate) struct ProgramUse {
    /// Where the process that used most runs.
    pub place: ProcessPlace,
    /// The command line of that process.
    pub command_line: Option<String>,
    most: f64,
    by_part: BTreeMap<i64, f64>,
    sum: f64,
}

impl ProgramWindow {
    /// Creates a window without tables; `expected` is its start and end.
    pub fn new(expected: (i64, i64)) -> ProgramWindow {
        ProgramWindow { range_ns: expected, ..ProgramWindow::default() }
    }

    /// Adds a table; `time_ns` is its end.
    pub fn add_table(&mut self, time_ns: i64, table: &ProcessTable) {
        if !(table.elapsed_s > 0.0 && table.elapsed_s.is_finite()) {
            return;
        }
        let part = self.part_at(time_ns, table.elapsed_s);
        *self.covered_s.entry(part).or_default() += table.elapsed_s;
        for row in table.rows.iter().filter(|row| !is_kernel_thread(&row.name)) {
            let process = self.processes.entry((row.pid, stable_task_name(&row.name).to_owned())).or_default();
            process.add_row(part, row, table.elapsed_s);
        }
        if self.processes.len() > 2 * MAX_PROCESSES {
            let mut list: Vec<((u32, String), ProcessUse)> = self.processes.drain().collect();
            let weight = |process: &ProcessUse| process.sums[0] + process.sums[1] / 1e8;
            list.sort_by(|a, b| weight(&b.1).total_cmp(&weight(&a.1)).then_with(|| a.0.cmp(&b.0)));
            self.processes.extend(list.into_iter().take(MAX_PROCESSES));
        }
    }

    /// The part of the window in which the middle of a table lies.
    fn part_at(&self, time_ns: i64, elapsed_s: f64) -> i64 {
        let (from_ns, to_ns) = self.range_ns;
        let middle_ns = time_ns.saturating_sub((elapsed_s * 5e8) as i64);
        let width_ns = (to_ns.saturating_sub(from_ns) / MAX_PARTS).max(1);
        middle_ns.saturating_sub(from_ns).div_euclid(width_ns).clamp(0, MAX_PARTS)
    }

    /// The programs that used any of a quantity.
    pub fn users(&self, quantity: UsedQuantity) -> HashMap<ProgramKey, ProgramUse> {
        let mut users: HashMap<ProgramKey, ProgramUse> = HashMap::new();
        for ((_, name), process) in &self.processes {
            let used = process.sums[quantity as usize];
            if used <= 0.0 {
                continue;
            }
            let empty = ProgramUse {
                place: ProcessPlace::default(),
                command_line: None,
                most: 0.0,
                by_part: BTreeMap::new(),
                sum: 0.0,
            };
            let program = users.entry(process.key(name)).or_insert(empty);
            if used > program.most {
                program.most = used;
                program.place.clone_from(&process.place);
                program.command_line.clone_from(&process.command_line);
            }
            for (part, amounts) in &process.amounts {
                *program.by_part.entry(*part).or_default() += amounts[quantity as usize];
                program.sum += amounts[quantity as usize];
            }
        }
        users
    }

    /// Number of tables, and the mean time between them, seconds; tables of one part of a long window count as one.
    pub fn table_count(&self) -> (usize, f64) {
        let count = self.covered_s.len();
        (count, self.covered_s.values().sum::<f64>() / count.max(1) as f64)
    }

    /// What a program used a second on average.
    pub fn mean(&self, program: &ProgramUse) -> f64 {
        program.sum / self.covered_s.values().sum::<f64>().max(1e-9)
    }

    /// What a program used a second, part by part: nothing where a table does not list it.
    pub fn points(&self, program: Option<&ProgramUse>) -> Vec<WeightedPoint> {
        let amount = |part: &i64| program.and_then(|program| program.by_part.get(part)).copied().unwrap_or(0.0);
        let width_s = (self.range_ns.1.saturating_sub(self.range_ns.0) as f64 / 1e9 / MAX_PARTS as f64).max(1e-9);
        let point = |(part, seconds): (&i64, &f64)| WeightedPoint {
            time_s: (*part as f64 + 0.5) * width_s,
            value: amount(part) / seconds,
            weight: *seconds,
        };
        self.covered_s.iter().map(point).collect()
    }
}

impl ProcessUse {
    fn add_row(&mut self, part: i64, row: &ProcessRow, seconds: f64) {
        let moved = |reached: Option<f64>, requested: Option<f64>| reached.or(requested).unwrap_or(0.0);
        let bytes = moved(row.read_bytes_per_s, row.requested_read_bytes_per_s)
            + moved(row.write_bytes_per_s, row.requested_write_bytes_per_s);
        let amounts = self.amounts.entry(part).or_default();
        for (index, rate) in [row.processor, bytes].into_iter().enumerate().filter(|(_, rate)| rate.is_finite()) {
            amounts[index] += rate * seconds;
            self.sums[index] += rate * seconds;
        }
        self.cgroup.clone_from(&row.cgroup);
        if row.command_line.is_some() {
            self.is_retitled |= self.command_line.is_some() && self.command_line != row.command_line;
            self.command_line.clone_from(&row.command_line);
        }
        if let Some(place) = &row.place {
            self.place = place.as_ref().clone();
        }
    }

    fn key(&self, name: &str) -> ProgramKey {
        ProgramKey {
            name: name.to_owned(),
            script: self.command_line.as_deref().and_then(script_of_command).map(str::to_owned),
            cgroup: self.cgroup.clone(),
            command_line: self.command_line.clone().filter(|_| !self.is_retitled),
        }
    }
}
