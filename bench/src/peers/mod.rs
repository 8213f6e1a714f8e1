//! The stores that Quipu is measured beside. Each file is one, and says which of its settings stand for which
//! durability.

mod btree_map;
#[cfg(feature = "peers")]
pub(crate) mod fjall;
#[cfg(feature = "peers")]
pub(crate) mod lmdb;
#[cfg(feature = "peers")]
pub(crate) mod redb;
#[cfg(feature = "peers")]
pub(crate) mod sqlite;

use crate::quipu_store;
use crate::store::StoreKind;

/// The stores of this build, Quipu first.
pub fn stores() -> Vec<StoreKind> {
    vec![
        quipu_store::QUIPU,
        quipu_store::QUIPU_FLAT,
        btree_map::INTEGERS,
        btree_map::BYTES,
        #[cfg(feature = "peers")]
        lmdb::LMDB,
        #[cfg(feature = "peers")]
        redb::REDB,
        #[cfg(feature = "peers")]
        fjall::FJALL,
        #[cfg(feature = "peers")]
        sqlite::SQLITE,
    ]
}
