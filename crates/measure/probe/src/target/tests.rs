use super::*;

fn open_target(path: &Path, take: &TargetOptions) -> Result<ProbeTarget, String> {
    ProbeTarget::open_or_create(path, take, &mut |_, _| true).map_err(|e| e.to_string())
}

#[test]
fn a_file_is_made_filled_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("probe.dat");
    let options = TargetOptions { bytes: Some(3 << 20), writes: true, ..TargetOptions::default() };
    let target = open_target(&path, &options).unwrap();
    assert_eq!(target.bytes, 3 << 20);
    // it has no name, but a run can open it and nothing in it repeats
    let mut bytes = vec![0; 3 << 20];
    let file = fs::File::from(target.open(true, true, false).unwrap());
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, 0).unwrap();
    assert_ne!(bytes[..CHUNK_BYTES], bytes[CHUNK_BYTES..2 * CHUNK_BYTES]);
    assert_eq!(target.findings, Findings::default());
    drop(target);
    assert!(!path.exists());
    drop(open_target(&path, &TargetOptions { keep: true, ..options.clone() }).unwrap());
    assert!(path.exists());
    let error = open_target(&path, &options).unwrap_err();
    assert!(error.contains("an earlier probe filled"), "{error}");
}

#[test]
fn another_file_of_that_name_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("probe.dat");
    fs::write(&path, "ours").unwrap();
    let found = fs::metadata(&path).unwrap();
    let named = || TemporaryName { path: path.clone(), identity: (found.dev(), found.ino()), keep: false };
    fs::rename(&path, folder.path().join("elsewhere")).unwrap();
    fs::write(&path, "another").unwrap();
    drop(named());
    assert_eq!(fs::read(&path).unwrap(), b"another");
    fs::rename(folder.path().join("elsewhere"), &path).unwrap();
    drop(named());
    assert!(!path.exists());
}

#[test]
fn reports_holes_links_and_sizes() {
    let folder = tempfile::Builder::new().tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let path = folder.path().join("data");
    fs::write(&path, vec![1; 1 << 20]).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_len(4 << 20).unwrap();
    let target = open_target(&path, &TargetOptions::default()).unwrap();
    assert!(target.cautions.iter().any(|c| c.contains("75 % of the file is holes")), "{:?}", target.cautions);
    assert_eq!(
        open_target(&path, &TargetOptions { bytes: Some(1 << 20), ..TargetOptions::default() }).unwrap().bytes,
        1 << 20
    );
    let message = open_target(&path, &TargetOptions { bytes: Some(8 << 20), ..TargetOptions::default() }).unwrap_err();
    assert!(message.contains("8388608 bytes are requested, but it has 4194304"), "{message}");
    fs::hard_link(&path, folder.path().join("second")).unwrap();
    let message = open_target(&path, &TargetOptions { writes: true, ..TargetOptions::default() }).unwrap_err();
    assert!(message.contains("2 names"), "{message}");
}

#[test]
fn a_file_that_others_use_is_not_written_to() {
    let folder = tempfile::Builder::new().tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let path = folder.path().join("data");
    fs::write(&path, vec![1; 1 << 20]).unwrap();
    let name = path.display().to_string();
    let destroy = TargetOptions {
        writes: true,
        consent: Consent { live: true, destroy: Some(name) },
        ..TargetOptions::default()
    };
    assert!(open_target(&path, &destroy).is_ok());
    let reader = fs::File::open(&path).unwrap();
    let mut other = std::process::Command::new("sleep").arg("60").stdin(reader).spawn().unwrap();
    let outcome = open_target(&path, &destroy);
    other.kill().unwrap();
    other.wait().unwrap();
    let outcome = outcome.unwrap_err();
    assert!(outcome.contains("(sleep) has it open") && outcome.contains("in use"), "{outcome}");
}

#[test]
fn says_why_something_cannot_be_measured() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data");
    fs::write(&file, [1; 8192]).unwrap();
    let empty = folder.path().join("empty");
    fs::write(&empty, []).unwrap();
    let usual = TargetOptions::default();
    assert!(open_target(folder.path(), &usual).unwrap_err().contains("a folder"));
    assert!(open_target(Path::new("/dev/null"), &usual).unwrap_err().contains("character device"));
    assert!(open_target(&empty, &usual).unwrap_err().contains("empty"));
    assert!(open_target(&folder.path().join("no/such/file"), &usual).unwrap_err().contains("cannot be created"));
    let writes = TargetOptions { writes: true, ..TargetOptions::default() };
    let message = open_target(&file, &writes).unwrap_err();
    assert!(message.contains("--destroy-data-on") && message.contains("data"), "{message}");
    assert_eq!(open_target(&file, &usual).unwrap().bytes, 8192);
    let huge = TargetOptions { bytes: Some(1 << 60), ..TargetOptions::default() };
    assert!(open_target(&folder.path().join("huge"), &huge).unwrap_err().contains("are free"));
    assert!(!folder.path().join("huge").exists());
}

#[test]
fn filesystems_that_cache_small_direct_requests_get_whole_blocks() {
    assert_eq!((min_direct_bytes(BTRFS, 4096), min_direct_bytes(F2FS, 16_384)), (4096, 16_384));
    // ext4 and XFS reject direct requests that they do not support
    assert_eq!((min_direct_bytes(0xef53, 4096), min_direct_bytes(0x5846_5342, 4096)), (0, 0));
    assert!(filesystem_caution(0x00c3_6400).is_some_and(|text| text.contains("another machine")));
    assert_eq!(filesystem_caution(0xef53), None);
}

#[test]
fn holes_are_a_share_of_the_examined_part() {
    use std::os::unix::fs::FileExt;
    let folder = tempfile::Builder::new().tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let path = folder.path().join("sparse");
    let file = fs::File::options().read(true).write(true).create_new(true).open(path).unwrap();
    // half of each of eight pieces is data
    file.set_len(16 << 20).unwrap();
    (0..8u64).for_each(|piece| file.write_all_at(&[7; 1 << 20], piece << 21).unwrap());
    file.sync_all().unwrap();
    let file = OwnedFd::from(file);
    let Some(all) = describe_holes(&file, 16 << 20, MAX_EXTENTS) else {
        return eprintln!("skipped: the filesystem has no holes");
    };
    assert!(all.starts_with("50 %"), "{all}");
    // the first four end before the fifth hole begins
    let some = describe_holes(&file, 16 << 20, 4).unwrap();
    assert!(some.starts_with("43 %"), "{some}");
}

#[test]
fn an_interrupted_filling_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("probe.dat");
    let options = TargetOptions { bytes: Some(8 << 20), ..TargetOptions::default() };
    assert!(ProbeTarget::open_or_create(&path, &options, &mut |done, _| done < 2 << 20).is_err());
    assert!(!path.exists());
}

#[test]
fn a_file_of_new_blocks_is_allocated_and_not_written() {
    let folder = tempfile::Builder::new().tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let path = folder.path().join("probe.dat");
    let options =
        TargetOptions { default_bytes: Some(4 << 20), writes: true, new_blocks: true, ..TargetOptions::default() };
    let mut was_filled = false;
    let target = ProbeTarget::open_or_create(&path, &options, &mut |_, _| {
        was_filled = true;
        true
    });
    let target = target.unwrap();
    assert_eq!(target.bytes, 4 << 20);
    if was_filled {
        return eprintln!("skipped: the filesystem cannot allocate");
    }
    let mut bytes = vec![1; 4096];
    let file = fs::File::from(target.open(true, true, false).unwrap());
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, 1 << 20).unwrap();
    assert_eq!(bytes, vec![0; 4096]);
    drop(target);
    assert!(!path.exists());
    // a size that is given comes first
    let options = TargetOptions { bytes: Some(1 << 20), ..options };
    assert_eq!(open_target(&path, &options).unwrap().bytes, 1 << 20);
}
