//! Expressions whose values are known from PostgreSQL.
