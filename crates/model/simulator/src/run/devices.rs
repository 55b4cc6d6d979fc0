//! Devices that serve several requests at a time.

use diskwright_base::Rng;

use super::job::JobPurpose;
use crate::Ns;
use crate::device::{DeviceModel, PlainSpec};
use crate::flash::{FlashDevice, FlashTotals};
use crate::io::{BLOCK_BYTES, Io};
use crate::volume::CloudVolume;

/// A device that answers at once when a request will be done.
pub(super) enum Parallel {
    Flash(Box<FlashDevice>),
    Volume(Box<CloudVolume>),
    Plain { spec: std::sync::Arc<PlainSpec>, dice: Rng },
}

impl Parallel {
    /// A device at rest; `None` for a mechanical drive.
    pub fn new(device: &DeviceModel, dice: Rng) -> Option<Parallel> {
        match device {
            DeviceModel::Mechanical(_) => None,
            DeviceModel::Flash(model) => Some(Parallel::Flash(Box::new(FlashDevice::new(model)))),
            DeviceModel::Volume(spec) => Some(Parallel::Volume(Box::new(CloudVolume::new(spec, dice)))),
            DeviceModel::Plain(spec) => Some(Parallel::Plain { spec: spec.clone(), dice }),
        }
    }

    /// Requests that it takes at a time.
    pub fn slots(&self) -> u32 {
        match self {
            Parallel::Flash(flash) => flash.slots(),
            Parallel::Volume(volume) => volume.slots(),
            Parallel::Plain { spec, .. } => spec.servers,
        }
    }

    /// What its parts gave since the beginning, and what each can give in a second. `None` for
    /// plain servers, whose time at work says all.
    pub fn given(&self) -> Option<([f64; 5], [f64; 5])> {
        match self {
            Parallel::Flash(flash) => Some((flash.needed_s(), [1.0; 5])),
            Parallel::Volume(volume) => {
                let (totals, [operations, bytes, writes, written]) = (volume.totals(), volume.allowed());
                // writes with limits of their own take nothing from the others
                let (by_writes, drawn_by_writes) = match volume.spec().writes {
                    Some(_) => (totals.written_thousandths, totals.written_drawn_bytes),
                    None => (0, 0),
                };
                let thousandths = |count: u64| count as f64 / 1000.0;
                let given = [
                    thousandths(totals.charged_thousandths - by_writes),
                    (totals.drawn_bytes - drawn_by_writes) as f64,
                    thousandths(by_writes),
                    drawn_by_writes as f64,
                    0.0,
                ];
                Some((given, [operations, bytes, writes, written, 1.0]))
            }
            Parallel::Plain { .. } => None,
        }
    }

    /// What an SSD's flash did.
    pub fn flash(&self) -> Option<FlashTotals> {
        match self {
            Parallel::Flash(flash) => Some(flash.totals()),
            _ => None,
        }
    }

    /// Takes an order up: the moment at which it is done. Only SSDs have something to do for one; of
    /// the others a flush is a request without data, and a trim nothing.
    pub fn order(&mut self, now: Ns, what: JobPurpose, io: &Io) -> Ns {
        match (self, what) {
            (Parallel::Flash(flash), JobPurpose::Trim) => flash.trimmed(now, io),
            (Parallel::Flash(flash), _) => flash.flush(now),
            (_, JobPurpose::Trim) => now,
            (Parallel::Volume(volume), _) => volume.flush(now),
            (Parallel::Plain { spec, dice }, _) => now + spec.service.draw(dice),
        }
    }

    /// Takes a request up: the moment at which it is done.
    #[inline]
    pub fn submit(&mut self, now: Ns, io: &Io) -> Ns {
        match self {
            Parallel::Flash(flash) => flash.submit(now, io),
            Parallel::Volume(volume) => volume.submit(now, io),
            Parallel::Plain { spec, dice } => {
                let bytes = (u64::from(io.blocks) * BLOCK_BYTES) as f64;
                now + spec.service.draw(dice) + (bytes / spec.bytes_per_s * 1e9) as Ns
            }
        }
    }
}
