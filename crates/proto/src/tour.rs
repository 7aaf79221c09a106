//! The tour: recorded answers of a model that drive the real system, so that it can be watched without a model.

use serde::{Deserialize, Serialize};

/// The provider under which recorded answers are played.
const PROVIDER: &str = "tour";
/// What a model's name ends with when its answers come at once.
const AT_ONCE: &str = "-at-once";

/// One part of the tour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Tour {
    /// A worker says that it is done, and is not.
    Liar,
    /// Quotations that hold, and one that does not.
    Quotes,
    /// A figure that knows when it is stale.
    Numbers,
}

/// How quickly recorded answers come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// Slowly enough to be watched.
    #[default]
    Watched,
    /// As fast as they can be read.
    AtOnce,
}

/// The body of `POST /api/tours`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewTour {
    /// Which part.
    pub tour: Tour,
    /// How quickly it goes.
    #[serde(default)]
    pub pace: Pace,
}

/// The answer of `POST /api/tours/{id}/plug`: the computer's process was killed, and another one stands in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PlugPulled {
    /// How long nobody answered.
    pub away_ms: u64,
    /// How often the computer was started again since control runs.
    pub restarts: u32,
}

impl Tour {
    /// All of it, in the order in which it is offered.
    pub const ALL: [Self; 3] = [Self::Liar, Self::Quotes, Self::Numbers];

    /// The word in the API and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Liar => "liar",
            Self::Quotes => "quotes",
            Self::Numbers => "numbers",
        }
    }

    /// For people.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Liar => "The liar is caught",
            Self::Quotes => "Quotes that hold",
            Self::Numbers => "Numbers that stay alive",
        }
    }

    /// The model that plays it, as a run names it.
    pub fn model(self, pace: Pace) -> String {
        let ending = match pace {
            Pace::Watched => "",
            Pace::AtOnce => AT_ONCE,
        };
        format!("{PROVIDER}/{}{ending}", self.name())
    }

    /// What a model's name plays, if it is the tour's.
    pub fn of_model(model: &str) -> Option<(Self, Pace)> {
        let name = model.strip_prefix(PROVIDER)?.strip_prefix('/')?;
        let (name, pace) = name.strip_suffix(AT_ONCE).map_or((name, Pace::Watched), |name| (name, Pace::AtOnce));
        Self::ALL.into_iter().find(|tour| tour.name() == name).map(|tour| (tour, pace))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_of_the_tour_is_known_by_its_name() {
        for tour in Tour::ALL {
            for pace in [Pace::Watched, Pace::AtOnce] {
                assert_eq!(Tour::of_model(&tour.model(pace)), Some((tour, pace)));
            }
        }
        for other in ["tour", "tour/", "tour/-at-once", "tours/liar", "liar", "anthropic/liar"] {
            assert_eq!(Tour::of_model(other), None, "{other}");
        }
    }
}
