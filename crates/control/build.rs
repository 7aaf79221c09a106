//! Embeds the built desktop: every file of the directory in `CHOIR_DESKTOP_DIST`, each with its `.br` neighbour.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

const DIST: &str = "CHOIR_DESKTOP_DIST";

fn main() -> io::Result<()> {
    println!("cargo:rerun-if-env-changed={DIST}");
    println!("cargo:rerun-if-changed=build.rs");
    let mut files = Vec::new();
    if let Some(dist) = env::var_os(DIST).map(PathBuf::from).filter(|dist| dist.is_dir()) {
        println!("cargo:rerun-if-changed={}", dist.display());
        collect(&dist, &dist, &mut files)?;
    }
    files.sort();
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo sets OUT_DIR"))?);
    fs::write(out.join("embedded.rs"), table(&files))
}

/// Files beneath a directory as (path in the URL, path on disk).
fn collect(root: &Path, directory: &Path, files: &mut Vec<(String, PathBuf)>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(root, &path, files)?;
        } else if let Some(name) = path.strip_prefix(root).ok().and_then(Path::to_str) {
            files.push((format!("/{name}"), fs::canonicalize(&path)?));
        }
    }
    Ok(())
}

fn table(files: &[(String, PathBuf)]) -> String {
    let mut source = String::from("&[\n");
    for (name, path) in files.iter().filter(|(name, _)| !name.ends_with(".br")) {
        let brotli = files.iter().find(|(other, _)| *other == format!("{name}.br"));
        let brotli = match brotli {
            Some((_, path)) => format!("Some(include_bytes!({path:?}))"),
            None => "None".to_owned(),
        };
        // Writing to a string cannot fail.
        writeln!(source, "Asset {{ path: {name:?}, bytes: include_bytes!({path:?}), brotli: {brotli} }},").ok();
    }
    source.push(']');
    source
}
