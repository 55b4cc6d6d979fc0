//! The loads of a program as a suite, so that they are measured as every other suite is.

use std::time::Duration;

use super::measure_program;
use crate::suites::{Suite, SuiteTime, Writes};

/// Longest time of a run: enough for the 1,000 commits that a 99th percentile needs, at up to 30 ms each.
const MAX_RUN_TIME: SuiteTime = SuiteTime::EachRun(Duration::from_secs(30));
/// Time of a run that is not ended by its number of bytes.
const RUN_TIME: SuiteTime = SuiteTime::EachRun(Duration::from_secs(10));

/// Common parts of the texts of all programs.
const EXPLAIN: &str = "Measures what the vendor of a program publishes about its storage, and compares it.";
const GOOD: &str = "Every requirement is met, with a margin for the load of other programs.";

/// The suites, in the order of the programs.
pub const PROGRAM_SUITES: [Suite; 6] = [
    Suite {
        id: "for-etcd",
        title: "is it good enough for etcd?",
        explain: EXPLAIN,
        good: GOOD,
        writes: Writes::Always,
        time: MAX_RUN_TIME,
        run: |session| measure_program(session, "etcd"),
    },
    Suite {
        id: "for-kafka",
        title: "is it good enough for Apache Kafka?",
        explain: EXPLAIN,
        good: GOOD,
        writes: Writes::IfAllowed,
        time: RUN_TIME,
        run: |session| measure_program(session, "kafka"),
    },
    Suite {
        id: "for-postgres",
        title: "is it good enough for PostgreSQL?",
        explain: EXPLAIN,
        good: GOOD,
        writes: Writes::IfAllowed,
        time: MAX_RUN_TIME,
        run: |session| measure_program(session, "postgres"),
    },
    Suite {
        id: "for-elasticsearch",
        title: "is it good enough for Elasticsearch?",
        explain: EXPLAIN,
        good: GOOD,
        writes: Writes::IfAllowed,
        time: RUN_TIME,
        run: |session| measure_program(session, "elasticsearch"),
    },
    Suite {
        id: "for-redis-aof",
        title: "is it good enough for Redis with an append-only file?",
        explain: EXPLAIN,
        good: GOOD,
        writes: Writes::Always,
        time: MAX_RUN_TIME,
        run: |session| measure_program(session, "redis-aof"),
    },
    Suite {
        id: "for-vm-host",
        title: "is it good enough for a host of virtual machines?",
        explain: EXPLAIN,
        good: GOOD,
        writes: Writes::IfAllowed,
        time: RUN_TIME,
        run: |session| measure_program(session, "vm-host"),
    },
];

/// Finds the suite of a program by the program's id.
pub fn find_program_suite(program: &str) -> Option<&'static Suite> {
    PROGRAM_SUITES.iter().find(|suite| suite.id.strip_prefix("for-") == Some(program))
}
