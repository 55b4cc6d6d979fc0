//! Sums over all processes that the tables list, to be compared with what the machine did.

use diskwright_base::ProcessTable;

/// What the listed processes did together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ListedActivity {
    /// Seconds that the tables cover.
    pub seconds: f64,
    pub processor_s: f64,
    pub read_bytes: f64,
    pub write_bytes: f64,
    /// The tables show the I/O of at least one process.
    pub has_io: bool,
    /// The tables show processor time of at least one process.
    pub has_processor: bool,
}

impl ListedActivity {
    pub fn add_table(&mut self, table: &ProcessTable) {
        self.seconds += table.elapsed_s;
        for row in &table.rows {
            let reads = row.read_bytes_per_s.or(row.requested_read_bytes_per_s);
            // pages that were discarded before they were written, or written again, are not in the kernel's account
            let writes =
                [row.write_bytes_per_s, row.requested_write_bytes_per_s].into_iter().flatten().reduce(f64::max);
            self.processor_s += row.processor * table.elapsed_s;
            self.read_bytes += reads.unwrap_or(0.0) * table.elapsed_s;
            self.write_bytes += writes.unwrap_or(0.0) * table.elapsed_s;
            self.has_io |= reads.is_some() || writes.is_some();
            self.has_processor |= row.processor > 0.0;
        }
    }
}
