//! Modules of a crate, and of the program, use each other in one direction: a large cycle cannot be read in any
//! order, tested alone or taken apart.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Largest number of files that may use each other: a reader and its helpers, two halves of one thing.
const MAX_CYCLE_FILES: usize = 3;

/// Collects the Rust files below a folder.
fn collect_rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").map(|e| e.expect("readable")) {
        let path = entry.path();
        if path.is_dir() {
            collect_rust_files(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// Module path of a file: `a::b` of `src/a/b.rs` and of `src/a/b/mod.rs`; empty for `src/lib.rs`.
fn module_path(file: &Path, source: &Path) -> Vec<String> {
    let inside = file.strip_prefix(source).expect("below it").with_extension("");
    let mut path: Vec<String> = inside.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if path.last().is_some_and(|last| matches!(last.as_str(), "mod" | "lib" | "main")) {
        path.pop();
    }
    path
}

/// Paths of a file that begin with `crate` or `super`, without those of its unit tests; use trees are expanded.
fn crate_paths(text: &str) -> Vec<String> {
    let own = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let code: String = own.lines().map(|line| line.split("//").next().unwrap_or_default().to_owned() + "\n").collect();
    let mut found = Vec::new();
    for start in ["crate::", "super::"] {
        for (index, _) in code.match_indices(start) {
            if !code[..index].ends_with(|c: char| c.is_alphanumeric() || "_:".contains(c)) {
                expand_use_tree(&code[index..], "", &mut found);
            }
        }
    }
    found
}

/// Adds the paths of a use tree to `found`: `a::{b, c::d}` gives `a::b` and `a::c::d`. Returns the text behind it.
fn expand_use_tree<'a>(text: &'a str, before: &str, found: &mut Vec<String>) -> &'a str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').unwrap_or(text.len());
    let (path, mut rest) = (format!("{before}{}", &text[..end]), &text[end..]);
    let Some(group) = rest.strip_prefix('{') else {
        found.push(path);
        return rest;
    };
    rest = group.trim_start();
    while !rest.is_empty() && !rest.starts_with('}') {
        let after = expand_use_tree(rest, &path, found);
        // skips an `as` name, up to the next comma or the end of the group
        rest = after.find([',', '}']).map_or("", |index| after[index..].trim_start_matches(',').trim_start());
    }
    rest.get(1..).unwrap_or_default()
}

/// Module that a path in the module `from` leads to: the longest part of the path that is a module; `None` for `from`
/// itself.
fn resolve_module<'a>(path: &str, from: &[String], all: &'a BTreeMap<Vec<String>, String>) -> Option<&'a Vec<String>> {
    let mut place: Vec<String> = Vec::new();
    for (index, part) in path.split("::").filter(|part| !part.is_empty()).enumerate() {
        match part {
            "crate" => place.clear(),
            "super" if index == 0 => place = from[..from.len().saturating_sub(1)].to_vec(),
            "super" => {
                place.pop();
            }
            name => place.push(name.to_owned()),
        }
    }
    let known = (1..=place.len()).rev().find_map(|length| all.get_key_value(&place[..length]));
    known.map(|(module, _)| module).filter(|module| module.as_slice() != from)
}

/// Modules that each module uses.
type ModuleUses = BTreeMap<Vec<String>, BTreeSet<Vec<String>>>;

/// Reads which modules of a source folder use which.
fn module_uses(source: &Path) -> ModuleUses {
    let mut found = Vec::new();
    collect_rust_files(source, &mut found);
    let text = |file: &PathBuf| fs::read_to_string(file).expect("readable");
    let all: BTreeMap<Vec<String>, String> = found.iter().map(|file| (module_path(file, source), text(file))).collect();
    let used_by = |(from, text): (&Vec<String>, &String)| {
        (from.clone(), crate_paths(text).iter().filter_map(|path| resolve_module(path, from, &all).cloned()).collect())
    };
    all.iter().map(used_by).collect()
}

/// All modules that a module uses, directly or through others.
fn reachable_modules(uses: &ModuleUses, from: &[String]) -> BTreeSet<Vec<String>> {
    let mut seen = BTreeSet::new();
    let mut pending = vec![from.to_vec()];
    while let Some(module) = pending.pop() {
        for next in uses.get(&module).into_iter().flatten() {
            if seen.insert(next.clone()) {
                pending.push(next.clone());
            }
        }
    }
    seen
}

#[test]
fn expands_use_trees() {
    let text = "use crate::a::{self, B, c::{D, E as F}};\nuse super::{g, h::I};\nlet x = crate::k::l(1);\n\
                use super::super::m;";
    let expected =
        ["crate::a::self", "crate::a::B", "crate::a::c::D", "crate::a::c::E", "crate::k::l", "super::g", "super::h::I"];
    let found = crate_paths(text);
    assert_eq!(found[..7], expected.map(str::to_owned));
    assert_eq!(found[7..], ["super::super::m".to_owned()]);
}

/// The `src` folders of the program and of every crate (`crates/GROUP/CRATE`).
fn source_folders() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let children = |folder: PathBuf| {
        let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("readable").path());
        entries.filter(|path| path.is_dir()).collect::<Vec<_>>()
    };
    let crates = children(root.join("crates")).into_iter().flat_map(children);
    let found: Vec<PathBuf> = crates.map(|path| path.join("src")).chain([root.join("src")]).collect();
    assert!(found.len() > 20 && found.iter().all(|path| path.is_dir()), "not the crates: {found:?}");
    found
}

#[test]
fn modules_form_no_large_cycles() {
    let mut wrong = Vec::new();
    for source in source_folders() {
        let uses = module_uses(&source);
        let reach: BTreeMap<&Vec<String>, BTreeSet<Vec<String>>> =
            uses.keys().map(|module| (module, reachable_modules(&uses, module))).collect();
        let cycle_of = |module: &Vec<String>| -> BTreeSet<&Vec<String>> {
            reach
                .iter()
                .filter(|(other, back)| reach[module].contains(**other) && back.contains(module))
                .map(|(m, _)| *m)
                .collect()
        };
        let cycles: BTreeSet<BTreeSet<&Vec<String>>> = uses.keys().map(cycle_of).collect();
        for cycle in cycles.iter().filter(|cycle| cycle.len() > MAX_CYCLE_FILES) {
            let names: Vec<String> = cycle.iter().map(|module| module.join("::")).collect();
            wrong.push(format!("{}: {}", source.display(), names.join(", ")));
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}
