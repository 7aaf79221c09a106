//! What a document is called: by whoever began it, by the heading that it begins with, or by an agent where no person has.

use crate::text::{Authorship, Piece};
use choir_proto::event::Actor;

/// The longest heading that becomes a title.
const TITLE_BYTES_MAX: usize = 200;

/// What a document is called whose author has not named it yet.
const UNNAMED: &str = "Untitled";

/// Whether a title names anything.
pub fn is_given(title: &str) -> bool {
    !matches!(title.trim(), "" | UNNAMED)
}

/// A text that begins with a heading names itself.
pub fn heading(content: &str) -> Option<&str> {
    let heading = content.lines().find(|line| !line.trim().is_empty())?.strip_prefix("# ")?.trim();
    (!heading.is_empty() && heading.len() <= TITLE_BYTES_MAX).then_some(heading)
}

/// A heading that was not there before.
pub fn new_heading<'a>(before: &str, after: &'a str) -> Option<&'a str> {
    heading(after).filter(|new| heading(before) != Some(*new))
}

/// A heading that was not there before, unless an agent has written in it since the text was named last: that is a sketch, and
/// its author names the text when it is whole.
pub fn typed_heading<'a>(before: &str, after: &'a str, authorship: &Authorship) -> Option<&'a str> {
    let is_sketch = |piece: &Piece| piece.author != Actor::Person && piece.seq > authorship.named;
    let from = (after.len() - after.trim_start().len()) as u64;
    new_heading(before, after).filter(|new| {
        let to = from + "# ".len() as u64 + new.len() as u64;
        !authorship.within(from, to).iter().any(|(_, piece)| is_sketch(piece))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use choir_proto::{Role, Seq};

    #[test]
    fn a_text_names_itself_by_the_heading_that_it_begins_with() {
        assert_eq!(heading("\n# Trees \n\ntext"), Some("Trees"));
        for none in ["", "text\n# Trees", "## Trees", "#Trees", "# ", &format!("# {}", "x".repeat(201))] {
            assert_eq!(heading(none), None, "{none:?}");
        }
        assert_eq!(new_heading("# Trees\na", "# Trees\nb"), None, "it was called that before");
        assert_eq!(new_heading("a", "# Trees\na"), Some("Trees"));
    }

    #[test]
    fn a_heading_is_typed_where_no_agent_is_still_writing_it() {
        let after = "\n# Trees\n";
        let of = |author: Actor| Authorship::whole(after.len() as u64, author, Seq(1));
        assert_eq!(typed_heading("", after, &of(Actor::Person)), Some("Trees"));
        let mut written = of(Actor::Agent(Role::Writer));
        assert_eq!(typed_heading("", after, &written), None);
        written.named = Seq(1);
        assert_eq!(typed_heading("# Treess", after, &written), Some("Trees"), "a letter of an agent's heading went");
        assert_eq!(typed_heading("# Trees", after, &of(Actor::Person)), None);
    }

    #[test]
    fn a_place_holder_is_no_title() {
        assert!(is_given("P") && !is_given(" ") && !is_given("Untitled"));
    }
}
