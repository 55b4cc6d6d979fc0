//! Command lines for records: secrets are masked, the middle of a long one is left out. A mask too many hides a word, a
//! mask too few gives a password away: in doubt, a word is masked.

/// Largest length of a command line in a record, bytes.
pub const MAX_COMMAND_LINE_BYTES: usize = 256;
/// Stands for a secret.
const MASK: &str = "***";
/// Stands for the middle of a long command line.
const CUT_MARK: &str = " … ";
/// Smallest length of what follows a prefix of a token.
const MIN_TOKEN_CHARS: usize = 12;
/// Smallest length of a user in a URL without a password that may be a token.
const MIN_URL_TOKEN_CHARS: usize = 20;
/// Length of the secret part of an AWS key.
const AWS_SECRET_CHARS: usize = 40;

/// Parts of names whose values are secret, in small letters and without dashes and underscores.
const SECRET_PARTS: [&str; 22] = [
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "secret",
    "token",
    "apikey",
    "accesskey",
    "accountkey",
    "privatekey",
    "sharedkey",
    "authkey",
    "encryptionkey",
    "signingkey",
    "masterkey",
    "licensekey",
    "credential",
    "requirepass",
    "masterauth",
    "authorization",
    "cookie",
    "jwt",
];
/// Names whose values are secret.
const SECRET_NAMES: [&str; 8] = ["pass", "pwd", "pw", "auth", "bearer", "sig", "signature", "psk"];
/// Ends of names whose values are secret.
const SECRET_ENDS: [&str; 2] = ["pass", "pwd"];
/// Ends of names whose values tell where or how large a secret is.
const PLAIN_ENDS: [&str; 16] = [
    "file",
    "path",
    "dir",
    "folder",
    "length",
    "count",
    "ttl",
    "policy",
    "url",
    "uri",
    "type",
    "size",
    "limit",
    "timeout",
    "tokens",
    "tokenizer",
];
/// Begins of names that ask for a secret or refuse it.
const PLAIN_BEGINS: [&str; 3] = ["no", "ask", "prompt"];
/// Words before the secret in the value of a header.
const SCHEMES: [&str; 6] = ["bearer", "basic", "token", "digest", "negotiate", "apikey"];
/// Begins of tokens that are known by them.
const TOKEN_PREFIXES: [&str; 19] = [
    "AKIA",
    "ASIA",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "xoxa-",
    "sk-",
    "sk_live_",
    "rk_live_",
    "eyJ",
    "AIza",
    "hvs.",
    "npm_",
];

/// What is secret in the value of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Secret {
    All,
    /// What follows this character.
    After(char),
}

/// An option of one letter with a secret, of some programs.
struct ShortOption {
    /// Names of the programs, or their begins.
    programs: &'static [&'static str],
    option: &'static str,
    secret: Secret,
    /// The value may be the next argument.
    takes_next: bool,
}

const fn option(
    programs: &'static [&'static str],
    option: &'static str,
    secret: Secret,
    takes_next: bool,
) -> ShortOption {
    ShortOption { programs, option, secret, takes_next }
}

const SHORT_OPTIONS: &[ShortOption] = &[
    option(
        &["mysql", "maria", "xtrabackup", "innobackupex", "mydumper", "myloader", "mytop"],
        "-p",
        Secret::All,
        false,
    ),
    option(&["sshpass", "mongo", "cqlsh", "az", "influx", "7z", "rar"], "-p", Secret::All, true),
    option(&["redis-cli", "valkey-cli", "keydb-cli"], "-a", Secret::All, true),
    option(&["curl"], "-u", Secret::After(':'), true),
    option(&["curl"], "--user", Secret::After(':'), true),
    option(&["curl"], "-U", Secret::After(':'), true),
    option(&["curl"], "--proxy-user", Secret::After(':'), true),
    option(&["lftp"], "-u", Secret::After(','), true),
    option(&["smbclient", "rpcclient", "smbget", "net"], "-U", Secret::After('%'), true),
    option(&["ldap", "htpasswd"], "-w", Secret::All, true),
    option(&["sqlcmd", "bcp", "ipmitool", "zip", "unzip", "isql", "tsql"], "-P", Secret::All, true),
    option(&["snmp"], "-c", Secret::All, true),
    option(&["snmp"], "-A", Secret::All, true),
    option(&["snmp"], "-X", Secret::All, true),
    option(&["openssl"], "-k", Secret::All, true),
    option(&["openssl"], "-K", Secret::All, true),
    option(&["xfreerdp", "wlfreerdp"], "/p:", Secret::All, false),
];

/// Makes the text of a command line from its arguments: joined by blanks, secrets masked, the middle of a long one left
/// out.
#[must_use]
pub fn masked_command_line<T: AsRef<str>>(arguments: &[T]) -> String {
    let mut masker = Masker::default();
    let masked: Vec<String> = arguments.iter().map(|argument| masker.mask_argument(argument.as_ref())).collect();
    cut_middle(masked.join(" ").trim(), MAX_COMMAND_LINE_BYTES)
}

/// The same for a command line as another tool printed it, where blanks stand between the arguments.
#[must_use]
pub fn masked_command_text(text: &str) -> String {
    masked_command_line(&text.split_whitespace().collect::<Vec<_>>())
}

/// Returns the name of the program of a command line as another tool printed it: `tar` of `/bin/tar cf x`, `postgres`
/// of `postgres: app shop [local] COMMIT`; all of a name without arguments, and of a kernel thread in brackets.
#[must_use]
pub fn program_of_command(text: &str) -> &str {
    let Some((program, _)) = text.split_once(' ').filter(|_| !text.starts_with(['[', '<'])) else { return text };
    let name = program.rsplit('/').next().unwrap_or(program).trim_end_matches(':');
    if name.is_empty() { text } else { name }
}

/// Leaves out the middle of a text that is too long: the end has the main class of a Java program, or its last file.
fn cut_middle(text: &str, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    let kept = max_bytes - CUT_MARK.len();
    let is_boundary = |index: &usize| text.is_char_boundary(*index);
    let begin = (0..=kept * 2 / 3).rev().find(is_boundary).unwrap_or(0);
    let end = (text.len() - (kept - kept * 2 / 3)..text.len()).find(is_boundary).unwrap_or(text.len());
    format!("{}{CUT_MARK}{}", &text[..begin], &text[end..])
}

/// State between the arguments of a command line.
#[derive(Debug, Default)]
struct Masker {
    /// The last known program: it may stand behind `sudo` or within `sh -c`.
    program: String,
    /// The next word is the value of an option.
    next: Option<Secret>,
    /// All words up to this quote are secret.
    quote: Option<char>,
}

impl Masker {
    fn mask_argument(&mut self, argument: &str) -> String {
        // the secret follows: `Authorization: Basic SECRET`
        if self.next.is_some() && is_scheme(argument) {
            return argument.to_owned();
        }
        if let Some(secret) = self.next.take().filter(|_| !is_option(argument)) {
            return mask_value(argument, secret);
        }
        let text = mask_assignments(argument);
        if !argument.contains(char::is_whitespace) {
            return self.mask_word(&text);
        }
        // a command for a shell, or a title
        text.split_inclusive(char::is_whitespace)
            .map(|piece| {
                let word = piece.trim_end();
                format!("{}{}", self.mask_quoted(word), &piece[word.len()..])
            })
            .collect()
    }

    /// Masks a word within a longer argument, where quotes join several words.
    fn mask_quoted(&mut self, word: &str) -> String {
        if word.is_empty() || self.next.is_some() && is_scheme(word) {
            return word.to_owned();
        }
        if let Some(quote) = self.quote {
            if word.ends_with(quote) {
                self.quote = None;
            }
            return String::new();
        }
        let opening = word.chars().next().filter(|first| matches!(first, '"' | '\'')).filter(|_| self.next.is_some());
        self.quote = opening.filter(|quote| word.len() == 1 || !word.ends_with(*quote));
        if let Some(secret) = self.next.take().filter(|_| !is_option(word)) {
            return mask_value(word, if opening.is_some() { Secret::All } else { secret });
        }
        self.mask_word(word)
    }

    fn mask_word(&mut self, word: &str) -> String {
        let name = word.rsplit('/').next().unwrap_or(word).trim_matches(['"', '\'', '(', '`']);
        if !word.starts_with('-') && SHORT_OPTIONS.iter().any(|option| option.is_of(name)) {
            name.clone_into(&mut self.program);
            return mask_token(word);
        }
        for option in SHORT_OPTIONS.iter().filter(|option| option.is_of(&self.program)) {
            match word.strip_prefix(option.option) {
                Some("") if option.takes_next => {
                    self.next = Some(option.secret);
                    return word.to_owned();
                }
                // a long option has a word of its own
                Some(value) if !(value.is_empty() || option.option.starts_with("--") && !value.starts_with('=')) => {
                    return format!("{}{}", option.option, mask_value(value, option.secret));
                }
                _ => {}
            }
        }
        // `--password SECRET`; `--password=SECRET` is masked already
        if word.starts_with('-') && !word.contains('=') && is_secret_name(word) {
            self.next = Some(Secret::All);
            return word.to_owned();
        }
        if word.eq_ignore_ascii_case(SCHEMES[0]) || word.ends_with(':') && is_secret_name(word) {
            self.next = Some(Secret::All);
            return word.to_owned();
        }
        mask_token(word)
    }
}

impl ShortOption {
    fn is_of(&self, program: &str) -> bool {
        let short = |name: &str| name.len() <= 4 && name != "snmp" && name != "ldap";
        let is_named = |name: &&'static str| if short(name) { program == *name } else { program.starts_with(name) };
        self.programs.iter().any(is_named)
    }
}

fn is_scheme(word: &str) -> bool {
    SCHEMES.iter().any(|scheme| word.eq_ignore_ascii_case(scheme))
}

fn mask_value(value: &str, secret: Secret) -> String {
    match secret {
        Secret::All => MASK.to_owned(),
        Secret::After(mark) => {
            value.split_once(mark).map_or_else(|| value.to_owned(), |(begin, _)| format!("{begin}{mark}{MASK}"))
        }
    }
}

/// True for what looks like an option and not like a value that begins with a dash.
fn is_option(word: &str) -> bool {
    let name = word.split('=').next().unwrap_or(word);
    let letters = name.strip_prefix("--").or_else(|| name.strip_prefix('-').filter(|letters| letters.len() == 1));
    letters.is_some_and(|letters| {
        letters.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_uppercase() && letters.len() == 1)
            && letters.chars().all(|c| c.is_ascii_lowercase() || c == '-' || c.is_ascii_digit() || letters.len() == 1)
    })
}

/// True where the value of this name is secret.
fn is_secret_name(name: &str) -> bool {
    let name = name.rsplit(['/', '?', '&']).next().unwrap_or(name);
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    let has_part = SECRET_PARTS.iter().any(|part| name.contains(part));
    let is_secret =
        has_part || SECRET_NAMES.contains(&name.as_str()) || SECRET_ENDS.iter().any(|end| name.ends_with(end));
    let is_plain = PLAIN_ENDS.iter().any(|end| name.ends_with(end)) || PLAIN_BEGINS.iter().any(|p| name.starts_with(p));
    is_secret && !is_plain
}

/// Masks values after names (`password=…`, `"token": "…"`, `Authorization: Bearer …`) and passwords in URLs.
fn mask_assignments(argument: &str) -> String {
    let text = mask_urls(argument);
    let mut masked = String::with_capacity(text.len());
    let mut rest = text.as_str();
    let mut is_first = true;
    while !rest.is_empty() {
        let name_bytes = rest.find(|c: char| !is_name_char(c)).unwrap_or(rest.len());
        let (name, after) = rest.split_at(name_bytes);
        let value_start = if is_secret_name(name) { assigned_value(after) } else { None };
        if let Some(start) = value_start {
            let value = &after[start..];
            // an argument that is one assignment may have blanks in its value
            let is_whole = is_first && after.starts_with('=');
            let secret_bytes = if is_whole { value.len() } else { secret_length(value) };
            masked += &rest[..name_bytes + start];
            masked += MASK;
            rest = &value[secret_bytes..];
        } else {
            let next = after.chars().next().map_or(0, char::len_utf8);
            masked += &rest[..name_bytes + next];
            rest = &after[next..];
        }
        is_first = false;
    }
    masked
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
}

/// Where the value begins after the name, and a scheme such as `Bearer`; `None` without a value.
fn assigned_value(after: &str) -> Option<usize> {
    let after_quote = after.trim_start_matches(['"', '\'']);
    let is_equal = after_quote.starts_with('=');
    let mut value = after_quote.strip_prefix([':', '='])?;
    if !is_equal {
        value = value.trim_start();
    }
    let unquoted = value.trim_start_matches(['"', '\'']);
    for scheme in SCHEMES {
        let begin = unquoted.get(..scheme.len()).filter(|begin| begin.eq_ignore_ascii_case(scheme));
        if begin.is_some() && unquoted[scheme.len()..].starts_with(' ') {
            value = unquoted[scheme.len()..].trim_start();
        }
    }
    let is_url = !is_equal && value.starts_with("//");
    (!value.is_empty() && !is_url).then(|| after.len() - value.len())
}

/// Length of a secret value at the begin of a text: up to its closing quote, or the next separator.
fn secret_length(value: &str) -> usize {
    let quote = value.chars().next().filter(|first| matches!(first, '"' | '\''));
    if let Some(end) = quote.and_then(|quote| value[1..].find(quote)) {
        return end + 2;
    }
    let is_end = |c: char| c.is_whitespace() || matches!(c, '&' | ';' | ',' | '"' | '\'' | '}');
    value.find(is_end).unwrap_or(value.len()).max(usize::from(quote.is_some()))
}

/// Masks the passwords of URLs: `scheme://user:password@host`. The last `@` before the path ends a password.
fn mask_urls(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("://") {
        let (begin, after) = rest.split_at(start + 3);
        masked += begin;
        let is_end = |c: char| c.is_whitespace() || matches!(c, '"' | '\'');
        let word = &after[..after.find(is_end).unwrap_or(after.len())];
        // a password may have slashes that nobody escaped
        let host = word.find(['/', '?']).map_or(word, |path| &word[..path]);
        let account_bytes = host.rfind('@').or_else(|| if host.contains(':') { word.rfind('@') } else { None });
        let Some(account_bytes) = account_bytes else {
            rest = after;
            continue;
        };
        match word[..account_bytes].split_once(':') {
            Some((user, _)) => masked += &format!("{user}:{MASK}"),
            None if account_bytes >= MIN_URL_TOKEN_CHARS => masked += MASK,
            None => masked += &word[..account_bytes],
        }
        rest = &after[account_bytes..];
    }
    masked + rest
}

/// Masks a word that is a token by its looks.
fn mask_token(word: &str) -> String {
    let begin = word.rfind(['=', ':', ',', '"', '\'']).map_or(0, |mark| mark + 1);
    let token = &word[begin..];
    for prefix in TOKEN_PREFIXES {
        let rest = token.strip_prefix(prefix);
        if rest.is_some_and(|rest| rest.len() >= MIN_TOKEN_CHARS && rest.chars().all(is_name_char)) {
            return format!("{}{prefix}{MASK}", &word[..begin]);
        }
    }
    let has = |is_one: fn(&u8) -> bool| token.as_bytes().iter().any(is_one);
    let is_aws = token.len() == AWS_SECRET_CHARS
        && !token.starts_with('/')
        && token.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'+'))
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_lowercase)
        && has(u8::is_ascii_digit);
    if is_aws { format!("{}{MASK}", &word[..begin]) } else { word.to_owned() }
}

#[cfg(test)]
mod tests;
