//! Sends each request to what answers it.
//!
//! Requests that only read are answered at once, without a task or a place in a queue: these are most requests, and
//! those that operators send to a node under load. A request that waits, for a body, a disk or a profile, is a future,
//! and takes one of the places for requests.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use hyper::body::Incoming;
use hyper::{Method, Request, Response};
use quipu::{Error, ErrorKind};

use super::answer::{self, Answer};
use super::limits::Pulse;
use super::metrics::Kind;
use super::node::Node;
use super::{access, entities, entity, message, operations, positions, profile};
use crate::system::clock;

/// An answer that is there, or comes.
pub(super) enum Answering {
    /// Until it is taken.
    Now(Option<Response<Answer>>),
    Later(Pin<Box<dyn Future<Output = Response<Answer>> + Send>>),
}

impl Future for Answering {
    type Output = Result<Response<Answer>, std::convert::Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Answering::Now(response) => response.take().map_or(Poll::Pending, |response| Poll::Ready(Ok(response))),
            Answering::Later(later) => later.as_mut().poll(cx).map(Ok),
        }
    }
}

/// Answers a request, and notes how.
pub(super) fn serve(node: &Arc<Node>, pulse: &Arc<Pulse>, address: IpAddr, request: Request<Incoming>) -> Answering {
    let started = clock::moment();
    pulse.step();
    let kind = Kind::of(&request);
    if node.server.turns_away(Some(address)) {
        let response = answer::turned_away();
        note(node, pulse, kind, request.method(), &response, started);
        return Answering::Now(Some(response));
    }
    if let Some(response) = message::refuse(&request).or_else(|| access::refuse(node, address, &request)) {
        note(node, pulse, kind, request.method(), &response, started);
        return Answering::Now(Some(response));
    }
    if let Some(mut response) = answer_now(node, &request) {
        if request.method() == Method::HEAD {
            answer::tell_length(&mut response);
        }
        let sees_data = kind != Kind::Other;
        if !sees_data || node.server.keyspace.db().pending_commits().is_durable(node.server.durability()) {
            note(node, pulse, kind, request.method(), &response, started);
            return Answering::Now(Some(response));
        }
        let (node, pulse, method) = (node.clone(), pulse.clone(), request.method().clone());
        return Answering::Later(Box::pin(async move {
            let response = match wait_for_seen(&node).await {
                Ok(()) => response,
                Err(error) => answer::in_doubt(&error),
            };
            note(&node, &pulse, kind, &method, &response, started);
            response
        }));
    }
    let (node, pulse) = (node.clone(), pulse.clone());
    Answering::Later(Box::pin(async move {
        let method = request.method().clone();
        let response = match node.requests.take(1) {
            Some(_taken) => answer_later(&node, &pulse, request).await,
            None => answer::overloaded("too many requests are being answered"),
        };
        note(&node, &pulse, kind, &method, &response, started);
        response
    }))
}

/// Waits until what an answer was made of is durable. Where the log has failed, that may never be, and the answer is
/// not given.
async fn wait_for_seen(node: &Arc<Node>) -> quipu::Result<()> {
    let server = node.server.clone();
    let wait = move || server.keyspace.db().pending_commits().wait(server.durability());
    let stops = |_| Err(Error::new(ErrorKind::Poisoned, "the server stops"));
    tokio::task::spawn_blocking(wait).await.unwrap_or_else(stops)
}

fn note(node: &Node, pulse: &Pulse, kind: Kind, method: &Method, response: &Response<Answer>, started: Instant) {
    // An answer that took long is not the client's silence.
    pulse.step();
    node.metrics.note_request(kind, method, response.status(), clock::since(started));
}

/// The answer to a request that waits for nothing.
fn answer_now(node: &Node, request: &Request<Incoming>) -> Option<Response<Answer>> {
    let (path, query) = (request.uri().path(), request.uri().query());
    // Hyper sends the head of the answer to a `HEAD`, and not its body.
    let is_get = matches!(*request.method(), Method::GET | Method::HEAD);
    if profile::Kind::of_path(path).is_some() {
        return if is_get { None } else { Some(answer::not_allowed("GET, HEAD")) };
    }
    let answer: fn(&Node, Option<&str>) -> Response<Answer> = match path {
        "/v0/entity" => {
            return match *request.method() {
                Method::GET | Method::HEAD => Some(entity::get(node, request)),
                Method::PUT | Method::DELETE => None,
                _ => Some(answer::not_allowed("GET, HEAD, PUT, DELETE")),
            };
        }
        "/v0/status" => |node, _| operations::status(node),
        "/v0/entities" => entities::serve,
        "/v0/count" => positions::count,
        "/v0/rank" => positions::rank,
        "/v0/nth" => positions::nth,
        "/metrics" => |node, _| operations::metrics(node),
        "/healthz" => |node, _| operations::health(node),
        "/readyz" => |node, _| operations::readiness(node),
        _ => return Some(answer::bad_request("there is no such path; docs/http.md has all that there are")),
    };
    Some(if is_get { answer(node, query) } else { answer::not_allowed("GET, HEAD") })
}

async fn answer_later(node: &Node, pulse: &Pulse, request: Request<Incoming>) -> Response<Answer> {
    match profile::Kind::of_path(request.uri().path()) {
        Some(kind) => profile::take(kind, pulse, request.uri().query()).await,
        None => entity::write(node, pulse, request).await,
    }
}
