//! What is attached: an export of an NBD server, by its URI
//! (<https://github.com/NetworkBlockDevice/nbd/blob/master/doc/uri.md>).

use std::fmt;
use std::path::PathBuf;

/// The port that IANA gave to NBD.
const PORT: u16 = 10809;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A Unix socket.
    Unix(PathBuf),
    /// A host's name or number, and a port.
    Tcp(String, u16),
}

/// An export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Where its server listens.
    pub address: Address,
    /// Its name; empty for the server's default.
    pub name: String,
}

/// Why a text names no export.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} names no export: {why}; nbd+unix:///NAME?socket=PATH or nbd://HOST:PORT/NAME would")]
pub struct UriError {
    /// What was read.
    pub text: String,
    /// What is wrong with it.
    pub why: &'static str,
}

impl Address {
    /// A host and port as people write them: `HOST:PORT`, `[::1]:PORT`, `HOST`.
    ///
    /// # Errors
    /// Where there is no host, or the port is no number of a port.
    pub fn tcp(text: &str) -> Result<Address, UriError> {
        let fail = |why| UriError { text: text.to_owned(), why };
        // colons of an IPv6 number stand in brackets
        let colon = text.rfind(':').filter(|at| !text[*at..].contains(']'));
        let (host, port) = colon.map_or((text, None), |at| (&text[..at], Some(&text[at + 1..])));
        let port = match port {
            None | Some("") => PORT,
            Some(port) => port.parse().ok().filter(|p| *p > 0).ok_or(fail("the port is no number from 1 to 65535"))?,
        };
        let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
        let host = bare.unwrap_or(host);
        if host.is_empty() || bare.is_none() && host.contains(':') || host.contains(['[', ']', '/', '@']) {
            return Err(fail("there is no host"));
        }
        Ok(Address::Tcp(host.to_owned(), port))
    }
}

impl Export {
    /// Reads a URI.
    ///
    /// # Errors
    /// Where it is none of NBD, or asks for TLS, which is not spoken here.
    pub fn parse(text: &str) -> Result<Export, UriError> {
        let fail = |why| UriError { text: text.to_owned(), why };
        let decoded = |part: &str| decode(part).ok_or(fail("a % is not followed by two digits, or it is not UTF-8"));
        let (scheme, rest) = text.split_once("://").ok_or(fail("there is no scheme"))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, name) = rest.split_once('/').unwrap_or((rest, ""));
        let name = decoded(name)?;
        if name.len() > 4096 || name.contains('\0') {
            return Err(fail("the export's name has more than 4096 bytes, or a zero"));
        }
        match scheme {
            "nbd" => Ok(Export { address: Address::tcp(&decoded(authority)?).map_err(|e| fail(e.why))?, name }),
            "nbd+unix" => {
                let socket = query.split('&').find_map(|pair| pair.strip_prefix("socket="));
                let socket = decoded(socket.filter(|s| !s.is_empty()).ok_or(fail("there is no socket=PATH"))?)?;
                Ok(Export { address: Address::Unix(socket.into()), name })
            }
            "nbds" | "nbds+unix" => Err(fail("TLS is not spoken here")),
            _ => Err(fail("its scheme is not NBD's")),
        }
    }
}

impl fmt::Display for Export {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            Address::Unix(path) => {
                write!(f, "nbd+unix:///{}?socket={}", encode(&self.name), encode(&path.to_string_lossy()))
            }
            Address::Tcp(host, port) => {
                let (is_v6, name) = (host.contains(':'), encode(&self.name));
                // colons stand for themselves within brackets
                let host = encode(host).replace("%3A", ":");
                if is_v6 { write!(f, "nbd://[{host}]:{port}/{name}") } else { write!(f, "nbd://{host}:{port}/{name}") }
            }
        }
    }
}

/// A part of a URI, with all but the harmless characters as `%` and two digits.
fn encode(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

fn decode(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let mut digit = || char::from(bytes.next()?).to_digit(16);
            out.push(u8::try_from(digit()? * 16 + digit()?).ok()?);
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_read_back_as_they_were_written() {
        for (text, address, name) in [
            ("nbd+unix:///?socket=/tmp/s", Address::Unix("/tmp/s".into()), ""),
            ("nbd+unix:///disk1?socket=/run/a%20b/s", Address::Unix("/run/a b/s".into()), "disk1"),
            ("nbd://localhost:10809/a%3Fb", Address::Tcp("localhost".into(), 10809), "a?b"),
            ("nbd://[::1]:99/", Address::Tcp("::1".into(), 99), ""),
            ("nbd://a%25b:7/", Address::Tcp("a%b".into(), 7), ""),
            ("nbd://10.0.2.2:7/raid/x", Address::Tcp("10.0.2.2".into(), 7), "raid/x"),
        ] {
            let export = Export::parse(text).unwrap();
            assert_eq!(export, Export { address, name: name.to_owned() });
            assert_eq!(export.to_string(), text);
        }
        assert_eq!(Export::parse("nbd://host").unwrap().address, Address::Tcp("host".into(), 10809));
    }

    #[test]
    fn what_is_no_export_is_refused() {
        let long = format!("nbd://host/{}", "x".repeat(5000));
        for (text, why) in [
            ("", "no scheme"),
            ("/tmp/socket", "no scheme"),
            ("http://host/", "scheme is not NBD's"),
            ("nbds://host/", "TLS"),
            ("nbd+unix:///x", "no socket"),
            ("nbd+unix:///x?socket=", "no socket"),
            ("nbd://:10809/", "no host"),
            ("nbd://::1/", "no host"),
            ("nbd://host:0/", "no number from 1"),
            ("nbd://host:65536/", "no number from 1"),
            ("nbd://host:a/", "no number from 1"),
            ("nbd://host/%4", "two digits"),
            ("nbd://host/%zz", "two digits"),
            ("nbd://host/%ff", "UTF-8"),
            ("nbd://host/%00", "a zero"),
            (&long, "4096"),
        ] {
            let error = Export::parse(text).unwrap_err();
            assert!(error.why.contains(why), "{text}: {error}");
        }
    }
}
