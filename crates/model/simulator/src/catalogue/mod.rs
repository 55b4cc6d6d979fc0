//! The catalogue of drives: published figures of real drives, as data with the source of every value, and the devices
//! that the simulator builds from these figures.
//!
//! The built-in drives are the files of `catalogue/`; [`read`] reads any file of the same format (`docs/drives.md`).

mod entry_builder;
pub mod measure;
mod model_distance;
mod model_match;
mod raw;

use std::sync::LazyLock;

use diskwright_base::Problems;
use diskwright_base::toml_reader::{TomlSource, TomlValue};

use crate::device::{DeviceModel, PlainSpec};
use crate::drive::{DataSheet, Model};
use crate::flash::{FlashModel, FlashSpec};
use crate::volume::VolumeSpec;
use measure::DatasheetCheck;
pub use model_distance::{BusyLoad, MIN_READ_SHARE, ModelDistance, measure_distance};
pub use model_match::find_entry_of_model;

/// The built-in files.
pub const BUILT_IN_FILES: &[(&str, &str)] = &[
    ("documents.toml", include_str!("../../catalogue/documents.toml")),
    ("disks.toml", include_str!("../../catalogue/disks.toml")),
    ("ssds.toml", include_str!("../../catalogue/ssds.toml")),
    ("cloud.toml", include_str!("../../catalogue/cloud.toml")),
    ("plain.toml", include_str!("../../catalogue/plain.toml")),
];

/// A device of the catalogue.
#[derive(Clone, Debug, PartialEq)]
pub struct CatalogueEntry {
    /// Its id in descriptions: `st32171w`.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Manufacturer or provider.
    pub vendor: String,
    /// Year of introduction.
    pub year: u16,
    /// `hdd`, `sata-ssd`, `sas-ssd`, `nvme-ssd`, `cloud` or `plain`.
    pub class: DriveClass,
    /// Capacity, bytes, as published.
    pub capacity_bytes: u64,
    /// Its interface.
    pub interface: String,
    /// Source of most of its values.
    pub source: String,
    /// Source of each value: its key and the source.
    pub sources: Vec<(String, String)>,
    /// Remarks.
    pub notes: String,
    /// Its specification.
    pub kind: EntryKind,
    /// Published figures that the simulation must reproduce.
    pub checks: Vec<DatasheetCheck>,
    /// Line in its file.
    pub line: usize,
}

/// Class of a device.
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
    /// Servers with a service time.
    Plain,
}

impl DriveClass {
    /// All classes.
    pub const ALL: [DriveClass; 6] = [
        DriveClass::Hdd,
        DriveClass::SataSsd,
        DriveClass::SasSsd,
        DriveClass::NvmeSsd,
        DriveClass::Cloud,
        DriveClass::Plain,
    ];

    /// Returns `hdd`, `sata-ssd` and so on.
    pub fn name(self) -> &'static str {
        match self {
            DriveClass::Hdd => "hdd",
            DriveClass::SataSsd => "sata-ssd",
            DriveClass::SasSsd => "sas-ssd",
            DriveClass::NvmeSsd => "nvme-ssd",
            DriveClass::Cloud => "cloud",
            DriveClass::Plain => "plain",
        }
    }
}

/// Specification of a device.
#[derive(Clone, Debug, PartialEq)]
pub enum EntryKind {
    /// A mechanical drive, from its data sheet.
    Mechanical(Box<DataSheet>),
    /// An SSD.
    Flash(Box<FlashSpec>),
    /// A cloud volume.
    Volume(Box<VolumeSpec>),
    /// Plain servers.
    Plain(Box<PlainSpec>),
}

impl CatalogueEntry {
    /// Builds the device model.
    ///
    /// # Errors
    /// An error names the impossible item. Reading an entry builds its device once, so only modified entries fail.
    pub fn build_device(&self) -> Result<DeviceModel, String> {
        self.kind.build_device()
    }
}

impl EntryKind {
    /// Builds the device model.
    ///
    /// # Errors
    /// An error names the impossible item.
    pub fn build_device(&self) -> Result<DeviceModel, String> {
        Ok(match self {
            EntryKind::Mechanical(sheet) => {
                let spec = sheet.to_spec().map_err(|e| e.to_string())?;
                DeviceModel::Mechanical(Model::new(&spec).map_err(|e| e.to_string())?.into())
            }
            EntryKind::Flash(spec) => DeviceModel::Flash(FlashModel::new(spec)?.into()),
            EntryKind::Volume(spec) => {
                spec.check_limits()?;
                DeviceModel::Volume((**spec).clone().into())
            }
            EntryKind::Plain(spec) => {
                spec.service.check_parameters()?;
                DeviceModel::Plain((**spec).clone().into())
            }
        })
    }
}

/// The names of the tables that specify a device.
pub const DEVICE_TABLES: [&str; 4] = ["mechanical", "flash", "volume", "plain"];

static BUILT_IN: LazyLock<Result<Vec<CatalogueEntry>, Problems>> = LazyLock::new(|| {
    let mut entries = Vec::new();
    for (file, text) in BUILT_IN_FILES {
        entries.extend(read(file, text)?);
    }
    Ok(entries)
});

/// Returns the built-in devices, in the order of their files.
pub fn built_in_entries() -> &'static [CatalogueEntry] {
    // the tests read every file, so a broken one is never released
    BUILT_IN.as_ref().map_or(&[], Vec::as_slice)
}

/// Finds a built-in device by its id, ignoring case.
pub fn find_entry(id: &str) -> Option<&'static CatalogueEntry> {
    built_in_entries().iter().find(|entry| entry.id.eq_ignore_ascii_case(id))
}

/// Checks that a text is a valid id of a drive.
///
/// # Errors
/// An error describes a valid id.
pub fn check_id(id: &str) -> Result<(), String> {
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-._".contains(c);
    if id.is_empty() || id.len() > 64 || !id.chars().all(is_allowed) {
        return Err(format!("`{id}`; expected lower-case letters, digits, `-`, `.` and `_`, 1 to 64 in all"));
    }
    Ok(())
}

/// Reads a file of drives; errors name it `file`.
///
/// # Errors
/// Lists all mistakes, by line, with corrections.
pub fn read(file: &str, text: &str) -> Result<Vec<CatalogueEntry>, Problems> {
    entry_builder::read_entries(file, text)
}

/// Reads one of the tables in [`DEVICE_TABLES`], whose name is `kind`, from another file, for a device with this name
/// and capacity in bytes; mistakes are recorded in the source.
pub(crate) fn read_inline<'t>(
    source: &TomlSource<'t>,
    item: &str,
    drive: (&str, u64),
    kind: &str,
    table: TomlValue<'_, 't>,
) -> Option<EntryKind> {
    entry_builder::build_inline(source, item, drive, kind, table)
}
