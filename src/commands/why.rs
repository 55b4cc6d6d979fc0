//! `why [LOG…]`: the main command. Watches this machine, or reads logs, and reports the bottleneck.

use std::cell::RefCell;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use diskwright_base::timestamp::now_ns;
use diskwright_base::units::parse_duration;
use diskwright_base::{Frame, LogPiece, Note};
use diskwright_counters::live::thread_priority::{PriorityGuard, ThreadRole};
use diskwright_counters::live::{Sampler, SamplerOptions as LiveOptions};
use diskwright_diagnosis::{Judge, JudgeOptions, Pack, Verdict, packs};
use diskwright_ingest::{Input, StreamedLog, TextGroup};
use diskwright_planner::series::model_distance::{DeviceDistance, find_model_distances, find_uncompared};
use diskwright_planner::series::{LoadCollector, LoadSeries};
use diskwright_report::text::wrap;
use diskwright_report::{DisplayZone, Style, screen};
use serde_json::{Value, json};

use super::databases::DatabaseArguments;
use super::gains::{self, PredictedGain};
use super::live_sampler::live_sampler;
use super::live_volumes::{self, CloudOptions};
use super::log::{self, LogWindow, Logs};
use super::metric_store::{self, StoreArguments};
use super::next_steps::{self, NextStep};
use super::own_cost::RecordingMeter;
use super::pacer::{self, Pacer};
use super::paste_block;
use super::plan::from_log::{collect_piece, load_from_logs};
use super::ssh::{HostQuestion, SshArguments, answer_for_hosts};
use super::volume_lines::draw_volumes;
use super::{
    Failure, baseline, ceilings, damage, first_given_option, fleet, model_distance, name_search, output, pasted_runs,
};

/// Default time and sampling interval for watching this machine.
const DEFAULT_DURATION_AND_INTERVAL: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(1));

/// Arguments of `why`.
#[derive(Args)]
pub struct Arguments {
    /// Logs to read, or a folder or archive of logs (sosreport.tar.xz); by default, watch this machine
    #[arg(conflicts_with = "prometheus")]
    log: Vec<PathBuf>,
    /// How long to watch this machine; by default 30s
    #[arg(long = "for", value_parser = parse_duration, value_name = "DURATION")]
    duration: Option<Duration>,
    /// Sampling interval of this machine; by default 1s
    #[arg(long, value_parser = parse_duration, value_name = "DURATION")]
    every: Option<Duration>,
    #[command(flatten)]
    window: LogWindow,
    #[command(flatten)]
    databases: DatabaseArguments,
    #[command(flatten)]
    cloud: CloudOptions,
    #[command(flatten)]
    store: StoreArguments,
    #[command(flatten)]
    ssh: SshArguments,
    /// Rank all machines of the store by the severity of their bottlenecks
    #[arg(long, requires = "prometheus", help_heading = "Metric stores")]
    fleet: bool,
    #[command(flatten)]
    judging: JudgingArguments,
    /// Print what to run on a machine without diskwright, and to paste into `why -`: for Linux, Solaris, AIX, FreeBSD,
    /// macOS or Windows; by default for this system
    #[arg(long, value_name = "SYSTEM", num_args = 0..=1, default_missing_value = std::env::consts::OS,
        conflicts_with_all = ["log", "prometheus", "duration", "every", "fleet"])]
    how: Option<String>,
    /// Print all of the answer, not only what fits on one screen; a file or a pipe always gets all of it
    #[arg(long)]
    full: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Arguments {
    /// How long to watch, and the interval.
    fn watch_times(&self) -> Result<(Duration, Duration), Failure> {
        let (duration, every) = (
            self.duration.unwrap_or(DEFAULT_DURATION_AND_INTERVAL.0),
            self.every.unwrap_or(DEFAULT_DURATION_AND_INTERVAL.1),
        );
        match duration < every * 2 {
            true => Err(Failure::Usage("--for must be at least two intervals of --every".into())),
            false => Ok((duration, every)),
        }
    }
}

/// Default rule pack.
const DEFAULT_PACK: &str = "default";

/// Rules for verdicts.
#[derive(Args, Clone)]
pub struct JudgingArguments {
    /// Rule pack: an id from `list packs`, or your own file
    #[arg(long, default_value = DEFAULT_PACK, value_name = "ID|FILE")]
    pack: String,
    /// Role of the server, for rules that depend on it (file-server, workstation, …)
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// Also show what every other pack says
    #[arg(long)]
    all_packs: bool,
}

impl JudgingArguments {
    /// True if every pack was requested.
    pub fn all_packs(&self) -> bool {
        self.all_packs
    }

    /// Refuses options that a live view cannot honor: its verdicts use one pack, without a role.
    pub fn refuse_beyond_pack(&self) -> Result<(), Failure> {
        let given = [("--role", self.role.is_some()), ("--all-packs", self.all_packs)];
        let Some(option) = first_given_option(&given) else { return Ok(()) };
        let hint = "`watch` and `serve` judge by one pack, without a role";
        Err(Failure::Usage(format!("{option} is for `why` and `report`; {hint}")))
    }

    /// Refuses options for judging logs if results of `probe` or `baseline` are read: they would have no effect.
    pub fn refuse_without_logs(&self) -> Result<(), Failure> {
        let is_other_pack = self.pack != DEFAULT_PACK;
        let given = [("--pack", is_other_pack), ("--role", self.role.is_some()), ("--all-packs", self.all_packs)];
        let Some(option) = first_given_option(&given) else { return Ok(()) };
        Err(Failure::Usage(format!("{option} is for logs; results of `probe` and `baseline` are judged by no pack")))
    }

    /// Loads the packs, the requested one first.
    pub fn load_packs(&self, all: bool) -> Result<Vec<Pack>, Failure> {
        // a screen that must appear at once loads no pack that it does not need
        if let (false, None, Some(pack)) = (all || self.all_packs, &self.role, packs::builtin_pack(&self.pack)) {
            return Ok(vec![pack?]);
        }
        let mut known = packs::builtin_packs()?;
        let requested = match known.iter().position(|p| p.id == self.pack) {
            Some(index) => known.remove(index),
            None if Path::new(&self.pack).is_file() => load_pack_file(Path::new(&self.pack))?,
            None => {
                let ids: Vec<&str> = known.iter().map(|p| p.id.as_str()).collect();
                let suggestion = name_search::suggestion_hint(&self.pack, ids.iter().copied());
                let reason = format!("there is no pack or file `{}`{suggestion}; packs: {}", self.pack, ids.join(", "));
                return Err(Failure::Usage(reason));
            }
        };
        self.check_role(std::iter::once(&requested).chain(&known))?;
        let mut chosen = vec![requested];
        if all || self.all_packs {
            chosen.append(&mut known);
        }
        Ok(chosen)
    }

    /// Checks that some rule knows the role.
    fn check_role<'a>(&self, packs: impl Iterator<Item = &'a Pack>) -> Result<(), Failure> {
        let Some(role) = &self.role else { return Ok(()) };
        let rules = packs.flat_map(|p| &p.rules);
        let mut known: Vec<&str> =
            rules.flat_map(|r| r.roles.iter().chain(&r.except_roles)).map(String::as_str).collect();
        known.sort_unstable();
        known.dedup();
        if known.contains(&role.as_str()) {
            return Ok(());
        }
        let suggestion = name_search::suggestion_hint(role, known.iter().copied());
        Err(Failure::Usage(format!("unknown role `{role}`{suggestion}; roles: {}", known.join(", "))))
    }

    /// Creates a judge with these packs for a window, nanoseconds since 1970 UTC.
    pub fn new_judge(&self, packs: Vec<Pack>, expected: Option<(i64, i64)>) -> Judge {
        let ceilings = ceilings::known_ceilings().to_vec();
        Judge::new(packs, JudgeOptions { role: self.role.clone(), expected, ceilings, clock: Some(now_ns) })
    }
}

/// Loads a user's own pack.
fn load_pack_file(path: &Path) -> Result<Pack, Failure> {
    let text = super::read_description(path)?;
    Ok(Pack::load(&path.display().to_string(), &text)?)
}

/// Runs `why`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(system) = &arguments.how {
        return paste_block::print_block(system, arguments.json);
    }
    if arguments.store.is_given()? || !arguments.log.is_empty() {
        pacer::refuse_live_options(&[("--for", arguments.duration.is_some()), ("--every", arguments.every.is_some())])?;
        refuse_databases(&arguments.databases)?;
        arguments.cloud.refuse_for_logs()?;
    }
    if arguments.ssh.is_given()? {
        return answer_over_ssh(arguments);
    }
    if arguments.fleet {
        if arguments.judging.all_packs() {
            return Err(Failure::Usage("--all-packs: a ranking uses one pack, given by --pack".into()));
        }
        return fleet::run(&arguments.store, &arguments.window, &arguments.judging, arguments.json);
    }
    let packs = arguments.judging.load_packs(false)?;
    let new_judge = |range| arguments.judging.new_judge(packs.clone(), Some(range));
    let mut is_one_text = false;
    let logs = if arguments.store.is_given()? {
        metric_store::fetch_as_logs(&arguments.store, &arguments.window)?
    } else if arguments.log.is_empty() {
        if !arguments.window.is_whole() {
            return Err(Failure::Usage("--from and --to need a log; to watch a live machine, use --for".into()));
        }
        arguments.window.refuse_log_options()?;
        live_volumes::prepare(arguments.window.volume_options(), &arguments.cloud)?;
        let (verdicts, load) = watch_this_machine(arguments, packs)?;
        return print_answer(&verdicts, None, Some(&|| Ok(load.clone())), arguments);
    } else {
        let input = log::new_input(&arguments.log);
        let groups = input.text_groups(&arguments.window.reading_options())?;
        if groups.len() > 1 {
            return answer_for_groups(arguments, &input, &groups, &new_judge);
        }
        is_one_text = input.is_one_text()?;
        let reading = arguments.window.options_for_whole_log()?;
        let start = |window| StreamJudge { judge: new_judge(window), load: Some(LoadCollector::default()) };
        if let Some(log) = reading.map_or(Ok(None), |reading| input.stream(&reading))?
            && let Some(StreamJudge { judge, load }) = log.read_whole(&start, StreamJudge::add_piece)?
        {
            let load = RefCell::new(load);
            let take_load = || load.take().map_or_else(|| read_load(&log), |load| Ok(load.finish()));
            return print_answer(&judge.finish(), None, Some(&take_load), arguments);
        }
        log::open_input(&input, &arguments.window)?
    };
    let verdicts = log::judge_logs(&logs, new_judge(logs.range_ns))?;
    let (verdicts, logs) =
        if is_one_text { pasted_runs::choose_run(logs, verdicts, &new_judge)? } else { (verdicts, logs) };
    print_answer(&verdicts, Some(&logs), Some(&|| load_from_logs(&logs, &[])), arguments)
}

/// Watches other hosts and answers.
fn answer_over_ssh(arguments: &Arguments) -> Result<(), Failure> {
    if !arguments.log.is_empty() || arguments.store.is_given()? {
        return Err(Failure::Usage("--ssh asks hosts now; it does not go with a log or a store".into()));
    }
    if !arguments.window.is_whole() {
        return Err(Failure::Usage("--from and --to need a log; to watch a host, use --for".into()));
    }
    refuse_databases(&arguments.databases)?;
    arguments.cloud.refuse_for_logs()?;
    arguments.window.refuse_volume_options()?;
    let packs = arguments.judging.load_packs(false)?;
    let (lasts, every) = arguments.watch_times()?;
    let new_judge = |range| arguments.judging.new_judge(packs.clone(), Some(range));
    let question = HostQuestion { ssh: &arguments.ssh, every, lasts, new_judge: &new_judge, as_json: arguments.json };
    answer_for_hosts(&question, &|verdicts, logs, host| {
        let more = vec![("ssh", host)];
        print_answer_with(verdicts, Some(logs), Some(&|| load_from_logs(logs, &[])), (arguments, more))
    })
}

/// Judges each machine and run of a text, and answers for one of them.
fn answer_for_groups(
    arguments: &Arguments,
    input: &Input,
    groups: &[TextGroup],
    new_judge: &dyn Fn((i64, i64)) -> Judge,
) -> Result<(), Failure> {
    let answer = pasted_runs::judge_groups(input, groups, &arguments.window, new_judge)?;
    let logs = &answer.logs;
    let load = || load_from_logs(logs, &[]);
    print_answer_with(&answer.verdicts, Some(logs), Some(&load), (arguments, vec![("runs", answer.runs.clone())]))
}

/// Reads the load of the logs again, for predictions.
type LoadReader<'a> = &'a dyn Fn() -> Result<LoadSeries, Failure>;

/// What the load tells beyond the verdict.
#[derive(Default)]
struct LoadAnswers {
    gains: Vec<PredictedGain>,
    distances: Vec<DeviceDistance>,
    /// Disks with a declared model that are not compared, and why.
    uncompared: Vec<(String, String)>,
}

impl LoadAnswers {
    /// Predicts the gains of remedies, and compares blamed disks with their models; the log is read again only for
    /// something of that. If the load cannot be read (a broken topology, which the verdict reports), there is neither.
    fn read(first: &Verdict, load: Option<LoadReader<'_>>, (is_live, has_models): (bool, bool)) -> LoadAnswers {
        // what was watched just now is too short for a model of the load
        let predicts = !is_live && gains::has_predictable_advice(first);
        let compares = next_steps::blames_storage(first) || has_models;
        let Some(load) = load.filter(|_| predicts || compares).and_then(|load| load().ok()) else {
            return LoadAnswers::default();
        };
        LoadAnswers {
            gains: if predicts { gains::predict_gains(first, &load) } else { Vec::new() },
            distances: if compares { find_model_distances(&load) } else { Vec::new() },
            uncompared: if has_models { find_uncompared(&load) } else { Vec::new() },
        }
    }

    /// Draws them, with headings; empty without any.
    fn draw(&self, style: &Style) -> String {
        gains_text(&self.gains, style) + &model_distance::draw_distances(&self.distances, &self.uncompared, style)
    }
}

/// Returns the load of a log of another tool, for predictions; the log is read once more.
fn read_load(log: &StreamedLog<'_>) -> Result<LoadSeries, Failure> {
    let mut collector = LoadCollector::default();
    log.read_again(|piece| collect_piece(&mut collector, &piece))?;
    Ok(collector.finish())
}

/// Judges a log of another tool and collects its load for predictions, while it is read once.
struct StreamJudge {
    judge: Judge,
    /// `None` once a piece could not be collected, such as a broken topology, which the verdict reports, and for a log
    /// so wide that it would take much memory: it is then read once more, if it is needed.
    load: Option<LoadCollector>,
}

/// Largest number of series of a log whose load is collected while it is judged.
const MAX_COLLECTED_SERIES: usize = 10_000;

impl StreamJudge {
    fn add_piece(&mut self, piece: LogPiece<'_>) {
        if let LogPiece::Frame(frame) = &piece
            && frame.schema().series.len() > MAX_COLLECTED_SERIES
        {
            self.load = None;
        }
        if let Some(load) = &mut self.load
            && collect_piece(load, &piece).is_err()
        {
            self.load = None;
        }
        log::judge_piece(&mut self.judge, piece);
    }
}

/// Refuses databases beside a log, which has what it has.
fn refuse_databases(databases: &DatabaseArguments) -> Result<(), Failure> {
    match databases.first_given_option() {
        Some(option) => {
            Err(Failure::Usage(format!("{option} asks a server while this machine is watched; not for logs")))
        }
        None => Ok(()),
    }
}

/// Watches this machine for a while and judges it; Ctrl-C judges what was seen so far.
fn watch_this_machine(arguments: &Arguments, packs: Vec<Pack>) -> Result<(Vec<Verdict>, LoadSeries), Failure> {
    let (duration, every) = arguments.watch_times()?;
    let slow_interval = every.max(Duration::from_secs(2));
    let databases = arguments.databases.start(every, slow_interval)?;
    let _first = PriorityGuard::raise_priority(ThreadRole::Pacer);
    let options = LiveOptions { slow_interval, raises_priority: true, ..LiveOptions::default() };
    let mut sampler = live_sampler(options);
    databases.into_iter().for_each(|columns| sampler.attach_columns(columns));
    let mut pacer = Pacer::new(every, Some(duration))?;
    let bar = pacer::watch_progress_bar(Some(duration), "watching".into());
    pacer.sample_first_tick(&mut sampler);
    let mut meter = RecordingMeter::start();
    let start = sampler.tick_stamp().time_ns;
    let duration_ns = i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
    let mut judge = arguments.judging.new_judge(packs, Some((start, start.saturating_add(duration_ns))));
    let (mut frame, mut load) = (Frame::default(), LoadCollector::default());
    feed_judge(&mut sampler, &mut frame, &mut judge, &mut load);
    while pacer.wait_for_tick(|elapsed| bar.set_position(elapsed.as_secs())) {
        if !pacer.sample_tick(&mut sampler) {
            break;
        }
        feed_judge(&mut sampler, &mut frame, &mut judge, &mut load);
    }
    bar.finish_and_clear();
    let end_ns = sampler.tick_stamp().time_ns;
    if let Some(text) = pacer.take_missed_text() {
        judge.add_note(&Note::new(end_ns, Note::MISSED, text));
    }
    judge.add_note(&Note::cost(end_ns, &meter.take_cost(0)));
    Ok((judge.finish(), load.finish()))
}

/// Passes the sampler's last tick to the judge, and to the load that is collected beside it.
fn feed_judge(sampler: &mut Sampler, frame: &mut Frame, judge: &mut Judge, load: &mut LoadCollector) {
    for note in sampler.take_notes() {
        if note.kind == Note::TOPOLOGY
            && let Ok(topology) = note.read_topology()
        {
            load.set_topology(std::sync::Arc::unwrap_or_clone(topology));
        }
        judge.add_note(&note);
    }
    frame.reset(sampler.schema().clone(), 1);
    frame.push(sampler.tick_stamp(), sampler.row());
    load.add_frame(frame);
    judge.add_frame(frame);
}

fn print_answer(
    verdicts: &[Verdict],
    logs: Option<&Logs>,
    load: Option<LoadReader<'_>>,
    arguments: &Arguments,
) -> Result<(), Failure> {
    print_answer_with(verdicts, logs, load, (arguments, Vec::new()))
}

/// Prints the first verdict, and the others in short; `more` are further fields of the JSON document.
fn print_answer_with(
    verdicts: &[Verdict],
    logs: Option<&Logs>,
    load: Option<LoadReader<'_>>,
    (arguments, more): (&Arguments, Vec<(&str, Value)>),
) -> Result<(), Failure> {
    let Some((first, others)) = verdicts.split_first() else {
        return Err(Failure::Failed("no rule pack gave a verdict".into()));
    };
    let mut first = first.clone();
    let machine = baseline::saved::add_to_verdict(&mut first);
    let is_store = arguments.store.is_given()?;
    let is_live = arguments.log.is_empty() && !is_store;
    let answers = LoadAnswers::read(&first, load, (is_live, arguments.window.declares_models()));
    let first = &first;
    let steps = match more.iter().find(|(name, _)| *name == "ssh") {
        Some((_, host)) => {
            let has_program = host["way"] == "program";
            next_steps::steps_for_host(first, host["host"].as_str().unwrap_or("HOST"), has_program)
        }
        None => next_steps::steps_after(first, &arguments.log, is_store),
    };
    if arguments.json {
        let mut document = serde_json::to_value(first)?;
        gains::add_gains(&mut document, &answers.gains);
        if let Value::Object(fields) = &mut document {
            fields.insert("machine".into(), machine);
            fields.insert("model_distances".into(), serde_json::to_value(&answers.distances)?);
            fields.insert("next_steps".into(), serde_json::to_value(&steps)?);
            fields.extend(more.into_iter().map(|(name, value)| (name.to_owned(), value)));
            fields.insert("packs".into(), verdicts.iter().map(verdict_summary).collect());
            let damage_entries = logs.map(|logs| damage::damage_entries(&logs.losses())).unwrap_or_default();
            fields.insert("damage".into(), damage_entries.into());
            fields.insert("trimmed".into(), damage::trimmed_json(logs.and_then(Logs::trim_summary)));
        }
        return output::print_json(&document);
    }
    let style = output::stdout_style();
    if arguments.full || !std::io::stdout().is_terminal() {
        let answer = screen::draw_whole(first, &DisplayZone::local(), &style);
        let more = draw_volumes(first, &style) + &answers.draw(&style);
        output::print_text(&(answer + &more + &next_steps::draw_steps(&steps, &style)))?;
    } else {
        output::print_text(&draw_one_screen(first, &answers, &steps, &style))?;
    }
    if others.is_empty() { Ok(()) } else { output::print_text(&screen::other_packs_table(others, &style)) }
}

/// Draws an answer whose first rows stay in sight on a terminal: with the next steps in one row, and with what the load
/// tells where it fits.
fn draw_one_screen(verdict: &Verdict, answers: &LoadAnswers, steps: &[NextStep], style: &Style) -> String {
    let next_row = next_steps::draw_first_step(steps, style);
    let remaining = Style { height: style.height.saturating_sub(next_row.lines().count()), ..*style };
    let answer = screen::draw_screen(verdict, &DisplayZone::local(), &remaining);
    let more = draw_volumes(verdict, style) + &answers.draw(style);
    let fits = answer.lines().count() + more.lines().count() <= remaining.height;
    if fits { answer + &more + &next_row } else { answer + &next_row }
}

/// What remedies are predicted to bring, with a heading; empty without any.
fn gains_text(predicted: &[PredictedGain], style: &Style) -> String {
    let columns = style.width.saturating_sub(4);
    let wrapped = |gain| wrap(&style.clean_text(&gains::describe_gain(gain)), columns, 0).join("\n    ");
    let lines: String = predicted.iter().map(|gain| format!("  {}\n", wrapped(gain))).collect();
    if lines.is_empty() { lines } else { format!("\nWhat remedies are predicted to bring\n{lines}") }
}

fn verdict_summary(verdict: &Verdict) -> Value {
    json!({
        "pack": verdict.pack,
        "bottleneck": verdict.bottleneck,
        "instance": verdict.instance,
        "confidence": verdict.confidence,
        "finding": verdict.findings.first().map(|f| &f.rule),
    })
}
