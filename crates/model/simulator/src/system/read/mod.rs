//! Builds a [`System`] from a TOML description. All mistakes in a file are reported together, with their lines and
//! corrections; `docs/systems.md` lists every key.
//!
//! The parts are read in the order in which they refer to one another: buses, controllers, channels, drives, arrays,
//! workloads, events. [`PartNames`] holds the names read so far.

mod arrays;
mod caches;
mod drives;
mod events;
mod host_path;
mod part_names;
mod settings;
mod transfers;
mod workload_kinds;
mod workloads;

use super::{System, WatchSpec};
use crate::description_toml::{DescriptionFields, DescriptionSource, Problem, Problems};
use crate::load::TraceRequest;

use part_names::PartNames;
pub use settings::Setting;

/// A valid description.
#[derive(Clone, Debug)]
pub struct SystemDescription {
    /// The system.
    pub system: System,
    /// Remarks on keys that are valid but perhaps not intended.
    pub notes: Vec<Problem>,
}

/// Loads the text of another file that a description names (a drive's parameters, a trace), by its path as written
/// there; or an error message.
pub type Loader<'a> = &'a dyn Fn(&str) -> Result<String, String>;

/// The requests of a trace, the number of omitted records, and remarks.
pub type LoadedTrace = (Vec<TraceRequest>, u64, Vec<String>);

/// Loads the files that a description may name, by their paths as written there.
pub struct DescriptionFiles<'a> {
    /// Loads a text: a drive's parameters, a catalogue.
    pub text: Loader<'a>,
    /// Loads a trace: the result of [`crate::load::TraceSpec::from_requests`], and remarks.
    pub trace: &'a dyn Fn(&str) -> Result<LoadedTrace, String>,
}

/// Largest number of drives of a system: more than any cabinet holds, and few enough for memory.
pub const MAX_DRIVES: u32 = 4096;
/// Largest number of tables of one kind.
pub const MAX_TABLES: usize = 1024;

/// Reads a description that names no trace; see [`read_with_files`].
///
/// # Errors
/// Lists all mistakes, by line.
pub fn read<'t>(
    file: &'t str,
    text: &'t str,
    settings: &'t [Setting],
    load: Loader<'_>,
) -> Result<SystemDescription, Problems> {
    let no_trace = |_: &str| Err("traces cannot be read here".to_owned());
    read_with_files(file, text, settings, &DescriptionFiles { text: load, trace: &no_trace })
}

/// Reads a description. Problems name it `file`; `settings` replace values of the text.
///
/// # Errors
/// Lists all mistakes, by line.
pub fn read_with_files<'t>(
    file: &'t str,
    text: &'t str,
    settings: &'t [Setting],
    files: &DescriptionFiles<'_>,
) -> Result<SystemDescription, Problems> {
    let source = DescriptionSource::new(file, text);
    let system = source.parse().and_then(|mut table| {
        settings::apply_settings(&source, table.get_mut(), settings);
        let span = table.span();
        parse_system(&DescriptionFields::new(&source, "", table.get_ref(), span), files)
    });
    source.into_result(system).map(|(system, notes)| SystemDescription { system, notes })
}

/// Parses all parts; returns a system even with mistakes, which the source records.
fn parse_system(top: &DescriptionFields<'_, '_>, files: &DescriptionFiles<'_>) -> Option<System> {
    let mut names = PartNames::default();
    let (name, own_catalogue) = top.read_table("system").map_or((None, Vec::new()), |fields| {
        let name = fields.read_text("name").map(str::to_owned);
        fields.read_text("about");
        let own_catalogue = drives::parse_own_catalogue(&fields, files.text);
        fields.reject_unknown_keys();
        (name, own_catalogue)
    });
    let watch = top.read_table("watch").map(|fields| parse_watch(&fields)).unwrap_or_default();
    let host = top.read_table("host").map(|fields| host_path::parse_host(&fields)).unwrap_or_default();
    let buses = host_path::parse_buses(top, &mut names);
    let controllers = host_path::parse_controllers(top, &mut names);
    let channels = host_path::parse_channels(top, &mut names);
    let drives = drives::parse_drives(top, &mut names, &own_catalogue, files.text);
    let arrays = arrays::parse_arrays(top, &mut names, &drives);
    let stem = top.source.file_name().rsplit(['/', '\\']).next().unwrap_or("system");
    let name = name.unwrap_or_else(|| stem.trim_end_matches(".toml").to_owned());
    let (workloads, events) = (Vec::new(), Vec::new());
    let mut system = System { name, watch, host, buses, controllers, channels, drives, arrays, workloads, events };
    system.workloads = workloads::parse_workloads(top, &names, &system, files);
    system.events = events::parse_events(top, &system);
    top.reject_unknown_keys();
    Some(system)
}

fn parse_watch(fields: &DescriptionFields<'_, '_>) -> WatchSpec {
    let defaults = WatchSpec::default();
    let duration = fields.read_nonzero_time_ns("duration").unwrap_or(defaults.duration);
    let watch = WatchSpec {
        seed: fields.read_integer("seed", 0, i64::MAX as u64).unwrap_or(defaults.seed),
        warm_up: fields.read_time_ns("warm_up").unwrap_or(defaults.warm_up),
        duration,
        // a short run is a single sample
        interval: fields.read_nonzero_time_ns("interval").unwrap_or(defaults.interval.min(duration)),
    };
    if watch.interval > watch.duration {
        let shorten = "shorten it (watch.interval): a run needs at least one sample";
        fields.report_key_problem("interval", format!("`interval` is longer than `duration`; {shorten}"));
    }
    fields.reject_unknown_keys();
    watch
}
