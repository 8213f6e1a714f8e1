//! wip
pub mod clock;
pub mod ids;
pub mod limits;
pub mod placement;
