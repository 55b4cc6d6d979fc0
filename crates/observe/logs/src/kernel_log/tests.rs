//! What logs of messages say, in the forms in which people paste them.

use std::ops::ControlFlow;

use diskwright_base::{EventKind, HostEvent, Note};

use crate::{LogInput, LogOptions, LogPiece, MeasuredTime, ReadSummary};

/// Values and warnings of a log.
struct Found {
    values: Vec<(String, String, f64)>,
    warnings: String,
    events: Vec<HostEvent>,
    summary: ReadSummary,
}

fn read_with(text: &str, options: &LogOptions) -> Found {
    let (mut values, mut warnings, mut events) = (Vec::new(), String::new(), Vec::new());
    let mut sink = |piece: LogPiece<'_>| {
        match piece {
            LogPiece::Note(note) if note.kind == Note::WARNING => warnings += &(note.text().to_owned() + "\n"),
            LogPiece::Note(note) if note.kind == Note::EVENT => events.push(note.read_event().unwrap()),
            LogPiece::Note(_) => {}
            LogPiece::Frame(frame) => {
                for (column, series) in frame.schema().series.iter().enumerate() {
                    values.push((series.counter.clone(), series.instance.clone(), frame.column(column)[0]));
                }
            }
        }
        ControlFlow::Continue(())
    };
    let mut input = LogInput::from_bytes("log", text.as_bytes().to_vec()).unwrap();
    let summary = crate::read(&mut input, options, &mut sink).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(summary.format, "kernel-log", "{text}");
    Found { values, warnings, events, summary }
}

fn read_text(text: &str) -> Found {
    read_with(text, &LogOptions::default())
}

impl Found {
    fn value(&self, counter: &str, instance: &str) -> Option<f64> {
        self.values.iter().find(|(known, name, _)| known == counter && name == instance).map(|(.., value)| *value)
    }

    /// Values of everything that rules judge as a trouble.
    fn troubles(&self) -> Vec<&str> {
        let named = self.values.iter().map(|(counter, ..)| counter.as_str());
        named.filter(|counter| *counter != "system.passed_troubles").collect()
    }
}

#[test]
fn a_log_is_known_with_any_time_before_it() {
    let message = "mmcblk3: error -84 transferring data, sector 99, nr 8, cmd response 0x900, card status 0xb00";
    for before in [
        "",
        "[   77.5] ",
        "[   77.500123][   T88] ",
        "[Mon Mar  4 09:12:55 2024] ",
        "[  +0.000112] ",
        "kern  :warn  : [  +0.000112] [Mon Mar  4 09:12:55 2024] [ T5512] ",
        "<3>[   77.5] ",
        "Mar  4 09:12:55 pump7 kernel: [   77.500123] ",
        "Mär 04 09:12:55 pump7 kernel: ",
        "2024-03-04T09:12:55+01:00 pump7 kernel: ",
        "2024-03-04T09:12:55,123456+01:00 ",
        "<3>1 2024-03-04T09:12:55Z pump7 kernel - - - ",
    ] {
        let read = read_text(&format!("{before}{message}\n").repeat(4));
        assert_eq!(read.value("physical_disk.kernel_messages", "mmcblk3"), Some(4.0), "{before}");
    }
}

#[test]
fn a_program_that_was_killed_is_counted_once() {
    let begin = "indexd invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0\n";
    let trace = "CPU: 3 PID: 771 Comm: indexd Not tainted 5.4.0\nCall Trace:\n dump_stack+0x6d/0x9a\n\
                 [<ffffffff811a>] ? dump_header+0x9/0x1b0\n";
    let usage = "memory: usage 262144kB, limit 262144kB, failcnt 31\n";
    let kill = "Memory cgroup out of memory: Kill process 771 (indexd) score 990 or sacrifice child\n\
                Killed process 771 (indexd) total-vm:900kB, anon-rss:800kB\n";
    let unit = "Mar  4 09:12:55 pump7 systemd[1]: indexd.service: A process of this unit has been killed by the OOM \
                killer.\n";
    let all = [begin, trace, usage, kill, unit].concat();
    for text in [begin, usage, kill, unit, &all] {
        let read = read_text(text);
        assert_eq!(read.value("paging.oom_kills", ""), Some(1.0), "{text}");
        let limit = text.contains("usage").then_some(262_144.0 * 1024.0);
        assert_eq!(read.value("cgroup.memory_limit_bytes", "the cgroup at its limit"), limit, "{text}");
    }
    assert_eq!(read_text(&begin.repeat(3)).value("paging.oom_kills", ""), Some(3.0));
}

#[test]
fn what_repeats_or_does_not_end_has_values() {
    let silent = "[ 41.5] nfs: server vault3 not responding, still trying\n";
    let read = read_text(&(silent.repeat(3) + "[ 60.0] nfs: server vault3 OK\n"));
    assert_eq!(read.value("network_filesystem.major_timeouts", "vault3"), Some(3.0));
    assert_eq!(read.value("network_filesystem.unanswered", "vault3"), Some(2.0));
    assert_eq!(read_text(silent).value("network_filesystem.unanswered", "vault3"), Some(1.0));
    let hung = |task: &str| format!("[  +0.002] INFO: task {task} blocked for more than 241 seconds.\n");
    let read = read_text(&(hung("xfsaild/dm-4:612") + &hung("postmaster:90") + &hung("xfsaild/dm-4:612")));
    assert_eq!(read.value("system.hung_tasks", ""), Some(3.0));
    assert_eq!(read.value("system.hung_flushers", ""), Some(2.0));
    // the kernel's column of blocked tasks is another thing
    assert_eq!(read.value("system.blocked", ""), None);
    let low = "[ 900.5] hwmon hwmon1: Undervoltage detected!\n";
    let usual = "[ 905.5] hwmon hwmon1: Voltage normalised\n";
    assert_eq!(read_text(low).value("hardware.under_voltages", "processors"), Some(1.0));
    assert_eq!(read_text(&[low, usual, low, usual].concat()).value("hardware.under_voltages", "processors"), Some(2.0));
    let reset = |second: u32| format!("[{second}.5] ata7: hard resetting link\n[{}.5] ata7: EH complete\n", second + 2);
    assert_eq!(
        read_text("[900.5] ata7: hard resetting link\n").value("physical_disk.kernel_messages", "ata7"),
        Some(1.0)
    );
    let read = read_text(&(reset(900) + &reset(1900) + &reset(2900)));
    assert_eq!(read.value("physical_disk.kernel_messages", "ata7"), Some(3.0));
    // four lines of one request that failed
    let failed = "[900.5] sd 6:0:0:0: [sdg] tag#3 Sense Key : Medium Error [current]\n\
                  [900.5] critical medium error, dev sdg, sector 9\n\
                  [900.5] Buffer I/O error on dev sdg1, logical block 1, async page read\n";
    assert_eq!(read_text(failed).value("physical_disk.kernel_messages", "sdg"), Some(1.0));
    let hot = "[900.5] CPU3: Core temperature is above threshold, cpu clock is throttled (total events = 48231)\n";
    assert_eq!(read_text(hot).value("hardware.thermal_throttles", "processors"), Some(1.0));
}

#[test]
fn what_came_once_and_was_over_is_told() {
    for text in [
        "[900.1] CPU3: Core temperature above threshold, cpu clock throttled (total events = 1)\n\
         [900.2] CPU3: Core temperature/speed normal\n",
        "[900.1] INFO: task jbd2/sdg1-8:300 blocked for more than 120 seconds.\n[900.2]       Not tainted 6.1.0\n",
        "[900.1] nfs: server vault3 not responding, still trying\n[905.1] nfs: server vault3 OK\n",
        "[900.1] hwmon hwmon1: Undervoltage detected!\n[905.5] hwmon hwmon1: Voltage normalised\n",
        "[900.1] ata7.00: exception Emask 0x0 SAct 0x1 SErr 0x0 action 0x6 frozen\n\
         [900.2] ata7.00: failed command: WRITE FPDMA QUEUED\n[900.3] ata7: hard resetting link\n\
         [901.3] ata7: SATA link up 6.0 Gbps (SStatus 133 SControl 300)\n[901.4] ata7: EH complete\n",
        "[900.1] nvme nvme3: I/O 12 QID 3 timeout, completion polled\n",
        "[900.1] sd 6:0:0:0: [sdg] Attached SCSI removable disk\n[990.1] usb 2-1: USB disconnect, device number 4\n\
         [990.2] blk_update_request: I/O error, dev sdg, sector 2048 op 0x1:(WRITE)\n\
         [990.2] Buffer I/O error on dev sdg1, logical block 0, lost async page write\n",
        "[900.1] pcieport 0000:00:1c.0: AER: Corrected error received: 0000:01:00.0\n",
        "[900.1] EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0\n",
    ] {
        let read = read_text(text);
        assert_eq!(read.troubles(), Vec::<&str>::new(), "{text}");
        assert_eq!(read.value("system.passed_troubles", ""), Some(1.0), "{text}");
        assert!(read.warnings.contains("told and not judged"), "{}", read.warnings);
    }
}

#[test]
fn a_machine_that_starts_looks_for_devices() {
    let lines = [
        "Linux version 6.1.0 (gcc)",
        "ata7: limiting SATA link speed to 3.0 Gbps",
        "ata7: hard resetting link",
        "ata8: COMRESET failed (errno=-16)",
        "nvme nvme3: I/O 8 QID 0 timeout, reset controller",
        "CPU0: Core temperature above threshold, cpu clock throttled (total events = 1)",
        "EXT4-fs (sdg1): recovery complete",
        "md: resync of RAID array md7",
    ];
    let dmesg: String = lines.iter().enumerate().map(|(index, line)| format!("[    {index}.5] {line}\n")).collect();
    let date = |(index, line): (usize, &&str)| format!("Mar  4 09:12:{:02} pump7 kernel: {line}\n", index + 10);
    let syslog: String = lines.iter().enumerate().map(date).collect();
    for text in [dmesg, syslog] {
        let read = read_text(&text);
        assert_eq!(read.troubles(), Vec::<&str>::new(), "{text}");
        assert!(read.warnings.contains("while the machine started"), "{}", read.warnings);
    }
    let later = "[    0.1] Linux version 6.1.0\n[  900.5] ata7: hard resetting link\n";
    assert_eq!(read_text(later).value("physical_disk.kernel_messages", "ata7"), Some(1.0));
    // an error of the medium is one at any time
    let early = "[    5.1] critical medium error, dev sdg, sector 9\n";
    assert_eq!(read_text(early).value("physical_disk.kernel_messages", "sdg"), Some(1.0));
}

#[test]
fn a_loose_plug_is_more_than_a_disk_that_was_pulled_out() {
    let pull = |second: u32| {
        format!("[{second}.1] usb 2-1: USB disconnect, device number 4\n[{second}.2] I/O error, dev sdg, sector 9\n")
    };
    assert_eq!(read_text(&pull(900)).troubles(), Vec::<&str>::new());
    let read = read_text(&(pull(900) + &pull(1900) + &pull(2900)));
    assert_eq!(read.value("physical_disk.kernel_messages", "sdg"), Some(3.0));
    // it had errors before
    let read = read_text(&("[500.1] I/O error, dev sdg, sector 9\n".to_owned() + &pull(900)));
    assert_eq!(read.value("physical_disk.kernel_messages", "sdg"), Some(2.0));
}

#[test]
fn lines_of_other_programs_are_counted() {
    let others: String = (0..1204).map(|n| format!("Mar  4 09:12:55 pump7 CRON[{n}]: (root) CMD (true)\n")).collect();
    let kernel = "Mar  4 09:12:56 pump7 kernel: I/O error, dev sdg, sector 9\n";
    let read = read_text(&[others.as_str(), kernel, others.as_str()].concat());
    assert_eq!(read.value("physical_disk.kernel_messages", "sdg"), Some(1.0));
    let skipped: Vec<&str> = read.summary.skipped.iter().map(|skip| skip.context.as_str()).collect();
    assert_eq!(skipped, ["2,408 lines of other programs"]);
    let quiet = [others.as_str(), "Mar  4 09:12:56 pump7 kernel: usb 1-1: new device\n"].concat();
    let read = read_text(&quiet);
    assert!(read.warnings.contains("1 line, none about trouble"), "{}", read.warnings);
    let mut input = LogInput::from_bytes("log", others.into_bytes()).unwrap();
    assert!(crate::read(&mut input, &LogOptions::default(), &mut |_| ControlFlow::Continue(())).is_err());
}

#[test]
fn programs_that_watch_disks_and_memory_count() {
    for (line, counter, instance) in [
        (
            "mdadm[8]: Fail event detected on md device /dev/md7, component device /dev/sdf2",
            "physical_disk.kernel_messages",
            "sdf",
        ),
        ("mdadm[8]: DegradedArray event detected on md device /dev/md7", "array.degraded", "md7"),
        ("multipathd[8]: sdax: mark as failed", "physical_disk.kernel_messages", "sdax"),
        ("systemd-oomd[8]: Killed /user.slice/app.scope due to memory pressure", "paging.oom_kills", ""),
        ("kernel: EXT4-fs error (device sdf1): ext4_find_entry:1455", "physical_disk.kernel_messages", "sdf"),
        ("kernel: XFS (sdf1): Corruption of in-memory data detected.", "physical_disk.kernel_messages", "sdf"),
    ] {
        let read = read_text(&format!("Mar  4 09:12:55 pump7 {line}\n"));
        assert_eq!(read.value(counter, instance), Some(1.0), "{line}");
    }
    for line in [
        "smartd[8]: Device: /dev/sdf [SAT], 8 Currently unreadable (pending) sectors",
        "rsyslogd: file '/var/log/messages'[7] write error: No space left on device",
    ] {
        let read = read_text(&format!("Mar  4 09:12:55 pump7 {line}\n"));
        assert_eq!(read.troubles(), Vec::<&str>::new(), "{line}");
        assert!(read.warnings.contains("the kernel's log: "), "{}", read.warnings);
    }
}

#[test]
fn events_outside_the_measured_time_are_told_with_their_date() {
    const MINUTE_NS: i64 = 60_000_000_000;
    // 2026-11-25 10:00:00
    let begin = 1_795_600_800_000_000_000;
    let range = (begin, begin + 2 * MINUTE_NS);
    let step_ns = MINUTE_NS / 12;
    let measured = MeasuredTime { ranges: vec![range], whole: range, step_ns, ..MeasuredTime::default() };
    let options = LogOptions { measured: Some(measured), ..LogOptions::default() };
    for message in [
        "Out of memory: Killed process 812 (indexd) total-vm:900kB",
        "INFO: task jbd2/sdg1-8:300 blocked for more than 120 seconds.",
        "I/O error, dev sdg, sector 9",
        "ata7: hard resetting link",
        "CPU3: Core temperature above threshold, cpu clock throttled (total events = 99)",
        "EXT4-fs (sdg1): Remounting filesystem read-only",
        "nfs: server vault3 not responding, still trying",
    ] {
        let old = format!("[Fri Nov 20 03:12:55 2026] {message}\n").repeat(2);
        let read = read_with(&old, &options);
        assert_eq!(read.troubles(), Vec::<&str>::new(), "{message}");
        assert!(read.warnings.contains("history") && read.warnings.contains("Nov 20 03:12:55"), "{}", read.warnings);
        assert!(read.summary.is_placed);
        let new = format!("[Wed Nov 25 10:01:05 2026] {message}\n").repeat(2);
        let read = read_with(&(old + &new), &options);
        assert!(!read.troubles().is_empty(), "{message}");
        let end_ns = read.summary.range.unwrap().1;
        assert_eq!((end_ns - begin) / 1_000_000_000, 65, "{message}");
    }
}

const KILL: &str = "indexd invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0\n\
    memory: usage 262144kB, limit 262144kB, failcnt 31\n\
    oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/app,task_memcg=/app,\
    task=indexd,pid=771,uid=0\n\
    Memory cgroup out of memory: Killed process 771 (indexd) total-vm:900kB, anon-rss:800kB\n";

/// The lines of a kill, each with a text before it.
fn kill_with(before: &str) -> String {
    KILL.lines().map(|line| format!("{before}{line}\n")).collect()
}

/// Measurements from 10:00 to 10:02 on 2026-11-25 in UTC, of a machine of this name.
fn measured(host: &str) -> LogOptions {
    let begin = 1_795_600_800_000_000_000;
    let range = (begin, begin + 120_000_000_000);
    let whole = MeasuredTime { ranges: vec![range], whole: range, has_zone: true, ..MeasuredTime::default() };
    LogOptions { measured: Some(MeasuredTime { host: host.into(), ..whole }), ..LogOptions::default() }
}

#[test]
fn a_kill_is_an_event_with_what_the_text_tells_and_nothing_more() {
    for before in ["", "[   77.5] ", "[Wed Nov 25 10:01:05 2026] ", "Nov 25 10:01:05 pump7 kernel: [ 77.5] "] {
        let [event] = read_text(&kill_with(before)).events.try_into().unwrap();
        assert_eq!((event.kind, event.pid, event.victim.as_deref()), (EventKind::OomKill, Some(771), Some("indexd")));
        assert_eq!((event.group.as_deref(), event.limit_bytes), (Some("/app"), Some(262_144 * 1024)), "{before}");
        assert_eq!(event.time_ns, None, "{before}: no zone, or no date");
        assert_eq!(event.time_text.is_some(), !before.is_empty());
    }
    let [event] = read_text("Out of memory: Killed process 812 (java) total-vm:900kB\n").events.try_into().unwrap();
    assert_eq!((event.group, event.limit_bytes, event.time_ns, event.time_text), (None, None, None, None));
    let [event] = read_with(&kill_with("2026-11-25T10:01:05,000000+00:00 "), &measured("")).events.try_into().unwrap();
    assert_eq!(event.time_ns, Some(1_795_600_865_000_000_000));
}

#[test]
fn only_events_of_the_measured_time_and_machine_are_current() {
    let events = |before: &str, host: &str| read_with(&kill_with(before), &measured(host)).events.len();
    assert_eq!(events("Nov 25 10:01:05 pump7 kernel: ", "pump7"), 1);
    assert_eq!(events("Nov 25 10:01:05 pump7.example.org kernel: ", "pump7"), 1);
    assert_eq!(events("Nov 25 10:01:05 pump7 kernel: ", ""), 1, "the machine has no name");
    for (before, host) in [
        ("Nov 25 10:01:05 pump8 kernel: ", "pump7"),
        ("Nov 25 09:55:00 pump7 kernel: ", "pump7"),
        ("Nov 20 10:01:05 pump7 kernel: ", "pump7"),
        ("Nov 31 10:01:05 pump7 kernel: ", "pump7"),
        ("Feb 30 10:01:05 pump7 kernel: ", ""),
        ("[Wed Nov 25 10:01:05 2199] ", ""),
        ("2026-13-45T10:01:05Z pump7 kernel: ", ""),
    ] {
        let read = read_with(&kill_with(before), &measured(host));
        assert_eq!(read.events, [], "{before}");
        if !before.contains("09:55") {
            assert_eq!(read.troubles(), Vec::<&str>::new(), "{before}");
            assert!(read.warnings.contains("history"), "{before}: {}", read.warnings);
        }
    }
    // lines of two machines, and nothing says which was measured
    let both = kill_with("Nov 25 10:01:05 pump7 kernel: ") + &kill_with("Nov 25 10:01:07 pump8 kernel: ");
    assert_eq!(read_with(&both, &measured("")).events, []);
    assert_eq!(read_with(&both, &measured("pump8")).events.len(), 1);
}
