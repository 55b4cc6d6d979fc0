//! House style as tests: length of lines, files and functions, files that are not compiled, and banned text. rustfmt
//! and clippy (see `clippy.toml` for banned calls and their reasons) check the rest.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

const MAX_COLUMNS: usize = 120;
const MAX_FILE_LINES: usize = 600;
const MAX_FUNCTION_LINES: usize = 60;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Collects all files below a folder but build output and corpora.
fn collect_files(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.map(|e| e.expect("readable folder")) {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() {
            if !matches!(name.as_str(), "target" | ".git" | "corpus" | "artifacts" | "__pycache__") {
                collect_files(&path, found);
            }
        } else {
            found.push(path);
        }
    }
}

/// Files of the project with one of these endings, and their lines.
fn read_sources(endings: &[&str]) -> Vec<(String, Vec<String>)> {
    let mut paths = Vec::new();
    collect_files(&root(), &mut paths);
    paths.sort();
    let has_ending = |p: &&PathBuf| p.extension().is_some_and(|e| endings.iter().any(|x| e == *x));
    let read = |p: &PathBuf| {
        let name = p.strip_prefix(root()).expect("below the root").display().to_string();
        let text = fs::read_to_string(p).unwrap_or_else(|e| panic!("{name}: {e}"));
        (name, text.lines().map(str::to_owned).collect())
    };
    paths.iter().filter(has_ending).map(read).collect()
}

/// Fails with all messages unless there are none.
fn assert_none(wrong: Vec<String>) {
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn lines_are_short() {
    let mut wrong = Vec::new();
    for (name, lines) in read_sources(&["rs", "py"]) {
        for (index, line) in lines.iter().enumerate().filter(|(_, l)| l.chars().count() > MAX_COLUMNS) {
            wrong.push(format!("{name}:{}: {} columns", index + 1, line.chars().count()));
        }
    }
    assert_none(wrong);
}

/// A merge of two changes once left its marks in a document.
#[test]
fn no_file_has_marks_of_a_merge() {
    let mut wrong = Vec::new();
    for (name, lines) in read_sources(&["rs", "py", "sh", "md", "toml", "txt", "js", "css", "html"]) {
        let is_mark = |line: &&String| line.starts_with("<<<<<<< ") || line.starts_with(">>>>>>> ");
        wrong.extend(lines.iter().filter(is_mark).map(|line| format!("{name}: {line}")));
    }
    assert_none(wrong);
}

#[test]
fn files_are_short() {
    let too_long = |(_, lines): &(String, Vec<String>)| lines.len() > MAX_FILE_LINES;
    let message = |(name, lines): (String, Vec<String>)| format!("{name}: {} lines", lines.len());
    assert_none(read_sources(&["rs", "py", "sh"]).into_iter().filter(too_long).map(message).collect());
}

/// First line, name and length of each function, found by indentation, which rustfmt makes reliable.
fn find_functions(lines: &[String]) -> Vec<(usize, String, usize)> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
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
        let length = if one_line { 1 } else { lines[index + 1..].iter().take_while(|l| !ends(l)).count() + 1 };
        let after = words.split_once("fn ").map_or(words, |(_, rest)| rest);
        found.push((index + 1, after.split(['(', '<']).next().unwrap_or(after).to_owned(), length));
    }
    found
}

#[test]
fn functions_are_short() {
    let mut wrong = Vec::new();
    for (name, lines) in read_sources(&["rs", "py"]) {
        for (index, function, length) in find_functions(&lines) {
            if length > MAX_FUNCTION_LINES {
                wrong.push(format!("{name}:{index}: {function} has {length} lines"));
            }
        }
    }
    assert_none(wrong);
}

/// Markdown viewers drop the cells of a row that its heading does not have.
#[test]
fn table_rows_have_as_many_cells_as_their_heading() {
    let mut wrong = Vec::new();
    for (name, lines) in read_sources(&["md"]) {
        let mut heading = None;
        for (index, line) in lines.iter().enumerate() {
            if !line.starts_with('|') {
                heading = None;
                continue;
            }
            let bars = line.replace("\\|", "").matches('|').count();
            let expected = *heading.get_or_insert(bars);
            if bars != expected {
                wrong.push(format!("{name}:{}: {bars} bars, {expected} in its heading", index + 1));
            }
        }
    }
    assert_none(wrong);
}

#[test]
fn every_source_file_is_reached() {
    let files = read_sources(&["rs"]);
    let module = |line: &String| Some(line.split("mod ").nth(1)?.split(';').next()?.to_owned());
    let modules: HashSet<String> = files.iter().flat_map(|(_, lines)| lines.iter().filter_map(module)).collect();
    let mut wrong = Vec::new();
    for (name, _) in &files {
        let path = Path::new(name);
        let in_src = path.components().any(|c| c.as_os_str() == "src");
        let stem = path.file_stem().expect("a file name").to_string_lossy().into_owned();
        let folder_name = || path.parent().and_then(Path::file_name).map(|f| f.to_string_lossy().into_owned());
        let module = if stem == "mod" { folder_name().unwrap_or_default() } else { stem };
        let root_file = matches!(module.as_str(), "lib" | "main") || path.components().any(|c| c.as_os_str() == "bin");
        let reached = modules.contains(&module);
        if in_src && !root_file && !reached {
            wrong.push(format!("{name}: no `mod {module};` anywhere"));
        }
    }
    assert_none(wrong);
}

/// A file that `all.rs` does not name is not compiled, and its tests never run.
#[test]
fn every_test_file_is_run() {
    let files = read_sources(&["rs"]);
    let mut wrong = Vec::new();
    for (name, _) in &files {
        let path = Path::new(name);
        let folder = path.parent().unwrap_or(Path::new(""));
        let stem = path.file_stem().expect("a file name").to_string_lossy();
        if !folder.ends_with("tests") || stem == "all" {
            continue;
        }
        let all = folder.join("all.rs");
        let Some((_, list)) = files.iter().find(|(other, _)| Path::new(other) == all) else { continue };
        let manifest = fs::read_to_string(root().join(folder).join("../Cargo.toml")).expect("a crate");
        if !list.contains(&format!("mod {stem};")) && !manifest.contains(&format!("name = \"{stem}\"")) {
            wrong.push(format!("{name}: not in {}/all.rs", folder.display()));
        }
    }
    assert_none(wrong);
}

#[test]
fn unsafe_code_stays_where_it_is_explained() {
    let mut wrong = Vec::new();
    for (name, lines) in read_sources(&["rs"]) {
        if name == "tests/style.rs" {
            continue;
        }
        for (index, line) in lines.iter().enumerate() {
            let code = line.split("//").next().unwrap_or(line);
            let word = ["unsafe {", "unsafe fn", "unsafe impl"].iter().any(|u| code.contains(u));
            let explained = index > 0 && lines[index.saturating_sub(4)..index].iter().any(|l| l.contains("SAFETY"));
            if word && !explained {
                wrong.push(format!("{name}:{}: unsafe without a SAFETY comment above", index + 1));
            }
        }
    }
    assert_none(wrong);
}

#[test]
fn sources_name_no_path_of_one_machine() {
    let own_path = ["/wo", "rk/"].concat();
    let mut wrong = Vec::new();
    for (name, lines) in read_sources(&["rs", "toml", "md", "py", "sh", "html", "yml"]) {
        for (index, line) in lines.iter().enumerate().filter(|(_, l)| l.contains(&own_path)) {
            wrong.push(format!("{name}:{}: a path of one machine: {}", index + 1, line.trim()));
        }
    }
    assert_none(wrong);
}

/// Standard error and standard output are written in one module, which escapes text from outside; tests may print why
/// they are skipped.
#[test]
fn only_the_output_module_prints() {
    let ways = ["eprintln!", "eprint!", "io::stderr()", "io::stdout()"];
    let mut wrong = Vec::new();
    for (name, lines) in read_sources(&["rs"]).into_iter().filter(|(n, _)| n.starts_with("src/") || n.contains("/src/"))
    {
        let is_test = |line: &str| line.contains("skipped: ") || line.contains("a listener");
        for (index, line) in
            lines.iter().enumerate().filter(|(_, l)| ways.iter().any(|way| l.contains(way)) && !is_test(l))
        {
            let only_queries = line.contains("is_terminal()") && !line.contains("write");
            if name != "src/commands/output.rs" && !only_queries {
                wrong.push(format!("{name}:{}: use commands::output: {}", index + 1, line.trim()));
            }
        }
    }
    assert_none(wrong);
}

#[test]
fn each_dependency_has_its_reason() {
    let mut wrong = Vec::new();
    for (name, lines) in read_sources(&["toml"]).into_iter().filter(|(n, _)| n.ends_with("Cargo.toml")) {
        let mut section = String::new();
        for (index, line) in lines.iter().enumerate() {
            if line.starts_with('[') {
                section = line.clone();
                continue;
            }
            let dependency = section.contains("dependencies") && line.contains('=');
            let inherited = line.contains("workspace = true") || line.contains("path =");
            let reason = line.contains('#') || index > 0 && lines[index - 1].trim_start().starts_with('#');
            // a reason may stand above a group of dependencies
            let group = (0..index).rev().map(|i| lines[i].as_str()).take_while(|l| l.contains('=')).count();
            let above = lines.get((index - group).wrapping_sub(1)).is_some_and(|l| l.starts_with('#'));
            if dependency && !inherited && !reason && !above {
                wrong.push(format!("{name}:{}: no reason beside `{line}`", index + 1));
            }
        }
    }
    assert_none(wrong);
}

/// Crates without examples in their documentation switch doctests off, which saves a second per crate in `cargo test`;
/// a new example must switch them on.
#[test]
fn documentation_examples_are_tested() {
    let mut wrong = Vec::new();
    for (name, lines) in read_sources(&["rs"]).into_iter().filter(|(name, _)| name.contains("/src/")) {
        let folder: PathBuf = Path::new(&name).components().take_while(|part| part.as_os_str() != "src").collect();
        let manifest = fs::read_to_string(root().join(folder).join("Cargo.toml")).unwrap_or_default();
        let fence = |line: &String| {
            let words = line.trim_start();
            words.strip_prefix("/// ```").or_else(|| words.strip_prefix("//! ```")).map(str::to_owned)
        };
        let opening = lines.iter().filter_map(fence).step_by(2);
        if manifest.contains("doctest = false") && opening.clone().any(|language| language != "text") {
            wrong.push(format!("{name}: an example that no test runs: remove `doctest = false` from Cargo.toml"));
        }
    }
    assert_none(wrong);
}

#[test]
fn every_document_is_in_the_index() {
    let folder = root().join("docs");
    let index = fs::read_to_string(folder.join("index.md")).expect("an index");
    let documents = read_sources(&["md"]).into_iter().map(|(name, _)| name).filter(|name| name.starts_with("docs/"));
    let missing = |name: &String| !index.contains(&format!("({})", name.trim_start_matches("docs/")));
    assert_none(documents.filter(|name| name != "docs/index.md").filter(missing).collect());
}

/// Phrases of `tests/phrases.txt` with their replacements.
fn read_phrases() -> Vec<(String, String)> {
    let text = fs::read_to_string(root().join("tests/phrases.txt")).expect("a list of phrases");
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    let parts = lines.map(|line| line.split_once('|').unwrap_or_else(|| panic!("no bar in `{line}`")));
    parts.map(|(phrase, better)| (phrase.trim().to_lowercase(), better.trim().to_owned())).collect()
}

/// True if the text has the phrase as whole words.
fn has_phrase(text: &str, phrase: &str) -> bool {
    text.match_indices(phrase).any(|(start, _)| {
        let (before, after) = (&text[..start], &text[start + phrase.len()..]);
        !before.ends_with(char::is_alphanumeric) && !after.starts_with(char::is_alphanumeric)
    })
}

/// Part of a line that users can read, in lower case: strings of code, all but comments of data and documents.
fn visible_text(name: &str, line: &str) -> Option<String> {
    if !name.ends_with(".rs") {
        return (name.ends_with(".md") || !line.starts_with('#')).then(|| line.to_lowercase());
    }
    let words = line.trim();
    let inside = if !words.contains('"') && words.ends_with('\\') {
        words.to_owned()
    } else {
        words.split('"').skip(1).step_by(2).collect::<Vec<_>>().join("\n")
    };
    (!words.starts_with("//")).then(|| inside.to_lowercase())
}

#[test]
fn replaced_phrases_do_not_come_back() {
    assert!(has_phrase("the disk is had.", "is had") && !has_phrase("this had", "is had"));
    assert_eq!(visible_text("a.rs", "say(\"Two words\"); // not this"), Some("two words".to_owned()));
    let data = [
        "rules/",
        "crates/foundation/base/counters/",
        "crates/foundation/base/glossary.toml",
        "crates/judge/advise/src/data/",
    ];
    let notes = ["docs/", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "lab/README.md"];
    let is_text = |name: &str| {
        let is_code = name.ends_with(".rs") && (name.starts_with("src/") || name.contains("/src/"));
        let is_test = name.split('/').any(|part| part == "tests" || part.starts_with("tests"));
        let is_data = name.ends_with(".toml") && data.iter().any(|start| name.starts_with(start));
        let is_note = name.ends_with(".md") && notes.iter().any(|start| name.starts_with(start));
        is_data || (is_note && name != "docs/vocabulary.md") || (is_code && !is_test)
    };
    let phrases = read_phrases();
    assert!(phrases.len() > 30, "only {} phrases", phrases.len());
    let mut wrong = Vec::new();
    for (name, lines) in read_sources(&["rs", "toml", "md"]).into_iter().filter(|(name, _)| is_text(name)) {
        let own = lines.iter().enumerate().take_while(|(_, line)| *line != "mod tests {");
        let texts: Vec<(usize, String)> =
            own.filter_map(|(index, line)| Some((index + 1, visible_text(&name, line)?))).collect();
        // one search in the whole file excludes most phrases at once
        let all = texts.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join("\n");
        for (phrase, better) in phrases.iter().filter(|(phrase, _)| all.contains(phrase.as_str())) {
            let found = texts.iter().filter(|(_, text)| has_phrase(text, phrase));
            wrong.extend(found.map(|(line, _)| format!("{name}:{line}: `{phrase}`: write {better}")));
        }
    }
    assert_none(wrong);
}

/// Names that hide what a type is: participles, metaphors, and words that mean nothing in the field
/// (docs/vocabulary.md).
const BANNED_TYPE_NAMES: &[&str] = &[
    "Asked", "Wanted", "Told", "Said", "Held", "Found", "Seen", "Given", "Made", "Known", "Taken", "Served", "Listed",
    "Measured", "Judged", "Wish", "Wishes", "Most", "Dice", "Desk", "Basket", "Giver", "Moment", "Room", "Lane",
    "Fate",
];

#[test]
fn type_names_are_nouns_of_the_field() {
    let mut wrong = Vec::new();
    let is_test = |part: &str| part.starts_with("tests") || ["benches", "examples", "fuzz"].contains(&part);
    for (name, lines) in read_sources(&["rs"]).into_iter().filter(|(name, _)| !name.split('/').any(is_test)) {
        // an indented declaration is an associated type or local to a function
        for (index, line) in lines.iter().enumerate().filter(|(_, line)| !line.starts_with([' ', '/'])) {
            let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            let is_declaration = words.any(|word| ["struct", "enum", "trait", "type"].contains(&word));
            if let Some(declared) = words.next().filter(|word| is_declaration && BANNED_TYPE_NAMES.contains(word)) {
                wrong.push(format!("{name}:{}: `{declared}` hides what the type is", index + 1));
            }
        }
    }
    assert_none(wrong);
}

/// Largest number of uses of a variable `at` in each crate and in the program. A name says whether it is an index, a
/// position, a time or a context (docs/vocabulary.md). The numbers may only fall.
const MAX_AT_USES: &[(&str, usize)] = &[
    ("counters", 3),
    ("diagnosis", 8),
    ("logs", 7),
    ("planner", 1),
    ("probe", 12),
    ("remote", 3),
    ("report", 2),
    ("simulator", 40),
    ("src", 5),
    ("traces", 3),
];

/// Number of uses of the word `at` in a line of code, without fields and methods (`.at`), comments and strings.
fn count_bare_at(line: &str) -> usize {
    if !line.contains("at") {
        return 0;
    }
    let code = line.split("//").next().unwrap_or(line);
    let outside: String = code.split('"').step_by(2).collect::<Vec<_>>().join("\"\"");
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let is_bare = |start: usize| {
        let (before, after) = (&outside[..start], outside[start + 2..].chars().next());
        let is_field = before.ends_with('.') && !before.ends_with("..");
        !is_field && !before.ends_with(is_part) && after.is_none_or(|c| !is_part(c) && c != '(')
    };
    outside.match_indices("at").filter(|(start, _)| is_bare(*start)).count()
}

#[test]
fn variables_called_at_do_not_increase() {
    assert_eq!(
        ["for (at, x) in list[at..at + 1] {", "self.at(at)", "// at", "\"at\"", "that"].map(count_bare_at),
        [3, 1, 0, 0, 0]
    );
    let mut counts = std::collections::BTreeMap::new();
    for (name, lines) in read_sources(&["rs"]) {
        let mut folders = name.split('/');
        // a crate lies in a group: crates/GROUP/CRATE
        let folder = folders.next().filter(|first| *first != "crates").or_else(|| folders.nth(1)).unwrap_or("");
        *counts.entry(folder.to_owned()).or_insert(0) += lines.iter().map(|line| count_bare_at(line)).sum::<usize>();
    }
    let limit = |folder: &str| MAX_AT_USES.iter().find(|(name, _)| *name == folder).map_or(0, |(_, limit)| *limit);
    let grown = counts.iter().filter(|(folder, count)| **count > limit(folder));
    assert_none(
        grown.map(|(folder, count)| format!("{folder}: {count} uses of `at`, above {}", limit(folder))).collect(),
    );
}
