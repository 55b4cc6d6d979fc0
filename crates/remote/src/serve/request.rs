//! The head of a request: as much of HTTP as one page needs.

/// The longest head.
pub const LONGEST: usize = 8 << 10;

/// What a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpRequestKind {
    /// `/metrics`.
    Page,
    /// Something that is not there.
    Other,
    /// To do more than to read.
    Change,
    /// Nobody knows what.
    Nonsense,
    /// Something that takes more words than there is room for.
    Long,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpRequest {
    pub want: HttpRequestKind,
    /// `HEAD`: the answer without its body.
    pub head_only: bool,
    /// More may be asked on the same connection.
    pub stays: bool,
    /// Bytes of the head.
    pub length: usize,
}

/// Reads the first request of what came so far; `None` while its head is not whole.
pub fn read(input: &[u8]) -> Option<HttpRequest> {
    let refused = |want, length| Some(HttpRequest { want, head_only: false, stays: false, length });
    let Some(length) = end_of_head(input) else {
        return if input.len() >= LONGEST { refused(HttpRequestKind::Long, input.len()) } else { None };
    };
    if length > LONGEST {
        return refused(HttpRequestKind::Long, length);
    }
    let Ok(head) = std::str::from_utf8(&input[..length]) else { return refused(HttpRequestKind::Nonsense, length) };
    let mut lines = head.lines();
    let words: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
    let [method, target, version] = words.as_slice() else { return refused(HttpRequestKind::Nonsense, length) };
    if !matches!(*version, "HTTP/1.0" | "HTTP/1.1") || method.is_empty() || target.is_empty() {
        return refused(HttpRequestKind::Nonsense, length);
    }
    let mut stays = *version == "HTTP/1.1";
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let value = value.trim();
        let ends = match name.to_ascii_lowercase().as_str() {
            "connection" => value.split(',').any(|word| word.trim().eq_ignore_ascii_case("close")),
            // a body is not read, so what follows it cannot be told from it
            "content-length" => value != "0",
            "transfer-encoding" => true,
            _ => false,
        };
        stays &= !ends;
    }
    let want = match (*method, target.split('?').next().unwrap_or_default()) {
        ("GET" | "HEAD", "/metrics") => HttpRequestKind::Page,
        ("GET" | "HEAD", _) => HttpRequestKind::Other,
        _ => HttpRequestKind::Change,
    };
    let stays = stays && want != HttpRequestKind::Change;
    Some(HttpRequest { want, head_only: *method == "HEAD", stays, length })
}

fn end_of_head(input: &[u8]) -> Option<usize> {
    let found = |end: &[u8]| input.windows(end.len()).position(|w| w == end).map(|index| index + end.len());
    [found(b"\r\n\r\n"), found(b"\n\n")].into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_apart() {
        let page = |stays, head_only, length| HttpRequest { want: HttpRequestKind::Page, head_only, stays, length };
        let whole = |text: &str| read(text.as_bytes()).unwrap();
        assert_eq!(whole("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), page(true, false, 34));
        assert_eq!(whole("HEAD /metrics?a=b HTTP/1.0\r\n\r\nmore"), page(false, true, 30));
        assert_eq!(whole("GET /metrics HTTP/1.1\n\n").want, HttpRequestKind::Page);
        for last in ["Connection: Keep-Alive, Close", "Content-Length: 5", "transfer-encoding: chunked"] {
            assert!(!whole(&format!("GET /metrics HTTP/1.1\r\n{last}\r\n\r\n")).stays, "{last}");
        }
        let wants = [
            ("GET / HTTP/1.1", HttpRequestKind::Other),
            ("GET /metrics/../x HTTP/1.1", HttpRequestKind::Other),
            ("POST /metrics HTTP/1.1", HttpRequestKind::Change),
            ("get /metrics HTTP/1.1", HttpRequestKind::Change),
            ("GET /metrics", HttpRequestKind::Nonsense),
            ("GET  /metrics HTTP/1.1", HttpRequestKind::Nonsense),
            ("GET /metrics HTTP/2.0", HttpRequestKind::Nonsense),
            ("GET /metrics HTTP/1.1 x", HttpRequestKind::Nonsense),
            ("", HttpRequestKind::Nonsense),
        ];
        for (line, want) in wants {
            assert_eq!(whole(&format!("{line}\r\n\r\n")).want, want, "{line}");
        }
        assert_eq!(read(b"\xff\xfe /metrics HTTP/1.1\r\n\r\n").unwrap().want, HttpRequestKind::Nonsense);
    }

    #[test]
    fn a_head_is_whole_or_too_long() {
        let text = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
        assert!((0..text.len()).all(|cut| read(&text[..cut]).is_none()));
        assert_eq!(read(&[b'x'; LONGEST]).unwrap().want, HttpRequestKind::Long);
        assert!(read(&[b'x'; LONGEST - 1]).is_none());
    }
}
