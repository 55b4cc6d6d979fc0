//! Messages of the kernel about trouble, and of programs that report the same, by the table `kernel_messages.toml`:
//! what a message means, and which device, server or task it names. The live source and the reader of pasted logs use
//! it.

use std::sync::OnceLock;

use serde::Deserialize;

use crate::host_event::EventKind;
use crate::toml_reader;

/// Meaning of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MessageClass {
    /// A request to a disk or a path to it has failed for good.
    Error,
    /// A request is repeated, or a link or controller is reset: the driver may get over it.
    Reset,
    /// A reset or a lost path ended well.
    Recovery,
    /// A disk appears.
    Attached,
    /// A device was taken away.
    Gone,
    /// The machine starts.
    Start,
    /// A file system found an error, or allows no writes any more.
    FileSystem,
    /// A file system is full.
    NoSpace,
    /// A task has waited for minutes.
    HungTask,
    /// A file server does not respond, or responds again.
    Server,
    /// A program was killed because memory ran out.
    MemoryKill,
    /// Memory of a cgroup and its limit.
    CgroupLimit,
    /// A processor is too hot, so its clock is lowered.
    Throttle,
    /// Its clock is as usual again.
    ThrottleEnd,
    /// The supply's voltage is too low.
    LowVoltage,
    /// The voltage is as usual again.
    VoltageEnd,
    /// Hardware found an error and corrected it.
    Corrected,
    /// Hardware found an error, or a processor hangs.
    Hardware,
    /// An array lacks a member.
    Array,
    /// A drive reports that it will fail.
    FailingDrive,
}

/// Place of the name in a message.
#[derive(Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum NamePlace {
    /// Behind words, if the group has some.
    #[default]
    Behind,
    First,
    Scsi,
    Number,
}

/// A group of the table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MessageGroup {
    class: MessageClass,
    #[serde(default)]
    place: NamePlace,
    #[serde(default)]
    after: String,
    #[serde(default)]
    starts: Vec<String>,
    #[serde(default)]
    program: String,
    event: Option<EventKind>,
    texts: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MessageFile {
    group: Vec<MessageGroup>,
}

/// A message that is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KernelMessage<'m> {
    /// Its meaning.
    pub class: MessageClass,
    /// Text by which it is known.
    pub text: &'static str,
    /// Device, server or task that it names, as it is written; empty if there is none.
    pub name: &'m str,
    /// The event that it tells, if it tells one by itself.
    pub event: Option<EventKind>,
}

/// Name of the kernel among the programs that log.
pub const KERNEL: &str = "kernel";
/// Longest name of a device.
const MAX_NAME_BYTES: usize = 32;
/// Words that people write behind a message, and the kernel never does.
const SENTENCE_WORDS: [&str; 37] = [
    "the", "is", "was", "my", "our", "your", "we", "you", "i", "it", "this", "that", "these", "are", "were", "have",
    "has", "had", "does", "did", "what", "why", "when", "but", "because", "mean", "means", "appears", "ist", "war",
    "wir", "nicht", "und", "est", "nous", "que", "está",
];

fn groups() -> &'static [MessageGroup] {
    static READ: OnceLock<Vec<MessageGroup>> = OnceLock::new();
    READ.get_or_init(|| {
        let text = include_str!("../kernel_messages.toml");
        toml_reader::read_built_in::<MessageFile>("kernel_messages.toml", text).group
    })
}

/// Returns what a message of a program means; `None` for others.
pub fn read_message<'m>(program: &str, message: &'m str) -> Option<KernelMessage<'m>> {
    let known = groups().iter().filter(|group| match group.program.as_str() {
        "" => program == KERNEL || group.class == MessageClass::NoSpace,
        known => known == program || known == "systemd" && program.starts_with("systemd["),
    });
    known.filter(|group| group.has_start(message)).find_map(|group| {
        let text = group.texts.iter().find(|text| message.contains(text.as_str()))?;
        let name = group.find_name(message)?;
        let (class, event) = (group.class, group.event);
        is_sound(class, text, name, message).then_some(KernelMessage { class, text, name, event })
    })
}

/// True if what the class asks of a message is there.
fn is_sound(class: MessageClass, text: &str, name: &str, message: &str) -> bool {
    match class {
        // `Killed process 812 (java)`
        MessageClass::MemoryKill if text.ends_with("process ") => {
            message.split_once(text).is_some_and(|(_, rest)| rest.starts_with(|c: char| c.is_ascii_digit()))
        }
        MessageClass::Error | MessageClass::Reset => !is_drive_without_medium(name),
        MessageClass::HungTask => !name.is_empty(),
        _ => true,
    }
}

/// Returns true for floppy and CD drives: without a medium, or with a bad one, they cause messages although the drive
/// has no error.
pub fn is_drive_without_medium(name: &str) -> bool {
    ["fd", "sr"].iter().any(|driver| name.strip_prefix(driver).is_some_and(|n| n.parse::<u32>().is_ok()))
}

/// Returns the device of a message of the kernel about an error, a timeout or a reset of a disk or its link.
pub fn device_of_message(message: &str) -> Option<&str> {
    let found = read_message(KERNEL, message)?;
    matches!(found.class, MessageClass::Error | MessageClass::Reset).then_some(found.name)
}

/// True if a line holds a message of the kernel and nothing else, though no time stands before it: a person who writes
/// about a message puts words around it.
pub fn is_whole_message(line: &str) -> bool {
    let line = line.trim();
    // /proc/version has the same text as the first message of a start
    let found = read_message(KERNEL, line).filter(|found| found.class != MessageClass::Start);
    let Some(found) = found else { return false };
    let Some((lead, tail)) = line.split_once(found.text) else { return false };
    let is_quoted = line.contains(['"', '“', '”', '‘', '’', '?', '«', '»', '„']) && !tail.contains("in \"");
    let mut words = tail.split_whitespace().map(|word| word.trim_matches([',', '.', ';', ':']).to_lowercase());
    let is_sentence = words.any(|word| SENTENCE_WORDS.contains(&word.as_str()));
    !is_quoted && !is_sentence && is_lead(lead)
}

/// True for what the kernel writes before the text of a message: nothing, a driver's name, one word.
fn is_lead(lead: &str) -> bool {
    const STARTS: [&str; 13] = [
        "sd ",
        "nvme ",
        "INFO: task ",
        "CPU",
        "EXT4-fs",
        "XFS (",
        "BTRFS",
        "Out of memory",
        "Memory cgroup out of memory",
        "qla2xxx [",
        "lpfc ",
        "hwmon ",
        "pcieport ",
    ];
    let lead = lead.trim_end();
    let words = lead.split_whitespace().count();
    let are_parts = lead.split_whitespace().all(|word| word.ends_with(':'));
    let has_letter = lead.is_empty() || lead.contains(char::is_alphanumeric);
    let is_short = words <= 1 || are_parts;
    has_letter && !lead.contains(['\'', '|', '$']) && (is_short || STARTS.iter().any(|start| lead.starts_with(start)))
}

impl MessageGroup {
    fn has_start(&self, message: &str) -> bool {
        self.starts.is_empty() || self.starts.iter().any(|start| message.starts_with(start.as_str()))
    }

    /// Returns the name; empty if the group has none, `None` if the message lacks it.
    fn find_name<'m>(&self, message: &'m str) -> Option<&'m str> {
        let name = match self.place {
            NamePlace::Behind if self.after.is_empty() => return Some(""),
            NamePlace::Behind if self.class == MessageClass::HungTask => {
                // the name of a task may have any letters
                return message.split_once(self.after.as_str())?.1.split_once(self.texts[0].as_str()).map(|(n, _)| n);
            }
            // a name may have a dot: etherd/e0.0
            NamePlace::Behind => message.split_once(self.after.as_str())?.1.split([' ', ',', ']', ')', ':']).next()?,
            NamePlace::Number => message.split_once(self.after.as_str())?.1.split([' ', ',']).next()?,
            NamePlace::First => message.split([' ', ',', ']', '.', ':']).next()?,
            NamePlace::Scsi => {
                let rest = message.split_once("sd ").map_or(message, |(_, rest)| rest);
                let address = rest.split(' ').next().unwrap_or_default().trim_end_matches(':');
                let named = rest.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(name, _)| name);
                named.unwrap_or(address)
            }
        };
        let name = name.trim_end_matches('.');
        (!name.is_empty() && name.len() <= MAX_NAME_BYTES).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_is_found_in_every_form_of_message() {
        for (message, expected) in [
            ("blk_update_request: I/O error, dev sda, sector 2048 op 0x0:(READ)", Some("sda")),
            ("I/O error, dev nvme0n1, sector 0 op 0x0:(READ) flags 0x80700", Some("nvme0n1")),
            ("critical medium error, dev sdc, sector 99", Some("sdc")),
            ("Buffer I/O error on dev sda1, logical block 0, async page read", Some("sda1")),
            ("Buffer I/O error on device dm-0, logical block 3", Some("dm-0")),
            ("ata3.00: exception Emask 0x0 SAct 0x1 SErr 0x0 action 0x6 frozen", Some("ata3")),
            ("ata3: hard resetting link", Some("ata3")),
            ("ata9.00: error: { UNC }", Some("ata9")),
            ("sd 2:0:0:0: [sdb] tag#17 FAILED Result: hostbyte=DID_OK driverbyte=DRIVER_OK", Some("sdb")),
            ("sd 4:0:2:0: [sdk] tag#7 task abort on host 4", Some("sdk")),
            ("sd 4:0:2:0: rejecting I/O to offline device", Some("4:0:2:0")),
            ("sd 4:0:2:0: Device offlined - not ready after error recovery", Some("4:0:2:0")),
            ("nvme nvme0: I/O 12 QID 3 timeout, aborting", Some("nvme0")),
            ("nvme nvme0: Device not ready; aborting reset, CSTS=0x1", Some("nvme0")),
            ("md/raid1:md0: Disk failure on sdb1, disabling device.", Some("sdb1")),
            ("I/O error, dev cciss/c0d0, sector 2048 op 0x0:(READ)", Some("cciss/c0d0")),
            ("Buffer I/O error on dev etherd/e0.1p1, logical block 0, async page read", Some("etherd/e0.1p1")),
            ("blk_update_request: I/O error, dev etherd/e0.1, sector 8", Some("etherd/e0.1")),
            ("device-mapper: multipath: 253:3: Failing path 8:16.", Some("8:16")),
            ("mmc4: Timeout waiting for hardware interrupt - cmd18.", Some("mmc4")),
            ("mmcblk4: error -84 transferring data, sector 9", Some("mmcblk4")),
            ("mpt3sas_cm2: attempting task abort! scmd(ffff88)", Some("mpt3sas_cm2")),
            ("session4: session recovery timed out after 90 secs", Some("session4")),
            ("qla2xxx [0000:04:00.1]-500b:7: LOOP DOWN detected (2 7 0 0).", Some("qla2xxx")),
            ("EXT4-fs warning (device dm-12): ext4_end_bio:316: I/O error -5 writing to inode 8", Some("dm-12")),
            ("XFS (sdp1): metadata I/O error in \"xlog_iodone\"", Some("sdp1")),
            ("Buffer I/O error on dev sr0, logical block 5", None),
            ("mpt3sas_cm2: task abort: SUCCESS scmd(ffff88)", None),
            ("wlan0: error -110 of the firmware", None),
            ("ata9: EH complete", None),
            ("device-mapper: multipath: 253:3: Reinstating path 8:16.", None),
            ("usb 1-1: new high-speed USB device number 2", None),
            ("EXT4-fs (sda1): mounted filesystem", None),
        ] {
            assert_eq!(device_of_message(message), expected, "{message}");
        }
    }

    #[test]
    fn programs_are_known_by_their_own_messages() {
        use MessageClass::{Array, Error, FailingDrive, MemoryKill, NoSpace};
        for (program, message, found) in [
            (
                "systemd",
                "shop.service: A process of this unit has been killed by the OOM killer.",
                Some((MemoryKill, "")),
            ),
            ("systemd-oomd", "Killed /user.slice/app.scope due to memory pressure", Some((MemoryKill, ""))),
            ("mdadm", "Fail event detected on md device /dev/md7, component device /dev/sdf2", Some((Error, "sdf2"))),
            ("mdadm", "DegradedArray event detected on md device /dev/md7", Some((Array, "md7"))),
            ("smartd", "Device: /dev/sdg [SAT], 8 Currently unreadable (pending) sectors", Some((FailingDrive, "sdg"))),
            ("multipathd", "sdax: mark as failed", Some((Error, "sdax"))),
            ("rsyslogd", "file '/var/log/messages' write error: No space left on device", Some((NoSpace, ""))),
            ("sshd", "Killed process 12 (sleep)", None),
            ("cron", "nfs: server vault3 not responding, still trying", None),
        ] {
            assert_eq!(read_message(program, message).map(|found| (found.class, found.name)), found, "{message}");
        }
    }

    #[test]
    fn what_a_person_writes_about_a_message_is_none() {
        for line in [
            "I googled 'Out of memory: Killed process 12' but do not have it",
            "a customer saw nfs: server vault3 not responding last year",
            "Does ata3: hard resetting link mean that the disk fails?",
            "nfs: server vault3 not responding is what the vendor told us to look for",
            "\"ata3: hard resetting link\"",
            "- we never had I/O error, dev sda, sector 9",
            "Out of memory: Killed process is in no log",
            "The docs speak of ata1: hard resetting link, too.",
            "see ata1: hard resetting link",
            "Linux version 6.1.0 (gcc)",
            "nfs: server vault3 not responding was in a ticket last year",
            "$ dmesg | grep ata1: hard resetting link",
        ] {
            assert!(!is_whole_message(line), "{line}");
        }
        for line in [
            "ata3: hard resetting link",
            "Out of memory: Killed process 812 (java) total-vm:900kB, anon-rss:800kB",
            "Memory cgroup out of memory: Kill process 771 (indexd) score 990 or sacrifice child",
            "indexd invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0",
            "nfs: server vault3 not responding, still trying",
            "INFO: task jbd2/sda3-8:373 blocked for more than 120 seconds.",
            "sd 2:0:0:0: [sdb] tag#17 FAILED Result: hostbyte=DID_OK driverbyte=DRIVER_OK",
            "blk_update_request: I/O error, dev sda, sector 2048 op 0x0:(READ)",
            "CPU2: Core temperature above threshold, cpu clock throttled (total events = 1)",
            "nvme nvme0: I/O 12 QID 3 timeout, aborting",
        ] {
            assert!(is_whole_message(line), "{line}");
        }
    }
}
