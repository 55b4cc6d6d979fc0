//! One run: lanes of threads over a target, timed, with what processor and
//! kernel did meanwhile.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use diskwright_counters::live::{Options as LiveOptions, Roots, Sampler, SystemClock};
use rustix::time::{ClockId, clock_gettime};

use crate::draw::Draw;
use crate::drive::{self, Lane};
use crate::engine::{Engine, Room, ring::Ring, threads::Threads};
use crate::error::ProbeError;
use crate::live::{Course, Live, Stretch};
use crate::pattern::{Durable, Pace, Pattern};
use crate::tally::Tally;
use crate::target::Target;

/// Slots of an open loop: requests that may be under way at once. What comes
/// when all are taken waits, and its wait is in its latency.
const OPEN_SLOTS: u32 = 4096;
/// Most threads of the fallback engine.
const MOST_THREADS: u32 = 512;
/// How often progress is told.
const BEAT: Duration = Duration::from_millis(200);

/// Which engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// The ring where there is one, threads otherwise.
    #[default]
    Best,
    /// Threads.
    Threads,
}

/// How a run is made.
#[derive(Clone, Debug)]
pub struct Making {
    /// The engine.
    pub engine: Kind,
    /// Lanes at most; one a core is enough.
    pub lanes: u32,
    /// An answer slower than this ends everything: for devices that others use.
    pub brake: Option<Duration>,
    /// Set from outside to end the run; what was measured is kept.
    pub stop: Arc<AtomicBool>,
}

/// What a run gave.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// All counts.
    pub tally: Tally,
    /// Measured time, seconds; less than asked for where it was stopped.
    pub seconds: f64,
    /// `io_uring` or `threads`.
    pub engine: &'static str,
    /// Lanes that ran.
    pub lanes: u32,
    /// Processor time of this process while measuring, seconds.
    pub cpu_s: f64,
    /// What the kernel counted while measuring, ramp included: seconds it covers, then counts.
    pub kernel: Kernel,
    /// It was stopped from outside.
    pub stopped: bool,
    /// What was done in each stretch of the measured time.
    pub course: Vec<Stretch>,
}

/// What the kernel counted, in all of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kernel {
    /// Seconds between the two looks.
    pub seconds: f64,
    /// Interrupts less those of clock and network.
    pub interrupts: Option<f64>,
    /// Interrupts of every kind.
    pub all_interrupts: Option<f64>,
    /// Context switches.
    pub context_switches: Option<f64>,
}

/// Told while a run goes on: share of its time that is over, and what was done since the last time.
pub type Progress<'a> = dyn FnMut(f64, &Stretch) + 'a;

/// Measures a pattern on a target.
///
/// # Errors
/// When the pattern does not fit the target, the system refuses, or requests
/// fail and none succeeds.
pub fn run(
    target: &Target,
    pattern: &Pattern,
    making: &Making,
    told: &mut Progress<'_>,
) -> Result<Outcome, ProbeError> {
    if let Some(because) = pattern.fault(target.sector, target.bytes) {
        return Err(ProbeError::Pattern { name: pattern.name.clone(), because });
    }
    let shares = shares(&pattern.pace, making.lanes);
    let lanes = shares.len() as u32;
    let mut files = Vec::new();
    for _ in &shares {
        files.push(target.open(pattern.writes(), pattern.buffered, pattern.durable == Durable::Dsync)?);
    }
    let done: Vec<Live> = shares.iter().map(|_| Live::default()).collect();
    let ready = Barrier::new(shares.len() + 1);
    let (answer, answers) = channel();
    let mut outcome = Outcome { lanes, ..Outcome::default() };
    std::thread::scope(|scope| {
        for (number, (share, file)) in shares.into_iter().zip(files).enumerate() {
            let answer = answer.clone();
            let work = Work { pattern, target, making, ready: &ready, done: &done };
            scope.spawn(move || {
                // the receiver lives as long as the scope
                let _ = answer.send(work.lane(share, file, number as u32, lanes));
            });
        }
        drop(answer);
        let mut watch = Watch::start();
        ready.wait();
        let begin = Instant::now();
        let whole = pattern.ramp + pattern.lasts;
        let (mut results, mut course) = (Vec::new(), Course::default());
        while results.len() < lanes as usize {
            match answers.recv_timeout(watch.nap(begin.elapsed(), pattern.ramp, whole)) {
                Ok(result) => results.push(result),
                Err(RecvTimeoutError::Timeout) => {
                    let share = begin.elapsed().as_secs_f64() / whole.as_secs_f64();
                    let stretch = course.look(begin.elapsed().as_secs_f64(), pattern.ramp.as_secs_f64(), &done);
                    told(share.min(1.0), &stretch);
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
            watch.look(begin.elapsed(), pattern.ramp, whole);
        }
        let measured = begin.elapsed().saturating_sub(pattern.ramp).min(pattern.lasts);
        watch.finish(&mut outcome);
        outcome.seconds = measured.as_secs_f64();
        outcome.course = course.finish();
        outcome.stopped = making.stop.load(Ordering::Relaxed);
        gather(results, &mut outcome).map_err(|e| ProbeError::io(&target.name, "the engine failed", e))
    })?;
    verdict(target, making, &outcome)?;
    Ok(outcome)
}

/// What a run shows to be no measurement at all.
fn verdict(target: &Target, making: &Making, outcome: &Outcome) -> Result<(), ProbeError> {
    let tally = &outcome.tally;
    if let (Some(ns), Some(limit)) = (tally.braked_ns, making.brake) {
        let (target, limit) = (target.name.clone(), limit.as_secs_f64());
        return Err(ProbeError::Brake { target, seconds: ns as f64 * 1e-9, limit });
    }
    if let (0, Some(&(number, _))) = (tally.reads.requests + tally.writes.requests, tally.errors.first()) {
        let source = io::Error::from_raw_os_error(number);
        return Err(ProbeError::Failing { target: target.name.clone(), failed: tally.failed(), source });
    }
    Ok(())
}

fn gather(results: Vec<io::Result<(Tally, &'static str)>>, outcome: &mut Outcome) -> io::Result<()> {
    for result in results {
        let (tally, engine) = result?;
        outcome.tally.merge(&tally);
        outcome.engine = engine;
    }
    Ok(())
}

/// The pace dealt out over lanes: no lane without anything to do.
fn shares(pace: &Pace, lanes: u32) -> Vec<Pace> {
    let split = |all: u32| {
        let lanes = lanes.clamp(1, all.max(1));
        (0..lanes).map(move |lane| all / lanes + u32::from(lane < all % lanes))
    };
    match *pace {
        Pace::Closed { depth } => split(depth).map(|depth| Pace::Closed { depth }).collect(),
        Pace::Users { users, think_s, random } => {
            split(users).map(|users| Pace::Users { users, think_s, random }).collect()
        }
        // one lane keeps arrivals in one order
        Pace::Open { .. } => vec![pace.clone()],
    }
}

/// What all lanes of a run share.
struct Work<'a> {
    pattern: &'a Pattern,
    target: &'a Target,
    making: &'a Making,
    ready: &'a Barrier,
    done: &'a [Live],
}

impl Work<'_> {
    fn lane(&self, pace: Pace, file: OwnedFd, number: u32, lanes: u32) -> io::Result<(Tally, &'static str)> {
        let slots = match pace {
            Pace::Closed { depth } => depth,
            Pace::Users { users, .. } => users,
            Pace::Open { .. } => OPEN_SLOTS,
        };
        let seed = self.pattern.seed ^ u64::from(number) << 32;
        let mut room = Room { slots, largest: self.pattern.largest(), seed };
        // sleeps of an open loop end when they should, not 50 microseconds later
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let start = Instant::now();
        let ring = match self.making.engine {
            Kind::Best => file.try_clone().and_then(|file| Ring::new(file, &room, start)),
            Kind::Threads => Err(io::ErrorKind::Unsupported.into()),
        };
        match ring {
            Ok(mut ring) => Ok((self.drive(&mut ring, pace, number, lanes, slots)?, "io_uring")),
            Err(_) => {
                room.slots = slots.min(MOST_THREADS);
                let threads = Threads::new(file, &room, start);
                match threads {
                    Ok(mut threads) => Ok((self.drive(&mut threads, pace, number, lanes, room.slots)?, "threads")),
                    Err(error) => {
                        self.ready.wait();
                        Err(error)
                    }
                }
            }
        }
    }

    fn drive<E: Engine>(&self, engine: &mut E, pace: Pace, number: u32, lanes: u32, slots: u32) -> io::Result<Tally> {
        let mut draw = Draw::new(self.pattern, self.target.bytes, number, lanes);
        let nanoseconds = |d: Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX / 4);
        let lane = Lane {
            pace,
            durable: self.pattern.durable,
            ramp_ns: nanoseconds(self.pattern.ramp),
            lasts_ns: nanoseconds(self.pattern.lasts),
            stop: &self.making.stop,
            done: &self.done[number as usize],
            brake_ns: self.making.brake.map(nanoseconds),
        };
        self.ready.wait();
        drive::run(engine, &mut draw, &lane, slots)
    }
}

/// Looks at processor time and the kernel's counts when measuring begins and ends.
struct Watch {
    sampler: Sampler,
    begun: Option<Duration>,
    ended: Option<Duration>,
    kernel: Kernel,
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec.max(0) as u32)
}

impl Watch {
    fn start() -> Watch {
        let options = LiveOptions { processes: false, filesystems: false, cgroups: false, ..LiveOptions::default() };
        let sampler = Sampler::new(Roots::default(), Box::new(SystemClock), options);
        Watch { sampler, begun: None, ended: None, kernel: Kernel::default() }
    }

    /// How long to wait until there is something to look at.
    fn nap(&self, now: Duration, ramp: Duration, whole: Duration) -> Duration {
        let next = if self.begun.is_none() { ramp } else { whole };
        next.saturating_sub(now).min(BEAT).max(Duration::from_millis(1))
    }

    fn look(&mut self, now: Duration, ramp: Duration, whole: Duration) {
        if self.begun.is_none() && now >= ramp {
            self.sampler.tick();
            self.begun = Some(processor_time());
        }
        if self.begun.is_some() && self.ended.is_none() && now >= whole {
            self.end();
        }
    }

    fn end(&mut self) {
        self.ended = Some(processor_time());
        self.sampler.tick();
        let (schema, row) = (self.sampler.schema(), self.sampler.row());
        let of = |counter: &str| {
            let column = schema.column(counter, "")?;
            Some(row[column] * schema.series[column].scale).filter(|v| v.is_finite())
        };
        let disk = || Some(of("interrupts.total")? - of("interrupts.clock")? - of("interrupts.network")?);
        self.kernel = Kernel {
            seconds: self.sampler.stamp().elapsed_ns as f64 * 1e-9,
            interrupts: disk(),
            all_interrupts: of("interrupts.total"),
            context_switches: of("system.context_switches"),
        };
    }

    fn finish(mut self, outcome: &mut Outcome) {
        if self.begun.is_some() && self.ended.is_none() {
            self.end();
        }
        let (begun, ended) = (self.begun.unwrap_or_default(), self.ended.unwrap_or_default());
        outcome.cpu_s = ended.saturating_sub(begun).as_secs_f64();
        outcome.kernel = self.kernel;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Take;

    fn measure(engine: Kind, pattern: &Pattern) -> Outcome {
        let folder = tempfile::Builder::new().tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let take = Take { bytes: Some(8 << 20), writes: pattern.writes(), ..Take::default() };
        let target = Target::take(&folder.path().join("probe.dat"), &take, &mut |_, _| true).unwrap();
        let making = Making { engine, lanes: 2, brake: None, stop: Arc::default() };
        run(&target, pattern, &making, &mut |_, _| {}).unwrap()
    }

    #[test]
    fn both_engines_read_and_write_a_real_file() {
        let short = Duration::from_millis(200);
        let one = Pattern { read_share: 0.5, ramp: Duration::ZERO, lasts: short, ..Pattern::random_reads(4096, 8) };
        for engine in [Kind::Best, Kind::Threads] {
            let outcome = measure(engine, &one);
            let tally = &outcome.tally;
            assert!(tally.reads.requests > 0 && tally.writes.requests > 0, "{engine:?}: {tally:?}");
            assert_eq!(tally.reads.bytes, tally.reads.requests * 4096);
            assert!(tally.errors.is_empty() && tally.short == 0, "{:?}", tally.errors);
            assert_eq!(outcome.lanes, 2);
            assert!(engine == Kind::Best || outcome.engine == "threads");
        }
    }

    #[test]
    fn a_pace_is_dealt_out_whole() {
        let depths = |depth, lanes| -> Vec<u32> {
            let one = |p: Pace| if let Pace::Closed { depth } = p { depth } else { 0 };
            shares(&Pace::Closed { depth }, lanes).into_iter().map(one).collect()
        };
        assert_eq!(depths(7, 2), [4, 3]);
        assert_eq!(depths(1, 8), [1]);
    }

    #[test]
    fn a_pattern_that_does_not_fit_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let take = Take { bytes: Some(1 << 20), ..Take::default() };
        let target = Target::take(&folder.path().join("p"), &take, &mut |_, _| true).unwrap();
        let making = Making { engine: Kind::Best, lanes: 1, brake: None, stop: Arc::default() };
        for (pattern, expected) in [
            (Pattern { sizes: vec![(1000, 1.0)], ..Pattern::random_reads(4096, 1) }, "sector"),
            (Pattern { sizes: vec![(4 << 20, 1.0)], ..Pattern::random_reads(4096, 1) }, "does not fit"),
            (Pattern::random_reads(4096, 0), "depth"),
        ] {
            let said = run(&target, &pattern, &making, &mut |_, _| {}).unwrap_err().to_string();
            assert!(said.contains(expected), "{said}");
        }
    }
}
