//! Writing a bound module so that it packs well: functions beside those that are like them, and what it imports under names as
//! short as they can be. Each name has sixteen random letters otherwise, here and in the script.

use crate::order::alike;
use anyhow::{Result, anyhow, ensure};
use std::collections::BTreeMap;
use wasm_encoder::reencode::{Error, Reencode, utils};
use wasm_encoder::{CodeSection, FunctionSection, ImportSection, Module};
use wasmparser::{
    CodeSectionReader, CustomSectionReader, FunctionBody, FunctionSectionReader, Import, ImportSectionReader, Parser,
    Payload, TypeRef,
};

/// What wasm-bindgen calls the script, as the module imports from it.
const SCRIPT: &str = "./desktop_bg.js";

/// The module and its script, packed.
pub(crate) fn pack(wasm: &[u8], script: &str) -> Result<(Vec<u8>, String)> {
    let mut plan = Plan::of(wasm)?;
    let mut script = script.to_owned();
    for (name, short) in &plan.names {
        let (long, short) = (format!("        {name}: "), format!("        {short}: "));
        ensure!(script.matches(&long).count() == 1, "the script has {name} not once");
        script = script.replace(&long, &short);
    }
    let mut module = Module::new();
    plan.parse_core_module(&mut module, Parser::new(0), wasm).map_err(|error| anyhow!("{error}"))?;
    Ok((module.finish(), script))
}

/// What is called what, and who comes where.
struct Plan {
    names: BTreeMap<String, String>,
    imported: u32,
    /// The old place of each function, in the new order.
    order: Vec<usize>,
    /// The new place of each function, in the old order.
    places: Vec<u32>,
}

impl Plan {
    fn of(wasm: &[u8]) -> Result<Self> {
        let (mut names, mut imported, mut bodies) = (BTreeMap::new(), 0, Vec::new());
        for payload in Parser::new(0).parse_all(wasm) {
            match payload? {
                Payload::ImportSection(section) => {
                    for import in section.into_imports() {
                        let import = import?;
                        imported += u32::from(matches!(import.ty, TypeRef::Func(_)));
                        if import.module == SCRIPT {
                            names.insert(import.name.to_owned(), format!("i{}", names.len()));
                        }
                    }
                }
                Payload::CodeSectionEntry(body) => bodies.push(body.as_bytes()),
                _ => {}
            }
        }
        let order = alike(&bodies);
        let mut places = vec![0; order.len()];
        order.iter().enumerate().for_each(|(new, old)| places[*old] = new as u32);
        Ok(Self { names, imported, order, places })
    }
}

type Done = Result<(), Error>;

impl Reencode for Plan {
    type Error = std::convert::Infallible;

    fn function_index(&mut self, function: u32) -> Result<u32, Error> {
        let own = function.checked_sub(self.imported).map(|own| self.places[own as usize] + self.imported);
        Ok(own.unwrap_or(function))
    }

    fn parse_import_section(&mut self, imports: &mut ImportSection, section: ImportSectionReader<'_>) -> Done {
        for import in section.into_imports() {
            let Import { module, name, ty } = import?;
            let short = self.names.get(name).filter(|_| module == SCRIPT).cloned();
            let kind = self.entity_type(ty)?;
            imports.import(module, short.as_deref().unwrap_or(name), kind);
        }
        Ok(())
    }

    fn parse_function_section(&mut self, functions: &mut FunctionSection, section: FunctionSectionReader<'_>) -> Done {
        let kinds = section.into_iter().collect::<Result<Vec<u32>, _>>()?;
        for old in self.order.clone() {
            functions.function(self.type_index(kinds[old])?);
        }
        Ok(())
    }

    fn parse_code_section(&mut self, code: &mut CodeSection, section: CodeSectionReader<'_>) -> Done {
        let bodies = section.into_iter().collect::<Result<Vec<FunctionBody<'_>>, _>>()?;
        for old in self.order.clone() {
            utils::parse_function_body(self, code, bodies[old].clone())?;
        }
        Ok(())
    }

    /// A browser reads none of them.
    fn parse_custom_section(&mut self, _: &mut Module, _: CustomSectionReader<'_>) -> Done {
        Ok(())
    }
}
