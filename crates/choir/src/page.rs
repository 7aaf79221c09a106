//! `choir page`: a page as text. Run where a page can do no harm, whatever it does to whoever reads it.

use crate::cli;
use anyhow::{Context, bail};
use choir_core::page::{self, Format};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};
use pdf_extract::{Error, OutputError};
use rustix::process::{Resource, Rlimit, setrlimit};
use std::borrow::Cow;
use std::io::Read;
use std::panic::catch_unwind;
use std::process::ExitCode;

/// The largest page that is read, in bytes: as much as an artifact may have.
const PAGE_BYTES_MAX: u64 = 64 << 20;

/// The longest text that one page holds, in bytes.
const TEXT_BYTES_MAX: usize = 16 << 20;

/// What reading one may take, in bytes: a small page can unfold to anything.
const MEMORY_BYTES_MAX: u64 = 1 << 30;

/// The password that many PDFs are locked with: none.
const NO_PASSWORD: &str = "it is locked with a password";

pub(crate) fn run(arguments: &cli::Page) -> anyhow::Result<ExitCode> {
    let limit = Rlimit { current: Some(MEMORY_BYTES_MAX), maximum: Some(MEMORY_BYTES_MAX) };
    setrlimit(Resource::As, limit).context("memory cannot be limited")?;
    let mut bytes = Vec::new();
    std::io::stdin().take(PAGE_BYTES_MAX + 1).read_to_end(&mut bytes).context("the page cannot be read")?;
    if bytes.len() as u64 > PAGE_BYTES_MAX {
        bail!("it has more than {PAGE_BYTES_MAX} bytes");
    }
    let text = match arguments.format {
        Format::Html => {
            // Whoever sends a page knows better than the page; both may be wrong, and that harms nobody.
            let named = arguments.charset.clone().or_else(|| page::declared_charset(&bytes));
            page::text(&decoded(&bytes, named.as_deref()))
        }
        Format::Text => decoded(&bytes, arguments.charset.as_deref()).into_owned(),
        Format::Pdf => pdf(bytes)?,
    };
    if text.len() > TEXT_BYTES_MAX {
        bail!("the text in it has more than {TEXT_BYTES_MAX} bytes");
    }
    crate::output::bytes(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Bytes as letters: by their mark, else as they are said to be, else as what they are, else as most old pages are.
fn decoded<'a>(bytes: &'a [u8], named: Option<&str>) -> Cow<'a, str> {
    let named = named.and_then(|name| Encoding::for_label(name.as_bytes()));
    let is_ours = || std::str::from_utf8(bytes).is_ok();
    // A page that could be read so far that it names a sixteen-bit encoding is not in it.
    let named = named.filter(|encoding| *encoding != UTF_16LE && *encoding != UTF_16BE || !is_ours());
    let encoding = named.unwrap_or_else(|| if is_ours() { UTF_8 } else { WINDOWS_1252 });
    encoding.decode(bytes).0
}

/// The text of a PDF. The library gives up on some broken ones by a panic; that is an answer as well.
fn pdf(bytes: Vec<u8>) -> anyhow::Result<String> {
    std::panic::set_hook(Box::new(|_| {}));
    let Ok(read) = catch_unwind(move || pdf_extract::extract_text_from_mem(&bytes)) else {
        bail!("it is broken, or made of parts that are not understood here");
    };
    let text = match read {
        Ok(text) => text,
        Err(OutputError::PdfError(Error::Decryption(_) | Error::InvalidPassword)) => bail!(NO_PASSWORD),
        Err(error) => return Err(error).context("it is broken"),
    };
    if text.trim().is_empty() {
        bail!("there is no text in it, only pictures perhaps");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_read_as_they_were_written() {
        let cases: [(&[u8], Option<&str>, &str); 9] = [
            (b"caf\xe9", Some("iso-8859-1"), "café"),
            (b"caf\xe9", None, "café"),
            ("café".as_bytes(), None, "café"),
            (b"\x93\xfa\x96\x7b", Some("shift_jis"), "日本"),
            (b"\xcf\xf0\xe8\xe2\xe5\xf2", Some("windows-1251"), "Привет"),
            (b"\xff\xfea\x00", Some("utf-8"), "a"),
            (b"\xef\xbb\xbfa", Some("latin1"), "a"),
            (b"plain", Some("utf-16"), "plain"),
            (b"plain", Some("no such thing"), "plain"),
        ];
        for (bytes, named, text) in cases {
            assert_eq!(decoded(bytes, named), text, "{bytes:?} {named:?}");
        }
    }
}
