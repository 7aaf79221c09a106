//! What of a wanted change may happen at once, and what a person has to be asked about first.

use crate::text::Authorship;
use choir_proto::document::TextChange;

/// A change that is divided.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Divided {
    /// May happen at once.
    pub free: Vec<TextChange>,
    /// Touches what a person wrote.
    pub proposed: Vec<Hunk>,
}

/// One place of a proposal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunk {
    /// Against the text before anything happened.
    pub change: TextChange,
    /// Where it begins once the free changes have happened.
    pub from_after: u64,
}

/// Divides hunks, which are in order and against `text`, by who wrote what they touch.
pub fn divide(text: &str, hunks: Vec<TextChange>, authorship: &Authorship) -> Divided {
    let mut divided = Divided::default();
    let mut shift: i64 = 0;
    for hunk in hunks {
        if !authorship.touches_a_person(hunk.from, hunk.removed) {
            shift += hunk.inserted as i64 - hunk.removed as i64;
            divided.free.push(hunk);
            continue;
        }
        match divided.proposed.last_mut().filter(|last| is_one_place(text, &last.change, &hunk, &divided.free)) {
            Some(last) => join(text, &mut last.change, &hunk),
            None => {
                let from_after = hunk.from.saturating_add_signed(shift);
                divided.proposed.push(Hunk { change: hunk, from_after });
            }
        }
    }
    divided
}

/// Everything is a question.
pub fn all(text: &str, hunks: Vec<TextChange>) -> Divided {
    let mut proposed: Vec<Hunk> = Vec::new();
    for hunk in hunks {
        match proposed.last_mut().filter(|last| is_one_place(text, &last.change, &hunk, &[])) {
            Some(last) => join(text, &mut last.change, &hunk),
            None => proposed.push(Hunk { from_after: hunk.from, change: hunk }),
        }
    }
    Divided { free: Vec::new(), proposed }
}

/// Words changed within one line, with nothing else happening between them, are one question, not five.
fn is_one_place(text: &str, last: &TextChange, next: &TextChange, free: &[TextChange]) -> bool {
    let end = last.from + last.removed;
    let untouched = free.last().is_none_or(|free| free.from < last.from);
    let between = text.get(end as usize..next.from as usize);
    untouched && between.is_some_and(|between| !between.contains('\n'))
}

fn join(text: &str, last: &mut TextChange, next: &TextChange) {
    let end = (last.from + last.removed) as usize;
    let between = text.get(end..next.from as usize).unwrap_or_default();
    let joined =
        format!("{}{between}{}", last.text.as_deref().unwrap_or_default(), next.text.as_deref().unwrap_or_default());
    last.removed = next.from + next.removed - last.from;
    last.inserted = joined.len() as u64;
    last.text = Some(joined);
}

#[cfg(test)]
mod tests {
    use super::*;
    use choir_proto::event::Actor;
    use choir_proto::{Role, Seq};

    fn change(from: u64, removed: u64, text: &str) -> TextChange {
        TextChange { from, removed, inserted: text.len() as u64, text: Some(text.to_owned()) }
    }

    #[test]
    fn what_a_person_wrote_is_asked_about_and_the_rest_happens() {
        let text = "agent words\nhuman words here\nagent again\n";
        let mut authorship = Authorship::whole(24, Actor::Agent(Role::Writer), Seq(1));
        authorship.apply(&[change(12, 0, "human words here\n")], &Actor::Person, Seq(2));
        let hunks =
            vec![change(0, 5, "AGENT!"), change(12, 5, "HUMAN"), change(24, 4, "THERE"), change(29, 5, "Agent")];
        let divided = divide(text, hunks, &authorship);
        assert_eq!(divided.free, [change(0, 5, "AGENT!"), change(29, 5, "Agent")]);
        let expected = Hunk { change: change(12, 16, "HUMAN words THERE"), from_after: 13 };
        assert_eq!(divided.proposed, [expected], "one line is one question, told where it will stand");
    }

    #[test]
    fn places_on_two_lines_are_two_questions() {
        let text = "one\ntwo\n";
        let authorship = Authorship::whole(8, Actor::Person, Seq(1));
        let divided = divide(text, vec![change(0, 3, "1"), change(4, 3, "2")], &authorship);
        assert!(divided.free.is_empty());
        assert_eq!(divided.proposed.len(), 2);
    }
}
