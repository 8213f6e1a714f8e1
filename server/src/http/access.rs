//! Decides who may ask for what. Rights are those of the Redis face: each request needs the rights of a command.
//!
//! A request without credentials is made by the user `default`; `Authorization: Basic` names another, as `AUTH` does.
//! Every client may ask for health and readiness.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{AUTHORIZATION, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Method, Request, Response, StatusCode};

use super::answer::{self, AnswerBody};
use super::node::Node;
use super::query;
use crate::facts::resolve;
use crate::system::clock;
use crate::users::permissions::Denied;
use crate::users::refusals::{Reason, RefusedClient};
use crate::users::{DEFAULT, User};

/// The refusal of a request that its user may not make; `None` if it may.
pub(super) fn refuse<B>(node: &Node, peer: IpAddr, request: &Request<B>) -> Option<Response<AnswerBody>> {
    let users = &node.server.users;
    let given = request.headers().get(AUTHORIZATION);
    if given.is_none() && users.needs_no_password() && users.default_user().may_do_everything() {
        return None;
    }
    if matches!(request.uri().path(), "/healthz" | "/readyz") {
        return None;
    }
    let user = match authenticate(node, given) {
        Ok(user) => user,
        Err(name) => {
            if let Some(name) = name {
                note(node, peer, Reason::Password, b"AUTH", &name);
            }
            let mut response = answer::text(StatusCode::UNAUTHORIZED, "name a user and a password");
            let challenge = HeaderValue::from_static("Basic realm=\"quipu\", charset=\"UTF-8\"");
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
            return Some(response);
        }
    };
    if matches!(request.uri().path(), "/v0/batch" | "/v0/repair") && !user.may_do_everything() {
        // The keys of a batch are known only when it has come.
        note(node, peer, Reason::Command, request.uri().path().as_bytes(), &user.name);
        return Some(answer::text(StatusCode::FORBIDDEN, "such requests are for users that may do everything"));
    }
    let words = command_of(request.method(), request.uri().path(), request.uri().query())?;
    let args: Vec<&[u8]> = words.iter().map(|word| &**word).collect();
    let spec = resolve(&args)?;
    let (reason, object) = match user.may(spec, &args) {
        Ok(()) => return None,
        Err(Denied::Command) => (Reason::Command, spec.name.as_bytes().to_vec()),
        Err(Denied::Key { key, .. }) => (Reason::Key, key),
    };
    note(node, peer, reason, &object, &user.name);
    let why = match reason {
        Reason::Key => "this user has no rights to all keys that the request is about",
        _ => "this user may not make such requests",
    };
    Some(answer::text(StatusCode::FORBIDDEN, why))
}

fn note(node: &Node, peer: IpAddr, reason: Reason, object: &[u8], user: &str) {
    let entry = RefusedClient {
        count: 1,
        reason,
        in_transaction: false,
        object: object.to_vec(),
        user: user.to_owned(),
        last_ms: clock::now_ms(),
        client: format!("addr={peer} name= user={user} lib-name=http"),
    };
    node.server.note_refusal(entry);
}

/// The user that a request names; else the name that was given, if one was.
fn authenticate(node: &Node, given: Option<&HeaderValue>) -> Result<Arc<User>, Option<String>> {
    let users = &node.server.users;
    let Some(given) = given else {
        return if users.needs_no_password() { Ok(users.default_user()) } else { Err(None) };
    };
    let (name, password) = credentials(given.as_bytes()).ok_or(None)?;
    let user = users.authenticate(&name, &password);
    user.ok_or_else(|| Some(String::from_utf8_lossy(&name).into_owned()))
}

/// Name and password of basic authentication (RFC 7617).
fn credentials(given: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (scheme, rest) = given.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    let mut name = STANDARD.decode(rest.trim_ascii()).ok()?;
    let colon = name.iter().position(|byte| *byte == b':')?;
    let password = name.split_off(colon + 1);
    name.pop();
    if name.is_empty() {
        name = DEFAULT.as_bytes().to_vec();
    }
    Some((name, password))
}

/// The command that needs the same rights as a request; `None` if it needs none, or is refused for another reason.
fn command_of<'q>(method: &Method, path: &str, query: Option<&'q str>) -> Option<Vec<Cow<'q, [u8]>>> {
    let word = |text: &'static str| Cow::Borrowed(text.as_bytes());
    let key = || query::find(query, "id");
    let range = || {
        let low = query::find(query, "start").map(|start| Cow::Owned([&b"["[..], &start].concat()));
        let high = query::find(query, "end").map(|end| Cow::Owned([&b"("[..], &end].concat()));
        [low.unwrap_or(word("-")), high.unwrap_or(word("+"))]
    };
    let over = |command: &'static str| Some(std::iter::once(word(command)).chain(range()).collect());
    match path {
        "/v0/entity" => match *method {
            Method::PUT => Some(vec![word("set"), key()?, word("")]),
            Method::DELETE => Some(vec![word("del"), key()?]),
            _ => Some(vec![word("get"), key()?]),
        },
        // A rank in a range is a count of a part of it.
        "/v0/count" | "/v0/rank" => over("q.count"),
        "/v0/entities" => over("q.range"),
        "/v0/nth" => {
            let [low, high] = range();
            Some(vec![word("q.nth"), word("0"), low, high])
        }
        "/v0/cluster" if *method == Method::POST => Some(vec![word("config"), word("set"), word("cluster"), word("")]),
        "/metrics" | "/v0/status" | "/v0/cluster" => Some(vec![word("info")]),
        _ if super::profile::Kind::of_path(path).is_some() => Some(vec![word("slowlog"), word("get")]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_those_of_basic_authentication() {
        let pair = |name: &str, password: &str| Some((name.as_bytes().to_vec(), password.as_bytes().to_vec()));
        assert_eq!(credentials(b"Basic YTpi"), pair("a", "b"));
        assert_eq!(credentials(b"basic  YTpiOmM= "), pair("a", "b:c"));
        assert_eq!(credentials(b"Basic OnNlY3JldA=="), pair("default", "secret"));
        for malformed in [&b""[..], b"Basic", b"Basic YQ==", b"Basic !", b"Bearer YTpi", b"Digest YTpi"] {
            assert_eq!(credentials(malformed), None);
        }
    }

    #[test]
    fn every_request_that_touches_keys_stands_for_a_command_of_the_table() {
        let requests = [
            (Method::GET, "/v0/entity", "id=a", "get a"),
            (Method::HEAD, "/v0/entity", "id=%61", "get a"),
            (Method::PUT, "/v0/entity", "ack=1&id=a", "set a "),
            (Method::DELETE, "/v0/entity", "id=a", "del a"),
            (Method::GET, "/v0/entities", "start=a&end=b", "q.range [a (b"),
            (Method::GET, "/v0/count", "", "q.count - +"),
            (Method::GET, "/v0/rank", "id=x&end=b", "q.count - (b"),
            (Method::GET, "/v0/nth", "start=a", "q.nth 0 [a +"),
            (Method::GET, "/metrics", "", "info"),
            (Method::GET, "/debug/profile/cpu", "", "slowlog get"),
        ];
        for (method, path, query, expected) in requests {
            let words = command_of(&method, path, Some(query)).expect("a command");
            assert_eq!(words.join(&b' '), expected.as_bytes());
            let args: Vec<&[u8]> = words.iter().map(|word| &**word).collect();
            let spec = resolve(&args).expect("a command");
            assert!(spec.takes(args.len()), "{expected}");
        }
    }
}
