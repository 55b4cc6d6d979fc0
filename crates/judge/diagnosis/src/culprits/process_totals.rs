//! Culprits: sums every process over the window, and names the few that contribute most to what the verdict blames.

mod activity_text;

use std::collections::{BTreeMap, HashMap};

use diskwright_base::kernel_threads::is_reclaim_thread;
use diskwright_base::{FileRow, ProcessRow, ProcessTable, ThreadRow, stable_task_name};

use crate::compile::is_in_cgroup;
use crate::culprits::blamed_disk::BlamedDisk;
use crate::culprits::culprit::{Culprit, CulpritProcess, GrowingProgram, ProgramActivity};
use crate::culprits::listed_activity::ListedActivity;
use crate::culprits::process_identity::ProcessIdentity;
use crate::culprits::process_memory::{ProcessMemory, peak_memory};
use crate::culprits::program_activity::{Activity, ThreadSleeps};
use crate::rules::Bottleneck;
use activity_text::{activity_text, open_files_text};

/// Processes kept when there are too many; pruning starts at twice as many.
const MAX_PROCESSES: usize = 1024;
/// Largest number of processes named in a verdict.
const MAX_NAMED: usize = 5;
/// Smallest share of the blamed activity for which a process is named.
const MIN_NAMED_SHARE: f64 = 0.05;
/// Largest number of busiest threads kept for a process.
const MAX_THREADS: usize = 8;

/// Processes over the window.
#[derive(Clone, Debug, Default)]
pub(crate) struct Culprits {
    processes: HashMap<(u32, String), ProcessTotals>,
    sleeps: ThreadSleeps,
    /// Seconds that the tables cover.
    seconds: f64,
    /// Sums over all rows of the tables.
    pub listed: ListedActivity,
    /// Processes of other users whose I/O could not be read: the largest number in one table.
    pub unreadable: u32,
}

/// Totals of one process over the window: amounts, not rates.
#[derive(Clone, Debug, Default)]
pub(super) struct ProcessTotals {
    name: String,
    pub(super) cgroup: String,
    identity: ProcessIdentity,
    seconds: f64,
    /// Start and end of its presence in the tables, seconds into the window.
    span_s: (f64, f64),
    processor_s: f64,
    pub(super) read_bytes: f64,
    pub(super) write_bytes: f64,
    /// Bytes that it wrote into the page cache or to any disk, whichever disk is blamed.
    dirtied_bytes: f64,
    read_calls: f64,
    write_calls: f64,
    requested_bytes: f64,
    major_faults: f64,
    delay_s: f64,
    blocked_s: f64,
    resident_bytes: f64,
    /// Memory by which growth is measured, in its first table and its last: what it holds, or its resident memory.
    held_first: f64,
    held_bytes: f64,
    swapped_bytes: f64,
    waits_in: Option<String>,
    realtime_priority: Option<u32>,
    nice: Option<i32>,
    /// Its busiest threads, and the seconds over which each was measured.
    threads: Vec<(ThreadRow, f64)>,
    /// Open files in the last table that listed any.
    pub(super) files: Vec<FileRow>,
    pub(super) more_files: u32,
}

impl ProcessTotals {
    fn add_row(&mut self, row: &ProcessRow, seconds: f64, (from_s, to_s): (f64, f64)) {
        let held_bytes = row.held_bytes.unwrap_or(row.resident_bytes);
        if self.seconds == 0.0 {
            self.held_first = held_bytes;
            self.span_s.0 = from_s;
        }
        self.span_s.1 = to_s;
        let amount = |rate: Option<f64>| rate.unwrap_or(0.0) * seconds;
        // the name of a kernel worker ends with what it works on, so it changes
        self.name.clone_from(&row.name);
        self.cgroup.clone_from(&row.cgroup);
        self.identity.add_row(row);
        self.seconds += seconds;
        self.processor_s += row.processor * seconds;
        // Windows counts only the bytes that a process requested: better than no figure
        self.read_bytes += amount(row.read_bytes_per_s.or(row.requested_read_bytes_per_s));
        self.write_bytes += amount(row.write_bytes_per_s.or(row.requested_write_bytes_per_s));
        self.dirtied_bytes += amount(row.write_bytes_per_s);
        self.read_calls += amount(row.read_calls_per_s);
        self.write_calls += amount(row.write_calls_per_s);
        self.requested_bytes += amount(row.requested_read_bytes_per_s) + amount(row.requested_write_bytes_per_s);
        self.major_faults += row.major_faults_per_s * seconds;
        self.delay_s += amount(row.block_delay);
        self.blocked_s += row.blocked_share * seconds;
        self.resident_bytes = row.resident_bytes;
        self.held_bytes = held_bytes;
        self.swapped_bytes = row.swapped_bytes.unwrap_or(self.swapped_bytes);
        if row.waits_in.is_some() {
            self.waits_in.clone_from(&row.waits_in);
        }
        self.realtime_priority = row.realtime_priority.or(self.realtime_priority);
        self.nice = row.nice.or(self.nice);
        if let Some(thread) = &row.busiest_thread {
            self.add_thread(thread, seconds);
        }
        if !row.files.is_empty() {
            self.files.clone_from(&row.files);
            self.more_files = row.more_files;
        }
    }

    fn add_thread(&mut self, thread: &ThreadRow, seconds: f64) {
        if let Some((known, measured_s)) = self.threads.iter_mut().find(|(known, _)| known.tid == thread.tid) {
            let used = known.processor * *measured_s + thread.processor * seconds;
            *measured_s += seconds;
            known.processor = used / *measured_s;
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

    /// Processor time of a process of a real-time class, seconds; 0 for others.
    fn realtime_processor_s(&self) -> f64 {
        if self.realtime_priority.is_some() { self.processor_s } else { 0.0 }
    }

    /// Processor time of the busiest thread, seconds.
    fn busiest_thread_s(&self) -> f64 {
        self.busiest_thread().map_or(0.0, |(thread, seconds)| thread.processor * seconds)
    }

    /// Adds other totals, of their I/O only a share.
    fn merge_totals(&mut self, other: &ProcessTotals, io_share: f64) {
        self.cgroup.clone_from(&other.cgroup);
        // adds up the processes' seconds, so that a share of time stays an average of all of them
        self.seconds += other.seconds;
        self.processor_s += other.processor_s;
        self.read_bytes += other.read_bytes * io_share;
        self.write_bytes += other.write_bytes * io_share;
        self.dirtied_bytes += other.dirtied_bytes;
        self.read_calls += other.read_calls * io_share;
        self.write_calls += other.write_calls * io_share;
        self.requested_bytes += other.requested_bytes * io_share;
        self.major_faults += other.major_faults;
        self.delay_s += other.delay_s * io_share;
        self.blocked_s += other.blocked_s * io_share;
        self.realtime_priority = self.realtime_priority.max(other.realtime_priority);
        if other.waits_in.is_some() {
            self.waits_in.clone_from(&other.waits_in);
        }
        self.threads.extend_from_slice(&other.threads);
    }

    pub(super) fn moved_bytes(&self) -> f64 {
        self.read_bytes + self.write_bytes
    }

    /// Its presence in the tables, and its memory.
    fn memory_use(&self) -> ProcessMemory {
        let (from_s, to_s) = self.span_s;
        let (resident_bytes, swapped_bytes) = (self.resident_bytes, self.swapped_bytes);
        let (held_first, held_bytes) = (self.held_first, self.held_bytes);
        ProcessMemory { from_s, to_s, resident_bytes, swapped_bytes, held_first, held_bytes }
    }

    /// Time that it waited for block I/O, by the kernel's delay accounting or by its sleeps, whichever is more.
    fn waited_s(&self) -> f64 {
        self.delay_s.max(self.blocked_s)
    }

    fn growth_bytes(&self) -> f64 {
        (self.held_bytes - self.held_first).max(0.0)
    }

    /// Processor time of a thread of the kernel that frees or arranges memory; of others 0.
    fn reclaim_processor_s(&self) -> f64 {
        if is_reclaim_thread(&self.name) { self.processor_s } else { 0.0 }
    }

    /// Rough measure of activity; the processes with the least are dropped first.
    fn activity_weight(&self) -> f64 {
        let memory = self.resident_bytes.max(self.held_bytes) + self.swapped_bytes;
        self.processor_s + self.waited_s() + self.major_faults / 100.0 + (self.moved_bytes() + memory) / 1e8
    }
}

/// Processes of one name in one cgroup, such as a server's workers, which are named together.
#[derive(Clone, Debug, Default)]
struct ProcessGroup {
    name: String,
    /// Id of the process that contributed most.
    pid: u32,
    /// The weighted quantities of that process.
    max_activity: f64,
    processes: u32,
    /// Id, weighted quantities and end of presence in the tables of each process.
    members: Vec<(u32, f64, f64)>,
    /// Sums over the processes; memory only after [`ProcessGroup::set_peak_memory`].
    totals: ProcessTotals,
    memory: Vec<ProcessMemory>,
}

impl ProcessGroup {
    /// Adds a process with a share of its I/O, from 0 to 1.
    fn add_process(&mut self, pid: u32, totals: &ProcessTotals, io_share: f64, quantities: &[BlameQuantity]) {
        let activity: f64 = quantities.iter().map(|(quantity, weight)| weight * quantity(totals, io_share)).sum();
        self.members.push((pid, activity, totals.span_s.1));
        // on a tie, the lowest id, so that the answer does not depend on the order
        if self.processes == 0 || (activity, self.pid) > (self.max_activity, pid) {
            (self.pid, self.max_activity) = (pid, activity);
            self.totals.identity.clone_from(&totals.identity);
            self.totals.nice = totals.nice;
            self.totals.files.clone_from(&totals.files);
            self.totals.more_files = totals.more_files;
        }
        self.name.clone_from(&totals.name);
        self.processes += 1;
        self.totals.merge_totals(totals, io_share);
        self.memory.push(totals.memory_use());
    }

    /// Sets the memory of the group to the largest sum that its processes had at the same time.
    fn set_peak_memory(&mut self) {
        let peak = peak_memory(&self.memory);
        (self.totals.resident_bytes, self.totals.swapped_bytes) = (peak.resident_bytes, peak.swapped_bytes);
        (self.totals.held_first, self.totals.held_bytes) = (peak.held_first, peak.held_bytes);
    }
}

/// Name, cgroup, script and niceness of processes that are named together: workers of a server are, two scripts of one
/// interpreter are not.
type GroupKey<'a> = (&'a str, &'a str, Option<&'a str>, Option<i32>);

/// A quantity by which processes are blamed, with a share of their I/O, and its weight.
type BlameQuantity = (fn(&ProcessTotals, f64) -> f64, f64);

const DISK_QUANTITIES: &[BlameQuantity] = &[(|s, io| s.moved_bytes() * io, 0.8), (|s, io| s.waited_s() * io, 0.2)];
const MEMORY_QUANTITIES: &[BlameQuantity] = &[
    (|s, _| s.major_faults, 0.4),
    (|s, _| s.growth_bytes(), 0.2),
    (|s, _| s.swapped_bytes, 0.2),
    (|s, _| s.resident_bytes, 0.2),
];
const GROWTH_QUANTITIES: &[BlameQuantity] = &[(|s, _| s.growth_bytes(), 1.0)];
const PROCESSOR_QUANTITIES: &[BlameQuantity] = &[(|s, _| s.processor_s, 1.0)];
const THREAD_QUANTITIES: &[BlameQuantity] = &[(|s, _| s.busiest_thread_s(), 1.0)];
const REALTIME_QUANTITIES: &[BlameQuantity] = &[(|s, _| s.realtime_processor_s(), 1.0)];
const RECLAIM_QUANTITIES: &[BlameQuantity] = &[(|s, _| s.reclaim_processor_s(), 1.0)];
const CALL_QUANTITIES: &[BlameQuantity] =
    &[(|s, io| (s.read_calls + s.write_calls) * io, 0.5), (|s, io| s.moved_bytes() * io, 0.5)];

impl Culprits {
    /// Bytes written by programs, by name: the kernel counts them when pages become dirty.
    pub fn written_bytes_by_name(&self) -> HashMap<String, f64> {
        let mut written: HashMap<String, f64> = HashMap::new();
        for ((_, name), totals) in &self.processes {
            *written.entry(name.clone()).or_default() += totals.write_bytes;
        }
        written
    }

    /// Bytes per second that processes read from disks, inside and outside of some cgroups.
    pub fn read_rates_by_side(&self, groups: &[&str]) -> [f64; 2] {
        let mut bytes = [0.0; 2];
        for totals in self.processes.values() {
            let is_inside = groups.iter().any(|group| is_in_cgroup(&totals.cgroup, group));
            bytes[usize::from(!is_inside)] += totals.read_bytes;
        }
        bytes.map(|bytes| if self.seconds > 0.0 { bytes / self.seconds } else { 0.0 })
    }

    /// Adds a process table.
    pub fn add_table(&mut self, table: &ProcessTable) {
        if !(table.elapsed_s > 0.0 && table.elapsed_s.is_finite()) {
            return;
        }
        let from_s = self.seconds;
        self.seconds += table.elapsed_s;
        self.sleeps.add_table(table);
        self.listed.add_table(table);
        self.unreadable = self.unreadable.max(table.unreadable);
        for row in &table.rows {
            let totals = self.processes.entry((row.pid, stable_task_name(&row.name).to_owned())).or_default();
            totals.add_row(row, table.elapsed_s, (from_s, self.seconds));
        }
        if self.processes.len() > 2 * MAX_PROCESSES {
            let mut ranked: Vec<_> = self.processes.drain().map(|entry| (entry.1.activity_weight(), entry)).collect();
            // ties go to the lowest ids, so that not all of thousands of equal processes are dropped
            ranked.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.0.cmp(&b.1.0)));
            self.processes.extend(ranked.into_iter().take(MAX_PROCESSES).map(|(_, entry)| entry));
        }
    }

    /// The processes that contribute most to the bottleneck; for a cgroup only its own processes, and for one disk
    /// among several, each process by the part of its I/O that can have been on that disk.
    pub fn for_bottleneck(
        &self,
        bottleneck: Bottleneck,
        cgroup: Option<&str>,
        blamed: Option<&BlamedDisk>,
    ) -> Vec<Culprit> {
        self.for_loaded_disk(bottleneck, cgroup, blamed, None)
    }

    /// The same, where the bytes per second that the disk wrote are known: a process that wrote more wrote into memory.
    pub fn for_loaded_disk(
        &self,
        bottleneck: Bottleneck,
        cgroup: Option<&str>,
        blamed: Option<&BlamedDisk>,
        disk_writes: Option<f64>,
    ) -> Vec<Culprit> {
        let quantities = match bottleneck {
            Bottleneck::Memory => MEMORY_QUANTITIES,
            Bottleneck::Cpu | Bottleneck::Interrupts => PROCESSOR_QUANTITIES,
            Bottleneck::Application => CALL_QUANTITIES,
            Bottleneck::Disk | Bottleneck::Channel | Bottleneck::Controller | Bottleneck::Throttle => DISK_QUANTITIES,
            Bottleneck::Network | Bottleneck::None | Bottleneck::Unknown => return self.cgroup_culprit(cgroup),
        };
        self.rank_processes(quantities, &BlameScope { bottleneck, cgroup, blamed, disk_writes })
    }

    /// The program whose memory grew most from its first table to its last, if it made at least this share of all
    /// growth, and grew by so many bytes.
    pub fn growing_program(&self, min_share: f64, min_bytes: f64) -> Option<GrowingProgram> {
        let ranked = self.rank_processes(GROWTH_QUANTITIES, &BlameScope::of(Bottleneck::Memory));
        let culprit =
            ranked.into_iter().next().filter(|culprit| culprit.share.is_some_and(|share| share >= min_share))?;
        let is_named = |(pid, name): &(u32, String)| *name == culprit.name && Some(*pid) == culprit.pid;
        let (_, totals) = self.processes.iter().find(|(key, _)| is_named(key))?;
        let of_program = self.processes.iter().filter(|((_, name), _)| *name == culprit.name);
        let grown_bytes: f64 = of_program.map(|(_, totals)| totals.growth_bytes()).sum();
        (grown_bytes >= min_bytes).then_some(GrowingProgram {
            culprit,
            from_bytes: totals.held_first,
            to_bytes: totals.held_bytes,
        })
    }

    /// Processes with the busiest single threads.
    pub fn with_busiest_threads(&self) -> Vec<Culprit> {
        self.rank_processes(THREAD_QUANTITIES, &BlameScope::of(Bottleneck::Cpu))
    }

    /// Processes of a real-time class by their processor time; all processes where the class is that of threads.
    pub fn of_realtime_class(&self) -> Vec<Culprit> {
        let has_any = self.processes.values().any(|totals| totals.realtime_processor_s() > 0.0);
        let quantities = if has_any { REALTIME_QUANTITIES } else { PROCESSOR_QUANTITIES };
        self.rank_processes(quantities, &BlameScope::of(Bottleneck::Cpu))
    }

    /// Threads of the kernel that free and arrange memory.
    pub fn of_reclaim_threads(&self) -> Vec<Culprit> {
        self.rank_processes(RECLAIM_QUANTITIES, &BlameScope::of(Bottleneck::Cpu))
    }

    /// Activity and waits of the programs, for verdicts that blame nothing.
    pub fn program_activities(&self, has_commands: bool) -> Vec<ProgramActivity> {
        let mut groups: BTreeMap<&str, ProcessGroup> = BTreeMap::new();
        let mut processes: Vec<_> = self.processes.iter().collect();
        processes.sort_by_key(|(key, _)| *key);
        for ((pid, name), totals) in processes {
            groups.entry(name).or_default().add_process(
                *pid,
                totals,
                1.0,
                &[(|t, io| t.processor_s + t.waited_s() * io, 1.0)],
            );
        }
        let activity = |group: ProcessGroup| Activity {
            processor: group.totals.processor_s / self.seconds,
            // share of the window; of several processes at once, the share of each
            blocked: (group.totals.waited_s() / group.totals.seconds.max(self.seconds)).min(1.0),
            name: group.name,
            pid: group.pid,
            processes: group.processes,
            waits_in: group.totals.waits_in,
        };
        self.sleeps.describe_programs(&groups.into_values().map(activity).collect::<Vec<_>>(), has_commands)
    }

    /// Culprits by their weighted share of the quantities, the largest first; of a disk, those that move bytes come
    /// before those that only wait for it.
    fn rank_processes(&self, quantities: &[BlameQuantity], scope: &BlameScope<'_>) -> Vec<Culprit> {
        let mut found = self.cgroup_culprit(scope.cgroup);
        let is_member = |totals: &ProcessTotals| scope.cgroup.is_none_or(|path| is_in_cgroup(&totals.cgroup, path));
        let mut groups: BTreeMap<GroupKey<'_>, ProcessGroup> = BTreeMap::new();
        let mut members: Vec<_> = self.processes.iter().filter(|(_, totals)| is_member(totals)).collect();
        // floating-point sums depend on the order, so it is fixed
        members.sort_by_key(|(key, _)| *key);
        for ((pid, name), totals) in members {
            let key = (name.as_str(), totals.cgroup.as_str(), totals.identity.script(), totals.nice);
            let group = groups.entry(key).or_default();
            let io_share = scope.blamed.map_or(1.0, |disk| disk.process_share(totals, self.seconds));
            group.add_process(*pid, totals, io_share, quantities);
        }
        groups.values_mut().for_each(ProcessGroup::set_peak_memory);
        let quantity_sums: Vec<f64> = quantities
            .iter()
            .map(|(quantity, _)| groups.values().map(|group| quantity(&group.totals, 1.0)).sum())
            .collect();
        let moved_bytes: f64 = groups.values().map(|group| group.totals.moved_bytes()).sum();
        let only_waits = |group: &ProcessGroup| {
            std::ptr::eq(quantities, DISK_QUANTITIES)
                && moved_bytes > 0.0
                && group.totals.moved_bytes() < MIN_NAMED_SHARE * moved_bytes
        };
        let mut shares: Vec<(f64, ProcessGroup)> = groups
            .into_values()
            .map(|group| (weighted_share(&group.totals, quantities, &quantity_sums), group))
            .filter(|(share, _)| *share >= MIN_NAMED_SHARE)
            .collect();
        // by share, then by id: the answer must not depend on the order of a hash map
        shares.sort_by(|(a_share, a), (b_share, b)| {
            only_waits(a).cmp(&only_waits(b)).then(b_share.total_cmp(a_share)).then(a.pid.cmp(&b.pid))
        });
        found.extend(
            shares.into_iter().take(MAX_NAMED).map(|(share, group)| group.to_culprit(share, scope, self.seconds)),
        );
        found
    }

    fn cgroup_culprit(&self, cgroup: Option<&str>) -> Vec<Culprit> {
        let Some(path) = cgroup else { return Vec::new() };
        // its processes may know the name of its container
        let own = self.processes.iter().filter(|(_, totals)| totals.cgroup == path).min_by_key(|(key, _)| *key);
        let identity = own.map(|(_, totals)| totals.identity.clone()).unwrap_or_default();
        vec![Culprit {
            kind: "cgroup".into(),
            name: path.to_owned(),
            cgroup: path.to_owned(),
            place: identity.place_in(path),
            description: "the cgroup of the finding".into(),
            ..Culprit::default()
        }]
    }
}

/// What is blamed, and what is known of it.
struct BlameScope<'a> {
    bottleneck: Bottleneck,
    cgroup: Option<&'a str>,
    blamed: Option<&'a BlamedDisk>,
    /// Bytes per second that the blamed disk wrote.
    disk_writes: Option<f64>,
}

impl BlameScope<'_> {
    fn of(bottleneck: Bottleneck) -> BlameScope<'static> {
        BlameScope { bottleneck, cgroup: None, blamed: None, disk_writes: None }
    }

    /// Bytes per second that the disk wrote, where processes are known to write to it.
    fn disk_writes_of(&self, totals: &ProcessTotals) -> Option<f64> {
        self.disk_writes.filter(|_| self.blamed.is_none_or(|disk| disk.is_used_by(totals)))
    }
}

impl ProcessGroup {
    /// The most active processes of the group, which has this share of the blamed activity of all.
    fn active_members(&self, share: f64, seconds: f64) -> Vec<CulpritProcess> {
        let whole: f64 = self.members.iter().map(|(_, activity, _)| activity).sum();
        let member = |(pid, activity, until_s): &(u32, f64, f64)| CulpritProcess {
            pid: *pid,
            share: if whole > 0.0 { share * activity / whole } else { 0.0 },
            is_in_last_table: *until_s >= seconds,
        };
        let mut members: Vec<CulpritProcess> = self.members.iter().map(member).collect();
        members.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.pid.cmp(&b.pid)));
        members.truncate(MAX_NAMED);
        members
    }

    fn to_culprit(&self, share: f64, scope: &BlameScope<'_>, seconds: f64) -> Culprit {
        let totals = &self.totals;
        // cgroups and open files show which disk a process uses; its byte counts do not
        let doubt_text = match scope.blamed {
            Some(disk) if !disk.cgroup_shares.contains_key(&totals.cgroup) && !disk.is_used_by(totals) => {
                " (by total I/O; the log does not show which disk)"
            }
            _ => "",
        };
        let files = relevant_files(totals, scope.bottleneck, scope.blamed);
        let description = activity_text(totals, self.processes, scope, seconds)
            + &open_files_text(&files, totals.more_files)
            + doubt_text;
        let (user, command_line) = totals.identity.user_and_command();
        let rate_of = |bytes: f64| (bytes > 0.0).then(|| bytes / seconds);
        Culprit {
            kind: "process".into(),
            pid: Some(self.pid),
            name: self.name.clone(),
            cgroup: totals.cgroup.clone(),
            user,
            command_line,
            statement: None,
            place: totals.identity.place_in(&totals.cgroup),
            realtime_priority: totals.realtime_priority,
            nice: totals.nice,
            read_bytes_per_s: rate_of(totals.read_bytes),
            write_bytes_per_s: rate_of(totals.write_bytes),
            members: self.active_members(share, seconds),
            processes: self.processes,
            share: Some(share),
            thread: totals.busiest_thread().map(|(thread, _)| thread.clone()),
            files,
            description,
        }
    }
}

/// Weighted mean of a group's shares of the quantities; `quantity_sums` are those of all groups, and a quantity whose
/// sum is zero is skipped.
fn weighted_share(totals: &ProcessTotals, quantities: &[BlameQuantity], quantity_sums: &[f64]) -> f64 {
    let (mut weighted_shares, mut weights) = (0.0, 0.0);
    for ((quantity, weight), sum) in quantities.iter().zip(quantity_sums).filter(|(_, sum)| **sum > 0.0) {
        weighted_shares += weight * quantity(totals, 1.0) / sum;
        weights += weight;
    }
    if weights > 0.0 { weighted_shares / weights } else { 0.0 }
}

/// Open files of a process on the blamed disk, or on an unknown one; empty for bottlenecks that do not concern disks.
fn relevant_files(totals: &ProcessTotals, bottleneck: Bottleneck, blamed: Option<&BlamedDisk>) -> Vec<FileRow> {
    if !concerns_disks(bottleneck) {
        return Vec::new();
    }
    let may_be_on_disk =
        |file: &&FileRow| file.disks.is_empty() || blamed.is_none_or(|blamed| file.disks.contains(&blamed.name));
    totals.files.iter().filter(may_be_on_disk).cloned().collect()
}

/// True where open files on the blamed disk tell who uses it.
fn concerns_disks(bottleneck: Bottleneck) -> bool {
    !matches!(bottleneck, Bottleneck::Cpu | Bottleneck::Interrupts | Bottleneck::Memory)
}

#[cfg(test)]
mod tests;
