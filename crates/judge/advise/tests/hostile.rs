//! Replaces one file of a host at a time with content that no kernel writes: it must not lead to advice, and an
//! unreadable file is reported as unknown.

use std::collections::BTreeSet;

use diskwright_advise::{CHECKS, HostAdvice, HostFacts, HostTree, advise};
use diskwright_base::Topology;
use diskwright_counters::live::sources::topology;

use crate::cases::HostBench;

const HOSTS: &[&str] = &["server", "desktop"];
/// Text that is neither a number nor a word that the kernel writes.
const NONSENSE: &[&str] =
    &["", " ", "\0", "garbage garbage", "nan", "inf", "-1", "1e309", "0x10", "[", "\u{1b}[31mred", "\u{fffd}"];
/// Files in which any text is valid: names, and lists in which a missing entry does not exist.
const LISTS: &[&str] = &[
    "/model",
    "/vendor",
    "/uuid",
    "/name",
    "mountinfo",
    "proc/swaps",
    "cmdline",
    "os-release",
    "cpu_list",
    "processes",
];

fn judged(tree: HostTree, topology: &Topology) -> HostAdvice {
    advise(&HostFacts::from_facts(tree, topology.clone(), None))
}

fn ids(advice: &HostAdvice) -> BTreeSet<String> {
    advice.items.iter().map(|item| item.id.clone()).collect()
}

/// A host's facts, its devices, and the ids of its items.
fn host(name: &str) -> (HostTree, Topology, BTreeSet<String>) {
    let bench = HostBench::new(name);
    let (tree, topology) = (HostTree::read(bench.machine.folder()), topology::read_topology(&bench.machine.roots()));
    let before = ids(&judged(tree.clone(), &topology));
    (tree, topology, before)
}

#[test]
fn nonsense_in_files_gives_no_advice() {
    let mut wrong = Vec::new();
    for name in HOSTS {
        let (tree, topology, before) = host(name);
        for path in tree.files.keys().filter(|path| !LISTS.iter().any(|suffix| path.ends_with(suffix))) {
            for text in NONSENSE {
                // the kernel writes -1 for a device that cannot be aligned
                if *text == "-1" && path.ends_with("alignment_offset") {
                    continue;
                }
                let mut broken = tree.clone();
                broken.files.insert(path.clone(), (*text).to_owned());
                let advice = judged(broken, &topology);
                let new: Vec<_> = advice.items.iter().filter(|item| !before.contains(&item.id)).collect();
                wrong.extend(new.iter().map(|item| format!("{name}: {path} is {text:?}: {}: {}", item.id, item.seen)));
                let advice_json = serde_json::to_string(&advice).expect("JSON");
                wrong.extend(advice_json.contains("NaN").then(|| format!("{name}: {path} is {text:?}: says NaN")));
            }
        }
    }
    assert!(wrong.is_empty(), "{} answers:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn unreadable_file_gives_no_advice_and_an_unknown_limit() {
    let mut wrong = Vec::new();
    for name in HOSTS {
        let (tree, topology, before) = host(name);
        for path in tree.files.keys().filter(|path| !path.ends_with("mountinfo") && *path != "processes") {
            let mut broken = tree.clone();
            broken.files.remove(path);
            broken.unreadable.insert(path.clone(), "reading it failed: made up".into());
            let advice = judged(broken, &topology);
            let new = ids(&advice).difference(&before).cloned().collect::<Vec<_>>();
            wrong.extend(new.iter().map(|id| format!("{name}: {path} is refused: {id}")));
            let is_reported = advice.unknown.iter().any(|unknown| unknown.because.contains("made up"));
            let file = path.rsplit('/').next().unwrap_or_default();
            let is_needed = *name == "server" && path.starts_with("sys/block/s") && NEEDED_FILES.contains(&file);
            wrong
                .extend((is_needed && !is_reported).then(|| format!("{name}: {path} is refused, and nothing says so")));
        }
    }
    assert!(wrong.is_empty(), "{} answers:\n{}", wrong.len(), wrong.join("\n"));
}

/// Without a disk nothing is wrong, and the reason is reported.
#[test]
fn host_without_disks_is_reported() {
    let (mut tree, _, _) = host("server");
    tree.files.retain(|path, _| !path.starts_with("sys/block"));
    tree.unreadable.insert("sys/block".into(), "only root can read it".into());
    let advice = judged(tree, &Topology::default());
    let disks = advice.unknown.iter().find(|unknown| unknown.id == "disks").expect("reported");
    assert_eq!(disks.because, "/sys/block: only root can read it");
}

/// Files of a disk that a check reads, without a substitute.
const NEEDED_FILES: &[&str] =
    &["iostats", "nomerges", "rq_affinity", "read_ahead_kb", "max_sectors_kb", "zoned", "wbt_lat_usec", "state"];

#[test]
fn judges_infinite_numbers_without_panicking() {
    for name in HOSTS {
        let (tree, topology, _) = host(name);
        for path in tree.files.keys() {
            for text in ["99999999999999999999999999999999", "18446744073709551615", "0"] {
                let mut broken = tree.clone();
                broken.files.insert(path.clone(), text.into());
                for item in judged(broken, &topology).items {
                    let says = format!("{} {} {}", item.seen, item.apply, item.undo.unwrap_or_default());
                    assert!(!says.contains("NaN") && !says.contains("inf "), "{path} is {text}: {says}");
                    assert!(CHECKS.iter().any(|check| check.id == item.check));
                }
            }
        }
    }
}

/// Mount points are quoted for the shell in each command, and long texts are truncated.
#[test]
fn a_mount_point_is_one_word_of_a_command() {
    for (escaped, word) in [
        (r"/mnt/a\040b", "'/mnt/a b'"),
        (r"/mnt/$(reboot)", "'/mnt/$(reboot)'"),
        (r"/mnt/it's", r"'/mnt/it'\''s'"),
        (r"/mnt/a\012b", r"$'/mnt/a\x0ab'"),
        (r"/mnt/\033[2J", r"$'/mnt/\x1b[2J'"),
    ] {
        let (mut tree, topology, _) = host("server");
        let mounts = format!("21 1 8:1 / {escaped} rw shared:1 - ext4 /dev/sda1 rw,nobarrier");
        tree.files.insert("proc/self/mountinfo".into(), mounts);
        let advice = judged(tree, &topology);
        for (check, command) in [
            ("filesystem.access-times", "mount -o remount,relatime "),
            ("filesystem.barriers", "mount -o remount,barrier "),
        ] {
            let item = advice.items.iter().find(|item| item.check == check).expect("an item");
            assert!(item.apply.starts_with(&format!("{command}{word} #")), "{}", item.apply);
            assert!(item.undo.as_ref().is_some_and(|undo| undo.ends_with(word)), "{:?}", item.undo);
        }
    }
    let (mut tree, topology, _) = host("server");
    tree.files.insert("sys/block/sda/device/state".into(), "x".repeat(1 << 20));
    let advice = judged(tree, &topology);
    let longest = advice.unknown.iter().map(|unknown| unknown.because.len()).max();
    assert!(longest.is_some_and(|length| length < 300), "{longest:?}");
}
