//! Totals since the start of a machine: what was added from dump to dump, and shares of one total in another, which
//! need no time.

use std::collections::BTreeMap;

use super::Snapshot;

type TotalKey = (String, String);

/// Totals of this dump and of the one before, by counter and instance.
#[derive(Default)]
pub struct Totals {
    now: BTreeMap<TotalKey, f64>,
    before: BTreeMap<TotalKey, f64>,
}

/// A share of one total in another, or in the sum of both.
struct TotalShare {
    part: &'static str,
    whole: &'static str,
    /// Set if the whole does not hold the part.
    is_beside: bool,
    counter: &'static str,
    /// Share from which on the answer tells it, and how.
    told: Option<(f64, &'static str)>,
}

/// Smallest part that means anything.
const MIN_PART: f64 = 100.0;

const SHARES: [TotalShare; 10] = [
    TotalShare {
        part: "network.received_dropped",
        whole: "network.received_packets",
        is_beside: false,
        counter: "foreign.network.received_dropped_share",
        told: Some((0.01, "of the packets that were received were dropped, because no room or no taker was there")),
    },
    TotalShare {
        part: "network.received_missed",
        whole: "network.received_packets",
        is_beside: true,
        counter: "foreign.network.received_missed_share",
        told: Some((
            0.001,
            "of the packets that came were lost in the adapter: its ring was full, because no processor emptied it in \
             time",
        )),
    },
    TotalShare {
        part: "network.received_errors",
        whole: "network.received_packets",
        is_beside: true,
        counter: "foreign.network.received_errors_share",
        told: Some((0.001, "of the packets came damaged or were lost; suspect the cable, port, duplex mode or ring")),
    },
    TotalShare {
        part: "network.sent_errors",
        whole: "network.sent_packets",
        is_beside: true,
        counter: "foreign.network.sent_errors_share",
        told: Some((0.001, "of the packets could not be sent; suspect the cable, port or duplex mode")),
    },
    TotalShare {
        part: "network.sent_dropped",
        whole: "network.sent_packets",
        is_beside: true,
        counter: "foreign.network.sent_dropped_share",
        told: Some((
            0.01,
            "of the packets were dropped before they were sent: the link takes fewer than programs send",
        )),
    },
    TotalShare {
        part: "foreign.network.tcp_retransmitted",
        whole: "foreign.network.tcp_sent",
        is_beside: false,
        counter: "foreign.network.tcp_retransmitted_share",
        told: Some((0.01, "of TCP's segments were sent again: the network loses packets")),
    },
    TotalShare {
        part: "foreign.network.udp_receive_errors",
        whole: "foreign.network.udp_received",
        is_beside: true,
        counter: "foreign.network.udp_lost_share",
        told: Some((
            0.01,
            "of UDP's datagrams were lost on arrival, mostly because their program did not take them in time",
        )),
    },
    TotalShare {
        part: "foreign.network.listen_overflows",
        whole: "foreign.network.tcp_accepted",
        is_beside: true,
        counter: "foreign.network.listen_overflow_share",
        told: Some((
            0.01,
            "of the connections were turned away, because their program did not accept them in time: the queue of a \
             listening socket was full",
        )),
    },
    TotalShare {
        part: "cgroup.cpu_throttled_periods",
        whole: "cgroup.cpu_periods",
        is_beside: false,
        counter: "cgroup.cpu_throttled",
        told: None,
    },
    TotalShare {
        part: "nfs_server.bad_calls",
        whole: "nfs_server.calls",
        is_beside: false,
        counter: "foreign.nfs_server.bad_calls_share",
        told: Some((0.01, "of the calls of the NFS server were bad")),
    },
];

impl Totals {
    /// Sets a total.
    pub fn put(&mut self, counter: &str, instance: &str, total: f64) {
        self.now.insert((counter.to_owned(), instance.to_owned()), total);
    }

    /// Adds to a total of this dump.
    pub fn add(&mut self, counter: &str, instance: &str, part: f64) {
        *self.now.entry((counter.to_owned(), instance.to_owned())).or_default() += part;
    }

    /// Total of this dump.
    pub fn total(&self, counter: &str, instance: &str) -> Option<f64> {
        self.now.get(&(counter.to_owned(), instance.to_owned())).copied()
    }

    /// What was added since the dump before, or all if there was none.
    pub fn added(&self, counter: &str, instance: &str) -> Option<f64> {
        let now = self.total(counter, instance)?;
        match self.before.get(&(counter.to_owned(), instance.to_owned())) {
            Some(before) => Some(now - before).filter(|added| *added >= 0.0),
            // the dump before lacked it
            None if self.has_before() => None,
            None => Some(now),
        }
    }

    /// Part and whole of what was added to two totals, if both are known; the whole holds the part.
    pub fn added_share(&self, [part, whole]: [&str; 2], is_beside: bool, instance: &str) -> Option<(f64, f64)> {
        let (part, whole) = (self.added(part, instance)?, self.added(whole, instance)?);
        Some((part, if is_beside { whole + part } else { whole }))
    }

    /// Totals of this dump with what was added since the dump before.
    pub fn growths(&self) -> impl Iterator<Item = (&TotalKey, f64)> {
        let growth = |(key, now): (&'_ TotalKey, &f64)| Some(now - self.before.get(key)?).filter(|added| *added >= 0.0);
        self.now.iter().filter_map(move |(key, now)| Some((key, growth((key, now))?)))
    }

    /// All totals of this dump.
    pub fn all(&self) -> impl Iterator<Item = (&TotalKey, f64)> {
        self.now.iter().map(|(key, now)| (key, *now))
    }

    /// Instances of a counter.
    pub fn instances(&self, counter: &str) -> Vec<String> {
        self.now.keys().filter(|(name, _)| name == counter).map(|(_, instance)| instance.clone()).collect()
    }

    /// Makes this dump the one before.
    pub fn advance(&mut self) {
        self.before.append(&mut self.now);
    }

    /// True if a dump came before.
    pub fn has_before(&self) -> bool {
        !self.before.is_empty()
    }
}

/// Puts the shares of this dump's totals.
pub fn put_shares(snapshot: &mut Snapshot<'_, '_>) {
    let when = if snapshot.totals.has_before() { "between two dumps" } else { "since the start" };
    for TotalShare { part, whole, is_beside, counter, told } in &SHARES {
        for instance in snapshot.totals.instances(part) {
            let added = snapshot.totals.added_share([part, whole], *is_beside, &instance);
            let Some((part, all)) = added.filter(|(_, all)| *all > 0.0) else { continue };
            let share = (part / all).min(1.0);
            snapshot.replace_value(counter, &instance, share);
            if let Some((limit, text)) = told
                && share >= *limit
                && part >= MIN_PART
            {
                let of = if instance.is_empty() { String::new() } else { format!("{instance}: ") };
                snapshot.push_warning(format!("{of}{:.3} % {text} ({when})", share * 100.0));
            }
        }
    }
}
