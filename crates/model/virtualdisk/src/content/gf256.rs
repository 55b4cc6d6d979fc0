//! Parity: bytes as elements of GF(2^8).
//!
//! The field, its polynomial x^8 + x^4 + x^3 + x^2 + 1 (0x11d), the generator 2
//! and the first two parities are those of H. P. Anvin, "The mathematics of
//! RAID-6" (kernel.org, 2011). With data units D_0 to D_(k-1) of a row
//!
//! ```text
//! P = sum D_i,   Q = sum 2^i D_i,   R = sum 4^i D_i
//! ```
//!
//! where the third is that of A. Leventhal, "Triple-Parity RAID and Beyond" (ACM Queue, 2009).
//! Addition is XOR. Parity j is thus a polynomial at 2^j, which is computed from the last unit to
//! the first by Horner's rule: only doublings, no tables. The loops are plain and over bytes, so
//! the compiler can vectorize them.

/// Largest number of parities.
pub(super) const MAX_PARITIES: usize = 3;

/// The low byte of the polynomial.
const POLYNOMIAL: u8 = 0x1d;

/// Bytes that are multiplied together, in vector registers.
const LANE_BYTES: usize = 64;

/// Powers 2^n for n below 255, and the logarithm n of each element.
const POWERS_AND_LOGS: ([u8; 255], [u8; 256]) = {
    let (mut power, mut log) = ([0; 255], [0; 256]);
    let (mut value, mut n) = (1u8, 0);
    while n < 255 {
        power[n] = value;
        log[value as usize] = n as u8;
        value = gf_double(value);
        n += 1;
    }
    (power, log)
};

/// Doubles an element.
#[inline]
const fn gf_double(a: u8) -> u8 {
    // a comparison spreads the highest bit over the byte, which vectorizes
    let carry = if (a as i8) < 0 { POLYNOMIAL } else { 0 };
    (a << 1) ^ carry
}

/// Returns 2^n.
pub(super) fn gf_power(n: usize) -> u8 {
    POWERS_AND_LOGS.0[n % 255]
}

/// Returns the product of two elements.
pub(super) fn gf_mul(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    let log = |x: u8| usize::from(POWERS_AND_LOGS.1[usize::from(x)]);
    gf_power(log(a) + log(b))
}

/// Returns 1 / a; 0 for 0, which has no inverse.
pub(super) fn gf_inverse(a: u8) -> u8 {
    if a == 0 { 0 } else { gf_power(255 - usize::from(POWERS_AND_LOGS.1[usize::from(a)])) }
}

/// Returns the factor of data unit `unit` in parity `parity`.
pub(super) fn parity_factor(parity: usize, unit: usize) -> u8 {
    gf_power(parity * unit)
}

/// Computes to += from.
pub fn xor_into(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to ^= from;
    }
}

/// Computes one step of Horner's rule for parity `parity`: to = 2^parity to + from.
pub fn horner_step(parity: usize, to: &mut [u8], from: &[u8]) {
    let pairs = to.iter_mut().zip(from);
    match parity {
        0 => pairs.for_each(|(to, from)| *to ^= from),
        1 => pairs.for_each(|(to, from)| *to = gf_double(*to) ^ from),
        _ => pairs.for_each(|(to, from)| *to = gf_double(gf_double(*to)) ^ from),
    }
}

/// As [`horner_step`], with a unit of zeros.
pub(super) fn horner_step_zeros(parity: usize, to: &mut [u8]) {
    for _ in 0..parity {
        to.iter_mut().for_each(|to| *to = gf_double(*to));
    }
}

/// Computes to += c from.
pub fn add_multiple(to: &mut [u8], c: u8, from: &[u8]) {
    match c {
        0 => {}
        1 => xor_into(to, from),
        _ => {
            let (to, rest) = to.as_chunks_mut::<LANE_BYTES>();
            let (from, from_rest) = from.as_chunks::<LANE_BYTES>();
            for (to, from) in to.iter_mut().zip(from) {
                add_multiple_lane(to, c, *from);
            }
            for (to, from) in rest.iter_mut().zip(from_rest) {
                *to ^= gf_mul(c, *from);
            }
        }
    }
}

/// Multiplies by the bits of c: the doublings of a lane, added where the bit is set.
#[inline]
fn add_multiple_lane(to: &mut [u8; LANE_BYTES], c: u8, mut x: [u8; LANE_BYTES]) {
    let mut bits = c;
    loop {
        if bits & 1 == 1 {
            to.iter_mut().zip(&x).for_each(|(to, x)| *to ^= x);
        }
        bits >>= 1;
        if bits == 0 {
            return;
        }
        x.iter_mut().for_each(|x| *x = gf_double(*x));
    }
}

/// A square matrix of up to [`MAX_PARITIES`] rows.
pub(super) type Matrix = [[u8; MAX_PARITIES]; MAX_PARITIES];

/// Inverts the first `n` rows and columns, by Gauss and Jordan. `None` if there is no inverse,
/// which never happens for data and parities of one row: any square part of their factors is a
/// Vandermonde matrix of distinct powers.
pub(super) fn invert_matrix(mut a: Matrix, n: usize) -> Option<Matrix> {
    let mut b: Matrix = [[1, 0, 0], [0, 1, 0], [0, 0, 1]];
    for index in 0..n {
        let pivot = (index..n).find(|row| a[*row][index] != 0)?;
        a.swap(index, pivot);
        b.swap(index, pivot);
        let scale = gf_inverse(a[index][index]);
        for column in 0..n {
            a[index][column] = gf_mul(a[index][column], scale);
            b[index][column] = gf_mul(b[index][column], scale);
        }
        for row in (0..n).filter(|row| *row != index) {
            let times = a[row][index];
            for column in 0..n {
                a[row][column] ^= gf_mul(times, a[index][column]);
                b[row][column] ^= gf_mul(times, b[index][column]);
            }
        }
    }
    Some(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Multiplies by shifts, then takes the remainder.
    fn multiply_slowly(a: u8, b: u8) -> u8 {
        let wide = (0..8).filter(|i| b >> i & 1 == 1).fold(0u16, |sum, i| sum ^ (u16::from(a) << i));
        (8..16).rev().fold(wide, |w, bit| if w >> bit & 1 == 1 { w ^ (0x11d << (bit - 8)) } else { w }) as u8
    }

    /// Anvin's tables: 2^8 = 1d, 2^9 = 3a, 2^254 = 8e, 2^255 = 1.
    #[test]
    fn powers_match_the_paper() {
        let found = [0, 1, 7, 8, 9, 10, 11, 12, 254, 255].map(gf_power);
        assert_eq!(found, [1, 2, 0x80, 0x1d, 0x3a, 0x74, 0xe8, 0xcd, 0x8e, 1]);
        assert_eq!(gf_inverse(2), 0x8e);
    }

    #[test]
    fn products_and_inverses_are_right() {
        for a in 0..=255u8 {
            for b in 0..=255 {
                assert_eq!(gf_mul(a, b), multiply_slowly(a, b), "{a} {b}");
            }
            assert_eq!(gf_mul(a, gf_inverse(a)), u8::from(a != 0));
        }
    }

    /// By hand: D = (01, 02, 80). P = 83; Q = 01 + 2*02 + 4*80 = 01 + 04 + 3a = 3f;
    /// R = 01 + 4*02 + 16*80 = 01 + 08 + e8 = e1.
    #[test]
    fn computes_three_parities_of_three_bytes() {
        let data = [0x01u8, 0x02, 0x80];
        let parities: Vec<u8> = (0..3)
            .map(|j| {
                let mut sum = [0u8];
                data.iter().rev().for_each(|d| horner_step(j, &mut sum, &[*d]));
                sum[0]
            })
            .collect();
        assert_eq!(parities, [0x83, 0x3f, 0xe1]);
        for (j, parity) in parities.iter().enumerate() {
            let sum = data.iter().enumerate().fold(0, |sum, (i, d)| sum ^ multiply_slowly(parity_factor(j, i), *d));
            assert_eq!(sum, *parity);
        }
    }

    #[test]
    fn long_buffers_match_single_bytes() {
        let bytes = |seed: u32| -> Vec<u8> { (0..333u32).map(|i| (i * 167 + seed * 31 + i * i) as u8).collect() };
        for c in 0..=255 {
            let (mut to, from) = (bytes(1), bytes(2));
            let wanted: Vec<u8> = to.iter().zip(&from).map(|(t, f)| t ^ multiply_slowly(c, *f)).collect();
            add_multiple(&mut to, c, &from);
            assert_eq!(to, wanted, "{c}");
        }
        for j in 0..MAX_PARITIES {
            let (mut to, from) = (bytes(3), bytes(4));
            let wanted: Vec<u8> = to.iter().zip(&from).map(|(t, f)| multiply_slowly(1 << j, *t) ^ f).collect();
            horner_step(j, &mut to, &from);
            assert_eq!(to, wanted);
            let (mut to, mut zeros) = (bytes(5), bytes(5));
            horner_step(j, &mut to, &[0; 333]);
            horner_step_zeros(j, &mut zeros);
            assert_eq!(to, zeros);
        }
    }

    /// Checks every loss of up to three units of the longest possible row.
    #[test]
    fn every_loss_can_be_undone() {
        let k = 125;
        let check = |parities: &[usize], lost: &[usize]| {
            let mut a: Matrix = [[0; MAX_PARITIES]; MAX_PARITIES];
            for (row, j) in parities.iter().enumerate() {
                for (column, d) in lost.iter().enumerate() {
                    a[row][column] = parity_factor(*j, *d);
                }
            }
            assert!(invert_matrix(a, lost.len()).is_some(), "{parities:?} {lost:?}");
        };
        for x in 0..k {
            (0..3).for_each(|j| check(&[j], &[x]));
            for y in x + 1..k {
                [[0, 1], [0, 2], [1, 2]].iter().for_each(|j| check(j, &[x, y]));
                (y + 1..k).for_each(|z| check(&[0, 1, 2], &[x, y, z]));
            }
        }
        let inverse = invert_matrix([[1, 1, 0], [2, 4, 0], [0; 3]], 2).expect("a regular matrix");
        assert_eq!(gf_mul(inverse[0][0], 1) ^ gf_mul(inverse[0][1], 2), 1);
        assert!(invert_matrix([[1, 1, 0], [1, 1, 0], [0; 3]], 2).is_none());
    }
}
