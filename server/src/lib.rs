//! The server of Quipu: faces over the engine.

pub mod resp;
