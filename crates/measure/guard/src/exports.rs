//! Users that do not claim a device or file: the kernel's exports to other machines (NVMe over
//! fabrics, iSCSI and other SCSI targets, USB gadgets), and ZFS pools on files.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use diskwright_counters::live::Roots;

use crate::node::{read_first_line, sorted_names};

/// Files in /sys/kernel/config that contain the path of an export, with the name of the exporter. A
/// star stands for any name of a folder.
const EXPORTS: &[(&str, &str)] = &[
    ("nvmet/subsystems/*/namespaces/*/device_path", "the NVMe target"),
    ("target/core/*/*/udev_path", "the SCSI target"),
    ("usb_gadget/*/functions/*/*/file", "the USB gadget"),
];

/// Returns the exported paths, each with the name of the exporter.
pub(crate) fn read_exports(roots: &Roots) -> Vec<(String, String)> {
    let config = roots.resolve_path("/sys/kernel/config");
    let paths = |(pattern, exporter): &(&str, &str)| {
        let files = expand_pattern(&config, pattern);
        files.into_iter().filter_map(|file| Some((read_first_line(&file)?, (*exporter).to_owned()))).collect::<Vec<_>>()
    };
    EXPORTS.iter().flat_map(paths).filter(|(path, _)| path.starts_with('/')).collect()
}

fn expand_pattern(folder: &Path, pattern: &str) -> Vec<PathBuf> {
    pattern.split('/').fold(vec![folder.to_owned()], |found, component| match component {
        "*" => found.iter().flat_map(|f| sorted_names(f).into_iter().map(|name| f.join(name))).collect(),
        name => found.into_iter().map(|f| f.join(name)).filter(|f| f.exists()).collect(),
    })
}

/// Bytes of a file that are searched for a ZFS label. The label is at the start; its strings begin
/// after 16 KiB.
const LABEL_BYTES: usize = 128 << 10;

/// Returns the imported ZFS pool that the label in a file names.
pub(crate) fn find_imported_pool(roots: &Roots, file: &File) -> Option<String> {
    let pools = sorted_names(&roots.resolve_path("/proc/spl/kstat/zfs"));
    let pools = pools.into_iter().filter(|name| roots.resolve_path(&format!("/proc/spl/kstat/zfs/{name}")).is_dir());
    let mut label = vec![0; LABEL_BYTES];
    let mut bytes = 0;
    for pool in pools {
        if bytes == 0 {
            bytes = file.read_at(&mut label, 0).ok()?;
        }
        let record = pool_name_record(&pool);
        if label[..bytes].windows(record.len()).any(|window| window == record) {
            return Some(pool);
        }
    }
    None
}

/// Returns the pool's name as the label's list of pairs (XDR) encodes it: key `name`, type string, one
/// value, the value.
fn pool_name_record(pool: &str) -> Vec<u8> {
    let mut record = b"\0\0\0\x04name\0\0\0\x09\0\0\0\x01".to_vec();
    record.extend((pool.len() as u32).to_be_bytes());
    record.extend(pool.as_bytes());
    record.resize(record.len().next_multiple_of(4), 0);
    record
}

/// Returns whether a path that the kernel reports leads to a file or device that `wanted` accepts.
pub(crate) fn path_matches(roots: &Roots, path: &str, wanted: impl Fn(&fs::Metadata) -> bool) -> bool {
    fs::metadata(roots.resolve_path(path)).is_ok_and(|found| wanted(&found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_exports_from_the_configuration() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("sys/kernel/config/nvmet/subsystems/a/namespaces/1/device_path", "/dev/sdb\n");
        write("sys/kernel/config/target/core/fileio_0/disk/udev_path", "/srv/disk.img\n");
        write("sys/kernel/config/target/core/alua/lu_gps/x", "");
        write("sys/kernel/config/usb_gadget/g/functions/mass_storage.0/lun.0/file", "\n");
        let found = read_exports(&Roots::from_root(folder.path()));
        let found: Vec<(&str, &str)> =
            found.iter().map(|(path, exporter)| (path.as_str(), exporter.as_str())).collect();
        assert_eq!(found, [("/dev/sdb", "the NVMe target"), ("/srv/disk.img", "the SCSI target")]);
    }

    #[test]
    fn a_part_of_an_imported_pool_is_known_by_its_label() {
        let folder = tempfile::tempdir().unwrap();
        let label = folder.path().join("vdev");
        let mut bytes = vec![0; 32 << 10];
        let word = b"\0\0\0\x04name\0\0\0\x09\0\0\0\x01\0\0\0\x04tank";
        bytes[20_000..20_000 + word.len()].copy_from_slice(word);
        fs::write(&label, bytes).unwrap();
        let roots = Roots::from_root(folder.path());
        let file = File::open(&label).unwrap();
        assert_eq!(find_imported_pool(&roots, &file), None);
        fs::create_dir_all(folder.path().join("proc/spl/kstat/zfs/tan")).unwrap();
        assert_eq!(find_imported_pool(&roots, &file), None);
        fs::create_dir_all(folder.path().join("proc/spl/kstat/zfs/tank")).unwrap();
        assert_eq!(find_imported_pool(&roots, &file).as_deref(), Some("tank"));
    }
}
