//! Session of the readers of JSON and XML: times of samples, the machine they belong to, and restarts.

use diskwright_base::Note;
use diskwright_base::text::is_same_host;

use super::calendar;
use super::clock::{SysstatClock, ZoneHint};
use super::idle::{self, IdleDevices, TABLES};
use super::machine::SysstatMachine;
use super::shaper::Shaper;
use super::template::StampPart;
use super::time::{self, DAY, NumericDateOrder};
use crate::batch::FrameBatch;
use crate::daylight::DaylightClock;
use crate::error::LogError;
use crate::{LogOptions, TimeBasis};

const S: i64 = 1_000_000_000;

/// Returns the time of a sadf sample from its parts: local seconds, zone, and the time that it covers.
pub fn sadf_time(
    part: impl Fn(StampPart) -> Option<String>,
    zone: &str,
    order: time::NumericDateOrder,
) -> Option<(i64, ZoneHint, Option<u64>)> {
    let date = time::date(&part(StampPart::Date)?, order)?.date;
    let clock = part(StampPart::Time)?;
    let words: Vec<&str> = clock.split_whitespace().collect();
    let (clock, _) = time::time_of_day(&words)?;
    let hint = match (part(StampPart::Utc).as_deref(), part(StampPart::Zone).as_deref()) {
        (Some("1"), _) | (_, Some("UTC")) => ZoneHint::Offset(0),
        (_, Some(name)) => ZoneHint::Name(name.to_owned()),
        _ if !zone.is_empty() => ZoneHint::Name(zone.to_owned()),
        _ => ZoneHint::Nothing,
    };
    let interval = part(StampPart::Interval).and_then(|i| i.trim().parse::<u64>().ok());
    let elapsed = interval.filter(|i| (1..=31_536_000).contains(i)).map(|i| i * S as u64);
    Some((date.days() * DAY + clock, hint, elapsed))
}

/// Tool that wrote the documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentWriter {
    /// sadf: each sample has its date, time and interval.
    Sadf,
    /// iostat: the first sample covers the time since boot.
    Iostat,
    /// mpstat: no sample since boot, times without a date.
    Mpstat,
}

/// Contents of a host's head.
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
    /// Zone of the document, where it names one.
    pub zone: String,
    /// Number of samples of this document so far.
    samples: u64,
    /// Days since the document's date, for times without one …
    midnights: i64,
    /// … and the last of these times, seconds of the day.
    last_clock: Option<i64>,
}

/// Tracks time and machine, and emits rows.
pub struct SysstatSession<'b, 'c> {
    file: String,
    /// Receives the ticks.
    pub batch: &'c mut FrameBatch<'b>,
    options: &'c LogOptions,
    writer: DocumentWriter,
    clock: SysstatClock,
    daylight: DaylightClock,
    order: NumericDateOrder,
    /// Machine whose samples are being read.
    pub host: HostHead,
    /// Machine that is to be read.
    chosen: Option<String>,
    /// Row of the current sample.
    pub shaper: Shaper,
    idle: IdleDevices,
    /// Tables of devices that are in this sample.
    pub tables: [bool; TABLES],
    /// Time of the previous sample of this document.
    before_ns: Option<i64>,
    is_announced: bool,
    /// Number of heads of hosts that were read.
    documents: u64,
    /// Number of samples emitted.
    pub ticks: u64,
}

impl<'b, 'c> SysstatSession<'b, 'c> {
    /// Makes a session that knows nothing of the machine yet.
    pub fn new(
        file: &str,
        batch: &'c mut FrameBatch<'b>,
        options: &'c LogOptions,
        order: NumericDateOrder,
        writer: DocumentWriter,
    ) -> SysstatSession<'b, 'c> {
        SysstatSession {
            file: file.to_owned(),
            batch,
            options,
            writer,
            clock: SysstatClock::new(options),
            daylight: DaylightClock::default(),
            order,
            host: HostHead::default(),
            chosen: options.host.clone(),
            shaper: Shaper::new(),
            idle: IdleDevices::default(),
            tables: [false; TABLES],
            before_ns: None,
            is_announced: false,
            documents: 0,
            ticks: 0,
        }
    }

    /// Reads a string of a host's head.
    pub fn head(&mut self, key: &str, text: &str) {
        match key {
            "nodename" => {
                self.host = HostHead { name: text.to_owned(), ..HostHead::default() };
                self.before_ns = None;
                self.documents += 1;
                self.idle.begin();
                if self.writer == DocumentWriter::Sadf {
                    // another document may cover the same hours
                    self.daylight.forget();
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

    /// Returns an error with advice where there was only one report.
    pub fn end(&self) -> Result<(), LogError> {
        if self.writer == DocumentWriter::Iostat && self.ticks == 0 && self.host.samples == 1 {
            let because = SysstatMachine::since_boot(self.documents, "report", "iostat -t -x -o JSON 10 > FILE");
            return Err(LogError::Empty { file: self.file.clone(), because });
        }
        Ok(())
    }

    /// Emits the row with the time of its sample.
    pub fn tick(&mut self, stamp: &[(StampPart, String)], byte_offset: u64) -> Result<(), LogError> {
        self.host.samples += 1;
        let tables = std::mem::take(&mut self.tables);
        if !self.is_of_host() {
            return Ok(());
        }
        let context = || format!("byte {byte_offset}");
        let is_first = self.writer == DocumentWriter::Iostat && self.host.samples == 1;
        let is_dated = stamp.iter().any(|(part, _)| *part == StampPart::Whole);
        if is_first && !is_dated {
            // it is left out, so its time is not needed
            self.shaper.clear();
            self.batch.skip(context(), Self::SINCE_BOOT);
            return Ok(());
        }
        let Some((time_ns, elapsed)) = self.time(stamp, byte_offset)? else {
            self.shaper.clear();
            self.batch.skip(context(), "a sample without a readable time");
            return Ok(());
        };
        let since = self.before_ns.map(|before| time_ns.saturating_sub(before)).filter(|since| *since > 0);
        self.before_ns = Some(time_ns);
        if is_first {
            self.shaper.clear();
            self.batch.skip(context(), Self::SINCE_BOOT);
            return Ok(());
        }
        self.announce(time_ns);
        if self.idle.fill(&mut self.shaper, tables) {
            self.batch.note(Note::new(time_ns, Note::WARNING, idle::TOLD));
        }
        self.shaper.emit(self.batch, time_ns, elapsed.or(since.map(i64::unsigned_abs)));
        self.shaper.tidy();
        self.ticks += 1;
        Ok(())
    }

    /// Returns true for samples of the machine that is read.
    pub fn is_of_host(&mut self) -> bool {
        let chosen = self.chosen.get_or_insert_with(|| self.host.name.clone());
        if is_same_host(chosen, &self.host.name) {
            return true;
        }
        self.shaper.clear();
        self.batch.skip_host(format!("host {}", self.host.name), &self.host.name);
        false
    }

    fn time(
        &mut self,
        stamp: &[(StampPart, String)],
        byte_offset: u64,
    ) -> Result<Option<(i64, Option<u64>)>, LogError> {
        let part = |wanted: StampPart| stamp.iter().find(|(part, _)| *part == wanted).map(|(_, text)| text.clone());
        if self.writer == DocumentWriter::Sadf {
            let is_beside = part(StampPart::Zone).is_some();
            let Some((local, zone, elapsed)) = sadf_time(part, &self.host.zone, self.order) else { return Ok(None) };
            let time_ns = self.clock.utc_ns(local, &zone, self.batch);
            // the zone in the head holds for one half of the year only
            let is_certain = matches!(zone, ZoneHint::Offset(_)) || is_beside && !self.clock.is_one_zone(&zone);
            if is_certain {
                return Ok(Some((time_ns, elapsed)));
            }
            let local_ns = local.saturating_mul(S);
            return Ok(Some((self.daylight.place_covering(time_ns, local_ns, elapsed, self.batch), elapsed)));
        }
        let Some(full_text) = part(StampPart::Whole) else {
            return self.counted_time(byte_offset).map(|time| Some((time, None)));
        };
        let quick = time::moment(&full_text, self.order).map(|(local, zone, _)| {
            let zone = zone.map_or(ZoneHint::Nothing, ZoneHint::Offset);
            (local, zone)
        });
        let of_locale = || calendar::moment(&full_text, self.order).map(|found| (found.local, found.zone));
        let of_clock = |session: &mut Self| session.time_of_day(&full_text).map(|local| (local, ZoneHint::Nothing));
        let Some((local, zone)) = quick.or_else(of_locale).or_else(|| of_clock(self)) else { return Ok(None) };
        let time_ns = self.clock.utc_ns(local, &zone, self.batch);
        if !self.clock.is_one_zone(&zone) {
            return Ok(Some((time_ns, None)));
        }
        Ok(Some((self.daylight.place(time_ns, local.saturating_mul(S), self.batch), None)))
    }

    /// Resolves a time without a date: the document's date, a day later for each midnight.
    fn time_of_day(&mut self, text: &str) -> Option<i64> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (clock, _) = time::time_of_day(&words)?;
        let first = time::date(&self.host.date, self.order)?.date.days() * DAY;
        let day = self.host.midnights * DAY + first;
        if self.host.last_clock.is_some_and(|last| clock + DAY / 2 < last) {
            self.host.midnights += 1;
            self.host.last_clock = Some(clock);
            return Some(day + DAY + clock);
        }
        self.host.last_clock = Some(clock);
        Some(day + clock)
    }

    /// Returns the time of a sample without one: the user's interval after the previous sample, starting at midnight of
    /// the document's date.
    fn counted_time(&mut self, byte_offset: u64) -> Result<i64, LogError> {
        let machine = SysstatMachine { date: &self.host.date, ..SysstatMachine::default() };
        let first = self.before_ns.is_none();
        if self.options.interval.is_none() {
            return Err(SysstatMachine::needs_interval(&self.file, &format!("byte {byte_offset}")));
        }
        let start = machine.midnight_ns(self.order);
        let step = self.options.interval.map_or(0, |i| i.as_nanos().min(i64::MAX as u128) as i64);
        let time = self.before_ns.map_or(start, |before| before.saturating_add(step));
        if first {
            self.batch.note(Note::new(time, Note::WARNING, SysstatMachine::ASSUMED));
            self.batch.times_are(TimeBasis::Counted);
        }
        Ok(time)
    }

    /// Emits the machine's topology before the first tick.
    pub fn announce(&mut self, time_ns: i64) {
        if self.is_announced {
            return;
        }
        self.is_announced = true;
        self.shaper.settle(self.batch);
        let machine = SysstatMachine {
            host: &self.host.name,
            kernel: &self.host.kernel,
            processors: self.host.processors,
            memory_bytes: self.shaper.value("memory.total_bytes", ""),
            date: "",
        };
        self.batch.topology(time_ns, &machine.topology());
    }

    /// Notes a restart, whose time is given in parts like a sample's.
    pub fn restart(&mut self, parts: &[(StampPart, String)]) {
        let part = |wanted: StampPart| parts.iter().find(|(part, _)| *part == wanted).map(|(_, text)| text.clone());
        if let Some((local, zone, _)) = sadf_time(part, &self.host.zone, self.order) {
            let shift_ns = self.daylight.shift_s() * S;
            let time_ns = self.clock.utc_ns(local, &zone, self.batch).saturating_add(shift_ns);
            if self.ticks > 0 {
                self.batch.note(Note::new(time_ns, Note::GAP, SysstatMachine::RESTARTED));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::run;

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
            let read = run(&format!(
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
                let read = run(&format!(
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
