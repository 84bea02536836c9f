//! The web pages over plain HTTP: what a browser is sent, and what it may send.
//!
//! - `session`: signing in and out, and what happens without it.
//! - `forgery`: changes that no page of the visitor asked for.
//! - `tenants`: one's own tenant and role, and nothing else.
//! - `pages`: every page, its headers, and payloads that would like to be more than text.
//! - `actions`: every form.
//! - `twice`: forms that are sent twice.
//! - `hostile`: what workers name and send.
//! - `nowhere`: what is no page, and what cannot be read.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails right there")]

mod actions;
mod forgery;
mod hostile;
mod nowhere;
mod pages;
mod session;
#[allow(dead_code, unused_macros, unused_imports, reason = "shared with other tests")]
#[path = "../set_up/mod.rs"]
mod set_up;
mod tenants;
mod twice;
mod visitor;

use set_up::{app, common, http, worker, world};
