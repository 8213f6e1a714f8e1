//! Refuses the commands that Redis has and Quipu does not have yet, and says what is missing.
//!
//! Differences from Redis: all of them. `CLUSTER` and similar commands are refused as by a Redis that is not part of a
//! cluster.

use super::{Call, CommandResult, Refusal, refusal};
use crate::facts::absent::{BLOCKING, CLUSTERS};

/// Refuses a command of the group `Absent`.
pub(super) fn refuse(call: &mut Call<'_, '_>) -> CommandResult {
    match call.spec.lack {
        CLUSTERS => Err(refusal::text("ERR This instance has cluster support disabled")),
        // The same without the B does not wait.
        lack @ BLOCKING => {
            let instead = call.spec.name[1..].to_uppercase();
            Err(Refusal::new(format!("ERR {lack} in a later version of Quipu; use {instead}")))
        }
        lack => {
            let name = call.spec.name.to_uppercase();
            Err(Refusal::new(format!("ERR {name}: {lack} in a later version of Quipu")))
        }
    }
}
