//! The built-in drives can be read, give the sources of their values, and reach their published figures in the
//! simulation.

use diskwright_simulator::DeviceModel;
use diskwright_simulator::catalogue::measure::{DrivePattern, measure_pattern};
use diskwright_simulator::catalogue::{self, BUILT_IN_FILES, EntryKind};

#[test]
fn every_file_is_read() {
    let mut count = 0;
    for (file, text) in BUILT_IN_FILES {
        count += catalogue::read(file, text).unwrap_or_else(|e| panic!("{e}")).len();
    }
    assert_eq!(catalogue::built_in_entries().len(), count);
    for (index, entry) in catalogue::built_in_entries().iter().enumerate() {
        let same = catalogue::built_in_entries()[..index].iter().find(|other| other.id == entry.id);
        assert!(same.is_none(), "{} twice", entry.id);
        assert_eq!(catalogue::find_entry(&entry.id.to_uppercase()).map(|e| &e.id), Some(&entry.id));
    }
}

/// Published capacities are met; for mechanical drives nearly, since their zones are derived from the edges.
#[test]
fn capacities_match_the_data_sheets() {
    for entry in catalogue::built_in_entries() {
        let device = entry.build_device().unwrap_or_else(|e| panic!("{}: {e}", entry.id));
        let found = device.block_count() as f64 * 512.0 / entry.capacity_bytes as f64;
        let off = if matches!(entry.kind, EntryKind::Mechanical(_)) { 0.03 } else { 1e-3 };
        assert!((found - 1.0).abs() < off, "{}: {found} of the printed capacity", entry.id);
    }
}

#[test]
fn data_sheet_checks_hold() {
    let mut wrong = String::new();
    for entry in catalogue::built_in_entries() {
        let device = entry.build_device().unwrap_or_else(|e| panic!("{}: {e}", entry.id));
        for check in &entry.checks {
            // a write buffer must be full many times before the flash behind it shows
            let requests = match device {
                DeviceModel::Flash(_) if check.pattern == DrivePattern::RandomWrite => 300_000,
                // and what a window lets through at once must be little
                DeviceModel::Volume(_) => 100_000,
                _ => 10_000,
            };
            let (found, holds) = check.run(&device, requests);
            if !holds {
                wrong += &format!(
                    "{}: {} of {} KB at {}: {found:.1}, printed: {}\n",
                    entry.id,
                    check.pattern.name(),
                    check.kb,
                    check.depth,
                    check.published
                );
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// `cargo test -p diskwright-simulator --test catalogue -- --ignored --nocapture`: prints the results of all drives.
#[test]
#[ignore = "a table to look at, not a test"]
fn table() {
    for entry in catalogue::built_in_entries() {
        let device = entry.build_device().unwrap_or_else(|e| panic!("{}: {e}", entry.id));
        let started = std::time::Instant::now();
        let deep = if matches!(device, DeviceModel::Mechanical(_)) { 16 } else { 256 };
        let n = 20_000;
        let line: Vec<String> = DrivePattern::ALL
            .iter()
            .map(|ask| {
                let blocks = if ask.name().starts_with("random") { 8 } else { 256 };
                let one = measure_pattern(&device, *ask, blocks, 1, n);
                let many = measure_pattern(&device, *ask, blocks, deep, n);
                if blocks == 8 {
                    format!("{:9.0} {:9.0}", one.iops, many.iops)
                } else {
                    format!("{:7.1} {:7.1}", one.bytes_per_s / 1e6, many.bytes_per_s / 1e6)
                }
            })
            .collect();
        eprintln!("{:24} {} ({:.2} s)", entry.id, line.join(" | "), started.elapsed().as_secs_f64());
    }
}

/// Every value of a built-in drive has one source, and no source refers to a missing value.
#[test]
fn every_value_has_a_source() {
    for (file, text) in BUILT_IN_FILES {
        let table: toml::Table = text.parse().unwrap_or_else(|e| panic!("{file}: {e}"));
        let drives = table["drive"].as_array().expect("drives");
        for drive in drives {
            let id = drive["id"].as_str().expect("an id");
            let kind = ["mechanical", "flash", "volume", "plain"].into_iter().find_map(|kind| drive.get(kind));
            let mut keys: Vec<&str> =
                kind.and_then(|k| k.as_table()).expect("a kind").keys().map(String::as_str).collect();
            keys.push("capacity_gb");
            keys.sort_unstable();
            let entry = catalogue::find_entry(id).expect(id);
            let mut sourced: Vec<&str> = entry.sources.iter().map(|(key, _)| key.as_str()).collect();
            sourced.sort_unstable();
            assert_eq!(keys, sourced, "{id}");
            assert!(entry.sources.iter().all(|(_, source)| !source.trim().is_empty()), "{id}");
        }
    }
}

#[test]
fn each_decade_and_class_has_its_drives() {
    use diskwright_simulator::catalogue::DriveClass;
    let count = |fits: &dyn Fn(&catalogue::CatalogueEntry) -> bool| {
        catalogue::built_in_entries().iter().filter(|e| fits(e)).count()
    };
    for decade in [1990, 2000, 2010, 2020] {
        let disks = count(&|e| e.class == DriveClass::Hdd && (decade..decade + 10).contains(&e.year));
        assert!(disks >= 3, "{disks} disks of the {decade}s");
    }
    for (class, min_count) in [
        (DriveClass::SataSsd, 3),
        (DriveClass::SasSsd, 2),
        (DriveClass::NvmeSsd, 6),
        (DriveClass::Cloud, 15),
        (DriveClass::Plain, 3),
    ] {
        assert!(count(&|e| e.class == class) >= min_count, "{}", class.name());
    }
    for id in
        ["st32171n", "st32171w", "st32272n", "hp97560", "compaq-9gb", "aws-gp2-100", "azure-p50", "gcp-pd-ssd-500"]
    {
        assert!(catalogue::find_entry(id).is_some(), "{id}");
    }
}

/// A valid entry, to be broken by tests.
const RIGHT: &str = r#"
[[drive]]
id = "mine"
name = "Mine"
vendor = "me"
year = 2026
class = "hdd"
capacity_gb = 1000
interface = "SATA"
source = "its label"

[drive.mechanical]
rpm = 7200
heads = 4
zones = 8
sustained_mb_s = [200, 100]
seek_ms = [0.5, 8.5, 16]
head_switch_ms = 1.0
write_settle_ms = 0.5
command_ms = 0.2
cache_kb = 65536
segments = 32
read_ahead = true
write_cache = true
interface_mb_s = 600
queue = 32
policy = "shortest-positioning"
"#;

#[test]
fn wrong_files_are_reported_with_line_and_remedy() {
    let one = catalogue::read("my.toml", RIGHT).expect("right");
    assert_eq!((one.len(), one[0].line), (1, 2));
    let instead = |from: &str, to: &str| RIGHT.replacen(from, to, 1);
    let cases: Vec<(String, &str)> = vec![
        ("[[drive]\n".into(), "my.toml:1: "),
        (
            instead("rpm = 7200", "rmp = 7200"),
            "my.toml:13: drive mine, mechanical: unknown key `rmp`; did you mean `rpm`?",
        ),
        (instead("rpm = 7200\n", ""), "my.toml:12: drive mine, mechanical: `rpm` is missing"),
        (instead("rpm = 7200", "rpm = \"fast\""), "my.toml:13: drive mine, mechanical: `rpm`: invalid type"),
        (instead("rpm = 7200", "rpm = 7"), "my.toml:2: drive mine: rpm: 7; expected 60 to 100,000"),
        (
            instead("class = \"hdd\"", "class = \"hd\""),
            "my.toml:7: drive mine: `class` cannot be `hd`; did you mean `hdd`?",
        ),
        (instead("capacity_gb = 1000", "capacity_gb = -1"), "capacity_gb: -1; expected"),
        (instead("year = 2026", "year = 26"), "year: 26; expected 1950 to 2100"),
        (instead("\"mine\"", "\"My Drive\""), "id: `My Drive`; expected lower-case letters"),
        (instead("[drive.mechanical]", "[drive.tape]"), "my.toml:12: drive mine: unknown key `tape`"),
        (
            instead("seek_ms = [0.5, 8.5, 16]", "seek_ms = [0.5, 18.5, 16]"),
            "drive mine: seek: 0.5, 18.5 and 16 ms; they must rise",
        ),
        (instead("seek_ms = [0.5, 8.5, 16]\n", ""), "one of `seek_ms` and `seek_curve`"),
        (
            instead("sustained_mb_s", "sectors = [100, 50]\nsustained_mb_s"),
            "one of `sectors`, `media_mb_s` and `sustained_mb_s`",
        ),
        (instead("\"shortest-positioning\"", "\"sptf\""), "policy: `sptf`; expected one of first-come, elevator"),
        (format!("{RIGHT}{RIGHT}"), "my.toml:29: drive mine: the id is already used at line 2"),
        (format!("{RIGHT}[drive.plain]\nservers = 1\nservice = {{ constant_us = 1 }}\n"), "only one of mechanical"),
        (RIGHT.split("[drive.mechanical]").next().unwrap_or_default().into(), "expected one of [drive.mechanical]"),
        (format!("{RIGHT}[drive.sources]\n\"a\" = [\"rpm\"]\n\"b\" = [\"rpm\"]\n"), "sources: `rpm` has two sources"),
        (
            instead(
                "source = ",
                "checks = [{ ask = \"random_read\", kb = 4, depth = 0, iops = [1, 2], printed = \"\" }]\nsource = ",
            ),
            "a depth of 0; expected 1 to 4096",
        ),
    ];
    for (text, says) in cases {
        let found = catalogue::read("my.toml", &text).map(|e| e.len()).expect_err(says).to_string();
        assert!(found.contains(says), "{found}\nshould say: {says}");
    }
}

#[test]
fn each_time_is_given_in_one_way() {
    let spread = |service: &str| {
        let plain = format!("[drive.plain]\nservers = 1\nservice = {service}\n");
        let text = format!("{}{plain}", RIGHT.split("[drive.mechanical]").next().unwrap_or_default());
        catalogue::read("my.toml", &text).map(|_| ()).map_err(|e| e.to_string())
    };
    for right in [
        "{ constant_us = 5 }",
        "{ median_us = 5, sigma = 0.2 }",
        "{ quantiles_us = [[0, 1], [0.5, 2], [1, 9]] }",
        "{ erlang_us = 5, stages = 3 }",
        "{ uniform_us = [1, 2] }",
    ] {
        assert_eq!(spread(right), Ok(()), "{right}");
    }
    for wrong in [
        "{ }",
        "{ constant_us = 5, exponential_us = 5 }",
        "{ median_us = 5 }",
        "{ erlang_us = 5 }",
        "{ constant_us = -1 }",
        "{ constant_us = 5, sigma = 1 }",
        "{ quantiles_us = [[0, 1]] }",
    ] {
        assert!(spread(wrong).is_err(), "{wrong}");
    }
}
