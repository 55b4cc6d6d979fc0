//! The pages of the program's own file. Starting touches many that recording never needs again: the command line's
//! description, the help, the checks of options. They count as resident, and would be locked.

use std::ffi::c_void;
use std::fs;

use rustix::mm::{Advice, madvise};

/// A part of this process's address space that shows a file, unchanged.
#[derive(Debug, PartialEq, Eq)]
struct FileMapping {
    start: usize,
    bytes: usize,
}

/// Takes the pages of the program's file out of this process; the kernel shows them again when they are needed.
/// Nothing happens where the mappings cannot be read.
pub fn release_program_pages() {
    let (Ok(program), Ok(mappings)) = (fs::read_link("/proc/self/exe"), fs::read_to_string("/proc/self/smaps")) else {
        return;
    };
    let Some(program) = program.to_str() else { return };
    for mapping in unchanged_mappings(&mappings, program) {
        release_mapping(&mapping);
    }
}

#[allow(unsafe_code, reason = "no crate has madvise as a safe call")]
fn release_mapping(mapping: &FileMapping) {
    let start = std::ptr::with_exposed_provenance_mut::<c_void>(mapping.start);
    // SAFETY: the mapping can be read only, shows a file, and the kernel reports that this process has no changed page
    // in it, so each page comes back from the file with the same content. A refusal changes nothing.
    let _ = unsafe { madvise(start, mapping.bytes, Advice::LinuxDontNeed) };
}

/// Returns the mappings of this file in a text of `smaps` that cannot be written and have no changed page. The loader
/// changes pages of addresses and makes them read-only afterwards; these would come back as they are in the file.
fn unchanged_mappings(smaps: &str, file: &str) -> Vec<FileMapping> {
    let mut found = Vec::new();
    let mut current = None;
    for line in smaps.lines() {
        let mut words = line.split_ascii_whitespace();
        let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        match first.strip_suffix(':') {
            None => {
                found.extend(current.take());
                let is_file = line.split_once('/').is_some_and(|(_, path)| path == &file[1..]);
                current = parse_range(first).filter(|_| is_file && ["r-xp", "r--p"].contains(&second));
            }
            // a page of the file that was not written back counts as dirty, too: a program that was just built has many
            Some("Anonymous" | "Swap") if second != "0" => current = None,
            Some(_) => {}
        }
    }
    found.extend(current);
    found
}

fn parse_range(text: &str) -> Option<FileMapping> {
    let (start, end) = text.split_once('-')?;
    let (start, end) = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
    Some(FileMapping { start, bytes: end.checked_sub(start)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unchanged_mappings_of_the_program_are_released() {
        let mapping = |range: &str, rights: &str, file: &str, dirty: u32| {
            format!(
                "{range} {rights} 00000000 fe:00 42                  {file}\nRss:  8 kB\nPrivate_Dirty:  8 kB\n\
                 Anonymous:  {dirty} kB\nVmFlags: rd mr mw me\n"
            )
        };
        let smaps = [
            mapping("1000-3000", "r--p", "/usr/bin/diskwright", 0),
            mapping("3000-9000", "r-xp", "/usr/bin/diskwright", 0),
            // addresses that the loader has written
            mapping("9000-a000", "r--p", "/usr/bin/diskwright", 4),
            mapping("a000-b000", "rw-p", "/usr/bin/diskwright", 0),
            mapping("c000-d000", "r-xp", "/usr/lib/libc.so.6", 0),
            mapping("d000-e000", "r--p", "/tmp/usr/bin/diskwright", 0),
            mapping("f000-f800", "rw-p", "", 8),
        ];
        let found = unchanged_mappings(&smaps.concat(), "/usr/bin/diskwright");
        assert_eq!(found, [FileMapping { start: 0x1000, bytes: 0x2000 }, FileMapping { start: 0x3000, bytes: 0x6000 }]);
        assert_eq!(unchanged_mappings("no mapping\n:", "/x"), []);
    }

    #[test]
    fn the_program_runs_on_after_its_pages_are_released() {
        let before = fs::read_to_string("/proc/self/smaps").unwrap();
        let program = fs::read_link("/proc/self/exe").unwrap();
        assert!(!unchanged_mappings(&before, program.to_str().unwrap()).is_empty(), "{before}");
        for _ in 0..10 {
            release_program_pages();
        }
        assert_eq!(format!("{:>5}", 42), "   42");
    }
}
