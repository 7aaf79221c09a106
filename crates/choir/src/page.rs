//! `choir page`: a page as text. Run where a page can do no harm, whatever it does to whoever reads it.

use crate::cli;
use anyhow::{Context, bail};
use choir_core::page::{self, Format};
use pdf_extract::{Error, OutputError};
use rustix::process::{Resource, Rlimit, setrlimit};
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
        Format::Html => page::text(&String::from_utf8_lossy(&bytes)),
        Format::Pdf => pdf(bytes)?,
    };
    if text.len() > TEXT_BYTES_MAX {
        bail!("the text in it has more than {TEXT_BYTES_MAX} bytes");
    }
    crate::output::bytes(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
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
