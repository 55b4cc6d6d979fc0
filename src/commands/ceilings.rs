//! Profiles that `probe` measured: finding, saving and deleting them (`ceilings forget`), and the ceilings that
//! diagnosis takes from them.

use std::path::PathBuf;
use std::sync::OnceLock;

use clap::{Args, Subcommand};
use diskwright_base::{Ceiling, Note, Topology, ceiling};
use diskwright_counters::live::{Roots, sources::topology};
use diskwright_probe::ProbeTarget;
use diskwright_probe::profile::{self, MeasurementContext, Profile, ProfileEntry, UnreadableProfile};
use diskwright_report::TextTable;
use diskwright_results::facts::{DeviceFacts, ProfileUpdate};
use diskwright_results::result::RunResult;
use serde_json::{Value, json};

use super::{Failure, name_search, output};

/// State folder of root, readable by everybody.
const SYSTEM_STATE_FOLDER: &str = "/var/lib/diskwright";
/// A figure below this share of the saved one is reported.
const NOTABLE_DROP_FACTOR: f64 = 0.8;

/// Arguments of `ceilings`.
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    what: CeilingsSubcommand,
}

#[derive(Subcommand)]
enum CeilingsSubcommand {
    /// Delete a device's profile; `why` then no longer judges by it
    Forget {
        /// The device (`sda`, `/dev/sda`), or its key from `list ceilings`
        device: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Runs `ceilings`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let CeilingsSubcommand::Forget { device, json } = &arguments.what;
    forget_profile(device, *json)
}

fn forget_profile(typed: &str, as_json: bool) -> Result<(), Failure> {
    let (all, damaged) = load_profiles();
    damaged.iter().for_each(warn_unreadable_profile);
    let here = topology::read_topology(&Roots::default());
    let chosen = find_profiles(&all, typed, &here).map_err(Failure::Failed)?;
    let mut forgotten = Vec::new();
    for stored in chosen {
        let (path, profile) = (&stored.path, &stored.profile);
        profile::remove(stored).map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))?;
        forgotten.push(json!({
            "device": profile.device, "key": profile.key, "measured": profile.measured,
            "file": path.display().to_string(),
        }));
        if !as_json {
            let day = profile.measured.get(..10).unwrap_or(&profile.measured);
            output::print_text(&format!(
                "Deleted the profile of {} ({}), measured on {day}: removed {}\n",
                profile.device,
                profile.key,
                path.display()
            ))?;
        }
    }
    if as_json {
        output::print_json(&json!({ "schema": "diskwright.ceilings-forget/1", "forgotten": forgotten }))?;
    }
    Ok(())
}

/// Finds the profiles that a word names: by key, by the current name of the device, or by its name when it was
/// measured, as long as the name is unambiguous.
fn find_profiles<'a>(all: &'a [ProfileEntry], typed: &str, here: &Topology) -> Result<Vec<&'a ProfileEntry>, String> {
    let name = typed.strip_prefix("/dev/").unwrap_or(typed);
    let now = ceiling::device_keys(here).get(name).cloned();
    let of_key = |key: &str| all.iter().filter(|s| s.profile.key == key).collect::<Vec<_>>();
    let found = [of_key(typed), now.as_deref().map(of_key).unwrap_or_default()];
    if let Some(found) = found.into_iter().find(|found| !found.is_empty()) {
        return Ok(found);
    }
    let named: Vec<&ProfileEntry> = all.iter().filter(|s| s.profile.device == name).collect();
    let mut keys: Vec<&str> = named.iter().map(|s| s.profile.key.as_str()).collect();
    keys.dedup();
    match keys.len() {
        1 => Ok(named),
        0 => {
            let names = all.iter().flat_map(|s| [s.profile.device.as_str(), s.profile.key.as_str()]);
            let near = name_search::suggestion_hint(name, names);
            Err(format!("there is no saved profile of `{typed}`{near}; `diskwright list ceilings` shows all"))
        }
        _ => Err(format!("{} devices were called `{typed}`; give one by its key: {}", keys.len(), keys.join(", "))),
    }
}

/// Folder of the user's own profiles.
fn own_profile_folder() -> Option<PathBuf> {
    state_folder().map(|base| base.join("profiles"))
}

/// Folder for state that outlives a run: `DISKWRIGHT_STATE`, the user's state folder or, for root, the machine's.
/// `None` for a user without a home.
pub fn state_folder() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    variable("DISKWRIGHT_STATE").or_else(|| {
        if rustix::process::geteuid().is_root() {
            return Some(PathBuf::from(SYSTEM_STATE_FOLDER));
        }
        let home = || variable("HOME").map(|home| home.join(".local/state"));
        variable("XDG_STATE_HOME").or_else(home).map(|state| state.join("diskwright"))
    })
}

/// Folders that are searched for saved state: the user's own, then the machine's. `DISKWRIGHT_STATE` replaces both.
pub fn state_folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = state_folder().into_iter().collect();
    let machine = PathBuf::from(SYSTEM_STATE_FOLDER);
    let alone = std::env::var_os("DISKWRIGHT_STATE").is_some_and(|v| !v.is_empty());
    if !alone && !folders.contains(&machine) {
        folders.push(machine);
    }
    folders
}

fn load_profiles() -> (Vec<ProfileEntry>, Vec<UnreadableProfile>) {
    let (mut all, mut damaged) = (Vec::new(), Vec::new());
    for folder in state_folders() {
        let (mut found, mut wrong) = profile::load_profiles(&folder.join("profiles"));
        all.append(&mut found);
        damaged.append(&mut wrong);
    }
    (all, damaged)
}

/// Returns the ceilings of all profiles, which are read once. Damaged files are reported on standard error.
pub fn known_ceilings() -> &'static [Ceiling] {
    static KNOWN: OnceLock<Vec<Ceiling>> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let (all, damaged) = load_profiles();
        damaged.iter().for_each(warn_unreadable_profile);
        all.iter().map(|s| s.profile.ceiling()).collect()
    })
}

/// Returns a note with the ceilings of the devices in a topology note, so that a log can be judged on another machine.
/// `None` if there are none.
pub fn ceilings_note(topology: &Note) -> Option<Note> {
    let shown = topology.read_topology().ok()?;
    let keys = ceiling::device_keys(&shown);
    let is_here = |c: &&Ceiling| keys.values().any(|key| *key == c.key);
    let here: Vec<Ceiling> = known_ceilings().iter().filter(is_here).cloned().collect();
    (!here.is_empty()).then(|| Note::ceilings(topology.time_ns, here))
}

fn warn_unreadable_profile(damaged: &UnreadableProfile) {
    let path = damaged.path.display();
    output::print_warning(format_args!(
        "the profile {path} is ignored: {}; measure it again with `probe`",
        damaged.because
    ));
}

/// Returns the circumstances of a measurement, as far as the target knows them.
pub fn measurement_context(target: &ProbeTarget) -> MeasurementContext {
    MeasurementContext {
        target_bytes: target.bytes,
        is_file: !target.is_device,
        was_filled: target.was_made(),
        has_holes: target.is_sparse,
        ..MeasurementContext::default()
    }
}

/// Saves the results of a measurement's runs in the device's profile.
pub fn save_profile(
    facts: &DeviceFacts,
    runs: &[RunResult],
    occasion: &MeasurementContext,
    replace: bool,
) -> ProfileUpdate {
    let because = |text: String| ProfileUpdate { file: None, remarks: vec![text] };
    if let Some(useless) = occasion.reason_to_discard(facts) {
        return because(useless.to_owned());
    }
    let profile = Profile::from_runs(facts, runs, occasion);
    if profile.figures.is_empty() {
        return because("the result contains no ceiling of the device".into());
    }
    let Some(folder) = own_profile_folder() else {
        return because("no folder to save it in: set DISKWRIGHT_STATE or HOME".into());
    };
    // with --replace-profile nothing is kept, and the old figures are printed
    let lower = replace.then(|| {
        let before = profile::load_profiles(&folder).0.into_iter().find(|s| s.profile.key == profile.key);
        before.map_or_else(Vec::new, |before| describe_replaced_figures(&profile, &before.profile))
    });
    match profile::save_profile(&folder, profile.clone(), replace) {
        Ok(stored) => {
            let why = profile.ceiling().at_least;
            let mut because = lower.unwrap_or_else(|| dropped_figures(&profile, &stored.profile, &why));
            because.extend((!why.is_empty()).then(|| format!("lower bound: {}", why.join("; "))));
            ProfileUpdate { file: Some(stored.path.display().to_string()), remarks: because }
        }
        // a profile that cannot be saved must not cost the result
        Err(error) => because(format!("it could not be saved in {}: {error}", folder.display())),
    }
}

fn rate_figures(profile: &Profile) -> impl Iterator<Item = &profile::ProfileFigure> {
    profile.figures.iter().filter(|f| f.unit.ends_with("per_s"))
}

/// Formats `reads 8,100/s of 2026-03-01`.
fn format_figure(figure: &profile::ProfileFigure) -> String {
    let day = figure.measured.get(..10).unwrap_or(&figure.measured);
    let name = figure.figure.trim_end_matches("_per_s").replace('_', " ");
    format!("{name} {} of {day}", diskwright_base::units::format_value(figure.value, &figure.unit))
}

/// Describes figures that dropped, and figures that are too weak to replace the saved ones. The reason why the whole
/// measurement is a lower bound, `all`, is reported elsewhere.
fn dropped_figures(now: &Profile, kept: &Profile, all: &[String]) -> Vec<String> {
    let mut are_kept = false;
    let mut tell = |f: &profile::ProfileFigure| {
        let name = f.figure.trim_end_matches("_per_s").replace('_', " ");
        let own: Vec<&str> = f.at_least.iter().filter(|why| !all.contains(why)).map(String::as_str).collect();
        let own = if own.is_empty() { String::new() } else { format!(": {}", own.join("; ")) };
        match kept.figure(&f.figure) {
            None => Some(format!("{name} not added: only a lower bound{own}, and the profile has firm figures")),
            Some(k) if f.value < NOTABLE_DROP_FACTOR * k.value => {
                are_kept = true;
                let (share, day) = (100.0 * f.value / k.value, k.measured.get(..10).unwrap_or(&k.measured));
                let only = if f.at_least.is_empty() { "" } else { ", and only a lower bound" };
                Some(format!("{name}: {share:.0} % of the figure of {day}, which is kept{only}{own}"))
            }
            Some(k) if !f.at_least.is_empty() && k.at_least.is_empty() => {
                are_kept = true;
                Some(format!("{} are kept: this measurement gives only a lower bound{own}", format_figure(k)))
            }
            Some(_) => None,
        }
    };
    let mut messages: Vec<String> = rate_figures(now).filter_map(&mut tell).collect();
    if are_kept {
        messages.push("--replace-profile replaces what is kept".into());
    }
    messages
}

/// Describes figures that `--replace-profile` removed or replaced by lower or weaker ones.
fn describe_replaced_figures(now: &Profile, before: &Profile) -> Vec<String> {
    let tell = |old: &profile::ProfileFigure| match now.figure(&old.figure) {
        None => Some(format!("{} are deleted: not measured this time", format_figure(old))),
        Some(new)
            if new.value < NOTABLE_DROP_FACTOR * old.value || old.at_least.is_empty() && !new.at_least.is_empty() =>
        {
            Some(format!("{} are replaced by lower figures", format_figure(old)))
        }
        Some(_) => None,
    };
    rate_figures(before).filter_map(tell).collect()
}

/// Registry for `list ceilings`.
pub fn list_ceilings() -> (&'static str, Vec<Value>, TextTable) {
    let (all, damaged) = load_profiles();
    damaged.iter().for_each(warn_unreadable_profile);
    let mut table = TextTable::new()
        .with_text_column("device")
        .with_text_column("key")
        .with_text_column("measured")
        .with_text_column("maximum")
        .with_text_column("remark");
    let mut entries = Vec::new();
    for ProfileEntry { path, profile } in &all {
        let ceiling = profile.ceiling();
        let figure = |f: &profile::ProfileFigure| {
            let name = f.figure.trim_end_matches("_per_s").trim_end_matches("_s").replace('_', " ");
            format!("{name} {}", diskwright_base::units::format_value(f.value, &f.unit))
        };
        let figure_list = profile.figures.iter().map(figure).collect::<Vec<_>>().join(", ");
        let but = if ceiling.is_firm() { String::new() } else { format!("at least: {}", ceiling.at_least.join("; ")) };
        let day = ceiling.measured.get(..10).unwrap_or(&ceiling.measured).to_owned();
        table.add_row([profile.device.clone(), profile.key.clone(), day, figure_list, but]);
        let mut entry = json!(profile);
        if let Value::Object(fields) = &mut entry {
            fields.insert("file".into(), path.display().to_string().into());
            fields.insert("at_least".into(), json!(ceiling.at_least));
        }
        entries.push(entry);
    }
    ("ceilings", entries, table)
}
