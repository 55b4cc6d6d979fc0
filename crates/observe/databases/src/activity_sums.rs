//! Sums the samples of a server over the time between two notes: who waited for what, who held the locks, which
//! statements ran.

use std::collections::{BTreeMap, BTreeSet};

use diskwright_base::counter_ids::database;
use diskwright_base::database_activity::{
    CheckpointSums, DatabaseActivity, LockRow, RelationRow, SessionRow, SessionTimes, StatementRow, TransactionRow,
    WaitRow,
};

use crate::cell_board::SampleValues;
use crate::sample::{Details, Sample, SampledSession, WaitKind};

/// Largest number of sessions, statements and holders of locks that are followed between two notes.
const MAX_FOLLOWED: usize = 2_000;
/// Largest numbers of rows in a note.
const MAX_LOCKS: usize = 5;
const MAX_SESSIONS: usize = 16;
const MAX_STATEMENTS: usize = 12;
const MAX_RELATIONS: usize = 12;
const MAX_WAITS: usize = 12;
const MAX_TRANSACTIONS: usize = 5;

/// A session over the time since the last note.
#[derive(Debug, Default)]
struct FollowedSession {
    row: SessionRow,
    /// Seconds by what it waited for and by statement.
    waits: BTreeMap<String, f64>,
    statements: BTreeMap<String, f64>,
}

/// Sums since the last note.
#[derive(Debug, Default)]
pub(crate) struct ActivitySums {
    samples: u32,
    elapsed_s: f64,
    sessions: BTreeMap<u64, FollowedSession>,
    statements: BTreeMap<String, SessionTimes>,
    locks: BTreeMap<u64, LockRow>,
    waits: BTreeMap<String, f64>,
    transactions: BTreeMap<u64, TransactionRow>,
    checkpoints: CheckpointTotals,
    /// Totals at the last note.
    details: Option<Details>,
}

/// Running totals of checkpoints, where the server counts them.
#[derive(Debug, Default)]
struct CheckpointTotals {
    /// At the last note.
    before: Option<CheckpointSums>,
    /// At the last sample.
    now: Option<CheckpointSums>,
    hurrying_s: f64,
}

impl CheckpointTotals {
    fn add_sample(&mut self, values: &SampleValues, seconds: f64) {
        let value = |counter: &str| values.get(counter).copied();
        self.now = value(database::CHECKPOINTS_TIMED).map(|timed| CheckpointSums {
            timed,
            requested: value(database::CHECKPOINTS_REQUESTED).unwrap_or(0.0),
            written_bytes: value(database::CHECKPOINT_WRITTEN_BYTES).unwrap_or(0.0),
            write_s: value(database::CHECKPOINT_WRITE_TIME_S).unwrap_or(0.0),
            sync_s: value(database::CHECKPOINT_SYNC_TIME_S).unwrap_or(0.0),
            hurrying_s: 0.0,
        });
        self.before = self.before.or(self.now);
        self.hurrying_s += value(database::CHECKPOINT_HURRYING).unwrap_or(0.0) * seconds;
    }

    /// The increase since the last note; statistics that were reset meanwhile count from zero.
    fn increase(&self) -> Option<CheckpointSums> {
        let (now, before) = (self.now?, self.before?);
        let grown = |now: f64, before: f64| if now < before { now } else { now - before };
        Some(CheckpointSums {
            timed: grown(now.timed, before.timed),
            requested: grown(now.requested, before.requested),
            written_bytes: grown(now.written_bytes, before.written_bytes),
            write_s: grown(now.write_s, before.write_s),
            sync_s: grown(now.sync_s, before.sync_s),
            hurrying_s: self.hurrying_s,
        })
    }
}

/// The sessions at the ends of chains of waiting, each with the sessions that wait for it.
fn lock_holders(sessions: &[SampledSession]) -> BTreeMap<u64, Vec<&SampledSession>> {
    let by_id: BTreeMap<u64, &SampledSession> = sessions.iter().map(|session| (session.identity.id, session)).collect();
    let mut holders: BTreeMap<u64, Vec<&SampledSession>> = BTreeMap::new();
    for waiting in sessions.iter().filter(|session| session.wait == WaitKind::Lock) {
        let (mut seen, mut pending) = (BTreeSet::new(), waiting.blocked_by.clone());
        while let Some(id) = pending.pop() {
            // sessions that wait for each other are seen once
            if !seen.insert(id) {
                continue;
            }
            match by_id.get(&id).filter(|holder| holder.wait == WaitKind::Lock && !holder.blocked_by.is_empty()) {
                Some(link) => pending.extend(&link.blocked_by),
                None => holders.entry(id).or_default().push(waiting),
            }
        }
    }
    holders
}

/// Levels that follow from the sessions of a sample.
pub(crate) fn session_values(sessions: &[SampledSession]) -> SampleValues {
    let count = |holds: &dyn Fn(&SampledSession) -> bool| sessions.iter().filter(|s| holds(s)).count() as f64;
    let largest = |age: fn(&SampledSession) -> Option<f64>| sessions.iter().filter_map(age).fold(0.0, f64::max);
    let holders = lock_holders(sessions);
    let is_idle = |id: &u64| sessions.iter().any(|s| s.identity.id == *id && s.is_idle_in_transaction);
    [
        (database::ACTIVE_SESSIONS, count(&|s| s.is_active)),
        (database::SESSIONS_WAITING_LOCK, count(&|s| s.wait == WaitKind::Lock)),
        (database::SESSIONS_WAITING_LOG, count(&|s| s.wait == WaitKind::Log)),
        (database::IDLE_LOCK_HOLDERS, holders.keys().filter(|id| is_idle(id)).count() as f64),
        (database::LONGEST_LOCK_WAIT_S, largest(|s| s.lock_wait_s)),
        (database::LONGEST_TRANSACTION_S, largest(|s| s.transaction_s)),
    ]
    .into()
}

fn times_of(session: &SampledSession, seconds: f64) -> SessionTimes {
    let of_kind = |kind: WaitKind| if session.wait == kind { seconds } else { 0.0 };
    SessionTimes {
        active_s: seconds,
        lock_s: of_kind(WaitKind::Lock),
        log_s: of_kind(WaitKind::Log),
        data_s: of_kind(WaitKind::Data),
    }
}

/// The key with the most time.
fn longest(times: &BTreeMap<String, f64>) -> String {
    let most = times.iter().max_by(|a, b| a.1.total_cmp(b.1));
    most.map_or(String::new(), |(text, _)| text.clone())
}

impl ActivitySums {
    /// Adds a sample that stands for so many seconds.
    pub fn add_sample(&mut self, sample: &Sample, seconds: f64, time_ns: i64) {
        self.samples += 1;
        self.elapsed_s += seconds;
        self.checkpoints.add_sample(&sample.values, seconds);
        for session in sample.sessions.iter().filter(|session| session.is_active) {
            self.add_session(session, seconds);
        }
        sample.sessions.iter().for_each(|session| self.add_transaction(session));
        for (id, waiting) in lock_holders(&sample.sessions) {
            let holder = sample.sessions.iter().find(|session| session.identity.id == id);
            self.add_lock(id, holder, &waiting, (seconds, time_ns));
        }
    }

    fn add_session(&mut self, session: &SampledSession, seconds: f64) {
        let times = times_of(session, seconds);
        let is_new = !self.waits.contains_key(&session.waits_for);
        if !session.waits_for.is_empty() && (!is_new || self.waits.len() < MAX_FOLLOWED) {
            *self.waits.entry(session.waits_for.clone()).or_default() += seconds;
        }
        if self.sessions.len() < MAX_FOLLOWED || self.sessions.contains_key(&session.identity.id) {
            let followed = self.sessions.entry(session.identity.id).or_default();
            followed.row.identity.clone_from(&session.identity);
            followed.row.state.clone_from(&session.state);
            followed.row.transaction_s = session.transaction_s;
            followed.row.times.add_times(&times);
            if !session.waits_for.is_empty() {
                *followed.waits.entry(session.waits_for.clone()).or_default() += seconds;
            }
            *followed.statements.entry(session.statement.clone()).or_default() += seconds;
        }
        let is_known = || self.statements.contains_key(&session.statement);
        if !session.statement.is_empty() && (self.statements.len() < MAX_FOLLOWED || is_known()) {
            self.statements.entry(session.statement.clone()).or_default().add_times(&times);
        }
    }

    /// Keeps the longest transaction of each session.
    fn add_transaction(&mut self, session: &SampledSession) {
        let Some(age) = session.transaction_s.filter(|_| session.is_active || session.is_idle_in_transaction) else {
            return;
        };
        let known = self.transactions.get(&session.identity.id);
        if known.map_or(self.transactions.len() < MAX_FOLLOWED, |known| age >= known.transaction_s) {
            let row = TransactionRow {
                identity: session.identity.clone(),
                state: session.state.clone(),
                transaction_s: age,
                statement: session.statement.clone(),
            };
            self.transactions.insert(session.identity.id, row);
        }
    }

    fn add_lock(
        &mut self,
        id: u64,
        holder: Option<&SampledSession>,
        waiting: &[&SampledSession],
        (seconds, time_ns): (f64, i64),
    ) {
        if self.locks.len() >= MAX_FOLLOWED && !self.locks.contains_key(&id) {
            return;
        }
        let row = self.locks.entry(id).or_default();
        row.holder.id = id;
        if let Some(holder) = holder {
            row.holder.clone_from(&holder.identity);
            row.state.clone_from(&holder.state);
            row.is_idle = holder.is_idle_in_transaction;
            row.waits_for.clone_from(&holder.waits_for);
            row.statement.clone_from(&holder.statement);
            row.transaction_s = holder.transaction_s;
        }
        row.seen_ns = time_ns;
        row.waiting = row.waiting.max(u32::try_from(waiting.len()).unwrap_or(u32::MAX));
        row.waited_s += waiting.len() as f64 * seconds;
        let wait = |session: &&&SampledSession| session.lock_wait_s.unwrap_or(0.0);
        let Some(longest) = waiting.iter().max_by(|a, b| wait(a).total_cmp(&wait(b))) else { return };
        if wait(&longest) >= row.longest_wait_s {
            row.longest_wait_s = wait(&longest);
            row.waiting_statement.clone_from(&longest.statement);
        }
        if row.what.is_empty() {
            row.what = waiting.iter().map(|session| session.lock.as_str()).find(|l| !l.is_empty()).unwrap_or("").into();
        }
    }

    /// Makes the note of the time since the last one, and begins the next. `details` are running totals, where they
    /// could be read.
    pub fn take_activity(&mut self, details: Option<Details>) -> DatabaseActivity {
        let before = self.details.take();
        let grown = details.as_ref().zip(before.as_ref()).map(|(now, before)| increase_of(now, before));
        let grown = grown.unwrap_or_default();
        let checkpoints = CheckpointTotals { before: self.checkpoints.now, ..CheckpointTotals::default() };
        let sums = std::mem::replace(self, ActivitySums { details, checkpoints, ..ActivitySums::default() });
        let mut locks: Vec<LockRow> = sums.locks.into_values().collect();
        locks.sort_by(|a, b| b.waited_s.total_cmp(&a.waited_s).then(a.holder.id.cmp(&b.holder.id)));
        locks.truncate(MAX_LOCKS);
        let mut sessions: Vec<SessionRow> = sums
            .sessions
            .into_values()
            .map(|followed| SessionRow {
                waits_for: longest(&followed.waits),
                statement: longest(&followed.statements),
                ..followed.row
            })
            .collect();
        sessions.sort_by(|a, b| b.times.active_s.total_cmp(&a.times.active_s).then(a.identity.id.cmp(&b.identity.id)));
        sessions.truncate(MAX_SESSIONS);
        let mut waits: Vec<WaitRow> =
            sums.waits.into_iter().map(|(event, waited_s)| WaitRow { event, waited_s }).collect();
        waits.sort_by(|a, b| b.waited_s.total_cmp(&a.waited_s).then_with(|| a.event.cmp(&b.event)));
        waits.truncate(MAX_WAITS);
        let mut transactions: Vec<TransactionRow> = sums.transactions.into_values().collect();
        transactions.sort_by(|a, b| b.transaction_s.total_cmp(&a.transaction_s));
        transactions.truncate(MAX_TRANSACTIONS);
        DatabaseActivity {
            elapsed_s: sums.elapsed_s,
            samples: sums.samples,
            locks,
            sessions,
            statements: merge_statements(sums.statements, grown.statements),
            relations: grown.relations,
            processes: grown.processes,
            waits,
            transactions,
            checkpoints: sums.checkpoints.increase(),
            ..DatabaseActivity::default()
        }
    }

    /// Forgets the totals of the last note: another server answers, or the same one after a restart.
    pub fn forget_totals(&mut self) {
        self.details = None;
        (self.checkpoints.before, self.checkpoints.now) = (None, None);
    }
}

/// Statements that were sampled and those of the server's statistics, as one list.
fn merge_statements(sampled: BTreeMap<String, SessionTimes>, counted: Vec<StatementRow>) -> Vec<StatementRow> {
    let mut rows: BTreeMap<String, StatementRow> =
        counted.into_iter().map(|row| (row.statement.clone(), row)).collect();
    for (statement, times) in sampled {
        let row =
            rows.entry(statement.clone()).or_insert_with(|| StatementRow { statement, ..StatementRow::default() });
        row.times = times;
    }
    let mut rows: Vec<StatementRow> = rows.into_values().collect();
    let time = |row: &StatementRow| row.times.active_s.max(row.time_s.unwrap_or(0.0));
    let bytes = |row: &StatementRow| row.read_bytes.unwrap_or(0.0);
    // the heaviest readers first, then the longest
    rows.sort_by(|a, b| bytes(b).total_cmp(&bytes(a)).then(time(b).total_cmp(&time(a))));
    let readers = rows.iter().take_while(|row| bytes(row) > 0.0).count().min(MAX_STATEMENTS / 2);
    rows[readers..].sort_by(|a, b| time(b).total_cmp(&time(a)));
    rows.truncate(MAX_STATEMENTS);
    rows.sort_by(|a, b| time(b).total_cmp(&time(a)).then_with(|| a.statement.cmp(&b.statement)));
    rows
}

/// Increase of an optional total; `None` where it is not known, or was reset.
fn increase(now: Option<f64>, before: Option<f64>) -> Option<f64> {
    now.zip(before).map(|(now, before)| now - before).filter(|increase| *increase >= 0.0)
}

fn increase_of(now: &Details, before: &Details) -> Details {
    let known_relations: BTreeMap<&str, &RelationRow> =
        before.relations.iter().map(|row| (row.name.as_str(), row)).collect();
    let mut relations: Vec<RelationRow> = now
        .relations
        .iter()
        .filter_map(|row| {
            let known = known_relations.get(row.name.as_str())?;
            Some(RelationRow {
                name: row.name.clone(),
                read_bytes: increase(Some(row.read_bytes), Some(known.read_bytes))?,
                written_bytes: increase(row.written_bytes, known.written_bytes),
                rows_changed: increase(row.rows_changed, known.rows_changed),
            })
        })
        .collect();
    let moved = |row: &RelationRow| row.read_bytes + row.written_bytes.unwrap_or(0.0);
    relations.retain(|row| moved(row) > 0.0 || row.rows_changed.is_some_and(|rows| rows > 0.0));
    let changed = |row: &RelationRow| row.rows_changed.unwrap_or(0.0);
    relations.sort_by(|a, b| moved(b).total_cmp(&moved(a)).then(changed(b).total_cmp(&changed(a))));
    relations.truncate(MAX_RELATIONS);
    let known_statements: BTreeMap<&str, &StatementRow> =
        before.statements.iter().map(|row| (row.statement.as_str(), row)).collect();
    let statements = now.statements.iter().filter_map(|row| {
        // one that was not listed before is new, or was lighter than the others
        let known = known_statements.get(row.statement.as_str())?;
        let calls = increase(row.calls, known.calls).filter(|calls| *calls > 0.0)?;
        Some(StatementRow {
            statement: row.statement.clone(),
            calls: Some(calls),
            time_s: increase(row.time_s, known.time_s),
            read_bytes: increase(row.read_bytes, known.read_bytes),
            ..StatementRow::default()
        })
    });
    let processes = now.processes.iter().filter_map(|row| {
        let known = before.processes.iter().find(|known| known.kind == row.kind)?;
        let grown = |now: f64, before: f64| (now - before).max(0.0);
        Some(diskwright_base::database_activity::DatabaseProcessRow {
            kind: row.kind.clone(),
            read_bytes: grown(row.read_bytes, known.read_bytes),
            written_bytes: grown(row.written_bytes, known.written_bytes),
            syncs: grown(row.syncs, known.syncs),
            read_s: increase(row.read_s, known.read_s),
            write_s: increase(row.write_s, known.write_s),
            sync_s: increase(row.sync_s, known.sync_s),
        })
    });
    let processes = processes.filter(|row| row.read_bytes + row.written_bytes + row.syncs > 0.0).collect();
    Details { relations, statements: statements.collect(), processes }
}
