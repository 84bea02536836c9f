//! Row locks, as PostgreSQL gives them: a row that exists can be locked by one transaction at a time, and whoever does
//! not wait for it is told that it is busy.

use std::collections::BTreeMap;

use flovyn_engine::state::*;
use flovyn_engine::{Loaded, Row, Wants, for_each_table};

macro_rules! define {
    ($($field:ident: $row:ident,)*) => {
        /// Who holds which row.
        #[derive(Debug, Default)]
        pub(super) struct Locks {
            $($field: BTreeMap<<$row as Row>::Key, u64>,)*
        }

        impl Locks {
            /// Whether somebody else holds a row that is wanted.
            pub(super) fn blocks(&self, transaction: u64, wants: &Wants) -> bool {
                let other = |holder: Option<&u64>| holder.is_some_and(|holder| *holder != transaction);
                false $(|| wants.$field.lock.iter().any(|key| other(self.$field.get(key))))*
            }

            /// Locks what was found and is wanted; takes out what others hold, and says that it is busy.
            pub(super) fn take(&mut self, transaction: u64, wants: &Wants, loaded: &mut Loaded) {
                $(if <$row as Row>::LOCKED {
                    let wanted = &wants.$field.lock;
                    let held = |key: &<$row as Row>::Key| {
                        self.$field.get(key).is_some_and(|holder| *holder != transaction)
                    };
                    let busy: Vec<_> = wanted.iter().filter(|key| held(key)).cloned().collect();
                    for key in &busy {
                        // A scan sees it all the same, and has brought it once more.
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

            /// The transaction has ended.
            pub(super) fn free(&mut self, transaction: u64) {
                $(self.$field.retain(|_, holder| *holder != transaction);)*
            }
        }
    };
}

for_each_table!(define);
