//! Parsing of requests: the part of HTTP/1 that our pages need. Anything else is refused, never guessed.

/// Longest head of a request, bytes.
pub const MAX_HEAD_BYTES: usize = 8 << 10;
/// Longest body of a request, bytes.
pub const MAX_BODY_BYTES: usize = 16 << 10;

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
    pub fn query_parameter(&self, name: &str) -> Option<String> {
        let pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.into_iter().find(|(known, _)| *known == name).and_then(|(_, value)| decode_percent(value))
    }

    /// Returns true if only the head of the response is requested.
    pub fn is_head(&self) -> bool {
        self.method == "HEAD"
    }

    /// Returns true for a method that changes nothing.
    pub fn is_read_only(&self) -> bool {
        matches!(self.method.as_str(), "GET" | "HEAD")
    }
}

/// Decodes `%2F` and `+`.
fn decode_percent(text: &str) -> Option<String> {
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
    Malformed,
    /// Its head is too long.
    HeadTooLong,
    /// Its body is too long.
    BodyTooLong,
    /// The length of its body is not stated.
    MissingLength,
}

/// Result of parsing the input received so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HttpParse {
    /// The request is not yet complete.
    Partial,
    /// The request is refused, and the connection ends.
    Invalid(RequestFault),
    /// A complete request.
    Complete {
        /// The request.
        request: HttpRequest,
        /// The connection stays open for further requests.
        stays: bool,
        /// Bytes of head and body.
        length: usize,
    },
}

/// Parses the first request of the input received so far.
pub fn parse_request(input: &[u8]) -> HttpParse {
    let Some(length) = find_head_end(input) else {
        let is_long = input.len() >= MAX_HEAD_BYTES;
        return if is_long { HttpParse::Invalid(RequestFault::HeadTooLong) } else { HttpParse::Partial };
    };
    if length > MAX_HEAD_BYTES {
        return HttpParse::Invalid(RequestFault::HeadTooLong);
    }
    let head = std::str::from_utf8(&input[..length]).map_err(|_| RequestFault::Malformed);
    let (mut request, stays, body) = match head.and_then(parse_head) {
        Ok(found) => found,
        Err(fault) => return HttpParse::Invalid(fault),
    };
    let Some(bytes) = input.get(length..length + body) else { return HttpParse::Partial };
    request.body = bytes.to_vec();
    HttpParse::Complete { request, stays, length: length + body }
}

/// Parses a head into the request, the keep-alive flag, and the length of the body.
fn parse_head(head: &str) -> Result<(HttpRequest, bool, usize), RequestFault> {
    let mut lines = head.lines();
    let parts: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
    let [method, target, version] = parts.as_slice() else { return Err(RequestFault::Malformed) };
    if !matches!(*version, "HTTP/1.0" | "HTTP/1.1") || method.is_empty() || target.is_empty() {
        return Err(RequestFault::Malformed);
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut request =
        HttpRequest { method: (*method).into(), path: path.into(), query: query.into(), ..<_>::default() };
    for line in lines.take_while(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').ok_or(RequestFault::Malformed)?;
        // a folded line, or a name that a proxy before us may have parsed differently (request smuggling)
        if name.is_empty() || name.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(RequestFault::Malformed);
        }
        let name = name.to_ascii_lowercase();
        if matches!(name.as_str(), "host" | "content-length") && request.header(&name).is_some() {
            return Err(RequestFault::Malformed);
        }
        request.headers.push((name, value.trim().to_owned()));
    }
    if request.header("transfer-encoding").is_some() {
        return Err(RequestFault::MissingLength);
    }
    let length = match request.header("content-length") {
        Some(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            text.parse().map_err(|_| RequestFault::Malformed)?
        }
        Some(_) => return Err(RequestFault::Malformed),
        None => 0,
    };
    if length > MAX_BODY_BYTES {
        return Err(RequestFault::BodyTooLong);
    }
    let options = request.header("connection").unwrap_or_default();
    let ends = options.split(',').any(|word| word.trim().eq_ignore_ascii_case("close"));
    Ok((request, *version == "HTTP/1.1" && !ends, length))
}

/// Length of the head with its blank line, if it is complete.
fn find_head_end(input: &[u8]) -> Option<usize> {
    let found = |end: &[u8]| input.windows(end.len()).position(|w| w == end).map(|index| index + end.len());
    [found(b"\r\n\r\n"), found(b"\n\n")].into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_complete(text: &str) -> (HttpRequest, bool, usize) {
        match parse_request(text.as_bytes()) {
            HttpParse::Complete { request, stays, length } => (request, stays, length),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn valid_requests_are_parsed_and_malformed_ones_refused() {
        let (request, stays, length) = parse_complete("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_eq!((request.path.as_str(), request.header("host"), stays, length), ("/metrics", Some("x"), true, 34));
        let (request, stays, length) = parse_complete("HEAD /metrics?a=b&c=%2e%2e%2fd+e HTTP/1.0\r\n\r\nmore");
        assert!(request.is_head() && !stays && length == 45, "{length}");
        assert_eq!(request.query_parameter("c").as_deref(), Some("../d e"));
        assert_eq!((request.query_parameter("b"), request.query_parameter("a").as_deref()), (None, Some("b")));
        assert!(!parse_complete("GET / HTTP/1.1\r\nConnection: Keep-Alive, Close\r\n\r\n").1);
        assert_eq!(parse_complete("GET / HTTP/1.1\n\n").0.path, "/");
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
            let found = parse_request(format!("{wrong}\r\n\r\n").as_bytes());
            assert_eq!(found, HttpParse::Invalid(RequestFault::Malformed), "{wrong}");
        }
        assert_eq!(parse_request(b"\xff\xfe / HTTP/1.1\r\n\r\n"), HttpParse::Invalid(RequestFault::Malformed));
    }

    #[test]
    fn a_parameter_that_is_not_utf8_is_none() {
        let (request, ..) = parse_complete("GET /?a=%ff&b=%2&c=%zz&d= HTTP/1.1\r\n\r\n");
        assert_eq!(["a", "b", "c"].map(|name| request.query_parameter(name)), [None, None, None]);
        assert_eq!(request.query_parameter("d").as_deref(), Some(""));
    }

    #[test]
    fn bodies_are_read_completely_or_refused() {
        let text = "POST /x HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET";
        let (request, stays, length) = parse_complete(text);
        assert_eq!((request.body.as_slice(), stays, length), (b"abc".as_slice(), true, text.len() - 3));
        assert_eq!(parse_request(&text.as_bytes()[..text.len() - 4]), HttpParse::Partial);
        let refused = |line: &str| parse_request(format!("POST / HTTP/1.1\r\n{line}\r\n\r\n").as_bytes());
        assert_eq!(refused("Transfer-Encoding: chunked"), HttpParse::Invalid(RequestFault::MissingLength));
        assert_eq!(refused("Content-Length: 16385"), HttpParse::Invalid(RequestFault::BodyTooLong));
        assert_eq!(refused("Content-Length: 99999999999999999999999"), HttpParse::Invalid(RequestFault::Malformed));
    }

    #[test]
    fn a_head_is_complete_or_too_long() {
        let text = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
        assert!((0..text.len()).all(|cut| parse_request(&text[..cut]) == HttpParse::Partial));
        assert_eq!(parse_request(&[b'x'; MAX_HEAD_BYTES]), HttpParse::Invalid(RequestFault::HeadTooLong));
        assert_eq!(parse_request(&[b'x'; MAX_HEAD_BYTES - 1]), HttpParse::Partial);
    }
}
