//! The description of a database as bytes: the manifest, and the records of the log.

pub(crate) mod declaration;
pub(crate) mod manifest;
pub(crate) mod record;
