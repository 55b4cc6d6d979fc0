//! `explain NAME`: a counter by any of its names, a rule, a pack, a suite of `probe`, a drive.

use clap::Args;
use diskwright_base::units;
use diskwright_base::{Catalogue, Counter};
use diskwright_diagnosis::{Pack, Rule, packs};
use diskwright_probe::suites::{Suite, Time, Writes, suite, usual_plan};
use diskwright_report::{Style, explain};
use diskwright_simulator::catalogue::Entry;
use serde_json::{Value, json};

use super::{Failure, drives, output};

/// Arguments of `explain`.
#[derive(Args)]
pub struct Arguments {
    /// A counter by its id or by the name that NT, sysstat, Prometheus or the kernel gives it; a rule, pack, suite
    /// or drive
    #[arg(required = true)]
    name: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let name = arguments.name.join(" ");
    let counters = Catalogue::builtin().find(&name);
    let all = packs::all()?;
    let found_packs: Vec<&Pack> = all.iter().filter(|p| p.id == name).collect();
    let of_pack = |p: &'_ Pack, r: &Rule| r.id == name || format!("{}/{}", p.id, r.id) == name;
    let rules: Vec<(&Pack, &Rule)> =
        all.iter().flat_map(|p| p.rules.iter().map(move |r| (p, r))).filter(|(p, r)| of_pack(p, r)).collect();
    let suites: Vec<&Suite> = suite(&name).into_iter().collect();
    let drives: Vec<&Entry> = diskwright_simulator::catalogue::find(&name).into_iter().collect();
    let none = counters.is_empty() && rules.is_empty() && found_packs.is_empty() && suites.is_empty();
    if none && drives.is_empty() {
        let hint = "`diskwright list counters`, `list rules`, `list suites` and `list drives` print all names";
        return Err(Failure::Failed(format!("`{name}` is no counter, rule, pack, suite or drive known here; {hint}")));
    }
    if arguments.json {
        return output::json(&json!({
            "schema": "diskwright.explain/1",
            "name": name,
            "counters": counters.iter().map(|c| counter_json(c)).collect::<Vec<_>>(),
            "rules": rules.iter().map(|(p, r)| rule_json(p, r)).collect::<Vec<_>>(),
            "packs": found_packs.iter().map(|p| pack_json(p)).collect::<Vec<_>>(),
            "suites": suites.iter().map(|s| suite_json(s)).collect::<Vec<_>>(),
            "drives": drives.iter().map(|d| drives::drive_json(d)).collect::<Result<Vec<_>, _>>()?,
        }));
    }
    let style = output::style();
    let mut parts: Vec<String> = counters.iter().map(|c| diskwright_report::explain::counter(c, &style)).collect();
    parts.extend(rules.iter().map(|(p, r)| diskwright_report::explain::rule(p, r, &style)));
    parts.extend(found_packs.iter().map(|p| diskwright_report::explain::pack(p, &style)));
    parts.extend(suites.iter().map(|s| suite_page(s, &style)));
    for drive in drives {
        parts.push(drives::page(drive, &style)?);
    }
    output::text(&parts.join("\n"))
}

/// A suite of `probe` for people.
fn suite_page(suite: &Suite, style: &Style) -> String {
    let plan = usual_plan(suite);
    let writes = match suite.writes {
        Writes::Never => "never",
        Writes::IfAllowed => "to a file that it makes, or with --destroy-data-on NAME",
        Writes::Always => "always: to a file that it makes, or with --destroy-data-on NAME",
    };
    let usual = units::display(suite.time.usual().as_secs_f64(), "s");
    let time = match suite.time {
        Time::EachRun(_) => format!("--for is the time of each run, {usual} where nobody says"),
        Time::Whole(_) => format!("--for is the time of all of it, {usual} where nobody says"),
    };
    let takes = format!("at most about {} in {} runs; {time}", units::display(plan.seconds.round(), "s"), plan.runs);
    explain::page(
        suite.id,
        suite.title,
        suite.explain,
        &[
            ("good is", suite.good),
            ("writes", writes),
            ("takes", &takes),
            ("run it", &format!("diskwright probe {} TARGET", suite.id)),
        ],
        style,
    )
}

/// A suite of `probe` as JSON.
pub fn suite_json(suite: &Suite) -> Value {
    let plan = usual_plan(suite);
    json!({
        "id": suite.id,
        "title": suite.title,
        "explain": suite.explain,
        "good": suite.good,
        "writes": suite.writes != Writes::Never,
        "usual_s": plan.seconds,
        "usual_runs": plan.runs,
    })
}

/// A counter of the catalogue as JSON.
pub fn counter_json(counter: &Counter) -> Value {
    json!({
        "id": counter.id,
        "unit": counter.unit,
        "kind": counter.kind,
        "over_instances": counter.over_instances,
        "derived": !counter.derive.is_empty(),
        "names": counter.names,
        "explain": counter.explain,
        "trap": counter.trap,
        "source": counter.source,
    })
}

/// A rule as JSON.
pub fn rule_json(pack: &Pack, rule: &Rule) -> Value {
    json!({
        "pack": pack.id,
        "id": rule.id,
        "title": rule.title,
        "object": rule.object,
        "bottleneck": rule.bottleneck,
        "severity": rule.severity,
        "source": rule.source,
        "explain": rule.explain,
        "advice": rule.advice,
    })
}

/// A pack as JSON.
pub fn pack_json(pack: &Pack) -> Value {
    json!({
        "id": pack.id,
        "title": pack.title,
        "source": pack.source,
        "explain": pack.explain,
        "rules": pack.rules.len(),
    })
}
