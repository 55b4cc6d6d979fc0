//! Computation of a counter's value from raw counts, by its type. The types and their formulas are those of winperf.h's
//! public documentation and of the pages "WMI Performance Counter Types" and "Windows Performance Counter Types"
//! (Microsoft Learn). N is the raw value, D the time (or the counter's own timestamp), F the ticks of that time per
//! second, B the base.

/// Formula of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CounterFormula {
    /// N.
    Level,
    /// N as a floating point number.
    Double,
    /// 100 N / B, both of now.
    Fraction,
    /// N1 - N0.
    Delta,
    /// (N1 - N0) / ((D1 - D0) / F).
    Rate,
    /// 100 (N1 - N0) / (D1 - D0).
    Timer,
    /// 100 (1 - (N1 - N0) / (D1 - D0)).
    TimerInverse,
    /// 100 (N1 - N0) / (D1 - D0) / B1.
    MultiTimer,
    /// 100 (B1 - (N1 - N0) / (D1 - D0)) / B1.
    MultiTimerInverse,
    /// ((N1 - N0) / F) / (B1 - B0).
    AverageTimer,
    /// (N1 - N0) / (B1 - B0).
    Average,
    /// 100 (N1 - N0) / (B1 - B0).
    SampleFraction,
    /// (N1 - N0) / (D1 - D0).
    Queue,
    /// (D1 - N1) / F.
    Elapsed,
}

/// Number that accompanies the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CompanionValue {
    /// The type needs no second number.
    Absent,
    /// Ticks of the performance counter.
    PerfTime,
    /// System time in 100 ns.
    Time100,
    /// Time of the object itself.
    ObjectTime,
    /// Value of the counter that follows.
    Base,
}

/// A type that is understood.
#[derive(Clone, Copy, Debug)]
pub(super) struct CounterType {
    pub code: u32,
    pub formula: CounterFormula,
    pub companion: CompanionValue,
}

const fn counter_type(code: u32, formula: CounterFormula, companion: CompanionValue) -> CounterType {
    CounterType { code, formula, companion }
}

/// All types that are understood. `PERF_COUNTER_MULTI_TIMER` and its inverse are not: their published formula divides
/// by a time base without saying in which unit the value counts.
const COUNTER_TYPES: &[CounterType] = &[
    counter_type(0x0000_0000, CounterFormula::Level, CompanionValue::Absent), // RAWCOUNT_HEX
    counter_type(0x0000_0100, CounterFormula::Level, CompanionValue::Absent), // LARGE_RAWCOUNT_HEX
    counter_type(0x0001_0000, CounterFormula::Level, CompanionValue::Absent), // RAWCOUNT
    counter_type(0x0001_0100, CounterFormula::Level, CompanionValue::Absent), // LARGE_RAWCOUNT
    counter_type(0x0002_0000, CounterFormula::Double, CompanionValue::Absent), // DOUBLE_RAW
    counter_type(0x0040_0400, CounterFormula::Delta, CompanionValue::Absent), // DELTA
    counter_type(0x0040_0500, CounterFormula::Delta, CompanionValue::Absent), // LARGE_DELTA
    counter_type(0x0041_0400, CounterFormula::Rate, CompanionValue::PerfTime), // SAMPLE_COUNTER
    counter_type(0x0045_0400, CounterFormula::Queue, CompanionValue::PerfTime), // QUEUELEN_TYPE
    counter_type(0x0045_0500, CounterFormula::Queue, CompanionValue::PerfTime), // LARGE_QUEUELEN_TYPE
    counter_type(0x0055_0500, CounterFormula::Queue, CompanionValue::Time100), // 100NS_QUEUELEN_TYPE
    counter_type(0x0065_0500, CounterFormula::Queue, CompanionValue::ObjectTime), // OBJ_TIME_QUEUELEN_TYPE
    counter_type(0x1041_0400, CounterFormula::Rate, CompanionValue::PerfTime), // COUNTER
    counter_type(0x1041_0500, CounterFormula::Rate, CompanionValue::PerfTime), // BULK_COUNT
    counter_type(0x2002_0400, CounterFormula::Fraction, CompanionValue::Base), // RAW_FRACTION
    counter_type(0x2002_0500, CounterFormula::Fraction, CompanionValue::Base), // LARGE_RAW_FRACTION
    counter_type(0x2041_0500, CounterFormula::Timer, CompanionValue::PerfTime), // TIMER
    counter_type(0x2047_0500, CounterFormula::Timer, CompanionValue::Base),   // PRECISION_SYSTEM_TIMER
    counter_type(0x2051_0500, CounterFormula::Timer, CompanionValue::Time100), // 100NSEC_TIMER
    counter_type(0x2057_0500, CounterFormula::Timer, CompanionValue::Base),   // PRECISION_100NS_TIMER
    counter_type(0x2061_0500, CounterFormula::Timer, CompanionValue::ObjectTime), // OBJ_TIME_TIMER
    counter_type(0x2067_0500, CounterFormula::Timer, CompanionValue::Base),   // PRECISION_OBJECT_TIMER
    counter_type(0x20c2_0400, CounterFormula::SampleFraction, CompanionValue::Base), // SAMPLE_FRACTION
    counter_type(0x2141_0500, CounterFormula::TimerInverse, CompanionValue::PerfTime), // TIMER_INV
    counter_type(0x2151_0500, CounterFormula::TimerInverse, CompanionValue::Time100), // 100NSEC_TIMER_INV
    counter_type(0x2251_0500, CounterFormula::MultiTimer, CompanionValue::Time100), // 100NSEC_MULTI_TIMER
    counter_type(0x2351_0500, CounterFormula::MultiTimerInverse, CompanionValue::Time100), // 100NSEC_MULTI_TIMER_INV
    counter_type(0x3002_0400, CounterFormula::AverageTimer, CompanionValue::Base), // AVERAGE_TIMER
    counter_type(0x3024_0500, CounterFormula::Elapsed, CompanionValue::ObjectTime), // ELAPSED_TIME
    counter_type(0x4002_0500, CounterFormula::Average, CompanionValue::Base), // AVERAGE_BULK
];

/// Finds a type by its code.
pub(super) fn find_type(code: u32) -> Option<CounterType> {
    COUNTER_TYPES.iter().find(|t| t.code == code).copied()
}

/// Returns true for a counter that only serves another one (sample, average, raw and multi bases, timestamps) or holds
/// nothing.
pub(super) fn is_base(code: u32) -> bool {
    const BASE_TYPES: [u32; 7] =
        [0x4003_0401, 0x4003_0402, 0x4003_0403, 0x4003_0500, 0x4003_0503, 0x4203_0500, 0x4000_0200];
    BASE_TYPES.contains(&code)
}

/// A value as it was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct RawCounter {
    /// N.
    pub value: u64,
    /// D or B, depending on the type.
    pub companion: u64,
    /// F.
    pub frequency: f64,
    /// B of the multi timers; 0 if there is none.
    pub multi_base: u32,
}

/// Returns the growth of a count; 32-bit counts wrap. `None` if it went back.
fn growth(now: u64, before: u64, is_narrow: bool) -> Option<f64> {
    let has_32_bits = |v: u64| v <= u64::from(u32::MAX);
    if now >= before {
        return Some((now - before) as f64);
    }
    let wrapped = (now as u32).wrapping_sub(before as u32);
    (is_narrow && has_32_bits(before) && wrapped < 1 << 31).then(|| f64::from(wrapped))
}

/// Computes the value; `None` if the counts went back, `NaN` if it is not defined (no sample before, no operation
/// in the tick).
pub(super) fn compute_value(kind: CounterType, before: Option<&RawCounter>, now: &RawCounter) -> Option<f64> {
    match kind.formula {
        // the largest number means unknown (bandwidth of a wireless adapter)
        CounterFormula::Level if now.value >= i64::MAX as u64 => return Some(f64::NAN),
        CounterFormula::Level => return Some(now.value as f64),
        CounterFormula::Double => return Some(f64::from_bits(now.value)).filter(|v| v.is_finite()).or(Some(f64::NAN)),
        CounterFormula::Fraction if now.companion == 0 => return Some(f64::NAN),
        CounterFormula::Fraction => return Some(100.0 * now.value as f64 / now.companion as f64),
        CounterFormula::Elapsed if now.value == 0 || now.frequency <= 0.0 => return Some(f64::NAN),
        CounterFormula::Elapsed => return now.companion.checked_sub(now.value).map(|d| d as f64 / now.frequency),
        _ => {}
    }
    let Some(before) = before else { return Some(f64::NAN) };
    let n = growth(now.value, before.value, kind.code & 0x300 == 0)?;
    // the bases of averages and samples have 32 bits
    let d = growth(now.companion, before.companion, matches!(kind.companion, CompanionValue::Base))?;
    let b = f64::from(now.multi_base);
    if kind.formula == CounterFormula::Delta {
        return Some(n);
    }
    if d <= 0.0 {
        return Some(f64::NAN);
    }
    Some(match kind.formula {
        CounterFormula::Rate => n / d * now.frequency,
        CounterFormula::Timer | CounterFormula::SampleFraction => 100.0 * n / d,
        // idle time is counted in clock ticks and may exceed the time between two samples
        CounterFormula::TimerInverse => (100.0 * (1.0 - n / d)).max(0.0),
        CounterFormula::MultiTimer if b > 0.0 => 100.0 * n / d / b,
        CounterFormula::MultiTimerInverse if b > 0.0 => (100.0 * (b - n / d) / b).max(0.0),
        CounterFormula::AverageTimer if now.frequency > 0.0 => n / now.frequency / d,
        CounterFormula::Average | CounterFormula::Queue => n / d,
        _ => f64::NAN,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(value: u64, second: u64) -> RawCounter {
        RawCounter { value, companion: second, frequency: 1000.0, multi_base: 4 }
    }

    /// Worked by hand from the formula above each recipe.
    #[test]
    fn every_type_has_its_worked_example() {
        // type, before, now, what it says
        let examples: &[(u32, RawCounter, RawCounter, f64)] = &[
            (0x0000_0000, raw(1, 0), raw(17, 0), 17.0),
            (0x0000_0100, raw(1, 0), raw(1 << 40, 0), 1_099_511_627_776.0),
            (0x0001_0000, raw(9, 0), raw(3, 0), 3.0),
            (0x0001_0100, raw(9, 0), raw(5, 0), 5.0),
            (0x0002_0000, raw(0, 0), raw(2.5f64.to_bits(), 0), 2.5),
            (0x0040_0400, raw(10, 0), raw(15, 0), 5.0),
            (0x0040_0500, raw(10, 0), raw(16, 0), 6.0),
            // 50 in 2000 ticks of 1000 a second: 25 a second
            (0x0041_0400, raw(100, 0), raw(150, 2000), 25.0),
            (0x1041_0400, raw(100, 0), raw(150, 2000), 25.0),
            (0x1041_0400, raw(u64::from(u32::MAX) - 9, 0), raw(40, 2000), 25.0),
            (0x1041_0500, raw(0, 0), raw(8192, 4000), 2048.0),
            // 3000 units of queue time in 2000 of time: a queue of 1.5
            (0x0045_0400, raw(0, 0), raw(3000, 2000), 1.5),
            (0x0045_0500, raw(0, 0), raw(3000, 2000), 1.5),
            (0x0055_0500, raw(0, 0), raw(3000, 2000), 1.5),
            (0x0065_0500, raw(0, 0), raw(3000, 2000), 1.5),
            (0x2002_0400, raw(0, 0), raw(30, 120), 25.0),
            (0x2002_0500, raw(0, 0), raw(30, 120), 25.0),
            // busy for 500 of 2000
            (0x2041_0500, raw(0, 0), raw(500, 2000), 25.0),
            (0x2047_0500, raw(0, 0), raw(500, 2000), 25.0),
            (0x2051_0500, raw(0, 0), raw(500, 2000), 25.0),
            (0x2057_0500, raw(0, 0), raw(500, 2000), 25.0),
            (0x2061_0500, raw(0, 0), raw(500, 2000), 25.0),
            (0x2067_0500, raw(0, 0), raw(500, 2000), 25.0),
            // idle for 500 of 2000
            (0x2141_0500, raw(0, 0), raw(500, 2000), 75.0),
            (0x2151_0500, raw(0, 0), raw(500, 2000), 75.0),
            (0x2151_0500, raw(0, 0), raw(2010, 2000), 0.0),
            // four of them, busy for 2000 of 4 x 2000 together
            (0x2251_0500, raw(0, 0), raw(2000, 2000), 25.0),
            (0x2351_0500, raw(0, 0), raw(2000, 2000), 75.0),
            // 3 hits in 12 operations
            (0x20c2_0400, raw(0, 0), raw(3, 12), 25.0),
            // 500 ticks of 1000 a second in 10 operations: 50 ms each
            (0x3002_0400, raw(0, 0), raw(500, 10), 0.05),
            // 40960 bytes in 10 operations
            (0x4002_0500, raw(0, 0), raw(40960, 10), 4096.0),
            // started at 1000, now 6000, 1000 a second
            (0x3024_0500, raw(0, 0), raw(1000, 6000), 5.0),
        ];
        for (code, before, now, says) in examples {
            let kind = find_type(*code).unwrap_or_else(|| panic!("{code:#x} is not known"));
            let cooked = compute_value(kind, Some(before), now).expect("in order");
            assert!((cooked - says).abs() < 1e-12 * says.abs().max(1.0), "{code:#x}: {cooked} is not {says}");
        }
        for kind in COUNTER_TYPES {
            assert!(examples.iter().any(|e| e.0 == kind.code), "{:#x} has no example", kind.code);
            assert!(!is_base(kind.code));
        }
    }

    #[test]
    fn undefined_values_are_gaps() {
        let rate = find_type(0x1041_0400).expect("known");
        assert!(compute_value(rate, None, &raw(5, 5)).is_some_and(f64::is_nan), "one sample is no rate");
        assert!(compute_value(rate, Some(&raw(5, 5)), &raw(9, 5)).is_some_and(f64::is_nan), "no time elapsed");
        let bulk = find_type(0x1041_0500).expect("known");
        assert_eq!(compute_value(bulk, Some(&raw(5, 5)), &raw(4, 6)), None, "64 bits do not wrap");
        let average = find_type(0x4002_0500).expect("known");
        assert!(
            compute_value(average, Some(&raw(5, 5)), &raw(5, 5)).is_some_and(f64::is_nan),
            "no operation, no average"
        );
        let level = find_type(0x0001_0100).expect("known");
        assert!(compute_value(level, None, &raw(i64::MAX as u64, 0)).is_some_and(f64::is_nan));
        assert!(find_type(0x2241_0500).is_none() && find_type(0xdead_beef).is_none());
    }
}
