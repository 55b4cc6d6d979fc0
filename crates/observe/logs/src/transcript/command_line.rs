//! Prompts and the commands behind them: which program printed what follows, how it was called, and the time between
//! its reports.

use std::time::Duration;

use super::prompt_host;

/// A command that was typed, or named in a sentence.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CommandLine {
    /// Name without its folder: `iostat`.
    pub program: String,
    /// Its arguments, up to a pipe.
    pub arguments: Vec<String>,
    /// Time between two reports.
    pub interval: Option<Duration>,
}

impl CommandLine {
    /// The command as typed, without what stands before it.
    pub fn to_text(&self) -> String {
        std::iter::once(&self.program).chain(&self.arguments).cloned().collect::<Vec<_>>().join(" ")
    }

    /// True if the first report covers an interval (`iostat -y`).
    pub fn omits_first_report(&self) -> bool {
        let has_letter = |word: &String| word.starts_with('-') && !word.starts_with("--") && word.contains('y');
        self.program == "iostat" && self.arguments.iter().any(has_letter)
    }

    /// The file that `cat` or `grep … FILE` printed.
    pub fn printed_file(&self) -> Option<&str> {
        let is_printer = matches!(self.program.as_str(), "cat" | "head" | "tail" | "grep" | "egrep" | "more" | "less");
        let is_file =
            |word: &&String| word.starts_with('/') || CGROUP_FILES.iter().any(|start| word.starts_with(start));
        let file = self.arguments.iter().rev().find(is_file)?;
        is_printer.then_some(file)
    }

    /// True for a program that prints report after report.
    pub fn prints_reports(&self) -> bool {
        let place = PROGRAMS.iter().find(|(program, _)| *program == self.program).map(|(_, place)| *place);
        place.is_some_and(|place| !matches!(place, IntervalPlace::Missing))
    }

    /// Completes the name of a file that was printed in its folder: `root@db1:/proc/pressure# cat io`.
    fn name_folder_file(&mut self, prompt: &str) {
        let is_there = prompt.contains("/proc/pressure") || prompt.contains(" pressure]");
        let is_printer = matches!(self.program.as_str(), "cat" | "head" | "tail" | "grep");
        for word in self.arguments.iter_mut().filter(|_| is_there && is_printer) {
            if matches!(word.as_str(), "io" | "cpu" | "memory" | "irq") {
                *word = format!("/proc/pressure/{word}");
            }
        }
    }
}

/// Beginnings of names of a cgroup's files, which people print in its folder.
const CGROUP_FILES: [&str; 5] = ["memory.", "cpu.", "io.", "blkio.", "cpuacct."];

/// Programs whose output may be of use, and how their interval is given.
const PROGRAMS: &[(&str, IntervalPlace)] = &[
    ("vmstat", IntervalPlace::First { default_s: 0.0 }),
    ("iostat", IntervalPlace::First { default_s: 0.0 }),
    ("mpstat", IntervalPlace::First { default_s: 0.0 }),
    ("pidstat", IntervalPlace::First { default_s: 0.0 }),
    ("sar", IntervalPlace::First { default_s: 0.0 }),
    ("nfsiostat", IntervalPlace::First { default_s: 0.0 }),
    ("cifsiostat", IntervalPlace::First { default_s: 0.0 }),
    ("dstat", IntervalPlace::First { default_s: 1.0 }),
    ("dool", IntervalPlace::First { default_s: 1.0 }),
    ("zpool", IntervalPlace::First { default_s: 0.0 }),
    ("prstat", IntervalPlace::First { default_s: 5.0 }),
    ("mdadm", IntervalPlace::Missing),
    ("nfsstat", IntervalPlace::Missing),
    ("top", IntervalPlace::Option { option: "-d", default_s: 3.0 }),
    ("atop", IntervalPlace::First { default_s: 10.0 }),
    ("iotop", IntervalPlace::Option { option: "-d", default_s: 1.0 }),
    ("free", IntervalPlace::Option { option: "-s", default_s: 0.0 }),
    ("uptime", IntervalPlace::Missing),
    ("w", IntervalPlace::Missing),
    ("cat", IntervalPlace::Missing),
    ("grep", IntervalPlace::Missing),
    ("dmesg", IntervalPlace::Missing),
    ("journalctl", IntervalPlace::Missing),
    ("ifconfig", IntervalPlace::Missing),
    ("ip", IntervalPlace::Missing),
    ("ethtool", IntervalPlace::Missing),
    ("netstat", IntervalPlace::Missing),
    ("ss", IntervalPlace::Missing),
    ("ps", IntervalPlace::Missing),
    ("df", IntervalPlace::Missing),
    ("lsblk", IntervalPlace::Missing),
    ("date", IntervalPlace::Missing),
    ("numastat", IntervalPlace::Missing),
    ("perf", IntervalPlace::Missing),
    ("megacli", IntervalPlace::Missing),
    ("MegaCli", IntervalPlace::Missing),
    ("MegaCli64", IntervalPlace::Missing),
    ("storcli", IntervalPlace::Missing),
    ("storcli64", IntervalPlace::Missing),
    ("perccli64", IntervalPlace::Missing),
    ("ssacli", IntervalPlace::Missing),
    ("hpssacli", IntervalPlace::Missing),
    ("hpacucli", IntervalPlace::Missing),
    ("smartctl", IntervalPlace::Missing),
    ("cpupower", IntervalPlace::Missing),
    ("typeperf", IntervalPlace::Option { option: "-si", default_s: 1.0 }),
    ("Get-Counter", IntervalPlace::Option { option: "-SampleInterval", default_s: 1.0 }),
    ("docker", IntervalPlace::Missing),
    ("podman", IntervalPlace::Missing),
    ("kubectl", IntervalPlace::Missing),
    ("nstat", IntervalPlace::Missing),
    ("svmon", IntervalPlace::Missing),
    ("mountstats", IntervalPlace::Missing),
    ("curl", IntervalPlace::Missing),
    ("aws", IntervalPlace::Missing),
    ("telegraf", IntervalPlace::Missing),
];

/// Place of the interval among a program's arguments.
#[derive(Clone, Copy)]
enum IntervalPlace {
    /// The first number that belongs to no option; 0 is no default.
    First {
        default_s: f64,
    },
    Option {
        option: &'static str,
        default_s: f64,
    },
    Missing,
}

/// Words that may stand before a program.
const PREFIXES: [&str; 9] = ["sudo", "time", "nice", "ionice", "exec", "nohup", "stdbuf", "unbuffer", "pfexec"];
/// Options, with their program, whose argument is a word of its own.
const OPTIONS_WITH_ARGUMENT: &[(&str, &[&str])] = &[
    ("iostat", &["-p", "-g", "-j", "-o", "-f", "-H"]),
    ("mpstat", &["-P", "-I", "-N", "-o"]),
    ("pidstat", &["-p", "-C", "-G", "-T", "-e", "-U"]),
    ("sar", &["-n", "-P", "-o", "-f", "-s", "-e", "-i", "-I", "-m", "-j"]),
    ("zpool", &["-T", "-o"]),
    ("vmstat", &["-S", "-p"]),
    ("dstat", &["-C", "-D", "-N", "-I", "-M", "-S", "--output"]),
    ("dool", &["-C", "-D", "-N", "-I", "-M", "-S", "--output"]),
    ("top", &["-n", "-p", "-u", "-U", "-o", "-w"]),
    ("free", &["-c"]),
    ("iotop", &["-n", "-p", "-u"]),
    ("grep", &["-e", "-A", "-B", "-C", "-m"]),
    ("ps", &["-o", "-p", "-C", "-u"]),
];

/// A line that is a prompt, with what was typed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PromptLine {
    /// Text of the prompt; empty if there is only a command.
    pub prompt: String,
    /// The command, if it is of a known program.
    pub command: Option<CommandLine>,
    /// What was typed behind the prompt.
    pub typed: String,
    /// Machine that the prompt names, or that the command was run on.
    pub host: Option<String>,
}

/// Parses a prompt with or without a command; `learned` are prompts of this text.
pub(super) fn parse_prompt(line: &str, learned: &[String]) -> Option<PromptLine> {
    let line = line.trim().trim_start_matches("^C").trim_start();
    if line.is_empty() || line.len() > 400 {
        return None;
    }
    let known = learned.iter().find_map(|prompt| Some((prompt.clone(), line.strip_prefix(prompt.as_str())?)));
    let split = known.or_else(|| split_prompt(line).map(|(prompt, rest)| (prompt.to_owned(), rest)));
    if let Some((prompt, rest)) = split {
        let typed = rest.trim_start_matches(['#', '$', '%', '>']).trim();
        let remote = prompt_host::split_remote_command(typed);
        let mut command = parse_command(remote.as_ref().map_or(typed, |(_, command)| command), true);
        // `# free text` and `$ 100` are no prompts
        let is_shell = command.is_some() || prompt.len() > 2 || rest.trim().is_empty();
        let is_typed = is_shell && (command.is_some() || is_typed_line(&prompt, rest));
        command.iter_mut().for_each(|command| command.name_folder_file(&prompt));
        let host = remote.map(|(host, _)| host).or_else(|| prompt_host::host_of_prompt(&prompt));
        return is_typed.then(|| PromptLine { prompt, command, typed: rest.trim().to_owned(), host });
    }
    let command = parse_command(line, false)?;
    Some(PromptLine { prompt: String::new(), command: Some(command), typed: line.to_owned(), host: None })
}

/// True if what follows a prompt of some length can be a command; empty prompts end the output before them.
fn is_typed_line(prompt: &str, rest: &str) -> bool {
    let is_named = prompt.contains('@') || prompt.contains(":\\") || prompt.contains('~');
    is_named && (rest.is_empty() || rest.starts_with(' ') || rest.trim_start().starts_with(char::is_alphabetic))
}

/// Splits a prompt off: `$`, `root@db1:~#`, `[root@db1 ~]$`, `db1%`, `PS C:\>`, `->`, `➜  ~`.
fn split_prompt(line: &str) -> Option<(&str, &str)> {
    for sign in ["-> ", "=> ", "❯ ", "λ ", "» ", "➜ "] {
        if let Some(rest) = line.strip_prefix(sign) {
            // `➜  ~ vmstat 1` names the folder behind the sign
            let rest = rest.trim_start();
            let folder = rest.split_whitespace().next().filter(|word| word.starts_with(['~', '/'])).unwrap_or_default();
            let begin = line.len() - rest.len() + folder.len();
            return Some((&line[..begin], &line[begin..]));
        }
    }
    if let Some(rest) = line.strip_prefix(['$', '#', '%', '>']) {
        return Some((&line[..1], rest));
    }
    // the sign is followed by a blank, or ends the line; in the prompt stand a user, a machine or a folder
    let (place, sign) = line.char_indices().find(|(place, c)| {
        let behind = line[place + c.len_utf8()..].chars().next();
        matches!(c, '$' | '#' | '%' | '>') && behind.is_none_or(|next| next == ' ' || next.is_ascii_alphabetic())
    })?;
    let prompt = &line[..place];
    let is_named = prompt.contains('@')
        || prompt.contains('~')
        || prompt.starts_with("PS ")
        || prompt.contains(":\\")
        || prompt.starts_with('[') && prompt.trim_end().ends_with(']')
        || prompt.ends_with(':') && !prompt.contains(' ')
        || prompt.contains(":/");
    let is_word = !prompt.trim_end().contains(' ') && prompt.starts_with(char::is_alphabetic);
    let is_short = prompt.len() <= 100 && prompt.split_whitespace().count() <= 4;
    let rest = &line[place + sign.len_utf8()..];
    let is_command = parse_command(rest.trim_start_matches(['#', '$']).trim(), true).is_some();
    // `db1% vmstat 2` and `root@db1 # top`
    (is_short && (is_named || is_word && is_command)).then(|| (&line[..place + sign.len_utf8()], rest))
}

/// Parses the command of a known program. Without a prompt, every word must look like an argument, else the line is a
/// sentence that begins with the program's name.
pub(super) fn parse_command(text: &str, has_prompt: bool) -> Option<CommandLine> {
    let pieces = text.split(['|', ';', '&', '(', ')', '\'', '"']);
    let mut found = None;
    for piece in pieces {
        let command = parse_simple_command(piece.trim());
        // `cat FILE | grep X` is the output of cat; in `date; vmstat 1` the program with an interval counts
        let is_better = |command: &CommandLine| {
            found.as_ref().is_none_or(|known: &CommandLine| known.interval.is_none() && command.interval.is_some())
        };
        if let Some(command) = command.filter(is_better) {
            found = Some(command);
        } else if found.is_none() && !has_prompt {
            return None;
        }
    }
    let mut command = found?;
    let is_argument = |word: &String| {
        word.starts_with(['-', '/', '>'])
            || is_number(word)
            || is_device(word)
            || word.bytes().all(|b| b.is_ascii_uppercase() || b == b',')
    };
    let is_bare_program = matches!(
        command.program.as_str(),
        "cat"
            | "grep"
            | "date"
            | "ip"
            | "ss"
            | "ps"
            | "w"
            | "df"
            | "perf"
            | "free"
            | "top"
            | "uptime"
            | "docker"
            | "podman"
            | "kubectl"
            | "mountstats"
            | "curl"
            | "aws"
            | "telegraf"
    );
    let is_file_printed = command.printed_file().is_some();
    if !has_prompt {
        let are_arguments = command.arguments.iter().all(is_argument);
        let is_complete = !is_bare_program || command.arguments.len() == text.split_whitespace().count() - 1;
        if !are_arguments || !is_complete || matches!(command.program.as_str(), "cat" | "grep") && !is_file_printed {
            return None;
        }
    }
    command.interval = command.interval.or_else(|| loop_interval(text));
    Some(command)
}

/// The time that a loop around a command waits: `sleep 5`, `watch -n 2`.
fn loop_interval(text: &str) -> Option<Duration> {
    let words: Vec<&str> = text.split([' ', ';']).filter(|word| !word.is_empty()).collect();
    if let Some(place) = words.iter().position(|word| *word == "sleep") {
        return parse_seconds(words.get(place + 1)?);
    }
    if words.first() != Some(&"watch") {
        return None;
    }
    let own_words = words[1..].iter().enumerate().take_while(|(_, word)| word.starts_with('-') || is_number(word));
    for (index, word) in own_words {
        let value = ["-n", "--interval="].iter().find_map(|option| word.strip_prefix(option));
        match value {
            Some("") => return parse_seconds(words.get(index + 2)?),
            Some(value) => return parse_seconds(value),
            None => {}
        }
    }
    Some(Duration::from_secs(2))
}

fn parse_simple_command(text: &str) -> Option<CommandLine> {
    let mut words = text.split_whitespace().skip_while(|word| {
        let is_setting = word.contains('=');
        // options before the program are those of `watch` or of a prefix
        is_setting
            || PREFIXES.contains(word)
            || matches!(*word, "do" | "while" | "true" | "watch" | "{")
            || word.starts_with('-')
            || is_number(word)
    });
    let name = words.next()?.trim_end_matches([':', ',']);
    let path = name.starts_with(['/', '.', '~']).then(|| name.rsplit('/').next()).flatten();
    let name = path.unwrap_or(name).trim_end_matches(".exe");
    let (program, place) = PROGRAMS.iter().find(|(program, _)| *program == name)?;
    let arguments: Vec<String> =
        words.take_while(|word| !word.starts_with(['>', '<']) && *word != "2>&1").map(str::to_owned).collect();
    let interval = find_interval(program, *place, &arguments);
    Some(CommandLine { program: (*program).to_owned(), arguments, interval })
}

fn find_interval(program: &str, place: IntervalPlace, arguments: &[String]) -> Option<Duration> {
    let default = |seconds: f64| (seconds > 0.0).then(|| Duration::from_secs_f64(seconds));
    match place {
        IntervalPlace::Missing => None,
        IntervalPlace::Option { option, default_s } => {
            for (index, word) in arguments.iter().enumerate() {
                // `-bd 5` is `-b -d 5`
                let is_combined = option.len() == 2
                    && word.len() > 2
                    && word.starts_with('-')
                    && word[1..].bytes().all(|b| b.is_ascii_alphabetic())
                    && word.ends_with(&option[1..]);
                if let Some(value) = if is_combined { Some("") } else { word.strip_prefix(option) } {
                    let value = if value.is_empty() { arguments.get(index + 1)?.as_str() } else { value };
                    return parse_seconds(value);
                }
            }
            default(default_s)
        }
        IntervalPlace::First { default_s } => {
            // `zpool status` prints no reports
            if program == "zpool" && arguments.first().is_none_or(|word| word != "iostat") {
                return None;
            }
            let with_argument =
                OPTIONS_WITH_ARGUMENT.iter().find(|(name, _)| *name == program).map_or(&[][..], |(_, options)| options);
            let mut is_argument = false;
            for word in arguments {
                if std::mem::take(&mut is_argument) {
                    continue;
                }
                if word.starts_with('-') {
                    is_argument = with_argument.contains(&word.as_str());
                } else if let Some(interval) = parse_seconds(word) {
                    return Some(interval);
                }
            }
            default(default_s)
        }
    }
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit() || b == b'.')
}

/// Names of disks and network devices, which may stand behind a program's options.
fn is_device(word: &str) -> bool {
    let stems = ["sd", "hd", "vd", "xvd", "nvme", "dm-", "md", "mmcblk", "eth", "en", "ada", "da"];
    word.len() <= 16 && word.contains(|c: char| c.is_ascii_digit()) && stems.iter().any(|stem| word.starts_with(stem))
        || word.len() == 3 && word.starts_with("sd")
}

fn parse_seconds(word: &str) -> Option<Duration> {
    let number = word.trim_end_matches(['s', ',', '.', ':', ')']);
    let seconds: f64 = number.replace(',', ".").parse().ok()?;
    (0.05..=86_400.0).contains(&seconds).then(|| Duration::from_secs_f64(seconds))
}

/// True for a line with the name of a known program among its words.
pub(super) fn names_program(line: &str) -> bool {
    let is_sign = |c: char| !c.is_alphanumeric();
    // a word of plain English is no name
    let is_program =
        |word: &str| !matches!(word, "w" | "free" | "top" | "cat" | "date") && find_program(word).is_some();
    line.split_whitespace().any(|word| is_program(word.trim_matches(is_sign)))
}

fn find_program(word: &str) -> Option<&'static (&'static str, IntervalPlace)> {
    PROGRAMS.iter().find(|(program, _)| *program == word)
}

/// Finds a command with an interval in a sentence: "here is iostat -x 5 during the backup".
pub(super) fn find_mention(line: &str) -> Option<CommandLine> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let start = words.iter().position(|word| {
        let word = word.trim_start_matches(['(', '"', '\'']);
        PROGRAMS.iter().any(|(program, place)| *program == word && matches!(place, IntervalPlace::First { .. }))
    })?;
    let is_argument =
        |word: &&&str| word.starts_with('-') || is_number(word.trim_end_matches(['.', ',', ':', ')', '"']));
    let arguments =
        words[start + 1..].iter().take_while(is_argument).map(|word| word.trim_end_matches([',', ':', ')', '"']));
    let program = words[start].trim_start_matches(['(', '"', '\'']);
    let text = std::iter::once(program).chain(arguments).collect::<Vec<_>>().join(" ");
    parse_simple_command(&text).filter(|command| command.interval.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Option<(String, Option<f64>)> {
        let command = parse_prompt(line, &[])?.command?;
        Some((command.to_text(), command.interval.map(|interval| interval.as_secs_f64())))
    }

    #[test]
    fn parses_prompts_of_many_shells() {
        for (line, text, interval) in [
            ("$ vmstat 1 10", "vmstat 1 10", Some(1.0)),
            ("#vmstat 7", "vmstat 7", Some(7.0)),
            ("[root@host7 ~]$ vmstat 2", "vmstat 2", Some(2.0)),
            ("root@host7:/var/log# iostat -xz 3", "iostat -xz 3", Some(3.0)),
            ("root@host7 # top -b -d 5 -n 3", "top -b -d 5 -n 3", Some(5.0)),
            ("host7% iostat -xm 4", "iostat -xm 4", Some(4.0)),
            ("~ # vmstat 5", "vmstat 5", Some(5.0)),
            ("-> vmstat 1", "vmstat 1", Some(1.0)),
            ("➜  ~ vmstat 6", "vmstat 6", Some(6.0)),
            ("## iostat -mx 10", "iostat -mx 10", Some(10.0)),
            ("PS C:\\Users\\me> typeperf -si 4 x", "typeperf -si 4 x", Some(4.0)),
            ("iostat -x 1 -y", "iostat -x 1 -y", Some(1.0)),
            ("sudo pidstat -d 1", "pidstat -d 1", Some(1.0)),
            ("$ S_TIME_FORMAT=ISO /usr/bin/iostat -p sda 8 | tee log", "iostat -p sda 8", Some(8.0)),
            ("# mpstat -P 0 2", "mpstat -P 0 2", Some(2.0)),
            ("# sar -s 09:00:00 -e 10:00:00 -n DEV", "sar -s 09:00:00 -e 10:00:00 -n DEV", None),
            ("$ while true; do free -m; sleep 4; done", "free -m", Some(4.0)),
            ("$ watch -n 3 'cat /proc/mdstat'", "cat /proc/mdstat", Some(3.0)),
            ("$ watch -n4 'cat /proc/mdstat'", "cat /proc/mdstat", Some(4.0)),
            ("$ watch -n1 cat /proc/meminfo", "cat /proc/meminfo", Some(1.0)),
            ("$ watch -d --interval=6 cat /proc/meminfo", "cat /proc/meminfo", Some(6.0)),
            ("$ watch cat /proc/mdstat", "cat /proc/mdstat", Some(2.0)),
            ("$ top -bd 7 -n 2", "top -bd 7 -n 2", Some(7.0)),
            ("# iotop -bod 5", "iotop -bod 5", Some(5.0)),
            ("^C[root@host7 ~]# top", "top", Some(3.0)),
            ("$ zpool iostat -v tank 9", "zpool iostat -v tank 9", Some(9.0)),
            ("cat /proc/meminfo", "cat /proc/meminfo", None),
            ("user@host7 MINGW64 ~ $ vmstat 3", "vmstat 3", Some(3.0)),
        ] {
            assert_eq!(parse(line), Some((text.to_owned(), interval)), "{line}");
        }
    }

    #[test]
    fn sentences_and_rows_are_no_prompts() {
        for line in [
            "vmstat shows that it waits",
            "top processes are listed below",
            "sda 0.00 1.00",
            "free memory is low",
            "# Time UID PID %usr",
            "#Time",
            "%Cpu(s):  1.0 us",
            "  PID USER PR",
            "cat and mouse",
            "top - 10:00:00 up 3 days",
            "w/s r/s",
            "100 % busy and 3 # later",
        ] {
            assert_eq!(parse(line), None, "{line}");
            assert_eq!(parse_prompt(line, &[]), None, "{line}");
        }
        let learned = ["[me@host7 ~]$".to_owned()];
        assert!(parse_prompt("[me@host7 ~]$ ls -l", &learned).is_some_and(|found| found.command.is_none()));
        assert!(parse_prompt("me@host7:~$ ls", &[]).is_some_and(|found| found.command.is_none()));
    }

    #[test]
    fn finds_intervals_in_sentences() {
        for (line, interval) in [
            ("This is iostat -x 5 during the backup:", Some(5)),
            ("output of (vmstat 2)", Some(2)),
            ("vmstat 3:", Some(3)),
            ("vmstat says nothing", None),
        ] {
            let found = find_mention(line).and_then(|command| command.interval).map(|interval| interval.as_secs());
            assert_eq!(found, interval, "{line}");
        }
    }
}
