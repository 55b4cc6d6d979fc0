//! The mechanical suites on a disk with known properties: a model of a rotating disk with arm,
//! zones, skews, a segmented cache with read-ahead and a write cache. The findings of the suites
//! are compared with the model.

use std::sync::Arc;
use std::sync::Mutex;

use super::tests::{MIB, on_fake, on_places, settings, value};
use super::{Settings, suite};
use crate::engine::fake::FakeDevice;
use crate::engine::{Action, Completion, IoEngine, Op, TurnWait};
use crate::facts::SuiteRemark;
use diskwright_base::Rng;

const MS: f64 = 1e6;
const SECTOR: u64 = 512;

/// Data sheet of a drive. Times in nanoseconds.
#[derive(Clone)]
struct Sheet {
    /// Cylinders, and sectors per track, of each zone, from outside.
    zones: Vec<(u64, u64)>,
    heads: u64,
    turn: f64,
    /// a, b: square root part; c, e: line, both of the distance as a share of all cylinders; then
    /// the bend.
    seek: (f64, f64, f64, f64, f64),
    /// Offset of a track's first sector from the previous track's, share of a rotation.
    skew: f64,
    /// Fixed cost of each request before anything moves.
    overhead: f64,
    /// Transfer rate of the cache, bytes per nanosecond.
    bus: f64,
    /// Number of segments of the read cache and bytes of each; 0 is no cache.
    segments: (usize, u64),
    /// Size of the write cache, bytes, and the rate at which it empties, bytes per nanosecond.
    write_cache: (f64, f64),
}

/// A 7,200 rpm drive of about 1 GiB: 2000 cylinders, 4 heads, three zones.
fn barracuda() -> Sheet {
    Sheet {
        zones: vec![(800, 320), (700, 260), (500, 200)],
        heads: 4,
        turn: 60e9 / 7200.0,
        seek: (0.8 * MS, 14.0 * MS, 3.6 * MS, 9.0 * MS, 0.3),
        skew: 0.1,
        overhead: 0.1 * MS,
        bus: 0.15,
        segments: (16, 512 << 10),
        write_cache: (0.0, 0.0),
    }
}

impl Sheet {
    fn cylinders(&self) -> u64 {
        self.zones.iter().map(|z| z.0).sum()
    }

    fn bytes(&self) -> u64 {
        self.zones.iter().map(|z| z.0 * z.1 * self.heads * SECTOR).sum()
    }

    fn seek(&self, cylinders: u64) -> f64 {
        let d = cylinders as f64 / self.cylinders() as f64;
        let (a, b, c, e, bend) = self.seek;
        match d {
            0.0 => 0.0,
            d if d < bend => a + b * d.sqrt(),
            d => c + e * d,
        }
    }

    /// Returns the track of a byte, its cylinder, its number of sectors, and the sector of the
    /// byte.
    fn place(&self, byte: u64) -> (u64, u64, u64, u64) {
        let (mut left, mut cylinders) = (byte / SECTOR, 0);
        for &(count, sectors) in &self.zones {
            let whole = count * self.heads * sectors;
            if left < whole {
                let track = left / sectors;
                return (cylinders * self.heads + track, cylinders + track / self.heads, sectors, left % sectors);
            }
            (left, cylinders) = (left - whole, cylinders + count);
        }
        panic!("byte {byte} is behind the end");
    }

    /// Returns the sequential rate of a zone, bytes per second: a track per rotation, plus the skew
    /// to the next.
    fn rate(&self, zone: usize) -> f64 {
        (self.zones[zone].1 * SECTOR) as f64 / (self.turn * (1.0 + self.skew)) * 1e9
    }
}

/// A segment of the cache; it may still grow by read-ahead.
#[derive(Clone, Copy, Default)]
struct Segment {
    from: u64,
    to: u64,
    used: u64,
}

/// A running drive.
struct Drive {
    sheet: Sheet,
    cylinder: u64,
    segments: Vec<Segment>,
    /// Segment that reads ahead, start time of that, and the byte up to which it reads.
    ahead: Option<(usize, f64, u64)>,
    count: u64,
    dirty: f64,
    dirty_at: f64,
    room: u64,
}

impl Drive {
    fn new(sheet: Sheet) -> Drive {
        let segments = vec![Segment::default(); sheet.segments.0];
        let room = sheet.bytes();
        Drive { sheet, cylinder: 0, segments, ahead: None, count: 0, dirty: 0.0, dirty_at: 0.0, room }
    }

    fn engine(self) -> FakeDevice {
        let drive = Mutex::new(self);
        let serve = move |op: &Op, offset: u64| {
            let mut drive = drive.lock().expect("one thread");
            Ok(drive.serve(op, offset as f64).max(1.0) as u64)
        };
        FakeDevice::new(1, Box::new(serve))
    }

    fn serve(&mut self, op: &Op, now: f64) -> f64 {
        self.count += 1;
        if op.action == Action::Write {
            return self.write(op, now);
        }
        let (from, to) = (op.offset, op.offset + u64::from(op.length));
        if let Some(ready) = self.cached(from, to, now) {
            return ready.max(now + self.sheet.overhead) - now + f64::from(op.length) / self.sheet.bus;
        }
        self.ahead = None;
        let ends = self.medium(from, to, now + self.sheet.overhead);
        self.keep(from, to, ends);
        ends - now
    }

    /// Moves the arm, waits for the sector, and passes over the bytes; returns the time when that
    /// is done.
    fn medium(&mut self, from: u64, to: u64, now: f64) -> f64 {
        let (track, cylinder, sectors, sector) = self.sheet.place(from);
        let there = now + self.sheet.seek(cylinder.abs_diff(self.cylinder));
        let turn = self.sheet.turn;
        let angle = (sector as f64 / sectors as f64 + track as f64 * self.sheet.skew).fract();
        let wait = (angle - there / turn).rem_euclid(1.0) * turn;
        let (last, cylinder, _, _) = self.sheet.place(to - SECTOR);
        self.cylinder = cylinder;
        let passed = (to - from) as f64 / (sectors * SECTOR) as f64 + (last - track) as f64 * self.sheet.skew;
        there + wait + passed * turn
    }

    /// Returns the rate at which the medium passes there, bytes per nanosecond.
    fn rate(&self, byte: u64) -> f64 {
        let (_, _, sectors, _) = self.sheet.place(byte.min(self.room - SECTOR));
        (sectors * SECTOR) as f64 / (self.sheet.turn * (1.0 + self.sheet.skew))
    }

    /// Continues read-ahead until now: three quarters of a segment at most, the rest keeps what was
    /// read.
    fn grow(&mut self, now: f64) {
        let Some((index, since, limit)) = self.ahead else { return };
        let rate = self.rate(self.segments[index].to);
        let came = ((now - since).max(0.0) * rate) as u64 / SECTOR * SECTOR;
        let to = (self.segments[index].to + came).min(limit).min(self.room).max(self.segments[index].to);
        let came = to - self.segments[index].to;
        self.segments[index].to = to;
        self.trim(index);
        self.ahead = Some((index, since + came as f64 / rate, limit));
    }

    fn limit(&self, to: u64) -> u64 {
        to + self.sheet.segments.1 * 3 / 4
    }

    /// Returns the time at which a read comes from the cache; `None` if it does not.
    fn cached(&mut self, from: u64, to: u64, now: f64) -> Option<f64> {
        self.grow(now);
        let index = self.segments.iter().position(|s| s.to > s.from && s.from <= from && from <= s.to)?;
        let growing = self.ahead.filter(|(segment, ..)| *segment == index);
        let held = self.segments[index].to;
        self.segments[index].used = self.count;
        if to <= held {
            self.ahead = growing.map(|(segment, since, _)| (segment, since, self.limit(to))).or(self.ahead);
            return Some(now);
        }
        // the rest is being read, if this is the stream that is read ahead and it has not stopped
        let (_, since, limit) = growing?;
        if held >= limit {
            return None;
        }
        let ready = since.max(now) + (to - held) as f64 / self.rate(held);
        self.segments[index].to = to;
        self.trim(index);
        self.ahead = Some((index, ready, self.limit(to)));
        Some(ready)
    }

    fn trim(&mut self, index: usize) {
        let segment = &mut self.segments[index];
        segment.from = segment.from.max(segment.to.saturating_sub(self.sheet.segments.1));
    }

    fn keep(&mut self, from: u64, to: u64, ends: f64) {
        if self.segments.is_empty() {
            return;
        }
        let going_on = self.segments.iter().position(|s| s.to == from && s.to > s.from);
        let oldest = || self.segments.iter().enumerate().min_by_key(|(_, s)| s.used).map_or(0, |(i, _)| i);
        let index = going_on.unwrap_or_else(oldest);
        let from = if going_on.is_some() { self.segments[index].from } else { from };
        self.segments[index] = Segment { from, to, used: self.count };
        self.trim(index);
        self.ahead = Some((index, ends, self.limit(to)));
    }

    fn write(&mut self, op: &Op, now: f64) -> f64 {
        let (size, rate) = self.sheet.write_cache;
        if size == 0.0 {
            self.grow(now);
            self.ahead = None;
            return self.medium(op.offset, op.offset + u64::from(op.length), now + self.sheet.overhead) - now;
        }
        let length = f64::from(op.length);
        self.dirty = (self.dirty - (now - self.dirty_at) * rate).max(0.0);
        self.dirty_at = now;
        let wait = ((self.dirty + length - size) / rate).max(0.0);
        self.dirty += length;
        wait + self.sheet.overhead + length / self.sheet.bus
    }
}

fn on_drive(id: &str, sheet: &Sheet, set: Settings) -> Vec<SuiteRemark> {
    on_places(suite(id).unwrap(), set, |_| Drive::new(sheet.clone()).engine()).1
}

fn reading(sheet: &Sheet) -> Settings {
    Settings { writes: false, ..settings(sheet.bytes()) }
}

#[test]
fn rotation_recovers_the_speed_of_any_drive() {
    for (turns, segments) in
        [(7200.0, (16, 512 << 10)), (5400.0, (0, 0)), (15_000.0, (1, 1 << 20)), (10_000.0, (4, 256 << 10))]
    {
        let sheet = Sheet { turn: 60e9 / turns, segments, ..barracuda() };
        let remarks = on_drive("rotation", &sheet, reading(&sheet));
        let found = value(&remarks, "rotation_s");
        assert!((found / (60.0 / turns) - 1.0).abs() < 0.001, "{turns}: {remarks:?}");
        assert!(remarks.iter().any(|r| r.text.contains(&format!("as of a drive of {turns:.0}"))), "{remarks:?}");
    }
    // a cache too large to be emptied by reads: a durable write shows it
    let sheet = Sheet { segments: (4096, 1 << 20), ..barracuda() };
    let remarks = on_drive("rotation", &sheet, reading(&sheet));
    assert!(remarks.iter().any(|r| r.text.contains("--destroy-data-on")), "{remarks:?}");
    let remarks = on_drive("rotation", &sheet, settings(sheet.bytes()));
    assert!((value(&remarks, "rotation_s") * 120.0 - 1.0).abs() < 0.001, "{remarks:?}");
}

#[test]
fn seek_curve_recovers_the_curve_within_five_percent() {
    let slow = Sheet { turn: 60e9 / 5400.0, seek: (1.2 * MS, 20.0 * MS, 6.0 * MS, 11.0 * MS, 0.25), ..barracuda() };
    for (name, sheet) in
        [("7200", barracuda()), ("5400", slow.clone()), ("no cache", Sheet { segments: (0, 0), ..slow })]
    {
        let remarks = on_drive("seek-curve", &sheet, reading(&sheet));
        let truth = |share: f64| sheet.seek((share * sheet.cylinders() as f64) as u64) * 1e-9;
        // without a cache the fixed cost of a request cannot be separated from the seek
        let own = if sheet.segments.0 == 0 { sheet.overhead * 1e-9 } else { 0.0 };
        for (id, share) in [("seek_third_s", 1.0 / 3.0), ("seek_full_s", 1.0)] {
            let (found, truth) = (value(&remarks, id), truth(share) + own);
            assert!((found / truth - 1.0).abs() < 0.05, "{name} {id}: {found} is {truth}\n{remarks:#?}");
        }
        let (a, b) = (value(&remarks, "seek_a_s"), value(&remarks, "seek_b_s"));
        for share in [0.03, 0.05, 0.1, 0.2] {
            let found = a + b * f64::sqrt(share);
            let truth = truth(share) + own;
            assert!((found / truth - 1.0).abs() < 0.05, "{name} {share}: {found} is {truth}\n{remarks:#?}");
        }
        let width = value(&remarks, "rotation_roughly_s");
        assert!((width / sheet.turn * 1e9 - 1.0).abs() < 0.1, "{name}: {width}");
    }
}

#[test]
fn zones_and_their_rates_are_found() {
    let sheet = barracuda();
    let (runs, remarks) =
        on_places(suite("seek-curve").unwrap(), reading(&sheet), |_| Drive::new(sheet.clone()).engine());
    assert_eq!(value(&remarks, "zones"), 3.0);
    assert!((value(&remarks, "outer_to_inner") / (320.0 / 200.0) - 1.0).abs() < 0.02, "{remarks:?}");
    for (zone, run) in [(0, 0), (1, 6), (2, 11)] {
        let (found, truth) = (runs[run].bytes_per_s, sheet.rate(zone));
        assert!((found / truth - 1.0).abs() < 0.02, "zone {zone}: {found} is {truth}");
    }
}

#[test]
fn flash_and_delays_show_no_mechanics() {
    let jitter = || {
        let mut rng = Rng::new(3, 3);
        FakeDevice::new(1, Box::new(move |_, _| Ok((8.0 * MS * (0.7 + 0.6 * rng.next_f64())) as u64)))
    };
    for id in ["seek-curve", "rotation"] {
        let none = |remarks: &[SuiteRemark]| remarks.iter().any(|r| r.text.contains("no mechanical behavior seen"));
        let suite = suite(id).unwrap();
        let (_, flash) = on_fake(suite, 1024 * MIB, || FakeDevice::steady(8, 80_000));
        assert!(none(&flash), "{id} on flash: {flash:?}");
        let (_, slow) = on_fake(suite, 1024 * MIB, || FakeDevice::steady(1, 8_000_000));
        assert!(none(&slow), "{id} on a delay of 8 ms: {slow:?}");
        let (_, spread) = on_fake(suite, 1024 * MIB, jitter);
        assert!(none(&spread), "{id} on a delay with jitter: {spread:?}");
    }
}

#[test]
fn cache_sizes_are_recovered_within_a_factor_of_two() {
    for (segments, write) in [((16, 512 << 10), 8e6), ((4, 2 << 20), 64e6)] {
        let sheet = Sheet { segments, write_cache: (write, 0.004), ..barracuda() };
        let remarks = on_drive("cache", &sheet, settings(sheet.bytes()));
        let within = |id: &str, truth: f64, factor: f64| {
            let found = value(&remarks, id);
            assert!(found <= truth * factor && found >= truth / factor, "{id}: {found} is {truth}\n{remarks:#?}");
        };
        within("read_cache_places", segments.0 as f64, 1.01);
        within("read_ahead_bytes", segments.1 as f64 * 0.75, 2.0);
        within("read_cache_bytes", segments.1 as f64, 4.0);
        within("write_cache_bytes", write, 1.1);
        within("hit_s", sheet.overhead * 1e-9 + 4096.0 / sheet.bus * 1e-9, 1.05);
    }
    // neither: the same block again waits for its rotation
    let sheet = Sheet { segments: (0, 0), ..barracuda() };
    let remarks = on_drive("cache", &sheet, settings(sheet.bytes()));
    assert!(remarks.iter().any(|r| r.text.contains("no read cache seen")), "{remarks:?}");
    assert!(remarks.iter().any(|r| r.text.contains("none became slow")), "{remarks:?}");
}

#[test]
fn depth_finds_any_number_of_channels() {
    for channels in [1usize, 3, 6, 8, 13, 32, 100] {
        let (runs, remarks) = on_fake(suite("depth").unwrap(), 64 * MIB, || FakeDevice::steady(channels, 1_000_000));
        let knee = value(&remarks, "knee_depth");
        // 90 % of the most, and steps of an eighth of a doubling
        let truth = channels as f64;
        assert!(knee >= (0.9 * truth).floor() && knee <= truth * 1.13 + 0.5, "{channels}: {knee}");
        assert!((value(&remarks, "parallelism") / truth - 1.0).abs() < 0.02, "{remarks:?}");
        assert!(runs.windows(2).all(|w| w[0].depth < w[1].depth));
    }
}

#[test]
fn load_finds_the_number_of_daemons_that_queueing_theory_gives() {
    // c servers of exponential time S, daemons without a pause: once all servers are busy X = c / S, so n
    // daemons wait n S / c (Little's law), and 0.1 s is reached by n = 0.1 c / S
    for (servers, service_s) in [(4usize, 9e-3), (1, 3e-3), (16, 12e-3)] {
        let device = || {
            let mut rng = Rng::new(9, 1);
            FakeDevice::new(servers, Box::new(move |_, _| Ok((rng.draw_exponential(service_s) * 1e9) as u64)))
        };
        let set = Settings { lasts: std::time::Duration::from_secs(20), ..settings(64 * MIB) };
        let (_, remarks) = on_places(suite("load").unwrap(), set, |_| device());
        let truth = 0.1 * servers as f64 / service_s;
        let found = value(&remarks, "daemons_at_limit");
        assert!((found / truth - 1.0).abs() < 0.07, "{servers} of {service_s}: {found} is {truth}");
        let rate = value(&remarks, "requests_per_s_at_limit");
        assert!((rate * service_s / servers as f64 - 1.0).abs() < 0.03, "{rate}");
    }
}

/// Returns the throughput of the machine repairman, M/M/1 with N sources that think Z on average
/// (Feller 1950): p(n) follows from p(n+1) = p(n) (N - n) S / Z, and X = (1 - p(0)) / S.
fn repairman(users: u32, think_s: f64, service_s: f64) -> f64 {
    let (mut weight, mut sum) = (1.0, 1.0);
    for n in 0..users {
        weight *= f64::from(users - n) * service_s / think_s;
        sum += weight;
    }
    (1.0 - 1.0 / sum) / service_s
}

#[test]
fn users_obey_the_response_time_law_and_the_machine_repairman() {
    let service_s = 4e-3;
    let device = || {
        let mut rng = Rng::new(2, 5);
        FakeDevice::new(1, Box::new(move |_, _| Ok((rng.draw_exponential(service_s) * 1e9) as u64)))
    };
    let set = Settings { lasts: std::time::Duration::from_secs(60), ..settings(64 * MIB) };
    let (runs, _) = on_places(suite("users").unwrap(), set, |_| device());
    for run in &runs {
        let users = run.users.unwrap();
        let (rate, response) = (run.requests_per_s, run.latency_s.mean.unwrap());
        // N = X (R + Z)
        assert!((rate * (response + 0.05) / f64::from(users) - 1.0).abs() < 0.04, "{users}: {rate} {response}");
        let truth = repairman(users, 0.05, service_s);
        assert!((rate / truth - 1.0).abs() < 0.04, "{users}: {rate} is {truth}");
    }
}

#[test]
fn record_sizes_find_the_knee_of_a_drive_without_a_cache() {
    // random reads of a turning disk: a third of the stroke's seek, half a turn, then the bytes
    let sheet = Sheet { segments: (0, 0), zones: vec![(2000, 320)], skew: 0.0, ..barracuda() };
    let set = Settings { lasts: std::time::Duration::from_secs(20), ..reading(&sheet) };
    let remarks = on_drive("record-sizes", &sheet, set);
    let rate = 320.0 * 512.0 / sheet.turn * 1e9;
    assert!((value(&remarks, "rate_bytes_per_s") / rate - 1.0).abs() < 0.05, "{remarks:?} {rate}");
    let fixed = value(&remarks, "request_s");
    assert!((fixed - sheet.turn * 0.5e-9 - 8e-3).abs() < 2e-3, "{fixed}");
}

/// A log device: a write costs little, a flush 5 ms; a flush requested while another is in progress
/// waits for the next, which serves all that have arrived.
struct Log {
    now: u64,
    batch: Vec<Op>,
    pending: Vec<(u64, Completion)>,
    /// End of the flush in progress, and of the one that the requests arriving meanwhile join.
    flush: u64,
    next: u64,
    grouped: bool,
}

const FLUSH: u64 = 5_000_000;

impl Log {
    fn new(grouped: bool) -> Log {
        Log { now: 0, batch: Vec::new(), pending: Vec::new(), flush: 0, next: 0, grouped }
    }

    fn ends(&mut self, op: &Op) -> u64 {
        if matches!(op.action, Action::Read | Action::Write) {
            return self.now + 20_000;
        }
        if self.flush <= self.now {
            // the joined flush began when the previous one ended
            self.flush = if self.next > self.now { self.next } else { self.now + FLUSH };
            self.next = self.flush;
            if self.flush == self.now + FLUSH {
                return self.flush;
            }
        }
        if !self.grouped {
            self.flush += FLUSH;
            return self.flush;
        }
        if self.next <= self.flush {
            self.next = self.flush + FLUSH;
        }
        self.next
    }
}

impl IoEngine for Log {
    fn now(&self) -> u64 {
        self.now
    }

    fn put(&mut self, op: Op) {
        self.batch.push(op);
    }

    fn turn(&mut self, wait: TurnWait, done: &mut Vec<Completion>) -> std::io::Result<()> {
        for op in std::mem::take(&mut self.batch) {
            let ends = self.ends(&op);
            self.pending.push((ends, Completion { slot: op.slot, result: op.length as i32 }));
        }
        let first = self.pending.iter().map(|p| p.0).min();
        self.now = match (wait, first) {
            (TurnWait::Nothing, _) | (TurnWait::One, None) => self.now,
            (TurnWait::One, Some(first)) => self.now.max(first),
            (TurnWait::Until(until), first) => self.now.max(first.unwrap_or(until).min(until)),
        };
        let now = self.now;
        done.extend(self.pending.iter().filter(|p| p.0 <= now).map(|p| p.1));
        self.pending.retain(|p| p.0 > now);
        Ok(())
    }
}

#[test]
fn commit_finds_group_commit_and_its_absence() {
    let (_, remarks) = on_fake(suite("commit").unwrap(), 64 * MIB, || Log::new(true));
    assert!((value(&remarks, "fdatasync_s") - 5.02e-3).abs() < 1e-4, "{remarks:?}");
    // two halves take turns: 64 committers get 32 commits a flush
    let gain = value(&remarks, "fdatasync_group_gain");
    assert!((28.0..=33.0).contains(&gain), "{gain} {remarks:#?}");
    assert!(remarks.iter().any(|r| r.text.contains("group commit by fdatasync: 64 committers")), "{remarks:?}");
    let (_, remarks) = on_fake(suite("commit").unwrap(), 64 * MIB, || Log::new(false));
    assert!((value(&remarks, "fsync_group_gain") - 1.0).abs() < 0.05, "{remarks:?}");
    assert!(remarks.iter().any(|r| r.text.contains("no group commit by fsync")), "{remarks:?}");
}

#[test]
fn the_model_itself_turns_and_seeks() {
    // one seek over a third of the way, and a turn's worth of waiting at most
    let sheet = barracuda();
    let mut drive = Drive::new(Sheet { segments: (0, 0), ..sheet.clone() });
    let op = |offset| Op { slot: 0, action: Action::Read, offset, length: 512 };
    drive.serve(&op(0), 0.0);
    let third = drive.serve(&op(sheet.bytes() / 3), 1e9);
    let cylinder = sheet.place(sheet.bytes() / 3).1;
    let least = sheet.seek(cylinder) + sheet.overhead;
    assert!(third >= least && third <= least + sheet.turn * 1.01, "{third} {least}");
    let shared = Arc::new(Mutex::new(drive));
    // the same sector again: exactly a turn later, less its own passing
    let again = shared.lock().unwrap().serve(&op(sheet.bytes() / 3), 1e9 + third);
    assert!((again - sheet.turn).abs() < 1.0, "{again}");
}
