//! Files on their way between the person and the workspace: how far they are, and how they are stopped.

use super::bridge::{self, Transfer};
use super::desk::Desk;
use super::server::{self, Failure};
use choir_desktop::files::{Listing, READ_MAX, plainly, query};
use choir_desktop::words::elapsed;
use choir_proto::Timestamp;
use wasm_bindgen::JsValue;

/// A larger file is left to the browser, which writes it down as it comes; here all of it is held before it is given away.
pub(crate) const DOWNLOAD_BYTES_MAX: u64 = 256_000_000;

/// How a transfer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moved {
    /// All of it is there.
    Whole,
    /// The person stopped it.
    Stopped,
}

/// Sends a file that the person chose.
pub(crate) async fn upload(desk: Desk, address: &str, name: &str, file: JsValue) -> Result<Moved, Failure> {
    let (transfer, notice) = begin(desk, format!("Uploading {} …", plainly(name)));
    let answer = server::done(transfer.upload(address, file).await);
    end(desk, &transfer, notice, answer)
}

/// Fetches a file for the person.
pub(crate) async fn download(desk: Desk, address: &str, name: &str, size: u64) -> Result<Moved, Failure> {
    let (transfer, notice) = begin(desk, format!("Downloading {} …", plainly(name)));
    let answer = server::done(transfer.download(address, name, size).await);
    end(desk, &transfer, notice, answer)
}

/// A folder with all of its pages; the path is a query's value already.
pub(crate) async fn listing(path: &str) -> Result<Listing, Failure> {
    let mut all: Listing = server::get(&format!("/api/files/list?path={path}")).await?;
    while all.files.len() < READ_MAX {
        let Some(after) = all.next.take() else { break };
        let page: Listing = server::get(&format!("/api/files/list?path={path}&after={}", query(&after))).await?;
        all.files.extend(page.files);
        all.next = page.next;
    }
    Ok(all)
}

/// Makes a folder, and those above it. One that is there stays as it is.
pub(crate) async fn make_folder(path: &str) -> Result<(), Failure> {
    server::act("PUT", &format!("/api/files?kind=directory&path={}", query(path))).await
}

fn begin(desk: Desk, words: String) -> (Transfer, u32) {
    let (notice, began) = (desk.progress(words.clone()), bridge::time());
    let transfer = Transfer::new(move |share| {
        let taken_us = (bridge::time().0 - began.0) as f64;
        let left = elapsed(Timestamp(0), Timestamp((taken_us * (1.0 - share) / share) as i64));
        desk.retell(notice, format!("{words} {} %, {left} left", (share * 100.0).round() as u32));
    });
    desk.can_stop(notice, transfer.stop());
    (transfer, notice)
}

fn end(desk: Desk, transfer: &Transfer, notice: u32, answer: Result<(), Failure>) -> Result<Moved, Failure> {
    desk.dismiss_notice(notice);
    if transfer.stopped() {
        return Ok(Moved::Stopped);
    }
    answer.map(|()| Moved::Whole)
}
