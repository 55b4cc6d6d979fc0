//! `--ssh`: other hosts, here real ones of `sshd` on the loopback interface.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use crate::common::{command, diskwright, folder, stderr, success, text, wait_until};

const SSHD: &str = "/usr/sbin/sshd";
/// Where an ordinary host has its programs; ours is not among them.
const PLAIN_PATH: &str = "/usr/bin:/bin:/usr/sbin:/sbin";

/// Daemons of `sshd` on ports of their own, and a configuration of `ssh` that names them.
struct Hosts {
    folder: PathBuf,
    daemons: Vec<Child>,
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// A port that is free now.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn key(path: &Path) {
    let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path).status();
    assert!(made.unwrap().success(), "a key for the tests");
}

impl Hosts {
    /// `None` where no daemon can run; that is told.
    fn new(name: &str) -> Option<Hosts> {
        if !Path::new(SSHD).is_file() || !rustix::process::geteuid().is_root() {
            eprintln!("skipped: no sshd, or no root to run it");
            return None;
        }
        let folder = folder(name);
        // the daemon gives up its rights in this folder
        fs::create_dir_all("/run/sshd").unwrap();
        key(&folder.join("host"));
        key(&folder.join("user"));
        fs::copy(folder.join("user.pub"), folder.join("authorized")).unwrap();
        fs::write(folder.join("config"), "").unwrap();
        Some(Hosts { folder, daemons: Vec::new() })
    }

    /// Starts a daemon whose sessions find programs in `path`, and names it; `more` are lines of its configuration.
    fn add(&mut self, name: &str, path: &str, more: &str) -> u16 {
        let (port, folder) = (free_port(), self.folder.display().to_string());
        let configuration = self.folder.join(format!("sshd-{name}"));
        let lines = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/authorized\n\
             StrictModes no\nUsePAM yes\nPermitRootLogin yes\nPasswordAuthentication no\nPidFile none\n\
             SetEnv PATH={path}\n{more}\n"
        );
        fs::write(&configuration, lines).unwrap();
        let log = self.folder.join(format!("log-{name}"));
        let daemon = Command::new(SSHD).args(["-D", "-E"]).arg(&log).arg("-f").arg(&configuration).spawn().unwrap();
        self.daemons.push(daemon);
        self.name_host(name, port);
        wait_until("sshd", || fs::read_to_string(&log).is_ok_and(|text| text.contains("Server listening")));
        port
    }

    /// Names a port in the configuration of `ssh`.
    fn name_host(&self, name: &str, port: u16) {
        let folder = self.folder.display();
        let file = self.folder.join("config");
        let mut known = fs::read_to_string(&file).unwrap();
        known.push_str(&format!(
            "Host {name}\n  HostName 127.0.0.1\n  Port {port}\n  User root\n  IdentityFile {folder}/user\n  \
             IdentitiesOnly yes\n  StrictHostKeyChecking no\n  UserKnownHostsFile {folder}/known\n  LogLevel ERROR\n"
        ));
        fs::write(file, known).unwrap();
    }

    fn config(&self) -> String {
        format!("--ssh-config={}", self.folder.join("config").display())
    }

    /// A program that is ours under its name, in a folder for PATH.
    fn program_folder(&self) -> String {
        let bin = self.folder.join("bin");
        fs::create_dir_all(&bin).unwrap();
        let _ = std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_diskwright"), bin.join("diskwright"));
        format!("{}:{PLAIN_PATH}", bin.display())
    }

    fn run(&self, arguments: &[&str]) -> Output {
        diskwright(&[arguments, &[&self.config()]].concat())
    }
}

fn host_name() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim().to_owned()
}

/// Copies of the program that are left anywhere.
fn copies_left() -> Vec<PathBuf> {
    let names = |dir: &str| fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_copy =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".diskwright-copy-"));
    ["/dev/shm", "/tmp", "/var/tmp", "/root", "/run/user/0"].iter().flat_map(|dir| names(dir)).filter(is_copy).collect()
}

#[test]
fn a_host_is_judged_in_each_of_the_three_ways() {
    let Some(mut hosts) = Hosts::new("ssh-ways") else { return };
    let path = hosts.program_folder();
    hosts.add("with-program", &path, "");
    hosts.add("without", PLAIN_PATH, "");
    for (host, copy, way) in
        [("with-program", "", "program"), ("without", "--ssh-copy", "copied"), ("without", "", "shell")]
    {
        let mut arguments = vec!["why", "--ssh", host, "--for", "4s", "--json"];
        arguments.extend((!copy.is_empty()).then_some(copy));
        let answer = success(&hosts.run(&arguments));
        assert_eq!(answer["ssh"]["way"], way, "{answer:#}");
        assert_eq!(answer["host"], host_name().as_str(), "{way}");
        assert!(answer["window"]["ticks"].as_u64().is_some_and(|ticks| ticks >= 3), "{way}: {:#}", answer["window"]);
        assert_eq!(answer["ssh"]["breaks"], serde_json::json!([]), "{way}");
        let has_tables = answer["has_process_tables"].as_bool().unwrap_or(true);
        assert!(has_tables, "{way}");
    }
    wait_until("the copy to be removed", || copies_left().is_empty());
}

#[test]
fn a_log_of_a_shell_loop_has_the_devices_and_counters_of_the_host() {
    let Some(mut hosts) = Hosts::new("ssh-shell-log") else { return };
    hosts.add("plain", PLAIN_PATH, "");
    let log = hosts.folder.join("log");
    let recorded = success(&hosts.run(&["record", text(&log), "--ssh", "plain", "--for", "5s", "--json"]));
    assert_eq!(recorded["hosts"][0]["way"], "shell", "{recorded:#}");
    let (ours, theirs) = (folder("ssh-own-log").join("log"), &log);
    success(&diskwright(&["record", text(&ours), "--for", "3s", "--json"]));
    let series = |log: &Path| -> Vec<String> {
        let shown = diskwright(&["show", text(log), "--as", "csv"]);
        let line = String::from_utf8_lossy(&shown.stdout).lines().next().unwrap_or_default().to_owned();
        line.split(',').map(str::to_owned).collect()
    };
    let (own, sent) = (series(&ours), series(theirs));
    for part in ["physical_disk.", "processor.", "memory.", "paging.", "network_link.", "system."] {
        let lacks: Vec<&String> = own.iter().filter(|name| name.starts_with(part) && !sent.contains(name)).collect();
        // what needs other files than a loop reads, or came and went
        assert!(lacks.len() * 5 < own.iter().filter(|name| name.starts_with(part)).count().max(1), "{part}: {lacks:?}");
    }
    let advice = success(&diskwright(&["advise", text(&log), "--json"]));
    assert_eq!(advice["schema"], "diskwright.advice/1");
}

#[test]
fn several_hosts_are_ranked_and_one_that_refuses_or_hangs_holds_nobody() {
    let Some(mut hosts) = Hosts::new("ssh-several") else { return };
    let path = hosts.program_folder();
    let port = hosts.add("a1", &path, "");
    (2..=6).for_each(|number| hosts.name_host(&format!("a{number}"), port));
    hosts.name_host("closed", free_port());
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    hosts.name_host("silent", silent.local_addr().unwrap().port());
    let list = hosts.folder.join("hosts");
    fs::write(&list, "# all of them\na1\na2\na3\na4\na5\na6\nclosed\nsilent\n").unwrap();
    let answer = success(&hosts.run(&["why", "--ssh-hosts", text(&list), "--for", "4s", "--json"]));
    assert_eq!(answer["schema"], "diskwright.fleet/1");
    let names: Vec<&str> =
        answer["hosts"].as_array().unwrap().iter().map(|host| host["host"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 6, "{answer:#}");
    let unjudged: Vec<&str> =
        answer["unjudged"].as_array().unwrap().iter().map(|host| host["host"].as_str().unwrap()).collect();
    assert_eq!(unjudged, ["closed", "silent"], "{answer:#}");
}

#[test]
fn a_recording_goes_on_after_its_connection_broke() {
    let Some(mut hosts) = Hosts::new("ssh-broken") else { return };
    let path = hosts.program_folder();
    hosts.add("db1", &path, "");
    let log = hosts.folder.join("log");
    let recorder = command(&["record", text(&log), "--ssh", "db1", "--for", "12s", "--json", &hosts.config()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let children = format!("/proc/{}/task", recorder.id());
    let ssh_child = || -> Option<i32> {
        let tasks = fs::read_dir(&children).ok()?.flatten();
        let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
        lists.flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).find_map(|pid| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
            (name.trim() == "ssh").then(|| pid.parse().ok()).flatten()
        })
    };
    wait_until("the first ticks", || log.join("tail").metadata().is_ok_and(|file| file.len() > 8192));
    let pid = rustix::process::Pid::from_raw(ssh_child().expect("a connection")).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let done = recorder.wait_with_output().unwrap();
    let recorded = success(&done);
    let breaks = recorded["hosts"][0]["breaks"].as_array().unwrap();
    assert!(!breaks.is_empty(), "{recorded:#}");
    assert!(stderr(&done).contains("the connection broke"), "{}", stderr(&done));
    let verdict = success(&diskwright(&["why", text(&log), "--json"]));
    let gap = verdict["window"]["gaps"].as_u64().unwrap();
    assert!(gap >= 1, "{:#}", verdict["window"]);
    // before and after the break
    assert!(recorded["ticks"].as_u64().unwrap() >= 4, "{recorded:#}");
}

#[test]
fn commands_of_our_program_run_there_and_say_where_it_is_missing() {
    let Some(mut hosts) = Hosts::new("ssh-commands") else { return };
    let path = hosts.program_folder();
    hosts.add("with-program", &path, "");
    hosts.add("plain", PLAIN_PATH, "");
    let advice = success(&hosts.run(&["advise", "--ssh", "with-program", "--json"]));
    assert_eq!(advice["schema"], "diskwright.advice/1");
    let refused = hosts.run(&["trace", "--ssh", "plain", "--for", "1s"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("diskwright is not installed there"), "{}", stderr(&refused));
    // an exit code of there is one of here
    let refused = hosts.run(&["trace", "no-such-disk", "--ssh", "with-program"]);
    let local = diskwright(&["trace", "no-such-disk"]);
    assert_eq!(refused.status.code(), local.status.code(), "{}", stderr(&refused));
}

#[test]
fn a_program_for_another_processor_is_not_run() {
    let Some(mut hosts) = Hosts::new("ssh-processor") else { return };
    hosts.add("plain", PLAIN_PATH, "");
    let mut program = fs::read(env!("CARGO_BIN_EXE_diskwright")).unwrap()[..4096].to_vec();
    // e_machine: s390x here is nobody's
    program[18..20].copy_from_slice(&22u16.to_le_bytes());
    let file = hosts.folder.join("other-program");
    fs::write(&file, program).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    let copy = format!("--ssh-copy={}", file.display());
    let answer = success(&hosts.run(&["why", "--ssh", "plain", &copy, "--for", "3s", "--json"]));
    assert_eq!(answer["ssh"]["way"], "shell");
    let because = answer["ssh"]["because"].as_str().unwrap();
    assert!(because.contains("the copy is for s390x"), "{because}");
    assert_eq!(copies_left(), Vec::<PathBuf>::new());
}

/// A host that sends what it likes gets neither files nor the terminal.
#[test]
fn a_hostile_host_is_refused_in_words() {
    let Some(mut hosts) = Hosts::new("ssh-hostile") else { return };
    let texts = [
        ("noise", "\u{1b}]0;owned\u{7}welcome\n", "ended at once"),
        ("outside", "diskwright-ssh 1 shell Linux; x\n@ tick 1\n/etc/shadow:x\n@ end\n", "outside of /proc and /sys"),
        ("escape", "diskwright-ssh 1 none \u{1b}[2Jgo away\n", "go away"),
        ("records", "diskwright-ssh 1 program x\nnot a log\n", "not understood"),
        ("flood", "diskwright-ssh 1 shell Linux; x\n@ tick 1\n/proc/../../etc/passwd:x\n@ end\n", "outside of"),
    ];
    for (name, sent, words) in texts {
        let file = hosts.folder.join(name);
        fs::write(&file, sent).unwrap();
        hosts.add(name, PLAIN_PATH, &format!("ForceCommand cat {}", file.display()));
        let refused = hosts.run(&["why", "--ssh", name, "--for", "2s"]);
        let said = stderr(&refused);
        assert_eq!(refused.status.code(), Some(1), "{name}: {said}");
        assert!(said.contains(words), "{name}: {said}");
        assert!(!said.contains('\u{1b}') && !said.contains('\u{7}'), "{name}: {said:?}");
    }
}

#[test]
fn hosts_are_checked_before_anything_is_started() {
    for (arguments, words) in [
        (vec!["why", "--ssh", "-oProxyCommand=touch /tmp/x"], "unexpected argument"),
        (vec!["why", "--ssh=-oProxyCommand=x"], "it looks like an option"),
        (vec!["why", "--ssh", "a b"], "only letters, digits"),
        (vec!["why", "--ssh-copy"], "--ssh-copy needs --ssh HOST"),
        (vec!["why", "some.log", "--ssh", "db1"], "does not go with a log"),
        (vec!["record", "--ssh", "db1", "--listen", "0"], "is for this machine"),
        (vec!["watch", "--ssh", "a", "--ssh", "b", "--once"], "watch takes one host"),
    ] {
        let refused = diskwright(&arguments);
        let said = stderr(&refused);
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
}

/// The field is there for whoever reads the answer by program.
#[test]
fn the_answer_tells_the_way_and_the_next_step_names_the_host() {
    let Some(mut hosts) = Hosts::new("ssh-next") else { return };
    let path = hosts.program_folder();
    hosts.add("db1", &path, "");
    let answer = success(&hosts.run(&["why", "--ssh", "db1", "--for", "3s", "--json"]));
    assert_eq!(answer["ssh"]["host"], "db1");
    let steps = answer["next_steps"].as_array().unwrap();
    assert!(steps.iter().all(|step: &Value| step["command"].as_str().unwrap().contains("--ssh db1")), "{steps:?}");
}
