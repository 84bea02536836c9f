//! Tests of the embedded store through its port.

#![allow(clippy::unwrap_used, reason = "all of this is tests, also what no `#[test]` stands before")]

mod damage;
mod names;
mod oracle;
mod port;
mod support;
