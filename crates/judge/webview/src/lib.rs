//! The live view in a browser: one page, the data that it requests, and a stream of frames.
//!
//! The crate `dashboard` computes the view of a moment, as for a terminal. Here:
//!
//! - `host_source`: the source of a host's history, which the command implements
//! - `access`: access control and security headers
//! - `host_state`: a host's overview and newest frame; `threads`: the threads that make them
//! - `api`: the HTTP interface; `reduced_json`: the parts of a view that are sent
//! - `page`: the document, from the files in `page/`
//!
//! A frame is made once, and the same bytes go to all clients. Clients cannot delay the recorder: they share only the
//! log with it, or the ticks that the sampler's thread has handed over.

mod access;
mod api;
mod host_source;
mod host_state;
mod page;
mod reduced_json;
mod threads;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use diskwright_base::Ceiling;
use diskwright_dashboard::Panels;
use diskwright_diagnosis::Pack;
use diskwright_httpserver::{HttpServer, ServerLimits, StreamHub};

pub use access::{WebAccess, random_text};
pub use diskwright_httpserver::{HostNames, check_address};
pub use host_source::{HostSource, Stretch};

use api::WebService;
use host_state::HostState;

/// Settings for all hosts.
#[derive(Clone)]
pub struct WebSettings {
    /// The panels.
    pub panels: Panels,
    /// The pack of rules to judge by.
    pub pack: Pack,
    /// Ceilings that probes measured.
    pub ceilings: Vec<Ceiling>,
    /// Version of the program.
    pub version: String,
}

/// Server of the page; it stops when dropped.
pub struct WebView {
    server: HttpServer,
    /// The background threads stop when this is dropped.
    _hosts: Arc<Vec<Arc<HostState>>>,
}

impl WebView {
    /// Starts serving hosts at an address.
    ///
    /// # Errors
    /// If the server cannot listen at the address.
    pub fn start(
        address: &str,
        access: WebAccess,
        settings: WebSettings,
        sources: Vec<Box<dyn HostSource>>,
    ) -> io::Result<WebView> {
        let (version, settings) = (settings.version.clone(), Arc::new(settings));
        let state = |source| Arc::new(HostState::new(source, Arc::clone(&settings)));
        let hosts: Arc<Vec<Arc<HostState>>> = Arc::new(sources.into_iter().map(state).collect());
        let (hub, (begin, requests)) = (StreamHub::default(), mpsc::channel());
        let (watched, events) = (Arc::downgrade(&hosts), hub.clone());
        std::thread::Builder::new()
            .name("overviews".into())
            .spawn(move || threads::make_overviews(&requests, &watched, &events))?;
        // live hosts are followed from the start, so that the first client sees earlier ticks
        for (id, host) in hosts.iter().enumerate().filter(|(id, host)| host.source.is_live() || *id == 0) {
            threads::request_overview(&begin, host, id);
        }
        let list = Arc::clone(&hosts);
        let service = WebService {
            long_answers: Arc::default(),
            access,
            hosts: list,
            cache: Arc::default(),
            overview_requests: begin,
            version,
        };
        let limits = ServerLimits {
            max_clients: 256,
            work_timeout: Duration::from_secs(120),
            worker_threads: 4,
            ..<_>::default()
        };
        let server = HttpServer::start("pages", address, Box::new(service), limits, hub)?;
        Ok(WebView { server, _hosts: hosts })
    }

    /// Address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }
}
