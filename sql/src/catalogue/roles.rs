//! Roles: the users of the server. What they may do is said there, so a GRANT to one of them changes nothing, and a
//! REVOKE would have to take away what cannot be taken away here.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use sqlparser::ast::{self, GranteeName, GranteesType, ObjectType, Statement};

use crate::bind::{folded, object_name};
use crate::error::{Result, SqlError, SqlState};
use crate::functions::identifiers::folded_text;
use crate::identity::rights::Rights;

/// What to write instead of statements that make and change roles.
const INSTEAD: &str = "Users are those of the server: `ACL SETUSER name on >password ~* +@all`, or `~public.* +@read \
                       +@write` for tables alone, then `ACL SAVE`, over the protocol of Redis, or the table [users] \
                       of the configuration file.";

/// The least number of a role that is not the session's own.
const NUMBERS_FROM: u32 = 1 << 30;

/// The users that may use SQL.
#[derive(Clone, Debug, Default)]
pub struct Users {
    /// Their names, and what each may do.
    pub known: Vec<(String, Arc<dyn Rights>)>,
    /// Whether every other name is taken for one of them as well.
    pub takes_any: bool,
}

/// What answers the users of the moment.
pub type AskUsers = Box<dyn Fn() -> Users + Send + Sync>;

impl Users {
    /// Fails if no user has the name.
    ///
    /// # Errors
    /// [`UNDEFINED_OBJECT`](SqlState::UNDEFINED_OBJECT).
    pub fn check(&self, name: &str) -> Result<()> {
        match self.takes_any || self.has(name) {
            true => Ok(()),
            false => Err(SqlError::new(SqlState::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist"))),
        }
    }

    /// What a user may do; none if no user has the name.
    pub fn rights(&self, name: &str) -> Option<&Arc<dyn Rights>> {
        self.known.iter().find(|(known, _)| known == name).map(|(_, rights)| rights)
    }

    fn has(&self, name: &str) -> bool {
        self.rights(name).is_some()
    }
}

/// The number of a role that is not the session's own: it follows from the name.
pub fn number(name: &str) -> u32 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    NUMBERS_FROM | (hasher.finish() as u32 >> 3)
}

/// Whether a statement is about roles.
pub fn is_about_roles(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::Grant(_)
            | Statement::Revoke(_)
            | Statement::CreateRole(_)
            | Statement::AlterRole { .. }
            | Statement::Drop { object_type: ObjectType::Role | ObjectType::User, .. }
            | Statement::Set(ast::Set::SetRole { .. } | ast::Set::SetSessionAuthorization(_))
    )
}

/// Runs such a statement, for the user `own`. Returns its tag.
///
/// # Errors
/// [`UNDEFINED_OBJECT`](SqlState::UNDEFINED_OBJECT) for a role that is not there,
/// [`FEATURE_NOT_SUPPORTED`](SqlState::FEATURE_NOT_SUPPORTED) for what cannot be done, with what to do instead.
pub fn run(statement: &Statement, users: &Users, own: &str, notice: &mut dyn FnMut(&SqlError)) -> Result<&'static str> {
    match statement {
        Statement::Grant(grant) => {
            let tag = if grant.objects.is_some() { "GRANT" } else { "GRANT ROLE" };
            if grant.objects.is_none() {
                let granted = grant.privileges.to_string();
                let mut roles = granted.split(", ").map(|role| role.strip_prefix("ROLE ").unwrap_or(role));
                roles.try_for_each(|role| users.check(&unquoted(role)))?;
            }
            for grantee in &grant.grantees {
                check_grantee(grantee, users)?;
            }
            let what = "nothing was granted: what users may do is said by their rules, `ACL SETUSER`";
            notice(&SqlError::new(SqlState::SUCCESSFUL, what));
            Ok(tag)
        }
        Statement::Revoke(revoke) if !revoke.grantees.is_empty() && revoke.grantees.iter().all(is_public) => {
            let what = "nothing was revoked: users may do what their rules say, and others may do nothing";
            notice(&SqlError::new(SqlState::WARNING, what));
            Ok("REVOKE")
        }
        Statement::Revoke(_) => {
            let hint = "`ACL SETUSER name resetkeys %R~public.*`, over the protocol of Redis, lets a user read alone.";
            Err(SqlError::unsupported("REVOKE is not supported: what users may do is said by their rules", hint))
        }
        Statement::CreateRole(create) => {
            for name in &create.names {
                let name = object_name(name)?.1;
                if users.has(&name) {
                    let what = format!("role \"{name}\" already exists");
                    return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, what));
                }
            }
            Err(SqlError::unsupported("CREATE ROLE is not supported", INSTEAD))
        }
        Statement::AlterRole { name, .. } => {
            users.check(&folded(name))?;
            Err(SqlError::unsupported("ALTER ROLE is not supported", INSTEAD))
        }
        Statement::Drop { names, if_exists, .. } => {
            for name in names {
                let name = object_name(name)?.1;
                if !users.has(&name) {
                    let what = format!("role \"{name}\" does not exist");
                    if !if_exists {
                        return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, what));
                    }
                    notice(&SqlError::new(SqlState::SUCCESSFUL, format!("{what}, skipping")));
                    continue;
                }
                let instead = "Users are those of the server: `ACL DELUSER name`, then `ACL SAVE`.";
                return Err(SqlError::unsupported("DROP ROLE is not supported", instead));
            }
            Ok("DROP ROLE")
        }
        Statement::Set(ast::Set::SetRole { role_name: Some(name), .. }) => become_other(&folded(name), users, own),
        Statement::Set(ast::Set::SetSessionAuthorization(ast::SetSessionAuthorizationParam {
            kind: ast::SetSessionAuthorizationParamKind::User(name),
            ..
        })) => become_other(&folded(name), users, own),
        _ => Ok("SET"),
    }
}

fn unquoted(name: &str) -> String {
    match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
        Some(quoted) => quoted.replace("\"\"", "\""),
        None => folded_text(name),
    }
}

fn check_grantee(grantee: &ast::Grantee, users: &Users) -> Result<()> {
    if grantee.grantee_type == GranteesType::Public {
        return Ok(());
    }
    let Some(GranteeName::ObjectName(name)) = &grantee.name else { return Ok(()) };
    match &*object_name(name)?.1 {
        "public" | "current_user" | "current_role" | "session_user" => Ok(()),
        name => users.check(name),
    }
}

/// Whether rights are taken from all who have none of their own: dumps do so.
fn is_public(grantee: &ast::Grantee) -> bool {
    let is_named = |name: &GranteeName| matches!(name, GranteeName::ObjectName(name) if name.to_string() == "public");
    grantee.grantee_type == GranteesType::Public || grantee.name.as_ref().is_some_and(is_named)
}

/// SET ROLE and SET SESSION AUTHORIZATION of a name.
fn become_other(name: &str, users: &Users, own: &str) -> Result<&'static str> {
    if name == own || name == "none" {
        return Ok("SET");
    }
    if !users.has(name) {
        let what = format!("role \"{name}\" does not exist");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, what));
    }
    let what = format!("a session of \"{own}\" cannot become one of \"{name}\"");
    Err(SqlError::unsupported(what, "Connect as that user."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::rights::AllRights;

    fn answer(text: &str, takes_any: bool) -> (String, usize) {
        let known = ["ann", "ben"].map(|name| (name.to_owned(), Arc::new(AllRights) as Arc<dyn Rights>));
        let users = Users { known: known.into(), takes_any };
        let mut notices = 0;
        let statement = crate::statement::parse(text).expect(text).pop().expect("one");
        assert!(is_about_roles(&statement.tree), "{text}");
        let done = run(&statement.tree, &users, "ann", &mut |_| notices += 1);
        (done.map_or_else(|error| error.state().code().to_owned(), str::to_owned), notices)
    }

    #[test]
    fn statements_of_roles_say_what_is_true() {
        for (text, wanted, notices) in [
            ("GRANT SELECT, INSERT ON t TO ben", "GRANT", 1),
            ("GRANT ALL PRIVILEGES ON ALL TABLES IN SCHEMA public TO PUBLIC", "GRANT", 1),
            ("GRANT USAGE ON SCHEMA public TO nosuch", "42704", 0),
            ("GRANT ben TO ann", "GRANT ROLE", 1),
            ("GRANT ben, \"ann\" TO ann, PUBLIC", "GRANT ROLE", 1),
            ("GRANT nosuch TO ann", "42704", 0),
            ("REVOKE ben FROM ann", "0A000", 0),
            ("REVOKE ALL ON t FROM ben", "0A000", 0),
            ("CREATE ROLE ben", "42710", 0),
            ("CREATE ROLE carl LOGIN PASSWORD 'x'", "0A000", 0),
            ("CREATE USER carl WITH PASSWORD 'x'", "0A000", 0),
            ("CREATE USER carl WITH ENCRYPTED PASSWORD 'x' NOSUPERUSER", "0A000", 0),
            ("ALTER ROLE ben PASSWORD 'x'", "0A000", 0),
            ("ALTER USER nosuch WITH PASSWORD 'x'", "42704", 0),
            ("DROP ROLE IF EXISTS nosuch, other", "DROP ROLE", 2),
            ("DROP USER nosuch", "42704", 0),
            ("DROP ROLE ben", "0A000", 0),
            ("SET ROLE ann", "SET", 0),
            ("SET ROLE NONE", "SET", 0),
            ("SET ROLE ben", "0A000", 0),
            ("SET ROLE nosuch", "22023", 0),
            ("SET SESSION AUTHORIZATION DEFAULT", "SET", 0),
            ("SET SESSION AUTHORIZATION ben", "0A000", 0),
        ] {
            assert_eq!(answer(text, false), (wanted.to_owned(), notices), "{text}");
        }
        assert_eq!(answer("GRANT SELECT ON t TO anyone", true), ("GRANT".to_owned(), 1));
    }
}
