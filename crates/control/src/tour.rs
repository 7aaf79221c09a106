//! The tour's material: what it brings into a workspace, what it asks, and the recorded answers that are played to it. Everything
//! else of a tour is real: agents, tools, checks, documents.

use crate::gateway::Provider;
use choir_llm::scripted::Scenario;
use choir_proto::Hash;
use choir_proto::run::NewRun;
use choir_proto::task::{Verify, VerifyMode};
use choir_proto::tour::{Pace, Tour};
use sha2::{Digest, Sha256};
use std::sync::LazyLock;
use std::time::Duration;

/// The folder of the workspace that is the tour's own; it is laid out anew each time.
const FOLDER: &str = "projects/tour";
/// How long a recorded answer takes when it is watched: long enough to read what the last one led to, and to pull a plug.
const THINKS: Duration = Duration::from_millis(1_500);

/// Sources, by the name under which the recorded answers know them.
const SOURCES: [(&str, &str); 6] = [
    ("heron-readme", include_str!("../tour/sources/heron-readme.md")),
    ("heron-notes", include_str!("../tour/sources/heron-notes.md")),
    ("heron-issue", include_str!("../tour/sources/heron-issue.md")),
    ("wren-readme", include_str!("../tour/sources/wren-readme.md")),
    ("wren-notes", include_str!("../tour/sources/wren-notes.md")),
    ("wren-report", include_str!("../tour/sources/wren-report.md")),
];

static RECORDED: LazyLock<[Scenario; 3]> = LazyLock::new(|| Tour::ALL.map(read));

/// What a part of the tour finds when it begins.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    /// Paths in the workspace and what is there.
    pub files: Vec<(String, &'static str)>,
    /// Texts that the run is given to read.
    pub sources: Vec<&'static str>,
    /// What is asked, without what points at the sources.
    pub run: NewRun,
}

/// Sets the stage for a part.
pub fn stage(tour: Tour, pace: Pace) -> Stage {
    let (files, prompt): (&[(&str, &str)], _) = match tour {
        Tour::Liar => (
            &[("total.sh", include_str!("../tour/total.sh")), ("check.sh", include_str!("../tour/check.sh"))],
            "The total of projects/tour is off by a cent. Fix it.",
        ),
        Tour::Quotes => (&[], "Compare Heron and Wren from these six sources, and quote what you rely on."),
        Tour::Numbers => (
            &[("prices.csv", include_str!("../tour/prices.csv")), ("chart.sh", include_str!("../tour/chart.sh"))],
            "Show me the prices as a figure.",
        ),
    };
    let check = Verify { mode: VerifyMode::Commands, commands: vec![format!("sh {FOLDER}/check.sh")] };
    Stage {
        files: files.iter().map(|(name, text)| (format!("{FOLDER}/{name}"), *text)).collect(),
        sources: if tour == Tour::Quotes { SOURCES.map(|(_, text)| text).to_vec() } else { Vec::new() },
        run: NewRun {
            model: Some(tour.model(pace)),
            verify: (tour == Tour::Liar).then_some(check),
            ..NewRun::new(prompt.to_owned())
        },
    }
}

/// The provider that plays a model of the tour.
pub(crate) fn provider(model: &str) -> Option<Provider> {
    let (tour, pace) = Tour::of_model(model)?;
    let place = Tour::ALL.iter().position(|other| *other == tour)?;
    let scenario = RECORDED.get(place)?.clone();
    let pause = match pace {
        Pace::Watched => THINKS,
        Pace::AtOnce => Duration::ZERO,
    };
    Some(Provider::recorded("tour", scenario, pause))
}

fn read(tour: Tour) -> Scenario {
    let text = match tour {
        Tour::Liar => include_str!("../tour/liar.json"),
        Tour::Quotes => include_str!("../tour/quotes.json"),
        Tour::Numbers => include_str!("../tour/numbers.json"),
    };
    let filled = SOURCES.iter().fold(text.to_owned(), |text, (name, source)| {
        text.replace(&format!("@{name}@"), &Hash(Sha256::digest(source).into()).to_string())
    });
    Scenario::parse(&filled).expect("the recorded answers are part of the program, and a test reads them")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_has_its_recorded_answers_and_no_hole_in_them() {
        for tour in Tour::ALL {
            let provider = provider(&tour.model(Pace::AtOnce)).unwrap();
            assert!(provider.is_usable());
            assert!(!format!("{provider:?}").contains("@heron"), "{tour:?}");
        }
        assert!(provider("tour/other").is_none());
    }
}
