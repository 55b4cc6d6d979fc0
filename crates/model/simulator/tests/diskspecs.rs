//! The reader of DiskSim's drive files, on files of our own.

use std::collections::BTreeMap;
use std::sync::Arc;

use diskwright_simulator::diskspecs::{self, DiskspecsDrive, DiskspecsError};
use diskwright_simulator::drive::{
    DriveReadAhead, Model, PositioningModel, QueuePolicy, SeekCurve, Sparing, TrackOrder,
};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/drives");

fn from_disk(path: &str) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|e| e.to_string())
}

fn fixture() -> DiskspecsDrive {
    let file = format!("{FOLDER}/disk7200.diskspecs");
    let text = from_disk(&file).expect("fixture");
    diskspecs::read_drive(&file, &text, &from_disk).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn a_drive_with_its_model_and_curve() {
    let DiskspecsDrive { spec, notes, has_channel_time: channel_is_told } = fixture();
    assert_eq!((spec.name.as_str(), spec.surfaces, spec.cylinders), ("DISK7200", 5, 5000));
    assert_eq!((spec.zones.len(), spec.sparing, spec.track_order), (10, Sparing::Range(5), TrackOrder::Ascending));
    assert_eq!(
        (spec.positioning_model, spec.queue_policy),
        (PositioningModel::Exact, QueuePolicy::ShortestPositioning)
    );
    assert_eq!((spec.head_switch_ns, spec.write_settle_ns), (1_000_000, 300_000));
    assert_eq!((spec.channel.read_block, channel_is_told), (51_200, true));
    assert_eq!(spec.overheads.read_miss, [400_000, 500_000]);
    assert_eq!((spec.cache.read_ahead, spec.cache.segment_blocks), (DriveReadAhead::Segment, 256));
    assert!(matches!(&spec.seek, SeekCurve::Table(points) if points.len() == 29 && points[1] == (2, 2.269)));
    // the zone's own skew, in sectors of 190
    assert_eq!((spec.zones[0].track_skew * 190.0).round(), 28.0);
    // ten zones of 500 cylinders: each its sectors without 60 spares for five cylinders
    let sectors: u64 = [190, 184, 178, 170, 162, 154, 146, 138, 130, 120].iter().map(|s| s * 5 * 500).sum();
    let model = Model::new(&spec).expect("possible");
    assert_eq!(model.capacity_blocks(), sectors - 1000 * 60 - 1000);
    assert!(notes.iter().any(|n| n.contains("Read completion overhead")), "{notes:?}");
    assert!(notes.iter().any(|n| n.contains("0 blocks are given")), "{notes:?}");
}

/// A drive in one text.
const SMALL: &str = "\
disksim_disk SMALL {
  Model = dm_disk M {
    Number of data surfaces = 2,
    Number of cylinders = 20,
    Layout Model = dm_layout_g1 {
      LBN-to-PBN mapping scheme = 1,
      Sparing scheme used = 1,
      Skew units = revolutions,
      Zones = [ dm_layout_g1_zone { First cylinder number = 0, Last cylinder number = 19,
        Blocks per track = 50, Offset of first block = 0.25, Skew for track switch = 0.1,
        Number of spares = 2, slips = [3], defects = [ 5, 39 ] } ]
    },
    Mechanical Model = dm_mech_g1 {
      Access time type = averageRotation,
      Seek type = linear,
      Single cylinder seek time = 1.0, Average seek time = 5.0, Full strobe seek time = 9.0,
      Head switch time = 0.5,
      Rotation speed (in rpms) = 5400
    }
  },
  Bulk sector transfer time = 0,
  Number of buffer segments = 1,
  Segment size (in blks) = 64
}
";

fn read(text: &str, files: &[(&str, &str)]) -> Result<DiskspecsDrive, DiskspecsError> {
    let files: BTreeMap<String, String> = files.iter().map(|(n, t)| ((*n).to_owned(), (*t).to_owned())).collect();
    diskspecs::read_drive("dir/a.diskspecs", text, &|path: &str| {
        files.get(path).cloned().ok_or_else(|| "no such file".to_owned())
    })
}

#[test]
fn reads_a_single_text_with_times_in_revolutions() {
    let DiskspecsDrive { spec, has_channel_time: channel_is_told, .. } =
        read(SMALL, &[]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((spec.track_order, spec.sparing), (TrackOrder::SerpentineInZone, Sparing::Tracks));
    assert_eq!((spec.zones[0].offset, spec.zones[0].track_skew), (0.25, 0.1));
    assert_eq!((spec.zones[0].slips.as_slice(), spec.zones[0].defects.as_slice()), (&[3][..], &[(5, 39)][..]));
    assert_eq!((spec.positioning_model, channel_is_told), (PositioningModel::HalfTurn, false));
    assert_eq!(spec.seek, SeekCurve::Line { one: 1.0, average: 5.0, full: 9.0 });
    assert_eq!(Model::new(&spec).expect("possible").capacity_blocks(), (40 - 2) * 50);
}

#[test]
fn a_parameter_file_gives_the_bus() {
    let parv = "
disksim_bus BUS0 { type = 1, Read block transfer time = 0.0, Write block transfer time = 0.0 }
disksim_bus BUS1 { type = 1, Read block transfer time = 0.1, Write block transfer time = 0.12 }
source a.diskspecs
instantiate [ bus0 ] as BUS0
instantiate [ bus1 ] as BUS1
instantiate [ d0, d1 ] as SMALL
topology disksim_iodriver driver0 [ disksim_bus bus0 [ disksim_ctlr c0 [ disksim_bus bus1 [ disksim_disk d0 [] ] ] ] ]
";
    let found = read(parv, &[("dir/a.diskspecs", SMALL)]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((found.spec.channel.read_block, found.spec.channel.write_block), (100_000, 120_000));
    assert!(found.has_channel_time);
}

#[test]
fn reads_all_kinds_of_seeks() {
    let with = |seek: &str| {
        let from = SMALL.find("Seek type").expect("there");
        let to = SMALL.find("Head switch").expect("there");
        let text = format!("{}{seek}\n{}", &SMALL[..from], &SMALL[to..]);
        let curve = "Seek distances measured: 2\n1, 1.5\n10, 4.5\n";
        read(&text, &[("dir/s.seek", curve)]).map(|d| Arc::new(d.spec))
    };
    let hpl = "HPL seek equation values = [ 6, 3.0, 0.5, 4.0, 0.1, -1 ],";
    let ten = "First ten seek times = [ 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 ],";
    let cases = [
        ("Seek type = constant, Constant seek time = 3.5,".to_owned(), 4, 3.5),
        ("Seek type = extracted, Full seek curve = s.seek,".to_owned(), 4, 2.5),
        (format!("Seek type = hpl, {hpl}"), 4, 4.0),
        (format!("Seek type = hpl, {hpl}"), 10, 5.0),
        (format!("Seek type = hplplus10, {hpl} {ten}"), 4, 4.0),
        (format!("Seek type = hplplus10, {hpl} {ten}"), 15, 5.5),
    ];
    for (text, distance, ms) in cases {
        let spec = with(&text).unwrap_or_else(|e| panic!("{text}: {e}"));
        let times = spec.seek.build_table(spec.cylinders).expect("possible");
        assert!((f64::from(times[distance]) / 1e6 - ms).abs() < 1e-6, "{text}: {}", times[distance]);
    }
}

/// Replacements in the small drive, the line of the error and a part of its message.
const BROKEN: &[(&str, &str, usize, &str)] = &[
    ("disksim_disk SMALL", "disksim_bus SMALL", 1, "no `disksim_disk"),
    ("Number of data surfaces = 2", "Number of data surfaces = two", 3, "`two`; expected a number"),
    ("Number of data surfaces = 2", "Number of data surfaces = 0", 3, "1 to 1024"),
    ("Number of data surfaces = 2", "Number of data surfaces = 1.5", 3, "a whole number"),
    ("Number of cylinders = 20", "Number of cylinders = 10", 2, "ends at cylinder 19, but the drive has 10"),
    ("Number of cylinders = 20", "Number of cylinders = 18", 2, "ends at cylinder 19, but the drive has 18"),
    ("Number of cylinders = 20", "Number of cilinders = 20", 2, "needs `Number of cylinders`"),
    ("Number of cylinders = 20,", "Number of cylinders = 20, Number of heads = 3,", 4, "not a parameter of `dm_disk`"),
    ("Sparing scheme used = 1", "Sparing scheme used = 11", 7, "0 to 10"),
    ("dm_layout_g1 {", "dm_layout_g9 {", 5, "`dm_layout_g1` or `dm_layout_g2`"),
    ("= revolutions", "= degrees", 8, "`sectors` or `revolutions`"),
    ("Blocks per track = 50", "Blocks per track = 0", 10, "1 to 1000000"),
    ("Number of spares = 2", "Number of spares = 40", 2, "leave none"),
    ("defects = [ 5, 39 ]", "defects = [ 5 ]", 11, "pairs"),
    ("slips = [3]", "slips = 3", 11, "must be a list"),
    ("= averageRotation", "= fast", 14, "trackSwitchPlusRotation"),
    ("= linear", "= cubic", 15, "hplplus10"),
    ("= linear", "= extracted", 15, "needs `Full seek curve`"),
    ("= linear", "= hpl", 15, "six `HPL seek equation values`"),
    ("Average seek time = 5.0,", "", 15, "needs `Average seek time`"),
    ("Head switch time = 0.5", "Head switch time = -0.5", 17, "0 to 100000"),
    ("Bulk sector transfer time = 0,", "", 1, "needs `Bulk sector transfer time`"),
    ("Bulk sector transfer time = 0", "Bulk sector transfer tim = 0", 1, "needs `Bulk sector transfer time`"),
    ("Bulk sector transfer time = 0,", "Bulk sector transfer time = 0, Read hit = 1,", 21, "did you mean `Read hit"),
    ("Bulk sector transfer time = 0,", "Bulk sector transfer time = 0, Print stats = 1, Print stats = 1,", 21, "twice"),
    ("Segment size (in blks) = 64\n}", "Segment size (in blks) = 64", 23, "the file ends"),
    ("Segment size (in blks) = 64", "Segment size (in blks) 64", 24, "expected `=`"),
    ("Model = dm_disk M {", "Model = source nowhere.model, Old = dm_disk M {", 2, "no such file"),
];

#[test]
fn broken_files_name_line_and_remedy() {
    for (from, to, line, part) in BROKEN {
        assert!(SMALL.contains(from), "{from}");
        let text = SMALL.replacen(from, to, 1);
        let error = read(&text, &[]).err().unwrap_or_else(|| panic!("{to}: was read"));
        assert_eq!(error.file, "dir/a.diskspecs", "{to}");
        assert!(error.line == *line && error.message.contains(part), "{to}: {error}");
    }
}

#[test]
fn circular_includes_end() {
    let error = read("source b\n", &[("dir/b", "\nsource b\n")]).expect_err("endless");
    assert!(error.message.contains("too many files"), "{error}");
    let deep = "a { b = [ ".to_owned() + &"[".repeat(10_000);
    assert!(read(&deep, &[]).is_err());
    let blocks = "x = a { ".repeat(10_000);
    assert!(read(&format!("a {{ {blocks}"), &[]).is_err());
    let topology = "topology ".to_owned() + &"a b [ ".repeat(10_000);
    assert!(read(&topology, &[]).is_err());
}

/// DiskSim reads all points of a curve, whatever number the first line announces; 6 cylinders are halfway from 2 to 10.
#[test]
fn a_curve_has_all_its_points() {
    let text = SMALL.replace("Seek type = linear", "Seek type = extracted, Full seek curve = c.seek");
    let curve = "Seek distances measured: 2\n1, 1.0\n2, 2.0, 0.1\n10, 4.0\nend\n";
    let spec = read(&text, &[("dir/c.seek", curve)]).expect("a drive").spec;
    let times = spec.seek.build_table(20).expect("possible");
    assert_eq!((times[2], times[6], times[10]), (2_000_000, 3_000_000, 4_000_000));
}

#[test]
fn bad_curves_name_their_own_file() {
    let curves = [
        ("", 1, "Seek distances measured"),
        ("Seek times: 3\n", 1, "Seek distances measured"),
        ("Seek distances measured: 2\n1, 1.0\n", 1, "announces 2 distances, but 1 follow"),
        ("Seek distances measured: 2\n1, 1.0\n1, 2.0\n", 3, "distances must grow"),
        ("Seek distances measured: 1\none, 1.0\n", 2, "CYLINDERS, MILLISECONDS"),
        ("Seek distances measured: 1\n1, -1.0\n", 2, "CYLINDERS, MILLISECONDS"),
    ];
    let text = SMALL.replace("Seek type = linear", "Seek type = extracted, Full seek curve = c.seek");
    for (curve, line, part) in curves {
        let error = read(&text, &[("dir/c.seek", curve)]).expect_err(curve);
        assert_eq!((error.file.as_str(), error.line), ("dir/c.seek", line), "{error}");
        assert!(error.message.contains(part), "{error}");
    }
}

/// Parameters that change times in a way that the model cannot reproduce are refused by name, unless they have no
/// effect.
#[test]
fn what_is_not_modelled_is_refused_where_it_matters() {
    let base = "Enable caching in buffer = 1, Maximum number of write segments = 1,";
    let with = |more: &str| read(&SMALL.replace("Bulk sector", &format!("{base} {more}, Bulk sector")), &[]);
    let queue = "Max queue length = 4";
    let early = "Fast write level = 2";
    let plain = "Max queue length = 1";
    let cases = [
        ("Preseeking level = 2", queue, plain),
        ("Allow sneaky full read hits = 1", queue, early),
        ("Allow sneaky partial read hits = 1", early, plain),
        ("Allow sneaky intermediate read hits = 1", queue, early),
        ("Allow write prebuffering = 1", queue, early),
        ("Scheduler = disksim_ioqueue { Scheduling policy = 17 }", queue, early),
        ("Scheduler = disksim_ioqueue { Scheduling policy = 1, Sequential stream scheme = 1 }", queue, early),
        ("Scheduler = disksim_ioqueue { Scheduling policy = 1, Scheduling timeout scheme = 1 }", queue, early),
    ];
    for (parameter, refused, taken) in cases {
        let error = with(&format!("{parameter}, {refused}")).expect_err(parameter);
        let key = parameter.trim_end_matches(" }").rsplit("{ Scheduling policy = 1, ").next().unwrap_or(parameter);
        let key = key.trim_start_matches("Scheduler = disksim_ioqueue { ");
        assert!(error.message.contains(key) && error.message.contains("not modeled"), "{parameter}: {error}");
        assert_eq!(error.line, 21, "{error}");
        with(&format!("{parameter}, {taken}")).unwrap_or_else(|e| panic!("{e}"));
    }
    let error = with("Disconnect write if seek = 1").expect_err("refused");
    assert!(error.message.contains("Disconnect write if seek = 1"), "{error}");
    let text = SMALL.replace("= 5400", "= 5400, Percent error in rpms = 1.0");
    assert!(read(&text, &[]).expect_err("refused").message.contains("Percent error in rpms = 1.0"));
}

/// Combinations that DiskSim refuses too.
#[test]
fn what_cannot_be_together_is_refused() {
    let cases = [
        ("Fast write level = 1", "Enable caching in buffer"),
        ("Buffer continuous read = 3", "Enable caching in buffer"),
        ("Read any free blocks = 1", "Enable caching in buffer"),
        ("Enable caching in buffer = 1, Use separate write segment = 1", "two segments"),
        ("Enable caching in buffer = 1, Maximum number of write segments = 2", "number of segments"),
    ];
    for (parameter, why) in cases {
        let text = SMALL.replace("Bulk sector", &format!("{parameter}, Bulk sector"));
        let error = read(&text, &[]).expect_err(parameter);
        assert!(error.message.contains(why), "{parameter}: {error}");
    }
}

/// A last zone that counts its cylinders from 1, as one of DiskSim's own files does.
#[test]
fn a_zone_that_ends_at_the_number_of_cylinders_is_taken_with_a_note() {
    let found = read(&SMALL.replace("Last cylinder number = 19", "Last cylinder number = 20"), &[]).expect("read");
    assert_eq!(found.spec.cylinders, 21);
    assert!(found.notes.iter().any(|n| n.contains("one more")), "{:?}", found.notes);
}
