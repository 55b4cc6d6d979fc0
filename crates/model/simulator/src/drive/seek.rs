//! Seek time by distance, in all the forms in which it is published.

use super::SpecError;

/// Seek time by distance. Distances are cylinders, times milliseconds, as published.
#[derive(Clone, Debug, PartialEq)]
pub enum SeekCurve {
    /// A constant time.
    Constant(f64),
    /// Straight lines through three points: one cylinder, a third of the stroke, the full stroke.
    Line {
        /// One cylinder.
        one: f64,
        /// The average of random seeks, taken as a third of the stroke.
        average: f64,
        /// The full stroke.
        full: f64,
    },
    /// Lee's curve through the same three points: `a sqrt(d-1) + b (d-1) + c`.
    Curve {
        /// One cylinder.
        one: f64,
        /// The average of random seeks.
        average: f64,
        /// The full stroke.
        full: f64,
    },
    /// Ruemmler and Wilkes (1994): a root for short seeks and a line for long ones.
    RootAndLine(RootAndLine),
    /// Measured points with linear interpolation.
    Table(Vec<(u32, f64)>),
}

/// `short_ms + root_ms sqrt(d)` below `long_from_cylinders`, `long_ms + slope_ms d` from there on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RootAndLine {
    /// Shortest long seek, cylinders.
    pub long_from_cylinders: f64,
    /// Constant of short seeks, ms.
    pub short_ms: f64,
    /// Factor of the root, ms.
    pub root_ms: f64,
    /// Constant of long seeks, ms.
    pub long_ms: f64,
    /// Time per cylinder of long seeks, ms.
    pub slope_ms: f64,
    /// Measured seeks of one cylinder, two, three and so on, ms; may be empty.
    pub measured_ms: Vec<f64>,
}

impl SeekCurve {
    /// Builds the table of seek times for each distance from 0 to `cylinders - 1`, ns.
    ///
    /// # Errors
    /// If a time is below 0 or above 4 s, or a table is empty.
    pub fn build_table(&self, cylinders: u32) -> Result<Vec<u32>, SpecError> {
        if let SeekCurve::Table(points) = self
            && points.is_empty()
        {
            return Err(SpecError { item: "seek curve".into(), reason: "no point; at least one is needed".into() });
        }
        let mut times = Vec::with_capacity(cylinders as usize);
        times.push(0);
        let mut index = 0;
        for distance in 1..cylinders {
            let ms = match self {
                SeekCurve::Table(points) => {
                    while index + 2 < points.len() && points[index + 1].0 <= distance {
                        index += 1;
                    }
                    interpolate(points, index, distance)
                }
                other => other.seek_time_ms(distance, cylinders),
            };
            if !(0.0..=4000.0).contains(&ms) {
                let reason = format!("{ms} ms for {distance} cylinders; expected 0 to 4000");
                return Err(SpecError { item: "seek curve".into(), reason });
            }
            times.push((ms * 1e6).round() as u32);
        }
        Ok(times)
    }

    /// Time of a seek of at least one cylinder, ms; for [`SeekCurve::Table`] see [`SeekCurve::build_table`].
    fn seek_time_ms(&self, distance: u32, cylinders: u32) -> f64 {
        let (d, stroke) = (f64::from(distance), f64::from(cylinders));
        match self {
            SeekCurve::Constant(ms) => *ms,
            SeekCurve::Line { one, average, full } => {
                let third = stroke / 3.0;
                if d <= third {
                    one + (average - one) * (d - 1.0) / (third - 1.0).max(1.0)
                } else {
                    average + (full - average) * (d - third) / (stroke - third).max(1.0)
                }
            }
            // Lee and Katz (1993), as given in DiskSim's manual, "Lee's Seek Equation"
            SeekCurve::Curve { one, average, full } => {
                let a = (15.0 * average - 10.0 * one - 5.0 * full) / (3.0 * stroke.sqrt());
                let b = (7.0 * one - 15.0 * average + 8.0 * full) / (3.0 * stroke);
                a * (d - 1.0).sqrt() + b * (d - 1.0) + one
            }
            SeekCurve::RootAndLine(seek) => match seek.measured_ms.get(distance as usize - 1) {
                Some(ms) => *ms,
                None if d < seek.long_from_cylinders => seek.short_ms + seek.root_ms * d.sqrt(),
                None => seek.long_ms + seek.slope_ms * d,
            },
            SeekCurve::Table(_) => f64::NAN,
        }
    }
}

/// Interpolates linearly between the points at and after `index`, and extrapolates beyond the last two. Before the
/// first point the time is constant.
fn interpolate(points: &[(u32, f64)], index: usize, distance: u32) -> f64 {
    let (d0, t0) = points[index];
    match points.get(index + 1) {
        Some(&(d1, t1)) if distance > d0 => t0 + (t1 - t0) * f64::from(distance - d0) / f64::from(d1 - d0),
        _ => t0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_straight_between_its_points_and_beyond() {
        let seek = SeekCurve::Table(vec![(1, 1.2), (2, 1.5), (5, 4.5), (10, 9.5)]);
        let times = seek.build_table(13).expect("possible");
        assert_eq!(times[..3], [0, 1_200_000, 1_500_000]);
        assert_eq!(times[3], 2_500_000);
        assert_eq!(times[7], 6_500_000);
        assert_eq!(times[12], 11_500_000);
    }

    #[test]
    fn lees_curve_meets_its_points() {
        let seek = SeekCurve::Curve { one: 2.0, average: 8.0, full: 16.0 };
        let times = seek.build_table(9001).expect("possible");
        assert_eq!(times[1], 2_000_000);
        // at the full stroke the two fractions add up to (full - one)
        assert!((f64::from(times[9000]) / 1e6 - 16.0).abs() < 0.01, "{}", times[9000]);
    }

    /// simulation.md: HP 97560, 3.45 + 0.597 sqrt(d) below 616 cylinders, 10.84 + 0.012 d above.
    #[test]
    fn root_and_line_agrees_with_the_published_curve() {
        let parts = RootAndLine {
            long_from_cylinders: 616.0,
            short_ms: 3.45,
            root_ms: 0.597,
            long_ms: 10.84,
            slope_ms: 0.012,
            measured_ms: vec![2.5],
        };
        let times = SeekCurve::RootAndLine(parts).build_table(2000).expect("possible");
        assert_eq!(times[1], 2_500_000);
        assert_eq!(times[100], 9_420_000);
        assert_eq!(times[1000], 22_840_000);
    }

    #[test]
    fn a_line_meets_its_three_points() {
        let times = SeekCurve::Line { one: 1.0, average: 5.0, full: 9.0 }.build_table(301).expect("possible");
        assert_eq!(times[1], 1_000_000);
        assert!((f64::from(times[100]) - 5e6).abs() < 2e4 && (f64::from(times[300]) - 9e6).abs() < 3e4);
    }

    #[test]
    fn rejects_impossible_seek_times() {
        assert!(SeekCurve::Constant(-1.0).build_table(3).is_err());
        assert!(SeekCurve::Constant(f64::NAN).build_table(3).is_err());
        assert!(SeekCurve::Table(Vec::new()).build_table(3).is_err());
    }
}
