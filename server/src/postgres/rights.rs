//! Rights of a user to tables, by the rules that say which commands it may run with which keys: each use of a table
//! needs the right to a command, with the name of the table as its key, as each request over HTTP does.

use std::sync::Arc;

use quipu_sql::identity::rights::{Right, Rights};

use crate::facts::find;
use crate::users::User;

/// The rights of a user in SQL.
#[derive(Debug)]
pub(super) struct TableRights {
    user: Arc<User>,
}

impl TableRights {
    /// Those of a user, as its rules are at each moment.
    pub(super) fn of(user: &Arc<User>) -> Arc<dyn Rights> {
        Arc::new(TableRights { user: Arc::clone(user) })
    }
}

impl Rights for TableRights {
    fn has_all(&self) -> bool {
        self.user.may_do_everything()
    }

    fn has(&self, right: Right, schema: &str, name: &str) -> bool {
        if self.has_all() {
            return true;
        }
        let table = format!("{schema}.{name}");
        let words: &[&[u8]] = match right {
            Right::Select => &[b"get", table.as_bytes()],
            Right::Insert | Right::Update => &[b"set", table.as_bytes(), b""],
            Right::Delete | Right::Truncate => &[b"del", table.as_bytes()],
        };
        find(words[0]).is_some_and(|spec| self.user.may(spec, words).is_ok())
    }

    fn version(&self) -> u64 {
        self.user.version()
    }
}
