//! What an SSD's model says of itself, for those who reckon instead of simulating.

use super::FlashModel;

impl FlashModel {
    /// Units that garbage collection moves for each unit written, and pages that
    /// are read for each page of moved ones, in the first state. The first call
    /// makes the table of the drive's units, which takes milliseconds.
    pub fn moves(&self) -> (f64, f64) {
        let table = self.table();
        let (valid, n) = (table.valid_share(), f64::from(self.page_units));
        let each = if valid > 0.0 { (1.0 - (1.0 - valid).powf(n)) / valid } else { 1.0 };
        (table.ratio(), each)
    }

    /// Writes are reported once they are in its buffer.
    pub fn buffers(&self) -> bool {
        self.buffer > 0
    }
}
