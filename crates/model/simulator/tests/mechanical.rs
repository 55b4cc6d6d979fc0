//! A drive whose times can be computed by hand: 6000 turns a minute, so that a turn takes 10 ms and one of its ten
//! sectors 1 ms.

use std::sync::Arc;

use diskwright_simulator::Io;
use diskwright_simulator::Ns;
use diskwright_simulator::drive::{
    CacheOutcome, ChannelSpec, DriveCacheSpec, DriveQueue, DriveReadAhead, Geometry, MechanicalDrive, Model, Overheads,
    PositioningModel, QueuePolicy, SeekCurve, Sparing, Spec, TrackOrder, ZoneSpec,
};

const MS: Ns = 1_000_000;

fn zone(first_cylinder: u32, last_cylinder: u32, sectors: u32) -> ZoneSpec {
    ZoneSpec {
        first_cylinder,
        last_cylinder,
        sectors_per_track: sectors,
        offset: 0.0,
        track_skew: 0.0,
        cylinder_skew: 0.0,
        empty_sectors: 0,
        spares: 0,
        slips: Vec::new(),
        defects: Vec::new(),
    }
}

/// Two surfaces, 100 cylinders of 20 blocks; seeks 2 ms, head switch 1 ms, no cache, no overheads.
fn spec() -> Spec {
    Spec {
        name: "by hand".into(),
        surfaces: 2,
        cylinders: 100,
        rpm: 6000.0,
        track_order: TrackOrder::Ascending,
        sparing: Sparing::None,
        zones: vec![zone(0, 99, 10)],
        seek: SeekCurve::Constant(2.0),
        head_switch_ns: MS,
        write_settle_ns: 0,
        positioning_model: PositioningModel::Exact,
        overheads: Overheads::default(),
        cache: DriveCacheSpec::none(),
        channel: ChannelSpec::default(),
        queue_policy: QueuePolicy::FirstComeFirstServed,
        queue_slots: 1,
    }
}

fn drive(spec: &Spec) -> MechanicalDrive {
    MechanicalDrive::new(&Arc::new(Model::new(spec).expect("possible")))
}

/// A time in whole microseconds, as angles are rounded to nanoseconds.
fn us(time: Ns) -> u64 {
    (time + 500) / 1000
}

#[test]
fn rotation_seek_and_head_switch_match_hand_computed_times() {
    let mut drive = drive(&spec());
    // sector 3 passes from 3 to 4 ms
    let service = drive.start(0, &Io::read(3, 1));
    assert_eq!((us(service.rotation), us(service.media), us(service.done_at)), (3000, 1000, 4000));
    // straight on: no wait
    assert_eq!(us(drive.start(service.done_at, &Io::read(4, 2)).done_at), 6000);
    // the other surface: at 7 ms, sector 6 is gone by 1 ms, so that 7 is just caught
    assert_eq!(us(drive.start(6 * MS, &Io::read(17, 1)).done_at), 8000);
    assert_eq!(us(drive.start(8 * MS, &Io::read(0, 1)).done_at), 11_000);
    // another cylinder: at 13 ms, sector 2 has passed, and comes again at 22
    let service = drive.start(11 * MS, &Io::read(42, 1));
    assert_eq!((us(service.seek), us(service.rotation), us(service.done_at)), (2000, 9000, 23_000));
}

#[test]
fn a_long_read_switches_heads_and_skew_saves_the_turn() {
    // 20 blocks: ten, a switch of 1 ms by which sector 0 is gone, then ten
    assert_eq!(us(drive(&spec()).start(0, &Io::read(0, 20)).done_at), 30_000);
    let mut skewed = spec();
    skewed.zones[0].track_skew = 0.1;
    skewed.zones[0].cylinder_skew = 0.2;
    // with a skew of one sector it goes on after 1 ms; then over a cylinder after 2
    assert_eq!(us(drive(&skewed).start(0, &Io::read(0, 20)).done_at), 21_000);
    assert_eq!(us(drive(&skewed).start(0, &Io::read(0, 40)).done_at), 44_000);
}

#[test]
fn models_overheads_channel_and_high_mark() {
    let mut spec = spec();
    spec.overheads.read_miss = [MS / 2, MS];
    spec.overheads.read_done = MS / 10;
    spec.channel.read_block = 2 * MS;
    // blocks 1 to 4 pass from 1 to 5 ms; the channel begins at 2 and needs 8
    let service = drive(&spec).start(0, &Io::read(1, 4));
    assert_eq!((us(service.channel_start), us(service.channel_time), us(service.done_at)), (2000, 8000, 10_100));
    // with half of the request in the buffer first, it begins at 3
    spec.cache.read_mark = 0.5;
    assert_eq!(us(drive(&spec).start(0, &Io::read(1, 4)).done_at), 11_100);
    // a quick channel ends a block after the disk, where it is kept; where it is left when the buffer is
    // empty, it is taken again for two blocks: from 3 to 3.2 and from 5 to 5.2 ms
    spec.channel.read_block = MS / 10;
    assert_eq!(us(drive(&spec).start(0, &Io::read(1, 4)).done_at), 5300);
    spec.channel.holds_reads = true;
    assert_eq!(us(drive(&spec).start(0, &Io::read(1, 4)).done_at), 5200);
    // a channel that others hold until 7 ms sends all four from there
    assert_eq!(us(drive(&spec).start_on_shared_channel(0, &Io::read(1, 4), 7 * MS).done_at), 7500);
}

fn cached() -> Spec {
    let mut spec = spec();
    let cache = DriveCacheSpec {
        segments: 2,
        segment_blocks: 8,
        early_blocks: 8,
        keeps_data: true,
        serves_written: true,
        read_ahead: DriveReadAhead::Segment,
        max_ahead: 8,
        ahead_over_read: true,
        ..DriveCacheSpec::none()
    };
    spec.cache = cache;
    spec.overheads.read_hit = [MS / 10, MS / 5];
    spec.overheads.write_hit = [MS / 4, MS / 4];
    spec.channel.read_block = MS / 100;
    spec.channel.write_block = MS / 100;
    spec
}

#[test]
fn read_ahead_makes_hits() {
    let mut drive = drive(&cached());
    let first = drive.start(0, &Io::read(0, 2));
    assert_eq!((first.outcome, us(first.done_at)), (CacheOutcome::Miss, 2010));
    // it reads on from 2 ms: at 6 ms blocks 2 to 5 are there
    let hit = drive.start(6 * MS, &Io::read(3, 2));
    assert_eq!((hit.outcome, us(hit.done_at)), (CacheOutcome::Full, 6120));
    // block 9 passes until 10 ms, and is waited for
    let part = drive.start(7 * MS, &Io::read(5, 5));
    assert_eq!((part.outcome, us(part.done_at)), (CacheOutcome::Partial, 10_010));
    // what was sent made room for what follows; the first block is gone
    assert_eq!(drive.start(60 * MS, &Io::read(11, 1)).outcome, CacheOutcome::Full);
    assert_eq!(drive.start(120 * MS, &Io::read(0, 1)).outcome, CacheOutcome::Miss);
}

#[test]
fn acknowledged_writes_append_and_delay_reads() {
    let mut spec = cached();
    spec.cache.acknowledges_early = true;
    let mut drive = drive(&spec);
    let first = drive.start(0, &Io::write(5, 2));
    // 0.25 ms and two blocks over the channel; the disk is done at 7 ms
    assert_eq!((first.outcome, us(first.done_at)), (CacheOutcome::Early, 270));
    let next = drive.start(MS, &Io::write(7, 1));
    assert_eq!((next.outcome, us(next.done_at), next.waiting), (CacheOutcome::Early, 1260, 0));
    // a read elsewhere waits until both are on the disk, at 8 ms
    let read = drive.start(2 * MS, &Io::read(9, 1));
    assert_eq!((us(read.waiting), us(read.done_at)), (6000, 10_010));
    // what was written serves reads
    assert_eq!(drive.start(40 * MS, &Io::read(5, 3)).outcome, CacheOutcome::Full);
    // what is longer than a segment is reported when its last block has found room: the arm is there at
    // 82.25 ms and begins at 90; at 97 one block of eight is left to be written, and the last two come
    let long = drive.start(80 * MS, &Io::write(20, 10));
    assert_eq!((long.outcome, us(long.done_at)), (CacheOutcome::Early, 97_020));
}

#[test]
fn a_write_invalidates_cached_reads() {
    let mut drive = drive(&cached());
    drive.start(0, &Io::read(0, 4));
    drive.start(50 * MS, &Io::write(6, 1));
    assert_eq!(drive.start(100 * MS, &Io::read(4, 1)).outcome, CacheOutcome::Miss);
}

#[test]
fn writes_settle_and_wait_a_minimum_delay() {
    let mut spec = spec();
    spec.write_settle_ns = MS.cast_signed();
    // the same track needs no settling
    assert_eq!(us(drive(&spec).start(0, &Io::write(3, 1)).done_at), 4000);
    // after a seek of 2 ms it waits 1 ms more: sector 3 is just caught
    assert_eq!(us(drive(&spec).start(0, &Io::write(23, 1)).done_at), 4000);
    assert_eq!(us(drive(&spec).start(0, &Io::write(22, 1)).done_at), 13_000);
    spec.overheads.min_seek = 4 * MS;
    assert_eq!(us(drive(&spec).start(0, &Io::write(3, 1)).done_at), 14_000);
}

#[test]
fn a_track_on_arrival_takes_a_turn_at_most() {
    let mut spec = spec();
    spec.cache.read_on_arrival = true;
    // it lands on sector 5 of a whole track
    assert_eq!(us(drive(&spec).start(5 * MS, &Io::read(0, 10)).done_at), 15_000);
    spec.cache.read_on_arrival = false;
    assert_eq!(us(drive(&spec).start(5 * MS, &Io::read(0, 10)).done_at), 20_000);
    spec.cache.write_on_arrival = true;
    assert_eq!(us(drive(&spec).start(5 * MS, &Io::write(0, 10)).done_at), 15_000);
    spec.cache.write_on_arrival = false;
    assert_eq!(us(drive(&spec).start(5 * MS, &Io::write(0, 10)).done_at), 20_000);
}

fn order(policy: QueuePolicy, first: u64, blocks: &[u64]) -> Vec<u64> {
    let mut drive = drive(&spec());
    let now = drive.start(0, &Io::read(first, 1)).done_at;
    let mut queue = DriveQueue::new(policy);
    queue.push(&drive, Io::read(first, 1), ());
    queue.next(now, &drive);
    for block in blocks {
        queue.push(&drive, Io::read(*block, 1), ());
    }
    let mut order = Vec::new();
    let mut now = now;
    while let Some((io, ())) = queue.next(now, &drive) {
        order.push(io.first);
        now = drive.start(now, &io).done_at;
    }
    order
}

#[test]
fn policies_match_hand_computed_orders() {
    let blocks = [1900, 500, 1100, 700, 1300];
    assert_eq!(order(QueuePolicy::FirstComeFirstServed, 1000, &blocks), blocks);
    assert_eq!(order(QueuePolicy::Elevator, 1000, &blocks), [1100, 1300, 1900, 700, 500]);
    assert_eq!(order(QueuePolicy::CircularLook, 1000, &blocks), [1100, 1300, 1900, 500, 700]);
    assert_eq!(order(QueuePolicy::ShortestSeek, 1000, &blocks), [1100, 1300, 1900, 700, 500]);
    // all seeks take 2 ms: from 1 ms on sector 3 is reached first, from 4 ms on sector 7, not 5
    assert_eq!(order(QueuePolicy::ShortestPositioning, 0, &[45, 67, 23]), [23, 67, 45]);
}

#[test]
fn no_request_is_lost_or_served_twice() {
    for policy in QueuePolicy::ALL {
        let mut drive = drive(&spec());
        let mut queue = DriveQueue::new(policy);
        let mut seen = [false; 200];
        for tag in 0..200_u64 {
            queue.push(&drive, Io::read(tag * 7919 % 2000, 1), tag);
        }
        let mut now = 0;
        while let Some((io, tag)) = queue.next(now, &drive) {
            let index = usize::try_from(tag).expect("small");
            assert!(!seen[index], "{}", policy.name());
            seen[index] = true;
            let service = drive.start(now, &io);
            let parts = service.seek + service.rotation + service.media + service.overhead + service.waiting;
            assert!(service.done_at >= now && service.done_at - now >= parts);
            now = service.done_at;
        }
        assert!(seen.iter().all(|s| *s), "{}", policy.name());
        assert_eq!(QueuePolicy::from_name(policy.name()), Some(policy));
    }
}

/// Returns the places of all blocks of a drive, and checks that runs agree with them.
fn places(spec: &Spec) -> Vec<(u32, u32, u32)> {
    let geometry = Geometry::new(spec).expect("possible");
    let mut places = Vec::new();
    for block in 0..geometry.capacity_blocks() {
        let place = geometry.locate_block(block);
        assert!(place.cylinder < spec.cylinders && place.head < spec.surfaces, "{block}: {place:?}");
        assert!(place.sector < geometry.sectors_per_track(&place), "{block}: {place:?}");
        places.push((place.cylinder, place.head, place.sector));
    }
    let mut block = 0;
    while block < geometry.capacity_blocks() {
        let run = geometry.track_run(block, 1000);
        let first = usize::try_from(block).expect("small");
        let last = first + run.blocks as usize - 1;
        assert_eq!((places[last].0, places[last].1), (run.place.cylinder, run.place.head), "{block}");
        assert_eq!(places[last].2 - places[first].2 + 1, run.sectors, "{block}");
        block += u64::from(run.blocks);
    }
    places
}

#[test]
fn every_mapping_is_one_to_one() {
    let cylinder = |front, slips_to_end| Sparing::Cylinder { front, slips_to_end };
    let sparings = [
        (Sparing::None, 0),
        (Sparing::Tracks, 3),
        (Sparing::Track, 2),
        (cylinder(false, false), 4),
        (cylinder(false, true), 4),
        (cylinder(true, false), 4),
        (cylinder(true, true), 4),
        (Sparing::Range(2), 6),
        (Sparing::Zone, 12),
    ];
    for (sparing, spares) in sparings {
        for order in [TrackOrder::Ascending, TrackOrder::SerpentineInZone, TrackOrder::Serpentine] {
            let mut spec = Spec { sparing, track_order: order, surfaces: 3, cylinders: 13, ..spec() };
            spec.zones = vec![zone(0, 5, 14), zone(7, 12, 10)];
            for zone in &mut spec.zones {
                zone.spares = spares;
                zone.empty_sectors = 9;
                if sparing != Sparing::None {
                    zone.slips = vec![2, 5];
                }
            }
            if sparing == Sparing::Zone {
                zone_defects(&mut spec);
            }
            let mut places = places(&spec);
            let all = places.len();
            assert!(all > 150, "{sparing:?}: {all}");
            places.sort_unstable();
            places.dedup();
            assert_eq!(places.len(), all, "{sparing:?} {order:?}");
        }
    }
}

/// Sectors that are replaced by spares at the zone's end, behind those that slips use.
fn zone_defects(spec: &mut Spec) {
    spec.zones[0].defects = vec![(40, 14 * 18 - 1), (41, 14 * 18 - 2)];
    spec.zones[1].defects = vec![(100, 10 * 18 - 1)];
}

#[test]
fn impossible_drives_are_refused() {
    type Change = fn(&mut Spec);
    let cases: &[(&str, Change)] = &[
        ("surfaces", |s| s.surfaces = 0),
        ("cylinders", |s| s.cylinders = 0),
        ("rotation speed", |s| s.rpm = f64::NAN),
        ("zones", |s| s.zones.clear()),
        ("zone 1", |s| s.zones[0].sectors_per_track = 0),
        ("zone 1", |s| s.zones[0].last_cylinder = 100),
        ("zone 2", |s| s.zones.push(zone(50, 60, 10))),
        ("zone 1", |s| s.zones[0].empty_sectors = 2000),
        ("zone 1", |s| s.zones[0].slips = vec![2000]),
        ("seek curve", |s| s.seek = SeekCurve::Constant(-1.0)),
        ("segments", |s| s.cache.segments = 1_000_000),
    ];
    for (item, change) in cases {
        let mut spec = spec();
        change(&mut spec);
        let error = Model::new(&spec).expect_err(item);
        assert_eq!(error.item, *item, "{error}");
        assert!(!error.reason.is_empty());
    }
}

#[test]
fn the_same_requests_take_the_same_time() {
    let run = || {
        let mut drive = drive(&cached());
        (0..500_u64)
            .fold(0, |now, n| drive.start(now, &Io { first: n * 613 % 1990, blocks: 4, write: n % 3 == 0 }).done_at)
    };
    assert_eq!(run(), run());
}

#[test]
fn blocks_beyond_the_drive_do_no_harm() {
    let mut drive = drive(&cached());
    let mut now = 0;
    for io in [Io::read(u64::MAX, u32::MAX / 4096), Io::write(1999, 40), Io::read(1_000_000, 0)] {
        let service = drive.start(now, &io);
        assert!(service.done_at > now);
        now = service.done_at;
    }
}
