//! Money, counted in whole millionths so that the parts of a receipt add up exactly.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Millionths of a US dollar; a number of dollars in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(value_type = f64))]
pub struct Usd(pub u64);

impl Usd {
    const MICROS: f64 = 1_000_000.0;

    /// Nearest amount; negative or unrepresentable amounts of money are nobody's budget.
    pub fn from_dollars(dollars: f64) -> Option<Self> {
        let micros = dollars * Self::MICROS;
        (micros.is_finite() && (0.0..=9.0e15).contains(&micros)).then(|| Self(micros.round() as u64))
    }

    /// Whether it is no money at all.
    pub const fn is_nothing(&self) -> bool {
        self.0 == 0
    }

    /// For people and JSON.
    pub fn dollars(self) -> f64 {
        self.0 as f64 / Self::MICROS
    }
}

/// Exactly: at least to the cent, and as far as the amount goes.
impl std::fmt::Display for Usd {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (whole, millionths) = (self.0 / 1_000_000, format!("{:06}", self.0 % 1_000_000));
        let parts = millionths.trim_end_matches('0');
        write!(formatter, "${whole}.{parts:0<2}")
    }
}

impl std::ops::Add for Usd {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Serialize for Usd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.dollars())
    }
}

impl<'de> Deserialize<'de> for Usd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let dollars = f64::deserialize(deserializer)?;
        Self::from_dollars(dollars).ok_or_else(|| serde::de::Error::custom("an amount is a number of dollars from 0"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_told_exactly() {
        let told = [5_000_000, 0, 4_000, 120_000, 1_234_567, 1].map(|micros| Usd(micros).to_string());
        assert_eq!(told, ["$5.00", "$0.00", "$0.004", "$0.12", "$1.234567", "$0.000001"]);
    }
}
