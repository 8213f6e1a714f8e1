//! The parent, which starts runs as children of its own and shrinks what they find.

pub mod child;
pub mod parent;
pub mod shrink;
