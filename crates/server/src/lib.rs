//! The server: gRPC and HTTP in front of the service, configuration, telemetry and shutdown. It contains no rules.

mod activity;
mod actor;
pub mod api;
mod by_key;
pub mod config;
mod fetch;
mod finish;
pub mod grpc;
mod hot_path;
pub mod http;
pub mod issuer;
pub mod live;
pub mod metrics;
mod peer;
pub mod provision;
pub mod rates;
pub mod rest;
pub mod server;
mod slow;
pub mod telemetry;
mod tenants;
pub mod times;
mod tls;
mod trace;
mod tries;
mod view;
pub mod virtual_clock;
pub mod waiting;

pub use config::Config;
pub use server::{Server, ServerOptions, StartError};
