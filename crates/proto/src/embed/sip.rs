//! SipHash-2-4 (Aumasson and Bernstein): a keyed hash that nobody without the key can compute. The standard
//! library has it only with a key of its own.

/// The hash of a message under a key, different for each domain.
pub(super) fn hash(key: [u64; 2], domain: u8, message: &[u8]) -> u64 {
    let mut bytes = Vec::with_capacity(message.len() + 1);
    bytes.push(domain);
    bytes.extend_from_slice(message);
    siphash(key, &bytes)
}

fn siphash([k0, k1]: [u64; 2], message: &[u8]) -> u64 {
    let mut state = [
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573,
    ];
    let mut words = message.chunks_exact(8);
    for word in &mut words {
        take(&mut state, little_endian(word));
    }
    let length = (message.len() as u64 & 0xff) << 56;
    take(&mut state, length | little_endian(words.remainder()));
    state[2] ^= 0xff;
    for _ in 0..4 {
        round(&mut state);
    }
    state.into_iter().fold(0, |hash, part| hash ^ part)
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

fn take(state: &mut [u64; 4], word: u64) {
    state[3] ^= word;
    round(state);
    round(state);
    state[0] ^= word;
}

fn round([v0, v1, v2, v3]: &mut [u64; 4]) {
    *v0 = v0.wrapping_add(*v1);
    *v1 = v1.rotate_left(13) ^ *v0;
    *v0 = v0.rotate_left(32);
    *v2 = v2.wrapping_add(*v3);
    *v3 = v3.rotate_left(16) ^ *v2;
    *v0 = v0.wrapping_add(*v3);
    *v3 = v3.rotate_left(21) ^ *v0;
    *v2 = v2.wrapping_add(*v1);
    *v1 = v1.rotate_left(17) ^ *v2;
    *v2 = v2.rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the paper's appendix A.
    #[test]
    fn it_is_siphash() {
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let message: Vec<u8> = (0..15).collect();
        assert_eq!(siphash(key, &message), 0xa129_ca61_49be_45e5);
    }
}
