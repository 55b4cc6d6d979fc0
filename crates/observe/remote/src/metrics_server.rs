//! HTTP server of `/metrics`, which serves the last tick to a scraper.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use diskwright_httpserver::{
    HostNames, HttpReply, HttpRequest, HttpResponse, HttpServer, HttpService, ServerLimits, StreamHub,
};

use crate::feed::{SeriesSnapshot, metrics_page};

/// The last tick: the recorder sets it, and the server reads it. Both hold the lock only for the exchange.
#[derive(Clone, Default)]
pub struct LastTick(Arc<Mutex<Arc<SeriesSnapshot>>>);

impl LastTick {
    /// Sets the last tick.
    pub fn set(&self, snapshot: &SeriesSnapshot) {
        let snapshot = Arc::new(snapshot.clone());
        let previous = std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), snapshot);
        // freed here, after the lock was released
        drop(previous);
    }

    fn get(&self) -> Arc<SeriesSnapshot> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The page of the last tick, formatted once for all requests.
#[derive(Default)]
struct MetricsPage {
    names: HostNames,
    last: LastTick,
    /// The snapshot that `text` shows.
    snapshot: Arc<SeriesSnapshot>,
    text: Option<Arc<[u8]>>,
}

impl MetricsPage {
    fn page_text(&mut self) -> Arc<[u8]> {
        let snapshot = self.last.get();
        let known_text = self.text.take().filter(|_| Arc::ptr_eq(&snapshot, &self.snapshot));
        let text = known_text.unwrap_or_else(|| metrics_page(&snapshot).into_bytes().into());
        self.snapshot = snapshot;
        Arc::clone(self.text.insert(text))
    }
}

impl HttpService for MetricsPage {
    fn handle_request(&mut self, request: &HttpRequest) -> HttpReply {
        if !self.names.allows(request) {
            return HttpReply::Now(HttpResponse::plain_text("403 Forbidden", HostNames::REFUSAL));
        }
        HttpReply::Now(match (request.is_read_only(), request.path.as_str()) {
            (true, "/metrics") => HttpResponse::ok("text/plain; version=0.0.4; charset=utf-8", self.page_text()),
            (true, _) => HttpResponse::plain_text("404 Not Found", "the counters are at /metrics\n"),
            (false, _) => HttpResponse::plain_text("405 Method Not Allowed\r\nAllow: GET, HEAD", "use GET or HEAD\n"),
        })
    }
}

/// HTTP server of the last tick. It stops when dropped.
pub struct MetricsServer(HttpServer);

impl MetricsServer {
    /// Starts to listen at `address`; a port alone means the loopback address 127.0.0.1. Requests may use addresses,
    /// `localhost` and these names.
    ///
    /// # Errors
    /// When the address is invalid, or listening fails.
    pub fn start(address: &str, names: HostNames, last: LastTick, limits: ServerLimits) -> io::Result<MetricsServer> {
        let page = Box::new(MetricsPage { names, last, ..MetricsPage::default() });
        HttpServer::start("metrics", address, page, limits, StreamHub::default()).map(MetricsServer)
    }

    /// Address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.0.address()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn a_port_alone_is_this_machine() {
        let server = |address: &str| {
            MetricsServer::start(address, HostNames::default(), LastTick::default(), ServerLimits::default())
        };
        assert_eq!(server("0").unwrap().address().ip(), Ipv4Addr::LOCALHOST);
        assert!(server("127.0.0.1:0").unwrap().address().ip().is_loopback());
        match server("[::1]:0") {
            Ok(server) => assert!(server.address().is_ipv6()),
            Err(error) => eprintln!("skipped: no IPv6 on this machine: {error}"),
        }
        for wrong in ["", ":0", "70000", "here", "1.2.3.4.5:0", "-1"] {
            assert!(server(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_page_is_made_once_a_tick() {
        let mut page = MetricsPage::default();
        let first = page.page_text();
        assert!(Arc::ptr_eq(&first, &page.page_text()));
        page.last.set(&SeriesSnapshot { time_ms: 1000, ..SeriesSnapshot::default() });
        let second = page.page_text();
        assert!(!Arc::ptr_eq(&first, &second) && !second.is_empty());
    }
}
