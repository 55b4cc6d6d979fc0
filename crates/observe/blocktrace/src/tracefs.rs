//! The kernel's tracing filesystem, and our private instance in it.
//!
//! An instance has its own buffers, events, filters and clock: it neither affects other tracers
//! nor is affected by them. Its name holds the id and the start time of our process, so that
//! the next start finds and removes the instance of a killed process.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::dirty_pages::{self, DirtyLayout};
use crate::event::{BlockEventKind, EventTable};
use crate::layout::{EventLayout, LayoutError, PageLayout};

/// Reason why requests cannot be traced by tracefs.
#[derive(Debug, thiserror::Error)]
pub enum TracefsError {
    /// tracefs is not mounted, and cannot be mounted: the kernel lacks it, or privileges are missing.
    #[error("tracefs is not mounted and cannot be mounted privately: {0}")]
    NoTracefs(io::Error),
    /// A file of tracefs was refused.
    #[error("{file}: {error}")]
    Refused {
        /// The file, below tracefs.
        file: String,
        /// Error of the kernel.
        error: io::Error,
    },
    /// The kernel has no block events.
    #[error("this kernel has no block device events (CONFIG_BLK_DEV_IO_TRACE)")]
    NoEvents,
    /// The layout of pages or of a required event is unknown.
    #[error(transparent)]
    Layout(#[from] LayoutError),
}

impl TracefsError {
    /// Returns true if privileges are missing.
    pub fn is_refusal(&self) -> bool {
        let error = match self {
            TracefsError::NoTracefs(error) | TracefsError::Refused { error, .. } => error,
            TracefsError::NoEvents | TracefsError::Layout(_) => return false,
        };
        error.kind() == io::ErrorKind::PermissionDenied
    }
}

/// The tracing filesystem, at its mount point, or mounted privately for this process.
#[derive(Debug)]
pub struct Tracefs {
    root: PathBuf,
    /// Keeps the private mount alive; it is attached to no folder and ends with this process.
    _mount: Option<OwnedFd>,
}

impl Tracefs {
    /// Finds the mounted filesystem, or mounts it privately.
    ///
    /// # Errors
    /// When it is not mounted and cannot be mounted, or may not be read.
    pub fn open() -> Result<Tracefs, TracefsError> {
        for root in ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"] {
            match fs::metadata(Path::new(root).join("events")) {
                Ok(_) => return Ok(Tracefs { root: root.into(), _mount: None }),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    return Err(TracefsError::Refused { file: root.into(), error });
                }
                Err(_) => {}
            }
        }
        let mount = mount_privately().map_err(|error| TracefsError::NoTracefs(error.into()))?;
        let root = PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd()));
        Ok(Tracefs { root, _mount: Some(mount) })
    }

    /// Path of a file or folder of tracefs.
    pub fn path(&self, inner: &str) -> PathBuf {
        self.root.join(inner)
    }

    /// Reads the text of a file of tracefs.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn read_text(&self, inner: &str) -> Result<String, TracefsError> {
        read_whole_file(&self.path(inner)).map_err(|error| TracefsError::Refused { file: inner.into(), error })
    }

    /// Reads the layouts of all usable block events of this kernel, and the reasons why others are not usable.
    ///
    /// # Errors
    /// When the kernel has no block events, or issue or completion have an unknown layout.
    pub fn read_event_table(&self) -> Result<(EventTable, Vec<LayoutError>), TracefsError> {
        let (mut layouts, mut unusable) = (Vec::new(), Vec::new());
        for kind in BlockEventKind::ALL {
            let Ok(text) = self.read_text(&format!("events/block/{}/format", kind.name())) else { continue };
            match EventLayout::parse(kind, &text) {
                Ok(layout) => layouts.push(layout),
                Err(error) if matches!(kind, BlockEventKind::Issue | BlockEventKind::Complete) => {
                    return Err(error.into());
                }
                Err(error) => unusable.push(error),
            }
        }
        let mut table = EventTable::new(layouts);
        for event in dirty_pages::DIRTY_EVENTS {
            let Ok(text) = self.read_text(&format!("events/{event}/format")) else { continue };
            match DirtyLayout::parse(event, &text) {
                Ok(layout) => table.dirty = Some(layout),
                Err(error) => unusable.push(error),
            }
        }
        if table.find_layout(BlockEventKind::Issue).is_none() || table.find_layout(BlockEventKind::Complete).is_none() {
            return Err(TracefsError::NoEvents);
        }
        Ok((table, unusable))
    }

    /// Reads the layout of pages.
    ///
    /// # Errors
    /// When it cannot be read or is unknown.
    pub fn read_page_layout(&self) -> Result<PageLayout, TracefsError> {
        Ok(PageLayout::parse(&self.read_text("events/header_page")?)?)
    }

    /// Names of our instances whose process has ended.
    pub fn stale_instances(&self) -> Vec<String> {
        self.instances().into_iter().filter(|(_, lives)| !lives).map(|(name, _)| name).collect()
    }

    /// Names of our instances; true if the instance's process is alive.
    pub fn instances(&self) -> Vec<(String, bool)> {
        let names = fs::read_dir(self.path("instances")).into_iter().flatten().flatten();
        let names = names.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter_map(|name| is_owner_alive(&name).map(|lives| (name, lives))).collect()
    }

    /// Removes instances of killed processes; returns the number removed. An instance that is still
    /// read (by a process that is not visible from here) is busy and stays.
    pub fn remove_stale_instances(&self) -> usize {
        let remove = |name: &String| fs::remove_dir(self.path("instances").join(name)).is_ok();
        self.stale_instances().iter().filter(|name| remove(name)).count()
    }
}

/// Reads a file's text with one large read: some files of tracefs (`header_page`) return nothing
/// from the second read on, and `read_to_string` starts with 32 bytes.
fn read_whole_file(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut text = vec![0; 64 << 10];
    let mut length = 0;
    while length < text.len() {
        match file.read(&mut text[length..])? {
            0 => break,
            bytes => length += bytes,
        }
    }
    Ok(String::from_utf8_lossy(&text[..length]).into_owned())
}

fn mount_privately() -> rustix::io::Result<OwnedFd> {
    use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
    let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
}

/// Prefix of our instances' names.
const INSTANCE_PREFIX: &str = "diskwright-";

/// Start time of a process, in ticks since boot (field 22 of /proc/PID/stat).
fn process_start_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // the name in parentheses may contain anything
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// Returns true if the process of one of our instances is alive; `None` for instances of others.
fn is_owner_alive(name: &str) -> Option<bool> {
    let mut numbers = name.strip_prefix(INSTANCE_PREFIX)?.split('-');
    let (pid, start_ticks) = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
    Some(process_start_ticks(pid) == Some(start_ticks))
}

/// Events lost, by the kernel's count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceLoss {
    /// Events overwritten before they were read.
    pub overrun: u64,
    /// Events dropped for lack of space.
    pub dropped: u64,
    /// Processors whose counts could not be read: their losses are missing from the other numbers.
    pub unread: u64,
}

impl TraceLoss {
    /// Number of all lost events.
    pub fn total(self) -> u64 {
        self.overrun + self.dropped
    }

    /// Adds the counts of `per_cpu/cpuN/stats`.
    fn add_stats(&mut self, stats: &str) {
        let number = |name: &str| stats.lines().find_map(|l| l.strip_prefix(name)?.trim().parse::<u64>().ok());
        // a commit overrun is an event that an interrupt could not write
        let numbers = ["overrun:", "commit overrun:", "dropped events:"].map(number);
        if let [Some(overrun), Some(commit), Some(dropped)] = numbers {
            self.overrun += overrun + commit;
            self.dropped += dropped;
        } else {
            self.unread += 1;
        }
    }
}

/// Our private instance; removed when dropped.
#[derive(Debug)]
pub struct TraceInstance {
    folder: PathBuf,
    /// Files with raw pages, one per processor, with the processor's number.
    pipes: Vec<(u16, File)>,
    /// The enabled events, as folders of `events`.
    events: Vec<String>,
}

/// Largest size of the buffer of one processor, and of all buffers together, KiB.
const MAX_BUFFER_KIB: usize = 8 << 10;
const MAX_TOTAL_BUFFER_KIB: usize = 128 << 10;

impl TraceInstance {
    /// Creates an instance and opens its pages; no event is enabled yet.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn create(tracefs: &Tracefs) -> Result<TraceInstance, TracefsError> {
        let pid = std::process::id();
        // a process may have several instances (in tests)
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("{INSTANCE_PREFIX}{pid}-{}-{number}", process_start_ticks(pid).unwrap_or(0));
        let folder = tracefs.path("instances").join(&name);
        fs::create_dir(&folder).map_err(|error| TracefsError::Refused { file: format!("instances/{name}"), error })?;
        let mut instance = TraceInstance { folder, pipes: Vec::new(), events: Vec::new() };
        instance.configure_buffers()?;
        Ok(instance)
    }

    fn configure_buffers(&mut self) -> Result<(), TracefsError> {
        self.write_file("tracing_on", "0")?;
        // the monotonic clock, as everywhere in this crate
        self.write_file("trace_clock", "mono")?;
        let folder = self.folder.join("per_cpu");
        let refused = |error| TracefsError::Refused { file: "per_cpu".into(), error };
        let mut numbers: Vec<u16> = fs::read_dir(&folder)
            .map_err(refused)?
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.strip_prefix("cpu")?.parse().ok())
            .collect();
        numbers.sort_unstable();
        let size_kib = MAX_BUFFER_KIB.min(MAX_TOTAL_BUFFER_KIB / numbers.len().max(1)).max(256);
        self.write_file("buffer_size_kb", &size_kib.to_string())?;
        for cpu in numbers {
            let path = folder.join(format!("cpu{cpu}/trace_pipe_raw"));
            let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
            let file = OpenOptions::new().read(true).custom_flags(nonblocking).open(&path).map_err(refused)?;
            self.pipes.push((cpu, file));
        }
        Ok(())
    }

    fn write_file(&self, inner: &str, text: &str) -> Result<(), TracefsError> {
        fs::write(self.folder.join(inner), text).map_err(|error| TracefsError::Refused { file: inner.into(), error })
    }

    /// Enables an event (a folder of `events`), with this filter of the kernel, if any.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn enable_event(&mut self, event: &str, filter: Option<&str>) -> Result<(), TracefsError> {
        self.set_filter(event, filter)?;
        self.write_file(&format!("events/{event}/enable"), "1")?;
        self.events.push(event.to_owned());
        Ok(())
    }

    /// Disables an event.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn disable_event(&mut self, event: &str) -> Result<(), TracefsError> {
        self.events.retain(|enabled| enabled != event);
        self.write_file(&format!("events/{event}/enable"), "0")
    }

    /// Sets the filter of an event, or removes it.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_filter(&self, event: &str, filter: Option<&str>) -> Result<(), TracefsError> {
        // "0" removes a filter
        self.write_file(&format!("events/{event}/filter"), filter.unwrap_or("0"))
    }

    /// Starts tracing.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn start(&self) -> Result<(), TracefsError> {
        self.write_file("tracing_on", "1")
    }

    /// Stops tracing; the contents of the buffers can still be read.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn stop(&self) -> Result<(), TracefsError> {
        self.write_file("tracing_on", "0")
    }

    /// Reads the next page of a processor, if there is one, into `page`; returns its length.
    ///
    /// # Errors
    /// When the kernel refuses. Having no page is no error.
    pub fn next_page(&self, position: usize, page: &mut [u8]) -> Result<Option<usize>, TracefsError> {
        let Some((_, file)) = self.pipes.get(position) else { return Ok(None) };
        loop {
            let mut file = file;
            match file.read(page) {
                Ok(0) => return Ok(None),
                Ok(bytes) => return Ok(Some(bytes)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(TracefsError::Refused { file: "trace_pipe_raw".into(), error }),
            }
        }
    }

    /// The processors' numbers, by position.
    pub fn cpus(&self) -> impl Iterator<Item = u16> + '_ {
        self.pipes.iter().map(|(cpu, _)| *cpu)
    }

    /// Reads the number of events lost so far, by the kernel's count.
    pub fn read_loss(&self) -> TraceLoss {
        let mut loss = TraceLoss::default();
        for cpu in self.cpus() {
            let stats = fs::read_to_string(self.folder.join(format!("per_cpu/cpu{cpu}/stats")));
            loss.add_stats(&stats.unwrap_or_default());
        }
        loss
    }
}

impl Drop for TraceInstance {
    fn drop(&mut self) {
        // an instance with open files is busy
        let _ = self.stop();
        for event in &self.events {
            let _ = self.write_file(&format!("events/{event}/enable"), "0");
        }
        self.pipes.clear();
        let _ = fs::remove_dir(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_instances_of_dead_processes_are_removed() {
        assert_eq!(is_owner_alive("perf"), None);
        assert_eq!(is_owner_alive("diskwright-x"), None);
        assert_eq!(is_owner_alive("diskwright-1"), None);
        let pid = std::process::id();
        let since = process_start_ticks(pid).expect("this process");
        assert_eq!(is_owner_alive(&format!("diskwright-{pid}-{since}-0")), Some(true));
        // the number belongs to another process now
        assert_eq!(is_owner_alive(&format!("diskwright-{pid}-{}-0", since + 1)), Some(false));
        assert_eq!(is_owner_alive("diskwright-4194305-1-0"), Some(false));
    }

    /// A tracefs with the events of a recorded kernel, but for one.
    fn without(missing: &str) -> Result<(EventTable, Vec<LayoutError>), TracefsError> {
        let root = std::env::temp_dir().join(format!("diskwright-events-{}-{missing}", std::process::id()));
        for part in include_str!("../tests/fixtures/6.1/formats").split("name: ").skip(1) {
            let name = part.split_whitespace().next().expect("a name");
            let folder = root.join("events/block").join(name);
            fs::create_dir_all(&folder).expect("a folder");
            if name != missing {
                fs::write(folder.join("format"), format!("name: {part}")).expect("a file");
            }
        }
        let found = Tracefs { root: root.clone(), _mount: None }.read_event_table();
        fs::remove_dir_all(root).expect("ours");
        found
    }

    #[test]
    fn a_kernel_without_an_event_is_traced_without_it_unless_it_is_needed() {
        let (all, _) = without("nothing").expect("the events of 6.1");
        assert!(all.find_layout(BlockEventKind::Requeue).is_some() && all.find_layout(BlockEventKind::Start).is_none());
        let (fewer, unusable) = without("block_rq_requeue").expect("the others");
        assert!(fewer.find_layout(BlockEventKind::Requeue).is_none() && unusable.is_empty());
        assert!(fewer.find_layout(BlockEventKind::Issue).is_some());
        for needed in ["block_rq_issue", "block_rq_complete"] {
            assert!(matches!(without(needed), Err(TracefsError::NoEvents)), "{needed}");
        }
    }

    #[test]
    fn losses_are_summed_from_the_kernels_statistics() {
        let mut loss = TraceLoss::default();
        let stats = "entries: 12\noverrun: 3\ncommit overrun: 2\nbytes: 99\noldest: 1\ndropped events: 4\n\
            read events: 9\n";
        loss.add_stats(stats);
        loss.add_stats(stats);
        assert_eq!(loss, TraceLoss { overrun: 10, dropped: 8, unread: 0 });
        assert_eq!(loss.total(), 18);
        // a file that cannot be read, and one that lacks a line, are no losses of zero
        loss.add_stats("");
        loss.add_stats("overrun: 3\ndropped events: 4\n");
        assert_eq!(loss, TraceLoss { overrun: 10, dropped: 8, unread: 2 });
    }

    #[test]
    fn a_refusal_is_distinguished_from_a_missing_feature() {
        let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
        assert!(TracefsError::NoTracefs(denied()).is_refusal());
        assert!(!TracefsError::NoTracefs(io::Error::from(io::ErrorKind::NotFound)).is_refusal());
        assert!(!TracefsError::NoEvents.is_refusal());
    }
}
