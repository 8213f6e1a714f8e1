//! The Redis serialization protocol, versions 2 and 3: what comes in ([`parse`]) and what goes out ([`reply`]), and numbers as text in both
//! ([`number`]).

mod long_double;
pub mod number;
pub mod parse;
pub mod reply;

#[cfg(test)]
mod tests;
