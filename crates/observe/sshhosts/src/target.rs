//! Names of hosts, as `ssh` takes them.

use std::fmt;

use crate::SshError;

/// Longest name of a host, bytes: a domain name has 253, a user 32.
const MAX_NAME_BYTES: usize = 300;
/// Largest number of hosts at once.
const MAX_HOSTS: usize = 1000;

/// A host that `ssh` may be given: `db1`, `root@db1`, `ssh://root@db1:2222`, a name from its configuration.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SshTarget(String);

impl SshTarget {
    /// Checks a name. It must not look like an option, and has no signs that a shell or a terminal would act on.
    ///
    /// # Errors
    /// When it is empty, too long, or has other signs than names of hosts have.
    pub fn parse(name: &str) -> Result<SshTarget, SshError> {
        let is_allowed =
            |c: char| c.is_ascii_alphanumeric() || "@._-:/[]%+".contains(c) || !c.is_ascii() && c.is_alphabetic();
        let because = match name {
            "" => "it is empty",
            _ if name.starts_with('-') || name.contains("@-") => "it looks like an option",
            _ if name.len() > MAX_NAME_BYTES => "it is too long",
            _ if !name.chars().all(is_allowed) => "only letters, digits and @._-:/[]%+ may stand in it",
            _ => return Ok(SshTarget(name.to_owned())),
        };
        Err(SshError::Target { name: name.chars().take(60).collect(), because })
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name as one of a file or folder.
    pub fn file_name(&self) -> String {
        let bare = self.0.trim_start_matches("ssh://");
        let name: String =
            bare.chars().map(|c| if matches!(c, '/' | ':' | '[' | ']' | '%') { '_' } else { c }).collect();
        // neither hidden nor a folder above
        match name.strip_prefix('.') {
            Some(rest) => format!("_{rest}"),
            None => name,
        }
    }
}

impl fmt::Display for SshTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Reads a list of hosts: one on each line; `#` begins a remark. Each host counts once.
///
/// # Errors
/// With the number of the line, when a name is none or there are more than a thousand.
pub fn parse_hosts(text: &str) -> Result<Vec<SshTarget>, (usize, SshError)> {
    let mut hosts: Vec<SshTarget> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let name = line.split('#').next().unwrap_or_default().trim();
        if name.is_empty() {
            continue;
        }
        let host = SshTarget::parse(name).map_err(|error| (index + 1, error))?;
        if hosts.len() == MAX_HOSTS {
            let error = SshError::Target { name: name.to_owned(), because: "a list has at most 1,000 hosts" };
            return Err((index + 1, error));
        }
        if !hosts.contains(&host) {
            hosts.push(host);
        }
    }
    Ok(hosts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_hosts_are_accepted_and_options_are_not() {
        for name in ["db1", "root@db1", "ssh://root@db1:2222", "::1", "fe80::1%eth0", "a_b-c.example"] {
            assert_eq!(SshTarget::parse(name).unwrap().as_str(), name);
        }
        for name in ["", "-oProxyCommand=x", "root@-oProxyCommand=x", "a b", "a;b", "a\nb", "a\u{1b}[2J", "$(x)", "`x`"]
        {
            assert!(SshTarget::parse(name).is_err(), "{name:?}");
        }
        assert!(SshTarget::parse(&"a".repeat(301)).is_err());
    }

    #[test]
    fn a_list_has_remarks_and_names_each_host_once() {
        let hosts = parse_hosts("# web\nweb1\n\n web2 # the other\nweb1\n").unwrap();
        assert_eq!(hosts.iter().map(SshTarget::as_str).collect::<Vec<_>>(), ["web1", "web2"]);
        let (line, error) = parse_hosts("web1\n-x\n").unwrap_err();
        assert_eq!((line, error.to_string()), (2, "`-x` is no host: it looks like an option".to_owned()));
    }

    #[test]
    fn a_name_becomes_one_of_a_folder() {
        assert_eq!(SshTarget::parse("ssh://root@db1:2222").unwrap().file_name(), "root@db1_2222");
        assert_eq!(SshTarget::parse("..").unwrap().file_name(), "_.");
    }
}
