//! HTTP requests to a store.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ureq::http::{HeaderMap, Response};
use ureq::{Agent, Body, Timeout};

use crate::access::{StoreAccess, StoreAddress, redact_url};
use crate::answer::shorten_text;
use crate::bounded_reader::AnswerFault;
use crate::error::RemoteError;

/// Largest number of bytes that are read of an error page.
const MAX_ERROR_BODY_BYTES: u64 = 1 << 16;
/// Largest number of different warnings of a store that are kept.
const MAX_WARNINGS: usize = 20;
/// Longest pause that a store can request by `Retry-After`.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(300);

/// Client of a store. It counts its requests, the time they took and the bytes received.
pub struct MetricStore {
    agent: Agent,
    address: StoreAddress,
    headers: Vec<(String, String)>,
    /// Texts that must not appear in messages.
    secrets: Vec<String>,
    timeout: Duration,
    max_response_bytes: u64,
    request_count: AtomicU64,
    waited_ns: AtomicU64,
    received_bytes: AtomicU64,
    warnings: Mutex<BTreeSet<String>>,
}

impl MetricStore {
    /// Creates a client for queries. Checks the address and sends nothing yet.
    ///
    /// # Errors
    /// When the address or a header is malformed.
    pub fn new(access: &StoreAccess) -> Result<MetricStore, RemoteError> {
        let address = StoreAddress::parse(&access.url)?;
        if !address.query.is_empty() {
            let because = "the address of a store cannot contain `?`".into();
            return Err(RemoteError::Usage { option: address.shown, because });
        }
        MetricStore::with_address(address, access)
    }

    /// Creates a client for remote write: to the address itself if its path is that of an endpoint for writing, else to
    /// `/api/v1/write` below it.
    ///
    /// # Errors
    /// Like [`MetricStore::new`].
    pub fn for_writing(access: &StoreAccess) -> Result<MetricStore, RemoteError> {
        MetricStore::with_address(StoreAddress::parse(&access.url)?.for_writing(), access)
    }

    /// Creates a client for a parsed address.
    pub(crate) fn with_address(address: StoreAddress, access: &StoreAccess) -> Result<MetricStore, RemoteError> {
        if access.password.is_some() && address.user.is_none() {
            let because = "a password needs a user: http://USER@HOST:PORT".into();
            return Err(RemoteError::Usage { option: address.shown, because });
        }
        let headers = access.request_headers(&address)?;
        let config = Agent::config_builder()
            .timeout_global(Some(access.timeout))
            .timeout_connect(Some(access.timeout.min(Duration::from_secs(10))))
            .http_status_as_error(false)
            // a redirect would send the query, and perhaps a password, to another address
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("diskwright/", env!("CARGO_PKG_VERSION")))
            .build();
        Ok(MetricStore {
            agent: config.into(),
            secrets: access.collect_secrets(&address, &headers),
            address,
            headers,
            timeout: access.timeout,
            max_response_bytes: access.max_response_bytes,
            request_count: AtomicU64::new(0),
            waited_ns: AtomicU64::new(0),
            received_bytes: AtomicU64::new(0),
            warnings: Mutex::default(),
        })
    }

    /// The address without a password, for messages.
    pub fn shown_address(&self) -> &str {
        &self.address.shown
    }

    /// The largest accepted answer, bytes.
    pub fn max_response_bytes(&self) -> u64 {
        self.max_response_bytes
    }

    /// Returns the number of requests, the seconds spent waiting for their answers, and the bytes received.
    pub fn request_statistics(&self) -> (u64, f64, u64) {
        let waited_ns = self.waited_ns.load(Ordering::Relaxed);
        (
            self.request_count.load(Ordering::Relaxed),
            waited_ns as f64 * 1e-9,
            self.received_bytes.load(Ordering::Relaxed),
        )
    }

    /// Adds the store's warnings about an answer.
    pub(crate) fn add_warnings(&self, warnings: Vec<String>) {
        let mut known_warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        let free = MAX_WARNINGS.saturating_sub(known_warnings.len());
        known_warnings.extend(warnings.into_iter().take(free));
    }

    /// Returns the store's warnings about its lists of machines and series, and about the values of a fleet: for
    /// example, that a part of the store did not respond.
    pub fn warnings(&self) -> Vec<String> {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Cancels all requests in flight; to be called from another thread.
    pub fn interrupt(&self) {
        self.agent.clone().shutdown();
    }

    /// Sends a form in the body, because queries can be longer than addresses may be. `read` gets the answer as a
    /// stream.
    ///
    /// # Errors
    /// When there is no answer, the answer is an error, or `read` rejects it.
    pub fn post<T>(
        &self,
        path: &str,
        form: &[(&str, &str)],
        read: impl FnOnce(&mut dyn Read) -> Result<T, AnswerFault>,
    ) -> Result<T, RemoteError> {
        let mut request = self.agent.post(self.url(path));
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        self.count_request(path, || request.send_form(form.iter().copied()), read)
    }

    /// Sends the parameters in the address, for queries that stores accept only in this way.
    ///
    /// # Errors
    /// Like [`MetricStore::post`].
    pub fn get<T>(
        &self,
        path: &str,
        pairs: &[(&str, &str)],
        read: impl FnOnce(&mut dyn Read) -> Result<T, AnswerFault>,
    ) -> Result<T, RemoteError> {
        let mut request = self.agent.get(self.url(path));
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        self.count_request(path, || request.query_pairs(pairs.iter().copied()).call(), read)
    }

    /// Sends bytes; the answer's body is ignored.
    ///
    /// # Errors
    /// Like [`MetricStore::post`].
    pub fn send(&self, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Result<(), RemoteError> {
        let mut request = self.agent.post(self.url(path));
        let store_headers = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in store_headers.chain(headers.iter().copied()) {
            request = request.header(name, value);
        }
        self.count_request(path, || request.send(body), |_| Ok(()))
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}{}", self.address.base, self.address.query)
    }

    /// Makes a request, and counts it and its time.
    fn count_request<T>(
        &self,
        path: &str,
        call: impl FnOnce() -> Result<Response<Body>, ureq::Error>,
        read: impl FnOnce(&mut dyn Read) -> Result<T, AnswerFault>,
    ) -> Result<T, RemoteError> {
        let started = Instant::now();
        let result = self.send_and_read(path, call, read);
        let waited_ns = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.request_count.fetch_add(1, Ordering::Relaxed);
        self.waited_ns.fetch_add(waited_ns, Ordering::Relaxed);
        result
    }

    /// Makes a request and reads its answer.
    fn send_and_read<T>(
        &self,
        path: &str,
        call: impl FnOnce() -> Result<Response<Body>, ureq::Error>,
        read: impl FnOnce(&mut dyn Read) -> Result<T, AnswerFault>,
    ) -> Result<T, RemoteError> {
        let url = || {
            if path.is_empty() { self.shown_address().to_owned() } else { format!("{}{path}", self.shown_address()) }
        };
        let mut response = call().map_err(|e| {
            let because = self.without_secrets(&self.describe_failure(&e));
            RemoteError::Connection { url: url(), because }
        })?;
        if !response.status().is_success() {
            return Err(self.refusal_error(url(), &mut response));
        }
        let encoding = header_text(response.headers(), "content-encoding");
        if let Some(encoding) = encoding.filter(|encoding| encoding != "identity") {
            let because = format!("the response has an encoding ({}) that was not requested", shorten_text(&encoding));
            return Err(RemoteError::Answer { url: url(), because });
        }
        let mut source = CountingBody { inner: response.body_mut().as_reader(), store: self };
        read(&mut source).map_err(|fault| match fault {
            AnswerFault::Broken(because) => {
                RemoteError::Connection { url: url(), because: self.without_secrets(&because) }
            }
            AnswerFault::Wrong(because) => RemoteError::Answer { url: url(), because: self.without_secrets(&because) },
            AnswerFault::TooMuch(because) => RemoteError::TooMuch { url: url(), because },
        })
    }

    /// Creates the error for an answer with an error status.
    fn refusal_error(&self, url: String, response: &mut Response<Body>) -> RemoteError {
        let status = response.status();
        let retry_after = header_text(response.headers(), "retry-after").and_then(|after| after.trim().parse().ok());
        let retry_after = retry_after.map(|seconds| Duration::from_secs(seconds).min(MAX_RETRY_AFTER));
        let message = if status.is_redirection() {
            let location = header_text(response.headers(), "location");
            let target = location.map_or("another address".into(), |url| redact_url(&url));
            format!("it redirects to {}; use that address", shorten_text(&target))
        } else {
            let mut body = Vec::new();
            // if the page breaks off, the part that was received is shown
            let _ = response.body_mut().as_reader().take(MAX_ERROR_BODY_BYTES).read_to_end(&mut body);
            self.received_bytes.fetch_add(body.len() as u64, Ordering::Relaxed);
            error_message(&body)
        };
        let message = self.without_secrets(&message);
        RemoteError::Refused { url, status: status.as_u16(), says: message, retry_after }
    }

    /// Describes a failure of the connection, with advice where possible.
    fn describe_failure(&self, error: &ureq::Error) -> String {
        match error {
            ureq::Error::Timeout(Timeout::Connect | Timeout::Resolve) => "the connection timed out".into(),
            ureq::Error::Timeout(_) => format!("no response within {} s", self.timeout.as_secs_f64()),
            ureq::Error::Rustls(_) | ureq::Error::Tls(_) => format!("TLS: {error}; does the store use http://?"),
            // a TLS error arrives as text; only the advice depends on its words
            ureq::Error::Io(error) if error.to_string().contains("corrupt message") => {
                format!("the store does not use TLS ({error}); try http://")
            }
            _ => error.to_string(),
        }
    }

    /// Removes our own secrets from a text that was received.
    fn without_secrets(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), "***"))
    }
}

/// Body of an answer, whose bytes are counted while it is read.
struct CountingBody<'a, R> {
    inner: R,
    store: &'a MetricStore,
}

impl<R: Read> Read for CountingBody<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer).map_err(|error| {
            let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<ureq::Error>());
            match (cause, error.kind()) {
                (Some(ureq::Error::Timeout(_)), _) | (_, io::ErrorKind::TimedOut) => {
                    io::Error::other(format!("not complete within {} s", self.store.timeout.as_secs_f64()))
                }
                _ => error,
            }
        })?;
        self.store.received_bytes.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// Reads a whole answer, for short answers such as those of health checks.
///
/// # Errors
/// When it breaks off, or is longer than 1 MiB.
pub fn read_whole_body(source: &mut dyn Read) -> Result<Vec<u8>, AnswerFault> {
    let max_bytes = 1 << 20;
    let mut body = Vec::new();
    source.take(max_bytes + 1).read_to_end(&mut body).map_err(|e| AnswerFault::Broken(e.to_string()))?;
    if body.len() as u64 > max_bytes {
        return Err(AnswerFault::too_much("the response is longer than 1 MiB"));
    }
    Ok(body)
}

/// Returns a header's value as text.
fn header_text(headers: &HeaderMap, name: &str) -> Option<String> {
    Some(String::from_utf8_lossy(headers.get(name)?.as_bytes()).into_owned())
}

/// Extracts the message from an error's body: the API's `error` field, or the beginning of the body.
fn error_message(body: &[u8]) -> String {
    #[derive(serde::Deserialize)]
    struct ErrorBody {
        error: String,
    }
    let text = match serde_json::from_slice::<ErrorBody>(body) {
        Ok(response) => response.error,
        Err(_) => String::from_utf8_lossy(body).split_whitespace().collect::<Vec<_>>().join(" "),
    };
    if text.is_empty() { "(no message)".into() } else { shorten_text(&text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_checked_and_passwords_never_shown() {
        let store = MetricStore::new(&StoreAccess::new("http://u:secret@db1:9090/prom/")).unwrap();
        assert_eq!(store.shown_address(), "http://db1:9090/prom");
        assert_eq!(store.without_secrets("u:secret is wrong: dTpzZWNyZXQ="), "u:*** is wrong: ***");
        for wrong in ["db1:9090", "ftp://x", "http://", "http://a b", "http://x/?a=b"] {
            assert!(MetricStore::new(&StoreAccess::new(wrong)).is_err(), "{wrong}");
        }
        assert!(MetricStore::for_writing(&StoreAccess::new("http://x/?a=b")).is_ok());
        let headers = vec!["no colon".to_owned()];
        assert!(MetricStore::new(&StoreAccess { headers, ..StoreAccess::new("http://x") }).is_err());
        let password = Some("secret".to_owned());
        assert!(MetricStore::new(&StoreAccess { password, ..StoreAccess::new("http://x") }).is_err());
    }

    #[test]
    fn errors_show_what_the_store_says() {
        assert_eq!(error_message(br#"{"status":"error","error":"too many points"}"#), "too many points");
        assert_eq!(error_message(b"<html>\n <b>Bad gateway</b>"), "<html> <b>Bad gateway</b>");
        assert!(error_message("x".repeat(9000).as_bytes()).len() < 500);
    }
}
