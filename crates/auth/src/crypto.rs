//! The cryptography of JSON Web Tokens, by `ring`, which TLS needs anyway. Only the algorithms that the configuration
//! offers exist: HS256, RS256, ES256 and EdDSA with Ed25519.

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind, EncodingKey};
use ring::hmac;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use signature::{Error, Signer, Verifier};

/// Makes `jsonwebtoken` use this module. If another part of the program has chosen a provider before, that one stays.
pub(crate) fn install() {
    static PROVIDER: CryptoProvider = CryptoProvider {
        signer_factory: signer,
        verifier_factory: verifier,
        // Needed only to convert private keys and for thumbprints.
        key_utils: KeyUtils::new_unimplemented(),
    };
    // An error says that a provider is installed already.
    let _ = PROVIDER.install_default();
}

fn signer(algorithm: &Algorithm, key: &EncodingKey) -> Result<Box<dyn JwtSigner>> {
    match (algorithm, key.family()) {
        (Algorithm::HS256, AlgorithmFamily::Hmac) => {
            Ok(Box::new(Secret(hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes()))))
        }
        _ => Err(ErrorKind::InvalidAlgorithm.into()),
    }
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    match (algorithm, key.family()) {
        (Algorithm::HS256, AlgorithmFamily::Hmac) => {
            Ok(Box::new(Secret(hmac::Key::new(hmac::HMAC_SHA256, key.try_get_as_bytes()?))))
        }
        (Algorithm::RS256, AlgorithmFamily::Rsa)
        | (Algorithm::ES256, AlgorithmFamily::Ec)
        | (Algorithm::EdDSA, AlgorithmFamily::Ed) => {
            Ok(Box::new(Public { algorithm: *algorithm, key: key.clone() }))
        }
        _ => Err(ErrorKind::InvalidAlgorithm.into()),
    }
}

/// A shared secret: HS256.
struct Secret(hmac::Key);

impl Signer<Vec<u8>> for Secret {
    fn try_sign(&self, message: &[u8]) -> std::result::Result<Vec<u8>, Error> {
        Ok(hmac::sign(&self.0, message).as_ref().to_vec())
    }
}

impl JwtSigner for Secret {
    fn algorithm(&self) -> Algorithm {
        Algorithm::HS256
    }
}

impl Verifier<Vec<u8>> for Secret {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Error> {
        hmac::verify(&self.0, message, signature).map_err(|_| Error::new())
    }
}

impl JwtVerifier for Secret {
    fn algorithm(&self) -> Algorithm {
        Algorithm::HS256
    }
}

/// A public key: RS256, ES256 or EdDSA.
struct Public {
    algorithm: Algorithm,
    key: DecodingKey,
}

impl Verifier<Vec<u8>> for Public {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Error> {
        let verified = match (self.algorithm, self.key.kind()) {
            (Algorithm::RS256, DecodingKeyKind::RsaModulusExponent { n, e }) => {
                RsaPublicKeyComponents { n, e }.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
            }
            (Algorithm::RS256, DecodingKeyKind::SecretOrDer(key)) => {
                UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key).verify(message, signature)
            }
            (Algorithm::ES256, DecodingKeyKind::SecretOrDer(key)) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key).verify(message, signature)
            }
            (Algorithm::EdDSA, DecodingKeyKind::SecretOrDer(key)) => {
                UnparsedPublicKey::new(&ED25519, key).verify(message, signature)
            }
            _ => return Err(Error::new()),
        };
        verified.map_err(|_| Error::new())
    }
}

impl JwtVerifier for Public {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
