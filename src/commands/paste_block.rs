//! `why --how [SYSTEM]`: what to run on a machine without this program, and to paste into `why -`.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Failure, name_search, output};

/// The blocks of all operating systems.
const BLOCKS: &str = include_str!("../../rules/paste.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Blocks {
    system: Vec<PasteBlock>,
}

/// What to run on an operating system.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct PasteBlock {
    id: String,
    #[serde(default, skip_serializing)]
    also: Vec<String>,
    title: String,
    /// What the block is pasted into.
    shell: String,
    /// Time that it takes.
    seconds: u32,
    block: String,
}

impl PasteBlock {
    fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.id).chain(&self.also).map(String::as_str)
    }
}

fn load_blocks() -> Result<Vec<PasteBlock>, Failure> {
    let blocks: Blocks = toml::from_str(BLOCKS).map_err(|error| Failure::Failed(format!("paste.toml: {error}")))?;
    Ok(blocks.system)
}

/// Prints the block of an operating system to standard output, so that it can be run, and what to do with it to
/// standard error.
pub fn print_block(system: &str, as_json: bool) -> Result<(), Failure> {
    let blocks = load_blocks()?;
    let has_name = |block: &&PasteBlock| block.names().any(|name| name.eq_ignore_ascii_case(system));
    let Some(block) = blocks.iter().find(has_name) else {
        let suggestion = name_search::suggestion_hint(system, blocks.iter().flat_map(PasteBlock::names));
        let ids: Vec<&str> = blocks.iter().map(|block| block.id.as_str()).collect();
        let reason = format!("--how: unknown system `{system}`{suggestion}; systems: {}", ids.join(", "));
        return Err(Failure::Usage(reason));
    };
    if as_json {
        let mut document = json!(block);
        document["schema"] = json!("diskwright.how/1");
        return output::print_json(&document);
    }
    output::print_note(format_args!(
        "{}: paste this into {}; it takes {} s, installs nothing and changes nothing. Then run `diskwright why -`, \
         paste what it printed, and press Ctrl-D",
        block.title, block.shell, block.seconds
    ));
    output::print_data(block.block.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_system_has_a_block_of_half_a_minute() {
        let blocks = load_blocks().expect("the file is sound");
        for id in ["linux", "solaris", "aix", "freebsd", "macos", "windows"] {
            let block = blocks.iter().find(|block| block.id == id).expect(id);
            assert!(!block.block.trim().is_empty() && block.seconds <= 30, "{id}");
        }
    }
}
