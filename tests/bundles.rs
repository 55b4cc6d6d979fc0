//! Bundles: a folder, tar or zip archive of logs, given as one log.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::common::{diskwright, folder, stderr, success};

/// Text of iostat of an overloaded disk: a report every 5 s for five minutes.
fn iostat_text(host: &str, day: u32, hour: u32) -> String {
    let mut text = format!("Linux 6.1.0-18-amd64 ({host}) \t11/{day}/2026 \t_x86_64_\t(2 CPU)\n");
    for tick in 0..=60 {
        text += &format!(
            "\n11/{day}/2026 {hour:02}:{:02}:{:02} AM\n\
             avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n\
             \x20         12.00    0.00    3.50   40.00    0.00   44.50\n\n\
             Device            r/s     w/s    rkB/s    wkB/s r_await w_await aqu-sz  %util\n\
             sda              50.00  140.00   400.00  1200.00   45.00   45.00   9.00 100.00\n",
            tick * 5 / 60,
            tick * 5 % 60,
        );
    }
    text
}

/// Writes a folder like a support archive: two logs of one machine, one of them in an inner tar archive, and files
/// that are no logs.
fn write_support_tree(top: &Path) {
    let write = |name: &str, bytes: &[u8]| {
        let path = top.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    };
    write("sos_commands/iostat.txt", iostat_text("db1", 21, 10).as_bytes());
    write("etc/motd", b"welcome\n");
    write("proc/version", b"Linux version 6.1.0-18-amd64\n");
    write("empty", b"");
    let mut inner = tar::Builder::new(Vec::new());
    let text = iostat_text("db1", 21, 11);
    let mut header = tar::Header::new_gnu();
    header.set_size(text.len() as u64);
    header.set_mode(0o644);
    header.set_cksum();
    inner.append_data(&mut header, "later/iostat", text.as_bytes()).unwrap();
    write("inner.tar", &inner.into_inner().unwrap());
    std::os::unix::fs::symlink("/etc/passwd", top.join("link")).unwrap();
}

/// Packs the folder as a compressed tar archive and as a zip archive; returns their paths.
fn pack_tar_and_zip(top: &Path, to: &Path) -> [PathBuf; 2] {
    let tar_file = to.join("sos.tar.zst");
    let mut builder = tar::Builder::new(Vec::new());
    builder.follow_symlinks(false);
    builder.append_dir_all("sosreport-db1", top).unwrap();
    let bytes = builder.into_inner().unwrap();
    fs::write(&tar_file, zstd::encode_all(&bytes[..], 1).unwrap()).unwrap();
    let zip_file = to.join("sos.zip");
    let mut writer = zip::ZipWriter::new(File::create(&zip_file).unwrap());
    for name in ["sos_commands/iostat.txt", "etc/motd", "proc/version", "empty", "inner.tar"] {
        writer.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        writer.write_all(&fs::read(top.join(name)).unwrap()).unwrap();
    }
    writer.finish().unwrap();
    [tar_file, zip_file]
}

#[test]
fn reads_every_log_of_a_bundle_and_counts_other_files() {
    let folder = folder("bundles-all");
    let top = folder.join("sosreport-db1");
    write_support_tree(&top);
    let [tar, zip] = pack_tar_and_zip(&top, &folder);
    let alone = success(&diskwright(&["why", top.join("sos_commands/iostat.txt").to_str().unwrap(), "--json"]));
    for bundle in [&top, &tar, &zip] {
        let bundle = bundle.to_str().unwrap();
        let done = diskwright(&["why", bundle, "--json"]);
        let message = stderr(&done);
        assert!(message.contains("reads 2 iostat-text; 3 other files are not logs"), "{message}");
        assert!(!message.contains("diskwright-import-"), "a temporary name is nothing to people: {message}");
        let verdict = success(&done);
        assert_eq!((&verdict["host"], &verdict["bottleneck"]), (&"db1".into(), &"disk".into()));
        let ticks = |verdict: &serde_json::Value| verdict["window"]["ticks"].as_u64().unwrap();
        assert_eq!(ticks(&verdict), 2 * ticks(&alone), "{message}");
        let kept = folder.join("kept").join(Path::new(bundle).file_name().unwrap());
        let kept = kept.to_str().unwrap();
        let imported = success(&diskwright(&["import", bundle, "--to", kept, "--json"]));
        assert_eq!(imported["files"].as_array().unwrap().len(), 2, "{imported:#}");
        let again = success(&diskwright(&["why", kept, "--json"]));
        assert_eq!(ticks(&again), 2 * ticks(&alone));
        assert_eq!(diskwright(&["import", bundle, "--to", kept]).status.code(), Some(1), "it is there already");
    }
}

#[test]
fn reads_one_machine_of_several_and_names_the_others() {
    let folder = folder("bundles-hosts");
    for (host, hours) in [("db1", 2), ("web1", 1)] {
        for hour in 0..hours {
            fs::write(folder.join(format!("{host}-{hour}.txt")), iostat_text(host, 21, 10 + hour)).unwrap();
        }
    }
    let bundle = folder.to_str().unwrap();
    let done = diskwright(&["why", bundle, "--json"]);
    assert!(stderr(&done).contains("db1 is read, web1 is not"), "{}", stderr(&done));
    assert_eq!(success(&done)["host"], "db1");
    assert_eq!(success(&diskwright(&["why", bundle, "--host", "web1", "--json"]))["host"], "web1");
    // a log that is given beside the bundle selects the machine
    let both = [folder.join("web1-0.txt").display().to_string(), bundle.to_owned()];
    let done = diskwright(&["why", &both[0], &both[1], "--json"]);
    assert_eq!(success(&done)["host"], "web1", "{}", stderr(&done));
}

#[test]
fn survives_truncated_archives_and_escaping_paths() {
    let folder = folder("bundles-broken");
    let top = folder.join("top");
    write_support_tree(&top);
    let [tar, _] = pack_tar_and_zip(&top, &folder);
    let archive = zstd::decode_all(File::open(&tar).unwrap()).unwrap();
    // cut within the last file: the files before it are read
    let cut = folder.join("cut.tar");
    fs::write(&cut, &archive[..archive.len() - 3000]).unwrap();
    let done = diskwright(&["why", cut.to_str().unwrap(), "--json"]);
    assert_eq!(success(&done)["bottleneck"], "disk");
    // a name that leads out of the folder
    let mut builder = tar::Builder::new(Vec::new());
    let text = iostat_text("db1", 21, 10);
    let mut header = tar::Header::new_gnu();
    let name = b"../../../escaped.txt";
    header.as_mut_bytes()[..name.len()].copy_from_slice(name);
    header.set_size(text.len() as u64);
    header.set_cksum();
    builder.append(&header, text.as_bytes()).unwrap();
    let escaping = folder.join("escaping.tar");
    fs::write(&escaping, builder.into_inner().unwrap()).unwrap();
    assert_eq!(success(&diskwright(&["why", escaping.to_str().unwrap(), "--json"]))["bottleneck"], "disk");
    assert!(!std::env::temp_dir().join("escaped.txt").exists() && !folder.join("escaped.txt").exists());
    // a folder without any log
    fs::create_dir(folder.join("nothing")).unwrap();
    fs::write(folder.join("nothing/readme"), "no log\n").unwrap();
    let none = diskwright(&["why", folder.join("nothing").to_str().unwrap()]);
    assert_eq!(none.status.code(), Some(1));
    assert!(stderr(&none).contains("its only file is not a log"), "{}", stderr(&none));
}

/// The two copies have times at the ends of the range of tar: the largest number that fits, and 1 s after 1970.
#[test]
fn counts_a_file_that_is_packed_twice_once() {
    let folder = folder("bundles-twice");
    let tar_of = |name: &str, bytes: &[u8], times: &[u64]| -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for mtime in times {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            header.set_mtime(*mtime);
            header.set_cksum();
            builder.append_data(&mut header, name, bytes).unwrap();
        }
        builder.into_inner().unwrap()
    };
    // a plain log, a compressed one, and one in an inner archive
    let text = iostat_text("db1", 21, 10);
    let packed = zstd::encode_all(text.as_bytes(), 1).unwrap();
    let inner = tar_of("later/iostat", text.as_bytes(), &[1]);
    let cases: [(&str, &[u8]); 3] =
        [("logs/iostat", text.as_bytes()), ("logs/iostat.zst", &packed[..]), ("inner.tar", &inner[..])];
    for (name, bytes) in cases {
        let bundle = folder.join("twice.tar");
        fs::write(&bundle, tar_of(name, bytes, &[u64::MAX, 1])).unwrap();
        let done = diskwright(&["why", bundle.to_str().unwrap(), "--json"]);
        assert_eq!(success(&done)["host"], "db1");
        assert!(stderr(&done).contains("reads 1 iostat-text"), "{name}: {}", stderr(&done));
    }
}

#[test]
fn reads_a_zip_archive_inside_a_zip_archive() {
    let folder = folder("bundles-zip");
    let options = zip::write::SimpleFileOptions::default();
    let mut inner = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    inner.start_file("iostat.txt", options).unwrap();
    inner.write_all(iostat_text("db1", 21, 10).as_bytes()).unwrap();
    let inner = inner.finish().unwrap().into_inner();
    let bundle = folder.join("outer.zip");
    let mut outer = zip::ZipWriter::new(File::create(&bundle).unwrap());
    outer.start_file("archive.zip", options).unwrap();
    outer.write_all(&inner).unwrap();
    outer.start_file("later.txt", options).unwrap();
    outer.write_all(iostat_text("db1", 21, 11).as_bytes()).unwrap();
    outer.finish().unwrap();
    let done = diskwright(&["why", bundle.to_str().unwrap(), "--json"]);
    assert!(stderr(&done).contains("reads 2 iostat-text"), "{}", stderr(&done));
    success(&done);
}
