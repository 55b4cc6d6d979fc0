//! `why [LOG…]`: the main job. Watches this machine, or reads logs, and says
//! what holds it back.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use diskwright_base::Frame;
use diskwright_base::units::parse_duration;
use diskwright_counters::live::{Options as LiveOptions, Roots, Sampler, SystemClock};
use diskwright_diagnosis::{Judge, Options, Pack, Verdict, packs};
use diskwright_report::{Zone, screen};
use serde_json::{Value, json};

use super::live::{self, Pacer};
use super::log::{Logs, Piece, Window, tell_damage};
use super::store::{self, Asking};
use super::{Failure, ceilings, fleet, output};

/// Arguments of `why`.
#[derive(Args)]
pub struct Arguments {
    /// Logs to read; without any, this machine is watched
    #[arg(conflicts_with = "prometheus")]
    log: Vec<PathBuf>,
    /// How long to watch this machine
    #[arg(long = "for", default_value = "30s", value_parser = parse_duration, value_name = "DURATION")]
    lasts: Duration,
    /// Time between two ticks
    #[arg(long, default_value = "1s", value_parser = parse_duration, value_name = "DURATION")]
    every: Duration,
    #[command(flatten)]
    window: Window,
    #[command(flatten)]
    asking: Asking,
    /// Rank all machines of the store by how badly they are held back, and by what
    #[arg(long, requires = "prometheus", help_heading = "Stores of metrics")]
    fleet: bool,
    #[command(flatten)]
    judging: Judging,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// By whose rules a verdict is found.
#[derive(Args)]
pub struct Judging {
    /// Rule pack: an id that `list packs` shows, or a file of your own
    #[arg(long, default_value = "default", value_name = "ID|FILE")]
    pack: String,
    /// What the server is for, for rules that differ by role (file-server, database, …)
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// Say also what every other pack would have said
    #[arg(long)]
    all_packs: bool,
}

impl Judging {
    /// The packs to judge by, the one asked for first.
    pub fn packs(&self, all: bool) -> Result<Vec<Pack>, Failure> {
        let mut known = packs::all()?;
        let asked = match known.iter().position(|p| p.id == self.pack) {
            Some(at) => known.remove(at),
            None if Path::new(&self.pack).is_file() => from_file(Path::new(&self.pack))?,
            None => {
                let ids: Vec<&str> = known.iter().map(|p| p.id.as_str()).collect();
                let have = ids.join(", ");
                return Err(Failure::Usage(format!("no pack and no file is called `{}`; packs: {have}", self.pack)));
            }
        };
        let mut chosen = vec![asked];
        if all || self.all_packs {
            chosen.append(&mut known);
        }
        Ok(chosen)
    }

    /// A judge over these packs for a window, nanoseconds since 1970 UTC.
    pub fn judge(&self, packs: Vec<Pack>, expected: Option<(i64, i64)>) -> Judge {
        let ceilings = ceilings::known().to_vec();
        Judge::new(packs, Options { role: self.role.clone(), expected, ceilings })
    }
}

/// A pack of the user's own.
fn from_file(path: &Path) -> Result<Pack, Failure> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|e| Failure::Failed(format!("{name}: {e}")))?;
    Ok(Pack::load(&name, &text)?)
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.fleet {
        return fleet::run(&arguments.asking, &arguments.window, &arguments.judging, arguments.json);
    }
    let packs = arguments.judging.packs(false)?;
    let verdicts = if arguments.asking.is_asked() {
        let logs = store::logs(&arguments.asking, &arguments.window)?;
        read(&logs, arguments.judging.judge(packs, Some(logs.range)))?
    } else if arguments.log.is_empty() {
        if !arguments.window.is_whole() {
            return Err(Failure::Usage("--from and --to need a log; a live machine is watched for --for".into()));
        }
        watch(arguments, packs)?
    } else {
        let logs = Logs::open(&arguments.log, &arguments.window)?;
        read(&logs, arguments.judging.judge(packs, Some(logs.range)))?
    };
    answer(&verdicts, arguments.json)
}

/// Judges what is in logs.
pub fn read(logs: &Logs, mut judge: Judge) -> Result<Vec<Verdict>, Failure> {
    logs.read(|piece| {
        match piece {
            Piece::Frame(frame) => judge.frame(frame),
            Piece::Note(note) => judge.note(&note),
            Piece::Damage(damage) => tell_damage(&damage),
        }
        Ok(())
    })?;
    Ok(judge.finish())
}

/// Judges what this machine does for a while; Ctrl-C judges what was seen.
fn watch(arguments: &Arguments, packs: Vec<Pack>) -> Result<Vec<Verdict>, Failure> {
    if arguments.lasts < arguments.every * 2 {
        return Err(Failure::Usage("--for must hold at least two ticks of --every".into()));
    }
    let live = LiveOptions { slow_every: arguments.every.max(Duration::from_secs(2)), ..LiveOptions::default() };
    let mut sampler = Sampler::new(Roots::default(), Box::new(SystemClock), live);
    let mut pacer = Pacer::new(arguments.every, Some(arguments.lasts))?;
    let bar = live::progress(Some(arguments.lasts), "watching".into());
    sampler.tick();
    let start = sampler.stamp().time_ns;
    let lasts = i64::try_from(arguments.lasts.as_nanos()).unwrap_or(i64::MAX);
    let mut judge = arguments.judging.judge(packs, Some((start, start.saturating_add(lasts))));
    let mut frame = Frame::default();
    hand_over(&mut sampler, &mut frame, &mut judge);
    while pacer.wait(|elapsed| bar.set_position(elapsed.as_secs())) {
        sampler.tick();
        hand_over(&mut sampler, &mut frame, &mut judge);
    }
    bar.finish_and_clear();
    Ok(judge.finish())
}

/// Gives the judge the sampler's last tick.
fn hand_over(sampler: &mut Sampler, frame: &mut Frame, judge: &mut Judge) {
    for note in sampler.take_notes() {
        judge.note(&note);
    }
    frame.reset(sampler.schema().clone(), 1);
    frame.push(sampler.stamp(), sampler.row());
    judge.frame(frame);
}

/// Prints the first verdict, and the others in short.
fn answer(verdicts: &[Verdict], as_json: bool) -> Result<(), Failure> {
    let Some((first, others)) = verdicts.split_first() else {
        return Err(Failure::Failed("no pack gave a verdict".into()));
    };
    if as_json {
        let mut document = serde_json::to_value(first)?;
        if let Value::Object(fields) = &mut document {
            fields.insert("packs".into(), verdicts.iter().map(in_short).collect());
        }
        return output::json(&document);
    }
    let style = output::style();
    output::text(&screen::draw(first, &Zone::local(), &style))?;
    if others.is_empty() { Ok(()) } else { output::text(&screen::others(others, &style)) }
}

fn in_short(verdict: &Verdict) -> Value {
    json!({
        "pack": verdict.pack,
        "bottleneck": verdict.bottleneck,
        "instance": verdict.instance,
        "confidence": verdict.confidence,
        "finding": verdict.findings.first().map(|f| &f.rule),
    })
}
