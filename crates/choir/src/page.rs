//! `choir page`: a web page as text. Run where a page can do no harm, whatever it does to whoever reads it.

use anyhow::Context;
use choir_core::page;
use std::io::Read;
use std::process::ExitCode;

/// The largest page that is read.
const PAGE_BYTES_MAX: u64 = 16 << 20;

pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let mut bytes = Vec::new();
    std::io::stdin().take(PAGE_BYTES_MAX).read_to_end(&mut bytes).context("the page cannot be read")?;
    crate::output::bytes(page::text(&String::from_utf8_lossy(&bytes)).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
