//! A project's files through the API.

use super::{Error, Node, PATHS_MAX};
use crate::client::{self, Client};
use bytes::Bytes;
use serde::Deserialize;

#[derive(Deserialize)]
struct Listed {
    files: Vec<Entry>,
    next: Option<String>,
}

#[derive(Deserialize)]
struct Entry {
    name: String,
    kind: String,
    mode: u32,
    #[serde(default)]
    target: Option<String>,
}

/// Puts one path.
pub(super) async fn put(client: &Client, path: &str, node: &Node, content: Bytes) -> Result<(), client::Error> {
    let at = escape(path);
    match node {
        Node::File { mode } => client.put(&format!("/api/files?path={at}&mode={mode:o}"), content).await,
        Node::Link { target } => {
            client.put(&format!("/api/files?path={at}&kind=link"), Bytes::from(target.clone().into_bytes())).await
        }
        Node::Directory => client.put(&format!("/api/files?path={at}&kind=directory"), Bytes::new()).await,
    }
}

/// Whether something is there.
pub(super) async fn exists(client: &Client, folder: &str, name: &str) -> Result<bool, client::Error> {
    match list(client, folder).await {
        Ok(listed) => Ok(listed.iter().any(|entry| entry.name == name)),
        Err(client::Error::Refused(refusal, _)) if refusal.error.code == "not_found" => Ok(false),
        Err(error) => Err(error),
    }
}

/// Everything beneath a folder, folders before what is in them. What is neither file, folder nor link is left out.
pub(super) async fn walk(client: &Client, root: &str) -> anyhow::Result<Vec<(String, Node)>> {
    let (mut found, mut folders) = (Vec::new(), vec![String::new()]);
    while let Some(folder) = folders.pop() {
        for entry in list(client, &join(root, &folder)).await? {
            let path = join(&folder, &entry.name);
            let node = match (entry.kind.as_str(), entry.target) {
                ("file", _) => Node::File { mode: entry.mode },
                ("link", Some(target)) => Node::Link { target },
                ("directory", _) => {
                    folders.push(path.clone());
                    Node::Directory
                }
                _ => continue,
            };
            found.push((path, node));
            anyhow::ensure!(found.len() <= PATHS_MAX, Error::TooMuch);
        }
    }
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(found)
}

/// A file's bytes.
pub(super) async fn read(client: &Client, path: &str) -> Result<Bytes, client::Error> {
    client.get_bytes(&format!("/api/files?path={}", escape(path))).await
}

async fn list(client: &Client, path: &str) -> Result<Vec<Entry>, client::Error> {
    let mut entries = Vec::new();
    let mut after = String::new();
    loop {
        let listed: Listed = client.get(&format!("/api/files/list?path={}{after}", escape(path))).await?;
        entries.extend(listed.files);
        match listed.next.filter(|_| entries.len() <= PATHS_MAX) {
            Some(next) => after = format!("&after={}", escape(&next)),
            None => return Ok(entries),
        }
    }
}

pub(super) fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

/// Percent-encodes everything that is not plainly safe in a query.
pub(super) fn escape(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
