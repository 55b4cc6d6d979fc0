//! Descriptions of systems: parsing, and messages about wrong ones.

use diskwright_simulator::ArrayLevel;
use diskwright_simulator::Simulation;
use diskwright_simulator::load::{
    AccessPattern, DurationDistribution, LoadSpec, RequestSizes, TargetPart, TraceRequest,
};
use diskwright_simulator::system::read::{DescriptionFiles, Setting, SystemDescription, read, read_with_files};
use diskwright_simulator::system::{RunBy, TransferMode, WorkloadTarget};

/// Other files that the descriptions of these tests may name.
fn file(path: &str) -> Result<String, String> {
    match path {
        "own.toml" => Ok(OWN_CATALOGUE.to_owned()),
        "broken.toml" => Ok("[[drive]]\nid = 5\n".to_owned()),
        _ => Err("no such file".to_owned()),
    }
}

const OWN_CATALOGUE: &str = r#"
[[drive]]
id = "server"
name = "Ten milliseconds"
vendor = "nobody"
year = 2000
class = "plain"
capacity_gb = 1
interface = "none"
source = "made up"
[drive.plain]
servers = 1
service = { constant_us = 10000 }
"#;

fn parse_description(text: &str) -> SystemDescription {
    read("a.toml", text, &[], &file).unwrap_or_else(|problems| panic!("{problems}\n{text}"))
}

/// Returns the problems of a description with these settings.
fn problems_of(text: &str, settings: &[&str]) -> String {
    let settings: Vec<Setting> = settings.iter().map(|s| Setting::parse(s).expect("a setting")).collect();
    match read("a.toml", text, &settings, &file) {
        Ok(_) => String::new(),
        Err(problems) => problems.to_string(),
    }
}

/// A plain drive of 10 GB.
const DISK: &str = "[[drive]]\ncapacity = \"10GB\"\nplain = { servers = 1, service = { constant_us = 5000 } }\n";

#[test]
fn a_drive_and_a_workload_are_a_few_lines() {
    let found = parse_description("[[drive]]\nmodel = \"st32171w\"\n\n[[workload]]\nusers = 4\nsize = \"8KB\"\n");
    assert!(found.notes.is_empty(), "{:?}", found.notes);
    let system = found.system;
    assert_eq!((system.name.as_str(), system.drive_count()), ("a", 1));
    assert_eq!((system.drives[0].name.as_str(), system.workloads[0].name.as_str()), ("disk", "workload"));
    assert_eq!(system.workloads[0].targets, [WorkloadTarget::Drive(0)]);
    let LoadSpec::Closed(load) = &system.workloads[0].load else { panic!("closed") };
    assert_eq!((load.users, load.classes[0].transfers[0].bytes.clone()), (4, RequestSizes::One(8192)));
}

/// A description with every key of the path, arrays and closed loads.
const FULL_DESCRIPTION: &str = r#"
[system]
name = "file server"
about = "what a whole description looks like"
catalogue = "own.toml"

[watch]
seed = 7
warm_up = "1s"
duration = "30s"
interval = "500ms"

[host]
processors = 2
request = "100us"
interrupt = "20us"
copy = "10ns/B"
xor = "200MB/s"
galois = "50MB/s"
other_interrupts = "100/s"
largest = "64KB"
memory_rate = "540MB/s"
[host.cache]
size = "16MB"
write = "back"
read_ahead = "64KB"

[[bus]]
name = "pci"
rate = "133MB/s"
overhead = "1us"

[[controller]]
name = "raid"
command = "0.3ms"
member_command = "0.1ms"
rate = "40MB/s"
xor = "100MB/s"
outstanding = 64
[controller.cache]
size = "4MB"
write = "through"
read_ahead = "none"

[[controller]]
name = "ide"
bus = "none"
transfer = "pio"
interrupt_each = "512B"
byte = "250ns/B"

[[channel]]
name = "scsi"
controller = "raid"
rate = "20MB/s"
overhead = "0.2ms"

[[channel]]
name = "cable"
controller = "ide"
disconnects = false

[[drive]]
name = "data"
count = 5
model = "server"
channel = "scsi"
depth = 8

[[drive]]
name = "boot"
channel = "cable"
capacity = "1GB"
plain = { servers = 1, service = { exponential_us = 10000 } }

[[array]]
name = "set"
level = 5
drives = ["data0-3"]
spares = ["data4"]
failed = ["data1"]
stripe_unit = "32KB"
run_by = "raid"
write_by = "read-modify-write"
rebuild = { step = "64KB", rate = "5MB/s" }
layout = "left_asymmetric"
member_space = "100MB"

[[workload]]
name = "users"
on = ["set", "boot"]
users = 20
think = { exponential = "7s" }
[[workload.class]]
name = "copy"
weight = 3
[[workload.class.transfer]]
on = "set"
size = [["4KB", 0.7], ["64KB", 0.3]]
read_share = "70%"
total = "4MB"
access = "sequential"
[[workload.class.transfer]]
on = "boot"
area = { from = "10%", to = "20%" }
zipf = 0.9
cached = false
[[workload.phase]]
lasts = "5s"
from = 0
to = 1
[[workload.phase]]
lasts = "for ever"

[[workload]]
name = "stream"
on = "boot"
rate = "50/s"
arrivals = "steady"
size = { from = "4KB", to = "8KB" }
area = "60MB"
around = { mean = 0.5, deviation = 0.1 }
"#;

#[test]
fn every_part_is_read() {
    let found = parse_description(FULL_DESCRIPTION);
    assert!(found.notes.is_empty(), "{:?}", found.notes);
    let system = found.system;
    assert_eq!((system.watch.seed, system.watch.interval, system.host.xor_byte_ps), (7, 500_000_000, 5000));
    assert_eq!((system.controllers[0].bus, system.controllers[1].bus), (Some(0), None));
    assert_eq!(system.controllers[1].transfer, TransferMode::Pio { interrupt_blocks: 1, byte_ps: 250_000 });
    assert!(system.controllers[0].cache.is_some() && system.host.cache.is_some());
    assert_eq!((system.channels[0].disconnects, system.channels[1].disconnects), (true, false));
    assert_eq!((system.drives[0].channel, system.drives[1].channel), (Some(0), Some(1)));
    let set = &system.arrays[0];
    assert_eq!((set.level, set.unit_blocks, set.run_by), (ArrayLevel::Raid5, 64, RunBy::Controller(0)));
    assert_eq!((set.members.as_slice(), set.spares.as_slice()), ([0, 1, 2, 3].as_slice(), [4].as_slice()));
    assert_eq!((set.failed.as_slice(), set.rebuild.map(|r| r.step_blocks)), ([1].as_slice(), Some(128)));
    assert_eq!(system.workloads[0].targets, [WorkloadTarget::Array(0), WorkloadTarget::Drive(5)]);
    let LoadSpec::Closed(users) = &system.workloads[0].load else { panic!("closed") };
    assert_eq!(users.think, DurationDistribution::Exponential { mean_s: 7.0 });
    assert_eq!((users.phases.len(), users.phases[1].lasts), (2, u64::MAX));
    let [first, second] = users.classes[0].transfers.as_slice() else { panic!("two transfers") };
    assert_eq!((first.target, first.read_share, first.cached), (0, 0.7, true));
    assert_eq!(first.bytes, RequestSizes::Weighted(vec![(4096, 0.7), (65_536, 0.3)]));
    assert_eq!((second.target, second.part, second.cached), (1, TargetPart::Share { from: 0.1, to: 0.2 }, false));
    let LoadSpec::Open(stream) = &system.workloads[1].load else { panic!("open") };
    assert_eq!(stream.gap, DurationDistribution::Constant { s: 0.02 });
    assert_eq!(stream.classes[0].transfers[0].access, AccessPattern::Normal { mean: 0.5, deviation: 0.1 });
}

#[test]
fn a_short_run_is_one_sample() {
    let watch = |lines: &str| parse_description(&format!("{DISK}[watch]\n{lines}\n")).system.watch;
    assert_eq!(watch("duration = \"200ms\"").interval, 200_000_000);
    assert_eq!(watch("duration = \"5s\"").interval, 1_000_000_000);
    assert_eq!(watch("duration = \"5s\"\ninterval = \"2s\"").interval, 2_000_000_000);
}

#[test]
fn settings_replace_values() {
    let settings = ["workload.users=16", "watch.duration=5s", "disk.count=3", "host.cache.size=8MB"];
    let settings: Vec<Setting> = settings.iter().map(|s| Setting::parse(s).unwrap()).collect();
    let text = format!("{DISK}[[workload]]\non = \"disk\"\nusers = 1\n");
    assert!(read("a.toml", &text, &settings, &file).unwrap_err().to_string().contains("unknown part `disk`"));
    let text = text.replace("[[drive]]", "[[drive]]\nname = \"disk\"");
    let system = read("a.toml", &text, &settings, &file).unwrap().system;
    assert_eq!((system.drive_count(), system.workloads[0].targets.len()), (3, 3));
    assert_eq!((system.watch.duration, system.host.cache.map(|c| c.bytes)), (5_000_000_000, Some(8 << 20)));
    let LoadSpec::Closed(load) = &system.workloads[0].load else { panic!("closed") };
    assert_eq!(load.users, 16);
    assert!(problems_of(&text, &["users=3"]).contains("setting users=3: a setting needs a part and a key"));
    assert!(problems_of(&text, &["workloads.users=3"]).contains("unknown part `workloads`; known are"));
    assert!(problems_of(&text, &["workload.usrs=3"]).contains("unknown key `usrs`; did you mean `users`?"));
    assert!(problems_of(&text, &["workload.users=many"]).contains("`users` must be a whole number, not a string"));
    assert_eq!(Setting::parse("users"), None);
}

#[test]
fn all_targets_are_used() {
    let two = "[[drive]]\nname = \"disk\"\ncount = 2\nplain = { servers = 1, service = { constant_us = 5000 } }\n\
               capacity = \"1GB\"\n[watch]\nduration = \"20s\"\n[[workload]]\non = \"disk\"\n";
    for load in ["users = 2", "users = 2\noutstanding = 4\naccess = \"sequential\"", "rate = \"100/s\""] {
        let system = parse_description(&format!("{two}{load}\n")).system;
        let report = Simulation::new(&system).expect("possible").run(|_| {});
        let drives = report.components.iter().filter(|part| part.name.starts_with("disk"));
        let rates: Vec<f64> = drives.map(|part| part.totals.throughput_per_s()).collect();
        assert!(rates.len() == 2 && rates.iter().all(|rate| *rate > 40.0), "{load}: {rates:?}");
    }
    for rest in ["[[workload.class]]\non = \"disk0\"", "kind = \"netbench\"", "kind = \"oltp\"", "kind = \"sort\""] {
        let problems = problems_of(&format!("{two}{rest}\n"), &[]);
        assert!(problems.contains("no part of this workload uses `disk1`"), "{rest}: {problems}");
    }
    let both = "[[workload.class]]\non = \"disk0\"\n[[workload.class]]\non = \"disk1\"\n";
    assert_eq!(problems_of(&format!("{two}{both}"), &[]), "");
}

#[test]
fn workloads_of_the_documents_are_read() {
    let cases = [
        ("kind = \"netbench\"\nusers = 8\nworkspace = \"15MB\"\noplocks = true", ""),
        ("kind = \"scan\"\nquery = \"64MB\"\ndegree = 2\nahead = 4\narea = \"20%\"", ""),
        ("kind = \"oltp\"\ndata = { area = \"50%\" }\nlog = { on = \"disk\", area = { from = \"60%\" } }", ""),
        ("kind = \"oltp\"\ncheckpoint = \"never\"\nzipf = 0.8", ""),
        ("kind = \"sort\"\ndata = \"20MB\"\nmemory = \"2MB\"\nwork = { area = { from = \"50%\" } }", ""),
        ("kind = \"trace\"\nfile = \"day.csv\"\ntiming = \"closed\"\ndepth = 2", ""),
        ("kind = \"netbench\"\nclients = 8", "unknown key `clients`"),
        ("kind = \"netbench\"\nusers = 8\nworkspace = \"9GB\"", "8 workspaces need 150995008 blocks"),
        ("kind = \"scan\"\nextent = 64", "`extent` is 64 without a unit; expected a size"),
        ("kind = \"oltp\"\nlog = { on = \"log\" }", "`log` is not a target of the workload, on = [\"disk\"]"),
        ("kind = \"sort\"\ndata = \"20GB\"", "`input`: 39062500 blocks are needed"),
        ("kind = \"trace\"", "`file` is missing; example: file = \"day.csv\""),
        ("kind = \"trace\"\nfile = \"none.csv\"", "`none.csv`: no such file"),
        ("kind = \"trace\"\nfile = \"day.csv\"\ndepth = 2", "`depth` applies only to closed timing"),
    ];
    let trace = |path: &str| match path {
        "day.csv" => {
            let one = TraceRequest { arrival_ns: 5, pause_ns: 1, first_block: 8, blocks: 8, target: 0, write: false };
            Ok((vec![one], 0, vec!["3 lines cannot be read".to_owned()]))
        }
        _ => Err("no such file".to_owned()),
    };
    for (rest, expected) in cases {
        let text = format!("{DISK}[[workload]]\n{rest}\n");
        let files = DescriptionFiles { text: &file, trace: &trace };
        match read_with_files("a.toml", &text, &[], &files) {
            Ok(found) => {
                assert_eq!(expected, "", "{rest}");
                let is_noted = found.notes.iter().any(|note| note.to_string().contains("3 lines cannot be read"));
                assert_eq!(is_noted, rest.contains("day.csv"), "{rest}");
            }
            Err(problems) => {
                let is_noted = problems.to_string();
                assert!(!expected.is_empty() && is_noted.contains(expected), "{rest}\n---\n{is_noted}");
            }
        }
    }
}

/// Checks that a description around [`DISK_COUNTERS`] with a single mistake gives the expected message.
fn assert_one_mistake(rest: &str, expected: &str) {
    let text = format!("{DISK}{rest}\n[[workload]]\n");
    let problems = problems_of(&text, &[]);
    assert!(problems.starts_with("a.toml:") && problems.contains(expected), "{text}\n---\n{problems}");
    assert_eq!(problems.lines().count(), 1, "{text}\n---\n{problems}");
}

#[test]
fn wrong_path_parts_are_reported() {
    let cases = [
        ("[wacth]", "a.toml:4: unknown key `wacth`; did you mean `watch`?"),
        ("[watch]\nduration = 60", "a.toml:5: [watch]: `duration` is 60 without a unit; expected a time"),
        ("[watch]\nduration = \"60\"", "`duration` is `60` without a unit"),
        ("[watch]\nduration = \"1s\"\ninterval = \"5s\"", "`interval` is longer than `duration`"),
        ("[watch]\nseed = -1", "`seed` is -1; expected a whole number from 0"),
        ("[host]\nprocesors = 2", "unknown key `procesors`; did you mean `processors`?"),
        ("[host]\nprocessors = 0", "`processors` is 0; expected a whole number from 1"),
        ("[host]\ncopy = \"5ns\"", "`copy` is `5ns` with the unknown unit `ns`"),
        ("[host]\nlargest = \"1000B\"", "not a multiple of 512 bytes; the nearest is \"1024B\""),
        ("[host]\ncache = 5", "[host], cache: expected a table, found an integer"),
        ("[host.cache]", "[host], cache: `size` is missing; example: size = \"64MB\""),
        ("[host.cache]\nsize = \"64MB\"\nwrite = \"thru\"", "`write` cannot be `thru`; expected back, through"),
        ("[host.cache]\nsize = \"64MB\"\nwrite = \"through\"\nflush_at = 0.1", "`flush_at` applies only to write-back"),
        (
            "[host.cache]\nsize = \"64MB\"\nread_ahead = \"none\"\nread_ahead_from = \"8KB\"",
            "`read_ahead_from` has no effect with read_ahead = \"none\"",
        ),
        ("[host.cache]\nsize = \"1KB\"", "1024 bytes are less than four pages"),
        ("[host.cache]\nsize = \"64MB\"\nstreams = 5000", "`streams` is 5000; expected a whole number from 1"),
        ("[bus]\nrate = \"5MB/s\"", "`bus` is a table; write it as [[bus]]"),
        ("[[bus]]\nname = \"pci\"", "bus `pci`: `rate` is missing; example: rate = \"133MB/s\""),
        ("[[bus]]\nrate = \"133Mb/s\"", "unknown unit `Mb/s` (known are b/s"),
        ("[[bus]]\nname = \"none\"\nrate = \"1MB/s\"", "`none` is a reserved word"),
        ("[[controller]]\nbus = \"pci\"", "unknown bus `pci`; there are none"),
        ("[[controller]]\ntransfer = \"pio\"", "`byte` is missing; example: byte = \"250ns/B\""),
        ("[[controller]]\nbyte = \"1ns/B\"", "applies only to transfer = \"pio\""),
        (
            "[[controller]]\nname = \"a\"\n[[controller]]\nname = \"a\"",
            "a.toml:7: controller `a`: the name `a` is already used",
        ),
        (
            "[[controller]]\nname = \"raid\"\n[[channel]]\ncontroller = \"riad\"",
            "unknown controller `riad`; known are raid; did you",
        ),
    ];
    for (rest, expected) in cases {
        assert_one_mistake(rest, expected);
    }
}

#[test]
fn wrong_arrays_are_reported() {
    let many = "[[drive]]\nname = \"d\"\ncount = 4\nmodel = \"st32171w\"\n";
    let cases = [
        ("level = \"raid5\"\ndrives = [\"d0\", \"d1\"]", "raid5 needs at least 3 members, but has 2"),
        ("level = \"raid9\"\ndrives = \"d\"", "unknown level `raid9`; known are"),
        ("drives = \"d\"", "`level` is missing; example: level = \"raid5\""),
        ("level = 5", "`disk` is a member of `array`; use on = \"array\""),
        ("level = 0\ndrives = \"e\"", "unknown drive `e`"),
        ("level = 0\ndrives = [\"d2-4\"]", "`d2-4`: the drives of `d` are numbered 0 to 3"),
        ("level = 0\ndrives = [\"d\", \"d1\"]", "`d1` is listed twice as a member"),
        ("level = 0\ndrives = \"d\"\nspares = \"d1\"", "`d1` is both a member and a spare"),
        ("level = 5\ndrives = \"d\"\nfailed = [4]", "`failed` is 4; expected a whole number from 0 to 3"),
        ("level = 5\ndrives = \"d0-2\"\nfailed = \"d3\"", "`d3` has failed but is not a member of this array"),
        ("level = 5\ndrives = \"d\"\nfailed = [0]\nrebuild = true", "a rebuild needs a spare drive"),
        ("level = 5\ndrives = \"d\"\nstripe_unit = 64", "`stripe_unit` is 64 without a unit; expected a size"),
        ("level = 5\ndrives = \"d\"\nstripe_unit = \"3GB\"", "expected one block to 1073741824 bytes"),
        ("level = 5\ndrives = \"d\"\nlayout = \"near\"", "raid5 has no layout near; it has left_symmetric"),
        ("level = 5\ndrives = \"d\"\nlayout = \"left\"", "unknown layout `left`; known are left_symmetric"),
        ("level = 10\ndrives = \"d\"\ncopies = 9", "raid10 of 4 members keeps 2 to 4 copies, not 9"),
        ("level = 5\ndrives = \"d\"\nrun_by = \"raid\"", "unknown controller `raid`; there are none; \"host\""),
        ("level = 5\ndrives = \"d\"\nmember_space = \"1TB\"", "but the smallest member holds"),
        ("level = 5\ndrives = \"d\"\nname = \"d\"", "the name `d` is already used"),
        ("level = 5\ndrives = \"d\"\nname = \"d1\"", "the name `d1` is already used"),
        (
            "level = 5\ndrives = \"d\"\nrebuild = { step = \"1MB\", dpeth = 2 }",
            "unknown key `dpeth`; did you mean `depth`?",
        ),
        (
            "level = 5\ndrives = \"d\"\n[[array]]\nlevel = 0\ndrives = [\"d1\", \"disk\"]",
            "`d1` already belongs to `array`",
        ),
    ];
    for (rest, expected) in cases {
        let text = format!("{many}{DISK}[[array]]\n{rest}\n[[workload]]\non = \"disk\"\n");
        let problems = problems_of(&text.replace("[[drive]]\ncapacity", "[[drive]]\nname = \"disk\"\ncapacity"), &[]);
        assert!(problems.contains(expected), "{rest}\n---\n{problems}");
    }
}

#[test]
fn wrong_drives_and_workloads_are_reported() {
    let cases = [
        ("[[drive]]\nmodel = \"st32171\"\n[[workload]]", "the catalogue has no drive `st32171`; did you mean"),
        ("[[drive]]\nmodel = \"zzzzzzzzzzz\"\n[[workload]]", "`list drives` shows all"),
        ("[[drive]]\n[[workload]]", "drive 1: the device is missing; give model = "),
        ("[[drive]]\nmodel = \"st32171w\"\nfile = \"x\"\n[[workload]]", "`model` already describes the device"),
        ("[[drive]]\nfile = \"x.diskspecs\"\n[[workload]]", "`x.diskspecs`: no such file"),
        ("[[drive]]\nplain = { servers = 1 }\n[[workload]]", "a.toml:2: drive 1, plain: `service` is missing"),
        ("[[drive]]\nplain = { servers = 0, service = { constant_us = 1 } }\n[[workload]]", "servers: 0; expected 1"),
        ("[[drive]]\nmodel = \"st32171w\"\ncapacity = \"9GB\"\n[[workload]]", "has its own capacity; remove"),
        ("[[drive]]\nmodel = \"st32171w\"\ncount = 5000\n[[workload]]", "`count` is 5000; expected a whole number"),
        (
            "[[drive]]\nmodel = \"st32171w\"\norder = \"sptf\"\n[[workload]]",
            "`order` cannot be `sptf`; expected first-come",
        ),
        ("[[drive]]\nmodel = \"st32171w\"\nchannel = \"x\"\n[[workload]]", "unknown channel `x`; there are none"),
        ("[system]\ncatalogue = \"broken.toml\"\n[[workload]]", "[system]: broken.toml:2: drive 1: `id`: invalid type"),
        ("[[workload]]", "there is no drive; add a [[drive]]"),
        ("[[drive]]\nmodel = \"st32171w\"\ncount = 2\n[[workload]]", "`on` is missing; choose one of"),
    ];
    for (text, expected) in cases {
        let problems = problems_of(text, &[]);
        assert!(problems.contains(expected), "{text}\n---\n{problems}");
    }
    let workloads = [
        ("users = 0", "`users` is 0; expected a whole number from 1"),
        ("kind = \"opn\"", "; did you mean `open`?"),
        ("kind = \"open\"", "`rate` is missing; example: rate = \"100/s\""),
        ("rate = 100", "`rate` is 100 without a unit; expected a rate per second, such as rate = \"3000/s\""),
        ("rate = \"0/s\"", "`rate` is zero"),
        ("rate = \"5/s\"\nusers = 3", "`users` belongs to closed arrivals"),
        ("users = 3\narrivals = \"steady\"", "`arrivals` belongs to open arrivals"),
        ("think = 7", "`think` is 7 without a unit; expected a time"),
        ("think = { exponental = \"7s\" }", "unknown key `exponental`; did you mean `exponential`?"),
        ("think = { uniform = [\"3s\", \"1s\"] }", "the smaller first"),
        ("think = { exponential = \"7s\", cv2 = 4 }", "`cv2` belongs to `hyper`"),
        ("size = \"64K\"\nread_share = 70", "`read_share` is 70; expected a share from 0 to 1, such as 0.3 or \"30%\""),
        ("size = \"100B\"", "not a multiple of 512 bytes; the nearest is \"512B\""),
        ("size = [\"4KB\"]", "`size` as a list needs sizes with weights"),
        ("size = { from = \"8KB\", to = \"4KB\" }", "`size`: the smaller size comes first"),
        ("area = \"11GB\"", "`area`: 21484375 blocks from block 0 do not fit in a target of 19531250"),
        ("area = { from = \"20%\", to = \"10%\" }", "0.2 to 0.1 is not an area"),
        ("access = \"sequental\"", "; did you mean `sequential`?"),
        ("access = \"sequential\"\nzipf = 1", "`zipf` applies only to random access"),
        ("on = \"dsk\"", "unknown array or drive `dsk`; known are disk; did you mean `disk`?"),
        ("size = \"4KB\"\n[[workload.class]]", "with [[workload.class]], `size` belongs to each class"),
        ("[[workload.class]]\non = \"x\"", "`x` is not a target of the workload, on = [\"disk\"]"),
        ("[[workload.class]]\nweight = 0", "weights must be at least 0, and their sum greater than 0"),
        ("[[workload.phase]]\nlevel = 1", "`lasts` is missing; example: lasts = \"10s\""),
        ("[[workload.phase]]\nlasts = \"1s\"\nweights = [1, 2]", "`weights` must be a list of 1 numbers"),
    ];
    for (rest, expected) in workloads {
        let problems = problems_of(&format!("{DISK}[[workload]]\n{rest}\n"), &[]);
        assert!(problems.contains(expected), "{rest}\n---\n{problems}");
    }
}

#[test]
fn all_mistakes_of_a_file_are_reported_at_once() {
    let text = "[watch]\nseed = 1.5\n[[drive]]\nmodel = \"x\"\n[[workload]]\nusers = 0\ntihnk = \"1s\"\n";
    let problems = problems_of(text, &[]);
    let lines: Vec<&str> = problems.lines().map(|line| line.split(": ").next().unwrap()).collect();
    assert_eq!(lines, ["a.toml:2", "a.toml:4", "a.toml:6", "a.toml:7"], "{problems}");
}

#[test]
fn every_drive_has_a_name_of_its_own() {
    let group = |name: &str, count: u32| format!("[[drive]]\n{name}\ncount = {count}\nmodel = \"st32171w\"\n");
    let groups = |first: (&str, u32), second: (&str, u32), on: &str| {
        format!("{}{}[[workload]]\non = \"{on}\"\n", group(first.0, first.1), group(second.0, second.1))
    };
    let (d, d1, d2) = ("name = \"d\"", "name = \"d1\"", "name = \"d2\"");
    let cases =
        [(("", 3), ("", 1), "disk2"), ((d, 13), (d1, 3), "d1"), ((d2, 1), (d, 3), "d2"), ((d1, 3), (d, 12), "d1")];
    for (first, second, same) in cases {
        let problems = problems_of(&groups(first, second, same), &[]);
        assert!(
            problems.contains(&format!("the name `{same}` is already used")),
            "{first:?} {second:?}\n---\n{problems}"
        );
    }
    // two groups without names are valid if the first has no third drive
    parse_description(&groups(("", 2), ("", 2), "disk1"));
    let found = parse_description(&groups((d, 1), (d1, 3), "d12"));
    assert_eq!(found.system.workloads[0].targets, [WorkloadTarget::Drive(3)]);
}

#[test]
fn suspicious_settings_are_noted() {
    let two = "[[drive]]\nname = \"a\"\ncount = 2\nmodel = \"st32171w\"\n[[drive]]\nname = \"b\"\n";
    let two = format!("{two}capacity = \"1GB\"\nplain = {{ servers = 1, service = {{ constant_us = 1 }} }}\n");
    let cases = [
        ("level = 5", "a.toml:9: array 1: members hold 1 GB to"),
        ("level = 0\ndrives = \"a\"\nfailed = [0]", "raid0 has no redundancy"),
        ("level = 1\ndrives = \"a\"\nrebuild = true", "no member has failed, so there is nothing to rebuild"),
        ("level = 1\ndrives = \"a\"\nfailed = [0]\nspares = \"b\"", "the spare is idle without a rebuild"),
        (
            "level = 0\ndrives = \"a\"\nfailed = [0]\nspares = \"b\"\nrebuild = true",
            "too many members have failed: there is nothing to rebuild them from",
        ),
    ];
    for (rest, expected) in cases {
        let found = parse_description(&format!("{two}[[array]]\n{rest}\n[[workload]]\n"));
        let notes: Vec<String> = found.notes.iter().map(ToString::to_string).collect();
        assert!(notes.iter().any(|note| note.contains(expected)), "{rest}: {notes:?}");
    }
}

#[test]
fn a_controllers_cache_is_not_a_file_cache() {
    use diskwright_simulator::cache::{WriteBackPolicy, WritePolicy};
    let text = "[host.cache]\nsize = \"1MB\"\n[[controller]]\nname = \"raid\"\n[controller.cache]\nsize = \"1MB\"\n\
                [[drive]]\nname = \"d\"\nmodel = \"st32171w\"\n[[workload]]\nname = \"w\"\n";
    let system = parse_description(text).system;
    let write = |cache: &Option<diskwright_simulator::cache::BlockCacheSpec>| cache.as_ref().map(|cache| cache.write);
    assert_eq!(write(&system.host.cache), Some(WritePolicy::Back(WriteBackPolicy::default())));
    assert_eq!(write(&system.controllers[0].cache), Some(WritePolicy::Back(WriteBackPolicy::battery_backed())));
}

const SET: &str = "[[drive]]\ncount = 4\nplain = { servers = 1, service = { constant_us = 500 } }\ncapacity = \"1GB\"\n\
[[array]]\nlevel = 5\ndrives = \"disk0-2\"\nspares = \"disk3\"\nrebuild = true\n[[workload]]\n";

#[test]
fn events_are_read() {
    use diskwright_simulator::system::{ScheduledChange, SystemChange};
    let text = format!(
        "{SET}[[event]]\nat = \"30s\"\nhang = [\"disk1\", \"disk3\"]\n[[event]]\nat = \"10s\"\nfail = \"disk2\"\n\
         [[event]]\nat = \"40s\"\nrelease = \"disk1\"\n\
         [[event]]\nat = \"20s\"\nslow = {{ drive = \"disk0\", factor = 2.5 }}\n\
         [[event]]\nat = \"50s\"\nreplace = \"disk2\"\nrebuild = {{ depth = 2 }}\n"
    );
    let found = parse_description(&text);
    assert!(found.notes.is_empty(), "{:?}", found.notes);
    let background = diskwright_simulator::system::BackgroundWork { depth: 2, ..Default::default() };
    let expected = [
        (10, SystemChange::Fail { array: 0, member: 2 }),
        (20, SystemChange::Slow { drive: 0, factor: 2.5 }),
        (30, SystemChange::Hang { drive: 1, on: true }),
        (30, SystemChange::Hang { drive: 3, on: true }),
        (40, SystemChange::Hang { drive: 1, on: false }),
        (50, SystemChange::Replace { array: 0, member: 2, settings: Some(background) }),
    ];
    assert_eq!(found.system.events, expected.map(|(s, change)| ScheduledChange { time_ns: s * 1_000_000_000, change }));
    let late = format!("{SET}[[event]]\nat = \"2h\"\nhang = \"disk\"\n");
    let found = parse_description(&late);
    assert_eq!(found.system.events.len(), 4, "a group is all of its drives");
    assert!(found.notes.iter().any(|note| note.to_string().contains("after the end of the run")));
}

#[test]
fn impossible_events_are_reported() {
    for (event, expected) in [
        ("hang = \"disk0\"", "`at` is missing"),
        ("at = 30\nhang = \"disk0\"", "`at`"),
        ("at = \"1s\"", "the event does nothing; give one of fail, replace, slow, hang, release"),
        ("at = \"1s\"\nfail = \"disk0\"\nhang = \"disk1\"", "two actions"),
        ("at = \"1s\"\nfail = \"disk7\"", "numbered 0 to 3"),
        ("at = \"1s\"\nfail = \"disc0\"", "unknown drive `disc0`"),
        ("at = \"1s\"\nfail = \"disk3\"", "`disk3` is not a member of an array"),
        ("at = \"1s\"\nfail = 3", "a string"),
        ("at = \"1s\"\nfail = \"disk0\"\nrebuild = true", "applies only to `replace`"),
        ("at = \"1s\"\nslow = \"disk0\"", "expected a table"),
        ("at = \"1s\"\nslow = { drive = \"disk0\" }", "`factor` is missing"),
        ("at = \"1s\"\nslow = { factor = 2 }", "`drive` is missing"),
        ("at = \"1s\"\nslow = { drive = \"disk0\", factor = 0 }", "`factor`"),
        ("at = \"1s\"\nslow = { drive = \"disk0\", factor = 2, for = \"1s\" }", "unknown key `for`"),
        ("at = \"1s\"\nfails = \"disk0\"", "unknown key `fails`; did you mean `fail`?"),
    ] {
        let problems = problems_of(&format!("{SET}[[event]]\n{event}\n"), &[]);
        assert!(problems.contains(expected), "{event}\n---\n{problems}");
    }
}
