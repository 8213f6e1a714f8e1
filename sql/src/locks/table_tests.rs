//! Locks at work.
