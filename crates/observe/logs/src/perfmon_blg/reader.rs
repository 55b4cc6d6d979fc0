//! Reader of a log, event by event.

use std::collections::HashMap;

use diskwright_base::Topology;
use diskwright_base::text::is_same_host;

use super::byte_view::ByteView;
use super::counter_formula::{self, CompanionValue};
use super::counter_list::{self, CounterRequest};
use super::event_trace::{self, BlgEvent, BlgHeader, BlgTrace};
use super::rows::BlgRows;
use super::sample::{self, CounterDefinition, Object, PerfDataBlockHeader};
use crate::daylight_clock::DaylightClock;
use crate::nt::CounterPath;
use crate::{FrameBatch, LogError, LogInput, LogOptions, Skips};

/// Time from 1601 to 1970, in 100 ns.
const UNIX_EPOCH_100NS: i64 = 116_444_736_000_000_000;
/// A minute, in 100 ns.
const MINUTE_100NS: i64 = 600_000_000;
/// Largest difference between UTC and local time, in 100 ns.
const MAX_OFFSET_100NS: u64 = 15 * 60 * 600_000_000;
/// Largest number of objects with different counters that are followed.
const MAX_GROUPS: usize = 4096;

struct BlgReader<'a, 'b> {
    batch: &'a mut FrameBatch<'b>,
    file: String,
    skips: Skips,
    rows: BlgRows,
    names: HashMap<u32, String>,
    requests: Vec<CounterRequest>,
    /// By object: the number of its current group, and that group's counters in the order of its blocks.
    groups: HashMap<u32, (u32, Vec<CounterDefinition>)>,
    /// Number of groups so far; an object whose counters change begins another.
    group_count: u32,
    /// Machine that is read; the first one if the user chose none.
    host: Option<String>,
    /// Local time less UTC, in 100 ns.
    local_offset_100ns: Option<i64>,
    /// For samples that give only their local time.
    daylight: DaylightClock,
    is_announced: bool,
}

/// Time that a sample gives, 100 ns since 1601.
#[derive(Default)]
struct BlgTime {
    utc: Option<u64>,
}

/// Reads a log to its end.
pub(super) fn read(
    input: &mut LogInput,
    header: &BlgHeader,
    options: &LogOptions,
    batch: &mut FrameBatch<'_>,
) -> Result<(), LogError> {
    let file = input.name().to_owned();
    let mut reader = BlgReader {
        batch,
        file: file.clone(),
        skips: Skips::default(),
        rows: BlgRows::default(),
        names: HashMap::new(),
        requests: Vec::new(),
        groups: HashMap::new(),
        group_count: 0,
        host: options.host.clone(),
        local_offset_100ns: options.utc_offset_s.map(|s| i64::from(s) * 10_000_000),
        daylight: DaylightClock::default(),
        is_announced: false,
    };
    let mut events = BlgTrace::new(input, header);
    let done = loop {
        match events.next_event(&mut reader.skips) {
            Ok(Some(event)) => reader.read_event(&event, header)?,
            Ok(None) => break Ok(()),
            Err(error) => break Err(LogError::io(&file, error)),
        }
        if reader.batch.is_stopped() {
            break Ok(());
        }
    };
    reader.rows.flush_frame(reader.batch);
    reader.batch.merge_skips(reader.skips);
    done
}

impl BlgReader<'_, '_> {
    fn read_event(&mut self, event: &BlgEvent, header: &BlgHeader) -> Result<(), LogError> {
        let context = || format!("byte {}", event.offset);
        match event.kind {
            event_trace::NAMES_EVENT => {
                if !counter_list::read_names(&event.content, &mut self.names) {
                    self.skips.add_skip(context(), "a table of names that is not understood");
                }
            }
            event_trace::COUNTER_LIST_EVENT => {
                let (requests, broken) = counter_list::read_counters(&event.content);
                if let Some(broken) = broken {
                    self.skips.add_skip(context(), broken);
                }
                self.requests = requests;
            }
            event_trace::SAMPLE_EVENT => self.read_sample(event, header)?,
            // a summary of the log, for readers that do not read all of it
            event_trace::SUMMARY_EVENT => {}
            kind => self.skips.add_skip(context(), format!("events of kind {kind:#x}, which are not understood")),
        }
        Ok(())
    }

    fn read_sample(&mut self, event: &BlgEvent, header: &BlgHeader) -> Result<(), LogError> {
        let (records, broken) = sample::read_records(&event.content);
        if let Some(offset) = broken {
            let context = format!("byte {}, record at {offset}", event.offset);
            self.skips.add_skip(context, "a sample whose records do not fit their lengths");
        }
        let mut clock = BlgTime::default();
        let mut instance_names: HashMap<u32, Vec<String>> = HashMap::new();
        let requests = std::mem::take(&mut self.requests);
        for (index, record) in records.iter().enumerate() {
            let context = format!("byte {}, record at {}", event.offset, record.offset);
            let request = requests.get(index);
            let is_understood = match record.kind {
                1 | 2 => request.is_some_and(|r| self.read_listed(index, r, record, &mut clock, &context)),
                5 => self.read_block(record.body, &mut clock, &mut instance_names, &context),
                kind => {
                    self.skips.add_skip(&context, format!("records of kind {kind}, which are not understood"));
                    true
                }
            };
            if !is_understood {
                self.skips.add_skip(&context, format!("a record of kind {} that contradicts itself", record.kind));
            }
        }
        self.requests = requests;
        let utc = clock.utc.filter(|utc| utc.abs_diff(event.time) < MAX_OFFSET_100NS);
        let is_local = utc.is_none();
        let utc = match utc {
            Some(utc) => Some(utc.cast_signed()),
            None => self.local_offset(event, header)?.and_then(|o| event.time.cast_signed().checked_sub(o)),
        };
        let time_ns = utc.and_then(|utc| utc.checked_sub(UNIX_EPOCH_100NS)?.checked_mul(100));
        let Some(time_ns) = time_ns else {
            self.skips.add_skip(format!("byte {}", event.offset), "a sample with an invalid time");
            return Ok(());
        };
        let time_ns = if is_local {
            let local_ns = event.time.cast_signed().saturating_sub(UNIX_EPOCH_100NS).saturating_mul(100);
            self.daylight.resolve_time(time_ns, local_ns, self.batch)
        } else {
            time_ns
        };
        self.announce_host(time_ns);
        self.rows.end_sample(time_ns, self.batch);
        Ok(())
    }

    /// Determines local time less UTC: the trace gives its start in UTC, and its first sample follows at once in local
    /// time.
    fn local_offset(&mut self, event: &BlgEvent, header: &BlgHeader) -> Result<Option<i64>, LogError> {
        if self.local_offset_100ns.is_none() {
            let difference = event.time.cast_signed().wrapping_sub(header.start.cast_signed());
            let (standard, daylight) = header.bias_minutes;
            let zones = [standard, daylight].map(|minutes| -i64::from(minutes) * MINUTE_100NS);
            let is_close =
                |zone: &i64| (difference.wrapping_sub(*zone)).unsigned_abs() < 10 * MINUTE_100NS.unsigned_abs();
            self.local_offset_100ns =
                zones.into_iter().find(is_close).or_else(|| (zones[0] == zones[1]).then_some(zones[0]));
        }
        if self.local_offset_100ns.is_none() {
            let because = "its time zone has two offsets, and its start does not show which was in force";
            let (file, option) = (self.file.clone(), "--utc-offset +02:00");
            return Err(LogError::MissingOption { file, because: because.into(), option });
        }
        Ok(self.local_offset_100ns)
    }

    /// Emits the machine's topology before the first tick.
    fn announce_host(&mut self, time_ns: i64) {
        if std::mem::replace(&mut self.is_announced, true) {
            return;
        }
        let mut topology = Topology { host: self.host.clone().unwrap_or_default(), ..Topology::default() };
        let schema = self.rows.current_schema();
        topology.processors = schema.instances("processor").iter().filter(|i| i.starts_with("cpu")).count() as u32;
        self.batch.push_topology(time_ns, &topology);
    }

    /// Returns true for a machine that is read.
    fn is_chosen_host(&mut self, machine: &str, context: &str) -> bool {
        let host = self.host.get_or_insert_with(|| machine.to_owned());
        if machine.is_empty() || is_same_host(host, machine) {
            return true;
        }
        self.skips.add_other_host(context, machine);
        false
    }

    /// Reads a raw counter or the instances of a wildcard. Returns false if it is broken.
    fn read_listed(
        &mut self,
        index: usize,
        request: &CounterRequest,
        record: &sample::SampleRecord<'_>,
        clock: &mut BlgTime,
        context: &str,
    ) -> bool {
        if !self.is_chosen_host(&request.machine, context) {
            return true;
        }
        let Some(kind) = counter_formula::find_type(request.kind) else {
            self.skips.add_skip(format!("{context}, {}", request.counter), type_not_understood(request.kind));
            return true;
        };
        let values = match record.kind {
            1 => match sample::read_raw_counter(record.body, request.time_base) {
                Some((_, raw)) => vec![(request.instance.clone(), raw)],
                None if record.body.read_u32(0).is_some_and(|s| s > 1) => {
                    self.skips
                        .add_skip(format!("{context}, {}", request.counter), "a counter that Windows could not read");
                    return true;
                }
                None => return false,
            },
            _ => match sample::read_instances(record.body, request.time_base) {
                Some((_, values)) => values,
                None => return false,
            },
        };
        for (instance, raw) in number_duplicates(values) {
            // 100 ns timers are measured against UTC
            if kind.companion == CompanionValue::Time100 && clock.utc.is_none() {
                clock.utc = Some(raw.companion);
            }
            let path = |instance: &str| CounterPath {
                host: String::new(),
                object: request.object.clone(),
                instance: instance.to_owned(),
                counter: request.counter.clone(),
            };
            let group = u32::MAX - index as u32;
            let columns = self.rows.instance_columns(group, &instance, &mut || vec![Some((kind, path(&instance)))]);
            if let Some(&Some(column)) = columns.first()
                && !self.rows.put_value(column, raw)
            {
                self.skips.add_skip(format!("{context}, {}", request.counter), "a counter went back");
            }
        }
        true
    }

    /// Reads a performance data block. Returns false if it is broken.
    fn read_block(
        &mut self,
        body: ByteView<'_>,
        clock: &mut BlgTime,
        instance_names: &mut HashMap<u32, Vec<String>>,
        context: &str,
    ) -> bool {
        let Some((head, machine)) = sample::read_block_header(body) else { return false };
        if !self.is_chosen_host(&machine, context) {
            return true;
        }
        clock.utc.get_or_insert(head.time);
        let mut is_complete = true;
        for object in sample::read_objects(body, &head) {
            match object {
                Some(object) => self.read_object(&object, &head, instance_names, context),
                None => is_complete = false,
            }
        }
        is_complete
    }

    fn read_object(
        &mut self,
        object: &Object<'_>,
        head: &PerfDataBlockHeader,
        instance_names: &mut HashMap<u32, Vec<String>>,
        context: &str,
    ) {
        let Some(name) = self.names.get(&object.name).cloned() else {
            self.skips.add_skip(format!("{context}, object {}", object.name), "an object without a name in the log");
            return;
        };
        let Some(group) = self.object_group(object, &name, context) else { return };
        let instances: Vec<(String, ByteView<'_>)> = object
            .instances
            .iter()
            .zip(&object.parents)
            .map(|((instance, values), (parent_object, number))| {
                let instance = instance.clone().unwrap_or_default();
                let parents = instance_names.get(parent_object).filter(|_| *parent_object != 0);
                let parent = parents.and_then(|names| names.get(*number as usize));
                (parent.map_or_else(|| instance.clone(), |p| format!("{p}/{instance}")), *values)
            })
            .collect();
        instance_names.insert(object.name, instances.iter().map(|(n, _)| n.clone()).collect());
        let is_id =
            |d: &CounterDefinition| self.names.get(&d.name).is_some_and(|n| n == "ID Process" || n == "ID Thread");
        let id_index = object.counters.iter().rposition(is_id);
        for (instance, values) in number_duplicates(instances) {
            let names = &self.names;
            let mut make_columns = || {
                let path = |d: &CounterDefinition| CounterPath {
                    host: String::new(),
                    object: name.clone(),
                    instance: instance.clone(),
                    counter: names.get(&d.name).cloned().unwrap_or_else(|| d.name.to_string()),
                };
                object.counters.iter().map(|d| counter_formula::find_type(d.kind).map(|kind| (kind, path(d)))).collect()
            };
            let columns = self.rows.instance_columns(group, &instance, &mut make_columns);
            if let Some((index, column)) =
                id_index.and_then(|index| Some((index, columns.get(index).copied().flatten()?)))
                && let Some(raw) = object.raw_counter(index, values, head)
            {
                self.rows.check_identity(&columns, column, raw.value);
            }
            for (counter, column) in columns.iter().enumerate() {
                let Some(column) = *column else { continue };
                match object.raw_counter(counter, values, head) {
                    Some(raw) if self.rows.put_value(column, raw) => {}
                    Some(_) => self.skips.add_skip(format!("{context}, {name}({instance})"), "a counter went back"),
                    None => self
                        .skips
                        .add_skip(format!("{context}, {name}({instance})"), "a value that its object does not contain"),
                }
            }
        }
    }

    /// Returns the number of an object's group of counters. Reports the types of a new one that are not understood.
    fn object_group(&mut self, object: &Object<'_>, name: &str, context: &str) -> Option<u32> {
        let known = self.groups.get(&object.name);
        if let Some((group, _)) = known.filter(|(_, counters)| *counters == object.counters) {
            return Some(*group);
        }
        if self.group_count as usize >= MAX_GROUPS {
            self.skips.add_skip(context, "more objects than the limit");
            return None;
        }
        for definition in &object.counters {
            if counter_formula::find_type(definition.kind).is_none() && !counter_formula::is_base(definition.kind) {
                let counter = self.names.get(&definition.name).map_or("a counter without a name", String::as_str);
                self.skips.add_skip(format!("{context}, {name}\\{counter}"), type_not_understood(definition.kind));
            }
        }
        self.group_count += 1;
        self.groups.insert(object.name, (self.group_count, object.counters.clone()));
        Some(self.group_count)
    }
}

fn type_not_understood(kind: u32) -> String {
    format!("counters of type {kind:#010x}, which is not understood")
}

/// Appends `#1`, `#2`, … to instances of one name, as paths have them.
fn number_duplicates<T>(instances: Vec<(String, T)>) -> Vec<(String, T)> {
    let mut times: HashMap<String, u32> = HashMap::with_capacity(instances.len());
    instances
        .into_iter()
        .map(|(name, values)| {
            let count = times.entry(name.clone()).and_modify(|n| *n += 1).or_insert(0);
            (if *count == 0 { name } else { format!("{name}#{count}") }, values)
        })
        .collect()
}
