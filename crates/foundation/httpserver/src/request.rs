//! Parsing of requests: the part of HTTP/1 that our pages need. Anything else is refused, never guessed.

/// Longest head of a request, bytes.
pub const LONGEST: usize = 8 << 10;
/// Longest body of a request, bytes.
pub const LONGEST_BODY: usize = 16 << 10;

/// A request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpRequest {
    /// Method as sent; methods are case-sensitive.
    pub method: String,
    /// Target without its query, as sent.
    pub path: String,
    query: String,
    /// Names in lower case.
    headers: Vec<(String, String)>,
    /// Body.
    pub body: Vec<u8>,
}

impl HttpRequest {
    /// Returns the value of a header; the name is given in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns a value of the query, decoded; `None` where it is missing or not UTF-8.
    pub fn parameter(&self, name: &str) -> Option<String> {
        let pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.into_iter().find(|(known, _)| *known == name).and_then(|(_, value)| decoded(value))
    }

    /// Returns true if only the head of the response is requested.
    pub fn is_head(&self) -> bool {
        self.method == "HEAD"
    }

    /// Returns true for a method that changes nothing.
    pub fn is_reading(&self) -> bool {
        matches!(self.method.as_str(), "GET" | "HEAD")
    }
}

/// Decodes `%2F` and `+`.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut found = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        found.push(match byte {
            b'%' => {
                let digits = [bytes.next()?, bytes.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            b'+' => b' ',
            other => other,
        });
    }
    String::from_utf8(found).ok()
}

/// Reason why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestFault {
    /// It is not valid HTTP/1.
    Nonsense,
    /// Its head is too long.
    Long,
    /// Its body is too long.
    LongBody,
    /// The length of its body is not stated.
    NoLength,
}

/// Result of parsing the input received so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HttpParse {
    /// The request is not yet complete.
    Partial,
    /// The request is refused, and the connection ends.
    Wrong(RequestFault),
    /// A complete request.
    Whole {
        /// The request.
        request: HttpRequest,
        /// The connection stays open for further requests.
        stays: bool,
        /// Bytes of head and body.
        length: usize,
    },
}

/// Parses the first request of the input received so far.
pub fn parse(input: &[u8]) -> HttpParse {
    let Some(length) = end_of_head(input) else {
        let is_long = input.len() >= LONGEST;
        return if is_long { HttpParse::Wrong(RequestFault::Long) } else { HttpParse::Partial };
    };
    if length > LONGEST {
        return HttpParse::Wrong(RequestFault::Long);
    }
    let head = std::str::from_utf8(&input[..length]).map_err(|_| RequestFault::Nonsense);
    let (mut request, stays, body) = match head.and_then(of_head) {
        Ok(found) => found,
        Err(fault) => return HttpParse::Wrong(fault),
    };
    let Some(bytes) = input.get(length..length + body) else { return HttpParse::Partial };
    request.body = bytes.to_vec();
    HttpParse::Whole { request, stays, length: length + body }
}

/// Parses a head into the request, the keep-alive flag, and the length of the body.
fn of_head(head: &str) -> Result<(HttpRequest, bool, usize), RequestFault> {
    let mut lines = head.lines();
    let words: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
    let [method, target, version] = words.as_slice() else { return Err(RequestFault::Nonsense) };
    if !matches!(*version, "HTTP/1.0" | "HTTP/1.1") || method.is_empty() || target.is_empty() {
        return Err(RequestFault::Nonsense);
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut request =
        HttpRequest { method: (*method).into(), path: path.into(), query: query.into(), ..<_>::default() };
    for line in lines.take_while(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').ok_or(RequestFault::Nonsense)?;
        // a folded line, or a name that a proxy before us may have parsed differently (request smuggling)
        if name.is_empty() || name.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(RequestFault::Nonsense);
        }
        let name = name.to_ascii_lowercase();
        if matches!(name.as_str(), "host" | "content-length") && request.header(&name).is_some() {
            return Err(RequestFault::Nonsense);
        }
        request.headers.push((name, value.trim().to_owned()));
    }
    if request.header("transfer-encoding").is_some() {
        return Err(RequestFault::NoLength);
    }
    let length = match request.header("content-length") {
        Some(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            text.parse().map_err(|_| RequestFault::Nonsense)?
        }
        Some(_) => return Err(RequestFault::Nonsense),
        None => 0,
    };
    if length > LONGEST_BODY {
        return Err(RequestFault::LongBody);
    }
    let words = request.header("connection").unwrap_or_default();
    let ends = words.split(',').any(|word| word.trim().eq_ignore_ascii_case("close"));
    Ok((request, *version == "HTTP/1.1" && !ends, length))
}

/// Length of the head with its blank line, if it is complete.
fn end_of_head(input: &[u8]) -> Option<usize> {
    let found = |end: &[u8]| input.windows(end.len()).position(|w| w == end).map(|index| index + end.len());
    [found(b"\r\n\r\n"), found(b"\n\n")].into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: &str) -> (HttpRequest, bool, usize) {
        match parse(text.as_bytes()) {
            HttpParse::Whole { request, stays, length } => (request, stays, length),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn requests_are_told_apart() {
        let (request, stays, length) = whole("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_eq!((request.path.as_str(), request.header("host"), stays, length), ("/metrics", Some("x"), true, 34));
        let (request, stays, length) = whole("HEAD /metrics?a=b&c=%2e%2e%2fd+e HTTP/1.0\r\n\r\nmore");
        assert!(request.is_head() && !stays && length == 45, "{length}");
        assert_eq!(request.parameter("c").as_deref(), Some("../d e"));
        assert_eq!((request.parameter("b"), request.parameter("a").as_deref()), (None, Some("b")));
        assert!(!whole("GET / HTTP/1.1\r\nConnection: Keep-Alive, Close\r\n\r\n").1);
        assert_eq!(whole("GET / HTTP/1.1\n\n").0.path, "/");
        for wrong in [
            "GET /metrics",
            "GET  /metrics HTTP/1.1",
            "GET / HTTP/2.0",
            "GET / HTTP/1.1 x",
            "",
            "GET / HTTP/1.1\r\nHost: a\r\nHost: b",
            "GET / HTTP/1.1\r\nHost : a",
            "GET / HTTP/1.1\r\n folded: x",
            "POST / HTTP/1.1\r\nContent-Length: -1",
            "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1",
            "GET / HTTP/1.1\r\nno colon",
        ] {
            let found = parse(format!("{wrong}\r\n\r\n").as_bytes());
            assert_eq!(found, HttpParse::Wrong(RequestFault::Nonsense), "{wrong}");
        }
        assert_eq!(parse(b"\xff\xfe / HTTP/1.1\r\n\r\n"), HttpParse::Wrong(RequestFault::Nonsense));
    }

    #[test]
    fn a_value_that_is_not_text_is_none() {
        let (request, ..) = whole("GET /?a=%ff&b=%2&c=%zz&d= HTTP/1.1\r\n\r\n");
        assert_eq!(["a", "b", "c"].map(|name| request.parameter(name)), [None, None, None]);
        assert_eq!(request.parameter("d").as_deref(), Some(""));
    }

    #[test]
    fn bodies_are_read_whole_or_refused() {
        let text = "POST /x HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET";
        let (request, stays, length) = whole(text);
        assert_eq!((request.body.as_slice(), stays, length), (b"abc".as_slice(), true, text.len() - 3));
        assert_eq!(parse(&text.as_bytes()[..text.len() - 4]), HttpParse::Partial);
        let refused = |line: &str| parse(format!("POST / HTTP/1.1\r\n{line}\r\n\r\n").as_bytes());
        assert_eq!(refused("Transfer-Encoding: chunked"), HttpParse::Wrong(RequestFault::NoLength));
        assert_eq!(refused("Content-Length: 16385"), HttpParse::Wrong(RequestFault::LongBody));
        assert_eq!(refused("Content-Length: 99999999999999999999999"), HttpParse::Wrong(RequestFault::Nonsense));
    }

    #[test]
    fn a_head_is_whole_or_too_long() {
        let text = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
        assert!((0..text.len()).all(|cut| parse(&text[..cut]) == HttpParse::Partial));
        assert_eq!(parse(&[b'x'; LONGEST]), HttpParse::Wrong(RequestFault::Long));
        assert_eq!(parse(&[b'x'; LONGEST - 1]), HttpParse::Partial);
    }
}
