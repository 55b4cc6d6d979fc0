//! SHA-256 and AES-256-GCM of 16 KiB pieces (the size of a TLS record), as HTTPS and disk
//! encryption use them.

use std::hint::black_box;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::digest;

use crate::BaselineError;
use crate::machine::WorkingSizes;
use crate::work_kernel::{ThreadShare, WorkKernel};

/// Size of a piece, bytes: the largest TLS record.
const PIECE_BYTES: usize = 16 << 10;
/// Pieces in a round.
const PIECES_PER_ROUND: u64 = 16;

/// Makes the SHA-256 kernel: digests of a piece whose first bytes change each time.
pub fn make_sha256_kernel(_: &WorkingSizes, share: ThreadShare) -> Result<WorkKernel, BaselineError> {
    let seed = share.index as u8;
    let work = move |rounds: u64| {
        let mut piece = vec![seed; PIECE_BYTES];
        for _ in 0..rounds * PIECES_PER_ROUND {
            let sum = digest::digest(&digest::SHA256, black_box(&piece));
            piece[..32].copy_from_slice(sum.as_ref());
        }
        Ok(leading_u64(&piece))
    };
    Ok(WorkKernel {
        run_rounds: Box::new(work),
        units_per_round: (PIECES_PER_ROUND * PIECE_BYTES as u64) as f64,
        is_repeatable: true,
    })
}

/// Makes the AES-256-GCM kernel: encrypts and authenticates a piece over and over.
pub fn make_aes256gcm_kernel(_: &WorkingSizes, share: ThreadShare) -> Result<WorkKernel, BaselineError> {
    let key = [7u8; 32];
    let unbound = UnboundKey::new(&AES_256_GCM, &key);
    let key = LessSafeKey::new(unbound.map_err(|_| BaselineError::Unsupported("AES-256-GCM refused its key".into()))?);
    let seed = share.index as u8;
    let work = move |rounds: u64| {
        let mut piece = vec![seed; PIECE_BYTES];
        for round in 0..rounds * PIECES_PER_ROUND {
            let mut nonce = [0u8; 12];
            nonce[..8].copy_from_slice(&round.to_le_bytes());
            let nonce = Nonce::assume_unique_for_key(nonce);
            let tag = key.seal_in_place_separate_tag(nonce, Aad::empty(), black_box(&mut piece));
            let tag = tag.map_err(|_| BaselineError::Unsupported("AES-256-GCM failed".into()))?;
            piece[..16].copy_from_slice(tag.as_ref());
        }
        Ok(leading_u64(&piece))
    };
    Ok(WorkKernel {
        run_rounds: Box::new(work),
        units_per_round: (PIECES_PER_ROUND * PIECE_BYTES as u64) as f64,
        is_repeatable: true,
    })
}

/// Returns the first eight bytes as a big-endian number.
fn leading_u64(piece: &[u8]) -> u64 {
    piece.iter().take(8).fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FIPS 180-4's example: the digest of "abc" begins with ba7816bf 8f01cfea.
    #[test]
    fn the_digest_is_sha_256() {
        assert_eq!(leading_u64(digest::digest(&digest::SHA256, b"abc").as_ref()), 0xba78_16bf_8f01_cfea);
    }

    #[test]
    fn the_same_work_gives_the_same_sum_and_other_work_another() {
        let share = ThreadShare { index: 1, threads: 2 };
        for make in [make_sha256_kernel, make_aes256gcm_kernel] {
            let sum =
                |rounds| (make(&WorkingSizes::default(), share).expect("made").run_rounds)(rounds).expect("worked");
            assert_eq!(sum(1), sum(1));
            assert_ne!(sum(1), sum(2));
        }
    }
}
