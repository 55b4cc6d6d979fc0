//! A thread for each server that asks it at short intervals, and passes on what it learned. Nobody waits for it: a
//! server that hangs, restarts or refuses costs gaps and a note.

use std::process::Command;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use diskwright_base::counter_ids::database;
use diskwright_base::units::format_value;
use diskwright_base::{Note, Series};
use diskwright_hostfiles::programs::{command_without_secrets, find_program};

use crate::activity_sums::ActivitySums;
use crate::address::{DatabaseAddress, DatabaseEngine};
use crate::cell_board::CellBoard;
use crate::client_process::{ClientError, ClientProcess};
use crate::mysql::{self, MysqlQueries};
use crate::postgres::{self, PostgresQueries};
use crate::sample::{Details, Sample, ServerFacts, ServerQueries};

/// Longest time between two looks at a server's sessions: what lasts for less is seen in proportion.
const MAX_SAMPLE_INTERVAL: Duration = Duration::from_secs(5);
/// Shortest time between them.
const MIN_SAMPLE_INTERVAL: Duration = Duration::from_millis(100);
/// Part of the interval before a tick at which a server is asked at the latest: on a full machine, answers come late.
const MIN_LEAD_PART: u32 = 4;
/// Time for an answer. The server itself gives up after two seconds.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(4);
/// Time for the first answer, which includes the connection.
const FIRST_ANSWER_TIMEOUT: Duration = Duration::from_secs(8);
/// Times between two tries to reach a server.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const MAX_RETRY: Duration = Duration::from_secs(30);
/// Notes that wait to be taken; more than these are dropped.
const MAX_NOTES: usize = 100;

/// What to ask, and how often.
pub struct MonitorOptions {
    /// The server.
    pub address: DatabaseAddress,
    /// Name of the instance of its counters.
    pub instance: String,
    /// Password from a file; where there is none, the client looks for one itself.
    pub password: Option<String>,
    /// Length of a tick.
    pub tick_interval: Duration,
    /// Time between two notes of its activity.
    pub note_interval: Duration,
    /// The wall clock, nanoseconds since 1970 UTC, for notes.
    pub wall_clock: fn() -> i64,
    /// Stack of its thread, bytes.
    pub stack_bytes: usize,
}

/// State that the thread and the recorder share.
#[derive(Default)]
struct SharedState {
    board: CellBoard,
    notes: Vec<Note>,
    /// The last tick, by which the thread times its questions.
    tick: Option<Instant>,
    is_stopped: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<SharedState>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, SharedState> {
        // no holder of the lock leaves it in an inconsistent state, even if it panics
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A server that is watched; its thread ends with the value, and is not waited for.
pub struct DatabaseMonitor {
    instance: String,
    shared: Arc<Shared>,
    /// Series and cells of the last tick.
    series: Vec<Series>,
    cells: Vec<f64>,
}

impl Drop for DatabaseMonitor {
    fn drop(&mut self) {
        self.shared.lock().is_stopped = true;
        self.shared.changed.notify_all();
    }
}

impl DatabaseMonitor {
    /// Starts the thread. The server need not be reachable yet.
    ///
    /// # Errors
    /// Where the thread cannot be started, or the client is not installed.
    pub fn start(options: MonitorOptions) -> std::io::Result<DatabaseMonitor> {
        find_client(options.address.engine)?;
        let (shared, instance) = (Arc::<Shared>::default(), options.instance.clone());
        let own = Arc::clone(&shared);
        let builder = std::thread::Builder::new().name("database".into()).stack_size(options.stack_bytes);
        builder.spawn(move || MonitorThread::new(own, options).run())?;
        Ok(DatabaseMonitor { instance, shared, series: Vec::new(), cells: Vec::new() })
    }

    /// Begins a tick: takes what was learned since the last one. Returns true where the series have changed.
    pub fn begin_tick(&mut self, notes: &mut Vec<Note>) -> bool {
        let mut state = self.shared.lock();
        state.tick = Some(Instant::now());
        notes.append(&mut state.notes);
        let changed = state.board.take_changed();
        if changed {
            self.series.clear();
            state.board.append_series(&self.instance, &mut self.series);
        }
        self.cells.clear();
        state.board.take_tick(&mut self.cells);
        drop(state);
        self.shared.changed.notify_all();
        changed
    }

    /// The series of the tick.
    #[must_use]
    pub fn series(&self) -> &[Series] {
        &self.series
    }

    /// The cells of the tick, one for each series.
    #[must_use]
    pub fn cells(&self) -> &[f64] {
        &self.cells
    }
}

/// Finds the client of a kind of server.
fn find_client(engine: DatabaseEngine) -> std::io::Result<Command> {
    let (names, package): (&[&str], _) = match engine {
        DatabaseEngine::Postgres => (&["psql"], "postgresql-client"),
        DatabaseEngine::Mysql => (&["mariadb", "mysql"], "mariadb-client or default-mysql-client"),
    };
    let program = names.iter().find_map(|name| find_program(name)).ok_or_else(|| {
        let text = format!("there is no {} on this machine; install {package}", names.join(" or "));
        std::io::Error::new(std::io::ErrorKind::NotFound, text)
    })?;
    Ok(command_without_secrets(program))
}

/// The thread that asks one server.
struct MonitorThread {
    shared: Arc<Shared>,
    options: MonitorOptions,
    queries: Box<dyn ServerQueries>,
    client: Option<ClientProcess>,
    facts: ServerFacts,
    sums: ActivitySums,
    is_local: bool,
    /// Time that the last questions took.
    last_duration: Duration,
    last_sample: Option<Instant>,
    last_note: Instant,
    retry: Duration,
    next_try: Instant,
    /// Since when it gives no answer.
    failed_since: Option<Instant>,
    last_error: String,
}

impl MonitorThread {
    fn new(shared: Arc<Shared>, options: MonitorOptions) -> MonitorThread {
        let default_host = match options.address.engine {
            DatabaseEngine::Postgres => std::env::var("PGHOST").ok(),
            DatabaseEngine::Mysql => None,
        };
        MonitorThread {
            is_local: options.address.is_local(default_host.as_deref()),
            queries: match options.address.engine {
                DatabaseEngine::Postgres => Box::<PostgresQueries>::default(),
                DatabaseEngine::Mysql => Box::<MysqlQueries>::default(),
            },
            shared,
            options,
            client: None,
            facts: ServerFacts::default(),
            sums: ActivitySums::default(),
            last_duration: Duration::ZERO,
            last_sample: None,
            last_note: Instant::now(),
            retry: FIRST_RETRY,
            next_try: Instant::now(),
            failed_since: None,
            last_error: String::new(),
        }
    }

    fn run(mut self) {
        while self.wait_for_sample() {
            let began = Instant::now();
            match self.ask_server(began) {
                Ok(()) => self.retry = FIRST_RETRY,
                Err(error) => self.lose_server(&error),
            }
            self.last_duration = began.elapsed();
        }
    }

    /// Number of looks at the server in a tick, and the time between them.
    fn sample_interval(&self) -> Duration {
        let tick = self.options.tick_interval.max(MIN_SAMPLE_INTERVAL);
        let looks = (tick.as_secs_f64() / MAX_SAMPLE_INTERVAL.as_secs_f64()).ceil().max(1.0);
        tick.div_f64(looks)
    }

    /// Waits until it is time to look. Returns false at the end.
    fn wait_for_sample(&self) -> bool {
        let mut state = self.shared.lock();
        loop {
            if state.is_stopped {
                return false;
            }
            let (now, due) = (Instant::now(), self.next_sample(state.tick));
            if due <= now {
                return true;
            }
            state = self.shared.changed.wait_timeout(state, due - now).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Time of the next look: so that the answer is there shortly before a tick. The first look is made at once, so
    /// that the first ticks have something to compare with.
    fn next_sample(&self, tick: Option<Instant>) -> Instant {
        let interval = self.sample_interval();
        let lead = (self.last_duration * 2).clamp(interval / MIN_LEAD_PART, interval / 2);
        let last = self.last_sample.filter(|_| self.client.is_some());
        match (last, tick) {
            (None, _) => self.next_try,
            (Some(last), None) => last + interval,
            (Some(last), Some(tick)) => {
                let earliest = last + interval / 2;
                let looks = (earliest.saturating_duration_since(tick) + lead).div_duration_f64(interval).ceil();
                tick + interval.mul_f64(looks.max(1.0)) - lead
            }
        }
    }

    fn ask_server(&mut self, began: Instant) -> Result<(), ClientError> {
        let mut client = match self.client.take() {
            Some(client) => client,
            None => self.reach_server()?,
        };
        let sample = ask_sample(self.queries.as_mut(), &mut client)?;
        // a time that is much longer than usual was not watched
        let passed = self.last_sample.map_or(Duration::ZERO, |last| began.duration_since(last));
        let seconds = passed.min(self.sample_interval() * 2).as_secs_f64();
        self.last_sample = Some(began);
        self.sums.add_sample(&sample, seconds, (self.options.wall_clock)());
        self.publish_sample(sample);
        if self.last_note.elapsed() >= self.options.note_interval {
            let mut ask = |statements: &str| client.ask(statements, ANSWER_TIMEOUT);
            let details = self.queries.read_details(&mut ask)?;
            // a setting may have been changed meanwhile
            let facts = self.queries.read_facts(&mut ask)?;
            self.accept_facts(facts);
            self.publish_activity(details);
        }
        self.client = Some(client);
        Ok(())
    }

    fn reach_server(&mut self) -> Result<ClientProcess, ClientError> {
        let MonitorOptions { address, password, .. } = &self.options;
        let program = find_client(address.engine)?;
        let (command, end) = match address.engine {
            DatabaseEngine::Postgres => {
                (postgres::client_command(program, address, password.as_deref()), postgres::END_STATEMENT)
            }
            DatabaseEngine::Mysql => {
                (mysql::client_command(program, address, password.as_deref()), mysql::END_STATEMENT)
            }
        };
        let mut client = ClientProcess::start(command, end)?;
        let facts = self.queries.read_facts(&mut |statements| client.ask(statements, FIRST_ANSWER_TIMEOUT));
        let facts = facts.map_err(|error| with_reason(error, &client))?;
        // what it counted before is that of another server, or of the same one before it was started again
        self.shared.lock().board.forget_totals();
        self.sums.forget_totals();
        let details = self.queries.read_details(&mut |statements| client.ask(statements, FIRST_ANSWER_TIMEOUT));
        _ = self.sums.take_activity(details.ok());
        self.last_note = Instant::now();
        self.accept_facts(facts);
        if let Some(since) = self.failed_since.take() {
            let lasted = format_value(since.elapsed().as_secs_f64(), "s");
            let instance = &self.options.instance;
            self.push_note(Note::GAP, format!("{instance}: it answers again, after {lasted}"));
        }
        self.last_error.clear();
        Ok(client)
    }

    /// Takes over facts, and says what is not measured, once.
    fn accept_facts(&mut self, facts: ServerFacts) {
        let instance = &self.options.instance;
        for text in facts.unseen.iter().filter(|text| !self.facts.unseen.contains(text)) {
            self.push_note(Note::UNSEEN, format!("{instance}: {text}"));
        }
        self.facts = facts;
    }

    /// The server did not answer: says so once, and tries again later.
    fn lose_server(&mut self, error: &ClientError) {
        self.client = None;
        let text = error.to_string();
        if text != self.last_error {
            self.push_note(Note::GAP, format!("{}: no answer: {text}", self.options.instance));
            self.last_error = text;
        }
        self.failed_since.get_or_insert_with(Instant::now);
        self.next_try = Instant::now() + self.retry;
        self.retry = (self.retry * 2).min(MAX_RETRY);
    }

    fn publish_sample(&mut self, mut sample: Sample) {
        sample.values.insert(database::IS_LOCAL, f64::from(u8::from(self.is_local)));
        self.shared.lock().board.add_sample(&sample.values);
    }

    fn publish_activity(&mut self, details: Details) {
        self.last_note = Instant::now();
        let mut activity = self.sums.take_activity(Some(details));
        let MonitorOptions { instance, address, .. } = &self.options;
        activity.name.clone_from(instance);
        activity.engine = address.engine.name().into();
        activity.version.clone_from(&self.facts.version);
        activity.address = address.to_string();
        activity.is_local = self.is_local;
        activity.pids.clone_from(&self.facts.pids);
        activity.settings.clone_from(&self.facts.settings);
        let mut state = self.shared.lock();
        if state.notes.len() < MAX_NOTES {
            state.notes.push(Note::database((self.options.wall_clock)(), activity));
        }
    }

    fn push_note(&self, kind: &str, text: String) {
        let mut state = self.shared.lock();
        if state.notes.len() < MAX_NOTES {
            state.notes.push(Note::new((self.options.wall_clock)(), kind, text));
        }
    }
}

fn ask_sample(queries: &mut dyn ServerQueries, client: &mut ClientProcess) -> Result<Sample, ClientError> {
    let sample = queries.read_sample(&mut |statements| client.ask(statements, ANSWER_TIMEOUT));
    sample.map_err(|error| with_reason(error, client))
}

/// An answer that lacks what it should have, with what the client said.
fn with_reason(error: ClientError, client: &ClientProcess) -> ClientError {
    let line = client.error_line();
    match error {
        ClientError::Unreadable(_) if !line.is_empty() => ClientError::Ended(line),
        error => error,
    }
}
