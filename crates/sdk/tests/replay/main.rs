//! The replay model: random programs, recorded histories, and a test for each known pitfall of this kind of engine.
//! Everything runs in-process, with the test kit of the SDK.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails right there")]

mod corpus;
mod corpus_workflows;
mod edges;
mod endings;
mod foreign;
mod golden;
mod interpreter;
mod kit;
mod pitfalls;
mod program;
mod properties;
mod races;
mod runs;
mod seed_001;
