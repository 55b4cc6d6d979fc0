//! Devices that serve several requests in parallel.

use diskwright_base::Rng;

use super::job::JobPurpose;
use crate::Ns;
use crate::device::{DeviceModel, PlainSpec};
use crate::flash::{FlashDevice, FlashTotals};
use crate::io::{BLOCK_BYTES, Io};
use crate::volume::CloudVolume;

/// A device that knows the completion time of a request when it is submitted.
pub(super) enum Parallel {
    Flash(Box<FlashDevice>),
    Volume(Box<CloudVolume>),
    Plain { spec: std::sync::Arc<PlainSpec>, rng: Rng },
}

impl Parallel {
    /// An idle device; `None` for a mechanical drive.
    pub fn new(device: &DeviceModel, rng: Rng) -> Option<Parallel> {
        match device {
            DeviceModel::Mechanical(_) => None,
            DeviceModel::Flash(model) => Some(Parallel::Flash(Box::new(FlashDevice::new(model)))),
            DeviceModel::Volume(spec) => Some(Parallel::Volume(Box::new(CloudVolume::new(spec, rng)))),
            DeviceModel::Plain(spec) => Some(Parallel::Plain { spec: spec.clone(), rng }),
        }
    }

    /// Requests that it accepts at a time.
    pub fn slots(&self) -> u32 {
        match self {
            Parallel::Flash(flash) => flash.slots(),
            Parallel::Volume(volume) => volume.slots(),
            Parallel::Plain { spec, .. } => spec.servers,
        }
    }

    /// Returns what each resource delivered since the beginning, and its capacity per second. `None` for plain servers,
    /// whose service time is their only resource.
    pub fn given(&self) -> Option<([f64; 5], [f64; 5])> {
        match self {
            Parallel::Flash(flash) => Some((flash.needed_s(), [1.0; 5])),
            Parallel::Volume(volume) => {
                let (totals, [operations, bytes, writes, written]) = (volume.totals(), volume.allowed());
                // writes with their own limits draw nothing from the others
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

    /// Totals of an SSD's flash.
    pub fn flash(&self) -> Option<FlashTotals> {
        match self {
            Parallel::Flash(flash) => Some(flash.totals()),
            _ => None,
        }
    }

    /// Submits a flush or trim and returns its completion time. Only SSDs do work for a trim; a flush of other devices
    /// is a request without data.
    pub fn order(&mut self, now: Ns, what: JobPurpose, io: &Io) -> Ns {
        match (self, what) {
            (Parallel::Flash(flash), JobPurpose::Trim) => flash.trimmed(now, io),
            (Parallel::Flash(flash), _) => flash.flush(now),
            (_, JobPurpose::Trim) => now,
            (Parallel::Volume(volume), _) => volume.flush(now),
            (Parallel::Plain { spec, rng }, _) => now + spec.service.draw(rng),
        }
    }

    /// Submits a request and returns its completion time.
    #[inline]
    pub fn submit(&mut self, now: Ns, io: &Io) -> Ns {
        match self {
            Parallel::Flash(flash) => flash.submit(now, io),
            Parallel::Volume(volume) => volume.submit(now, io),
            Parallel::Plain { spec, rng } => {
                let bytes = (u64::from(io.blocks) * BLOCK_BYTES) as f64;
                now + spec.service.draw(rng) + (bytes / spec.bytes_per_s * 1e9) as Ns
            }
        }
    }
}
