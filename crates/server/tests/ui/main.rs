//! The web pages over plain HTTP: what a browser receives, and what it may send.
//!
//! - `session`: sign in, sign out, and requests without a session.
//! - `forgery`: forged changes.
//! - `tenants`: a visitor sees only its own tenants and acts only within its role.
//! - `pages`: every page, its headers, and payloads with markup.
//! - `actions`: every form.
//! - `twice`: forms that are sent twice.
//! - `hostile`: hostile names and payloads of workers.
//! - `nowhere`: unknown pages, and unreadable input.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot continue fails at that line")]

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
