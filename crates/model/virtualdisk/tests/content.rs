//! Compares the content of arrays with a flat list of bytes: whatever is written, failed, replaced
//! and half rebuilt, reads return what was written.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use diskwright_base::Rng;
use diskwright_simulator::array::{ArrayGeometry, ArrayLevel, LevelForm, MemberSet, levels};
use diskwright_simulator::device::{DeviceModel, PlainSpec};
use diskwright_simulator::service_time::ServiceTimeDistribution;
use diskwright_simulator::system::{ArraySpec, DriveGroupSpec, System, WorkloadTarget};
use diskwright_virtualdisk::content::{AccessError, Content, ContentBacking, ContentError};

const BLOCK: u64 = 512;
const MEMORY: ContentBacking = ContentBacking::Memory { max_bytes: None };

fn drives(name: &str, count: u32, blocks: u64) -> DriveGroupSpec {
    let spec = PlainSpec {
        name: "plain".to_owned(),
        blocks,
        servers: 1,
        service: ServiceTimeDistribution::Constant(0),
        bytes_per_s: f64::INFINITY,
    };
    DriveGroupSpec::new(name, count, DeviceModel::Plain(Arc::new(spec)))
}

/// Returns an array of drives with these sizes in blocks, in this order.
fn system(level: ArrayLevel, blocks: &[u64], unit: u64) -> System {
    let mut system = System::new("test");
    for (index, blocks) in blocks.iter().enumerate() {
        system.drives.push(drives(&format!("disk{index}"), 1, *blocks));
    }
    let members = (0..blocks.len() as u32).collect();
    system.arrays.push(ArraySpec { unit_blocks: unit, ..ArraySpec::new("array", level, members) });
    system
}

/// Returns a random valid array.
fn random_system(rng: &mut Rng) -> (System, ArrayGeometry) {
    loop {
        let all = levels();
        let info = &all[rng.next_below(all.len() as u64) as usize];
        let members = u64::from(info.min_members) + rng.next_below(5);
        let unit = 1 + rng.next_below(40);
        let min_blocks = 1 + rng.next_below(400);
        let blocks: Vec<u64> = (0..members).map(|_| min_blocks + rng.next_below(30)).collect();
        let mut system = system(ArrayLevel::parse(&info.id).expect("a level"), &blocks, unit);
        let set = &mut system.arrays[0];
        set.layout = info.layouts.get(rng.next_below(info.layouts.len() as u64) as usize).copied();
        set.copies = rng.next_bool(0.5).then(|| 1 + rng.next_below(members) as u16);
        if info.form != LevelForm::Copies {
            set.copies = None;
        }
        if let Ok(array) = system.array_geometry(&system.arrays[0]) {
            return (system, array);
        }
    }
}

struct Trial {
    rng: Rng,
    content: Content,
    array: ArrayGeometry,
    model: Vec<u8>,
    context: String,
}

const ARRAY: WorkloadTarget = WorkloadTarget::Array(0);

impl Trial {
    fn new(seed: u64, backing: &ContentBacking) -> Trial {
        let mut rng = Rng::new(seed, 0);
        let (system, array) = random_system(&mut rng);
        let content = Content::new(&system, backing).expect("content");
        let bytes = content.target_bytes(ARRAY);
        assert_eq!(bytes, array.capacity_blocks() * BLOCK);
        let set = &system.arrays[0];
        let context =
            format!("seed {seed}: {} {:?} copies {:?} of {}", set.level, set.layout, set.copies, array.member_count());
        Trial { rng, content, array, model: vec![0; bytes as usize], context }
    }

    fn random_range(&mut self) -> (usize, usize) {
        let bytes = self.model.len() as u64;
        let max_bytes = [1, 600, 5000, 70_000, bytes][self.rng.next_below(5) as usize].min(bytes);
        let len = 1 + self.rng.next_below(max_bytes);
        let mut from = self.rng.next_below(bytes - len + 1);
        if self.rng.next_bool(0.3) {
            from -= from % (BLOCK * self.array.row_blocks()).min(bytes);
        }
        (from as usize, (from + len) as usize)
    }

    fn failed(&self) -> MemberSet {
        self.content.member_state(0).expect("the array").0
    }

    /// Returns a random member without which the data still survives.
    fn member_to_fail(&mut self) -> Option<u16> {
        let member = self.rng.next_below(u64::from(self.array.member_count())) as u16;
        self.array.survives_failures(self.failed().with_member(member)).then_some(member)
    }

    fn run_step(&mut self) {
        let (from, to) = self.random_range();
        let context = self.context.clone();
        match self.rng.next_below(16) {
            0..=4 => {
                let seed = self.rng.next_u64() as u8;
                let data: Vec<u8> = (from..to).map(|i| (i as u8).wrapping_mul(31) ^ (i >> 8) as u8 ^ seed).collect();
                self.content.write(ARRAY, from as u64, &data).expect(&context);
                self.model[from..to].copy_from_slice(&data);
            }
            5 => {
                let zero = if self.rng.next_bool(0.5) { Content::write_zeros } else { Content::trim };
                zero(&mut self.content, ARRAY, from as u64, (to - from) as u64).expect(&context);
                self.model[from..to].fill(0);
            }
            15 if self.rng.next_bool(0.5) => {
                self.content.trim(ARRAY, from as u64, (to - from) as u64).expect(&context);
                self.model[from..to].fill(0);
            }
            6..=8 => self.check_read(from, to, MemberSet::NONE),
            9 => {
                let avoid = self.member_to_fail().into_iter().collect();
                self.check_read(from, to, avoid);
            }
            10 => {
                if let Some(member) = self.member_to_fail() {
                    self.content.fail_member(0, member).expect(&context);
                }
            }
            11 => {
                let member = self.rng.next_below(u64::from(self.array.member_count())) as u16;
                if self.failed().contains(member) {
                    self.content.replace_member(0, member).expect(&context);
                }
            }
            12 | 13 => {
                let blocks = self.rng.next_below(self.array.member_blocks() + 1);
                self.content.rebuild_up_to(0, blocks).expect(&context);
            }
            14 => self.content.finish_rebuild(0).expect(&context),
            _ => self.holes(from, to),
        }
    }

    fn check_read(&mut self, from: usize, to: usize, avoid: MemberSet) {
        let mut found = vec![0xaa; to - from];
        self.content.read_avoiding(ARRAY, from as u64, &mut found, avoid).expect(&self.context);
        let wrong = found.iter().zip(&self.model[from..to]).position(|(found, wanted)| found != wanted);
        assert_eq!(wrong, None, "{}: from {from} to {to}", self.context);
    }

    fn holes(&mut self, from: usize, to: usize) {
        let mut position = from;
        while position < to {
            let extent = self.content.extent_at(ARRAY, position as u64, (to - position) as u64).expect(&self.context);
            let end = position + extent.bytes as usize;
            assert!(extent.bytes > 0 && end <= to, "{}", self.context);
            assert!(!extent.is_hole || self.model[position..end].iter().all(|b| *b == 0), "{}", self.context);
            position = end;
        }
    }

    fn check_end(mut self) {
        assert_eq!(self.content.scrub_array(0).expect(&self.context), 0, "{}", self.context);
        for member in self.failed().iter() {
            self.content.replace_member(0, member).expect(&self.context);
        }
        self.content.finish_rebuild(0).expect(&self.context);
        assert!(self.failed().is_empty());
        self.check_read(0, self.model.len(), MemberSet::NONE);
        assert_eq!(self.content.scrub_array(0).expect(&self.context), 0, "{}", self.context);
        self.content.trim(ARRAY, 0, self.model.len() as u64).expect(&self.context);
        self.model.fill(0);
        self.holes(0, self.model.len());
    }
}

#[test]
fn reads_return_written_data_whatever_fails() {
    for seed in 0..150 {
        let mut trial = Trial::new(seed, &MEMORY);
        (0..120).for_each(|_| trial.run_step());
        trial.check_end();
    }
}

#[test]
fn a_backing_file_behaves_like_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    for seed in 1000..1030 {
        let mut trial = Trial::new(seed, &ContentBacking::File(folder.path().join(format!("{seed}.img"))));
        (0..60).for_each(|_| trial.run_step());
        trial.check_end();
    }
}

/// With less memory than is written, each write either completes or is refused, reads return the
/// old or the new data, and copies and parities agree.
#[test]
fn full_memory_tears_no_write() {
    let mut refused = 0;
    for seed in 2000..2120 {
        let max_bytes = 40_000 + Rng::new(seed, 1).next_below(400_000);
        let mut trial = Trial::new(seed, &ContentBacking::Memory { max_bytes: Some(max_bytes) });
        for _ in 0..60 {
            refused += u64::from(trial.write_or_accept_refusal());
            if trial.rng.next_bool(0.2)
                && let Some(member) = trial.member_to_fail()
            {
                trial.content.fail_member(0, member).expect("a member");
            }
            assert!(trial.content.memory_bytes().is_some_and(|bytes| bytes <= max_bytes), "{}", trial.context);
        }
        assert_eq!(trial.content.scrub_array(0).expect("whole"), 0, "{}", trial.context);
        trial.check_read(0, trial.model.len(), MemberSet::NONE);
    }
    assert!(refused > 100, "{refused} writes refused: the test does not test it");
}

/// A small file system in memory, unmounted at the end.
struct SmallFileSystem(tempfile::TempDir);

impl SmallFileSystem {
    /// Returns `None` if it cannot be mounted.
    fn new(bytes: u64) -> Option<SmallFileSystem> {
        let folder = tempfile::tempdir().ok()?;
        let size = format!("size={bytes}");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "diskwright-test"]).arg(folder.path());
        let mounted = mount.stderr(Stdio::null()).status().is_ok_and(|status| status.success());
        mounted.then_some(SmallFileSystem(folder))
    }
}

impl Drop for SmallFileSystem {
    fn drop(&mut self) {
        let gone = Command::new("umount").arg("-l").arg(self.0.path()).status();
        assert!(std::thread::panicking() || gone.is_ok_and(|status| status.success()), "not unmounted");
    }
}

/// The same on a file system that fills up.
#[test]
fn a_full_disk_tears_no_write() {
    let (mut refused, mut torn) = (0, 0);
    for seed in 3000..3030 {
        let Some(small) = SmallFileSystem::new((40 << 10) + (Rng::new(seed, 1).next_below(200 << 10))) else {
            eprintln!("skipped: a tmpfs cannot be mounted here (that needs root)");
            return;
        };
        let backing = ContentBacking::File(small.0.path().join("file"));
        let mut trial = Trial::new(seed, &backing);
        for _ in 0..60 {
            refused += u64::from(trial.write_or_accept_refusal());
        }
        torn += trial.content.scrub_array(0).expect("whole");
        trial.check_read(0, trial.model.len(), MemberSet::NONE);
    }
    assert_eq!(torn, 0);
    assert!(refused > 30, "{refused} writes refused: the test does not test it");
}

impl Trial {
    /// Writes; if that is refused, copies each byte that is old or new into the expected data.
    /// Returns true if it was refused.
    fn write_or_accept_refusal(&mut self) -> bool {
        let (from, to) = self.random_range();
        let seed = self.rng.next_u64() as u8;
        let data: Vec<u8> = (from..to).map(|i| (i as u8).wrapping_mul(31) ^ (i >> 8) as u8 ^ seed).collect();
        let written = self.content.write(ARRAY, from as u64, &data);
        if written.is_ok() {
            self.model[from..to].copy_from_slice(&data);
            return false;
        }
        assert!(matches!(written, Err(AccessError::NoSpace)), "{}: {written:?}", self.context);
        let mut found = vec![0; to - from];
        self.content.read(ARRAY, from as u64, &mut found).expect(&self.context);
        for (index, byte) in found.iter().enumerate() {
            assert!(
                *byte == data[index] || *byte == self.model[from + index],
                "{}: byte {}",
                self.context,
                from + index
            );
        }
        self.model[from..to].copy_from_slice(&found);
        true
    }
}

fn in_file(system: &System, path: &Path) -> Content {
    let begun = std::time::Instant::now();
    loop {
        match Content::new(system, &ContentBacking::File(path.to_owned())) {
            // a process that another test has just forked holds all open files for a moment
            Err(ContentError::InUse(_)) if begun.elapsed().as_secs() < 10 => std::thread::yield_now(),
            content => return content.expect("content"),
        }
    }
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i / 7) as u8 ^ (i >> 9) as u8 | 1).collect()
}

#[test]
fn a_scrub_finds_a_flipped_bit() {
    let folder = tempfile::tempdir().expect("a folder");
    for (level, members) in
        [(ArrayLevel::Raid1, 2), (ArrayLevel::Raid10, 4), (ArrayLevel::Raid5, 4), (ArrayLevel::Raid7, 6)]
    {
        let path = folder.path().join(level.to_string());
        let mut content = in_file(&system(level, &vec![64; members], 8), &path);
        content.write(ARRAY, 0, &pattern(10_000)).expect("room");
        assert_eq!(content.scrub_array(0).expect("whole"), 0);
        let file = OpenOptions::new().read(true).write(true).open(&path).expect("the file");
        let mut byte = [0];
        file.read_exact_at(&mut byte, 700).expect("a byte");
        file.write_all_at(&[byte[0] ^ 4], 700).expect("a byte");
        assert!(content.scrub_array(0).expect("whole") > 0, "{level}");
    }
}

/// Numbers as md computes them: the row of a left-symmetric RAID 6 of 4 is D0 D1 P Q.
#[test]
fn parities_in_the_file_follow_anvin() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("raid6");
    let mut content = in_file(&system(ArrayLevel::Raid6, &[64; 4], 1), &path);
    content.write(ARRAY, 0, &[0x01; 512]).expect("room");
    content.write(ARRAY, 512, &[0x80; 512]).expect("room");
    let file = std::fs::File::open(&path).expect("the file");
    let byte = |drive: u64| {
        let mut byte = [0];
        file.read_exact_at(&mut byte, drive << 20).expect("a byte");
        byte[0]
    };
    let mut found: Vec<u8> = (0..4).map(byte).collect();
    found.sort_unstable();
    // P = 01 + 80 = 81; Q = 01 + 2 * 80 = 01 + 1d = 1c
    assert_eq!(found, [0x01, 0x1c, 0x80, 0x81]);
}

/// A server was killed in the middle of a write, and a part of it is there.
#[test]
fn repairs_the_torn_write_of_a_killed_server() {
    let folder = tempfile::tempdir().expect("a folder");
    for (level, members) in
        [(ArrayLevel::Raid1, 3), (ArrayLevel::Raid10, 4), (ArrayLevel::Raid5, 4), (ArrayLevel::Raid6, 5)]
    {
        let (path, system) = (folder.path().join(level.to_string()), system(level, &vec![64; members], 8));
        let mut content = in_file(&system, &path);
        content.write(ARRAY, 0, &pattern(20_000)).expect("room");
        content.write(ARRAY, 4096, &[7; 2000]).expect("room");
        let mut wanted = vec![0; 20_000];
        content.read(ARRAY, 0, &mut wanted).expect("bytes");
        drop(content);
        // half of that last write is undone, on one member only
        let file = OpenOptions::new().read(true).write(true).open(&path).expect("the file");
        let members = 0..members as u64;
        let place = members.flat_map(|m| (0..32u64).map(move |b| (m << 20) + b * 512)).find(|offset| {
            let mut there = [0; 512];
            file.read_exact_at(&mut there, *offset).expect("bytes");
            there == wanted[4096..4608]
        });
        file.write_all_at(&[9; 512], place.expect("the write is somewhere")).expect("room");
        drop(file);
        let mut content = in_file(&system, &path);
        assert_eq!(content.scrub_array(0).expect("whole"), 0, "{level}");
        let mut found = vec![0; 20_000];
        content.read(ARRAY, 0, &mut found).expect("bytes");
        let undone = found[4096..4608] == [9; 512] || found[4096..4608] == wanted[4096..4608];
        found[4096..4608].copy_from_slice(&wanted[4096..4608]);
        assert!(undone && found == wanted, "{level}");
    }
}

/// With a failed member, parity that may be half written is not used, and the rest of the array is
/// readable.
#[test]
fn does_not_reconstruct_from_a_torn_row() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, system) = (folder.path().join("raid5"), system(ArrayLevel::Raid5, &[64; 3], 8));
    let mut content = in_file(&system, &path);
    let data = pattern(content.target_bytes(ARRAY) as usize);
    content.write(ARRAY, 0, &data).expect("room");
    content.fail_member(0, 0).expect("a member");
    drop(content);
    // the journal record of a write of array 0 from byte 100 to 200, behind the three drives
    let words = [u64::from_le_bytes(*b"dwrnote1"), 0, 100, 200].map(u64::to_le_bytes);
    let file = OpenOptions::new().write(true).open(&path).expect("the file");
    file.write_all_at(&words.concat(), 3 << 20).expect("room");
    drop(file);
    for _ in 0..2 {
        let mut content = in_file(&system, &path);
        let mut found = vec![0; data.len() - 8192];
        content.read(ARRAY, 8192, &mut found).expect("other rows are whole");
        assert_eq!(found, data[8192..]);
        let mut row = [0; 8192];
        assert!(matches!(content.read(ARRAY, 0, &mut row), Err(AccessError::Torn(0))));
        assert!(matches!(content.write(ARRAY, 0, &[1]), Err(AccessError::Torn(0))));
        content.replace_member(0, 0).expect("a drive");
        assert!(matches!(content.finish_rebuild(0), Err(AccessError::Torn(0))));
    }
    let mut content = in_file(&system, &path);
    content.write(ARRAY, 0, &data[..8192]).expect("a whole row is known again");
    content.finish_rebuild(0).expect("nothing is torn");
    let mut found = vec![0; data.len()];
    content.read(ARRAY, 0, &mut found).expect("bytes");
    assert_eq!(found, data);
    assert_eq!(content.scrub_array(0).expect("whole"), 0);
}

/// Also with a failed member, a write that the server recorded and did in part is completed by the
/// next server.
#[test]
fn completes_the_recorded_write_of_a_killed_server() {
    let folder = tempfile::tempdir().expect("a folder");
    for (level, members) in [(ArrayLevel::Raid5, 3), (ArrayLevel::Raid6, 5)] {
        let (path, system) = (folder.path().join(level.to_string()), system(level, &vec![64; members], 8));
        let mut content = in_file(&system, &path);
        let mut data = pattern(content.target_bytes(ARRAY) as usize);
        content.write(ARRAY, 0, &data).expect("room");
        let own = std::fs::metadata(&path).expect("the file").len();
        content.fail_member(0, 0).expect("a member");
        let before = std::fs::read(&path).expect("the file");
        content.write(ARRAY, 4096, &[7; 2048]).expect("room");
        data[4096..6144].fill(7);
        drop(content);
        // the whole write is undone, and then each part of it
        let after = std::fs::read(&path).expect("the file");
        let changed: Vec<usize> = (0..own as usize)
            .step_by(512)
            .filter(|position| before[*position..position + 512] != after[*position..position + 512])
            .collect();
        assert!(changed.len() >= 8, "{changed:?}");
        for done in 0..changed.len() {
            let mut torn = after.clone();
            for index in &changed[done..] {
                torn[*index..index + 512].copy_from_slice(&before[*index..index + 512]);
            }
            std::fs::write(&path, torn).expect("room");
            let mut content = in_file(&system, &path);
            let mut found = vec![0; data.len()];
            content.read(ARRAY, 0, &mut found).expect("bytes");
            assert!(
                found == data && content.scrub_array(0).expect("whole") == 0,
                "{level}, {done} of {}",
                changed.len()
            );
            assert_eq!(std::fs::metadata(&path).expect("the file").len(), own, "its room is given back");
            drop(content);
        }
    }
}

#[test]
fn only_the_owner_can_read_a_new_file() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("file");
    drop(in_file(&system(ArrayLevel::Raid5, &[64; 3], 8), &path));
    assert_eq!(std::fs::metadata(&path).expect("the file").permissions().mode() & 0o777, 0o600);
}

#[test]
fn reopens_an_existing_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, system) = (folder.path().join("raid5"), system(ArrayLevel::Raid5, &[64; 3], 8));
    let mut content = in_file(&system, &path);
    let data = pattern(content.target_bytes(ARRAY) as usize);
    content.write(ARRAY, 0, &data).expect("room");
    assert!(matches!(Content::new(&system, &ContentBacking::File(path.clone())), Err(ContentError::InUse(_))));
    content.replace_member(0, 1).expect("a drive");
    content.rebuild_up_to(0, 20).expect("room");
    drop(content);
    let mut content = in_file(&system, &path);
    let (failed, rebuilding) = content.member_state(0).expect("the array");
    assert!(failed.contains(1) && rebuilding.contains(1));
    let mut found = vec![0; data.len()];
    content.read(ARRAY, 0, &mut found).expect("bytes");
    assert_eq!(found, data);
    content.finish_rebuild(0).expect("room");
    content.fail_member(0, 0).expect("a member");
    content.read(ARRAY, 0, &mut found).expect("bytes");
    assert_eq!(found, data);
}

#[test]
fn single_drives_are_plain_images() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("disk.img");
    let mut system = System::new("test");
    system.drives.push(drives("disk", 1, 100));
    let mut content = in_file(&system, &path);
    let target = WorkloadTarget::Drive(0);
    content.write(target, 1000, &pattern(5000)).expect("room");
    content.write_zeros(target, 2000, 1000).expect("room");
    content.flush_handle().wait_for_flush().expect("synced");
    assert!(content.flush_handle().is_needed());
    let mut wanted = vec![0; 51_200];
    wanted[1000..6000].copy_from_slice(&pattern(5000));
    wanted[2000..3000].fill(0);
    assert_eq!(std::fs::read(&path).expect("the file"), wanted);
    drop(content);
    assert_eq!(in_file(&system, &path).target_bytes(target), 51_200);
}

#[test]
fn refuses_files_of_other_formats() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("file");
    let five = system(ArrayLevel::Raid5, &[64; 3], 8);
    drop(in_file(&five, &path));
    let mut bad: Vec<(System, &str)> = vec![
        (system(ArrayLevel::Raid5, &[64; 4], 8), "bytes, but these drives need"),
        (system(ArrayLevel::Raid5, &[64; 3], 4), "it holds array `array` (raid5"),
        (system(ArrayLevel::Raid1, &[64; 3], 8), "not array `array` (raid1"),
        (system(ArrayLevel::Raid5, &[64; 2], 8), "array `array`: raid5 needs at least 3 members"),
        (system(ArrayLevel::Linear, &[1 << 60; 4], 8), "larger than a file can be"),
    ];
    let short = folder.path().join("of four");
    drop(in_file(&system(ArrayLevel::Raid5, &[64; 4], 8), &short));
    let four = std::fs::read(&short).expect("the file");
    let error = Content::new(&five, &ContentBacking::File(short.clone())).err().expect("a longer file").to_string();
    assert!(error.contains("bytes, but these drives need") && std::fs::read(short).expect("it") == four, "{error}");
    let mut shared = system(ArrayLevel::Raid1, &[64; 3], 8);
    shared.arrays.push(ArraySpec::new("other", ArrayLevel::Linear, vec![2]));
    bad.push((shared, "drive `disk2` is used in array `other` and elsewhere"));
    for (system, wanted) in bad {
        let error = Content::new(&system, &ContentBacking::File(path.clone())).err().expect(wanted).to_string();
        assert!(error.contains(wanted), "{error} / {wanted}");
    }
    let text = std::fs::read(&path).expect("the file");
    std::fs::write(&path, vec![b'{'; text.len()]).expect("room");
    let error = Content::new(&five, &ContentBacking::File(path)).err().expect("nonsense").to_string();
    assert!(error.contains("its array metadata cannot be read"), "{error}");
    let error = Content::new(&five, &ContentBacking::File("/dev/null".into())).err().expect("no file").to_string();
    assert!(error.contains("it is not a regular file"), "{error}");
}

#[test]
fn refuses_invalid_requests() {
    let mut content = Content::new(&system(ArrayLevel::Raid5, &[64; 3], 8), &MEMORY).expect("content");
    let bytes = content.target_bytes(ARRAY);
    let mut buffer = [0; 10];
    for from in [bytes - 9, bytes, u64::MAX] {
        assert!(matches!(content.read(ARRAY, from, &mut buffer), Err(AccessError::OutOfRange { .. })));
        assert!(matches!(content.write(ARRAY, from, &buffer), Err(AccessError::OutOfRange { .. })));
        assert!(matches!(content.trim(ARRAY, from, 10), Err(AccessError::OutOfRange { .. })));
        assert!(matches!(content.extent_at(ARRAY, from, 10), Err(AccessError::OutOfRange { .. })));
    }
    content.read(ARRAY, bytes, &mut []).expect("nothing is asked");
    for target in [WorkloadTarget::Drive(0), WorkloadTarget::Drive(9), WorkloadTarget::Array(1)] {
        assert_eq!(content.target_bytes(target), 0);
        assert!(matches!(content.read(target, 0, &mut buffer), Err(AccessError::NoSuchTarget)));
    }
    assert!(matches!(content.fail_member(0, 3), Err(AccessError::NoSuchMember)));
    assert!(matches!(content.fail_member(1, 0), Err(AccessError::NoSuchTarget)));
    content.fail_member(0, 0).expect("a member");
    content.fail_member(0, 1).expect("a member");
    assert!(matches!(content.replace_member(0, 0), Err(AccessError::LostData)));
    assert!(matches!(content.read(ARRAY, 0, &mut [0; 8192]), Err(AccessError::LostData)));
    assert!(matches!(content.write(ARRAY, 0, &[1; 8192]), Err(AccessError::LostData)));
}

/// Written data takes space; zeros and trimmed data do not.
#[test]
fn releases_the_space_of_zeros_and_trimmed_data() {
    let mut system = System::new("test");
    system.drives.push(drives("disk", 1, 8 << 30));
    let mut content = Content::new(&system, &MEMORY).expect("4 TB of nothing");
    let target = WorkloadTarget::Drive(0);
    content.write(target, 1 << 40, &[0; 1 << 16]).expect("room");
    assert_eq!(content.memory_bytes(), Some(0));
    content.write(target, 1 << 40, &[1; 1 << 16]).expect("room");
    let hole = content.extent_at(target, 0, 8 << 30).expect("inside");
    assert!(hole.is_hole && hole.bytes == 8 << 30);
    assert!(content.memory_bytes().is_some_and(|bytes| bytes > 1 << 16 && bytes < 1 << 18));
    content.trim(target, (1 << 40) + 1, (1 << 16) - 1).expect("inside");
    assert!(content.memory_bytes().is_some_and(|bytes| bytes > 4096 && bytes < 1 << 17));
    content.trim(target, 1 << 40, 1).expect("inside");
    content.trim(target, 0, 4 << 40).expect("inside");
    assert_eq!(content.memory_bytes(), Some(0));
}
