//! What is said to an agent at work: words wait behind the results of whatever runs, and no agent ends on an answer that is
//! older than the person's words.

use super::repeat::Repeated;
use super::{Agent, Ending, prompt};
use choir_proto::Seq;
use choir_proto::model::Message;

/// What was said since the last answer.
#[derive(Debug, Clone, Default)]
pub(super) struct Heard {
    /// Words that arrived while tools were running; they follow their results.
    words: Vec<Word>,
    /// Where the person's other words stand in the conversation.
    places: Vec<(Seq, usize)>,
    /// Whether the last answer says how far it had heard. Those of older logs do not, and were the end all the same.
    is_told: bool,
    /// The ending that the person's words came before.
    overruled: Option<Ending>,
}

/// Something said to an agent.
#[derive(Debug, Clone)]
pub(super) struct Word {
    /// Where in the log the person said it; nothing for what is no word of the person.
    seq: Option<Seq>,
    message: Message,
}

impl Heard {
    /// Whether the person's words wait for results.
    pub(super) fn has_words_of_person(&self) -> bool {
        self.words.iter().any(|word| word.seq.is_some())
    }

    /// Everything that waited for results.
    pub(super) fn words(&mut self) -> Vec<Word> {
        std::mem::take(&mut self.words)
    }
}

impl Agent {
    /// How it would have ended without the person's newest words, which may have come too late for it.
    pub fn overruled(&self) -> Option<&Ending> {
        self.heard.overruled.as_ref()
    }

    pub(super) fn steered(&mut self, seq: Seq, text: &str) {
        self.hear(Some(seq), prompt::steer(text));
    }

    /// Words that belong behind the results of whatever runs.
    pub(super) fn hear(&mut self, seq: Option<Seq>, text: String) {
        self.hear_all(vec![Word { seq, message: Message::user(text) }]);
    }

    pub(super) fn hear_all(&mut self, words: Vec<Word>) {
        for word in words {
            (self.waits, self.early_ends) = (false, 0);
            self.repeated = Repeated::default();
            if word.seq.is_some() && self.heard.is_told && self.ending.is_some() {
                self.heard.overruled = self.ending.take();
            }
            if !self.calls.is_empty() {
                self.heard.words.push(word);
                continue;
            }
            self.heard.places.extend(word.seq.map(|seq| (seq, self.conversation.len())));
            self.conversation.push(word.message);
        }
    }

    /// What a model is asked.
    pub(super) fn messages(&self) -> Vec<Message> {
        let words = self.heard.words.iter().map(|word| word.message.clone());
        self.conversation.iter().cloned().chain(self.results_so_far()).chain(words).collect()
    }

    /// Makes the conversation what the model was asked, and gives back what was said later than it had heard.
    pub(super) fn put(&mut self, heard: Option<Seq>) -> Vec<Word> {
        let Heard { words, places, .. } = std::mem::take(&mut self.heard);
        self.heard.is_told = heard.is_some();
        let is_later = |seq: Seq| heard.is_some_and(|heard| seq > heard);
        let places = places.into_iter().rev().filter(|(seq, _)| is_later(*seq));
        // From the end, so that the other places stay where they are.
        let mut later: Vec<Word> =
            places.map(|(seq, at)| Word { seq: Some(seq), message: self.conversation.remove(at) }).collect();
        later.reverse();
        let (behind, before): (Vec<Word>, Vec<Word>) =
            words.into_iter().partition(|word| word.seq.is_some_and(is_later));
        let so_far = self.results_so_far();
        self.conversation.extend(so_far);
        self.conversation.extend(before.into_iter().map(|word| word.message));
        later.extend(behind);
        later
    }
}
