//! When something happened, as a label. Order comes from `Seq`, never from here.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Microseconds since 1970-01-01 UTC; RFC 3339 in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(value_type = String, format = DateTime))]
pub struct Timestamp(pub i64);

/// A text that is not an RFC 3339 time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a time is written like 2026-01-31T12:00:00Z")]
pub struct BadTimestamp;

impl std::str::FromStr for Timestamp {
    type Err = BadTimestamp;

    fn from_str(text: &str) -> Result<Self, BadTimestamp> {
        text.parse::<jiff::Timestamp>().map(|at| Self(at.as_microsecond())).map_err(|_| BadTimestamp)
    }
}

impl std::fmt::Display for Timestamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A label outside of jiff's range can only come from a damaged log; showing the epoch beats refusing the event.
        write!(f, "{:.6}", jiff::Timestamp::from_microsecond(self.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        std::borrow::Cow::<str>::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rfc_3339_with_microseconds() {
        let at = Timestamp(1_767_225_600_000_123);
        assert_eq!(at.to_string(), "2026-01-01T00:00:00.000123Z");
        assert_eq!("2026-01-01T00:00:00.000123Z".parse(), Ok(at));
        assert_eq!("yesterday".parse::<Timestamp>(), Err(BadTimestamp));
    }
}
