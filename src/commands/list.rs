//! `list WHAT`: the registries, for people and, with `--json`, for programs.

use clap::{Args, ValueEnum};
use diskwright_base::Catalogue;
use diskwright_counters::live::SOURCES;
use diskwright_diagnosis::packs;
use diskwright_report::Table;
use diskwright_simulator::array::{Form, Level};
use serde_json::{Value, json};

use super::explain::{counter_json, pack_json, rule_json};
use super::{Failure, output};

/// Arguments of `list`.
#[derive(Args)]
pub struct Arguments {
    /// Which registry
    what: What,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum What {
    /// The counter catalogue
    Counters,
    /// The rules of all packs
    Rules,
    /// The rule packs
    Packs,
    /// Where a live machine's counters come from
    Sources,
    /// Log formats that can be read
    Formats,
    /// What `probe` can measure
    Suites,
    /// RAID levels: members, capacity, failures survived, what writes cost
    Levels,
    /// Drives that the simulator knows: disks since 1990, SSDs, cloud volumes
    Drives,
    /// Published measurements that the simulator is held against
    Experiments,
    /// What `probe` measured this machine's devices to do at most
    Ceilings,
}

/// Our own format; the others register themselves in their crate.
const OWN: (&str, &str, &str) =
    ("diskwright", "our own log", "A folder made by `record` or `import`, or one of its .dwlog files.");

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (name, entries, table) = match arguments.what {
        What::Counters => counters(),
        What::Rules => rules()?,
        What::Packs => all_packs()?,
        What::Sources => sources(),
        What::Formats => formats(),
        What::Suites => suites(),
        What::Levels => levels(),
        What::Drives => super::drives::listing(),
        What::Experiments => super::experiments::listing()?,
        What::Ceilings => super::ceilings::listing(),
    };
    if arguments.json {
        return output::json(&json!({ "schema": "diskwright.list/1", "list": name, "entries": entries }));
    }
    output::text(&table.render(&output::wide_style()))
}

type Listing = (&'static str, Vec<Value>, Table);

fn counters() -> Listing {
    let all = Catalogue::builtin().counters();
    let mut table = Table::new().text("counter").text("unit").text("kind").text("also known as");
    for counter in all {
        let kind = json!(counter.kind).as_str().unwrap_or_default().replace('_', " ");
        let names = &counter.names;
        let known = names.nt.first().or(names.sysstat.first()).or(names.linux.first()).cloned().unwrap_or_default();
        table.row([counter.id.clone(), counter.unit.clone(), kind, known]);
    }
    ("counters", all.iter().map(counter_json).collect(), table)
}

fn rules() -> Result<Listing, Failure> {
    let mut table = Table::new().text("pack").text("rule").text("says").text("severity").text("source");
    let mut entries = Vec::new();
    for pack in packs::all()? {
        for rule in &pack.rules {
            let word = |v: Value| v.as_str().unwrap_or_default().to_owned();
            let says = word(json!(rule.bottleneck));
            table.row([pack.id.clone(), rule.id.clone(), says, word(json!(rule.severity)), rule.source.clone()]);
            entries.push(rule_json(&pack, rule));
        }
    }
    Ok(("rules", entries, table))
}

fn all_packs() -> Result<Listing, Failure> {
    let all = packs::all()?;
    let mut table = Table::new().text("pack").text("rules").text("title");
    for pack in &all {
        table.row([pack.id.clone(), pack.rules.len().to_string(), pack.title.clone()]);
    }
    Ok(("packs", all.iter().map(pack_json).collect(), table))
}

fn sources() -> Listing {
    let mut table = Table::new().text("source").text("files").text("brings");
    let mut entries = Vec::new();
    for source in SOURCES {
        table.row([source.id.to_owned(), source.files.join(", "), source.explain.to_owned()]);
        entries.push(json!({ "id": source.id, "files": source.files, "explain": source.explain }));
    }
    ("sources", entries, table)
}

fn formats() -> Listing {
    let mut table = Table::new().text("format").text("what it is").text("more");
    let mut entries = Vec::new();
    let foreign = diskwright_logs::FORMATS.iter().map(|f| (f.id, f.title, f.explain));
    let traces = diskwright_traces::FORMATS.iter().map(|f| (f.id, f.title, f.explain));
    for (id, title, explain) in std::iter::once(OWN).chain(foreign).chain(traces) {
        table.row([id, title, explain]);
        entries.push(json!({ "id": id, "title": title, "explain": explain }));
    }
    ("formats", entries, table)
}

fn suites() -> Listing {
    let mut table = Table::new().text("suite").text("takes").text("measures").text("a good result");
    let mut entries = Vec::new();
    for suite in diskwright_probe::suites::SUITES {
        let told = super::explain::suite_json(suite);
        let time = diskwright_base::units::display(told["usual_s"].as_f64().unwrap_or(f64::NAN).round(), "s");
        table.row([suite.id.to_owned(), time, suite.title.to_owned(), suite.good.to_owned()]);
        entries.push(told);
    }
    ("suites", entries, table)
}

fn levels() -> Listing {
    let mut table = Table::new().text("level").text("members").text("usable").text("survives failures of");
    table = table.text("I/Os a small write").text("whole rows cost");
    let mut entries = Vec::new();
    for level in Level::ALL {
        let info = level.info();
        let [members, _] = info.example;
        let each = matches!(level, Level::Raid1 | Level::Raid3);
        let small = if each { "one a member".into() } else { level.small_write_factor(members).to_string() };
        let rows = match info.form {
            Form::Parity => format!("N / (N - {})", info.parities),
            _ => small.clone(),
        };
        let layouts: Vec<&str> = info.layouts.iter().map(|l| l.name()).collect();
        let least = format!("at least {}", info.members_least);
        let (capacity, survives) = (info.capacity.clone(), info.survives.clone());
        table.row([level.name().to_owned(), least, capacity, survives, small.clone(), rows.clone()]);
        entries.push(json!({
            "id": level.name(), "also": info.also, "members_least": info.members_least,
            "capacity": info.capacity, "survives": info.survives, "small_write_operations": small,
            "full_stripe_factor": rows, "layouts": layouts, "explain": info.explain.trim(), "source": info.source,
        }));
    }
    ("levels", entries, table)
}
