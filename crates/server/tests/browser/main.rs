//! The web pages in a real browser: Chromium, driven over WebDriver.
//!
//! - `work`: starting, watching, cancelling, answering, reading an error, filtering, keys.
//! - `payloads`: whatever is in a payload is shown and not run; one's own tenant only.
//! - `hostile`: what workers name and send is shown and not run.
//! - `large`: a history of 50,000 events.
//! - `pictures`: every page, light and dark, wide and narrow, for the documentation.
//!
//! They need Debian's packages `chromium` and `chromium-driver`, which `cargo xtask test` installs where it may. Where it
//! may not it says so, sets `FLOVYN_TEST_BROWSER=none`, and these tests are left out.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails right there")]
#![allow(clippy::print_stdout, reason = "figures that nothing is held to")]

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
