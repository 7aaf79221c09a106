//! (crate root)
fn main() {}
