//! What a drive's model says of itself, for those who reckon instead of simulating.

use super::{ChannelSpec, DriveCacheSpec, Model, Overheads, PositioningModel, SectorAddress};

const S: f64 = 1e-9;

impl Model {
    /// Time of a turn, s.
    pub fn turn_s(&self) -> f64 {
        self.mechanism.turn_ns() * S
    }

    /// How the time to a sector is found.
    pub fn access(&self) -> PositioningModel {
        self.mechanism.access()
    }

    /// Times of its processor.
    pub fn overheads(&self) -> &Overheads {
        &self.overheads
    }

    /// Its buffer and cache.
    pub fn cache(&self) -> &DriveCacheSpec {
        &self.cache
    }

    /// How fast blocks move over the channel.
    pub fn channel(&self) -> &ChannelSpec {
        &self.channel
    }

    /// Time of the arm, and of switching heads, from one place to another, s.
    pub fn travel_s(&self, from: &SectorAddress, to: &SectorAddress, write: bool) -> f64 {
        self.mechanism.travel_between(from, to, write) as f64 * S
    }

    /// From the end of a place's track until the next track's first sector
    /// passes, s: what skew is for; and where that sector is. `None` on the last track.
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

/// A turn in the unit of angles.
const ANGLE: f64 = 18_446_744_073_709_551_616.0;
