//! The Redis serialization protocol, versions 2 and 3: what comes in ([`parse`]) and what goes out ([`reply`]).
