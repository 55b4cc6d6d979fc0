//! Texts in the source that look like ids of counters are ids of counters: constants are used where a counter is meant
//! (`diskwright_base::counter_ids`), and what is left in strings must not be mistyped.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use diskwright_base::Catalogue;

/// Names of other vocabularies that begin like counters.
const OTHER_NAMES: &[&str] = &[
    // control files of cgroups (Linux, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst)
    "cgroup.controllers",
    "cgroup.procs",
    "cgroup.subtree_control",
    "memory.current",
    "memory.events",
    "memory.failcnt",
    "memory.high",
    "memory.limit_in_bytes",
    "memory.max",
    "memory.max_usage_in_bytes",
    "memory.oom_control",
    "memory.peak",
    "memory.pressure",
    "memory.stat",
    "memory.swappiness",
    "memory.usage_in_bytes",
    // figures of `baseline`
    "memory.latency",
    "memory.read",
    "memory.triad",
    "network.loopback",
    "network.round_trip",
    "processor.aes256gcm",
    "processor.branches",
    "processor.floating",
    "processor.integer",
    "processor.sha256",
    // a metric of Performance Co-Pilot, files of data, and beginnings of ids
    "memory.vmswap",
    "memory.toml",
    "cgroup.cpu_",
    "processor.frequency",
    // counters that a rule computes
    "physical_disk.spindles",
];

/// Collects the files with an extension below a folder.
fn collect_files(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("readable")) {
        let path = entry.path();
        if path.is_dir() && !path.ends_with("target") {
            collect_files(&path, extension, found);
        } else if path.extension().is_some_and(|e| e == extension) {
            found.push(path);
        }
    }
}

/// Ids of rules, advice, checks and other entries of data files.
fn data_ids(root: &Path) -> BTreeSet<String> {
    let mut files = Vec::new();
    collect_files(&root.join("rules"), "toml", &mut files);
    collect_files(&root.join("crates"), "toml", &mut files);
    let id = |line: &str| Some(line.strip_prefix("id = \"")?.split('"').next()?.to_owned());
    let text = |file: &PathBuf| fs::read_to_string(file).expect("readable");
    files.iter().flat_map(|file| text(file).lines().filter_map(id).collect::<Vec<_>>()).collect()
}

/// String literals outside comments and unit tests that are two words with a dot between them.
fn dotted_literals(text: &str) -> Vec<&str> {
    let own = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let code = own.lines().filter(|line| !line.trim_start().starts_with("//"));
    let is_word =
        |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    let is_dotted = |piece: &&str| piece.split_once('.').is_some_and(|(one, two)| is_word(one) && is_word(two));
    code.flat_map(|line| line.split('"').skip(1).step_by(2).filter(is_dotted)).collect()
}

#[test]
fn texts_like_counter_ids_are_in_the_catalogue() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let counters = Catalogue::builtin().counters();
    let objects: BTreeSet<&str> = counters.iter().map(|counter| counter.object_name()).collect();
    let others = data_ids(root);
    assert!(others.contains("memory.add"), "the ids of advice were not found");
    let mut files = Vec::new();
    collect_files(&root.join("src"), "rs", &mut files);
    collect_files(&root.join("crates"), "rs", &mut files);
    let is_source = |file: &&PathBuf| {
        let parts: Vec<_> = file.strip_prefix(root).expect("below it").iter().collect();
        parts.iter().any(|part| *part == "src") && !parts.iter().any(|part| *part == "tests" || *part == "tests.rs")
    };
    let mut wrong = Vec::new();
    for file in files.iter().filter(is_source) {
        let text = fs::read_to_string(file).expect("readable");
        for id in dotted_literals(&text) {
            let object = id.split('.').next().unwrap_or_default();
            let is_known = Catalogue::builtin().get(id).is_some() || others.contains(id) || OTHER_NAMES.contains(&id);
            if objects.contains(object) && !is_known {
                wrong.push(format!("{}: {id}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "no such counters:\n{}\n", wrong.join("\n"));
}

#[test]
fn finds_dotted_literals() {
    let text =
        "// \"a.b\"\nlet x = [\"memory.total_bytes\", \"not one\", \"a.b.c\"];\n#[cfg(test)]\nmod tests { \"c.d\" }";
    assert_eq!(dotted_literals(text), ["memory.total_bytes"]);
}
