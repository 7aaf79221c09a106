//! Values that must never be seen: the type refuses to be printed, logged or serialised.

use serde::Deserialize;
use sha2::{Digest as _, Sha256};

/// A provider key, a token or a session id in the clear. Reading it takes a visible `expose`.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Takes a value out of sight.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// 256 random bits as hexadecimal digits: what sessions and tokens are made of.
    pub fn random() -> Self {
        Self(hex(&random_bytes::<32>()))
    }

    /// The value itself. Whoever calls this decides where it goes.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// What may be stored in its place. The value has 256 random bits, so no salt and no slow hash are needed.
    pub fn digest(&self) -> Digest {
        Digest::of(self.0.as_bytes())
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The SHA-256 of a [`Secret`]: finds it again without keeping it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(pub(crate) [u8; 32]);

impl Digest {
    /// Of bytes that need not be secret.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Eight hexadecimal digits, for names.
    pub(crate) fn short(&self) -> String {
        hex(&self.0[..4])
    }

    /// Enough of it to tell tokens apart, too little to be one.
    pub(crate) fn id(&self) -> String {
        hex(&self.0[..8])
    }
}

impl std::fmt::Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Digest({}…)", self.short())
    }
}

/// Bytes from the kernel.
pub(crate) fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("a booted kernel always has randomness");
    bytes
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_does_not_show_itself() {
        let secret = Secret::new("canary-7731");
        assert!(!format!("{secret:?} {:?} {:?}", secret.digest(), Some(&secret)).contains("canary"));
        assert_eq!(secret.expose(), "canary-7731");
    }

    #[test]
    fn two_random_secrets_differ() {
        assert_ne!(Secret::random(), Secret::random());
        assert_eq!(Secret::random().expose().len(), 64);
    }
}
