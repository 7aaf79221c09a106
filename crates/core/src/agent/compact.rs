//! Keeping a conversation within the model's window. What is shortened here stays whole in the log.

mod cut;

pub(super) use cut::apply;

use super::{Agent, Ending, Next, policy};
use choir_proto::event::ContextCompacted;
use choir_proto::model::{ErrorClass, Message, Part, ToolCall, ToolSpec};
use choir_proto::task::TaskStatus;

/// What is assumed of a model that nobody has told the window of, in tokens.
const WINDOW_TOKENS: u64 = 120_000;

/// A token has four bytes in English and fewer in code; three err on the careful side.
const BYTES_PER_TOKEN: u64 = 3;

/// What a large picture takes, in tokens.
const IMAGE_TOKENS: u64 = 1600;

/// What any role is told beside the conversation, its own tools among it, in tokens. A number of its own, and not what they take
/// today, so that a log leads to the same when a tool says more of itself.
const BESIDE_TOKENS: u64 = 3072;

/// The newest messages, which the model is working with right now.
const KEPT_NEWEST: usize = 6;

/// How much of each old text is left, from mild to harsh, in bytes.
const STAGES: [u32; 3] = [2048, 256, 64];

/// How much of each newest result is left where the old ones do not suffice, in bytes: the longest become shorter first.
const NEWEST_STAGES: [u32; 9] = [12_288, 8192, 6144, 4096, 2048, 1024, 512, 256, 64];

/// How much is left of each piece of data that a person points at, last of all, in bytes.
const DATA_STAGES: [u32; 4] = [4096, 1024, 256, 64];

/// The longest that a result may be when it comes in, in bytes, whatever the window.
const RESULT_BYTES_MAX: u64 = 16 * 1024;

/// And what it may be at least: a sentence about what went wrong.
const RESULT_BYTES_MIN: u64 = 512;

/// How long a conversation may become, and how long it is then made, in tokens.
struct Room {
    limit: u64,
    /// Where shortening what is old leads, so that it lasts for a while.
    goal: u64,
    /// Where shortening what is at hand leads: no further than it has to.
    newest_goal: u64,
}

impl Room {
    /// Within a window, with so much beside the conversation. What remains is for the answer.
    fn of(window: u64, beside: u64) -> Self {
        let part = |eighths: u64| (window / 8 * eighths).saturating_sub(beside).max(window / 8);
        Self { limit: part(6), goal: part(4), newest_goal: part(5) }
    }
}

impl Agent {
    /// What a build that shortened less would do to the conversation now, if it would do anything: its logs lead to the same still.
    pub(crate) fn shortened_before(&self) -> Option<ContextCompacted> {
        match self.too_long {
            true => squeeze_before(self.next_turn(), &self.conversation),
            false => plan_before(self.next_turn(), &self.conversation, self.window),
        }
    }

    /// What stands beside the conversation, in tokens.
    pub(super) fn beside(&self) -> u64 {
        beside(self.offered.specs().filter(|spec| self.allows(&spec.name)))
    }

    /// How long a result may be when it comes in, in bytes: the model has to have room for others.
    pub fn result_bytes_max(&self) -> usize {
        result_bytes_max(self.window)
    }

    /// A conversation that was too long is shortened; where nothing more can be gained, that is the end.
    pub(super) fn squeezed(&self) -> Next {
        let message = self.last_failure.as_ref().map_or("", |(_, message)| message);
        match squeeze(self.next_turn(), &self.conversation) {
            Some(plan) => Next::Compact(plan),
            None => Next::End(Ending {
                status: TaskStatus::Failed,
                summary: policy::given_up(ErrorClass::TooLong, message),
            }),
        }
    }
}

/// What stands beside a conversation, with the tools that others offer.
fn beside(offered: impl Iterator<Item = ToolSpec>) -> u64 {
    let bytes = |spec: ToolSpec| spec.name.len() + spec.description.len() + spec.input_schema.to_string().len();
    BESIDE_TOKENS + (offered.map(bytes).sum::<usize>() as u64).div_ceil(BYTES_PER_TOKEN)
}

/// How long a result may be when it comes in: none takes more than a quarter of the window.
fn result_bytes_max(window: Option<u64>) -> usize {
    let quarter = window.unwrap_or(WINDOW_TOKENS) / 4 * BYTES_PER_TOKEN;
    quarter.clamp(RESULT_BYTES_MIN, RESULT_BYTES_MAX) as usize
}

/// How long an answer may be, so that it still fits behind the question.
pub(super) fn answer_tokens(window: Option<u64>, conversation: &[Message], beside: u64) -> u32 {
    let Some(window) = window else { return u32::MAX };
    let left = window.saturating_sub(tokens(conversation) + beside).max(window / 8);
    u32::try_from(left).unwrap_or(u32::MAX)
}

/// What to shorten, if the conversation comes near the window; nothing where nothing more can be gained.
pub(super) fn plan(turn: u32, conversation: &[Message], window: Option<u64>, beside: u64) -> Option<ContextCompacted> {
    shortest(turn, conversation, &Room::of(window.unwrap_or(WINDOW_TOKENS), beside))
}

/// What to shorten of a conversation that a model has refused as too long, whatever was known of its window: half of it.
fn squeeze(turn: u32, conversation: &[Message]) -> Option<ContextCompacted> {
    let half = tokens(conversation) / 2;
    shortest(turn, conversation, &Room { limit: half, goal: half, newest_goal: half })
}

/// What earlier builds would have shortened: nothing of the newest messages, and words of persons like any other. For logs that
/// they wrote.
fn plan_before(turn: u32, conversation: &[Message], window: Option<u64>) -> Option<ContextCompacted> {
    let window = window.unwrap_or(WINDOW_TOKENS);
    let limit = window / 4 * 3;
    let cuts = Cuts { conversation, none: ContextCompacted { spares_words: false, ..none(turn, conversation) } };
    (cuts.none.before_tokens > limit).then(|| cuts.old(window / 2)).flatten()
}

/// The same, after a model refused it.
fn squeeze_before(turn: u32, conversation: &[Message]) -> Option<ContextCompacted> {
    plan_before(turn, conversation, Some(tokens(conversation)))
}

/// From mild to harsh: what is old; then what is at hand, results before anything else; then the data that persons point at; their
/// words last.
fn shortest(turn: u32, conversation: &[Message], room: &Room) -> Option<ContextCompacted> {
    let cuts = Cuts { conversation, none: none(turn, conversation) };
    if cuts.none.before_tokens <= room.limit {
        return None;
    }
    let old = cuts.old(room.goal);
    if old.as_ref().is_some_and(|old| old.after_tokens <= room.limit) {
        return old;
    }
    let mut best = old;
    for how in harsher(&cuts.none) {
        let how = cuts.measured(how);
        let is_enough = how.after_tokens <= room.newest_goal;
        let is_shorter = best.as_ref().map_or(cuts.none.before_tokens, |best| best.after_tokens) > how.after_tokens;
        if is_shorter {
            best = Some(how);
        }
        if is_enough {
            break;
        }
    }
    best
}

/// Everything that is harsher than shortening what is old.
fn harsher(none: &ContextCompacted) -> impl Iterator<Item = ContextCompacted> {
    let old = ContextCompacted { text_bytes: STAGES[STAGES.len() - 1], ..none.clone() };
    let all_newest = Some(NEWEST_STAGES[NEWEST_STAGES.len() - 1]);
    let newest = NEWEST_STAGES.map(|keep| ContextCompacted { newest_bytes: Some(keep), ..old.clone() });
    let data =
        DATA_STAGES.map(|keep| ContextCompacted { newest_bytes: all_newest, data_bytes: Some(keep), ..old.clone() });
    let words = ContextCompacted {
        newest_bytes: all_newest,
        data_bytes: Some(DATA_STAGES[DATA_STAGES.len() - 1]),
        spares_words: false,
        ..old
    };
    newest.into_iter().chain(data).chain([words])
}

fn none(turn: u32, conversation: &[Message]) -> ContextCompacted {
    let before_tokens = tokens(conversation);
    ContextCompacted {
        turn,
        messages: conversation.len().saturating_sub(KEPT_NEWEST).max(1) as u32,
        text_bytes: u32::MAX,
        newest_bytes: None,
        data_bytes: None,
        spares_words: true,
        before_tokens,
        after_tokens: before_tokens,
    }
}

/// Ways to shorten one conversation.
struct Cuts<'a> {
    conversation: &'a [Message],
    none: ContextCompacted,
}

impl Cuts<'_> {
    /// What is old, as mildly as leads to the goal; the harshest that gains anything where nothing does.
    fn old(&self, goal: u64) -> Option<ContextCompacted> {
        let mut best = None;
        for text_bytes in STAGES {
            let how = self.measured(ContextCompacted { text_bytes, ..self.none.clone() });
            let is_enough = how.after_tokens <= goal;
            if how.after_tokens < how.before_tokens {
                best = Some(how);
            }
            if is_enough {
                break;
            }
        }
        best
    }

    fn measured(&self, how: ContextCompacted) -> ContextCompacted {
        let mut shorter = self.conversation.to_vec();
        apply(&mut shorter, &how);
        ContextCompacted { after_tokens: tokens(&shorter), ..how }
    }
}

fn tokens(conversation: &[Message]) -> u64 {
    bytes(conversation).div_ceil(BYTES_PER_TOKEN)
}

/// What a conversation takes; a picture counts as what it is worth.
pub(super) fn bytes(conversation: &[Message]) -> u64 {
    conversation.iter().map(message_bytes).sum()
}

fn message_bytes(message: &Message) -> u64 {
    let call = |call: &ToolCall| call.name.len() + call.arguments.to_string().len();
    let bytes = match message {
        Message::User { parts } => return parts.iter().map(part_bytes).sum(),
        Message::Tools { results } => results.iter().map(|result| result.content.len()).sum::<usize>(),
        Message::Assistant(said) => {
            said.text.len() + said.reasoning.len() + said.tool_calls.iter().map(call).sum::<usize>()
        }
    };
    bytes as u64
}

fn part_bytes(part: &Part) -> u64 {
    match part {
        Part::Text { text } => text.len() as u64,
        Part::Image { .. } => IMAGE_TOKENS * BYTES_PER_TOKEN,
    }
}

#[cfg(test)]
mod tests {
    use super::super::prompt;
    use super::*;
    use crate::fence;
    use crate::tool::specs;
    use choir_proto::Role;
    use choir_proto::model::{AssistantMessage, ToolResult};

    fn conversation(turns: usize, bytes: usize) -> Vec<Message> {
        let mut messages = vec![Message::user("the brief ".repeat(100))];
        for turn in 0..turns {
            let arguments = serde_json::json!({"content": "w".repeat(bytes)});
            let call = ToolCall { id: format!("c{turn}"), name: "write_file".into(), arguments, malformed: None };
            messages.push(Message::Assistant(AssistantMessage { tool_calls: vec![call], ..Default::default() }));
            let content = format!("begin {turn} {} end {turn}", "ä".repeat(bytes / 2));
            let result = ToolResult { call_id: format!("c{turn}"), content, is_error: false };
            messages.push(Message::Tools { results: vec![result] });
        }
        messages
    }

    #[test]
    fn what_fits_stays_as_it_is() {
        assert_eq!(plan(1, &conversation(3, 1000), Some(4000), 0), None);
    }

    #[test]
    fn old_texts_are_shortened_until_half_of_the_window_is_free() {
        let mut long = conversation(20, 3000);
        let before = long.clone();
        let plan = plan(7, &long, Some(30_000), 0).expect("it is too long");
        assert!(plan.before_tokens > 30_000 && plan.after_tokens <= 15_000, "{plan:?}");
        apply(&mut long, &plan);
        assert_eq!(tokens(&long), plan.after_tokens);
        assert!(long[0] == before[0], "the brief stays whole");
        assert!(long[35..] == before[35..], "so does what the model works with");
        let Message::Tools { results } = &long[2] else { panic!("results follow calls") };
        assert!(results[0].content.starts_with("begin 0") && results[0].content.ends_with("end 0"), "{results:?}");
        assert!(results[0].content.contains("the log has them"));
        let again = applied(&long, &plan);
        assert!(again == long, "shortening what is short changes nothing");
    }

    fn applied(conversation: &[Message], how: &ContextCompacted) -> Vec<Message> {
        let mut again = conversation.to_vec();
        apply(&mut again, how);
        again
    }

    /// One answer with so many calls, each of which printed so much, after a brief and with the person's words behind it.
    fn at_once(calls: usize, bytes: usize) -> Vec<Message> {
        let call = |index| ToolCall {
            id: format!("c{index}"),
            name: "bash".into(),
            arguments: serde_json::json!({"command": "yes"}),
            malformed: None,
        };
        let result = |index| {
            let content = format!("begin {index} {} end {index}", "x".repeat(bytes * (index % 2 + 1)));
            ToolResult { call_id: format!("c{index}"), content, is_error: false }
        };
        vec![
            Message::user(format!("look at this: {}", fence::fenced(&"d".repeat(6_000)))),
            Message::Assistant(AssistantMessage { tool_calls: (0..calls).map(call).collect(), ..Default::default() }),
            Message::Tools { results: (0..calls).map(result).collect() },
            Message::user("The person says: only the second half, and in small letters."),
        ]
    }

    #[test]
    fn what_is_at_hand_is_shortened_where_nothing_older_is_left_the_longest_first() {
        for (window, calls) in [(128_000, 40), (32_768, 8), (8_192, 2)] {
            let long = at_once(calls, 8_000);
            let plan = plan(2, &long, Some(window), 1_000).expect("it is too long");
            let short = applied(&long, &plan);
            assert!(plan.after_tokens + 1_000 <= window / 4 * 3, "{window}: {plan:?}");
            assert!(short[0] == long[0] && short[3] == long[3], "what was asked and said stays whole");
            let (Message::Tools { results }, Message::Tools { results: before }) = (&short[2], &long[2]) else {
                panic!("results stay results")
            };
            assert_eq!(results.len(), calls, "no call is without its result");
            for (index, (result, before)) in results.iter().zip(before).enumerate() {
                let (begin, end) = (format!("begin {index}"), format!("end {index}"));
                assert!(result.content.starts_with(&begin) && result.content.ends_with(&end), "{window}: {index}");
                assert!(index % 2 == 0 || result.content.len() < before.content.len(), "{window}: {index}");
            }
        }
        let plan = plan(2, &at_once(40, 8_000), Some(190_000), 1_000).expect("it is too long");
        let short = applied(&at_once(40, 8_000), &plan);
        let (Message::Tools { results }, Message::Tools { results: before }) = (&short[2], &at_once(40, 8_000)[2])
        else {
            panic!("results stay results")
        };
        assert!(results[0] == before[0] && results[1] != before[1], "the longest suffice: {plan:?}");
    }

    #[test]
    fn what_was_given_as_data_comes_after_all_results_and_words_come_last() {
        let long = at_once(1, 100);
        let plan = plan(2, &long, Some(2_400), 0).expect("it is too long");
        let short = applied(&long, &plan);
        assert!(plan.data_bytes.is_some() && plan.spares_words && plan.after_tokens <= 1_800, "{plan:?}");
        let Message::User { parts } = &short[0] else { panic!("the brief stays the brief") };
        let Part::Text { text } = &parts[0] else { panic!("and words") };
        assert!(text.starts_with("look at this: <data>\ndd") && text.ends_with("d\n</data>"), "{text}");
        assert!(short[3] == long[3]);
    }

    #[test]
    fn what_a_model_refuses_becomes_half_of_what_it_was() {
        let mut long = at_once(20, 8_000);
        let mut before = tokens(&long);
        for _ in 0..4 {
            let plan = squeeze(2, &long).expect("there is more to gain");
            apply(&mut long, &plan);
            assert!(tokens(&long) <= before / 2, "{plan:?}");
            before = tokens(&long);
        }
    }

    #[test]
    fn older_logs_are_shortened_as_they_were() {
        let old: ContextCompacted = serde_json::from_value(serde_json::json!({
            "turn": 2, "messages": 4, "text_bytes": 64, "before_tokens": 1, "after_tokens": 1
        }))
        .expect("as it was written");
        let mut words = at_once(1, 100);
        words[1] = Message::user("word ".repeat(100));
        let short = applied(&words, &old);
        assert!(short[0] == words[0] && short[1] != words[1], "words of persons too, and the brief not");
        let found = plan_before(7, &conversation(20, 3000), Some(30_000)).expect("it is too long");
        assert_eq!((found.messages, found.text_bytes, found.spares_words), (35, 256, false));
        assert_eq!(plan_before(2, &at_once(20, 8_000), Some(32_768)), None, "nothing was shortened here");
    }

    #[test]
    fn a_result_takes_a_quarter_of_the_window_at_most() {
        assert_eq!([None, Some(128_000), Some(8_192), Some(100)].map(result_bytes_max), [16_384, 16_384, 6_144, 512]);
    }

    #[test]
    fn what_roles_are_told_beside_the_conversation_is_reckoned_with() {
        for role in [Role::Conductor, Role::Writer, Role::Terminal, Role::Researcher] {
            let tools = beside(specs(role).iter().cloned()) - BESIDE_TOKENS;
            let told = tools + (prompt::system(role).len() as u64).div_ceil(BYTES_PER_TOKEN);
            assert!(told <= BESIDE_TOKENS, "{role:?} takes {told}");
        }
    }

    #[test]
    fn where_nothing_can_be_gained_nothing_is_done() {
        let huge = vec![Message::user("x".repeat(100_000))];
        assert_eq!(plan(1, &huge, Some(1000), 0), None);
    }
}
