//! What an SSD is made of, as data, and what follows from it once.

use std::sync::{Arc, OnceLock};

use super::table::FlashMap;
use crate::Ns;
use crate::io::BLOCK_BYTES;

/// Most units of the scaled table; see [`super::table`].
const MOST_UNITS: u64 = 1 << 17;

/// An SSD. Times are ns, rates bytes a second.
#[derive(Clone, Debug, PartialEq)]
pub struct FlashSpec {
    /// What it is called.
    pub name: String,
    /// Blocks of 512 bytes that the host sees.
    pub blocks: u64,
    /// Requests that it takes at a time.
    pub slots: u32,
    /// Rate of the host interface, each direction.
    pub link: f64,
    /// Both directions at the same time (PCIe, SAS) or one at a time (SATA).
    pub duplex: bool,
    /// The drive's processors are busy so long for a read: what bounds requests a second.
    pub command_read: Ns,
    /// The same for a write.
    pub command_write: Ns,
    /// What a read takes besides, without anything being busy for it.
    pub latency_read: Ns,
    /// The same for a write.
    pub latency_write: Ns,
    /// Channels.
    pub channels: u32,
    /// Dies on each channel.
    pub dies: u32,
    /// Planes of a die; a program fills a page of each.
    pub planes: u32,
    /// Planes of a die read different pages at the same time.
    pub independent_planes: bool,
    /// Bytes of a page.
    pub page: u32,
    /// Pages of a block.
    pub pages: u32,
    /// Bytes of a unit of the map; smaller writes read the rest of it first.
    pub unit: u32,
    /// Reading a page into its register.
    pub read: Ns,
    /// Programming a page of each plane, the mean over the kinds of pages.
    pub program: Ns,
    /// Erasing a block of each plane.
    pub erase: Ns,
    /// A read that finds its die programming or erasing waits so long at most,
    /// because that is suspended for it. None: it waits for the end.
    pub suspend: Option<Ns>,
    /// Rate of a channel between dies and controller.
    pub channel: f64,
    /// Flash beyond what the host sees, as a share of that.
    pub spare: f64,
    /// Write buffer, bytes; writes are reported once they are in it. With less
    /// than what one program takes, they are reported when they are programmed.
    pub buffer: u64,
    /// What is in the write buffer outlives a loss of power, so that nothing waits for a flush.
    pub protected: bool,
    /// A part of the flash that is written with one bit a cell.
    pub slc: Option<Slc>,
    /// In what state it begins.
    pub start: Start,
}

/// The fast part of the flash.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slc {
    /// Bytes.
    pub bytes: u64,
    /// Programming a page of each plane there.
    pub program: Ns,
    /// Rate at which it is emptied into the rest while the host asks for nothing.
    pub fold: f64,
}

/// The state in which an SSD begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Start {
    /// Share of the host's blocks that was written once, in order.
    pub filled: f64,
    /// How many times this share was then overwritten, in random order.
    pub overwritten: f64,
}

impl FlashSpec {
    /// Looks for what cannot be.
    ///
    /// # Errors
    /// A text that names the item and what would be right.
    pub fn check(&self) -> Result<(), String> {
        let whole = [
            ("capacity", self.blocks, 8, 1 << 45),
            ("slots", self.slots.into(), 1, 1 << 20),
            ("channels", self.channels.into(), 1, 256),
            ("dies", self.dies.into(), 1, 256),
            ("planes", self.planes.into(), 1, 64),
            ("page", self.page.into(), 512, 1 << 20),
            ("pages", self.pages.into(), 1, 1 << 20),
            ("unit", self.unit.into(), 512, self.page.into()),
            ("buffer", self.buffer, 0, 1 << 34),
        ];
        if let Some((item, found, least, most)) = whole.into_iter().find(|(_, v, least, most)| v < least || v > most) {
            return Err(format!("{item}: {found}; expected {least} to {most}"));
        }
        if !u64::from(self.unit).is_multiple_of(BLOCK_BYTES) || !self.page.is_multiple_of(self.unit) {
            let (page, unit) = (self.page, self.unit);
            return Err(format!("unit: {unit} bytes; expected a multiple of 512 that divides a page of {page}"));
        }
        if self.blocks < u64::from(self.unit) / BLOCK_BYTES {
            return Err(format!("capacity: {} blocks; expected at least one unit", self.blocks));
        }
        let rates = [("link", self.link), ("channel", self.channel)];
        let fold = self.slc.map(|slc| ("fold", slc.fold));
        if let Some((item, rate)) = rates.into_iter().chain(fold).find(|(_, rate)| !(1e3..=1e13).contains(rate)) {
            return Err(format!("{item}: {rate} bytes/s; expected 1 KB/s to 10 TB/s"));
        }
        let times = [
            ("read", self.read, 1),
            ("program", self.program, 1),
            ("erase", self.erase, 0),
            ("suspend", self.suspend.unwrap_or(0), 0),
            ("command", self.command_read.max(self.command_write), 0),
            ("latency", self.latency_read.max(self.latency_write), 0),
            ("SLC program", self.slc.map_or(1, |slc| slc.program), 1),
        ];
        if let Some((item, time, _)) = times.into_iter().find(|(_, t, least)| t < least || *t > 10_000_000_000) {
            return Err(format!("{item}: {time} ns; expected more than 0 and at most 10 s"));
        }
        let shares = [
            ("spare", self.spare, 0.01, 10.0),
            ("filled", self.start.filled, 0.0, 1.0),
            ("overwritten", self.start.overwritten, 0.0, 10.0),
        ];
        match shares.into_iter().find(|(_, share, least, most)| !(*least..=*most).contains(share)) {
            Some((item, share, least, most)) => Err(format!("{item}: {share}; expected {least} to {most}")),
            None => Ok(()),
        }
    }
}

/// A rate as time of a byte, 2^-16 ns.
fn fixed(rate: f64) -> u64 {
    (65536e9 / rate).round() as u64
}

/// What never changes of an SSD; drives of one kind share it.
#[derive(Clone, Debug)]
pub struct FlashModel {
    pub(super) spec: FlashSpec,
    /// Times of a byte on the link and on a channel, 2^-16 ns.
    pub(super) link: u64,
    pub(super) channel: u64,
    /// Dies of all channels.
    pub(super) all_dies: u32,
    /// Blocks of 512 bytes of a unit, units of a page, and units of one program.
    pub(super) unit_blocks: u32,
    pub(super) page_units: u32,
    pub(super) group: u32,
    /// Units that the write buffer holds; none where it is too small to be one.
    pub(super) buffer: u32,
    /// Units of the drive for each unit of the scaled table.
    pub(super) scale: u64,
    /// The table in its first state, made when the first write asks for it.
    table: Arc<OnceLock<FlashMap>>,
}

impl FlashModel {
    /// Works out what follows from a description.
    ///
    /// # Errors
    /// A text that names the item that cannot be, and what would be right.
    pub fn new(spec: &FlashSpec) -> Result<FlashModel, String> {
        spec.check()?;
        let unit_blocks = spec.unit / BLOCK_BYTES as u32;
        let units = spec.blocks.div_ceil(u64::from(unit_blocks));
        let page_units = spec.page / spec.unit;
        let group = page_units * spec.planes;
        let buffer = (spec.buffer / u64::from(spec.unit)) as u32;
        Ok(FlashModel {
            link: fixed(spec.link),
            channel: fixed(spec.channel),
            all_dies: spec.channels * spec.dies,
            unit_blocks,
            page_units,
            group,
            buffer: if buffer < group * 2 { 0 } else { buffer },
            scale: units.div_ceil(MOST_UNITS),
            table: Arc::default(),
            spec: spec.clone(),
        })
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// Blocks of 512 bytes.
    pub fn blocks(&self) -> u64 {
        self.spec.blocks
    }

    /// Requests that it takes at a time.
    pub fn slots(&self) -> u32 {
        self.spec.slots
    }

    /// What it was made from.
    pub fn spec(&self) -> &FlashSpec {
        &self.spec
    }

    /// The scaled table in its first state.
    pub(super) fn table(&self) -> &FlashMap {
        let units = self.spec.blocks.div_ceil(u64::from(self.unit_blocks)).div_ceil(self.scale) as u32;
        self.table.get_or_init(|| FlashMap::new(units, self.spec.spare, self.spec.start))
    }
}

/// Counts of an SSD since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlashTotals {
    /// Reads and writes.
    pub requests: [u64; 2],
    /// Blocks of 512 bytes read and written by the host.
    pub blocks: [u64; 2],
    /// Pages read from the flash, for whatever reason.
    pub pages_read: u64,
    /// Pages programmed, for whatever reason.
    pub pages_programmed: u64,
    /// Of these, to move what garbage collection found still valid.
    pub pages_moved: u64,
    /// Pages programmed when the fast part of the flash was emptied into the rest.
    pub pages_folded: u64,
    /// Pages programmed into the fast part of the flash.
    pub pages_slc: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Units that had to be read because a write covered only a part.
    pub merged_units: u64,
    /// Units of reads that were still in the write buffer.
    pub buffer_units: u64,
    /// Time that dies were at work, added up, ns.
    pub die_busy_ns: u128,
    /// Bytes of a page, for [`FlashTotals::write_amplification`].
    pub page: u32,
}

impl FlashTotals {
    /// Bytes programmed for each byte that the host wrote; NaN where it wrote nothing.
    pub fn write_amplification(&self) -> f64 {
        if self.blocks[1] == 0 {
            return f64::NAN;
        }
        self.pages_programmed as f64 * f64::from(self.page) / (self.blocks[1] as f64 * BLOCK_BYTES as f64)
    }
}
