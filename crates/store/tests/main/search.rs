use crate::fixture::{directory, steer};
use choir_proto::event::{Header, PayloadErased};
use choir_proto::{Event, Hash, Seq};
use choir_store::search::{Indexed, Words};
use choir_store::{Erasure, Expect, Log, Search};
use std::path::Path;
use std::sync::Arc;

/// Finds what was said; words before a colon name a subject.
struct Said(u32);

impl Words for Said {
    fn version(&self) -> u32 {
        self.0
    }

    fn of(&self, _: &Header, event: &Event, _: &dyn Fn(&Hash) -> Option<Vec<u8>>) -> Option<Indexed> {
        let Event::RunSteered(said) = event else { return None };
        Some(match said.text.split_once(':') {
            Some((subject, "")) => Indexed::Gone { subject: subject.into() },
            Some((subject, text)) => Indexed::Text { subject: Some(subject.into()), text: text.into() },
            None => Indexed::Text { subject: None, text: said.text.clone() },
        })
    }
}

fn search(log: &Log, directory: &Path) -> Search {
    Search::follow(log.clone(), directory, Arc::new(Said(1))).unwrap()
}

async fn say(log: &Log, number: u128, text: &str) {
    log.append(vec![steer(number, text)], Expect::Any).await.unwrap();
}

async fn found(search: &Search, question: &str) -> Vec<u64> {
    let mut places: Vec<u64> = search.find(question, 10).await.unwrap().into_iter().map(|seq| seq.0).collect();
    places.sort_unstable();
    places
}

#[tokio::test]
async fn words_are_found_by_prefix_and_newer_words_of_a_subject_replace_older_ones() {
    let directory = directory();
    let log = Log::open(directory.path()).unwrap();
    let index = search(&log, directory.path());
    say(&log, 1, "the kettle sings").await;
    say(&log, 2, "tea:a kettle of green").await;
    say(&log, 3, "tea:Crème brûlée").await;
    assert_eq!(found(&index, "kett").await, [1]);
    assert_eq!(found(&index, "sings kettle").await, [1]);
    assert_eq!(found(&index, "creme BRU").await, [3]);
    say(&log, 4, "tea:").await;
    assert_eq!(found(&index, "creme").await, [0_u64; 0]);
    assert_eq!(found(&index, "* OR ^ (").await, [0_u64; 0]);
}

#[tokio::test]
async fn of_very_many_the_newest_come_first_and_of_few_the_best() {
    let directory = directory();
    let log = Log::open(directory.path()).unwrap();
    let index = search(&log, directory.path());
    say(&log, 1, "kettle kettle kettle").await;
    say(&log, 2, "a kettle, and much else besides that nobody looks for").await;
    assert_eq!(index.find("kett", 3).await.unwrap(), [Seq(1), Seq(2)]);
    let many: Vec<_> = (3..=1_200).map(|number| steer(number, "one more kettle")).collect();
    log.append(many, Expect::Any).await.unwrap();
    assert_eq!(index.find("kett", 3).await.unwrap(), [Seq(1_200), Seq(1_199), Seq(1_198)]);
}

#[tokio::test]
async fn an_index_that_was_lost_damaged_or_made_by_another_version_is_built_anew() {
    let directory = directory();
    let log = Log::open(directory.path()).unwrap();
    say(&log, 1, "a walrus").await;
    assert_eq!(found(&search(&log, directory.path()), "walrus").await, [1]);
    std::fs::write(directory.path().join("search.sqlite"), vec![7; 40_000]).unwrap();
    assert_eq!(found(&search(&log, directory.path()), "walrus").await, [1]);
    let newer = Search::follow(log.clone(), directory.path(), Arc::new(Said(2))).unwrap();
    assert_eq!(found(&newer, "walrus").await, [1]);
}

#[tokio::test]
async fn erased_words_are_gone_from_the_index_and_from_its_files() {
    let directory = directory();
    let log = Log::open(directory.path()).unwrap();
    let index = search(&log, directory.path());
    say(&log, 1, "my password is xyzzyplugh").await;
    say(&log, 2, "something else").await;
    assert_eq!(found(&index, "xyzzyplugh").await, [1]);
    let erased = steer(1, "").id;
    let tombstone = PayloadErased { event_id: erased, seq: Seq(1), blobs: Vec::new(), document_id: None };
    let mut event = steer(3, "");
    event.event = tombstone.into();
    let unnamed_upto = log.head().seq;
    log.erase(Erasure { target: erased, tombstone: event, blobs: Vec::new(), unnamed_upto }).await.unwrap();
    assert_eq!(found(&index, "xyzzyplugh").await, [0_u64; 0]);
    assert_eq!(found(&index, "something").await, [2]);
    for file in std::fs::read_dir(directory.path()).unwrap() {
        let path = file.unwrap().path();
        let bytes = std::fs::read(&path).unwrap_or_default();
        assert!(!bytes.windows(10).any(|window| window == b"xyzzyplugh"), "{} keeps it", path.display());
    }
}

#[tokio::test]
async fn an_index_that_cannot_be_written_answers_with_what_it_knows() {
    let directory = directory();
    let log = Log::open(directory.path()).unwrap();
    let index = search(&log, directory.path());
    say(&log, 1, "pot:a kettle").await;
    assert_eq!(found(&index, "kettle").await, [1]);
    let file = rusqlite::Connection::open(directory.path().join("search.sqlite")).unwrap();
    file.execute_batch("DROP TABLE subjects").unwrap();
    say(&log, 2, "pot:a cauldron").await;
    assert_eq!(found(&index, "kettle").await, [1]);
    assert_eq!(found(&index, "cauldron").await, [0_u64; 0]);
}
