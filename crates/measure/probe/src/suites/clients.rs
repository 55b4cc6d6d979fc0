//! Suites with many clients: users with think time, and daemons whose number doubles up to a limit.

use diskwright_base::units::format_count;

use super::{DEFAULT_RUN_TIME, Suite, SuiteSession, Writes, best_run, format_quantity, knee_run};
use crate::error::ProbeError;
use crate::pattern::{Pace, Pattern, Placement};
use crate::result::{Latency, RunResult};

/// First numbers of users, with the twenty of NT Magazine 1998 among them.
const USERS_FIRST: &[u32] = &[1, 2, 4, 8, 12, 20, 32, 64, 128];
/// Largest number of users tried.
const MAX_USERS: u32 = 8192;
/// Think time of a user, seconds.
const THINK_S: f64 = 0.05;

/// The suite `users`.
pub const USERS: Suite = Suite {
    id: "users",
    title: "throughput and response time by number of users with think time",
    explain: "Each user requests a random 8 KiB, waits for it, thinks for 50 ms on average and starts again. If \
              writing is allowed there are two reads per write, like the 126 and 73 per second of the file server in \
              NT Magazine 1998. Users there copied files both ways; neither the size of a copy nor the think time \
              is printed. N users with response time R and think time Z make N / (R + Z) requests per second, so \
              short think times show the same curve in seconds. While the device has capacity to spare, throughput \
              grows with the users; beyond the knee, each further user only makes all others wait. The number of \
              users doubles until a doubling gains less than 10 %.",
    good: "A knee beyond your number of users: with them, the response time is still that of a single user.",
    writes: Writes::IfAllowed,
    time: DEFAULT_RUN_TIME,
    run: run_users,
};

fn run_users(session: &mut SuiteSession<'_>) -> Result<(), ProbeError> {
    let read_share = if session.settings.writes { 2.0 / 3.0 } else { 1.0 };
    let mut previous: Option<(u32, f64)> = None;
    let mut saturated = false;
    let doublings = (8..=13).map(|power| 1 << power).take_while(|u| *u <= MAX_USERS);
    for users in USERS_FIRST.iter().copied().chain(doublings) {
        let base = session.build_pattern(format!("users-{users}"), Placement::Uniform, 8 << 10, 1);
        let pace = Pace::Users { users, think_s: THINK_S, random: true };
        let rate = session.run(&Pattern { pace, read_share, ..base })?.requests_per_s;
        if let Some((previous_users, previous_rate)) = previous {
            // less than a tenth of the gain that a device with spare capacity would have: saturated
            let ideal_gain = f64::from(users) / f64::from(previous_users) - 1.0;
            saturated = rate / previous_rate - 1.0 < 0.1 * ideal_gain;
        }
        previous = Some((users, rate));
        if saturated && users >= 32 {
            break;
        }
    }
    report_users(session, saturated);
    Ok(())
}

fn report_users(session: &mut SuiteSession<'_>, saturated: bool) {
    let Some(max_rate) = best_run(&session.runs, |r| r.requests_per_s).map(|r| r.requests_per_s) else { return };
    if saturated {
        if let Some(run) = knee_run(&session.runs, 0.9, |r| r.requests_per_s) {
            let (users, rate) = (f64::from(run.users.unwrap_or(0)), format_quantity(run.requests_per_s, "per_s"));
            session.report_value(
                "knee_users",
                users,
                "count",
                format!("users that reach 90 % of the maximum ({rate})"),
            );
        }
        // N* = (R(1) + Z) / D, where D is the time per request at saturation
        if let Some(single_s) = session.runs[0].latency_s.mean {
            let text = "users at which the asymptotes of throughput meet (Denning and Buzen, 1978): the device has \
                        capacity for this many";
            session.report_value("asymptotic_users", (single_s + THINK_S) * max_rate, "count", text);
        }
    } else {
        let users = session.runs.last().and_then(|r| r.users).unwrap_or(0);
        let text = format!("throughput still grows with {users} users: no knee seen, the device can serve more");
        session.report_text("knee_users", text);
    }
    let response_20_s = session.runs.iter().find(|r| r.users == Some(20)).and_then(|r| r.latency_s.mean);
    if let (Some(response_20_s), Some(single_s)) = (response_20_s, session.runs[0].latency_s.mean) {
        let single = format_quantity(single_s, "s");
        let text = format!("response time with 20 users, as in NT Magazine 1998; a single user waits {single}");
        session.report_value("response_20_s", response_20_s, "s", text);
    }
}

/// Largest number of daemons tried.
const MAX_DAEMONS: u32 = 4096;
/// Bisection steps between the last doubling within the limit and the first beyond it.
const BISECTION_STEPS: u32 = 4;

/// The CTO Labs load benchmark, InfoStor 1999.
pub const LOAD: Suite = Suite {
    id: "load",
    title: "daemons doubled until the response time exceeds a limit (100 ms)",
    explain: "Each daemon issues random 8 KiB requests one after another without a pause. Their number doubles until \
              the mean response time, or the percentile given by --limit-share, exceeds --limit. Four more steps then \
              narrow it down between the last two numbers. InfoStor 1999 treats 100 ms as the longest acceptable \
              response time and plots I/Os per second up to there. One subsystem reached 7,000 per second with 700 \
              daemons, another 6,000 with three.",
    good: "More I/Os per second at the limit than the application's peak, with a margin; and most of them with few \
           daemons.",
    writes: Writes::Never,
    time: DEFAULT_RUN_TIME,
    run: run_load,
};

/// Returns the response time to which the limit applies: a percentile, or the mean without `share`.
/// `None` if there were too few requests for it.
fn response_at_share(latency: &Latency, share: Option<f64>) -> Result<Option<f64>, ProbeError> {
    let percentiles = [
        (0.5, latency.p50),
        (0.95, latency.p95),
        (0.99, latency.p99),
        (0.999, latency.p999),
        (0.9999, latency.p9999),
        (0.99999, latency.p99999),
    ];
    let Some(share) = share else { return Ok(latency.mean) };
    percentiles.iter().find(|(s, _)| (s - share).abs() < 1e-9).map(|(_, value)| *value).ok_or_else(|| {
        ProbeError::Pattern {
            name: "load".into(),
            because: format!(
                "the limit can apply to 0.5, 0.95, 0.99, 0.999, 0.9999 or 0.99999 of the requests, not to {share}"
            ),
        }
    })
}

fn run_load(session: &mut SuiteSession<'_>) -> Result<(), ProbeError> {
    // refuse a wrong percentile before anything is measured
    response_at_share(&Latency::default(), session.settings.limit_share)?;
    let (mut daemons, mut within, mut beyond) = (1, None, None);
    while daemons <= MAX_DAEMONS && beyond.is_none() {
        match run_daemons(session, daemons)? {
            Some((true, rate)) => within = Some((daemons, rate)),
            Some((false, _)) => beyond = Some(daemons),
            None => return Ok(()),
        }
        daemons *= 2;
    }
    if let (Some((mut low, _)), Some(mut high)) = (within, beyond) {
        for _ in 0..BISECTION_STEPS {
            let middle = low.midpoint(high);
            if middle == low || middle == high {
                break;
            }
            match run_daemons(session, middle)? {
                Some((true, rate)) => (low, within) = (middle, Some((middle, rate))),
                Some((false, _)) => high = middle,
                None => break,
            }
        }
        beyond = Some(high);
    }
    // `knee_run` expects rising depths, but the bisection goes back and forth
    session.runs.sort_by_key(|r| r.depth);
    report_load(session, within, beyond);
    Ok(())
}

fn response_name(session: &SuiteSession<'_>) -> String {
    session.settings.limit_share.map_or("mean response".into(), |s| format!("{} % response", s * 100.0))
}

/// Runs a number of daemons; returns whether their response time is within the limit, and their
/// rate; `None`, with a remark, if there were too few completions to know.
fn run_daemons(session: &mut SuiteSession<'_>, daemons: u32) -> Result<Option<(bool, f64)>, ProbeError> {
    let pattern = session.build_pattern(format!("daemons-{daemons}"), Placement::Uniform, 8 << 10, daemons);
    let run: RunResult = session.run(&pattern)?.clone();
    match response_at_share(&run.latency_s, session.settings.limit_share)? {
        Some(seconds) => Ok(Some((seconds <= session.settings.limit_s, run.requests_per_s))),
        None => {
            let text = format!(
                "too few requests with {} to find the {}; measure longer with --for",
                format_count(daemons, "daemon", "daemons"),
                response_name(session)
            );
            session.report_text("requests_per_s_at_limit", text);
            Ok(None)
        }
    }
}

fn report_load(session: &mut SuiteSession<'_>, within: Option<(u32, f64)>, beyond: Option<u32>) {
    let (limited_response, limit) = (response_name(session), format_quantity(session.settings.limit_s, "s"));
    let Some((daemons, rate)) = within else {
        session.report_text(
            "requests_per_s_at_limit",
            format!("a single daemon already has a {limited_response} above {limit}"),
        );
        return;
    };
    let end = match beyond {
        Some(too_many) => format!("{too_many} are too many"),
        None => format!("{MAX_DAEMONS} is the maximum number tried"),
    };
    let text = format!("requests per second with a {limited_response} of at most {limit}");
    session.report_value("requests_per_s_at_limit", rate, "per_s", text);
    session.report_value("daemons_at_limit", f64::from(daemons), "count", format!("daemons reached that; {end}"));
    if let Some(run) = knee_run(&session.runs, 0.9, |r| r.requests_per_s) {
        let (daemons, rate) = (f64::from(run.depth.unwrap_or(0)), format_quantity(run.requests_per_s, "per_s"));
        let text = format!("daemons already reach 90 % of the maximum ({rate})");
        session.report_value("knee_daemons", daemons, "count", text);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Settings;
    use super::super::tests::{MIB, remark_value, run_on_fake, run_on_fakes, settings};
    use super::*;
    use crate::bench::DryRun;
    use crate::engine::fake::FakeDevice;

    #[test]
    fn load_stops_at_the_limit() {
        // one server of 9 ms: n daemons wait n x 9 ms, so 11 are within 100 ms and 12 are not
        let (runs, remarks) = run_on_fake(&LOAD, 64 * MIB, || FakeDevice::with_service_time(1, 9_000_000));
        assert_eq!(remark_value(&remarks, "daemons_at_limit"), 11.0);
        assert!((remark_value(&remarks, "requests_per_s_at_limit") - 111.0).abs() < 1.0);
        // 1 2 4 8 16, then 12 10 11
        assert_eq!(runs.len(), 8);
        assert_eq!(remark_value(&remarks, "knee_daemons"), 1.0);
    }

    #[test]
    fn the_knee_of_load_is_the_fewest_daemons_that_reach_it() {
        // ten servers of 70 ms: 16 are too many, then 12, 14 and 15 are tried
        let (_, remarks) = run_on_fake(&LOAD, 64 * MIB, || FakeDevice::with_service_time(10, 70_000_000));
        assert_eq!(remark_value(&remarks, "daemons_at_limit"), 14.0);
        assert_eq!(remark_value(&remarks, "knee_daemons"), 12.0);
    }

    #[test]
    fn load_of_a_device_that_never_passes_the_limit_ends() {
        let short = Settings { duration: Duration::from_millis(300), ..settings(64 * MIB) };
        let (runs, remarks) = run_on_fakes(&LOAD, short, |_| FakeDevice::with_service_time(16, 200_000));
        assert_eq!((runs.len(), remark_value(&remarks, "daemons_at_limit")), (13, 4096.0));
        assert!(remarks.iter().any(|r| r.text.contains("4096 is the maximum number tried")), "{remarks:?}");
    }

    #[test]
    fn a_percentile_that_is_not_kept_is_refused() {
        let mut dry = DryRun::default();
        let set = Settings { limit_share: Some(0.9), ..settings(64 * MIB) };
        let message = (LOAD.run)(&mut SuiteSession::new(set, &mut dry)).unwrap_err().to_string();
        assert!(message.contains("0.95") && message.contains("not to 0.9"), "{message}");
        assert_eq!(dry.runs, 0);
    }

    #[test]
    fn users_meet_the_asymptotes() {
        // D = 5 ms at one server, Z = 50 ms: N* = 11
        let (runs, remarks) = run_on_fake(&USERS, 64 * MIB, || FakeDevice::with_service_time(1, 5_000_000));
        assert!((remark_value(&remarks, "asymptotic_users") - 11.0).abs() < 0.6, "{remarks:?}");
        assert_eq!(remark_value(&remarks, "knee_users"), 12.0);
        assert_eq!(runs.last().unwrap().users, Some(32));
    }

    #[test]
    fn users_of_a_device_with_room_have_no_knee() {
        let short =
            Settings { duration: Duration::from_millis(300), ramp: Duration::from_millis(100), ..settings(64 * MIB) };
        let (_, remarks) = run_on_fakes(&USERS, short, |_| FakeDevice::with_service_time(32, 100_000));
        assert!(remarks.iter().any(|r| r.id == "knee_users" && r.text.contains("no knee")), "{remarks:?}");
    }
}
