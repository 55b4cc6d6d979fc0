//! Characteristics of a drive's model, for analytic calculations without simulation.

use super::{ChannelSpec, DriveCacheSpec, Model, Overheads, PositioningModel, SectorAddress};

const SECONDS_PER_NS: f64 = 1e-9;

impl Model {
    /// Time of a revolution, s.
    pub fn revolution_s(&self) -> f64 {
        self.mechanism.exact_revolution_ns() * SECONDS_PER_NS
    }

    /// Method by which the time to a sector is found.
    pub fn positioning_model(&self) -> PositioningModel {
        self.mechanism.positioning_model()
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
    pub fn travel_time_s(&self, from: &SectorAddress, to: &SectorAddress, write: bool) -> f64 {
        self.mechanism.travel_time_between(from, to, write) as f64 * SECONDS_PER_NS
    }

    /// Time from the end of a place's track until the first sector of the next track passes, s (the purpose of skew),
    /// and the address of that sector. `None` on the last track.
    pub fn skew_time_s(&self, place: &SectorAddress, block: u64) -> Option<(f64, SectorAddress)> {
        let geometry = &self.mechanism.geometry;
        let next = block + u64::from(geometry.track_run(block, u32::MAX).blocks);
        if next >= self.capacity_blocks() {
            return None;
        }
        let sectors = f64::from(geometry.sectors_per_track(place));
        let end =
            place.angle as f64 / REVOLUTION_ANGLE + f64::from(geometry.track_run(block, u32::MAX).sectors) / sectors;
        let next = geometry.locate_block(next);
        let start = next.angle as f64 / REVOLUTION_ANGLE;
        Some(((start - end).rem_euclid(1.0) * self.revolution_s(), next))
    }
}

/// A full revolution in the unit of angles, 2^64.
const REVOLUTION_ANGLE: f64 = 18_446_744_073_709_551_616.0;
