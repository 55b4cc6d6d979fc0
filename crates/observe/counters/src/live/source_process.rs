//! Sources that are read in another process. A thread that hangs in the kernel keeps its process from ending until the
//! read returns; so the recorder itself reads none of the files that may hang, and ends at once whatever they do.
//!
//! The other process is this program again. It gets a request for each tick on its standard input, answers with the
//! cells of the tick on its standard output, and ends when its input does.

use std::io::{self, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use diskwright_base::{Note, Series};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::note_collector::NoteCollector;
use super::source_reader::SourceReader;
use super::source_wire::{
    TickReply, read_options, read_reply, read_request, write_options, write_reply, write_request,
};
use super::tick_context::TickTimes;
use super::{Roots, SamplerOptions};

/// Time between looks at whether sampling goes on while an answer is awaited.
const CHECK_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// A process that has not answered for this long is replaced. Its own threads that hang are replaced much earlier.
const MAX_REPLY_TIME: Duration = Duration::from_secs(15);
/// A process that ends this often before its first answer will never answer: it lacks memory, or may start no thread.
const MAX_EARLY_ENDS: u32 = 3;
/// Shortest time between two starts of the process, so that one that ends at once does not take the processor.
const MIN_START_INTERVAL: Duration = Duration::from_secs(1);
/// Time for a killed process to end before it counts as hanging.
const MAX_END_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// The process, and what it answered last.
pub(crate) struct SourceProcess {
    program: fn() -> Command,
    roots: Roots,
    options: SamplerOptions,
    running: Option<RunningProcess>,
    /// Processes that hang, to be waited for.
    hanging: Vec<Child>,
    started: Option<Instant>,
    /// Processes that ended before their first answer, one after another.
    early_ends: u32,
    has_answered: bool,
    reply: TickReply,
    notes: Vec<Note>,
}

struct RunningProcess {
    child: Child,
    requests: ChildStdin,
    replies: ChildStdout,
}

impl RunningProcess {
    /// Ends the process. Returns it if it hangs in the kernel, which ends it when its read returns.
    fn end(mut self) -> Option<Child> {
        // it ends with its input as well, but not while it reads; one that has ended already is no error
        let _ = self.child.kill();
        // it closes its end of the pipe when its last thread ends
        let mut polled = [PollFd::new(&self.replies, PollFlags::empty())];
        let has_ended = poll(&mut polled, Some(&MAX_END_TIME)).is_ok_and(|count| count > 0);
        if has_ended && self.child.wait().is_ok() { None } else { Some(self.child) }
    }
}

impl Drop for SourceProcess {
    fn drop(&mut self) {
        self.end_process();
    }
}

impl SourceProcess {
    /// Starts no process yet. `program` is a command that calls [`serve_sources`].
    pub fn new(program: fn() -> Command, roots: Roots, options: SamplerOptions) -> SourceProcess {
        SourceProcess {
            program,
            roots,
            options,
            running: None,
            hanging: Vec::new(),
            started: None,
            early_ends: 0,
            has_answered: false,
            reply: TickReply::default(),
            notes: Vec::new(),
        }
    }

    /// Reads all sources. Returns false if it was given up because `goes_on` returned false before the end.
    pub fn read_sources(&mut self, times: TickTimes, goes_on: &dyn Fn() -> bool) -> io::Result<bool> {
        if self.running.is_none() {
            self.start_process()?;
        }
        let Some(running) = &mut self.running else {
            self.reply.cells.fill(f64::NAN);
            return Ok(true);
        };
        match running.request_tick(times, goes_on, &mut self.reply) {
            Ok(true) => {
                (self.early_ends, self.has_answered) = (0, true);
                self.notes.append(&mut self.reply.notes);
            }
            Ok(false) => {
                self.end_process();
                return Ok(false);
            }
            Err(error) => {
                let reason = match error.kind() {
                    io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe => "it ended".to_owned(),
                    _ => error.to_string(),
                };
                self.end_process();
                self.early_ends += u32::from(!self.has_answered);
                if self.early_ends >= MAX_EARLY_ENDS {
                    let text = format!("it ended {MAX_EARLY_ENDS} times before its first answer");
                    return Err(io::Error::other(text));
                }
                let text = format!("the process that reads this machine's counters is started again: {reason}");
                self.notes.push(Note::new(times.time_ns, Note::GAP, text));
                self.reply.cells.fill(f64::NAN);
            }
        }
        Ok(true)
    }

    /// A reader of the same sources in this process.
    pub fn to_threads(&self) -> SourceReader {
        SourceReader::for_all_sources(self.roots.clone(), self.options.clone())
    }

    fn end_process(&mut self) {
        self.hanging.extend(self.running.take().and_then(RunningProcess::end));
    }

    fn start_process(&mut self) -> io::Result<()> {
        if self.started.is_some_and(|started| started.elapsed() < MIN_START_INTERVAL) {
            return Ok(());
        }
        self.started = Some(Instant::now());
        // those that have ended since leave nothing behind
        self.hanging.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
        let mut command = (self.program)();
        // a copy of standard error that a hanging process keeps open would keep its reader waiting
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (requests, replies) = pipes.ok_or_else(|| io::Error::other("a process without pipes"))?;
        let mut running = RunningProcess { child, requests, replies };
        write_options(&mut running.requests, &self.roots, &self.options)?;
        self.running = Some(running);
        Ok(())
    }

    /// Returns true if the series have changed since the last call.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.reply.has_new_series)
    }

    /// Appends the series.
    pub fn append_series(&self, out: &mut Vec<Series>) {
        out.extend_from_slice(&self.reply.series);
    }

    /// Appends one cell per series.
    pub fn append_cells(&self, out: &mut Vec<f64>) {
        out.extend_from_slice(&self.reply.cells);
    }

    /// Moves the notes since the last call to `notes`.
    pub fn move_notes(&mut self, notes: &mut NoteCollector) {
        self.notes.drain(..).for_each(|note| notes.push_note(note));
    }
}

impl RunningProcess {
    /// Returns false if `goes_on` returned false before the answer came.
    fn request_tick(
        &mut self,
        times: TickTimes,
        goes_on: &dyn Fn() -> bool,
        reply: &mut TickReply,
    ) -> io::Result<bool> {
        write_request(&mut self.requests, times)?;
        let mut stream = ReplyStream { pipe: &mut self.replies, goes_on, began: Instant::now() };
        match read_reply(&mut stream, reply) {
            Err(error) if error.get_ref().is_some_and(|inner| inner.is::<SamplingStopped>()) => Ok(false),
            result => result.map(|()| true),
        }
    }
}

/// Nobody waits for the answer any more.
#[derive(Debug)]
struct SamplingStopped;

impl std::fmt::Display for SamplingStopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("sampling was stopped")
    }
}

impl std::error::Error for SamplingStopped {}

/// Reads what has arrived; waits for more while sampling goes on.
struct ReplyStream<'a> {
    pipe: &'a mut ChildStdout,
    goes_on: &'a dyn Fn() -> bool,
    began: Instant,
}

impl Read for ReplyStream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut polled = [PollFd::new(&*self.pipe, PollFlags::IN)];
            match poll(&mut polled, Some(&CHECK_INTERVAL)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return self.pipe.read(buffer),
                Err(error) => return Err(error.into()),
            }
            if !(self.goes_on)() {
                return Err(io::Error::other(SamplingStopped));
            }
            if self.began.elapsed() >= MAX_REPLY_TIME {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "it did not answer"));
            }
        }
    }
}

/// Serves the sources of this machine: options first, then a tick for each request, until the input ends.
/// Calls `after_tick` with the number of series of each.
pub fn serve_sources(
    mut input: impl Read,
    mut output: impl Write,
    mut after_tick: impl FnMut(usize),
) -> io::Result<()> {
    let (roots, options) = read_options(&mut input)?;
    let mut reader = SourceReader::for_all_sources(roots, options);
    let (mut notes, mut reply) = (NoteCollector::default(), TickReply::default());
    while let Some(times) = read_request(&mut input)? {
        reader.read_sources(times, &|| true);
        reader.move_notes(&mut notes);
        reply.notes = notes.take_notes();
        reply.has_new_series = reader.take_changed();
        if reply.has_new_series {
            reply.series.clear();
            reader.for_each_table(|table| table.append_series(&mut reply.series));
        }
        reply.cells.clear();
        reader.for_each_table(|table| table.append_cells(&mut reply.cells));
        write_reply(&mut output, &reply)?;
        after_tick(reply.cells.len());
    }
    Ok(())
}
