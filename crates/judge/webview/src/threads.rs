//! Background threads that make overviews, and the frames of live hosts.

use std::collections::HashSet;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use diskwright_httpserver::StreamHub;
use rustix::process::setpriority_process;
use rustix::thread::gettid;

use crate::host_state::HostState;

/// Largest number of overviews in memory.
const MAX_OVERVIEWS: usize = 6;
/// Niceness of the threads: recording has priority.
const NICENESS: i32 = 5;
/// Interval at which hosts whose logs have ended are checked.
const WAKE_INTERVAL: Duration = Duration::from_secs(2);
/// Shortest and longest pause between frames of a live host.
const FRAME_PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(60));

/// Requests a host's overview, unless it exists or was requested already.
pub fn request_overview(begin: &Sender<usize>, host: &HostState, id: usize) {
    if host.try_begin() && begin.send(id).is_err() {
        host.set_fault(Some("this server ends".into()));
    }
}

/// The hosts, for as long as the server serves them.
pub type HostList = Weak<Vec<Arc<HostState>>>;

/// Makes overviews one after another as they are requested, and verdicts for the list of hosts when idle.
pub fn make_overviews(requests: &Receiver<usize>, hosts: &HostList, hub: &StreamHub) {
    let _ = setpriority_process(Some(gettid()), NICENESS);
    let (mut loaded, mut live, mut last_check): (Vec<usize>, HashSet<usize>, _) =
        (Vec::new(), HashSet::new(), Instant::now());
    loop {
        let next = requests.recv_timeout(Duration::from_millis(300));
        let Some(hosts) = hosts.upgrade() else { return };
        if last_check.elapsed() >= WAKE_INTERVAL {
            last_check = Instant::now();
            for id in resumed_hosts(&hosts, &live) {
                start_frame_thread(id, &Arc::downgrade(&hosts), hub);
                live.insert(id);
                loaded.retain(|known| *known != id);
            }
        }
        let id = match next {
            Ok(id) => id,
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                let unjudged = || hosts.iter().find(|host| host.is_unjudged());
                if let Some(host) = unjudged().filter(|_| hosts.len() > 1) {
                    host.judge_whole_log();
                }
                continue;
            }
        };
        let Some(host) = hosts.get(id) else { continue };
        if host.source.is_live() {
            if live.insert(id) {
                start_frame_thread(id, &Arc::downgrade(&hosts), hub);
            }
            continue;
        }
        let fault = host.read().err();
        let is_read = fault.is_none();
        host.record_read(fault);
        if !is_read {
            continue;
        }
        loaded.retain(|known| *known != id);
        loaded.push(id);
        if loaded.len() > MAX_OVERVIEWS {
            let oldest = loaded.remove(0);
            if let Some(host) = hosts.get(oldest) {
                host.forget_overview();
            }
        }
    }
}

/// Viewed hosts whose log had ended and is recorded again.
fn resumed_hosts(hosts: &[Arc<HostState>], live: &HashSet<usize>) -> Vec<usize> {
    let is_known = |(id, host): &(usize, &Arc<HostState>)| host.is_read() && !live.contains(id);
    let has_resumed = |host: &HostState| host.refresh().is_ok() && host.is_live();
    hosts.iter().enumerate().filter(is_known).filter(|(_, host)| has_resumed(host)).map(|(id, _)| id).collect()
}

/// Starts the thread that makes a live host's frames.
fn start_frame_thread(id: usize, hosts: &HostList, hub: &StreamHub) {
    let (hosts, hub) = (hosts.clone(), hub.clone());
    let spawned = std::thread::Builder::new().name("frames".into()).spawn(move || {
        let _ = setpriority_process(Some(gettid()), NICENESS);
        let Some(host_list) = hosts.upgrade() else { return };
        let Some(host) = host_list.get(id).cloned() else { return };
        drop(host_list);
        let mut viewer = host.frame_viewer();
        while hosts.strong_count() > 0 {
            let start = Instant::now();
            match host.next_frame(&mut viewer) {
                Ok(frame) => {
                    host.set_fault(None);
                    frame.into_iter().for_each(|event| hub.publish_event(id, event));
                }
                Err(reason) => host.set_fault(Some(reason)),
            }
            let interval = Duration::from_nanos(host.source.interval_ns().unsigned_abs());
            // four checks per interval, so that a tick is shown soon after it came
            let pause = (interval / 4).clamp(FRAME_PAUSES.0, FRAME_PAUSES.1).saturating_sub(start.elapsed());
            std::thread::park_timeout(pause.max(Duration::from_millis(20)));
        }
    });
    // if the thread could not be started there is no stream, and the page shows that
    drop(spawned);
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, mpsc};

    use diskwright_base::{Note, Schema, Series, Tick};
    use diskwright_dashboard::{History, Panels, RecentHistory};
    use diskwright_diagnosis::packs;
    use diskwright_report::heat_map::HeatChart;
    use serde_json::Value;

    use super::*;
    use crate::{HostSource, Stretch, WebSettings};

    /// A host whose store is unavailable at first.
    #[derive(Default)]
    struct AwayAtFirst {
        tries: Arc<Mutex<Vec<Instant>>>,
        fails: usize,
        /// End times of ticks, in the order in which they came.
        seconds: Arc<Mutex<Vec<i64>>>,
        notes: Arc<Mutex<Vec<Note>>>,
        /// Number of calls of `is_live`.
        live_asked: Arc<Mutex<usize>>,
    }

    impl HostSource for AwayAtFirst {
        fn name(&self) -> String {
            "db1".into()
        }
        fn prepare(&self) -> Result<(), String> {
            let mut tries = self.tries.lock().unwrap();
            tries.push(Instant::now());
            if tries.len() > self.fails { Ok(()) } else { Err("the store does not answer".into()) }
        }
        fn history(&self) -> Result<Box<dyn History + '_>, String> {
            let series = Series { counter: "physical_disk.reads".into(), instance: "sda".into(), scale: 1.0 };
            let (schema, mut history) = (Arc::new(Schema::new(vec![series])), RecentHistory::new(1 << 20));
            for second in self.seconds.lock().unwrap().iter() {
                let tick = Tick { time_ns: second * 1_000_000_000, elapsed_ns: 1_000_000_000 };
                history.push(&schema, tick, &[1.0]);
            }
            self.notes.lock().unwrap().iter().for_each(|note| history.add_note(note.clone()));
            Ok(Box::new(history))
        }
        fn refresh(&self) -> Result<(), String> {
            Ok(())
        }
        fn is_live(&self) -> bool {
            *self.live_asked.lock().unwrap() += 1;
            false
        }
        fn interval_ns(&self) -> i64 {
            1_000_000_000
        }
        fn can_set_bookmarks(&self) -> bool {
            false
        }
        fn set_bookmark(&self, _: i64, _: &str) -> Result<(), String> {
            Err("read-only".into())
        }
        fn report_page(&self, _: Stretch) -> Result<String, String> {
            Err("none".into())
        }
        fn heat_charts(&self, _: Stretch) -> Result<Vec<HeatChart>, String> {
            Err("none".into())
        }
        fn compare_stretches(&self, _: Stretch, _: Stretch) -> Result<Value, String> {
            Err("none".into())
        }
    }

    fn state(source: AwayAtFirst) -> HostState {
        let pack = packs::builtin_pack("default").unwrap().unwrap();
        let settings = WebSettings { panels: Panels::builtin(), pack, ceilings: Vec::new(), version: String::new() };
        HostState::new(Box::new(source), Arc::new(settings))
    }

    #[test]
    fn a_clock_that_is_set_back_makes_the_overview_anew() {
        let seconds = Arc::new(Mutex::new(vec![1001, 1002, 1003]));
        let host = state(AwayAtFirst { seconds: Arc::clone(&seconds), ..AwayAtFirst::default() });
        host.read().unwrap();
        assert_eq!(host.with_overview(|overview| overview.until_ns), Some(1_003_000_000_000));
        // memory forgets what was said of the time that comes again
        seconds.lock().unwrap().extend([501, 502, 503]);
        host.read().unwrap();
        assert_eq!(host.with_overview(|overview| overview.until_ns), Some(503_000_000_000));
        let counters = ["physical_disk.reads_per_s".to_owned()];
        let stretch = (501_000_000_000, 503_000_000_000);
        let lines = host.with_overview(|overview| overview.reducer.reduced_lines(&counters, stretch, 2)).unwrap();
        assert_eq!(lines[0].mean, [Some(1.0), Some(1.0)], "{lines:?}");
    }

    #[test]
    fn an_answer_of_a_part_is_not_kept_for_the_whole() {
        let seconds = Arc::new(Mutex::new(vec![1, 2]));
        let host = state(AwayAtFirst { seconds: Arc::clone(&seconds), ..AwayAtFirst::default() });
        host.read().unwrap();
        seconds.lock().unwrap().push(3);
        // the end is known before the ticks are read
        host.refresh().unwrap();
        let key = || crate::api::cache_key(&host, 0, &diskwright_httpserver::HttpRequest::default());
        let before = key();
        host.read().unwrap();
        assert_ne!(before, key());
        let full_key = key();
        host.forget_overview();
        assert_ne!(full_key, key());
    }

    #[test]
    fn the_list_of_hosts_waits_for_no_source() {
        let live_asked = Arc::new(Mutex::new(0));
        let host = state(AwayAtFirst { live_asked: Arc::clone(&live_asked), ..AwayAtFirst::default() });
        let before = *live_asked.lock().unwrap();
        assert_eq!(host.list_entry(0)["live"], false);
        assert_eq!(*live_asked.lock().unwrap(), before, "a source that reads a slow disk would hold up all clients");
    }

    #[test]
    fn an_alert_that_is_written_after_its_tick_was_read_is_not_missed() {
        let (seconds, notes) = (Arc::new(Mutex::new(vec![1, 2])), Arc::new(Mutex::new(Vec::new())));
        let (ticks, written) = (Arc::clone(&seconds), Arc::clone(&notes));
        let host = state(AwayAtFirst { seconds: ticks, notes: written, ..AwayAtFirst::default() });
        host.read().unwrap();
        let text = r#"{"id":"disk.stall","instance":"sda","begin_ns":1}"#;
        notes.lock().unwrap().push(Note::new(2_000_000_000, Note::ALERT, text));
        seconds.lock().unwrap().push(3);
        for _ in 0..2 {
            let rows = host.read().unwrap();
            assert!(rows.len() < 2, "no tick comes twice: {rows:?}");
            assert_eq!(host.with_overview(|overview| overview.alerts.len()), Some(1));
        }
    }

    #[test]
    fn a_reader_that_has_the_newest_frame_does_not_get_it_again_and_late_captures_are_marked() {
        let (seconds, notes) = (Arc::new(Mutex::new(vec![1, 2, 3])), Arc::new(Mutex::new(Vec::new())));
        let (ticks, written) = (Arc::clone(&seconds), Arc::clone(&notes));
        let host = state(AwayAtFirst { seconds: ticks, notes: written, ..AwayAtFirst::default() });
        let mut viewer = host.frame_viewer();
        let text = |event: Vec<u8>| String::from_utf8(event).unwrap();
        // the second frame has ticks that the first one lacks
        host.next_frame(&mut viewer).unwrap();
        // a capture of the second tick is complete only now
        notes.lock().unwrap().push(Note::new(2_000_000_000, Note::CAPTURE, "{}"));
        seconds.lock().unwrap().push(4);
        assert!(text(host.next_frame(&mut viewer).unwrap().unwrap()).contains("event: frame"));
        let newest = text(host.first_event(Some(4_000_000_000)));
        assert!(!newest.contains("event: frame") && newest.starts_with("retry: "), "{newest}");
        assert!(text(host.first_event(None)).contains("event: frame"));
        for _ in 0..2 {
            let marks = host.with_overview(|overview| overview.marks.iter().map(|mark| mark.kind.clone()).collect());
            assert_eq!(marks, Some(vec![Note::CAPTURE.to_owned()]));
            seconds.lock().unwrap().push(5);
            host.next_frame(&mut viewer).unwrap();
        }
    }

    #[test]
    fn a_host_that_could_not_be_read_is_read_again_after_pauses_that_grow() {
        let tries = Arc::new(Mutex::new(Vec::new()));
        let seconds = Arc::new(Mutex::new(vec![1, 2, 3, 4, 5]));
        let source = AwayAtFirst { tries: Arc::clone(&tries), fails: 2, seconds, ..AwayAtFirst::default() };
        let hosts = Arc::new(vec![Arc::new(state(source))]);
        let (begin, requests) = mpsc::channel();
        let (watched, hub) = (Arc::downgrade(&hosts), StreamHub::default());
        let maker = std::thread::spawn(move || make_overviews(&requests, &watched, &hub));
        let (mut faults, begun) = (0, Instant::now());
        while !hosts[0].is_read() {
            // a page asks several times a second
            request_overview(&begin, &hosts[0], 0);
            faults += usize::from(hosts[0].host_document()["fault"] == "the store does not answer");
            assert!(begun.elapsed() < Duration::from_secs(60), "it was given up");
            std::thread::park_timeout(Duration::from_millis(20));
        }
        assert!(faults > 0, "the page got no message");
        let description = hosts[0].host_document();
        assert!(description["fault"].is_null() && description["read"] == 1.0, "{description}");
        let tries = tries.lock().unwrap().clone();
        assert_eq!(tries.len(), 3, "{tries:?}");
        let pauses: Vec<Duration> = tries.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(pauses[0] >= Duration::from_secs(1) && pauses[1] >= Duration::from_secs(2), "{pauses:?}");
        drop(hosts);
        maker.join().unwrap();
    }
}
