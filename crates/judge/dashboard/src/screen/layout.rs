//! Layout of the screen in rows. Every part has a minimum size; further rows go to the devices first, then to what to
//! do and to the processes, and what is left to the timeline.

/// Width of a device's history, columns.
pub(super) const HISTORY_COLUMNS: usize = 16;
/// Smallest number of rows of the timeline: title, values, marks, times.
pub(super) const TIMELINE_ROWS: u16 = 4;

/// Layout, in rows from the top.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ScreenLayout {
    /// Heading row of the table of devices.
    pub devices: u16,
    /// Rows of devices without the heading.
    pub device_rows: u16,
    /// First row of the strips.
    pub strips: u16,
    /// Rows of strips that are shown.
    pub strip_rows: u16,
    /// Heading row of the table of processes.
    pub processes: u16,
    /// Rows of processes without the heading; 0 omits the heading too.
    pub process_rows: u16,
    /// First row of what to do and of the evidence.
    pub details: u16,
    /// Rows of these, with their headings.
    pub detail_rows: u16,
    /// First row of the timeline.
    pub timeline: u16,
    /// Rows of the timeline; more than [`TIMELINE_ROWS`] make its values taller.
    pub timeline_rows: u16,
}

/// Rows of processes that come before the rows of further devices.
const MIN_PROCESS_ROWS: u16 = 5;
/// Fewer rows than these say nothing of what to do: a heading, words and a command.
const MIN_DETAIL_ROWS: u16 = 3;

/// Rows above the devices: title, verdict, evidence, advice.
pub(super) const HEADER_ROWS: u16 = 4;

/// Rows that the parts of the screen can use, without their headings.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RowDemand {
    pub devices: usize,
    pub strips: usize,
    pub processes: usize,
    /// With their headings.
    pub details: usize,
}

/// Divides a screen of `rows` rows, of which the first `top` are taken. No row stays blank: what no other part needs
/// makes the timeline taller.
pub(super) fn divide_rows(rows: u16, top: u16, demand: RowDemand) -> ScreenLayout {
    let to_rows = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
    // rows left after the top, the heading and one row of devices, the timeline, and the footer
    let mut free = rows.saturating_sub(top + 2 + TIMELINE_ROWS + 1);
    let processes = to_rows(demand.processes);
    let strip_rows = take_rows(&mut free, to_rows(demand.strips));
    // a heading alone says nothing
    let heading = if processes > 0 && free > 1 { take_rows(&mut free, 1) } else { 0 };
    let mut process_rows = if heading > 0 { take_rows(&mut free, processes.min(MIN_PROCESS_ROWS)) } else { 0 };
    let device_rows = 1 + take_rows(&mut free, to_rows(demand.devices).saturating_sub(1));
    // what to do comes before the processes that do less
    let half = to_rows(demand.details).min(free / 2);
    let mut detail_rows = if half < MIN_DETAIL_ROWS { 0 } else { take_rows(&mut free, half) };
    process_rows += if heading > 0 { take_rows(&mut free, processes.saturating_sub(process_rows)) } else { 0 };
    let rest = to_rows(demand.details).saturating_sub(detail_rows).min(free);
    if detail_rows + rest >= MIN_DETAIL_ROWS.min(to_rows(demand.details)) {
        detail_rows += take_rows(&mut free, rest);
    }
    let strips = top + 1 + device_rows;
    let processes = strips + strip_rows;
    ScreenLayout {
        devices: top,
        device_rows,
        strips,
        strip_rows,
        processes,
        process_rows,
        details: processes + if process_rows > 0 { 1 + process_rows } else { 0 },
        detail_rows,
        timeline: rows.saturating_sub(TIMELINE_ROWS + free + 1),
        timeline_rows: TIMELINE_ROWS + free,
    }
}

/// Takes at most this many of the free rows.
fn take_rows(free: &mut u16, max_rows: u16) -> u16 {
    let taken = max_rows.min(*free);
    *free -= taken;
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(devices: usize, processes: usize, details: usize) -> RowDemand {
        RowDemand { devices, strips: 3, processes, details }
    }

    #[test]
    fn a_usual_terminal_has_room_for_all() {
        let found = divide_rows(24, HEADER_ROWS, demand(5, 40, 30));
        assert_eq!((found.device_rows, found.strip_rows, found.process_rows, found.timeline), (5, 3, 5, 19));
        assert!(found.processes + 1 + found.process_rows <= found.timeline);
    }

    #[test]
    fn a_small_one_keeps_the_verdict_a_device_and_the_time_line() {
        let found = divide_rows(11, HEADER_ROWS, demand(9, 40, 30));
        assert_eq!((found.device_rows, found.strip_rows, found.process_rows, found.timeline), (1, 0, 0, 6));
    }

    #[test]
    fn nothing_lies_over_the_time_line_and_no_row_stays_blank() {
        for rows in 11..200 {
            for devices in [0, 1, 24, 1000] {
                for (processes, details) in [(500, 0), (500, 40), (3, 40), (0, 40), (0, 0), (12, 2)] {
                    let found = divide_rows(rows, HEADER_ROWS, demand(devices, processes, details));
                    let used = found.details + found.detail_rows;
                    assert_eq!(found.timeline + found.timeline_rows + 1, rows, "{found:?}");
                    assert_eq!(used, found.timeline, "{rows} {devices} {processes} {found:?}");
                }
            }
        }
    }

    #[test]
    fn a_large_one_shows_what_to_do_beside_many_processes() {
        let found = divide_rows(50, HEADER_ROWS, demand(2, 100, 12));
        assert_eq!((found.detail_rows, found.timeline_rows), (12, TIMELINE_ROWS));
        let few = divide_rows(50, HEADER_ROWS, demand(2, 6, 12));
        assert_eq!((few.process_rows, few.detail_rows, few.timeline_rows > 10), (6, 12, true));
    }
}
