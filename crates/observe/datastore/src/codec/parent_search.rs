//! The encoder's search for the cheapest model of each column: the other columns
//! that predict it, their factors, and the smoothing. The decoder reads the result,
//! so it need not repeat these computations.
//!
//! Many kernel counters are nearly determined by others: sectors follow
//! requests, the time of a queue is the sum of its parts, processors' times
//! add up to the clock, pages move from one list to another. The search is
//! orthogonal matching pursuit over least squares: it repeatedly adds the column
//! that explains most of the rest, as long as the price falls.
//! Ticks with much activity get a lower weight, or a few bursts would
//! decide everything.

use super::entropy::{ColumnHistory, FrequencyTables};
use super::predict::{MAX_PARENTS, Parents, PredictorFactor, SMOOTHING_COUNT, predict_from_parents, smooth};
use super::sparse;
use crate::varint::zigzag;

/// Largest number of columns that can predict each other, a power of two; wider schemas
/// are searched in groups of this size.
pub(super) const MAX_GROUP_COLUMNS: usize = 128;
/// Number of steps without a gain after which the search for a column ends.
const MAX_STEPS_WITHOUT_GAIN: usize = 2;
/// Advantage of the sparse code in sixteenths of a bit, because it is read faster.
const SPARSE_BONUS: u64 = 8 * 16;
/// Price of a parent with a whole factor, in sixteenths of a bit.
const WHOLE_FACTOR_PRICE: u64 = (8 + 4) * 16;
/// Price of a parent with a float factor, in sixteenths of a bit.
const FLOAT_FACTOR_PRICE: u64 = (8 + 16) * 16;

/// Model of a column: its prediction, and the encoding of the residuals.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ColumnModel {
    pub parents: Parents,
    pub smoothing: u32,
    /// All residuals are multiples of this; at least 1.
    pub divisor: u64,
    /// No residual is negative, so none has a sign.
    pub unsigned: bool,
    pub level: u32,
    pub first: i64,
    /// Few residuals are nonzero: each is encoded with its index.
    pub sparse: bool,
}

/// Reusable buffers of the search.
#[derive(Debug, Default)]
pub(super) struct ModelSearch {
    /// Forms less their means, times the roots of the ticks' weights.
    centered: Vec<f64>,
    products: Vec<f64>,
    /// For each column a bit set of its parents, their parents, and so on.
    ancestors: Vec<[u64; MAX_GROUP_COLUMNS / 64]>,
    weights: Vec<f64>,
    unexplained: Vec<f64>,
    trial: Trial,
}

/// Reusable buffers for pricing one model of a column.
#[derive(Debug, Default)]
struct Trial {
    sums: Vec<f64>,
    predicted: Vec<i64>,
    residuals: Vec<i64>,
    smoothed: Vec<i64>,
    magnitudes: Vec<u64>,
}

impl ModelSearch {
    /// Chooses the model of every column of a group, and calls `accept` with each, in order. `forms` has
    /// `ticks` values per column; the magnitudes to be written go to `magnitudes`.
    pub fn choose_models(
        &mut self,
        tables: &FrequencyTables,
        forms: &[i64],
        ticks: usize,
        magnitudes: &mut [u64],
        mut accept: impl FnMut(ColumnModel),
    ) {
        let count = forms.len() / ticks;
        assert!(count <= MAX_GROUP_COLUMNS && magnitudes.len() == forms.len(), "{count} columns in a group");
        self.weigh_ticks(forms, ticks);
        self.center_columns(forms, ticks);
        self.compute_products(count, ticks);
        self.ancestors.clear();
        self.ancestors.resize(count, [0; MAX_GROUP_COLUMNS / 64]);
        self.trial.resize(ticks);
        for (column, best_magnitudes) in magnitudes.chunks_exact_mut(ticks).enumerate() {
            accept(self.choose_model(tables, forms, column, best_magnitudes));
        }
    }

    /// Computes the weights of the ticks: the larger the values at a tick, relative to
    /// each column's mean, the lower.
    fn weigh_ticks(&mut self, forms: &[i64], ticks: usize) {
        self.weights.clear();
        self.weights.resize(ticks, 0.0);
        let columns = forms.len() / ticks;
        for column in forms.chunks_exact(ticks) {
            let sum: f64 = column.iter().map(|v| v.unsigned_abs() as f64).sum();
            let scale = ticks as f64 / sum.max(1.0);
            for (weight, value) in self.weights.iter_mut().zip(column) {
                *weight += value.unsigned_abs() as f64 * scale;
            }
        }
        for weight in &mut self.weights {
            // This is the square root of the weight, because it is applied to both factors of a product.
            *weight = columns as f64 / (*weight + 0.1 * columns as f64);
        }
    }

    fn center_columns(&mut self, forms: &[i64], ticks: usize) {
        self.centered.clear();
        let total: f64 = self.weights.iter().map(|w| w * w).sum();
        for column in forms.chunks_exact(ticks) {
            let pairs = column.iter().zip(&self.weights);
            let mean = pairs.clone().map(|(v, w)| *v as f64 * w * w).sum::<f64>() / total;
            self.centered.extend(pairs.map(|(v, w)| (*v as f64 - mean) * w));
        }
    }

    /// Computes the products of all pairs of columns.
    fn compute_products(&mut self, count: usize, ticks: usize) {
        self.products.clear();
        self.products.resize(count * count, 0.0);
        for a in 0..count {
            let left = &self.centered[a * ticks..(a + 1) * ticks];
            for b in 0..=a {
                let right = &self.centered[b * ticks..(b + 1) * ticks];
                let product = dot_product(left, right);
                self.products[a * count + b] = product;
                self.products[b * count + a] = product;
            }
        }
    }

    /// Chooses the model of a column; its magnitudes go to `best_magnitudes`.
    fn choose_model(
        &mut self,
        tables: &FrequencyTables,
        forms: &[i64],
        column: usize,
        best_magnitudes: &mut [u64],
    ) -> ColumnModel {
        let ticks = best_magnitudes.len();
        let count = forms.len() / ticks;
        let form = &forms[column * ticks..(column + 1) * ticks];
        let mut min_price = u64::MAX;
        let mut choice = ColumnModel::default();
        self.trial.try_parents(tables, form, Parents::default(), forms, &mut min_price, &mut choice, best_magnitudes);
        self.unexplained.clear();
        self.unexplained.extend_from_slice(&self.products[column * count..(column + 1) * count]);
        let mut chosen = [0; MAX_PARENTS];
        let mut misses = 0;
        for steps in 0..MAX_PARENTS {
            let Some(next) = self.best_parent(column, count, &chosen[..steps]) else { break };
            chosen[steps] = next;
            let chosen = &chosen[..=steps];
            let Some(factors) = solve_least_squares(&self.products, count, column, chosen) else { break };
            for (other, unexplained) in self.unexplained.iter_mut().enumerate() {
                let products = &self.products[other * count..(other + 1) * count];
                let explained: f64 = chosen.iter().zip(&factors).map(|(&c, f)| f * products[c]).sum();
                *unexplained = self.products[column * count + other] - explained;
            }
            let price_before = min_price;
            for are_whole in [true, false] {
                let parents = round_factors(chosen, &factors, are_whole);
                if parents.count > 0 {
                    self.trial.try_parents(tables, form, parents, forms, &mut min_price, &mut choice, best_magnitudes);
                }
            }
            misses = if min_price < price_before { 0 } else { misses + 1 };
            if misses == MAX_STEPS_WITHOUT_GAIN {
                break;
            }
        }
        self.record_ancestors(column, &choice.parents);
        choice
    }

    /// Finds the column that explains most of the unexplained rest, among those that
    /// do not depend on this column.
    fn best_parent(&self, column: usize, count: usize, chosen: &[usize]) -> Option<usize> {
        let mut found = None;
        let mut largest = 1e-9 * self.products[column * count + column];
        for other in 0..count {
            let square_sum = self.products[other * count + other];
            let explained = self.unexplained[other] * self.unexplained[other] / square_sum.max(1e-30);
            if explained > largest && !chosen.contains(&other) && !self.has_ancestor(other, column) && other != column {
                largest = explained;
                found = Some(other);
            }
        }
        found
    }

    fn has_ancestor(&self, column: usize, ancestor: usize) -> bool {
        self.ancestors[column][ancestor / 64] >> (ancestor % 64) & 1 == 1
    }

    /// Records the new ancestors of a column and of all columns that depend on it.
    fn record_ancestors(&mut self, column: usize, parents: &Parents) {
        let mut added = [0; MAX_GROUP_COLUMNS / 64];
        for &parent in &parents.columns[..parents.count] {
            let parent = usize::from(parent);
            added[parent / 64] |= 1 << (parent % 64);
            for (a, b) in added.iter_mut().zip(self.ancestors[parent]) {
                *a |= b;
            }
        }
        for other in 0..self.ancestors.len() {
            if other == column || self.has_ancestor(other, column) {
                for (a, b) in self.ancestors[other].iter_mut().zip(added) {
                    *a |= b;
                }
            }
        }
    }
}

impl Trial {
    fn resize(&mut self, ticks: usize) {
        self.sums.resize(ticks, 0.0);
        self.predicted.resize(ticks, 0);
        self.residuals.resize(ticks, 0);
        self.smoothed.resize(ticks, 0);
        self.magnitudes.resize(ticks, 0);
    }

    /// Prices the prediction of `form` from `parents` with each smoothing; a price
    /// below `min_price` makes it the choice.
    #[allow(clippy::too_many_arguments)]
    fn try_parents(
        &mut self,
        tables: &FrequencyTables,
        form: &[i64],
        parents: Parents,
        forms: &[i64],
        min_price: &mut u64,
        choice: &mut ColumnModel,
        best_magnitudes: &mut [u64],
    ) {
        predict_from_parents(&parents, forms, &mut self.sums, &mut self.predicted);
        for (residual, (value, predicted)) in self.residuals.iter_mut().zip(form.iter().zip(&self.predicted)) {
            *residual = value.wrapping_sub(*predicted);
        }
        let divisor = self.divide_residuals();
        let factors = &parents.factors[..parents.count];
        let price = |f: &PredictorFactor| {
            if matches!(f, PredictorFactor::Whole(_)) { WHOLE_FACTOR_PRICE } else { FLOAT_FACTOR_PRICE }
        };
        let extra: u64 = factors.iter().map(price).sum::<u64>() + if divisor > 1 { 8 * 16 } else { 0 };
        for smoothing in 0..SMOOTHING_COUNT {
            smooth(&self.residuals, smoothing, &mut self.smoothed);
            let unsigned = smoothing == 0 && self.smoothed.iter().all(|v| *v >= 0);
            for (magnitude, value) in self.magnitudes.iter_mut().zip(&self.smoothed) {
                *magnitude = if unsigned { *value as u64 } else { zigzag(*value) };
            }
            let first = self.smoothed[0];
            let level = starting_level(&self.magnitudes);
            let extra = extra + 16 * u64::from(65 - zigzag(first).leading_zeros());
            let Some(max_price) = min_price.checked_sub(extra) else { continue };
            let sparse_price = sparse::price_magnitudes(self.magnitudes[1..].iter().copied());
            let limit = max_price.min(sparse_price.unwrap_or(max_price));
            let entropy_price = tables.price_magnitudes(level, &self.magnitudes[1..], limit);
            let sparse = sparse_price.is_some_and(|price| price <= entropy_price + SPARSE_BONUS);
            let price = if sparse { sparse_price.unwrap_or(entropy_price) } else { entropy_price };
            if price < max_price {
                *min_price = price + extra;
                *choice = ColumnModel { parents, smoothing, divisor, unsigned, level, first, sparse };
                best_magnitudes.copy_from_slice(&self.magnitudes);
            }
        }
    }

    /// Divides the residuals by their greatest common divisor, which is returned.
    fn divide_residuals(&mut self) -> u64 {
        let mut divisor = 0u64;
        for residual in &self.residuals {
            divisor = greatest_common_divisor(divisor, residual.unsigned_abs());
            if divisor == 1 {
                return 1;
            }
        }
        let divisor = i64::try_from(divisor).unwrap_or(1).max(1);
        self.residuals.iter_mut().for_each(|residual| *residual /= divisor);
        divisor as u64
    }
}

/// Returns the level of the mean of the first magnitudes.
fn starting_level(magnitudes: &[u64]) -> u32 {
    let early = &magnitudes[1..magnitudes.len().min(9)];
    let sum = early.iter().fold(0u64, |sum, m| sum.saturating_add(*m));
    ColumnHistory::level_for_mean(sum / early.len().max(1) as u64)
}

/// Returns the greatest common divisor; of 0 and a number, that number.
fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Computes the dot product of two columns, as four interleaved sums for speed.
fn dot_product(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 4];
    let (a4, b4) = (a.chunks_exact(4), b.chunks_exact(4));
    let rest: f64 = a4.remainder().iter().zip(b4.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a4.zip(b4) {
        for index in 0..4 {
            sums[index] += a[index] * b[index];
        }
    }
    sums.iter().sum::<f64>() + rest
}

/// Solves the least squares of a column over the chosen ones, by elimination with
/// the largest pivot; `None` if the chosen columns are linearly dependent.
fn solve_least_squares(products: &[f64], count: usize, column: usize, chosen: &[usize]) -> Option<[f64; MAX_PARENTS]> {
    let n = chosen.len();
    let mut rows = [[0.0; MAX_PARENTS + 1]; MAX_PARENTS];
    for (row, &c) in rows.iter_mut().zip(chosen) {
        for (cell, &d) in row.iter_mut().zip(chosen) {
            *cell = products[c * count + d];
        }
        row[n] = products[c * count + column];
    }
    for p in 0..n {
        let pivot = (p..n).max_by(|a, b| rows[*a][p].abs().total_cmp(&rows[*b][p].abs()))?;
        rows.swap(p, pivot);
        if rows[p][p].abs() <= 1e-9 * products[chosen[p] * count + chosen[p]].abs() {
            return None;
        }
        let pivot_row = rows[p];
        for (r, row) in rows.iter_mut().enumerate().take(n) {
            if r != p {
                let factor = row[p] / pivot_row[p];
                row.iter_mut().zip(pivot_row).for_each(|(cell, pivot_cell)| *cell -= factor * pivot_cell);
            }
        }
    }
    let mut factors = [0.0; MAX_PARENTS];
    for p in 0..n {
        factors[p] = rows[p][n] / rows[p][p];
    }
    Some(factors)
}

/// Rounds factors to encodable ones; parents whose factor vanishes are left out.
fn round_factors(chosen: &[usize], factors: &[f64], are_whole: bool) -> Parents {
    let mut parents = Parents::default();
    for (&column, &factor) in chosen.iter().zip(factors) {
        let rounded = match are_whole {
            true => {
                Some(factor.round()).filter(|f| *f != 0.0 && f.abs() < 4096.0).map(|f| PredictorFactor::Whole(f as i32))
            }
            false => PredictorFactor::nearest(factor),
        };
        if let Some(rounded) = rounded {
            parents.columns[parents.count] = column as u8;
            parents.factors[parents.count] = rounded;
            parents.count += 1;
        }
    }
    parents
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_of_columns_is_found() {
        let ticks = 100;
        let noise = |seed: i64, t: i64| (t * seed * 7919 + seed) % 1009;
        let mut forms = Vec::new();
        for seed in [3, 5, 11] {
            forms.extend((0..ticks).map(|t| noise(seed, t)));
        }
        forms.extend((0..ticks).map(|t| noise(3, t) * 8 + noise(11, t) + noise(5, t) / 500));
        let mut magnitudes = vec![0; forms.len()];
        let tables = FrequencyTables::new();
        let mut choices = Vec::new();
        ModelSearch::default()
            .choose_models(&tables, &forms, ticks as usize, &mut magnitudes, |choice| choices.push(choice));
        let parents: usize = choices.iter().map(|c| c.parents.count).sum();
        assert!(parents >= 2, "{choices:?}");
        let sum_index = choices.iter().position(|c| c.parents.count >= 2).expect("a sum of columns");
        let last = &magnitudes[sum_index * 100..(sum_index + 1) * 100];
        assert!(last[1..].iter().all(|m| *m < 64), "{last:?}");
    }

    #[test]
    fn computes_greatest_common_divisors() {
        assert_eq!(
            (
                greatest_common_divisor(0, 12),
                greatest_common_divisor(12, 18),
                greatest_common_divisor(7, 0),
                greatest_common_divisor(0, 0)
            ),
            (12, 6, 7, 0)
        );
    }
}
