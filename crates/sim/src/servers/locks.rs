//! Row locks like those of PostgreSQL: one transaction at a time can lock a row. A transaction that does not wait for a
//! locked row finds it busy.

use std::collections::BTreeMap;

use flovyn_engine::state::*;
use flovyn_engine::{Loaded, Row, Wants, for_each_table};

macro_rules! define {
    ($($field:ident: $row:ident,)*) => {
        /// The transaction that holds each row.
        #[derive(Debug, Default)]
        pub(super) struct Locks {
            $($field: BTreeMap<<$row as Row>::Key, u64>,)*
        }

        impl Locks {
            /// Whether another transaction holds a wanted row.
            pub(super) fn blocks(&self, transaction: u64, wants: &Wants) -> bool {
                let other = |holder: Option<&u64>| holder.is_some_and(|holder| *holder != transaction);
                false $(|| wants.$field.lock.iter().any(|key| other(self.$field.get(key))))*
            }

            /// Locks the wanted rows that were found. Rows that other transactions hold are removed and reported as
            /// busy.
            pub(super) fn take(&mut self, transaction: u64, wants: &Wants, loaded: &mut Loaded) {
                $(if <$row as Row>::LOCKED {
                    let wanted = &wants.$field.lock;
                    let held = |key: &<$row as Row>::Key| {
                        self.$field.get(key).is_some_and(|holder| *holder != transaction)
                    };
                    let busy: Vec<_> = wanted.iter().filter(|key| held(key)).cloned().collect();
                    for key in &busy {
                        // A scan finds the busy row too, so the row is in the load once more.
                        if let Some(place) = loaded.$field.iter().position(|row| row.key() == *key) {
                            loaded.$field.remove(place);
                        }
                    }
                    let found = loaded.$field.iter().map(Row::key);
                    let found = found.filter(|key| wanted.contains(key) && !busy.contains(key));
                    self.$field.extend(found.map(|key| (key, transaction)));
                    loaded.busy.$field.extend(busy);
                })*
            }

            /// Releases all locks of a transaction that has ended.
            pub(super) fn free(&mut self, transaction: u64) {
                $(self.$field.retain(|_, holder| *holder != transaction);)*
            }
        }
    };
}

for_each_table!(define);
