//! The actors of the supervision tree without their shells: what each can be told, and what is then to be done. The desktop's step
//! stands with its view, in [`crate::fold::desktop`].

pub mod session;
