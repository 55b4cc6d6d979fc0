//! Layout of the screen in rows. Every part has a minimum size; further rows go to the devices first, then to the
//! processes.

/// Width of a device's history, columns.
pub(super) const HISTORY_COLUMNS: usize = 16;
/// Rows of the timeline: title, values, marks, times.
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
    /// First row of the timeline.
    pub timeline: u16,
}

/// Rows above the devices: title, verdict, evidence, advice.
pub(super) const HEADER_ROWS: u16 = 4;

/// Divides a screen of `rows` rows, of which the first `top` are taken, among devices, strips and processes.
pub(super) fn divide_rows(rows: u16, top: u16, devices: usize, strips: usize, processes: usize) -> ScreenLayout {
    let to_rows = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
    // rows left after the top, the heading and one row of devices, the timeline, and the footer
    let mut free = rows.saturating_sub(top + 2 + TIMELINE_ROWS + 1);
    let mut take = |max_rows: u16| {
        let taken = max_rows.min(free);
        free -= taken;
        taken
    };
    let strip_rows = take(to_rows(strips));
    let heading = take(1);
    let mut process_rows = if heading > 0 { take(to_rows(processes).min(5)) } else { 0 };
    let device_rows = 1 + take(to_rows(devices).saturating_sub(1));
    process_rows += take(to_rows(processes).saturating_sub(process_rows));
    let strips = top + 1 + device_rows;
    let processes = strips + strip_rows;
    ScreenLayout {
        devices: top,
        device_rows,
        strips,
        strip_rows,
        processes,
        process_rows,
        timeline: rows.saturating_sub(TIMELINE_ROWS + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_usual_terminal_has_room_for_all() {
        let found = divide_rows(24, HEADER_ROWS, 5, 3, 40);
        assert_eq!((found.device_rows, found.strip_rows, found.process_rows, found.timeline), (5, 3, 5, 19));
        assert!(found.processes + 1 + found.process_rows <= found.timeline);
    }

    #[test]
    fn a_small_one_keeps_the_verdict_a_device_and_the_time_line() {
        let found = divide_rows(11, HEADER_ROWS, 9, 3, 40);
        assert_eq!((found.device_rows, found.strip_rows, found.process_rows, found.timeline), (1, 0, 0, 6));
    }

    #[test]
    fn nothing_lies_over_the_time_line() {
        for rows in 11..200 {
            for devices in [0, 1, 24, 1000] {
                let found = divide_rows(rows, HEADER_ROWS, devices, 3, 500);
                assert!(found.processes + found.process_rows <= found.timeline, "{rows} {devices} {found:?}");
            }
        }
    }
}
