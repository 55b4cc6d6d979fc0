//! Examples of the documents work as typed in a clone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::common::{command, diskwright, folder, stderr, text};

/// Words of the examples that stand for a log of the reader's, and a log of ours in their place.
const PLACEHOLDERS: &[&str] = &["LOG", "LOG1", "LOG2", "mylog"];
const SAMPLE_LOG: &str = "crates/observe/logs/tests/fixtures/sadf-json.json";
/// Commands that read only files of the clone and end by themselves.
const SELF_CONTAINED: &[&str] = &["why", "show", "export", "report", "plan", "simulate", "explain", "list"];
/// Files that an example of before makes, and things of the reader's machine; such examples are only parsed.
const FROM_ELSEWHERE: &[&str] = &[
    "--ssh",
    ".json",
    ".csv",
    "sar.bin",
    "iostat.txt",
    "sosreport",
    "http:",
    "/dev/",
    "/var/",
    "/data",
    "sdX",
    "TARGET",
    "DIR",
    "FILE",
    "own",
    "--latency",
    "--from -",
    "--host",
    "--fleet",
    "--what-if",
    "--volume",
    // the sample log is short, and has neither a network filesystem nor a disk with several paths
    "plan --from",
    "network_filesystem",
    "path.*",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The documents for users.
fn documents() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("docs")).expect("docs").map(|entry| entry.expect("readable").path());
    let mut found: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|e| e == "md")).collect();
    found.extend(["README.md", "lab/README.md", "demos/README.md"].map(|name| root().join(name)));
    found.sort();
    found
}

/// Splits a line as a shell does: quotes, and a comment from ` #` on.
fn split_words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut is_word) = (Vec::new(), String::new(), None, false);
    for c in line.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => word.push(c),
            None if c == '\'' || c == '"' => (quote, is_word) = (Some(c), true),
            None if c == '#' && !is_word => break,
            None if c.is_whitespace() => {
                if std::mem::take(&mut is_word) {
                    words.push(std::mem::take(&mut word));
                }
            }
            None => {
                word.push(c);
                is_word = true;
            }
        }
    }
    if is_word {
        words.push(word);
    }
    words
}

/// Example lines of all documents, with their places: indented by four spaces, or after `sudo`; continued lines joined.
fn examples() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for path in documents() {
        let content = fs::read_to_string(&path).expect("readable");
        let name = path.strip_prefix(root()).expect("below the root").display().to_string();
        let mut lines = content.lines().enumerate();
        while let Some((index, line)) = lines.next() {
            let Some(line) = line.strip_prefix("    ") else { continue };
            let line = line.strip_prefix("sudo ").unwrap_or(line);
            let Some(arguments) = line.strip_prefix("diskwright ") else { continue };
            let mut arguments = arguments.to_owned();
            while let Some(rest) = arguments.strip_suffix('\\') {
                arguments = format!("{rest} {}", lines.next().expect("a continued line").1.trim());
            }
            found.push((format!("{name}:{}", index + 1), arguments));
        }
    }
    assert!(found.len() > 120, "only {} examples were found", found.len());
    found
}

/// True if the example needs nothing but the clone.
fn runs_in_a_clone(line: &str, words: &[String]) -> bool {
    let is_live = words[0] == "why" && (words.len() == 1 || words[1] == "-");
    let fixtures = line.contains("fixtures/") || line.contains("examples/") || line.contains("experiments/");
    let line = &line[..line.find(" #").unwrap_or(line.len())];
    let is_elsewhere = FROM_ELSEWHERE.iter().any(|part| line.contains(part)) && !fixtures;
    SELF_CONTAINED.contains(&words[0].as_str()) && !is_live && !is_elsewhere
}

fn failure(place: &str, line: &str, output: &Output) -> Option<String> {
    (!output.status.success()).then(|| format!("{place}: `diskwright {line}`: {}", stderr(output)))
}

#[test]
fn options_of_all_examples_exist() {
    let mut wrong = Vec::new();
    for (place, line) in examples() {
        // what follows a bar or `--` is no option of ours, nor is an `&` of the shell
        let words = split_words(line.split(" | ").next().unwrap_or_default());
        let mut arguments: Vec<&str> =
            words.iter().map(String::as_str).take_while(|word| !["--", "&"].contains(word)).collect();
        // clap reads what stands before it first
        arguments.push("--help");
        wrong.extend(failure(&place, &line, &diskwright(&arguments)));
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn examples_that_need_only_the_clone_succeed() {
    let work = folder("documents-examples");
    for name in ["crates", "examples", "experiments", "lab"] {
        std::os::unix::fs::symlink(root().join(name), work.join(name)).expect("a link");
    }
    let (mut wrong, mut done) = (Vec::new(), std::collections::BTreeSet::new());
    for (place, line) in examples() {
        let words = split_words(line.split(" | ").next().unwrap_or_default());
        if !runs_in_a_clone(&line, &words) {
            continue;
        }
        // a log to be written has the name that the example gives
        let writes_log = words.iter().any(|word| word == "--out");
        let fill = |word: &String| match word.as_str() {
            _ if writes_log => word.clone(),
            placeholder if PLACEHOLDERS.contains(&placeholder) => SAMPLE_LOG.to_owned(),
            _ => word.clone(),
        };
        let arguments: Vec<String> = words.iter().map(fill).collect();
        if !done.insert(arguments.clone()) {
            continue;
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output =
            command(&arguments).current_dir(&work).env("HOME", text(&work)).output().expect("the program runs");
        wrong.extend(failure(&place, &line, &output));
    }
    assert!(done.len() > 30, "only {} examples were run", done.len());
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}
