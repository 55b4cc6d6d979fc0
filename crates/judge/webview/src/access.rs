//! Access control: checks the Host header, the origin of a request and the token, and adds security headers to every
//! answer.

use diskwright_httpserver::{HostNames, HttpRequest, HttpResponse, host_name};

/// Prefix of the name of the cookie that holds the token.
const COOKIE_PREFIX: &str = "diskwright";

/// Access rules.
#[derive(Clone, Debug, Default)]
pub struct WebAccess {
    /// Names under which the server may be asked.
    pub names: HostNames,
    /// Token that every client must present; `None` lets everybody who reaches the server in.
    pub token: Option<String>,
}

/// Returns this number of random bytes as hexadecimal digits.
///
/// # Errors
/// Where the kernel provides none.
pub fn random_text(bytes: usize) -> std::io::Result<String> {
    let mut random = vec![0u8; bytes];
    let mut filled = 0;
    while filled < bytes {
        filled += rustix::rand::getrandom(&mut random[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Compares two texts in a time that does not depend on where they differ.
fn is_equal_in_constant_time(first: &str, second: &str) -> bool {
    let difference = first.bytes().zip(second.bytes()).fold(0, |bits, (a, b)| bits | (a ^ b));
    std::hint::black_box(difference) == 0 && first.len() == second.len()
}

/// Returns the answer that refuses a request, with a status and a text.
fn refuse_with(status: &'static str, text: &str) -> Option<HttpResponse> {
    Some(with_security_headers(HttpResponse::plain_text(status, text), None))
}

impl WebAccess {
    /// Returns the answer that refuses a request, or that redirects a client which has just presented the token; `None`
    /// where the request is allowed.
    pub fn check_request(&self, request: &HttpRequest) -> Option<HttpResponse> {
        let host = request.header("host").unwrap_or_default();
        if !self.names.allows(request) {
            return refuse_with("403 Forbidden", HostNames::REFUSAL);
        }
        // browsers send the site that a request comes from; other programs send nothing
        let site = request.header("sec-fetch-site").unwrap_or("none");
        if !matches!(site, "none" | "same-origin") && request.path != "/" {
            return refuse_with("403 Forbidden", "requests from other sites are refused\n");
        }
        if let Some(refusal) = self.refuse_without_token(request) {
            return Some(refusal);
        }
        match request.method.as_str() {
            "GET" | "HEAD" => None,
            "POST" => self.refuse_foreign_change(request, host),
            _ => refuse_with("405 Method Not Allowed\r\nAllow: GET, HEAD, POST", "use GET, HEAD or POST\n"),
        }
    }

    /// Refuses a POST that does not come from the server's own page.
    fn refuse_foreign_change(&self, request: &HttpRequest, host: &str) -> Option<HttpResponse> {
        let origin = request.header("origin").unwrap_or_default();
        let authority = origin.split_once("://").map_or("", |(_, authority)| authority);
        if authority.is_empty() || !authority.eq_ignore_ascii_case(host) {
            return refuse_with("403 Forbidden", "a change needs an Origin header from this server's own page\n");
        }
        let kind = request.header("content-type").unwrap_or_default();
        if !kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json")) {
            return refuse_with("415 Unsupported Media Type", "send application/json\n");
        }
        None
    }

    fn refuse_without_token(&self, request: &HttpRequest) -> Option<HttpResponse> {
        let token = self.token.as_deref()?;
        let own_cookie = cookie_name(request.header("host").unwrap_or_default());
        let cookies = request.header("cookie").unwrap_or_default().split(';');
        let mut cookies = cookies.filter_map(|pair| pair.trim().split_once('='));
        let cookie = cookies.find(|(name, _)| *name == own_cookie);
        let bearer = request.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
        let presented = [cookie.map(|(_, value)| value), bearer];
        if presented.into_iter().flatten().any(|presented| is_equal_in_constant_time(presented, token)) {
            return None;
        }
        if request.path == "/"
            && request.query_parameter("token").is_some_and(|presented| is_equal_in_constant_time(&presented, token))
        {
            // redirected, so that the token does not stay in the address bar
            let mut answer = HttpResponse::plain_text("303 See Other", "");
            answer.headers.push(("Location", "/".into()));
            let cookie = format!("{own_cookie}={token}; Path=/; HttpOnly; SameSite=Lax; Max-Age=2592000");
            answer.headers.push(("Set-Cookie", cookie));
            return Some(with_security_headers(answer, None));
        }
        let text = "open the address with ?token=TOKEN once, or send Authorization: Bearer TOKEN\n";
        refuse_with("401 Unauthorized\r\nWWW-Authenticate: Bearer", text)
    }
}

/// Name of the cookie for a host and port. Browsers send a cookie to all ports of its host, so with a common name each
/// server would overwrite the token of the others.
fn cookie_name(host: &str) -> String {
    match host[host_name(host).len()..].trim_start_matches(':') {
        "" => COOKIE_PREFIX.to_owned(),
        port => format!("{COOKIE_PREFIX}-{port}"),
    }
}

/// Adds headers that forbid browsers to cache the answer, frame it, guess its type or run foreign scripts in it.
/// `nonce` is that of the page's own scripts and styles.
pub fn with_security_headers(mut answer: HttpResponse, nonce: Option<&str>) -> HttpResponse {
    let policy = match nonce {
        Some(nonce) => format!(
            "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        ),
        None => "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox".to_owned(),
    };
    answer.headers.push(("Content-Security-Policy", policy));
    for (name, value) in [
        ("Cache-Control", "no-store"),
        ("X-Content-Type-Options", "nosniff"),
        ("X-Frame-Options", "DENY"),
        ("Referrer-Policy", "no-referrer"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
        ("Cross-Origin-Opener-Policy", "same-origin"),
    ] {
        answer.headers.push((name, value.into()));
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_on_two_ports_of_a_host_have_cookies_of_their_own() {
        assert_eq!(cookie_name("db1:9190"), "diskwright-9190");
        assert_eq!(cookie_name("[::1]:9191"), "diskwright-9191");
        assert_eq!(
            (cookie_name("db1"), cookie_name("::1"), cookie_name("")),
            (COOKIE_PREFIX.into(), COOKIE_PREFIX.into(), COOKIE_PREFIX.into())
        );
    }

    #[test]
    fn compares_whole_texts() {
        assert!(is_equal_in_constant_time("abc", "abc") && is_equal_in_constant_time("", ""));
        for other in ["", "a", "ab", "abd", "abcd", "xbc"] {
            assert!(!is_equal_in_constant_time("abc", other), "{other}");
        }
    }

    #[test]
    fn random_texts_differ() {
        let (one, other) = (random_text(16).unwrap(), random_text(16).unwrap());
        assert!(one.len() == 32 && one != other);
    }
}
