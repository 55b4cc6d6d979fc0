//! Sampling this machine: the pace, and a clean stop on signals.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use diskwright_base::Note;
use diskwright_base::units::format_count;
use diskwright_counters::live::Sampler;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rustix::thread::nanosleep;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM};

use super::{Failure, first_given_option, output, time_argument};

/// Wakes at each tick until the time is up or a signal asks to stop. Ticks are counted from the start, so that they do
/// not drift.
pub struct Pacer {
    interval: Duration,
    start: Instant,
    duration: Option<Duration>,
    ticks: u32,
    /// Ticks that were late by a whole interval or more.
    late_ticks: u64,
    /// Ticks that were due and were not taken.
    missed_ticks: u64,
    /// Those of them that notes name, and the time of the last such note.
    noted_missed: (u64, Option<Duration>),
    stop: Arc<AtomicBool>,
    /// Set by SIGCONT: this process had been stopped.
    continued: Arc<AtomicBool>,
    /// Largest time since the last tick by which a nap lasted longer than requested.
    overslept: Duration,
    /// True if the process was stopped during the previous tick, so the next one has no valid beginning.
    is_torn: bool,
}

/// Sleeps; a signal ends the sleep early, so that the caller can check whether to stop.
pub fn sleep_interruptibly(time: Duration) {
    let (seconds, nanoseconds) = (time.as_secs().try_into().unwrap_or(i64::MAX), time.subsec_nanos().into());
    let _ = nanosleep(&rustix::thread::Timespec { tv_sec: seconds, tv_nsec: nanoseconds });
}

/// A process that wakes this much later than requested had been stopped.
const STOPPED_PROCESS_DELAY: Duration = Duration::from_secs(5);
/// Shortest time between two notes about missed ticks.
const MISSED_NOTE_INTERVAL: Duration = Duration::from_secs(60);
/// A tick that is this late is reported, whatever the reason.
const REPORTED_DELAY: Duration = Duration::from_secs(10);

impl Pacer {
    /// Creates a pacer that has not ticked yet; `duration` is `None` to run for ever.
    pub fn new(interval: Duration, duration: Option<Duration>) -> Result<Pacer, Failure> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&stop))?;
        }
        let continued = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGCONT, Arc::clone(&continued))?;
        let (start, overslept) = (Instant::now(), Duration::ZERO);
        Ok(Pacer {
            interval,
            start,
            duration,
            ticks: 0,
            late_ticks: 0,
            missed_ticks: 0,
            noted_missed: (0, None),
            stop,
            continued,
            overslept,
            is_torn: false,
        })
    }

    /// Sets the first tick to now, so that preparation since the creation does not count.
    pub fn reset_start(&mut self) {
        self.start = Instant::now();
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Ticks that were late by a whole interval or more.
    pub fn late_ticks(&self) -> u64 {
        self.late_ticks
    }

    /// Ticks that were due while the machine ran, and were not taken because this process did not run in time.
    pub fn missed_ticks(&self) -> u64 {
        self.missed_ticks
    }

    /// Returns the text of a [`Note::MISSED`] about the missed ticks that no note names yet, if there are any.
    pub fn take_missed_text(&mut self) -> Option<String> {
        let now = self.elapsed();
        let (noted, _) = std::mem::replace(&mut self.noted_missed, (self.missed_ticks, Some(now)));
        let missed = self.missed_ticks - noted;
        let ticks = format_count(missed, "tick was", "ticks were");
        let reason = "this process was stopped or got no processor in time";
        (missed > 0).then(|| format!("{ticks} due while the machine ran, and missed: {reason}"))
    }

    /// Notes missed ticks at the last tick, at most once a minute: a busy machine may miss some at every moment.
    fn note_missed_ticks(&mut self, sampler: &mut Sampler) {
        let is_due = self.noted_missed.1.is_none_or(|last| self.elapsed().saturating_sub(last) >= MISSED_NOTE_INTERVAL);
        if self.missed_ticks > self.noted_missed.0 && is_due {
            let text = self.take_missed_text();
            text.into_iter().for_each(|text| sampler.add_note(Note::MISSED, text));
        }
    }

    /// True if a signal asked to stop.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Sleeps until the next tick is due; false if there is none. A missed tick (a stopped process, a sleeping machine)
    /// is skipped, not made up for.
    pub fn wait_for_tick(&mut self, mut on_wake: impl FnMut(Duration)) -> bool {
        let previous_due = self.interval * self.ticks;
        let due = self.next_due();
        let limited = |end| due_within_limit(end, self.interval, (previous_due, due), self.elapsed());
        let Some(due) = self.duration.map_or(Some(due), limited) else { return false };
        loop {
            let now = self.elapsed();
            if self.is_stopped() {
                return false;
            }
            if now >= due {
                return true;
            }
            // short naps: a signal that arrives just before the sleep is noticed soon
            let nap = (due - now).min(Duration::from_millis(500));
            if let Ok(nap) = nap.try_into() {
                // woken by a signal or done: the loop checks again
                let _ = nanosleep(&nap);
            }
            self.overslept = self.overslept.max((self.elapsed() - now).saturating_sub(nap));
            on_wake(self.elapsed());
        }
    }

    /// Samples the first tick. Returns false if a signal asked to stop before it was complete.
    pub fn sample_first_tick(&self, sampler: &mut Sampler) -> bool {
        sampler.tick_while(&|| !self.is_stopped())
    }

    /// Samples a tick. If this process did not run (stopped, frozen), the tick is marked as a gap: its cells would be
    /// averages over all that time.
    ///
    /// Returns false if a signal asked to stop before the tick was complete; then it is lost.
    pub fn sample_tick(&mut self, sampler: &mut Sampler) -> bool {
        let before = self.elapsed();
        if !sampler.tick_while(&|| !self.is_stopped()) {
            return false;
        }
        self.note_missed_ticks(sampler);
        let took = self.elapsed() - before;
        let was_stopped = self.continued.swap(false, Ordering::Relaxed)
            || std::mem::take(&mut self.overslept) >= STOPPED_PROCESS_DELAY.max(self.interval * 5);
        let stamp = sampler.tick_stamp();
        let covered = Duration::from_nanos(stamp.elapsed_ns);
        let is_long = covered >= self.interval * 2;
        self.late_ticks += u64::from(is_long);
        // stopped while sampling: some cells of this tick are from before, some from after
        let is_torn = was_stopped && took >= self.interval;
        let was_torn = std::mem::replace(&mut self.is_torn, is_torn);
        let is_gap = was_stopped && is_long || is_torn || was_torn;
        if !is_gap && covered < REPORTED_DELAY.max(self.interval * 10) {
            return true;
        }
        let (begin, end) = (time_argument::rfc3339(stamp.start_ns()), time_argument::rfc3339(stamp.time_ns));
        let seconds = covered.as_secs_f64();
        let reason = if is_gap {
            "this process was stopped"
        } else {
            "this process was delayed; the values are means over that time"
        };
        sampler.mark_gap(format!("no sample from {begin} to {end} ({seconds:.1} s): {reason}"), is_gap);
        true
    }

    fn next_due(&mut self) -> Duration {
        // the clock of `elapsed` stands still while the machine sleeps
        let passed = count_intervals(self.elapsed(), self.interval);
        let next = self.ticks.saturating_add(1);
        self.missed_ticks += missed_ticks(next, passed, self.duration.map(|end| count_intervals(end, self.interval)));
        self.ticks = next.max(passed);
        self.interval * self.ticks
    }
}

/// Number of whole intervals in a time.
fn count_intervals(time: Duration, interval: Duration) -> u32 {
    (time.as_secs_f64() / interval.as_secs_f64()).floor() as u32
}

/// Number of ticks from `next` on that are passed over for the one at `passed`; none after the `last`.
fn missed_ticks(next: u32, passed: u32, last: Option<u32>) -> u64 {
    let end = last.map_or(passed, |last| passed.min(last.saturating_add(1)));
    u64::from(end.saturating_sub(next))
}

/// Time of the tick that would be due at `due`, after one that was due at `previous_due`; `None` if the time is up. The
/// remainder of a time that is not a multiple of the interval is a shorter tick, unless it is too short to be useful.
fn due_within_limit(
    end: Duration,
    interval: Duration,
    (previous_due, due): (Duration, Duration),
    now: Duration,
) -> Option<Duration> {
    if due <= end {
        return Some(due);
    }
    let remainder = end.saturating_sub(previous_due);
    (now < end && !remainder.is_zero() && remainder >= interval / 10).then_some(end)
}

/// Refuses options for watching this machine if a log or a store is read, where they would have no effect. Each option
/// is paired with whether it was given.
pub fn refuse_live_options(options: &[(&str, bool)]) -> Result<(), Failure> {
    let Some(option) = first_given_option(options) else { return Ok(()) };
    Err(Failure::Usage(format!(
        "{option} goes with this machine, not with what was recorded; for a stretch of that, use --from and --to"
    )))
}

/// Progress bar on standard error while watching; hidden if that is not a terminal.
pub fn watch_progress_bar(duration: Option<Duration>, message: String) -> ProgressBar {
    let (bar, template) = match duration {
        Some(duration) => (ProgressBar::new(duration.as_secs().max(1)), "{msg} {wide_bar} {pos}/{len} s"),
        None => (ProgressBar::no_length(), "{spinner} {msg} {elapsed}"),
    };
    // the draw target hides itself if standard error is not a terminal
    bar.set_draw_target(ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_message(diskwright_base::text::printable_line(&message).into_owned());
    output::print_above_bar(&bar);
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_passed_over_are_missed_up_to_the_end() {
        assert_eq!(missed_ticks(11, 11, None), 0, "on time");
        assert_eq!(missed_ticks(11, 5, None), 0, "early");
        // stopped from tick 10 to second 25.5: ticks 11 to 24 were passed over
        assert_eq!(missed_ticks(11, 25, None), 14);
        // the recording was to end at tick 20
        assert_eq!(missed_ticks(11, 25, Some(20)), 10);
        assert_eq!(missed_ticks(21, 25, Some(20)), 0);
    }

    #[test]
    fn last_tick_is_shorter_if_the_time_is_no_multiple_of_the_interval() {
        let ms = Duration::from_millis;
        // interval, duration, and the times of the ticks after the first at 0
        let cases: [(u64, u64, &[u64]); 5] = [
            (3000, 10_000, &[3000, 6000, 9000, 10_000]),
            (1000, 3000, &[1000, 2000, 3000]),
            (1000, 2001, &[1000, 2000]),
            (1000, 400, &[400]),
            (1000, 0, &[]),
        ];
        for (every, lasts, expected) in cases {
            let tick = |number: u32| {
                let (before, due) = (ms(every) * number, ms(every) * (number + 1));
                due_within_limit(ms(lasts), ms(every), (before, due), before)
            };
            let ticks: Vec<Duration> = (0..4).map_while(tick).collect();
            assert_eq!(ticks, expected.iter().map(|time| ms(*time)).collect::<Vec<_>>(), "{every} ms, {lasts} ms");
        }
        // the previous tick took longer than the time that was left
        assert_eq!(due_within_limit(ms(2500), ms(1000), (ms(2000), ms(3000)), ms(3100)), None);
    }
}
