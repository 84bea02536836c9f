//! One file or folder per command.

pub(crate) mod api_key;
pub(crate) mod backup;
pub(crate) mod demo;
pub(crate) mod dev;
pub(crate) mod doctor;
pub(crate) mod migrate;
pub(crate) mod restore;
pub(crate) mod server;
mod serving;
