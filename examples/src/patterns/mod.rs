//! Well-known patterns, each in one file: the workflow, its tasks, a run against a server, and its tests in virtual
//! time.
//!
//! `cargo run -p flovyn-examples --bin pattern -- money_transfer`

use std::process::ExitCode;

pub mod code_change;
pub mod fan_out_2000;
pub mod interpreter;
pub mod money_transfer;
pub mod polling;
pub mod rest_wait;
pub mod select_loop;
pub mod shopping_cart;
pub mod subscription;
pub mod trip_saga;
pub mod typed_errors;

macro_rules! patterns {
    ($($name:ident,)*) => {
        /// The names of all patterns.
        pub const NAMES: &[&str] = &[$(stringify!($name),)*];

        /// Runs a pattern by its name. `None`: there is no such pattern.
        pub fn run(name: &str) -> Option<ExitCode> {
            match name {
                $(stringify!($name) => Some(crate::run($name::example)),)*
                _ => None,
            }
        }
    };
}

patterns! {
    code_change,
    fan_out_2000,
    interpreter,
    money_transfer,
    polling,
    rest_wait,
    select_loop,
    shopping_cart,
    subscription,
    trip_saga,
    typed_errors,
}
