//! /proc/pressure/* and the pressure files of cgroups. Their lines do not name the resource: the line with the name of
//! the file does.

use super::Snapshot;

/// Reads `some avg10=1.50 avg60=0.40 avg300=0.10 total=81234`, with or without the file's name before it.
pub fn read_line(snapshot: &mut Snapshot<'_, '_>, line: &str) -> bool {
    let line = line.trim();
    let (file, rest) = match line.split_once(":some ").or_else(|| line.split_once(":full ")) {
        Some((file, rest)) if file.contains('/') || file.ends_with("pressure") => {
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
    let Some(share) = words.iter().find_map(|word| word.strip_prefix("avg10=")?.parse::<f64>().ok()) else {
        return false;
    };
    let Some(resource) = resource_of_file(&file) else { return true };
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
