//! The fuzz targets on mutated seeds, without a fuzzer: short, seeded, and the same on every machine.
//! `cargo fuzz run TARGET` searches further.

#[path = "../fuzz/targets.rs"]
mod targets;

#[path = "../crates/observe/logs/tests/blg_encoder/mod.rs"]
mod blg_encoder;

use std::fs;
use std::process::Command;

use crate::sweep::sweep;

/// Mutations of each seed in a full sweep, and in a sample of it; `DISKWRIGHT_FUZZ_ROUNDS` sets another number.
const MUTATION_ROUNDS: (usize, usize) = (400, 20);

/// Marsaglia's xorshift generator: the round number of a failure is enough to repeat it.
struct Rng(u64);

impl Rng {
    /// Next number below `limit`; 0 for a limit of 0.
    fn next_below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit.max(1) as u64) as usize
    }
}

/// The seed with one to four random changes: cuts, flipped bits, inserted bytes, removed ranges, a huge number.
fn mutate(seed: &[u8], round: u64) -> Vec<u8> {
    let mut rng = Rng(round.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut data = seed.to_vec();
    for _ in 0..=rng.next_below(4) {
        let position = rng.next_below(data.len());
        match rng.next_below(5) {
            0 => data.truncate(position),
            1 if position < data.len() => data[position] ^= 1 << rng.next_below(8),
            2 => data.insert(position, b"\0\xff9-\"[\n"[rng.next_below(7)]),
            3 if position < data.len() => drop(data.drain(position..(position + rng.next_below(30)).min(data.len()))),
            _ => data.splice(position..position, b"18446744073709551616".iter().copied()).for_each(drop),
        }
    }
    data
}

/// Feeds a target its seeds and mutations of them; a panic fails with the seed and the round.
fn run_target(target: fn(&[u8]), seeds: &[Vec<u8>]) {
    assert!(!seeds.is_empty(), "no seed");
    let requested = std::env::var("DISKWRIGHT_FUZZ_ROUNDS").ok().and_then(|n| n.parse().ok());
    let rounds: Vec<usize> =
        requested.map_or_else(|| sweep(MUTATION_ROUNDS.0, MUTATION_ROUNDS.1), |rounds| (0..rounds).collect());
    for (number, seed) in seeds.iter().enumerate() {
        target(seed);
        for &round in &rounds {
            let data = mutate(seed, round as u64);
            let caught = std::panic::catch_unwind(|| target(&data));
            assert!(caught.is_ok(), "seed {number}, round {round}: {:?}", String::from_utf8_lossy(&data));
        }
    }
}

#[test]
fn proc_parsers_take_anything() {
    let files = ["diskstats", "stat", "meminfo", "vmstat", "loadavg", "swaps", "self/mountinfo", "self/stat"];
    let more = ["self/io", "self/cgroup", "self/status", "interrupts", "softirqs", "net/dev", "pressure/io"];
    let read = |f: &&str| fs::read(format!("/proc/{f}")).ok();
    let seeds: Vec<Vec<u8>> = files.iter().chain(&more).filter_map(read).collect();
    run_target(targets::parse_kernel_files, &seeds);
}

#[test]
fn attach_parsers_take_anything() {
    let uris = ["nbd+unix:///a%20b?socket=/run/x%2f", "nbd://[::1]:10809/name"].map(|uri| uri.as_bytes().to_vec());
    // an attribute, and its acknowledgement
    let head = |length: u32, kind: u16| [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &[0; 10]].concat();
    let answer = [&[1][..], &head(28, 30), &[1, 1, 0, 0, 8, 0, 1, 0, 5, 0, 0, 0], &head(36, 2), &[0; 20]].concat();
    run_target(targets::parse_attach_input, &[&uris[..], &[answer]].concat());
}

#[test]
fn rule_loader_takes_anything() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/rules");
    let texts = fs::read_dir(folder).expect("rules").map(|e| fs::read(e.expect("entry").path()).expect("readable"));
    // the first rules of each pack are enough: the loader works rule by rule
    let seeds: Vec<Vec<u8>> = texts.map(|t| t[..t.len().min(3000)].to_vec()).collect();
    run_target(targets::load_rules, &seeds);
}

#[test]
fn experiments_take_anything() {
    let seed = r#"
doc = "009"
title = "Made up"
[runs]
one = { system = "small", set = { "disk.count" = 2 } }
[[fit]]
name = "rate"
value = 3.0
range = [1.0, 50.0]
rows = ["A"]
keys = ["small:host.rate"]
because = "a test"
[[row]]
id = "A"
what = "one"
published = 20.0
unit = "/s"
use = "fit"
baseline = { value = 100.0, because = "ideal" }
measure = "max(one:rate, 2) * (1 - plateau(0.1, 2, one:a.b, 4, 7))"
holds = ["one:rate > -3"]
"#;
    run_target(targets::read_experiments, &[seed.as_bytes().to_vec()]);
}

#[test]
fn trace_pages_take_anything() {
    let fixture = |name: &str| {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/observe/blocktrace/tests/fixtures/");
        fs::read(format!("{folder}{name}")).expect("a fixture")
    };
    run_target(targets::decode_trace_pages, &["6.1/cpu0", "6.1-dm/cpu0", "6.1/header_page"].map(fixture));
}

#[test]
fn request_traces_take_anything() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/observe/traces/tests/fixtures");
    let files = fs::read_dir(folder).expect("fixtures").map(|e| fs::read(e.expect("entry").path()).expect("readable"));
    // 40 whole records of 48 bytes of binary traces, and enough lines of text
    let seeds: Vec<Vec<u8>> = files.map(|f| f[..f.len().min(48 * 40)].to_vec()).collect();
    run_target(targets::read_request_traces, &seeds);
}

#[test]
fn probe_profiles_take_anything() {
    let figure = diskwright_probe::profile::ProfileFigure {
        figure: "reads_per_s".into(),
        value: 1000.0,
        unit: "per_s".into(),
        at_least: vec!["measured through a file".into()],
        ..Default::default()
    };
    let profile = diskwright_probe::Profile {
        schema: diskwright_probe::profile::SCHEMA.into(),
        key: "serial:M:X".into(),
        figures: vec![figure],
        ..Default::default()
    };
    run_target(targets::parse_probe_profile, &[serde_json::to_vec(&profile).expect("JSON"), b"{}".to_vec()]);
}

#[test]
fn probe_results_take_anything() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/measure/results/tests/fixtures");
    let files = fs::read_dir(folder).expect("fixtures").map(|e| fs::read(e.expect("entry").path()).expect("readable"));
    run_target(targets::render_probe_result, &files.collect::<Vec<_>>());
}

#[test]
fn figures_beside_logs_take_anything() {
    let document = br#"{"schema": "diskwright.beside/1", "title": "t", "lead": ["a"], "names": ["three", "ten"],
        "sections": [{"title": "s", "words": ["w"], "charts": [{"title": "c", "x": {"words": "x", "unit": "s"},
        "y": {"words": "y", "unit": "per_s", "log": true},
        "lines": [{"name": "l", "points": [[0, 1.5], [1e3, 2e-9]]}]}],
        "bars": [{"title": "b", "unit": "fraction", "full": 1.0, "names": ["n"], "groups": [["g", [0.5]]]}],
        "tables": [{"titles": ["a"], "rows": [["1"]]}]}]}"#;
    run_target(targets::render_beside_document, &[document.to_vec()]);
}

#[test]
fn probe_scripts_take_anything() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/measure/probe/tests/scripts");
    let files = fs::read_dir(folder).expect("scripts").map(|e| fs::read(e.expect("entry").path()).expect("readable"));
    run_target(targets::parse_probe_scripts, &files.collect::<Vec<_>>());
}

#[test]
fn ledgers_of_disks_take_anything() {
    let ledger = br#"{"schema":"diskwright.content/1","arrays":[{"shape":{"name":"data","level":"raid5","layout":null,
        "copies":null,"unit_blocks":128,"member_blocks":null,"members":[0,1,2]},"state":{"lost":[[1,512]],
        "rebuilding":[1],"torn":[7],"all_torn":false}}]}"#;
    run_target(targets::check_disk_ledger, &[ledger.to_vec()]);
}

#[test]
fn files_of_drives_take_anything() {
    let drive = |file: &str, number: usize| {
        let (_, text) =
            diskwright_simulator::catalogue::BUILT_IN_FILES.iter().find(|(name, _)| *name == file).expect("a file");
        let (start, _) = text.match_indices("[[drive]]").nth(number).expect("so many drives");
        let rest = &text[start..];
        let end = rest[2..].find("[[drive]]").map_or(rest.len(), |end| end + 2);
        rest.as_bytes()[..end].to_vec()
    };
    let seeds = [("disks.toml", 1), ("ssds.toml", 0), ("cloud.toml", 0), ("plain.toml", 2)];
    run_target(targets::read_drive_catalogue, &seeds.map(|(file, number)| drive(file, number)));
}

#[test]
fn drive_files_take_anything() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/model/simulator/tests/drives");
    let read = |name: &str| fs::read_to_string(format!("{folder}/{name}")).expect("fixture");
    let text = read("disk7200.diskspecs").replace("source disk7200.model", &read("disk7200.model"));
    run_target(targets::read_drive_files, &[text.into_bytes(), read("disk7200.diskspecs").into_bytes()]);
}

#[test]
fn system_descriptions_take_anything() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/systems");
    let files = fs::read_dir(folder).expect("examples").map(|e| fs::read(e.expect("entry").path()).expect("readable"));
    run_target(targets::read_system_description, &files.collect::<Vec<_>>());
}

/// Fixtures of foreign logs whose file names begin with one of these formats.
fn foreign_log_fixtures(formats: &[&str]) -> Vec<Vec<u8>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/observe/logs/tests/fixtures");
    let files = fs::read_dir(folder).expect("fixtures").map(|e| e.expect("entry").path());
    let of_format = |p: &std::path::PathBuf| {
        let name = p.file_name().unwrap_or_default().to_string_lossy().into_owned();
        formats.iter().any(|f| name.starts_with(f))
    };
    files.filter(of_format).map(|p| fs::read(p).expect("readable")).collect()
}

#[test]
fn perfmon_text_takes_anything() {
    // two or three rows of each log cover the parser
    let seeds = foreign_log_fixtures(&["perfmon-text"]).into_iter().map(|log| log[..log.len().min(1600)].to_vec());
    run_target(targets::read_perfmon_text, &seeds.collect::<Vec<_>>());
}

#[test]
fn sysstat_takes_anything() {
    run_target(targets::read_sysstat_json, &foreign_log_fixtures(&["sadf-json", "iostat-json", "mpstat-json"]));
    run_target(targets::read_sysstat_xml, &foreign_log_fixtures(&["sadf-xml"]));
    run_target(
        targets::read_sysstat_text,
        &foreign_log_fixtures(&["sar-text", "iostat-text", "sadf-rows", "vmstat-text"]),
    );
}

#[test]
fn tool_text_takes_anything() {
    // the length chooses the format: each seed is cut to six lengths, one for each format
    let seeds = foreign_log_fixtures(&["dstat-csv", "nmon", "collectl-", "atop-text", "csv"]).into_iter();
    let seeds = seeds.flat_map(|log| (0..6).map(move |less| log[..log.len().min(1800) - less].to_vec()));
    run_target(targets::read_tool_text, &seeds.collect::<Vec<_>>());
}

#[test]
fn loops_and_other_systems_take_anything() {
    run_target(targets::read_system_text, &foreign_log_fixtures(&["proc-loop", "top-text", "unix-", "kernel-log"]));
}

#[test]
fn prometheus_takes_anything() {
    run_target(targets::read_prometheus_text, &foreign_log_fixtures(&["prometheus"]));
    let answer = br#"{"status":"success","warnings":["half"],"data":{"resultType":"matrix","result":[
        {"metric":{"instance":"a","device":"s\"da"},"values":[[1700000000,"1.5"],[1700000015,"NaN"]]},
        {"metric":{},"value":[1700000030.123,"+Inf"]}]}}"#;
    let names = br#"{"status":"success","data":["node_load1","node_\u00e4"]}"#;
    let series = br#"{"status":"success","data":[{"__name__":"node_load1","instance":"a"}]}"#;
    run_target(targets::read_prometheus_answers, &[answer.to_vec(), names.to_vec(), series.to_vec()]);
}

#[test]
fn log_reader_takes_anything() {
    let log = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("fuzz-log");
    let _ = fs::remove_dir_all(&log);
    let done = Command::new(env!("CARGO_BIN_EXE_diskwright"))
        .args(["record", log.to_str().expect("plain"), "--every", "50ms", "--for", "500ms"])
        .output()
        .expect("runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let files = fs::read_dir(&log).expect("a log").map(|e| e.expect("entry").path());
    let seeds: Vec<Vec<u8>> = files
        .filter(|p| p.extension().is_some_and(|e| e == "dwlog"))
        .map(|p| fs::read(p).expect("readable"))
        .filter(|d| !d.is_empty())
        .collect();
    run_target(targets::read_log, &seeds);
}

#[test]
fn pcp_archive_takes_anything() {
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/observe/logs/tests/fixtures");
    let part = |name: &str| {
        let bytes = fs::read(format!("{data}/{name}")).expect("readable");
        [&(bytes.len() as u16).to_be_bytes(), bytes.as_slice()].concat()
    };
    let seed = |name: &str| [part(&format!("{name}.meta")), part(&format!("{name}.0"))].concat();
    run_target(targets::read_pcp_archive, &[seed("pcp_v2"), seed("pcp_v3")]);
}

#[test]
fn perfmon_blg_takes_anything() {
    run_target(targets::read_perfmon_blg, &[blg_encoder::of_lists(5), blg_encoder::of_objects(5)]);
}

#[test]
fn nbd_protocol_takes_anything() {
    use diskwright_virtualdisk::nbd::wire::{self, answer, option};
    let client_option = |number: u32, data: &[u8]| {
        let length = (data.len() as u32).to_be_bytes();
        [&wire::IHAVEOPT.to_be_bytes()[..], &number.to_be_bytes(), &length, data].concat()
    };
    let context = b"\0\0\0\x01a\0\0\0\x01\0\0\0\x0fbase:allocation";
    let options = [
        client_option(option::LIST, &[]),
        client_option(option::STRUCTURED_REPLY, &[]),
        client_option(option::LIST_META_CONTEXT, context),
        client_option(option::SET_META_CONTEXT, context),
        client_option(option::INFO, b"\0\0\0\x01b\0\x02\0\x03\0\x01"),
        client_option(option::GO, b"\0\0\0\x01a\0\x01\0\x03"),
    ];
    let request = |command: u8, offset: u64, length: u32| {
        let head = [&wire::REQUEST_MAGIC.to_be_bytes()[..], &[0, 0, 0, command], &[1; 8]].concat();
        [&head[..], &offset.to_be_bytes(), &length.to_be_bytes()].concat()
    };
    let requests = [request(0, 512, 512), request(1, 512, 4), vec![7; 4], request(7, 0, 4096), request(3, 0, 0)];
    let client = |first: u8| [&[first, 0, 0, 0, 3][..], &options.concat(), &requests.concat()].concat();

    let option_reply = |option: u32, kind: u32, data: &[u8]| {
        let head = [option, kind, data.len() as u32].map(u32::to_be_bytes);
        [&wire::OPTION_REPLY_MAGIC.to_be_bytes()[..], head.as_flattened(), data].concat()
    };
    let chunk = |kind: u8, offset: u8, data: &[u8]| {
        let head = [&wire::STRUCTURED_REPLY_MAGIC.to_be_bytes()[..], &[0, 1, 0, kind], &[0, 0, 0, 1, 0, 0, 0, offset]];
        [&head.concat()[..], &(data.len() as u32).to_be_bytes(), data].concat()
    };
    let greeting = [&[1][..], &wire::NBDMAGIC.to_be_bytes(), &wire::IHAVEOPT.to_be_bytes(), &[0, 3]].concat();
    let server = [
        greeting.clone(),
        option_reply(option::STRUCTURED_REPLY, answer::ACK, &[]),
        option_reply(option::SET_META_CONTEXT, answer::META_CONTEXT, b"\0\0\0\x01base:allocation"),
        option_reply(option::SET_META_CONTEXT, answer::ACK, &[]),
        option_reply(option::GO, answer::INFO, &[0; 12]),
        option_reply(option::GO, answer::ACK, &[]),
        chunk(2, 0, &[&512_u64.to_be_bytes()[..], &1024_u32.to_be_bytes()].concat()),
        chunk(0, 1, &[]),
        chunk(5, 2, &[0, 0, 0, 1, 0, 0, 16, 0, 0, 0, 0, 3]),
        chunk(1, 3, &[0; 17]),
    ];
    let exports = option_reply(option::LIST, answer::SERVER, b"\0\0\0\x01a and more");
    let listing = [greeting, exports, option_reply(option::LIST, answer::ACK, &[])].concat();
    run_target(targets::feed_nbd_protocol, &[client(254), client(6), server.concat(), listing]);
}
