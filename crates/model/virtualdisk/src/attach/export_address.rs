//! Address of an export of an NBD server, by its URI
//! (<https://github.com/NetworkBlockDevice/nbd/blob/master/doc/uri.md>).

use std::fmt;
use std::path::PathBuf;

/// Port that IANA assigned to NBD.
const DEFAULT_PORT: u16 = 10809;

/// Address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NbdAddress {
    /// A Unix socket.
    Unix(PathBuf),
    /// A host's name or number, and a port.
    Tcp(String, u16),
}

/// An export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportAddress {
    /// Address of its server.
    pub address: NbdAddress,
    /// Its name; empty for the server's default.
    pub name: String,
}

/// Reason why a text is not the address of an export.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not an export: {why}; expected nbd+unix:///NAME?socket=PATH or nbd://HOST:PORT/NAME")]
pub struct UriError {
    /// The text.
    pub text: String,
    /// Its fault.
    pub why: &'static str,
}

impl UriError {
    /// Creates an error about a text; a password in the text is not shown.
    fn with_hidden_password(text: &str, why: &'static str) -> UriError {
        let authority_start = text.find("://").map_or(0, |index| index + 3);
        let rest = &text[authority_start..];
        let query_start = rest.find('?').unwrap_or(rest.len());
        match rest[..query_start].rfind('@').or_else(|| rest[..query_start].rfind("%40")) {
            None => UriError { text: text.to_owned(), why },
            Some(at_sign) => UriError { text: format!("{}***{}", &text[..authority_start], &rest[at_sign..]), why },
        }
    }
}

impl NbdAddress {
    /// Parses a host and port: `HOST:PORT`, `[::1]:PORT`, `HOST`.
    ///
    /// # Errors
    /// If there is no host, or the port is not a valid port number.
    pub fn parse_tcp(text: &str) -> Result<NbdAddress, UriError> {
        let fail = |why| UriError::with_hidden_password(text, why);
        // colons of an IPv6 address are in brackets
        let colon = text.rfind(':').filter(|position| !text[*position..].contains(']'));
        let (host, port) = colon.map_or((text, None), |position| (&text[..position], Some(&text[position + 1..])));
        let port = match port {
            None | Some("") => DEFAULT_PORT,
            Some(port) => {
                port.parse().ok().filter(|p| *p > 0).ok_or(fail("the port is not a number from 1 to 65535"))?
            }
        };
        let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
        let host = bare.unwrap_or(host);
        if host.is_empty() || bare.is_none() && host.contains(':') || host.contains(['[', ']', '/', '@']) {
            return Err(fail("it has no host"));
        }
        Ok(NbdAddress::Tcp(host.to_owned(), port))
    }
}

impl ExportAddress {
    /// Parses a URI.
    ///
    /// # Errors
    /// If it is not an NBD URI, or asks for TLS, which is not supported.
    pub fn parse(text: &str) -> Result<ExportAddress, UriError> {
        let fail = |why| UriError::with_hidden_password(text, why);
        let decoded =
            |part: &str| percent_decode(part).ok_or(fail("it has a % without two hex digits, or is not UTF-8"));
        let (scheme, rest) = text.split_once("://").ok_or(fail("it has no scheme"))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, name) = rest.split_once('/').unwrap_or((rest, ""));
        if decoded(authority)?.contains('@') {
            return Err(fail("NBD has no users and passwords; omit the part before the @"));
        }
        let name = decoded(name)?;
        if name.len() > 4096 || name.contains('\0') {
            return Err(fail("the export's name has more than 4096 bytes, or a zero byte"));
        }
        match scheme {
            "nbd" => Ok(ExportAddress {
                address: NbdAddress::parse_tcp(&decoded(authority)?).map_err(|e| fail(e.why))?,
                name,
            }),
            "nbd+unix" => {
                let socket = query.split('&').find_map(|pair| pair.strip_prefix("socket="));
                let socket = decoded(socket.filter(|s| !s.is_empty()).ok_or(fail("it has no socket=PATH"))?)?;
                Ok(ExportAddress { address: NbdAddress::Unix(socket.into()), name })
            }
            "nbds" | "nbds+unix" => Err(fail("TLS is not supported")),
            _ => Err(fail("its scheme is not nbd or nbd+unix")),
        }
    }
}

impl fmt::Display for ExportAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            NbdAddress::Unix(path) => {
                write!(
                    f,
                    "nbd+unix:///{}?socket={}",
                    percent_encode(&self.name),
                    percent_encode(&path.to_string_lossy())
                )
            }
            NbdAddress::Tcp(host, port) => {
                let (is_v6, name) = (host.contains(':'), percent_encode(&self.name));
                // colons are not encoded within brackets
                let host = percent_encode(host).replace("%3A", ":");
                if is_v6 { write!(f, "nbd://[{host}]:{port}/{name}") } else { write!(f, "nbd://{host}:{port}/{name}") }
            }
        }
    }
}

/// Percent-encodes a part of a URI, except for harmless characters.
fn percent_encode(text: &str) -> String {
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

fn percent_decode(text: &str) -> Option<String> {
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
            ("nbd+unix:///?socket=/tmp/s", NbdAddress::Unix("/tmp/s".into()), ""),
            ("nbd+unix:///disk1?socket=/run/a%20b/s", NbdAddress::Unix("/run/a b/s".into()), "disk1"),
            ("nbd://localhost:10809/a%3Fb", NbdAddress::Tcp("localhost".into(), 10809), "a?b"),
            ("nbd://[::1]:99/", NbdAddress::Tcp("::1".into(), 99), ""),
            ("nbd://a%25b:7/", NbdAddress::Tcp("a%b".into(), 7), ""),
            ("nbd://10.0.2.2:7/raid/x", NbdAddress::Tcp("10.0.2.2".into(), 7), "raid/x"),
        ] {
            let export = ExportAddress::parse(text).unwrap();
            assert_eq!(export, ExportAddress { address, name: name.to_owned() });
            assert_eq!(export.to_string(), text);
        }
        assert_eq!(ExportAddress::parse("nbd://host").unwrap().address, NbdAddress::Tcp("host".into(), 10809));
    }

    #[test]
    fn no_password_is_shown() {
        for text in [
            "nbd://me:secret@host/x",
            "nbd://me:secret@host:99/x",
            "nbd://me%3Asecret%40host/x",
            "nbds://me:secret@host/",
            "nbd://me:secr@et@host/",
            "http://me:secret@host/x",
            "nbd+unix://me:secret@/x?socket=/tmp/s",
            "nbd+unix://me:secret@/x?nothing",
            "nbd://me:secret/secret@host/%4",
        ] {
            let error = ExportAddress::parse(text).unwrap_err();
            assert!(!error.to_string().contains("secr"), "{error}");
        }
        assert!(ExportAddress::parse("nbd://me:secret@host/x").unwrap_err().why.contains("no users and passwords"));
        let error = NbdAddress::parse_tcp("me:secret@host:9").unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
        // names may have one
        assert_eq!(ExportAddress::parse("nbd://host/a@b").unwrap().name, "a@b");
    }

    #[test]
    fn rejects_texts_that_name_no_export() {
        let long = format!("nbd://host/{}", "x".repeat(5000));
        for (text, why) in [
            ("", "no scheme"),
            ("/tmp/socket", "no scheme"),
            ("http://host/", "scheme is not nbd"),
            ("nbds://host/", "TLS"),
            ("nbd+unix:///x", "no socket"),
            ("nbd+unix:///x?socket=", "no socket"),
            ("nbd://:10809/", "no host"),
            ("nbd://::1/", "no host"),
            ("nbd://host:0/", "not a number from 1"),
            ("nbd://host:65536/", "not a number from 1"),
            ("nbd://host:a/", "not a number from 1"),
            ("nbd://host/%4", "two hex digits"),
            ("nbd://host/%zz", "two hex digits"),
            ("nbd://host/%ff", "UTF-8"),
            ("nbd://host/%00", "a zero"),
            (&long, "4096"),
        ] {
            let error = ExportAddress::parse(text).unwrap_err();
            assert!(error.why.contains(why), "{text}: {error}");
        }
    }
}
