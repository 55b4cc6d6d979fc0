//! Ticking on this machine: the pace, and stopping in order when told to.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rustix::thread::nanosleep;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::Failure;

/// Wakes at each tick, counted from the start so that it does not drift, until
/// the time is up or a signal asks to stop.
pub struct Pacer {
    every: Duration,
    start: Instant,
    ends: Option<Duration>,
    ticks: u32,
    stop: Arc<AtomicBool>,
}

impl Pacer {
    /// A pacer that has not ticked yet; `lasts` is `None` for ever.
    pub fn new(every: Duration, lasts: Option<Duration>) -> Result<Pacer, Failure> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&stop))?;
        }
        Ok(Pacer { every, start: Instant::now(), ends: lasts, ticks: 0, stop })
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// True when a signal asked to stop.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Sleeps until the next tick is due; false when there is none. A tick
    /// that was missed (a stopped process, a sleeping machine) is skipped,
    /// not made up for.
    pub fn wait(&mut self, mut meanwhile: impl FnMut(Duration)) -> bool {
        let due = self.due();
        if self.ends.is_some_and(|ends| due > ends) {
            return false;
        }
        loop {
            let now = self.elapsed();
            if self.is_stopped() {
                return false;
            }
            if now >= due {
                return true;
            }
            // short naps: a signal that arrives just before the sleep is seen soon
            let nap = (due - now).min(Duration::from_millis(500));
            if let Ok(nap) = nap.try_into() {
                // woken by a signal or done, the loop looks again
                let _ = nanosleep(&nap);
            }
            meanwhile(self.elapsed());
        }
    }

    fn due(&mut self) -> Duration {
        let passed = (self.elapsed().as_secs_f64() / self.every.as_secs_f64()).floor();
        self.ticks = (self.ticks + 1).max(passed as u32);
        self.every * self.ticks
    }
}

/// A bar on standard error while something is watched; nothing where that is
/// no terminal.
pub fn progress(lasts: Option<Duration>, message: String) -> ProgressBar {
    let (bar, template) = match lasts {
        Some(lasts) => (ProgressBar::new(lasts.as_secs().max(1)), "{msg} {wide_bar} {pos}/{len} s"),
        None => (ProgressBar::no_length(), "{spinner} {msg} {elapsed}"),
    };
    // the target hides itself where standard error is no terminal
    bar.set_draw_target(ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_message(message);
    bar
}
