//! Cuts the window into equal parts, for the phases of a recording. Parts take more ticks as the window grows, so that
//! their number stays bounded.

use diskwright_base::Tick;

/// Largest number of parts; half as many remain after each doubling.
const MAX_PARTS: u64 = 512;

/// Number of a part, and the number of doublings when it was assigned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GridCell {
    pub part: u32,
    doublings: u32,
}

/// A part of the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GridPart {
    /// Nanoseconds since 1970.
    pub from_ns: i64,
    pub to_ns: i64,
    pub elapsed_ns: u64,
    pub ticks: u64,
}

impl GridPart {
    fn merge_next(self, next: GridPart) -> GridPart {
        match (self.ticks, next.ticks) {
            (0, _) => next,
            (_, 0) => self,
            _ => GridPart {
                from_ns: self.from_ns,
                to_ns: next.to_ns,
                elapsed_ns: self.elapsed_ns + next.elapsed_ns,
                ticks: self.ticks + next.ticks,
            },
        }
    }
}

/// The parts so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct WindowGrid {
    pub parts: Vec<GridPart>,
    doublings: u32,
    ticks: u64,
}

impl WindowGrid {
    /// Adds a tick and returns the cell that it belongs to.
    pub fn add_tick(&mut self, tick: &Tick) -> GridCell {
        if self.ticks >> self.doublings >= MAX_PARTS {
            self.doublings += 1;
            self.parts = self
                .parts
                .chunks(2)
                .map(|pair| pair.iter().copied().fold(GridPart::default(), GridPart::merge_next))
                .collect();
        }
        let part = (self.ticks >> self.doublings) as usize;
        assert!(
            (part as u64) < MAX_PARTS && self.parts.len() as u64 <= MAX_PARTS,
            "a window has at most {MAX_PARTS} parts"
        );
        self.ticks += 1;
        self.parts.resize(self.parts.len().max(part + 1), GridPart::default());
        let tick_part =
            GridPart { from_ns: tick.start_ns(), to_ns: tick.time_ns, elapsed_ns: tick.elapsed_ns, ticks: 1 };
        self.parts[part] = self.parts[part].merge_next(tick_part);
        GridCell { part: part as u32, doublings: self.doublings }
    }
}

/// Time for which a rule held in each part.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeldTimes {
    held_ms: Vec<u32>,
    doublings: u32,
}

impl HeldTimes {
    /// Adds a tick at which the rule held.
    pub fn add_held_tick(&mut self, cell: GridCell, elapsed_ns: u64) {
        self.widen_parts(cell.doublings);
        let part = cell.part as usize;
        self.held_ms.resize(self.held_ms.len().max(part + 1), 0);
        let ms = u32::try_from(elapsed_ns / 1_000_000).unwrap_or(u32::MAX);
        self.held_ms[part] = self.held_ms[part].saturating_add(ms);
    }

    fn widen_parts(&mut self, doublings: u32) {
        while self.doublings < doublings {
            self.held_ms =
                self.held_ms.chunks(2).map(|pair| pair.iter().fold(0_u32, |a, b| a.saturating_add(*b))).collect();
            self.doublings += 1;
        }
    }

    /// Seconds for which the rule held in each part of a grid.
    pub fn held_seconds(&self, grid: &WindowGrid) -> Vec<f64> {
        let mut widened = self.clone();
        widened.widen_parts(grid.doublings);
        (0..grid.parts.len()).map(|part| widened.held_ms.get(part).map_or(0.0, |ms| f64::from(*ms) / 1e3)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_window_keeps_few_parts_and_what_was_held_in_them() {
        let (mut grid, mut presence) = (WindowGrid::default(), HeldTimes::default());
        for second in 0..10_000_i64 {
            let tick = Tick { time_ns: (second + 1) * 1_000_000_000, elapsed_ns: 1_000_000_000 };
            let cell = grid.add_tick(&tick);
            if (2000..3000).contains(&second) {
                presence.add_held_tick(cell, tick.elapsed_ns);
            }
        }
        assert!(grid.parts.len() <= MAX_PARTS as usize, "{}", grid.parts.len());
        assert_eq!(grid.parts.iter().map(|p| p.ticks).sum::<u64>(), 10_000);
        let seconds = presence.held_seconds(&grid);
        assert_eq!(seconds.iter().sum::<f64>(), 1000.0);
        for (part, held) in grid.parts.iter().zip(&seconds) {
            let inside = part.from_ns >= 2_000_000_000_000 && part.to_ns <= 3_000_000_000_000;
            assert_eq!(*held > 0.0, part.to_ns > 2_000_000_000_000 && part.from_ns < 3_000_000_000_000);
            assert!(!inside || *held * 1e9 == part.elapsed_ns as f64);
        }
    }
}
