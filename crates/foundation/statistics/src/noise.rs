//! Synthetic noise for tests, the same in every run. The tests and the benchmark of `diagnosis` include this file, too.

/// A generator of normally distributed numbers.
pub struct Noise(pub u64);

impl Noise {
    /// Creates a generator from a seed.
    pub fn new(seed: u64) -> Noise {
        Noise(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x1234_5678_9ABC_DEF0)
    }

    /// Returns the next number, uniform between 0 and 1 (splitmix64).
    pub fn even(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((x ^ (x >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns the next number, normal with mean 0 and standard deviation 1 (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let (a, b) = (1.0 - self.even(), self.even());
        (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    }

    /// Returns a first-order autoregression with coefficient `r` and standard deviation 1.
    pub fn remembering(&mut self, r: f64, count: usize) -> Vec<f64> {
        let mut value = self.normal();
        let innovation = (1.0 - r * r).sqrt();
        let mut next = || {
            let current = value;
            value = r * value + innovation * self.normal();
            current
        };
        (0..count).map(|_| next()).collect()
    }
}
