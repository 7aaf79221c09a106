//! Numbers, times and objectives as people read them: short, and always in the same form.

use choir_proto::model::Usage;
use choir_proto::run::TaskSummary;
use choir_proto::{Role, Timestamp, Usd};

/// How long ago, in the largest unit that is not zero.
pub fn ago(now: Timestamp, then: Timestamp) -> String {
    match (now.0 - then.0).max(0) / 1_000_000 {
        0..60 => "now".to_owned(),
        seconds @ 60..3_600 => format!("{} min", seconds / 60),
        seconds @ 3_600..86_400 => format!("{} h", seconds / 3_600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

/// How long something took or takes: `4 s`, `2 min 05 s`, `1 h 12 min`.
pub fn elapsed(from: Timestamp, to: Timestamp) -> String {
    match (to.0 - from.0).max(0) / 1_000_000 {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3_600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {:02} min", seconds / 3_600, seconds / 60 % 60),
    }
}

/// Milliseconds as `340 ms` or `2.1 s`.
pub fn milliseconds(ms: u64) -> String {
    if ms < 1_000 { format!("{ms} ms") } else { format!("{} s", tenths(ms, 1_000)) }
}

/// Money; small amounts keep two figures that mean something.
pub fn money(usd: Usd) -> String {
    match usd.0 {
        0 => "$0.00".to_owned(),
        micros @ 1..10_000 => format!("$0.{:04}", (micros + 50) / 100),
        micros => dollars((micros.saturating_add(5_000)) / 10_000),
    }
}

fn dollars(cents: u64) -> String {
    format!("${}.{:02}", cents / 100, cents % 100)
}

/// So many of a unit, to one place. Counted in whole numbers: what writes down broken ones would be a dozen pages of code here.
fn tenths(count: u64, unit: u64) -> String {
    let tenths = (count / unit) * 10 + ((count % unit) * 10 + unit / 2) / unit;
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// What something cost; an amount that stands on a price that nobody knows, or on tokens that nobody counted, says so.
pub fn cost(usage: &Usage) -> String {
    let amount = money(usage.usd);
    match (usage.usd_assumed.is_nothing(), usage.usd_guessed.is_nothing()) {
        (true, true) => amount,
        (true, false) => format!("{amount}, tokens guessed"),
        (false, _) => format!("{amount}, price assumed"),
    }
}

/// Tokens: `812`, `12.3k`, `1.4M`.
pub fn tokens(count: u64) -> String {
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => format!("{}k", tenths(count, 1_000)),
        _ => format!("{}M", tenths(count, 1_000_000)),
    }
}

/// Bytes: `812 B`, `12 KB`, `1.4 MB`.
pub fn bytes(count: u64) -> String {
    match count {
        0..1_000 => format!("{count} B"),
        1_000..1_000_000 => format!("{} KB", count / 1_000),
        1_000_000..1_000_000_000 => format!("{} MB", tenths(count, 1_000_000)),
        _ => format!("{} GB", tenths(count, 1_000_000_000)),
    }
}

/// The time of day, UTC, from an RFC 3339 label: `14:03:22`.
pub fn clock(at: Timestamp) -> String {
    let seconds = at.0.div_euclid(1_000_000).rem_euclid(86_400);
    format!("{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

/// What a program wrote as the end of a sentence, where it stands alone. A name that begins it stays as it is.
pub fn sentence(text: &str) -> String {
    let begins = text.chars().next().filter(|_| !text.split_whitespace().next().is_some_and(is_a_name));
    match begins {
        Some(first) if first.is_ascii_lowercase() => format!("{}{}", first.to_ascii_uppercase(), &text[1..]),
        _ => text.to_owned(),
    }
}

/// A file, an option or something in marks.
fn is_a_name(word: &str) -> bool {
    word.trim_end_matches(['.', ',', ':', ';']).contains(['.', '/', '_', '`', ':', '='])
}

/// The first line, cut at a word's end.
pub fn headline(text: &str, characters_max: usize) -> String {
    let line = text.trim().lines().next().unwrap_or_default().trim();
    if line.chars().count() <= characters_max {
        return line.to_owned();
    }
    let cut: String = line.chars().take(characters_max).collect();
    let end = cut.rfind(' ').filter(|at| *at > cut.len() / 2).unwrap_or(cut.len());
    format!("{}…", cut[..end].trim_end_matches([' ', ',', '.', ';', ':']))
}

/// What a task is for. A conductor below another task answers what a worker asked; what it was told is for it, not for people.
pub fn objective(task: &TaskSummary, tasks: &[TaskSummary]) -> String {
    let asking = task.parent.filter(|_| task.role == Some(Role::Conductor));
    match asking.and_then(|parent| tasks.iter().find(|other| other.task_id == parent)) {
        Some(worker) => format!("Answers what the {} asked", worker.role.map_or("task", |role| role.name())),
        None => task.objective.trim().lines().next().unwrap_or_default().to_owned(),
    }
}

/// The text with another first heading, which is what names a document.
pub fn retitled(content: &str, title: &str) -> String {
    let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
    let rest = content.trim_start();
    match rest.strip_prefix("# ") {
        Some(after) => format!("# {title}{}", &after[after.find('\n').unwrap_or(after.len())..]),
        None => format!("# {title}\n\n{rest}"),
    }
}

/// What was found, without the title that stands above it and without the marks of headings.
pub fn excerpt(title: &str, found: &str) -> String {
    let marks = |word: &&str| !word.chars().all(|letter| letter == '#');
    let words = found.split_whitespace().filter(marks).collect::<Vec<_>>().join(" ");
    if title.starts_with(words.trim_end_matches([' ', '…'])) {
        return String::new();
    }
    // A document begins with its title, and its text with the heading that it is named by.
    let mut rest = words.as_str();
    while let Some(after) = rest.strip_prefix(title).filter(|_| !title.is_empty()) {
        // A title that was cut within a word goes on here with that word.
        let begun = if after.starts_with(' ') { title.len() } else { title.rfind(' ').unwrap_or_default() };
        rest = rest[begun..].trim_start();
        if begun < title.len() {
            return format!("… {rest}");
        }
    }
    rest.to_owned()
}

/// Why there is a version, beside the name of who made it: the log says it by the names of tools.
pub fn version_words(reason: &str) -> &str {
    const KNOWN: [(&str, &str); 4] = [
        ("write_document ", "wrote it"),
        ("edit_document ", "changed a part"),
        ("edited by a person", "edited it"),
        ("accepted by a person", "accepted a proposal"),
    ];
    KNOWN.iter().find(|(said, _)| reason.starts_with(said)).map_or(reason, |(_, words)| words)
}

/// What the computer said no with. Where it quotes the system, its code says the same in words that people know.
pub fn refusal(code: &str, message: &str, hint: &str) -> String {
    let said = match code {
        _ if !message.starts_with("Could not ") => None,
        "exists" => Some("There is something of that name already. Choose another name."),
        "not_found" => Some("It is not there any more."),
        "denied" => Some("Its permissions forbid it."),
        "not_empty" => Some("The folder is not empty."),
        "disk_full" => Some("The disk is full. Make room on it."),
        _ => None,
    };
    said.map_or_else(|| format!("{message} {hint}"), str::to_owned)
}

/// A day and a minute, UTC: `2026-01-01 14:03`.
pub fn moment(at: Timestamp) -> String {
    at.to_string().chars().take(16).collect::<String>().replace('T', " ")
}

/// `1 run`, `2 runs`.
pub fn count(number: usize, one: &str, many: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {many}") }
}

/// What the tab says: what waits for the person first, then what ended while they looked elsewhere, then how much is under way.
pub fn page_title(waiting: usize, ended: Option<&str>, open: usize) -> String {
    match (waiting, ended, open) {
        (0, None, 0) => "ChoirOS".to_owned(),
        (0, None, open) => format!("({open}) ChoirOS"),
        (0, Some(ended), 0) => format!("Run {ended} · ChoirOS"),
        (0, Some(ended), open) => format!("Run {ended} ({open}) · ChoirOS"),
        (waiting, _, _) => format!("{waiting} waiting for you · ChoirOS"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_short() {
        let at = |seconds: i64| Timestamp(seconds * 1_000_000);
        assert_eq!([ago(at(30), at(0)), ago(at(200), at(0)), ago(at(0), at(99))], ["now", "3 min", "now"]);
        assert_eq!([elapsed(at(0), at(65)), elapsed(at(0), at(3_725))], ["1 min 05 s", "1 h 02 min"]);
        assert_eq!([money(Usd(0)), money(Usd(1_234)), money(Usd(1_239_000))], ["$0.00", "$0.0012", "$1.24"]);
        let usage = |usd, usd_assumed| Usage { usd: Usd(usd), usd_assumed: Usd(usd_assumed), ..Usage::default() };
        assert_eq!(cost(&usage(20_000, 0)), "$0.02");
        assert_eq!(cost(&usage(20_000, 10_000)), "$0.02, price assumed");
        let guessed = Usage { usd: Usd(20_000), usd_guessed: Usd(1), ..Usage::default() };
        assert_eq!(cost(&guessed), "$0.02, tokens guessed");
        assert_eq!([tokens(999), tokens(12_345), bytes(1_500_000)], ["999", "12.3k", "1.5 MB"]);
        assert_eq!(clock(Timestamp(1_767_225_600_000_123 + 3_661_000_000)), "01:01:01");
    }

    #[test]
    fn a_conductor_that_is_asked_is_described_and_not_quoted() {
        let id = |number: u8| format!("01970000-0000-7000-8000-00000000000{number}");
        let task = |own: u8, parent: Option<u8>, role: &str, objective: &str| -> TaskSummary {
            let parent = parent.map(id);
            let task = serde_json::json!({
                "task_id": id(own), "parent": parent, "role": role, "objective": objective, "status": "running",
            });
            serde_json::from_value(task).unwrap()
        };
        let asked = format!("A terminal of yours cannot go on (request {}, question).", id(9));
        let tasks = [
            task(1, None, "conductor", "Build it.\nSoon."),
            task(2, Some(1), "terminal", "Run make."),
            task(3, Some(2), "conductor", &asked),
        ];
        let words: Vec<_> = tasks.iter().map(|task| objective(task, &tasks)).collect();
        assert_eq!(words, ["Build it.", "Run make.", "Answers what the terminal asked"]);
    }

    #[test]
    fn another_title_is_another_first_heading() {
        assert_eq!(retitled("# Old\n\nText.", " New  name "), "# New name\n\nText.");
        assert_eq!(retitled("Text.", "New"), "# New\n\nText.");
        assert_eq!(retitled("# Old", "New"), "# New");
        assert_eq!(retitled("## Part\n", "New"), "# New\n\n## Part\n");
    }

    #[test]
    fn what_was_found_does_not_repeat_its_title() {
        assert_eq!(excerpt("Pears", "Pears # Pears Ripe ones.\n## More"), "Ripe ones. More");
        assert_eq!(excerpt("", "Ripe ones."), "Ripe ones.");
        assert_eq!(excerpt("cite: Pears are ripe", "cite: Pears are …"), "", "the title says it all");
        assert_eq!(excerpt("cite: Pears are ri", "cite: Pears are ripe in …"), "… ripe in …");
    }

    #[test]
    fn a_version_is_not_named_by_a_tool() {
        assert_eq!(version_words("write_document by writer"), "wrote it");
        assert_eq!(version_words("edit_document by writer"), "changed a part");
        assert_eq!(version_words("the prompt"), "the prompt");
    }

    #[test]
    fn what_the_system_says_is_said_for_people() {
        let said = refusal("exists", "Could not rename the path: File exists.", "Choose another name.");
        assert_eq!(said, "There is something of that name already. Choose another name.");
        let odd = refusal("sandbox_failed", "Could not read it: Input/output error.", "Try again.");
        assert_eq!(odd, "Could not read it: Input/output error. Try again.");
        assert_eq!(refusal("exists", "There is one.", "Take another."), "There is one. Take another.");
        assert_eq!(moment(Timestamp(1_767_225_600_000_123)), "2026-01-01 00:00");
    }

    #[test]
    fn a_reason_is_a_sentence_unless_a_name_begins_it() {
        let told =
            ["the check failed: 2 of 3", "cargo.toml has no such key", "`a` answers", "No.", "", "élan"].map(sentence);
        assert_eq!(told, ["The check failed: 2 of 3", "cargo.toml has no such key", "`a` answers", "No.", "", "élan"]);
    }

    #[test]
    fn a_headline_ends_at_a_word() {
        assert_eq!(headline("Compare three\nways", 40), "Compare three");
        assert_eq!(headline("Compare three ways of storing trees", 20), "Compare three ways…");
        assert_eq!(headline("Ünïcödé wörds everywhere", 9), "Ünïcödé…");
        assert_eq!(headline("", 9), "");
    }

    #[test]
    fn the_tab_says_what_matters_most() {
        assert_eq!(page_title(0, None, 0), "ChoirOS");
        assert_eq!(page_title(0, None, 2), "(2) ChoirOS");
        assert_eq!(page_title(0, Some("failed"), 0), "Run failed · ChoirOS");
        assert_eq!(page_title(0, Some("failed"), 1), "Run failed (1) · ChoirOS");
        assert_eq!(page_title(1, Some("failed"), 1), "1 waiting for you · ChoirOS");
    }
}
