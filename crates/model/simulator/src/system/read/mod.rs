//! From a description written in TOML to a [`System`]. Everything that is
//! wrong in a file is told in one go, with its line and what would be right;
//! `docs/systems.md` lists every key.
//!
//! The parts are read in the order in which they refer to one another: buses,
//! controllers, channels, drives, arrays, workloads, events. [`PartNames`] knows what was
//! read so far.

mod arrays;
mod caches;
mod drives;
mod events;
mod kinds;
mod names;
mod path;
mod settings;
mod transfers;
mod workloads;

use super::{System, WatchSpec};
use crate::load::TraceRequest;
use crate::text::{DescriptionFields, DescriptionSource, Problem, Problems};

use names::PartNames;
pub use settings::Setting;

/// A description that could be read.
#[derive(Clone, Debug)]
pub struct SystemDescription {
    /// The system.
    pub system: System,
    /// What is not wrong, but may not be meant.
    pub notes: Vec<Problem>,
}

/// Gives the text of another file that a description names (a drive's
/// parameters, a trace), by the path as it is written there; or why not.
pub type Loader<'a> = &'a dyn Fn(&str) -> Result<String, String>;

/// The requests of a trace, how many were left out, and what else there is to remark on it.
pub type LoadedTrace = (Vec<TraceRequest>, u64, Vec<String>);

/// The other files that a description may name, by the path as it is written there.
pub struct DescriptionFiles<'a> {
    /// The text of one: a drive's parameters, a catalogue.
    pub text: Loader<'a>,
    /// A trace: what [`crate::load::TraceSpec::record`] gives, and remarks.
    pub trace: &'a dyn Fn(&str) -> Result<LoadedTrace, String>,
}

/// Most drives of a system: more than any cabinet holds, and few enough for memory.
pub const MOST_DRIVES: u32 = 4096;
/// Most tables of one sort.
pub const MOST_TABLES: usize = 1024;

/// Reads a description that names no trace; see [`read_with`].
///
/// # Errors
/// Everything that is wrong, by line.
pub fn read<'t>(
    file: &'t str,
    text: &'t str,
    settings: &'t [Setting],
    load: Loader<'_>,
) -> Result<SystemDescription, Problems> {
    let no_trace = |_: &str| Err("traces cannot be read here".to_owned());
    read_with(file, text, settings, &DescriptionFiles { text: load, trace: &no_trace })
}

/// Reads a description. `file` is its name in what is told; `settings` stand in
/// the place of what the text says.
///
/// # Errors
/// Everything that is wrong, by line.
pub fn read_with<'t>(
    file: &'t str,
    text: &'t str,
    settings: &'t [Setting],
    files: &DescriptionFiles<'_>,
) -> Result<SystemDescription, Problems> {
    let source = DescriptionSource::new(file, text);
    let system = source.parse().and_then(|mut table| {
        settings::apply(&source, table.get_mut(), settings);
        let span = table.span();
        system(&DescriptionFields::new(&source, "", table.get_ref(), span), files)
    });
    source.finish(system).map(|(system, notes)| SystemDescription { system, notes })
}

/// Every part; given back also where something was wrong, which the source knows.
fn system(top: &DescriptionFields<'_, '_>, files: &DescriptionFiles<'_>) -> Option<System> {
    let mut names = PartNames::default();
    let (name, own) = top.inner("system").map_or((None, Vec::new()), |fields| {
        let name = fields.text("name").map(str::to_owned);
        fields.text("about");
        let own = drives::own_catalogue(&fields, files.text);
        fields.finish();
        (name, own)
    });
    let watch = top.inner("watch").map(|fields| watch(&fields)).unwrap_or_default();
    let host = top.inner("host").map(|fields| path::host(&fields)).unwrap_or_default();
    let buses = path::buses(top, &mut names);
    let controllers = path::controllers(top, &mut names);
    let channels = path::channels(top, &mut names);
    let drives = drives::drives(top, &mut names, &own, files.text);
    let arrays = arrays::arrays(top, &mut names, &drives);
    let stem = top.source.file().rsplit(['/', '\\']).next().unwrap_or("system");
    let name = name.unwrap_or_else(|| stem.trim_end_matches(".toml").to_owned());
    let (workloads, events) = (Vec::new(), Vec::new());
    let mut system = System { name, watch, host, buses, controllers, channels, drives, arrays, workloads, events };
    system.workloads = workloads::workloads(top, &names, &system, files);
    system.events = events::events(top, &system);
    top.finish();
    Some(system)
}

fn watch(fields: &DescriptionFields<'_, '_>) -> WatchSpec {
    let usual = WatchSpec::default();
    let duration = fields.some_time("duration").unwrap_or(usual.duration);
    let watch = WatchSpec {
        seed: fields.whole("seed", 0, i64::MAX as u64).unwrap_or(usual.seed),
        warm_up: fields.time("warm_up").unwrap_or(usual.warm_up),
        duration,
        // a short run is one sample
        interval: fields.some_time("interval").unwrap_or(usual.interval.min(duration)),
    };
    if watch.interval > watch.duration {
        let shorten = "shorten it (watch.interval): a run needs at least one sample";
        fields.wrong_at("interval", format!("`interval` is longer than `duration`; {shorten}"));
    }
    fields.finish();
    watch
}
