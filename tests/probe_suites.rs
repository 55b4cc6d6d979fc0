//! The suites of `probe` on real files and devices, and their documentation.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::{folder, success};

use serde_json::Value;

fn run_in_folder(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_diskwright"));
    command.args(arguments).env("DISKWRIGHT_STATE", folder.join("state")).current_dir(folder);
    command.output().expect("runs")
}

/// Run of an answer with this name.
fn find_run<'a>(answer: &'a Value, name: &str) -> &'a Value {
    let runs = answer["runs"].as_array().expect("runs");
    runs.iter().find(|r| r["name"] == name).unwrap_or_else(|| panic!("no {name} in {answer:#}"))
}

/// Remark of an answer with this id.
fn find_remark<'a>(answer: &'a Value, id: &str) -> Option<&'a Value> {
    answer["remarks"].as_array().expect("remarks").iter().find(|r| r["id"] == id)
}

#[test]
fn documents_and_explains_every_suite() {
    let folder = folder("suites-suites-told");
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/probe.md")).expect("docs/probe.md");
    let list = success(&run_in_folder(&folder, &["list", "suites", "--json"]));
    let suites = list["entries"].as_array().expect("entries");
    assert!(suites.len() > 20);
    for suite in suites {
        let id = suite["id"].as_str().expect("id");
        assert!(text.contains(&format!("| `{id}` |")), "docs/probe.md has no row for {id}");
        assert!(suite["usual_s"].as_f64().is_some_and(|s| s > 0.0) && suite["usual_runs"].is_u64(), "{suite}");
    }
    let explained = success(&run_in_folder(&folder, &["explain", "stripes", "--json"]));
    assert_eq!(explained["suites"][0]["id"], "stripes");
    let page = run_in_folder(&folder, &["explain", "load"]);
    assert!(String::from_utf8_lossy(&page.stdout).contains("100"), "{page:?}");
}

#[test]
fn buffered_runs_report_the_share_read_from_memory() {
    let folder = folder("suites-suites-buffered");
    let short = ["--for", "400ms", "--json"];
    let made = ["probe", "file-cache", "cached.dat", "--size", "32MB"];
    let answer = success(&run_in_folder(&folder, &[&made[..], &short].concat()));
    assert_eq!(answer["buffered"], true);
    let share = |name: &str| find_run(&answer, name)["from_memory_share"].as_f64();
    let Some(second) = share("second-read") else { return eprintln!("skipped: the kernel does not count reads") };
    // the cache was emptied before the first read, which then filled it for the second
    assert!(second > 0.95, "{answer:#}");
    assert!(find_run(&answer, "first-read")["disk_read_bytes"].as_f64().is_some_and(|b| b > 0.0), "{answer:#}");
    assert!(find_run(&answer, "random-cold")["disk_read_bytes"].as_f64().is_some_and(|b| b > 0.0), "{answer:#}");
    assert!(find_remark(&answer, "file_cache_effect").is_some_and(|r| r["value"].as_f64() > Some(0.95)), "{answer:#}");
    let written = find_remark(&answer, "written_at_memory_speed_bytes").expect("what became of writes");
    assert!(written["text"].as_str().is_some_and(|t| t.contains("dirty pages")), "{written}");
    // any suite can measure the cache, and then remarks on it
    let made = ["probe", "diskmax", "cached.dat", "--size", "16MB", "--buffered"];
    let answer = success(&run_in_folder(&folder, &[&made[..], &short].concat()));
    assert!(find_remark(&answer, "from_memory").is_some(), "{answer:#}");
    assert_eq!(find_run(&answer, "depth-1")["pattern"]["ramp_s"], 0.0);
}

/// A btrfs RAID 0 over two loop devices, taken down at the end.
struct BtrfsStripes {
    mount: PathBuf,
    loop_devices: Vec<String>,
}

impl BtrfsStripes {
    /// Creates and mounts it; `None` where this machine cannot.
    fn new(folder: &Path) -> Option<BtrfsStripes> {
        let mount = folder.join("mount");
        fs::create_dir_all(&mount).ok()?;
        let mut stripes = BtrfsStripes { mount, loop_devices: Vec::new() };
        for name in ["a.img", "b.img"] {
            let image = folder.join(name);
            fs::File::create(&image).ok()?.set_len(300_000_000).ok()?;
            stripes
                .loop_devices
                .push(run_tool("losetup", &["-f", "--show", &image.display().to_string()])?.trim().to_owned());
        }
        run_tool(
            "mkfs.btrfs",
            &["-q", "-f", "-d", "raid0", "-m", "raid0", &stripes.loop_devices[0], &stripes.loop_devices[1]],
        )?;
        run_tool("mount", &[&stripes.loop_devices[0], &stripes.mount.display().to_string()])?;
        let data = stripes.mount.join("data");
        fs::create_dir(&data).ok()?;
        // without this attribute (no copy on write), direct requests go through the page cache
        run_tool("chattr", &["+C", &data.display().to_string()])?;
        // one piece is repeated: without optimization, computing every byte takes long
        let piece: Vec<u8> = (0..1u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        fs::write(data.join("file"), piece.repeat(64)).ok()?;
        Some(stripes)
    }
}

/// Standard output of a program; `None` where it fails or is missing.
fn run_tool(program: &str, arguments: &[&str]) -> Option<String> {
    let done = Command::new(program).args(arguments).output().ok()?;
    done.status.success().then(|| String::from_utf8_lossy(&done.stdout).into_owned())
}

impl Drop for BtrfsStripes {
    fn drop(&mut self) {
        let mount = self.mount.display().to_string();
        if run_tool("umount", &[&mount]).is_none() {
            // another process uses it just now: it is unmounted when that has finished
            run_tool("umount", &["--lazy", &mount]);
        }
        for device in &self.loop_devices {
            run_tool("losetup", &["-d", device]);
        }
    }
}

#[test]
fn stripes_finds_the_members_below_btrfs() {
    let folder = folder("suites-suites-stripes");
    let Some(stripes) = BtrfsStripes::new(&folder) else {
        return eprintln!("skipped: btrfs over loop devices needs root, losetup and mkfs.btrfs");
    };
    let file = stripes.mount.join("data/file").display().to_string();
    let base = ["probe", "stripes", &file, "--for", "200ms", "--ramp", "0", "--json"];
    let refused = run_in_folder(&folder, &base);
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && text.contains("--live"), "{text}");
    let answer = success(&run_in_folder(&folder, &[&base[..], &["--live", "--brake", "60s"]].concat()));
    let mount = stripes.mount.display().to_string();
    let device = &answer["device"];
    assert_eq!((&device["filesystem"], &device["mount"]), (&"btrfs".into(), &mount.into()), "{device:#}");
    assert!(device["name"].as_str().is_some_and(|name| name.starts_with("btrfs")), "{device:#}");
    for device in &stripes.loop_devices {
        let name = device.rsplit('/').next().expect("a name");
        let alone = find_run(&answer, &format!("sequential-{name}"));
        assert_eq!(alone["target"], *device.as_str(), "{alone:#}");
        assert!(alone["bytes_per_s"].as_f64().is_some_and(|rate| rate > 0.0), "{alone:#}");
    }
    for id in ["sequential_scaling", "random_scaling", "random_efficiency", "sequential_shared_path"] {
        assert!(find_remark(&answer, id).is_some_and(|r| r["value"].as_f64() > Some(0.0)), "{id}: {answer:#}");
    }
    let scaling = find_remark(&answer, "random_scaling").expect("it is there")["text"].to_string();
    assert!(scaling.contains("ideal: 2") && scaling.contains("1.43"), "{scaling}");
    // members given by --members are the same set
    let members = stripes.loop_devices.join(",");
    let answer =
        success(&run_in_folder(&folder, &[&base[..], &["--live", "--brake", "60s", "--members", &members]].concat()));
    assert!(find_remark(&answer, "random_scaling").is_some());
}
