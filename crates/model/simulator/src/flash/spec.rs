//! Description of an SSD as plain data, and the immutable model derived from it.

use std::sync::{Arc, OnceLock};

use super::flash_map::FlashMap;
use crate::Ns;
use crate::io::BLOCK_BYTES;

/// Largest number of units of the scaled table; see [`super::flash_map`].
const MAX_TABLE_UNITS: u64 = 1 << 17;

/// Longest time of one operation, ns: 10 s.
const MAX_TIME_NS: Ns = 10_000_000_000;

/// Description of an SSD. Times are ns, rates bytes per second.
#[derive(Clone, Debug, PartialEq)]
pub struct FlashSpec {
    /// Name of the drive.
    pub name: String,
    /// Capacity in blocks of 512 bytes, as the host sees it.
    pub blocks: u64,
    /// Number of requests that the drive queues.
    pub queue_slots: u32,
    /// Rate of the host interface in each direction.
    pub link_bytes_per_s: f64,
    /// True if both directions work at the same time (PCIe, SAS), false for one at a time (SATA).
    pub duplex: bool,
    /// Busy time of the drive's processors per read, which limits requests per second.
    pub command_read: Ns,
    /// Busy time of the drive's processors per write.
    pub command_write: Ns,
    /// Additional latency of a read during which no part is busy.
    pub latency_read: Ns,
    /// Additional latency of a write during which no part is busy.
    pub latency_write: Ns,
    /// Number of channels.
    pub channels: u32,
    /// Dies on each channel.
    pub dies_per_channel: u32,
    /// Planes of a die; a program fills a page of each.
    pub planes: u32,
    /// True if the planes of a die read different pages at the same time.
    pub independent_planes: bool,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Pages of a block.
    pub pages_per_block: u32,
    /// Bytes of a unit of the map; a smaller write first reads the other bytes of its unit.
    pub unit_bytes: u32,
    /// Time to read a page into its register.
    pub read_ns: Ns,
    /// Time to program a page of each plane, the mean over the kinds of pages.
    pub program_ns: Ns,
    /// Time to erase a block of each plane.
    pub erase_ns: Ns,
    /// Longest wait of a read that finds its die programming or erasing, before the operation is suspended for it.
    /// `None` if the read waits for the end of the operation.
    pub suspend_ns: Option<Ns>,
    /// Rate of a channel between dies and controller.
    pub channel_bytes_per_s: f64,
    /// Spare flash beyond the capacity, as a share of the capacity.
    pub spare_share: f64,
    /// Write buffer, bytes; writes are acknowledged once they are in it. If it is smaller than two programs, writes are
    /// acknowledged when they are programmed.
    pub buffer_bytes: u64,
    /// True if the write buffer survives a power loss, so that a flush does not wait.
    pub survives_power_loss: bool,
    /// SLC cache: a part of the flash that is written with one bit per cell.
    pub slc: Option<SlcCache>,
    /// State at the beginning.
    pub initial_state: InitialState,
}

/// SLC cache, the fast part of the flash.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlcCache {
    /// Size, bytes.
    pub bytes: u64,
    /// Time to program a page of each plane in the SLC cache.
    pub program_ns: Ns,
    /// Rate at which it is folded into the other flash while the drive is idle, bytes/s.
    pub fold_bytes_per_s: f64,
}

/// State of an SSD at the beginning.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InitialState {
    /// Share of the host's blocks that was written once, sequentially.
    pub filled_share: f64,
    /// Number of times that this share was then overwritten, in random order.
    pub overwrite_passes: f64,
}

impl FlashSpec {
    /// Checks the description for impossible values.
    ///
    /// # Errors
    /// A text that names the item and what is expected.
    pub fn check_limits(&self) -> Result<(), String> {
        let integers = [
            ("capacity", self.blocks, 8, 1 << 45),
            ("slots", self.queue_slots.into(), 1, 1 << 20),
            ("channels", self.channels.into(), 1, 256),
            ("dies", self.dies_per_channel.into(), 1, 256),
            ("planes", self.planes.into(), 1, 64),
            ("page", self.page_bytes.into(), 512, 1 << 20),
            ("pages", self.pages_per_block.into(), 1, 1 << 20),
            ("unit", self.unit_bytes.into(), 512, self.page_bytes.into()),
            ("buffer", self.buffer_bytes, 0, 1 << 34),
        ];
        if let Some((item, found, min, max)) = integers.into_iter().find(|(_, v, min, max)| v < min || v > max) {
            return Err(format!("{item}: {found}; expected {min} to {max}"));
        }
        if !u64::from(self.unit_bytes).is_multiple_of(BLOCK_BYTES) || !self.page_bytes.is_multiple_of(self.unit_bytes) {
            let (page, unit) = (self.page_bytes, self.unit_bytes);
            return Err(format!("unit: {unit} bytes; expected a multiple of 512 that divides a page of {page}"));
        }
        if self.blocks < u64::from(self.unit_bytes) / BLOCK_BYTES {
            return Err(format!("capacity: {} blocks; expected at least one unit", self.blocks));
        }
        let rates = [("link", self.link_bytes_per_s), ("channel", self.channel_bytes_per_s)];
        let fold = self.slc.map(|slc| ("fold", slc.fold_bytes_per_s));
        if let Some((item, rate)) = rates.into_iter().chain(fold).find(|(_, rate)| !(1e3..=1e13).contains(rate)) {
            return Err(format!("{item}: {rate} bytes/s; expected 1 kB/s to 10 TB/s"));
        }
        let times = [
            ("read", self.read_ns, 1),
            ("program", self.program_ns, 1),
            ("erase", self.erase_ns, 0),
            ("suspend", self.suspend_ns.unwrap_or(0), 0),
            ("command", self.command_read.max(self.command_write), 0),
            ("latency", self.latency_read.max(self.latency_write), 0),
            ("SLC program", self.slc.map_or(1, |slc| slc.program_ns), 1),
        ];
        if let Some((item, time, min)) = times.into_iter().find(|(_, t, min)| t < min || *t > MAX_TIME_NS) {
            return Err(format!("{item}: {time} ns; expected {min} ns to 10 s"));
        }
        let shares = [
            ("spare", self.spare_share, 0.01, 10.0),
            ("filled", self.initial_state.filled_share, 0.0, 1.0),
            ("overwritten", self.initial_state.overwrite_passes, 0.0, 10.0),
        ];
        match shares.into_iter().find(|(_, share, min, max)| !(*min..=*max).contains(share)) {
            Some((item, share, min, max)) => Err(format!("{item}: {share}; expected {min} to {max}")),
            None => Ok(()),
        }
    }
}

/// Converts a rate to the time of a byte, 2^-16 ns.
fn to_fixed_ns_per_byte(rate: f64) -> u64 {
    (65536e9 / rate).round() as u64
}

/// Immutable model of an SSD, shared by all drives of one kind.
#[derive(Clone, Debug)]
pub struct FlashModel {
    pub(super) spec: FlashSpec,
    /// Time of a byte on the link, 2^-16 ns.
    pub(super) link_fixed_ns_per_byte: u64,
    /// Time of a byte on a channel, 2^-16 ns.
    pub(super) channel_fixed_ns_per_byte: u64,
    /// Dies of all channels.
    pub(super) die_count: u32,
    /// Blocks of 512 bytes in a unit.
    pub(super) unit_blocks: u32,
    /// Units in a page.
    pub(super) page_units: u32,
    /// Units in one program.
    pub(super) program_units: u32,
    /// Units that the write buffer holds; 0 if it is smaller than two programs.
    pub(super) buffer_units: u32,
    /// Units of the drive for each unit of the scaled table.
    pub(super) units_per_sample: u64,
    /// Scaled table in its initial state, built when first needed.
    initial_map: Arc<OnceLock<FlashMap>>,
}

impl FlashModel {
    /// Derives the model from a description.
    ///
    /// # Errors
    /// A text that names the impossible item and what is expected.
    pub fn new(spec: &FlashSpec) -> Result<FlashModel, String> {
        spec.check_limits()?;
        let unit_blocks = spec.unit_bytes / BLOCK_BYTES as u32;
        let units = spec.blocks.div_ceil(u64::from(unit_blocks));
        let page_units = spec.page_bytes / spec.unit_bytes;
        let program_units = page_units * spec.planes;
        let buffer = (spec.buffer_bytes / u64::from(spec.unit_bytes)) as u32;
        Ok(FlashModel {
            link_fixed_ns_per_byte: to_fixed_ns_per_byte(spec.link_bytes_per_s),
            channel_fixed_ns_per_byte: to_fixed_ns_per_byte(spec.channel_bytes_per_s),
            die_count: spec.channels * spec.dies_per_channel,
            unit_blocks,
            page_units,
            program_units,
            buffer_units: if buffer < program_units * 2 { 0 } else { buffer },
            units_per_sample: units.div_ceil(MAX_TABLE_UNITS),
            initial_map: Arc::default(),
            spec: spec.clone(),
        })
    }

    /// Name of the drive.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// Capacity in blocks of 512 bytes.
    pub fn capacity_blocks(&self) -> u64 {
        self.spec.blocks
    }

    /// Number of requests that the drive queues.
    pub fn queue_slots(&self) -> u32 {
        self.spec.queue_slots
    }

    /// Description from which the model was built.
    pub fn spec(&self) -> &FlashSpec {
        &self.spec
    }

    /// Returns the scaled table in its initial state.
    pub(super) fn initial_map(&self) -> &FlashMap {
        let units = self.spec.blocks.div_ceil(u64::from(self.unit_blocks)).div_ceil(self.units_per_sample) as u32;
        self.initial_map.get_or_init(|| FlashMap::new(units, self.spec.spare_share, self.spec.initial_state))
    }
}

/// Counters of an SSD since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlashTotals {
    /// Reads and writes.
    pub requests: [u64; 2],
    /// Blocks of 512 bytes read and written by the host.
    pub blocks: [u64; 2],
    /// Pages read from the flash, for any reason.
    pub pages_read: u64,
    /// Pages programmed, for any reason.
    pub pages_programmed: u64,
    /// Pages programmed to move units that garbage collection found valid.
    pub pages_moved: u64,
    /// Pages programmed when the SLC cache was folded into the other flash.
    pub pages_folded: u64,
    /// Pages programmed into the SLC cache.
    pub pages_programmed_slc: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Units read because a write covered only a part of them.
    pub merged_units: u64,
    /// Units of reads found in the write buffer.
    pub buffer_units: u64,
    /// Busy time of all dies, added up, ns.
    pub die_busy_ns: u128,
    /// Bytes of a page, for [`FlashTotals::write_amplification`].
    pub page_bytes: u32,
}

impl FlashTotals {
    /// Bytes programmed per byte that the host wrote; NaN if it wrote nothing.
    pub fn write_amplification(&self) -> f64 {
        if self.blocks[1] == 0 {
            return f64::NAN;
        }
        self.pages_programmed as f64 * f64::from(self.page_bytes) / (self.blocks[1] as f64 * BLOCK_BYTES as f64)
    }
}
