//! Characteristics of an SSD's model, for analytic calculations without simulation.

use super::FlashModel;

impl FlashModel {
    /// Returns the units that garbage collection moves per unit written, and the pages read per page of moved units, in
    /// the initial state. The first call builds the table of the drive's units, which takes milliseconds.
    pub fn gc_ratios(&self) -> (f64, f64) {
        let table = self.initial_map();
        let (valid, n) = (table.valid_share(), f64::from(self.page_units));
        let reads_per_page = if valid > 0.0 { (1.0 - (1.0 - valid).powf(n)) / valid } else { 1.0 };
        (table.gc_ratio(), reads_per_page)
    }

    /// Returns true if writes are acknowledged once they are in the write buffer.
    pub fn has_write_buffer(&self) -> bool {
        self.buffer_units > 0
    }
}
