//! Reading an SPDX licence expression far enough to say whether we may use what it covers.

/// Licences that ask for no more than a notice.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    // Fonts: it asks nothing of the program that carries them.
    "OFL-1.1",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Whether an expression can be met with allowed licences alone. What it cannot read, it does not allow.
pub(super) fn is_allowed(expression: &str) -> bool {
    // Older crates write "MIT/Apache-2.0" for "or".
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut reader = Reader { words: &words };
    reader.alternatives() == Some(true) && reader.words.is_empty()
}

/// Reads from the front; `None` is an expression that makes no sense.
struct Reader<'a> {
    words: &'a [&'a str],
}

impl Reader<'_> {
    fn take(&mut self, word: &str) -> bool {
        let found = self.words.first() == Some(&word);
        if found {
            self.words = &self.words[1..];
        }
        found
    }

    /// `a OR b`: one allowed side is enough, but both must be readable.
    fn alternatives(&mut self) -> Option<bool> {
        let mut allowed = self.conjunction()?;
        while self.take("OR") {
            allowed |= self.conjunction()?;
        }
        Some(allowed)
    }

    /// `a AND b`: both must be allowed.
    fn conjunction(&mut self) -> Option<bool> {
        let mut allowed = self.term()?;
        while self.take("AND") {
            allowed &= self.term()?;
        }
        Some(allowed)
    }

    fn term(&mut self) -> Option<bool> {
        if self.take("(") {
            let inside = self.alternatives()?;
            return self.take(")").then_some(inside);
        }
        let mut name = self.word()?;
        if self.take("WITH") {
            name = format!("{name} WITH {}", self.word()?);
        }
        Some(ALLOWED.contains(&name.as_str()))
    }

    fn word(&mut self) -> Option<String> {
        let (first, rest) = self.words.split_first()?;
        self.words = rest;
        let is_name = !matches!(*first, "(" | ")" | "OR" | "AND" | "WITH");
        is_name.then(|| (*first).to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::is_allowed;

    #[test]
    fn one_allowed_alternative_is_enough() {
        for good in [
            "MIT",
            "MIT OR GPL-3.0",
            "MIT/Apache-2.0",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception",
        ] {
            assert!(is_allowed(good), "{good}");
        }
    }

    #[test]
    fn every_part_of_a_conjunction_counts() {
        for bad in
            ["GPL-3.0", "MIT AND GPL-3.0", "(MIT OR GPL-3.0) AND AGPL-3.0", "GPL-2.0 WITH Classpath-exception-2.0"]
        {
            assert!(!is_allowed(bad), "{bad}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_not_allowed() {
        for bad in ["", "OR MIT", "(MIT", "MIT)", "MIT Apache-2.0", "MIT OR", "mit"] {
            assert!(!is_allowed(bad), "{bad}");
        }
    }
}
