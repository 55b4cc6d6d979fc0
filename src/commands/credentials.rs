//! Passwords and tokens for stores: from a file or the environment, because `ps` shows the command line to everybody.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::Args;
use diskwright_hostfiles::bounded_file;
use diskwright_remote::{StoreAccess, has_password};

use super::{Failure, output};

/// Environment variable for the password, instead of the address.
const PASSWORD_VARIABLE: &str = "DISKWRIGHT_PASSWORD";
/// Maximum length of a password or token, bytes.
const MAX_SECRET_BYTES: u64 = 64 << 10;

/// Credentials for a store.
#[derive(Args, Clone, Default)]
#[group(id = "who-asks")]
pub struct Credentials {
    /// Read the password of the user in the address from this file (default: the variable DISKWRIGHT_PASSWORD)
    #[arg(long, value_name = "FILE", conflicts_with = "bearer_token_file", help_heading = "Store access")]
    password_file: Option<PathBuf>,
    /// Read a token from this file and send it as 'Authorization: Bearer …'
    #[arg(long, value_name = "FILE", help_heading = "Store access")]
    bearer_token_file: Option<PathBuf>,
}

impl Credentials {
    /// True if credentials were given.
    pub fn is_given(&self) -> bool {
        self.password_file.is_some() || self.bearer_token_file.is_some()
    }

    /// Combines an address with its user's password and the other headers of a request.
    pub fn store_access(&self, url: &str, headers: &[String]) -> Result<StoreAccess, Failure> {
        let mut access = StoreAccess { headers: headers.to_vec(), ..StoreAccess::new(url) };
        access.token = self.bearer_token_file.as_deref().map(read_secret).transpose()?;
        access.password = match &self.password_file {
            Some(file) => Some(read_secret(file)?),
            // the variable is for stores that name a user, and for no others
            None if access.has_user() => std::env::var(PASSWORD_VARIABLE).ok().filter(|password| !password.is_empty()),
            None => None,
        };
        Ok(access)
    }
}

/// Warns once that `ps` shows secrets given on the command line.
pub fn warn_about_visible_secrets(url: &str, headers: &[String]) {
    let is_secret = |header: &String| header.to_ascii_lowercase().trim_start().starts_with("authorization");
    if has_password(url) {
        output::print_warning(format_args!(
            "`ps` shows every user the password in the address; use --password-file or {PASSWORD_VARIABLE} instead"
        ));
    } else if headers.iter().any(is_secret) {
        output::print_warning(format_args!(
            "`ps` shows every user the header Authorization; use --bearer-token-file instead"
        ));
    }
}

/// Reads a secret from a file, without the line end.
pub fn read_secret(path: &Path) -> Result<String, Failure> {
    let name = path.display();
    let failed = |e: std::io::Error| Failure::Failed(format!("{name}: {e}"));
    // links are followed, because mounted secrets are links
    let file = File::open(path).map_err(failed)?;
    let found = file.metadata().map_err(failed)?;
    if found.is_file() && found.mode() & 0o044 != 0 {
        output::print_warning(format_args!("{name}: other users can read it; protect it with `chmod 600`"));
    }
    let wrong = |more: &str| Failure::Failed(format!("{name}: must contain one line with a password or token{more}"));
    let bytes = match bounded_file::read_open_file(file, MAX_SECRET_BYTES) {
        Err(error) if error.kind() == ErrorKind::FileTooLarge => return Err(wrong(&format!(", but is {error}"))),
        read => read.map_err(failed)?,
    };
    let text = String::from_utf8(bytes).map_err(|_| wrong(" in UTF-8"))?;
    let secret = text.trim_end_matches(['\r', '\n']);
    if secret.is_empty() || secret.contains(char::is_control) {
        return Err(wrong(""));
    }
    Ok(secret.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_one_line_from_a_secret_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            read_secret(&path)
        };
        assert_eq!(read("a b c\r\n").unwrap(), "a b c");
        assert_eq!(read("secret").unwrap(), "secret");
        for wrong in ["", "\n", "a\nb", "a\0", &"x".repeat(70_000)] {
            let error = read(wrong).unwrap_err().to_string();
            assert!(error.contains("password: must contain one line"), "{error}");
        }
        assert!(read_secret(&folder.path().join("none")).is_err());
    }

    #[test]
    fn secret_file_takes_precedence() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        std::fs::write(&path, "secret\n").unwrap();
        let credentials = Credentials { password_file: Some(path.clone()), bearer_token_file: None };
        assert_eq!(credentials.store_access("http://u@h", &[]).unwrap().password.as_deref(), Some("secret"));
        let credentials = Credentials { password_file: None, bearer_token_file: Some(path) };
        let access = credentials.store_access("http://h", &[]).unwrap();
        assert_eq!((access.password, access.token.as_deref()), (None, Some("secret")));
    }
}
