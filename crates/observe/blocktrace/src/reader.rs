//! Reader of the events of all processors in order of time, from an instance's raw pages.

use crate::devices::major_minor;
use crate::dirty_pages::DirtyPages;
use crate::event::{BlockEvent, BlockEventKind, EventTable};
use crate::layout::{LayoutError, PageLayout};
use crate::page;
use crate::trace_cost::{self, RecordCost};
use crate::tracefs::{TraceInstance, TraceLoss, Tracefs, TracefsError};

/// Age at which events are passed on, nanoseconds. Events of one processor come in order; events of several processors
/// are sorted once they are this old, when none can come that is older.
const SLACK_NS: u64 = 1_000_000;

/// Counts of events and pages read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadingCounts {
    /// Events passed on.
    pub events: u64,
    /// Pages read.
    pub pages: u64,
    /// Pages before which events were missed.
    pub pages_after_loss: u64,
    /// Pages that were invalid or truncated.
    pub truncated_pages: u64,
    /// Events of an unknown number or length.
    pub unknown: u64,
    /// Events of pages that became dirty.
    pub dirtied: u64,
}

/// Sorts the events of several processors by time.
#[derive(Debug, Default)]
pub struct EventSorter {
    pending: Vec<BlockEvent>,
    /// Pages dirtied by each thread.
    pub dirtied: DirtyPages,
    /// Counts of events and pages read.
    pub counts: ReadingCounts,
}

impl EventSorter {
    /// Adds a page of a processor.
    pub fn add_page(&mut self, cpu: u16, bytes: &[u8], layout: &PageLayout, table: &EventTable) {
        let (pending, dirtied, counts) = (&mut self.pending, &mut self.dirtied, &mut self.counts);
        let summary = page::read_events(bytes, layout, |time_ns, data| {
            if let Some(event) = table.decode_event(time_ns, cpu, data) {
                pending.push(event);
            } else if let Some((pid, device)) = table.dirty.as_ref().and_then(|layout| layout.decode(data)) {
                dirtied.add_page(pid, device);
                counts.dirtied += 1;
            } else {
                counts.unknown += 1;
            }
        });
        counts.pages += 1;
        counts.pages_after_loss += u64::from(summary.is_after_loss);
        counts.truncated_pages += u64::from(summary.is_truncated);
    }

    /// Passes on events before this time, in order of time.
    pub fn drain_before(&mut self, before_ns: u64, mut each: impl FnMut(&BlockEvent)) {
        // the sort is stable, so events of one processor at one time stay in order, and it is fast on sorted runs
        self.pending.sort_by_key(|event| event.time_ns);
        let ready = self.pending.partition_point(|event| event.time_ns < before_ns);
        self.pending[..ready].iter().for_each(&mut each);
        self.pending.drain(..ready);
        self.counts.events += ready as u64;
    }
}

/// An instance that traces block events.
#[derive(Debug)]
pub struct EventReader {
    instance: TraceInstance,
    table: EventTable,
    layout: PageLayout,
    /// Buffer for a page.
    page: Vec<u8>,
    sorter: EventSorter,
    /// Reasons why some events of this kernel cannot be used.
    pub unusable: Vec<LayoutError>,
    /// The enabled block events.
    kinds: Vec<BlockEventKind>,
}

impl EventReader {
    /// Creates an instance with these events enabled; those that the kernel lacks are left out.
    ///
    /// # Errors
    /// When the kernel refuses, or has no block events of known layout.
    pub fn start(
        tracefs: &Tracefs,
        kinds: &[BlockEventKind],
        filter: &KernelFilter,
    ) -> Result<EventReader, TracefsError> {
        let mut reader = EventReader::create_reader(tracefs)?;
        reader.enable_events(kinds, filter)?;
        Ok(reader)
    }

    /// Starts as [`EventReader::start`] does, and also enables the event of dirtied pages. Returns the kernel's cost of
    /// an event too; it is measured in the instance before block events are enabled.
    ///
    /// # Errors
    /// As [`EventReader::start`]. A failure to time an event does not fail the start.
    pub(crate) fn start_calibrated(
        tracefs: &Tracefs,
        kinds: &[BlockEventKind],
        filter: &KernelFilter,
    ) -> Result<(EventReader, Result<RecordCost, TracefsError>), TracefsError> {
        let mut reader = EventReader::create_reader(tracefs)?;
        let cost = trace_cost::calibrate_events(&mut reader.instance);
        reader.drain_pages()?;
        // the events read so far are those of the calibration
        reader.sorter = EventSorter::default();
        if let Some(dirty) = &reader.table.dirty {
            reader.instance.enable_event(dirty.event, filter.dirty_expression().as_deref())?;
        }
        reader.enable_events(kinds, filter)?;
        Ok((reader, cost))
    }

    /// Stops tracing dirtied pages; returns true if they were traced.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn stop_dirty_pages(&mut self) -> Result<bool, TracefsError> {
        let Some(dirty) = self.table.dirty.take() else { return Ok(false) };
        // events that are still in the buffers must be decodable until they are read
        self.instance.disable_event(dirty.event)?;
        self.table.dirty = Some(dirty);
        self.drain_pages()?;
        self.table.dirty = None;
        Ok(true)
    }

    fn create_reader(tracefs: &Tracefs) -> Result<EventReader, TracefsError> {
        let (table, unusable) = tracefs.read_event_table()?;
        let layout = tracefs.read_page_layout()?;
        let instance = TraceInstance::create(tracefs)?;
        let page = vec![0; layout.bytes];
        let (sorter, kinds) = (EventSorter::default(), Vec::new());
        Ok(EventReader { instance, table, layout, page, sorter, unusable, kinds })
    }

    fn enable_events(&mut self, kinds: &[BlockEventKind], filter: &KernelFilter) -> Result<(), TracefsError> {
        let is_known = |kind: &BlockEventKind| self.table.find_layout(*kind).is_some();
        self.kinds = kinds.iter().copied().filter(is_known).collect();
        for kind in &self.kinds {
            self.instance.enable_event(&event_path(*kind), filter.event_expression().as_deref())?;
        }
        self.instance.start()
    }

    /// The layouts of this kernel's events.
    pub fn table(&self) -> &EventTable {
        &self.table
    }

    /// The instance of tracefs.
    pub fn instance(&self) -> &TraceInstance {
        &self.instance
    }

    /// Sets a new filter for all events.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_filter(&self, filter: &KernelFilter) -> Result<(), TracefsError> {
        self.kinds
            .iter()
            .try_for_each(|kind| self.instance.set_filter(&event_path(*kind), filter.event_expression().as_deref()))
    }

    /// Reads all pending pages, and passes on in order the events that are slightly older than `now_ns`;
    /// returns the number of bytes read.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn read(&mut self, now_ns: u64, each: impl FnMut(&BlockEvent)) -> Result<u64, TracefsError> {
        let bytes = self.drain_pages()?;
        self.sorter.drain_before(now_ns.saturating_sub(SLACK_NS), each);
        Ok(bytes)
    }

    /// Stops tracing and passes on the remaining events.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn finish(&mut self, each: impl FnMut(&BlockEvent)) -> Result<(), TracefsError> {
        self.instance.stop()?;
        self.drain_pages()?;
        self.sorter.drain_before(u64::MAX, each);
        Ok(())
    }

    /// Reads all pending pages of all processors; returns the number of bytes.
    fn drain_pages(&mut self) -> Result<u64, TracefsError> {
        let mut bytes = 0;
        let cpus: Vec<u16> = self.instance.cpus().collect();
        for (position, cpu) in cpus.into_iter().enumerate() {
            while let Some(length) = self.instance.next_page(position, &mut self.page)? {
                self.sorter.add_page(cpu, &self.page[..length], &self.layout, &self.table);
                bytes += length as u64;
            }
        }
        Ok(bytes)
    }

    /// Counts of events and pages read.
    pub fn counts(&self) -> ReadingCounts {
        self.sorter.counts
    }

    /// Pages dirtied by each thread since the start, or since they were last taken.
    pub fn dirty_pages(&self) -> &DirtyPages {
        &self.sorter.dirtied
    }

    /// Removes and returns the dirtied pages.
    pub fn take_dirtied(&mut self) -> DirtyPages {
        self.sorter.dirtied.take_pages()
    }

    /// Events lost, by the kernel's count.
    pub fn loss(&self) -> TraceLoss {
        self.instance.read_loss()
    }
}

/// Returns an event's folder below `events`.
fn event_path(kind: BlockEventKind) -> String {
    format!("block/{}", kind.name())
}

/// Filter of events in the kernel: by device, and by a sample of all positions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelFilter {
    /// Devices and their partitions; empty means all.
    pub devices: Vec<u32>,
    /// log2 of the sampling ratio: of 2 to this power address ranges of 128 KiB, one is traced; 0 means all.
    pub sample_bits: u32,
}

/// Largest number of devices that one filter can name; if there are more, this process filters the events.
const MAX_NAMED_DEVICES: usize = 16;
/// log2 of the sectors of an address range, which is sampled as a whole.
const RANGE_BITS: u32 = 8;
/// log2 of the largest sampling ratio: 1 of 128 address ranges.
pub const MAX_SAMPLE_BITS: u32 = 7;

impl KernelFilter {
    /// Formats the filter in the kernel's language (Documentation/trace/events.rst); `None` for everything.
    pub fn event_expression(&self) -> Option<String> {
        let has_names = (1..=MAX_NAMED_DEVICES).contains(&self.devices.len());
        let devices =
            has_names.then(|| self.devices.iter().map(|d| format!("dev == {d}")).collect::<Vec<_>>().join(" || "));
        let mask = self.sector_mask();
        let range = (mask > 0).then(|| format!("!(sector & {mask})"));
        match (devices, range) {
            (Some(devices), Some(range)) => Some(format!("({devices}) && {range}")),
            (devices, range) => devices.or(range),
        }
    }

    /// Formats the filter for the event of dirtied pages, which names the disk as text; `None` for everything.
    pub fn dirty_expression(&self) -> Option<String> {
        let has_names = (1..=MAX_NAMED_DEVICES).contains(&self.devices.len());
        let condition = |device: &u32| {
            let (major, minor) = major_minor(*device);
            format!("name == \"{major}:{minor}\"")
        };
        has_names.then(|| self.devices.iter().map(condition).collect::<Vec<_>>().join(" || "))
    }

    /// Mask of the bits of a sector that are zero if its address range is sampled.
    pub fn sector_mask(&self) -> u64 {
        ((1u64 << self.sample_bits.min(MAX_SAMPLE_BITS)) - 1) << RANGE_BITS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_in_the_kernels_language() {
        let filter = |devices: &[u32], sample| {
            KernelFilter { devices: devices.to_vec(), sample_bits: sample }.event_expression()
        };
        assert_eq!(filter(&[], 0), None);
        assert_eq!(filter(&[5, 6], 0).as_deref(), Some("dev == 5 || dev == 6"));
        assert_eq!(filter(&[5], 3).as_deref(), Some("(dev == 5) && !(sector & 1792)"));
        assert_eq!(filter(&[], 1).as_deref(), Some("!(sector & 256)"));
        assert_eq!(filter(&(0..17).collect::<Vec<_>>(), 0), None);
        assert_eq!(KernelFilter { devices: vec![], sample_bits: 60 }.sector_mask(), 0x7f00);
        let dirty = KernelFilter { devices: vec![7 << 20, 8 << 20 | 16], sample_bits: 2 }.dirty_expression();
        assert_eq!(dirty.as_deref(), Some("name == \"7:0\" || name == \"8:16\""));
    }
}
