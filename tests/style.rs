//! House style as a test: line, file and function length, files that nothing
//! reaches, and text that must not be here. rustfmt and clippy (see
//! `clippy.toml` for banned calls and their reasons) hold the rest.

use std::fs;
use std::path::{Path, PathBuf};

const MOST_COLUMNS: usize = 120;
const MOST_FILE_LINES: usize = 600;
const MOST_FUNCTION_LINES: usize = 60;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.map(|e| e.expect("readable folder")) {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() {
            if !matches!(name.as_str(), "target" | ".git" | "corpus" | "artifacts" | "__pycache__") {
                walk(&path, found);
            }
        } else {
            found.push(path);
        }
    }
}

/// The project's own files with one of these endings, and their lines.
fn sources(endings: &[&str]) -> Vec<(String, Vec<String>)> {
    let mut paths = Vec::new();
    walk(&root(), &mut paths);
    paths.sort();
    let wanted = |p: &&PathBuf| p.extension().is_some_and(|e| endings.iter().any(|x| e == *x));
    let read = |p: &PathBuf| {
        let name = p.strip_prefix(root()).expect("below the root").display().to_string();
        let text = fs::read_to_string(p).unwrap_or_else(|e| panic!("{name}: {e}"));
        (name, text.lines().map(str::to_owned).collect())
    };
    paths.iter().filter(wanted).map(read).collect()
}

fn report(wrong: Vec<String>) {
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn lines_are_short() {
    let mut wrong = Vec::new();
    for (name, lines) in sources(&["rs", "py"]) {
        for (at, line) in lines.iter().enumerate().filter(|(_, l)| l.chars().count() > MOST_COLUMNS) {
            wrong.push(format!("{name}:{}: {} columns", at + 1, line.chars().count()));
        }
    }
    report(wrong);
}

#[test]
fn files_are_short() {
    let too_long = |(_, lines): &(String, Vec<String>)| lines.len() > MOST_FILE_LINES;
    let tell = |(name, lines): (String, Vec<String>)| format!("{name}: {} lines", lines.len());
    report(sources(&["rs", "py", "sh"]).into_iter().filter(too_long).map(tell).collect());
}

/// Start, name and length of each function, told by indentation, which
/// rustfmt makes reliable.
fn functions(lines: &[String]) -> Vec<(usize, String, usize)> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let words = line.trim_start();
        let python = words.starts_with("def ");
        let rust = ["fn ", "pub fn ", "pub(crate) fn ", "pub(super) fn ", "const fn ", "pub const fn ", "unsafe fn "]
            .iter()
            .any(|start| words.starts_with(start));
        if !(rust || python) {
            continue;
        }
        let ends = |l: &&String| {
            let level = indent(l);
            let dedented = !l.trim().is_empty() && level <= indent(line);
            if python { dedented } else { level == indent(line) && l.trim() == "}" }
        };
        let one_line = rust && (line.trim_end().ends_with('}') || line.trim_end().ends_with(';'));
        let length = if one_line { 1 } else { lines[at + 1..].iter().take_while(|l| !ends(l)).count() + 1 };
        let after = words.split_once("fn ").map_or(words, |(_, rest)| rest);
        found.push((at + 1, after.split(['(', '<']).next().unwrap_or(after).to_owned(), length));
    }
    found
}

#[test]
fn functions_are_short() {
    let mut wrong = Vec::new();
    for (name, lines) in sources(&["rs", "py"]) {
        for (at, function, length) in functions(&lines) {
            if length > MOST_FUNCTION_LINES {
                wrong.push(format!("{name}:{at}: {function} has {length} lines"));
            }
        }
    }
    report(wrong);
}

#[test]
fn every_source_file_is_reached() {
    let files = sources(&["rs"]);
    let text: String = files.iter().flat_map(|(_, lines)| lines.iter()).map(|l| format!("{l}\n")).collect();
    let mut wrong = Vec::new();
    for (name, _) in &files {
        let path = Path::new(name);
        let in_src = path.components().any(|c| c.as_os_str() == "src");
        let stem = path.file_stem().expect("a file name").to_string_lossy().into_owned();
        let of_folder = || path.parent().and_then(Path::file_name).map(|f| f.to_string_lossy().into_owned());
        let module = if stem == "mod" { of_folder().unwrap_or_default() } else { stem };
        let root_file = matches!(module.as_str(), "lib" | "main") || path.components().any(|c| c.as_os_str() == "bin");
        let reached = text.contains(&format!("mod {module};"));
        if in_src && !root_file && !reached {
            wrong.push(format!("{name}: no `mod {module};` anywhere"));
        }
    }
    report(wrong);
}

#[test]
fn unsafe_code_stays_where_it_is_explained() {
    let mut wrong = Vec::new();
    for (name, lines) in sources(&["rs"]) {
        if name == "tests/style.rs" {
            continue;
        }
        for (at, line) in lines.iter().enumerate() {
            let code = line.split("//").next().unwrap_or(line);
            let word = ["unsafe {", "unsafe fn", "unsafe impl"].iter().any(|u| code.contains(u));
            let explained = at > 0 && lines[at.saturating_sub(4)..at].iter().any(|l| l.contains("SAFETY"));
            if word && !explained {
                wrong.push(format!("{name}:{}: unsafe without a SAFETY comment above", at + 1));
            }
        }
    }
    report(wrong);
}

#[test]
fn the_project_speaks_of_itself_alone() {
    let own_path = ["/wo", "rk/"].concat();
    let mut wrong = Vec::new();
    for (name, lines) in sources(&["rs", "toml", "md", "py", "sh", "html", "yml"]) {
        for (at, line) in lines.iter().enumerate().filter(|(_, l)| l.contains(&own_path)) {
            wrong.push(format!("{name}:{}: a path of one machine: {}", at + 1, line.trim()));
        }
    }
    report(wrong);
}

#[test]
fn each_dependency_has_its_reason() {
    let mut wrong = Vec::new();
    for (name, lines) in sources(&["toml"]).into_iter().filter(|(n, _)| n.ends_with("Cargo.toml")) {
        let mut section = String::new();
        for (at, line) in lines.iter().enumerate() {
            if line.starts_with('[') {
                section = line.clone();
                continue;
            }
            let dependency = section.contains("dependencies") && line.contains('=');
            let inherited = line.contains("workspace = true") || line.contains("path =");
            let reason = line.contains('#') || at > 0 && lines[at - 1].trim_start().starts_with('#');
            // a reason may stand above a group of neighbours
            let group = (0..at).rev().map(|i| lines[i].as_str()).take_while(|l| l.contains('=')).count();
            let above = lines.get((at - group).wrapping_sub(1)).is_some_and(|l| l.starts_with('#'));
            if dependency && !inherited && !reason && !above {
                wrong.push(format!("{name}:{}: no reason beside `{line}`", at + 1));
            }
        }
    }
    report(wrong);
}
