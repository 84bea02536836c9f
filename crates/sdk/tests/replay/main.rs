//! The replay model: random programs, recorded histories, and a test for each way in which this kind of engine is known to
//! break. Everything in-process, by the test kit that the SDK ships.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails right there")]

mod corpus;
mod corpus_workflows;
mod edges;
mod golden;
mod interpreter;
mod pitfalls;
mod program;
mod properties;
mod runs;
mod seed_001;
