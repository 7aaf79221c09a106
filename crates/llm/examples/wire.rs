//! Writes what the fake servers say and what requests look like, for the official client libraries to judge:
//! `cargo run -p choir-llm --example wire -- DIR`, then `tests/clients/agree.py DIR`.

use choir_llm::transcript::{Case, Expected};
use choir_llm::{Endpoint, Format, Preset, encode, encode_stream};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

/// Small enough that every text is streamed in several pieces.
const CHUNK_CHARS: usize = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(std::env::args_os().nth(1).ok_or("name a directory to write to")?);
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    for &format in Format::ALL {
        for folder in fs::read_dir(cases.join(format.name()))? {
            let folder = folder?;
            write(format, &folder.path(), &out.join(format.name()).join(folder.file_name()))?;
        }
    }
    Ok(())
}

fn write(format: Format, folder: &Path, out: &Path) -> Result<(), Box<dyn Error>> {
    let read = |file: &str| fs::read(folder.join(file));
    let case = Case::parse(format, &read("request.json")?, read("wire.txt")?, &read("expected.json")?)?;
    let Expected::Answer(answer) = case.expected else { return Ok(()) };
    let base_url = "http://127.0.0.1:1";
    let endpoint = Endpoint { base_url, model: "m", key: None, preset: Preset::OpenAi, reasoning_tokens: None };
    fs::create_dir_all(out)?;
    fs::write(out.join("wire.txt"), encode_stream(format, &answer, CHUNK_CHARS))?;
    fs::write(out.join("answer.json"), serde_json::to_vec(&answer)?)?;
    fs::write(out.join("body.json"), encode(format, &endpoint, &case.request).body)?;
    Ok(())
}
