//! Who makes overviews, and the frames of live hosts.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use diskwright_httpserver::StreamHub;
use rustix::process::setpriority_process;
use rustix::thread::gettid;

use crate::host::HostState;

/// Overviews that are kept at a time.
const KEPT: usize = 6;
/// What is recorded goes first.
const NICENESS: i32 = 5;
/// How often hosts whose logs stand still are looked at.
const WAKING: Duration = Duration::from_secs(2);
/// Frames come no faster, and live hosts are looked at no slower.
const PACE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(60));

/// Asks for a host's overview; once.
pub fn ask_for(begin: &Sender<usize>, host: &HostState, id: usize) {
    if !host.is_begun.swap(true, Ordering::Relaxed) && begin.send(id).is_err() {
        host.fail(Some("this server ends".into()));
    }
}

/// The hosts, as long as the server serves them.
pub type HostList = Weak<Vec<Arc<HostState>>>;

/// Makes overviews one after another as they are asked for, and verdicts for the list while nobody asks.
pub fn make_overviews(asked: &Receiver<usize>, hosts: &HostList, hub: &StreamHub) {
    let _ = setpriority_process(Some(gettid()), NICENESS);
    let (mut kept, mut live, mut looked): (Vec<usize>, HashSet<usize>, _) =
        (Vec::new(), HashSet::new(), Instant::now());
    loop {
        let next = asked.recv_timeout(Duration::from_millis(300));
        let Some(hosts) = hosts.upgrade() else { return };
        if looked.elapsed() >= WAKING {
            looked = Instant::now();
            for id in waking(&hosts, &live) {
                begin_live(id, &Arc::downgrade(&hosts), hub);
                live.insert(id);
                kept.retain(|known| *known != id);
            }
        }
        let id = match next {
            Ok(id) => id,
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                let unjudged = || hosts.iter().find(|host| host.is_unjudged());
                if let Some(host) = unjudged().filter(|_| hosts.len() > 1) {
                    host.judge();
                }
                continue;
            }
        };
        let Some(host) = hosts.get(id) else { continue };
        if host.source.is_live() {
            if live.insert(id) {
                begin_live(id, &Arc::downgrade(&hosts), hub);
            }
            continue;
        }
        host.fail(host.read().err());
        kept.push(id);
        if kept.len() > KEPT {
            let oldest = kept.remove(0);
            if let Some(host) = hosts.get(oldest) {
                host.forget();
            }
        }
    }
}

/// Hosts that somebody has looked at, whose log stood still and is recorded again.
fn waking(hosts: &[Arc<HostState>], live: &HashSet<usize>) -> Vec<usize> {
    let is_known = |(id, host): &(usize, &Arc<HostState>)| host.is_read() && !live.contains(id);
    let wakes = |host: &HostState| host.source.refresh().is_ok() && host.source.is_live();
    hosts.iter().enumerate().filter(is_known).filter(|(_, host)| wakes(host)).map(|(id, _)| id).collect()
}

/// A thread that makes a live host's frames.
fn begin_live(id: usize, hosts: &HostList, hub: &StreamHub) {
    let (hosts, hub) = (hosts.clone(), hub.clone());
    let begun = std::thread::Builder::new().name("frames".into()).spawn(move || {
        let _ = setpriority_process(Some(gettid()), NICENESS);
        let Some(all) = hosts.upgrade() else { return };
        let Some(host) = all.get(id).cloned() else { return };
        drop(all);
        let mut viewer = host.frame_viewer();
        while hosts.strong_count() > 0 {
            let began = Instant::now();
            match host.next_frame(&mut viewer) {
                Ok(frame) => {
                    host.fail(None);
                    frame.into_iter().for_each(|event| hub.publish(id, event));
                }
                Err(because) => host.fail(Some(because)),
            }
            let interval = Duration::from_nanos(host.source.interval_ns().unsigned_abs());
            // four looks an interval, so that a tick is shown soon after it came
            let nap = (interval / 4).clamp(PACE.0, PACE.1).saturating_sub(began.elapsed());
            std::thread::park_timeout(nap.max(Duration::from_millis(20)));
        }
    });
    // without a thread there is no stream, and the page says so
    drop(begun);
}
