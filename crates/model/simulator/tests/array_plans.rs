//! Plans are correct, proved on the members' contents: each block of a row is an unknown, each parity a known sum of
//! them, and whatever a plan writes or returns must follow from what it read and from the request's data. No I/O uses a
//! lost member, and everything is written once.

use std::collections::HashMap;

use crate::common::arrays_of;
use diskwright_base::Rng;
use diskwright_simulator::array::*;

/// Sums are taken modulo this prime.
const PRIME: u64 = (1 << 31) - 1;

fn power(base: u64, exponent: u64) -> u64 {
    (0..exponent).fold(1, |product, _| product * base % PRIME)
}

/// Known vectors over the data units of a row.
#[derive(Default)]
struct Known(Vec<Vec<u64>>);

impl Known {
    /// Returns what remains of a vector after the known ones are eliminated.
    fn rest(&self, mut vector: Vec<u64>) -> Vec<u64> {
        for known in &self.0 {
            let lead = known.iter().position(|x| *x != 0).expect("no zero vector is kept");
            // known[lead] is 1
            let factor = PRIME - vector[lead];
            for (v, k) in vector.iter_mut().zip(known) {
                *v = (*v + factor * k) % PRIME;
            }
        }
        vector
    }

    fn add(&mut self, vector: Vec<u64>) {
        let rest = self.rest(vector);
        if let Some(lead) = rest.iter().find(|x| **x != 0) {
            let inverse = inverse_of(*lead);
            self.0.push(rest.iter().map(|x| x * inverse % PRIME).collect());
        }
    }

    fn tells(&self, vector: Vec<u64>) -> bool {
        self.rest(vector).iter().all(|x| *x == 0)
    }
}

/// Inverts by Fermat's little theorem.
fn inverse_of(value: u64) -> u64 {
    let (mut result, mut base, mut exponent) = (1, value, PRIME - 2);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = result * base % PRIME;
        }
        base = base * base % PRIME;
        exponent >>= 1;
    }
    result
}

/// Counts the I/Os to each member block.
fn touched(ios: &[MemberIo]) -> HashMap<(u16, u64), u32> {
    let mut all = HashMap::new();
    for io in ios {
        for index in 0..u64::from(io.blocks) {
            *all.entry((io.member, io.block + index)).or_insert(0) += 1;
        }
    }
    all
}

/// One case: an array, the members lost at a member block, and a plan.
struct Case<'a> {
    array: &'a ArrayGeometry,
    lost: &'a dyn Fn(u16, u64) -> bool,
    plan: &'a MemberIoPlan,
    what: &'a dyn Fn() -> String,
}

impl Case<'_> {
    fn k(&self) -> u64 {
        u64::from(self.array.members() - self.array.parities())
    }

    /// Content of a member's block, as sums of the row's data.
    fn holds(&self, member: u16, block: u64) -> Option<Vec<u64>> {
        let k = self.k();
        match self.array.place(member, block) {
            MemberBlock::Data { block, .. } => {
                let d = block / self.array.unit_blocks() % k;
                Some((0..k).map(|i| u64::from(i == d)).collect())
            }
            MemberBlock::Parity { parity, .. } => Some((0..k).map(|d| power(d + 1, u64::from(parity))).collect()),
            MemberBlock::Unused => None,
        }
    }

    fn known(&self, member_block: u64, reads: &HashMap<(u16, u64), u32>) -> Known {
        let mut known = Known::default();
        for member in (0..self.array.members()).filter(|m| reads.contains_key(&(*m, member_block))) {
            known.add(self.holds(member, member_block).expect("nothing unused is read"));
        }
        known
    }

    fn nobody_lost_is_touched(&self) {
        for io in self.plan.all() {
            for index in 0..u64::from(io.blocks) {
                assert!(!(self.lost)(io.member, io.block + index), "{}: {io:?}", (self.what)());
            }
        }
        assert_eq!(self.plan.lost_blocks, 0, "{}", (self.what)());
    }

    /// Checks a read or write of a level with copies (or one).
    fn copies_are_right(&self, request: ArrayRequest) {
        let (reads, writes) = (touched(&self.plan.reads), touched(&self.plan.writes));
        assert!(self.plan.after.is_empty());
        let (mut read, mut written) = (0, 0);
        for block in request.block..request.block + u64::from(request.blocks) {
            let places: Vec<_> = (0..self.array.copies())
                .filter_map(|c| self.array.map(block, 1, c))
                .map(|p| (p.member, p.block))
                .collect();
            let alive = places.iter().filter(|(m, b)| !(self.lost)(*m, *b));
            if request.write {
                assert!(alive.clone().all(|place| writes.get(place) == Some(&1)), "{}", (self.what)());
                written += alive.count();
            } else {
                assert_eq!(places.iter().filter_map(|p| reads.get(p)).sum::<u32>(), 1, "{}", (self.what)());
                read += 1;
            }
        }
        assert_eq!((reads.len(), writes.len()), (read, written), "{}: nothing else", (self.what)());
    }

    /// Checks a read or write of a level with parity.
    fn rows_are_right(&self, request: ArrayRequest) {
        let (array, k, unit) = (self.array, self.k(), self.array.unit_blocks());
        let reads = touched(&self.plan.reads);
        let (now, after) = (touched(&self.plan.writes), touched(&self.plan.after));
        let mut all = now.clone();
        after.iter().for_each(|(place, times)| *all.entry(*place).or_insert(0) += times);
        assert!(all.values().chain(reads.values()).all(|times| *times == 1), "{}: once each", (self.what)());
        assert_eq!(all.is_empty(), !request.write, "{}", (self.what)());
        // wanted[member block][d]
        let mut wanted: HashMap<u64, Vec<bool>> = HashMap::new();
        for block in request.block..request.block + u64::from(request.blocks) {
            let (chunk, offset) = (block / unit, block % unit);
            let of_row = wanted.entry(chunk / k * unit + offset).or_insert_with(|| vec![false; k as usize]);
            of_row[(chunk % k) as usize] = true;
        }
        for (member_block, wanted) in &wanted {
            let known = self.known(*member_block, &reads);
            if !request.write {
                for d in (0..k).filter(|d| wanted[*d as usize]) {
                    assert!(known.tells((0..k).map(|i| u64::from(i == d)).collect()), "{}", (self.what)());
                }
                continue;
            }
            for member in (0..array.members()).filter(|m| !(self.lost)(*m, *member_block)) {
                let must = match array.place(member, *member_block) {
                    MemberBlock::Data { block, .. } => wanted[(block / unit % k) as usize],
                    _ => true,
                };
                assert!(!must || all.contains_key(&(member, *member_block)), "{}: {member} not written", (self.what)());
            }
        }
        for (member, member_block) in all.keys() {
            let none = vec![false; k as usize];
            let wanted = wanted.get(member_block).unwrap_or(&none);
            let known = if after.contains_key(&(*member, *member_block)) {
                self.known(*member_block, &reads)
            } else {
                Known::default()
            };
            // the part of the new content that stems from old data
            let old = self.holds(*member, *member_block).expect("nothing unused is written");
            let old: Vec<u64> = old.iter().zip(wanted).map(|(c, new)| if *new { 0 } else { *c }).collect();
            let data = matches!(array.place(*member, *member_block), MemberBlock::Data { .. });
            assert!(!data || old.iter().all(|c| *c == 0), "{}: data nobody sent", (self.what)());
            assert!(known.tells(old), "{}: {member} {member_block} cannot be known", (self.what)());
        }
    }

    fn is_right(&self, request: ArrayRequest) {
        self.nobody_lost_is_touched();
        if self.array.parities() == 0 { self.copies_are_right(request) } else { self.rows_are_right(request) }
    }
}

fn any_policy(rng: &mut Rng) -> ArrayPolicy {
    let read_from = [
        ReadFrom::RoundRobin,
        ReadFrom::Nearest,
        ReadFrom::IdleOrNearest,
        ReadFrom::Process,
        ReadFrom::Primary,
        ReadFrom::LeastBusy,
    ];
    let write_by = [WriteBy::Fewest, WriteBy::Md, WriteBy::ReadModifyWrite, WriteBy::Reconstruct];
    ArrayPolicy {
        read_from: read_from[rng.next_below(6) as usize],
        write_by: write_by[rng.next_below(4) as usize],
        join: rng.next_bool(0.5),
    }
}

fn any_request(array: &ArrayGeometry, rng: &mut Rng) -> ArrayRequest {
    let most = (array.row_blocks() * 3).min(array.blocks());
    let most = if rng.next_bool(0.5) { array.unit_blocks().min(most) } else { most };
    let mut blocks = 1 + rng.next_below(most);
    let mut block = rng.next_below(array.blocks() - blocks + 1);
    if array.level() == ArrayLevel::Raid3 {
        // its own blocks are full rows
        let row = array.row_blocks();
        (block, blocks) = (block / row * row, blocks.next_multiple_of(row).min(array.blocks() - block / row * row));
    }
    ArrayRequest { block, blocks: blocks as u32, write: rng.next_bool(0.6), who: rng.next_below(9) as u32 }
}

/// Returns members that may fail together, up to as many as possible.
fn any_failures(array: &ArrayGeometry, rng: &mut Rng) -> Members {
    let mut failed = Members::NONE;
    for _ in 0..rng.next_below(4) {
        let more = failed.with(rng.next_below(u64::from(array.members())) as u16);
        if array.survives(more) {
            failed = more;
        }
    }
    failed
}

fn small_arrays() -> Vec<ArrayGeometry> {
    let sizes = [(1u16, 4u64), (2, 4), (3, 4), (4, 3), (5, 4), (6, 2), (7, 5), (8, 4), (5, 1), (6, 1)];
    sizes.into_iter().flat_map(|(members, unit)| arrays_of(members, unit, u64::from(members) * 2 + 3)).collect()
}

#[test]
fn every_plan_follows_from_what_it_read() {
    let (mut rng, mut degraded) = (Rng::new(5, 1), 0);
    let mut plan = MemberIoPlan::new();
    for array in small_arrays() {
        for _ in 0..16 {
            let failed = any_failures(&array, &mut rng);
            let mut planner = Planner::new(array.clone(), any_policy(&mut rng));
            assert!(planner.set_state(ArrayState { failed, ..ArrayState::default() }));
            let out = array.out_of_service(failed);
            degraded += u32::from(!out.is_empty());
            for _ in 0..8 {
                let request = any_request(&array, &mut rng);
                planner.plan(request, &mut plan);
                let what = || format!("{array:?}\n{:?} failed {out:?}\n{request:?}\n{plan:?}", planner.policy());
                Case { array: &array, lost: &|m, _| out.contains(m), plan: &plan, what: &what }.is_right(request);
            }
        }
    }
    assert!(degraded > 1000, "{degraded}");
}

/// During a rebuild, the rebuilt part is good and kept good, the rest is lost.
#[test]
fn rebuilds_write_everything_once_and_requests_go_on() {
    let mut rng = Rng::new(6, 1);
    let (mut plan, mut rebuilds) = (MemberIoPlan::new(), 0);
    for array in small_arrays() {
        for _ in 0..6 {
            let failed = any_failures(&array, &mut rng);
            if failed.is_empty() {
                continue;
            }
            rebuilds += 1;
            let mut planner = Planner::new(array.clone(), any_policy(&mut rng));
            planner.set_state(ArrayState { failed, ..ArrayState::default() });
            let out = planner.state().failed;
            let mut pass = Pass::new(Task::Rebuild, &planner, 1 + rng.next_below(9));
            let mut written: HashMap<(u16, u64), u32> = HashMap::new();
            let mut before = 0;
            while pass.next(&planner, &mut plan) {
                assert_eq!(plan.lost_blocks, 0);
                check_rebuild(&array, out, before, &plan);
                plan.after.iter().for_each(|io| {
                    (0..u64::from(io.blocks)).for_each(|b| *written.entry((io.member, io.block + b)).or_insert(0) += 1)
                });
                planner.set_state(pass.state(&planner));
                before = pass.done();
                let good = before;
                if good < pass.end() {
                    assert_eq!(planner.state().good_below, good, "steps are whole rows where it matters");
                    for _ in 0..4 {
                        let request = any_request(&array, &mut rng);
                        planner.plan(request, &mut plan);
                        requests_during_rebuild(&array, out, good, request, &plan);
                    }
                }
            }
            assert_eq!(planner.state(), ArrayState::default(), "all well again");
            for member in 0..array.members() {
                for block in 0..array.member_blocks() {
                    let must = out.contains(member) && array.place(member, block) != MemberBlock::Unused;
                    assert_eq!(written.get(&(member, block)).copied().unwrap_or(0), u32::from(must), "{array:?}");
                }
            }
        }
    }
    assert!(rebuilds > 300, "{rebuilds}");
}

fn requests_during_rebuild(array: &ArrayGeometry, out: Members, good: u64, request: ArrayRequest, plan: &MemberIoPlan) {
    let what = || format!("{array:?}\nrebuilding {out:?} good below {good}\n{request:?}\n{plan:?}");
    // one long piece of a mirror or of RAID 3 may begin in the good part and end beyond:
    // then it is written to the new member too, and read elsewhere
    let whole = array.unit_blocks() == 1 || array.level() == ArrayLevel::Raid1;
    if whole {
        let io = |io: &MemberIo| io.block < good && io.write || io.block + u64::from(io.blocks) <= good;
        assert!(plan.all().filter(|io| out.contains(io.member)).all(io), "{}", what());
        return;
    }
    Case { array, lost: &|m, b| out.contains(m) && b >= good, plan, what: &what }.is_right(request);
}

fn check_rebuild(array: &ArrayGeometry, out: Members, from: u64, plan: &MemberIoPlan) {
    let what = || format!("{array:?} rebuild of {out:?} at {from}\n{plan:?}");
    let reads = touched(&plan.reads);
    assert!(plan.reads.iter().all(|io| !out.contains(io.member)), "{}", what());
    assert!(plan.after.iter().all(|io| out.contains(io.member) && io.block >= from), "{}", what());
    let case = Case { array, lost: &|_, _| false, plan, what: &what };
    for (member, block) in touched(&plan.after).into_keys() {
        if array.parities() > 0 {
            let content = case.holds(member, block).expect("nothing unused is written");
            assert!(case.known(block, &reads).tells(content), "{}", what());
            continue;
        }
        let MemberBlock::Data { block, .. } = array.place(member, block) else { panic!("{}", what()) };
        let sources = (0..array.copies()).filter_map(|c| array.map(block, 1, c));
        assert!(sources.into_iter().any(|s| reads.contains_key(&(s.member, s.block))), "{}", what());
    }
}

#[test]
fn a_scrub_reads_everything_once() {
    let mut plan = MemberIoPlan::new();
    for array in small_arrays() {
        let planner = Planner::new(array.clone(), ArrayPolicy::default());
        let mut pass = Pass::new(Task::Scrub, &planner, 5);
        let mut read: HashMap<(u16, u64), u32> = HashMap::new();
        while pass.next(&planner, &mut plan) {
            assert!(plan.writes.is_empty() && plan.after.is_empty());
            assert_eq!(plan.work.xor_blocks > 0, array.parities() > 0);
            touched(&plan.reads).into_iter().for_each(|(place, times)| *read.entry(place).or_insert(0) += times);
        }
        let all = (0..array.members()).flat_map(|m| (0..array.member_blocks()).map(move |b| (m, b)));
        assert!(all.into_iter().all(|place| read.get(&place) == Some(&1)), "{array:?}");
        assert_eq!(pass.state(&planner), planner.state());
    }
}

#[test]
fn too_many_failures_lose_data_and_say_so() {
    let mut plan = MemberIoPlan::new();
    for array in small_arrays() {
        let mut planner = Planner::new(array.clone(), ArrayPolicy::default());
        let all: Members = (0..array.members()).collect();
        assert!(!planner.set_state(ArrayState { failed: all, ..ArrayState::default() }));
        for write in [false, true] {
            let blocks = array.blocks().min(40) as u32;
            planner.plan(ArrayRequest { write, ..ArrayRequest::read(0, blocks) }, &mut plan);
            assert_eq!((plan.ios(), plan.lost_blocks), (0, u64::from(blocks)), "{array:?}");
        }
        let mut pass = Pass::new(Task::Rebuild, &planner, 8);
        let mut lost = 0;
        while pass.next(&planner, &mut plan) {
            assert_eq!(plan.ios(), 0, "{array:?}");
            lost += plan.lost_blocks;
        }
        assert!(lost > 0, "{array:?}");
    }
    // a stripe set with one dead member still serves the rest
    let array = ArrayGeometry::new(&ArrayDescription::new(ArrayLevel::Raid0, 4, 100, 10)).expect("valid");
    let mut planner = Planner::new(array, ArrayPolicy::default());
    assert!(!planner.set_state(ArrayState::failed([1])));
    planner.plan(ArrayRequest::read(0, 40), &mut plan);
    assert_eq!((plan.reads.len(), plan.lost_blocks), (3, 10));
}

#[test]
fn no_request_is_too_odd() {
    let (mut rng, mut plan) = (Rng::new(9, 9), MemberIoPlan::new());
    for array in small_arrays() {
        let end = array.blocks();
        let mut planner = Planner::new(array, ArrayPolicy::default());
        let odd = [(0, 0), (end, 1), (end - 1, 9), (u64::MAX, u32::MAX), (0, u32::MAX), (end, 0)];
        let any =
            (0..20).map(|_| (rng.next_u64() >> (rng.next_below(64)), rng.next_u64() as u32 >> rng.next_below(32)));
        for (block, blocks) in odd.into_iter().chain(any.collect::<Vec<_>>()) {
            for write in [false, true] {
                planner.plan(ArrayRequest { write, ..ArrayRequest::read(block, blocks) }, &mut plan);
                let beyond = u64::from(blocks) - u64::from(blocks).min(end.saturating_sub(block));
                assert_eq!(plan.lost_blocks, beyond);
            }
        }
        planner.moved(9999, 5);
        planner.pending(9999, 5);
    }
}
