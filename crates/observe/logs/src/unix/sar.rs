//! sar of Solaris, AIX and HP-UX: a table for each quantity, over the whole time, in succession. Rows of disks after
//! the first have no time of their own.

use std::collections::{BTreeMap, BTreeSet};

use diskwright_base::counter_ids::{memory, paging, physical_disk, processor, system};
use diskwright_base::text::is_same_host;
use diskwright_base::{Note, Topology};

use crate::batch::FrameBatch;
use crate::daylight_clock::{self, DaylightClock};
use crate::error::LogError;
use crate::level_row::LevelRow;
use crate::sysstat::clock::{SysstatClock, ZoneHint};
use crate::sysstat::heading_table::parse_cell;
use crate::sysstat::stream_window::StreamWindow;
use crate::sysstat::time::{self, DAY_S, NumericDateOrder, parse_time_of_day};
use crate::value_limits::{ShareFault, find_percent_fault};
use crate::{InputHead, LogInput, LogOptions};

/// Largest number of values that are held, because tables are joined by time.
const MAX_HELD_VALUES: usize = 16 << 20;
const KIB: f64 = 1024.0;
const RESTART_NOTE: &str = "the machine was restarted";
const NEXT_FILE_NOTE: &str = "nothing was recorded up to the beginning of the next file of sar";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SarSystem {
    Solaris,
    Aix,
    HpUx,
}

/// Quantity of a table's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnixSarTable {
    Processors,
    Disks,
    Queue,
    Memory,
    PagingOut,
    PagingIn,
    /// AIX's paging: `slots cycle/s fault/s odio/s`.
    AixPaging,
    Switches,
    Calls,
    /// Not read.
    Other,
}

/// Detects the table of headings, which are words without a number among them.
fn detect_table(words: &[&str]) -> Option<UnixSarTable> {
    let has = |heading: &str| words.contains(&heading);
    let is_heading = !words.is_empty() && words.iter().all(|word| parse_cell(word, 1.0).is_none());
    let table = if has("%usr") && has("%wio") && has("%idle") {
        UnixSarTable::Processors
    } else if has("device") && has("%busy") && has("avserv") {
        UnixSarTable::Disks
    } else if has("runq-sz") && has("%runocc") {
        UnixSarTable::Queue
    } else if has("freemem") && has("freeswap") {
        UnixSarTable::Memory
    } else if has("pgout/s") && has("pgscan/s") {
        UnixSarTable::PagingOut
    } else if has("pgin/s") && has("pflt/s") {
        UnixSarTable::PagingIn
    } else if has("slots") && has("cycle/s") {
        UnixSarTable::AixPaging
    } else if words == ["cswch/s"] || (has("pswch/s") && has("swpin/s")) {
        UnixSarTable::Switches
    } else if has("scall/s") && has("fork/s") {
        UnixSarTable::Calls
    } else {
        UnixSarTable::Other
    };
    is_heading.then_some(table)
}

/// Parses `SunOS host 5.11 11.3 sun4v    05/26/2017` into system, host and date.
fn parse_first_line(line: &str) -> Option<(&str, &str, &str)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        ["SunOS" | "AIX" | "HP-UX", host, .., date] if date.contains('/') && date.len() >= 8 => {
            Some((words[0], host, date))
        }
        _ => None,
    }
}

pub(super) fn is_unix_sar(head: &InputHead<'_>) -> bool {
    head.text_lines().any(|line| parse_first_line(&line).is_some())
}

struct UnixSarLog<'b, 'c> {
    file: String,
    batch: &'c mut FrameBatch<'b>,
    clock: SysstatClock,
    /// State of the clock in this table.
    daylight: DaylightClock,
    /// State of the clock at the beginning of this file.
    initial_daylight: DaylightClock,
    /// Times when the clocks changed: each table shows them.
    clock_changes: BTreeSet<i64>,
    order: NumericDateOrder,
    system: SarSystem,
    /// Machine to read: the user's, else the first.
    chosen_host: Option<String>,
    /// Machine that is read, once its first line came.
    host: String,
    /// Set below the first line of another machine.
    is_other_host: bool,
    /// Midnight of the first line's date, seconds since 1970.
    midnight_s: i64,
    /// Days since that midnight in this table.
    midnights: i64,
    last_clock_s: i64,
    table: Option<(UnixSarTable, Vec<String>)>,
    /// Index behind each heading of the table in its line.
    heading_ends: Vec<usize>,
    /// Time of a row of queues that is blank behind its time: it counts once the next line shows that it is complete.
    blank_ns: Option<i64>,
    /// Time of the current row.
    time_ns: Option<i64>,
    /// Starts of intervals that do not begin with the previous row, and the reason: at headings, and at restarts.
    starts: BTreeMap<i64, &'static str>,
    /// Values by time: counter, instance, value.
    rows: BTreeMap<i64, Vec<(&'static str, u32, f64)>>,
    instances: Vec<String>,
    held_values: usize,
    line_number: u64,
}

/// Reads all of an input.
pub(super) fn read(input: &mut LogInput, options: &LogOptions, batch: &mut FrameBatch<'_>) -> Result<(), LogError> {
    let head = input.head().text_lines().collect::<Vec<_>>().join("\n");
    let date = head.lines().find_map(parse_first_line).map_or("", |(_, _, date)| date);
    let mut stream = StreamWindow::new(input);
    let mut log = UnixSarLog {
        file: stream.name().to_owned(),
        batch,
        clock: SysstatClock::new(options),
        daylight: DaylightClock::default(),
        initial_daylight: DaylightClock::default(),
        clock_changes: BTreeSet::new(),
        // these systems print 24-hour clocks with American dates
        order: if date.is_empty() { time::guess_date_order(&head, date) } else { NumericDateOrder::MonthFirst },
        system: SarSystem::Solaris,
        chosen_host: options.host.clone(),
        host: String::new(),
        is_other_host: false,
        midnight_s: 0,
        midnights: 0,
        last_clock_s: 0,
        table: None,
        heading_ends: Vec::new(),
        blank_ns: None,
        time_ns: None,
        starts: BTreeMap::new(),
        rows: BTreeMap::new(),
        instances: vec![String::new()],
        held_values: 0,
        line_number: 0,
    };
    while let Some(text) = stream.next_text_line(log.batch, &mut log.line_number)? {
        log.read_line(&text)?;
    }
    log.emit_ticks();
    Ok(())
}

impl UnixSarLog<'_, '_> {
    fn add_skip(&mut self, because: &str) {
        self.batch.add_skip(format!("line {}", self.line_number), because);
    }

    /// Begins a file of sar at its first line; a log may hold several files.
    fn begin_file(&mut self, system: &str, host: &str, date: &str) {
        let chosen = self.chosen_host.get_or_insert_with(|| host.to_owned());
        self.is_other_host = !is_same_host(chosen, host);
        if self.is_other_host {
            return self.batch.add_other_host(format!("line {}", self.line_number), host);
        }
        if self.host.is_empty() {
            host.clone_into(&mut self.host);
        }
        self.system = match system {
            "AIX" => SarSystem::Aix,
            "HP-UX" => SarSystem::HpUx,
            _ => SarSystem::Solaris,
        };
        self.midnight_s = time::parse_date(date, self.order).map_or(0, |read| read.date.days_since_epoch() * DAY_S);
        (self.table, self.time_ns, self.midnights) = (None, None, 0);
        // the next file may cover the same hours
        self.daylight.forget_last_sample();
        self.initial_daylight = self.daylight;
    }

    fn read_line(&mut self, text: &str) -> Result<(), LogError> {
        if let Some(time_ns) = self.blank_ns.take() {
            self.hold_values(time_ns, "", vec![(QUEUE_COUNTER, 0.0)])?;
        }
        if let Some((system, host, date)) = parse_first_line(text) {
            self.begin_file(system, host, date);
            return Ok(());
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        if words.is_empty() || self.is_other_host || text.starts_with("System configuration") {
            return Ok(());
        }
        if words[0] == "Average" {
            // further averages of disks come without the word
            self.time_ns = None;
            return Ok(());
        }
        let Some((clock, words_used)) = parse_time_of_day(&words) else {
            if self.table.is_none() {
                self.add_skip("neither headings nor a row under headings");
            }
            return self.read_row(&words);
        };
        let rest = &words[words_used..];
        let is_queue = self.table.as_ref().is_some_and(|(table, _)| *table == UnixSarTable::Queue);
        if rest.is_empty() && !is_queue {
            self.time_ns = None;
            return Ok(());
        }
        if rest.contains(&"restarts") {
            self.time_ns = None;
            let restart = self.resolve_time(clock);
            self.daylight.forget_last_sample();
            self.starts.insert(restart, RESTART_NOTE);
            return Ok(());
        }
        if let Some(found) = detect_table(rest) {
            self.heading_ends = word_ends(text).split_off(words_used);
            self.table = Some((found, rest.iter().map(|word| (*word).to_owned()).collect()));
            (self.midnights, self.last_clock_s, self.time_ns) = (0, clock, None);
            self.daylight = self.initial_daylight;
            let start = self.resolve_time(clock);
            self.starts.entry(start).or_insert(NEXT_FILE_NOTE);
            return Ok(());
        }
        self.time_ns = Some(self.resolve_time(clock));
        if is_queue { self.read_queues(rest, &word_ends(text)[words_used..]) } else { self.read_row(rest) }
    }

    /// Returns UTC of a time of day in a table, whose rows may pass midnight.
    fn resolve_time(&mut self, clock: i64) -> i64 {
        self.midnights += i64::from(clock + DAY_S / 2 < self.last_clock_s);
        self.last_clock_s = clock;
        let local = self.midnight_s + self.midnights * DAY_S + clock;
        let time_ns = self.clock.utc_ns(local, &ZoneHint::Missing, self.batch);
        let (time_ns, is_changed) = self.daylight.follow_sample(time_ns, local.saturating_mul(1_000_000_000));
        if is_changed {
            self.clock_changes.insert(time_ns);
        }
        time_ns
    }

    /// Reads a row of queues, some of whose cells may be blank; `cell_ends` holds the indexes where its cells end.
    fn read_queues(&mut self, cells: &[&str], cell_ends: &[usize]) -> Result<(), LogError> {
        if cells.is_empty() {
            self.blank_ns = self.time_ns;
            return Ok(());
        }
        match cells.len() < self.heading_ends.len() {
            true => self.read_row(&fill_blanks(cells, cell_ends, &self.heading_ends)),
            false => self.read_row(cells),
        }
    }

    /// Reads a row under its headings, without its time.
    fn read_row(&mut self, words: &[&str]) -> Result<(), LogError> {
        let (Some((table, names)), Some(time_ns)) = (self.table.clone(), self.time_ns) else { return Ok(()) };
        if table == UnixSarTable::Other {
            return Ok(());
        }
        // tables of single processors (-P) have an additional column
        let is_disk = table == UnixSarTable::Disks;
        if words.len() != names.len() {
            self.add_skip("a row whose number of cells differs from its headings");
            return Ok(());
        }
        let first_value = usize::from(is_disk || names.first().is_some_and(|name| name == "cpu"));
        let cells: Option<Vec<(&str, f64)>> = names[first_value..]
            .iter()
            .zip(&words[first_value..])
            .map(|(name, word)| parse_cell(word, 1.0).filter(|v| (0.0..1e15).contains(v)).map(|v| (name.as_str(), v)))
            .collect();
        let Some(cells) = cells else {
            self.add_skip("a cell that is not a number, or an impossible one");
            return Ok(());
        };
        let instance = if first_value == 1 { words[0] } else { "" };
        let values = match table {
            UnixSarTable::Processors => match processor_values(&cells) {
                Ok(values) => values,
                Err(because) => {
                    self.add_skip(because);
                    return Ok(());
                }
            },
            UnixSarTable::Disks => match not_a_disk_reason(self.system, instance) {
                Some(because) => {
                    self.add_skip(because);
                    return Ok(());
                }
                None => disk_values(&cells, self.system),
            },
            _ => single_values(table, &cells),
        };
        let instance = match table {
            UnixSarTable::Processors if matches!(instance, "" | "-" | "ALL" | "U") => "_total".to_owned(),
            UnixSarTable::Processors => format!("cpu{instance}"),
            _ => instance.to_owned(),
        };
        self.hold_values(time_ns, &instance, values)
    }

    fn hold_values(&mut self, time_ns: i64, instance: &str, values: Vec<(&'static str, f64)>) -> Result<(), LogError> {
        let index = match self.instances.iter().position(|known| known == instance) {
            Some(known) => known,
            None => {
                self.instances.push(instance.to_owned());
                self.instances.len() - 1
            }
        };
        self.held_values += values.len();
        if self.held_values > MAX_HELD_VALUES {
            let because = "the tables are too long for memory; print a shorter time range";
            return Err(LogError::broken(&self.file, format!("line {}", self.line_number), because));
        }
        let row = self.rows.entry(time_ns).or_default();
        row.extend(values.into_iter().map(|(counter, value)| (counter, index as u32, value)));
        Ok(())
    }

    fn emit_ticks(&mut self) {
        let mut row = LevelRow::default();
        let (mut previous_ns, mut is_announced): (Option<i64>, bool) = (None, false);
        for (time_ns, values) in std::mem::take(&mut self.rows) {
            for (counter, instance, value) in values {
                row.put_value(counter, &self.instances[instance as usize], value);
            }
            if !is_announced {
                is_announced = true;
                self.batch.push_topology(time_ns, &Topology { host: self.host.clone(), ..Topology::default() });
            }
            if let Some((&start, because)) = self.starts.range(..time_ns).next_back()
                && previous_ns.is_none_or(|previous_ns| previous_ns < start)
            {
                if previous_ns.is_some() {
                    self.batch.push_note(Note::new(start, Note::GAP, *because));
                }
                previous_ns = Some(start);
            }
            while let Some(change) = self.clock_changes.first().copied().filter(|change| *change <= time_ns) {
                self.clock_changes.remove(&change);
                self.batch.push_note(Note::new(change, Note::CLOCK, daylight_clock::CLOCK_CHANGE_NOTE));
            }
            let elapsed = previous_ns.and_then(|previous_ns| u64::try_from(time_ns.saturating_sub(previous_ns)).ok());
            row.emit_tick(self.batch, time_ns, elapsed);
            previous_ns = Some(time_ns);
            if self.batch.is_stopped() {
                return;
            }
        }
        if self.midnight_s == 0 && previous_ns.is_some() {
            let text = "the log's first line has no date: times are counted from 1970";
            self.batch.push_note(Note::new(previous_ns.unwrap_or(0), Note::WARNING, text));
        }
    }
}

/// Counter of a run queue's length.
const QUEUE_COUNTER: &str = system::PROCESSOR_QUEUE_LENGTH;

/// Returns the index behind each word of a line.
fn word_ends(line: &str) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut is_in_word = false;
    for (index, letter) in line.char_indices() {
        if is_in_word && letter.is_whitespace() {
            ends.push(index);
        }
        is_in_word = !letter.is_whitespace();
    }
    if is_in_word {
        ends.push(line.len());
    }
    ends
}

/// Returns a row of queues with 0 if a cell is blank: “a blank value in any column indicates that the associated
/// queue is empty” (AIX, sar command). A word belongs to the heading that ends nearest to it.
fn fill_blanks<'w>(words: &[&'w str], ends: &[usize], headings: &[usize]) -> Vec<&'w str> {
    let mut cells = vec!["0"; headings.len()];
    for (word, end) in words.iter().zip(ends) {
        let nearest = (0..headings.len()).min_by_key(|index| headings[*index].abs_diff(*end));
        nearest.into_iter().for_each(|index| cells[index] = word);
    }
    cells
}

/// Drivers of Solaris' host adapters and their ports, which sar -d lists among the disks.
const ADAPTER_DRIVERS: [&str; 11] =
    ["mpt", "mpt_sas", "mr_sas", "fp", "qlc", "emlxs", "glm", "isp", "ahci", "iscsi", "scsi_vhc"];

fn is_adapter(name: &str) -> bool {
    ADAPTER_DRIVERS.contains(&name.trim_end_matches(|c: char| c.is_ascii_digit()))
}

/// Returns the reason why a row is not a disk's own. Parts of disks (`sd0,a`) are in their disks' rows.
fn not_a_disk_reason(system: SarSystem, name: &str) -> Option<&'static str> {
    let is_of_server = name.strip_prefix("nfs").is_some_and(|n| n.starts_with(|c: char| c.is_ascii_digit()));
    match system {
        SarSystem::Solaris if name.contains(',') => Some("a partition whose disk has its own row"),
        SarSystem::Solaris if is_of_server => Some("a file server, not a disk"),
        SarSystem::Solaris if name.contains(".t") => Some("a path to a disk, whose requests are in the disk's row"),
        SarSystem::Solaris if is_adapter(name) => Some("an adapter, whose requests are in its disks' rows"),
        _ => None,
    }
}

type SarValues = Vec<(&'static str, f64)>;

/// Returns the shares of a processor; integers whose sum misses 100 by at most one each are accepted as rounded.
fn processor_values(cells: &[(&str, f64)]) -> Result<SarValues, &'static str> {
    const SHARE_COLUMNS: [(&str, &str); 4] = [
        ("%usr", processor::USER),
        // all time of the system, interrupts included
        ("%sys", processor::PRIVILEGED),
        ("%wio", processor::IOWAIT),
        ("%idle", processor::IDLE),
    ];
    let share = |heading: &str| cells.iter().find(|(name, _)| *name == heading).map(|(_, share)| *share);
    let shares: SarValues = SHARE_COLUMNS.iter().filter_map(|(name, counter)| Some((*counter, share(name)?))).collect();
    let values: Vec<f64> = shares.iter().map(|(_, share)| *share).collect();
    let sum_error = (values.iter().sum::<f64>() - 100.0).abs();
    match find_percent_fault(&values) {
        Some(fault) if sum_error > values.len() as f64 || fault != ShareFault::Sum => Err(fault.to_reason()),
        _ => Ok(shares.into_iter().map(|(counter, share)| (counter, share / 100.0)).collect()),
    }
}

/// Returns the values of a disk. sar(1) and sar(1M): `%busy`; `r+w/s`; `blks/s` of 512 bytes, on AIX `Kbs/s`; `avwait`
/// and `avserv` in ms, waiting and service time. Solaris' `avque` counts requests in flight, those in service included.
/// AIX counts only those that wait, and HP-UX begins at 0.5: these keep their own name.
fn disk_values(cells: &[(&str, f64)], system: SarSystem) -> SarValues {
    let value = |heading: &str| cells.iter().find(|(name, _)| *name == heading).map(|(_, value)| *value);
    let mut values = SarValues::new();
    let mut put = |counter: &'static str, value: Option<f64>| {
        if let Some(value) = value {
            values.push((counter, value));
        }
    };
    put(physical_disk::BUSY, value("%busy").map(|share| share / 100.0));
    put(physical_disk::TRANSFERS_PER_S, value("r+w/s"));
    put(physical_disk::BYTES_PER_S, value("blks/s").map(|blocks| blocks * 512.0).or(value("Kbs/s").map(|k| k * KIB)));
    let is_idle = value("r+w/s") == Some(0.0);
    let response = value("avwait").zip(value("avserv")).map(|(wait, service)| (wait + service) * 1e-3);
    put(physical_disk::AVG_S_PER_TRANSFER, response.filter(|_| !is_idle));
    let is_solaris = system == SarSystem::Solaris;
    let queue_counter = if is_solaris { physical_disk::AVG_QUEUE_LENGTH } else { "foreign.sar.avque" };
    put(queue_counter, value("avque"));
    values
}

fn single_values(table: UnixSarTable, cells: &[(&str, f64)]) -> SarValues {
    let columns: &[(&str, &'static str, f64)] = match table {
        UnixSarTable::Queue => &[("runq-sz", QUEUE_COUNTER, 1.0)],
        // freemem counts pages, whose size the text does not give; freeswap blocks of 512 bytes
        UnixSarTable::Memory => &[("freeswap", memory::SWAP_FREE_BYTES, 512.0)],
        UnixSarTable::PagingOut => {
            &[("pgscan/s", paging::SCANNED_PAGES_PER_S, 1.0), ("pgfree/s", paging::STOLEN_PAGES_PER_S, 1.0)]
        }
        UnixSarTable::PagingIn => &[("vflt/s", paging::FAULTS_PER_S, 1.0)],
        UnixSarTable::AixPaging => &[("fault/s", paging::FAULTS_PER_S, 1.0)],
        UnixSarTable::Switches => {
            &[("cswch/s", system::CONTEXT_SWITCHES_PER_S, 1.0), ("pswch/s", system::CONTEXT_SWITCHES_PER_S, 1.0)]
        }
        UnixSarTable::Calls => &[("scall/s", system::SYSTEM_CALLS_PER_S, 1.0), ("fork/s", system::FORKS_PER_S, 1.0)],
        UnixSarTable::Processors | UnixSarTable::Disks | UnixSarTable::Other => &[],
    };
    let value = |heading: &str| cells.iter().find(|(name, _)| *name == heading).map(|(_, value)| *value);
    columns.iter().filter_map(|(name, counter, scale)| Some((*counter, value(name)? * scale))).collect()
}
