//! A striped device and its members.

use super::{DEFAULT_RUN_TIME, SEQUENTIAL, Suite, SuiteSession, Writes, format_quantity};
use crate::bench::BenchJob;
use crate::error::ProbeError;
use crate::pattern::{Pattern, Placement};

/// The suite `stripes`.
pub const STRIPES: Suite = Suite {
    id: "stripes",
    title: "a striped device and its members: how well it scales",
    explain: "Reads of 64 KiB, sequential and random, with eight in flight per member: on each member standalone, on \
              all members at once, and on the set. All at once against the standalone sum shows a shared path \
              (channel, adapter, bus, one host below virtual disks). The set against all at once shows what striping \
              costs; the slowest member limits all. The NT Resource Kit read such a set of one to four disks, three \
              of them on one adapter. Sequentially, two and three disks gave 1.08 and 1.07 times one, and the fourth, \
              on its own adapter, 1.49; at random 1.43, 1.80 and 1.92. The published figures for four disks, 2.6 and \
              3.36, are corrected here: their totals add the first disk, whose counters show the whole set, to the \
              others. Members come from the kernel (md, LVM, btrfs, multipath) or from --members. The set uses them, \
              so reading them needs --live. They are only read.",
    good: "The set at 90 % or more of the sum of its members, random and sequential; members within 10 % of each \
           other.",
    writes: Writes::Never,
    time: DEFAULT_RUN_TIME,
    run: run_stripes,
};

/// Queue depth per member.
const DEPTH_PER_MEMBER: u32 = 8;
/// Record size, bytes.
const RECORD_BYTES: u32 = 64 << 10;
/// NT Resource Kit, MB/s of one to four stripes: sequential (S1 to S4) and random (S5 to S8).
const PUBLISHED_RATES: [(&str, [f64; 4]); 2] =
    [("sequential", [4.52, 4.86, 4.82, 6.72]), ("random", [2.95, 4.23, 5.31, 5.68])];
/// Largest difference between members, or loss of the set, that is not reported.
const TOLERATED_DIFFERENCE: f64 = 0.1;

fn run_stripes(session: &mut SuiteSession<'_>) -> Result<(), ProbeError> {
    let members = session.settings.members.clone();
    if members.len() < 2 {
        let because = "the target must be a set of two or more members, and the kernel shows none; name them with \
                       --members a,b,c";
        return Err(ProbeError::Pattern { name: "stripes".into(), because: because.into() });
    }
    let count = members.len() as u32;
    for (kind, placement) in [("sequential", SEQUENTIAL), ("random", Placement::Uniform)] {
        let member_pattern = |session: &SuiteSession<'_>, name: String, bytes: u64| {
            let base = session.build_pattern(name, placement.clone(), RECORD_BYTES, DEPTH_PER_MEMBER);
            Pattern { range_bytes: Some(bytes), ..base }
        };
        let mut standalone_rates = Vec::new();
        for ((name, bytes), target_index) in members.iter().zip(1..) {
            let pattern = member_pattern(session, format!("{kind}-{name}"), *bytes);
            let run = session.run_on_targets("", &[BenchJob { target_index, pattern: &pattern }])?;
            standalone_rates.push(run.bytes_per_s);
        }
        let concurrent: Vec<Pattern> = members
            .iter()
            .map(|(name, bytes)| member_pattern(session, format!("{kind}-{name}-beside"), *bytes))
            .collect();
        let jobs: Vec<BenchJob<'_>> =
            concurrent.iter().zip(1..).map(|(pattern, target_index)| BenchJob { target_index, pattern }).collect();
        let concurrent_rate = session.run_on_targets(&format!("{kind}-all-at-once"), &jobs)?.bytes_per_s;
        let depth = DEPTH_PER_MEMBER * count;
        let pattern = session.build_pattern(format!("{kind}-set"), placement.clone(), RECORD_BYTES, depth);
        let array_rate = session.run(&pattern)?.bytes_per_s;
        report_stripes(session, kind, &members, &standalone_rates, concurrent_rate, array_rate);
    }
    Ok(())
}

/// Reports how the rates of an array, of its members standalone, and of all members at once compare, bytes per second.
fn report_stripes(
    session: &mut SuiteSession<'_>,
    kind: &str,
    members: &[(String, u64)],
    standalone_rates: &[f64],
    concurrent_rate: f64,
    array_rate: f64,
) {
    let rate = |value: f64| format_quantity(value, "bytes_per_s");
    let sum: f64 = standalone_rates.iter().sum();
    let mean = sum / standalone_rates.len() as f64;
    let text = format!(
        "{kind}: throughput of the set ({}) divided by that of the average member ({}); ideal: {}{}",
        rate(array_rate),
        rate(mean),
        standalone_rates.len(),
        published_scaling(kind, standalone_rates.len())
    );
    session.report_value(&format!("{kind}_scaling"), array_rate / mean, "times", text);
    session.report_value(
        &format!("{kind}_efficiency"),
        array_rate / sum,
        "fraction",
        format!("{kind}: throughput of the set as a share of the sum of its members"),
    );
    let text = if concurrent_rate < (1.0 - TOLERATED_DIFFERENCE) * sum {
        "throughput of all members at once as a share of their standalone sum: they share a saturated path or disk"
    } else {
        "throughput of all members at once as a share of their standalone sum: no shared path limits them"
    };
    session.report_value(&format!("{kind}_shared_path"), concurrent_rate / sum, "fraction", format!("{kind}: {text}"));
    if array_rate < (1.0 - TOLERATED_DIFFERENCE) * concurrent_rate {
        let text = "throughput of the set as a share of all members at once: striping costs the rest (small stripe \
                    units split records, a slow member delays the others, the layer takes processor time)";
        session.report_value(
            &format!("{kind}_striping"),
            array_rate / concurrent_rate,
            "fraction",
            format!("{kind}: {text}"),
        );
    }
    let slowest = standalone_rates.iter().zip(members).min_by(|a, b| a.0.total_cmp(b.0));
    if let Some((slow, (name, _))) = slowest.filter(|(slow, _)| **slow < (1.0 - TOLERATED_DIFFERENCE) * mean) {
        let text = format!(
            "{kind}: {name} reaches only {}, this share of the mean; a striped set is as slow as its slowest member",
            rate(*slow)
        );
        session.report_value(&format!("{kind}_slowest"), slow / mean, "fraction", text);
    }
}

/// Returns the scaling that the NT Resource Kit published for this number of stripes.
fn published_scaling(kind: &str, count: usize) -> String {
    let rates = PUBLISHED_RATES.iter().find(|(k, _)| *k == kind).map(|(_, rates)| rates);
    match rates.and_then(|r| Some(r.get(count - 1)? / r[0])) {
        Some(scaling) => format!(", the NT Resource Kit measured {scaling:.2}"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Settings;
    use super::super::tests::{MIB, remark_value, run_on_fakes, settings};
    use super::*;
    use crate::engine::fake::FakeDevice;
    use crate::facts::SuiteRemark;
    use crate::result::RunResult;

    /// Runs the suite on a set of three members; each target has a number of servers and a service
    /// time.
    fn run_three_members(places: [(usize, u64); 4]) -> (Vec<RunResult>, Vec<SuiteRemark>) {
        let members = ["sda", "sdb", "sdc"].map(|n| (n.to_owned(), 64 * MIB)).to_vec();
        let set = Settings { members, ..settings(64 * MIB) };
        run_on_fakes(&STRIPES, set, |place| FakeDevice::with_service_time(places[place].0, places[place].1))
    }

    #[test]
    fn an_ideal_set_is_the_sum_of_its_members() {
        let (runs, remarks) = run_three_members([(3, 1_000_000), (1, 1_000_000), (1, 1_000_000), (1, 1_000_000)]);
        // three standalone, three at once and their sum, the set; twice
        assert_eq!(runs.len(), 16);
        for kind in ["sequential", "random"] {
            assert!((remark_value(&remarks, &format!("{kind}_scaling")) - 3.0).abs() < 0.05, "{remarks:?}");
            assert!((remark_value(&remarks, &format!("{kind}_efficiency")) - 1.0).abs() < 0.02);
            assert!((remark_value(&remarks, &format!("{kind}_shared_path")) - 1.0).abs() < 0.02);
        }
        let is_printed = |part: &str| remarks.iter().any(|r| r.text.contains(part));
        assert!(
            is_printed("NT Resource Kit measured 1.07") && is_printed("NT Resource Kit measured 1.80"),
            "{remarks:?}"
        );
        assert!(!remarks.iter().any(|r| r.id.ends_with("_slowest")));
    }

    #[test]
    fn a_slow_member_is_named() {
        let (_, remarks) = run_three_members([(3, 2_000_000), (1, 1_000_000), (1, 2_000_000), (1, 1_000_000)]);
        assert!((remark_value(&remarks, "random_slowest") - 0.6).abs() < 0.02, "{remarks:?}");
        assert!(remarks.iter().any(|r| r.id == "random_slowest" && r.text.contains("sdb")));
        assert!((remark_value(&remarks, "random_efficiency") - 0.6).abs() < 0.02, "{remarks:?}");
    }

    #[test]
    fn without_members_the_error_names_the_option() {
        let mut dry = crate::bench::DryRun::default();
        let message = (STRIPES.run)(&mut SuiteSession::new(settings(64 * MIB), &mut dry)).unwrap_err().to_string();
        assert!(message.contains("--members"), "{message}");
    }
}
