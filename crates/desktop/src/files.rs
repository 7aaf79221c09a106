//! What Files shows: entries of a folder, and what can be previewed of a file.

use crate::order::order;
use choir_proto::Timestamp;
use serde::Deserialize;

/// Files larger than this are offered for download only.
pub const PREVIEW_BYTES_MAX: u64 = 2_000_000;
/// Characters of a text that a preview draws.
pub const PREVIEW_CHARACTERS_MAX: usize = 200_000;
/// Entries of a folder that are read, page by page; beyond them the window says that there are more.
pub const READ_MAX: usize = 200_000;
/// Entries of a folder that are drawn; the filter finds the others.
pub const ENTRIES_MAX: usize = 1_000;

/// The answer of `GET /api/files/list`.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Listing {
    /// What is in the folder.
    #[serde(alias = "entries")]
    pub files: Vec<Entry>,
    /// The last name, when the server has more after it.
    #[serde(default)]
    pub next: Option<String>,
}

/// One entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Entry {
    /// Its name, or its path from the workspace's root.
    #[serde(alias = "path")]
    pub name: String,
    /// What it is.
    #[serde(default, alias = "type")]
    pub kind: Kind,
    /// Bytes.
    #[serde(default)]
    pub size: u64,
    /// When it was written last, as the server says it: what is looked at here is only whether it changed.
    #[serde(default)]
    pub modified_at: String,
}

/// What an entry is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A folder.
    #[serde(alias = "dir", alias = "folder")]
    Directory,
    /// A regular file.
    #[default]
    File,
    /// A symbolic link.
    #[serde(alias = "symlink")]
    Link,
    /// A socket, pipe or device.
    #[serde(other)]
    Other,
}

/// Whether the names inside belong to the person's work, as far as its own name tells.
pub fn is_looked_into(entry: &Entry) -> bool {
    let is_made = ["node_modules", "target", "dist", "build", "vendor", "__pycache__"].contains(&entry.name.as_str());
    entry.kind == Kind::Directory && !entry.name.starts_with('.') && !is_made
}

/// How a file can be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preview {
    /// As it is.
    Text,
    /// As a document.
    Markdown,
    /// As a table.
    Table,
    /// As a picture of this media type.
    Image(&'static str),
    /// Not here.
    None,
}

/// A folder in order: sorted once, so that a hundred thousand entries can be looked through at every letter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sorted {
    /// Each with its name in small letters.
    entries: Vec<(String, Entry)>,
    /// Whether the server has more than were read.
    pub more: bool,
}

impl From<Listing> for Sorted {
    /// Folders first, then by name without regard to case.
    fn from(listing: Listing) -> Self {
        let files = listing.files;
        let keys: Vec<_> = files.iter().map(|entry| (entry.kind, entry.name.to_lowercase())).collect();
        let places = order(files.len(), &|one, other| keys[one] < keys[other]);
        let entries = places.into_iter().map(|place| (keys[place].1.clone(), files[place].clone())).collect();
        Self { entries, more: listing.next.is_some() }
    }
}

impl Sorted {
    /// How many entries there are.
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// The entry of this name.
    pub fn find(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().map(|(_, entry)| entry).find(|entry| entry.name == name)
    }

    /// Those whose name holds the words; long folders are cut after filtering.
    pub fn shown(&self, wanted: &str) -> Vec<Entry> {
        let wanted = wanted.to_lowercase();
        let matching = self.entries.iter().filter(|(name, _)| name.contains(&wanted));
        matching.take(ENTRIES_MAX).map(|(_, entry)| entry.clone()).collect()
    }
}

/// What to show of a file, decided by its name; bytes that are no text are noticed later.
pub fn preview(name: &str, size: u64) -> Preview {
    if size > PREVIEW_BYTES_MAX {
        return Preview::None;
    }
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension).to_lowercase();
    match extension.as_str() {
        "md" | "markdown" => Preview::Markdown,
        "csv" | "tsv" => Preview::Table,
        "png" => Preview::Image("image/png"),
        "jpg" | "jpeg" => Preview::Image("image/jpeg"),
        "gif" => Preview::Image("image/gif"),
        "webp" => Preview::Image("image/webp"),
        "svg" => Preview::Image("image/svg+xml"),
        "zip" | "gz" | "xz" | "zst" | "tar" | "pdf" | "wasm" | "so" | "o" | "sqlite" | "db" => Preview::None,
        _ => Preview::Text,
    }
}

/// Where deleted things go, each under the moment of its deletion and its own path.
pub const TRASH: &str = ".trash";

/// The place in the trash for something that lies at `path`.
pub fn trashed(path: &str, now_ms: i64) -> String {
    format!("{TRASH}/{now_ms}/{path}")
}

/// When what lies in this folder of the trash was deleted. Nothing: it is no such folder.
pub fn deleted_at(path: &str) -> Option<Timestamp> {
    let moment = path.strip_prefix(TRASH)?.strip_prefix('/')?;
    moment.parse::<i64>().ok()?.checked_mul(1_000).map(Timestamp)
}

/// Where something in the trash came from. Nothing: it is not in the trash, or is the trash itself.
pub fn restored(path: &str) -> Option<&str> {
    let (_, origin) = path.strip_prefix(TRASH)?.strip_prefix('/')?.split_once('/')?;
    Some(origin).filter(|origin| !origin.is_empty())
}

/// Rows and columns of a table that are drawn.
pub const TABLE_ROWS_MAX: usize = 500;
const TABLE_COLUMNS_MAX: usize = 40;

/// Comma- or tab-separated values as rows of cells; a cell in quotes may hold separators, line ends and doubled quotes.
pub fn table(text: &str) -> Vec<Vec<String>> {
    let separator = if text.lines().next().is_some_and(|line| line.contains('\t')) { '\t' } else { ',' };
    let (mut rows, mut row, mut cell) = (Vec::new(), Vec::new(), String::new());
    let (mut quoted, mut letters) = (false, text.chars().peekable());
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => cell.extend(letters.next()),
            '"' if quoted || cell.is_empty() => quoted = !quoted,
            '\n' if !quoted => {
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
                if rows.len() == TABLE_ROWS_MAX {
                    return rows;
                }
            }
            '\r' if !quoted => {}
            letter if letter == separator && !quoted => {
                let done = std::mem::take(&mut cell);
                if row.len() < TABLE_COLUMNS_MAX {
                    row.push(done);
                }
            }
            letter => cell.push(letter),
        }
    }
    if !cell.is_empty() || !row.is_empty() {
        row.push(cell);
        rows.push(row);
    }
    rows
}

/// Whether bytes that were read as text are none.
pub fn is_binary(text: &str) -> bool {
    text.chars().take(4_096).any(|letter| letter == '\0' || letter == char::REPLACEMENT_CHARACTER)
}

/// A name in a folder as a path.
pub fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{}/{name}", folder.trim_end_matches('/')) }
}

/// Every folder on the way to this one, with its path.
pub fn crumbs(path: &str) -> Vec<(String, String)> {
    let mut whole = String::new();
    let parts = path.split('/').filter(|part| !part.is_empty());
    parts
        .map(|part| {
            whole = join(&whole, part);
            (part.to_owned(), whole.clone())
        })
        .collect()
}

/// The folder that a path lies in; empty for the workspace itself.
pub fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// A path as the value of a query.
pub fn query(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~/".contains(&byte);
    path.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// A name that can be given to a file: one component, nothing hidden in it.
pub fn is_name(name: &str) -> bool {
    not_a_name(name).is_none()
}

/// Why something is no name for a file.
pub fn not_a_name(name: &str) -> Option<&'static str> {
    match name {
        "" => Some("It needs a name."),
        "." | ".." => Some("This name means a folder that is there already."),
        _ if name.contains('/') => Some("A name has no “/” in it."),
        _ if name.chars().any(char::is_control) => Some("A name has only letters that can be seen."),
        _ => None,
    }
}

/// The path of something in another folder, or why it cannot be there.
pub fn moved(path: &str, to: &str) -> Result<String, &'static str> {
    let to = to.trim().trim_matches('/');
    let name = path.rsplit('/').next().unwrap_or_default();
    if folder(path) == to {
        Err("It is there already.")
    } else if to == path || to.starts_with(&format!("{path}/")) {
        Err("A folder cannot be in itself.")
    } else if !to.is_empty() && !to.split('/').all(is_name) {
        Err("This is not the path of a folder.")
    } else {
        Ok(join(to, name))
    }
}

/// This name, or one like it that nothing else has.
pub fn free_name(name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    // What begins with a dot is hidden, and has no ending by that.
    let (stem, ending) = match name.rfind('.') {
        Some(at) if at > 0 => name.split_at(at),
        _ => (name, ""),
    };
    let numbered = (2_u64..).map(|number| format!("{stem}-{number}{ending}"));
    std::iter::once(name.to_owned()).chain(numbered).find(|wanted| !is_taken(wanted)).unwrap_or_default()
}

/// A name or path as it is shown: letters that nobody sees, or that turn others around, are spelled out, so that nothing looks
/// like something else.
pub fn plainly(name: &str) -> String {
    let mut shown = String::with_capacity(name.len());
    for letter in name.chars() {
        match letter {
            // Within other scripts and between pictures, joiners are part of a letter.
            '\u{200c}' | '\u{200d}' if shown.ends_with(|before: char| !before.is_ascii()) => shown.push(letter),
            _ if is_unseen(letter) => shown.push_str(&format!("\\u{{{:X}}}", u32::from(letter))),
            _ => shown.push(letter),
        }
    }
    shown
}

fn is_unseen(letter: char) -> bool {
    letter.is_control()
        || matches!(
            letter,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
        )
        || matches!(letter, '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
        || matches!(letter, '\u{e0000}'..='\u{e0fff}')
}

/// A name for a document that is saved as a file.
pub fn file_name(title: &str) -> String {
    let plain = |letter: char| if letter.is_alphanumeric() { letter } else { ' ' };
    let words: String = title.chars().map(plain).take(60).collect();
    let name = words.split_whitespace().collect::<Vec<_>>().join("-").to_lowercase();
    if name.is_empty() { "document.md".to_owned() } else { format!("{name}.md") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_come_first_and_the_filter_knows_no_case() {
        let entry = |name: &str, kind| Entry { name: name.to_owned(), kind, size: 1, modified_at: String::new() };
        let files = vec![entry("b.txt", Kind::File), entry("A.txt", Kind::File), entry("src", Kind::Directory)];
        let sorted = Sorted::from(Listing { files, next: None });
        let names = |wanted| sorted.shown(wanted).into_iter().map(|entry| entry.name).collect::<Vec<_>>();
        assert_eq!(names(""), ["src", "A.txt", "b.txt"]);
        assert_eq!(names("a.T"), ["A.txt"]);
    }

    #[test]
    fn a_long_folder_is_cut_and_its_last_file_is_still_found() {
        let file =
            |number| Entry { name: format!("File {number}"), kind: Kind::File, size: 1, modified_at: String::new() };
        let sorted = Sorted::from(Listing { files: (0..100_000).map(file).collect(), next: Some("x".to_owned()) });
        assert_eq!((sorted.count(), sorted.shown("").len(), sorted.more), (100_000, ENTRIES_MAX, true));
        assert_eq!(sorted.shown("file 99999"), [file(99_999)]);
    }

    #[test]
    fn paths_are_joined_walked_and_quoted() {
        assert_eq!([join("", "a"), join("a/", "b")], ["a", "a/b"]);
        assert_eq!(crumbs("a/b"), [("a".to_owned(), "a".to_owned()), ("b".to_owned(), "a/b".to_owned())]);
        assert_eq!(query("a b/ü&c?.txt"), "a%20b/%C3%BC%26c%3F.txt");
        assert!(is_name("a b.txt") && !is_name("..") && !is_name("a/b") && !is_name("a\u{7}"));
    }

    #[test]
    fn the_trash_knows_where_things_came_from() {
        let place = trashed("src/main.rs", 1_700);
        assert_eq!(place, ".trash/1700/src/main.rs");
        assert_eq!(restored(&place), Some("src/main.rs"));
        assert_eq!([restored(".trash/1700"), restored("src/main.rs"), restored(".trash")], [None, None, None]);
        assert_eq!(deleted_at(".trash/1700"), Some(Timestamp(1_700_000)));
        assert_eq!([deleted_at(".trash"), deleted_at(".trash/notes"), deleted_at("1700")], [None, None, None]);
    }

    #[test]
    fn a_name_looks_like_what_it_is() {
        assert_eq!(plainly("invoice\u{202e}gnp.exe"), "invoice\\u{202E}gnp.exe");
        assert_eq!(plainly("a\u{200b}b\u{200d}c\n"), "a\\u{200B}b\\u{200D}c\\u{A}");
        let honest = ["Übersicht 2026.md", "می\u{200c}خواهم.txt", "👩\u{200d}💻.png", "קובץ.txt"];
        assert_eq!(honest.map(plainly), honest);
    }

    #[test]
    fn what_is_moved_keeps_its_name_and_its_place_makes_sense() {
        assert_eq!([moved("a/b.txt", ""), moved("b.txt", "x/y")], [Ok("b.txt".to_owned()), Ok("x/y/b.txt".to_owned())]);
        assert_eq!(moved("a", " /ab/ "), Ok("ab/a".to_owned()));
        for (path, to) in [("a/b.txt", "a"), ("a", "a"), ("a", "a/b"), ("a", "b//c"), ("a", "..")] {
            assert!(moved(path, to).is_err_and(|why| why.ends_with('.')), "{path} to {to}");
        }
    }

    #[test]
    fn what_is_no_name_says_why() {
        assert_eq!(not_a_name("notes.txt"), None);
        let all = ["", "..", "../x", "a\u{7}"].map(|name| not_a_name(name).is_some_and(|why| why.ends_with('.')));
        assert_eq!(all, [true; 4]);
    }

    #[test]
    fn a_name_that_is_taken_gets_a_number() {
        let taken = ["image.png", "image-2.png", ".env", "notes"];
        let free = |name| free_name(name, |wanted| taken.contains(&wanted));
        assert_eq!(
            ["image.png", "photo.png", ".env", "notes"].map(free),
            ["image-3.png", "photo.png", ".env-2", "notes-2"]
        );
    }

    #[test]
    fn a_table_keeps_what_is_quoted() {
        assert_eq!(table("a,b\r\n\"1,\"\"2\"\"\n\",3"), [vec!["a", "b"], vec!["1,\"2\"\n", "3"]]);
        assert_eq!(table("a\tb,c\n"), [["a", "b,c"]]);
        assert_eq!(table(""), Vec::<Vec<String>>::new());
        assert_eq!(table(&"x\n".repeat(TABLE_ROWS_MAX + 9)).len(), TABLE_ROWS_MAX);
    }

    #[test]
    fn a_title_makes_a_plain_file_name() {
        assert_eq!(file_name("Trees: three / ways …"), "trees-three-ways.md");
        assert_eq!(file_name("../.."), "document.md");
    }

    #[test]
    fn only_harmless_kinds_are_previewed() {
        assert_eq!(preview("a.SVG", 10), Preview::Image("image/svg+xml"));
        assert_eq!(preview("page.html", 10), Preview::Text);
        assert_eq!(preview("a.md", PREVIEW_BYTES_MAX + 1), Preview::None);
        assert!(is_binary("a\0b") && !is_binary("ä"));
    }
}
