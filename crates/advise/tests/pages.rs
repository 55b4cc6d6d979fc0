//! Whole answers, kept as pages: what `advise` says of a made-up server, read by somebody who would know better.
//! With `DISKWRIGHT_KEEP_PAGES=1` they are written anew, to be reviewed.

use std::path::Path;

use diskwright_advise::{HostAdvice, HostScene, ServerRole, advise};

use crate::cases::HostBench;

/// All that a page says.
fn page(advice: &HostAdvice) -> String {
    let mut text = String::new();
    for item in &advice.items {
        text += &format!("{}: {}: {}\n    good: {}\n", item.severity.name(), item.id, item.seen, item.good);
        text += &format!("    apply: {}\n", item.apply);
    }
    for unknown in &advice.unknown {
        text += &format!("unknown: {}: {}\n", unknown.id, unknown.because);
    }
    text + &format!("{} checks passed\n", advice.well)
}

#[test]
fn answers_are_as_reviewed() {
    for role in [ServerRole::Unknown, ServerRole::Database] {
        let bench = HostBench::new("server");
        let found = page(&advise(&HostScene::read(bench.machine.folder(), Some(role))));
        let name = format!("server-{}.txt", role.name());
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pages").join(&name);
        if std::env::var_os("DISKWRIGHT_KEEP_PAGES").is_some() {
            std::fs::write(&path, &found).expect("the page is written");
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(found, kept, "{name} is another than the page that was reviewed");
    }
}
