//! Every row of every table, in key order: tests compare snapshots and checkers read them.

use crate::for_each_table;
use crate::state::*;
use crate::working_set::Loaded;

macro_rules! define {
    ($($field:ident: $row:ident,)*) => {
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct Snapshot { $(pub $field: Vec<$row>,)* }

        /// Rows as a load found them.
        impl From<Loaded> for Snapshot {
            fn from(loaded: Loaded) -> Self {
                Self { $($field: loaded.$field,)* }
            }
        }
    };
}
for_each_table!(define);
