//! One document as a replica of the Yjs protocol: the only place that knows `yrs`.
//!
//! Updates arrive from browsers and are hostile until proven: whatever decodes may still make the library panic, hide
//! things outside of the text, or refer to what nobody has. A replica that took a bad one is worthless, and is thrown away.

use choir_proto::document::TextChange;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use yrs::types::Delta;
use yrs::updates::decoder::Decode;
use yrs::{
    Any, Doc, GetString, Observable, OffsetKind, Options, Out, ReadTxn, StateVector, Text, TextRef, Transact, Update,
};

/// The name under which every replica keeps the text.
pub const ROOT: &str = "content";

/// The longest text of a document.
pub const CONTENT_BYTES_MAX: usize = 20 * 1024 * 1024;

/// The most that a replica may hold, what was deleted included. A text that was rewritten more often is continued as a new one.
pub(super) const STATE_BYTES_MAX: usize = 64 * 1024 * 1024;
const _: () =
    assert!(STATE_BYTES_MAX < choir_proto::wire::frames::ANSWER_BYTES_MAX, "a browser hears it in one message");

/// Whoever grows a replica from the same text must make the same replica, so the text's author has a name of its own.
const SEED: u64 = 1;

/// Why an update was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Not an update.
    #[error("this is no Yjs update")]
    Garbage,
    /// Something that is not in the log.
    #[error("the update refers to what this server has never seen; connect again and send everything")]
    Missing,
    /// Written for a replica that has begun anew since.
    #[error("the update is of another generation of the document")]
    Strange,
    /// For a document that is not there any more.
    #[error("the document was put away")]
    PutAway,
    /// Something besides text.
    #[error("a document holds text under `content` and nothing else")]
    NotText,
    /// Too much.
    #[error("the document would be longer than it may be")]
    TooLong,
}

/// What an update did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Applied {
    /// The part of it that was new, for other replicas.
    pub(super) update: Vec<u8>,
    /// What it means for the text, against the text before it.
    pub(super) changes: Vec<TextChange>,
}

/// A replica.
pub(super) struct Replica {
    doc: Doc,
    text: TextRef,
    content: String,
    /// What the last transaction did to the text, as the library saw it.
    seen: Arc<Mutex<Vec<Delta>>>,
}

impl Replica {
    /// Grows from a text.
    pub(super) fn from_text(author: u64, text: &str) -> Self {
        let seed = Self::empty(SEED);
        seed.text.insert(&mut seed.doc.transact_mut(), 0, text);
        let state = seed.state();
        let mut replica = Self::empty(author);
        replica.take(&state).expect("a replica reads what a replica wrote");
        replica
    }

    /// Grows from a kept state.
    pub(super) fn from_state(author: u64, state: &[u8]) -> Result<Self, Refused> {
        let mut replica = Self::empty(author);
        replica.apply(state)?;
        Ok(replica)
    }

    /// `author` names whatever is written here; it must not be used again by another life of the process.
    fn empty(author: u64) -> Self {
        let options = Options { offset_kind: OffsetKind::Bytes, ..Options::with_client_id(yrs::ClientID::new(author)) };
        let doc = Doc::with_options(options);
        let text = doc.get_or_insert_text(ROOT);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&seen);
        text.observe("changes", move |transaction, event: &yrs::types::text::TextEvent| {
            told.lock()
                .unwrap_or_else(|poisoned| poisoned.into_inner())
                .extend(event.delta(transaction).iter().cloned());
        });
        Self { doc, text, content: String::new(), seen }
    }

    /// The text.
    pub(super) fn content(&self) -> &str {
        &self.content
    }

    /// Everything, for a replica that has nothing.
    pub(super) fn state(&self) -> Vec<u8> {
        self.since(&StateVector::default())
    }

    /// Everything that somebody with this state lacks.
    pub(super) fn since(&self, vector: &StateVector) -> Vec<u8> {
        self.doc.transact().encode_state_as_update_v1(vector)
    }

    /// How far this replica is.
    pub(super) fn vector(&self) -> StateVector {
        self.doc.transact().state_vector()
    }

    /// Takes an update of somebody else. After a refusal the replica must not be used again. Nothing: it was all known.
    pub(super) fn apply(&mut self, update: &[u8]) -> Result<Option<Applied>, Refused> {
        // The library has met hostile updates with panics before; a panic here is one more way to be no update.
        let taken = catch_unwind(AssertUnwindSafe(|| self.take(update)));
        taken.unwrap_or(Err(Refused::Garbage))
    }

    /// The same for several updates, as one change.
    pub(super) fn apply_all<'a>(
        &mut self,
        updates: impl Iterator<Item = &'a [u8]>,
    ) -> Result<Option<Applied>, Refused> {
        let merged = merged(updates)?;
        self.apply(&merged)
    }

    fn take(&mut self, update: &[u8]) -> Result<Option<Applied>, Refused> {
        let update = Update::decode_v1(update).map_err(|_| Refused::Garbage)?;
        let mut transaction = self.doc.transact_mut();
        transaction.apply_update(update).map_err(|_| Refused::Garbage)?;
        let encoded = transaction.encode_update_v1();
        let is_new = !transaction.insert_set().is_empty() || !transaction.delete_set().is_empty();
        transaction.commit();
        drop(transaction);
        let transaction = self.doc.transact();
        if transaction.has_missing_updates() {
            return Err(Refused::Missing);
        }
        if transaction.root_refs().any(|(name, _)| name != ROOT) {
            return Err(Refused::NotText);
        }
        drop(transaction);
        let changes = self.look()?;
        Ok(is_new.then_some(Applied { update: encoded, changes }))
    }

    /// Changes the text here. The changes are against the text as it is, in order, and fit it.
    pub(super) fn edit(&mut self, changes: &[TextChange]) -> Result<Option<Applied>, Refused> {
        if choir_core::text::changed(&self.content, changes).is_none() {
            return Err(Refused::Garbage);
        }
        let mut transaction = self.doc.transact_mut();
        // From the end: what stands before a change is where it was.
        for change in changes.iter().rev() {
            let (from, removed) = (change.from as u32, change.removed as u32);
            self.text.remove_range(&mut transaction, from, removed);
            self.text.insert(&mut transaction, from, change.text.as_deref().unwrap_or_default());
        }
        let update = transaction.encode_update_v1();
        let is_new = !transaction.insert_set().is_empty() || !transaction.delete_set().is_empty();
        transaction.commit();
        drop(transaction);
        let changes = self.look()?;
        Ok(is_new.then_some(Applied { update, changes }))
    }

    /// Reads the text again and says what changed.
    fn look(&mut self) -> Result<Vec<TextChange>, Refused> {
        let seen = std::mem::take(&mut *self.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
        let content = self.text.get_string(&self.doc.transact());
        if content.len() > CONTENT_BYTES_MAX {
            return Err(Refused::TooLong);
        }
        let changes = changes(&seen)?;
        // An update may cut a letter in two, which no count of bytes survives; then what lies between the ends is the change.
        let fits = choir_core::text::changed(&self.content, &changes).is_some_and(|text| text == content);
        let changes = if fits { changes } else { between_the_ends(&self.content, &content) };
        self.content = content;
        Ok(changes)
    }
}

/// Several updates as one.
fn merged<'a>(updates: impl Iterator<Item = &'a [u8]>) -> Result<Vec<u8>, Refused> {
    let merged = catch_unwind(AssertUnwindSafe(|| yrs::merge_updates_v1(updates)));
    merged.map_err(|_| Refused::Garbage)?.map_err(|_| Refused::Garbage)
}

/// The library's account of a transaction as changes of the text.
fn changes(seen: &[Delta]) -> Result<Vec<TextChange>, Refused> {
    let mut changes: Vec<TextChange> = Vec::new();
    let mut at = 0;
    let mut open = false;
    for delta in seen {
        if let Delta::Retain(length, _) = delta {
            at += u64::from(*length);
            open = false;
            continue;
        }
        if !open {
            changes.push(TextChange { from: at, removed: 0, inserted: 0, text: Some(String::new()) });
            open = true;
        }
        let Some(change) = changes.last_mut() else { continue };
        match delta {
            Delta::Deleted(length) => {
                change.removed += u64::from(*length);
                at += u64::from(*length);
            }
            Delta::Inserted(Out::Any(Any::String(text)), _) => {
                change.inserted += text.len() as u64;
                change.text.get_or_insert_default().push_str(text);
            }
            Delta::Inserted(..) => return Err(Refused::NotText),
            Delta::Retain(..) => {}
        }
    }
    Ok(changes)
}

/// One change that makes `new` of `old`: everything between where they begin to differ and where they end alike.
fn between_the_ends(old: &str, new: &str) -> Vec<TextChange> {
    if old == new {
        return Vec::new();
    }
    let same = |pairs: &mut dyn Iterator<Item = (char, char)>| {
        pairs.take_while(|(old, new)| old == new).map(|(letter, _)| letter.len_utf8()).sum::<usize>()
    };
    let head = same(&mut old.chars().zip(new.chars()));
    let (old, new) = (&old[head..], &new[head..]);
    let tail = same(&mut old.chars().rev().zip(new.chars().rev()));
    let text = new[..new.len() - tail].to_owned();
    let (from, removed) = (head as u64, (old.len() - tail) as u64);
    vec![TextChange { from, removed, inserted: text.len() as u64, text: Some(text) }]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(from: u64, removed: u64, text: &str) -> TextChange {
        TextChange { from, removed, inserted: text.len() as u64, text: Some(text.to_owned()) }
    }

    #[test]
    fn replicas_that_heard_the_same_say_the_same() {
        let mut here = Replica::from_text(10, "one two three");
        let mut there = Replica::from_text(11, "one two three");
        let mine = here.edit(&[change(0, 3, "ONE")]).unwrap().unwrap();
        let yours = there.edit(&[change(8, 5, "drei é")]).unwrap().unwrap();
        let applied = here.apply(&yours.update).unwrap().unwrap();
        assert_eq!(applied.changes, [change(8, 5, "drei é")]);
        there.apply(&mine.update).unwrap().unwrap();
        assert_eq!((here.content(), there.content()), ("ONE two drei é", "ONE two drei é"));
        assert_eq!(here.apply(&yours.update), Ok(None), "what is known is known");
        let again = Replica::from_state(12, &here.state()).unwrap();
        assert_eq!(again.content(), here.content());
    }

    /// What two people wrote turn by turn, each insertion behind the one before.
    fn turn_by_turn(insertions: usize) -> (Vec<Vec<u8>>, String) {
        let mut hands = [Replica::from_text(10, ""), Replica::from_text(11, "")];
        let mut updates = Vec::new();
        for number in 0..insertions {
            let at = hands[0].content().len() as u64;
            let update = hands[number % 2].edit(&[change(at, 0, &format!("{number:019} "))]).unwrap().unwrap().update;
            hands[(number + 1) % 2].apply(&update).unwrap();
            updates.push(update);
        }
        (updates, hands[0].content().to_owned())
    }

    #[test]
    fn what_came_in_one_go_is_there_as_a_whole() {
        let (updates, written) = turn_by_turn(600);
        for at_once in [1, 2, 7, 250, 600] {
            let mut replica = Replica::from_text(12, "");
            for updates in updates.chunks(at_once) {
                replica.apply_all(updates.iter().map(Vec::as_slice)).unwrap().unwrap();
            }
            assert_eq!(replica.content(), written, "{at_once} at once");
            assert_eq!(Replica::from_state(13, &replica.state()).unwrap().content(), written, "{at_once} at once");
        }
    }

    #[test]
    fn changes_at_two_places_are_two_changes() {
        let mut here = Replica::from_text(10, "añb cde fgh");
        let mut there = Replica::from_state(11, &here.state()).unwrap();
        let edits = [change(0, 1, ""), change(8, 0, "XX"), change(12, 0, "!")];
        let applied = there.edit(&edits).unwrap().unwrap();
        assert_eq!(applied.changes, edits);
        assert_eq!(here.apply(&applied.update).unwrap().unwrap().changes, edits);
        assert_eq!(here.content(), "ñb cdeXX fgh!");
    }

    #[test]
    fn hostile_updates_are_refused_and_none_of_them_panics_through() {
        let fresh = || Replica::from_text(10, "text");
        assert_eq!(fresh().apply(b"nonsense"), Err(Refused::Garbage));
        assert_eq!(fresh().apply(&[]), Err(Refused::Garbage));
        let odd = Doc::with_client_id(7);
        let map = odd.get_or_insert_map("secrets");
        yrs::Map::insert(&map, &mut odd.transact_mut(), "a", 1);
        let odd = odd.transact().encode_state_as_update_v1(&StateVector::default());
        assert_eq!(fresh().apply(&odd), Err(Refused::NotText));
        let embed = Doc::with_client_id(8);
        let text = embed.get_or_insert_text(ROOT);
        text.insert_embed(&mut embed.transact_mut(), 0, Any::from(1));
        let embed = embed.transact().encode_state_as_update_v1(&StateVector::default());
        assert_eq!(fresh().apply(&embed), Err(Refused::NotText));
        let mut later = Replica::from_text(9, "text");
        later.edit(&[change(0, 0, "first ")]).unwrap();
        let second = later.edit(&[change(6, 0, "second ")]).unwrap().unwrap();
        assert_eq!(fresh().apply(&second.update), Err(Refused::Missing));
        // Every cut and every flipped byte of a real update: refused or harmless, never a way out of the process.
        let real = later.state();
        for at in 0..real.len() {
            let mut bent = real.clone();
            bent[at] ^= 0xff;
            drop(fresh().apply(&bent));
            drop(fresh().apply(&real[..at]));
        }
    }

    #[test]
    fn a_text_that_grows_too_long_is_refused() {
        let mut here = Replica::from_text(10, &"x".repeat(CONTENT_BYTES_MAX));
        assert_eq!(here.edit(&[change(0, 0, "y")]), Err(Refused::TooLong));
    }

    #[test]
    fn a_long_history_opens_from_its_state() {
        let doc = Doc::with_client_id(7);
        let text = doc.get_or_insert_text(ROOT);
        text.insert(&mut doc.transact_mut(), 0, &"All work and no play.\n".repeat(9_100));
        for index in 0..10_000_u32 {
            let at = index.wrapping_mul(7_919) % 200_000;
            text.insert(&mut doc.transact_mut(), at, "x");
        }
        let state = doc.transact().encode_state_as_update_v1(&StateVector::default());
        let replica = Replica::from_state(10, &state).unwrap();
        assert_eq!(replica.content(), text.get_string(&doc.transact()));
    }

    #[test]
    fn half_a_letter_taken_away_still_gives_changes_that_fit() {
        let mut here = Replica::from_text(10, "a😀b");
        let there = Doc::with_options(Options {
            offset_kind: OffsetKind::Utf16,
            ..Options::with_client_id(yrs::ClientID::new(9))
        });
        let text = there.get_or_insert_text(ROOT);
        there.transact_mut().apply_update(Update::decode_v1(&here.state()).unwrap()).unwrap();
        text.remove_range(&mut there.transact_mut(), 1, 1);
        let update = there.transact().encode_state_as_update_v1(&here.vector());
        let before = here.content().to_owned();
        if let Ok(Some(applied)) = here.apply(&update) {
            assert_eq!(choir_core::text::changed(&before, &applied.changes).as_deref(), Some(here.content()));
        }
    }
}
