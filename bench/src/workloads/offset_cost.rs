//! placeholder
use crate::{Bench, Workload};
use crate::report::Table; use crate::store::Result;
pub(crate) const WORKLOAD: Workload = Workload { name: "offset-cost", about: "x", run, child: None };
fn run(_: &Bench<'_>) -> Result<Vec<Table>> { Ok(vec![]) }
