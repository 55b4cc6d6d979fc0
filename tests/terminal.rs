//! `watch` on a real terminal, by tmux: its screens, and a restored terminal however it ends.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use diskwright_base::{Note, Schema, Series, Tick, Topology};
use diskwright_datastore::{LogWriter, WriterOptions};

use crate::common::{folder, text};

const SECOND_NS: i64 = 1_000_000_000;
/// 2026-11-21 22:00:00 UTC.
const START_NS: i64 = 1_795_298_400 * SECOND_NS;

/// Writes a log of five minutes of a busy disk; returns its path.
fn write_log(place: &Path) -> PathBuf {
    let series =
        |(name, scale): (&str, f64)| Series { counter: format!("physical_disk.{name}"), instance: "sda".into(), scale };
    let counters =
        [("reads", 1.0), ("read_bytes", 1.0), ("read_time_s", 1e-6), ("busy_time_s", 1e-6), ("weighted_time_s", 1e-6)];
    let others = [("writes", 1.0), ("write_bytes", 1.0), ("write_time_s", 1e-6)];
    let schema = Arc::new(Schema::new(counters.into_iter().chain(others).map(series).collect()));
    let mut writer = LogWriter::create_or_append(place, WriterOptions::default()).expect("a log");
    let topology = serde_json::to_string(&Topology { host: "web1".into(), ..Topology::default() }).expect("JSON");
    writer.add_note(&Note::new(START_NS, Note::TOPOLOGY, topology)).expect("noted");
    for second in 1..=300 {
        let tick = Tick { time_ns: START_NS + second * SECOND_NS, elapsed_ns: SECOND_NS.unsigned_abs() };
        writer.push(&schema, tick, &[200.0, 819_200.0, 2e6, 9e5, 2e6, 0.0, 0.0, 0.0]).expect("room");
    }
    writer.close().expect("closed");
    place.to_owned()
}

/// A shell in a terminal of tmux; ended when it is dropped.
struct Pane {
    socket: String,
}

impl Pane {
    /// Starts a terminal of 80 columns and 24 rows; `None` without tmux.
    fn start(name: &str) -> Option<Pane> {
        let pane = Pane { socket: format!("diskwright-{name}-{}", std::process::id()) };
        let shell =
            ["-u", "-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "env", "PS1=$ ", "TZ=UTC", "sh"];
        let Ok(made) = pane.tmux().args(shell).output() else {
            eprintln!("skipped: no tmux");
            return None;
        };
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        pane.wait_until("the shell's prompt", |shown| shown.contains('$'));
        Some(pane)
    }

    fn tmux(&self) -> Command {
        let mut command = Command::new("tmux");
        command.args(["-L", &self.socket]).env_remove("TMUX").stdin(Stdio::null());
        command
    }

    /// Runs a tmux command on this terminal; returns its output.
    fn run_tmux(&self, words: &[&str]) -> String {
        let answer = self.tmux().args(words).output().expect("tmux runs");
        String::from_utf8_lossy(&answer.stdout).into_owned()
    }

    /// Types a line and Enter.
    fn type_line(&self, text: &str) {
        self.run_tmux(&["send-keys", "-l", text]);
        self.run_tmux(&["send-keys", "Enter"]);
    }

    fn press_keys(&self, keys: &[&str]) {
        self.run_tmux(&[&["send-keys"], keys].concat());
    }

    /// Text of the screen.
    fn screen_text(&self) -> String {
        self.run_tmux(&["capture-pane", "-p"])
    }

    fn wait_until(&self, condition: &str, holds: impl Fn(&str) -> bool) {
        let begin = Instant::now();
        while !holds(&self.screen_text()) {
            assert!(begin.elapsed() < Duration::from_secs(120), "waited for {condition}:\n{}", self.screen_text());
            std::thread::park_timeout(Duration::from_millis(50));
        }
    }

    /// Starts `watch` with text before it and arguments behind it, and waits until its screen appears.
    fn start_watch(&self, before: &str, behind: &str) {
        self.type_line(&format!("{before} {} watch {behind}", env!("CARGO_BIN_EXE_diskwright")));
        self.wait_until("the screen", |shown| shown.contains("? help") && shown.contains("device"));
    }

    /// Three flags, 0 or 1: alternate screen in use, cursor visible, mouse captured.
    fn terminal_flags(&self) -> String {
        self.run_tmux(&["display-message", "-p", "#{alternate_on} #{cursor_flag} #{mouse_any_flag}"]).trim().to_owned()
    }

    /// Asserts that the shell can use the terminal after `watch` ended by `cause`.
    fn expect_usable(&self, cause: &str) {
        self.type_line("stty -a; echo $((6 * 7))");
        self.wait_until("the shell after it", |shown| shown.contains("\n42"));
        let shown = self.screen_text();
        let has = |word: &str| shown.split([' ', '\n', ';']).any(|found| found == word);
        assert!(has("icanon") && has("echo") && has("isig"), "{cause}: {shown}");
        assert_eq!(self.terminal_flags(), "0 1 0", "{cause}");
    }
}

impl Drop for Pane {
    fn drop(&mut self) {
        self.run_tmux(&["kill-server"]);
    }
}

#[test]
fn draws_on_a_terminal_of_any_size_and_restores_it() {
    let Some(pane) = Pane::start("sizes") else { return };
    let log = write_log(&folder("terminal-sizes").join("log"));
    pane.start_watch("", text(&log));
    let shown = pane.screen_text();
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[0].starts_with("web1  log  2026-11-21 22:05:00 UTC"), "{shown}");
    assert!(lines[1].contains("sda") && (shown.contains("Do first: ") || shown.contains("For later: ")), "{shown}");
    assert_eq!(pane.terminal_flags(), "1 0 1");
    pane.press_keys(&["Left", "Left"]);
    pane.wait_until("two ticks back", |shown| shown.contains("22:04:58"));
    pane.press_keys(&["?"]);
    pane.wait_until("the help", |shown| shown.contains("pause; again: follow the end"));
    pane.press_keys(&["Escape"]);
    for (columns, rows) in [("120", "40"), ("40", "10"), ("81", "25"), ("79", "23"), ("80", "24")] {
        pane.run_tmux(&["resize-window", "-x", columns, "-y", rows]);
        pane.wait_until("the screen in its new size", |shown| {
            let last = shown.lines().take(rows.parse().unwrap_or(0)).last().unwrap_or_default();
            last.contains("? help") && shown.lines().next().is_some_and(|line| line.contains("22:04:58"))
        });
    }
    pane.press_keys(&["q"]);
    pane.wait_until("the shell", |shown| shown.trim_end().ends_with('$'));
    pane.expect_usable("q");
}

#[test]
fn the_full_verdict_scrolls_and_returns_to_the_screen() {
    let Some(pane) = Pane::start("verdict") else { return };
    let log = write_log(&folder("terminal-verdict").join("log"));
    pane.start_watch("LC_ALL=C.UTF-8", text(&log));
    let sentence = pane.screen_text().lines().nth(1).expect("the verdict").trim_end().to_owned();
    pane.press_keys(&["v"]);
    pane.wait_until("the verdict", |shown| shown.contains("any other key: back") || shown.contains("any key: back"));
    let first = pane.screen_text();
    assert!(first.contains(&sentence) && !first.contains("? help"), "{first}");
    assert!(first.contains("up, down: scroll") && first.contains("lines 1-23 of "), "{first}");
    // the page has all parts of the report of `why`
    let mut all = first.lines().take(23).map(str::to_owned).collect::<Vec<_>>();
    let count: usize =
        first.rsplit("lines 1-23 of ").next().and_then(|rest| rest.trim().parse().ok()).expect("a count");
    while all.len() < count {
        pane.press_keys(&["Down"]);
        let place = format!("lines {}-{} of {count}", all.len() - 21, all.len() + 1);
        pane.wait_until("the next line", |shown| shown.contains(&place));
        all.push(pane.screen_text().lines().nth(22).unwrap_or_default().to_owned());
    }
    let page = all.join("\n");
    for part in ["Evidence", "What to do", "Ruled out", "How far to trust this"] {
        assert!(page.contains(part), "{part:?} is missing:\n{page}");
    }
    assert!(!page.contains('…'), "something is cut:\n{page}");
    assert!(all.iter().all(|line| line.chars().count() <= 80), "{page}");
    // scrolling stops at the end; any other key only returns to the screen
    pane.press_keys(&["Down", "Down", "Up", "Down"]);
    pane.wait_until("the end", |shown| shown.contains(&format!("-{count} of {count}")));
    pane.press_keys(&["q"]);
    pane.wait_until("the screen", |shown| shown.contains("? help") && shown.contains(&sentence));
    // it fits a narrow terminal
    pane.run_tmux(&["resize-window", "-x", "50", "-y", "12"]);
    pane.press_keys(&["v"]);
    pane.wait_until("the verdict", |shown| shown.contains("up, down: scroll"));
    assert!(pane.screen_text().lines().all(|line| line.chars().count() <= 50), "{}", pane.screen_text());
    pane.press_keys(&["x"]);
    pane.wait_until("the screen", |shown| shown.contains("? help"));
    // two keys at once: the verdict is of the beginning, where Home went and only one tick lies before
    pane.press_keys(&["Home", "v"]);
    pane.wait_until("the beginning", |shown| shown.contains("too few ticks") && shown.contains("any key: back"));
    pane.press_keys(&["x"]);
    pane.wait_until("the screen", |shown| shown.contains("? help"));
    pane.press_keys(&["q"]);
    pane.wait_until("the shell", |shown| shown.trim_end().ends_with('$'));
}

#[test]
fn signals_leave_a_usable_terminal() {
    let Some(pane) = Pane::start("signals") else { return };
    let place = folder("terminal-signals");
    let (log, pid) = (write_log(&place.join("log")), place.join("pid"));
    for signal in ["TERM", "INT", "HUP"] {
        let before = format!("clear; sh -c 'echo $$ > {}; exec \"$@\"' sh", text(&pid));
        pane.start_watch(&before, text(&log));
        let number = fs::read_to_string(&pid).expect("it wrote its number");
        let killed = Command::new("kill").args([&format!("-{signal}"), number.trim()]).status().expect("kill runs");
        assert!(killed.success());
        pane.wait_until("the shell", |shown| shown.trim_end().ends_with('$') && !shown.contains("? help"));
        pane.expect_usable(signal);
    }
    // Ctrl-Z gives the terminal to the shell, and `fg` draws the screen again
    pane.start_watch("clear;", text(&log));
    pane.press_keys(&["C-z"]);
    pane.wait_until("the shell while it is stopped", |shown| shown.contains("topped"));
    pane.expect_usable("Ctrl-Z");
    pane.type_line("fg");
    pane.wait_until("the screen again", |shown| shown.contains("? help") && shown.contains("web1  log"));
    assert_eq!(pane.terminal_flags(), "1 0 1");
    pane.press_keys(&["C-c"]);
    pane.wait_until("the shell", |shown| shown.trim_end().ends_with('$'));
    pane.expect_usable("Ctrl-C");
}

#[test]
fn draws_without_colours_and_in_ascii_on_request() {
    let Some(pane) = Pane::start("plain") else { return };
    let log = write_log(&folder("terminal-plain").join("log"));
    // 39 is the default colour of the terminal
    let is_colour = |code: &str| code.starts_with('3') && !code.starts_with("39");
    let coloured = |codes: &str| codes.split("\u{1b}[").any(|code| is_colour(code.trim_start_matches("1;")));
    // wide enough for the chart of the queue, which is drawn with block characters
    pane.run_tmux(&["resize-window", "-x", "160", "-y", "40"]);
    pane.start_watch("LC_ALL=C.UTF-8", text(&log));
    let codes = pane.run_tmux(&["capture-pane", "-p", "-e"]);
    assert!(coloured(&codes) && !codes.is_ascii(), "{codes}");
    pane.press_keys(&["q"]);
    pane.wait_until("the shell", |shown| shown.trim_end().ends_with('$'));
    pane.start_watch("clear; NO_COLOR=1 LC_ALL=C", text(&log));
    let codes = pane.run_tmux(&["capture-pane", "-p", "-e"]);
    assert!(!coloured(&codes) && codes.is_ascii(), "{codes}");
    // a sign replaces the colour
    assert!(codes.contains("!sda"), "{codes}");
    pane.press_keys(&["q"]);
}

/// An alert that every machine raises at its second tick.
const OWN_ALERT_PACK: &str = r#"
[pack]
id = "own"
title = "own"
source = "test"
explain = "test"

[[rule]]
id = "own.always"
title = "there are processors"
object = "machine"
bottleneck = "none"
severity = "warning"
all = [{ counter = "memory.total_bytes", above = 0 }]
source = "test"
explain = "test"
alert = { hold = "1s" }
"#;

#[test]
fn shows_warnings_on_the_screen_and_repeats_them_after_it() {
    let Some(pane) = Pane::start("warnings") else { return };
    let rules = folder("terminal-warnings").join("own.toml");
    fs::write(&rules, OWN_ALERT_PACK).expect("a file");
    pane.start_watch("", &format!("--every 300ms --alerts={} --on-alert 'exit 3'", text(&rules)));
    let last = |shown: &str| shown.lines().nth(23).unwrap_or_default().to_owned();
    pane.wait_until("the fault", |shown| last(shown).contains("--on-alert: the command ended: exit status: 3"));
    let shown = pane.screen_text();
    // the command line of the watching process may be among the processes
    assert_eq!(shown.matches("--on-alert: the command").count(), 1, "it stands at the bottom alone:\n{shown}");
    pane.press_keys(&["q"]);
    pane.wait_until("the shell", |shown| shown.trim_end().ends_with('$'));
    assert!(pane.screen_text().contains("diskwright: --on-alert: the command ended"), "{}", pane.screen_text());
    pane.expect_usable("q");
}

/// `script` gives the program a terminal whose output goes to a pipe of the test, which is not read for a while, like a
/// connection that hangs.
#[test]
fn a_blocked_terminal_delays_no_key_and_buffers_no_frames() {
    let words = format!("stty cols 80 rows 24; {} watch --every 100ms", env!("CARGO_BIN_EXE_diskwright"));
    let mut script = Command::new("script");
    script.args(["-qefc", &words, "/dev/null"]).env("TERM", "xterm-256color");
    let spawned = script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let Ok(mut child) = spawned else { return eprintln!("skipped: no `script` here") };
    let (mut keys, mut screen) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
    let mut first = [0; 1];
    screen.read_exact(&mut first).expect("something is drawn");
    // without a reader the pipe (64 KiB) and the buffer of the terminal fill up, and writes of the program block
    std::thread::park_timeout(Duration::from_secs(5));
    keys.write_all(b"q").expect("typed");
    let begin = Instant::now();
    let mut rest = Vec::new();
    screen.read_to_end(&mut rest).expect("read to its end");
    assert!(child.wait().expect("an end").success());
    assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
    // frames that could not be shown were dropped
    assert!(rest.len() < 400_000, "{} bytes", rest.len());
    let text = String::from_utf8_lossy(&rest);
    assert!(text.contains("\u{1b}[?1049l") && text.contains("\u{1b}[?25h"), "the terminal is given back");
}

#[test]
fn record_ends_with_a_summary_line() {
    let log = folder("terminal-record").join("log");
    let program = env!("CARGO_BIN_EXE_diskwright");
    let words = format!("stty cols 200; {program} record {} --every 200ms --for 1s", text(&log));
    let mut script = Command::new("script");
    script.args(["-qefc", &words, "/dev/null"]).env("TERM", "xterm-256color").stdin(Stdio::null());
    let Ok(done) = script.output() else { return eprintln!("skipped: no `script` here") };
    let shown = String::from_utf8_lossy(&done.stdout);
    let last = shown.trim_end().lines().last().unwrap_or_default();
    let next = format!("; next: diskwright why {}", text(&log));
    // a busy machine may miss a tick, which the line tells then
    assert!(last.contains(": recorded ") && last.contains("lost 0") && last.ends_with(&next), "{shown:?}");
}

/// Number of processes of this program that have this log among their arguments.
fn count_watchers(log: &Path) -> usize {
    let words = |process: fs::DirEntry| fs::read(process.path().join("cmdline")).unwrap_or_default();
    let watches_log = |words: &Vec<u8>| {
        let mut words = words.split(|byte| *byte == 0);
        words.next() == Some(env!("CARGO_BIN_EXE_diskwright").as_bytes())
            && words.any(|word| word == text(log).as_bytes())
    };
    fs::read_dir("/proc").expect("processes").flatten().map(words).filter(watches_log).count()
}

#[test]
fn watch_ends_with_its_terminal_although_hangups_are_ignored() {
    let Some(pane) = Pane::start("gone") else { return };
    let log = write_log(&folder("terminal-gone").join("log"));
    pane.start_watch("trap '' HUP;", text(&log));
    assert_eq!(count_watchers(&log), 1);
    drop(pane);
    let begin = Instant::now();
    while count_watchers(&log) > 0 {
        assert!(begin.elapsed() < Duration::from_secs(60), "it lives on without a terminal");
        std::thread::park_timeout(Duration::from_millis(50));
    }
}
