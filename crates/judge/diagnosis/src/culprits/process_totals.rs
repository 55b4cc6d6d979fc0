//! Culprits: sums every process over the window and names the few that stand out in what the verdict is about.

use std::collections::{BTreeMap, HashMap};

use diskwright_base::units::format_value;
use diskwright_base::{FileRow, ProcessRow, ProcessTable, ThreadRow, stable_task_name};

use crate::culprits::culprit::{Culprit, ProgramActivity};
use crate::culprits::process_memory::{ProcessMemory, peak_memory};
use crate::culprits::program_activity::{Activity, ThreadSleeps};
use crate::rules::Bottleneck;

/// Processes kept when there are too many; pruning starts at twice as many.
const MAX_PROCESSES: usize = 1024;
/// Largest number of processes named in a verdict.
const MAX_NAMED: usize = 5;
/// Largest number of open files named in a process's sentence.
const MAX_NAMED_FILES: usize = 2;
/// Factor on the share of a process whose open files all lie on other disks than the blamed one.
const OTHER_DISKS_FACTOR: f64 = 0.25;
/// Smallest share of the blamed activity for which a process is named.
const MIN_NAMED_SHARE: f64 = 0.05;

/// A blamed disk among several, with its rates and the cgroups that use it.
#[derive(Clone, Debug, Default)]
pub(crate) struct BlamedDisk {
    pub name: String,
    pub read_bytes_per_s: Option<f64>,
    pub write_bytes_per_s: Option<f64>,
    /// Share of each cgroup's bytes that goes to this disk, where cgroups are accounted by device.
    pub cgroup_shares: BTreeMap<String, f64>,
}

impl BlamedDisk {
    /// Largest share of a process's I/O that can be on this disk, from 0 to 1: the share of its cgroup where that is
    /// known, else limited by the bytes that the disk moved.
    fn process_share(&self, sum: &ProcessTotals, seconds: f64) -> f64 {
        if let Some(share) = self.cgroup_shares.get(&sum.cgroup) {
            return *share;
        }
        let on_disk = |mine: f64, all: Option<f64>| match all {
            // more than the disk moves went elsewhere for the most part
            Some(all) if mine > all * seconds => all * seconds * (all * seconds / mine),
            _ => mine,
        };
        let part = on_disk(sum.read_bytes, self.read_bytes_per_s) + on_disk(sum.write_bytes, self.write_bytes_per_s);
        let share = if sum.moved_bytes() > 0.0 { part / sum.moved_bytes() } else { 1.0 };
        if self.is_only_on_other_disks(sum) { share * OTHER_DISKS_FACTOR } else { share }
    }

    /// True where the process has files on this disk open.
    fn is_used_by(&self, sum: &ProcessTotals) -> bool {
        sum.files.iter().any(|file| file.disks.contains(&self.name))
    }

    /// True where all of its open files lie on other disks. It may have closed the files that it read here.
    fn is_only_on_other_disks(&self, sum: &ProcessTotals) -> bool {
        let is_known = |file: &FileRow| !file.disks.is_empty();
        !sum.files.is_empty() && sum.more_files == 0 && sum.files.iter().all(is_known) && !self.is_used_by(sum)
    }
}

/// Processes over the window.
#[derive(Clone, Debug, Default)]
pub(crate) struct Culprits {
    processes: HashMap<(u32, String), ProcessTotals>,
    sleeps: ThreadSleeps,
    /// Seconds that the tables cover.
    seconds: f64,
    /// Largest number of other users' processes in a table whose I/O could not be read.
    pub unreadable: u32,
}

/// Totals of one process over the window: amounts, not rates.
#[derive(Clone, Debug, Default)]
struct ProcessTotals {
    name: String,
    cgroup: String,
    seconds: f64,
    /// Start and end of its presence in the tables, seconds into the window.
    span_s: (f64, f64),
    processor_s: f64,
    read_bytes: f64,
    write_bytes: f64,
    read_calls: f64,
    write_calls: f64,
    requested_bytes: f64,
    major_faults: f64,
    delay_s: f64,
    blocked_s: f64,
    resident_first: f64,
    resident_bytes: f64,
    swapped_bytes: f64,
    waits_in: Option<String>,
    realtime_priority: Option<u32>,
    /// Its busiest threads, and the seconds over which each was measured.
    threads: Vec<(ThreadRow, f64)>,
    /// Open files in the last table that listed any.
    files: Vec<FileRow>,
    more_files: u32,
}

/// Largest number of busiest threads kept for a process.
const MAX_THREADS: usize = 8;

impl ProcessTotals {
    fn add_row(&mut self, row: &ProcessRow, seconds: f64, (from_s, to_s): (f64, f64)) {
        if self.seconds == 0.0 {
            self.resident_first = row.resident_bytes;
            self.span_s.0 = from_s;
        }
        self.span_s.1 = to_s;
        let amount = |rate: Option<f64>| rate.unwrap_or(0.0) * seconds;
        // the name of a kernel worker ends with its present work
        self.name.clone_from(&row.name);
        self.cgroup.clone_from(&row.cgroup);
        self.seconds += seconds;
        self.processor_s += row.processor * seconds;
        // Windows counts only the bytes that a process requested: better than no figure
        self.read_bytes += amount(row.read_bytes_per_s.or(row.requested_read_bytes_per_s));
        self.write_bytes += amount(row.write_bytes_per_s.or(row.requested_write_bytes_per_s));
        self.read_calls += amount(row.read_calls_per_s);
        self.write_calls += amount(row.write_calls_per_s);
        self.requested_bytes += amount(row.requested_read_bytes_per_s) + amount(row.requested_write_bytes_per_s);
        self.major_faults += row.major_faults_per_s * seconds;
        self.delay_s += amount(row.block_delay);
        self.blocked_s += row.blocked_share * seconds;
        self.resident_bytes = row.resident_bytes;
        self.swapped_bytes = row.swapped_bytes.unwrap_or(self.swapped_bytes);
        if row.waits_in.is_some() {
            self.waits_in.clone_from(&row.waits_in);
        }
        self.realtime_priority = row.realtime_priority.or(self.realtime_priority);
        if let Some(thread) = &row.busiest_thread {
            self.add_thread(thread, seconds);
        }
        if !row.files.is_empty() {
            self.files.clone_from(&row.files);
            self.more_files = row.more_files;
        }
    }

    fn add_thread(&mut self, thread: &ThreadRow, seconds: f64) {
        if let Some((known, looked_at)) = self.threads.iter_mut().find(|(known, _)| known.tid == thread.tid) {
            let used = known.processor * *looked_at + thread.processor * seconds;
            *looked_at += seconds;
            known.processor = used / *looked_at;
            known.name.clone_from(&thread.name);
            return;
        }
        self.threads.push((thread.clone(), seconds));
        if self.threads.len() > MAX_THREADS {
            let used = |(thread, seconds): &(ThreadRow, f64)| thread.processor * seconds;
            self.threads.sort_by(|a, b| used(b).total_cmp(&used(a)));
            self.threads.truncate(MAX_THREADS);
        }
    }

    /// The thread that used the most processor time.
    fn busiest_thread(&self) -> Option<&(ThreadRow, f64)> {
        self.threads.iter().max_by(|a, b| (a.0.processor * a.1).total_cmp(&(b.0.processor * b.1)))
    }

    /// Processor time of that thread.
    fn realtime_processor_s(&self) -> f64 {
        if self.realtime_priority.is_some() { self.processor_s } else { 0.0 }
    }

    fn busiest_thread_s(&self) -> f64 {
        self.busiest_thread().map_or(0.0, |(thread, seconds)| thread.processor * seconds)
    }

    fn merge_totals(&mut self, other: &ProcessTotals) {
        self.cgroup.clone_from(&other.cgroup);
        // seconds of a process each: shares of time stay shares
        self.seconds += other.seconds;
        self.processor_s += other.processor_s;
        self.read_bytes += other.read_bytes;
        self.write_bytes += other.write_bytes;
        self.read_calls += other.read_calls;
        self.write_calls += other.write_calls;
        self.requested_bytes += other.requested_bytes;
        self.major_faults += other.major_faults;
        self.delay_s += other.delay_s;
        self.blocked_s += other.blocked_s;
        self.realtime_priority = self.realtime_priority.max(other.realtime_priority);
        if other.waits_in.is_some() {
            self.waits_in.clone_from(&other.waits_in);
        }
        self.threads.extend_from_slice(&other.threads);
    }

    /// These totals with only a share of the I/O.
    fn with_io_share(&self, share: f64) -> ProcessTotals {
        ProcessTotals {
            read_bytes: self.read_bytes * share,
            write_bytes: self.write_bytes * share,
            read_calls: self.read_calls * share,
            write_calls: self.write_calls * share,
            requested_bytes: self.requested_bytes * share,
            delay_s: self.delay_s * share,
            blocked_s: self.blocked_s * share,
            ..self.clone()
        }
    }

    fn moved_bytes(&self) -> f64 {
        self.read_bytes + self.write_bytes
    }

    fn memory_use(&self) -> ProcessMemory {
        let (from_s, to_s) = self.span_s;
        let (first, resident, swapped) = (self.resident_first, self.resident_bytes, self.swapped_bytes);
        ProcessMemory { from_s, to_s, first_resident_bytes: first, resident_bytes: resident, swapped_bytes: swapped }
    }

    fn waited_s(&self) -> f64 {
        self.delay_s.max(self.blocked_s)
    }

    fn growth_bytes(&self) -> f64 {
        (self.resident_bytes - self.resident_first).max(0.0)
    }

    /// Rough measure of activity; the processes with the least are dropped first.
    fn activity_weight(&self) -> f64 {
        let memory = self.resident_bytes + self.swapped_bytes;
        self.processor_s + self.waited_s() + self.major_faults / 100.0 + (self.moved_bytes() + memory) / 1e8
    }
}

/// Processes of one name in one cgroup (a server's workers) are named as one.
#[derive(Clone, Debug, Default)]
struct ProcessGroup {
    name: String,
    /// Id of the process that contributed most.
    pid: u32,
    max_activity: f64,
    processes: u32,
    sum: ProcessTotals,
    memory: Vec<ProcessMemory>,
}

impl ProcessGroup {
    fn add_process(&mut self, pid: u32, sum: &ProcessTotals, matters: &[BlameQuantity]) {
        let did: f64 = matters.iter().map(|(of, weight)| weight * of(sum)).sum();
        if self.processes == 0 || (did, self.pid) > (self.max_activity, pid) {
            (self.pid, self.max_activity) = (pid, did);
            self.sum.files.clone_from(&sum.files);
            self.sum.more_files = sum.more_files;
        }
        self.name.clone_from(&sum.name);
        self.processes += 1;
        self.sum.merge_totals(sum);
        self.memory.push(sum.memory_use());
    }

    /// Sets the memory of the sum to the peak that its processes held at the same time.
    fn set_peak_memory(&mut self) {
        let ProcessMemory { first_resident_bytes: first, resident_bytes: resident, swapped_bytes: swapped, .. } =
            peak_memory(&self.memory);
        (self.sum.resident_first, self.sum.resident_bytes, self.sum.swapped_bytes) = (first, resident, swapped);
    }
}

/// A quantity by which processes are blamed, and its weight.
type BlameQuantity = (fn(&ProcessTotals) -> f64, f64);

const DISK_QUANTITIES: &[BlameQuantity] = &[(ProcessTotals::moved_bytes, 0.6), (ProcessTotals::waited_s, 0.4)];
const MEMORY_QUANTITIES: &[BlameQuantity] = &[
    (|s| s.major_faults, 0.4),
    (ProcessTotals::growth_bytes, 0.2),
    (|s| s.swapped_bytes, 0.2),
    (|s| s.resident_bytes, 0.2),
];
const PROCESSOR_QUANTITIES: &[BlameQuantity] = &[(|s| s.processor_s, 1.0)];
const THREAD_QUANTITIES: &[BlameQuantity] = &[(ProcessTotals::busiest_thread_s, 1.0)];
const REALTIME_QUANTITIES: &[BlameQuantity] = &[(ProcessTotals::realtime_processor_s, 1.0)];
const CALL_QUANTITIES: &[BlameQuantity] = &[(|s| s.read_calls + s.write_calls, 0.5), (ProcessTotals::moved_bytes, 0.5)];

impl Culprits {
    /// Bytes written by programs, by name: the kernel counts them when pages become dirty.
    pub fn written_bytes_by_name(&self) -> HashMap<String, f64> {
        let mut written: HashMap<String, f64> = HashMap::new();
        for ((_, name), totals) in &self.processes {
            *written.entry(name.clone()).or_default() += totals.write_bytes;
        }
        written
    }

    /// Adds a process table.
    pub fn add_table(&mut self, table: &ProcessTable) {
        if !(table.elapsed_s > 0.0 && table.elapsed_s.is_finite()) {
            return;
        }
        let from_s = self.seconds;
        self.seconds += table.elapsed_s;
        self.sleeps.add_table(table);
        self.unreadable = self.unreadable.max(table.unreadable);
        for row in &table.rows {
            let totals = self.processes.entry((row.pid, stable_task_name(&row.name).to_owned())).or_default();
            totals.add_row(row, table.elapsed_s, (from_s, self.seconds));
        }
        if self.processes.len() > 2 * MAX_PROCESSES {
            let mut ranked: Vec<_> =
                self.processes.drain().map(|person| (person.1.activity_weight(), person)).collect();
            // ties go to the lowest ids, so that not all of thousands of equal processes are dropped
            ranked.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.0.cmp(&b.1.0)));
            self.processes.extend(ranked.into_iter().take(MAX_PROCESSES).map(|(_, person)| person));
        }
    }

    /// Processes that stand out in what the bottleneck is about; for a cgroup only its own processes, and for one disk
    /// among several only those that can have used it.
    pub fn for_bottleneck(
        &self,
        bottleneck: Bottleneck,
        cgroup: Option<&str>,
        blamed: Option<&BlamedDisk>,
    ) -> Vec<Culprit> {
        let matters = match bottleneck {
            Bottleneck::Memory => MEMORY_QUANTITIES,
            Bottleneck::Cpu | Bottleneck::Interrupts => PROCESSOR_QUANTITIES,
            Bottleneck::Application => CALL_QUANTITIES,
            Bottleneck::Disk | Bottleneck::Channel | Bottleneck::Controller | Bottleneck::Throttle => DISK_QUANTITIES,
            Bottleneck::Network | Bottleneck::None | Bottleneck::Unknown => return self.cgroup_culprit(cgroup),
        };
        self.rank_processes(matters, bottleneck, cgroup, blamed)
    }

    /// Processes with the busiest single threads.
    pub fn with_busiest_threads(&self) -> Vec<Culprit> {
        self.rank_processes(THREAD_QUANTITIES, Bottleneck::Cpu, None, None)
    }

    /// Processes of a real-time class by their processor time; all processes where the class is that of threads.
    pub fn of_realtime_class(&self) -> Vec<Culprit> {
        let has_any = self.processes.values().any(|totals| totals.realtime_processor_s() > 0.0);
        let quantities = if has_any { REALTIME_QUANTITIES } else { PROCESSOR_QUANTITIES };
        self.rank_processes(quantities, Bottleneck::Cpu, None, None)
    }

    /// Activity and waits of the programs, for verdicts that blame nothing.
    pub fn program_activities(&self) -> Vec<ProgramActivity> {
        let mut parties: BTreeMap<&str, ProcessGroup> = BTreeMap::new();
        let mut people: Vec<_> = self.processes.iter().collect();
        people.sort_by_key(|(key, _)| *key);
        for ((pid, name), sum) in people {
            parties.entry(name).or_default().add_process(*pid, sum, &[(|s| s.processor_s + s.waited_s(), 1.0)]);
        }
        let activity = |party: ProcessGroup| Activity {
            processor: party.sum.processor_s / self.seconds,
            blocked: (party.sum.waited_s() / self.seconds).min(1.0),
            name: party.name,
            pid: party.pid,
            processes: party.processes,
            waits_in: party.sum.waits_in,
        };
        self.sleeps.describe_programs(&parties.into_values().map(activity).collect::<Vec<_>>())
    }

    fn rank_processes(
        &self,
        matters: &[BlameQuantity],
        bottleneck: Bottleneck,
        cgroup: Option<&str>,
        blamed: Option<&BlamedDisk>,
    ) -> Vec<Culprit> {
        let mut found = self.cgroup_culprit(cgroup);
        let inside = |sum: &ProcessTotals| {
            cgroup.is_none_or(|path| {
                sum.cgroup.strip_prefix(path).is_some_and(|r| r.is_empty() || r.starts_with('/') || path == "/")
            })
        };
        let mut people: BTreeMap<(&str, &str), ProcessGroup> = BTreeMap::new();
        let mut inmates: Vec<_> = self.processes.iter().filter(|(_, sum)| inside(sum)).collect();
        // floating-point sums depend on the order, so it is fixed
        inmates.sort_by_key(|(key, _)| *key);
        for ((pid, name), sum) in inmates {
            match blamed {
                Some(disk) => {
                    let sum = sum.with_io_share(disk.process_share(sum, self.seconds));
                    people
                        .entry((name, &self.processes[&(*pid, name.clone())].cgroup))
                        .or_default()
                        .add_process(*pid, &sum, matters);
                }
                None => people.entry((name, &sum.cgroup)).or_default().add_process(*pid, sum, matters),
            }
        }
        people.values_mut().for_each(ProcessGroup::set_peak_memory);
        let totals: Vec<f64> = matters.iter().map(|(of, _)| people.values().map(|p| of(&p.sum)).sum()).collect();
        let mut shares: Vec<(f64, ProcessGroup)> =
            people.into_values().map(|party| (weighted_share(&party.sum, matters, &totals), party)).collect();
        // by share, then by id: the answer must not depend on the order of a hash map
        shares.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.pid.cmp(&b.1.pid)));
        // cgroups and open files show which disk a process uses; its byte counts do not
        let unsure = |sum: &ProcessTotals| match blamed {
            Some(disk) if !disk.cgroup_shares.contains_key(&sum.cgroup) && !disk.is_used_by(sum) => {
                " (by total I/O; the log does not show which disk)"
            }
            _ => "",
        };
        for (share, party) in shares.into_iter().take(MAX_NAMED).filter(|(s, _)| *s >= MIN_NAMED_SHARE) {
            let files = relevant_files(&party.sum, bottleneck, blamed);
            let open = open_files_text(&files, party.sum.more_files);
            found.push(Culprit {
                kind: "process".into(),
                pid: Some(party.pid),
                name: party.name,
                cgroup: party.sum.cgroup.clone(),
                processes: party.processes,
                share: Some(share),
                thread: party.sum.busiest_thread().map(|(thread, _)| thread.clone()),
                description: activity_text(&party.sum, party.processes, bottleneck, self.seconds)
                    + &open
                    + unsure(&party.sum),
                files,
            });
        }
        found
    }

    fn cgroup_culprit(&self, cgroup: Option<&str>) -> Vec<Culprit> {
        let of = |path: &str| Culprit {
            kind: "cgroup".into(),
            pid: None,
            name: path.to_owned(),
            cgroup: path.to_owned(),
            processes: 0,
            share: None,
            thread: None,
            files: Vec::new(),
            description: "the cgroup of the finding".into(),
        };
        cgroup.map(of).into_iter().collect()
    }
}

/// Weighted share of a process in the totals of the quantities; quantities whose total is zero are skipped.
fn weighted_share(sum: &ProcessTotals, matters: &[BlameQuantity], totals: &[f64]) -> f64 {
    let (mut mine, mut all) = (0.0, 0.0);
    for ((of, weight), total) in matters.iter().zip(totals).filter(|(_, total)| **total > 0.0) {
        mine += weight * of(sum) / total;
        all += weight;
    }
    if all > 0.0 { mine / all } else { 0.0 }
}

/// Open files of a process on the blamed disk, or on an unknown one; empty for bottlenecks that do not concern disks.
fn relevant_files(sum: &ProcessTotals, bottleneck: Bottleneck, blamed: Option<&BlamedDisk>) -> Vec<FileRow> {
    if !concerns_disks(bottleneck) {
        return Vec::new();
    }
    let may_be =
        |file: &&FileRow| file.disks.is_empty() || blamed.is_none_or(|blamed| file.disks.contains(&blamed.name));
    sum.files.iter().filter(may_be).cloned().collect()
}

/// Text that lists open files; `more` is the number of files beyond those listed.
fn open_files_text(files: &[FileRow], more: u32) -> String {
    let names: Vec<&str> = files.iter().take(MAX_NAMED_FILES).map(|file| file.path.as_str()).collect();
    let more = more as usize + files.len() - names.len();
    match (names.is_empty(), more) {
        (true, _) => String::new(),
        (false, 0) => format!("; open files: {}", names.join(", ")),
        (false, more) => format!("; open files: {} and {more} more", names.join(", ")),
    }
}

fn concerns_disks(bottleneck: Bottleneck) -> bool {
    !matches!(bottleneck, Bottleneck::Cpu | Bottleneck::Interrupts | Bottleneck::Memory)
}

/// Activity of a process in numbers; zero quantities are left out.
fn activity_text(sum: &ProcessTotals, processes: u32, bottleneck: Bottleneck, seconds: f64) -> String {
    let rate = |amount: f64| amount / seconds;
    let mut parts: Vec<String> = Vec::new();
    let mut say = |amount: f64, text: String| {
        if amount > 0.0 {
            parts.push(text);
        }
    };
    let disk = !matches!(bottleneck, Bottleneck::Cpu | Bottleneck::Interrupts);
    if bottleneck == Bottleneck::Memory {
        let faults = format_value(rate(sum.major_faults), "per_s");
        say(sum.major_faults, format!("{faults} major faults"));
        say(sum.resident_bytes, format!("{} resident", format_value(sum.resident_bytes, "bytes")));
        say(sum.growth_bytes(), format!("grew by {}", format_value(sum.growth_bytes(), "bytes")));
        say(sum.swapped_bytes, format!("{} in swap", format_value(sum.swapped_bytes, "bytes")));
    }
    if bottleneck == Bottleneck::Application {
        let calls = sum.read_calls + sum.write_calls;
        let each = format_value(sum.requested_bytes / calls, "bytes");
        say(calls, format!("{} calls of {each}", format_value(rate(calls), "per_s")));
    }
    if disk {
        say(sum.read_bytes, format!("reads {}", format_value(rate(sum.read_bytes), "bytes_per_s")));
        say(sum.write_bytes, format!("writes {}", format_value(rate(sum.write_bytes), "bytes_per_s")));
        // share of the window; of several processes at once, the share of each
        let waited = (sum.waited_s() / sum.seconds.max(seconds)).min(1.0);
        let place = sum.waits_in.as_deref().map_or(String::new(), |f| format!(" in {f}"));
        say(waited, format!("waits for I/O for {} of the time{place}", format_value(waited, "fraction")));
    }
    let processor = rate(sum.processor_s);
    if !disk || processor >= 0.1 {
        // other programs get a processor only when it sleeps
        let priority = sum.realtime_priority.filter(|_| !disk);
        let before = priority.map_or(String::new(), |priority| format!(" at real-time priority {priority}"));
        say(processor, format!("{} of a processor{before}", format_value(processor, "fraction")));
    }
    if let Some((ThreadRow { tid, name, .. }, _)) = sum.busiest_thread().filter(|_| !disk) {
        // over the same time as its process, so that the part is no larger than the total
        let used = rate(sum.busiest_thread_s()).min(processor);
        say(used, format!("its thread {name} ({tid}) {} of one", format_value(used, "fraction")));
    }
    let together = if processes > 1 { format!("{processes} processes together: ") } else { String::new() };
    together + &parts.join(", ")
}

#[cfg(test)]
mod tests;
