//! Devices that serve several requests in parallel.

use diskwright_base::Rng;

use super::job::JobPurpose;
use crate::Ns;
use crate::device::{DeviceModel, PlainSpec};
use crate::flash::{FlashDevice, FlashTotals};
use crate::io::{BLOCK_BYTES, Io};
use crate::volume::CloudVolume;

/// A device that knows the completion time of a request when it is submitted.
pub(super) enum ParallelDevice {
    Flash(Box<FlashDevice>),
    Volume(Box<CloudVolume>),
    Plain { spec: std::sync::Arc<PlainSpec>, rng: Rng },
}

/// The use of a device's resources since the beginning.
#[derive(Clone, Copy, Debug)]
pub(super) struct CapacityUse {
    /// By resource: work delivered.
    delivered: [f64; 5],
    /// By resource: its capacity per second of the device's own time.
    rates_per_s: [f64; 5],
}

impl CapacityUse {
    /// Used share of the scarcest resource, 0 to 1, since `before`, `elapsed_ns` of the device's own time ago.
    pub fn scarcest_share(&self, before: &CapacityUse, elapsed_ns: Ns) -> f64 {
        let parts = self.delivered.iter().zip(&before.delivered).zip(&self.rates_per_s);
        let shares = parts.map(|((after, before), rate)| (after - before) / (rate * elapsed_ns as f64 * 1e-9));
        shares.fold(0.0, f64::max).min(1.0)
    }
}

impl ParallelDevice {
    /// An idle device; `None` for a mechanical drive.
    pub fn new(device: &DeviceModel, rng: Rng) -> Option<ParallelDevice> {
        match device {
            DeviceModel::Mechanical(_) => None,
            DeviceModel::Flash(model) => Some(ParallelDevice::Flash(Box::new(FlashDevice::new(model)))),
            DeviceModel::Volume(spec) => Some(ParallelDevice::Volume(Box::new(CloudVolume::new(spec, rng)))),
            DeviceModel::Plain(spec) => Some(ParallelDevice::Plain { spec: spec.clone(), rng }),
        }
    }

    /// Number of requests that the device accepts at a time.
    pub fn slot_count(&self) -> u32 {
        match self {
            ParallelDevice::Flash(flash) => flash.queue_slots(),
            ParallelDevice::Volume(volume) => volume.slot_count(),
            ParallelDevice::Plain { spec, .. } => spec.servers,
        }
    }

    /// Returns the use of the device's resources. `None` for plain servers, whose service time is their only resource.
    pub fn capacity_use(&self) -> Option<CapacityUse> {
        match self {
            ParallelDevice::Flash(flash) => {
                Some(CapacityUse { delivered: flash.busy_times_s(), rates_per_s: [1.0; 5] })
            }
            ParallelDevice::Volume(volume) => {
                let (totals, [operations, bytes, writes, written]) = (volume.totals(), volume.allowed_rates());
                // writes with their own limits draw nothing from the limits of reads
                let (by_writes, drawn_by_writes) = match volume.spec().writes {
                    Some(_) => (totals.written_thousandths, totals.written_drawn_bytes),
                    None => (0, 0),
                };
                let thousandths = |count: u64| count as f64 / 1000.0;
                let delivered = [
                    thousandths(totals.charged_thousandths - by_writes),
                    (totals.drawn_bytes - drawn_by_writes) as f64,
                    thousandths(by_writes),
                    drawn_by_writes as f64,
                    0.0,
                ];
                Some(CapacityUse { delivered, rates_per_s: [operations, bytes, writes, written, 1.0] })
            }
            ParallelDevice::Plain { .. } => None,
        }
    }

    /// Totals of an SSD's flash.
    pub fn flash_totals(&self) -> Option<FlashTotals> {
        match self {
            ParallelDevice::Flash(flash) => Some(flash.totals()),
            _ => None,
        }
    }

    /// Submits a flush or trim and returns its completion time. Only SSDs do work for a trim; a flush of other devices
    /// is a request without data.
    pub fn submit_order(&mut self, now: Ns, purpose: JobPurpose, io: &Io) -> Ns {
        match (self, purpose) {
            (ParallelDevice::Flash(flash), JobPurpose::Trim) => flash.submit_trim(now, io),
            (ParallelDevice::Flash(flash), _) => flash.submit_flush(now),
            (_, JobPurpose::Trim) => now,
            (ParallelDevice::Volume(volume), _) => volume.flush(now),
            (ParallelDevice::Plain { spec, rng }, _) => now + spec.service.draw_time(rng),
        }
    }

    /// Submits a request and returns its completion time.
    #[inline]
    pub fn submit_request(&mut self, now: Ns, io: &Io) -> Ns {
        match self {
            ParallelDevice::Flash(flash) => flash.submit(now, io),
            ParallelDevice::Volume(volume) => volume.submit_request(now, io),
            ParallelDevice::Plain { spec, rng } => {
                let bytes = (u64::from(io.blocks) * BLOCK_BYTES) as f64;
                now + spec.service.draw_time(rng) + (bytes / spec.bytes_per_s * 1e9) as Ns
            }
        }
    }
}
