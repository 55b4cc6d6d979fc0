//! What the shell loop prints, tick by tick: files into a tree, and from there the sampler's own row and notes.

use std::io::{self, BufRead, ErrorKind, Read};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use diskwright_base::Note;
use diskwright_base::text::printable_line;
use diskwright_base::timestamp::now_ns;
use diskwright_counters::live::{Clock, ClockReading, Roots, Sampler, SamplerOptions};
use diskwright_datastore::StreamItem;

use crate::file_tree::FileTree;
use crate::space_columns::{SpaceColumns, SpaceTable};

/// Longest line, bytes: that of an interrupt on a machine with thousands of processors.
const MAX_LINE_BYTES: u64 = 1 << 20;
/// Largest tick, bytes.
const MAX_TICK_BYTES: usize = 16 << 20;
/// Latest time that a host may name, seconds since 1970: the year 2100.
const MAX_WALL_S: i64 = 4_102_444_800;
/// Largest difference between the host's clock and its running time that is no step, seconds: its clock is read in
/// whole seconds.
const MAX_CLOCK_DRIFT_S: i64 = 2;
/// Shortest interval between scans of processes.
const MIN_SLOW_INTERVAL: Duration = Duration::from_secs(2);
/// The file that tells how long the host runs.
const UPTIME: &str = "/proc/uptime";

/// The other host's clock, as its ticks tell it.
#[derive(Clone, Default)]
struct HostClock(Arc<Mutex<ClockReading>>);

impl Clock for HostClock {
    fn read_clocks(&self) -> ClockReading {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HostClock {
    /// Sets the clock from the host's wall clock in whole seconds and its running time.
    fn set(&self, wall_s: i64, running_ns: u64) {
        let mut reading = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let passed_ns = i64::try_from(running_ns.saturating_sub(reading.running_ns)).unwrap_or(i64::MAX);
        let expected_ns = reading.wall_ns.saturating_add(passed_ns);
        let told_ns = wall_s.saturating_mul(1_000_000_000);
        let is_stepped = (expected_ns / 1_000_000_000).saturating_sub(wall_s).abs() > MAX_CLOCK_DRIFT_S;
        reading.wall_ns = if reading.running_ns == 0 || is_stepped { told_ns } else { expected_ns };
        (reading.running_ns, reading.since_boot_ns) = (running_ns, running_ns);
    }
}

/// Part of a tick.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TickPart {
    Counters,
    Links,
    Facts,
    Commands,
    Space,
}

/// Reads ticks of the shell loop.
pub(crate) struct ShellTicks {
    tree: FileTree,
    clock: HostClock,
    space: SpaceTable,
    sampler: Sampler,
    /// Folder of a listing, the part that a tick is in, its time, its running time.
    listed_folder: String,
    wall_s: i64,
    running_ns: Option<u64>,
    space_text: String,
    has_facts: bool,
}

impl ShellTicks {
    /// A reader of ticks that come at this interval.
    ///
    /// # Errors
    /// When no private folder can be made.
    pub fn new(every: Duration) -> io::Result<ShellTicks> {
        let (tree, clock, space) = (FileTree::new()?, HostClock::default(), SpaceTable::default());
        let options = SamplerOptions {
            slow_interval: every.max(MIN_SLOW_INTERVAL),
            filesystems: false,
            ..SamplerOptions::default()
        };
        let mut sampler = Sampler::new(Roots::from_root(tree.root()), Box::new(clock.clone()), options);
        sampler.attach_columns(Box::new(SpaceColumns::new(space.clone())));
        Ok(ShellTicks {
            tree,
            clock,
            space,
            sampler,
            listed_folder: String::new(),
            wall_s: 0,
            running_ns: None,
            space_text: String::new(),
            has_facts: false,
        })
    }

    /// The folder in which the host's files stand for its `/`.
    pub fn root(&self) -> &Path {
        self.tree.root()
    }

    /// Waits for the next tick, and appends its notes and its cells to `items`; false at the end.
    ///
    /// # Errors
    /// When the input cannot be read or ends within a tick (`UnexpectedEof`), or is not what the loop prints.
    pub fn read_tick(&mut self, input: &mut impl BufRead, items: &mut Vec<StreamItem>) -> io::Result<bool> {
        let mut line = Vec::new();
        let mut part = None;
        let mut tick_bytes = 0;
        loop {
            if !read_line(input, &mut line)? {
                return if part.is_none() { Ok(false) } else { Err(ErrorKind::UnexpectedEof.into()) };
            }
            tick_bytes += line.len();
            if tick_bytes > MAX_TICK_BYTES {
                return Err(damaged("a tick of more than 16 MiB"));
            }
            match (part, line.strip_prefix(b"@ ")) {
                (_, Some(head)) if head.starts_with(b"tick") => {
                    self.begin_tick(head);
                    part = Some(TickPart::Counters);
                }
                (Some(_), Some(b"end")) => break,
                (Some(_), Some(name)) => part = Some(self.begin_part(name)?),
                (Some(now), None) => self.read_line(now, &line)?,
                (None, _) => return Err(damaged("text outside of a tick")),
            }
        }
        self.finish_tick(items)?;
        Ok(true)
    }

    fn begin_tick(&mut self, head: &[u8]) {
        let seconds = std::str::from_utf8(head).ok().and_then(|head| head.split(' ').nth(1)?.parse().ok());
        // without a clock there, the one here tells the time
        let is_plausible = |seconds: &i64| (1..MAX_WALL_S).contains(seconds);
        self.wall_s = seconds.filter(is_plausible).unwrap_or_else(|| now_ns() / 1_000_000_000);
        (self.running_ns, self.has_facts) = (None, false);
        self.space_text.clear();
        self.tree.begin_tick();
    }

    fn begin_part(&mut self, name: &[u8]) -> io::Result<TickPart> {
        self.has_facts = true;
        self.listed_folder.clear();
        self.tree.close_file()?;
        match name {
            b"links" => Ok(TickPart::Links),
            b"files" => Ok(TickPart::Facts),
            b"commands" => Ok(TickPart::Commands),
            b"space" => Ok(TickPart::Space),
            _ => Err(damaged("an unknown part of a tick")),
        }
    }

    fn read_line(&mut self, part: TickPart, line: &[u8]) -> io::Result<()> {
        match part {
            TickPart::Counters | TickPart::Facts => {
                // a line that `grep` says itself, such as one on a binary file, has no file's name before it
                let Some(colon) = line.iter().position(|byte| *byte == b':').filter(|_| line[0] == b'/') else {
                    return Ok(());
                };
                let Ok(path) = std::str::from_utf8(&line[..colon]) else { return Ok(()) };
                let text = &line[colon + 1..];
                if path == UPTIME {
                    self.running_ns = parse_uptime(text);
                }
                match text.is_ascii() {
                    true => self.tree.add_line(path, text, part == TickPart::Facts),
                    // no sign that a terminal would act on gets further
                    false => {
                        let text = String::from_utf8_lossy(text);
                        self.tree.add_line(path, printable_line(&text).as_bytes(), part == TickPart::Facts)
                    }
                }
            }
            TickPart::Links => self.read_listing(&String::from_utf8_lossy(line)),
            TickPart::Commands => self.read_command(&String::from_utf8_lossy(line)),
            TickPart::Space => {
                self.space_text.push_str(&String::from_utf8_lossy(line));
                self.space_text.push('\n');
                Ok(())
            }
        }
    }

    /// Reads a line of `ls -l`: the name of a folder with a colon, or an entry.
    fn read_listing(&mut self, line: &str) -> io::Result<()> {
        if let Some(folder) = line.strip_suffix(':').filter(|folder| folder.starts_with('/')) {
            folder.clone_into(&mut self.listed_folder);
            return Ok(());
        }
        let Some((entry, target)) = line.split_once(" -> ") else { return Ok(()) };
        let Some(name) = entry.split_ascii_whitespace().last() else { return Ok(()) };
        match name.starts_with('/') {
            true => self.tree.add_link(name, target),
            false if self.listed_folder.is_empty() => Ok(()),
            false => self.tree.add_link(&format!("{}/{name}", self.listed_folder), target),
        }
    }

    /// Reads a line of `ps -o pid= -o args=`. Its words stand for the arguments.
    fn read_command(&mut self, line: &str) -> io::Result<()> {
        let Some((pid, words)) = line.trim().split_once(' ') else { return Ok(()) };
        let words = words.trim();
        // a thread of the kernel has no command line
        if pid.parse::<u32>().is_err() || words.starts_with('[') || words.is_empty() {
            return Ok(());
        }
        let mut text = words.replace(' ', "\0");
        text.push('\0');
        self.tree.put_file(&format!("/proc/{pid}/cmdline"), text.as_bytes())
    }

    fn finish_tick(&mut self, items: &mut Vec<StreamItem>) -> io::Result<()> {
        self.tree.end_tick(self.has_facts)?;
        if self.has_facts {
            self.space.replace(&self.space_text);
        }
        let running_ns = self.running_ns.ok_or_else(|| damaged("a tick without the host's running time"))?;
        self.clock.set(self.wall_s, running_ns);
        self.sampler.tick();
        let root = self.tree.root().to_string_lossy().into_owned();
        let notes = self.sampler.take_notes().into_iter().map(|note| StreamItem::Note(name_files(note, &root)));
        items.extend(notes);
        items.push(StreamItem::Tick {
            schema: Arc::clone(self.sampler.schema()),
            tick: self.sampler.tick_stamp(),
            row: self.sampler.row().to_vec(),
        });
        Ok(())
    }
}

/// Names files as the host does, in notes for people.
fn name_files(note: Note, root: &str) -> Note {
    let is_text = matches!(note.kind.as_str(), Note::UNSEEN | Note::GAP | Note::WARNING | Note::CLOCK);
    if is_text && note.text().contains(root) {
        return Note::new(note.time_ns, &note.kind, note.text().replace(root, ""));
    }
    note
}

/// Reads a line without its end; false at the end of the input. A last line without an end was cut.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    input.take(MAX_LINE_BYTES).read_until(b'\n', line)?;
    match line.pop() {
        None => Ok(false),
        Some(b'\n') => Ok(true),
        Some(_) if line.len() as u64 + 1 >= MAX_LINE_BYTES => Err(damaged("a line of more than 1 MiB")),
        Some(_) => Err(ErrorKind::UnexpectedEof.into()),
    }
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("the host sent {what}"))
}

/// Parses `12345.67 …`, nanoseconds.
fn parse_uptime(text: &[u8]) -> Option<u64> {
    let seconds: f64 = std::str::from_utf8(text).ok()?.split(' ').next()?.parse().ok()?;
    (seconds > 0.0 && seconds < 1e10).then_some((seconds * 1e9) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two ticks of a host with a disk that read 100 times in a second.
    fn two_ticks() -> String {
        let tick = |number: u64| {
            format!(
                "@ tick {}\n/proc/uptime:{}.50 9.00\n/proc/stat:cpu  {} 0 0 {} 0 0 0 0 0 0\n\
                 /proc/stat:cpu0 {} 0 0 {} 0 0 0 0 0 0\n/proc/diskstats:   8       0 sda {} 0 {} {} 0 0 0 0 0 900 900\n\
                 @ links\n/sys/block:\nlrwxrwxrwx 1 root root 0 Jan  1 00:00 sda -> ../devices/pci0/block/sda\n\
                 @ files\n/proc/sys/kernel/hostname:db1\n/sys/block/sda/size:2048\n\
                 @ commands\n  71 /usr/bin/postgres -D /srv\n@ space\n/dev/sda1 100 60 30 67% /\n@ end\n",
                1_796_068_642 + number,
                1000 + number,
                number * 50,
                1000 + number * 50,
                number * 50,
                1000 + number * 50,
                1000 + number * 100,
                8000 + number * 800,
                5000 + number * 900,
            )
        };
        tick(0) + &tick(1)
    }

    fn read_all(text: &str) -> (Vec<StreamItem>, io::Result<bool>) {
        let mut ticks = ShellTicks::new(Duration::from_secs(1)).unwrap();
        let (mut input, mut items) = (text.as_bytes(), Vec::new());
        loop {
            match ticks.read_tick(&mut input, &mut items) {
                Ok(true) => {}
                end => return (items, end),
            }
        }
    }

    #[test]
    fn two_ticks_show_what_the_disk_did() {
        let (items, end) = read_all(&two_ticks());
        assert!(!end.unwrap());
        let (schema, tick, row) = items
            .iter()
            .rev()
            .find_map(|item| match item {
                StreamItem::Tick { schema, tick, row } => Some((schema, tick, row)),
                StreamItem::Note(_) => None,
            })
            .unwrap();
        assert_eq!(tick.elapsed_ns, 1_000_000_000);
        assert_eq!(tick.time_ns, 1_796_068_643_000_000_000);
        let value = |counter: &str, instance: &str| {
            let column = schema.series.iter().position(|s| s.counter == counter && s.instance == instance);
            row[column.unwrap_or_else(|| panic!("{counter}"))]
        };
        assert_eq!(value("physical_disk.reads", "sda"), 100.0);
        assert_eq!(value("logical_disk.free_bytes", "/"), 30_720.0);
        let host = items.iter().find_map(|item| match item {
            StreamItem::Note(note) if note.kind == Note::TOPOLOGY => note.read_topology().ok(),
            _ => None,
        });
        assert_eq!(host.unwrap().host, "db1");
        // no file of this machine is named
        let is_clean =
            |item: &StreamItem| !matches!(item, StreamItem::Note(note) if note.text().contains("diskwright-host-"));
        assert!(items.iter().all(is_clean), "{items:?}");
    }

    #[test]
    fn a_cut_anywhere_is_an_end_or_told_and_never_a_panic() {
        let text = two_ticks();
        for end in (0..text.len()).step_by(7) {
            let (items, result) = read_all(&text[..end]);
            if let Err(error) = result {
                assert!(matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::InvalidData), "{end}: {error}");
            }
            let ticks = items.iter().filter(|item| matches!(item, StreamItem::Tick { .. })).count();
            assert_eq!(ticks, text[..end].matches("@ end\n").count(), "{end}");
        }
    }

    /// A time that no clock shows is not taken from the host.
    #[test]
    fn impossible_times_are_replaced_by_ours() {
        for stated in ["-9223372036854775808", "9223372036854775807", "", "x"] {
            let text = two_ticks().replace("1796068642", stated).replace("1796068643", stated);
            let (items, end) = read_all(&text);
            assert!(end.is_ok(), "{stated}: {end:?}");
            let times: Vec<i64> = items
                .iter()
                .filter_map(|item| match item {
                    StreamItem::Tick { tick, .. } => Some(tick.time_ns / 1_000_000_000),
                    StreamItem::Note(_) => None,
                })
                .collect();
            let now_s = now_ns() / 1_000_000_000;
            assert!(times.iter().all(|time| (now_s - 600..=now_s + 2).contains(time)), "{stated}: {times:?}");
        }
    }

    #[test]
    fn signs_that_a_terminal_acts_on_get_no_further() {
        let text = two_ticks().replace("hostname:db1", "hostname:db\u{9b}2J\u{202e}1");
        let (items, _) = read_all(&text);
        let is_clean = |item: &StreamItem| match item {
            StreamItem::Note(note) => !note.text().contains(['\u{9b}', '\u{202e}']),
            StreamItem::Tick { .. } => true,
        };
        assert!(items.iter().all(is_clean), "{items:?}");
    }

    #[test]
    fn what_the_loop_does_not_print_ends_the_reading() {
        for (text, words) in [
            ("welcome\n", "text outside of a tick"),
            ("@ tick 1\n@ secrets\n", "an unknown part"),
            ("@ tick 1\n/etc/shadow:root:x\n@ end\n", "a file outside of /proc and /sys"),
            ("@ tick 1\n/proc/stat:cpu 1\n@ end\n", "without the host's running time"),
        ] {
            let error = read_all(text).1.unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
