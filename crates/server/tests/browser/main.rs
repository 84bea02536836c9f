//! The web pages in a real browser: Chromium, driven over WebDriver.
//!
//! - `work`: start, watch, cancel, answer, read an error, filter, keys.
//! - `payloads`: payloads are shown and not run; only the visitor's own tenant is shown.
//! - `hostile`: names and payloads of workers are shown and not run.
//! - `large`: a history of 50,000 events.
//! - `pictures`: every page, light and dark, wide and narrow, for the documentation.
//!
//! They need Debian's packages `chromium` and `chromium-driver`, which `cargo xtask test` installs if it can. If it
//! cannot, it prints a message and sets `FLOVYN_TEST_BROWSER=none`, and these tests are skipped.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot continue fails at that line")]
#![allow(clippy::print_stdout, reason = "printed figures are not checked")]

mod browser;
mod driver;
mod hostile;
mod large;
mod payloads;
mod pictures;
#[allow(dead_code, unused_macros, unused_imports, reason = "shared with other tests")]
#[path = "../set_up/mod.rs"]
mod set_up;
mod work;

use set_up::{app, common, http, worker, world};
