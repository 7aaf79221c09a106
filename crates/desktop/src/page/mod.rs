//! The page: signals around the library's plain state, small components, and the few doors to the browser.

mod apps;
mod bridge;
mod cards;
mod completion;
mod desk;
mod home;
mod keys;
mod locked;
mod menu_button;
mod notices;
mod prompt_bar;
mod rich;
mod sending;
mod server;
mod shell;
mod stream;
mod strip;
mod tour;
mod transfer;
mod window;

pub(crate) fn launch() {
    dioxus::launch(shell::Shell);
}
