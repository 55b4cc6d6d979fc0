//! Which drive of the catalogue a device is, by the model that it reports.

use super::{CatalogueEntry, DriveClass, built_in_entries, find_entry};

/// Characters of a model that the kernel shows of a SCSI or ATA disk; a longer one is cut there (SPC-4, 6.4.2: the
/// product identification of INQUIRY has 16 bytes).
const SCSI_MODEL_CHARS: usize = 16;
/// Shortest part of a cut model that is looked up: `HUS726T6T`, without form factor and interface, is a family.
const MIN_CUT_CHARS: usize = 9;
/// Shortest model that is looked up.
const MIN_MODEL_CHARS: usize = 6;
/// Share by which a device's size may differ from that of the catalogue; models of a family differ by more.
const MAX_SIZE_DIFFERENCE: f64 = 0.1;

/// Finds the built-in drive that a device is, by the model that the device reports (with or without its vendor) and its
/// size in bytes; or by the id of a drive alone. A cut model is found if only one drive begins with it.
///
/// Cloud volumes do not report what was bought, so only their id finds them.
pub fn find_entry_of_model(model: &str, bytes: Option<u64>) -> Option<&'static CatalogueEntry> {
    let model = model.trim();
    let has_its_size = |entry: &&CatalogueEntry| {
        bytes.is_none_or(|bytes| (bytes as f64 / entry.capacity_bytes as f64 - 1.0).abs() <= MAX_SIZE_DIFFERENCE)
    };
    if let Some(entry) = find_entry(model) {
        return Some(entry);
    }
    let candidates = || {
        let is_made = |entry: &&CatalogueEntry| !matches!(entry.class, DriveClass::Cloud | DriveClass::Plain);
        built_in_entries().iter().filter(is_made).filter(has_its_size)
    };
    let whole_name = reduce_name(model);
    let words: Vec<String> = model.split_whitespace().map(reduce_name).filter(|word| is_model_number(word)).collect();
    let is_it = |entry: &&CatalogueEntry| {
        let id = reduce_name(&entry.id);
        // the kernel's model may have a suffix for firmware or customer: ST18000NM000J-2TV103
        let is_its_number = is_model_number(&id) && words.iter().any(|word| word.starts_with(&id));
        is_its_number || reduce_name(&entry.name) == whole_name
    };
    if let Some(entry) = candidates().find(is_it) {
        return Some(entry);
    }
    let cut = words.last().filter(|word| is_cut(model) && word.len() >= MIN_CUT_CHARS)?;
    let mut begin_with_it = candidates().filter(|entry| reduce_name(&entry.id).starts_with(cut.as_str()));
    begin_with_it.next().filter(|_| begin_with_it.next().is_none())
}

/// Letters and digits alone, in small letters.
fn reduce_name(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

/// True if a word is a maker's number, not a plain word or size.
fn is_model_number(word: &str) -> bool {
    let has = |is_of_kind: fn(&u8) -> bool| word.as_bytes().iter().any(is_of_kind);
    word.len() >= MIN_MODEL_CHARS && has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic)
}

/// True if the kernel may have cut this model: it fills the field, with or without the vendor before it.
fn is_cut(model: &str) -> bool {
    let Some(start) = model.len().checked_sub(SCSI_MODEL_CHARS) else { return false };
    start == 0 || (model.is_char_boundary(start) && model[..start].ends_with(' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(model: &str, bytes: Option<u64>) -> Option<&'static str> {
        find_entry_of_model(model, bytes).map(|entry| entry.id.as_str())
    }

    #[test]
    fn a_reported_model_finds_its_drive() {
        for (model, id) in [
            ("ATA ST18000NM000J-2T", "st18000nm000j"),
            ("ST18000NM000J-2TV103", "st18000nm000j"),
            ("SEAGATE ST3600057SS", "st3600057ss"),
            // cut by the kernel after 16 characters
            ("ATA HGST HUS726T6TAL", "hus726t6tale6l4"),
            ("ATA WDC  WUH721818AL", "wuh721818ale6l4"),
            ("Samsung SSD 980 PRO 1TB", "samsung-980pro-1tb"),
            ("Samsung SSD 980 1TB", "samsung-980-1tb"),
            ("ST32171W", "st32171w"),
            // declared by its id
            ("aws-gp3", "aws-gp3"),
        ] {
            assert_eq!(find(model, None), Some(id), "{model}");
        }
    }

    #[test]
    fn what_is_not_surely_a_drive_of_the_catalogue_is_none() {
        for model in [
            "",
            "QEMU HARDDISK",
            "ATA QEMU HARDDISK",
            "Amazon Elastic Block Store",
            "Virtual disk",
            // another size of the model, and a model whose size was cut off
            "Samsung SSD 980 PRO 2TB",
            "ATA Samsung SSD 980 ",
            // short parts of numbers
            "ST18000",
            "ATA ST18",
        ] {
            assert_eq!(find(model, None), None, "{model}");
        }
    }

    #[test]
    fn a_device_of_another_size_is_another_drive() {
        assert_eq!(find("ATA ST18000NM000J-2T", Some(18_000_207_937_536)), Some("st18000nm000j"));
        assert_eq!(find("ATA ST18000NM000J-2T", Some(4_000_787_030_016)), None);
        // declared by its id, of a described or virtual disk
        assert_eq!(find("st18000nm000j", Some(4_000_787_030_016)), Some("st18000nm000j"));
    }
}
