//! Names of machines in a text: in prompts, behind `ssh`, in the lines above a tool's output and before messages of the
//! kernel.

use crate::sysstat::head_line::HeadLine;

/// Shells, whose prompts begin with their name: `bash-5.1$`.
const SHELLS: [&str; 8] = ["sh", "-sh", "bash", "-bash", "zsh", "ksh", "csh", "dash"];
/// Options of ssh whose argument is a word of its own.
const SSH_OPTIONS: [&str; 8] = ["-p", "-i", "-l", "-o", "-F", "-J", "-E", "-b"];

/// Finds the machine in a prompt: `root@db1:~#`, `[root@db1 ~]$`, `db1:/var/log #`, `db1%`.
pub(super) fn host_of_prompt(prompt: &str) -> Option<String> {
    if let Some((_, behind)) = prompt.rsplit_once('@') {
        return take_host(behind);
    }
    let text = prompt.trim();
    if let Some((host, folder)) = text.split_once(':') {
        let is_folder = folder.trim_start().starts_with(['~', '/']);
        return take_host(host).filter(|name| is_folder && name == host);
    }
    // a word alone may be a user too; names of machines mostly have a number
    let word = text.trim_end_matches(['$', '#', '%', '>', ' ']);
    let is_shell = word.split_once('-').is_some_and(|(name, _)| SHELLS.contains(&name)) || word.starts_with("-bash");
    let is_numbered = word.contains(|c: char| c.is_ascii_digit()) && word.starts_with(|c: char| c.is_alphabetic());
    take_host(word).filter(|host| host == word && is_numbered && !is_shell)
}

/// Finds the machine that `ssh db2 'vmstat 1'` runs a command on, and the command.
pub(super) fn split_remote_command(typed: &str) -> Option<(String, &str)> {
    let rest = typed.trim_start().strip_prefix("ssh ")?;
    let mut is_argument = false;
    let mut place = 0;
    for word in rest.split(' ') {
        let end = place + word.len();
        let is_option = word.is_empty() || std::mem::take(&mut is_argument) || word.starts_with('-');
        is_argument = SSH_OPTIONS.contains(&word);
        if !is_option {
            let host = word.rsplit_once('@').map_or(word, |(_, host)| host);
            let command = rest.get(end..).unwrap_or_default().trim().trim_matches(['\'', '"']);
            return Some((take_host(host)?, command));
        }
        place = end + 1;
    }
    None
}

/// Finds the machine in the line above a tool's output: `Linux 6.1 (db1) …`, `SunOS db1 5.11 …`, `AIX db1 2 7 …`.
pub(super) fn host_of_banner(line: &str) -> Option<String> {
    if let Some(head) = HeadLine::parse(line) {
        return Some(head.host).filter(|host| !host.is_empty());
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        ["SunOS" | "AIX" | "HP-UX", host, release, ..] if release.contains(|c: char| c.is_ascii_digit()) => {
            take_host(host).filter(|name| name == host)
        }
        _ => None,
    }
}

/// Finds the machine before a message of the kernel: `Nov 21 10:00:00 db1 kernel: …`.
pub(super) fn host_of_kernel_message(line: &str) -> Option<String> {
    let (before, _) = line.split_once(" kernel: ")?;
    let (time, host) = before.rsplit_once(' ')?;
    take_host(host).filter(|name| name == host && time.contains(':') && time.len() < 40)
}

/// Takes the name that a text begins with.
fn take_host(text: &str) -> Option<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let end = text.find(|c: char| !is_part(c)).unwrap_or(text.len());
    let name = text[..end].trim_end_matches('.');
    (1..=253).contains(&name.len()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_name_machines() {
        for (prompt, host) in [
            ("root@db1:~#", Some("db1")),
            ("[root@db1.example.com /var/log]$", Some("db1.example.com")),
            ("(venv) me@web-2 ~>", Some("web-2")),
            ("db1:~ #", Some("db1")),
            ("db1:/var/log #", Some("db1")),
            ("db1%", Some("db1")),
            ("web2$", Some("web2")),
            ("oracle$", None),
            ("bash-5.1$", None),
            ("sh-4.2#", None),
            ("-bash-4.2$", None),
            ("PS C:\\Users\\me>", None),
            ("#", None),
            ("➜  ~", None),
        ] {
            assert_eq!(host_of_prompt(prompt).as_deref(), host, "{prompt}");
        }
    }

    #[test]
    fn ssh_names_the_machine_of_its_command() {
        for (typed, found) in [
            ("ssh db2 vmstat 1 5", Some(("db2", "vmstat 1 5"))),
            ("ssh -p 22 root@db2 'vmstat 1'", Some(("db2", "vmstat 1"))),
            ("ssh db2", Some(("db2", ""))),
            ("vmstat 1", None),
            ("ssh", None),
        ] {
            let split = split_remote_command(typed);
            assert_eq!(split.as_ref().map(|(host, command)| (host.as_str(), *command)), found, "{typed}");
        }
    }

    #[test]
    fn banners_and_messages_name_machines() {
        for (line, host) in [
            ("Linux 6.1.0 (db3) \t11/21/26 \t_x86_64_", Some("db3")),
            ("SunOS db3 5.11 11.4 i86pc", Some("db3")),
            ("AIX db3 2 7 00F1", Some("db3")),
            ("AIX is slow today", None),
        ] {
            assert_eq!(host_of_banner(line).as_deref(), host, "{line}");
        }
        let message = "Nov 21 10:00:00 db3 kernel: sd 0:0:0:0: [sda] timing out command";
        assert_eq!(host_of_kernel_message(message).as_deref(), Some("db3"));
        assert_eq!(host_of_kernel_message("it says that kernel: is down"), None);
    }
}
