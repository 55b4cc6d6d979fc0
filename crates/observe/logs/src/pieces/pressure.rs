//! /proc/pressure/* and the pressure files of cgroups. Their lines do not name the resource: the line with the name of
//! the file does, or the name of the file that holds the text, or the order in which all of them are printed.

use super::Snapshot;

/// Lines whose resource no line names.
#[derive(Default)]
pub struct PressureState {
    /// Resource by the name of the file that holds the text.
    named: Option<&'static str>,
    /// Shares of each block of lines without a name.
    unnamed: Vec<UnnamedPressure>,
}

#[derive(Clone, Copy, Default)]
struct UnnamedPressure {
    some: f64,
    full: Option<f64>,
    /// Total of the line `full`, microseconds.
    full_total: f64,
}

/// Most blocks without a name that are kept.
const MAX_UNNAMED: usize = 1000;
/// Resources in the order in which `cat /proc/pressure/*` prints them.
const ALL_RESOURCES: [&str; 3] = ["cpu", "io", "memory"];
/// Shares of lines whose resource is not known.
const UNNAMED_SOME: &str = "foreign.pressure.some";
const UNNAMED_FULL: &str = "foreign.pressure.full";

impl PressureState {
    /// Learns the resource from the name of the file that holds the text: `pressure_io.txt`, `io`.
    pub(super) fn set_file_name(&mut self, name: &str) {
        let name = name.split(", line").next().unwrap_or(name);
        let base = name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
        let words: Vec<&str> = base.split(|c: char| !c.is_ascii_alphanumeric()).collect();
        let is_of_pressure = words.len() == 1 || words.iter().any(|word| matches!(*word, "pressure" | "psi"));
        let mut found = ALL_RESOURCES.into_iter().filter(|resource| words.contains(resource));
        self.named = found.next().filter(|_| is_of_pressure && found.next().is_none());
    }
}

/// Reads `some avg10=1.50 avg60=0.40 avg300=0.10 total=81234`, with or without the file's name before it.
pub fn read_line(snapshot: &mut Snapshot<'_, '_>, line: &str) -> bool {
    let line = line.trim();
    let (file, rest) = match line.split_once(":some ").or_else(|| line.split_once(":full ")) {
        Some((file, rest)) if file.contains('/') || file.ends_with("pressure") || ALL_RESOURCES.contains(&file) => {
            let kind = if line.contains(":some ") { "some " } else { "full " };
            (file.to_owned(), format!("{kind}{rest}"))
        }
        _ => (snapshot.file.clone(), line.to_owned()),
    };
    let words: Vec<&str> = rest.split_whitespace().collect();
    let kind = match words.first() {
        Some(&"some") => "some",
        Some(&"full") => "full",
        _ => return false,
    };
    let number = |name: &str| words.iter().find_map(|word| word.strip_prefix(name)?.parse::<f64>().ok());
    let Some(share) = number("avg10=").filter(|share| (0.0..=100.0).contains(share)) else { return false };
    let Some(resource) = resource_of_file(&file).or(snapshot.pressure.named) else {
        if file.is_empty() {
            add_unnamed(snapshot, kind, share / 100.0, number("total=").unwrap_or(0.0));
        }
        return true;
    };
    let is_cgroup = file.ends_with(".pressure");
    let instance = if is_cgroup { cgroup_of_file(&file) } else { String::new() };
    if kind == "some" || resource == "irq" {
        snapshot.begin_piece(&format!("pressure {resource} {instance}"));
    }
    // a processor is never short for all tasks of a machine at once
    if !(resource == "cpu" && kind == "full") {
        let object = if is_cgroup { "cgroup" } else { "pressure" };
        snapshot.put_value(&format!("{object}.{resource}_{kind}"), &instance, share / 100.0);
    }
    true
}

fn add_unnamed(snapshot: &mut Snapshot<'_, '_>, kind: &str, share: f64, total: f64) {
    let unnamed = &mut snapshot.pressure.unnamed;
    if kind == "some" && unnamed.len() < MAX_UNNAMED {
        unnamed.push(UnnamedPressure { some: share, ..UnnamedPressure::default() });
    } else if let Some(last) = unnamed.last_mut().filter(|_| kind == "full") {
        (last.full, last.full_total) = (Some(share), total);
    }
    snapshot.has_values = true;
}

/// Puts the shares of lines without a name. Those of all resources are known by their order, as only processors, which
/// stand first, never let all tasks wait. Of others the answer tells what is missing.
pub(super) fn put_unnamed(snapshot: &mut Snapshot<'_, '_>) {
    let unnamed = std::mem::take(&mut snapshot.pressure.unnamed);
    let is_of_processors =
        |block: &UnnamedPressure| block.full.is_none_or(|full| full == 0.0) && block.full_total == 0.0;
    if unnamed.len() == ALL_RESOURCES.len() && is_of_processors(&unnamed[0]) {
        for (resource, block) in ALL_RESOURCES.iter().zip(&unnamed) {
            snapshot.put_value(&format!("pressure.{resource}_some"), "", block.some);
            if let Some(full) = block.full.filter(|_| *resource != "cpu") {
                snapshot.put_value(&format!("pressure.{resource}_full"), "", full);
            }
        }
        return;
    }
    // the worst of several
    let Some(worst) = unnamed.iter().max_by(|one, other| one.some.total_cmp(&other.some)) else { return };
    snapshot.put_value(UNNAMED_SOME, "", worst.some);
    if let Some(full) = worst.full {
        snapshot.put_value(UNNAMED_FULL, "", full);
    }
    let [some, full] = [worst.some, worst.full.unwrap_or(0.0)].map(|share| share * 100.0);
    let resource = if full > 0.0 { "disks or memory" } else { "processors, disks or memory" };
    snapshot.push_warning(format!(
        "lines of /proc/pressure without the name of their file: tasks waited {some:.0} % of the last 10 s, all of \
         them {full:.0} %, for {resource}; `grep . /proc/pressure/*` shows which"
    ));
}

/// Returns the resource by the name of the file.
fn resource_of_file(file: &str) -> Option<&'static str> {
    let name = file.rsplit('/').next().unwrap_or(file);
    ["cpu", "io", "memory", "irq"].into_iter().find(|resource| name.split('.').next() == Some(resource))
}

/// Returns the path of a cgroup by that of its file.
pub fn cgroup_of_file(file: &str) -> String {
    let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
    let below = folder.split_once("cgroup/").map_or(folder, |(_, below)| below);
    format!("/{}", below.trim_start_matches('/'))
}
