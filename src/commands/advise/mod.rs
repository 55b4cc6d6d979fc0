//! `advise [LOG]`: improvements for this host, or for a host recorded in a log, with the evidence. Nothing is changed
//! unless `--apply` or `--undo` requests it.

mod changes;
mod screen;

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use diskwright_advise::{
    AdviceSeverity, CHECKS, ChangeBook, HostAdvice, HostFacts, HostLoad, HostLoadReader, HostPlatform, HostTree,
    ServerRole, advise,
};
use diskwright_base::{Ceiling, LogPiece, Note, Topology};
use serde_json::{Value, json};

use super::log::{self, LogWindow, Logs};
use super::{Failure, ceilings, first_given_option, name_search, output};

/// Arguments of `advise`.
#[derive(Args)]
pub struct Arguments {
    /// Logs of the host, as evidence; a log of `record` contains its host's settings, so it may
    /// come from another host
    log: Vec<PathBuf>,
    #[command(flatten)]
    window: LogWindow,
    /// Check a folder with another host's /proc and /sys, instead of this host
    #[arg(long, value_name = "DIR", conflicts_with_all = ["apply", "undo", "save", "diff"])]
    root: Option<PathBuf>,
    /// Role of the host: database, file-server, virtual-machine-host, web, desktop, unknown; by
    /// default inferred from running programs
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// Apply a low-risk item now, until the next restart; the previous setting is recorded
    #[arg(long, value_name = "ID", conflicts_with_all = ["undo", "save", "diff"])]
    apply: Option<String>,
    /// Undo what --apply changed
    #[arg(long, value_name = "ID", conflicts_with_all = ["save", "diff"])]
    undo: Option<String>,
    /// Never list this item (queue.scheduler@sda) or check (queue.scheduler) again (repeatable)
    #[arg(long, value_name = "ID")]
    ignore: Vec<String>,
    /// Stop ignoring this item or check (repeatable)
    #[arg(long, value_name = "ID")]
    unignore: Vec<String>,
    /// Save this host's settings, for --diff
    #[arg(long, conflicts_with = "diff")]
    save: bool,
    /// Show what changed on this host since --save: kernel, firmware, devices, mounts, settings
    #[arg(long)]
    diff: bool,
    /// Exit with code 1 if an item is at least this severe: info, notice, warning, critical
    #[arg(long, value_name = "SEVERITY", value_parser = parse_severity)]
    fail_on: Option<AdviceSeverity>,
    /// Show every item in full, and everything that could not be checked
    #[arg(long)]
    all: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn parse_severity(text: &str) -> Result<AdviceSeverity, String> {
    let severities = [AdviceSeverity::Info, AdviceSeverity::Notice, AdviceSeverity::Warning, AdviceSeverity::Critical];
    let severity = severities.into_iter().find(|severity| severity.name() == text);
    severity.ok_or_else(|| "expected info, notice, warning or critical".to_owned())
}

/// Origin of a host's facts.
enum FactOrigin {
    /// Read on this host.
    ThisHost,
    /// Recorded in a log.
    Log,
    /// Read in a folder with another host's files.
    Folder(PathBuf),
}

impl fmt::Display for FactOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FactOrigin::ThisHost => f.write_str("this host"),
            FactOrigin::Log => f.write_str("the log"),
            FactOrigin::Folder(path) => path.display().fmt(f),
        }
    }
}

/// A host, and the origin of its facts.
pub struct AdvisedHost {
    facts: HostFacts,
    origin: FactOrigin,
    /// Remarks on missing facts.
    remarks: Vec<String>,
}

/// Refuses options for the list of items if an action replaces the list.
fn refuse_unused(arguments: &Arguments) -> Result<(), Failure> {
    let actions = [
        ("--apply", arguments.apply.is_some()),
        ("--undo", arguments.undo.is_some()),
        ("--save", arguments.save),
        ("--diff", arguments.diff),
    ];
    let list_options = [
        ("--ignore", !arguments.ignore.is_empty()),
        ("--unignore", !arguments.unignore.is_empty()),
        ("--fail-on", arguments.fail_on.is_some()),
        ("--all", arguments.all),
    ];
    if !arguments.log.is_empty() && arguments.apply.is_none() && first_given_option(&actions).is_some() {
        return Err(Failure::Usage("--undo, --save and --diff are about this host, not about a log".into()));
    }
    match first_given_option(&actions).zip(first_given_option(&list_options)) {
        Some((action, option)) => {
            Err(Failure::Usage(format!("{option} is for the list of items, which {action} does not print")))
        }
        None => Ok(()),
    }
}

/// Runs `advise`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    refuse_unused(arguments)?;
    let role = arguments.role.as_deref().map(parse_role).transpose()?;
    let folder = advice_state_folder();
    if let Some(id) = &arguments.undo {
        return changes::undo_changes(id, &folder?, arguments.json);
    }
    if arguments.save {
        return changes::save_settings(&folder?, arguments.json);
    }
    if arguments.diff {
        return changes::print_settings_diff(&folder?, arguments.json);
    }
    let mut host = load_host(arguments, role)?;
    let mut advice = advise(&host.facts);
    if let Some(id) = &arguments.apply {
        if !matches!(host.origin, FactOrigin::ThisHost) {
            return Err(Failure::Usage(format!("--apply changes this host, and {} is of another one", host.origin)));
        }
        return changes::apply_items(id, &advice, &folder?, arguments.json);
    }
    if host.facts.is_container() {
        host.remarks
            .push("this is a container: the kernel, disks and most settings are the host's; run commands there".into());
    }
    let ignored = match update_ignored(arguments, folder.as_deref().ok()) {
        // read-only use gets an answer with some facts missing
        Err(error) if arguments.ignore.is_empty() && arguments.unignore.is_empty() => {
            host.remarks.push(format!("ignored items are listed: {error}"));
            Vec::new()
        }
        ignored => ignored?,
    };
    let item_count = advice.items.len();
    advice.items.retain(|item| !ignored.iter().any(|id| *id == item.id || *id == item.check));
    let left_out = item_count - advice.items.len();
    // the book of applied changes is about this host, not about one in a folder
    let folder = folder.ok().filter(|folder| arguments.root.is_none() && folder.is_dir());
    let applied = folder.map(|folder| ChangeBook::open(&folder));
    let applied = applied.transpose().unwrap_or_else(|error| {
        host.remarks.push(format!("what was applied is unknown: {error}"));
        None
    });
    let applied = applied.map_or_else(Vec::new, |book| book.changes().to_vec());
    if arguments.json {
        output::print_json(&advice_document(&host, &advice, left_out, &applied))?;
    } else {
        output::print_text(&screen::draw_advice(
            &host,
            &advice,
            left_out,
            &applied,
            arguments.all,
            &output::stdout_style(),
        ))?;
    }
    let is_too_severe =
        arguments.fail_on.is_some_and(|min_severity| advice.items.iter().any(|item| item.severity >= min_severity));
    if is_too_severe { Err(Failure::AlreadyReported(1)) } else { Ok(()) }
}

fn advice_document(
    host: &AdvisedHost,
    advice: &HostAdvice,
    ignored: usize,
    applied: &[diskwright_advise::SettingChange],
) -> Value {
    json!({
        "schema": "diskwright.advice/1",
        "from": host.origin.to_string(),
        "role": host.facts.role.name(),
        "role_from": host.facts.role_program,
        "machine": HostPlatform::from_tree(host.facts.tree()),
        "items": advice.items,
        "unknown": advice.unknown,
        "well": advice.well,
        "ignored": ignored,
        "applied": applied,
        "remarks": host.remarks,
    })
}

/// Parses a role.
fn parse_role(text: &str) -> Result<ServerRole, Failure> {
    ServerRole::parse(text).ok_or_else(|| {
        let names = ServerRole::ALL.map(ServerRole::name);
        let suggestion = name_search::suggestion_hint(text, names.iter().copied());
        Failure::Usage(format!("unknown role `{text}`{suggestion}; roles: {}", names.join(", ")))
    })
}

/// Folder for applied, ignored and saved settings.
fn advice_state_folder() -> Result<PathBuf, Failure> {
    let folder = ceilings::state_folder().map(|state| state.join("advice"));
    folder.ok_or_else(|| Failure::Failed("no folder to keep it in: set DISKWRIGHT_STATE or HOME".into()))
}

/// Returns the host of the logs, of a folder, or this one.
fn load_host(arguments: &Arguments, role: Option<ServerRole>) -> Result<AdvisedHost, Failure> {
    let known_ceilings = ceilings::known_ceilings();
    if arguments.log.is_empty() {
        if !arguments.window.is_whole() {
            return Err(Failure::Usage("--from and --to need a log".into()));
        }
        arguments.window.refuse_log_options()?;
        let root = arguments.root.as_deref().unwrap_or(Path::new("/"));
        if !root.is_dir() {
            return Err(Failure::Failed(format!("{}: not a folder", root.display())));
        }
        let origin = arguments.root.clone().map_or(FactOrigin::ThisHost, FactOrigin::Folder);
        let remarks = vec![
            "no log was given, so what matters under load is unknown; give one, or record one with `record`".into(),
        ];
        return Ok(AdvisedHost { facts: HostFacts::read(root, role).with_load(None, known_ceilings), origin, remarks });
    }
    let recorded = RecordedHost::read(&log::open(&arguments.log, &arguments.window)?)?;
    let ceilings = if recorded.ceilings.is_empty() { known_ceilings } else { &recorded.ceilings };
    let (facts, origin, remarks) = match (&arguments.root, recorded.tree) {
        // settings are judged as they are now, with the load that the log shows
        (None, _) if arguments.apply.is_some() && is_this_host(&recorded.topology) => {
            (HostFacts::read(Path::new("/"), role), FactOrigin::ThisHost, Vec::new())
        }
        (Some(root), _) => (HostFacts::read(root, role), FactOrigin::Folder(root.clone()), Vec::new()),
        (None, Some(tree)) => (HostFacts::from_facts(tree, recorded.topology, role), FactOrigin::Log, Vec::new()),
        (None, None) if is_this_host(&recorded.topology) => {
            let remark = "the log has no facts about the host; it is a log of this host, so its present settings were \
                          read"
                .to_owned();
            (HostFacts::read(Path::new("/"), role), FactOrigin::ThisHost, vec![remark])
        }
        (None, None) => {
            let remark = "the log has no facts about the host; only its devices are known".to_owned();
            (HostFacts::from_facts(HostTree::default(), recorded.topology, role), FactOrigin::Log, vec![remark])
        }
    };
    Ok(AdvisedHost { facts: facts.with_load(recorded.load, ceilings), origin, remarks })
}

/// True if a log's host is this one: name, kernel, memory and at least one disk are the same.
fn is_this_host(recorded: &Topology) -> bool {
    let this_host =
        diskwright_counters::live::sources::topology::read_topology(&diskwright_counters::live::Roots::default());
    let identity = (&recorded.host, &recorded.kernel, recorded.memory_bytes);
    // machines made from one image are alike, but their disks are not
    let serials = |topology: &Topology| -> BTreeSet<String> {
        topology.devices.iter().filter_map(|device| device.serial.clone()).collect()
    };
    let (recorded_serials, own_serials) = (serials(recorded), serials(&this_host));
    let has_other_disks =
        !recorded_serials.is_empty() && !own_serials.is_empty() && recorded_serials.is_disjoint(&own_serials);
    !recorded.host.is_empty()
        && !has_other_disks
        && identity == (&this_host.host, &this_host.kernel, this_host.memory_bytes)
}

/// Facts about a host in a log.
#[derive(Default)]
struct RecordedHost {
    tree: Option<HostTree>,
    topology: Topology,
    ceilings: Vec<Ceiling>,
    load: Option<HostLoad>,
}

impl RecordedHost {
    fn read(logs: &Logs) -> Result<RecordedHost, Failure> {
        let mut host = RecordedHost::default();
        let mut load = HostLoadReader::default();
        logs.read::<Failure>(|piece| {
            match piece {
                LogPiece::Frame(frame) => load.add_frame(frame),
                LogPiece::Note(note) => host.handle_note(&note)?,
            }
            Ok(())
        })?;
        host.load = load.into_load();
        Ok(host)
    }

    /// The last note of each kind counts: the host as it was at the end.
    fn handle_note(&mut self, note: &Note) -> Result<(), Failure> {
        match note.kind.as_str() {
            Note::TOPOLOGY => self.topology = Arc::unwrap_or_clone(note.read_topology()?),
            Note::HOST => self.tree = Some(serde_json::from_str(note.text())?),
            Note::CEILINGS => self.ceilings = Arc::unwrap_or_clone(note.read_ceilings()?),
            _ => {}
        }
        Ok(())
    }
}

/// Returns the ids of ignored items, after the requested changes to them.
fn update_ignored(arguments: &Arguments, folder: Option<&Path>) -> Result<Vec<String>, Failure> {
    let has_changes = !arguments.ignore.is_empty() || !arguments.unignore.is_empty();
    for id in &arguments.ignore {
        let check = id.split('@').next().unwrap_or(id);
        if !CHECKS.iter().any(|known| known.id == check) {
            let suggestion = name_search::suggestion_hint(check, CHECKS.iter().map(|known| known.id.as_str()));
            return Err(Failure::Usage(format!("--ignore `{id}`: there is no such check{suggestion}")));
        }
    }
    let Some(folder) = folder else {
        return if has_changes { advice_state_folder().map(|_| Vec::new()) } else { Ok(Vec::new()) };
    };
    Ok(diskwright_advise::baseline::update_ignored(folder, &arguments.ignore, &arguments.unignore)?)
}
