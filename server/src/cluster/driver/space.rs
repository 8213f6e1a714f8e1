//! Space on the disk: whether a turn asks for it, and what a turn has found out of it.

use quipu::Error;
use quipu::latched::Lack;
use quipu_cluster::engine::{Space, Turned};

use crate::cluster::host::Host;

/// Whether a turn asks the disk for space.
pub(super) fn space_of(host: &dyn Host) -> Space {
    if host.lacks_space() { Space::Lacking } else { Space::Asked }
}

/// Notes what a turn has found out.
pub(super) fn note_turned<T>(host: &dyn Host, turned: &Turned<'_, T>) {
    turned.lack.iter().for_each(|lack| host.note_lack(lack));
    if turned.has_freed {
        host.note_freed();
    }
}

/// Notes the lack of space that was the reason of a failure, if it was.
pub(super) fn note_failed(host: &dyn Host, error: &Error) {
    Lack::of(error, 0).iter().for_each(|lack| host.note_lack(lack));
}
