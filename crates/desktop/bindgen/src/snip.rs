//! Taking out what nobody can call. The linker keeps whatever a table of functions names; what it names and this platform never
//! reaches becomes a trap here, and wasm-bindgen then drops all that only it had called.

use anyhow::{Result, ensure};
use walrus::{FunctionBuilder, FunctionId, FunctionKind, Module};

/// Crates, as the compiler writes them into names.
const NEVER: [&str; 1] = [
    // Names the frames of a backtrace, of which a browser gives none.
    "14rustc_demangle",
];

/// The module without them.
pub(crate) fn snip(wasm: &[u8]) -> Result<Vec<u8>> {
    let mut module = Module::from_buffer(wasm)?;
    for package in NEVER {
        let found: Vec<FunctionId> = module.funcs.iter_local().map(|(id, _)| id).collect();
        let found: Vec<FunctionId> = found.into_iter().filter(|id| is_of(&module, *id, package)).collect();
        ensure!(!found.is_empty(), "nothing of {package} is left: take it from the list");
        found.into_iter().for_each(|id| empty(&mut module, id));
    }
    Ok(module.emit_wasm())
}

/// A name that ends with a package is of something that others share, and that was only made for it first.
fn is_of(module: &Module, id: FunctionId, package: &str) -> bool {
    let name = module.funcs.get(id).name.as_deref();
    name.is_some_and(|name| name.contains(package) && !name.ends_with(package))
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
