//! The rooms of this crate use each other in one direction, in the order that `lib.rs` names them.

use std::fs;
use std::path::{Path, PathBuf};

/// The folders of `src`; each uses only those before it.
const ROOMS: [&str; 9] = ["rules", "sums", "compile", "culprits", "run", "trends", "changes", "answer", "compare"];
/// Largest number of files in a room.
const MAX_FILES: usize = 12;

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// Entries of a folder, sorted.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let read = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("readable").path());
    let mut list: Vec<PathBuf> = read.collect();
    list.sort();
    list
}

/// Text of a file without its unit tests, which may use any room, and without comments.
fn code_of(file: &Path) -> String {
    let text = fs::read_to_string(file).expect("readable");
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default().to_owned();
    code.lines().map(|line| line.split("//").next().unwrap_or_default().to_owned() + "\n").collect()
}

/// The names that follow `crate::` in a text.
fn crate_names(text: &str) -> Vec<&str> {
    text.split("crate::")
        .skip(1)
        .map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or(rest))
        .collect()
}

#[test]
fn every_source_file_is_in_a_room() {
    let mut folders: Vec<String> = Vec::new();
    for path in entries(&source()) {
        let name = path.file_name().expect("named").to_string_lossy().into_owned();
        if path.is_dir() {
            let files = entries(&path).into_iter().filter(|file| file.extension().is_some_and(|e| e == "rs")).count();
            assert!(files <= MAX_FILES, "{name} has {files} files");
            assert!(path.join("mod.rs").is_file(), "{name} has no mod.rs");
            folders.push(name);
        } else {
            assert_eq!(name, "lib.rs", "a file outside of the rooms");
        }
    }
    let mut expected = ROOMS.map(str::to_owned);
    expected.sort();
    assert_eq!(folders, expected);
}

#[test]
fn rooms_use_each_other_in_one_direction() {
    for (position, room) in ROOMS.iter().enumerate() {
        let inside = |path: PathBuf| if path.is_dir() { entries(&path) } else { vec![path] };
        let files =
            entries(&source().join(room)).into_iter().flat_map(inside).filter(|file| !file.ends_with("tests.rs"));
        for file in files {
            let code = code_of(&file);
            for name in crate_names(&code) {
                let used = ROOMS.iter().position(|room| *room == name);
                let used = used.unwrap_or_else(|| panic!("{}: crate::{name} is no room", file.display()));
                assert!(used <= position, "{}: {room} must not use {name}", file.display());
            }
        }
    }
}
