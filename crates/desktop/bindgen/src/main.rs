//! `choir-desktop-bindgen IN.wasm OUT_DIR`: what the wasm-bindgen command does, as a library call, and what makes its outcome
//! smaller on its way to a browser.

mod order;
mod pack;
mod snip;

use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use wasm_bindgen_cli_support::Bindgen;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (Some(input), Some(output), None) = (arguments.next(), arguments.next(), arguments.next()) else {
        eprintln!("usage: choir-desktop-bindgen IN.wasm OUT_DIR");
        return ExitCode::from(2);
    };
    match bind(Path::new(&input), Path::new(&output)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:?}");
            ExitCode::FAILURE
        }
    }
}

fn bind(input: &Path, output: &Path) -> Result<()> {
    let module = fs::read(input).with_context(|| format!("read {}", input.display()))?;
    let mut bindgen = Bindgen::new();
    bindgen.input_bytes("desktop", snip::snip(&module)?).out_name("desktop").typescript(false);
    bindgen.remove_name_section(true).remove_producers_section(true);
    // The page says where the module is: its name carries the hash of its content, which is not known yet.
    bindgen.omit_default_module_path(true).web(true)?.generate(output)?;
    let (wasm, script) = (output.join("desktop_bg.wasm"), output.join("desktop.js"));
    let (packed, calls) = pack::pack(&fs::read(&wasm)?, &fs::read_to_string(&script)?)?;
    fs::write(wasm, packed)?;
    fs::write(script, calls)?;
    Ok(())
}
