//! Steadiness and slope of a quantity over the ticks at which a condition held, without the first and last tick of each
//! stretch.

/// Weighted moments of value and time, collected tick by tick.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TrendMoments {
    /// Number of ticks of the present stretch.
    run: u64,
    /// The last tick; it is added only once the next one holds too.
    last: Option<WeightedSample>,
    ticks: u64,
    /// Sum of the weights.
    weight: f64,
    mean: f64,
    /// Weighted sum of squared deviations from the mean; below the same of the times, and of both.
    squares: f64,
    mean_days: f64,
    squares_days: f64,
    products: f64,
    /// From sample to sample: sums of squared steps, of steps by time, and of squared times.
    steps: u64,
    step_squares: f64,
    step_products: f64,
    step_days: f64,
    /// The sample before this one, of the same stretch.
    before: Option<WeightedSample>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct WeightedSample {
    value: f64,
    weight: f64,
    days: f64,
}

/// Smallest number of ticks for a coefficient of variation.
const MIN_TICKS: u64 = 5;
/// Shortest span for a slope per day: ten minutes.
const MIN_TREND_DAYS: f64 = 10.0 / 1440.0;
/// Standard errors that are subtracted from a slope.
const SLOPE_ERRORS_SUBTRACTED: f64 = 3.0;

impl TrendMoments {
    /// Adds a tick at which the condition held. The first and last tick of a stretch are left out, because the
    /// condition held for only part of them.
    pub fn add_held(&mut self, value: f64, weight: f64, days: f64) {
        if let (Some(sample), true) = (self.last, self.run >= 2) {
            self.add_sample(sample);
        }
        self.last = (weight > 0.0).then_some(WeightedSample { value, weight, days });
        self.run += 1;
    }

    /// Ends a stretch: the condition did not hold at this tick.
    pub fn end_stretch(&mut self) {
        self.run = 0;
        self.last = None;
        self.before = None;
    }

    fn add_sample(&mut self, sample: WeightedSample) {
        self.ticks += 1;
        if let Some(before) = self.before.replace(sample) {
            let (step, days) = (sample.value - before.value, sample.days - before.days);
            self.steps += 1;
            self.step_squares += step * step;
            self.step_products += step * days;
            self.step_days += days * days;
        }
        self.weight += sample.weight;
        let share = sample.weight / self.weight;
        let deviation = sample.value - self.mean;
        let deviation_days = sample.days - self.mean_days;
        self.mean += deviation * share;
        self.mean_days += deviation_days * share;
        self.squares += sample.weight * deviation * (sample.value - self.mean);
        self.squares_days += sample.weight * deviation_days * (sample.days - self.mean_days);
        self.products += sample.weight * deviation * (sample.days - self.mean_days);
    }

    /// Standard deviation over mean; `None` below five ticks.
    pub fn coefficient_of_variation(&self) -> Option<f64> {
        if self.ticks < MIN_TICKS || self.mean == 0.0 {
            return None;
        }
        Some((self.squares / self.weight).max(0.0).sqrt() / self.mean.abs())
    }

    /// Growth per day as a share of the mean, beyond noise: the slope of the straight line through the values, reduced
    /// by three standard errors, and 0 where that would change its sign. `None` below five ticks or ten minutes.
    pub fn relative_slope_per_day(&self) -> Option<f64> {
        if self.ticks < MIN_TICKS || self.mean == 0.0 || self.squares_days <= 0.0 {
            return None;
        }
        // the variance of evenly spaced times is a twelfth of the square of their span
        let spread_days = (12.0 * self.squares_days / self.weight).sqrt();
        if spread_days < MIN_TREND_DAYS {
            return None;
        }
        let slope = self.products / self.squares_days;
        let certain = (slope.abs() - SLOPE_ERRORS_SUBTRACTED * self.slope_error(slope)).max(0.0);
        Some(certain * slope.signum() / self.mean.abs())
    }

    /// Standard error of the slope. Autocorrelated values (whose residuals change little from tick to tick) count as
    /// fewer, so that a slow wave is not taken for a slope.
    fn slope_error(&self, slope: f64) -> f64 {
        let ticks = self.ticks as f64;
        let residual = (self.squares - slope * self.products).max(0.0) / self.weight;
        // only rounding errors are left
        if residual <= 1e-20 * self.mean * self.mean {
            return 0.0;
        }
        let steps = self.step_squares - 2.0 * slope * self.step_products + slope * slope * self.step_days;
        let step = if self.steps > 0 { (steps / self.steps as f64).max(0.0) } else { 0.0 };
        let autocorrelation = (1.0 - step / (2.0 * residual)).clamp(0.0, 1.0 - 1.0 / ticks);
        let independent_ticks = ticks * (1.0 - autocorrelation) / (1.0 + autocorrelation);
        let days = self.squares_days / self.weight;
        (residual / days / (independent_ticks - 2.0).max(0.5)).sqrt()
    }
}

/// Steadiness of a quantity that stays on levels and jumps from one to another, measured on each level.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Levels {
    /// Over all ticks.
    all: TrendMoments,
    /// The current level.
    level: TrendMoments,
    /// Weight of the earlier levels that had enough ticks.
    weight: f64,
    /// Sum over those levels: squared deviations divided by the square of the level's mean.
    relative_squares: f64,
}

/// A value further than this share from a level starts a new one: ten times what the rules call steady, so that noise
/// is not cut into levels.
const LEVEL_JUMP_SHARE: f64 = 0.2;
/// Smallest share of the ticks that must be on levels; below it, the quantity counts as having no levels.
const MIN_SHARE_ON_LEVELS: f64 = 0.5;

impl Levels {
    /// Adds a tick, as [`TrendMoments::add_held`] does; the ticks in which a level starts and ends are left out.
    pub fn add_held(&mut self, value: f64, weight: f64, days: f64) {
        let level_value = if self.level.ticks > 0 { Some(self.level.mean) } else { self.level.last.map(|s| s.value) };
        if level_value.is_some_and(|level_value| (value - level_value).abs() > LEVEL_JUMP_SHARE * level_value.abs()) {
            (self.weight, self.relative_squares) = self.with_level();
            self.level = TrendMoments::default();
        }
        self.level.add_held(value, weight, days);
        self.all.add_held(value, weight, days);
    }

    /// Ends a stretch: the condition did not hold at this tick.
    pub fn end_stretch(&mut self) {
        self.level.end_stretch();
        self.all.end_stretch();
    }

    /// Weight and squares relative to the square of the mean, with the current level included.
    fn with_level(&self) -> (f64, f64) {
        let level = &self.level;
        if level.ticks < MIN_TICKS || level.mean == 0.0 {
            return (self.weight, self.relative_squares);
        }
        (self.weight + level.weight, self.relative_squares + level.squares.max(0.0) / (level.mean * level.mean))
    }

    /// Standard deviation over mean, each level by its own mean; over all ticks where the quantity has no levels.
    pub fn coefficient_of_variation(&self) -> Option<f64> {
        let (weight, squares) = self.with_level();
        let all = self.all.coefficient_of_variation()?;
        Some(if weight < MIN_SHARE_ON_LEVELS * self.all.weight { all } else { (squares / weight).sqrt() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(values: impl IntoIterator<Item = f64>) -> Option<f64> {
        let mut levels = Levels::default();
        values.into_iter().for_each(|value| levels.add_held(value, 1.0, 0.0));
        levels.coefficient_of_variation()
    }

    #[test]
    fn a_quantity_on_two_levels_is_as_steady_as_on_each() {
        // ten of 900, one in which it changes, ten of 300
        let changes = |between: f64| [vec![900.0; 10], vec![between], vec![300.0; 10]].concat();
        for between in [900.0, 850.0, 600.0, 320.0] {
            assert_eq!(levels(changes(between)), Some(0.0), "{between}");
        }
        // inner ticks of the first: 95 and 105 in turn, deviation a twentieth; of the second none
        let restless = (0..12).map(|tick| if tick % 2 == 0 { 95.0 } else { 105.0 }).chain([300.0; 12]);
        assert!((levels(restless).unwrap() - (0.0025_f64 * 10.0 / 20.0).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn a_quantity_without_levels_is_judged_as_a_whole() {
        let mut noise = noise(3);
        let values: Vec<f64> = (0..60).map(|_| 100.0 + 90.0 * noise()).collect();
        let mut all = TrendMoments::default();
        values.iter().for_each(|&value| all.add_held(value, 1.0, 0.0));
        assert_eq!(levels(values), all.coefficient_of_variation());
        // noise within the width of a level stays what it is
        let mut noise = self::noise(4);
        let narrow = levels((0..1000).map(|_| 100.0 + 15.0 * noise())).unwrap();
        assert!((0.07..0.1).contains(&narrow), "{narrow}");
    }

    #[test]
    fn a_flat_stretch_is_steady_whatever_its_edges_are() {
        let mut spread = TrendMoments::default();
        for value in [120.0, 250.0, 250.0, 250.0, 250.0, 250.0, 80.0] {
            spread.add_held(value, 1.0, 0.0);
        }
        spread.end_stretch();
        spread.add_held(7.0, 1.0, 0.0);
        assert_eq!(spread.coefficient_of_variation(), Some(0.0));
    }

    #[test]
    fn deviation_is_that_of_the_inner_ticks() {
        let mut spread = TrendMoments::default();
        // inner: 2 4 4 4 5 5 7 9, mean 5, deviation 2
        for value in [99.0, 2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0, 99.0] {
            spread.add_held(value, 1.0, 0.0);
        }
        assert!((spread.coefficient_of_variation().unwrap() - 0.4).abs() < 1e-12);
    }

    #[test]
    fn growth_is_told_a_day() {
        let mut spread = TrendMoments::default();
        for day in 0..10 {
            spread.add_held(100.0 + 10.0 * day as f64, 1.0, day as f64);
        }
        // inner days 1 to 8: mean 145, slope 10
        assert!((spread.relative_slope_per_day().unwrap() - 10.0 / 145.0).abs() < 1e-12);
    }

    /// Pseudo-random numbers from -1 to 1, the same in every run.
    fn noise(mut seed: u64) -> impl FnMut() -> f64 {
        move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 11) as f64 / (1u64 << 52) as f64 - 1.0
        }
    }

    fn trend_of(ticks: usize, tick_s: f64, mut value: impl FnMut(usize) -> f64) -> Option<f64> {
        let mut spread = TrendMoments::default();
        for tick in 0..ticks {
            spread.add_held(value(tick), tick_s, tick as f64 * tick_s / 86_400.0);
        }
        spread.relative_slope_per_day()
    }

    #[test]
    fn noise_and_waves_have_no_direction() {
        for tick_s in [1.0, 15.0, 300.0, 600.0] {
            for ticks in [50, 700, 1000] {
                let mut false_alarms = 0;
                for seed in 0..200 {
                    let mut noise = noise(seed);
                    let trend = trend_of(ticks, tick_s, |_| 100.0 + 30.0 * noise());
                    false_alarms += usize::from(trend.is_some_and(|t| t != 0.0));
                }
                assert!(false_alarms <= 4, "{false_alarms} of 200 with {ticks} ticks of {tick_s} s");
            }
        }
        // strongly autocorrelated noise
        let mut false_alarms = 0;
        for seed in 0..200 {
            let (mut noise, mut level) = (noise(seed), 0.0);
            let trend = trend_of(1000, 60.0, |_| {
                level = 0.95 * level + noise();
                100.0 + level
            });
            false_alarms += usize::from(trend.is_some_and(|t| t != 0.0));
        }
        assert!(false_alarms <= 10, "{false_alarms} of 200");
        // a day's rhythm, over a day and a half
        let day = |tick: usize| 100.0 + 50.0 * (tick as f64 / 144.0 * std::f64::consts::TAU).sin();
        assert_eq!(trend_of(216, 600.0, day), Some(0.0));
    }

    #[test]
    fn a_direction_stands_out_of_noise() {
        let mut noise = noise(1);
        let trend = trend_of(1000, 600.0, |tick| 100.0 + tick as f64 / 10.0 + 10.0 * noise()).unwrap();
        // 14.4 a day on a mean of 150, less what is uncertain
        assert!((0.085..0.096).contains(&trend), "{trend}");
        assert_eq!(trend_of(120, 1.0, |tick| tick as f64), None, "two minutes say nothing of a day");
    }

    #[test]
    fn few_ticks_say_nothing() {
        let mut spread = TrendMoments::default();
        for _ in 0..6 {
            spread.add_held(1.0, 1.0, 0.0);
        }
        assert_eq!(spread.coefficient_of_variation(), None);
    }
}
