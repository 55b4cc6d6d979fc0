//! Latency over time as a map of characters: columns are times, rows are doublings of latency. The more requests fell
//! into a cell, the denser it is drawn (on a logarithmic scale, because the few slow requests matter most).

use diskwright_base::units;
use diskwright_blocktrace::HeatMap;
use diskwright_blocktrace::latency::MIN_LATENCY_BITS;
use diskwright_blocktrace::summary::HEAT_ROWS;
use diskwright_report::{Ink, Style};

/// Shades by density, for Unicode and ASCII.
const UNICODE_SHADES: [&str; 5] = ["·", "░", "▒", "▓", "█"];
const ASCII_SHADES: [&str; 5] = [".", ":", "+", "#", "@"];
/// Width of the row labels, columns.
const LABEL_COLUMNS: usize = 10;

/// Counts requests by column and row, summed over several maps, for a range of time. Requests outside the range fall
/// into the first or the last column.
pub fn count_cells(maps: &[&HeatMap], from_ns: u64, to_ns: u64, columns: usize) -> Vec<[u64; HEAT_ROWS]> {
    let mut cells = vec![[0; HEAT_ROWS]; columns.max(1)];
    let width = (to_ns.saturating_sub(from_ns)).max(1) as f64 / cells.len() as f64;
    for map in maps {
        for (index, column) in map.columns().iter().enumerate() {
            let middle = (index as f64 + 0.5) * map.column_ns as f64 + map.from_ns.saturating_sub(from_ns) as f64;
            let cell = ((middle / width) as usize).min(cells.len() - 1);
            for (row, count) in column.iter().enumerate() {
                cells[cell][row] += u64::from(*count);
            }
        }
    }
    cells
}

/// Draws the map as lines; empty if nothing was counted.
pub fn draw_heat_map(maps: &[&HeatMap], from_ns: u64, to_ns: u64, style: &Style) -> String {
    let max_columns = style.width.saturating_sub(LABEL_COLUMNS + 3).max(10);
    // at most as many columns as there were intervals: empty ones between would look like stalls
    let longest_interval = maps.iter().map(|map| map.column_ns).max().unwrap_or(1);
    let intervals = (to_ns.saturating_sub(from_ns)).div_ceil(longest_interval).max(1) as usize;
    let cells = count_cells(maps, from_ns, to_ns, max_columns.min(intervals));
    let rows = || (0..HEAT_ROWS).filter(|row| cells.iter().any(|column| column[*row] > 0));
    let (Some(first), Some(last)) = (rows().next(), rows().next_back()) else { return String::new() };
    let densest = cells.iter().flatten().copied().max().unwrap_or(1);
    let mut out = String::new();
    for row in (first..=last).rev() {
        let line: String = cells.iter().map(|column| density_sign(column[row], densest, style)).collect();
        out.push_str(&format!("{:>LABEL_COLUMNS$} {}{}\n", row_label(row), style.glyph("│", "|"), line.trim_end()));
    }
    let seconds = units::format_value((to_ns.saturating_sub(from_ns)) as f64 / 1e9, "s");
    let line = style.glyph("─", "-").repeat(cells.len());
    out.push_str(&format!("{:LABEL_COLUMNS$} {}{line} {seconds}\n", "", style.glyph("└", "+")));
    style.paint(Ink::Line(0), &out)
}

fn density_sign(count: u64, densest: u64, style: &Style) -> &'static str {
    if count == 0 {
        return " ";
    }
    let signs = if style.unicode { UNICODE_SHADES } else { ASCII_SHADES };
    let share = (count as f64).ln_1p() / (densest as f64).ln_1p();
    signs[((share * signs.len() as f64) as usize).min(signs.len() - 1)]
}

/// Label of a row: its lower edge.
pub fn row_label(row: usize) -> String {
    if row == 0 {
        // 2^MIN_LATENCY_BITS ns, rounded so that the label fits its columns.
        return "below 1 us".into();
    }
    units::format_value((1u64 << (row as u32 - 1 + MIN_LATENCY_BITS)) as f64 * 1e-9, "s")
}

#[cfg(test)]
mod tests {
    use super::*;
    use diskwright_blocktrace::summary::heat_row;

    #[test]
    fn shows_a_stall_and_a_slow_group() {
        let second = 1_000_000_000;
        let mut map = HeatMap::new(0, second);
        for n in (0..10).filter(|n| *n != 4) {
            map.add_requests(n * second, heat_row(100_000), 1000);
            map.add_requests(n * second, heat_row(20_000_000), 3);
        }
        let text = draw_heat_map(&[&map], 0, 10 * second, &Style::plain(80));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "   16.8 ms │░░░░ ░░░░░");
        assert_eq!(lines[lines.len() - 2], "   65.5 us │████ █████");
        assert!(lines[1..lines.len() - 2].iter().all(|line| line.ends_with('│')), "{text}");
        assert!(draw_heat_map(&[], 0, second, &Style::plain(80)).is_empty());
        assert!(draw_heat_map(&[&HeatMap::new(0, 1)], 0, second, &Style::plain(80)).is_empty());
    }
}
