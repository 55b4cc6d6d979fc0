//! The built-in rule packs. A pack is one file in `rules/` and one line here; a test compares the two lists.

use crate::rules::rule::Pack;
use diskwright_base::Problems;

/// Id, file and text of each pack; the default pack first.
pub const BUILTIN_PACKS: &[(&str, &str, &str)] = &[
    ("default", "rules/default.toml", include_str!("../../../../../rules/default.toml")),
    ("nt-resource-kit", "rules/nt-resource-kit.toml", include_str!("../../../../../rules/nt-resource-kit.toml")),
    ("sas-1998", "rules/sas-1998.toml", include_str!("../../../../../rules/sas-1998.toml")),
    ("ntmag-1998", "rules/ntmag-1998.toml", include_str!("../../../../../rules/ntmag-1998.toml")),
    ("compaq-1997", "rules/compaq-1997.toml", include_str!("../../../../../rules/compaq-1997.toml")),
    ("sql7-1999", "rules/sql7-1999.toml", include_str!("../../../../../rules/sql7-1999.toml")),
    ("pal", "rules/pal.toml", include_str!("../../../../../rules/pal.toml")),
    ("netdata", "rules/netdata.toml", include_str!("../../../../../rules/netdata.toml")),
    ("node-mixin", "rules/node-mixin.toml", include_str!("../../../../../rules/node-mixin.toml")),
    ("pcp", "rules/pcp.toml", include_str!("../../../../../rules/pcp.toml")),
    ("atop", "rules/atop.toml", include_str!("../../../../../rules/atop.toml")),
    ("live-optics", "rules/live-optics.toml", include_str!("../../../../../rules/live-optics.toml")),
    (
        "awesome-prometheus-alerts",
        "rules/awesome-prometheus-alerts.toml",
        include_str!("../../../../../rules/awesome-prometheus-alerts.toml"),
    ),
];

/// A built-in pack by id; `None` where there is no such pack.
pub fn builtin_pack(id: &str) -> Option<Result<Pack, Problems>> {
    BUILTIN_PACKS.iter().find(|(known, ..)| *known == id).map(|(_, file, text)| Pack::load(file, text))
}

/// All built-in packs, the default pack first.
pub fn builtin_packs() -> Result<Vec<Pack>, Problems> {
    BUILTIN_PACKS.iter().map(|(_, file, text)| Pack::load(file, text)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_in_the_folder_are_the_packs_registered() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../rules");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|e| e.unwrap().path())
            .filter(|p| p.extension().is_some_and(|e| e == "toml"))
            .map(|p| p.file_stem().unwrap().to_string_lossy().into_owned())
            .filter(|name| !matches!(name.as_str(), "actions" | "advice" | "alerts" | "paste" | "record"))
            .collect();
        files.sort_unstable();
        let mut registered: Vec<&str> = BUILTIN_PACKS.iter().map(|(id, ..)| *id).collect();
        registered.sort_unstable();
        assert_eq!(files, registered);
    }

    #[test]
    fn every_pack_loads_and_is_named_after_its_file() {
        for (id, file, text) in BUILTIN_PACKS {
            let pack = Pack::load(file, text).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(pack.id, *id);
            assert_eq!(*file, format!("rules/{id}.toml"));
        }
    }
}
