//! Sparklines: a value over time in one line of text.

/// Signs for eight heights, lowest first.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// The same in ASCII.
const ASCII_BLOCKS: [char; 8] = ['_', '.', '-', '~', '=', '+', '*', '#'];

/// Draws a sparkline of at most `columns`. `NaN` is a gap and shows as a blank.
/// The scale goes from 0 (or the smallest value, if that is lower) to the
/// largest of the values and `limit`, so that a value at half its limit has
/// half the height. Longer rows are averaged into columns.
pub fn sparkline(values: &[f64], limit: Option<f64>, columns: usize, unicode: bool) -> String {
    tall_sparkline(values, limit, (columns, 1), unicode).pop().unwrap_or_default()
}

/// Draws the same in several lines, the uppermost first: each has eight heights.
pub fn tall_sparkline(
    values: &[f64],
    limit: Option<f64>,
    (columns, lines): (usize, usize),
    unicode: bool,
) -> Vec<String> {
    let cells = average_columns(values, columns);
    let finite = || cells.iter().copied().filter(|v| v.is_finite());
    let bottom = finite().fold(0.0, f64::min);
    let top = finite().chain(limit.filter(|l| l.is_finite())).fold(0.0, f64::max);
    let signs = if unicode { BLOCKS } else { ASCII_BLOCKS };
    let heights = 8 * lines.max(1);
    let sign = |value: f64, line: usize| {
        if !value.is_finite() {
            return ' ';
        }
        let share = if top > bottom { (value - bottom) / (top - bottom) } else { 0.0 };
        let height = ((share * heights as f64) as usize).min(heights - 1) + 1;
        match height.saturating_sub(8 * line) {
            0 => ' ',
            above => signs[above.min(8) - 1],
        }
    };
    (0..lines).rev().map(|line| cells.iter().map(|&value| sign(value, line)).collect()).collect()
}

/// Averages neighbours so that at most `columns` values remain; fewer values are returned unchanged.
fn average_columns(values: &[f64], columns: usize) -> Vec<f64> {
    if values.len() <= columns {
        return values.to_vec();
    }
    let mean = |neighbours: &[f64]| {
        let (mut sum, mut count) = (0.0, 0.0);
        for value in neighbours.iter().filter(|v| v.is_finite()) {
            sum += value;
            count += 1.0;
        }
        // 0 / 0 is a gap
        sum / count
    };
    (0..columns).map(|c| mean(&values[c * values.len() / columns..(c + 1) * values.len() / columns])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scale_starts_at_zero_and_includes_the_limit() {
        assert_eq!(sparkline(&[0.0, 4.0, 8.0], None, 10, true), "▁▅█");
        assert_eq!(sparkline(&[1.0, 1.0], Some(8.0), 10, true), "▂▂");
        assert_eq!(sparkline(&[0.0, 4.0, 8.0], None, 10, false), "_=#");
        assert_eq!(sparkline(&[-8.0, 0.0], None, 10, true), "▁█");
    }

    #[test]
    fn several_lines_have_as_many_times_eight_heights() {
        let lines = |values: &[f64], lines: usize| tall_sparkline(values, Some(16.0), (9, lines), true);
        assert_eq!(lines(&[0.0, 7.0, 8.0, 12.0, 16.0, f64::NAN], 2), ["  ▁▅█ ", "▁████ "]);
        assert_eq!(tall_sparkline(&[1.0, 16.0], None, (9, 3), false), [" #", " #", ".#"]);
        assert!(lines(&[1.0], 0).is_empty());
    }

    #[test]
    fn all_zero_is_flat_and_gaps_are_blank() {
        assert_eq!(sparkline(&[0.0, f64::NAN, 0.0], None, 10, true), "▁ ▁");
        assert_eq!(sparkline(&[f64::NAN; 2], None, 10, true), "  ");
        assert_eq!(sparkline(&[], None, 10, true), "");
    }

    #[test]
    fn long_rows_are_averaged() {
        let values: Vec<f64> = (0..100).map(f64::from).collect();
        let line = sparkline(&values, None, 10, true);
        assert_eq!(line.chars().count(), 10);
        assert!(line.starts_with('▁') && line.ends_with('█'));
        let gap: Vec<f64> = (0..100).map(|i| if i < 50 { f64::NAN } else { 1.0 }).collect();
        assert_eq!(sparkline(&gap, None, 4, true), "  ██");
    }
}
