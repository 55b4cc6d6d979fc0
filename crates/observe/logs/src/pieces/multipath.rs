//! `multipath -ll`: paths to a disk that have failed.

use diskwright_base::counter_ids::physical_disk;

use super::Snapshot;

/// Reads the line of a path, `  |- 6:0:4:13  sdaq 66:160  failed faulty running`, and those around it.
pub fn read_line(snapshot: &mut Snapshot<'_, '_>, line: &str) -> bool {
    let text = line.trim_start_matches([' ', '|', '-', '`', '\\', '_', '+', '├', '└', '─']);
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_numbers = |word: &str, parts: usize| {
        word.split(':').count() == parts && word.split(':').all(|part| part.parse::<u32>().is_ok())
    };
    if let [address, disk, number, states @ ..] = &words[..]
        && (is_numbers(address, 4) || *address == "#:#:#:#")
        && is_numbers(number, 2)
        && states
            .iter()
            .any(|state| matches!(*state, "active" | "failed" | "undef" | "[active][ready]" | "[failed][faulty]"))
    {
        let is_failed =
            states.iter().any(|state| state.contains("failed") || *state == "faulty" || *state == "offline");
        let known = snapshot.value(physical_disk::KERNEL_MESSAGES, disk).unwrap_or(0.0);
        // the kernel reports each path that it gives up; its log counts better
        snapshot.replace_value(physical_disk::KERNEL_MESSAGES, disk, known.max(f64::from(u8::from(is_failed))));
        if is_failed && known == 0.0 {
            snapshot.push_warning(format!("multipath: the path {disk} ({address}) has failed"));
        }
        return true;
    }
    text.starts_with("size=") && text.contains("features=")
        || text.starts_with("policy=")
        || text.contains(" dm-") && (text.starts_with("mpath") || text.contains('('))
}
