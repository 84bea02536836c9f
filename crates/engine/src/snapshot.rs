//! Every row of every table, in key order: what tests compare and checkers read.

use crate::for_each_table;
use crate::state::*;

macro_rules! define {
    ($($field:ident: $row:ident,)*) => {
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct Snapshot { $(pub $field: Vec<$row>,)* }
    };
}
for_each_table!(define);
