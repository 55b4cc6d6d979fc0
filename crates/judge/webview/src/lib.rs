//! The live view in a browser: one page, the data that it asks for, and a stream of frames.
//!
//! What a moment looks like is the crate `dashboard`'s, as in a terminal. Here:
//!
//! - `source`: what is asked of a host's history, which the command implements
//! - `access`: who may ask, and what browsers are forbidden
//! - `host`: a host's overview and newest frame; `threads`: who makes them
//! - `api`: what can be asked; `shapes`: what of a view is sent
//! - `page`: the document, from the files in `page/`
//!
//! A frame is made once and the same bytes go to all who look. Nobody who looks can hold up who records:
//! they have only the log, or what a sampler's thread has handed over, in common.

mod access;
mod api;
mod host;
mod page;
mod shapes;
mod source;
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
pub use diskwright_httpserver::check_address;
pub use source::{HostSource, Stretch};

use api::WebService;
use host::HostState;

/// What all hosts are shown and judged by.
#[derive(Clone)]
pub struct WebSettings {
    /// What is shown.
    pub panels: Panels,
    /// By whose rules it is judged.
    pub pack: Pack,
    /// What probes measured.
    pub ceilings: Vec<Ceiling>,
    /// Version of the program.
    pub version: String,
}

/// A server of the page. It ends when dropped.
pub struct WebView {
    server: HttpServer,
    /// The threads end when this is gone.
    _hosts: Arc<Vec<Arc<HostState>>>,
}

impl WebView {
    /// Serves some hosts at an address.
    ///
    /// # Errors
    /// Where it cannot be listened at.
    pub fn start(
        address: &str,
        access: WebAccess,
        settings: WebSettings,
        sources: Vec<Box<dyn HostSource>>,
    ) -> io::Result<WebView> {
        let (version, settings) = (settings.version.clone(), Arc::new(settings));
        let state = |source| Arc::new(HostState::new(source, Arc::clone(&settings)));
        let hosts: Arc<Vec<Arc<HostState>>> = Arc::new(sources.into_iter().map(state).collect());
        let (hub, (begin, asked)) = (StreamHub::default(), mpsc::channel());
        let (watched, events) = (Arc::downgrade(&hosts), hub.clone());
        std::thread::Builder::new()
            .name("overviews".into())
            .spawn(move || threads::make_overviews(&asked, &watched, &events))?;
        // what is live is followed at once, so that the first who looks sees what came before
        for (id, host) in hosts.iter().enumerate().filter(|(id, host)| host.source.is_live() || *id == 0) {
            threads::ask_for(&begin, host, id);
        }
        let list = Arc::clone(&hosts);
        let service = WebService { long: Arc::default(), access, hosts: list, cache: Arc::default(), begin, version };
        let limits = ServerLimits { clients: 256, work: Duration::from_secs(120), workers: 4, ..<_>::default() };
        let server = HttpServer::start("pages", address, Box::new(service), limits, hub)?;
        Ok(WebView { server, _hosts: hosts })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }
}
