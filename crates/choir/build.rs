//! How the binary is linked.

/// Half a hundred thousand addresses are set right at every start of a process. As a plain list of them they take two megabytes,
/// which stay in memory; packed, next to nothing. The C library knows how to read that from version 2.36 on.
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = |name: &str| std::env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    if target("ARCH") == "x86_64" && target("ENV") == "gnu" {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}
