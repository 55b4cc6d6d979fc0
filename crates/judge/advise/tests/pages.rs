//! Whole answers, kept as pages: what `advise` says of made-up hosts, read by somebody who would know better.
//! With `DISKWRIGHT_KEEP_PAGES=1` they are written anew, to be reviewed.

use std::path::Path;

use diskwright_advise::{HostAdvice, HostFacts, HostTree, ServerRole, advise};
use diskwright_counters::live::sources::topology;

use crate::cases::{HostBench, load_of};

/// All that a page says.
fn page(host: &HostFacts) -> String {
    let advice: HostAdvice = advise(host);
    let mut text = format!("role: {}\n", host.role.name());
    if host.is_container() {
        text += "a container\n";
    }
    for item in &advice.items {
        text += &format!("{}: {}: {}\n    good: {}\n", item.severity.name(), item.id, item.seen, item.good);
        item.evidence.iter().for_each(|evidence| text += &format!("    evidence: {evidence}\n"));
        item.gain.iter().for_each(|gain| text += &format!("    gain: {}\n", gain.text));
        text += &format!("    apply: {}\n", item.apply);
        item.undo.iter().for_each(|undo| text += &format!("    undo: {undo}\n"));
        item.lasting.iter().for_each(|lasting| text += &format!("    keep: {lasting}\n"));
    }
    // health is known from a log alone, which is said of every disk
    for unknown in advice.unknown.iter().filter(|unknown| !unknown.id.starts_with("health.")) {
        text += &format!("unknown: {}: {}\n", unknown.id, unknown.because);
    }
    text + &format!("{} checks passed\n", advice.well)
}

/// Compares with the page that was reviewed.
fn is_as_kept(name: &str, found: &str, wrong: &mut Vec<String>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pages").join(format!("{name}.txt"));
    if std::env::var_os("DISKWRIGHT_KEEP_PAGES").is_some() {
        std::fs::write(&path, found).expect("the page is written");
    }
    if std::fs::read_to_string(&path).unwrap_or_default() != found {
        wrong.push(format!("{name} is another than the page that was reviewed:\n{found}"));
    }
}

/// Hosts whose role their programs tell.
const HOSTS: &[&str] = &[
    "amazon",
    "amazon-xen",
    "arm-board",
    "azure",
    "container",
    "desktop",
    "dual-boot",
    "google",
    "hypervisor",
    "much",
    "multipath",
    "nfs-server",
    "no-psi",
    "old-kernel",
    "postgresql",
    "sectors",
    "virtio-guest",
];

#[test]
fn pages_match_the_reviewed_ones() {
    let mut wrong = Vec::new();
    for role in [ServerRole::Unknown, ServerRole::Database] {
        let bench = HostBench::new("server");
        let found = page(&HostFacts::read(bench.machine.folder(), Some(role)));
        is_as_kept(&format!("server-{}", role.name()), &found, &mut wrong);
    }
    for name in HOSTS {
        let bench = HostBench::new(name);
        is_as_kept(name, &page(&HostFacts::read(bench.machine.folder(), None)), &mut wrong);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A log has the facts as a note, without what is long, and the load: here a reader that waits for each window on a
/// volume of LVM, and a writer that fills memory.
#[test]
fn page_of_a_log_matches_the_reviewed_one() {
    let bench = HostBench::new("hypervisor");
    let note = serde_json::to_string(&HostTree::read(bench.machine.folder()).for_log()).expect("JSON");
    let tree: HostTree = serde_json::from_str(&note).expect("the note");
    let load = load_of(&[
        ("physical_disk.reads_per_s@sda", &[317.0, 317.0, 10.0]),
        ("physical_disk.writes_per_s@sda", &[0.0, 0.0, 200.0]),
        ("physical_disk.read_bytes_per_s@sda", &[41_550_000.0, 41_550_000.0, 40_960.0]),
        ("physical_disk.write_bytes_per_s@sda", &[0.0, 0.0, 100_000_000.0]),
        ("physical_disk.avg_read_queue_length@sda", &[2.0, 2.0, 3.0]),
        ("physical_disk.avg_write_queue_length@sda", &[0.0, 0.0, 100.0]),
        ("physical_disk.avg_queue_length@sda", &[2.0, 2.0, 103.0]),
        ("physical_disk.busy@sda", &[1.0]),
        ("physical_disk.pending_sectors@sda", &[8.0]),
        ("physical_disk.media_errors@sda", &[0.0]),
        ("physical_disk.temperature@sda", &[52.0]),
        ("physical_disk.temperature_limit@sda", &[60.0]),
        ("paging.swap_in_pages_per_s", &[0.0]),
        ("paging.allocation_stalls_per_s", &[3.0]),
    ]);
    let host = HostFacts::from_facts(tree, topology::read_topology(&bench.machine.roots()), None).with_load(load, &[]);
    let mut wrong = Vec::new();
    is_as_kept("log", &page(&host), &mut wrong);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
