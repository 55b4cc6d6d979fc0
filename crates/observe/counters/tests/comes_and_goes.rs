//! Devices that appear, change and disappear under a running sampler, on the kernel of this machine: loop devices,
//! mounts and control groups. Each tick of the sampler is a slow one, so that only the kernel's own events decide what
//! is scanned again.

#![allow(clippy::disallowed_macros, reason = "a skip is printed and counted")]
#![allow(clippy::disallowed_methods, reason = "a test asks other programs for devices and waits for the kernel")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use diskwright_base::{Device, Note, Topology};
use diskwright_counters::live::{Roots, Sampler, SamplerOptions, SystemClock};

/// A folder of this test, and the commands that undo its steps, the last first.
struct Bench {
    folder: PathBuf,
    undo: Vec<Vec<String>>,
}

impl Bench {
    fn new(test: &str) -> Bench {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        Bench { folder, undo: Vec::new() }
    }

    fn file(&self, name: &str, bytes: u64) -> String {
        let path = self.folder.join(name);
        File::create(&path).and_then(|file| file.set_len(bytes)).expect("a sparse file");
        path.display().to_string()
    }

    /// Runs a program, and later the one that undoes it; returns its output, or `None` where it failed, which skips the
    /// test.
    fn make(&mut self, command: &[&str], undo: &[&str]) -> Option<String> {
        let output = run_command(command)?;
        self.undo.push(undo.iter().map(|word| (*word).to_owned()).collect());
        Some(output)
    }

    /// Undoes the last step now.
    fn undo_last(&mut self) {
        let step = self.undo.pop().expect("something was made");
        undo_command(&step);
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        for step in self.undo.drain(..).rev() {
            undo_command(&step);
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The output of a program; a skip is printed where it failed.
fn run_command(command: &[&str]) -> Option<String> {
    let done = Command::new(command[0]).args(&command[1..]).output();
    match done {
        Ok(done) if done.status.success() => Some(String::from_utf8_lossy(&done.stdout).trim().to_owned()),
        Ok(done) => {
            println!("skipped: {}: {}", command.join(" "), String::from_utf8_lossy(&done.stderr).trim());
            None
        }
        Err(error) => {
            println!("skipped: {}: {error}", command[0]);
            None
        }
    }
}

/// "Busy" ends by itself when the last user has gone.
fn undo_command(step: &[String]) {
    let until = Instant::now() + Duration::from_secs(10);
    while !Command::new(&step[0]).args(&step[1..]).output().is_ok_and(|done| done.status.success()) {
        assert!(Instant::now() < until || std::thread::panicking(), "not undone: {}", step.join(" "));
        if Instant::now() >= until {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The sampler of this machine, and the newest topology that it noted.
struct Watch {
    sampler: Sampler,
    topology: Topology,
}

impl Watch {
    fn new() -> Watch {
        let options = SamplerOptions { slow_interval: Duration::ZERO, processes: false, ..SamplerOptions::default() };
        let sampler = Sampler::new(Roots::default(), Box::new(SystemClock), options);
        let mut watch = Watch { sampler, topology: Topology::default() };
        watch.tick_slowly();
        watch
    }

    fn tick_slowly(&mut self) {
        self.sampler.tick();
        for note in self.sampler.take_notes() {
            if note.kind.as_str() == Note::TOPOLOGY {
                self.topology = Arc::unwrap_or_clone(note.read_topology().expect("a topology"));
            }
        }
    }

    /// Ticks until a condition holds; the kernel's events come with a delay.
    fn wait_until(&mut self, condition: &str, holds: impl Fn(&Watch) -> bool) {
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            self.tick_slowly();
            if holds(self) {
                return;
            }
            assert!(Instant::now() < until, "not seen: {condition}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn device(&self, name: &str) -> Option<&Device> {
        self.topology.devices.iter().find(|device| device.name == name)
    }

    /// The newest value of a counter of an instance, in its unit.
    fn value(&self, counter: &str, instance: &str) -> Option<f64> {
        let schema = self.sampler.schema();
        let index = schema.series.iter().position(|s| s.counter == counter && s.instance == instance)?;
        let cell = self.sampler.row()[index];
        (!cell.is_nan()).then(|| cell * schema.series[index].scale)
    }
}

const MIB: u64 = 1 << 20;

#[test]
fn a_loop_device_appears_changes_its_size_and_disappears() {
    let mut bench = Bench::new("loop-comes");
    let (small, large) = (bench.file("small", 16 * MIB), bench.file("large", 48 * MIB));
    let mut watch = Watch::new();
    // another test may take the number between two looks: then once more with a new one
    let done = (0..10).any(|_| {
        let Some(path) = run_command(&["losetup", "--find", "--show", &small]) else { return true };
        bench.undo.push(vec!["losetup".into(), "-d".into(), path.clone()]);
        loop_changes(&mut bench, &mut watch, &path, &large)
    });
    assert!(done, "others took each of ten loop devices");
}

/// A loop device of 16 MiB is seen, then another file of 48 MiB below the same name, then its end; false where another
/// test took the name meanwhile.
fn loop_changes(bench: &mut Bench, watch: &mut Watch, path: &str, large: &str) -> bool {
    let name = path.trim_start_matches("/dev/").to_owned();
    let has = |watch: &Watch, bytes: u64| watch.device(&name).is_some_and(|device| device.bytes == Some(bytes));
    watch.wait_until("a new loop device", |watch| has(watch, 16 * MIB));
    // between two looks
    bench.undo_last();
    let backing = PathBuf::from(format!("/sys/block/{name}/loop/backing_file"));
    let until = Instant::now() + Duration::from_secs(10);
    while backing.exists() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    if !Command::new("losetup").args([path, large]).status().is_ok_and(|status| status.success()) {
        return false;
    }
    bench.undo.push(vec!["losetup".into(), "-d".into(), path.to_owned()]);
    watch.wait_until("the device of that name with another size", |watch| has(watch, 48 * MIB));
    bench.undo_last();
    watch.wait_until("that it has gone", |watch| !has(watch, 48 * MIB));
    true
}

#[test]
fn a_mount_appears_disappears_and_returns_with_another_size() {
    let mut bench = Bench::new("mount-comes");
    let point = bench.folder.join("point");
    fs::create_dir_all(&point).expect("a mount point");
    let point = point.display().to_string();
    let mut watch = Watch::new();
    let size = |watch: &Watch| watch.value("logical_disk.total_bytes", &point);
    assert_eq!(size(&watch), None);
    for (image, bytes) in [("first", 16 * MIB), ("second", 64 * MIB)] {
        let image = bench.file(image, bytes);
        if run_command(&["mkfs.ext4", "-q", "-F", "-m", "0", &image]).is_none() {
            return;
        }
        if bench.make(&["mount", "-o", "loop", &image, &point], &["umount", &point]).is_none() {
            return;
        }
        // what the filesystem needs for itself is left out of its size
        #[allow(clippy::cast_precision_loss, reason = "a few megabytes")]
        let about = 0.6 * bytes as f64..=bytes as f64;
        watch.wait_until("the mounted filesystem with its size", |watch| {
            size(watch).is_some_and(|b| about.contains(&b))
        });
        bench.undo_last();
        watch.wait_until("that it is mounted no more", |watch| size(watch).is_none());
    }
}

#[test]
fn a_recreated_control_group_has_its_new_limit() {
    let name = format!("diskwright-comes-{}", std::process::id());
    let roots = [
        ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), // version 1
        ("/sys/fs/cgroup", "memory.max"),
    ];
    let Some((folder, file)) =
        roots.into_iter().map(|(root, file)| (Path::new(root).join(&name), file)).find(|(folder, file)| {
            fs::create_dir(folder).is_ok() && (folder.join(file).exists() || fs::remove_dir(folder).is_err())
        })
    else {
        return println!("skipped: no control group can be made here");
    };
    let mut bench = Bench::new("group-comes");
    let path = folder.display().to_string();
    let limit = |bytes: u64| fs::write(folder.join(file), bytes.to_string()).expect("a limit is set");
    bench.undo.push(vec!["rmdir".into(), path.clone()]);
    limit(512 * MIB);
    let mut watch = Watch::new();
    let instance = format!("/{name}");
    #[allow(clippy::cast_precision_loss, reason = "a few megabytes")]
    let has = |bytes: u64| {
        let instance = instance.clone();
        move |watch: &Watch| watch.value("cgroup.memory_limit_bytes", &instance) == Some(bytes as f64)
    };
    watch.wait_until("the group's limit", has(512 * MIB));
    // between two ticks: as many groups as before, and the old files are gone
    bench.undo_last();
    fs::create_dir(&folder).expect("made again");
    bench.undo.push(vec!["rmdir".into(), path]);
    limit(256 * MIB);
    watch.wait_until("the new group's limit", has(256 * MIB));
    bench.undo_last();
    watch.wait_until("that it has gone", |watch| watch.value("cgroup.memory_limit_bytes", &instance).is_none());
}
