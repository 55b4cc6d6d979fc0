//! Tests of scripts: what is understood, noted, or refused, and how.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use diskwright_probe::ProbeError;
use diskwright_probe::facts::ScriptFormat;
use diskwright_probe::pattern::{Durability, MixStep, NormalSpread, Pace, Pattern, Placement};
use diskwright_probe::script::{Script, ScriptEnvironment, ScriptJob, ScriptOptions, TargetAmount, TransferLimit};

const MIB: u64 = 1 << 20;

fn parse(path: &str, text: &str, files: &[(&str, &str)]) -> Result<Script, ProbeError> {
    let files: HashMap<&str, &str> = files.iter().copied().collect();
    let read = |path: &Path| {
        let found = files.get(path.display().to_string().as_str());
        found.map(|text| (*text).to_owned()).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    };
    let variable = |name: &str| (name == "DEV").then(|| "/dev/sdz".to_owned());
    Script::parse(Path::new(path), text, &ScriptEnvironment { read_file: &read, env_variable: &variable })
}

fn fio(text: &str) -> Script {
    parse("a.fio", text, &[]).unwrap_or_else(|e| panic!("{text}\n{e}"))
}

/// Returns the job of a job file with these options.
fn job(options: &str) -> ScriptJob {
    let script = fio(&format!("[one]\nsize=64m\n{options}\n"));
    assert_eq!((script.rounds.len(), script.rounds[0].len()), (1, 1));
    script.rounds[0][0].clone()
}

fn pattern_on_64_mib(job: &ScriptJob) -> Pattern {
    job.pattern_on_target(
        64 * MIB,
        &ScriptOptions { default_duration: Duration::from_secs(3), ..ScriptOptions::default() },
    )
}

fn parse_error(path: &str, text: &str) -> String {
    parse(path, text, &[]).expect_err(text).to_string()
}

#[test]
fn uses_fio_defaults() {
    let one = job("");
    assert_eq!((one.name.as_str(), one.file.as_str(), one.limit), ("one", "one.0.0", TransferLimit::Passes(1)));
    let pattern = pattern_on_64_mib(&one);
    assert_eq!(pattern.placement, Placement::Sequential { streams: 1 });
    assert_eq!((pattern.pace.clone(), pattern.sizes.clone()), (Pace::Closed { depth: 1 }, vec![(4096, 1.0)]));
    assert!(pattern.buffered && pattern.read_share == 1.0 && pattern.ramp.is_zero());
    assert_eq!((pattern.range_bytes, pattern.max_bytes), (Some(64 * MIB), Some(64 * MIB)));
    assert!(pattern.duration > Duration::from_secs(86_400));
    assert_eq!(pattern.find_fault(512, 64 * MIB), None);
}

#[test]
fn parses_directions_and_mixes() {
    for (options, placement, read_share, apart) in [
        ("rw=write", Placement::Sequential { streams: 1 }, 0.0, false),
        ("readwrite=randread", Placement::Uniform, 1.0, false),
        ("rw=randwrite", Placement::Uniform, 0.0, false),
        ("rw=rw\nrwmixread=70", Placement::Sequential { streams: 1 }, 0.7, true),
        ("rw=randrw", Placement::Uniform, 0.5, false),
        ("rw=randrw\nrwmixwrite=25", Placement::Uniform, 0.75, false),
        ("rw=randrw\nrwmixwrite=25\nrwmixread=10", Placement::Uniform, 0.1, false),
        ("rw=read:8k", Placement::Strided { stride_bytes: 12_288 }, 1.0, false),
        ("rw=randread\nrandom_distribution=zipf:1.2", Placement::Zipf { theta: 1.2 }, 1.0, false),
        ("rw=randread\nrandom_distribution=pareto:0.2", Placement::Pareto { power: 0.2 }, 1.0, false),
    ] {
        let pattern = pattern_on_64_mib(&job(options));
        assert_eq!((&pattern.placement, pattern.separate_positions), (&placement, apart), "{options}");
        assert!((pattern.read_share - read_share).abs() < 1e-9, "{options}: {}", pattern.read_share);
    }
    assert_eq!(pattern_on_64_mib(&job("rw=randread:8")).run_requests, 8);
    // fio's normal: the mean of 12 uniform numbers, spread by a hash
    let pattern = pattern_on_64_mib(&job("rw=randread\nrandom_distribution=normal:0"));
    assert_eq!(pattern.placement, Placement::Normal { mean: 0.5, deviation: 1.0 / 12.0 });
    assert!(pattern.scattered);
}

#[test]
fn parses_sizes_of_reads_and_writes() {
    let of = |options: &str| {
        let pattern = pattern_on_64_mib(&job(options));
        (pattern.sizes, pattern.write_sizes)
    };
    assert_eq!(of("rw=randrw\nbs=8k,64k"), (vec![(8192, 1.0)], vec![(65_536, 1.0)]));
    assert_eq!(of("rw=write\nbs=8k,64k"), (vec![(65_536, 1.0)], vec![]));
    assert_eq!(of("rw=write\nbs=8k,"), (vec![(4096, 1.0)], vec![]));
    assert_eq!(of("bs=64k\nbsrange=4k-8k"), (vec![(4096, 1.0), (8192, 1.0)], vec![]));
    assert_eq!(of("bsrange=4k-8k\nblocksize=64k"), (vec![(65_536, 1.0)], vec![]));
    assert_eq!(of("bs=64k\nbssplit=4k/90:64k/10"), (vec![(4096, 90.0), (65_536, 10.0)], vec![]));
    assert_eq!(of("kb_base=1000\nbs=4ki"), (vec![(4096, 1.0)], vec![]));
    assert_eq!(pattern_on_64_mib(&job("rw=randread\nba=512")).align_bytes, 512);
}

#[test]
fn maps_engines_and_depths() {
    for (options, depth, noted) in [
        ("ioengine=io_uring\niodepth=32\ndirect=1", 32, ""),
        ("ioengine=libaio\niodepth=16\ndirect=1", 16, "uses io_uring"),
        ("ioengine=libaio\niodepth=16", 1, "one at a time"),
        ("ioengine=psync\niodepth=16\ndirect=1", 1, "one request at a time"),
        ("iodepth=1\nbuffered=0", 1, ""),
    ] {
        let script = fio(&format!("[one]\nsize=1m\n{options}\n"));
        assert_eq!(script.rounds[0][0].pattern.pace, Pace::Closed { depth }, "{options}");
        let notes: Vec<_> = script.notes.iter().map(|n| n.text.as_str()).collect();
        assert!(notes.is_empty() == noted.is_empty() && notes.iter().all(|n| n.contains(noted)), "{notes:?}");
    }
    assert!(
        !pattern_on_64_mib(&job("buffered=0")).buffered
            && !pattern_on_64_mib(&job("direct=1")).buffered
            && pattern_on_64_mib(&job("direct=0")).buffered
    );
}

#[test]
fn parses_rates_and_think_times() {
    let rated = |options: &str| pattern_on_64_mib(&job(options)).pace;
    assert_eq!(rated("rate_iops=500"), Pace::Open { rate_per_s: 500.0, poisson: false });
    assert_eq!(
        rated("rw=randread\nrate_iops=500\nrate_process=poisson"),
        Pace::Open { rate_per_s: 500.0, poisson: true }
    );
    assert_eq!(rated("rate=1m"), Pace::Open { rate_per_s: 256.0, poisson: false });
    assert_eq!(rated("rate=,1m\nrw=write\nbs=64k"), Pace::Open { rate_per_s: 16.0, poisson: false });
    assert_eq!(rated("rate=,1m"), Pace::Closed { depth: 1 });
    let depth = pattern_on_64_mib(&job("ioengine=io_uring\niodepth=8\nrate_iops=5")).max_in_flight;
    assert_eq!(depth, Some(8));
    let Pace::Cycles { users: 1, think_s, requests, compute_s } =
        rated("thinktime=1000\nthinktime_spin=250\nthinktime_blocks=4")
    else {
        panic!("no cycles")
    };
    assert_eq!(
        (think_s, requests, compute_s),
        (NormalSpread::fixed(0.00075), NormalSpread::fixed(4.0), NormalSpread::fixed(0.00025))
    );
}

#[test]
fn parses_durability() {
    let of = |options: &str| {
        let pattern = pattern_on_64_mib(&job(options));
        (pattern.durable, pattern.sync_every)
    };
    assert_eq!(of("rw=write\nfsync=1"), (Durability::Fsync, 1));
    assert_eq!(of("rw=write\nfdatasync=32"), (Durability::Fdatasync, 32));
    assert_eq!(of("rw=write\nsync=dsync"), (Durability::Dsync, 1));
    assert_eq!(of("rw=write\nsync=0"), (Durability::No, 1));
    assert_eq!(of("rw=read\nfsync=1"), (Durability::No, 1));
}

#[test]
fn parses_limits_and_times() {
    let of = |options: &str| {
        let one = job(options);
        let pattern = pattern_on_64_mib(&one);
        (pattern.max_bytes, pattern.duration.as_secs().min(1_000_000))
    };
    assert_eq!(of("runtime=60"), (Some(64 * MIB), 60));
    assert_eq!(of("timeout=2m\ntime_based"), (None, 120));
    assert_eq!(of("io_size=1g"), (Some(1 << 30), 1_000_000));
    assert_eq!(of("loops=3"), (Some(192 * MIB), 1_000_000));
    assert_eq!(of("number_ios=100"), (Some(409_600), 1_000_000));
    assert_eq!(of("filesize=128m"), (Some(64 * MIB), 1_000_000));
    let one = job("ramp_time=5\nstartdelay=500ms\nruntime=10\nrandseed=7");
    assert_eq!((one.pattern.ramp.as_secs(), one.start_delay.as_millis(), one.pattern.seed), (5, 500, 7));
    // the user's settings override the script
    let (lasts, ramp) = (Some(Duration::from_secs(1)), Some(Duration::ZERO));
    let pattern = one.pattern_on_target(
        64 * MIB,
        &ScriptOptions { duration: lasts, ramp, default_duration: Duration::ZERO, seed: 1 },
    );
    assert_eq!((pattern.duration.as_secs(), pattern.ramp.as_secs(), pattern.max_bytes), (1, 0, None));
}

#[test]
fn places_in_a_file_can_be_shares_of_it() {
    let one = job("offset=25%\nsize=50%");
    assert_eq!(
        (one.range_start, one.range_length, one.required_file_bytes()),
        (TargetAmount::Share(0.25), Some(TargetAmount::Share(0.5)), None)
    );
    // a third of the file is not a multiple of a sector, and fio begins at a block
    let third = pattern_on_64_mib(&job("direct=1\nbs=64k\noffset=33%\nsize=50%"));
    assert_eq!((third.from_bytes, third.find_fault(512, 64 * MIB)), (337 * 65_536, None));
    let pattern = one.pattern_on_target(64 * MIB, &ScriptOptions::default());
    assert_eq!((pattern.from_bytes, pattern.range_bytes), (16 * MIB, Some(32 * MIB)));
    let script = fio("[one]\nsize=1m\noffset=1m\noffset_increment=2m\nnumjobs=3\nfilename=x\n");
    let froms: Vec<_> = script.jobs().map(|j| (j.range_start, j.required_file_bytes())).collect();
    let amount = |mib: u64| (TargetAmount::Bytes(mib * MIB), Some((mib + 1) * MIB));
    assert_eq!(froms, [amount(1), amount(3), amount(5)]);
    assert_eq!(script.required_targets(None)[0].bytes, Some(6 * MIB));
}

#[test]
fn applies_global_sections_and_rounds() {
    let script = fio("\
; a comment
[global]
bs=8k ; behind an option, as fio has it
size = 4m
direct=1
[a]
rw=randread
numjobs=2
group_reporting
[b]
bs=16k
[global]
bs=32k
[c]
stonewall
[d]
filename=${DEV}
wait_for=c
rw=write
");
    assert_eq!(script.format, ScriptFormat::Fio);
    let named = |round: usize| -> Vec<_> {
        let summary = |j: &ScriptJob| (j.name.clone(), j.file.clone(), j.pattern.sizes[0].0);
        script.rounds[round].iter().map(summary).collect()
    };
    let one = |name: &str, file: &str, size| (name.to_owned(), file.to_owned(), size);
    assert_eq!(named(0), [one("a-1", "a.0.0", 8192), one("a-2", "a.1.0", 8192), one("b", "b.0.0", 16_384)]);
    assert_eq!(named(1), [one("c", "c.0.0", 32_768)]);
    assert_eq!(named(2), [one("d", "/dev/sdz", 32_768)]);
    assert_eq!(script.rounds[0][0].group.as_deref(), Some("a"));
    // clones have different seeds
    assert_ne!(script.rounds[0][0].pattern.seed, script.rounds[0][1].pattern.seed);
    let wanted = script.required_targets(None);
    let summary: Vec<_> = wanted.iter().map(|w| (w.path.display().to_string(), w.writes)).collect();
    assert_eq!(summary.len(), 5);
    assert_eq!(summary[4], ("/dev/sdz".to_owned(), true));
    assert!(wanted.iter().all(|w| w.bytes == Some(4 * MIB) && !w.buffered));
    assert_eq!(script.required_targets(Some(Path::new("/dev/other"))).len(), 1);
    let script = fio("[a]\nsize=1m\nfilename=b.dat\ndirectory=/data\n");
    assert_eq!(script.rounds[0][0].file, "/data/b.dat");
}

#[test]
fn notes_options_without_effect_once() {
    let script = fio("[global]\nsize=1m\nrandrepeat=0\nthread\ndirect=1\nthread=0\n[a]\n[b]\nwrite_bw_log=x\n");
    let notes: Vec<_> = script.notes.iter().map(|n| (n.line, n.text.split(':').next().unwrap_or(""))).collect();
    assert_eq!(notes, [(4, "thread"), (9, "write_bw_log")]);
}

#[test]
fn refuses_options_that_change_the_load() {
    for (options, line, expected) in [
        ("rw=randtrim", 3, "trims are not supported"),
        ("rw=sideways", 3, "randread"),
        ("rw=read:-8k", 3, "backwards"),
        ("ioengine=null", 3, "expected one of"),
        ("bs=5q", 3, "4096, 4k"),
        ("bs=0", 3, "of 1 to"),
        ("iodepth=0", 3, "65536"),
        ("iodpeth=4", 3, "did you mean `iodepth`?"),
        ("frobnicate=1", 3, "not a known option"),
        ("verify=crc32c", 3, "does not verify"),
        ("end_fsync=1", 3, "fsync="),
        ("rw=write\nsync=1", 4, "dsync"),
        ("rw=write\nfsync=1\nfdatasync=1", 4, "not several"),
        ("rate_iops=5\nrate=5", 4, "not both"),
        ("rw=randrw\nrate_iops=5", 4, "write two jobs"),
        ("thinktime=5\nrate_iops=5", 3, "not both"),
        ("random_distribution=zoned:50/5:50/95\nrw=randread", 3, "zipf"),
        ("random_distribution=zipf:1\nrw=randread", 3, "not 1"),
        ("filename=a:b", 3, "section for each"),
        ("time_based", 3, "runtime"),
        ("numjobs=100000", 3, "512"),
        ("bssplit=4k/60:8k/60", 3, "sum to 120, not 100"),
        ("filename=${NOT_THERE}", 3, "NOT_THERE is not set"),
        ("filename=`date`", 3, "commands are not run"),
        ("runtime=soon", 3, "10m"),
        ("nrfiles=4", 3, "one file"),
        ("direct=maybe", 3, "0 or 1"),
        ("exec_prerun=reboot", 3, "cannot start programs"),
        ("wait_for=nobody", 3, "no section above"),
        ("include other.fio", 3, "`include` is not supported"),
    ] {
        let message = parse_error("a.fio", &format!("[one]\nsize=64m\n{options}\n"));
        assert!(message.starts_with(&format!("a.fio:{line}: ")), "{options}: {message}");
        assert!(message.contains(expected), "{options}: {message}");
    }
    for (text, expected) in [
        ("", "no section"),
        ("[global]\nsize=1m\n", "no section"),
        ("size=1m\n[a]\n", "before the first section"),
        ("[a\n", "expected `[name]`"),
        ("[]\n", "expected `[name]`"),
        ("[a]\nsize=1m\nnumjobs=400\n[b]\nsize=1m\nnumjobs=400\n", "512"),
    ] {
        assert!(parse_error("a.fio", text).contains(expected), "{text}: {}", parse_error("a.fio", text));
    }
}

const THREAD: &str = "\
# our own
THINKTIME 100 20
CPUTIME 5 1
CYCLEREADS 10 3
FILESEEK 156 52
DATAPAGE 0 0
FUNCTION 500 0
FILEACCESS c:\\work\\workfile.dat
FILEATTRIBUTE RANDOM
FILEACCESSMODE UNBUFFER
RECORDSIZE 65536
FILEACTION RRW
";

#[test]
fn reads_a_response_probe_thread() {
    let script = parse("random.sct", THREAD, &[]).unwrap();
    let one = &script.rounds[0][0];
    assert_eq!(
        (script.format, one.name.as_str(), one.file.as_str()),
        (ScriptFormat::ResponseProbe, "random", "workfile.dat")
    );
    // NT Resource Kit: a mean of 156 records of 64 KB is the middle of a file of 20 MB
    assert_eq!(one.required_file_bytes(), Some(156 * 2 * 65_536));
    let pattern = one.pattern_on_target(20 * MIB, &ScriptOptions::default());
    let Placement::Normal { mean, deviation } = pattern.placement else { panic!("{:?}", pattern.placement) };
    assert!((mean - 156.0 / 320.0).abs() < 1e-9);
    assert!((deviation - 52.0 / 320.0 * (14.0f64 / 12.0).sqrt()).abs() < 1e-9);
    assert_eq!(pattern.read_write_order, [MixStep::Read, MixStep::Read, MixStep::Write]);
    assert_eq!((pattern.run_requests, pattern.buffered, &pattern.sizes[..]), (3, false, &[(65_536, 1.0)][..]));
    let spread = |mean, deviation| NormalSpread { mean, deviation };
    let Pace::Cycles { users: 1, think_s, requests, compute_s } = pattern.pace else { panic!("{:?}", pattern.pace) };
    assert_eq!((think_s, requests, compute_s), (spread(0.1, 0.02), spread(30.0, 9.0), spread(0.005, 0.001)));
    assert!(pattern.find_fault(512, 20 * MIB).is_none());
    let lines: Vec<_> = script.notes.iter().map(|n| n.line).collect();
    assert_eq!(lines, [6, 7, 8, 8], "{:?}", script.notes);
}

#[test]
fn diskmax_is_a_plain_sequential_read() {
    let text = THREAD
        .replace("RANDOM", "sequential")
        .replace("THINKTIME 100 20", "THINKTIME 0 0")
        .replace("CPUTIME 5 1", "CPUTIME 0 0")
        .replace("RRW", "R");
    let script = parse("diskmax", &text, &[]).unwrap();
    let pattern = pattern_on_64_mib(&script.rounds[0][0]);
    assert_eq!((pattern.placement, pattern.pace), (Placement::Sequential { streams: 1 }, Pace::Closed { depth: 1 }));
    assert_eq!((pattern.read_share, pattern.duration.as_secs()), (1.0, 3));
}

#[test]
fn processes_and_threads_are_followed() {
    let files =
        [("kit/one.scp", "REPEAT 2 THREAD RANDOM.SCT\n# and\nTHREAD random.sct 2\n"), ("kit/random.sct", THREAD)];
    let text = "REPEAT 3 PROCESS ONE.SCP 100 code.dat probe2.exe H\nPROCESS one.scp 1\n";
    let script = parse("kit/all.scr", text, &files).unwrap();
    assert_eq!(script.rounds[0].len(), 3 * 3 + 3);
    let paths: Vec<_> = script.files.iter().map(|f| f.path.as_str()).collect();
    assert_eq!(paths, ["kit/all.scr", "kit/one.scp", "kit/random.sct"]);
    let mut names: Vec<_> = script.jobs().map(|j| &j.name).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 12);
    assert!(script.notes.iter().any(|n| n.file == "kit/one.scp" && n.line == 3));
    // the format is recognized by the content too
    assert_eq!(parse("kit/all.txt", text, &files).unwrap().rounds[0].len(), 12);
}

#[test]
fn broken_scripts_of_response_probe_say_where() {
    for (from, to, expected) in [
        ("FILEATTRIBUTE RANDOM", "FILEATTRIBUTE SOMETIMES", ":9: FILEATTRIBUTE: expected RANDOM or SEQUENTIAL"),
        ("UNBUFFER", "MAPPED", ":10: FILEACCESSMODE MAPPED"),
        ("RECORDSIZE 65536", "RECORDSIZE 64K", ":11: RECORDSIZE: expected 1 to"),
        ("FILEACTION RRW", "FILEACTION RX", ":12: FILEACTION: expected letters R and W"),
        ("THINKTIME 100 20", "THINKTIME 100", ":2: THINKTIME: expected a mean and"),
        ("THINKTIME 100 20", "THINKTIME -5 0", ":2: THINKTIME: expected a mean and"),
        ("THINKTIME 100 20", "THINKTIM 100 20", ":2: `THINKTIM` is not a parameter"),
        ("CPUTIME 5 1", "FILESEEK 1 1", ":5: FILESEEK is given twice"),
        ("FILESEEK 156 52\n", "", "FILESEEK, which RANDOM needs"),
        ("RECORDSIZE 65536\n", "", "RECORDSIZE is missing"),
        ("CYCLEREADS 10 3", "CYCLEREADS 0 0", "without requests"),
        ("FILEACCESS c:\\work\\workfile.dat", "FILEACCESS a b", ":8: FILEACCESS: expected one word"),
    ] {
        let message = parse_error("a.sct", &THREAD.replace(from, to));
        assert!(message.contains(expected), "{to}: {message}");
    }
    for (path, text, expected) in [
        ("a.scr", "PROCESS nowhere.scp 1\n", "a.scr:1: nowhere.scp: "),
        ("a.scr", "PROCESS a.scp many\n", "file.scp DataSize"),
        ("a.scr", "REPEAT 0 PROCESS a.scp 1\n", "a.scr:1: REPEAT"),
        ("a.scr", "THREAD a.sct\n", "expected `[REPEAT n]"),
        ("a.scp", "THREAD a.sct 1 2\n", "expected `[REPEAT n]"),
        ("a.scp", "# nothing\n", "names no thread"),
        ("a.txt", "hello\n", "not a known script"),
        ("a.txt", "", "not a known script"),
    ] {
        let message = parse_error(path, text);
        assert!(message.contains(expected), "{text}: {message}");
    }
}

#[test]
fn rejects_too_many_threads_and_too_large_scripts() {
    let files = [("a.scp", "REPEAT 512 THREAD a.sct\nTHREAD a.sct\n"), ("a.sct", THREAD)];
    let said_of = parse("a.scr", "REPEAT 512 PROCESS a.scp 1\n", &files).expect_err("too many").to_string();
    assert!(said_of.contains("more than 512 threads"), "{said_of}");
    assert!(parse_error("a.fio", &"#".repeat(2 << 20)).contains("larger than"));
    assert!(parse_error("a.fio", &format!("[a]\n{}\n", "x".repeat(5000))).contains("longer than 4096 bytes"));
}

#[test]
fn our_own_scripts_are_understood() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scripts"));
    let read = |path: &Path| std::fs::read_to_string(path);
    let variable = |name: &str| (name == "DIR").then(|| "folder".to_owned());
    let environment = ScriptEnvironment { read_file: &read, env_variable: &variable };
    let mut jobs = HashMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let script = Script::parse(&path, &read(&path).unwrap(), &environment).unwrap_or_else(|e| panic!("{e}"));
        for job in script.jobs() {
            assert_eq!(
                job.pattern_on_target(64 * MIB, &ScriptOptions::default()).find_fault(512, 64 * MIB),
                None,
                "{}",
                path.display()
            );
        }
        let rounds: Vec<usize> = script.rounds.iter().map(Vec::len).collect();
        jobs.insert(path.file_name().unwrap().to_string_lossy().into_owned(), rounds);
    }
    let of = |name: &str| jobs[name].clone();
    assert_eq!((of("mail.fio"), of("backup.fio"), of("database.fio")), (vec![3, 1], vec![1, 2], vec![3]));
    assert_eq!((of("editors.fio"), of("poisson.fio")), (vec![10], vec![1]));
    assert_eq!((of("office.scr"), of("office.scp"), of("random.sct")), (vec![3], vec![3], vec![1]));
}

#[test]
fn every_option_is_in_the_documentation() {
    let page = include_str!("../../../../docs/probe-scripts.md");
    for (name, _) in diskwright_probe::script::fio::options::all_options() {
        assert!(page.contains(&format!("`{name}`")), "{name}");
    }
    for word in THREAD.lines().filter(|l| !l.starts_with('#')).filter_map(|l| l.split(' ').next()) {
        assert!(page.contains(&format!("`{word}`")) || page.contains(&format!("`{word} ")), "{word}");
    }
}
