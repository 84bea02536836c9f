//! The replay model: random programs, recorded histories, and a test for each way in which this kind of engine is known to
//! break. Everything in-process, by the test kit that the SDK ships.

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
