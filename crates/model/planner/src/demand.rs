//! Demand on storage: requests per second, their sizes, the capacity needed and the acceptable response. Its origin
//! (typed, a log, a trace) is unknown here.

use serde::Serialize;

/// Load that programs put on storage: the front end, before any level turns it into member I/Os.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Demand {
    /// Reads per second.
    pub reads_per_s: f64,
    /// Writes per second.
    pub writes_per_s: f64,
    /// Mean size of a read, bytes.
    pub read_size_bytes: f64,
    /// Mean size of a write, bytes.
    pub write_size_bytes: f64,
    /// Share of requests that continue where the last one ended; `None` if unknown.
    pub sequential_share: Option<f64>,
    /// Capacity that is needed today, bytes; `None` if unknown.
    pub capacity_bytes: Option<f64>,
    /// The acceptable response.
    pub response: Option<ResponseTarget>,
    /// Requests in flight in all, as measured where the load is today.
    pub queue: Option<f64>,
    /// Percentile of the load over time to which the rates correspond; `None` if they were typed.
    pub percentile: Option<f64>,
    /// Growth of the capacity that is needed.
    pub growth: Option<CapacityGrowth>,
    /// Variance of the number of arrivals over its mean (index of dispersion): 1 is a Poisson stream, larger values are
    /// bursts.
    pub burstiness: Option<f64>,
    /// Confidence in the measurement, 0 to 1; `None` if it was typed.
    pub confidence: Option<f64>,
    /// Fields that were estimated, not measured, and how.
    pub estimated: Vec<EstimatedField>,
}

/// The acceptable response.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ResponseTarget {
    /// Maximum, s.
    pub target_s: f64,
    /// Statistic of the responses that it limits.
    #[serde(rename = "of")]
    pub statistic: ResponseStatistic,
}

/// A statistic of responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ResponseStatistic {
    /// Their mean.
    #[default]
    Mean,
    /// 95 % are shorter.
    P95,
    /// 99 % are shorter.
    P99,
}

impl ResponseStatistic {
    /// All statistics.
    pub const ALL: [ResponseStatistic; 3] = [ResponseStatistic::Mean, ResponseStatistic::P95, ResponseStatistic::P99];

    /// `mean`, `p95` or `p99`.
    pub fn name(self) -> &'static str {
        match self {
            ResponseStatistic::Mean => "mean",
            ResponseStatistic::P95 => "p95",
            ResponseStatistic::P99 => "p99",
        }
    }
}

/// Growth of the capacity that is needed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CapacityGrowth {
    /// Bytes a day.
    pub bytes_per_day: f64,
    /// Its 95 % interval; `None` if it was typed.
    pub interval_bytes_per_day: Option<(f64, f64)>,
}

/// A field that is an estimate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EstimatedField {
    /// Its name, as in JSON.
    pub field: String,
    /// Method of the estimate.
    pub how: String,
}

/// Reason why a demand is impossible.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DemandError {
    /// Neither reads nor writes.
    #[error("no demand: give reads or writes per second above 0")]
    Nothing,
    /// An impossible number.
    #[error("{field}: {value}; expected {expected}")]
    Number {
        /// The field.
        field: &'static str,
        /// Its value.
        value: f64,
        /// Allowed values.
        expected: &'static str,
    },
}

impl Demand {
    /// Returns a typed demand: requests per second of one size.
    pub fn from_rates(reads_per_s: f64, writes_per_s: f64, size_bytes: f64) -> Demand {
        Demand {
            reads_per_s,
            writes_per_s,
            read_size_bytes: size_bytes,
            write_size_bytes: size_bytes,
            sequential_share: None,
            capacity_bytes: None,
            response: None,
            queue: None,
            percentile: None,
            growth: None,
            burstiness: None,
            confidence: None,
            estimated: Vec::new(),
        }
    }

    /// Checks for impossible values.
    ///
    /// # Errors
    /// The first field with an impossible value.
    pub fn check_values(&self) -> Result<(), DemandError> {
        const MAX_VALUE: f64 = 1e12;
        let from_0 = |field, value: f64| match value {
            v if (0.0..=MAX_VALUE).contains(&v) => Ok(()),
            value => Err(DemandError::Number { field, value, expected: "0 to 1,000,000,000,000" }),
        };
        from_0("reads_per_s", self.reads_per_s)?;
        from_0("writes_per_s", self.writes_per_s)?;
        if self.requests_per_s() <= 0.0 {
            return Err(DemandError::Nothing);
        }
        let sizes = [
            ("read_size_bytes", self.reads_per_s, self.read_size_bytes),
            ("write_size_bytes", self.writes_per_s, self.write_size_bytes),
        ];
        for (field, rate, value) in sizes {
            if rate > 0.0 && !(512.0..=1073741824.0).contains(&value) {
                return Err(DemandError::Number { field, value, expected: "512 bytes to 1 GiB" });
            }
        }
        for (field, value) in [("sequential_share", self.sequential_share), ("confidence", self.confidence)] {
            if let Some(value) = value.filter(|v| !(0.0..=1.0).contains(v)) {
                return Err(DemandError::Number { field, value, expected: "0 to 1" });
            }
        }
        self.check_targets()
    }

    fn check_targets(&self) -> Result<(), DemandError> {
        let above_0 = |field, value: Option<f64>, expected| match value {
            Some(value) if !(value > 0.0 && value.is_finite()) => Err(DemandError::Number { field, value, expected }),
            _ => Ok(()),
        };
        above_0("capacity_bytes", self.capacity_bytes, "more than 0 bytes")?;
        above_0("response", self.response.map(|r| r.target_s), "more than 0 s")?;
        above_0("queue", self.queue, "more than 0 requests in flight")?;
        if let Some(value) = self.burstiness.filter(|v| !(1.0..=1e6).contains(v)) {
            return Err(DemandError::Number { field: "burstiness", value, expected: "1 to 1,000,000" });
        }
        if let Some(value) = self.percentile.filter(|v| !(0.0..=100.0).contains(v)) {
            return Err(DemandError::Number { field: "percentile", value, expected: "0 to 100" });
        }
        match self.growth {
            Some(growth) if !growth.bytes_per_day.is_finite() => {
                Err(DemandError::Number { field: "growth", value: growth.bytes_per_day, expected: "bytes per day" })
            }
            _ => Ok(()),
        }
    }

    /// Reads and writes per second.
    pub fn requests_per_s(&self) -> f64 {
        self.reads_per_s + self.writes_per_s
    }

    /// Share of reads among the requests.
    pub fn read_share(&self) -> f64 {
        self.reads_per_s / self.requests_per_s()
    }

    /// Mean over reads and writes of a value that each kind has.
    pub fn mean_of(&self, kinds: [f64; 2]) -> f64 {
        let rates = [self.reads_per_s, self.writes_per_s];
        let sum = rates.into_iter().zip(kinds).filter(|(rate, _)| *rate > 0.0).map(|(rate, value)| rate * value);
        sum.sum::<f64>() / self.requests_per_s()
    }

    /// Mean size of a request, bytes.
    pub fn size_bytes(&self) -> f64 {
        self.bytes_per_s() / self.requests_per_s()
    }

    /// Bytes per second, reads and writes.
    pub fn bytes_per_s(&self) -> f64 {
        self.reads_per_s * self.read_size_bytes + self.writes_per_s * self.write_size_bytes
    }

    /// Returns the demand with everything per time multiplied by a factor (1.5: half as much again).
    pub fn scaled_by(&self, factor: f64) -> Demand {
        Demand {
            reads_per_s: self.reads_per_s * factor,
            writes_per_s: self.writes_per_s * factor,
            queue: self.queue.map(|queue| queue * factor),
            ..self.clone()
        }
    }

    /// Capacity that is needed after this many days, bytes.
    pub fn capacity_after(&self, days: f64) -> Option<f64> {
        let growth = self.growth.map_or(0.0, |growth| growth.bytes_per_day.max(0.0));
        self.capacity_bytes.map(|now| now + growth * days)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_weighted_by_rate() {
        let demand = Demand { write_size_bytes: 16384.0, ..Demand::from_rates(300.0, 100.0, 4096.0) };
        assert_eq!((demand.requests_per_s(), demand.read_share(), demand.size_bytes()), (400.0, 0.75, 7168.0));
        let growth = Some(CapacityGrowth { bytes_per_day: 1e9, interval_bytes_per_day: None });
        let demand = Demand { capacity_bytes: Some(36e9), growth, ..demand };
        assert_eq!(demand.capacity_after(10.0), Some(46e9));
        assert_eq!(demand.scaled_by(1.5).requests_per_s(), 600.0);
    }

    #[test]
    fn rejects_impossible_values_by_field_name() {
        let good = Demand::from_rates(126.0, 73.0, 8192.0);
        assert_eq!(good.check_values(), Ok(()));
        let wrong = [
            (Demand { reads_per_s: 0.0, writes_per_s: 0.0, ..good.clone() }, "no demand"),
            (Demand { reads_per_s: -1.0, ..good.clone() }, "reads_per_s: -1"),
            (Demand { writes_per_s: f64::NAN, ..good.clone() }, "writes_per_s: NaN"),
            (Demand { read_size_bytes: 0.0, ..good.clone() }, "read_size_bytes: 0"),
            (Demand { sequential_share: Some(1.5), ..good.clone() }, "sequential_share: 1.5"),
            (Demand { capacity_bytes: Some(0.0), ..good.clone() }, "capacity_bytes: 0"),
            (Demand { burstiness: Some(0.5), ..good.clone() }, "burstiness: 0.5"),
        ];
        for (demand, says) in wrong {
            let error = demand.check_values().expect_err(says).to_string();
            assert!(error.starts_with(says), "{error}");
        }
        // the size of requests that do not occur does not matter
        assert_eq!(Demand { writes_per_s: 0.0, write_size_bytes: 0.0, ..good }.check_values(), Ok(()));
    }
}
