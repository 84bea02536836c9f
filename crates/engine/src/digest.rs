//! A short fingerprint of what a client sent, to recognise a repeat. Fingerprints are stored, so the function must not
//! change from one version of the program to the next.

use std::hash::{Hash, Hasher};

use crate::ids::mix;

/// The fingerprint of a report's content.
pub(crate) fn digest(content: impl Hash) -> i64 {
    let mut hasher = Digest(0x9E37_79B9_7F4A_7C15);
    content.hash(&mut hasher);
    i64::from_ne_bytes(hasher.finish().to_ne_bytes())
}

struct Digest(u64);

impl Hasher for Digest {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 = mix(self.0 ^ u64::from_le_bytes(word)).wrapping_add(chunk.len() as u64);
        }
    }

    fn finish(&self) -> u64 {
        mix(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_contents_have_equal_fingerprints_and_others_differ() {
        let contents = ["", "a", "b", "ab", "ba", "12345678", "123456789", "12345678\0"];
        let prints: std::collections::BTreeSet<i64> = contents.iter().map(digest).collect();
        assert_eq!(prints.len(), contents.len());
        assert_eq!(digest("12345678"), digest(String::from("12345678")));
    }

    #[test]
    fn a_stored_fingerprint_means_the_same_in_every_version() {
        assert_eq!(digest(("complete", &b"1"[..])), 7_246_671_774_088_288_771);
    }
}
