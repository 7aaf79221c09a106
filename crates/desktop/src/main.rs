//! The web desktop of ChoirOS: the page that a browser loads. Natively there is nothing to run; see the library.

#[cfg(target_arch = "wasm32")]
#[allow(unused_qualifications, reason = "the rsx macro writes paths of its own around every handler")]
mod page;

fn main() {
    #[cfg(target_arch = "wasm32")]
    page::launch();
}
