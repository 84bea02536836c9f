//! See the list in main.rs.
