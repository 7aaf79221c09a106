//! A command for a shell, cut into the simple commands that it is made of: enough to see which files it names.

use std::iter::Peekable;
use std::str::Chars;

/// The words of each simple command, in order and without their quotation marks. A variable is `${NAME}` however it was written;
/// where something is written to is left out.
pub(crate) fn simple(text: &str) -> Vec<Vec<String>> {
    let mut cut = Cut::default();
    let (mut letters, mut quote) = (text.chars().peekable(), None);
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(mark), _) if letter == mark => quote = None,
            (None | Some('"'), '\\') => match letters.next() {
                Some('\n') | None => {}
                Some(next) => cut.push(next),
            },
            (None | Some('"'), '$') => cut.variable(&mut letters),
            (Some(_), _) => cut.push(letter),
            (None, '"' | '\'') => {
                quote = Some(letter);
                cut.word.get_or_insert_default();
            }
            (None, ';' | '&' | '|' | '(' | ')' | '`' | '\n') => cut.end_command(),
            (None, '>') => {
                // `2>&1` and `>>` are one word.
                cut.word.take_if(|word| word.chars().all(|digit| digit.is_ascii_digit()));
                while letters.next_if(|next| matches!(next, '>' | '&')).is_some() {}
                cut.end_word();
                cut.is_written = true;
            }
            (None, '#') if cut.word.is_none() => while letters.next_if(|next| *next != '\n').is_some() {},
            (None, letter) if letter.is_whitespace() || letter == '<' => cut.end_word(),
            (None, letter) => cut.push(letter),
        }
    }
    cut.end_command();
    cut.all
}

#[derive(Default)]
struct Cut {
    all: Vec<Vec<String>>,
    words: Vec<String>,
    word: Option<String>,
    /// The next word is where something is written to.
    is_written: bool,
}

impl Cut {
    fn push(&mut self, letter: char) {
        self.word.get_or_insert_default().push(letter);
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        if !std::mem::take(&mut self.is_written) {
            self.words.push(word);
        }
    }

    fn end_command(&mut self) {
        self.end_word();
        self.is_written = false;
        if !self.words.is_empty() {
            self.all.push(std::mem::take(&mut self.words));
        }
    }

    /// What begins with `$`: a name in any of its forms, or a command of its own.
    fn variable(&mut self, letters: &mut Peekable<Chars<'_>>) {
        let close = match letters.peek() {
            // In a Makefile, what the shell shall see is written twice.
            Some('$') => return,
            Some('(') => Some(')'),
            Some('{') => Some('}'),
            _ => None,
        };
        let is_name = |letter: &char| letter.is_alphanumeric() || matches!(letter, '_' | '@' | '<' | '^' | '*' | '#');
        let Some(close) = close else {
            let name: String = std::iter::from_fn(|| letters.next_if(is_name)).collect();
            return self.named(&name);
        };
        let ahead: String = letters.clone().skip(1).take_while(is_name).collect();
        if letters.clone().nth(1 + ahead.chars().count()) == Some(close) {
            letters.nth(1 + ahead.chars().count());
            self.named(&ahead);
        } else if close == '}' {
            let rest: String = letters.by_ref().take_while(|letter| *letter != '}').collect();
            self.named(rest.trim_start_matches('{').split([':', '-', '%', '#']).next().unwrap_or_default());
        } else {
            self.end_command();
        }
    }

    fn named(&mut self, name: &str) {
        self.word.get_or_insert_default().push_str(&format!("${{{name}}}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_cut_where_a_shell_cuts_them() {
        let cut = |text: &str| simple(text).iter().map(|words| words.join(" ")).collect::<Vec<_>>();
        assert_eq!(cut("cd 'a b' && X=1 sh ./c.sh;x|y"), ["cd a b", "X=1 sh ./c.sh", "x", "y"]);
        assert_eq!(cut("if sh c >/dev/null 2>&1; then true; fi # sh d"), ["if sh c", "then true", "fi"]);
        assert_eq!(cut("sh > out c 2>> err d"), ["sh c d"]);
        assert_eq!(cut("$(PY) $${X} $$c ${D}/e ${F:-g}"), ["${PY} ${X} ${c} ${D}/e ${F}"]);
        assert_eq!(cut("x=$(sh a.sh) b"), ["x=", "sh a.sh", "b"]);
        assert_eq!(simple("sh -c \"sh a && b\"")[0], ["sh", "-c", "sh a && b"]);
        assert!(cut("").is_empty() && cut("'open").len() == 1 && cut("$").len() == 1);
    }
}
