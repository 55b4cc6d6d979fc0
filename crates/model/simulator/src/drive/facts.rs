//! Characteristics of a drive's model, for analytic calculations without simulation.

use super::{ChannelSpec, DriveCacheSpec, Model, Overheads, PositioningModel, SectorAddress};

const S: f64 = 1e-9;

impl Model {
    /// Time of a revolution, s.
    pub fn turn_s(&self) -> f64 {
        self.mechanism.turn_ns() * S
    }

    /// Method by which the time to a sector is found.
    pub fn access(&self) -> PositioningModel {
        self.mechanism.access()
    }

    /// Times of the drive's processor.
    pub fn overheads(&self) -> &Overheads {
        &self.overheads
    }

    /// Buffer and cache.
    pub fn cache(&self) -> &DriveCacheSpec {
        &self.cache
    }

    /// Speed of the channel.
    pub fn channel(&self) -> &ChannelSpec {
        &self.channel
    }

    /// Time to move the arm and switch heads from one place to another, s.
    pub fn travel_s(&self, from: &SectorAddress, to: &SectorAddress, write: bool) -> f64 {
        self.mechanism.travel_between(from, to, write) as f64 * S
    }

    /// Time from the end of a place's track until the first sector of the next track passes, s (the purpose of skew),
    /// and the address of that sector. `None` on the last track.
    pub fn skew_s(&self, place: &SectorAddress, block: u64) -> Option<(f64, SectorAddress)> {
        let geometry = &self.mechanism.geometry;
        let next = block + u64::from(geometry.run(block, u32::MAX).blocks);
        if next >= self.blocks() {
            return None;
        }
        let sectors = f64::from(geometry.sectors(place));
        let end = place.angle as f64 / ANGLE + f64::from(geometry.run(block, u32::MAX).sectors) / sectors;
        let next = geometry.place(next);
        let start = next.angle as f64 / ANGLE;
        Some(((start - end).rem_euclid(1.0) * self.turn_s(), next))
    }
}

/// A full revolution in the unit of angles, 2^64.
const ANGLE: f64 = 18_446_744_073_709_551_616.0;
