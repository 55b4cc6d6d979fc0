//! Positions of requests, as the arm and a cache see them.

use crate::load::AccessPattern;

/// Number of quantiles.
const QUANTILE_COUNT: usize = 33;
/// Number of pieces that a normal distribution is divided into.
const NORMAL_PIECES: usize = 24;

/// Sections of a target: begin and end, as shares of the target, and weight of the requests there.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PlaceShares(Vec<(f64, f64, f64)>);

impl PlaceShares {
    /// Adds a request's positions in its part of the target.
    pub fn add_request(&mut self, access: &AccessPattern, (from, to): (f64, f64), weight: f64) {
        let AccessPattern::Normal { mean, deviation } = *access else {
            match self.0.iter_mut().find(|known| (known.0, known.1) == (from, to)) {
                Some((_, _, sum)) => *sum += weight,
                None => self.0.push((from, to, weight)),
            }
            return;
        };
        // positions drawn outside the target are drawn again, so the distribution is cut at the ends
        let (low, high) = ((mean - 4.0 * deviation).max(0.0), (mean + 4.0 * deviation).min(1.0));
        let step = (high - low).max(1e-9) / NORMAL_PIECES as f64;
        let middle = |piece: usize| low + (piece as f64 + 0.5) * step;
        let density = |place: f64| (-0.5 * ((place - mean) / deviation.max(1e-9)).powi(2)).exp();
        let density_sum: f64 = (0..NORMAL_PIECES).map(|piece| density(middle(piece))).sum();
        for piece in 0..NORMAL_PIECES {
            let begin = from + (to - from) * (low + piece as f64 * step);
            let share =
                if density_sum > 0.0 { density(middle(piece)) / density_sum } else { 1.0 / NORMAL_PIECES as f64 };
            self.0.push((begin, begin + (to - from) * step, weight * share));
        }
    }

    /// Weight of the requests below a position.
    fn share_below(&self, place: f64) -> f64 {
        let weight_below =
            |(from, to, weight): &(f64, f64, f64)| weight * ((place - from) / (to - from).max(1e-12)).clamp(0.0, 1.0);
        self.0.iter().map(weight_below).sum()
    }

    /// Returns blocks of a device with `blocks` blocks in use; equal shares of the requests lie between neighbours.
    pub fn block_quantiles(&self, blocks: u64) -> Vec<u64> {
        let block = |place: f64| ((place * blocks as f64) as u64).min(blocks);
        if let [(from, to, _)] = self.0[..] {
            return vec![block(from), block(to)];
        }
        let mut ends: Vec<f64> = self.0.iter().flat_map(|(from, to, _)| [*from, *to]).collect();
        ends.sort_unstable_by(f64::total_cmp);
        ends.dedup();
        if ends.len() < 2 {
            return vec![0, blocks];
        }
        let cumulative: Vec<f64> = ends.iter().map(|place| self.share_below(*place)).collect();
        let total = cumulative.last().copied().unwrap_or(1.0);
        let quantile = |number: usize| {
            let share = total * number as f64 / (QUANTILE_COUNT - 1) as f64;
            let right = cumulative.partition_point(|sum| *sum < share).clamp(1, ends.len() - 1);
            let (low, high) = (cumulative[right - 1], cumulative[right]);
            let between = if high > low { ((share - low) / (high - low)).clamp(0.0, 1.0) } else { 0.0 };
            block(ends[right - 1] + between * (ends[right] - ends[right - 1]))
        };
        (0..QUANTILE_COUNT).map(quantile).collect()
    }
}

/// Divides the ranks of Zipf's law into sections: the number of ranks in a section, and each rank's share of the
/// requests. The law is the one by which requests are drawn (`Zipf` of the base crate: Gray et al. 1994): the first two
/// ranks exactly, the others by a power of the share.
fn zipf_ranks(access: &AccessPattern, places: f64) -> Vec<(f64, f64)> {
    let AccessPattern::Zipf { theta } = *access else { return vec![(places, 1.0 / places)] };
    let theta = if (theta - 1.0).abs() < 1e-6 { 1.0 - 1e-6 } else { theta.max(0.0) };
    if places < 3.0 {
        let second = if places < 2.0 { 0.0 } else { 0.5f64.powf(theta) };
        return vec![(1.0, 1.0 / (1.0 + second)), (1.0, second / (1.0 + second))];
    }
    // the sum of the weights: the first 64 exactly, the others by the integral
    let head: f64 =
        (1..=64).take_while(|rank| f64::from(*rank) <= places).map(|rank| f64::from(rank).powf(-theta)).sum();
    let tail = |to: f64| (to.powf(1.0 - theta) - 64f64.powf(1.0 - theta)) / (1.0 - theta);
    let zeta = head + if places > 64.0 { tail(places) + 0.5 * (places.powf(-theta) - 64f64.powf(-theta)) } else { 0.0 };
    let second = 0.5f64.powf(theta);
    let eta = (1.0 - (2.0 / places).powf(1.0 - theta)) / (1.0 - (1.0 + second) / zeta);
    let below = |rank: f64| (((rank / places).powf(1.0 - theta) - 1.0 + eta) / eta).clamp(0.0, 1.0);
    let mut sections = vec![(1.0, 1.0 / zeta), (1.0, second / zeta)];
    let (mut from, mut known) = (2.0f64, (1.0 + second) / zeta);
    while from < places {
        let to = (from * 1.1).floor().max(from + 1.0).min(places);
        let sum = below(to).max(known);
        sections.push((to - from, (sum - known) / (to - from)));
        (from, known) = (to, sum);
    }
    sections
}

/// Returns the sum of the squares of the positions' shares of the requests.
pub(super) fn sum_squared_shares(access: &AccessPattern, places: f64) -> f64 {
    match access {
        AccessPattern::Zipf { .. } => {
            zipf_ranks(access, places.max(1.0)).iter().map(|(count, share)| count * share * share).sum()
        }
        _ => 0.0,
    }
}

/// Number of requests within which a position is used again, if it ever is.
const MAX_REUSE_REQUESTS: f64 = 1e15;

/// Hit share of an LRU cache, and the number of requests that fill it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CacheHits {
    /// Share of the requests.
    pub share: f64,
    /// Requests until it is as full as it gets.
    pub warm_requests: f64,
}

/// Hits of an LRU cache that holds `cached` of `places` positions (Che, Tung and Wang, "Hierarchical web caching
/// systems", IEEE JSAC 20(7), 2002): a position is cached if it was used within the last T requests, where T is such
/// that the positions fill the cache. Exact for uniform positions.
pub(super) fn lru_hits(access: &AccessPattern, places: f64, cached: f64) -> CacheHits {
    let ranks = zipf_ranks(access, places.max(1.0));
    let positions_used = |t: f64| ranks.iter().map(|(count, share)| count * -(-share * t).exp_m1()).sum::<f64>();
    // positions that are practically never used take no space
    if cached >= places || positions_used(MAX_REUSE_REQUESTS) < cached {
        // rarely used positions are loaded last: all but a thousandth of the requests hit
        let missed = |t: f64| ranks.iter().map(|(count, share)| count * share * (-share * t).exp()).sum::<f64>();
        let mut t = places;
        while missed(t) > 0.001 {
            t *= 1.5;
        }
        return CacheHits { share: 1.0, warm_requests: t };
    }
    let (mut low, mut high) = (0.0, places);
    while positions_used(high) < cached {
        high *= 2.0;
    }
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if positions_used(middle) < cached { low = middle } else { high = middle }
    }
    let share = ranks.iter().map(|(count, share)| count * share * -(-share * low).exp_m1()).sum();
    CacheHits { share, warm_requests: low }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uniform_places_hit_with_the_share_that_fits() {
        let found = lru_hits(&AccessPattern::Uniform, 1000.0, 300.0);
        assert!((found.share - 0.3).abs() < 1e-9, "{found:?}");
        // 1 - exp(-T / 1000) = 0.3
        assert!((found.warm_requests + 1000.0 * 0.7f64.ln()).abs() < 0.01, "{found:?}");
        assert_eq!(lru_hits(&AccessPattern::Uniform, 1000.0, 2000.0).share, 1.0);
        // most positions are practically never used, and the others fit
        let steep = lru_hits(&AccessPattern::Zipf { theta: 5.0 }, 1e6, 20_000.0);
        assert!(steep.share > 0.999 && steep.warm_requests.is_finite(), "{steep:?}");
        // two positions, one of which is used twice as often
        let two = sum_squared_shares(&AccessPattern::Zipf { theta: 1.0 }, 2.0);
        assert!((two - 5.0 / 9.0).abs() < 1e-5, "{two}");
    }

    #[test]
    fn quantiles_follow_the_places() {
        let mut places = PlaceShares::default();
        places.add_request(&AccessPattern::Uniform, (0.0, 0.5), 1.0);
        places.add_request(&AccessPattern::Uniform, (0.5, 1.0), 3.0);
        let found = places.block_quantiles(1000);
        assert_eq!((found[0], found[8], found[16], found[32]), (0, 500, 666, 1000));
        let mut bell = PlaceShares::default();
        bell.add_request(&AccessPattern::Normal { mean: 0.5, deviation: 0.1 }, (0.0, 1.0), 1.0);
        let found = bell.block_quantiles(100_000);
        // a quarter of a normal distribution lies 0.674 deviations below its mean
        assert!(found[8].abs_diff(43_260) < 300 && found[16].abs_diff(50_000) < 300, "{found:?}");
    }
}
