//! The worker stream and the client service.

mod app;
mod client;
mod life;
mod sessions;
mod worker;
