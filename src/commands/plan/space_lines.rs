//! Where the space in use is from, as text.

use diskwright_base::byte_size::ByteSize;
use diskwright_planner::Demand;
use diskwright_planner::series::space::{FilesystemSpace, SpaceSource, SpaceSummary};

/// Filesystems that are named.
const MAX_NAMED: usize = 4;

/// Describes the space that designs must hold, its origin, its growth, and what does not count.
pub fn describe_space(demand: &Demand, space: &SpaceSummary) -> Vec<String> {
    let mut lines = vec![describe_capacity(demand, space)];
    if !space.left_out.is_empty() {
        let reasons: Vec<String> = space.left_out.iter().take(MAX_NAMED).map(describe_left_out).collect();
        lines.push(format!("not counted: {}{}", reasons.join(", "), more_text(space.left_out.len())));
    }
    lines
}

/// What follows the names of the first of several.
fn more_text(count: usize) -> String {
    match count.saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!(", and {more} more"),
    }
}

fn describe_left_out(filesystem: &FilesystemSpace) -> String {
    let because = filesystem.because.unwrap_or_default();
    format!("{} with {} ({because})", filesystem.mount, ByteSize::capacity(filesystem.used_bytes))
}

fn describe_capacity(demand: &Demand, space: &SpaceSummary) -> String {
    let Some(bytes) = demand.capacity_bytes else { return "space in use: no data; give --capacity".into() };
    let growth = demand.growth.map_or(String::new(), |growth| {
        let interval = growth.interval_bytes_per_day.map_or(String::new(), |(low, high)| {
            format!(" (95 %: {} to {})", ByteSize::capacity(low), ByteSize::capacity(high))
        });
        format!(", growing by {} per day{interval}", ByteSize::capacity(growth.bytes_per_day))
    });
    let measured = || {
        let (used, total) = space.used_bytes.zip(space.total_bytes)?;
        let named: Vec<&str> = space.filesystems.iter().take(MAX_NAMED).map(|f| f.mount.as_str()).collect();
        let more = more_text(space.filesystems.len());
        let (used, total) = (ByteSize::capacity(used), ByteSize::capacity(total));
        Some(format!("{used} of {total} on {}{more}", named.join(", ")))
    };
    match (space.source, measured()) {
        (Some(SpaceSource::Given), Some(measured)) => {
            format!("space: {} as given (--capacity){growth}; in use: {measured}", ByteSize::capacity(bytes))
        }
        (Some(SpaceSource::Host), Some(measured)) => {
            format!("space in use (`df` on this machine now): {measured}{growth}")
        }
        (Some(SpaceSource::Log), Some(measured)) => format!("space in use (from the log): {measured}{growth}"),
        _ => format!("space: {} as given (--capacity){growth}", ByteSize::capacity(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_origin_of_the_space_is_shown() {
        let demand = Demand { capacity_bytes: Some(5e9), ..Demand::from_rates(1.0, 1.0, 4096.0) };
        let filesystem = |mount: &str, because| FilesystemSpace {
            mount: mount.into(),
            total_bytes: 10e9,
            used_bytes: 5e9,
            because,
            ..FilesystemSpace::default()
        };
        let space = SpaceSummary {
            source: Some(SpaceSource::Log),
            used_bytes: Some(5e9),
            total_bytes: Some(10e9),
            filesystems: vec![filesystem("/data", None)],
            left_out: vec![filesystem("/backup", Some("on another disk (--device)"))],
            ..SpaceSummary::default()
        };
        let lines = describe_space(&demand, &space);
        assert_eq!(lines[0], "space in use (from the log): 5 GB of 10 GB on /data");
        assert_eq!(lines[1], "not counted: /backup with 5 GB (on another disk (--device))");
        let given = SpaceSummary { source: Some(SpaceSource::Given), ..space.clone() };
        let needs = Demand { capacity_bytes: Some(36e9), ..demand.clone() };
        assert_eq!(
            describe_space(&needs, &given)[0],
            "space: 36 GB as given (--capacity); in use: 5 GB of 10 GB on /data"
        );
        let host = SpaceSummary { source: Some(SpaceSource::Host), ..space };
        assert!(describe_space(&demand, &host)[0].contains("(`df` on this machine now): 5 GB of 10 GB"));
        let unknown = Demand { capacity_bytes: None, ..demand };
        assert!(describe_space(&unknown, &SpaceSummary::default())[0].contains("give --capacity"));
    }
}
