//! Access rights over gRPC, and invalid input.
//!
//! - `wire`: calls any method with bytes, so that one function can call all of them.
//! - `messages`: the descriptor: the methods, and the fields of an encoded message.
//! - `world`: a tenant with one of everything, all in use: an execution, a task, a promise, a session.
//! - `table`: for every rpc a request with that tenant's ids in every id field.
//! - `credentials`, `tenants`, `inner_ids`, `jwt`, `many_tenants`: which callers are accepted, and isolation of
//!   tenants.
//! - `spoil`: every request of the table with one invalid field, for the tests of bad input.
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
