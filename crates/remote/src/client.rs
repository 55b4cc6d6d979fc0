//! Requests to a store.

use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ureq::http::Response;
use ureq::{Agent, Body};

use crate::error::RemoteError;

/// How to reach a store.
#[derive(Clone, Debug)]
pub struct Access {
    /// `http://host:port/prefix`, with `user:password@` where it asks for that.
    pub url: String,
    /// Further headers, `Name: value`.
    pub headers: Vec<String>,
    /// The most that one request may take.
    pub timeout: Duration,
    /// The largest answer that is taken, bytes.
    pub most_bytes: u64,
}

impl Access {
    /// Ordinary limits for an address.
    pub fn new(url: &str) -> Access {
        Access { url: url.to_owned(), headers: Vec::new(), timeout: Duration::from_secs(120), most_bytes: 512 << 20 }
    }
}

/// A store, ready to be asked. It counts what the asking took.
pub struct Store {
    agent: Agent,
    base: String,
    shown: String,
    headers: Vec<(String, String)>,
    most_bytes: u64,
    asked: AtomicU64,
    waited_ns: AtomicU64,
    received: AtomicU64,
    victoria: AtomicBool,
}

/// Letters of an error page that are shown.
const SHOWN: usize = 400;

impl Store {
    /// Checks the address; nothing is sent yet.
    ///
    /// # Errors
    /// When the address or a header is malformed.
    pub fn new(access: &Access) -> Result<Store, RemoteError> {
        let base = access.url.trim().trim_end_matches('/');
        let wrong = |what: &str, because: &str| RemoteError::Usage { what: what.into(), because: because.into() };
        let shown = without_password(base);
        let Some((_, rest)) = base.split_once("://").filter(|(scheme, _)| matches!(*scheme, "http" | "https")) else {
            return Err(wrong(&shown, "an address begins with http:// or https://"));
        };
        if rest.is_empty() || base.contains(['?', '#', ' ']) {
            return Err(wrong(&shown, "no address of a store"));
        }
        let header = |text: &String| {
            let pair = text.split_once(':').filter(|(name, _)| !name.trim().is_empty());
            let (name, value) = pair.ok_or_else(|| wrong(text, "a header is `Name: value`"))?;
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        };
        let config = Agent::config_builder()
            .timeout_global(Some(access.timeout))
            .timeout_connect(Some(access.timeout.min(Duration::from_secs(10))))
            .http_status_as_error(false)
            // a redirect would send the query, and maybe a password, somewhere else
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("diskwright/", env!("CARGO_PKG_VERSION")))
            .build();
        Ok(Store {
            agent: config.into(),
            base: base.to_owned(),
            shown,
            headers: access.headers.iter().map(header).collect::<Result<_, _>>()?,
            most_bytes: access.most_bytes,
            asked: AtomicU64::new(0),
            waited_ns: AtomicU64::new(0),
            received: AtomicU64::new(0),
            victoria: AtomicBool::new(false),
        })
    }

    /// The address without a password, for messages.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Requests so far, seconds spent waiting for their answers, and bytes received.
    pub fn spent(&self) -> (u64, f64, u64) {
        let waited = self.waited_ns.load(Ordering::Relaxed);
        (self.asked.load(Ordering::Relaxed), waited as f64 * 1e-9, self.received.load(Ordering::Relaxed))
    }

    /// True where an answer came from VictoriaMetrics: its `rate` knows the
    /// sample before the window, so that windows need no overlap.
    pub fn is_victoria(&self) -> bool {
        self.victoria.load(Ordering::Relaxed)
    }

    /// Asks with a form in the body: queries are longer than addresses may be.
    ///
    /// # Errors
    /// When there is no answer, an error, or too long a one.
    pub fn post(&self, path: &str, form: &[(&str, &str)]) -> Result<Vec<u8>, RemoteError> {
        let url = format!("{}{path}", self.base);
        let mut request = self.agent.post(&url);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        self.answer(path, || request.send_form(form.iter().copied()))
    }

    /// Asks with the address alone, where a store takes nothing else.
    ///
    /// # Errors
    /// Like [`Store::post`].
    pub fn get(&self, path: &str, pairs: &[(&str, &str)]) -> Result<Vec<u8>, RemoteError> {
        let url = format!("{}{path}", self.base);
        let mut request = self.agent.get(&url);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        self.answer(path, || request.query_pairs(pairs.iter().copied()).call())
    }

    /// Sends bytes; the answer's body does not matter.
    ///
    /// # Errors
    /// Like [`Store::post`].
    pub fn send(&self, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Result<(), RemoteError> {
        let url = format!("{}{path}", self.base);
        let mut request = self.agent.post(&url);
        let own = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in own.chain(headers.iter().copied()) {
            request = request.header(name, value);
        }
        self.answer(path, || request.send(body)).map(drop)
    }

    fn answer(
        &self,
        path: &str,
        call: impl FnOnce() -> Result<Response<Body>, ureq::Error>,
    ) -> Result<Vec<u8>, RemoteError> {
        let started = Instant::now();
        let result = self.read(path, call);
        let waited = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.waited_ns.fetch_add(waited, Ordering::Relaxed);
        result
    }

    fn read(
        &self,
        path: &str,
        call: impl FnOnce() -> Result<Response<Body>, ureq::Error>,
    ) -> Result<Vec<u8>, RemoteError> {
        let url = || format!("{}{path}", self.shown);
        let broken = |because: String| RemoteError::Connection { url: url(), because };
        let mut response = call().map_err(|e| broken(e.to_string()))?;
        if response.headers().contains_key("x-server-hostname") {
            self.victoria.store(true, Ordering::Relaxed);
        }
        let status = response.status();
        let location = response.headers().get("location").and_then(|l| l.to_str().ok()).map(str::to_owned);
        let declared = response.body().content_length();
        let most = if status.is_success() { self.most_bytes } else { 1 << 16 };
        let mut body = Vec::new();
        let read = response.body_mut().as_reader().take(most + 1).read_to_end(&mut body);
        self.received.fetch_add(body.len() as u64, Ordering::Relaxed);
        if status.is_redirection() {
            let to = location.unwrap_or_else(|| "another place".into());
            let says = format!("it sends elsewhere, to {to}; say that address");
            return Err(RemoteError::Refused { url: url(), status: status.as_u16(), says });
        }
        if !status.is_success() {
            return Err(RemoteError::Refused { url: url(), status: status.as_u16(), says: says(&body) });
        }
        read.map_err(|e| broken(format!("the answer breaks off after {} bytes: {e}", body.len())))?;
        if body.len() as u64 > most {
            let because = format!("the answer is longer than {most} bytes; ask for less, or with a longer --step");
            return Err(RemoteError::Answer { url: url(), because });
        }
        if declared.is_some_and(|declared| (body.len() as u64) < declared) {
            return Err(broken(format!("the answer breaks off after {} bytes", body.len())));
        }
        Ok(body)
    }
}

/// What an error's body says: the API's own words, or its beginning.
fn says(body: &[u8]) -> String {
    #[derive(serde::Deserialize)]
    struct Said {
        error: String,
    }
    let text = match serde_json::from_slice::<Said>(body) {
        Ok(said) => said.error,
        Err(_) => String::from_utf8_lossy(body).split_whitespace().collect::<Vec<_>>().join(" "),
    };
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None if text.is_empty() => "(nothing more)".into(),
        None => text,
    }
}

/// An address as it may be shown.
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let host_end = rest.find('/').unwrap_or(rest.len());
    match rest[..host_end].rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://{host}{}", &rest[host_end..]),
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_checked_and_passwords_never_shown() {
        let store = Store::new(&Access::new("http://u:secret@db1:9090/prom/")).unwrap();
        assert_eq!(store.shown(), "http://db1:9090/prom");
        for wrong in ["db1:9090", "ftp://x", "http://", "http://a b"] {
            assert!(Store::new(&Access::new(wrong)).is_err(), "{wrong}");
        }
        let headers = vec!["no colon".to_owned()];
        assert!(Store::new(&Access { headers, ..Access::new("http://x") }).is_err());
    }

    #[test]
    fn errors_show_what_the_store_says() {
        assert_eq!(says(br#"{"status":"error","error":"too many points"}"#), "too many points");
        assert_eq!(says(b"<html>\n <b>Bad gateway</b>"), "<html> <b>Bad gateway</b>");
        assert!(says("x".repeat(9000).as_bytes()).len() < 500);
    }
}
