//! Queries a drive for its health, with commands that only read and never wake it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::ioctls::{ScsiOutcome, send_nvme_admin, send_scsi};
use crate::{DriveAccess, DriveHealth, VolumeLimits, ata, nvme, scsi, volume};

/// Result of a health query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HealthReport {
    /// Health that the drive reports.
    pub health: Option<DriveHealth>,
    /// Limits that a cloud volume reports.
    pub volume: Option<VolumeLimits>,
    /// The drive sleeps and was not queried further.
    pub is_asleep: bool,
    /// Reason why nothing could be read.
    pub error: Option<String>,
}

impl HealthReport {
    fn from_health(health: DriveHealth) -> HealthReport {
        HealthReport { health: Some(health), ..HealthReport::default() }
    }

    fn from_error(error: &io::Error) -> HealthReport {
        HealthReport { error: Some(error.to_string()), ..HealthReport::default() }
    }
}

/// Queries a disk by its device file. A slow drive may take seconds.
pub fn query_health(path: &Path, access: &DriveAccess) -> HealthReport {
    // O_NONBLOCK opens a drive without a medium too, and spins nothing up
    let options = libc::O_NONBLOCK | libc::O_CLOEXEC;
    let file = match OpenOptions::new().read(true).custom_flags(options).open(path) {
        Ok(file) => file,
        Err(error) => return HealthReport::from_error(&error),
    };
    let report = match access {
        DriveAccess::Nvme { is_volume: true } => query_volume(&file),
        DriveAccess::Nvme { is_volume: false } => query_nvme(&file),
        DriveAccess::Ata => query_ata(&file),
        DriveAccess::Scsi => query_scsi(&file),
        DriveAccess::OutOfReach(reason) => Err(io::Error::other(*reason)),
    };
    report.unwrap_or_else(|error| HealthReport::from_error(&error))
}

const GET_LOG: u8 = 0x02;
const IDENTIFY: u8 = 0x06;
const WHOLE_DRIVE: u32 = 0xffff_ffff;

fn read_nvme_log(file: &File, page: u8, nsid: u32, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    // length in words of four bytes, minus one
    let words = (length / 4 - 1) as u32;
    send_nvme_admin(file, GET_LOG, nsid, words << 16 | u32::from(page), &mut bytes)?;
    Ok(bytes)
}

fn query_nvme(file: &File) -> io::Result<HealthReport> {
    let mut health = DriveHealth::default();
    nvme::apply_health_log(&read_nvme_log(file, 0x02, WHOLE_DRIVE, nvme::HEALTH_BYTES)?, &mut health);
    let mut identify = vec![0; nvme::IDENTIFY_BYTES];
    // CNS 1: the controller
    if send_nvme_admin(file, IDENTIFY, 0, 1, &mut identify).is_ok() {
        nvme::apply_temperature_limits(&identify, &mut health);
        // OACS, bit 4: the drive supports self-tests
        if identify[256] & 0x10 != 0
            && let Ok(tests) = read_nvme_log(file, 0x06, WHOLE_DRIVE, nvme::SELF_TEST_BYTES)
        {
            nvme::apply_self_test(&tests, &mut health);
        }
    }
    Ok(HealthReport::from_health(health))
}

fn query_volume(file: &File) -> io::Result<HealthReport> {
    let limits = volume::parse_limits(&read_nvme_log(file, volume::LOG_PAGE, 1, volume::LOG_BYTES)?);
    let error = limits.is_none().then(|| "the format of its statistics page is unknown".to_owned());
    Ok(HealthReport { volume: limits, error, ..HealthReport::default() })
}

/// ATA PASS-THROUGH (16) of SAT-4.
const PASS_THROUGH: u8 = 0x85;
/// Protocol of a command without data.
const NO_DATA: u8 = 3 << 1;
/// Protocol of a command that returns data.
const DATA_IN: u8 = 4 << 1;
/// The drive sends data, and the count field has the number of sectors.
const IN_SECTORS: u8 = 0x0e;
/// The drive returns its registers as sense data.
const SHOW_REGISTERS: u8 = 0x20;
const CHECK_POWER_MODE: u8 = 0xe5;
const IDENTIFY_DEVICE: u8 = 0xec;
const SMART: u8 = 0xb0;
const READ_LOG_EXT: u8 = 0x2f;

/// Sends an ATA command that returns one sector. `address` is LBA 7:0, 15:8 and 23:16.
fn read_ata_sector(file: &File, command: u8, feature: u8, address: [u8; 3]) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; ata::REPLY_BYTES];
    let [low, middle, high] = address;
    // commands with 48-bit addresses set the EXTEND bit
    let protocol = DATA_IN | u8::from(command == READ_LOG_EXT);
    let cdb = [PASS_THROUGH, protocol, IN_SECTORS, 0, feature, 0, 1, 0, low, 0, middle, 0, high, 0, command, 0];
    check_status(send_scsi_retrying(file, &cdb, &mut bytes)?)?;
    Ok(bytes)
}

fn check_status(outcome: ScsiOutcome) -> io::Result<()> {
    match outcome.status {
        0 => Ok(()),
        status => Err(io::Error::other(match scsi::parse_sense(&outcome.sense) {
            Some((key, code, qualifier)) => format!("the drive refused (sense {key:x}/{code:02x}/{qualifier:02x})"),
            None => format!("the drive refused (status {status})"),
        })),
    }
}

/// Largest number of times that a command is sent while the drive reports a unit attention.
const MAX_TRIES: usize = 4;
const UNIT_ATTENTION: u8 = 6;

/// Sends a command and repeats it after a unit attention. A drive that was reset, or whose settings were changed,
/// refuses each initiator's next command once for each such event (SAM-5); the same command then succeeds.
fn send_scsi_retrying(file: &File, cdb: &[u8], bytes: &mut [u8]) -> io::Result<ScsiOutcome> {
    let is_unit_attention = |outcome: &ScsiOutcome| {
        outcome.status != 0 && scsi::parse_sense(&outcome.sense).is_some_and(|(key, ..)| key == UNIT_ATTENTION)
    };
    let mut outcome = send_scsi(file, cdb, bytes)?;
    for _ in 1..MAX_TRIES {
        if !is_unit_attention(&outcome) {
            break;
        }
        outcome = send_scsi(file, cdb, bytes)?;
    }
    Ok(outcome)
}

/// Returns the count register after CHECK POWER MODE.
fn read_power_mode(file: &File) -> io::Result<u8> {
    let cdb = [PASS_THROUGH, NO_DATA, SHOW_REGISTERS, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, CHECK_POWER_MODE, 0];
    let outcome = send_scsi_retrying(file, &cdb, &mut [])?;
    let sense = &outcome.sense;
    let byte = |offset: usize| sense.get(offset).copied();
    // ATA Status Return descriptor, or its short form in fixed sense data
    let count = match (byte(0).map(|b| b & 0x7f), byte(8)) {
        (Some(0x72), Some(0x09)) => byte(13),
        (Some(0x70), _) => byte(6),
        _ => None,
    };
    count.ok_or_else(|| io::Error::other("it does not report whether it sleeps, so its health is not read"))
}

fn query_ata(file: &File) -> io::Result<HealthReport> {
    if ata::is_asleep(read_power_mode(file)?) {
        return Ok(HealthReport { is_asleep: true, ..HealthReport::default() });
    }
    let capabilities = ata::parse_identify(&read_ata_sector(file, IDENTIFY_DEVICE, 0, [0; 3])?).unwrap_or_default();
    if !capabilities.smart {
        return Err(io::Error::other("SMART is disabled or missing (enable it with smartctl -s on)"));
    }
    let mut health = DriveHealth::default();
    // SMART commands require 4Fh and C2h in the address
    let smart = |feature: u8| read_ata_sector(file, SMART, feature, [0, 0x4f, 0xc2]);
    ata::apply_smart(&smart(0xd0)?, &smart(0xd1).unwrap_or_default(), &mut health);
    if capabilities.logs {
        // page 0 of the log: byte 8 is the number of supported pages, and their numbers follow
        let list = read_ata_sector(file, READ_LOG_EXT, 0, [0x04, 0, 0]).unwrap_or_default();
        let listed = list.get(9..9 + usize::from(list.get(8).copied().unwrap_or(0))).unwrap_or_default().to_vec();
        for page in ata::STATISTICS_PAGES.into_iter().filter(|page| listed.contains(page)) {
            if let Ok(page) = read_ata_sector(file, READ_LOG_EXT, 0, [0x04, page, 0]) {
                ata::apply_statistics(&page, capabilities.sector_bytes, &mut health);
            }
        }
    }
    Ok(HealthReport::from_health(health))
}

const REQUEST_SENSE: u8 = 0x03;
const LOG_SENSE: u8 = 0x4d;
/// Cumulative values of a log page.
const CUMULATIVE: u8 = 0x40;
const PAGE_BYTES: u16 = 4096;

fn read_log_page(file: &File, page: u8) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::from(PAGE_BYTES)];
    let [high, low] = PAGE_BYTES.to_be_bytes();
    check_status(send_scsi_retrying(file, &[LOG_SENSE, 0, CUMULATIVE | page, 0, 0, 0, 0, high, low, 0], &mut bytes)?)?;
    Ok(bytes)
}

fn query_scsi(file: &File) -> io::Result<HealthReport> {
    let mut sense = vec![0; 64];
    check_status(send_scsi_retrying(file, &[REQUEST_SENSE, 0, 0, 0, 64, 0], &mut sense)?)?;
    if scsi::is_asleep(&sense) {
        return Ok(HealthReport { is_asleep: true, ..HealthReport::default() });
    }
    // page 0 lists the supported pages
    let list = read_log_page(file, 0)?;
    let length = usize::from(u16::from_be_bytes([list[2], list[3]]));
    let listed = list.get(4..4 + length).unwrap_or_default();
    let mut health = DriveHealth::default();
    for page in scsi::LOG_PAGES.into_iter().filter(|page| listed.contains(page)) {
        if let Ok(bytes) = read_log_page(file, page) {
            scsi::apply_log_page(&bytes, &mut health);
        }
    }
    if health == DriveHealth::default() {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "it records no health data"));
    }
    Ok(HealthReport::from_health(health))
}
