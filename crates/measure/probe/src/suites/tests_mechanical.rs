//! The mechanical suites on a disk with known properties: a model of a rotating disk with arm,
//! zones, skews, a segmented cache with read-ahead and a write cache. The findings of the suites
//! are compared with the model.

use std::sync::Arc;
use std::sync::Mutex;

use super::tests::{MIB, remark_value, run_on_fake, run_on_fakes, settings};
use super::{Settings, find_suite};
use crate::engine::fake::FakeDevice;
use crate::engine::{Action, Completion, IoEngine, Op, WaitFor};
use crate::facts::SuiteRemark;
use diskwright_base::Rng;

const MS: f64 = 1e6;
const SECTOR: u64 = 512;

/// Data sheet of a drive. Times in nanoseconds.
#[derive(Clone)]
struct DriveSheet {
    /// Cylinders, and sectors per track, of each zone, from outside.
    zones: Vec<(u64, u64)>,
    heads: u64,
    rotation_ns: f64,
    /// a, b: square root part; c, e: line, both of the distance as a share of all cylinders; then
    /// the bend.
    seek: (f64, f64, f64, f64, f64),
    /// Offset of a track's first sector from the previous track's, share of a rotation.
    skew: f64,
    /// Fixed cost of each request before anything moves.
    overhead_ns: f64,
    /// Transfer rate of the cache, bytes per nanosecond.
    bus_bytes_per_ns: f64,
    /// Number of segments of the read cache and bytes of each; 0 is no cache.
    segments: (usize, u64),
    /// Size of the write cache, bytes, and the rate at which it empties, bytes per nanosecond.
    write_cache: (f64, f64),
}

/// A 7,200 rpm drive of about 1 GiB: 2000 cylinders, 4 heads, three zones.
fn barracuda() -> DriveSheet {
    DriveSheet {
        zones: vec![(800, 320), (700, 260), (500, 200)],
        heads: 4,
        rotation_ns: 60e9 / 7200.0,
        seek: (0.8 * MS, 14.0 * MS, 3.6 * MS, 9.0 * MS, 0.3),
        skew: 0.1,
        overhead_ns: 0.1 * MS,
        bus_bytes_per_ns: 0.15,
        segments: (16, 512 << 10),
        write_cache: (0.0, 0.0),
    }
}

impl DriveSheet {
    fn cylinder_count(&self) -> u64 {
        self.zones.iter().map(|z| z.0).sum()
    }

    fn capacity_bytes(&self) -> u64 {
        self.zones.iter().map(|z| z.0 * z.1 * self.heads * SECTOR).sum()
    }

    fn seek(&self, cylinders: u64) -> f64 {
        let d = cylinders as f64 / self.cylinder_count() as f64;
        let (a, b, c, e, bend) = self.seek;
        match d {
            0.0 => 0.0,
            d if d < bend => a + b * d.sqrt(),
            d => c + e * d,
        }
    }

    /// Returns the track of a byte, its cylinder, its number of sectors, and the sector of the
    /// byte.
    fn locate_byte(&self, byte: u64) -> (u64, u64, u64, u64) {
        let (mut left, mut cylinders) = (byte / SECTOR, 0);
        for &(count, sectors) in &self.zones {
            let zone_sectors = count * self.heads * sectors;
            if left < zone_sectors {
                let track = left / sectors;
                return (cylinders * self.heads + track, cylinders + track / self.heads, sectors, left % sectors);
            }
            (left, cylinders) = (left - zone_sectors, cylinders + count);
        }
        panic!("byte {byte} is behind the end");
    }

    /// Returns the sequential rate of a zone, bytes per second: a track per rotation, plus the skew
    /// to the next.
    fn zone_bytes_per_s(&self, zone: usize) -> f64 {
        (self.zones[zone].1 * SECTOR) as f64 / (self.rotation_ns * (1.0 + self.skew)) * 1e9
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
    sheet: DriveSheet,
    cylinder: u64,
    segments: Vec<Segment>,
    /// Segment that reads ahead, start time of that, and the byte up to which it reads.
    ahead: Option<(usize, f64, u64)>,
    count: u64,
    dirty: f64,
    dirty_at: f64,
    capacity_bytes: u64,
}

impl Drive {
    fn new(sheet: DriveSheet) -> Drive {
        let segments = vec![Segment::default(); sheet.segments.0];
        let room = sheet.capacity_bytes();
        Drive { sheet, cylinder: 0, segments, ahead: None, count: 0, dirty: 0.0, dirty_at: 0.0, capacity_bytes: room }
    }

    fn into_engine(self) -> FakeDevice {
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
        if let Some(ready) = self.time_from_cache(from, to, now) {
            return ready.max(now + self.sheet.overhead_ns) - now + f64::from(op.length) / self.sheet.bus_bytes_per_ns;
        }
        self.ahead = None;
        let ends = self.access_medium(from, to, now + self.sheet.overhead_ns);
        self.keep_segment(from, to, ends);
        ends - now
    }

    /// Moves the arm, waits for the sector, and passes over the bytes; returns the time when that
    /// is done.
    fn access_medium(&mut self, from: u64, to: u64, now: f64) -> f64 {
        let (track, cylinder, sectors, sector) = self.sheet.locate_byte(from);
        let there = now + self.sheet.seek(cylinder.abs_diff(self.cylinder));
        let turn = self.sheet.rotation_ns;
        let angle = (sector as f64 / sectors as f64 + track as f64 * self.sheet.skew).fract();
        let wait = (angle - there / turn).rem_euclid(1.0) * turn;
        let (last, cylinder, _, _) = self.sheet.locate_byte(to - SECTOR);
        self.cylinder = cylinder;
        let passed = (to - from) as f64 / (sectors * SECTOR) as f64 + (last - track) as f64 * self.sheet.skew;
        there + wait + passed * turn
    }

    /// Returns the rate at which the medium passes there, bytes per nanosecond.
    fn medium_bytes_per_ns(&self, byte: u64) -> f64 {
        let (_, _, sectors, _) = self.sheet.locate_byte(byte.min(self.capacity_bytes - SECTOR));
        (sectors * SECTOR) as f64 / (self.sheet.rotation_ns * (1.0 + self.sheet.skew))
    }

    /// Continues read-ahead until now: three quarters of a segment at most, the rest keeps what was
    /// read.
    fn grow_read_ahead(&mut self, now: f64) {
        let Some((index, since, limit)) = self.ahead else { return };
        let rate = self.medium_bytes_per_ns(self.segments[index].to);
        let came = ((now - since).max(0.0) * rate) as u64 / SECTOR * SECTOR;
        let to = (self.segments[index].to + came).min(limit).min(self.capacity_bytes).max(self.segments[index].to);
        let came = to - self.segments[index].to;
        self.segments[index].to = to;
        self.trim_segment(index);
        self.ahead = Some((index, since + came as f64 / rate, limit));
    }

    fn read_ahead_limit(&self, to: u64) -> u64 {
        to + self.sheet.segments.1 * 3 / 4
    }

    /// Returns the time at which a read comes from the cache; `None` if it does not.
    fn time_from_cache(&mut self, from: u64, to: u64, now: f64) -> Option<f64> {
        self.grow_read_ahead(now);
        let index = self.segments.iter().position(|s| s.to > s.from && s.from <= from && from <= s.to)?;
        let growing = self.ahead.filter(|(segment, ..)| *segment == index);
        let held = self.segments[index].to;
        self.segments[index].used = self.count;
        if to <= held {
            self.ahead = growing.map(|(segment, since, _)| (segment, since, self.read_ahead_limit(to))).or(self.ahead);
            return Some(now);
        }
        // the rest is being read, if this is the stream that is read ahead and it has not stopped
        let (_, since, limit) = growing?;
        if held >= limit {
            return None;
        }
        let ready = since.max(now) + (to - held) as f64 / self.medium_bytes_per_ns(held);
        self.segments[index].to = to;
        self.trim_segment(index);
        self.ahead = Some((index, ready, self.read_ahead_limit(to)));
        Some(ready)
    }

    fn trim_segment(&mut self, index: usize) {
        let segment = &mut self.segments[index];
        segment.from = segment.from.max(segment.to.saturating_sub(self.sheet.segments.1));
    }

    fn keep_segment(&mut self, from: u64, to: u64, ends: f64) {
        if self.segments.is_empty() {
            return;
        }
        let going_on = self.segments.iter().position(|s| s.to == from && s.to > s.from);
        let oldest = || self.segments.iter().enumerate().min_by_key(|(_, s)| s.used).map_or(0, |(i, _)| i);
        let index = going_on.unwrap_or_else(oldest);
        let from = if going_on.is_some() { self.segments[index].from } else { from };
        self.segments[index] = Segment { from, to, used: self.count };
        self.trim_segment(index);
        self.ahead = Some((index, ends, self.read_ahead_limit(to)));
    }

    fn write(&mut self, op: &Op, now: f64) -> f64 {
        let (size, rate) = self.sheet.write_cache;
        if size == 0.0 {
            self.grow_read_ahead(now);
            self.ahead = None;
            return self.access_medium(op.offset, op.offset + u64::from(op.length), now + self.sheet.overhead_ns) - now;
        }
        let length = f64::from(op.length);
        self.dirty = (self.dirty - (now - self.dirty_at) * rate).max(0.0);
        self.dirty_at = now;
        let wait = ((self.dirty + length - size) / rate).max(0.0);
        self.dirty += length;
        wait + self.sheet.overhead_ns + length / self.sheet.bus_bytes_per_ns
    }
}

fn run_on_drive(id: &str, sheet: &DriveSheet, set: Settings) -> Vec<SuiteRemark> {
    run_on_fakes(find_suite(id).unwrap(), set, |_| Drive::new(sheet.clone()).into_engine()).1
}

fn read_only_settings(sheet: &DriveSheet) -> Settings {
    Settings { writes: false, ..settings(sheet.capacity_bytes()) }
}

#[test]
fn rotation_recovers_the_speed_of_any_drive() {
    for (turns, segments) in
        [(7200.0, (16, 512 << 10)), (5400.0, (0, 0)), (15_000.0, (1, 1 << 20)), (10_000.0, (4, 256 << 10))]
    {
        let sheet = DriveSheet { rotation_ns: 60e9 / turns, segments, ..barracuda() };
        let remarks = run_on_drive("rotation", &sheet, read_only_settings(&sheet));
        let found = remark_value(&remarks, "rotation_s");
        assert!((found / (60.0 / turns) - 1.0).abs() < 0.001, "{turns}: {remarks:?}");
        assert!(remarks.iter().any(|r| r.text.contains(&format!("as of a drive of {turns:.0}"))), "{remarks:?}");
    }
    // a cache too large to be emptied by reads: a durable write shows it
    let sheet = DriveSheet { segments: (4096, 1 << 20), ..barracuda() };
    let remarks = run_on_drive("rotation", &sheet, read_only_settings(&sheet));
    assert!(remarks.iter().any(|r| r.text.contains("--destroy-data-on")), "{remarks:?}");
    let remarks = run_on_drive("rotation", &sheet, settings(sheet.capacity_bytes()));
    assert!((remark_value(&remarks, "rotation_s") * 120.0 - 1.0).abs() < 0.001, "{remarks:?}");
}

#[test]
fn seek_curve_recovers_the_curve_within_five_percent() {
    let slow = DriveSheet {
        rotation_ns: 60e9 / 5400.0,
        seek: (1.2 * MS, 20.0 * MS, 6.0 * MS, 11.0 * MS, 0.25),
        ..barracuda()
    };
    for (name, sheet) in
        [("7200", barracuda()), ("5400", slow.clone()), ("no cache", DriveSheet { segments: (0, 0), ..slow })]
    {
        let remarks = run_on_drive("seek-curve", &sheet, read_only_settings(&sheet));
        let truth = |share: f64| sheet.seek((share * sheet.cylinder_count() as f64) as u64) * 1e-9;
        // without a cache the fixed cost of a request cannot be separated from the seek
        let own = if sheet.segments.0 == 0 { sheet.overhead_ns * 1e-9 } else { 0.0 };
        for (id, share) in [("seek_third_s", 1.0 / 3.0), ("seek_full_s", 1.0)] {
            let (found, truth) = (remark_value(&remarks, id), truth(share) + own);
            assert!((found / truth - 1.0).abs() < 0.05, "{name} {id}: {found} is {truth}\n{remarks:#?}");
        }
        let (a, b) = (remark_value(&remarks, "seek_a_s"), remark_value(&remarks, "seek_b_s"));
        for share in [0.03, 0.05, 0.1, 0.2] {
            let found = a + b * f64::sqrt(share);
            let truth = truth(share) + own;
            assert!((found / truth - 1.0).abs() < 0.05, "{name} {share}: {found} is {truth}\n{remarks:#?}");
        }
        let width = remark_value(&remarks, "rotation_roughly_s");
        assert!((width / sheet.rotation_ns * 1e9 - 1.0).abs() < 0.1, "{name}: {width}");
    }
}

#[test]
fn zones_and_their_rates_are_found() {
    let sheet = barracuda();
    let (runs, remarks) = run_on_fakes(find_suite("seek-curve").unwrap(), read_only_settings(&sheet), |_| {
        Drive::new(sheet.clone()).into_engine()
    });
    assert_eq!(remark_value(&remarks, "zones"), 3.0);
    assert!((remark_value(&remarks, "outer_to_inner") / (320.0 / 200.0) - 1.0).abs() < 0.02, "{remarks:?}");
    for (zone, run) in [(0, 0), (1, 6), (2, 11)] {
        let (found, truth) = (runs[run].bytes_per_s, sheet.zone_bytes_per_s(zone));
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
        let suite = find_suite(id).unwrap();
        let (_, flash) = run_on_fake(suite, 1024 * MIB, || FakeDevice::with_service_time(8, 80_000));
        assert!(none(&flash), "{id} on flash: {flash:?}");
        let (_, slow) = run_on_fake(suite, 1024 * MIB, || FakeDevice::with_service_time(1, 8_000_000));
        assert!(none(&slow), "{id} on a delay of 8 ms: {slow:?}");
        let (_, spread) = run_on_fake(suite, 1024 * MIB, jitter);
        assert!(none(&spread), "{id} on a delay with jitter: {spread:?}");
    }
}

#[test]
fn cache_sizes_are_recovered_within_a_factor_of_two() {
    for (segments, write) in [((16, 512 << 10), 8e6), ((4, 2 << 20), 64e6)] {
        let sheet = DriveSheet { segments, write_cache: (write, 0.004), ..barracuda() };
        let remarks = run_on_drive("cache", &sheet, settings(sheet.capacity_bytes()));
        let within = |id: &str, truth: f64, factor: f64| {
            let found = remark_value(&remarks, id);
            assert!(found <= truth * factor && found >= truth / factor, "{id}: {found} is {truth}\n{remarks:#?}");
        };
        within("read_cache_places", segments.0 as f64, 1.01);
        within("read_ahead_bytes", segments.1 as f64 * 0.75, 2.0);
        within("read_cache_bytes", segments.1 as f64, 4.0);
        within("write_cache_bytes", write, 1.1);
        within("hit_s", sheet.overhead_ns * 1e-9 + 4096.0 / sheet.bus_bytes_per_ns * 1e-9, 1.05);
    }
    // neither: the same block again waits for its rotation
    let sheet = DriveSheet { segments: (0, 0), ..barracuda() };
    let remarks = run_on_drive("cache", &sheet, settings(sheet.capacity_bytes()));
    assert!(remarks.iter().any(|r| r.text.contains("no read cache seen")), "{remarks:?}");
    assert!(remarks.iter().any(|r| r.text.contains("none became slow")), "{remarks:?}");
}

#[test]
fn depth_finds_any_number_of_channels() {
    for channels in [1usize, 3, 6, 8, 13, 32, 100] {
        let (runs, remarks) =
            run_on_fake(find_suite("depth").unwrap(), 64 * MIB, || FakeDevice::with_service_time(channels, 1_000_000));
        let knee = remark_value(&remarks, "knee_depth");
        // 90 % of the most, and steps of an eighth of a doubling
        let truth = channels as f64;
        assert!(knee >= (0.9 * truth).floor() && knee <= truth * 1.13 + 0.5, "{channels}: {knee}");
        assert!((remark_value(&remarks, "parallelism") / truth - 1.0).abs() < 0.02, "{remarks:?}");
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
        let set = Settings { duration: std::time::Duration::from_secs(20), ..settings(64 * MIB) };
        let (_, remarks) = run_on_fakes(find_suite("load").unwrap(), set, |_| device());
        let truth = 0.1 * servers as f64 / service_s;
        let found = remark_value(&remarks, "daemons_at_limit");
        assert!((found / truth - 1.0).abs() < 0.07, "{servers} of {service_s}: {found} is {truth}");
        let rate = remark_value(&remarks, "requests_per_s_at_limit");
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
    let set = Settings { duration: std::time::Duration::from_secs(60), ..settings(64 * MIB) };
    let (runs, _) = run_on_fakes(find_suite("users").unwrap(), set, |_| device());
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
    let sheet = DriveSheet { segments: (0, 0), zones: vec![(2000, 320)], skew: 0.0, ..barracuda() };
    let set = Settings { duration: std::time::Duration::from_secs(20), ..read_only_settings(&sheet) };
    let remarks = run_on_drive("record-sizes", &sheet, set);
    let rate = 320.0 * 512.0 / sheet.rotation_ns * 1e9;
    assert!((remark_value(&remarks, "rate_bytes_per_s") / rate - 1.0).abs() < 0.05, "{remarks:?} {rate}");
    let fixed = remark_value(&remarks, "request_s");
    assert!((fixed - sheet.rotation_ns * 0.5e-9 - 8e-3).abs() < 2e-3, "{fixed}");
}

/// A log device: a write costs little, a flush 5 ms; a flush requested while another is in progress
/// waits for the next, which serves all that have arrived.
struct LogDevice {
    now: u64,
    batch: Vec<Op>,
    pending: Vec<(u64, Completion)>,
    /// End of the flush in progress, and of the one that the requests arriving meanwhile join.
    flush_end_ns: u64,
    next_flush_end_ns: u64,
    grouped: bool,
}

const FLUSH_NS: u64 = 5_000_000;

impl LogDevice {
    fn new(grouped: bool) -> LogDevice {
        LogDevice { now: 0, batch: Vec::new(), pending: Vec::new(), flush_end_ns: 0, next_flush_end_ns: 0, grouped }
    }

    fn completion_ns(&mut self, op: &Op) -> u64 {
        if matches!(op.action, Action::Read | Action::Write) {
            return self.now + 20_000;
        }
        if self.flush_end_ns <= self.now {
            // the joined flush began when the previous one ended
            self.flush_end_ns =
                if self.next_flush_end_ns > self.now { self.next_flush_end_ns } else { self.now + FLUSH_NS };
            self.next_flush_end_ns = self.flush_end_ns;
            if self.flush_end_ns == self.now + FLUSH_NS {
                return self.flush_end_ns;
            }
        }
        if !self.grouped {
            self.flush_end_ns += FLUSH_NS;
            return self.flush_end_ns;
        }
        if self.next_flush_end_ns <= self.flush_end_ns {
            self.next_flush_end_ns = self.flush_end_ns + FLUSH_NS;
        }
        self.next_flush_end_ns
    }
}

impl IoEngine for LogDevice {
    fn now(&self) -> u64 {
        self.now
    }

    fn queue_op(&mut self, op: Op) {
        self.batch.push(op);
    }

    fn submit_and_wait(&mut self, wait: WaitFor, done: &mut Vec<Completion>) -> std::io::Result<()> {
        for op in std::mem::take(&mut self.batch) {
            let ends = self.completion_ns(&op);
            self.pending.push((ends, Completion { slot: op.slot, result: op.length as i32 }));
        }
        let first = self.pending.iter().map(|p| p.0).min();
        self.now = match (wait, first) {
            (WaitFor::Nothing, _) | (WaitFor::One, None) => self.now,
            (WaitFor::One, Some(first)) => self.now.max(first),
            (WaitFor::Until(until), first) => self.now.max(first.unwrap_or(until).min(until)),
        };
        let now = self.now;
        done.extend(self.pending.iter().filter(|p| p.0 <= now).map(|p| p.1));
        self.pending.retain(|p| p.0 > now);
        Ok(())
    }
}

#[test]
fn commit_finds_group_commit_and_its_absence() {
    let (_, remarks) = run_on_fake(find_suite("commit").unwrap(), 64 * MIB, || LogDevice::new(true));
    assert!((remark_value(&remarks, "fdatasync_s") - 5.02e-3).abs() < 1e-4, "{remarks:?}");
    // two halves take turns: 64 committers get 32 commits a flush
    let gain = remark_value(&remarks, "fdatasync_group_gain");
    assert!((28.0..=33.0).contains(&gain), "{gain} {remarks:#?}");
    assert!(remarks.iter().any(|r| r.text.contains("group commit by fdatasync: 64 committers")), "{remarks:?}");
    let (_, remarks) = run_on_fake(find_suite("commit").unwrap(), 64 * MIB, || LogDevice::new(false));
    assert!((remark_value(&remarks, "fsync_group_gain") - 1.0).abs() < 0.05, "{remarks:?}");
    assert!(remarks.iter().any(|r| r.text.contains("no group commit by fsync")), "{remarks:?}");
}

#[test]
fn the_fake_drive_turns_and_seeks() {
    // one seek over a third of the way, and a turn's worth of waiting at most
    let sheet = barracuda();
    let mut drive = Drive::new(DriveSheet { segments: (0, 0), ..sheet.clone() });
    let op = |offset| Op { slot: 0, action: Action::Read, offset, length: 512 };
    drive.serve(&op(0), 0.0);
    let third = drive.serve(&op(sheet.capacity_bytes() / 3), 1e9);
    let cylinder = sheet.locate_byte(sheet.capacity_bytes() / 3).1;
    let minimum = sheet.seek(cylinder) + sheet.overhead_ns;
    assert!(third >= minimum && third <= minimum + sheet.rotation_ns * 1.01, "{third} {minimum}");
    let shared = Arc::new(Mutex::new(drive));
    // the same sector again: exactly a turn later, less its own passing
    let again = shared.lock().unwrap().serve(&op(sheet.capacity_bytes() / 3), 1e9 + third);
    assert!((again - sheet.rotation_ns).abs() < 1.0, "{again}");
}
