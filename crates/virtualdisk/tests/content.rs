//! Arrays by content against a flat list of bytes: whatever is written, failed,
//! replaced and half rebuilt, what is read is what was written.

use std::sync::Arc;

use diskwright_base::Dice;
use diskwright_simulator::array::{Array, Form, Level, Members, levels};
use diskwright_simulator::device::{Device, PlainSpec};
use diskwright_simulator::spread::Spread;
use diskwright_simulator::system::{Drives, Set, System, Target};
use diskwright_virtualdisk::content::{Backing, Content};

const BLOCK: u64 = 512;
const MEMORY: Backing = Backing::Memory { most_bytes: None };

fn drives(name: &str, count: u32, blocks: u64) -> Drives {
    let spec = PlainSpec {
        name: "plain".to_owned(),
        blocks,
        servers: 1,
        service: Spread::Constant(0),
        bytes_per_s: f64::INFINITY,
    };
    Drives::new(name, count, Device::Plain(Arc::new(spec)))
}

/// An array of drives of these blocks, in this order.
fn system(level: Level, blocks: &[u64], unit: u64) -> System {
    let mut system = System::new("test");
    for (at, blocks) in blocks.iter().enumerate() {
        system.drives.push(drives(&format!("disk{at}"), 1, *blocks));
    }
    let members = (0..blocks.len() as u32).collect();
    system.arrays.push(Set { unit_blocks: unit, ..Set::new("array", level, members) });
    system
}

/// Any array that can be.
fn any_system(dice: &mut Dice) -> (System, Array) {
    loop {
        let all = levels();
        let info = &all[dice.below(all.len() as u64) as usize];
        let members = u64::from(info.members_least) + dice.below(5);
        let unit = 1 + dice.below(40);
        let least = 1 + dice.below(400);
        let blocks: Vec<u64> = (0..members).map(|_| least + dice.below(30)).collect();
        let mut system = system(Level::parse(&info.id).expect("a level"), &blocks, unit);
        let set = &mut system.arrays[0];
        set.layout = info.layouts.get(dice.below(info.layouts.len() as u64) as usize).copied();
        set.copies = dice.chance(0.5).then(|| 1 + dice.below(members) as u16);
        if info.form != Form::Copies {
            set.copies = None;
        }
        if let Ok(array) = system.array_of(&system.arrays[0]) {
            return (system, array);
        }
    }
}

struct Trial {
    dice: Dice,
    content: Content,
    array: Array,
    model: Vec<u8>,
    what: String,
}

const ARRAY: Target = Target::Array(0);

impl Trial {
    fn new(seed: u64, backing: &Backing) -> Trial {
        let mut dice = Dice::new(seed, 0);
        let (system, array) = any_system(&mut dice);
        let content = Content::new(&system, backing).expect("content");
        let bytes = content.bytes(ARRAY);
        assert_eq!(bytes, array.blocks() * BLOCK);
        let set = &system.arrays[0];
        let what =
            format!("seed {seed}: {} {:?} copies {:?} of {}", set.level, set.layout, set.copies, array.members());
        Trial { dice, content, array, model: vec![0; bytes as usize], what }
    }

    fn range(&mut self) -> (usize, usize) {
        let bytes = self.model.len() as u64;
        let most = [1, 600, 5000, 70_000, bytes][self.dice.below(5) as usize].min(bytes);
        let len = 1 + self.dice.below(most);
        let mut from = self.dice.below(bytes - len + 1);
        if self.dice.chance(0.3) {
            from -= from % (BLOCK * self.array.row_blocks()).min(bytes);
        }
        (from as usize, (from + len) as usize)
    }

    fn failed(&self) -> Members {
        self.content.state(0).expect("the array").0
    }

    /// One more member, if the data survive without it.
    fn victim(&mut self) -> Option<u16> {
        let member = self.dice.below(u64::from(self.array.members())) as u16;
        self.array.survives(self.failed().with(member)).then_some(member)
    }

    fn step(&mut self) {
        let (from, to) = self.range();
        let what = self.what.clone();
        match self.dice.below(16) {
            0..=4 => {
                let seed = self.dice.bits() as u8;
                let data: Vec<u8> = (from..to).map(|i| (i as u8).wrapping_mul(31) ^ (i >> 8) as u8 ^ seed).collect();
                self.content.write(ARRAY, from as u64, &data).expect(&what);
                self.model[from..to].copy_from_slice(&data);
            }
            5 => {
                self.content.trim(ARRAY, from as u64, (to - from) as u64).expect(&what);
                self.model[from..to].fill(0);
            }
            6..=8 => self.read(from, to, Members::NONE),
            9 => {
                let avoid = self.victim().into_iter().collect();
                self.read(from, to, avoid);
            }
            10 => {
                if let Some(member) = self.victim() {
                    self.content.fail(0, member).expect(&what);
                }
            }
            11 => {
                let member = self.dice.below(u64::from(self.array.members())) as u16;
                if self.failed().contains(member) {
                    self.content.replace(0, member).expect(&what);
                }
            }
            12 | 13 => {
                let blocks = self.dice.below(self.array.member_blocks() + 1);
                self.content.rebuilt(0, blocks).expect(&what);
            }
            14 => self.content.finish_rebuild(0).expect(&what),
            _ => self.holes(from, to),
        }
    }

    fn read(&mut self, from: usize, to: usize, avoid: Members) {
        let mut found = vec![0xaa; to - from];
        self.content.read_avoiding(ARRAY, from as u64, &mut found, avoid).expect(&self.what);
        let wrong = found.iter().zip(&self.model[from..to]).position(|(found, wanted)| found != wanted);
        assert_eq!(wrong, None, "{}: from {from} to {to}", self.what);
    }

    fn holes(&mut self, from: usize, to: usize) {
        let mut at = from;
        while at < to {
            let extent = self.content.holes(ARRAY, at as u64, (to - at) as u64).expect(&self.what);
            let end = at + extent.bytes as usize;
            assert!(extent.bytes > 0 && end <= to, "{}", self.what);
            assert!(!extent.hole || self.model[at..end].iter().all(|b| *b == 0), "{}", self.what);
            at = end;
        }
    }

    fn end(mut self) {
        assert_eq!(self.content.scrub(0).expect(&self.what), 0, "{}", self.what);
        for member in self.failed().iter() {
            self.content.replace(0, member).expect(&self.what);
        }
        self.content.finish_rebuild(0).expect(&self.what);
        assert!(self.failed().is_empty());
        self.read(0, self.model.len(), Members::NONE);
        assert_eq!(self.content.scrub(0).expect(&self.what), 0, "{}", self.what);
        self.content.trim(ARRAY, 0, self.model.len() as u64).expect(&self.what);
        self.model.fill(0);
        self.holes(0, self.model.len());
        if let Some(bytes) = self.content.memory_bytes() {
            let left = self.content.holes(ARRAY, 0, self.model.len() as u64).expect(&self.what);
            assert!(bytes == 0 || !left.hole || left.bytes > 0, "{}", self.what);
        }
    }
}

#[test]
fn whatever_fails_what_is_read_is_what_was_written() {
    for seed in 0..150 {
        let mut trial = Trial::new(seed, &MEMORY);
        (0..120).for_each(|_| trial.step());
        trial.end();
    }
}

#[test]
fn in_a_file_as_in_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    for seed in 1000..1030 {
        let mut trial = Trial::new(seed, &Backing::File(folder.path().join(format!("{seed}.img"))));
        (0..60).for_each(|_| trial.step());
        trial.end();
    }
}
