//! The grid of systems for the comparison of analysis and simulation: levels 0, 1, 5, 6 and 10, 2 to 14 members (as
//! many as the level needs), three drives, 1, 4, 16 and 64 users without think time, and 0, 50, 70 and 100 % reads of 4
//! KiB at random positions. Of these 2976 systems, the first 500 of a shuffle with a fixed seed; they were chosen
//! without looking at errors.

use diskwright_base::Rng;
use diskwright_simulator::ArrayLevel;
use diskwright_simulator::DeviceModel;
use diskwright_simulator::Ns;
use diskwright_simulator::catalogue::{self, CatalogueEntry};
use diskwright_simulator::load::{ClosedSpec, LoadSpec, OperationClass, OperationTransfer};
use diskwright_simulator::system::{ArraySpec, DriveGroupSpec, System, WatchSpec, Workload, WorkloadTarget};

/// Systems of the grid.
pub const SYSTEMS: usize = 500;

const SECOND: Ns = 1_000_000_000;

/// One system.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Level.
    pub level: ArrayLevel,
    /// Members.
    pub members: u16,
    /// Id of the drive.
    pub drive: String,
    /// Users.
    pub users: u32,
    /// Share of reads.
    pub read_share: f64,
}

/// A point and its simulated result.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The system.
    pub point: Point,
    /// Requests a second.
    pub throughput_per_s: f64,
    /// Mean response, s.
    pub response_s: f64,
}

/// The three drives.
pub fn drives() -> Vec<CatalogueEntry> {
    catalogue::read("grid/drives.toml", include_str!("../../grid/drives.toml")).expect("a good file")
}

/// All systems, in order.
pub fn all() -> Vec<Point> {
    let mut all = Vec::new();
    for level in [ArrayLevel::Raid0, ArrayLevel::Raid1, ArrayLevel::Raid5, ArrayLevel::Raid6, ArrayLevel::Raid10] {
        for members in level.info().min_members.max(2)..=14 {
            for drive in ["hdd-1996", "hdd-2020", "ssd-2015"] {
                for users in [1, 4, 16, 64] {
                    for read_share in [0.0, 0.5, 0.7, 1.0] {
                        all.push(Point { level, members, drive: drive.into(), users, read_share });
                    }
                }
            }
        }
    }
    all
}

/// The systems of the grid, and the others.
pub fn split() -> (Vec<Point>, Vec<Point>) {
    let all = all();
    let mut order: Vec<usize> = (0..all.len()).collect();
    let mut rng = Rng::new(5, 500);
    for index in (1..order.len()).rev() {
        order.swap(index, rng.next_below(index as u64 + 1) as usize);
    }
    let (grid, others) = order.split_at_mut(SYSTEMS);
    grid.sort_unstable();
    others.sort_unstable();
    (grid.iter().map(|index| all[*index].clone()).collect(), others.iter().map(|index| all[*index].clone()).collect())
}

/// The system of a point.
pub fn system(point: &Point, drives: &[(String, DeviceModel)]) -> System {
    let (_, device) = drives.iter().find(|(id, _)| *id == point.drive).expect("one of the three");
    let mut group = DriveGroupSpec::new("drive", point.members.into(), device.clone());
    let mut watch = WatchSpec { seed: 5, warm_up: SECOND, duration: 3 * SECOND, interval: SECOND };
    if let DeviceModel::Mechanical(model) = device {
        (group.order, group.depth) = (model.queue_policy(), model.queue_slots());
        watch = WatchSpec { warm_up: 60 * SECOND, duration: 600 * SECOND, interval: 60 * SECOND, ..watch };
    }
    let transfer = OperationTransfer { read_share: point.read_share, ..OperationTransfer::default() };
    let classes = vec![OperationClass::with_transfer("io", 1.0, transfer)];
    let load = LoadSpec::Closed(ClosedSpec { users: point.users, classes, ..ClosedSpec::default() });
    System {
        watch,
        drives: vec![group],
        arrays: vec![ArraySpec::new("set", point.level, (0..point.members.into()).collect())],
        workloads: vec![Workload { name: "users".into(), targets: vec![WorkloadTarget::Array(0)], load }],
        ..System::new("grid")
    }
}

/// The drives, ready for [`system`].
pub fn devices() -> Vec<(String, DeviceModel)> {
    drives().iter().map(|entry| (entry.id.clone(), entry.build_device().expect("possible"))).collect()
}

/// Line of the file.
pub fn line(row: &Row) -> String {
    let Point { level, members, drive, users, read_share } = &row.point;
    format!("{level},{members},{drive},{users},{read_share},{:.3},{:.6e}", row.throughput_per_s, row.response_s)
}

/// The simulated results of the grid.
pub fn simulated() -> Vec<Row> {
    let mut lines = include_str!("../../grid/grid.csv").lines();
    assert_eq!(lines.next(), Some(HEADING));
    lines.map(|line| parse_row(line).unwrap_or_else(|| panic!("a bad line: {line}"))).collect()
}

fn parse_row(line: &str) -> Option<Row> {
    let fields: Vec<&str> = line.split(',').collect();
    let [level, members, drive, users, read_share, throughput, response] = fields[..] else { return None };
    let point = Point {
        level: ArrayLevel::ALL.into_iter().find(|found| found.to_string() == level)?,
        members: members.parse().ok()?,
        drive: drive.to_owned(),
        users: users.parse().ok()?,
        read_share: read_share.parse().ok()?,
    };
    Some(Row { point, throughput_per_s: throughput.parse().ok()?, response_s: response.parse().ok()? })
}

/// Heading of the file.
pub const HEADING: &str = "level,members,drive,users,read_share,throughput_per_s,response_s";
