//! Taking out what nobody can call. The linker keeps whatever a table of functions names; what it names and this platform never
//! reaches becomes a trap here, and wasm-bindgen then drops all that only it had called.

use anyhow::{Result, ensure};
use walrus::{FunctionBuilder, FunctionId, FunctionKind, Module};

/// What their names have in them, in order, as the compiler writes it.
const NEVER: [&[&str]; 4] = [
    // Names the frames of a backtrace, of which a browser gives none. What ends with the crate's name is shared by others, and was
    // only made for it first.
    &["14rustc_demangle", "_"],
    // Tells a programmer of an error, in a panic, which nobody sees here.
    &["anyhow..error..ErrorImpl", "5debug17h"],
    // The key by its place on the keyboard, and all fields of a form: this page asks for neither.
    &["HasKeyboardData", "$GT$4code17h"],
    &["HasFormData", "$GT$6values17h"],
];

/// The module without them.
pub(crate) fn snip(wasm: &[u8]) -> Result<Vec<u8>> {
    let mut module = Module::from_buffer(wasm)?;
    for parts in NEVER {
        let found: Vec<FunctionId> = module.funcs.iter_local().map(|(id, _)| id).collect();
        let found: Vec<FunctionId> = found.into_iter().filter(|id| has(&module, *id, parts)).collect();
        ensure!(!found.is_empty(), "nothing is called {parts:?} any more: take it from the list");
        found.into_iter().for_each(|id| empty(&mut module, id));
    }
    Ok(module.emit_wasm())
}

fn has(module: &Module, id: FunctionId, parts: &[&str]) -> bool {
    let name = module.funcs.get(id).name.as_deref().unwrap_or_default();
    let mut rest = Some(name);
    for part in parts {
        rest = rest.and_then(|rest| rest.split_once(part)).map(|(_, rest)| rest);
    }
    rest.is_some()
}

/// Leaves nothing of a function but that it must not be reached.
fn empty(module: &mut Module, id: FunctionId) {
    let kind = module.types.get(module.funcs.get(id).ty());
    let (takes, gives) = (kind.params().to_vec(), kind.results().to_vec());
    let mut trap = FunctionBuilder::new(&mut module.types, &takes, &gives);
    trap.func_body().unreachable();
    let arguments = takes.iter().map(|kind| module.locals.add(*kind)).collect();
    module.funcs.get_mut(id).kind = FunctionKind::Local(trap.local_func(arguments));
}
