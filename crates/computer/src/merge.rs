//! Two people changed one text: both changes are kept. No inserted word of either side is ever lost.

use choir_proto::document::TextChange;
use similar::{DiffOp, TextDiff};
use std::collections::HashMap;
use std::time::Duration;

/// How long a difference may be looked for. What is found by then is right, only coarser.
const DIFF_TIME_MAX: Duration = Duration::from_millis(200);

/// Merges two descendants of a text. Where both replaced the same words, the words of both stand, `ours` first.
pub fn merge(base: &str, ours: &str, theirs: &str) -> String {
    if base == ours || ours == theirs {
        return theirs.to_owned();
    }
    if base == theirs {
        return ours.to_owned();
    }
    let mut changes = differences(base, ours);
    changes.extend(differences(base, theirs));
    // A stable sort: at the same place ours stays before theirs.
    changes.sort_by_key(|change| change.from);
    apply(base, join(changes))
}

/// What makes `new` of `old`, in order. Words of one line that changed together are one change: a blank that happened to
/// stay between them is not a place where somebody else's text goes on.
pub fn changes(old: &str, new: &str) -> Vec<TextChange> {
    let change = |Change { from, to, text }: Change| TextChange {
        from: from as u64,
        removed: (to - from) as u64,
        inserted: text.len() as u64,
        text: Some(text),
    };
    let mut joined: Vec<Change> = Vec::new();
    for next in differences(old, new) {
        match joined.last_mut() {
            Some(last) if is_blank(&old[last.to..next.from]) => {
                last.text.push_str(&old[last.to..next.from]);
                last.text.push_str(&next.text);
                last.to = next.to;
            }
            _ => joined.push(next),
        }
    }
    joined.into_iter().map(change).collect()
}

/// `new` may be the beginning of something longer: the text with as much of it as is known, and after that what stands in
/// `old` behind the last line that both have.
pub fn begun(old: &str, new: &str) -> String {
    let mut text = new.to_owned();
    let tail = &old[passed(old, new)..];
    if !text.is_empty() && !text.ends_with('\n') && !tail.is_empty() {
        text.push_str("\n\n");
    }
    text + tail
}

/// How much of `old` is passed by a text that begins like this: up to the last of its whole lines that stands in both, in
/// order.
fn passed(old: &str, new: &str) -> usize {
    let whole = &new[..new.rfind('\n').map_or(0, |end| end + 1)];
    // Where each line ends that old has, in order: looking through all of old for every line takes too long in a long text.
    let mut ends: HashMap<&str, Vec<usize>> = HashMap::new();
    let mut at = 0;
    for known in old.split_inclusive('\n') {
        at += known.len();
        ends.entry(known.trim_end()).or_default().push(at);
    }
    whole.lines().map(str::trim_end).filter(|line| !line.is_empty()).fold(0, |passed, line| {
        let ends = ends.get(line).map_or(&[][..], Vec::as_slice);
        ends.get(ends.partition_point(|end| *end <= passed)).copied().unwrap_or(passed)
    })
}

fn is_blank(between: &str) -> bool {
    between.chars().all(|letter| letter == ' ' || letter == '\t')
}

/// Replaces a range of bytes of the base.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Change {
    from: usize,
    to: usize,
    text: String,
}

fn differences(base: &str, new: &str) -> Vec<Change> {
    let diff = TextDiff::configure().timeout(DIFF_TIME_MAX).diff_words(base, new);
    let lengths = |slices: &[&str]| -> Vec<usize> {
        let mut at = 0;
        let mut starts = vec![0];
        for slice in slices {
            at += slice.len();
            starts.push(at);
        }
        starts
    };
    let (old, fresh) =
        (lengths(&diff.iter_old_slices().collect::<Vec<_>>()), lengths(&diff.iter_new_slices().collect::<Vec<_>>()));
    let changed = diff.ops().iter().filter(|op| !matches!(op, DiffOp::Equal { .. }));
    changed
        .map(|op| {
            let (from, to) = (op.old_range(), op.new_range());
            let (from, to, text) = (old[from.start], old[from.end], &new[fresh[to.start]..fresh[to.end]]);
            inserted(base, from, to, text).unwrap_or_else(|| Change { from, to, text: text.to_owned() })
        })
        .collect()
}

/// A word that only grew was not replaced: what it grew by came, and the word itself stays where it was.
fn inserted(base: &str, from: usize, to: usize, text: &str) -> Option<Change> {
    let word = &base[from..to];
    let head =
        word.chars().zip(text.chars()).take_while(|(old, new)| old == new).map(|(letter, _)| letter.len_utf8()).sum();
    let rest = &word[head..];
    let grown = text[head..].strip_suffix(rest)?;
    (!word.is_empty()).then(|| Change { from: from + head, to: from + head, text: grown.to_owned() })
}

/// Makes one change of those that overlap or were made twice.
fn join(changes: Vec<Change>) -> Vec<Change> {
    let mut joined: Vec<Change> = Vec::new();
    for change in changes {
        match joined.last_mut() {
            Some(last) if *last == change => {}
            Some(last) if change.from < last.to => {
                last.to = last.to.max(change.to);
                if !last.text.contains(&change.text) {
                    last.text.push_str(&change.text);
                }
            }
            _ => joined.push(change),
        }
    }
    joined
}

fn apply(base: &str, changes: Vec<Change>) -> String {
    let mut text = String::with_capacity(base.len());
    let mut at = 0;
    for change in changes {
        text.push_str(&base[at..change.from]);
        text.push_str(&change.text);
        at = change.to;
    }
    text.push_str(&base[at..]);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_in_different_places_meet() {
        assert_eq!(merge("one two three\n", "ONE two three\n", "one two THREE four\n"), "ONE two THREE four\n");
        assert_eq!(merge("a\n", "a\nb\n", "a\n"), "a\nb\n");
        assert_eq!(merge("", "x", "y"), "xy");
    }

    #[test]
    fn words_of_both_stand_where_both_replaced_the_same() {
        let merged = merge("the old word", "the new word", "the other word");
        assert!(merged.contains("new") && merged.contains("other") && !merged.contains("old"), "{merged}");
        assert_eq!(merge("the old word", "the new word", "the new word"), "the new word");
    }

    #[test]
    fn a_word_that_grew_on_both_sides_is_there_once() {
        assert_eq!(merge("<a>", "<a><b>", "<a><c>"), "<a><b><c>");
        assert_eq!(merge("x mid y", "x premid y", "x midpost y"), "x premidpost y");
        let changes = changes("one (two)", "one (two, three)");
        assert_eq!((changes.len(), changes[0].removed, changes[0].text.as_deref()), (1, 0, Some(", three")));
        let whole = self::changes("all the old words\nstay", "quite some new ones\nstay");
        assert_eq!((whole.len(), whole[0].removed), (1, 17), "a line that is new is one change: {whole:?}");
    }

    #[test]
    fn a_beginning_leaves_what_it_has_not_reached() {
        let old = "# Herons\n\nThey wade.\n\n## Food\n\nFish.\n";
        assert_eq!(begun(old, ""), old);
        assert_eq!(begun(old, "# Her"), format!("# Her\n\n{old}"));
        assert_eq!(begun(old, "# Herons\n\nThey st"), "# Herons\n\nThey st\n\n\nThey wade.\n\n## Food\n\nFish.\n");
        assert_eq!(
            begun(old, "# Herons\n\nThey stand.\n\n## Food\nF"),
            "# Herons\n\nThey stand.\n\n## Food\nF\n\n\nFish.\n"
        );
        assert_eq!(begun("", "new wor"), "new wor");
    }

    #[test]
    fn a_beginning_of_very_many_new_lines_is_found_at_once() {
        let lines = |word: &str| (0..200_000).map(|number| format!("{word} {number}\n")).collect::<String>();
        let old = lines("old");
        assert_eq!(passed(&old, &lines("new")), 0);
        assert_eq!(passed(&old, &old), old.len());
    }

    #[test]
    fn a_line_that_stands_twice_is_passed_once_for_each_time_it_was_said() {
        let old = "same\nother\nsame\nlast\n";
        assert_eq!(&old[passed(old, "same\n")..], "other\nsame\nlast\n");
        assert_eq!(&old[passed(old, "same \n\nsame\n")..], "last\n");
        assert_eq!(&old[passed(old, "last\nsame\n")..], "", "never back");
    }

    #[test]
    fn an_insertion_inside_a_deleted_stretch_survives() {
        let merged = merge("a b c d e", "a e", "a b c NEW d e");
        assert!(merged.contains("NEW"), "{merged}");
    }
}
