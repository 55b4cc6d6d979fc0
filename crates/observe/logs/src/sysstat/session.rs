//! State shared by the readers of sysstat's JSON and XML: times of samples, their machine, and restarts.

use diskwright_base::Note;
use diskwright_base::counter_ids::memory;
use diskwright_base::text::is_same_host;

use super::calendar;
use super::clock::{SysstatClock, ZoneHint};
use super::idle_devices::{self, IdleDevices, TABLE_COUNT};
use super::machine::{AssumedTimes, SysstatMachine};
use super::report_row::ReportRow;
use super::template::StampPart;
use super::time::{self, DAY_S, NumericDateOrder};
use crate::LogOptions;
use crate::batch::FrameBatch;
use crate::daylight_clock::DaylightClock;
use crate::first_report::{self, HeldReport, REPORT_STEP};

const SECOND_NS: i64 = 1_000_000_000;

/// Returns the time of a sadf sample from its parts: local seconds, zone, and the length of its interval, ns.
pub fn sadf_time(
    part: impl Fn(StampPart) -> Option<String>,
    zone: &str,
    order: time::NumericDateOrder,
) -> Option<(i64, ZoneHint, Option<u64>)> {
    let date = time::parse_date(&part(StampPart::Date)?, order)?.date;
    let clock = part(StampPart::Time)?;
    let words: Vec<&str> = clock.split_whitespace().collect();
    let (clock, _) = time::parse_time_of_day(&words)?;
    let hint = match (part(StampPart::Utc).as_deref(), part(StampPart::Zone).as_deref()) {
        (Some("1"), _) | (_, Some("UTC")) => ZoneHint::Offset(0),
        (_, Some(name)) => ZoneHint::Name(name.to_owned()),
        _ if !zone.is_empty() => ZoneHint::Name(zone.to_owned()),
        _ => ZoneHint::Missing,
    };
    let interval = part(StampPart::Interval).and_then(|i| i.trim().parse::<u64>().ok());
    let elapsed = interval.filter(|i| (1..=31_536_000).contains(i)).map(|i| i * SECOND_NS as u64);
    Some((date.days_since_epoch() * DAY_S + clock, hint, elapsed))
}

/// Tool that wrote a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentWriter {
    /// sadf: each sample has its date, time and interval.
    Sadf,
    /// iostat: the first sample covers the time since boot.
    Iostat,
    /// mpstat: no sample covers the time since boot, and times have no date.
    Mpstat,
}

/// Description of a host at the head of a document.
#[derive(Clone, Debug, Default)]
pub struct HostHead {
    /// Name of the machine.
    pub name: String,
    /// Kernel release.
    pub kernel: String,
    /// Processors; 0 is unknown.
    pub processors: u32,
    /// Date of the document.
    pub date: String,
    /// Zone of the document, if it names one.
    pub zone: String,
    /// Number of samples of this document so far.
    sample_count: u64,
    /// Number of midnights since the document's date, for times without a date.
    midnights: i64,
    /// The last time without a date, seconds of the day.
    last_clock_s: Option<i64>,
}

/// Tracks time and machine, and emits rows.
pub struct SysstatSession<'b, 'c> {
    /// Receives the ticks.
    pub batch: &'c mut FrameBatch<'b>,
    options: &'c LogOptions,
    writer: DocumentWriter,
    clock: SysstatClock,
    daylight: DaylightClock,
    order: NumericDateOrder,
    /// Machine of the current samples.
    pub host: HostHead,
    /// Name of the machine whose samples are read.
    chosen_host: Option<String>,
    /// Row of the current sample.
    pub row: ReportRow,
    idle_devices: IdleDevices,
    /// Tables of devices that the current sample contains.
    pub sample_tables: [bool; TABLE_COUNT],
    /// Time of the previous sample of this document.
    previous_ns: Option<i64>,
    /// First report of an iostat, until the second shows whether it is since boot.
    held: Option<HeldReport>,
    /// Set if neither times nor an interval are known, so that reports are counted.
    is_counted: bool,
    is_announced: bool,
    /// Number of samples emitted.
    pub tick_count: u64,
}

impl<'b, 'c> SysstatSession<'b, 'c> {
    /// Creates a session before the first head of a host.
    pub fn new(
        batch: &'c mut FrameBatch<'b>,
        options: &'c LogOptions,
        order: NumericDateOrder,
        writer: DocumentWriter,
    ) -> SysstatSession<'b, 'c> {
        SysstatSession {
            batch,
            options,
            writer,
            clock: SysstatClock::new(options),
            daylight: DaylightClock::default(),
            order,
            host: HostHead::default(),
            chosen_host: options.host.clone(),
            row: ReportRow::new(),
            idle_devices: IdleDevices::default(),
            sample_tables: [false; TABLE_COUNT],
            previous_ns: None,
            is_announced: false,
            held: None,
            is_counted: false,
            tick_count: 0,
        }
    }

    /// Reads one entry of a host's head.
    pub fn read_head(&mut self, key: &str, text: &str) {
        match key {
            "nodename" => {
                self.host = HostHead { name: text.to_owned(), ..HostHead::default() };
                self.previous_ns = None;
                self.idle_devices.begin_start();
                if self.writer == DocumentWriter::Sadf {
                    // another document may cover the same hours
                    self.daylight.forget_last_sample();
                }
            }
            "release" => self.host.kernel = text.to_owned(),
            "date" | "file-date" => self.host.date = text.to_owned(),
            "timezone" => self.host.zone = text.to_owned(),
            "number-of-cpus" => self.host.processors = text.trim().parse().unwrap_or(0),
            _ => {}
        }
    }
}

impl SysstatSession<'_, '_> {
    const SINCE_BOOT: &'static str = "the first report of iostat covers the time since boot";

    /// Settles the first report of the last document; it is kept if it is the only one.
    pub fn finish_log(&mut self) {
        let Some(held) = self.held.take() else { return };
        if self.batch.has_ticks() {
            return self.batch.add_skip(held.context, Self::SINCE_BOOT);
        }
        self.row.replace_values(&held.values);
        let time_ns = held.printed_ns.unwrap_or_else(|| self.counted_time());
        first_report::remark_single_report(self.batch, &held.context, time_ns);
        self.emit_row(time_ns, None);
    }

    /// Holds the first report of a document of iostat until the second shows whether it is since boot.
    fn hold_first_report(&mut self, printed_ns: Option<i64>, context: String) {
        if let Some(held) = self.held.take() {
            self.batch.add_skip(held.context, Self::SINCE_BOOT);
        }
        self.held = Some(HeldReport { values: self.row.take_values(), printed_ns, context });
    }

    /// Keeps or drops the first report, now that the second is in the row.
    fn settle_held_report(&mut self, has_times: bool) {
        let Some(held) = self.held.take() else { return };
        if has_times || !first_report::is_like_next(self.row.series(), &held.values, &self.row.cells) {
            return self.batch.add_skip(held.context, Self::SINCE_BOOT);
        }
        let second = self.row.replace_values(&held.values);
        let time_ns = self.counted_time();
        self.previous_ns = Some(time_ns);
        self.emit_row(time_ns, self.options.interval.map(|step| step.as_nanos() as u64));
        self.row.replace_values(&second);
    }

    fn emit_row(&mut self, time_ns: i64, elapsed_ns: Option<u64>) {
        self.announce_host(time_ns);
        self.row.emit_tick(self.batch, time_ns, elapsed_ns.or(self.counted_length()));
        self.tick_count += 1;
    }

    /// Returns the length of reports that are only counted; `None` if the user gave their interval.
    fn counted_length(&self) -> Option<u64> {
        (self.writer == DocumentWriter::Iostat && self.is_counted).then_some(SECOND_NS.unsigned_abs())
    }

    /// Emits the row with the time of its sample.
    pub fn emit_tick(&mut self, stamp: &[(StampPart, String)], byte_offset: u64) {
        self.host.sample_count += 1;
        let tables = std::mem::take(&mut self.sample_tables);
        if !self.is_chosen_host() {
            return;
        }
        let context = || format!("byte {byte_offset}");
        let is_first = self.writer == DocumentWriter::Iostat && self.host.sample_count == 1;
        let is_dated = stamp.iter().any(|(part, _)| *part == StampPart::Whole);
        let is_held = is_first && !self.options.is_first_report_kept;
        if is_held && !is_dated {
            return self.hold_first_report(None, context());
        }
        self.settle_held_report(is_dated);
        let Some((time_ns, elapsed)) = self.sample_time(stamp) else {
            self.row.clear();
            self.batch.add_skip(context(), "a sample without a readable time");
            return;
        };
        let since = self.previous_ns.map(|before| time_ns.saturating_sub(before)).filter(|since| *since > 0);
        self.previous_ns = Some(time_ns);
        if is_held {
            return self.hold_first_report(Some(time_ns), context());
        }
        self.announce_host(time_ns);
        if self.idle_devices.fill_omitted(&mut self.row, tables) {
            self.batch.push_note(Note::new(time_ns, Note::WARNING, idle_devices::OMITTED_DEVICES_NOTE));
        }
        self.row.emit_tick(self.batch, time_ns, elapsed.or(since.map(i64::unsigned_abs)).or(self.counted_length()));
        self.row.forget_if_sparse();
        self.tick_count += 1;
    }

    /// Returns true if the current sample belongs to the chosen machine; the first machine is chosen by default.
    pub fn is_chosen_host(&mut self) -> bool {
        let chosen = self.chosen_host.get_or_insert_with(|| self.host.name.clone());
        if is_same_host(chosen, &self.host.name) {
            return true;
        }
        self.row.clear();
        self.batch.add_other_host(format!("host {}", self.host.name), &self.host.name);
        false
    }

    fn sample_time(&mut self, stamp: &[(StampPart, String)]) -> Option<(i64, Option<u64>)> {
        let part = |kind: StampPart| stamp.iter().find(|(part, _)| *part == kind).map(|(_, text)| text.clone());
        if self.writer == DocumentWriter::Sadf {
            let has_own_zone = part(StampPart::Zone).is_some();
            let (local, zone, elapsed) = sadf_time(part, &self.host.zone, self.order)?;
            let time_ns = self.clock.utc_ns(local, &zone, self.batch);
            // the zone in the head is that of one date; it changes with summer time
            let is_certain = matches!(zone, ZoneHint::Offset(_)) || has_own_zone && !self.clock.is_one_zone(&zone);
            if is_certain {
                return Some((time_ns, elapsed));
            }
            let local_ns = local.saturating_mul(SECOND_NS);
            return Some((self.daylight.resolve_covering_time(time_ns, local_ns, elapsed, self.batch), elapsed));
        }
        let Some(full_text) = part(StampPart::Whole) else {
            return Some((self.counted_time(), None));
        };
        let quick = time::parse_moment(&full_text, self.order).map(|(local, zone, _)| {
            let zone = zone.map_or(ZoneHint::Missing, ZoneHint::Offset);
            (local, zone)
        });
        let in_locale = || calendar::parse_moment(&full_text, self.order).map(|found| (found.local_s, found.zone));
        let time_of_day =
            |session: &mut Self| session.resolve_time_of_day(&full_text).map(|local| (local, ZoneHint::Missing));
        let (local, zone) = quick.or_else(in_locale).or_else(|| time_of_day(self))?;
        let time_ns = self.clock.utc_ns(local, &zone, self.batch);
        if !self.clock.is_one_zone(&zone) {
            return Some((time_ns, None));
        }
        Some((self.daylight.resolve_time(time_ns, local.saturating_mul(SECOND_NS), self.batch), None))
    }

    /// Resolves a time without a date: it is on the document's date, or a day later for each midnight since.
    fn resolve_time_of_day(&mut self, text: &str) -> Option<i64> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (clock, _) = time::parse_time_of_day(&words)?;
        let first = time::parse_date(&self.host.date, self.order)?.date.days_since_epoch() * DAY_S;
        let day = self.host.midnights * DAY_S + first;
        if self.host.last_clock_s.is_some_and(|last| clock + DAY_S / 2 < last) {
            self.host.midnights += 1;
            self.host.last_clock_s = Some(clock);
            return Some(day + DAY_S + clock);
        }
        self.host.last_clock_s = Some(clock);
        Some(day + clock)
    }

    /// Returns the time of a sample without one: the user's interval after the previous sample, starting at midnight of
    /// the document's date, or without an interval, a second after it, starting in 1970.
    fn counted_time(&mut self) -> i64 {
        let machine = SysstatMachine { date: &self.host.date, ..SysstatMachine::default() };
        let start_ns = self.options.interval.map_or(0, |_| machine.midnight_ns(self.order));
        let step = self.options.interval.unwrap_or(REPORT_STEP).as_nanos().min(i64::MAX as u128) as i64;
        let time_ns = self.previous_ns.map_or(start_ns, |before| before.saturating_add(step));
        if self.previous_ns.is_none() {
            self.is_counted = self.options.interval.is_none();
            let assumed = if self.is_counted { AssumedTimes::Reports } else { AssumedTimes::Counted };
            assumed.note_assumption(self.batch, time_ns);
        }
        time_ns
    }

    /// Emits the machine's topology before the first tick.
    pub fn announce_host(&mut self, time_ns: i64) {
        if self.is_announced {
            return;
        }
        self.is_announced = true;
        self.row.update_row(self.batch);
        let machine = SysstatMachine {
            host: &self.host.name,
            kernel: &self.host.kernel,
            processors: self.host.processors,
            memory_bytes: self.row.series_value(memory::TOTAL_BYTES, ""),
            date: "",
        };
        self.batch.note_days(SysstatMachine::possible_days(&self.host.date, self.order));
        self.batch.push_topology(time_ns, &machine.to_topology());
    }

    /// Adds a note on a restart, whose time is given in parts like that of a sample.
    pub fn note_restart(&mut self, parts: &[(StampPart, String)]) {
        let part = |kind: StampPart| parts.iter().find(|(part, _)| *part == kind).map(|(_, text)| text.clone());
        if let Some((local, zone, _)) = sadf_time(part, &self.host.zone, self.order) {
            let shift_ns = self.daylight.shift_s() * SECOND_NS;
            let time_ns = self.clock.utc_ns(local, &zone, self.batch).saturating_add(shift_ns);
            if self.tick_count > 0 {
                self.batch.push_note(Note::new(time_ns, Note::GAP, SysstatMachine::RESTART_NOTE));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::read_text;

    /// Times of mpstat have no date and no zone.
    #[test]
    fn a_change_to_or_from_summer_time_is_no_gap_and_loses_nothing() {
        for (day, clocks) in [
            ("2026-10-25", ["02:59:50", "02:59:55", "02:00:00", "02:00:05"]),
            ("2026-03-29", ["01:59:50", "01:59:55", "03:00:00", "03:00:05"]),
        ] {
            let sample = |clock: &&str| {
                format!("{{\"timestamp\": \"{clock}\", \"cpu-load\": [{{\"cpu\": \"all\", \"usr\": 20.00}}]}}")
            };
            let samples: Vec<String> = clocks.iter().map(sample).collect();
            let read = read_text(&format!(
                "{{\"sysstat\": {{\"hosts\": [{{\"nodename\": \"db1\", \"release\": \"6.1.0\", \"date\": \"{day}\", \
                 \"statistics\": [{}]}}]}}}}",
                samples.join(", ")
            ));
            let lengths: Vec<u64> = read.ticks.iter().map(|(_, ns)| ns / 1_000_000_000).collect();
            assert_eq!(lengths, [0, 5, 5, 5], "{day}");
        }
    }

    /// Local times of sadf -t and -T, whose zone stands in the head at most.
    #[test]
    fn local_times_of_sadf_keep_over_a_change_to_or_from_summer_time() {
        for (day, clocks) in [
            ("2026-10-25", ["02:40:01", "02:50:01", "02:00:01", "02:10:01"]),
            ("2026-03-29", ["01:40:01", "01:50:01", "03:00:01", "03:10:01"]),
        ] {
            for zone in ["", "\"timezone\": \"CET\", "] {
                let sample = |clock: &&str| {
                    format!(
                        "{{\"timestamp\": {{\"date\": \"{day}\", \"time\": \"{clock}\", \"interval\": 600}}, \
                         \"disk\": [{{\"disk-device\": \"sda\", \"tps\": 5.00}}]}}"
                    )
                };
                let samples: Vec<String> = clocks.iter().map(sample).collect();
                let read = read_text(&format!(
                    "{{\"sysstat\": {{\"hosts\": [{{\"nodename\": \"db1\", \"release\": \"6.1.0\", {zone}\
                     \"file-date\": \"{day}\", \"statistics\": [{}]}}]}}}}",
                    samples.join(", ")
                ));
                let apart: Vec<i64> = read.ticks.windows(2).map(|two| (two[1].0 - two[0].0) / 1_000_000_000).collect();
                assert_eq!(apart, [600; 3], "{day} {zone}: {:?}", read.summary);
            }
        }
    }
}
