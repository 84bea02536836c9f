//! The scrape token. It allows a scraper to read the metrics of a server, and nothing else.

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The token is known by its hash. It never creates a principal.
#[derive(Debug, Clone)]
pub struct ScrapeToken {
    hash: [u8; 32],
}

impl ScrapeToken {
    pub fn new(token: &str) -> Self {
        Self { hash: Sha256::digest(token.as_bytes()).into() }
    }

    /// Whether this is the configured token. The comparison takes constant time, so its duration reveals
    /// nothing.
    pub fn is(&self, given: &str) -> bool {
        let hash: [u8; 32] = Sha256::digest(given.as_bytes()).into();
        self.hash.ct_eq(&hash).into()
    }
}

#[cfg(test)]
mod tests {
    use super::ScrapeToken;

    #[test]
    fn only_the_whole_token_is_it() {
        let token = ScrapeToken::new("0123456789abcdef");
        assert!(token.is("0123456789abcdef"));
        for wrong in ["", "0123456789abcde", "0123456789abcdef ", "0123456789ABCDEF"] {
            assert!(!token.is(wrong), "{wrong:?}");
        }
    }
}
