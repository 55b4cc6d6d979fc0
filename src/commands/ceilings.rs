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
    subcommand: CeilingsSubcommand,
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
    let CeilingsSubcommand::Forget { device, json } = &arguments.subcommand;
    forget_profile(device, *json)
}

fn forget_profile(device: &str, as_json: bool) -> Result<(), Failure> {
    let (profiles, damaged) = load_profiles();
    damaged.iter().for_each(warn_unreadable_profile);
    let this_machine = topology::read_topology(&Roots::default());
    let chosen = find_profiles(&profiles, device, &this_machine).map_err(Failure::Failed)?;
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

/// Finds the profiles of a device: by its key, by its current name, or by its name when it was measured, as long as
/// that name is unambiguous.
fn find_profiles<'a>(
    profiles: &'a [ProfileEntry],
    device: &str,
    this_machine: &Topology,
) -> Result<Vec<&'a ProfileEntry>, String> {
    let name = device.strip_prefix("/dev/").unwrap_or(device);
    let current_key = ceiling::device_keys(this_machine).get(name).cloned();
    let with_key = |key: &str| profiles.iter().filter(|s| s.profile.key == key).collect::<Vec<_>>();
    let matches = [with_key(device), current_key.as_deref().map(with_key).unwrap_or_default()];
    if let Some(matches) = matches.into_iter().find(|matches| !matches.is_empty()) {
        return Ok(matches);
    }
    let named: Vec<&ProfileEntry> = profiles.iter().filter(|s| s.profile.device == name).collect();
    let mut keys: Vec<&str> = named.iter().map(|s| s.profile.key.as_str()).collect();
    keys.dedup();
    match keys.len() {
        1 => Ok(named),
        0 => {
            let names = profiles.iter().flat_map(|s| [s.profile.device.as_str(), s.profile.key.as_str()]);
            let suggestion = name_search::suggestion_hint(name, names);
            Err(format!("there is no saved profile of `{device}`{suggestion}; `diskwright list ceilings` shows all"))
        }
        _ => Err(format!("{} devices were called `{device}`; give one by its key: {}", keys.len(), keys.join(", "))),
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
    let is_overridden = std::env::var_os("DISKWRIGHT_STATE").is_some_and(|v| !v.is_empty());
    if !is_overridden && !folders.contains(&machine) {
        folders.push(machine);
    }
    folders
}

fn load_profiles() -> (Vec<ProfileEntry>, Vec<UnreadableProfile>) {
    let (mut profiles, mut unreadable) = (Vec::new(), Vec::new());
    for folder in state_folders() {
        let (mut readable, mut damaged) = profile::load_profiles(&folder.join("profiles"));
        profiles.append(&mut readable);
        unreadable.append(&mut damaged);
    }
    (profiles, unreadable)
}

/// Returns the ceilings of all profiles, which are read once. Damaged files are reported on standard error.
pub fn known_ceilings() -> &'static [Ceiling] {
    static KNOWN: OnceLock<Vec<Ceiling>> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let (profiles, damaged) = load_profiles();
        damaged.iter().for_each(warn_unreadable_profile);
        profiles.iter().map(|s| s.profile.ceiling()).collect()
    })
}

/// Returns a note with the ceilings of the devices in a topology note, so that a log can be judged on another machine.
/// `None` if no ceiling of these devices is known.
pub fn ceilings_note(topology: &Note) -> Option<Note> {
    let recorded = topology.read_topology().ok()?;
    let keys = ceiling::device_keys(&recorded);
    let is_recorded = |c: &&Ceiling| keys.values().any(|key| *key == c.key);
    let ceilings: Vec<Ceiling> = known_ceilings().iter().filter(is_recorded).cloned().collect();
    (!ceilings.is_empty()).then(|| Note::ceilings(topology.time_ns, ceilings))
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
    context: &MeasurementContext,
    replace: bool,
) -> ProfileUpdate {
    let not_saved = |text: String| ProfileUpdate { file: None, remarks: vec![text] };
    if let Some(reason) = context.reason_to_discard(facts) {
        return not_saved(reason.to_owned());
    }
    let profile = Profile::from_runs(facts, runs, context);
    if profile.figures.is_empty() {
        return not_saved("the result contains no ceiling of the device".into());
    }
    let Some(folder) = own_profile_folder() else {
        return not_saved("no folder to save it in: set DISKWRIGHT_STATE or HOME".into());
    };
    // with --replace-profile nothing is kept, and the old figures are printed
    let replaced_figures = replace.then(|| {
        let before = profile::load_profiles(&folder).0.into_iter().find(|s| s.profile.key == profile.key);
        before.map_or_else(Vec::new, |before| describe_replaced_figures(&profile, &before.profile))
    });
    match profile::save_profile(&folder, profile.clone(), replace) {
        Ok(stored) => {
            let bound_reasons = profile.ceiling().at_least;
            let mut remarks =
                replaced_figures.unwrap_or_else(|| dropped_figures(&profile, &stored.profile, &bound_reasons));
            remarks.extend((!bound_reasons.is_empty()).then(|| format!("lower bound: {}", bound_reasons.join("; "))));
            ProfileUpdate { file: Some(stored.path.display().to_string()), remarks }
        }
        // a profile that cannot be saved must not cost the result
        Err(error) => not_saved(format!("it could not be saved in {}: {error}", folder.display())),
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

/// Describes figures that dropped, and figures that are too weak to replace the saved ones. The reasons why the whole
/// measurement is a lower bound, `common_reasons`, are reported elsewhere.
fn dropped_figures(now: &Profile, kept: &Profile, common_reasons: &[String]) -> Vec<String> {
    let mut are_kept = false;
    let mut describe = |f: &profile::ProfileFigure| {
        let name = f.figure.trim_end_matches("_per_s").replace('_', " ");
        let reasons: Vec<&str> =
            f.at_least.iter().filter(|reason| !common_reasons.contains(reason)).map(String::as_str).collect();
        let reasons = if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join("; ")) };
        match kept.figure(&f.figure) {
            None => Some(format!("{name} not added: only a lower bound{reasons}, and the profile has firm figures")),
            Some(k) if f.value < NOTABLE_DROP_FACTOR * k.value => {
                are_kept = true;
                let (share, day) = (100.0 * f.value / k.value, k.measured.get(..10).unwrap_or(&k.measured));
                let bound_remark = if f.at_least.is_empty() { "" } else { ", and only a lower bound" };
                Some(format!("{name}: {share:.0} % of the figure of {day}, which is kept{bound_remark}{reasons}"))
            }
            Some(k) if !f.at_least.is_empty() && k.at_least.is_empty() => {
                are_kept = true;
                Some(format!("{} are kept: this measurement gives only a lower bound{reasons}", format_figure(k)))
            }
            Some(_) => None,
        }
    };
    let mut messages: Vec<String> = rate_figures(now).filter_map(&mut describe).collect();
    if are_kept {
        messages.push("--replace-profile replaces what is kept".into());
    }
    messages
}

/// Describes figures that `--replace-profile` removed or replaced by lower or weaker ones.
fn describe_replaced_figures(now: &Profile, before: &Profile) -> Vec<String> {
    let describe = |old: &profile::ProfileFigure| match now.figure(&old.figure) {
        None => Some(format!("{} are deleted: not measured this time", format_figure(old))),
        Some(new)
            if new.value < NOTABLE_DROP_FACTOR * old.value || old.at_least.is_empty() && !new.at_least.is_empty() =>
        {
            Some(format!("{} are replaced by lower figures", format_figure(old)))
        }
        Some(_) => None,
    };
    rate_figures(before).filter_map(describe).collect()
}

/// Returns name, JSON entries and table for `list ceilings`.
pub fn list_ceilings() -> (&'static str, Vec<Value>, TextTable) {
    let (profiles, damaged) = load_profiles();
    damaged.iter().for_each(warn_unreadable_profile);
    let mut table = TextTable::new()
        .with_text_column("device")
        .with_text_column("key")
        .with_text_column("measured")
        .with_text_column("maximum")
        .with_text_column("remark");
    let mut entries = Vec::new();
    for ProfileEntry { path, profile } in &profiles {
        let ceiling = profile.ceiling();
        let figure = |f: &profile::ProfileFigure| {
            let name = f.figure.trim_end_matches("_per_s").trim_end_matches("_s").replace('_', " ");
            format!("{name} {}", diskwright_base::units::format_value(f.value, &f.unit))
        };
        let figure_list = profile.figures.iter().map(figure).collect::<Vec<_>>().join(", ");
        let remark =
            if ceiling.is_firm() { String::new() } else { format!("at least: {}", ceiling.at_least.join("; ")) };
        let day = ceiling.measured.get(..10).unwrap_or(&ceiling.measured).to_owned();
        table.add_row([profile.device.clone(), profile.key.clone(), day, figure_list, remark]);
        let mut entry = json!(profile);
        if let Value::Object(fields) = &mut entry {
            fields.insert("file".into(), path.display().to_string().into());
            fields.insert("at_least".into(), json!(ceiling.at_least));
        }
        entries.push(entry);
    }
    ("ceilings", entries, table)
}
