//! Address mapping of all levels, and the capacities and I/O counts that textbooks and the source documents give.

use std::collections::HashMap;

use crate::common::arrays_of;
use diskwright_base::Rng;
use diskwright_simulator::array::*;
use diskwright_simulator::theory::nearest_arm;

/// Each block of data lies where `map` says, once for each copy, no two blocks overlap, and `place` is the inverse.
fn assert_bijection(array: &ArrayGeometry) {
    let end_block = array.capacity_blocks() + 20;
    let index = |member: u16, block: u64| (u64::from(member) * end_block + block) as usize;
    let mut held = vec![MemberBlock::Unused; index(array.member_count(), 0)];
    for block in 0..array.capacity_blocks() {
        for copy in 0..array.copy_count() {
            let piece = array.map_block(block, 1, copy).expect("inside");
            assert_eq!(piece.blocks, 1);
            let place = &mut held[index(piece.member, piece.block)];
            assert_eq!(*place, MemberBlock::Unused, "{array:?}: {block} copy {copy}");
            *place = MemberBlock::Data { block, copy };
        }
        assert_eq!(array.map_block(block, 1, array.copy_count()), None);
    }
    assert_eq!(array.map_block(array.capacity_blocks(), 1, 0), None);
    let mut parity = HashMap::new();
    for member in 0..array.member_count() {
        for block in 0..end_block {
            let found = array.content_of_member_block(member, block);
            let data = held[index(member, block)];
            if let MemberBlock::Parity { parity: j, row } = found {
                assert_eq!(data, MemberBlock::Unused, "{array:?}: member {member} block {block}");
                *parity.entry((row, j)).or_insert(0) += 1;
            } else {
                assert_eq!(found, data, "{array:?}: member {member} block {block}");
            }
        }
    }
    // every row has each parity once, over a whole unit
    assert!(parity.values().all(|blocks| *blocks == array.unit_blocks()));
    if array.parity_count() > 0 {
        let rows = array.capacity_blocks() / array.row_blocks();
        assert_eq!(parity.len() as u64, rows * u64::from(array.parity_count()));
    }
}

#[test]
fn every_mapping_is_a_bijection() {
    let mut arrays = 0;
    for members in 1..=14 {
        for (unit, rows) in [(1, 17), (2, 7), (3, 30), (8, 5), (16, 13)] {
            for array in arrays_of(members, unit, rows) {
                assert_bijection(&array);
                arrays += 1;
            }
        }
    }
    assert!(arrays > 2000, "{arrays}");
}

#[test]
fn long_pieces_are_as_their_blocks() {
    for array in [5, 6, 8].into_iter().flat_map(|members| arrays_of(members, 4, 9)) {
        for block in 0..array.capacity_blocks() {
            let piece = array.map_block(block, 1000, 0).expect("inside");
            for index in 0..piece.blocks {
                let one = array.map_block(block + index, 1, 0).expect("inside");
                assert_eq!((one.member, one.block), (piece.member, piece.block + index));
            }
            if let Some(next) = array.map_block(block + piece.blocks, 1, 0) {
                let behind = next.member == piece.member && next.block == piece.block + piece.blocks;
                assert!(!behind || piece.blocks == array.unit_blocks() - block % array.unit_blocks(), "{array:?}");
            }
        }
    }
}

/// The rows of small arrays as `drivers/md/raid10.c` computes them.
#[test]
fn copies_lie_where_md_puts_them() {
    let draw = |members: u16, layout, rows: u64| {
        let layout = Some(layout);
        let description = ArrayDescription { layout, ..ArrayDescription::new(ArrayLevel::Raid10, members, rows, 1) };
        let array = ArrayGeometry::new(&description).expect("valid");
        let unit = |member, row| match array.content_of_member_block(member, row) {
            MemberBlock::Data { block, .. } => block.to_string(),
            _ => "-".to_owned(),
        };
        let line = |row| (0..members).map(|m| unit(m, row)).collect::<Vec<_>>().join(" ");
        (0..rows).map(line).collect::<Vec<_>>()
    };
    assert_eq!(draw(4, ArrayLayout::Near, 2), ["0 0 1 1", "2 2 3 3"]);
    assert_eq!(draw(3, ArrayLayout::Near, 3), ["0 0 1", "1 2 2", "3 3 -"]);
    assert_eq!(draw(4, ArrayLayout::Offset, 4), ["0 1 2 3", "3 0 1 2", "4 5 6 7", "7 4 5 6"]);
    assert_eq!(draw(4, ArrayLayout::Far, 4), ["0 1 2 3", "4 5 6 7", "3 0 1 2", "7 4 5 6"]);
}

#[test]
fn computes_capacities() {
    for level in ArrayLevel::ALL {
        let [members, usable] = level.info().example;
        let array = ArrayGeometry::new(&ArrayDescription::new(level, members, 1 << 20, 128)).expect("the example");
        assert_eq!(array.capacity_blocks(), u64::from(usable) << 20, "{level}");
    }
    let gigabytes = |level, members, size: u64| {
        let array =
            ArrayGeometry::new(&ArrayDescription::new(level, members, size * 1_000_000_000 / 512, 1)).expect("valid");
        (array.capacity_blocks() as f64 * 512.0 / 1e9).round()
    };
    // W12: a controller of fourteen drives of 2 or 4 GB; W16: ten of 4 GB in RAID 5; W26: twelve of 9 GB in RAID 10
    assert_eq!((gigabytes(ArrayLevel::Raid0, 14, 2), gigabytes(ArrayLevel::Raid0, 14, 4)), (28.0, 56.0));
    assert_eq!(gigabytes(ArrayLevel::Raid5, 10, 4), 36.0);
    assert_eq!(gigabytes(ArrayLevel::Raid10, 12, 9), 54.0);
    // unequal members: linear uses all of their capacity, the others that of the smallest
    let unequal = |level| {
        let members = vec![1000, 3000, 2000];
        let description = ArrayDescription { members, ..ArrayDescription::new(level, 0, 0, 10) };
        ArrayGeometry::new(&description).expect("valid").capacity_blocks()
    };
    assert_eq!(
        (unequal(ArrayLevel::Linear), unequal(ArrayLevel::Raid5), unequal(ArrayLevel::Raid1)),
        (6000, 2000, 1000)
    );
}

#[test]
fn knows_which_failures_survive() {
    let array = |level, members, layout| {
        let description = ArrayDescription { layout, ..ArrayDescription::new(level, members, 1000, 8) };
        ArrayGeometry::new(&description).expect("valid")
    };
    let survives = |array: &ArrayGeometry, failed: &[u16]| array.survives_failures(failed.iter().copied().collect());
    let raid10 = array(ArrayLevel::Raid10, 4, None);
    assert!(survives(&raid10, &[0, 2]) && survives(&raid10, &[1, 3]) && !survives(&raid10, &[0, 1]));
    // a mirror of stripe sets {0, 1} and {2, 3}: a set with a failed member is out of service
    let raid01 = array(ArrayLevel::Raid01, 4, None);
    assert!(survives(&raid01, &[0, 1]) && !survives(&raid01, &[0, 2]) && !survives(&raid01, &[0, 3]));
    assert_eq!(raid01.out_of_service(MemberSet::NONE.with_member(1)), [0, 1].into_iter().collect());
    let far = array(ArrayLevel::Raid10, 5, Some(ArrayLayout::Far));
    assert!(survives(&far, &[0, 2]) && !survives(&far, &[4, 0]));
    let mirror = array(ArrayLevel::Raid1, 3, None);
    assert!(survives(&mirror, &[0, 1]) && !survives(&mirror, &[0, 1, 2]));
    for (level, max_failures) in [
        (ArrayLevel::Linear, 0),
        (ArrayLevel::Raid0, 0),
        (ArrayLevel::Raid5, 1),
        (ArrayLevel::Raid6, 2),
        (ArrayLevel::Raid7, 3),
    ] {
        let array = array(level, 7, None);
        assert!(
            array.survives_failures((0..max_failures).collect())
                && !array.survives_failures((0..=max_failures).collect()),
            "{level}"
        );
    }
}

/// Mean number of member I/Os of a small write to each data unit of as many rows as put every member into every role.
fn mean_degraded_write(level: ArrayLevel, members: u16, write_by: ParityUpdate, failed: &[u16]) -> f64 {
    let array = ArrayGeometry::new(&ArrayDescription::new(level, members, 16 * 4096, 16)).unwrap();
    let mut planner = Planner::new(array, ArrayPolicy { write_by, ..ArrayPolicy::default() });
    let failed = failed.iter().fold(MemberSet::NONE, |lost, member| lost.with_member(*member));
    assert!(planner.set_state(ArrayState { failed, ..ArrayState::default() }));
    let units = u64::from(members) * u64::from(members - if level == ArrayLevel::Raid6 { 2 } else { 1 });
    let mut plan = MemberIoPlan::new();
    let total: usize = (0..units)
        .map(|unit| {
            planner.plan_request(ArrayRequest::write(unit * 16, 8), &mut plan);
            plan.io_count()
        })
        .sum();
    total as f64 / units as f64
}

#[test]
fn degraded_writes_cost_as_in_md() {
    let cost = |level, members, by, failed: &[u16]| mean_degraded_write(level, members, by, failed);
    let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
    // RAID 5 of three, by what the lost member held. The target: one read, and the parity: 2. Another's data: it
    // is modified: 4. The parity: nothing is left to keep (1), but md reads the other data for it all the same: 2.
    near(cost(ArrayLevel::Raid5, 3, ParityUpdate::Fewest, &[1]), (2.0 + 4.0 + 1.0) / 3.0);
    near(cost(ArrayLevel::Raid5, 3, ParityUpdate::Md, &[1]), (2.0 + 4.0 + 2.0) / 3.0);
    // five: 3 reads and the parity; 4 for each of three others; 3 reads and the data
    near(cost(ArrayLevel::Raid5, 5, ParityUpdate::Md, &[1]), (4.0 + 3.0 * 4.0 + 4.0) / 5.0);
    // RAID 6 of six: target lost 3 + 2; another's data 3 + 3; a parity lost is not modified: 3 + 2
    near(cost(ArrayLevel::Raid6, 6, ParityUpdate::Md, &[1]), (5.0 + 3.0 * 6.0 + 2.0 * 5.0) / 6.0);
    // of two lost, averaged over all pairs: see handle_stripe_dirtying's cases in `ParityUpdate::Md`
    let pairs: Vec<[u16; 2]> = (0..6).flat_map(|a| (a + 1..6).map(move |b| [a, b])).collect();
    let mean = pairs.iter().map(|pair| cost(ArrayLevel::Raid6, 6, ParityUpdate::Md, pair)).sum::<f64>() / 15.0;
    near(mean, (3.0 * 4.0 + 12.0 * 6.0) / 15.0);
    // with all members there it makes no difference
    near(cost(ArrayLevel::Raid5, 3, ParityUpdate::Md, &[]), 3.0);
    near(cost(ArrayLevel::Raid6, 6, ParityUpdate::Md, &[]), cost(ArrayLevel::Raid6, 6, ParityUpdate::Fewest, &[]));
}

fn plan_with(level: ArrayLevel, members: u16, write_by: ParityUpdate, request: ArrayRequest) -> MemberIoPlan {
    let array = ArrayGeometry::new(&ArrayDescription::new(level, members, 1 << 20, 128)).expect("valid");
    let mut plan = MemberIoPlan::new();
    Planner::new(array, ArrayPolicy { write_by, ..ArrayPolicy::default() }).plan_request(request, &mut plan);
    plan
}

#[test]
fn textbook_factors_come_out_of_plans() {
    for level in ArrayLevel::ALL {
        for members in level.info().min_members.max(2)..=14 {
            if level == ArrayLevel::Raid01 && members % 2 == 1 {
                continue;
            }
            // a small write that reads what it overwrites, and a small read
            let write = plan_with(level, members, ParityUpdate::ReadModifyWrite, ArrayRequest::write(16, 8)).io_count();
            assert_eq!(write as f64, level.small_write_factor(members), "{level} of {members}");
            let read = plan_with(level, members, ParityUpdate::Fewest, ArrayRequest::read(16, 8)).io_count();
            assert_eq!(read as f64, level.read_factor(members), "{level} of {members}");
            // a write of whole rows reads nothing
            let array = ArrayGeometry::new(&ArrayDescription::new(level, members, 1 << 20, 128)).expect("valid");
            let row = array.row_blocks().min(1 << 20) as u32;
            let full = plan_with(level, members, ParityUpdate::Fewest, ArrayRequest::write(0, row));
            let factor = full.total_blocks() as f64 / f64::from(row);
            assert!(full.reads.is_empty() && full.writes_after_reads.is_empty(), "{level} of {members}");
            assert!((factor - level.full_stripe_factor(members)).abs() < 1e-9, "{level} of {members}: {factor}");
        }
    }
    let ios = |level, members, by| plan_with(level, members, by, ArrayRequest::write(0, 8)).io_count();
    assert_eq!(ios(ArrayLevel::Raid5, 8, ParityUpdate::Fewest), 4);
    assert_eq!(ios(ArrayLevel::Raid6, 8, ParityUpdate::Fewest), 6);
    assert_eq!(ios(ArrayLevel::Raid1, 2, ParityUpdate::Fewest), 2);
    // three members: reading the one other data unit is fewer
    assert_eq!(ios(ArrayLevel::Raid5, 3, ParityUpdate::Fewest), 3);
    assert_eq!(ios(ArrayLevel::Raid5, 8, ParityUpdate::Reconstruct), 6 + 2);
}

#[test]
fn plans_match_the_loads_of_document_002() {
    // W13, W14 and W17: plans of as many small reads and writes, over the members
    let load = |level, members: u16, reads: u64, writes: u64| {
        let array = ArrayGeometry::new(&ArrayDescription::new(level, members, 1 << 20, 128)).expect("valid");
        let policy = ArrayPolicy { write_by: ParityUpdate::ReadModifyWrite, ..ArrayPolicy::default() };
        let (mut planner, mut plan, mut rng) = (Planner::new(array, policy), MemberIoPlan::new(), Rng::new(2, 0));
        let mut ios = 0;
        for index in 0..reads + writes {
            let block = rng.next_below(planner.array().capacity_blocks() / 8) * 8;
            let request = ArrayRequest { write: index >= reads, ..ArrayRequest::read(block, 8) };
            planner.plan_request(request, &mut plan);
            ios += plan.io_count();
        }
        ios as f64 / f64::from(members)
    };
    assert_eq!(load(ArrayLevel::Raid5, 3, 126, 73).round(), 139.0);
    assert_eq!(load(ArrayLevel::Raid5, 10, 147, 117), 61.5);
    assert_eq!(load(ArrayLevel::Raid1, 2, 100, 50), 100.0);
}

#[test]
fn writes_choose_by_fewest_ios() {
    let unit = 128;
    let ios = |units: u32, by| {
        let plan = plan_with(ArrayLevel::Raid5, 8, by, ArrayRequest::write(0, units * unit));
        (plan.reads.len(), plan.writes.len(), plan.writes_after_reads.len())
    };
    // seven data units: writing u of them reads u + 1 (old data and parity), or 7 - u others
    for units in 1..=7 {
        let modify = units as usize + 1;
        let others = 7 - units as usize;
        let (reads, now, after) = ios(units, ParityUpdate::Fewest);
        assert_eq!(reads, modify.min(others), "{units}");
        assert_eq!(now + after, units as usize + 1);
        assert_eq!(now > 0, units == 7, "only the whole row waits for nothing");
    }
    // whatever the level and the request, no way takes fewer
    let mut rng = Rng::new(3, 1);
    for (level, members) in
        [(ArrayLevel::Raid4, 5), (ArrayLevel::Raid5, 6), (ArrayLevel::Raid6, 8), (ArrayLevel::Raid7, 11)]
    {
        for _ in 0..300 {
            let request = ArrayRequest::write(rng.next_below(4000), 1 + rng.next_below(1500) as u32);
            let ios = |by| plan_with(level, members, by, request).io_count();
            let min_ios = ios(ParityUpdate::ReadModifyWrite).min(ios(ParityUpdate::Reconstruct));
            assert!(ios(ParityUpdate::Fewest) <= min_ios, "{level} of {members}: {request:?}");
        }
    }
    assert_eq!(ios(5, ParityUpdate::ReadModifyWrite), (6, 0, 6));
    assert_eq!(ios(2, ParityUpdate::Reconstruct), (5, 0, 3));
    assert_eq!(ios(7, ParityUpdate::ReadModifyWrite), (0, 8, 0));
}

#[test]
fn parity_work_is_counted() {
    let work = |level, units: u32, by| plan_with(level, 8, by, ArrayRequest::write(0, units * 128)).work;
    // old data out and new data in: twice the blocks, for P and for Q
    assert_eq!(work(ArrayLevel::Raid5, 1, ParityUpdate::Fewest), ParityWork { xor_blocks: 256, gf_mul_blocks: 0 });
    assert_eq!(work(ArrayLevel::Raid6, 1, ParityUpdate::Fewest), ParityWork { xor_blocks: 256, gf_mul_blocks: 256 });
    // whole rows: k - 1 XORs, k multiplications
    assert_eq!(work(ArrayLevel::Raid5, 7, ParityUpdate::Fewest), ParityWork { xor_blocks: 6 * 128, gf_mul_blocks: 0 });
    assert_eq!(
        work(ArrayLevel::Raid6, 6, ParityUpdate::Fewest),
        ParityWork { xor_blocks: 5 * 128, gf_mul_blocks: 6 * 128 }
    );
    assert_eq!(
        work(ArrayLevel::Raid7, 5, ParityUpdate::Fewest),
        ParityWork { xor_blocks: 4 * 128, gf_mul_blocks: 10 * 128 }
    );
    assert_eq!(work(ArrayLevel::Raid10, 4, ParityUpdate::Fewest), ParityWork::default());
}

#[test]
fn long_requests_are_joined_to_one_io_a_member() {
    let raid0 = plan_with(ArrayLevel::Raid0, 4, ParityUpdate::Fewest, ArrayRequest::read(0, 16 * 128));
    assert_eq!(raid0.reads.len(), 4);
    assert!(raid0.reads.iter().all(|io| io.blocks == 4 * 128));
    let raid5 = plan_with(ArrayLevel::Raid5, 4, ParityUpdate::Fewest, ArrayRequest::write(0, 12 * 128));
    assert_eq!((raid5.writes.len(), raid5.total_blocks()), (4, 16 * 128));
    let array = ArrayGeometry::new(&ArrayDescription::new(ArrayLevel::Raid0, 4, 1 << 20, 128)).expect("valid");
    let mut plan = MemberIoPlan::new();
    Planner::new(array, ArrayPolicy { join_ios: false, ..ArrayPolicy::default() })
        .plan_request(ArrayRequest::read(0, 16 * 128), &mut plan);
    assert_eq!(plan.reads.len(), 16);
}

fn mirror_planner(members: u16, read_from: CopyChoice) -> Planner {
    let array = ArrayGeometry::new(&ArrayDescription::new(ArrayLevel::Raid1, members, 1 << 20, 0)).expect("valid");
    Planner::new(array, ArrayPolicy { read_from, ..ArrayPolicy::default() })
}

#[test]
fn mirrors_choose_their_copy() {
    let mut plan = MemberIoPlan::new();
    let mut members = |planner: &mut Planner, requests: &[(u64, u32)]| {
        let mut chosen = Vec::new();
        for (block, process_id) in requests {
            planner.plan_request(ArrayRequest { process_id: *process_id, ..ArrayRequest::read(*block, 8) }, &mut plan);
            chosen.push(plan.reads[0].member);
        }
        chosen
    };
    let same = [(0, 7); 4];
    assert_eq!(members(&mut mirror_planner(3, CopyChoice::RoundRobin), &same), [0, 1, 2, 0]);
    assert_eq!(members(&mut mirror_planner(2, CopyChoice::Primary), &same), [0, 0, 0, 0]);
    // btrfs: the process id modulo the copies
    assert_eq!(members(&mut mirror_planner(2, CopyChoice::Process), &[(0, 6), (0, 7), (5, 7), (9, 8)]), [0, 1, 1, 0]);
    let mut nearest = mirror_planner(2, CopyChoice::Nearest);
    nearest.set_arm_position(0, 1000);
    nearest.set_arm_position(1, 90_000);
    // each arm stays in its part
    assert_eq!(members(&mut nearest, &[(2000, 0), (80_000, 0), (1500, 0), (100_000, 0)]), [0, 1, 0, 1]);
    let mut busy = mirror_planner(2, CopyChoice::LeastBusy);
    busy.set_pending_ios(0, 3);
    busy.set_pending_ios(1, 2);
    assert_eq!(members(&mut busy, &[(0, 0)]), [1]);
    // failed members are skipped, whatever the policy
    for policy in [
        CopyChoice::RoundRobin,
        CopyChoice::Nearest,
        CopyChoice::IdleOrNearest,
        CopyChoice::Process,
        CopyChoice::Primary,
        CopyChoice::LeastBusy,
    ] {
        let mut planner = mirror_planner(3, policy);
        assert!(planner.set_state(ArrayState::with_failed([0, 2])));
        assert_eq!(members(&mut planner, &[(0, 0), (0, 1), (9, 2)]), [1, 1, 1], "{policy:?}");
    }
}

/// The steps of `read_balance` in drivers/md/raid1.c, Linux 6.1: sequential, idle, nearest.
#[test]
fn chooses_copies_as_md_does() {
    let mut plan = MemberIoPlan::new();
    let mut member = |planner: &mut Planner, block| {
        planner.plan_request(ArrayRequest::read(block, 8), &mut plan);
        plan.reads[0].member
    };
    let mut md = mirror_planner(2, CopyChoice::IdleOrNearest);
    md.set_arm_position(0, 1000);
    md.set_arm_position(1, 90_000);
    // both idle: the first, however far its arm is
    assert_eq!(member(&mut md, 80_000), 0);
    // a read that continues the last one stays, though another member is idle
    md.set_pending_ios(0, 1);
    assert_eq!(member(&mut md, 80_008), 0);
    // the idle one, though the other is nearer
    assert_eq!(member(&mut md, 2000), 1);
    // both busy: the nearer by what is done, not by what was sent
    md.set_pending_ios(1, 9);
    assert_eq!([member(&mut md, 2200), member(&mut md, 70_000), member(&mut md, 3000)], [0, 1, 0]);
    // striped mirrors go by idle and near alone (raid10.c)
    let description = ArrayDescription::new(ArrayLevel::Raid10, 2, 1 << 20, 128);
    let policy = ArrayPolicy { read_from: CopyChoice::IdleOrNearest, ..ArrayPolicy::default() };
    let mut md = Planner::new(ArrayGeometry::new(&description).expect("valid"), policy);
    md.set_pending_ios(0, 1);
    assert_eq!([member(&mut md, 64), member(&mut md, 72)], [1, 1]);
    md.set_pending_ios(1, 1);
    md.set_arm_position(1, 80);
    assert_eq!(member(&mut md, 8), 0);
}

#[test]
fn arms_chosen_by_distance_stay_in_their_halves() {
    // reads at random positions, two copies, the nearer arm serves: each arm stays in its half
    let mut planner = mirror_planner(2, CopyChoice::Nearest);
    let blocks = planner.array().capacity_blocks();
    let (mut plan, mut rng) = (MemberIoPlan::new(), Rng::new(12, 0));
    let (mut heads, mut way) = ([0u64; 2], 0.0);
    const READS: u32 = 200_000;
    for _ in 0..READS {
        planner.plan_request(ArrayRequest::read(rng.next_below(blocks), 1), &mut plan);
        let io = plan.reads[0];
        way += heads[usize::from(io.member)].abs_diff(io.block) as f64;
        heads[usize::from(io.member)] = io.block + 1;
    }
    let share = way / f64::from(READS) / blocks as f64;
    assert!((share - 0.162).abs() < 0.003 && share < nearest_arm(2), "{share}");
}

#[test]
fn a_spare_takes_the_place_of_a_member() {
    let mut spares = SparePool::new(4, 1);
    assert_eq!((spares.member_device(2), spares.spares_left()), (Some(2), 1));
    assert_eq!(spares.replace_member(2), Some(4));
    assert_eq!((spares.member_device(2), spares.member_device(3), spares.spares_left()), (Some(4), Some(3), 0));
    assert_eq!((spares.replace_member(1), spares.member_device(1)), (None, Some(1)));
    assert_eq!((spares.replace_member(9), spares.member_device(9)), (None, None));
    // 1 MB steps at 10 MB/s are 100 ms apart
    assert_eq!((pause_ns(1_000_000, 10e6), pause_ns(1_000_000, 0.0)), (100_000_000, 0));
}

#[test]
fn a_plan_is_a_buffer_to_be_used_again() {
    for level in ArrayLevel::ALL {
        let array = ArrayGeometry::new(&ArrayDescription::new(level, 8, 1 << 20, 64)).expect("valid");
        let max_block = array.capacity_blocks() - 4096;
        let (mut planner, mut plan, mut rng) =
            (Planner::new(array, ArrayPolicy::default()), MemberIoPlan::new(), Rng::new(4, 4));
        let mut rooms = Vec::new();
        for round in 0..2 {
            for _ in 0..3000 {
                let request = ArrayRequest::read(rng.next_below(max_block), 1 + rng.next_below(4096) as u32);
                planner.plan_request(ArrayRequest { write: rng.next_bool(0.5), ..request }, &mut plan);
            }
            let lists = [&plan.reads, &plan.writes, &plan.writes_after_reads];
            rooms.push(lists.map(|list| (list.as_ptr(), list.capacity())));
            // the second round has nothing larger than the first
            rng = Rng::new(4, 4);
            assert_eq!(rooms[0], rooms[round], "{level}");
        }
    }
}
