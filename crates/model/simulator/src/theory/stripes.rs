//! Choosing the stripe unit (Chen and Patterson, "Maximizing performance in a striped disk array", ISCA 1990). Small
//! units let every drive work on one request, large ones let each drive work on its own; the better choice depends on
//! the number of concurrent requests and on how much a drive could transfer during a positioning.
//!
//! `tests/striping.rs` compares the rules with a simulation of 16 drives under requests of 4 KB to 1 MB: with 4 to 16
//! concurrent requests the first rule reaches at least 94 % of the best unit's throughput for all sizes, the second
//! rule 74 %. With one concurrent request the first rule gives a single sector, which suits synchronized spindles; with
//! others it costs small requests a third.

/// Stripe unit, bytes, for a known number of concurrent requests: a quarter of the positioning time times the rate
/// times (concurrency - 1), plus a sector.
///
/// ```
/// use diskwright_simulator::theory::stripe_unit_bytes;
/// // 15 ms to position, 10 MB/s, 5 concurrent requests: 150,000 bytes and a sector
/// assert_eq!(stripe_unit_bytes(0.015, 10e6, 5.0, 512.0), 150_512.0);
/// // one request: every drive should work on it
/// assert_eq!(stripe_unit_bytes(0.015, 10e6, 1.0, 512.0), 512.0);
/// ```
pub fn stripe_unit_bytes(positioning_s: f64, bytes_per_s: f64, concurrency: f64, sector_bytes: f64) -> f64 {
    0.25 * positioning_s * bytes_per_s * (concurrency - 1.0).max(0.0) + sector_bytes
}

/// Stripe unit, bytes, for an unknown load: two thirds of the positioning time times the rate.
///
/// ```
/// use diskwright_simulator::theory::stripe_unit_without_knowledge_bytes;
/// assert_eq!(stripe_unit_without_knowledge_bytes(0.015, 10e6).round(), 100_000.0);
/// ```
pub fn stripe_unit_without_knowledge_bytes(positioning_s: f64, bytes_per_s: f64) -> f64 {
    2.0 / 3.0 * positioning_s * bytes_per_s
}
