//! Which request goes where.

use hyper::body::Incoming;
use hyper::{Method, Request, Response};

use super::answer::{self, Answer};
use super::limits::Pulse;
use super::metrics::Kind;
use super::{Node, entities, entity, operations, positions, profile};
use crate::clock;

/// Answers a request, and notes how.
pub(super) async fn serve(node: &Node, pulse: &Pulse, request: Request<Incoming>) -> Response<Answer> {
    let started = clock::moment();
    pulse.step();
    let kind = Kind::of(&request);
    let method = request.method().clone();
    let response = match node.requests.take(1) {
        Some(_taken) => dispatch(node, pulse, request).await,
        None => answer::overloaded("too many requests are being answered"),
    };
    // An answer that took long is not the client's silence.
    pulse.step();
    node.metrics.note_request(kind, &method, response.status(), clock::since(started));
    response
}

async fn dispatch(node: &Node, pulse: &Pulse, request: Request<Incoming>) -> Response<Answer> {
    let query = request.uri().query();
    let path = request.uri().path();
    if path == "/v0/entity" {
        return entity::serve(node, pulse, request).await;
    }
    let is_get = request.method() == Method::GET;
    match path {
        "/v0/status"
        | "/v0/entities"
        | "/v0/count"
        | "/v0/rank"
        | "/v0/nth"
        | "/metrics"
        | "/healthz"
        | "/readyz"
        | "/debug/profile/cpu"
        | "/debug/profile/heap"
        | "/debug/profile/lock"
            if !is_get =>
        {
            answer::not_allowed("GET")
        }
        "/v0/status" => operations::status(node),
        "/v0/entities" => entities::serve(node, query),
        "/v0/count" => positions::count(node, query),
        "/v0/rank" => positions::rank(node, query),
        "/v0/nth" => positions::nth(node, query),
        "/metrics" => operations::metrics(node),
        "/healthz" => operations::health(node),
        "/readyz" => operations::readiness(node),
        "/debug/profile/cpu" => profile::cpu(pulse, query).await,
        "/debug/profile/heap" => profile::not_built("heap"),
        "/debug/profile/lock" => profile::not_built("lock"),
        _ => answer::bad_request("there is no such path; docs/http.md has all that there are"),
    }
}
