//! The worker stream and the client service.

mod app;
mod attack;
mod client;
mod execute;
mod history;
mod life;
mod provisional;
mod sessions;
mod silence;
mod worker;
