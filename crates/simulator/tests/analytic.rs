//! Times and systems that are reckoned, against the same simulated.

use std::sync::Arc;

use diskwright_base::Dice;
use diskwright_simulator::analytic::{Asked, at_depth, mechanical};
use diskwright_simulator::catalogue;
use diskwright_simulator::device::Device;
use diskwright_simulator::drive::{
    Access, CacheSpec, ChannelSpec, Drive, Model, Order, Overheads, Policy, Queue, Seek, Sparing, Spec, ZoneSpec,
};
use diskwright_simulator::io::Io;

/// Mean time of a request, s, where always so many wait at a drive.
fn simulated(model: &Arc<Model>, asked: &Asked, requests: u32) -> f64 {
    let blocks = asked.blocks as u32;
    let (mut drive, mut queue, mut dice) = (Drive::new(model), Queue::new(asked.order), Dice::new(3, 0));
    let places = asked.used_blocks / u64::from(blocks);
    let (mut now, mut start) = (0, 0);
    for request in 0..requests + requests / 5 {
        if request == requests / 5 {
            start = now;
        }
        while queue.len() < asked.depth as usize {
            let first = dice.below(places) * u64::from(blocks);
            queue.push(&drive, Io { first, blocks, write: dice.chance(asked.write_share) }, ());
        }
        let Some((io, ())) = queue.next(now, &drive) else { break };
        now = drive.start(now, &io).done;
    }
    (now - start) as f64 * 1e-9 / f64::from(requests)
}

fn catalogued(id: &str) -> Arc<Model> {
    let device = catalogue::find(id).expect("in the catalogue").device().expect("possible");
    let Device::Mechanical(model) = device else { panic!("{id} is no mechanical drive") };
    model
}

/// What is reckoned over what is simulated, less 1.
fn error(model: &Arc<Model>, asked: &Asked) -> f64 {
    let served = mechanical(model, asked);
    let costs = if asked.write_share > 0.5 { &served.write } else { &served.read };
    at_depth(costs, f64::from(asked.depth)).hold_s / simulated(model, asked, 12_000) - 1.0
}

#[test]
fn a_drive_by_itself_is_reckoned_within_two_percent() {
    let model = catalogued("st32171w");
    for write_share in [0.0, 1.0] {
        for (blocks, used) in [(8.0, 1.0), (1.0, 1.0), (16.0, 0.1), (128.0, 1.0), (8.0, 0.02)] {
            let used_blocks = (model.blocks() as f64 * used) as u64;
            let asked = Asked { blocks, used_blocks, write_share, order: Policy::FirstCome, depth: 1 };
            let error = error(&model, &asked);
            assert!(error.abs() < 0.02, "{write_share} {blocks} {used}: {error}");
        }
    }
}

#[test]
fn a_queue_is_reckoned_within_four_percent() {
    let model = catalogued("st32171w");
    for order in Policy::ALL {
        for depth in [2, 4, 8, 16, 32, 64] {
            let used_blocks = model.blocks();
            let asked = Asked { blocks: 8.0, used_blocks, write_share: 0.0, order, depth };
            let error = error(&model, &asked);
            assert!(error.abs() < 0.04, "{} {depth}: {error}", order.name());
        }
    }
}

/// By hand: seeks of 2 ms, a turn of 10 ms, ten sectors on a track, half a
/// millisecond of command.
#[test]
fn a_drive_by_hand() {
    let zone = ZoneSpec {
        first_cylinder: 0,
        last_cylinder: 9999,
        sectors: 10,
        offset: 0.0,
        track_skew: 0.0,
        cylinder_skew: 0.0,
        empty: 0,
        spares: 0,
        slips: Vec::new(),
        defects: Vec::new(),
    };
    let spec = Spec {
        name: "by hand".into(),
        surfaces: 1,
        cylinders: 10_000,
        rpm: 6000.0,
        order: Order::Up,
        sparing: Sparing::None,
        zones: vec![zone],
        seek: Seek::Constant(2.0),
        head_switch: 0,
        write_settle: 0,
        access: Access::Exact,
        overheads: Overheads { read_miss: [500_000; 2], ..Overheads::default() },
        cache: CacheSpec::none(),
        channel: ChannelSpec::default(),
        policy: Policy::FirstCome,
        slots: 1,
    };
    let model = Model::new(&spec).expect("possible");
    let used_blocks = model.blocks();
    let asked = Asked { blocks: 1.0, used_blocks, write_share: 0.0, order: Policy::FirstCome, depth: 1 };
    let read = mechanical(&model, &asked).read[0];
    // 0.5 command, 2 arm, 5 half a turn, 1 the sector; the arm's time does not vary but at distance 0
    assert!((read.hold_s * 1e3 - 8.5).abs() < 0.05, "{read:?}");
    assert!((read.variance_s2.sqrt() * 1e3 - 10.0 / 12f64.sqrt()).abs() < 0.05, "{read:?}");
    assert_eq!((read.after_s, read.seen_s()), (0.0, read.hold_s));
    // of very many, one is always just there: the command, the arm and the sector
    let asked = Asked { order: Policy::ShortestPositioning, depth: 256, ..asked };
    let least = mechanical(&model, &asked).read[8].hold_s * 1e3;
    assert!(least > 3.5 && least < 3.9, "{least}");
}
