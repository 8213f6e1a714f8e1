//! Round trips of values, and texts whose values are known from PostgreSQL.
