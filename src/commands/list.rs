//! `list WHAT`: the registries, for people and, with `--json`, for programs.

use clap::{Args, ValueEnum};
use diskwright_base::Catalogue;
use diskwright_counters::live::SOURCES;
use diskwright_diagnosis::packs;
use diskwright_report::TextTable;
use diskwright_simulator::array::{ArrayLevel, LevelForm};
use serde_json::{Value, json};

use super::explain::{counter_json, pack_json, rule_json};
use super::{Failure, output};

/// Arguments of `list`.
#[derive(Args)]
pub struct Arguments {
    /// Which registry
    what: Registry,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Registry {
    /// The counter catalogue
    Counters,
    /// The rules of all packs
    Rules,
    /// The rule packs
    Packs,
    /// The sources of a live machine's counters
    Sources,
    /// Log formats that can be read
    Formats,
    /// What `probe` can measure
    Suites,
    /// RAID levels: members, capacity, failures survived, cost of writes
    Levels,
    /// Drives that the simulator knows: disks since 1990, SSDs, cloud volumes
    Drives,
    /// Published measurements that the simulator is compared with
    Experiments,
    /// The maximum that `probe` measured for this machine's devices
    Ceilings,
    /// Technical terms that `explain` knows
    Terms,
}

/// Diskwright's own format; the others register themselves in their crate.
const OWN_FORMAT: (&str, &str, &str) =
    ("diskwright", "our own log", "A folder made by `record` or `import`, or one of its .dwlog files.");

/// Supported compressions; files are unpacked while they are read, whatever their names.
const COMPRESSIONS: &[(&str, &str)] = &[
    ("gzip", "compression: gzip (.gz), several in a row as well"),
    ("bzip2", "compression: bzip2 (.bz2), several in a row as well"),
    ("xz", "compression: xz (.xz), with up to 256 MiB of memory"),
    ("zstd", "compression: Zstandard (.zst)"),
];
const COMPRESSION_NOTE: &str = "Any log or request trace may be compressed with it. A file that unpacks to more than \
                        256 MiB and to 500 times its size is refused.";

/// Runs `list`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (name, entries, table) = match arguments.what {
        Registry::Counters => list_counters(),
        Registry::Rules => list_rules()?,
        Registry::Packs => list_packs()?,
        Registry::Sources => list_sources(),
        Registry::Formats => list_formats(),
        Registry::Suites => list_suites(),
        Registry::Levels => list_levels(),
        Registry::Drives => super::drives::list_drives(),
        Registry::Experiments => super::experiments::list_experiments()?,
        Registry::Ceilings => super::ceilings::list_ceilings(),
        Registry::Terms => list_terms(),
    };
    if arguments.json {
        return output::print_json(&json!({ "schema": "diskwright.list/1", "list": name, "entries": entries }));
    }
    output::print_text(&table.render(&output::wide_table_style()))
}

type Listing = (&'static str, Vec<Value>, TextTable);

fn list_counters() -> Listing {
    let counters = Catalogue::builtin().counters();
    let mut table = TextTable::new()
        .with_text_column("counter")
        .with_text_column("unit")
        .with_text_column("kind")
        .with_text_column("also known as");
    for counter in counters {
        let kind = json!(counter.kind).as_str().unwrap_or_default().replace('_', " ");
        let names = &counter.names;
        let other_name =
            names.nt.first().or(names.sysstat.first()).or(names.linux.first()).cloned().unwrap_or_default();
        table.add_row([counter.id.clone(), counter.unit.clone(), kind, other_name]);
    }
    ("counters", counters.iter().map(counter_json).collect(), table)
}

fn list_rules() -> Result<Listing, Failure> {
    let mut table = TextTable::new()
        .with_text_column("pack")
        .with_text_column("rule")
        .with_text_column("says")
        .with_text_column("severity")
        .with_text_column("source");
    let mut entries = Vec::new();
    for pack in packs::builtin_packs()? {
        for rule in &pack.rules {
            let json_text = |v: Value| v.as_str().unwrap_or_default().to_owned();
            let bottleneck = json_text(json!(rule.bottleneck));
            table.add_row([
                pack.id.clone(),
                rule.id.clone(),
                bottleneck,
                json_text(json!(rule.severity)),
                rule.source.clone(),
            ]);
            entries.push(rule_json(&pack, rule));
        }
    }
    Ok(("rules", entries, table))
}

fn list_packs() -> Result<Listing, Failure> {
    let packs = packs::builtin_packs()?;
    let mut table = TextTable::new().with_text_column("pack").with_text_column("rules").with_text_column("title");
    for pack in &packs {
        table.add_row([pack.id.clone(), pack.rules.len().to_string(), pack.title.clone()]);
    }
    Ok(("packs", packs.iter().map(pack_json).collect(), table))
}

fn list_sources() -> Listing {
    let mut table = TextTable::new().with_text_column("source").with_text_column("files").with_text_column("brings");
    let mut entries = Vec::new();
    for source in SOURCES {
        table.add_row([source.id.to_owned(), source.files.join(", "), source.explain.to_owned()]);
        entries.push(json!({ "id": source.id, "files": source.files, "explain": source.explain }));
    }
    ("sources", entries, table)
}

fn list_formats() -> Listing {
    let mut table = TextTable::new().with_text_column("format").with_text_column("what it is").with_text_column("more");
    let mut entries = Vec::new();
    let foreign = diskwright_logs::FORMATS.iter().map(|f| (f.id, f.title, f.explain));
    let traces = diskwright_traces::FORMATS.iter().map(|f| (f.id, f.title, f.explain));
    let packed = COMPRESSIONS.iter().map(|(id, title)| (*id, *title, COMPRESSION_NOTE));
    for (id, title, explain) in std::iter::once(OWN_FORMAT).chain(foreign).chain(traces).chain(packed) {
        table.add_row([id, title, explain]);
        entries.push(json!({ "id": id, "title": title, "explain": explain }));
    }
    ("formats", entries, table)
}

fn list_suites() -> Listing {
    let mut table = TextTable::new()
        .with_text_column("suite")
        .with_text_column("takes")
        .with_text_column("measures")
        .with_text_column("a good result");
    let mut entries = Vec::new();
    for suite in diskwright_probe::SUITES {
        let suite_document = super::explain::suite_json(suite);
        let time =
            diskwright_base::units::format_value(suite_document["usual_s"].as_f64().unwrap_or(f64::NAN).round(), "s");
        table.add_row([suite.id.to_owned(), time, suite.title.to_owned(), suite.good.to_owned()]);
        entries.push(suite_document);
    }
    // these are only in the table: they take a folder, and their output is not a result of `probe`
    for suite in super::probe::sort_suites::SORT_SUITES {
        table.add_row([suite.id, "by --size", suite.title, suite.good]);
    }
    ("suites", entries, table)
}

fn list_terms() -> Listing {
    let mut table = TextTable::new().with_text_column("term").with_text_column("what it is");
    for term in diskwright_base::glossary::builtin_terms() {
        table.add_row([term.names[0].clone(), term.title.clone()]);
    }
    ("terms", diskwright_base::glossary::builtin_terms().iter().map(|t| json!(t)).collect(), table)
}

fn list_levels() -> Listing {
    let mut table = TextTable::new()
        .with_text_column("level")
        .with_text_column("members")
        .with_text_column("usable")
        .with_text_column("survives failures of");
    table = table.with_text_column("I/Os per small write").with_text_column("full stripe costs");
    let mut entries = Vec::new();
    for level in ArrayLevel::ALL {
        let (info, level_document) = (level.info(), level_json(level));
        let text = |key: &str| level_document[key].as_str().unwrap_or_default().to_owned();
        let min_members = format!("at least {}", info.min_members);
        let (capacity, survives) = (info.capacity.clone(), info.survives.clone());
        let (small_write, full_stripe) = (text("small_write_operations"), text("full_stripe_factor"));
        table.add_row([level.name().to_owned(), min_members, capacity, survives, small_write, full_stripe]);
        entries.push(level_document);
    }
    ("levels", entries, table)
}

/// Returns a RAID level as JSON.
pub fn level_json(level: ArrayLevel) -> Value {
    let info = level.info();
    let [members, _] = info.example;
    let writes_all_members = matches!(level, ArrayLevel::Raid1 | ArrayLevel::Raid3);
    let small_write =
        if writes_all_members { "one a member".into() } else { level.small_write_factor(members).to_string() };
    let full_stripe = match info.form {
        LevelForm::Parity => format!("N / (N - {})", info.parities),
        _ => small_write.clone(),
    };
    let layouts: Vec<&str> = info.layouts.iter().map(|l| l.name()).collect();
    json!({
        "id": level.name(), "also": info.aliases, "members_least": info.min_members,
        "capacity": info.capacity, "survives": info.survives, "small_write_operations": small_write,
        "full_stripe_factor": full_stripe, "layouts": layouts, "explain": info.explain.trim(), "source": info.source,
    })
}
