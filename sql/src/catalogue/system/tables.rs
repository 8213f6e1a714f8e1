//! Tables of the catalogue: all parts together.

use std::sync::LazyLock;

use crate::catalogue::system::definition::Tables;
use crate::catalogue::system::{
    constraints, empty, information, information_types, operators, relations, rights, routines, server, statistics,
    type_tables,
};

/// All tables of the catalogue.
pub(super) static TABLES: LazyLock<Tables> = LazyLock::new(|| {
    Tables::of(&[
        relations::TABLES,
        constraints::TABLES,
        type_tables::TABLES,
        routines::TABLES,
        operators::TABLES,
        server::TABLES,
        statistics::TABLES,
        empty::TABLES,
        information::TABLES,
        information_types::TABLES,
        rights::TABLES,
    ])
});
