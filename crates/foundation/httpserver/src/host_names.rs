//! The names under which a server may be asked. A page of another site can reach a server on this machine through a
//! name of its own that it lets resolve to our address (DNS rebinding); browsers state that name in the header `Host`.

use super::HttpRequest;

/// Host names that requests may use besides `localhost` and addresses.
#[derive(Clone, Debug, Default)]
pub struct HostNames(pub Vec<String>);

impl HostNames {
    /// Text of the answer to a request with another name.
    pub const REFUSAL: &str = "this server does not answer to that host name; --name NAME allows it\n";

    /// Returns true if the request names an address, `localhost` or one of the names.
    pub fn allows(&self, request: &HttpRequest) -> bool {
        self.contains(host_name(request.header("host").unwrap_or_default()))
    }

    fn contains(&self, name: &str) -> bool {
        let is_address = name.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok();
        is_address
            || std::iter::once("localhost")
                .chain(self.0.iter().map(String::as_str))
                .any(|own| own.eq_ignore_ascii_case(name))
    }
}

/// Returns a header `Host` without its port, as of `[::1]:9190` and `db1:9190`.
pub fn host_name(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_ours_and_a_strange_name_is_not() {
        let names = HostNames(vec!["db1.example".into()]);
        for ours in ["localhost:9190", "LOCALHOST", "127.0.0.1:1", "[::1]:9190", "::1", "10.0.0.7", "DB1.example:80"] {
            assert!(names.contains(host_name(ours)), "{ours}");
        }
        for strange in ["", "evil.example", "localhost.evil.example:9190", "127.0.0.1.evil.example", "db1", "1.2.3"] {
            assert!(!names.contains(host_name(strange)), "{strange}");
        }
    }
}
