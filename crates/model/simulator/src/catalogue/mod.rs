//! The catalogue of drives: what is printed of real ones, as data with the
//! source of every value, and the devices that the simulator makes of them.
//!
//! The built-in drives are the files of `catalogue/`; [`read`] reads a file of
//! the same format (`docs/drives.md`) from anybody.

mod make;
pub mod measure;
mod raw;

use std::sync::LazyLock;

use diskwright_base::Problems;
use diskwright_base::toml_reader::{TomlSource, TomlValue};

use crate::device::{DeviceModel, PlainSpec};
use crate::drive::{DataSheet, Model};
use crate::flash::{FlashModel, FlashSpec};
use crate::volume::VolumeSpec;
use measure::Check;

/// The built-in files.
pub const FILES: &[(&str, &str)] = &[
    ("documents.toml", include_str!("../../catalogue/documents.toml")),
    ("disks.toml", include_str!("../../catalogue/disks.toml")),
    ("ssds.toml", include_str!("../../catalogue/ssds.toml")),
    ("cloud.toml", include_str!("../../catalogue/cloud.toml")),
    ("plain.toml", include_str!("../../catalogue/plain.toml")),
];

/// A device of the catalogue.
#[derive(Clone, Debug, PartialEq)]
pub struct CatalogueEntry {
    /// How it is named in descriptions: `st32171w`.
    pub id: String,
    /// What it is called.
    pub name: String,
    /// Who makes or offers it.
    pub vendor: String,
    /// When it came.
    pub year: u16,
    /// `hdd`, `sata-ssd`, `sas-ssd`, `nvme-ssd`, `cloud` or `plain`.
    pub class: DriveClass,
    /// Bytes that it holds, as printed.
    pub capacity: u64,
    /// What it is attached to.
    pub interface: String,
    /// Where most of its values come from.
    pub source: String,
    /// The source of each value: its key, and where that comes from.
    pub sources: Vec<(String, String)>,
    /// Anything else worth knowing.
    pub notes: String,
    /// What it is made of.
    pub kind: EntryKind,
    /// Printed figures that the simulation must come near to.
    pub checks: Vec<Check>,
    /// The line of its file.
    pub line: usize,
}

/// What sort of a thing it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DriveClass {
    /// A mechanical drive.
    Hdd,
    /// An SSD on SATA.
    SataSsd,
    /// An SSD on SAS.
    SasSsd,
    /// An SSD on PCI Express.
    NvmeSsd,
    /// A cloud volume.
    Cloud,
    /// Servers with a time of service.
    Plain,
}

impl DriveClass {
    /// All of them.
    pub const ALL: [DriveClass; 6] = [
        DriveClass::Hdd,
        DriveClass::SataSsd,
        DriveClass::SasSsd,
        DriveClass::NvmeSsd,
        DriveClass::Cloud,
        DriveClass::Plain,
    ];

    /// `hdd`, `sata-ssd` and so on.
    pub fn name(self) -> &'static str {
        ["hdd", "sata-ssd", "sas-ssd", "nvme-ssd", "cloud", "plain"][self as usize]
    }
}

/// What a device is made of.
#[derive(Clone, Debug, PartialEq)]
pub enum EntryKind {
    /// A mechanical drive from its printed specification.
    Mechanical(Box<DataSheet>),
    /// An SSD.
    Flash(Box<FlashSpec>),
    /// A cloud volume.
    Volume(Box<VolumeSpec>),
    /// Servers.
    Plain(Box<PlainSpec>),
}

impl CatalogueEntry {
    /// The device, ready for use.
    ///
    /// # Errors
    /// Names the item that cannot be. Entries that were read have been tried, so
    /// that only changed ones fail.
    pub fn device(&self) -> Result<DeviceModel, String> {
        self.kind.device()
    }
}

impl EntryKind {
    /// The device, ready for use.
    ///
    /// # Errors
    /// Names the item that cannot be.
    pub fn device(&self) -> Result<DeviceModel, String> {
        Ok(match self {
            EntryKind::Mechanical(printed) => {
                let spec = printed.spec().map_err(|e| e.to_string())?;
                DeviceModel::Mechanical(Model::new(&spec).map_err(|e| e.to_string())?.into())
            }
            EntryKind::Flash(spec) => DeviceModel::Flash(FlashModel::new(spec)?.into()),
            EntryKind::Volume(spec) => {
                spec.check()?;
                DeviceModel::Volume((**spec).clone().into())
            }
            EntryKind::Plain(spec) => {
                spec.service.check()?;
                DeviceModel::Plain((**spec).clone().into())
            }
        })
    }
}

/// The sorts of tables that say what a device is made of.
pub const SORTS: [&str; 4] = ["mechanical", "flash", "volume", "plain"];

static BUILT_IN: LazyLock<Result<Vec<CatalogueEntry>, Problems>> = LazyLock::new(|| {
    let mut all = Vec::new();
    for (file, text) in FILES {
        all.extend(read(file, text)?);
    }
    Ok(all)
});

/// The built-in devices, in the order of their files.
pub fn all() -> &'static [CatalogueEntry] {
    // the tests read every file, so that a broken one is never shipped
    BUILT_IN.as_ref().map_or(&[], Vec::as_slice)
}

/// The built-in device of this id; upper and lower case are one.
pub fn find(id: &str) -> Option<&'static CatalogueEntry> {
    all().iter().find(|entry| entry.id.eq_ignore_ascii_case(id))
}

/// Whether this can be the id of a drive.
///
/// # Errors
/// What an id consists of.
pub fn check_id(id: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-._".contains(c);
    if id.is_empty() || id.len() > 64 || !id.chars().all(plain) {
        return Err(format!("`{id}`; expected lower-case letters, digits, `-`, `.` and `_`, 1 to 64 in all"));
    }
    Ok(())
}

/// Reads a file of drives; `file` is how errors name it.
///
/// # Errors
/// Everything that is wrong, by line, and what would be right.
pub fn read(file: &str, text: &str) -> Result<Vec<CatalogueEntry>, Problems> {
    make::read(file, text)
}

/// Reads the table of one of the [`SORTS`] where it stands in another file, for
/// a device of this name and capacity; what is wrong is noted in the file.
pub(crate) fn inline<'t>(
    source: &TomlSource<'t>,
    item: &str,
    drive: (&str, u64),
    sort: &str,
    table: TomlValue<'_, 't>,
) -> Option<EntryKind> {
    make::inline(source, item, drive, sort, table)
}
