//! Words by which secrets in command lines are known: names of options and variables, begins of tokens, and options of
//! one letter of some programs.

/// Parts of names whose values are secret, in small letters and without dashes and underscores.
pub(super) const SECRET_PARTS: [&str; 22] = [
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
pub(super) const SECRET_NAMES: [&str; 11] =
    ["pass", "pwd", "pw", "auth", "bearer", "sig", "signature", "psk", "pin", "otp", "totp"];
/// Ends of names whose values are secret.
pub(super) const SECRET_ENDS: [&str; 2] = ["pass", "pwd"];
/// Ends of names whose values tell where or how large a secret is.
pub(super) const PLAIN_ENDS: [&str; 16] = [
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
pub(super) const PLAIN_BEGINS: [&str; 3] = ["no", "ask", "prompt"];
/// Words before the secret in the value of a header.
pub(super) const SCHEMES: [&str; 6] = ["bearer", "basic", "token", "digest", "negotiate", "apikey"];
/// Begins of tokens that are known by them.
pub(super) const TOKEN_PREFIXES: [&str; 19] = [
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
pub(super) enum Secret {
    All,
    /// What follows this character.
    After(char),
    /// All of it where it looks like a password.
    IfLikely,
}

/// An option of one letter with a secret, of some programs.
pub(super) struct ShortOption {
    /// Names of the programs, or their begins.
    pub programs: &'static [&'static str],
    pub option: &'static str,
    pub secret: Secret,
    /// The value may be the next argument.
    pub takes_next: bool,
}

const fn option(
    programs: &'static [&'static str],
    option: &'static str,
    secret: Secret,
    takes_next: bool,
) -> ShortOption {
    ShortOption { programs, option, secret, takes_next }
}

pub(super) const SHORT_OPTIONS: &[ShortOption] = &[
    option(
        &["mysql", "maria", "xtrabackup", "innobackupex", "mydumper", "myloader", "mytop"],
        "-p",
        Secret::All,
        false,
    ),
    option(&["sshpass", "mongo", "cqlsh", "az", "influx", "7z", "rar"], "-p", Secret::All, true),
    option(&["mosquitto", "mqtt"], "-P", Secret::All, true),
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

/// Begins of URLs, without the scheme, of which the rest is a secret.
pub(super) const SECRET_URLS: [&str; 6] = [
    "hooks.slack.com/services/",
    "discord.com/api/webhooks/",
    "discordapp.com/api/webhooks/",
    "api.telegram.org/bot",
    "outlook.office.com/webhook/",
    "hc-ping.com/",
];

/// Options of one letter that mean a password in some programs and something else in others: their value is masked if
/// it looks like one.
pub(super) const DOUBTFUL_OPTIONS: [&str; 3] = ["-p", "-P", "-w"];
/// Smallest length of a value that looks like a password.
pub(super) const MIN_PASSWORD_CHARS: usize = 6;

/// Commands whose password is an argument without an option: the begin of the program's name, an option that must be
/// there (of several letters together, one), and the position of the argument among those that are no options.
pub(super) const PASSWORD_ARGUMENTS: [(&str, char, usize); 1] = [("htpasswd", 'b', 3)];
/// Commands of which `-p` has a password: a word before it.
pub(super) const LOGIN_WORDS: [&str; 1] = ["login"];
