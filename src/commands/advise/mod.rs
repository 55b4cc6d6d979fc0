//! `advise [LOG]`: improvements for this host, or for a host recorded in a log, with the evidence. Nothing is changed
//! unless `--apply` or `--undo` requests it.

mod advised_host;
mod changes;
mod live_log;
mod screen;

use std::path::{Path, PathBuf};

use clap::Args;
use diskwright_advise::{AdviceSeverity, CHECKS, ChangeBook, HostAdvice, HostPlatform, ServerRole, advise};
use serde_json::{Value, json};

use super::log::LogWindow;
use super::ssh::background_log::receive_short_log;
use super::ssh::{SshArguments, run_if_program_is_there};
use super::{Failure, ceilings, first_given_option, name_search, output};

use advised_host::{AdvisedHost, FactOrigin};

/// Arguments of `advise`.
#[derive(Args, Clone)]
pub struct Arguments {
    /// Logs of the host, as evidence; a log of `record` contains its host's settings, so it may
    /// come from another host. By default, the log that is being recorded on this host now
    log: Vec<PathBuf>,
    /// Do not look for a log that is being recorded: judge the settings alone
    #[arg(long, conflicts_with = "log")]
    no_log: bool,
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
    #[command(flatten)]
    ssh: SshArguments,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn parse_severity(text: &str) -> Result<AdviceSeverity, String> {
    let severities = [AdviceSeverity::Info, AdviceSeverity::Notice, AdviceSeverity::Warning, AdviceSeverity::Critical];
    let severity = severities.into_iter().find(|severity| severity.name() == text);
    severity.ok_or_else(|| "expected info, notice, warning or critical".to_owned())
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
    if arguments.ssh.is_given()? {
        return advise_over_ssh(arguments);
    }
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
    let mut host = AdvisedHost::load(arguments, role)?;
    let mut advice = advise(&host.facts);
    if let Some(verdict) = &host.verdict {
        advice.put_related_first(&host.facts, &verdict.troubles);
    }
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
    let applied = folder.map_or_else(Vec::new, |folder| read_applied(&folder, &mut host));
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

/// Advises another host: by our program there, or by what a shell loop sends of it.
fn advise_over_ssh(arguments: &Arguments) -> Result<(), Failure> {
    let is_local = [("a log", !arguments.log.is_empty()), ("--root", arguments.root.is_some())];
    if let Some(option) = first_given_option(&is_local) {
        return Err(Failure::Usage(format!("--ssh asks a host now; it does not go with {option}")));
    }
    if run_if_program_is_there(&arguments.ssh, "advise")? {
        return Ok(());
    }
    let changes = [
        ("--apply", arguments.apply.is_some()),
        ("--undo", arguments.undo.is_some()),
        ("--save", arguments.save),
        ("--diff", arguments.diff),
    ];
    if let Some(option) = first_given_option(&changes) {
        return Err(Failure::Failed(format!("{option} needs diskwright on that host (--ssh-copy brings it)")));
    }
    let log = receive_short_log(&arguments.ssh, "advise")?;
    run(&Arguments { log: vec![log.path()], ssh: SshArguments::default(), ..arguments.clone() })
}

/// What was applied on this host; a book that cannot be read is a remark.
fn read_applied(folder: &Path, host: &mut AdvisedHost) -> Vec<diskwright_advise::SettingChange> {
    match ChangeBook::open(folder) {
        Ok(book) => book.changes().to_vec(),
        Err(error) => {
            host.remarks.push(format!("what was applied is unknown: {error}"));
            Vec::new()
        }
    }
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
        "log": host.found_log.as_deref().map(Path::to_string_lossy),
        "verdict": host.verdict.as_ref().map(advised_host::LogVerdict::document),
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
