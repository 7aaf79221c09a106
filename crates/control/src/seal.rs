//! Sealing provider keys at rest. The key file lies beside the database with mode 0600: what leaks one alone, leaks
//! nothing.

use crate::data::{self, DataDir};
use crate::secret::{Secret, random_bytes};
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};

/// Long enough that random nonces never meet.
const NONCE: usize = 24;

/// A sealed value that does not open.
#[derive(Debug, thiserror::Error)]
#[error("the stored key of `{name}` cannot be opened; enter it again")]
pub struct Unsealable {
    name: String,
}

/// Closes and opens secrets.
pub struct Seal {
    cipher: XChaCha20Poly1305,
}

impl Seal {
    /// With the key of a data directory; `rests` says what was sealed with it before.
    pub fn open(data: &DataDir, rests: Option<&'static str>) -> Result<Self, data::Error> {
        Ok(Self { cipher: XChaCha20Poly1305::new(&data.key("seal.key", rests)?.into()) })
    }

    /// The name is sealed in: a key moved to another provider's row does not open.
    pub fn seal(&self, name: &str, secret: &Secret) -> Vec<u8> {
        let nonce = random_bytes::<NONCE>();
        let payload = Payload { msg: secret.expose().as_bytes(), aad: name.as_bytes() };
        let sealed = self.cipher.encrypt(&XNonce::from(nonce), payload);
        let sealed = sealed.expect("a provider key is far below the cipher's limit of 256 GiB");
        [&nonce[..], &sealed].concat()
    }

    /// Opens what [`Self::seal`] closed.
    pub fn open_sealed(&self, name: &str, sealed: &[u8]) -> Result<Secret, Unsealable> {
        let unsealable = || Unsealable { name: name.to_owned() };
        let (nonce, sealed) = sealed.split_at_checked(NONCE).ok_or_else(unsealable)?;
        let nonce: [u8; NONCE] = nonce.try_into().map_err(|_| unsealable())?;
        let payload = Payload { msg: sealed, aad: name.as_bytes() };
        let opened = self.cipher.decrypt(&XNonce::from(nonce), payload).map_err(|_| unsealable())?;
        String::from_utf8(opened).map(Secret::new).map_err(|_| unsealable())
    }
}

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seal(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_key_opens_only_under_its_own_name_and_untouched() {
        let directory = tempfile::tempdir().unwrap();
        let seal = Seal::open(&DataDir::open(directory.path()).unwrap(), None).unwrap();
        let secret = Secret::new("sk-canary");
        let mut sealed = seal.seal("openai", &secret);
        assert!(!sealed.windows(6).any(|window| window == b"canary"));
        assert_eq!(seal.open_sealed("openai", &sealed).unwrap(), secret);
        assert!(seal.open_sealed("anthropic", &sealed).is_err());
        assert!(seal.open_sealed("openai", &sealed[..20]).is_err());
        sealed[30] ^= 1;
        assert!(seal.open_sealed("openai", &sealed).is_err());
    }
}
