//! Plans are correct, proved on the members' contents: each block of a row is an unknown, each parity a known sum of
//! them, and whatever a plan writes or returns must follow from what it read and from the request's data. No I/O uses a
//! lost member, and everything is written once.

use std::collections::HashMap;

use crate::common::arrays_of;
use diskwright_base::Rng;
use diskwright_simulator::array::*;

/// Sums are taken modulo this prime.
const PRIME: u64 = (1 << 31) - 1;

fn modular_power(base: u64, exponent: u64) -> u64 {
    (0..exponent).fold(1, |product, _| product * base % PRIME)
}

/// Known vectors over the data units of a row.
#[derive(Default)]
struct KnownVectors(Vec<Vec<u64>>);

impl KnownVectors {
    /// Returns what remains of a vector after the known ones are eliminated.
    fn reduce_vector(&self, mut vector: Vec<u64>) -> Vec<u64> {
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

    fn add_vector(&mut self, vector: Vec<u64>) {
        let rest = self.reduce_vector(vector);
        if let Some(lead) = rest.iter().find(|x| **x != 0) {
            let inverse = modular_inverse(*lead);
            self.0.push(rest.iter().map(|x| x * inverse % PRIME).collect());
        }
    }

    fn determines(&self, vector: Vec<u64>) -> bool {
        self.reduce_vector(vector).iter().all(|x| *x == 0)
    }
}

/// Inverts by Fermat's little theorem.
fn modular_inverse(value: u64) -> u64 {
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
fn count_touches(ios: &[MemberIo]) -> HashMap<(u16, u64), u32> {
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
    context: &'a dyn Fn() -> String,
}

impl Case<'_> {
    fn data_count(&self) -> u64 {
        u64::from(self.array.member_count() - self.array.parity_count())
    }

    /// Content of a member's block, as sums of the row's data.
    fn member_content(&self, member: u16, block: u64) -> Option<Vec<u64>> {
        let k = self.data_count();
        match self.array.content_of_member_block(member, block) {
            MemberBlock::Data { block, .. } => {
                let d = block / self.array.unit_blocks() % k;
                Some((0..k).map(|i| u64::from(i == d)).collect())
            }
            MemberBlock::Parity { parity, .. } => {
                Some((0..k).map(|d| modular_power(d + 1, u64::from(parity))).collect())
            }
            MemberBlock::Unused => None,
        }
    }

    fn known_after_reads(&self, member_block: u64, reads: &HashMap<(u16, u64), u32>) -> KnownVectors {
        let mut known = KnownVectors::default();
        for member in (0..self.array.member_count()).filter(|m| reads.contains_key(&(*m, member_block))) {
            known.add_vector(self.member_content(member, member_block).expect("nothing unused is read"));
        }
        known
    }

    fn assert_no_lost_member_is_used(&self) {
        for io in self.plan.iter() {
            for index in 0..u64::from(io.blocks) {
                assert!(!(self.lost)(io.member, io.block + index), "{}: {io:?}", (self.context)());
            }
        }
        assert_eq!(self.plan.lost_blocks, 0, "{}", (self.context)());
    }

    /// Checks a read or write of a level with copies (or one).
    fn assert_copies(&self, request: ArrayRequest) {
        let (reads, writes) = (count_touches(&self.plan.reads), count_touches(&self.plan.writes));
        assert!(self.plan.writes_after_reads.is_empty());
        let (mut read, mut written) = (0, 0);
        for block in request.block..request.block + u64::from(request.blocks) {
            let places: Vec<_> = (0..self.array.copy_count())
                .filter_map(|c| self.array.map_block(block, 1, c))
                .map(|p| (p.member, p.block))
                .collect();
            let alive = places.iter().filter(|(m, b)| !(self.lost)(*m, *b));
            if request.write {
                assert!(alive.clone().all(|place| writes.get(place) == Some(&1)), "{}", (self.context)());
                written += alive.count();
            } else {
                assert_eq!(places.iter().filter_map(|p| reads.get(p)).sum::<u32>(), 1, "{}", (self.context)());
                read += 1;
            }
        }
        assert_eq!((reads.len(), writes.len()), (read, written), "{}: nothing else", (self.context)());
    }

    /// Checks a read or write of a level with parity.
    fn assert_rows(&self, request: ArrayRequest) {
        let (array, k, unit) = (self.array, self.data_count(), self.array.unit_blocks());
        let reads = count_touches(&self.plan.reads);
        let (now, after) = (count_touches(&self.plan.writes), count_touches(&self.plan.writes_after_reads));
        let mut all = now.clone();
        after.iter().for_each(|(place, times)| *all.entry(*place).or_insert(0) += times);
        assert!(all.values().chain(reads.values()).all(|times| *times == 1), "{}: once each", (self.context)());
        assert_eq!(all.is_empty(), !request.write, "{}", (self.context)());
        // wanted[member block][d]
        let mut wanted: HashMap<u64, Vec<bool>> = HashMap::new();
        for block in request.block..request.block + u64::from(request.blocks) {
            let (chunk, offset) = (block / unit, block % unit);
            let of_row = wanted.entry(chunk / k * unit + offset).or_insert_with(|| vec![false; k as usize]);
            of_row[(chunk % k) as usize] = true;
        }
        for (member_block, wanted) in &wanted {
            let known = self.known_after_reads(*member_block, &reads);
            if !request.write {
                for d in (0..k).filter(|d| wanted[*d as usize]) {
                    assert!(known.determines((0..k).map(|i| u64::from(i == d)).collect()), "{}", (self.context)());
                }
                continue;
            }
            for member in (0..array.member_count()).filter(|m| !(self.lost)(*m, *member_block)) {
                let must = match array.content_of_member_block(member, *member_block) {
                    MemberBlock::Data { block, .. } => wanted[(block / unit % k) as usize],
                    _ => true,
                };
                assert!(
                    !must || all.contains_key(&(member, *member_block)),
                    "{}: {member} not written",
                    (self.context)()
                );
            }
        }
        for (member, member_block) in all.keys() {
            let none = vec![false; k as usize];
            let wanted = wanted.get(member_block).unwrap_or(&none);
            let known = if after.contains_key(&(*member, *member_block)) {
                self.known_after_reads(*member_block, &reads)
            } else {
                KnownVectors::default()
            };
            // the part of the new content that stems from old data
            let old = self.member_content(*member, *member_block).expect("nothing unused is written");
            let old: Vec<u64> = old.iter().zip(wanted).map(|(c, new)| if *new { 0 } else { *c }).collect();
            let data = matches!(array.content_of_member_block(*member, *member_block), MemberBlock::Data { .. });
            assert!(!data || old.iter().all(|c| *c == 0), "{}: data nobody sent", (self.context)());
            assert!(known.determines(old), "{}: {member} {member_block} cannot be known", (self.context)());
        }
    }

    fn assert_plan(&self, request: ArrayRequest) {
        self.assert_no_lost_member_is_used();
        if self.array.parity_count() == 0 { self.assert_copies(request) } else { self.assert_rows(request) }
    }
}

fn random_policy(rng: &mut Rng) -> ArrayPolicy {
    let read_from = [
        CopyChoice::RoundRobin,
        CopyChoice::Nearest,
        CopyChoice::IdleOrNearest,
        CopyChoice::Process,
        CopyChoice::Primary,
        CopyChoice::LeastBusy,
    ];
    let write_by = [ParityUpdate::Fewest, ParityUpdate::Md, ParityUpdate::ReadModifyWrite, ParityUpdate::Reconstruct];
    ArrayPolicy {
        read_from: read_from[rng.next_below(6) as usize],
        write_by: write_by[rng.next_below(4) as usize],
        join_ios: rng.next_bool(0.5),
    }
}

fn random_request(array: &ArrayGeometry, rng: &mut Rng) -> ArrayRequest {
    let max_blocks = (array.row_blocks() * 3).min(array.capacity_blocks());
    let max_blocks = if rng.next_bool(0.5) { array.unit_blocks().min(max_blocks) } else { max_blocks };
    let mut blocks = 1 + rng.next_below(max_blocks);
    let mut block = rng.next_below(array.capacity_blocks() - blocks + 1);
    if array.level() == ArrayLevel::Raid3 {
        // its own blocks are full rows
        let row = array.row_blocks();
        (block, blocks) =
            (block / row * row, blocks.next_multiple_of(row).min(array.capacity_blocks() - block / row * row));
    }
    ArrayRequest { block, blocks: blocks as u32, write: rng.next_bool(0.6), process_id: rng.next_below(9) as u32 }
}

/// Returns members that may fail together, up to as many as possible.
fn random_failures(array: &ArrayGeometry, rng: &mut Rng) -> MemberSet {
    let mut failed = MemberSet::NONE;
    for _ in 0..rng.next_below(4) {
        let more = failed.with_member(rng.next_below(u64::from(array.member_count())) as u16);
        if array.survives_failures(more) {
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
            let failed = random_failures(&array, &mut rng);
            let mut planner = Planner::new(array.clone(), random_policy(&mut rng));
            assert!(planner.set_state(ArrayState { failed, ..ArrayState::default() }));
            let out = array.out_of_service(failed);
            degraded += u32::from(!out.is_empty());
            for _ in 0..8 {
                let request = random_request(&array, &mut rng);
                planner.plan_request(request, &mut plan);
                let context = || format!("{array:?}\n{:?} failed {out:?}\n{request:?}\n{plan:?}", planner.policy());
                Case { array: &array, lost: &|m, _| out.contains(m), plan: &plan, context: &context }
                    .assert_plan(request);
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
            let failed = random_failures(&array, &mut rng);
            if failed.is_empty() {
                continue;
            }
            rebuilds += 1;
            let mut planner = Planner::new(array.clone(), random_policy(&mut rng));
            planner.set_state(ArrayState { failed, ..ArrayState::default() });
            let out = planner.state().failed;
            let mut pass = RepairPass::new(PassKind::Rebuild, &planner, 1 + rng.next_below(9));
            let mut written: HashMap<(u16, u64), u32> = HashMap::new();
            let mut before = 0;
            while pass.plan_next_step(&planner, &mut plan) {
                assert_eq!(plan.lost_blocks, 0);
                check_rebuild(&array, out, before, &plan);
                plan.writes_after_reads.iter().for_each(|io| {
                    (0..u64::from(io.blocks)).for_each(|b| *written.entry((io.member, io.block + b)).or_insert(0) += 1)
                });
                planner.set_state(pass.state_after(&planner));
                before = pass.planned_blocks();
                let good = before;
                if good < pass.total_blocks() {
                    assert_eq!(planner.state().good_below, good, "steps are whole rows where it matters");
                    for _ in 0..4 {
                        let request = random_request(&array, &mut rng);
                        planner.plan_request(request, &mut plan);
                        check_request_during_rebuild(&array, out, good, request, &plan);
                    }
                }
            }
            assert_eq!(planner.state(), ArrayState::default(), "all well again");
            for member in 0..array.member_count() {
                for block in 0..array.member_blocks() {
                    let must =
                        out.contains(member) && array.content_of_member_block(member, block) != MemberBlock::Unused;
                    assert_eq!(written.get(&(member, block)).copied().unwrap_or(0), u32::from(must), "{array:?}");
                }
            }
        }
    }
    assert!(rebuilds > 300, "{rebuilds}");
}

fn check_request_during_rebuild(
    array: &ArrayGeometry,
    out: MemberSet,
    good: u64,
    request: ArrayRequest,
    plan: &MemberIoPlan,
) {
    let context = || format!("{array:?}\nrebuilding {out:?} good below {good}\n{request:?}\n{plan:?}");
    // one long piece of a mirror or of RAID 3 may begin in the good part and end beyond:
    // then it is written to the new member too, and read elsewhere
    let is_atomic = array.unit_blocks() == 1 || array.level() == ArrayLevel::Raid1;
    if is_atomic {
        let io = |io: &MemberIo| io.block < good && io.write || io.block + u64::from(io.blocks) <= good;
        assert!(plan.iter().filter(|io| out.contains(io.member)).all(io), "{}", context());
        return;
    }
    Case { array, lost: &|m, b| out.contains(m) && b >= good, plan, context: &context }.assert_plan(request);
}

fn check_rebuild(array: &ArrayGeometry, out: MemberSet, from: u64, plan: &MemberIoPlan) {
    let context = || format!("{array:?} rebuild of {out:?} at {from}\n{plan:?}");
    let reads = count_touches(&plan.reads);
    assert!(plan.reads.iter().all(|io| !out.contains(io.member)), "{}", context());
    assert!(plan.writes_after_reads.iter().all(|io| out.contains(io.member) && io.block >= from), "{}", context());
    let case = Case { array, lost: &|_, _| false, plan, context: &context };
    for (member, block) in count_touches(&plan.writes_after_reads).into_keys() {
        if array.parity_count() > 0 {
            let content = case.member_content(member, block).expect("nothing unused is written");
            assert!(case.known_after_reads(block, &reads).determines(content), "{}", context());
            continue;
        }
        let MemberBlock::Data { block, .. } = array.content_of_member_block(member, block) else {
            panic!("{}", context())
        };
        let sources = (0..array.copy_count()).filter_map(|c| array.map_block(block, 1, c));
        assert!(sources.into_iter().any(|s| reads.contains_key(&(s.member, s.block))), "{}", context());
    }
}

#[test]
fn a_scrub_reads_everything_once() {
    let mut plan = MemberIoPlan::new();
    for array in small_arrays() {
        let planner = Planner::new(array.clone(), ArrayPolicy::default());
        let mut pass = RepairPass::new(PassKind::Scrub, &planner, 5);
        let mut read: HashMap<(u16, u64), u32> = HashMap::new();
        while pass.plan_next_step(&planner, &mut plan) {
            assert!(plan.writes.is_empty() && plan.writes_after_reads.is_empty());
            assert_eq!(plan.work.xor_blocks > 0, array.parity_count() > 0);
            count_touches(&plan.reads).into_iter().for_each(|(place, times)| *read.entry(place).or_insert(0) += times);
        }
        let all = (0..array.member_count()).flat_map(|m| (0..array.member_blocks()).map(move |b| (m, b)));
        assert!(all.into_iter().all(|place| read.get(&place) == Some(&1)), "{array:?}");
        assert_eq!(pass.state_after(&planner), planner.state());
    }
}

#[test]
fn too_many_failures_report_lost_blocks() {
    let mut plan = MemberIoPlan::new();
    for array in small_arrays() {
        let mut planner = Planner::new(array.clone(), ArrayPolicy::default());
        let all: MemberSet = (0..array.member_count()).collect();
        assert!(!planner.set_state(ArrayState { failed: all, ..ArrayState::default() }));
        for write in [false, true] {
            let blocks = array.capacity_blocks().min(40) as u32;
            planner.plan_request(ArrayRequest { write, ..ArrayRequest::read(0, blocks) }, &mut plan);
            assert_eq!((plan.io_count(), plan.lost_blocks), (0, u64::from(blocks)), "{array:?}");
        }
        let mut pass = RepairPass::new(PassKind::Rebuild, &planner, 8);
        let mut lost = 0;
        while pass.plan_next_step(&planner, &mut plan) {
            assert_eq!(plan.io_count(), 0, "{array:?}");
            lost += plan.lost_blocks;
        }
        assert!(lost > 0, "{array:?}");
    }
    // a stripe set with one dead member still serves the rest
    let array = ArrayGeometry::new(&ArrayDescription::new(ArrayLevel::Raid0, 4, 100, 10)).expect("valid");
    let mut planner = Planner::new(array, ArrayPolicy::default());
    assert!(!planner.set_state(ArrayState::with_failed([1])));
    planner.plan_request(ArrayRequest::read(0, 40), &mut plan);
    assert_eq!((plan.reads.len(), plan.lost_blocks), (3, 10));
}

#[test]
fn plans_requests_of_any_shape() {
    let (mut rng, mut plan) = (Rng::new(9, 9), MemberIoPlan::new());
    for array in small_arrays() {
        let end = array.capacity_blocks();
        let mut planner = Planner::new(array, ArrayPolicy::default());
        let odd = [(0, 0), (end, 1), (end - 1, 9), (u64::MAX, u32::MAX), (0, u32::MAX), (end, 0)];
        let any =
            (0..20).map(|_| (rng.next_u64() >> (rng.next_below(64)), rng.next_u64() as u32 >> rng.next_below(32)));
        for (block, blocks) in odd.into_iter().chain(any.collect::<Vec<_>>()) {
            for write in [false, true] {
                planner.plan_request(ArrayRequest { write, ..ArrayRequest::read(block, blocks) }, &mut plan);
                let beyond = u64::from(blocks) - u64::from(blocks).min(end.saturating_sub(block));
                assert_eq!(plan.lost_blocks, beyond);
            }
        }
        planner.set_arm_position(9999, 5);
        planner.set_pending_ios(9999, 5);
    }
}
