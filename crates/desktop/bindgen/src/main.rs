//! `choir-desktop-bindgen IN.wasm OUT_DIR`: what the wasm-bindgen command does, as a library call.

use std::process::ExitCode;
use wasm_bindgen_cli_support::Bindgen;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (Some(input), Some(output), None) = (arguments.next(), arguments.next(), arguments.next()) else {
        eprintln!("usage: choir-desktop-bindgen IN.wasm OUT_DIR");
        return ExitCode::from(2);
    };
    let mut bindgen = Bindgen::new();
    bindgen.input_path(input).out_name("desktop").typescript(false);
    bindgen.remove_name_section(true).remove_producers_section(true);
    // The page says where the module is: its name carries the hash of its content, which is not known yet.
    bindgen.omit_default_module_path(true);
    match bindgen.web(true).and_then(|bindgen| bindgen.generate(output)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:?}");
            ExitCode::FAILURE
        }
    }
}
