//! The worker stream and the client service.

mod app;
mod attack;
mod client;
mod endings;
mod execute;
mod history;
mod life;
mod provisional;
mod refusals;
mod sessions;
mod silence;
mod worker;
