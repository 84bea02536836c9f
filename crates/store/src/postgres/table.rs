//! Maps each row type to its fields in the wants, the loaded rows and the changes of a batch.

use flovyn_engine::snapshot::Snapshot;
use flovyn_engine::state::*;
use flovyn_engine::working_set::KeySet;
use flovyn_engine::{Change, Loaded, Mutations, Wants, for_each_table};

use crate::record::Record;

pub(super) trait TableRow: Record {
    fn wanted(wants: &Wants) -> &KeySet<Self>;
    fn loaded(loaded: &mut Loaded) -> &mut Vec<Self>;
    fn busy(loaded: &mut Loaded) -> &mut Vec<Self::Key>;
    fn changes(mutations: &Mutations) -> &[Change<Self>];
    fn kept(snapshot: &mut Snapshot) -> &mut Vec<Self>;
}

macro_rules! implement {
    ($($field:ident: $row:ident,)*) => {
        $(
            impl TableRow for $row {
                fn wanted(wants: &Wants) -> &KeySet<Self> {
                    &wants.$field
                }
                fn loaded(loaded: &mut Loaded) -> &mut Vec<Self> {
                    &mut loaded.$field
                }
                fn busy(loaded: &mut Loaded) -> &mut Vec<Self::Key> {
                    &mut loaded.busy.$field
                }
                fn changes(mutations: &Mutations) -> &[Change<Self>] {
                    &mutations.$field
                }
                fn kept(snapshot: &mut Snapshot) -> &mut Vec<Self> {
                    &mut snapshot.$field
                }
            }
        )*
    };
}

for_each_table!(implement);
