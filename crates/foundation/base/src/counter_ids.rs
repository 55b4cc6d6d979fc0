//! The id of each counter of the catalogue as a constant, in a module for each object. `build.rs` writes them from the
//! files in `counters/`.
//!
//! ```
//! use diskwright_base::counter_ids::physical_disk;
//! assert_eq!(physical_disk::AVG_QUEUE_LENGTH, "physical_disk.avg_queue_length");
//! ```

include!(concat!(env!("OUT_DIR"), "/counter_ids.rs"));

#[cfg(test)]
mod tests {
    use crate::Catalogue;

    #[test]
    fn every_counter_of_the_catalogue_has_a_constant() {
        let generated = include_str!(concat!(env!("OUT_DIR"), "/counter_ids.rs"));
        let mut ids: Vec<&str> = generated.lines().filter_map(|line| line.split('"').nth(1)).collect();
        let mut expected: Vec<&str> =
            Catalogue::builtin().counters().iter().map(|counter| counter.id.as_str()).collect();
        ids.sort_unstable();
        expected.sort_unstable();
        assert_eq!(ids, expected);
    }
}
