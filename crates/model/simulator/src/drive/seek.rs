//! Seek time by distance, in all the forms in which it is published.

use super::SpecError;

/// Seek time by distance. Distances are cylinders, times milliseconds, as published.
#[derive(Clone, Debug, PartialEq)]
pub enum Seek {
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
    pub from: f64,
    /// Constant of short seeks, ms.
    pub short: f64,
    /// Factor of the root, ms.
    pub root: f64,
    /// Constant of long seeks, ms.
    pub long: f64,
    /// Time per cylinder of long seeks, ms.
    pub slope: f64,
    /// Measured seeks of one cylinder, two, three and so on, ms; may be empty.
    pub first: Vec<f64>,
}

impl Seek {
    /// Builds the table of seek times for each distance from 0 to `cylinders - 1`, ns.
    ///
    /// # Errors
    /// When a time is below 0 or above 4 s, or a table is empty.
    pub fn table(&self, cylinders: u32) -> Result<Vec<u32>, SpecError> {
        if let Seek::Table(points) = self
            && points.is_empty()
        {
            return Err(SpecError { item: "seek curve".into(), right: "no point; at least one is needed".into() });
        }
        let mut times = Vec::with_capacity(cylinders as usize);
        times.push(0);
        let mut index = 0;
        for distance in 1..cylinders {
            let ms = match self {
                Seek::Table(points) => {
                    while index + 2 < points.len() && points[index + 1].0 <= distance {
                        index += 1;
                    }
                    between(points, index, distance)
                }
                other => other.milliseconds(distance, cylinders),
            };
            if !(0.0..=4000.0).contains(&ms) {
                let right = format!("{ms} ms for {distance} cylinders; expected 0 to 4000");
                return Err(SpecError { item: "seek curve".into(), right });
            }
            times.push((ms * 1e6).round() as u32);
        }
        Ok(times)
    }

    /// Time of a seek of at least one cylinder, ms; for [`Seek::Table`] see [`Seek::table`].
    fn milliseconds(&self, distance: u32, cylinders: u32) -> f64 {
        let (d, all) = (f64::from(distance), f64::from(cylinders));
        match self {
            Seek::Constant(ms) => *ms,
            Seek::Line { one, average, full } => {
                let third = all / 3.0;
                if d <= third {
                    one + (average - one) * (d - 1.0) / (third - 1.0).max(1.0)
                } else {
                    average + (full - average) * (d - third) / (all - third).max(1.0)
                }
            }
            // Lee and Katz (1993), as given in DiskSim's manual, "Lee's Seek Equation"
            Seek::Curve { one, average, full } => {
                let a = (15.0 * average - 10.0 * one - 5.0 * full) / (3.0 * all.sqrt());
                let b = (7.0 * one - 15.0 * average + 8.0 * full) / (3.0 * all);
                a * (d - 1.0).sqrt() + b * (d - 1.0) + one
            }
            Seek::RootAndLine(seek) => match seek.first.get(distance as usize - 1) {
                Some(ms) => *ms,
                None if d < seek.from => seek.short + seek.root * d.sqrt(),
                None => seek.long + seek.slope * d,
            },
            Seek::Table(_) => f64::NAN,
        }
    }
}

/// Interpolates linearly between the points at and after `index`, and extrapolates beyond the last two. Before the
/// first point the time is constant.
fn between(points: &[(u32, f64)], index: usize, distance: u32) -> f64 {
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
        let seek = Seek::Table(vec![(1, 1.2), (2, 1.5), (5, 4.5), (10, 9.5)]);
        let times = seek.table(13).expect("possible");
        assert_eq!(times[..3], [0, 1_200_000, 1_500_000]);
        assert_eq!(times[3], 2_500_000);
        assert_eq!(times[7], 6_500_000);
        assert_eq!(times[12], 11_500_000);
    }

    #[test]
    fn lees_curve_meets_its_points() {
        let seek = Seek::Curve { one: 2.0, average: 8.0, full: 16.0 };
        let times = seek.table(9001).expect("possible");
        assert_eq!(times[1], 2_000_000);
        // at the full stroke the two fractions add up to (full - one)
        assert!((f64::from(times[9000]) / 1e6 - 16.0).abs() < 0.01, "{}", times[9000]);
    }

    /// simulation.md: HP 97560, 3.45 + 0.597 sqrt(d) below 616 cylinders, 10.84 + 0.012 d above.
    #[test]
    fn root_and_line() {
        let parts = RootAndLine { from: 616.0, short: 3.45, root: 0.597, long: 10.84, slope: 0.012, first: vec![2.5] };
        let times = Seek::RootAndLine(parts).table(2000).expect("possible");
        assert_eq!(times[1], 2_500_000);
        assert_eq!(times[100], 9_420_000);
        assert_eq!(times[1000], 22_840_000);
    }

    #[test]
    fn a_line_meets_its_three_points() {
        let times = Seek::Line { one: 1.0, average: 5.0, full: 9.0 }.table(301).expect("possible");
        assert_eq!(times[1], 1_000_000);
        assert!((f64::from(times[100]) - 5e6).abs() < 2e4 && (f64::from(times[300]) - 9e6).abs() < 3e4);
    }

    #[test]
    fn impossible_times_are_refused() {
        assert!(Seek::Constant(-1.0).table(3).is_err());
        assert!(Seek::Constant(f64::NAN).table(3).is_err());
        assert!(Seek::Table(Vec::new()).table(3).is_err());
    }
}
