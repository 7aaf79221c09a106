//! The sandbox as its users see it: every test starts real guests in real namespaces.

mod attack;
mod egress;
mod ending;
mod exec;
mod files;
mod forbidden;
mod isolation;
mod keeper;
mod left_out;
mod port;
mod shim;
mod support;
mod terminal;
mod watch;
