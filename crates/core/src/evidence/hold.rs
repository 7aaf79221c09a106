//! Which words of which source stand behind what a text quotes.

use super::quotation::{QUOTATIONS_MAX, Quotation, folded, is_unspaced, quotations};
use super::{BEGINNINGS_MAX, broken, characters, place};
use choir_proto::Hash;
use choir_proto::document::{Citation, Place, Unsupported};
use sha2::{Digest, Sha256};
use std::collections::HashMap;

/// What stands behind a text, and what has nothing behind it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resolved {
    /// Sources whose words stand in the text, each with where. A shorter quotation has its own part of the source.
    pub citations: Vec<Citation>,
    /// Quotations that no citation holds word for word.
    pub unsupported: Vec<Unsupported>,
}

/// Looks for the words of every citation in a text, and for every quotation of the text in the citations.
pub fn resolved(text: &str, citations: &[Citation]) -> Resolved {
    let placed = citations.iter().filter_map(|citation| {
        let (from, to) = place(text, citation)?;
        Some(Citation { at: Some(Place { from, to }), ..citation.clone() })
    });
    let mut resolved = Resolved { citations: placed.collect(), unsupported: Vec::new() };
    let mut shelf = Shelf::of(citations);
    let found = quotations(text);
    // They come in order, so that characters are counted once and not from the beginning for each.
    let (mut at, mut before) = (0, 0);
    for (nth, Quotation { from: byte, words }) in found.into_iter().enumerate() {
        let from = before + characters(&text[at..], byte - at);
        (at, before) = (byte, from);
        if nth >= QUOTATIONS_MAX {
            let to = from + characters(&text[byte..], text.len() - byte);
            let text = format!("What is quoted from here on was not looked at: {QUOTATIONS_MAX} quotations are.");
            resolved.unsupported.push(Unsupported { from, to, text });
            break;
        }
        let to = from + characters(words, words.len());
        match shelf.find(words) {
            Some(part) => resolved.hold(Citation { at: Some(Place { from, to }), ..part }),
            None => resolved.unsupported.push(Unsupported { from, to, text: words.to_owned() }),
        }
    }
    resolved
}

impl Resolved {
    /// Adds what stands behind a quotation, unless it is told already.
    fn hold(&mut self, part: Citation) {
        let told = |known: &Citation| known.at == part.at && known.source == part.source;
        if !self.citations.iter().take(CITATIONS_COMPARED_MAX).any(told) {
            self.citations.push(part);
        }
    }
}

/// Whole citations come first, and no more of them are read; what follows are parts, each at another place.
const CITATIONS_COMPARED_MAX: usize = 1000;

/// The words of citations in the order of their letters, each from every word on.
struct Shelf<'a> {
    citations: &'a [Citation],
    folded: Vec<String>,
    /// Which citation, and from which byte of its folded words.
    beginnings: Vec<(usize, usize)>,
    /// What was looked for before: texts quote the same words again and again.
    known: HashMap<String, Option<Citation>>,
}

impl<'a> Shelf<'a> {
    fn of(citations: &'a [Citation]) -> Self {
        let folded: Vec<String> =
            citations.iter().map(|citation| folded(citation.quote.as_deref().unwrap_or_default())).collect();
        let begins = |words: &String, at: usize| !words[at..].starts_with(' ') && is_edge(words, at);
        let of = |(nth, words): (usize, &String)| {
            let places = words.char_indices().map(|(at, _)| at);
            places.filter(|at| begins(words, *at)).map(|at| (nth, at)).collect::<Vec<_>>()
        };
        let mut beginnings: Vec<_> = folded.iter().enumerate().flat_map(of).collect();
        // The same words are found in the earliest citation.
        beginnings.sort_by(|one, other| folded[one.0][one.1..].cmp(&folded[other.0][other.1..]).then(one.cmp(other)));
        Self { citations, folded, beginnings, known: HashMap::new() }
    }

    /// The part of a source that these words are: whole words of it, one after the other.
    fn find(&mut self, words: &str) -> Option<Citation> {
        let words = folded(words);
        if let Some(known) = self.known.get(&words) {
            return known.clone();
        }
        let found = self.look(&words);
        self.known.insert(words, found.clone());
        found
    }

    fn look(&self, words: &str) -> Option<Citation> {
        let rest = |(nth, at): &(usize, usize)| &self.folded[*nth][*at..];
        let first = self.beginnings.partition_point(|beginning| rest(beginning) < words);
        let candidates = self.beginnings[first..].iter().take(BEGINNINGS_MAX);
        let mut holding = candidates.take_while(|beginning| rest(beginning).starts_with(words));
        let (nth, _) = holding.find(|(nth, at)| is_edge(&self.folded[*nth], at + words.len()))?;
        Some(part(&self.citations[*nth], words))
    }
}

/// Whether no word is cut in two here. Half a word is another one: “nothing” holds no “thing”.
fn is_edge(text: &str, at: usize) -> bool {
    let (before, after) = (text[..at].chars().next_back(), text[at..].chars().next());
    let joins = |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric() && !is_unspaced(letter));
    !(joins(before) && joins(after))
}

/// A citation of some of a citation's words.
fn part(citation: &Citation, words: &str) -> Citation {
    let quote = citation.quote.as_deref().unwrap_or_default();
    let is_whole_words = |(from, to): &(usize, usize)| is_edge(quote, *from) && is_edge(quote, *to);
    let Some((from, to)) = broken(quote, words).find(is_whole_words) else { return citation.clone() };
    Citation {
        from: citation.from + from as u64,
        to: citation.from + to as u64,
        hash: Hash(Sha256::digest(&quote.as_bytes()[from..to]).into()),
        quote: Some(quote[from..to].to_owned()),
        ..citation.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::super::byte;
    use super::*;

    fn citation(quote: &str) -> Citation {
        let quote = Some(quote.to_owned());
        let (source, hash) = (Hash::ZERO, Hash::ZERO);
        Citation { source, from: 100, to: 0, hash, quote, artifact_id: None, run_id: None, at: None }
    }

    fn unsupported(text: &str, citations: &[Citation]) -> Vec<Unsupported> {
        resolved(text, citations).unsupported
    }

    #[test]
    fn places_of_many_quotations_are_counted_along_the_way() {
        let text = "é “ü b c” and “d é f”\n> g h ï\n";
        let found: Vec<_> = unsupported(text, &[]).into_iter().map(|one| (one.from, one.to)).collect();
        assert_eq!(found, [(3, 8), (15, 20), (24, 29)]);
    }

    #[test]
    fn one_altered_word_is_enough_to_be_flagged() {
        let text = "É: “the tests were all green” and “the tests were not green”.";
        let citations = [citation("On Monday the tests were all green, they wrote.")];
        let flagged = unsupported(text, &citations);
        assert_eq!(flagged.len(), 1, "{flagged:?}");
        assert_eq!(flagged[0].text, "the tests were not green");
        let (from, to) = (byte(text, flagged[0].from), byte(text, flagged[0].to));
        assert_eq!(&text[from..to], "the tests were not green", "places are in characters");
        assert!(unsupported(text, &[]).len() == 2);
    }
    #[test]
    fn how_lines_are_broken_says_nothing() {
        let soft = "so “the tests were\nall green” they say\n> the tests were all\n> green\n";
        assert_eq!(unsupported(soft, &[citation("the tests were all green")]), []);
        assert_eq!(unsupported(soft, &[citation("the tests\nwere not green")]).len(), 2);
    }

    #[test]
    fn a_shorter_quotation_is_a_part_of_the_source_that_its_citation_names() {
        let cited = citation("the queue holds at most 4096 messages");
        let found = resolved("It says \"the queue holds\", and “at most\n4096”.", &[cited]);
        assert_eq!(found.unsupported, []);
        let told: Vec<_> = found
            .citations
            .iter()
            .map(|part| (part.quote.as_deref().unwrap_or_default(), part.from, part.to, part.at.unwrap()))
            .collect();
        let at = |from, to| Place { from, to };
        assert_eq!(told, [("the queue holds", 100, 115, at(9, 24)), ("at most 4096", 116, 128, at(32, 44))]);
        assert_eq!(found.citations[0].hash, Hash(Sha256::digest("the queue holds").into()));
    }

    #[test]
    fn words_that_are_cut_out_of_a_word_are_not_held() {
        let cited = [citation("nothing was wrong on 14096 days"), citation("これは出典のある引用文です")];
        assert_eq!(unsupported("“thing was wrong” “4096” “hing was”", &cited).len(), 3);
        assert_eq!(unsupported("“nothing was” “14096” “wrong on 14096” 「出典のある」", &cited), []);
    }

    #[test]
    fn whatever_is_held_is_told_and_only_once() {
        let cited = [citation("> all is\n> well"), citation("all is well")];
        let found = resolved("“all is well” and again “all is well”", &cited);
        assert_eq!((found.unsupported.len(), found.citations.len()), (0, 2), "{found:?}");
        let found = resolved("“all is well”", &cited[..1]);
        assert_eq!((found.unsupported.len(), found.citations.len()), (0, 1), "{found:?}");
    }

    #[test]
    fn the_last_of_very_many_quotations_is_looked_at_or_said_not_to_be() {
        let many = "“all is well” ".repeat(QUOTATIONS_MAX - 1);
        let found = resolved(&format!("{many} “all is lost” “all is well”"), &[citation("all is well")]);
        assert_eq!(found.unsupported.len(), 2, "{:?}", found.unsupported);
        assert_eq!(found.unsupported[0].text, "all is lost");
        assert!(found.unsupported[1].text.starts_with("What is quoted from here on was not looked at"));
    }
}
