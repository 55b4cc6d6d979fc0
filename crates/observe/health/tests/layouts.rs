//! Handmade replies in the published layouts, and their contents.

use diskwright_health::{DriveAccess, DriveHealth, access, ata, nvme, scsi, volume};

fn put(bytes: &mut [u8], offset: usize, value: &[u8]) {
    bytes[offset..offset + value.len()].copy_from_slice(value);
}

fn nvme_log() -> Vec<u8> {
    let mut log = vec![0; nvme::HEALTH_BYTES];
    put(&mut log, 1, &(273u16 + 41).to_le_bytes());
    put(&mut log, 3, &[100, 10, 7]);
    put(&mut log, 32, &5u128.to_le_bytes());
    put(&mut log, 48, &2_000u128.to_le_bytes());
    put(&mut log, 128, &9_000u128.to_le_bytes());
    put(&mut log, 144, &12u128.to_le_bytes());
    put(&mut log, 160, &3u128.to_le_bytes());
    put(&mut log, 192, &4u32.to_le_bytes());
    put(&mut log, 196, &1u32.to_le_bytes());
    put(&mut log, 216, &20u32.to_le_bytes());
    put(&mut log, 220, &2u32.to_le_bytes());
    log
}

#[test]
fn the_nvme_health_log_is_parsed() {
    let mut health = DriveHealth::default();
    nvme::apply_health_log(&nvme_log(), &mut health);
    let expected = DriveHealth {
        failing: Some(false),
        wear_percent: Some(7),
        spare_percent: Some(100),
        spare_limit_percent: Some(10),
        temperature_c: Some(41),
        hot_s: Some(300),
        thermal_throttles: Some(22),
        media_errors: Some(3),
        power_on_h: Some(9000),
        unsafe_shutdowns: Some(12),
        // a data unit is 512,000 bytes
        written_bytes: Some(1_024_000_000),
        read_bytes: Some(2_560_000),
        ..DriveHealth::default()
    };
    assert_eq!(health, expected);
}

#[test]
fn a_heat_warning_is_not_a_failure_and_other_warnings_are() {
    for (bits, failing) in [(0u8, false), (0b10, false), (0b1, true), (0b100, true), (0b1000, true), (0b1_0000, true)] {
        let mut log = nvme_log();
        log[0] = bits;
        let mut health = DriveHealth::default();
        nvme::apply_health_log(&log, &mut health);
        assert_eq!(health.failing, Some(failing), "{bits:b}");
    }
}

#[test]
fn nvme_limits_and_self_tests_are_parsed() {
    let mut health = DriveHealth::default();
    nvme::apply_health_log(&nvme_log(), &mut health);
    let mut identify = vec![0; nvme::IDENTIFY_BYTES];
    nvme::apply_temperature_limits(&identify, &mut health);
    assert_eq!(health.temperature_limit_c, None, "it names none");
    put(&mut identify, 266, &(273u16 + 82).to_le_bytes());
    nvme::apply_temperature_limits(&identify, &mut health);
    assert_eq!(health.temperature_limit_c, Some(82));
    for (status, failed, age) in
        [(0x10, Some(false), Some(500)), (0x27, Some(true), Some(500)), (0x21, None, Some(500)), (0x0f, None, None)]
    {
        let mut log = vec![0; nvme::SELF_TEST_BYTES];
        log[4] = status;
        put(&mut log, 8, &8_500u64.to_le_bytes());
        let mut tested = DriveHealth { power_on_h: Some(9000), ..DriveHealth::default() };
        nvme::apply_self_test(&log, &mut tested);
        assert_eq!((tested.self_test_failed, tested.self_test_age_h), (failed, age), "{status:x}");
    }
}

/// A page whose bytes add up to zero.
fn summed(mut page: Vec<u8>) -> Vec<u8> {
    let sum = page[..511].iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    page[511] = sum.wrapping_neg();
    page
}

fn attributes(entries: &[(u8, u8, u8, u64)]) -> Vec<u8> {
    let mut page = vec![0; 512];
    for (place, (id, flags, value, raw)) in entries.iter().enumerate() {
        let offset = 2 + place * 12;
        put(&mut page, offset, &[*id, *flags, 0, *value, *value]);
        put(&mut page, offset + 5, &raw.to_le_bytes()[..6]);
    }
    page[363] = 0x30;
    summed(page)
}

fn thresholds(entries: &[(u8, u8)]) -> Vec<u8> {
    let mut page = vec![0; 512];
    for (place, (id, limit)) in entries.iter().enumerate() {
        put(&mut page, 2 + place * 12, &[*id, *limit]);
    }
    summed(page)
}

#[test]
fn attributes_of_ata_and_their_thresholds() {
    let list = [
        (5, 3, 90, 8),
        (9, 2, 80, 0x0001_0000_4e20),
        (194, 2, 60, 0x0012_0030_0027),
        (197, 2, 100, 2),
        (199, 2, 200, 0xffff_0000_0011),
        (187, 2, 99, 1),
        (188, 2, 99, 0x0001_0002_0003),
    ];
    let mut health = DriveHealth::default();
    ata::apply_smart(&attributes(&list), &thresholds(&[(5, 36), (9, 90)]), &mut health);
    // 9 is below its threshold, but it does not predict failure
    assert_eq!(health.failing, Some(false));
    assert_eq!((health.reallocated, health.pending, health.link_errors), (Some(8), Some(2), Some(0x11)));
    // the temperature's extremes share its raw value
    assert_eq!((health.temperature_c, health.media_errors, health.power_on_h), (Some(39), Some(1), Some(20_000)));
    assert_eq!(health.self_test_failed, Some(true));
    ata::apply_smart(&attributes(&list), &thresholds(&[(5, 90)]), &mut health);
    assert_eq!(health.failing, Some(true));
    ata::apply_smart(&attributes(&list), &thresholds(&[(5, 254)]), &mut health);
    assert_eq!(health.failing, Some(false), "254 is reserved");
}

#[test]
fn a_page_with_a_wrong_checksum_is_ignored() {
    let mut page = attributes(&[(5, 3, 90, 8)]);
    page[20] ^= 1;
    let mut health = DriveHealth::default();
    ata::apply_smart(&page, &thresholds(&[(5, 90)]), &mut health);
    assert_eq!(health, DriveHealth::default());
}

fn statistic(page: u8, entries: &[(usize, u64, u8)]) -> Vec<u8> {
    let mut bytes = vec![0; 512];
    bytes[2] = page;
    for (offset, value, flags) in entries {
        put(&mut bytes, *offset, &value.to_le_bytes());
        bytes[offset + 7] = *flags;
    }
    bytes
}

#[test]
fn device_statistics_override_attributes() {
    let mut health = DriveHealth { reallocated: Some(9), temperature_c: Some(1), ..DriveHealth::default() };
    for page in [
        statistic(1, &[(16, 1234, 0xc0), (24, 2_000_000, 0xc0), (40, 4, 0x80)]),
        statistic(3, &[(24, 55, 0xc0), (32, 7, 0xc0), (56, 1, 0xc0)]),
        statistic(4, &[(8, 6, 0xc0)]),
        statistic(5, &[(8, 44, 0xc0), (80, 3, 0xc0), (88, 60, 0xc0)]),
        statistic(6, &[(24, 21, 0xc0)]),
        statistic(7, &[(8, 105, 0xe0)]),
        statistic(9, &[(8, 105, 0xc0)]),
    ] {
        ata::apply_statistics(&page, 4096, &mut health);
    }
    let expected = DriveHealth {
        power_on_h: Some(1234),
        written_bytes: Some(8_192_000_000),
        load_cycles: Some(55),
        reallocated: Some(7),
        pending: Some(1),
        media_errors: Some(6),
        temperature_c: Some(44),
        hot_s: Some(180),
        temperature_limit_c: Some(60),
        link_errors: Some(21),
        wear_percent: Some(105),
        ..DriveHealth::default()
    };
    assert_eq!(health, expected);
    // -5 degrees
    ata::apply_statistics(&statistic(5, &[(8, 251, 0xc0)]), 512, &mut health);
    assert_eq!(health.temperature_c, Some(44));
}

#[test]
fn identify_lists_ata_capabilities() {
    let mut reply = vec![0; 512];
    let word = |reply: &mut Vec<u8>, offset: usize, value: u16| put(reply, offset * 2, &value.to_le_bytes());
    word(&mut reply, 82, 1);
    word(&mut reply, 83, 0x4000);
    word(&mut reply, 84, 0x20);
    word(&mut reply, 85, 1);
    let plain = ata::parse_identify(&reply).unwrap();
    assert_eq!((plain.smart, plain.logs, plain.sector_bytes), (true, true, 512));
    word(&mut reply, 106, 0x5000);
    word(&mut reply, 117, 2048);
    assert_eq!(ata::parse_identify(&reply).unwrap().sector_bytes, 4096);
    word(&mut reply, 85, 0);
    assert!(!ata::parse_identify(&reply).unwrap().smart, "switched off");
    assert_eq!(ata::parse_identify(&[]), None);
    assert!(ata::is_asleep(0) && ata::is_asleep(1) && !ata::is_asleep(0xff) && !ata::is_asleep(0x80));
}

fn page(code: u8, parameters: &[(u16, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![code, 0, 0, 0];
    for (parameter, value) in parameters {
        bytes.extend(parameter.to_be_bytes());
        bytes.extend([3, value.len() as u8]);
        bytes.extend(*value);
    }
    let length = (bytes.len() - 4) as u16;
    put(&mut bytes, 2, &length.to_be_bytes());
    bytes.resize(512, 0);
    bytes
}

#[test]
fn scsi_log_pages_are_parsed() {
    let mut health = DriveHealth::default();
    let mut test = vec![0u8; 16];
    put(&mut test, 0, &[0x27, 0, 0x03, 0xe8]);
    for bytes in [
        page(0x02, &[(5, &1_000_000u64.to_be_bytes()), (6, &[0, 0, 0, 2])]),
        page(0x03, &[(5, &[0x10; 2]), (6, &[3])]),
        page(0x05, &[(6, &[0; 8])]),
        page(0x0d, &[(0, &[0, 38]), (1, &[0, 65])]),
        page(0x15, &[(0, &[0, 1, 0x5f, 0x90, 0, 0, 0, 0, 0, 0, 0, 0])]),
        page(0x10, &[(1, &test)]),
        page(0x11, &[(1, &[0, 0, 0, 12])]),
        page(0x2f, &[(0, &[0x5d, 0x10, 38])]),
    ] {
        scsi::apply_log_page(&bytes, &mut health);
    }
    let expected = DriveHealth {
        failing: Some(true),
        media_errors: Some(5),
        written_bytes: Some(1_000_000),
        read_bytes: Some(0x1010),
        temperature_c: Some(38),
        temperature_limit_c: Some(65),
        power_on_h: Some(1500),
        self_test_failed: Some(true),
        self_test_age_h: Some(500),
        wear_percent: Some(12),
        ..DriveHealth::default()
    };
    assert_eq!(health, expected);
}

#[test]
fn sense_data_in_both_forms_reveal_a_sleeping_drive() {
    let mut fixed = vec![0; 18];
    put(&mut fixed, 0, &[0x70, 0, 0]);
    put(&mut fixed, 12, &[0x5e, 0x02]);
    assert_eq!(scsi::parse_sense(&fixed), Some((0, 0x5e, 0x02)));
    assert!(scsi::is_asleep(&fixed));
    assert!(scsi::is_asleep(&[0x72, 0, 0x5e, 0x04]));
    assert!(!scsi::is_asleep(&[0x72, 0, 0x5e, 0x01]), "idle is awake");
    assert!(!scsi::is_asleep(&[]) && !scsi::is_asleep(&[0x72, 0, 0, 0]));
}

fn volume_page() -> Vec<u8> {
    let mut log = vec![0; volume::LOG_BYTES];
    put(&mut log, 0, &0x3c23_b510u32.to_le_bytes());
    for (offset, value) in [(56, 5_000_000u64), (64, 1), (72, 2), (80, 3), (88, 17), (512, 2), (2056, 1)] {
        put(&mut log, offset, &value.to_le_bytes());
    }
    for (offset, lower, upper, count) in [(520, 0u64, 512u64, 90u32), (544, 512, 1024, 10), (2064, 0, 4096, 7)] {
        put(&mut log, offset, &lower.to_le_bytes());
        put(&mut log, offset + 8, &upper.to_le_bytes());
        put(&mut log, offset + 16, &count.to_le_bytes());
    }
    log
}

#[test]
fn cloud_volume_statistics_are_parsed() {
    let found = volume::parse_limits(&volume_page()).unwrap();
    assert_eq!((found.volume_iops_us, found.volume_throughput_us), (5_000_000, 1));
    assert_eq!((found.instance_iops_us, found.instance_throughput_us, found.queue_length), (2, 3, 17));
    assert_eq!(found.reads.bins, [(512, 90), (1024, 10)]);
    assert_eq!(found.writes.bins, [(4096, 7)]);
    assert_eq!((found.reads.percentile_us(0.5), found.reads.percentile_us(0.99)), (Some(512), Some(1024)));
    let before = volume::VolumeHistogram { bins: vec![(512, 90), (1024, 0xffff_fffb)] };
    // a count of 32 bits went past its end
    assert_eq!(found.reads.difference_since(&before).bins, [(512, 0), (1024, 15)]);
    assert_eq!(found.reads.difference_since(&found.reads).percentile_us(0.5), None, "nothing was asked");
    let mut other = volume_page();
    other[0] = 0;
    assert_eq!(volume::parse_limits(&other), None);
}

#[test]
fn no_truncated_reply_makes_a_parser_panic() {
    let replies =
        [nvme_log(), attributes(&[(5, 3, 90, 8)]), statistic(1, &[]), page(0x02, &[(6, &[1])]), volume_page()];
    for bytes in &replies {
        for end in (0..bytes.len().min(700)).chain([bytes.len()]) {
            let cut = &bytes[..end];
            let mut health = DriveHealth::default();
            nvme::apply_health_log(cut, &mut health);
            nvme::apply_temperature_limits(cut, &mut health);
            nvme::apply_self_test(cut, &mut health);
            ata::apply_smart(cut, cut, &mut health);
            ata::apply_statistics(cut, 512, &mut health);
            let _ = (ata::parse_identify(cut), scsi::parse_sense(cut), volume::parse_limits(cut));
            scsi::apply_log_page(cut, &mut health);
        }
    }
}

#[test]
fn drive_access_is_read_from_sys() {
    let folder = std::env::temp_dir().join(format!("diskwright-reach-{}", std::process::id()));
    let put = |path: &str, text: &str| {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let disk = |name: &str, place: &str, vendor: &str| {
        put(&format!("devices/{place}/block/{name}/device/vendor"), vendor);
        put(&format!("devices/{place}/block/{name}/device/type"), "0\n");
        std::fs::create_dir_all(folder.join("block")).unwrap();
        let target = folder.join(format!("devices/{place}/block/{name}"));
        std::os::unix::fs::symlink(target, folder.join("block").join(name)).unwrap();
    };
    disk("sda", "pci0/ata1/host0/target0/0:0:0:0", "ATA     \n");
    disk("sdb", "pci0/host1/target1/1:0:0:0", "SEAGATE \n");
    disk("sdc", "pci0/usb2/2-1/host2/target2/2:0:0:0", "ATA     \n");
    disk("sdd", "pci0/host3/target3/3:2:0:0", "DELL    \n");
    put("class/scsi_host/host3/proc_name", "megaraid_sas\n");
    put("class/scsi_host/host1/proc_name", "mpt3sas\n");
    put("block/nvme0n1/device/model", "Amazon Elastic Block Store              \n");
    put("block/nvme1n1/device/model", "Other\n");
    put("block/nvme1n1/hidden", "0\n");
    put("block/nvme1c0n1/device/model", "Other\n");
    put("block/nvme1c0n1/hidden", "1\n");
    let access = |name: &str| access::access_for_disk(&folder, name);
    assert_eq!(access("sda"), Some(DriveAccess::Ata));
    assert_eq!(access("sdb"), Some(DriveAccess::Scsi));
    assert!(matches!(access("sdc"), Some(DriveAccess::OutOfReach(why)) if why.contains("USB")));
    assert!(matches!(access("sdd"), Some(DriveAccess::OutOfReach(why)) if why.contains("RAID")));
    assert_eq!(access("nvme0n1"), Some(DriveAccess::Nvme { is_volume: true }));
    assert_eq!(access("nvme1n1"), Some(DriveAccess::Nvme { is_volume: false }));
    assert_eq!(access("nvme1c0n1"), None, "a path of nvme1n1");
    assert_eq!((access("loop0"), access("vda"), access("md0")), (None, None, None));
    std::fs::remove_dir_all(&folder).unwrap();
}
