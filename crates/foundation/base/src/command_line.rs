//! Command lines for records: secrets are masked, the middle of a long one is left out. A mask too many hides a word, a
//! mask too few gives a password away: in doubt, a word is masked.

mod secret_words;

use secret_words::*;

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

/// Programs that run a script, without the version at the end of their name.
const INTERPRETERS: [&str; 14] =
    ["python", "pypy", "perl", "ruby", "node", "nodejs", "php", "java", "lua", "sh", "bash", "dash", "zsh", "ksh"];

/// Makes the text of a command line from its arguments: joined by blanks, secrets masked, the middle of a long one left
/// out.
#[must_use]
pub fn masked_command_line<T: AsRef<str>>(arguments: &[T]) -> String {
    Masker::default().mask_arguments(arguments)
}

/// The same for a command line as another tool printed it, where blanks stand between the arguments.
#[must_use]
pub fn masked_command_text(text: &str) -> String {
    Masker { is_printed: true, ..Masker::default() }.mask_arguments(&text.split_whitespace().collect::<Vec<_>>())
}

/// Returns the name of the program of a command line as another tool printed it: `tar` of `/bin/tar cf x`, `postgres`
/// of `postgres: app shop [local] COMMIT`; all of a name without arguments, and of a kernel thread in brackets.
#[must_use]
pub fn program_of_command(text: &str) -> &str {
    // `NAME=VALUE` before a program is for its environment
    let mut text = text;
    while let Some((_, rest)) = text.split_once(' ').filter(|(first, _)| is_variable(first)) {
        text = rest.trim_start();
    }
    let Some((program, _)) = text.split_once(' ').filter(|_| !text.starts_with(['[', '<'])) else { return text };
    let name = program.rsplit('/').next().unwrap_or(program).trim_end_matches(':');
    if name.is_empty() { text } else { name }
}

/// True for `NAME=VALUE`, which sets a variable of the environment.
fn is_variable(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// Returns the script, module or class that an interpreter runs: `backup.py` of `python3 -u /opt/backup.py --all`;
/// `None` for other programs and for code on the command line.
#[must_use]
pub fn script_of_command(text: &str) -> Option<&str> {
    let mut words = text.split_whitespace();
    let program = words.next()?.rsplit('/').next()?;
    let name = program.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-'));
    if !INTERPRETERS.contains(&name) {
        return None;
    }
    while let Some(word) = words.next() {
        match word {
            "-c" | "-e" | "-r" => return None,
            "-m" | "-jar" => return words.next(),
            "-cp" | "-classpath" | "--class-path" | "-W" | "-X" => drop(words.next()),
            _ if word.starts_with('-') => {}
            _ => return word.rsplit('/').next(),
        }
    }
    None
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
    /// The word before was a name whose value is secret: `PASSWORD = SECRET`.
    after_name: bool,
    /// The program has a password among its arguments, and so many arguments were seen; see [`PASSWORD_ARGUMENTS`].
    arguments_seen: Option<usize>,
    /// A word before says that the program logs in.
    logs_in: bool,
    /// Arguments were cut at blanks, also within quotes.
    is_printed: bool,
}

impl Masker {
    fn mask_arguments<T: AsRef<str>>(&mut self, arguments: &[T]) -> String {
        let masked: Vec<String> = arguments.iter().map(|argument| self.mask_argument(argument.as_ref())).collect();
        cut_middle(masked.join(" ").trim(), MAX_COMMAND_LINE_BYTES)
    }

    fn mask_argument(&mut self, argument: &str) -> String {
        // the secret follows: `Authorization: Basic SECRET`, `--password -- SECRET`
        if self.next.is_some() && (is_scheme(argument) || argument == "--") {
            return argument.to_owned();
        }
        if self.is_printed && (self.quote.is_some() || self.next.is_some()) {
            return self.mask_quoted(argument);
        }
        if let Some(secret) = self.next.take().filter(|_| !is_option(argument)) {
            return mask_value(argument, secret);
        }
        if !argument.contains(char::is_whitespace) {
            return self.mask_word(argument);
        }
        let text = mask_assignments(argument);
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
        self.mask_plain_word(word)
    }

    /// Masks an argument of one word.
    fn mask_word(&mut self, word: &str) -> String {
        let is_after_name = std::mem::replace(&mut self.after_name, is_secret_name(word) && !word.contains('='));
        // `PASSWORD = SECRET`, `Authorization:Bearer SECRET`
        let is_begun = is_after_name && matches!(word, "=" | ":" | ":=");
        let has_scheme = word.split_once([':', '=']).is_some_and(|(name, value)| {
            let value = value.trim_start_matches(['"', '\'']);
            is_secret_name(name) && is_scheme(value)
        });
        if is_begun || has_scheme {
            self.next = Some(Secret::All);
            return word.to_owned();
        }
        self.mask_plain_word(&mask_assignments(word))
    }

    fn mask_plain_word(&mut self, word: &str) -> String {
        let name = word.rsplit('/').next().unwrap_or(word).trim_matches(['"', '\'', '(', '`']);
        if !word.starts_with('-') && SHORT_OPTIONS.iter().any(|option| option.is_of(name)) {
            name.clone_into(&mut self.program);
            self.logs_in = false;
            return mask_token(word);
        }
        self.logs_in |= LOGIN_WORDS.contains(&word);
        if let Some(masked) = self.mask_password_argument(name, word) {
            return masked;
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
        if let Some(masked) = self.mask_doubtful_option(word) {
            return masked;
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

impl Masker {
    /// Masks the password among the arguments of a program that takes one without an option.
    fn mask_password_argument(&mut self, name: &str, word: &str) -> Option<String> {
        if PASSWORD_ARGUMENTS.iter().any(|(program, ..)| name == *program) {
            name.clone_into(&mut self.program);
            self.arguments_seen = None;
            return Some(word.to_owned());
        }
        let (_, letter, position) = PASSWORD_ARGUMENTS.iter().find(|(program, ..)| self.program == *program)?;
        if let Some(letters) = word.strip_prefix('-') {
            if letters.contains(*letter) {
                self.arguments_seen = Some(0);
            }
            return None;
        }
        let seen = self.arguments_seen.as_mut()?;
        *seen += 1;
        (*seen == *position).then(|| MASK.to_owned())
    }

    /// Masks the value of an option that means a password in some programs, where it looks like one or a login is
    /// meant; the value may be the next word.
    fn mask_doubtful_option(&mut self, word: &str) -> Option<String> {
        let option = DOUBTFUL_OPTIONS.into_iter().find(|option| word.starts_with(option))?;
        let value = &word[option.len()..];
        if value.is_empty() {
            self.next = Some(if self.logs_in { Secret::All } else { Secret::IfLikely });
            return Some(word.to_owned());
        }
        looks_like_password(value).then(|| format!("{option}{MASK}"))
    }
}

/// True for a value that looks like a password: of small letters, capitals, digits and signs, two kinds at least. Not
/// for numbers, addresses, paths, and names of files.
fn looks_like_password(value: &str) -> bool {
    let is_any = |is_one: fn(char) -> bool| usize::from(value.chars().any(is_one));
    let kinds = is_any(|c| c.is_lowercase())
        + is_any(|c| c.is_uppercase())
        + is_any(|c| c.is_ascii_digit())
        + is_any(|c| matches!(c, '!' | '#' | '$' | '%' | '&' | '*' | '?' | '@' | '^' | '~' | '+' | ';'));
    let is_address = value.chars().all(|c| c.is_ascii_hexdigit() || matches!(c, '.' | ':' | '-' | ','));
    let is_file = value.contains('/')
        || value.rsplit_once('.').is_some_and(|(name, end)| {
            !name.is_empty() && (1..=4).contains(&end.len()) && end.chars().all(|c| c.is_ascii_alphanumeric())
        });
    value.chars().count() >= MIN_PASSWORD_CHARS && kinds >= 2 && !is_address && !is_file
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
        Secret::IfLikely if looks_like_password(value) => MASK.to_owned(),
        Secret::IfLikely => value.to_owned(),
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
    // `password = SECRET`
    let sign = after_quote.trim_start();
    let is_spaced = sign.len() < after_quote.len();
    let is_equal = sign.starts_with('=');
    let mut value = sign.strip_prefix([':', '='])?;
    if !is_equal || is_spaced {
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
        if let Some(known) = SECRET_URLS.iter().find(|known| word.starts_with(*known)) {
            masked += known;
            masked += MASK;
            rest = &after[word.len()..];
            continue;
        }
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
