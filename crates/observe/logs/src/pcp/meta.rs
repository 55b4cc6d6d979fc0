//! The `.meta` file: the descriptor of each metric, and the names of instances as they change over time. Labels and
//! help texts are not needed and skipped.

use std::collections::HashMap;
use std::io::Read;

use super::records::{BodyFields, RecordFault, RecordReader};
use super::units::Units;
use super::values::PcpType;
use crate::Skips;

/// Largest number of descriptors that are kept.
const MOST_METRICS: usize = 1 << 17;
/// Largest number of instances of all domains that are kept.
const MOST_INSTANCES: usize = 1 << 20;
/// Instance domain of a metric with a single value.
pub(super) const SINGULAR: u32 = u32::MAX;

const DESCRIPTOR: u32 = 1;
const INDOM_V2: u32 = 2;
const INDOM: u32 = 5;
const INDOM_DELTA: u32 = 6;

/// A metric's descriptor.
#[derive(Clone, Debug)]
pub(super) struct Metric {
    pub pmid: u32,
    pub name: String,
    pub kind: PcpType,
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
pub(super) fn metrics(records: &mut RecordReader<impl Read>, file: &str, skips: &mut Skips) -> Vec<Metric> {
    let mut found: Vec<Metric> = Vec::new();
    let mut places: HashMap<u32, usize> = HashMap::new();
    loop {
        match records.next() {
            Ok(true) => {}
            Ok(false) => return found,
            Err(fault) => {
                tell(records, &fault, file, skips);
                return found;
            }
        }
        let mut fields = BodyFields(records.body());
        if fields.u32() != Some(DESCRIPTOR) {
            continue;
        }
        let metric = descriptor(fields);
        let context = || format!("{file}, byte {}", records.from());
        match metric {
            None => skips.add(context(), "a metric's descriptor that is not understood"),
            Some(metric) if places.contains_key(&metric.pmid) => {
                if !found.iter().any(|m| m.name == metric.name && m.kind == metric.kind) {
                    skips.add(context(), "a second descriptor of a metric; the first counts");
                }
            }
            Some(_) if found.len() >= MOST_METRICS => skips.add(context(), "more metrics than the limit"),
            Some(metric) => {
                places.insert(metric.pmid, found.len());
                found.push(metric);
            }
        }
    }
}

/// Reports why a file is not read further.
pub(super) fn tell(records: &RecordReader<impl Read>, fault: &RecordFault, file: &str, skips: &mut Skips) {
    skips.add(format!("{file}, byte {}", records.from()), format!("{}; the rest is not read", fault.text()));
}

fn descriptor(mut fields: BodyFields<'_>) -> Option<Metric> {
    let pmid = fields.u32()?;
    let kind = PcpType::of(fields.i32()?);
    let indom = fields.u32()?;
    let semantics = match fields.u32()? {
        1 => Semantics::Counter,
        3 => Semantics::Instant,
        4 => Semantics::Discrete,
        _ => return None,
    };
    let units = Units::unpack(fields.u32()?);
    if fields.u32()? == 0 {
        return None;
    }
    let length = fields.u32()? as usize;
    let name = std::str::from_utf8(fields.bytes(length)?).ok()?.to_owned();
    Some(Metric { pmid, name, kind, indom, semantics, units })
}

/// Current state of an instance domain: its instances by number, and their names.
#[derive(Default)]
struct Domain {
    time_ns: i64,
    /// Number of the instance, and index and length of its name in `table`; sorted by number.
    instances: Vec<(u32, u32, u32)>,
    table: Vec<u8>,
    /// Number of changes.
    generation: u64,
}

impl Domain {
    fn name(&self, instance: u32) -> Option<&[u8]> {
        let index = self.instances.binary_search_by_key(&instance, |i| i.0).ok()?;
        let (_, from, length) = self.instances[index];
        self.table.get(from as usize..(from + length) as usize)
    }

    fn put(&mut self, instance: u32, name: &[u8]) {
        let place = (instance, self.table.len() as u32, name.len() as u32);
        self.table.extend_from_slice(name);
        match self.instances.binary_search_by_key(&instance, |i| i.0) {
            Ok(index) => self.instances[index] = place,
            Err(index) => self.instances.insert(index, place),
        }
    }

    fn remove(&mut self, instance: u32) {
        if let Ok(index) = self.instances.binary_search_by_key(&instance, |i| i.0) {
            self.instances.remove(index);
        }
    }

    /// Frees the memory of names that are no longer used.
    fn tidy(&mut self) {
        let used: usize = self.instances.iter().map(|i| i.2 as usize).sum();
        if self.table.len() < 2 * used + 4096 {
            return;
        }
        let old = std::mem::take(&mut self.table);
        for (_, from, length) in &mut self.instances {
            let name = old.get(*from as usize..(*from + *length) as usize).unwrap_or_default();
            *from = self.table.len() as u32;
            self.table.extend_from_slice(name);
        }
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

fn change(body: &[u8], version: u8) -> Option<DomainChange> {
    let mut fields = BodyFields(body);
    let tag = fields.u32()?;
    let time_ns = fields.time(version)?;
    let indom = fields.u32()?;
    let count = fields.u32()? as usize;
    let mut numbers = BodyFields(fields.bytes(count.checked_mul(4)?)?);
    let mut offsets = BodyFields(fields.bytes(count.checked_mul(4)?)?);
    let table = fields.0;
    let mut entries = Vec::with_capacity(count);
    // names that overlap could take far more memory than the record that holds them
    let mut budget = 4 * table.len();
    while let (Some(number), Some(offset)) = (numbers.u32(), offsets.i32()) {
        let name = match usize::try_from(offset) {
            Ok(from) => {
                let name = table.get(from..)?.split(|&b| b == 0).next()?;
                budget = budget.checked_sub(name.len())?;
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
pub(super) struct Indoms<R> {
    records: RecordReader<R>,
    file: String,
    version: u8,
    next: Option<DomainChange>,
    ended: bool,
    domains: HashMap<u32, Domain>,
    instances: usize,
}

impl<R: Read> Indoms<R> {
    /// Follows the domains of a `.meta` file behind its label.
    pub fn new(records: RecordReader<R>, file: &str, version: u8) -> Indoms<R> {
        let domains = HashMap::new();
        Indoms { records, file: file.to_owned(), version, next: None, ended: false, domains, instances: 0 }
    }

    /// Applies all changes up to a time.
    pub fn advance(&mut self, time_ns: i64, skips: &mut Skips) {
        loop {
            let Some(change) = self.next.take().or_else(|| self.read(skips)) else { return };
            if change.time_ns > time_ns {
                self.next = Some(change);
                return;
            }
            self.apply(change, skips);
        }
    }

    fn read(&mut self, skips: &mut Skips) -> Option<DomainChange> {
        while !self.ended {
            let version = self.version;
            match self.records.next() {
                Ok(true) => {
                    let body = self.records.body();
                    if !matches!(BodyFields(body).u32(), Some(INDOM_V2 | INDOM | INDOM_DELTA)) {
                        continue;
                    }
                    if let Some(change) = change(body, version) {
                        return Some(change);
                    }
                    let context = format!("{}, byte {}", self.file, self.records.from());
                    skips.add(context, "an instance domain that is not understood");
                }
                // the reader of the descriptors has reported what is broken
                Ok(false) | Err(_) => self.ended = true,
            }
        }
        None
    }

    fn apply(&mut self, change: DomainChange, skips: &mut Skips) {
        let context = || format!("{}, domain {:#x}", self.file, change.indom);
        let domain = self.domains.entry(change.indom).or_default();
        if domain.generation > 0 && change.time_ns < domain.time_ns {
            skips.add(context(), "an instance domain that is older than the previous one");
            return;
        }
        self.instances -= domain.instances.len();
        if !change.is_delta {
            domain.instances.clear();
            domain.table.clear();
        }
        for (number, name) in &change.entries {
            match name {
                Some(name) if self.instances + domain.instances.len() < MOST_INSTANCES => domain.put(*number, name),
                Some(_) => skips.add(context(), "more instances than the limit"),
                None => domain.remove(*number),
            }
        }
        domain.tidy();
        domain.time_ns = change.time_ns;
        domain.generation += 1;
        self.instances += domain.instances.len();
    }

    /// Returns the name of an instance.
    pub fn name(&self, indom: u32, instance: u32) -> Option<String> {
        let name = self.domains.get(&indom)?.name(instance)?;
        Some(String::from_utf8_lossy(name).into_owned())
    }

    /// Returns true where the instance has this name now.
    pub fn is_named(&self, indom: u32, instance: u32, name: &str) -> bool {
        self.domains.get(&indom).and_then(|d| d.name(instance)).is_some_and(|n| n == name.as_bytes())
    }

    /// Returns a number that grows with each change of the domain.
    pub fn generation(&self, indom: u32) -> u64 {
        self.domains.get(&indom).map_or(0, |d| d.generation)
    }

    /// Returns the names of all instances, by number.
    pub fn names(&self, indom: u32) -> Vec<String> {
        let Some(domain) = self.domains.get(&indom) else { return Vec::new() };
        let name = |i: &(u32, u32, u32)| Some(String::from_utf8_lossy(domain.name(i.0)?).into_owned());
        domain.instances.iter().filter_map(name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_overlap_take_no_more_room_than_their_record() {
        let record = |instances: u32, name: usize| {
            let mut body = Vec::new();
            [INDOM_V2, 1, 0, 7, instances].iter().for_each(|w| body.extend_from_slice(&w.to_be_bytes()));
            (0..instances).for_each(|i| body.extend_from_slice(&i.to_be_bytes()));
            body.resize(body.len() + 4 * instances as usize, 0);
            body.resize(body.len() + name, b'x');
            body.push(0);
            body
        };
        assert!(change(&record(2, 10), 2).is_some(), "two may share a name");
        assert!(change(&record(1000, 10_000), 2).is_none());
    }
}
