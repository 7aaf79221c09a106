//! What changed, ready to be laid side by side: files, hunks and rows of a difference in git's format, and the words of a
//! proposal that differ.

use std::collections::VecDeque;

/// Rows of one file that are drawn; a generated file of a million lines says no more with all of them.
pub const ROWS_MAX: usize = 2_000;

/// One file of a difference.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct File {
    /// Relative to the workspace.
    pub path: String,
    /// Why there are no rows, where there are none: a binary file, or only other permissions.
    pub note: Option<String>,
    /// In order.
    pub hunks: Vec<Hunk>,
    /// Lines that came.
    pub added: usize,
    /// Lines that went.
    pub removed: usize,
}

/// One place of a file that changed, with a little around it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hunk {
    /// In order.
    pub rows: Vec<Row>,
}

/// A line before and the line that stands at its place after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Before.
    pub left: Option<Line>,
    /// After.
    pub right: Option<Line>,
    /// Whether the two differ.
    pub changed: bool,
}

/// One line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// From 1.
    pub number: u32,
    /// Without its end.
    pub text: String,
}

/// Reads a difference in git's format. What cannot be read is left out; the list of changed files stands beside it.
pub fn parse(text: &str) -> Vec<File> {
    let mut files = Vec::new();
    let mut reader = Reader::default();
    for line in text.split_terminator('\n') {
        if line.starts_with("diff --git ") {
            files.extend(reader.finish());
            reader.file = Some(File { path: path_of(line), ..File::default() });
        } else {
            reader.read(line);
        }
    }
    files.extend(reader.finish());
    files
}

/// The path after the change, from `diff --git a/PATH b/PATH`; a path may hold blanks.
fn path_of(line: &str) -> String {
    let rest = line.trim_start_matches("diff --git ");
    let half = rest.len() / 2;
    let same = rest.is_char_boundary(half) && rest[..half].get(2..) == rest[half..].trim_start().get(2..);
    let right = if same { rest[half..].trim_start() } else { rest.rsplit(" b/").next().unwrap_or(rest) };
    right.trim_matches('"').trim_start_matches("b/").to_owned()
}

/// What is known while a difference is read.
#[derive(Default)]
struct Reader {
    file: Option<File>,
    hunk: Option<Hunk>,
    left: u32,
    right: u32,
    /// Lines that went and wait for lines that came.
    gone: VecDeque<Line>,
    rows: usize,
}

impl Reader {
    fn read(&mut self, line: &str) {
        if let Some((left, right)) = header(line) {
            self.end_hunk();
            (self.left, self.right) = (left, right);
            self.hunk = Some(Hunk::default());
        } else if self.hunk.is_some() {
            self.row(line);
        } else if let Some(file) = &mut self.file {
            if let Some(path) = line.strip_prefix("+++ b/") {
                path.trim_end_matches('\t').clone_into(&mut file.path);
            } else if line.starts_with("Binary files ") || line.starts_with("GIT binary patch") {
                file.note = Some("Not text.".to_owned());
            } else if let Some(mode) = line.strip_prefix("new mode ") {
                file.note = Some(format!("Permissions are {mode} now."));
            }
        }
    }

    fn row(&mut self, line: &str) {
        let Some(file) = &mut self.file else { return };
        let (sign, text) = line.split_at_checked(1).unwrap_or((" ", ""));
        match sign {
            "-" => {
                file.removed += 1;
                self.gone.push_back(Line { number: next(&mut self.left), text: text.to_owned() });
            }
            "+" => {
                file.added += 1;
                let right = Some(Line { number: next(&mut self.right), text: text.to_owned() });
                let left = self.gone.pop_front();
                self.push(Row { left, right, changed: true });
            }
            // It says that the line before it has no end.
            "\\" => {}
            _ => {
                self.flush();
                let left = Some(Line { number: next(&mut self.left), text: text.to_owned() });
                let right = Some(Line { number: next(&mut self.right), text: text.to_owned() });
                self.push(Row { left, right, changed: false });
            }
        }
    }

    fn push(&mut self, row: Row) {
        if self.rows == ROWS_MAX
            && let Some(file) = &mut self.file
        {
            file.note = Some(format!("Only the first {ROWS_MAX} lines are shown."));
        }
        if self.rows < ROWS_MAX
            && let Some(hunk) = &mut self.hunk
        {
            hunk.rows.push(row);
        }
        self.rows += 1;
    }

    fn flush(&mut self) {
        while let Some(left) = self.gone.pop_front() {
            self.push(Row { left: Some(left), right: None, changed: true });
        }
    }

    fn end_hunk(&mut self) {
        self.flush();
        if let (Some(hunk), Some(file)) = (self.hunk.take(), &mut self.file)
            && !hunk.rows.is_empty()
        {
            file.hunks.push(hunk);
        }
    }

    fn finish(&mut self) -> Option<File> {
        self.end_hunk();
        self.rows = 0;
        self.file.take()
    }
}

const fn next(number: &mut u32) -> u32 {
    *number = number.saturating_add(1);
    *number - 1
}

/// Where a hunk begins on both sides: `@@ -3,4 +5,6 @@`.
fn header(line: &str) -> Option<(u32, u32)> {
    let (ranges, _) = line.strip_prefix("@@ -")?.split_once(" @@")?;
    let (left, right) = ranges.split_once(" +")?;
    let first = |range: &str| range.split(',').next().and_then(|number| number.parse().ok());
    Some((first(left)?, first(right)?))
}

/// What is common before, what goes, what comes, what is common after; cut at the ends of words.
pub fn words<'a>(old: &'a str, new: &'a str) -> (&'a str, &'a str, &'a str, &'a str) {
    let same = old.char_indices().zip(new.chars()).take_while(|((_, a), b)| a == b);
    let end = same.last().map_or(0, |((at, letter), _)| at + letter.len_utf8());
    let start = if end == old.len() || end == new.len() { end } else { word_start(&old[..end]) };
    let (old_rest, new_rest) = (&old[start..], &new[start..]);
    let same = old_rest.chars().rev().zip(new_rest.chars().rev()).take_while(|(a, b)| a == b);
    let length: usize = same.map(|(letter, _)| letter.len_utf8()).sum();
    let tail = &old_rest[old_rest.len() - length..];
    let tail = if length == old_rest.len() || length == new_rest.len() { tail } else { after_word(tail) };
    let cut = |rest: &'a str| &rest[..rest.len() - tail.len()];
    (&old[..start], cut(old_rest), cut(new_rest), tail)
}

fn word_start(text: &str) -> usize {
    text.rfind(char::is_whitespace).map_or(0, |at| at + text[at..].chars().next().map_or(0, char::len_utf8))
}

fn after_word(text: &str) -> &str {
    text.find(char::is_whitespace).map_or("", |at| &text[at..])
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &str = "\
diff --git a/src/a b.rs b/src/a b.rs
index 1..2 100644
--- a/src/a b.rs
+++ b/src/a b.rs
@@ -1,3 +1,3 @@ fn main
 one
-two
+zwei
+drei
 four
diff --git a/logo.png b/logo.png
Binary files a/logo.png and b/logo.png differ
diff --git a/gone b/gone
deleted file mode 100644
--- a/gone
+++ /dev/null
@@ -1 +0,0 @@
-last
\\ No newline at end of file
";

    #[test]
    fn lines_that_went_stand_beside_lines_that_came() {
        let files = parse(DIFF);
        let paths: Vec<_> = files.iter().map(|file| (file.path.as_str(), file.added, file.removed)).collect();
        assert_eq!(paths, [("src/a b.rs", 2, 1), ("logo.png", 0, 0), ("gone", 0, 1)]);
        let rows: Vec<_> = files[0].hunks[0]
            .rows
            .iter()
            .map(|row| {
                let side = |line: &Option<Line>| line.as_ref().map(|line| format!("{} {}", line.number, line.text));
                (side(&row.left), side(&row.right), row.changed)
            })
            .collect();
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(rows[0], (some("1 one"), some("1 one"), false));
        assert_eq!(rows[1], (some("2 two"), some("2 zwei"), true));
        assert_eq!(rows[2], (None, some("3 drei"), true));
        assert_eq!(rows[3], (some("3 four"), some("4 four"), false));
        assert!(files[1].note.is_some() && files[1].hunks.is_empty());
        assert_eq!(files[2].hunks[0].rows.len(), 1);
    }

    #[test]
    fn a_long_difference_is_cut_and_says_so() {
        let mut text = "diff --git a/x b/x\n@@ -0,0 +1,9999 @@\n".to_owned();
        (0..ROWS_MAX + 5).for_each(|_| text.push_str("+line\n"));
        let files = parse(&text);
        assert_eq!((files[0].hunks[0].rows.len(), files[0].added), (ROWS_MAX, ROWS_MAX + 5));
        assert!(files[0].note.is_some());
    }

    #[test]
    fn nothing_that_is_fed_to_it_makes_it_fall() {
        for text in ["", "@@ -1 +1 @@\n-x", "diff --git ", "diff --git a/ü b/ü\n@@ -x +1 @@", "+a\n-b\n\\"] {
            parse(text);
        }
    }

    #[test]
    fn a_proposal_shows_whole_words_that_differ() {
        assert_eq!(words("the red fox", "the brown fox"), ("the ", "red", "brown", " fox"));
        assert_eq!(words("about 40 ms", "about 400 ms"), ("about ", "40", "400", " ms"));
        assert_eq!(words("same", "same"), ("same", "", "", ""));
        assert_eq!(words("", "new"), ("", "", "new", ""));
        assert_eq!(words("grün", "größer"), ("", "grün", "größer", ""));
    }
}
