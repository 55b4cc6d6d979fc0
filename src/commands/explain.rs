//! `explain NAME`: a technical term, a counter by any of its names, a rule, a pack, a suite of `probe`, a drive, a RAID
//! level. A name that nothing has is searched for, and matches are listed.

use clap::Args;
use diskwright_base::glossary::{self, GlossaryTerm};
use diskwright_base::units;
use diskwright_base::{Catalogue, Counter};
use diskwright_diagnosis::{Pack, Rule, packs};
use diskwright_probe::suites::{Suite, SuiteTime, Writes, default_plan, find_suite};
use diskwright_report::{Style, TextTable, explain};
use diskwright_simulator::ArrayLevel;
use diskwright_simulator::catalogue::CatalogueEntry as Drive;
use serde_json::{Value, json};

use super::name_search::{self, ExplainEntry, MatchQuality};
use super::{Failure, drives, list, output};

/// Arguments of `explain`.
#[derive(Args)]
pub struct Arguments {
    /// A term such as PSI or fsync; a counter by its id or its name in NT, sysstat, Prometheus or the kernel; a
    /// rule, pack, suite, drive or RAID level
    #[arg(required = true)]
    name: Vec<String>,
    /// List everything that contains the name
    #[arg(long)]
    all: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Maximum number of pages printed at once; more matches are listed.
const MAX_PAGES: usize = 4;
/// Maximum number of list entries, unless --all is given.
const MAX_LISTED: usize = 20;

/// Everything that has one name.
struct NameMatches<'a> {
    terms: Vec<&'static GlossaryTerm>,
    counters: Vec<&'static Counter>,
    rules: Vec<(&'a Pack, &'a Rule)>,
    packs: Vec<&'a Pack>,
    suites: Vec<&'static Suite>,
    drives: Vec<&'static Drive>,
    levels: Vec<ArrayLevel>,
}

impl<'a> NameMatches<'a> {
    fn find_matches(name: &str, packs: &'a [Pack]) -> NameMatches<'a> {
        let is_named = |p: &Pack, r: &Rule| r.id == name || format!("{}/{}", p.id, r.id) == name;
        let is_term = |t: &&GlossaryTerm| t.names.iter().chain([&t.id]).any(|n| n.eq_ignore_ascii_case(name));
        let rules = packs.iter().flat_map(|p| p.rules.iter().map(move |r| (p, r)));
        let is_level = |l: &ArrayLevel| name.chars().any(char::is_alphabetic) && ArrayLevel::parse(name) == Some(*l);
        NameMatches {
            terms: glossary::builtin_terms().iter().filter(is_term).collect(),
            counters: Catalogue::builtin().find_by_exact_name(name),
            rules: rules.filter(|(p, r)| is_named(p, r)).collect(),
            packs: packs.iter().filter(|p| p.id == name).collect(),
            suites: find_suite(name).into_iter().collect(),
            drives: diskwright_simulator::catalogue::find_entry(name).into_iter().collect(),
            levels: ArrayLevel::ALL.into_iter().filter(is_level).collect(),
        }
    }

    fn match_count(&self) -> usize {
        let count = self.terms.len() + self.counters.len() + self.rules.len() + self.packs.len();
        count + self.suites.len() + self.drives.len() + self.levels.len()
    }

    /// True if there are only counters, and none by its own id.
    fn is_by_part(&self, name: &str) -> bool {
        self.match_count() == self.counters.len() && self.counters.iter().all(|c| c.id != name)
    }

    /// Draws the pages, one after another.
    fn draw_pages(&self, style: &Style) -> Result<Vec<String>, Failure> {
        let mut pages: Vec<String> = self.terms.iter().map(|t| explain::explain_term(t, style)).collect();
        pages.extend(self.counters.iter().map(|c| explain::explain_counter(c, style)));
        pages.extend(self.rules.iter().map(|(p, r)| explain::explain_rule(p, r, style)));
        pages.extend(self.packs.iter().map(|p| explain::explain_pack(p, style)));
        pages.extend(self.suites.iter().map(|s| suite_page(s, style)));
        for drive in &self.drives {
            pages.push(drives::drive_page(drive, style)?);
        }
        pages.extend(self.levels.iter().map(|l| level_page(*l, style)));
        Ok(pages)
    }
}

/// Runs `explain`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let packs = packs::builtin_packs()?;
    let name = arguments.name.join(" ");
    let is_known = |name: &str| NameMatches::find_matches(name, &packs).match_count() > 0;
    // `queue depth` is one name, `psi fsync` are two
    if arguments.name.len() > 1 && !is_known(&name) && arguments.name.iter().all(|name| is_known(name)) {
        if arguments.json {
            return Err(Failure::Usage(format!("--json: one name at a time; `{name}` are several")));
        }
        return arguments.name.iter().try_for_each(|name| explain_name(name, arguments, &packs));
    }
    explain_name(&name, arguments, &packs)
}

/// Explains one name.
fn explain_name(name: &str, arguments: &Arguments, packs: &[Pack]) -> Result<(), Failure> {
    let exact = NameMatches::find_matches(name, packs);
    let entries = name_search::all_entries(packs);
    let matches = name_search::find_matching(&entries, name);
    if exact.match_count() == 0 && matches.is_empty() {
        return Err(unknown_name_failure(name, &entries));
    }
    if arguments.json {
        return output::print_json(&answer_document(name, &exact, &matches)?);
    }
    let style = output::stdout_style();
    let other_matches = matches
        .iter()
        .filter(|(quality, _)| *quality >= MatchQuality::Part)
        .count()
        .saturating_sub(exact.match_count());
    // `disk` is the last word of a counter's name, and part of many others
    let is_vague = exact.is_by_part(name) && other_matches > MAX_LISTED;
    if exact.match_count() == 0 || exact.match_count() > MAX_PAGES || is_vague || arguments.all {
        return output::print_text(&format_listing(name, &matches, arguments.all));
    }
    let mut text = exact.draw_pages(&style)?.join("\n");
    if other_matches > 0 {
        text.push_str(&format!(
            "\n{} this name: diskwright explain --all {}\n",
            units::format_count(other_matches, "more contains", "more contain"),
            quote_name(name)
        ));
    }
    output::print_text(&text)
}

fn quote_name(name: &str) -> String {
    let is_plain = name.chars().all(|c| c.is_alphanumeric() || "._-/%".contains(c));
    if is_plain { name.to_owned() } else { format!("\"{name}\"") }
}

/// Failure for a name that nothing has.
fn unknown_name_failure(name: &str, entries: &[ExplainEntry]) -> Failure {
    let similar: Vec<String> =
        name_search::find_similar(entries, name).iter().map(|e| format!("`{}` ({})", e.name, e.kind)).collect();
    let hint = match similar.as_slice() {
        [] => "`diskwright list counters`, `list rules`, `list suites` and `list drives` print all names".to_owned(),
        similar => format!("did you mean {}?", similar.join(" or ")),
    };
    Failure::Failed(format!("unknown name `{name}`: no term, counter, rule, pack, suite, drive or RAID level; {hint}"))
}

/// Formats matches, one per line.
fn format_listing(name: &str, matches: &[(MatchQuality, &ExplainEntry)], show_all: bool) -> String {
    let max_entries = if show_all { usize::MAX } else { MAX_LISTED };
    let mut table = TextTable::new().with_text_column("name").with_text_column("is a").with_text_column("what it is");
    for (_, entry) in matches.iter().take(max_entries) {
        table.add_row([entry.name.clone(), entry.kind.to_owned(), entry.title.clone()]);
    }
    let mut text = table.render(&output::wide_table_style());
    let unlisted = matches.len().saturating_sub(max_entries);
    let more = if unlisted > 0 {
        format!("{unlisted} more: diskwright explain --all {}. ", quote_name(name))
    } else {
        String::new()
    };
    text.push_str(&format!("\n{more}`diskwright explain NAME` explains one of them.\n"));
    text
}

fn answer_document(
    name: &str,
    exact: &NameMatches<'_>,
    matches: &[(MatchQuality, &ExplainEntry)],
) -> Result<Value, Failure> {
    // also counters by parts of their names, as long as nothing else matches
    let counters = Catalogue::builtin().find_by_name(name);
    Ok(json!({
        "schema": "diskwright.explain/1",
        "name": name,
        "terms": exact.terms,
        "counters": counters.iter().map(|c| counter_json(c)).collect::<Vec<_>>(),
        "rules": exact.rules.iter().map(|(p, r)| rule_json(p, r)).collect::<Vec<_>>(),
        "packs": exact.packs.iter().map(|p| pack_json(p)).collect::<Vec<_>>(),
        "suites": exact.suites.iter().map(|s| suite_json(s)).collect::<Vec<_>>(),
        "drives": exact.drives.iter().map(|d| drives::drive_json(d)).collect::<Result<Vec<_>, _>>()?,
        "levels": exact.levels.iter().map(|l| list::level_json(*l)).collect::<Vec<_>>(),
        "matches": matches.iter().map(|(_, e)| e.summary_json()).collect::<Vec<_>>(),
    }))
}

/// Draws a RAID level as text.
fn level_page(level: ArrayLevel, style: &Style) -> String {
    let fields = list::level_json(level);
    let text = |key: &str| fields[key].as_str().unwrap_or_default().to_owned();
    let info = level.info();
    explain::explain_entry(
        level.name(),
        "RAID level",
        info.explain.trim(),
        &[
            ("members", &format!("at least {}", info.min_members)),
            ("usable", &info.capacity),
            ("survives", &format!("failures of {}", info.survives)),
            ("small write", &format!("{} member I/Os", text("small_write_operations"))),
            ("source", &info.source),
        ],
        style,
    )
}

/// Draws a suite of `probe` as text.
fn suite_page(suite: &Suite, style: &Style) -> String {
    let plan = default_plan(suite);
    let writes = match suite.writes {
        Writes::Never => "never",
        Writes::IfAllowed => "to a file that it creates, or with --destroy-data-on NAME",
        Writes::Always => "always: to a file that it creates, or with --destroy-data-on NAME",
    };
    let usual = units::format_value(suite.time.default_duration().as_secs_f64(), "s");
    let time = match suite.time {
        SuiteTime::EachRun(_) => format!("--for is the duration of each run, by default {usual}"),
        SuiteTime::Whole(_) => format!("--for is the total duration, by default {usual}"),
    };
    let runs = units::format_count(u64::from(plan.runs), "run", "runs");
    let takes = format!("at most about {} in {runs}; {time}", units::format_value(plan.seconds.round(), "s"));
    explain::explain_entry(
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
    let plan = default_plan(suite);
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
