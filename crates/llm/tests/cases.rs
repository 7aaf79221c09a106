//! Answers as providers stream them, a folder each: `request.json`, `wire.txt`, `expected.json`, and `body.json` where the
//! request's own form is part of the case. However the bytes are cut, the answer is the same.
//!
//! The cases here were written after the providers' documentation and known habits; one that was recorded from a live
//! provider is a folder like any other.

use choir_llm::transcript::{Case, Expected};
use choir_llm::{Endpoint, Format, Preset, encode};
use choir_proto::model::{Answer, Delta, ErrorClass, ModelError};
use proptest::prelude::*;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

struct Recorded {
    name: String,
    folder: PathBuf,
    case: Case,
}

static RECORDED: LazyLock<Vec<Recorded>> = LazyLock::new(recorded);

fn recorded() -> Vec<Recorded> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut all = Vec::new();
    for &format in Format::ALL {
        for folder in fs::read_dir(root.join(format.name())).unwrap() {
            let folder = folder.unwrap().path();
            let read =
                |file: &str| fs::read(folder.join(file)).unwrap_or_else(|error| panic!("{folder:?}/{file}: {error}"));
            let case = Case::parse(format, &read("request.json"), read("wire.txt"), &read("expected.json"))
                .unwrap_or_else(|error| panic!("{folder:?}: {error}"));
            let name = format!("{}/{}", format.name(), folder.file_name().unwrap().to_string_lossy());
            all.push(Recorded { name, folder, case });
        }
    }
    all
}

#[test]
fn every_recorded_answer_means_what_it_should() {
    let all = &*RECORDED;
    for Recorded { name, case, .. } in all {
        let (_, outcome) = case.play(&[]);
        assert!(case.expected.agrees(&outcome), "{name}: {outcome:#?}");
    }
    for &format in Format::ALL {
        let count = all.iter().filter(|recorded| recorded.case.format == format).count();
        assert!(count >= 8, "{count} cases of {}", format.name());
    }
}

#[test]
fn one_cut_anywhere_changes_nothing() {
    for Recorded { name, case, .. } in RECORDED.iter() {
        let (whole, _) = case.play(&[]);
        for cut in 0..=case.wire.len() {
            let (deltas, outcome) = case.play(&[cut]);
            assert!(case.expected.agrees(&outcome), "{name} cut at {cut}: {outcome:#?}");
            assert_eq!(deltas, whole, "{name} cut at {cut}");
        }
    }
}

#[test]
fn single_bytes_change_nothing() {
    for Recorded { name, case, .. } in RECORDED.iter() {
        let cuts: Vec<usize> = (0..case.wire.len()).collect();
        let (deltas, outcome) = case.play(&cuts);
        assert!(case.expected.agrees(&outcome), "{name}: {outcome:#?}");
        assert_eq!(deltas, case.play(&[]).0, "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_cuts_change_nothing(seeds in proptest::collection::vec(any::<prop::sample::Index>(), 0..20)) {
        for Recorded { name, case, .. } in RECORDED.iter() {
            let mut cuts: Vec<usize> = seeds.iter().map(|seed| seed.index(case.wire.len() + 1)).collect();
            cuts.sort_unstable();
            let (deltas, outcome) = case.play(&cuts);
            prop_assert!(case.expected.agrees(&outcome), "{} cut at {:?}: {:#?}", name, cuts, outcome);
            prop_assert_eq!(deltas, case.play(&[]).0);
        }
    }

    /// Any bytes at all: an answer or an error, never a panic.
    #[test]
    fn hostile_bytes_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200), at in any::<prop::sample::Index>()) {
        for Recorded { case, .. } in RECORDED.iter() {
            let mut case = case.clone();
            let start = at.index(case.wire.len() + 1);
            let end = (start + bytes.len() / 2).min(case.wire.len());
            case.wire.splice(start..end, bytes.iter().copied());
            if let Ok(answer) = case.play(&[]).1 {
                for call in answer.message.tool_calls {
                    prop_assert!(!call.name.is_empty() && !call.id.is_empty());
                    prop_assert_eq!(call.malformed.is_some(), call.arguments.is_null());
                }
            }
        }
    }
}

/// A connection that is lost at any moment loses the answer as a whole, or nothing of it but the count of tokens: no call is
/// ever made of a part.
#[test]
fn a_lost_connection_never_makes_half_an_answer() {
    for Recorded { name, case, .. } in RECORDED.iter() {
        let Expected::Answer(whole) = &case.expected else { continue };
        for length in 0..case.wire.len() {
            let cut = Case { wire: case.wire[..length].to_vec(), ..case.clone() };
            match cut.play(&[]).1 {
                Ok(answer) => assert_eq!(
                    (&answer.message, answer.stop),
                    (&whole.message, whole.stop),
                    "{name} lost after {length} bytes"
                ),
                Err(error) => assert_eq!(error.class, ErrorClass::Truncated, "{name} lost after {length}: {error}"),
            }
        }
    }
}

#[test]
fn the_pieces_add_up_to_the_answer() {
    for Recorded { name, case, .. } in RECORDED.iter() {
        let (deltas, Ok(answer)) = case.play(&[]) else { continue };
        // A whole document has no pieces; reasoning in tags is known only at the end.
        if deltas.is_empty() {
            continue;
        }
        let pick = |wanted: fn(&Delta) -> Option<&str>| deltas.iter().filter_map(wanted).collect::<String>();
        let text = pick(|delta| if let Delta::Text { text } = delta { Some(text) } else { None });
        let reasoning = pick(|delta| if let Delta::Reasoning { text } = delta { Some(text) } else { None });
        assert_eq!((text, reasoning), (answer.message.text.clone(), answer.message.reasoning.clone()), "{name}");
        assert_calls_announced(name, &deltas, &answer);
    }
}

fn assert_calls_announced(name: &str, deltas: &[Delta], answer: &Answer) {
    for (position, call) in (0..).zip(&answer.message.tool_calls) {
        let begun = Delta::ToolCall { index: position, id: call.id.clone(), name: call.name.clone() };
        assert!(deltas.contains(&begun), "{name}: {begun:?}");
    }
}

#[test]
fn requests_have_the_recorded_form() {
    let mut compared = 0;
    for Recorded { name, folder, case } in RECORDED.iter() {
        let Ok(expected) = fs::read(folder.join("body.json")) else { continue };
        let model = case.request.model.as_deref().and_then(|model| model.split_once('/')).unwrap().1;
        let base_url = "http://127.0.0.1:1";
        let endpoint = Endpoint { base_url, model, key: None, preset: Preset::OpenAi, reasoning_tokens: None };
        let outgoing = encode(case.format, &endpoint, &case.request);
        let body: serde_json::Value = serde_json::from_slice(&outgoing.body).unwrap();
        let expected: serde_json::Value = serde_json::from_slice(&expected).unwrap();
        assert_eq!(body, expected, "{name}: {body:#}");
        compared += 1;
    }
    assert!(compared >= 6, "{compared} bodies");
}

#[test]
fn a_failure_keeps_coming_back() {
    let mut decoder = choir_llm::Decoder::new(Format::OpenAi, "a/b");
    let good = r#"data: {"choices":[{"delta":{"content":"Half"}}]}"#;
    let both = format!("{good}\n\ndata: nonsense\n\n{good}\n\n");
    assert_eq!(decoder.push(both.as_bytes()).unwrap(), [Delta::Text { text: "Half".to_owned() }]);
    let again: ModelError = decoder.push(good.as_bytes()).unwrap_err();
    assert_eq!(again.class, ErrorClass::Garbage);
    assert_eq!(decoder.finish().unwrap_err(), again);
}
