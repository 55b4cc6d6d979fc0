//! Sparse columns, in which nearly all magnitudes are 0: each nonzero magnitude is
//! encoded with its distance from the previous one.

use super::bit_stream::{BitReader, BitWriter};

/// Smallest number of values per nonzero magnitude for which this code is used.
const MIN_VALUES_PER_NONZERO: usize = 8;

/// Returns the count of nonzero magnitudes, and the number of low bits for their
/// distances and for their sizes; `None` if there are too many of them.
fn survey_magnitudes(magnitudes: impl ExactSizeIterator<Item = u64>) -> Option<(usize, u32, u32)> {
    let length = magnitudes.len();
    let mut count = 0;
    let mut sizes = 0;
    for magnitude in magnitudes.filter(|m| *m != 0) {
        count += 1;
        sizes += magnitude.ilog2();
        if count * MIN_VALUES_PER_NONZERO > length {
            return None;
        }
    }
    let distance = (length / (count + 1)).max(1).ilog2();
    Some((count, distance.saturating_sub(1), (sizes / count.max(1) as u32).saturating_sub(1)))
}

/// Returns the length of a number in bits: its low bits unchanged, the rest in gamma code.
fn coded_bits(number: u64, low: u32) -> u32 {
    low + 1 + 2 * ((number >> low) + 1).ilog2()
}

/// Writes a number: its low bits unchanged, the rest in gamma code.
fn put_split(bits: &mut BitWriter, number: u64, low: u32) {
    bits.put_bits(number, low);
    bits.put_gamma(number >> low);
}

/// Reverses [`put_split`].
fn read_split(bits: &mut BitReader, low: u32) -> Option<u64> {
    let low_bits = bits.read_bits(low);
    let high = bits.read_gamma()?;
    (high << low >> low == high).then_some(high << low | low_bits)
}

/// Returns the price of the magnitudes in sixteenths of a bit; `None` if too many are nonzero.
pub(super) fn price_magnitudes(magnitudes: impl ExactSizeIterator<Item = u64> + Clone) -> Option<u64> {
    let (count, distance_bits, size_bits) = survey_magnitudes(magnitudes.clone())?;
    let mut sum = coded_bits(count as u64, 0) + if count > 0 { 10 } else { 0 };
    let mut previous = 0;
    for (index, magnitude) in magnitudes.enumerate().filter(|(_, m)| *m != 0) {
        sum += coded_bits((index - previous) as u64, distance_bits) + coded_bits(magnitude - 1, size_bits);
        previous = index;
    }
    Some(u64::from(sum) * 16)
}

/// Writes the magnitudes.
pub(super) fn write(bits: &mut BitWriter, magnitudes: impl ExactSizeIterator<Item = u64> + Clone) {
    let (count, distance_bits, size_bits) = survey_magnitudes(magnitudes.clone()).expect("priced before");
    bits.put_gamma(count as u64);
    if count > 0 {
        bits.put_bits(u64::from(distance_bits), 4);
        bits.put_bits(u64::from(size_bits), 6);
    }
    let mut previous = 0;
    for (index, magnitude) in magnitudes.enumerate().filter(|(_, m)| *m != 0) {
        put_split(bits, (index - previous) as u64, distance_bits);
        put_split(bits, magnitude - 1, size_bits);
        previous = index;
    }
}

/// Appends index and magnitude of each nonzero magnitude; `None` if an index is out of
/// range.
pub(super) fn read(bits: &mut BitReader, ticks: usize, found: &mut Vec<(u32, u64)>) -> Option<()> {
    let count = bits.read_gamma()?;
    if count == 0 {
        return Some(());
    }
    let distance_bits = bits.read_few_bits(4) as u32;
    let size_bits = bits.read_few_bits(6) as u32;
    let mut previous = 0;
    for _ in 0..count {
        let index = read_split(bits, distance_bits)?.checked_add(previous)?;
        let magnitude = read_split(bits, size_bits)?.checked_add(1)?;
        // the first tick has no residual in this list
        if index.saturating_add(1) >= ticks as u64 || bits.is_overrun() {
            return None;
        }
        found.push((index as u32, magnitude));
        previous = index;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparse_magnitudes_round_trip_at_their_price() {
        for (step, size) in [(9, 1u64), (40, 3000), (17, u64::MAX / 8), (1000, 5)] {
            let magnitude = |index: usize| if index.is_multiple_of(step) { size + index as u64 } else { 0 };
            let magnitudes: Vec<u64> = (0..239).map(magnitude).collect();
            let mut bits = BitWriter::default();
            write(&mut bits, magnitudes.iter().copied());
            let mut bytes = Vec::new();
            bits.finish(&mut bytes);
            let price = price_magnitudes(magnitudes.iter().copied()).expect("few");
            assert_eq!(bytes.len() as u64, price.div_ceil(16 * 8));
            let mut found = Vec::new();
            assert_eq!(read(&mut BitReader::new(&bytes), 240, &mut found), Some(()));
            let mut back = vec![0; 239];
            found.iter().for_each(|(index, magnitude)| back[*index as usize] = *magnitude);
            assert_eq!(back, magnitudes);
        }
        assert_eq!(price_magnitudes([1; 100].into_iter()), None);
        assert_eq!(price_magnitudes([0; 100].into_iter()), Some(16));
    }

    #[test]
    fn an_index_at_the_end_of_all_numbers_is_refused() {
        let mut bits = BitWriter::default();
        bits.put_gamma(2);
        bits.put_bits(0, 4);
        bits.put_bits(0, 6);
        for distance in [1, u64::MAX - 1] {
            put_split(&mut bits, distance, 0);
            put_split(&mut bits, 0, 0);
        }
        let mut bytes = Vec::new();
        bits.finish(&mut bytes);
        assert_eq!(read(&mut BitReader::new(&bytes), 240, &mut Vec::new()), None);
    }
}
