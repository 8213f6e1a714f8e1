//! Joins commands to what runs them: finds the handler for each line of [`crate::facts`] by its name.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::absent;
use super::call::{Handler, Handlers};
use crate::facts::{Group, by_number};

/// The families' handlers. One line for each file.
const FAMILIES: &[&[Handler]] = &[
    super::strings::HANDLERS,
    super::string_ranges::HANDLERS,
    super::counters::HANDLERS,
    super::bits::HANDLERS,
    super::bit_operations::HANDLERS,
    super::bit_fields::HANDLERS,
    super::keys::HANDLERS,
    super::expiry::HANDLERS,
    super::scan::HANDLERS,
    super::objects::HANDLERS,
    super::dump::HANDLERS,
    super::databases::HANDLERS,
    super::positions::HANDLERS,
    super::transactions::HANDLERS,
    super::snapshots::HANDLERS,
    super::sorted_sets::HANDLERS,
    super::sorted_set_ranges::HANDLERS,
    super::sorted_set_algebra::HANDLERS,
    super::sorted_set_scan::HANDLERS,
    super::connection::HANDLERS,
    super::client::HANDLERS,
    super::configuration::HANDLERS,
    super::info::HANDLERS,
    super::introspection::HANDLERS,
    super::maintenance::HANDLERS,
    super::memory::HANDLERS,
    super::observation::HANDLERS,
    super::replicated::HANDLERS,
    super::users::HANDLERS,
];

/// The handlers of all commands.
pub fn handlers() -> &'static Handlers {
    static HANDLERS: OnceLock<Handlers> = OnceLock::new();
    HANDLERS.get_or_init(|| {
        let known: HashMap<&str, Handler> = FAMILIES.iter().copied().flatten().map(|line| (line.name, *line)).collect();
        let handler = |name, group| match known.get(name) {
            Some(handler) => *handler,
            None if group == Group::Absent => Handler::new(name, absent::refuse),
            None => panic!("no family has a handler for the command {name}"),
        };
        Handlers::new(by_number().iter().map(|spec| handler(spec.name, spec.group)).collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Flags;

    #[test]
    fn each_command_has_one_handler_and_each_handler_its_command() {
        let mut handled: Vec<&str> = FAMILIES.iter().copied().flatten().map(|handler| handler.name).collect();
        let mut known: Vec<&str> =
            by_number().iter().filter(|spec| spec.group != Group::Absent).map(|spec| spec.name).collect();
        handled.sort_unstable();
        known.sort_unstable();
        assert_eq!(handled, known);
        assert!(by_number().iter().all(|spec| handlers().of(spec).name == spec.name));
    }

    #[test]
    fn a_command_that_a_cluster_serves_has_a_handler_over_both_kinds_of_entities_and_no_other_has() {
        for spec in by_number() {
            let has_one = handlers().of(spec).elsewhere.is_some();
            assert_eq!(has_one, spec.flags.has(Flags::REPLICATED), "{}", spec.name);
        }
    }
}
