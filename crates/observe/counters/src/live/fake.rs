//! A fake machine for tests, here and in other crates: a folder with the files of `/proc` and `/sys` that a test puts
//! there, and clocks that advance only on request. All its data are invented.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use diskwright_base::{Note, ProcessTable, Topology};

use super::{Clock, ClockReading, Roots, Sampler, SamplerOptions};

/// Clocks that stand still until they are moved.
#[derive(Clone, Debug)]
pub struct FakeClock(Arc<Mutex<ClockReading>>);

impl FakeClock {
    fn new() -> FakeClock {
        let start = ClockReading {
            wall_ns: 1_790_000_000_000_000_000,
            running_ns: 100_000_000_000,
            since_boot_ns: 100_000_000_000,
        };
        FakeClock(Arc::new(Mutex::new(start)))
    }

    fn update_reading(&self, change: impl FnOnce(&mut ClockReading)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Advances all clocks by this time, seconds.
    pub fn advance(&self, seconds: f64) {
        let ns = (seconds * 1e9).round();
        self.update_reading(|r| {
            r.wall_ns += ns as i64;
            r.running_ns += ns as u64;
            r.since_boot_ns += ns as u64;
        });
    }

    /// Suspends the machine for this time, seconds: only the clock since boot and the wall clock advance.
    pub fn sleep(&self, seconds: f64) {
        let ns = (seconds * 1e9).round();
        self.update_reading(|r| {
            r.wall_ns += ns as i64;
            r.since_boot_ns += ns as u64;
        });
    }

    /// Steps the wall clock by this time, seconds; a negative one steps it back.
    pub fn step_wall_clock(&self, seconds: f64) {
        self.update_reading(|r| r.wall_ns += (seconds * 1e9) as i64);
    }
}

impl Clock for FakeClock {
    fn read_clocks(&self) -> ClockReading {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The fake machine. Dropping it removes its folder.
#[derive(Debug)]
pub struct FakeMachine {
    folder: PathBuf,
    /// Its clocks.
    pub clock: FakeClock,
}

impl FakeMachine {
    /// A machine without a single file.
    ///
    /// # Panics
    /// When the temporary folder cannot be made.
    pub fn new() -> FakeMachine {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("diskwright-fake-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).expect("temporary folder");
        FakeMachine { folder, clock: FakeClock::new() }
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Roots below its folder.
    pub fn roots(&self) -> Roots {
        Roots::from_root(&self.folder)
    }

    /// Creates a file, such as `proc/loadavg`.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn put_file(&self, path: &str, text: impl AsRef<[u8]>) -> &FakeMachine {
        let path = self.folder.join(path);
        fs::create_dir_all(path.parent().expect("a folder above")).expect("folder");
        fs::write(&path, text).expect("file");
        self
    }

    /// Creates a symbolic link.
    ///
    /// # Panics
    /// When it cannot be made.
    pub fn put_link(&self, path: &str, target: &str) -> &FakeMachine {
        let path = self.folder.join(path);
        fs::create_dir_all(path.parent().expect("a folder above")).expect("folder");
        std::os::unix::fs::symlink(target, &path).expect("link");
        self
    }

    /// Removes a file or a folder with its contents.
    ///
    /// # Panics
    /// When it does not exist.
    pub fn remove(&self, path: &str) -> &FakeMachine {
        let path = self.folder.join(path);
        if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) }.expect("it exists");
        self
    }

    /// Creates a whole block device in sysfs: `queue/rotational` and `size` (in sectors), and `dev` with its device
    /// numbers, such as `8:0`.
    pub fn put_disk(&self, name: &str, numbers: &str, sectors: u64) -> &FakeMachine {
        let folder = format!("sys/block/{name}");
        self.put_file(&format!("{folder}/size"), format!("{sectors}\n"))
            .put_file(&format!("{folder}/dev"), format!("{numbers}\n"))
            .put_file(&format!("{folder}/queue/rotational"), "1\n")
    }

    /// Creates a partition below its disk, with its device numbers, such as `8:1`.
    pub fn put_partition(&self, disk: &str, name: &str, numbers: &str) -> &FakeMachine {
        let folder = format!("sys/block/{disk}/{name}");
        self.put_file(&format!("{folder}/partition"), "1\n")
            .put_file(&format!("{folder}/size"), "2048\n")
            .put_file(&format!("{folder}/dev"), format!("{numbers}\n"))
            .put_file(&format!("sys/class/block/{name}/partition"), "1\n")
    }

    /// Creates small but complete files of processor, memory, paging, pressure, interrupts and network, so that nothing
    /// is missing.
    pub fn put_ordinary_files(&self) -> &FakeMachine {
        for (path, text) in ORDINARY_FILES {
            self.put_file(path, text);
        }
        self
    }

    /// Creates a sampler of this machine.
    pub fn watch_with(&self, options: SamplerOptions) -> FakeWatch {
        let sampler = Sampler::new(self.roots(), Box::new(self.clock.clone()), options);
        FakeWatch { sampler, clock: self.clock.clone(), notes: Vec::new() }
    }

    /// Creates a sampler of everything, with the default options.
    pub fn watch_default(&self) -> FakeWatch {
        self.watch_with(SamplerOptions::default())
    }
}

impl Default for FakeMachine {
    fn default() -> FakeMachine {
        FakeMachine::new()
    }
}

impl Drop for FakeMachine {
    fn drop(&mut self) {
        // a folder that is left behind is no reason to fail
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A sampler of a [`FakeMachine`], with what tests ask of it.
pub struct FakeWatch {
    /// The sampler itself.
    pub sampler: Sampler,
    clock: FakeClock,
    /// All notes so far.
    pub notes: Vec<Note>,
}

impl FakeWatch {
    /// Takes a sample now.
    pub fn tick(&mut self) -> &mut FakeWatch {
        self.sampler.tick();
        self.notes.extend(self.sampler.take_notes());
        self
    }

    /// Takes a sample after this time, seconds.
    pub fn tick_after(&mut self, seconds: f64) -> &mut FakeWatch {
        self.clock.advance(seconds);
        self.tick()
    }

    /// The value of a counter in its unit; `None` where the schema lacks it.
    pub fn find_value(&self, counter: &str, instance: &str) -> Option<f64> {
        let schema = self.sampler.schema();
        let column = schema.column(counter, instance)?;
        Some(self.sampler.row()[column] * schema.series[column].scale)
    }

    /// The value of a counter in its unit.
    ///
    /// # Panics
    /// Where the schema lacks it.
    pub fn value(&self, counter: &str, instance: &str) -> f64 {
        self.find_value(counter, instance).unwrap_or_else(|| panic!("no series {counter} of `{instance}`"))
    }

    /// Texts of the notes of a kind.
    pub fn notes_of_kind(&self, kind: &str) -> Vec<&str> {
        self.notes.iter().filter(|n| n.kind == kind).map(|n| n.text()).collect()
    }

    /// Returns true if a note of the kind contains the text.
    pub fn has_note(&self, kind: &str, text: &str) -> bool {
        self.notes_of_kind(kind).iter().any(|n| n.contains(text))
    }

    /// The topology of the last note with one.
    ///
    /// # Panics
    /// Where there is none.
    pub fn last_topology(&self) -> Topology {
        let note = self.last_note(Note::TOPOLOGY).expect("a topology note");
        Arc::unwrap_or_clone(note.read_topology().expect("a topology"))
    }

    /// The table of the last note on processes; `None` if there is none.
    pub fn last_processes(&self) -> Option<ProcessTable> {
        self.last_note(Note::PROCESSES)?.read_processes().ok().map(Arc::unwrap_or_clone)
    }

    fn last_note(&self, kind: &str) -> Option<&Note> {
        self.notes.iter().rfind(|note| note.kind == kind)
    }
}

/// The files of [`FakeMachine::put_ordinary_files`].
pub const ORDINARY_FILES: &[(&str, &str)] = &[
    ("proc/diskstats", "   8       0 sda 100 0 800 50 200 0 1600 70 0 90 120\n"),
    (
        "proc/stat",
        "cpu  100 0 50 1000 20 0 5 3 0 0\ncpu0 100 0 50 1000 20 0 5 3 0 0\nintr 500 1 2\nctxt 900\n\
         btime 1\nprocesses 40\nprocs_running 1\nprocs_blocked 0\nsoftirq 10 1 2\n",
    ),
    (
        "proc/meminfo",
        "MemTotal: 8000000 kB\nMemFree: 4000000 kB\nMemAvailable: 6000000 kB\n\
         SwapTotal: 0 kB\nSwapFree: 0 kB\nDirty: 10 kB\n",
    ),
    (
        "proc/vmstat",
        "pgfault 1000\npgmajfault 10\npswpin 0\npswpout 0\npgpgin 5000\npgpgout 6000\n\
         nr_dirty_threshold 1000\n",
    ),
    ("proc/loadavg", "0.50 0.25 0.10 1/100 4000\n"),
    (
        "proc/pressure/cpu",
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
    ),
    (
        "proc/pressure/io",
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=2000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1500\n",
    ),
    (
        "proc/pressure/memory",
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
    ),
    ("proc/pressure/irq", "full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"),
    (
        "proc/interrupts",
        "           CPU0\n  1:  10 IO-APIC 1-edge ahci[0000:00:1f.2]\nLOC:  50 Local timer interrupts\n",
    ),
    ("proc/softirqs", "          CPU0\n HI: 1\n BLOCK: 20\n TIMER: 5\n"),
    ("proc/net/dev", "Inter-| Receive\n face |bytes\n  eth0: 1000 10 0 0 0 0 0 0 2000 20 0 0 0 0 0 0\n"),
    ("proc/swaps", "Filename Type Size Used Priority\n"),
    ("proc/mdstat", "Personalities : [raid1]\nunused devices: <none>\n"),
    ("proc/self/mountinfo", "1 0 8:0 / / rw - ext4 /dev/sda rw\n"),
    ("proc/self/mountstats", "device /dev/sda mounted on / with fstype ext4\n"),
    ("proc/sys/kernel/hostname", "made-up\n"),
    ("proc/sys/kernel/osrelease", "6.0.0-fake\n"),
    ("proc/sys/kernel/task_delayacct", "1\n"),
    ("sys/block/sda/size", "1000000\n"),
    ("sys/block/sda/dev", "8:0\n"),
    ("sys/block/sda/queue/rotational", "1\n"),
];
