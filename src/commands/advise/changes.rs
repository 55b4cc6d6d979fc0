//! The options `--apply`, `--undo`, `--save` and `--diff`.

use std::path::Path;

use diskwright_advise::baseline::HostBaseline;
use diskwright_advise::{AdviceItem, ChangeBook, HostAdvice, HostTree};
use diskwright_counters::live::{Clock, SystemClock};
use diskwright_report::TextTable;
use serde_json::json;

use crate::commands::{Failure, name_search, output, time_argument};

fn current_time() -> String {
    time_argument::rfc3339(SystemClock.read_clocks().wall_ns)
}

/// Applies the item with this id, or the items of all instances of the check with this id.
pub fn apply_items(id: &str, advice: &HostAdvice, folder: &Path, as_json: bool) -> Result<(), Failure> {
    let items: Vec<&AdviceItem> = advice.items.iter().filter(|item| item.id == id || item.check == id).collect();
    if items.is_empty() {
        let is_meant = |known: &str| known == id || known.split('@').next() == Some(id);
        if folder.is_dir() && ChangeBook::open(folder)?.changes().iter().any(|change| is_meant(&change.id)) {
            return Err(Failure::Failed(format!("`{id}` is already applied; undo it with --undo {id}")));
        }
        let suggestion = name_search::suggestion_hint(id, advice.items.iter().map(|item| item.id.as_str()));
        return Err(Failure::Usage(format!("no listed item has the id `{id}`{suggestion}")));
    }
    if let Some(item) = items.iter().find(|item| !item.harmless) {
        let reason = format!("its risk is {}: {}", item.risk.name(), item.risk_text);
        return Err(Failure::Failed(format!(
            "this program does not apply {}; {reason} Do it yourself: {}",
            item.id, item.apply
        )));
    }
    let mut book = ChangeBook::open(folder)?;
    let mut applied = Vec::new();
    for item in items {
        if let Err(error) = book.apply_writes(&item.id, &current_time(), &item.writes) {
            // earlier changes stay applied, and the caller must report them
            if as_json && !applied.is_empty() {
                output::print_json(&json!({ "schema": "diskwright.advice-apply/1", "applied": applied }))?;
            }
            return Err(Failure::Failed(format!("{}: {error}", item.id)));
        }
        applied.push(json!({ "id": item.id, "writes": item.writes, "lasting": item.lasting }));
        if !as_json {
            let mut text = format!("Applied {}: {}\n", item.id, item.apply);
            text += &format!("  undo: diskwright advise --undo {}\n", item.id);
            if let Some(lasting) = &item.lasting {
                text += &format!("    it lasts until the next restart; to keep it: {lasting}\n");
            }
            text += &format!("  verify: {}\n", item.verify);
            output::print_text(&text)?;
        }
    }
    if as_json {
        output::print_json(&json!({ "schema": "diskwright.advice-apply/1", "applied": applied }))?;
    }
    Ok(())
}

/// Undoes the change with this id, or the changes of all instances of the check with this id.
pub fn undo_changes(id: &str, folder: &Path, as_json: bool) -> Result<(), Failure> {
    let mut book = ChangeBook::open(folder)?;
    let is_of_check = |known: &str| known.split('@').next() == Some(id);
    let mut ids: Vec<String> =
        book.changes().iter().map(|c| c.id.clone()).filter(|k| k == id || is_of_check(k)).collect();
    if ids.is_empty() {
        ids.push(id.to_owned());
    }
    let mut undone = Vec::new();
    for id in &ids {
        let change = match book.undo_change(id) {
            Ok(change) => change,
            Err(error) => {
                // earlier changes are undone, and the caller must report them
                if as_json && !undone.is_empty() {
                    output::print_json(&json!({ "schema": "diskwright.advice-undo/1", "undone": undone }))?;
                }
                return Err(error.into());
            }
        };
        if !as_json {
            let since = &change.time;
            output::print_text(&format!("Undone {id}, which was applied at {since}\n"))?;
        }
        undone.push(change);
    }
    if as_json {
        output::print_json(&json!({ "schema": "diskwright.advice-undo/1", "undone": undone }))?;
    }
    Ok(())
}

/// Saves this host's settings for `--diff`.
pub fn save_settings(folder: &Path, as_json: bool) -> Result<(), Failure> {
    let baseline = HostBaseline::from_tree(&HostTree::read(Path::new("/")), current_time());
    baseline.save_to(folder)?;
    let (facts, time) = (baseline.tree.files.len(), &baseline.time);
    if as_json {
        return output::print_json(&json!({ "schema": "diskwright.advice-save/1", "time": time, "facts": facts }));
    }
    output::print_text(&format!("Saved {facts} facts about this host; --diff shows what has changed since\n"))
}

/// Prints the settings that changed since `--save`.
pub fn print_settings_diff(folder: &Path, as_json: bool) -> Result<(), Failure> {
    let Some(baseline) = HostBaseline::load_from(folder)? else {
        return Err(Failure::Failed("nothing is saved to compare with: run `advise --save` while all is well".into()));
    };
    let changes = baseline.changes_since(&HostTree::read(Path::new("/")));
    if as_json {
        let document = json!({ "schema": "diskwright.advice-diff/1", "since": baseline.time, "changes": changes });
        return output::print_json(&document);
    }
    if changes.is_empty() {
        return output::print_text(&format!("Nothing has changed since {}\n", baseline.time));
    }
    let style = output::wide_table_style();
    let mut table = TextTable::new()
        .with_text_column("kind")
        .with_text_column("what")
        .with_text_column("before")
        .with_text_column("now");
    for change in &changes {
        let first_line = |text: &Option<String>| {
            let text = text.as_deref().unwrap_or("not there");
            text.lines().next().unwrap_or_default().chars().take(60).collect::<String>()
        };
        let row = [change.kind.to_owned(), change.what.clone(), first_line(&change.before), first_line(&change.now)];
        table.add_row(row.map(|cell| style.clean_text(&cell)));
    }
    let head = format!("Changed since {}:\n", style.clean_text(&baseline.time));
    output::print_text(&(head + &table.render(&style)))
}
