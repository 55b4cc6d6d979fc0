//! Reading of numbers from replies that may be shorter than expected.

/// Reads a little-endian number of 1 to 8 bytes; `None` beyond the end.
pub fn read_le(bytes: &[u8], offset: usize, length: usize) -> Option<u64> {
    let field = bytes.get(offset..offset.checked_add(length)?)?;
    Some(field.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

/// Reads a big-endian number; of more than 8 bytes the last 8, if those before are zero.
pub fn read_be(bytes: &[u8], offset: usize, length: usize) -> Option<u64> {
    let field = bytes.get(offset..offset.checked_add(length)?)?;
    let (high, low) = field.split_at(field.len().saturating_sub(8));
    high.iter().all(|byte| *byte == 0).then(|| low.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

/// Reads a little-endian number of sixteen bytes; one that does not fit in 64 bits becomes `u64::MAX - 1`.
pub fn read_le_u128_capped(bytes: &[u8], offset: usize) -> Option<u64> {
    let (low, high) = (read_le(bytes, offset, 8)?, read_le(bytes, offset + 8, 8)?);
    Some(if high == 0 { low } else { u64::MAX - 1 })
}

/// Converts kelvin to degrees Celsius; `None` for 0, which means "no value", and below 0 °C.
pub fn kelvin_to_celsius(kelvin: u64) -> Option<u64> {
    kelvin.checked_sub(273).filter(|_| kelvin > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_length() {
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8, 9];
        assert_eq!(read_le(&bytes, 0, 2), Some(0x0201));
        assert_eq!(read_be(&bytes, 1, 3), Some(0x020304));
        assert_eq!(read_le(&bytes, 8, 2), None);
        assert_eq!(read_be(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 7], 0, 10), Some(7));
        assert_eq!(read_be(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 7], 0, 10), None);
        assert_eq!((kelvin_to_celsius(0), kelvin_to_celsius(310), kelvin_to_celsius(200)), (None, Some(37), None));
    }
}
