//! One file or folder per command.
//!
//! Commands that run a server or work on a local database: `demo`, `dev`, `server`, `migrate`, `doctor`, `backup`,
//! `restore`, `api_key`. All others call a server: one folder per noun, one file per verb. `serving`, `noun`, `list`
//! and `outcome` are shared.

pub(crate) mod api_key;
pub(crate) mod backup;
pub(crate) mod clock;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod dev;
pub(crate) mod doctor;
mod list;
pub(crate) mod migrate;
pub(crate) mod noun;
mod outcome;
pub(crate) mod promise;
pub(crate) mod queue;
pub(crate) mod restore;
pub(crate) mod server;
mod serving;
pub(crate) mod task;
pub(crate) mod tenant;
pub(crate) mod token;
pub(crate) mod worker;
pub(crate) mod workflow;
