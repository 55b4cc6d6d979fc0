//! Events of all processors in order of time, from an instance's raw pages.

use crate::cost::{self, RecordCost};
use crate::devices::major_minor;
use crate::dirty::DirtyPages;
use crate::event::{BlockEvent, BlockEventKind, EventTable};
use crate::layout::{LayoutError, PageLayout};
use crate::page;
use crate::tracefs::{TraceInstance, TraceLoss, Tracefs, TracefsError};

/// Events of one processor come in order; those of several are put in order among
/// what is this much older than the last reading.
const SLACK_NS: u64 = 1_000_000;

/// What was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadingCounts {
    /// Events handed out.
    pub events: u64,
    /// Pages read.
    pub pages: u64,
    /// Pages before which events were missed.
    pub pages_after_loss: u64,
    /// Pages that made no sense, or were cut.
    pub pages_cut: u64,
    /// Events of a number or length that is not known.
    pub unknown: u64,
    /// Events of pages that became dirty.
    pub dirtied: u64,
}

/// Puts the events of several processors in order of time.
#[derive(Debug, Default)]
pub struct EventSorter {
    waiting: Vec<BlockEvent>,
    /// Who dirtied pages.
    pub dirtied: DirtyPages,
    /// What was read.
    pub counts: ReadingCounts,
}

impl EventSorter {
    /// Takes a page of a processor.
    pub fn page(&mut self, cpu: u16, bytes: &[u8], layout: &PageLayout, table: &EventTable) {
        let (waiting, dirtied, counts) = (&mut self.waiting, &mut self.dirtied, &mut self.counts);
        let summary = page::read(bytes, layout, |time_ns, data| {
            if let Some(event) = table.decode(time_ns, cpu, data) {
                waiting.push(event);
            } else if let Some((pid, device)) = table.dirty.as_ref().and_then(|layout| layout.decode(data)) {
                dirtied.add(pid, device);
                counts.dirtied += 1;
            } else {
                counts.unknown += 1;
            }
        });
        counts.pages += 1;
        counts.pages_after_loss += u64::from(summary.is_after_loss);
        counts.pages_cut += u64::from(summary.is_cut);
    }

    /// Hands out what happened before this moment, in order of time.
    pub fn take(&mut self, before_ns: u64, mut each: impl FnMut(&BlockEvent)) {
        // stable: events of one processor at one time stay in order; runs are found, not sorted again
        self.waiting.sort_by_key(|event| event.time_ns);
        let ready = self.waiting.partition_point(|event| event.time_ns < before_ns);
        self.waiting[..ready].iter().for_each(&mut each);
        self.waiting.drain(..ready);
        self.counts.events += ready as u64;
    }
}

/// An instance that traces block events.
#[derive(Debug)]
pub struct EventReader {
    instance: TraceInstance,
    table: EventTable,
    layout: PageLayout,
    page: Vec<u8>,
    sorter: EventSorter,
    /// Events of this kernel that cannot be used, and why.
    pub unusable: Vec<LayoutError>,
    kinds: Vec<BlockEventKind>,
}

impl EventReader {
    /// Makes an instance with these events on; those that the kernel lacks are left out.
    ///
    /// # Errors
    /// When the kernel refuses, or has no block events of known layout.
    pub fn start(
        tracefs: &Tracefs,
        kinds: &[BlockEventKind],
        filter: &KernelFilter,
    ) -> Result<EventReader, TracefsError> {
        let mut reader = EventReader::prepare(tracefs)?;
        reader.enable(kinds, filter)?;
        Ok(reader)
    }

    /// The same, with who dirties pages; and what an event costs the kernel, measured in the instance before.
    ///
    /// # Errors
    /// As [`EventReader::start`]. An event that cannot be timed is no error of the whole.
    pub(crate) fn start_calibrated(
        tracefs: &Tracefs,
        kinds: &[BlockEventKind],
        filter: &KernelFilter,
    ) -> Result<(EventReader, Result<RecordCost, TracefsError>), TracefsError> {
        let mut reader = EventReader::prepare(tracefs)?;
        let cost = cost::calibrate(&mut reader.instance);
        reader.drain(usize::MAX)?;
        // what was read is no event of a device
        reader.sorter = EventSorter::default();
        if let Some(dirty) = &reader.table.dirty {
            reader.instance.enable(dirty.event, filter.dirty_text().as_deref())?;
        }
        reader.enable(kinds, filter)?;
        Ok((reader, cost))
    }

    /// Stops looking at who dirties pages; whether it was looked at.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn leave_dirty_pages(&mut self) -> Result<bool, TracefsError> {
        let Some(dirty) = self.table.dirty.take() else { return Ok(false) };
        // events that are still in the buffers have to be known
        self.instance.disable(dirty.event)?;
        self.table.dirty = Some(dirty);
        self.drain(usize::MAX)?;
        self.table.dirty = None;
        Ok(true)
    }

    fn prepare(tracefs: &Tracefs) -> Result<EventReader, TracefsError> {
        let (table, unusable) = tracefs.events()?;
        let layout = tracefs.page()?;
        let instance = TraceInstance::create(tracefs)?;
        let page = vec![0; layout.bytes];
        let (sorter, kinds) = (EventSorter::default(), Vec::new());
        Ok(EventReader { instance, table, layout, page, sorter, unusable, kinds })
    }

    fn enable(&mut self, kinds: &[BlockEventKind], filter: &KernelFilter) -> Result<(), TracefsError> {
        let known = |kind: &BlockEventKind| self.table.layout(*kind).is_some();
        self.kinds = kinds.iter().copied().filter(known).collect();
        for kind in &self.kinds {
            self.instance.enable(&path(*kind), filter.text().as_deref())?;
        }
        self.instance.start()
    }

    /// The layouts of this kernel's events.
    pub fn table(&self) -> &EventTable {
        &self.table
    }

    /// The instance.
    pub fn instance(&self) -> &TraceInstance {
        &self.instance
    }

    /// Filters all events anew.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn filter(&self, filter: &KernelFilter) -> Result<(), TracefsError> {
        self.kinds.iter().try_for_each(|kind| self.instance.filter(&path(*kind), filter.text().as_deref()))
    }

    /// Reads all there is, and hands out in order what is older than `now_ns` but for a little;
    /// how many bytes were read.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn read(&mut self, now_ns: u64, each: impl FnMut(&BlockEvent)) -> Result<u64, TracefsError> {
        let bytes = self.drain(usize::MAX)?;
        self.sorter.take(now_ns.saturating_sub(SLACK_NS), each);
        Ok(bytes)
    }

    /// Stops tracing and hands out what is left.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn finish(&mut self, each: impl FnMut(&BlockEvent)) -> Result<(), TracefsError> {
        self.instance.stop()?;
        self.drain(usize::MAX)?;
        self.sorter.take(u64::MAX, each);
        Ok(())
    }

    fn drain(&mut self, most_pages: usize) -> Result<u64, TracefsError> {
        let mut bytes = 0;
        let cpus: Vec<u16> = self.instance.cpus().collect();
        for (position, cpu) in cpus.into_iter().enumerate() {
            for _ in 0..most_pages {
                let Some(length) = self.instance.next_page(position, &mut self.page)? else { break };
                self.sorter.page(cpu, &self.page[..length], &self.layout, &self.table);
                bytes += length as u64;
            }
        }
        Ok(bytes)
    }

    /// What was read.
    pub fn counts(&self) -> ReadingCounts {
        self.sorter.counts
    }

    /// Who dirtied pages since the start, or since it was last taken.
    pub fn dirtied(&self) -> &DirtyPages {
        &self.sorter.dirtied
    }

    /// The same, beginning anew.
    pub fn take_dirtied(&mut self) -> DirtyPages {
        self.sorter.dirtied.take()
    }

    /// What was lost, by the kernel's count.
    pub fn loss(&self) -> TraceLoss {
        self.instance.loss()
    }
}

/// An event's folder below `events`.
fn path(kind: BlockEventKind) -> String {
    format!("block/{}", kind.name())
}

/// Which events the kernel hands over: of some devices, and of a part of all places.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelFilter {
    /// Devices and their partitions; empty is all.
    pub devices: Vec<u32>,
    /// Places are sampled: one of 2^`sample` pieces of 128 KiB; 0 is all.
    pub sample: u32,
}

/// Devices that one filter can name; more are told apart here.
const MOST_NAMED: usize = 16;
/// log2 of the sectors of a piece that is sampled as a whole.
const PIECE_BITS: u32 = 8;
/// The thinnest sample: 1 of 128 pieces.
pub const MOST_SAMPLE: u32 = 7;

impl KernelFilter {
    /// In the kernel's filter language (Documentation/trace/events.rst); `None` for everything.
    pub fn text(&self) -> Option<String> {
        let named = (1..=MOST_NAMED).contains(&self.devices.len());
        let devices =
            named.then(|| self.devices.iter().map(|d| format!("dev == {d}")).collect::<Vec<_>>().join(" || "));
        let mask = self.mask();
        let place = (mask > 0).then(|| format!("!(sector & {mask})"));
        match (devices, place) {
            (Some(devices), Some(place)) => Some(format!("({devices}) && {place}")),
            (devices, place) => devices.or(place),
        }
    }

    /// The same for pages that become dirty, whose events bear the disk as text.
    pub fn dirty_text(&self) -> Option<String> {
        let named = (1..=MOST_NAMED).contains(&self.devices.len());
        let name = |device: &u32| {
            let (major, minor) = major_minor(*device);
            format!("name == \"{major}:{minor}\"")
        };
        named.then(|| self.devices.iter().map(name).collect::<Vec<_>>().join(" || "))
    }

    /// Bits of a sector that are zero where its piece is sampled.
    pub fn mask(&self) -> u64 {
        ((1u64 << self.sample.min(MOST_SAMPLE)) - 1) << PIECE_BITS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_in_the_kernels_language() {
        let filter = |devices: &[u32], sample| KernelFilter { devices: devices.to_vec(), sample }.text();
        assert_eq!(filter(&[], 0), None);
        assert_eq!(filter(&[5, 6], 0).as_deref(), Some("dev == 5 || dev == 6"));
        assert_eq!(filter(&[5], 3).as_deref(), Some("(dev == 5) && !(sector & 1792)"));
        assert_eq!(filter(&[], 1).as_deref(), Some("!(sector & 256)"));
        assert_eq!(filter(&(0..17).collect::<Vec<_>>(), 0), None);
        assert_eq!(KernelFilter { devices: vec![], sample: 60 }.mask(), 0x7f00);
        let dirty = KernelFilter { devices: vec![7 << 20, 8 << 20 | 16], sample: 2 }.dirty_text();
        assert_eq!(dirty.as_deref(), Some("name == \"7:0\" || name == \"8:16\""));
    }
}
