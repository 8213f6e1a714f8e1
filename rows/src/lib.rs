//! Rows made of columns, over the tables of Quipu.

pub mod old;
