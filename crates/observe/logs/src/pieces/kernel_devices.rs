//! Messages of the kernel about errors, timeouts and resets of disks, their links and paths, and the place of the
//! device's name in each.

/// Place of the device's name in a message.
#[derive(Clone, Copy)]
enum NamePlace {
    /// Behind these words.
    After(&'static str),
    /// The first word: `ata1.00: …`, `mmcblk0: …`.
    First,
    /// In brackets, `sd 0:0:0:0: [sda] …`; else the address of the SCSI device.
    Scsi,
}
use NamePlace::{After, First, Scsi};

/// Parts of messages that count. Only the beginning of an attempt counts, not how it ended.
const MESSAGES: [(&str, NamePlace); 39] = [
    ("I/O error, dev ", After(", dev ")),
    ("critical medium error, dev ", After(", dev ")),
    ("critical target error, dev ", After(", dev ")),
    ("Buffer I/O error on dev ", After("on dev ")),
    ("Buffer I/O error on device ", After("on device ")),
    ("lost async page write", After("on dev ")),
    ("Disk failure on ", After("Disk failure on ")),
    ("ext4_end_bio", After("(device ")),
    ("errs: wr ", After("(device ")),
    ("metadata I/O error", After("XFS (")),
    ("exception Emask", First),
    ("hard resetting link", First),
    ("soft resetting link", First),
    ("limiting SATA link speed", First),
    ("COMRESET failed", First),
    ("failed command:", First),
    ("error: { UNC", First),
    ("device not ready (errno", First),
    ("Timeout waiting for hardware interrupt", First),
    ("timed out sending", First),
    (": error -", First),
    ("session recovery timed out", First),
    ("detected conn error", First),
    ("attempting task abort", First),
    ("attempting device reset", First),
    ("attempting target reset", First),
    ("attempting host reset", First),
    ("LOOP DOWN", First),
    ("Link Down Event", First),
    ("FAILED Result:", Scsi),
    ("timing out command", Scsi),
    ("Sense Key : Medium Error", Scsi),
    ("Sense Key : Hardware Error", Scsi),
    ("task abort on host", Scsi),
    ("uas_eh_abort_handler", Scsi),
    ("rejecting I/O to offline device", Scsi),
    ("Device offlined", Scsi),
    (" QID ", After("nvme ")),
    ("controller is down; will reset", After("nvme ")),
];
/// Starts of the names of devices whose messages have the bare words `: error -110`.
const CARDS: [&str; 2] = ["mmcblk", "mmc"];
const MAX_NAME: usize = 32;

/// Returns the device of a message that counts; `None` for other messages, and for floppy and CD drives, which have
/// errors without a medium.
pub(super) fn device_of_message(message: &str) -> Option<String> {
    let is_card = CARDS.iter().any(|start| message.starts_with(start));
    let (_, place) = MESSAGES.iter().find(|(text, _)| message.contains(text) && (*text != ": error -" || is_card))?;
    let scsi = || {
        let rest = message.split_once("sd ").map_or(message, |(_, rest)| rest);
        let address = rest.split(' ').next().unwrap_or_default().trim_end_matches(':');
        let named = rest.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(name, _)| name);
        named.unwrap_or(address)
    };
    let name = match place {
        After(words) => message.split_once(words)?.1.split([' ', ',', ']', ')', ':']).next()?,
        First => message.split([' ', ',', ']', '.', ':']).next()?,
        Scsi => scsi(),
    };
    let name = name.trim_end_matches('.');
    let is_removable =
        ["fd", "sr"].iter().any(|driver| name.strip_prefix(driver).is_some_and(|n| n.parse::<u32>().is_ok()));
    (!name.is_empty() && name.len() <= MAX_NAME && !is_removable).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_names_its_device() {
        for (message, device) in [
            ("blk_update_request: I/O error, dev sdq, sector 77", Some("sdq")),
            ("ata9.00: error: { UNC }", Some("ata9")),
            ("ata9: hard resetting link", Some("ata9")),
            ("mmc4: Timeout waiting for hardware interrupt - cmd18.", Some("mmc4")),
            ("mmcblk4: error -84 transferring data, sector 9", Some("mmcblk4")),
            ("wlan0: error -110 of the firmware", None),
            ("sd 4:0:2:0: [sdk] tag#7 task abort on host 4", Some("sdk")),
            ("sd 4:0:2:0: rejecting I/O to offline device", Some("4:0:2:0")),
            ("sd 4:0:2:0: Device offlined - not ready after error recovery", Some("4:0:2:0")),
            ("mpt3sas_cm2: attempting task abort! scmd(ffff88)", Some("mpt3sas_cm2")),
            ("mpt3sas_cm2: task abort: SUCCESS scmd(ffff88)", None),
            ("session4: session recovery timed out after 90 secs", Some("session4")),
            ("qla2xxx [0000:04:00.1]-500b:7: LOOP DOWN detected (2 7 0 0).", Some("qla2xxx")),
            ("nvme nvme6: I/O 12 QID 3 timeout, aborting", Some("nvme6")),
            ("nvme nvme6: I/O 12 QID 3 timeout, reset controller", Some("nvme6")),
            ("Buffer I/O error on device dm-12, logical block 5", Some("dm-12")),
            ("EXT4-fs warning (device dm-12): ext4_end_bio:316: I/O error -5 writing to inode 8", Some("dm-12")),
            ("XFS (sdp1): metadata I/O error in \"xlog_iodone\"", Some("sdp1")),
            ("Buffer I/O error on dev sr0, logical block 5", None),
            ("ata9: EH complete", None),
        ] {
            assert_eq!(device_of_message(message).as_deref(), device, "{message}");
        }
    }
}
