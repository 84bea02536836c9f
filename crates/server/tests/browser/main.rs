//! The web pages in a real browser: Chromium, driven over WebDriver.
//!
//! - `work`: starting, watching, cancelling, answering, reading an error, filtering, keys.
//! - `payloads`: whatever is in a payload is shown and not run; one's own tenant only.
//! - `large`: a history of 50,000 events.
//! - `pictures`: every page, light and dark, wide and narrow, for the documentation.
//!
//! They need Debian's packages `chromium` and `chromium-driver`, which `cargo xtask test` installs where it may. Where it
//! may not it says so, sets `FLOVYN_TEST_BROWSER=none`, and these tests are left out.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails right there")]
#![allow(clippy::print_stdout, reason = "figures that nothing is held to")]

#[allow(dead_code, reason = "shared with the tests of gRPC")]
#[path = "../grpc/stream/app.rs"]
mod app;
mod browser;
#[allow(dead_code, unused_macros, unused_imports, reason = "shared with the tests of gRPC")]
#[path = "../grpc/common.rs"]
mod common;
mod driver;
#[allow(dead_code, reason = "shared with the tests of REST")]
#[path = "../rest/http.rs"]
mod http;
mod large;
mod payloads;
mod pictures;
mod work;
#[allow(dead_code, reason = "shared with the tests of gRPC")]
#[path = "../grpc/stream/worker.rs"]
mod worker;
#[allow(dead_code, unused_macros, unused_imports, reason = "shared with the tests of REST")]
#[path = "../rest/world.rs"]
mod world;
