//! The prompt bar: what Enter will do, and what ↑ brings back.

use crate::computer::{Documents, Runs};
use crate::files::plainly;
use crate::words;
use choir_proto::desktop::{App, Subject, Window};
use choir_proto::run::{Context, DocumentContext, NewRun, PathContext, RunContext};
use choir_proto::task::{Verify, VerifyMode};
use choir_proto::{DocumentId, RunId, Seq};
use std::borrow::Cow;

/// How many earlier prompts ↑ can reach.
const HISTORY_MAX: usize = 100;
/// Of each kind, so many are offered for completion.
const CANDIDATES_MAX: usize = 3;
/// A longer word after `@` is no name being completed.
const WORD_CHARACTERS_MAX: usize = 40;
/// Longer titles are cut on the chip.
const TITLE_CHARACTERS_MAX: usize = 32;

/// What Enter will do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Intention {
    /// Start a run of its own.
    New,
    /// Continue a document.
    Continue {
        /// Which.
        document_id: DocumentId,
        /// For the chip.
        title: String,
    },
    /// Say something to the agents at work.
    Steer {
        /// Which run.
        run_id: RunId,
        /// For the chip.
        title: String,
    },
}

impl Intention {
    /// The verb on the chip.
    pub const fn verb(&self) -> &'static str {
        match self {
            Self::New => "New",
            Self::Continue { .. } => "Continue",
            Self::Steer { .. } => "Steer",
        }
    }

    /// Whether both are about the same thing, whatever it is called by now.
    pub fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::New, Self::New) => true,
            (Self::Continue { document_id, .. }, Self::Continue { document_id: other, .. }) => document_id == other,
            (Self::Steer { run_id, .. }, Self::Steer { run_id: other, .. }) => run_id == other,
            _ => false,
        }
    }

    /// The title on the chip.
    pub fn title(&self) -> Option<&str> {
        match self {
            Self::New => None,
            Self::Continue { title, .. } | Self::Steer { title, .. } => Some(title),
        }
    }
}

/// Everything Enter could do with this window in focus; the first is what it does unless Tab chose another.
pub fn intentions(focused: Option<&Window>, runs: &Runs, documents: &Documents) -> Vec<Intention> {
    let subject = focused.filter(|window| window.app == App::Writer).and_then(|window| window.subject.as_ref());
    let mut all = Vec::new();
    match subject {
        // What is in the trash is not gone on with.
        Some(Subject::Document(id)) if documents.get(*id).is_some_and(|document| document.removed_at.is_some()) => {}
        Some(Subject::Document(id)) => {
            let run = runs.of_document(*id).filter(|run| !run.status.is_ending());
            let title = documents.get(*id).map(|document| document.title.as_str()).unwrap_or_default();
            let title = words::headline(title, TITLE_CHARACTERS_MAX);
            all.extend(run.map(|run| Intention::Steer { run_id: run.run_id, title: title.clone() }));
            all.push(Intention::Continue { document_id: *id, title });
        }
        Some(Subject::Run(id)) => {
            let run = runs.get(*id).filter(|run| !run.status.is_ending());
            let title = run.map(|run| words::headline(&run.prompt, TITLE_CHARACTERS_MAX)).unwrap_or_default();
            all.extend(run.map(|run| Intention::Steer { run_id: run.run_id, title }));
        }
        _ => {}
    }
    all.push(Intention::New);
    all
}

/// What the person wants of the next run beside its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precaution {
    /// It shows its plan and waits for a yes.
    PlanFirst,
    /// What it leaves is checked by what the project brings for that.
    Check,
}

impl Precaution {
    /// On the menu and in the bar.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PlanFirst => "Plan first",
            Self::Check => "Check the result",
        }
    }

    /// Asks for it.
    pub fn put_into(self, request: &mut NewRun) {
        match self {
            Self::PlanFirst => request.plan_first = Some(true),
            Self::Check => request.verify = Some(Verify { mode: VerifyMode::Commands, commands: Vec::new() }),
        }
    }
}

/// Something the agents should look at, chosen by the person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mention {
    /// A document.
    Document(DocumentId, String),
    /// A run.
    Run(RunId, String),
    /// A file or folder of the workspace.
    Path(String),
}

impl Mention {
    /// What it is called.
    pub fn name(&self) -> Cow<'_, str> {
        match self {
            Self::Document(_, title) | Self::Run(_, title) => title.into(),
            Self::Path(path) => plainly(path).into(),
        }
    }

    /// What tells it from every other: several things may be called alike.
    pub fn key(&self) -> String {
        match self {
            Self::Document(id, _) => format!("document {id}"),
            Self::Run(id, _) => format!("run {id}"),
            Self::Path(path) => format!("file {path}"),
        }
    }

    /// What kind of thing it is.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Document(..) => "document",
            Self::Run(..) => "run",
            Self::Path(_) => "file",
        }
    }

    /// As the server wants it.
    pub fn context(&self) -> Context {
        match self {
            Self::Document(id, _) => Context::Document(DocumentContext { document_id: *id, from: None, to: None }),
            Self::Run(id, _) => Context::Run(RunContext { run_id: *id }),
            Self::Path(path) => Context::Path(PathContext { path: path.clone() }),
        }
    }
}

/// A prompt before and after its caret. What was read before the prompt became another one says nothing: then it is the end.
pub fn around<'a>(prompt: &'a str, before: &str) -> (&'a str, &'a str) {
    match prompt.strip_prefix(before) {
        Some(after) if !before.is_empty() => (&prompt[..before.len()], after),
        _ => (prompt, ""),
    }
}

/// The text before an `@` at the end of a text, and the word after it that is being completed.
pub fn completing(text: &str) -> Option<(&str, &str)> {
    let (before, word) = text.rsplit_once('@')?;
    let begins = before.is_empty() || before.ends_with(char::is_whitespace);
    (begins && !word.contains(char::is_whitespace) && word.chars().count() <= WORD_CHARACTERS_MAX)
        .then_some((before, word))
}

/// Documents, then runs, then files whose name holds the word.
pub fn candidates(word: &str, runs: &Runs, documents: &Documents, files: &[String]) -> Vec<Mention> {
    let word = word.to_lowercase();
    let title = |text: &str| words::headline(text, TITLE_CHARACTERS_MAX);
    let documents = documents.listed().map(|found| Mention::Document(found.document_id, title(&found.title)));
    let runs = runs.listed().map(|found| Mention::Run(found.run_id, title(&found.prompt)));
    let files = files.iter().cloned().map(Mention::Path);
    let matching = |mention: &Mention| mention.name().to_lowercase().contains(&word);
    let each = [
        documents.filter(matching).take(CANDIDATES_MAX).collect::<Vec<_>>(),
        files.filter(matching).take(CANDIDATES_MAX).collect(),
        runs.filter(matching).take(CANDIDATES_MAX).collect(),
    ];
    each.concat()
}

/// Earlier prompts, the newest first, each once. They come from the log, so every browser recalls the same.
pub fn history(runs: &Runs) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for run in runs.newest() {
        if all.len() < HISTORY_MAX && !all.contains(&run.prompt) {
            all.push(run.prompt.clone());
        }
    }
    all
}

/// Walking through the history; the draft that was being written waits at its near end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recall {
    /// Steps back; zero is the draft.
    steps: usize,
    draft: String,
}

impl Recall {
    /// One prompt further back, if there is one.
    pub fn older(&mut self, history: &[String], text: &str) -> Option<String> {
        let found = history.get(self.steps)?.clone();
        if self.steps == 0 {
            text.clone_into(&mut self.draft);
        }
        self.steps += 1;
        Some(found)
    }

    /// Whether what is shown was asked before, and nobody has changed it since.
    pub const fn is_walking(&self) -> bool {
        self.steps > 0
    }

    /// One prompt nearer, the draft at last.
    pub fn newer(&mut self, history: &[String]) -> Option<String> {
        self.steps = self.steps.checked_sub(1)?;
        match self.steps.checked_sub(1) {
            None => Some(std::mem::take(&mut self.draft)),
            Some(index) => history.get(index).cloned(),
        }
    }
}

/// Words that were sent, of which nobody here knows yet whether the computer took them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    text: String,
    /// The last event that was known when they were sent.
    after: Seq,
}

impl Sent {
    /// Words that are sent now.
    pub const fn new(text: String, after: Seq) -> Self {
        Self { text, after }
    }

    /// The words.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The run that came of them: it says exactly this, and was not there before.
    pub fn taken_as(&self, runs: &Runs) -> Option<RunId> {
        runs.newest().take_while(|run| run.seq > self.after).find(|run| run.prompt == self.text).map(|run| run.run_id)
    }

    /// The prompt bar with these words back in it; what was typed meanwhile comes after them.
    pub fn back_in(&self, bar: &str) -> String {
        if bar.trim().is_empty() { self.text.clone() } else { format!("{}\n{bar}", self.text) }
    }

    /// The prompt bar without these words. Nothing: it holds others by now, which are left alone.
    pub fn gone_from(&self, bar: &str) -> Option<String> {
        let rest = bar.strip_prefix(&self.text)?;
        if rest.trim().is_empty() { Some(String::new()) } else { rest.strip_prefix('\n').map(str::to_owned) }
    }

    /// For the browser's memory, so that a reload while they are on their way loses nothing.
    pub fn note(&self) -> String {
        format!("{} {}", self.after, self.text)
    }

    /// What a browser remembered.
    pub fn read(note: &str) -> Option<Self> {
        let (after, text) = note.split_once(' ')?;
        Some(Self { text: text.to_owned(), after: Seq(after.parse().ok()?) })
    }
}

/// Words for agents at work, with what they should look at: such words carry nothing but themselves.
pub fn steered(text: &str, mentions: &[Mention]) -> String {
    let mut said = text.to_owned();
    for mention in mentions {
        let named = match mention {
            Mention::Path(path) => format!("\n\nSee the file `{path}`."),
            Mention::Document(id, title) => format!("\n\nSee the document “{title}” ({id})."),
            Mention::Run(id, title) => format!("\n\nSee the run “{title}” ({id})."),
        };
        said.push_str(&named);
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precautions_are_in_what_is_asked() {
        let mut request = NewRun::new("mend it".to_owned());
        assert!(request.plan_first.is_none() && request.verify.is_none());
        [Precaution::PlanFirst, Precaution::Check].into_iter().for_each(|one| one.put_into(&mut request));
        assert_eq!(request.plan_first, Some(true));
        assert!(request.verify.is_some_and(|verify| verify.commands.is_empty()), "what the project brings");
    }

    #[test]
    fn an_at_sign_that_begins_a_word_asks_for_a_name() {
        assert_eq!(completing("see @"), Some(("see ", "")));
        assert_eq!(completing("@rea"), Some(("", "rea")));
        assert_eq!(completing("me@example"), None);
        assert_eq!(completing("see @a b"), None);
        assert_eq!(completing("nothing"), None);
    }

    #[test]
    fn a_name_is_asked_for_wherever_the_caret_is() {
        assert_eq!(around("see @rea for this", "see @rea"), ("see @rea", " for this"));
        assert_eq!(around("sent, and empty", "see @rea"), ("sent, and empty", ""));
        assert_eq!(around("brought from before", ""), ("brought from before", ""));
    }

    #[test]
    fn names_are_found_without_regard_to_case() {
        let files = ["README.md".to_owned(), "notes".to_owned()];
        let found = candidates("read", &Runs::default(), &Documents::default(), &files);
        assert_eq!(found, [Mention::Path("README.md".to_owned())]);
        assert_eq!(found[0].context(), Context::Path(PathContext { path: "README.md".to_owned() }));
    }

    #[test]
    fn things_of_one_name_are_told_apart() {
        let id = "01970000-0000-7000-8000-000000000001";
        let title = "Trees".to_owned();
        let all = [
            Mention::Document(id.parse().unwrap(), title.clone()),
            Mention::Run(id.parse().unwrap(), title.clone()),
            Mention::Path(title),
        ];
        assert!(all.iter().all(|one| one.name() == "Trees"));
        for (place, one) in all.iter().enumerate() {
            assert!(all[place + 1..].iter().all(|other| other.key() != one.key()));
        }
    }

    fn run(seq: u64, prompt: &str) -> choir_proto::Run {
        let run = serde_json::json!({
            "run_id": format!("01970000-0000-7000-8000-00000000000{seq}"), "seq": seq, "prompt": prompt, "status": "running",
            "accepted_at": "2026-01-01T00:00:00Z", "tasks": [], "usage": choir_proto::model::Usage::default(),
        });
        serde_json::from_value(run).unwrap()
    }

    #[test]
    fn words_were_taken_if_a_run_says_exactly_them_that_was_not_there_before() {
        let sent = Sent::new("Count the birds.".to_owned(), Seq(4));
        let taken = |runs: &[choir_proto::Run]| sent.taken_as(&runs.iter().cloned().collect()).map(|id| id.to_string());
        assert_eq!(taken(&[run(3, "Count the birds.")]), None, "asked before");
        assert_eq!(taken(&[run(5, "Count the birds. Twice.")]), None, "asked otherwise");
        let both = [run(3, "Count the birds."), run(6, "Count the birds."), run(7, "Then the trees.")];
        assert!(taken(&both).is_some_and(|id| id.ends_with('6')));
        assert_eq!(Sent::read(&sent.note()), Some(sent));
        assert_eq!(Sent::read(""), None);
    }

    #[test]
    fn only_words_that_were_sent_leave_the_bar() {
        let sent = Sent::new("Count.".to_owned(), Seq(0));
        assert_eq!([sent.back_in(" "), sent.back_in("Next")], ["Count.", "Count.\nNext"]);
        assert_eq!(sent.gone_from("Count.\n"), Some(String::new()));
        assert_eq!(sent.gone_from("Count.\nNext"), Some("Next".to_owned()));
        assert_eq!([sent.gone_from("Count. And more"), sent.gone_from("Next"), sent.gone_from("")], [None, None, None]);
    }

    #[test]
    fn recall_walks_back_and_returns_to_the_draft() {
        let history = ["second".to_owned(), "first".to_owned()];
        let mut recall = Recall::default();
        assert_eq!(recall.newer(&history), None);
        assert_eq!(recall.older(&history, "dra"), Some("second".to_owned()));
        assert_eq!(recall.older(&history, "second"), Some("first".to_owned()));
        assert_eq!(recall.older(&history, "first"), None);
        assert_eq!(recall.newer(&history), Some("second".to_owned()));
        assert_eq!(recall.newer(&history), Some("dra".to_owned()));
        assert_eq!(recall.newer(&history), None);
    }

    #[test]
    fn whoever_walks_goes_on_through_prompts_of_several_lines() {
        let history = ["two\nlines".to_owned(), "first".to_owned()];
        let mut recall = Recall::default();
        assert!(!recall.is_walking());
        recall.older(&history, "");
        assert!(recall.is_walking());
        recall.newer(&history);
        assert!(!recall.is_walking());
    }

    #[test]
    fn what_is_attached_is_named_to_agents_at_work() {
        let mentions = [Mention::Path("uploads/figures.csv".to_owned())];
        assert_eq!(steered("Use these", &mentions), "Use these\n\nSee the file `uploads/figures.csv`.");
        assert_eq!(steered("Hurry", &[]), "Hurry");
    }
}
