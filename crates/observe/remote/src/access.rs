//! Address and credentials of a store. Passwords and tokens are never shown.

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ureq::http::{HeaderName, HeaderValue, Uri};

use crate::error::RemoteError;

/// Words in the name of a query parameter or header whose value is a secret.
const SECRET_WORDS: [&str; 7] = ["token", "pass", "pwd", "secret", "key", "auth", "sig"];

/// Address, credentials and limits of a store.
#[derive(Clone)]
pub struct StoreAccess {
    /// `http://host:port/prefix`, with `user:password@` if the store requires it.
    pub url: String,
    /// The password of the address's user, if the address has none.
    pub password: Option<String>,
    /// Sent as `Authorization: Bearer …`.
    pub token: Option<String>,
    /// Further headers, `Name: value`.
    pub headers: Vec<String>,
    /// Timeout of one request.
    pub timeout: Duration,
    /// The largest accepted answer, bytes.
    pub max_response_bytes: u64,
}

impl StoreAccess {
    /// Creates the access to an address with default limits.
    pub fn new(url: &str) -> StoreAccess {
        StoreAccess {
            url: url.to_owned(),
            password: None,
            token: None,
            headers: Vec::new(),
            timeout: Duration::from_secs(120),
            max_response_bytes: 512 << 20,
        }
    }

    /// Returns true if the address contains a user, but no password.
    pub fn has_user(&self) -> bool {
        StoreAddress::parse(&self.url).is_ok_and(|address| matches!(address.user, Some((_, None))))
    }

    /// Returns all headers: the configured ones, and the authorization.
    pub(crate) fn request_headers(&self, address: &StoreAddress) -> Result<Vec<(String, String)>, RemoteError> {
        let mut headers = self.headers.iter().map(|text| parse_header(text)).collect::<Result<Vec<_>, _>>()?;
        let authorization = match (&address.user, &self.token) {
            (Some(_), Some(_)) => return Err(usage_error(&address.shown, "give a user or a bearer token, not both")),
            (Some((user, password)), None) => {
                let password = password.as_deref().or(self.password.as_deref()).unwrap_or_default();
                Some(format!("Basic {}", STANDARD.encode(format!("{user}:{password}"))))
            }
            (None, Some(token)) => Some(format!("Bearer {token}")),
            (None, None) => None,
        };
        if let Some(value) = authorization {
            if HeaderValue::from_str(&value).is_err() {
                return Err(usage_error(
                    &address.shown,
                    "a header cannot hold a character of the token (a line break?)",
                ));
            }
            headers.push(("Authorization".into(), value));
        }
        Ok(headers)
    }

    /// Collects the strings that must not appear in a message, longest first.
    pub(crate) fn collect_secrets(&self, address: &StoreAddress, headers: &[(String, String)]) -> Vec<String> {
        let password = address.user.as_ref().and_then(|(_, password)| password.clone());
        let header_secrets = headers.iter().filter(|(name, _)| is_secret(name)).flat_map(|(_, value)| {
            // also the credentials without the scheme before them
            [Some(value.clone()), value.split_once(' ').map(|(_, credentials)| credentials.to_owned())]
        });
        let mut secrets: Vec<String> = [password, self.password.clone(), self.token.clone()]
            .into_iter()
            .chain(header_secrets)
            .flatten()
            // hiding a shorter secret would also hide ordinary words
            .filter(|secret| secret.len() > 3)
            .collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets
    }
}

impl fmt::Debug for StoreAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().filter_map(|h| Some(h.split_once(':')?.0)).collect();
        f.debug_struct("StoreAccess")
            .field("url", &redact_url(&self.url))
            .field("headers", &names)
            .finish_non_exhaustive()
    }
}

/// Parses a header `Name: value`.
fn parse_header(text: &str) -> Result<(String, String), RemoteError> {
    // a malformed header may contain a secret, so only its first word is shown
    let first_word = text.split([' ', ':']).next().unwrap_or_default();
    let header_error = |because: &str| usage_error(&format!("--header '{first_word} …'"), because);
    let pair = text.split_once(':').filter(|(name, _)| !name.trim().is_empty());
    let (name, value) = pair.ok_or_else(|| header_error("expected `Name: value`"))?;
    let (name, value) = (name.trim(), value.trim());
    if HeaderName::try_from(name).is_err() || HeaderValue::from_str(value).is_err() {
        return Err(header_error("a header cannot hold a character of it"));
    }
    Ok((name.to_owned(), value.to_owned()))
}

/// The parts of an address.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct StoreAddress {
    /// `http://host:port/prefix`, without a slash at its end.
    pub base: String,
    /// `?a=b`, or empty.
    pub query: String,
    /// The user, and the password if there is one.
    pub user: Option<(String, Option<String>)>,
    /// The address without secrets, for messages.
    pub shown: String,
}

impl StoreAddress {
    /// Parses an address.
    ///
    /// # Errors
    /// When it is not the address of a store.
    pub fn parse(text: &str) -> Result<StoreAddress, RemoteError> {
        let text = text.trim();
        let address_error = |because: &str| usage_error(&redact_url(text), because);
        let Some((scheme, location)) = text.split_once("://").filter(|(scheme, _)| matches!(*scheme, "http" | "https"))
        else {
            return Err(address_error("the address must begin with http:// or https://"));
        };
        let (authority, path_and_query) = location.split_at(location.find(['/', '?', '#']).unwrap_or(location.len()));
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        if path_and_query.contains('#') {
            return Err(address_error("not the address of a store; write # in a password as %23"));
        }
        let (path, query) = path_and_query.split_at(path_and_query.find('?').unwrap_or(path_and_query.len()));
        let base = format!("{scheme}://{}", format!("{host}{path}").trim_end_matches('/'));
        let url = format!("{base}{query}");
        let port = host.rsplit(']').next().unwrap_or_default().split_once(':').map(|(_, port)| port);
        let is_valid = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0))
            && Uri::try_from(&url).is_ok_and(|uri| uri.host().is_some_and(|host| !host.is_empty()));
        if !is_valid {
            return Err(address_error(
                "not the address of a store; in a password, write / as %2F, @ as %40 and : as %3A",
            ));
        }
        let user = user.map(|user| match user.split_once(':') {
            Some((name, password)) => (percent_decode(name), Some(percent_decode(password))),
            None => (percent_decode(user), None),
        });
        Ok(StoreAddress { shown: redact_url(&url), base, query: query.to_owned(), user })
    }

    /// Restores the slashes at the end of the path of `text`, because a receiver may distinguish `/hook/` and `/hook`.
    pub fn with_last_slashes(mut self, text: &str) -> StoreAddress {
        let without_query = text.trim().split('?').next().unwrap_or_default();
        let slashes = &without_query[without_query.trim_end_matches('/').len()..];
        self.base.push_str(slashes);
        self.shown = redact_url(&format!("{}{}", self.base, self.query));
        self
    }

    /// Returns the address for remote write: unchanged if its path is that of an endpoint for writing, else with
    /// `/api/v1/write` added.
    pub fn for_writing(mut self) -> StoreAddress {
        let location = self.base.split_once("://").map_or("", |(_, location)| location);
        let path = location.split_once('/').map_or("", |(_, path)| path);
        // Prometheus, Mimir and VictoriaMetrics: write; Cortex: push; Thanos: receive
        let is_write_path = path.rsplit('/').next().is_some_and(|last| matches!(last, "write" | "push" | "receive"));
        if !is_write_path {
            self.base.push_str("/api/v1/write");
            self.shown = redact_url(&format!("{}{}", self.base, self.query));
        }
        self
    }
}

/// Returns true if an address contains a password or token. On a command line, `ps` shows it to all users.
pub fn has_password(url: &str) -> bool {
    redact_url(url) != url.trim()
        && StoreAddress::parse(url).is_ok_and(|a| a.user.is_none_or(|(_, password)| password.is_some()))
}

/// Returns an address, valid or not, without user, password, and values of secret parameters.
pub fn redact_url(url: &str) -> String {
    let url = url.trim();
    let (scheme, location) = url.split_at(url.find("://").map_or(0, |start| start + 3));
    let is_port = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let split_query = |text: &'_ str| text.find(['?', '#']).unwrap_or(text.len());
    let (path, query) = location.split_at(split_query(location));
    let authority = path.split('/').next().unwrap_or_default();
    // in `u:p?ss@host` a part of the password looks like the query
    let is_odd = authority.rsplit_once(':').is_some_and(|(_, port)| !is_port(port));
    let (path, query) = match (path.rsplit_once('@'), location.rsplit_once('@')) {
        (Some((_, path)), _) => (path, query),
        (None, Some((_, after_user))) if is_odd => after_user.split_at(split_query(after_user)),
        (None, _) => (path, query),
    };
    let hide = |pair: &str| match pair.split_once('=') {
        Some((name, _)) if is_secret(name) => format!("{name}=***"),
        _ => pair.to_owned(),
    };
    let query = match query.strip_prefix('?') {
        Some(pairs) => format!("?{}", pairs.split('&').map(hide).collect::<Vec<_>>().join("&")),
        None if query.is_empty() => String::new(),
        None => "#***".to_owned(),
    };
    format!("{scheme}{path}{query}")
}

/// Returns true for the name of a parameter or header whose value is a secret.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    // InfluxDB names user and password `u` and `p`
    matches!(name.as_str(), "p" | "cookie") || SECRET_WORDS.iter().any(|word| name.contains(word))
}

/// Decodes percent escapes: `%41` is an `A`.
fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut remaining = text.as_bytes();
    while let Some((&first, tail)) = remaining.split_first() {
        let digits = tail.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        match digits.filter(|_| first == b'%').and_then(|two| u8::from_str_radix(two, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                remaining = &tail[2..];
            }
            None => {
                bytes.push(first);
                remaining = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Creates the error about an option or address that the user gave.
fn usage_error(option: &str, because: &str) -> RemoteError {
    RemoteError::Usage { option: option.into(), because: because.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_an_address_are_never_shown() {
        let shown = [
            ("http://u:secret@db1:9090/prom/", "http://db1:9090/prom/"),
            ("http://secret@db1", "http://db1"),
            ("http://u:se/cret@db1/x", "http://db1/x"),
            ("http://u:se?cret@db1/x", "http://db1/x"),
            ("http://u:se#cret@db1/x", "http://db1/x"),
            ("http://u:se@cret@db1/x", "http://db1/x"),
            ("u:secret@db1", "db1"),
            ("http://db1/w?db=x&token=secret&p=secret", "http://db1/w?db=x&token=***&p=***"),
            ("http://db1/?API_KEY=secret#secret", "http://db1/?API_KEY=***"),
            ("http://db1/?a=b@c", "http://db1/?a=b@c"),
            ("http://[::1]:9090/x?a=b@c", "http://[::1]:9090/x?a=b@c"),
            ("http://db1#secret", "http://db1#***"),
        ];
        for (url, wanted) in shown {
            assert_eq!(redact_url(url), wanted, "{url}");
            if let Err(error) = StoreAddress::parse(url) {
                assert!(!error.to_string().contains("cret"), "{url}: {error}");
            }
        }
    }

    #[test]
    fn parses_an_address_into_its_parts() {
        let address = StoreAddress::parse("https://u%40x:p%2Fw:d@db1:9090/prom//?db=a").ok().unwrap();
        assert_eq!((address.base.as_str(), address.query.as_str()), ("https://db1:9090/prom", "?db=a"));
        assert_eq!(address.user, Some(("u@x".into(), Some("p/w:d".into()))));
        assert_eq!(StoreAddress::parse("http://u@h").ok().unwrap().user, Some(("u".into(), None)));
        let wrong =
            ["db1:9090", "ftp://x", "http://", "http://a b", "http://u:p@", "http://h/#x", "http://h:x/", "http:///x"];
        for wrong in wrong {
            assert!(StoreAddress::parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(percent_decode("100%zz%4"), "100%zz%4");
    }

    #[test]
    fn a_full_write_address_is_not_changed() {
        let to = |url: &str| {
            let address = StoreAddress::parse(url).ok().unwrap().for_writing();
            format!("{}{}", address.base, address.query)
        };
        for (given, wanted) in [
            ("http://h:9090", "http://h:9090/api/v1/write"),
            ("http://h:9090/", "http://h:9090/api/v1/write"),
            ("http://h/insert/0/prometheus", "http://h/insert/0/prometheus/api/v1/write"),
            ("http://h/?token=x", "http://h/api/v1/write?token=x"),
            ("http://write", "http://write/api/v1/write"),
        ] {
            assert_eq!(to(given), wanted);
        }
        let addresses = [
            "http://h/api/v1/write",
            "http://h/api/v1/push",
            "http://h/api/prom/push",
            "http://h/write",
            "http://h/api/v1/receive",
            "http://h/insert/0/prometheus/api/v1/write",
            "http://h/api/v1/prom/write?db=x",
        ];
        for url in addresses {
            assert_eq!(to(url), url);
        }
        assert_eq!(to("http://h/api/v1/write/"), "http://h/api/v1/write");
    }

    #[test]
    fn sends_one_kind_of_credentials_and_never_shows_them() {
        let address = StoreAddress::parse("http://u:secret@h").ok().unwrap();
        let access = StoreAccess::new("http://u:secret@h");
        let headers = access.request_headers(&address).unwrap();
        assert_eq!(headers, [("Authorization".to_owned(), "Basic dTpzZWNyZXQ=".to_owned())]);
        assert!(access.collect_secrets(&address, &headers).contains(&"dTpzZWNyZXQ=".to_owned()));
        let both = StoreAccess { token: Some("t".into()), ..access.clone() };
        assert!(both.request_headers(&address).is_err());
        let plain = StoreAddress::parse("http://h").ok().unwrap();
        for token in ["a\nX: y", "a\r"] {
            let bad = StoreAccess { token: Some(token.into()), ..StoreAccess::new("http://h") };
            assert!(bad.request_headers(&plain).is_err(), "{token:?}");
        }
        for text in ["Authorization Bearer secret", "a b: secret", ": secret", "A: sec\nret", "A\r\nB: secret"] {
            let bad = StoreAccess { headers: vec![text.into()], ..StoreAccess::new("http://h") };
            let error = bad.request_headers(&plain).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
        assert!(!format!("{access:?}").contains("secret"));
        assert!(has_password("http://u:p@h") && has_password("http://h/?token=x"));
        assert!(!has_password("http://u@h") && !has_password("http://h:9090"));
    }
}
