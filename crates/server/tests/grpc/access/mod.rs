//! Who may do what over gRPC, and what becomes of input that is wrong.
//!
//! - `wire`: any method as bytes, so that one function can call all of them.
//! - `messages`: the descriptor: which methods there are, and the fields of an encoded message.
//! - `world`: a tenant with something of everything: an execution, a task, a promise, a session, all in use.
//! - `table`: for every rpc a request with that tenant's ids in every id field.
//! - `credentials`, `tenants`, `inner_ids`, `jwt`, `many_tenants`: who is let in, and what a tenant can reach of another.
//! - `spoil`: every request of the table with one field spoilt, for the tests of bad input.
//! - `bad_ids`, `bad_payloads`, `bad_text`, `bad_values`, `bad_commands`, `bad_bulk`, `bad_streams`, `bad_bytes`: bad input.

mod bad_bulk;
mod bad_bytes;
mod bad_commands;
mod bad_ids;
mod bad_payloads;
mod bad_streams;
mod bad_text;
mod bad_values;
mod credentials;
mod inner_ids;
mod jwt;
mod many_tenants;
mod messages;
mod spoil;
mod table;
mod tenants;
mod wire;
mod world;
