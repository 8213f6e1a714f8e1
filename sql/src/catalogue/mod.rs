//! What there is in a database, as statements and clients ask for it.
//!
//! | file | what it is |
//! |---|---|
//! | `shape` | tables as statements need to know them |
//! | `lookup` | what names mean, in a view |

pub mod lookup;
pub mod shape;
