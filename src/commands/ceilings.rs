//! The profiles that `probe` measured: where they lie, keeping one, and the
//! ceilings that they give to diagnosis.

use std::path::PathBuf;
use std::sync::OnceLock;

use diskwright_base::{Ceiling, Note, Topology, ceiling};
use diskwright_probe::device::Facts;
use diskwright_probe::profile::{self, Damaged, Kept, Occasion, Profile, Stored};
use diskwright_probe::result::RunResult;
use diskwright_probe::target::Target;
use diskwright_report::Table;
use serde_json::{Value, json};

/// Where root keeps them; everybody may read there.
const MACHINE: &str = "/var/lib/diskwright";
/// A figure below this share of the one that is kept is worth a word.
const LESS: f64 = 0.8;

/// Where profiles are kept: below `DISKWRIGHT_STATE`, or the user's state
/// folder, or (root) the machine's. `None` for a user without a home.
fn own() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let base = variable("DISKWRIGHT_STATE").or_else(|| {
        if rustix::process::geteuid().is_root() {
            return Some(PathBuf::from(MACHINE));
        }
        let home = || variable("HOME").map(|home| home.join(".local/state"));
        variable("XDG_STATE_HOME").or_else(home).map(|state| state.join("diskwright"))
    });
    base.map(|base| base.join("profiles"))
}

/// Where profiles are looked for: one's own folder, then the machine's.
/// `DISKWRIGHT_STATE` stands alone.
fn folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = own().into_iter().collect();
    let machine = PathBuf::from(MACHINE).join("profiles");
    let alone = std::env::var_os("DISKWRIGHT_STATE").is_some_and(|v| !v.is_empty());
    if !alone && !folders.contains(&machine) {
        folders.push(machine);
    }
    folders
}

fn load() -> (Vec<Stored>, Vec<Damaged>) {
    let (mut all, mut damaged) = (Vec::new(), Vec::new());
    for folder in folders() {
        let (mut found, mut wrong) = profile::load(&folder);
        all.append(&mut found);
        damaged.append(&mut wrong);
    }
    (all, damaged)
}

/// The ceilings of all profiles. Read once; files that are damaged are said
/// on standard error.
pub fn known() -> &'static [Ceiling] {
    static KNOWN: OnceLock<Vec<Ceiling>> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let (all, damaged) = load();
        damaged.iter().for_each(tell);
        all.iter().map(|s| s.profile.ceiling()).collect()
    })
}

/// For a log: the ceilings of the devices that a topology note shows, so that
/// whoever judges it elsewhere knows them. `None` where there are none.
pub fn note(topology: &Note) -> Option<Note> {
    let shown: Topology = serde_json::from_str(&topology.text).ok()?;
    let keys = ceiling::keys(&shown);
    let here: Vec<&Ceiling> = known().iter().filter(|c| keys.values().any(|key| *key == c.key)).collect();
    let text = serde_json::to_string(&here).ok().filter(|_| !here.is_empty())?;
    Some(Note::new(topology.time_ns, Note::CEILINGS, text))
}

fn tell(damaged: &Damaged) {
    let path = damaged.path.display();
    eprintln!("diskwright: the profile {path} is left out: {}; `probe` measures it again", damaged.because);
}

/// What a target tells of the occasion.
pub fn occasion(target: &Target) -> Occasion {
    Occasion {
        target_bytes: target.bytes,
        file: !target.is_device,
        made: target.was_made(),
        holes: target.is_sparse,
        ..Occasion::default()
    }
}

/// Keeps what an occasion's runs tell of the device.
pub fn keep(facts: &Facts, runs: &[RunResult], occasion: &Occasion, anew: bool) -> Kept {
    let because = |text: String| Kept { file: None, because: vec![text] };
    if let Some(useless) = occasion.useless(facts) {
        return because(useless.to_owned());
    }
    let profile = Profile::of(facts, runs, occasion);
    if profile.figures.is_empty() {
        return because("nothing in it is a ceiling of the device".into());
    }
    let Some(folder) = own() else {
        return because("there is no folder to keep it in: neither DISKWRIGHT_STATE nor HOME is set".into());
    };
    match profile::store(&folder, profile.clone(), anew) {
        Ok(stored) => {
            let mut because = fallen(&profile, &stored.profile);
            because.extend(profile.ceiling().at_least.into_iter().map(|why| format!("a lower bound: {why}")));
            Kept { file: Some(stored.path), because }
        }
        // the result counts more than its being remembered
        Err(error) => because(format!("it could not be kept in {}: {error}", folder.display())),
    }
}

/// What the device did before and does no longer.
fn fallen(now: &Profile, kept: &Profile) -> Vec<String> {
    let rates = now.figures.iter().filter(|f| f.unit.ends_with("per_s"));
    let less = rates.filter_map(|f| Some((f, kept.figure(&f.figure)?))).filter(|(f, k)| f.value < LESS * k.value);
    let tell = |(f, k): (&profile::Figure, &profile::Figure)| {
        let (name, share) = (f.figure.trim_end_matches("_per_s").replace('_', " "), 100.0 * f.value / k.value);
        let day = k.measured.get(..10).unwrap_or(&k.measured);
        format!("{name} are {share:.0} % of what was measured on {day}, which stays; --anew would replace it")
    };
    less.map(tell).collect()
}

/// The registry that `list ceilings` prints.
pub fn listing() -> (&'static str, Vec<Value>, Table) {
    let (all, damaged) = load();
    damaged.iter().for_each(tell);
    let mut table = Table::new().text("device").text("known by").text("measured").text("at most").text("but");
    let mut entries = Vec::new();
    for Stored { path, profile } in &all {
        let ceiling = profile.ceiling();
        let figure = |f: &profile::Figure| {
            let name = f.figure.trim_end_matches("_per_s").trim_end_matches("_s").replace('_', " ");
            format!("{name} {}", diskwright_base::units::display(f.value, &f.unit))
        };
        let most = profile.figures.iter().map(figure).collect::<Vec<_>>().join(", ");
        let but = if ceiling.is_firm() { String::new() } else { format!("at least: {}", ceiling.at_least.join("; ")) };
        let day = ceiling.measured.get(..10).unwrap_or(&ceiling.measured).to_owned();
        table.row([profile.device.clone(), profile.key.clone(), day, most, but]);
        let mut entry = json!(profile);
        if let Value::Object(fields) = &mut entry {
            fields.insert("file".into(), json!(path));
            fields.insert("at_least".into(), json!(ceiling.at_least));
        }
        entries.push(entry);
    }
    ("ceilings", entries, table)
}
