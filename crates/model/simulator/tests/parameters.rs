//! Each parameter of a drive file separately: a tiny drive, two values, and responses computed by hand.
//!
//! A turn takes 10 ms and one of its ten sectors 1 ms; at every multiple of 10 ms sector 0 begins to pass.
//! Block b lies on cylinder b / 20, surface b / 10 % 2, sector b % 10. A seek takes 1.5 ms, a switch of heads
//! 1 ms, a block over the channel 0.01 ms, and the processor nothing.

use std::sync::Arc;

use diskwright_simulator::Io;
use diskwright_simulator::Ns;
use diskwright_simulator::diskspecs;
use diskwright_simulator::drive::{CacheOutcome, DriveQueue, MechanicalDrive, Model, QueuePolicy};

const DRIVE: &str = "
disksim_disk TINY {
  Model = dm_disk M {
    Number of data surfaces = 2, Number of cylinders = 100,
    Layout Model = dm_layout_g1 {
      LBN-to-PBN mapping scheme = 0, Sparing scheme used = 0,
      Zones = [ dm_layout_g1_zone { First cylinder number = 0, Last cylinder number = 99, Blocks per track = 10 } ]
    },
    Mechanical Model = dm_mech_g1 {
      Access time type = trackSwitchPlusRotation, Seek type = constant, Constant seek time = 1.5,
      Add. write settling delay = 0.0,
      Head switch time = 1.0, Rotation speed (in rpms) = 6000
    }
  },
";

/// Default parameters of the tests; all others are 0 or missing.
const DEFAULT_PARAMETERS: &[(&str, &str)] = &[
    ("Bulk sector transfer time", "0.01"),
    ("Number of buffer segments", "4"),
    ("Segment size (in blks)", "8"),
    ("Enable caching in buffer", "1"),
    ("Maximum read-ahead (blks)", "8"),
    ("Read-ahead over requested", "1"),
    ("Set watermark by reqsize", "1"),
    ("Stop prefetch in sector", "1"),
    ("Hold bus entire read xfer", "1"),
    ("Allow read hits on write data", "1"),
];

type Parameters<'a> = &'a [(&'a str, &'a str)];

fn drive(settings: Parameters<'_>) -> MechanicalDrive {
    let mut text = DRIVE.to_owned();
    let mut rest: Vec<(&str, &str)> =
        DEFAULT_PARAMETERS.iter().filter(|(key, _)| settings.iter().all(|(k, _)| k != key)).copied().collect();
    for (key, value) in settings {
        match text.find(&format!("{key} = ")) {
            Some(index) => {
                let end = index + text[index..].find([',', '\n']).expect("an end");
                text.replace_range(index..end, &format!("{key} = {value}"));
            }
            None => rest.push((key, value)),
        }
    }
    for (key, value) in rest {
        text.push_str(&format!("  {key} = {value},\n"));
    }
    let text = text.trim_end_matches(",\n").to_owned() + "\n}\n";
    let none = |path: &str| Err::<String, _>(format!("{path}: no file"));
    let found = diskspecs::read_drive("tiny", &text, &none).unwrap_or_else(|e| panic!("{e}\n{text}"));
    MechanicalDrive::new(&Arc::new(Model::new(&found.spec).expect("possible")))
}

const fn read(first: u64, blocks: u32) -> Io {
    Io { first, blocks, write: false }
}

const fn write(first: u64, blocks: u32) -> Io {
    Io { first, blocks, write: true }
}

fn ms_to_ns(ms: f64) -> Ns {
    (ms * 1e6).round() as Ns
}

/// Responses, us, of requests that arrive at these times, ms.
fn responses(settings: Parameters<'_>, requests: &[(f64, Io)]) -> Vec<u64> {
    let mut drive = drive(settings);
    requests.iter().map(|(ms, io)| (drive.start(ms_to_ns(*ms), io).done_at - ms_to_ns(*ms) + 500) / 1000).collect()
}

/// Checks the last response for each value of a parameter.
#[track_caller]
fn check_last_response(key: &str, others: Parameters<'_>, requests: &[(f64, Io)], expected: &[(&str, u64)]) {
    for (value, us) in expected {
        let settings: Vec<(&str, &str)> = others.iter().copied().chain([(key, *value)]).collect();
        assert_eq!(responses(&settings, requests).last(), Some(us), "{key} = {value}");
    }
}

#[test]
fn segments_keep_the_latest_blocks() {
    // 10 us is a block from the buffer, 1010 us one that begins to pass at once
    check_last_response(
        "Enable caching in buffer",
        &[],
        &[(0.0, read(0, 1)), (60.0, read(0, 1))],
        &[("0", 1010), ("1", 10), ("2", 10)],
    );
    let three = [(0.0, read(0, 1)), (50.0, read(45, 1)), (100.0, read(0, 1))];
    // another cylinder: 1.5 ms, and sector 0 again at 110
    check_last_response("Number of buffer segments", &[], &three, &[("1", 11_010), ("2", 10)]);
    // of six blocks the last four stay
    check_last_response(
        "Segment size (in blks)",
        &[],
        &[(0.0, read(0, 6)), (100.0, read(0, 1))],
        &[("4", 1010), ("8", 10)],
    );
    let back = [(0.0, write(0, 2)), (100.0, read(0, 2))];
    check_last_response("Allow read hits on write data", &[], &back, &[("0", 2010), ("1", 20)]);
    check_last_response("Use separate write segment", &[], &back, &[("0", 20), ("1", 2010)]);
    check_last_response(
        "Bulk sector transfer time",
        &[],
        &[(0.0, read(0, 4)), (100.0, read(0, 4))],
        &[("0.01", 40), ("0.5", 2000)],
    );
    // of a read that ends at once the next blocks stay, its own do not
    let again = [(0.0, read(0, 4)), (4.1, read(1, 1))];
    let ahead = [("Buffer continuous read", "3")];
    check_last_response("Read-ahead over requested", &ahead, &again, &[("1", 10), ("0", 10), ("-1", 7910)]);
}

/// Returns the last block in the cache after one read and a long pause.
fn last_block_read_ahead(settings: Parameters<'_>, io: Io) -> u64 {
    let held = |block: &u64| {
        let mut drive = drive(settings);
        drive.start(0, &io);
        drive.start(ms_to_ns(500.0), &read(*block, 1)).outcome == CacheOutcome::Full
    };
    (io.first..io.first + 60).filter(held).max().unwrap_or(0)
}

#[test]
fn reads_ahead_as_far_as_configured() {
    let far = [("Segment size (in blks)", "40"), ("Maximum read-ahead (blks)", "30")];
    let with = |key, value| far.iter().copied().chain([(key, value)]).collect::<Vec<_>>();
    // not at all; track; cylinder; so many blocks; track, as nothing of the track before is there
    for (scheme, last) in [("0", 4), ("1", 9), ("2", 19), ("3", 34), ("4", 9)] {
        assert_eq!(last_block_read_ahead(&with("Buffer continuous read", scheme), read(3, 2)), last, "{scheme}");
    }
    // a segment that reaches back into the track before: to the end of the next one too
    assert_eq!(last_block_read_ahead(&with("Buffer continuous read", "4"), read(8, 3)), 29);
    for (max_blocks, last) in [("5", 9), ("10", 14)] {
        let settings = [("Segment size (in blks)", "40"), ("Buffer continuous read", "3")];
        let settings: Vec<_> = settings.into_iter().chain([("Maximum read-ahead (blks)", max_blocks)]).collect();
        assert_eq!(last_block_read_ahead(&settings, read(3, 2)), last);
    }
    // eight more blocks, whatever becomes of the four that were read, as in DiskSim 4.0; without a maximum, the
    // segment: its eight blocks, or what the read's data leave of them
    for (max_blocks, over, last) in [("8", "0", 11), ("8", "1", 11), ("0", "0", 7), ("0", "1", 11)] {
        let settings = [
            ("Buffer continuous read", "3"),
            ("Maximum read-ahead (blks)", max_blocks),
            ("Read-ahead over requested", over),
        ];
        assert_eq!(last_block_read_ahead(&settings, read(0, 4)), last, "{max_blocks}, {over}");
    }
}

#[test]
fn read_ahead_stops_and_starts_as_configured() {
    let ahead = [("Buffer continuous read", "3")];
    // at 2.1 ms to cylinder 2, sector 5: at 5 ms; three more blocks first: at 6.5 ms it is past
    let away = [(0.0, read(0, 2)), (2.1, read(45, 1))];
    check_last_response("Minimum read-ahead (blks)", &ahead, &away, &[("0", 3910), ("3", 13_910)]);
    // from 2.3 ms it is there at 3.8; from the end of the sector, at 4.5, sector 4 is past
    let inside = [(0.0, read(0, 2)), (2.3, read(44, 1))];
    check_last_response("Stop prefetch in sector", &ahead, &inside, &[("1", 2710), ("0", 12_710)]);
    // block 3 passes from 3 to 4 ms: it is waited for, or comes again at 13
    let there = [(0.0, read(0, 2)), (3.5, read(3, 1))];
    check_last_response("Allow almost read hits", &ahead, &there, &[("1", 510), ("0", 10_510)]);
    // four blocks on, and four more behind a hit
    let four = [("Buffer continuous read", "3"), ("Maximum read-ahead (blks)", "4")];
    let hit = [(0.0, read(0, 2)), (50.0, read(2, 2)), (200.0, read(6, 1))];
    check_last_response("Read-ahead on idle hit", &four, &hit, &[("0", 7010), ("1", 10)]);
    // to a write within what is being read on: at once, and sector 2 comes at 12 ms; or after eleven blocks,
    // the last of them from 20 to 23 ms on the other surface
    let long = [
        ("Buffer continuous read", "3"),
        ("Minimum read-ahead (blks)", "11"),
        ("Maximum read-ahead (blks)", "11"),
        ("Segment size (in blks)", "20"),
    ];
    check_last_response(
        "Write hit stop prefetch",
        &long,
        &[(0.0, read(0, 2)), (3.1, write(2, 1))],
        &[("1", 9900), ("0", 29_900)],
    );
}

#[test]
fn sectors_are_read_in_their_order() {
    // while sector 5 is waited for, sector 2 passes; it is not kept, whatever the file says: so does DiskSim 4.0
    check_last_response(
        "Read any free blocks",
        &[],
        &[(0.0, read(5, 1)), (100.0, read(2, 1))],
        &[("0", 3010), ("1", 3010)],
    );
    // from the middle of a track on: half a turn until sector 0 comes, and a turn, whatever the file says: so does
    // DiskSim 4.0
    let large = [("Segment size (in blks)", "10")];
    let track = [(5.0, read(0, 10))];
    check_last_response("Immediate buffer read", &large, &track, &[("0", 15_010), ("1", 15_010), ("2", 15_010)]);
    let track = [(5.0, write(0, 10))];
    check_last_response("Immediate buffer write", &large, &track, &[("0", 15_000), ("1", 15_000), ("2", 15_000)]);
}

#[test]
fn the_channel_is_requested_as_configured() {
    let slow = [("Bulk sector transfer time", "0.2")];
    // four blocks pass until 4 ms; from the first, the last one is sent behind it; or all from 4 ms on
    let four = [(0.0, read(0, 4))];
    check_last_response("High (read) water mark", &slow, &four, &[("0.0", 4200), ("1.0", 4800)]);
    // half of the request, or of a segment
    let half = [("Bulk sector transfer time", "0.2"), ("High (read) water mark", "0.5")];
    check_last_response("Set watermark by reqsize", &half, &four, &[("1", 4200), ("0", 4800)]);
    // left at 2.2 ms, and taken again at 4 for two blocks
    let quick = [("Bulk sector transfer time", "0.1"), ("High (read) water mark", "0.5")];
    check_last_response("Hold bus entire read xfer", &quick, &four, &[("1", 4100), ("0", 4200)]);
    check_last_response(
        "Never disconnect",
        &[("First reselect overhead", "0.5")],
        &[(0.0, read(0, 1))],
        &[("0", 1510), ("1", 1010)],
    );
    // two of four blocks are there: sent at once, or with the others
    let part = [(0.0, read(0, 4)), (100.0, read(2, 4))];
    check_last_response(
        "Immed transfer partial hit",
        &[("High (read) water mark", "1.0")],
        &part,
        &[("1", 6010), ("0", 6040)],
    );
    // a third block of two has room in a place of its own, or a turn later; a block takes 1.5 ms
    let two =
        [("Bulk sector transfer time", "1.5"), ("Segment size (in blks)", "2"), ("Maximum read-ahead (blks)", "0")];
    check_last_response("Read directly to buffer", &two, &[(0.0, read(0, 3))], &[("0", 5500), ("1", 14_500)]);
}

#[test]
fn writes_are_acknowledged_early() {
    // sectors 5 and 6 end to pass at 7 ms
    check_last_response("Fast write level", &[], &[(0.0, write(5, 2))], &[("0", 7000), ("1", 20), ("2", 20)]);
    let early = [("Fast write level", "2")];
    // the first write is on the disk at 6 ms; one elsewhere waits, one behind it does not
    let behind = [(0.0, write(5, 1)), (1.0, write(6, 1))];
    check_last_response("Combine seq writes", &early, &behind, &[("1", 10), ("0", 5010)]);
    let elsewhere = [(0.0, write(5, 1)), (1.0, write(45, 1))];
    let two = [("Fast write level", "2"), ("Maximum number of write segments", "2")];
    check_last_response("Allow write prebuffering", &two, &elsewhere, &[("0", 5010), ("1", 10)]);
    let taken = [("Fast write level", "2"), ("Allow write prebuffering", "1")];
    check_last_response("Maximum number of write segments", &taken, &elsewhere, &[("1", 5010), ("2", 10)]);
    // sector 5 of cylinder 0 passes from 105 ms on
    let hit = [(0.0, read(20, 1)), (100.0, write(5, 1)), (100.5, read(20, 1))];
    check_last_response("Allow sneaky full read hits", &early, &hit, &[("0", 5510), ("1", 10)]);
    // twelve blocks into eight; the disk begins at 10 ms. All but one of eight are written at 17, half at 14
    let twelve = [(0.0, write(0, 12))];
    check_last_response("Low (write) water mark", &early, &twelve, &[("0.0", 17_040), ("0.5", 14_040)]);
    check_last_response("Hold bus entire write xfer", &early, &twelve, &[("0", 17_040), ("1", 14_010)]);
}

/// At level 2 the queue prefers a write that continues the one being written; at level 1, which is for uninterrupted
/// streams, a read from the buffer is sooner.
#[test]
fn levels_of_early_writes_differ_where_others_wait() {
    for (level, first) in [("1", 40), ("2", 6)] {
        let mut drive = drive(&[("Fast write level", level)]);
        drive.start(0, &read(40, 1));
        drive.start(ms_to_ns(100.0), &write(5, 1));
        let mut queue = DriveQueue::new(QueuePolicy::ShortestPositioning);
        queue.push(&drive, write(6, 1), ());
        queue.push(&drive, read(40, 1), ());
        assert_eq!(queue.next(ms_to_ns(101.0), &drive).map(|(io, ())| io.first), Some(first), "{level}");
    }
}

/// Hits of the buffer take the processor's millisecond longer, requests of the disk miss a turn by it.
#[test]
fn overheads_depend_on_the_previous_request() {
    for (before, after) in [(read(0, 1), "read"), (write(0, 1), "write")] {
        for (kind, level, io, plain, more) in [
            ("Read hit over.", "0", read(0, 1), 10, 1000),
            ("Read miss over.", "0", read(42, 1), 3010, 10_000),
            ("Write hit over.", "2", write(42, 1), 10, 1000),
            ("Write miss over.", "0", write(42, 1), 3000, 10_000),
        ] {
            for previous in ["read", "write"] {
                let key = format!("{kind} after {previous}");
                let told_too = [("Fast write level", level), (key.as_str(), "1.0")];
                let expected = if previous == after { plain + more } else { plain };
                assert_eq!(responses(&told_too, &[(0.0, before), (100.0, io)])[1], expected, "{key}, {after}");
            }
        }
    }
}

#[test]
fn applies_the_other_overheads() {
    let hit = [(0.0, read(0, 1)), (100.0, read(0, 1))];
    let miss = [(0.0, read(0, 1)), (100.0, read(42, 1))];
    let through = [(0.0, read(0, 1)), (100.0, write(42, 1))];
    check_last_response("Per-request overhead time", &[], &hit, &[("0.0", 10), ("0.5", 510)]);
    check_last_response(
        "Time scale for overheads",
        &[("Read hit over. after read", "1.0")],
        &hit,
        &[("1.0", 1010), ("2.0", 2010)],
    );
    check_last_response("Read completion overhead", &[], &hit, &[("0.0", 10), ("0.3", 310)]);
    check_last_response("Write completion overhead", &[], &through, &[("0.0", 3000), ("0.3", 3300)]);
    check_last_response("Data preparation overhead", &[], &hit, &[("0.0", 10), ("0.3", 310)]);
    check_last_response("First reselect overhead", &[], &hit, &[("0.0", 10), ("0.3", 10)]);
    check_last_response("First reselect overhead", &[], &miss, &[("0.0", 3010), ("0.3", 3310)]);
    // leaving the channel takes longer than the disk
    check_last_response("Read disconnect afterread", &[], &miss, &[("0.0", 3010), ("5.0", 5010)]);
    let after_write = [(0.0, write(0, 1)), (100.0, read(42, 1))];
    check_last_response("Read disconnect afterwrite", &[], &after_write, &[("0.0", 3010), ("5.0", 5010)]);
    check_last_response("Write disconnect overhead", &[], &through, &[("0.0", 3000), ("5.0", 5010)]);
    let never = [("Never disconnect", "1")];
    check_last_response("First reselect overhead", &never, &miss, &[("0.0", 3010), ("0.3", 3010)]);
    check_last_response("First reselect overhead", &never, &through, &[("0.0", 3000), ("0.3", 3300)]);
    check_last_response("Write disconnect overhead", &never, &through, &[("0.0", 3000), ("5.0", 5010)]);
    // elsewhere: not before five milliseconds; behind the one that is being written there is nothing to seek
    check_last_response("Minimum seek delay", &[], &through, &[("0.0", 3000), ("5.0", 13_000)]);
    let early = [("Fast write level", "2")];
    let behind = [(0.0, write(5, 1)), (1.0, write(6, 1)), (1.5, read(9, 1))];
    check_last_response("Minimum seek delay", &early, &behind, &[("0.0", 8510), ("2.0", 8510)]);
    // a seek for a write may take less: sector 1 at 101 ms is caught at 100.9
    check_last_response(
        "Add. write settling delay",
        &[],
        &[(100.0, write(41, 1))],
        &[("0.0", 12_000), ("-0.6", 2000), ("0.6", 12_000)],
    );
}

/// After a write elsewhere: the arm sets out at 101.2, the data come at 104.9, and sector 2 at 112 ms.
#[test]
fn a_write_that_leaves_the_channel_before_its_data() {
    let settings = [
        ("Extradisc command overhead", "1.0"),
        ("Extradisc disconnect overhead", "0.5"),
        ("Extradisc inter-disconnect delay", "3.0"),
        ("Extradisc seek delta", "0.2"),
        ("First reselect overhead", "0.4"),
        ("Other reselect overhead", "0.7"),
    ];
    let elsewhere = [(0.0, write(0, 1)), (100.0, write(42, 1))];
    check_last_response("Extra write disconnect", &settings, &elsewhere, &[("0", 3400), ("1", 13_700)]);
    // after a read, and behind the last write, it does not
    let after_read = [(0.0, read(0, 1)), (100.0, write(42, 1))];
    check_last_response("Extra write disconnect", &settings, &after_read, &[("0", 3400), ("1", 3400)]);
    let behind = [(0.0, write(0, 1)), (100.0, write(1, 1))];
    check_last_response("Extra write disconnect", &settings, &behind, &[("0", 2400), ("1", 2400)]);
    // each part: the command and the seek delta until the arm sets out, the others until the data come
    for (key, value, us) in [
        ("Extradisc command overhead", "9.0", 23_700),
        ("Extradisc disconnect overhead", "8.0", 23_700),
        ("Extradisc inter-disconnect delay", "11.0", 23_700),
        ("Extradisc seek delta", "9.7", 23_700),
        ("Extradisc 2nd disconnect overhead", "10.0", 15_610),
    ] {
        let mut settings: Vec<_> = settings.into_iter().filter(|(k, _)| *k != key).collect();
        settings.extend([("Extra write disconnect", "1"), (key, value)]);
        assert_eq!(responses(&settings, &elsewhere)[1], us, "{key}");
    }
}

/// Blocks come every millisecond, and the first track takes two of ten. The disk begins with one of them, at 8 ms, and
/// goes on with the other surface at 20 ms; or with ten of them, at 18 and 30 ms.
#[test]
fn a_write_across_tracks_awaits_as_many_blocks_as_another() {
    let slow = [("Bulk sector transfer time", "1.0"), ("Segment size (in blks)", "16")];
    let across = [(0.0, write(0, 1)), (100.0, write(8, 10))];
    check_last_response("Extra write disconnect", &slow, &across, &[("0", 28_000), ("1", 38_000)]);
}

/// A slipped sector moves all later cylinders by one, also on a drive without spares in its cylinders: block 19, the
/// first of cylinder 1, passes from 11 to 12 ms, and from 10 to 11 ms without the slip.
#[test]
fn a_slip_without_spares_moves_later_cylinders() {
    let read_first = |zone: &str, block: u64| {
        let settings = [("Sparing scheme used", "4"), ("Blocks per track", zone)];
        responses(&settings, &[(0.0, read(block, 1))])[0]
    };
    assert_eq!(read_first("10 } ]", 20), 11_010);
    assert_eq!(read_first("10, slips = [ 3 ] } ]", 19), 12_010);
}
