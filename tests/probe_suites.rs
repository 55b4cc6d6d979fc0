//! The suites of `probe` on real files and devices, and their documentation.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::{folder, success};

use serde_json::Value;

fn diskwright(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_diskwright"));
    command.args(arguments).env("DISKWRIGHT_STATE", folder.join("state")).current_dir(folder);
    command.output().expect("runs")
}

/// Run of an answer with this name.
fn run<'a>(answer: &'a Value, name: &str) -> &'a Value {
    let runs = answer["runs"].as_array().expect("runs");
    runs.iter().find(|r| r["name"] == name).unwrap_or_else(|| panic!("no {name} in {answer:#}"))
}

/// Remark of an answer with this id.
fn remark<'a>(answer: &'a Value, id: &str) -> Option<&'a Value> {
    answer["remarks"].as_array().expect("remarks").iter().find(|r| r["id"] == id)
}

#[test]
fn the_documentation_names_every_suite_and_explain_knows_it() {
    let folder = folder("suites-suites-told");
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/probe.md")).expect("docs/probe.md");
    let list = success(&diskwright(&folder, &["list", "suites", "--json"]));
    let suites = list["entries"].as_array().expect("entries");
    assert!(suites.len() > 20);
    for suite in suites {
        let id = suite["id"].as_str().expect("id");
        assert!(text.contains(&format!("| `{id}` |")), "docs/probe.md has no row for {id}");
        assert!(suite["usual_s"].as_f64().is_some_and(|s| s > 0.0) && suite["usual_runs"].is_u64(), "{suite}");
    }
    let explained = success(&diskwright(&folder, &["explain", "stripes", "--json"]));
    assert_eq!(explained["suites"][0]["id"], "stripes");
    let page = diskwright(&folder, &["explain", "load"]);
    assert!(String::from_utf8_lossy(&page.stdout).contains("100"), "{page:?}");
}

#[test]
fn buffered_runs_tell_what_memory_answered() {
    let folder = folder("suites-suites-buffered");
    let short = ["--for", "400ms", "--json"];
    let made = ["probe", "file-cache", "cached.dat", "--size", "32MB"];
    let answer = success(&diskwright(&folder, &[&made[..], &short].concat()));
    assert_eq!(answer["buffered"], true);
    let share = |name: &str| run(&answer, name)["from_memory_share"].as_f64();
    let Some(second) = share("second-read") else { return eprintln!("skipped: the kernel does not count reads") };
    // the cache was emptied before the first read, which then filled it for the second
    assert!(second > 0.95, "{answer:#}");
    assert!(run(&answer, "first-read")["disk_read_bytes"].as_f64().is_some_and(|b| b > 0.0), "{answer:#}");
    assert!(run(&answer, "random-cold")["disk_read_bytes"].as_f64().is_some_and(|b| b > 0.0), "{answer:#}");
    assert!(remark(&answer, "file_cache_effect").is_some_and(|r| r["value"].as_f64() > Some(0.95)), "{answer:#}");
    let written = remark(&answer, "written_at_memory_speed_bytes").expect("what became of writes");
    assert!(written["text"].as_str().is_some_and(|t| t.contains("dirty pages")), "{written}");
    // any suite can measure the cache, and then remarks on it
    let made = ["probe", "diskmax", "cached.dat", "--size", "16MB", "--buffered"];
    let answer = success(&diskwright(&folder, &[&made[..], &short].concat()));
    assert!(remark(&answer, "from_memory").is_some(), "{answer:#}");
    assert_eq!(run(&answer, "depth-1")["pattern"]["ramp_s"], 0.0);
}

/// A btrfs RAID 0 over two loop devices, taken down at the end.
struct Stripes {
    mount: PathBuf,
    loops: Vec<String>,
}

impl Stripes {
    /// Creates and mounts it; `None` where this machine cannot.
    fn new(folder: &Path) -> Option<Stripes> {
        let mount = folder.join("mount");
        fs::create_dir_all(&mount).ok()?;
        let mut stripes = Stripes { mount, loops: Vec::new() };
        for name in ["a.img", "b.img"] {
            let image = folder.join(name);
            fs::File::create(&image).ok()?.set_len(300_000_000).ok()?;
            stripes.loops.push(said("losetup", &["-f", "--show", &image.display().to_string()])?.trim().to_owned());
        }
        said("mkfs.btrfs", &["-q", "-f", "-d", "raid0", "-m", "raid0", &stripes.loops[0], &stripes.loops[1]])?;
        said("mount", &[&stripes.loops[0], &stripes.mount.display().to_string()])?;
        let data = stripes.mount.join("data");
        fs::create_dir(&data).ok()?;
        // without this attribute (no copy on write), direct requests go through the page cache
        said("chattr", &["+C", &data.display().to_string()])?;
        // one piece is repeated: without optimization, computing every byte takes long
        let piece: Vec<u8> = (0..1u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        fs::write(data.join("file"), piece.repeat(64)).ok()?;
        Some(stripes)
    }
}

/// Standard output of a program; `None` where it fails or is missing.
fn said(program: &str, arguments: &[&str]) -> Option<String> {
    let done = Command::new(program).args(arguments).output().ok()?;
    done.status.success().then(|| String::from_utf8_lossy(&done.stdout).into_owned())
}

impl Drop for Stripes {
    fn drop(&mut self) {
        let mount = self.mount.display().to_string();
        if said("umount", &[&mount]).is_none() {
            // another process uses it just now: it is unmounted when that has finished
            said("umount", &["--lazy", &mount]);
        }
        for device in &self.loops {
            said("losetup", &["-d", device]);
        }
    }
}

#[test]
fn stripes_finds_the_members_below_btrfs() {
    let folder = folder("suites-suites-stripes");
    let Some(stripes) = Stripes::new(&folder) else {
        return eprintln!("skipped: btrfs over loop devices needs root, losetup and mkfs.btrfs");
    };
    let file = stripes.mount.join("data/file").display().to_string();
    let base = ["probe", "stripes", &file, "--for", "200ms", "--ramp", "0", "--json"];
    let refused = diskwright(&folder, &base);
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && text.contains("--live"), "{text}");
    let answer = success(&diskwright(&folder, &[&base[..], &["--live", "--brake", "60s"]].concat()));
    let mount = stripes.mount.display().to_string();
    let device = &answer["device"];
    assert_eq!((&device["filesystem"], &device["mount"]), (&"btrfs".into(), &mount.into()), "{device:#}");
    assert!(device["name"].as_str().is_some_and(|name| name.starts_with("btrfs")), "{device:#}");
    for device in &stripes.loops {
        let name = device.rsplit('/').next().expect("a name");
        let alone = run(&answer, &format!("sequential-{name}"));
        assert_eq!(alone["target"], *device.as_str(), "{alone:#}");
        assert!(alone["bytes_per_s"].as_f64().is_some_and(|rate| rate > 0.0), "{alone:#}");
    }
    for id in ["sequential_scaling", "random_scaling", "random_efficiency", "sequential_shared_path"] {
        assert!(remark(&answer, id).is_some_and(|r| r["value"].as_f64() > Some(0.0)), "{id}: {answer:#}");
    }
    let scaling = remark(&answer, "random_scaling").expect("it is there")["text"].to_string();
    assert!(scaling.contains("the ideal is 2") && scaling.contains("1.43"), "{scaling}");
    // members given by --members are the same set
    let members = stripes.loops.join(",");
    let answer =
        success(&diskwright(&folder, &[&base[..], &["--live", "--brake", "60s", "--members", &members]].concat()));
    assert!(remark(&answer, "random_scaling").is_some());
}
