//! Two people changed one text: both changes are kept. No inserted word of either side is ever lost.

use similar::{DiffOp, TextDiff};

/// Merges two descendants of a text. Where both replaced the same words, the words of both stand, `ours` first.
pub fn merge(base: &str, ours: &str, theirs: &str) -> String {
    if base == ours || ours == theirs {
        return theirs.to_owned();
    }
    if base == theirs {
        return ours.to_owned();
    }
    let mut changes = changes(base, ours);
    changes.extend(self::changes(base, theirs));
    // A stable sort: at the same place ours stays before theirs.
    changes.sort_by_key(|change| change.from);
    apply(base, join(changes))
}

/// Replaces a range of bytes of the base.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Change {
    from: usize,
    to: usize,
    text: String,
}

fn changes(base: &str, new: &str) -> Vec<Change> {
    let diff = TextDiff::from_words(base, new);
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
            Change { from: old[from.start], to: old[from.end], text: new[fresh[to.start]..fresh[to.end]].to_owned() }
        })
        .collect()
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
    fn an_insertion_inside_a_deleted_stretch_survives() {
        let merged = merge("a b c d e", "a e", "a b c NEW d e");
        assert!(merged.contains("NEW"), "{merged}");
    }
}
