//! Writes a constant for the id of each counter in the catalogue, so that a mistyped id does not compile.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

// cargo reads its orders from standard output
#[expect(clippy::disallowed_macros)]
fn main() {
    println!("cargo::rerun-if-changed=counters");
    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("counters");
    // object -> name -> unit
    let mut objects: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("the catalogue's folder") {
        let path = entry.expect("an entry of the folder").path();
        let text = fs::read_to_string(&path).expect("a file of the catalogue");
        add_counters(&text, &path, &mut objects);
    }
    let mut out = String::new();
    for (object, counters) in &objects {
        writeln!(out, "/// Counters of the object `{object}`.\npub mod {object} {{").expect("text");
        for (name, unit) in counters {
            let constant = name.to_uppercase();
            writeln!(out, "    /// In the unit `{unit}`.\n    pub const {constant}: &str = \"{object}.{name}\";")
                .expect("text");
        }
        out.push_str("}\n");
    }
    let to = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("counter_ids.rs");
    fs::write(to, out).expect("the folder for generated files");
}

/// Adds the counters of a file, whose `id` and `unit` stand on lines of their own (a test of the crate compares the
/// constants with what the TOML reader finds).
fn add_counters(text: &str, path: &Path, objects: &mut BTreeMap<String, BTreeMap<String, String>>) {
    let value = |line: &str, key: &str| {
        let quoted = line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"')?;
        Some(quoted.to_owned())
    };
    let mut open_id = None;
    for line in text.lines() {
        if let Some(id) = value(line, "id") {
            assert!(open_id.is_none(), "{}: {open_id:?} has no unit", path.display());
            open_id = Some(id);
        } else if let Some(unit) = value(line, "unit") {
            let id: String = open_id.take().unwrap_or_else(|| panic!("{}: `unit` before `id`", path.display()));
            let (object, name) = id.split_once('.').unwrap_or_else(|| panic!("{}: {id} has no dot", path.display()));
            objects.entry(object.to_owned()).or_default().insert(name.to_owned(), unit);
        }
    }
    assert!(open_id.is_none(), "{}: {open_id:?} has no unit", path.display());
}
