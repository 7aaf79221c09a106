//! What a browser has to load before any app opens, as the build left it: the page, and all that it names, but not what its
//! scripts ask for later.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::steps::Steps;

/// Titles of the steps that `judge` runs.
pub(crate) const STEPS: &[&str] = &[WEIGH];
const WEIGH: &str = "weigh the desktop";

/// Bytes of the packed files together. 450 KB may be loaded; what is left is for the heads of the answers and for what the page
/// asks the computer on its way.
const FILES_BYTES_MAX: u64 = 440_000;
/// What a browser asks for first.
const PAGE: &str = "index.html";
/// Counted apart, by the browser: it loads those that a text is drawn with.
const FONT: &str = ".woff2";

/// Refuses a desktop that is too heavy.
pub(crate) fn judge(steps: &mut Steps, dist: &Path) -> Result<()> {
    steps.run(WEIGH, "cargo xtask desktop", |step| {
        let bytes = weigh(dist)?;
        step.note(&format!("{bytes} of {FILES_BYTES_MAX} bytes"));
        ensure!(
            bytes <= FILES_BYTES_MAX,
            "too heavy before any app opens: {bytes} bytes, of at most {FILES_BYTES_MAX}"
        );
        Ok(())
    })
}

/// Bytes of the files, as they are sent.
fn weigh(dist: &Path) -> Result<u64> {
    let loaded = loaded(&|name| fs::read_to_string(dist.join(name)).with_context(|| format!("read {name}")))?;
    loaded.iter().map(|name| sent(dist, name)).sum()
}

/// Packed, where that makes it smaller.
fn sent(dist: &Path, name: &str) -> Result<u64> {
    let packed = dist.join(format!("{name}.br"));
    let file = if packed.is_file() { packed } else { dist.join(name) };
    Ok(fs::metadata(file).with_context(|| format!("the desktop has no {name}"))?.len())
}

/// All that is loaded with the page, by name.
fn loaded(read: &dyn Fn(&str) -> Result<String>) -> Result<BTreeSet<String>> {
    let mut known = BTreeSet::from([PAGE.to_owned()]);
    let mut ahead = vec![PAGE.to_owned()];
    while let Some(name) = ahead.pop() {
        if [".html", ".css", ".js"].iter().any(|ending| name.ends_with(ending)) {
            let named = named(&read(&name)?).into_iter().filter(|name| !name.ends_with(FONT));
            ahead.extend(named.filter(|name| known.insert(name.clone())));
        }
    }
    Ok(known)
}

/// The files that a text makes a browser load with it: in quotes, in `url(…)`, and behind `from` or `import`. What a script only
/// mentions, and what stands in `import(…)`, is loaded later or never.
fn named(text: &str) -> Vec<String> {
    const WAYS: [(&str, char); 5] =
        [("href=\"/assets/", '"'), ("src=\"/assets/", '"'), ("url(\"./", '"'), ("from\"./", '"'), ("import\"./", '"')];
    let ends = |found: &str, end: char| found.split(end).next().map(|name| format!("assets/{name}"));
    let of_way = |(way, end): (&'static str, char)| text.split(way).skip(1).filter_map(move |found| ends(found, end));
    WAYS.into_iter().flat_map(of_way).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn what_is_loaded_at_once_is_told_from_what_comes_later() {
        let page =
            r#"<link href="/assets/a.css" /><script src="/assets/b.js"></script><a href="https://example.org/">x</a>"#;
        assert_eq!(named(page), ["assets/a.css", "assets/b.js"]);
        let script = r#"import{a as b}from"./c.js";import"./d.js";const e=()=>import("./f.js")"#;
        assert_eq!(named(script), ["assets/c.js", "assets/d.js"]);
        assert_eq!(named(r#"a{background:url("./g.svg")}"#), ["assets/g.svg"]);
    }

    #[test]
    fn everything_that_is_named_is_loaded_once() {
        let files = BTreeMap::from([
            (
                "index.html",
                r#"<script src="/assets/a.js"></script><link href="/assets/f.woff2"><link href="/assets/m.wasm">"#,
            ),
            ("assets/a.js", r#"import"./b.js";import("./late.js")"#),
            ("assets/b.js", r#"import"./a.js""#),
        ]);
        let read = |name: &str| files.get(name).map(|text| (*text).to_owned()).context("no such file");
        let loaded: Vec<String> = loaded(&read).unwrap().into_iter().collect();
        assert_eq!(loaded, ["assets/a.js", "assets/b.js", "assets/m.wasm", "index.html"]);
        assert!(super::loaded(&|name| read(name).map(|text| text.replace("b.js", "c.js"))).is_err());
    }
}
