//! The address of a database server, as the command line gives it. It never holds a password: `ps` shows the command
//! line to every user, and the address is written into the log.

use std::fmt;

use diskwright_base::text::printable_line;

/// Kind of a database server, by how it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseEngine {
    /// PostgreSQL, asked by `psql`.
    Postgres,
    /// MariaDB or MySQL, asked by `mariadb` or `mysql`.
    Mysql,
}

impl DatabaseEngine {
    /// Begin of the names of its instances.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            DatabaseEngine::Postgres => "postgres",
            DatabaseEngine::Mysql => "mysql",
        }
    }

    fn schemes(self) -> &'static [&'static str] {
        match self {
            DatabaseEngine::Postgres => &["postgres://", "postgresql://"],
            DatabaseEngine::Mysql => &["mysql://", "mariadb://"],
        }
    }

    /// Where its password may be, for a message.
    fn password_places(self) -> &'static str {
        match self {
            DatabaseEngine::Postgres => "~/.pgpass, the file of PGPASSFILE, --postgres-password-file or PGPASSWORD",
            DatabaseEngine::Mysql => "~/.my.cnf ([client], password=…), --mysql-password-file or MYSQL_PWD",
        }
    }
}

/// Address of a database server, without a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseAddress {
    /// Kind of the server.
    pub engine: DatabaseEngine,
    /// The address as it was given.
    pub url: String,
    /// User; where there is none, the client chooses.
    pub user: Option<String>,
    /// Host.
    pub host: Option<String>,
    /// Port.
    pub port: Option<u16>,
    /// Path of a Unix socket, or of its folder.
    pub socket: Option<String>,
    /// Database.
    pub database: Option<String>,
}

/// Reason why an address is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It holds a password, which is not repeated here.
    #[error(
        "an address with a password is refused, because `ps` shows it to every user: leave the password out, and put \
         it into {0}"
    )]
    Password(&'static str),
    /// It is of another form.
    #[error("`{url}` is not a database address: {because}; it looks like {example}")]
    Form {
        /// The address.
        url: String,
        /// What is wrong.
        because: &'static str,
        /// A right one.
        example: String,
    },
}

impl DatabaseAddress {
    /// Parses `postgres://USER@HOST:PORT/DATABASE`; `?host=/FOLDER` or `?socket=/PATH` names a Unix socket.
    ///
    /// # Errors
    /// Where it holds a password, or is no address.
    pub fn parse(engine: DatabaseEngine, url: &str) -> Result<DatabaseAddress, AddressError> {
        let wrong = |because| AddressError::Form {
            // a secret in an address that is not understood is not repeated either
            url: printable_line(url.split('@').next_back().unwrap_or_default()).into_owned(),
            because,
            example: format!("{}://USER@HOST/DATABASE", engine.name()),
        };
        let rest = engine.schemes().iter().find_map(|scheme| url.strip_prefix(scheme));
        let rest = rest.ok_or_else(|| wrong("the scheme is not of this kind of server"))?;
        if url.contains(char::is_control) || url.contains(char::is_whitespace) {
            return Err(wrong("it holds blanks or control characters"));
        }
        let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (server, database) = place.split_once('/').unwrap_or((place, ""));
        // a password may hold an @
        let (user, server) = server.rsplit_once('@').map_or((None, server), |(user, server)| (Some(user), server));
        let has_password = user.is_some_and(|user| user.contains(':'));
        let option_of = |name: &str| {
            let mut pairs = options.split('&').filter_map(|pair| pair.split_once('='));
            pairs
                .find(|(key, _)| decode_percent(key).eq_ignore_ascii_case(name))
                .map(|(_, value)| decode_percent(value))
        };
        if has_password || ["password", "sslpassword", "pwd"].iter().any(|name| option_of(name).is_some()) {
            return Err(AddressError::Password(engine.password_places()));
        }
        let (host, port) = split_port(server).ok_or_else(|| wrong("the port is no number"))?;
        let text = |text: &str| Some(decode_percent(text)).filter(|text| !text.is_empty());
        let host_option = option_of("host").or_else(|| option_of("socket"));
        let hosts = [text(host), host_option];
        let is_path = |host: &&String| host.starts_with('/');
        Ok(DatabaseAddress {
            engine,
            url: url.to_owned(),
            user: user.and_then(text).or_else(|| option_of("user")),
            socket: hosts.iter().flatten().find(is_path).cloned(),
            host: hosts.iter().flatten().find(|host| !is_path(host)).cloned(),
            port,
            database: text(database).or_else(|| option_of("dbname")),
        })
    }

    /// Name of the instance of its counters: of its database, else of its host.
    #[must_use]
    pub fn instance_name(&self) -> String {
        let name = self.database.as_deref().or(self.host.as_deref()).unwrap_or("local");
        format!("{}:{}", self.engine.name(), printable_line(name))
    }

    /// True where the server runs on this machine: it is asked by a Unix socket or the loopback interface.
    /// `default_host` is the one that the client takes where the address has none.
    #[must_use]
    pub fn is_local(&self, default_host: Option<&str>) -> bool {
        let host = self.host.as_deref().or(if self.socket.is_some() { None } else { default_host });
        host.is_none_or(|host| {
            let host = host.trim_start_matches('[').trim_end_matches(']');
            host.is_empty() || host.starts_with('/') || host == "localhost" || host == "::1" || host.starts_with("127.")
        })
    }
}

impl fmt::Display for DatabaseAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable_line(&self.url))
    }
}

/// Splits `HOST:PORT`; the host may be an IPv6 address in brackets.
fn split_port(server: &str) -> Option<(&str, Option<u16>)> {
    let after_host = server.rfind(']').map_or(0, |end| end + 1);
    match server[after_host..].rfind(':') {
        Some(colon) => {
            let (host, port) = server.split_at(after_host + colon);
            Some((host, Some(port[1..].parse().ok()?)))
        }
        None => Some((server, None)),
    }
}

/// Decodes `%2F` and the like.
fn decode_percent(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let digits = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let coded = digits.filter(|_| first == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(coded.unwrap_or(first));
        rest = if coded.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<DatabaseAddress, AddressError> {
        let engine = if url.starts_with("p") { DatabaseEngine::Postgres } else { DatabaseEngine::Mysql };
        DatabaseAddress::parse(engine, url)
    }

    #[test]
    fn reads_user_host_port_socket_and_database() {
        let read = parse("postgresql://watch@db.example:5433/shop?sslmode=verify-full").unwrap();
        assert_eq!((read.user.as_deref(), read.host.as_deref()), (Some("watch"), Some("db.example")));
        assert_eq!((read.port, read.database.as_deref()), (Some(5433), Some("shop")));
        assert_eq!(read.instance_name(), "postgres:shop");
        assert!(!read.is_local(None));
        let read = parse("postgres:///shop?host=%2Frun%2Fpostgresql").unwrap();
        assert_eq!((read.socket.as_deref(), read.host.as_deref()), (Some("/run/postgresql"), None));
        assert!(read.is_local(Some("db.example")));
        let read = parse("mysql://root@[::1]:3307").unwrap();
        assert_eq!((read.host.as_deref(), read.port, read.database.as_deref()), (Some("[::1]"), Some(3307), None));
        assert!(read.is_local(None));
        assert_eq!(parse("postgres://").unwrap().instance_name(), "postgres:local");
        assert!(!parse("postgres://").unwrap().is_local(Some("elsewhere")));
    }

    #[test]
    fn refuses_a_password_wherever_it_stands_and_does_not_repeat_it() {
        for url in [
            "postgres://u:hunter2@h/d",
            "postgres://u:hun@ter2@h/d",
            "postgres://u:@h/d",
            "postgres://h/d?user=u&password=hunter2",
            "postgres://h/d?pass%77ord=hunter2",
            "mysql://u:hunter2@h/d",
            "mysql://u@h/d?password=hunter2",
        ] {
            let error = parse(url).unwrap_err();
            assert!(matches!(error, AddressError::Password(_)), "{url}");
            assert!(!error.to_string().contains("ter2"), "{error}");
        }
        let error = parse("postgres//u:hunter2@h/d").unwrap_err().to_string();
        assert!(!error.contains("hunter2"), "{error}");
    }

    #[test]
    fn refuses_what_is_no_address() {
        for url in ["shop", "http://h/d", "postgres://h:port/d", "postgres://h/d\n", "mysql://h/a b", ""] {
            assert!(matches!(parse(url).unwrap_err(), AddressError::Form { .. }), "{url}");
        }
    }
}
