//! Waits for sockets, or for a moment, to a few microseconds.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};

use super::ServeError;

/// Source of an event that ends the wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeSource {
    Listener,
    Control,
    FlushDone,
    Timer,
    /// A client, by its slot.
    Client(u32),
    /// A control connection, by its slot.
    ControlConnection(u32),
}

impl WakeSource {
    fn key(self) -> u64 {
        match self {
            WakeSource::Listener => 0,
            WakeSource::Control => 1,
            WakeSource::FlushDone => 2,
            WakeSource::Timer => 3,
            WakeSource::Client(slot) => 1 << 32 | u64::from(slot),
            WakeSource::ControlConnection(slot) => 2 << 32 | u64::from(slot),
        }
    }

    fn from_key(key: u64) -> WakeSource {
        match (key >> 32, key as u32) {
            (1, slot) => WakeSource::Client(slot),
            (2, slot) => WakeSource::ControlConnection(slot),
            (_, 0) => WakeSource::Listener,
            (_, 1) => WakeSource::Control,
            (_, 2) => WakeSource::FlushDone,
            _ => WakeSource::Timer,
        }
    }
}

/// Initial margin: the timer is set this long before the moment, and the rest is spent polling; the
/// margin adapts to how late the kernel wakes.
const INITIAL_MARGIN: Duration = Duration::from_micros(60);
const MIN_MARGIN: Duration = Duration::from_micros(20);
const MAX_MARGIN: Duration = Duration::from_micros(300);

/// A timer that is set at most this much before the wanted time is not set again.
const TIMER_TOLERANCE: Duration = Duration::from_micros(5);

/// Shortest duration of a poll that does not sleep.
const MIN_POLL_TIME: Duration = Duration::from_micros(1);

/// Largest number of events that one poll returns.
const MAX_EVENTS: usize = 256;

/// Step by which the estimate of the usual lateness follows each observation.
const LATENESS_STEP: Duration = Duration::from_nanos(500);
/// Upper limit of that estimate.
const MAX_USUAL_LATENESS: Duration = Duration::from_micros(100);

/// Waits for events and moments.
pub struct EventWaiter {
    epoll: OwnedFd,
    timer: OwnedFd,
    /// Time at which the timer fires, if it is set.
    timer_time: Option<Instant>,
    margin: Duration,
    /// It polls and never sleeps.
    never_sleeps: bool,
    /// Usual lateness of the kernel's wake-ups: a running estimate of the median.
    usual_lateness: Duration,
    events: Vec<Event>,
}

fn kernel_error(operation: &'static str) -> impl Fn(rustix::io::Errno) -> ServeError {
    move |error| ServeError::Kernel { operation, error: error.into() }
}

impl EventWaiter {
    /// Creates a waiter and raises the priority of this thread; with `never_sleeps` it polls
    /// instead of sleeping.
    pub fn new(never_sleeps: bool) -> Result<EventWaiter, ServeError> {
        // the default timer slack of 50 us is as much as the whole wait may be late
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        // a disk does not wait for programs; without the privilege the server runs at ordinary
        // priority
        let _ = rustix::process::setpriority_process(None, -15);
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(kernel_error("epoll"))?;
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags).map_err(kernel_error("timerfd"))?;
        let events = Vec::with_capacity(MAX_EVENTS);
        let waiter = EventWaiter {
            epoll,
            timer,
            timer_time: None,
            margin: INITIAL_MARGIN,
            never_sleeps,
            usual_lateness: Duration::ZERO,
            events,
        };
        waiter.watch_input(&waiter.timer, WakeSource::Timer)?;
        Ok(waiter)
    }

    /// Starts watching a socket for input.
    pub fn watch_input(&self, fd: impl AsFd, source: WakeSource) -> Result<(), ServeError> {
        epoll::add(&self.epoll, fd, EventData::new_u64(source.key()), EventFlags::IN).map_err(kernel_error("epoll"))
    }

    /// Changes the events that a socket is watched for.
    pub fn change_events(&self, fd: impl AsFd, source: WakeSource, (input, output): (bool, bool)) {
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN, input);
        flags.set(EventFlags::OUT, output);
        // the socket is registered, so this fails only for lack of memory; then the events stay as
        // they were
        let _ = epoll::modify(&self.epoll, fd, EventData::new_u64(source.key()), flags);
    }

    /// Waits up to `until` for an event; `exactly` if it is worth polling at the end. Returns how
    /// long ago the events are likely to have happened, because a sleeping process learns of them
    /// late.
    pub fn wait_for_events(
        &mut self,
        until: Duration,
        exactly: bool,
        wake_events: &mut Vec<(WakeSource, EventFlags)>,
    ) -> Duration {
        wake_events.clear();
        let start = Instant::now();
        let sleep_time = match (self.never_sleeps, exactly) {
            (true, _) => Duration::ZERO,
            (false, true) => until.saturating_sub(self.margin),
            (false, false) => until,
        };
        let timeout = match (sleep_time.is_zero(), exactly) {
            (true, _) => Some(Timespec { tv_sec: 0, tv_nsec: 0 }),
            (false, true) if self.set_timer(start, sleep_time) => None,
            // milliseconds are exact enough here
            (false, _) => Timespec::try_from(sleep_time).ok(),
        };
        self.events.clear();
        // if a signal interrupts it, the caller checks whether to stop
        let _ = epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), timeout.as_ref());
        wake_events.extend(self.events.iter().map(|event| (WakeSource::from_key(event.data.u64()), event.flags)));
        if let Some(index) = wake_events.iter().position(|(source, _)| *source == WakeSource::Timer) {
            wake_events.swap_remove(index);
            self.record_timer_lateness(exactly);
        }
        // events that were already pending were found at once
        if sleep_time.is_zero() {
            Duration::ZERO
        } else {
            start.elapsed().saturating_sub(MIN_POLL_TIME).min(self.usual_lateness)
        }
    }

    /// Sets the timer to fire `wait` after `now`; returns false if that fails.
    fn set_timer(&mut self, now: Instant, wait: Duration) -> bool {
        let time = now + wait;
        if self.timer_time.is_some_and(|current| current <= time && time - current < TIMER_TOLERANCE) {
            return true;
        }
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let wait_spec = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
        let setting = Itimerspec { it_interval: zero, it_value: wait_spec };
        self.timer_time =
            rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &setting).ok().map(|_| time);
        self.timer_time.is_some()
    }

    /// Records how late the kernel woke this thread.
    fn record_timer_lateness(&mut self, exactly: bool) {
        let mut expirations = [0; 8];
        let _ = rustix::io::read(&self.timer, &mut expirations);
        let Some(timer_time) = self.timer_time.take() else { return };
        if exactly {
            let lateness = timer_time.elapsed();
            self.usual_lateness = if lateness > self.usual_lateness {
                self.usual_lateness + LATENESS_STEP
            } else {
                self.usual_lateness.saturating_sub(LATENESS_STEP)
            };
            self.usual_lateness = self.usual_lateness.min(MAX_USUAL_LATENESS);
            let lateness = lateness.clamp(MIN_MARGIN, MAX_MARGIN);
            // increase the margin fast and decrease it slowly: being late costs more than polling
            self.margin = match lateness > self.margin {
                true => self.margin + (lateness - self.margin) / 4,
                false => self.margin - (self.margin - lateness) / 64,
            };
        }
    }
}
