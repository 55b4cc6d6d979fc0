//! Pairs of synthetic windows of known difference, for `compare`: one machine with a disk, processors, memory and a
//! network, sampled once a second. Used by the test of `compare` and by the benchmark `pairs`.

use std::sync::Arc;

use diskwright_base::{Frame, Schema, Series, Tick};
use diskwright_diagnosis::compare::{ChangeOutcome, CounterWindow, WindowComparison, compare_windows};
use diskwright_diagnosis::{Judge, JudgeOptions, Pack};

use super::Noise;

const SECOND: u64 = 1_000_000_000;
/// 2026-01-01T00:00:00Z.
const START: i64 = 1_767_225_600 * SECOND as i64;

/// Properties of a window.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    pub seconds: usize,
    /// Requests a second, mean.
    pub rate: f64,
    /// Seconds a read takes on an idle disk; a write takes twice as long.
    pub service: f64,
    pub read_share: f64,
    pub bytes: f64,
    /// Standard deviation of the logarithm of rate and service, tick by tick.
    pub noise: f64,
    /// Their memory from one tick to the next.
    pub memory: f64,
    pub shape: Shape,
}

/// Shape of the load over time, apart from its noise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    Even,
    /// Ten seconds of eight times the load, once a minute on average.
    Bursts,
    /// Up and down by half, with this period in seconds, from any phase.
    Rhythm(f64),
    /// It wanders slowly, by 30 %, with a memory of this many seconds.
    Drift(f64),
}

/// Requests a second at which the disk would be full.
const FULL: f64 = 500.0;

impl Window {
    /// Half an hour of 150 requests a second, each about 5 ms, with noise of 30 %
    /// that remembers 0.7 of the second before.
    pub const USUAL: Window = Window {
        seconds: 1800,
        rate: 150.0,
        service: 0.004,
        read_share: 0.7,
        bytes: 16_384.0,
        noise: 0.3,
        memory: 0.7,
        shape: Shape::Even,
    };
}

impl Noise {
    /// Factors of the load, second by second.
    fn shaped(&mut self, shape: Shape, count: usize) -> Vec<f64> {
        match shape {
            Shape::Even => vec![1.0; count],
            Shape::Bursts => {
                let mut left = 0.0;
                let mut next = || {
                    left -= 1.0;
                    if left <= 0.0 && self.even() < 1.0 / 60.0 {
                        left = -10.0 * (1.0 - self.even()).ln();
                    }
                    // half of the mean in bursts of eight times the rest
                    if left > 0.0 { 4.0 } else { 0.5 }
                };
                (0..count).map(|_| next()).collect()
            }
            Shape::Rhythm(period) => {
                let phase = self.even() * std::f64::consts::TAU;
                let wave = |i: usize| 1.0 + 0.5 * (std::f64::consts::TAU * i as f64 / period + phase).sin();
                (0..count).map(wave).collect()
            }
            Shape::Drift(memory) => {
                let walk = self.remembering((-1.0 / memory).exp(), count);
                walk.into_iter().map(|v| (0.3 * v - 0.045).exp()).collect()
            }
        }
    }
}

const SERIES: [(&str, &str); 17] = [
    ("physical_disk.reads", "sda"),
    ("physical_disk.writes", "sda"),
    ("physical_disk.read_bytes", "sda"),
    ("physical_disk.write_bytes", "sda"),
    ("physical_disk.read_time_s", "sda"),
    ("physical_disk.write_time_s", "sda"),
    ("physical_disk.weighted_time_s", "sda"),
    ("physical_disk.busy_time_s", "sda"),
    ("memory.total_bytes", ""),
    ("memory.available_bytes", ""),
    ("processor.user_s", "_total"),
    ("processor.system_s", "_total"),
    ("processor.idle_s", "_total"),
    ("network.received_bytes", "eth0"),
    ("network.sent_bytes", "eth0"),
    ("pressure.io_some_s", ""),
    ("pressure.cpu_some_s", ""),
];

/// The window's ticks.
fn recorded(window: &Window, random: &mut Noise) -> Frame {
    let count = window.seconds;
    let series = |(c, i): &(&str, &str)| Series { counter: (*c).into(), instance: (*i).into(), scale: 1.0 };
    let schema = Schema::new(SERIES.iter().map(series).collect());
    let mut frame = Frame::new(Arc::new(schema), count);
    let level = |noise: f64| (window.noise * noise - 0.5 * window.noise * window.noise).exp();
    let [requested, served, net, cpu, free] = [0; 5].map(|_| random.remembering(window.memory, count));
    let shape = random.shaped(window.shape, count);
    for tick in 0..count {
        let rate = (window.rate * shape[tick] * level(requested[tick])).min(0.9 * FULL);
        let reads = (rate * window.read_share).round();
        let writes = (rate * (1.0 - window.read_share)).round();
        let each = window.service * level(served[tick]) / (1.0 - rate / FULL);
        let (read_s, write_s) = (reads * each, writes * 2.0 * each);
        let busy = (rate / FULL).min(1.0);
        let (user, system) = ((0.2 * level(cpu[tick])).min(0.7), (0.001 * rate).min(0.2));
        let bytes = 1e5 * level(net[tick]) * shape[tick];
        let row = [
            reads,
            writes,
            reads * window.bytes,
            writes * window.bytes,
            read_s,
            write_s,
            read_s + write_s,
            busy,
            16_777_216e3,
            16_777_216e3 * (0.5 + 0.01 * free[tick]).clamp(0.3, 0.7),
            user,
            system,
            1.0 - user - system,
            bytes,
            0.3 * bytes,
            (0.2 * (read_s + write_s)).min(0.9),
            0.02 * level(cpu[tick]).min(10.0),
        ];
        let time_ns = START + (tick as i64 + 1) * SECOND as i64;
        frame.push(Tick { time_ns, elapsed_ns: SECOND }, &row);
    }
    frame
}

/// Two windows, compared as `compare` does.
pub fn compared(before: &Window, after: &Window, pack: &Pack, random: &mut Noise) -> WindowComparison {
    let [(first, before), (second, after)] = [before, after].map(|window| {
        let frame = recorded(window, random);
        let range = (START, START + window.seconds as i64 * SECOND as i64);
        let options = JudgeOptions { expected: Some(range), ..JudgeOptions::default() };
        let (mut judge, mut watch) = (Judge::new(vec![pack.clone()], options), CounterWindow::new(range));
        judge.add_frame(&frame);
        watch.add_frame(&frame);
        (watch, judge.finish().remove(0))
    });
    compare_windows(&first, &second, before, after)
}

/// True effect of the change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Truth {
    /// Nothing differs: no counter and no outcome may be reported as changed.
    Same,
    /// Another load, the same service: it neither helped nor got worse.
    OtherLoad,
    /// The disk serves better.
    Better,
    /// The disk serves worse.
    Worse,
    /// The load is a fifth higher.
    Rate,
}

/// A kind of pair.
pub struct Kind {
    pub name: &'static str,
    pub before: Window,
    pub after: Window,
    pub truth: Truth,
}

const fn kind(name: &'static str, truth: Truth, before: Window, after: Window) -> Kind {
    Kind { name, before, after, truth }
}

const U: Window = Window::USUAL;
const SHORT: Window = Window { seconds: 600, ..U };
const LONG: Window = Window { seconds: 3600, ..U };
const SLOW_NOISE: Window = Window { memory: 0.95, ..U };
const BURSTS: Window = Window { shape: Shape::Bursts, rate: 100.0, ..U };
const RHYTHM: Window = Window { shape: Shape::Rhythm(120.0), ..U };
const WAVE: Window = Window { shape: Shape::Rhythm(10_800.0), ..U };
const DRIFT: Window = Window { shape: Shape::Drift(120.0), ..U };
const SLOWER_DRIFT: Window = Window { shape: Shape::Drift(600.0), ..U };
/// As slow as the window is long: the load of two windows differs in truth.
const SLOW_DRIFT: Window = Window { shape: Shape::Drift(1800.0), ..U };

/// Kinds of pairs without a change, in which any reported counter is a false alarm.
pub const SAME: [Kind; 8] = [
    kind("noise 30 %, memory 0.7", Truth::Same, U, U),
    kind("noise 30 %, memory 0.95", Truth::Same, SLOW_NOISE, SLOW_NOISE),
    kind("bursts of 10 s, 8 times the load", Truth::Same, BURSTS, BURSTS),
    kind("a rhythm of 2 minutes", Truth::Same, RHYTHM, RHYTHM),
    kind("10 minutes against an hour", Truth::Same, SHORT, LONG),
    kind("bursts, 10 minutes against an hour", Truth::Same, Window { seconds: 600, ..BURSTS }, LONG_BURSTS),
    kind("load that drifts, memory 2 minutes", Truth::Same, DRIFT, DRIFT),
    kind("load that drifts, memory 10 minutes", Truth::Same, SLOWER_DRIFT, SLOWER_DRIFT),
];
const LONG_BURSTS: Window = Window { seconds: 3600, ..BURSTS };

/// Kinds of pairs with another load on the same disk: only the answer is counted.
pub const OTHER: [Kind; 7] = [
    kind("half as much load again", Truth::OtherLoad, U, Window { rate: 225.0, ..U }),
    kind("half the load", Truth::OtherLoad, U, Window { rate: 75.0, ..U }),
    kind("a fifth less load", Truth::OtherLoad, U, Window { rate: 120.0, ..U }),
    kind("more writes, which are slower", Truth::OtherLoad, U, Window { read_share: 0.4, ..U }),
    kind("load that drifts, memory 30 minutes", Truth::OtherLoad, SLOW_DRIFT, SLOW_DRIFT),
    kind("a wave of 3 hours, any half hour of it", Truth::OtherLoad, WAVE, WAVE),
    kind("larger requests, twice as slow", Truth::OtherLoad, U, Window { bytes: 65_536.0, service: 0.008, ..U }),
];

/// Kinds of pairs with an effect of a fifth.
pub const EFFECTS: [Kind; 8] = [
    kind("a fifth faster", Truth::Better, U, Window { service: 0.0032, ..U }),
    kind("a fifth slower", Truth::Worse, U, Window { service: 0.0048, ..U }),
    kind("a fifth slower, 10 minutes", Truth::Worse, SHORT, Window { service: 0.0048, ..SHORT }),
    kind("a fifth slower, memory 0.95", Truth::Worse, SLOW_NOISE, Window { service: 0.0048, ..SLOW_NOISE }),
    kind("a fifth slower, bursts", Truth::Worse, BURSTS, Window { service: 0.0048, ..BURSTS }),
    kind("a fifth faster, a fifth more load", Truth::Better, U, Window { service: 0.0032, rate: 180.0, ..U }),
    kind("a fifth slower, a fifth less load", Truth::Worse, U, Window { service: 0.0048, rate: 120.0, ..U }),
    kind("a fifth more requests", Truth::Rate, U, Window { rate: 180.0, ..U }),
];

/// Result of a pair.
#[derive(Clone, Copy, Debug, Default)]
pub struct Result {
    /// The answer says that it helped or got worse.
    pub is_answered: bool,
    /// A counter is reported as changed.
    pub changed: bool,
    /// The effect was found.
    pub found: bool,
}

impl Kind {
    pub fn run(&self, pack: &Pack, seed: u64) -> (Result, WindowComparison) {
        let both = compared(&self.before, &self.after, pack, &mut Noise(seed.wrapping_mul(0x5851_F42D_4C95_7F2D)));
        let requests = |r: &diskwright_diagnosis::compare::ComparisonRow| {
            r.counter == "physical_disk.transfers_per_s" && r.noise == Some(false) && r.difference > 0.0
        };
        let found = match self.truth {
            Truth::Better => both.outcome == ChangeOutcome::Helped,
            Truth::Worse => both.outcome == ChangeOutcome::Worse,
            Truth::Rate => both.counters.iter().any(requests),
            Truth::Same | Truth::OtherLoad => false,
        };
        let is_answered = matches!(both.outcome, ChangeOutcome::Helped | ChangeOutcome::Worse);
        let changed = both.counters.iter().any(|r| r.noise == Some(false));
        (Result { is_answered, changed, found }, both)
    }
}
