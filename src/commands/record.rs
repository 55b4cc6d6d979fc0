//! `record DIR`: appends this machine's counters to a log until told to stop.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use diskwright_base::Note;
use diskwright_base::units::{UnitError, parse_duration, parse_size};
use diskwright_counters::live::{Clock, Options, Roots, Sampler, SystemClock};
use diskwright_datastore::{State, Writer, WriterOptions, lies_on};
use indicatif::ProgressBar;

use super::feeding::{Feeding, Feeds};
use super::live::{self, Pacer};
use super::{Failure, ceilings, output};

/// Arguments of `record`.
#[derive(Args)]
pub struct Arguments {
    /// The log's folder; it is made if it is not there, appended to if it is
    #[arg(required_unless_present_any = ["remote_write", "listen"])]
    dir: Option<PathBuf>,
    /// Time between two ticks
    #[arg(long, default_value = "1s", value_parser = parse_duration, value_name = "DURATION")]
    every: Duration,
    /// How long to record; without it, until Ctrl-C
    #[arg(long = "for", value_parser = parse_duration, value_name = "DURATION")]
    lasts: Option<Duration>,
    /// Keep no more than this: an age (14d) or a size (4GB); the oldest part goes first (repeatable)
    #[arg(long, value_parser = parse_keep, value_name = "AGE|SIZE")]
    keep: Vec<Keep>,
    #[command(flatten)]
    feeding: Feeding,
    /// Print what was recorded as JSON at the end
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy)]
enum Keep {
    Age(Duration),
    Bytes(u64),
}

/// `14d` is an age, `4GB` a size; `5m` is five minutes, `5M` five mebibytes.
fn parse_keep(text: &str) -> Result<Keep, UnitError> {
    match parse_duration(text) {
        Ok(age) => Ok(Keep::Age(age)),
        Err(_) => parse_size(text).map(Keep::Bytes),
    }
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut options = WriterOptions::default();
    for keep in &arguments.keep {
        match keep {
            Keep::Age(age) => options.keep_age = Some(*age),
            Keep::Bytes(bytes) => options.keep_bytes = Some(*bytes),
        }
    }
    let mut writer = arguments.dir.as_ref().map(|dir| Writer::create_or_append(dir, options)).transpose()?;
    let mut feeds = Feeds::start(&arguments.feeding)?;
    let slow_every = arguments.every.max(Duration::from_secs(10));
    let live = Options { slow_every, ..Options::default() };
    let mut sampler = Sampler::new(Roots::default(), Box::new(SystemClock), live);
    let mut pacer = Pacer::new(arguments.every, arguments.lasts)?;
    let bar = progress(arguments.lasts, arguments.dir.as_deref());
    let mut count = Count::default();
    sampler.tick();
    if let (Some(dir), Some(writer)) = (&arguments.dir, &mut writer) {
        warn_of_own_disk(dir, writer)?;
    }
    count.keep(&mut sampler, writer.as_mut(), &mut feeds)?;
    while pacer.wait(|elapsed| bar.set_position(elapsed.as_secs())) {
        sampler.tick();
        count.keep(&mut sampler, writer.as_mut(), &mut feeds)?;
    }
    writer.map(Writer::close).transpose()?;
    let fed = feeds.finish();
    bar.finish_and_clear();
    if arguments.json {
        return output::json(&serde_json::json!({
            "schema": "diskwright.record/1",
            "ticks": count.ticks,
            "ticks_lost": count.lost,
            "series": sampler.schema().series.len(),
            "elapsed_s": pacer.elapsed().as_secs_f64(),
            "remote_write": fed,
        }));
    }
    Ok(())
}

/// What became of the ticks so far.
#[derive(Default)]
struct Count {
    ticks: u64,
    lost: u64,
    paused: bool,
}

impl Count {
    /// Puts the sampler's last tick and its notes into the log.
    fn keep(
        &mut self,
        sampler: &mut Sampler,
        mut writer: Option<&mut Writer>,
        feeds: &mut Feeds,
    ) -> Result<(), Failure> {
        for note in sampler.take_notes() {
            feeds.note(&note)?;
            if let Some(writer) = &mut writer {
                writer.note(&note)?;
                let ceilings = (note.kind == Note::TOPOLOGY).then(|| ceilings::note(&note)).flatten();
                ceilings.map(|note| writer.note(&note)).transpose()?;
            }
        }
        feeds.tick(sampler);
        let Some(writer) = writer else {
            self.ticks += 1;
            return Ok(());
        };
        let state = writer.push(sampler.schema(), sampler.stamp(), sampler.row())?;
        let paused = state == State::Paused;
        match paused {
            true => self.lost += 1,
            false => self.ticks += 1,
        }
        if paused != self.paused {
            let what = if paused { "paused: the disk takes no more (full?)" } else { "goes on" };
            eprintln!("diskwright: recording {what}");
            self.paused = paused;
        }
        Ok(())
    }
}

/// A log on a disk that it measures writes to what it measures (doc 003, Disk
/// Testing Tips). Said on standard error and in the log.
fn warn_of_own_disk(dir: &Path, writer: &mut Writer) -> Result<(), Failure> {
    let (major, minor) = lies_on(dir)?;
    let link = std::fs::read_link(format!("/sys/dev/block/{major}:{minor}"));
    let Some(device) = link.ok().and_then(|l| l.file_name().map(|n| n.to_string_lossy().into_owned())) else {
        return Ok(());
    };
    let text = format!("the log lies on {device}, which it measures: its own writes are part of what it shows");
    eprintln!("diskwright: {text}");
    writer.note(&Note::new(SystemClock.read().wall_ns, Note::WARNING, text))?;
    Ok(())
}

fn progress(lasts: Option<Duration>, dir: Option<&Path>) -> ProgressBar {
    let place = dir.map_or_else(String::new, |dir| format!(" to {}", dir.display()));
    let message = format!("recording{place}; Ctrl-C ends it");
    live::progress(lasts, message)
}
