//! The `.meta` file: the descriptor of each metric, and the names of instances as they change over time. Labels and
//! help texts are not needed and skipped.

use std::collections::HashMap;
use std::io::Read;
use std::ops::Range;

use super::records::{BodyFields, RecordFault, RecordReader};
use super::units::Units;
use super::values::PcpType;
use crate::Skips;

/// Largest number of descriptors that are kept.
const MAX_METRICS: usize = 1 << 17;
/// Largest number of instances of all domains that are kept.
const MAX_INSTANCES: usize = 1 << 20;
/// Instance domain of a metric with a single value.
pub(super) const SINGLE_VALUE_INDOM: u32 = u32::MAX;

const DESCRIPTOR: u32 = 1;
const INDOM_V2: u32 = 2;
const INDOM: u32 = 5;
const INDOM_DELTA: u32 = 6;

/// A metric's descriptor.
#[derive(Clone, Debug)]
pub(super) struct Metric {
    pub pmid: u32,
    pub name: String,
    pub value_type: PcpType,
    pub indom: u32,
    pub semantics: Semantics,
    pub units: Units,
}

/// Meaning of a metric's value over time (`PM_SEM_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Semantics {
    /// A running total, of which the growth counts.
    Counter,
    /// A level at the moment.
    Instant,
    /// A level that stays until it changes.
    Discrete,
}

/// Reads all descriptors of a `.meta` file behind its label. A broken record ends the list and is reported in `skips`.
pub(super) fn read_metrics(records: &mut RecordReader<impl Read>, file: &str, skips: &mut Skips) -> Vec<Metric> {
    let mut metrics: Vec<Metric> = Vec::new();
    let mut indexes: HashMap<u32, usize> = HashMap::new();
    loop {
        match records.next() {
            Ok(true) => {}
            Ok(false) => return metrics,
            Err(fault) => {
                report_fault(records, &fault, file, skips);
                return metrics;
            }
        }
        let mut fields = BodyFields(records.body());
        if fields.take_u32() != Some(DESCRIPTOR) {
            continue;
        }
        let metric = parse_descriptor(fields);
        let context = || format!("{file}, byte {}", records.record_offset());
        match metric {
            None => skips.add_skip(context(), "a metric's descriptor that is not understood"),
            Some(metric) if indexes.contains_key(&metric.pmid) => {
                if !metrics.iter().any(|m| m.name == metric.name && m.value_type == metric.value_type) {
                    skips.add_skip(context(), "a second descriptor of a metric; the first counts");
                }
            }
            Some(_) if metrics.len() >= MAX_METRICS => skips.add_skip(context(), "more metrics than the limit"),
            Some(metric) => {
                indexes.insert(metric.pmid, metrics.len());
                metrics.push(metric);
            }
        }
    }
}

/// Reports why a file is not read further.
pub(super) fn report_fault(records: &RecordReader<impl Read>, fault: &RecordFault, file: &str, skips: &mut Skips) {
    skips.add_skip(
        format!("{file}, byte {}", records.record_offset()),
        format!("{}; the rest is not read", fault.to_reason()),
    );
}

fn parse_descriptor(mut fields: BodyFields<'_>) -> Option<Metric> {
    let pmid = fields.take_u32()?;
    let kind = PcpType::from_code(fields.take_i32()?);
    let indom = fields.take_u32()?;
    let semantics = match fields.take_u32()? {
        1 => Semantics::Counter,
        3 => Semantics::Instant,
        4 => Semantics::Discrete,
        _ => return None,
    };
    let units = Units::unpack(fields.take_u32()?);
    if fields.take_u32()? == 0 {
        return None;
    }
    let length = fields.take_u32()? as usize;
    let name = std::str::from_utf8(fields.take_bytes(length)?).ok()?.to_owned();
    Some(Metric { pmid, name, value_type: kind, indom, semantics, units })
}

/// Current state of an instance domain: its instances by number, and their names.
#[derive(Default)]
struct Domain {
    time_ns: i64,
    /// Its instances, sorted by number.
    instances: Vec<DomainInstance>,
    /// Names, one after the other; some are no longer used.
    names: Vec<u8>,
    /// Number of changes.
    generation: u64,
}

/// An instance of a domain.
struct DomainInstance {
    number: u32,
    /// Range of its name among the domain's names.
    name: Range<usize>,
}

impl Domain {
    fn find_instance(&self, number: u32) -> Result<usize, usize> {
        self.instances.binary_search_by_key(&number, |instance| instance.number)
    }

    fn instance_name(&self, number: u32) -> Option<&[u8]> {
        let index = self.find_instance(number).ok()?;
        Some(&self.names[self.instances[index].name.clone()])
    }

    fn set_name(&mut self, number: u32, name: &[u8]) {
        let start = self.names.len();
        self.names.extend_from_slice(name);
        let instance = DomainInstance { number, name: start..self.names.len() };
        match self.find_instance(number) {
            Ok(index) => self.instances[index] = instance,
            Err(index) => self.instances.insert(index, instance),
        }
    }

    fn remove_instance(&mut self, number: u32) {
        if let Ok(index) = self.find_instance(number) {
            self.instances.remove(index);
        }
    }

    /// Frees the memory of names that are no longer used.
    fn compact_names(&mut self) {
        let used: usize = self.instances.iter().map(|instance| instance.name.len()).sum();
        if self.names.len() < 2 * used + 4096 {
            return;
        }
        let old = std::mem::take(&mut self.names);
        for instance in &mut self.instances {
            let start = self.names.len();
            self.names.extend_from_slice(&old[instance.name.clone()]);
            instance.name = start..self.names.len();
        }
        assert_eq!(self.names.len(), used, "each name of an instance was kept once");
        debug_assert!(
            self.instances.is_sorted_by(|instance, next| instance.number < next.number),
            "instances are sorted by number"
        );
    }
}

/// A record that changes a domain.
struct DomainChange {
    time_ns: i64,
    indom: u32,
    is_delta: bool,
    /// Instances and their names; `None` for an instance that is removed.
    entries: Vec<(u32, Option<Vec<u8>>)>,
}

fn parse_change(body: &[u8], version: u8) -> Option<DomainChange> {
    let mut fields = BodyFields(body);
    let tag = fields.take_u32()?;
    let time_ns = fields.take_time(version)?;
    let indom = fields.take_u32()?;
    let count = fields.take_u32()? as usize;
    let mut numbers = BodyFields(fields.take_bytes(count.checked_mul(4)?)?);
    let mut offsets = BodyFields(fields.take_bytes(count.checked_mul(4)?)?);
    let table = fields.0;
    let mut entries = Vec::with_capacity(count);
    // names that overlap could take far more memory than the record that holds them
    let mut name_bytes_left = 4 * table.len();
    while let (Some(number), Some(offset)) = (numbers.take_u32(), offsets.take_i32()) {
        let name = match usize::try_from(offset) {
            Ok(offset) => {
                let name = table.get(offset..)?.split(|&b| b == 0).next()?;
                name_bytes_left = name_bytes_left.checked_sub(name.len())?;
                Some(name.to_vec())
            }
            Err(_) if tag == INDOM_DELTA => None,
            Err(_) => return None,
        };
        entries.push((number, name));
    }
    Some(DomainChange { time_ns, indom, is_delta: tag == INDOM_DELTA, entries })
}

/// Instance domains, followed through time.
pub(super) struct InstanceDomains<R> {
    records: RecordReader<R>,
    file: String,
    version: u8,
    pending: Option<DomainChange>,
    has_ended: bool,
    domains: HashMap<u32, Domain>,
    instance_count: usize,
}

impl<R: Read> InstanceDomains<R> {
    /// Follows the domains of a `.meta` file behind its label.
    pub fn new(records: RecordReader<R>, file: &str, version: u8) -> InstanceDomains<R> {
        let domains = HashMap::new();
        InstanceDomains {
            records,
            file: file.to_owned(),
            version,
            pending: None,
            has_ended: false,
            domains,
            instance_count: 0,
        }
    }

    /// Applies all changes up to a time.
    pub fn advance(&mut self, time_ns: i64, skips: &mut Skips) {
        loop {
            let Some(change) = self.pending.take().or_else(|| self.read_change(skips)) else { return };
            if change.time_ns > time_ns {
                self.pending = Some(change);
                return;
            }
            self.apply_change(change, skips);
        }
    }

    fn read_change(&mut self, skips: &mut Skips) -> Option<DomainChange> {
        while !self.has_ended {
            let version = self.version;
            match self.records.next() {
                Ok(true) => {
                    let body = self.records.body();
                    if !matches!(BodyFields(body).take_u32(), Some(INDOM_V2 | INDOM | INDOM_DELTA)) {
                        continue;
                    }
                    if let Some(change) = parse_change(body, version) {
                        return Some(change);
                    }
                    let context = format!("{}, byte {}", self.file, self.records.record_offset());
                    skips.add_skip(context, "an instance domain that is not understood");
                }
                // the reader of the descriptors has reported what is broken
                Ok(false) | Err(_) => self.has_ended = true,
            }
        }
        None
    }

    fn apply_change(&mut self, change: DomainChange, skips: &mut Skips) {
        let context = || format!("{}, domain {:#x}", self.file, change.indom);
        let domain = self.domains.entry(change.indom).or_default();
        if domain.generation > 0 && change.time_ns < domain.time_ns {
            skips.add_skip(context(), "an instance domain that is older than the previous one");
            return;
        }
        self.instance_count -= domain.instances.len();
        if !change.is_delta {
            domain.instances.clear();
            domain.names.clear();
        }
        for (number, name) in &change.entries {
            match name {
                Some(name) if self.instance_count + domain.instances.len() < MAX_INSTANCES => {
                    domain.set_name(*number, name)
                }
                Some(_) => skips.add_skip(context(), "more instances than the limit"),
                None => domain.remove_instance(*number),
            }
        }
        domain.compact_names();
        domain.time_ns = change.time_ns;
        domain.generation += 1;
        self.instance_count += domain.instances.len();
    }

    /// Returns the name of an instance.
    pub fn instance_name(&self, indom: u32, instance: u32) -> Option<String> {
        let name = self.domains.get(&indom)?.instance_name(instance)?;
        Some(String::from_utf8_lossy(name).into_owned())
    }

    /// Returns true if the instance has this name now.
    pub fn has_name(&self, indom: u32, instance: u32, name: &str) -> bool {
        self.domains.get(&indom).and_then(|d| d.instance_name(instance)).is_some_and(|n| n == name.as_bytes())
    }

    /// Returns a number that grows with each change of the domain.
    pub fn generation(&self, indom: u32) -> u64 {
        self.domains.get(&indom).map_or(0, |d| d.generation)
    }

    /// Returns the names of all instances, by number.
    pub fn instance_names(&self, indom: u32) -> Vec<String> {
        let Some(domain) = self.domains.get(&indom) else { return Vec::new() };
        let name = |i: &DomainInstance| String::from_utf8_lossy(&domain.names[i.name.clone()]).into_owned();
        domain.instances.iter().map(name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_overlap_take_bounded_memory() {
        let record = |instances: u32, name: usize| {
            let mut body = Vec::new();
            [INDOM_V2, 1, 0, 7, instances].iter().for_each(|w| body.extend_from_slice(&w.to_be_bytes()));
            (0..instances).for_each(|i| body.extend_from_slice(&i.to_be_bytes()));
            body.resize(body.len() + 4 * instances as usize, 0);
            body.resize(body.len() + name, b'x');
            body.push(0);
            body
        };
        assert!(parse_change(&record(2, 10), 2).is_some(), "two may share a name");
        assert!(parse_change(&record(1000, 10_000), 2).is_none());
    }
}
