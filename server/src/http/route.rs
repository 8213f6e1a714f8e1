//! Sends each request to the module that answers it.
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
use hyper::header::HeaderValue;
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use quipu::{Error, ErrorKind};

use super::answer::{self, AnswerBody, Refusal};
use super::head::{self, Head};
use super::limits::Pulse;
use super::metrics::Kind;
use super::node::{Face, Node};
use super::positions::Position;
use super::retry::{Answered, Patience};
use super::{access, batch, entities, entity, members, monitoring, peers, positions, profile, waiting};
use crate::cluster::{Cluster, PEER_PORT};
use crate::system::clock;

/// An answer that is there, or comes.
pub(super) enum Answering {
    /// Until it is taken.
    Now(Option<Response<AnswerBody>>),
    /// It is noted when it comes.
    Later(Coming, Noted),
}

/// An answer that comes.
type Coming = Pin<Box<dyn Future<Output = Response<AnswerBody>> + Send>>;

/// What is noted of a request with its answer.
pub(super) struct Noted {
    node: Arc<Node>,
    pulse: Arc<Pulse>,
    kind: Kind,
    method: Method,
    started: Instant,
}

impl Future for Answering {
    type Output = Result<Response<AnswerBody>, std::convert::Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Answering::Now(response) => response.take().map_or(Poll::Pending, |response| Poll::Ready(Ok(response))),
            Answering::Later(later, Noted { node, pulse, kind, method, started }) => {
                later.as_mut().poll(cx).map(|response| {
                    note(node, pulse, *kind, method, &response, *started);
                    Ok(response)
                })
            }
        }
    }
}

/// Answers a request, and notes how.
pub(super) fn serve(
    node: &Arc<Node>,
    pulse: &Arc<Pulse>,
    (address, face): (IpAddr, Face),
    request: Request<Incoming>,
) -> Answering {
    let started = clock::moment();
    pulse.step();
    let kind = Kind::of(&request);
    if let Some(response) = turn_away(node, (address, face), &request) {
        note(node, pulse, kind, request.method(), &response, started);
        return Answering::Now(Some(response));
    }
    let noted =
        |method: &Method| Noted { node: node.clone(), pulse: pulse.clone(), kind, method: method.clone(), started };
    if let Some(cluster) = node.cluster.as_ref().filter(|_| is_elsewhere(request.uri().path())) {
        let noted = noted(request.method());
        return if request.uri().path() == "/v0/entity" {
            answer_entity_elsewhere(node, cluster, pulse, request, noted)
        } else {
            Answering::Later(Box::pin(answer_elsewhere(node.clone(), cluster.clone(), pulse.clone(), request)), noted)
        };
    }
    let head = Head { method: request.method(), uri: request.uri(), headers: request.headers() };
    let answered = answer_now(node, &head, Patience::Hurried);
    let lacks_pages = matches!(answered, Some(Err(_)));
    let method = request.method();
    if let Some(Ok(response)) = answered {
        let response = with_length(response, method);
        if is_certain(node, kind) {
            note(node, pulse, kind, method, &response, started);
            return Answering::Now(Some(response));
        }
        let (noted, of_answer) = (noted(method), node.clone());
        return Answering::Later(Box::pin(async move { certain(&of_answer, response).await }), noted);
    }
    let (noted, of_answer, pulse_of_answer) = (noted(method), node.clone(), pulse.clone());
    let response = async move {
        let Some(_taken) = of_answer.requests.take(1) else { return answer::overloaded(TOO_MANY) };
        match lacks_pages {
            true => certain(&of_answer, answer_patiently(&of_answer, request.into_parts().0).await).await,
            false => answer_later(&of_answer, &pulse_of_answer, request).await,
        }
    };
    Answering::Later(Box::pin(response), noted)
}

const TOO_MANY: &str = "too many requests are being answered";

/// The answer to a request that is at the wrong port, from a stranger, or none that is served.
fn turn_away(
    node: &Node,
    (address, face): (IpAddr, Face),
    request: &Request<Incoming>,
) -> Option<Response<AnswerBody>> {
    let is_peer = node.cluster.is_some() && request.uri().path() == "/v0/peer";
    if !is_peer && face == Face::Peers {
        return Some(answer::text(StatusCode::NOT_FOUND, "only nodes of the cluster meet here"));
    }
    if is_peer
        && face == Face::Clients
        && let Some(port) = node.peer_port
    {
        let mut response = answer::text(StatusCode::MISDIRECTED_REQUEST, "nodes of the cluster meet at another port");
        response.headers_mut().insert(PEER_PORT, port.into());
        return Some(response);
    }
    // A peer proves who it is by the cluster's secret or its certificate, where there are any.
    let is_known = is_peer && node.cluster.as_ref().is_some_and(|cluster| cluster.proves_peers());
    if !is_known && node.server.turns_away(Some(address)) {
        return Some(answer::turned_away());
    }
    head::refuse(request).or_else(|| access::refuse(node, address, request).filter(|_| !is_peer))
}

/// Whether what an answer was made of is durable.
fn is_certain(node: &Node, kind: Kind) -> bool {
    let sees_data = kind != Kind::Other;
    !sees_data || node.server.keyspace.db().pending_commits().is_durable(node.server.durability())
}

/// The answer, once what it was made of is durable.
async fn certain(node: &Arc<Node>, response: Response<AnswerBody>) -> Response<AnswerBody> {
    match wait_for_seen(node).await {
        Ok(()) => response,
        Err(error) => answer::in_doubt(&error),
    }
}

fn with_length(mut response: Response<AnswerBody>, method: &Method) -> Response<AnswerBody> {
    if method == Method::HEAD {
        answer::tell_length(&mut response);
    }
    response
}

/// The answer to a request that only reads and lacks pages of runs: it is made on a thread that may wait for them.
async fn answer_patiently(node: &Arc<Node>, parts: Parts) -> Response<AnswerBody> {
    let node = node.clone();
    let answer = move || {
        let head = Head { method: &parts.method, uri: &parts.uri, headers: &parts.headers };
        let answered = answer_now(&node, &head, Patience::Patient);
        answered.and_then(Result::ok).map(|response| with_length(response, head.method))
    };
    match tokio::task::spawn_blocking(answer).await {
        Ok(Some(response)) => response,
        // A patient request lacks nothing.
        Ok(None) | Err(_) => answer::failed(&Error::new(ErrorKind::Poisoned, "the server stops")),
    }
}

/// Waits until what an answer was made of is durable. Where the log has failed, that may never be, and the answer is
/// not given.
async fn wait_for_seen(node: &Arc<Node>) -> quipu::Result<()> {
    let server = node.server.clone();
    let wait = move || server.keyspace.db().pending_commits().wait(server.durability());
    let stops = |_| Err(Error::new(ErrorKind::Poisoned, "the server stops"));
    tokio::task::spawn_blocking(wait).await.unwrap_or_else(stops)
}

fn note(node: &Node, pulse: &Pulse, kind: Kind, method: &Method, response: &Response<AnswerBody>, started: Instant) {
    // An answer that took long is not the client's silence.
    pulse.step();
    node.metrics.note_request(kind, method, response.status(), clock::since(started));
}

/// The answer to a request that waits for nothing but, if it may, pages of runs.
fn answer_now(node: &Node, head: &Head<'_>, patience: Patience) -> Option<Answered> {
    let (path, query) = (head.uri.path(), head.uri.query());
    // Hyper sends the head of the answer to a `HEAD`, and not its body.
    let is_get = matches!(*head.method, Method::GET | Method::HEAD);
    if profile::Kind::of_path(path).is_some() {
        return if is_get { None } else { Some(Ok(answer::not_allowed("GET, HEAD"))) };
    }
    let answer: fn(&Node, Option<&str>, Patience) -> Answered = match path {
        "/v0/entity" => {
            return match *head.method {
                Method::GET | Method::HEAD => Some(entity::get(node, head, patience)),
                Method::PUT | Method::DELETE => None,
                _ => Some(Ok(answer::not_allowed("GET, HEAD, PUT, DELETE"))),
            };
        }
        "/v0/status" => |node, _, _| Ok(monitoring::status(node)),
        "/v0/entities" => entities::serve,
        "/v0/count" => |node, query, patience| positions::serve(Position::Count, node, query, patience),
        "/v0/rank" => |node, query, patience| positions::serve(Position::Rank, node, query, patience),
        "/v0/nth" => |node, query, patience| positions::serve(Position::Nth, node, query, patience),
        "/metrics" => |node, _, _| Ok(monitoring::metrics(node)),
        "/healthz" => |node, _, _| Ok(monitoring::health(node)),
        "/readyz" => |node, _, _| Ok(monitoring::readiness(node)),
        "/v0/cluster" | "/v0/repair" | "/v0/batch" | "/v0/peer" => {
            let text = "this node is alone: it was started without `--cluster` and `--join`, and has no members, \
                        replicas or batches";
            return Some(Ok(answer::bad_request(text)));
        }
        _ => return Some(Ok(answer::bad_request("there is no such path; docs/http.md has all that there are"))),
    };
    Some(if is_get { answer(node, query, patience) } else { Ok(answer::not_allowed("GET, HEAD")) })
}

async fn answer_later(node: &Node, pulse: &Pulse, request: Request<Incoming>) -> Response<AnswerBody> {
    match profile::Kind::of_path(request.uri().path()) {
        Some(kind) => profile::take(kind, pulse, request.uri().query()).await,
        None => entity::write(node, pulse, request).await,
    }
}

/// Whether a node of a cluster has an answer of its own to requests for this path.
fn is_elsewhere(path: &str) -> bool {
    matches!(
        path,
        "/v0/entity"
            | "/v0/entities"
            | "/v0/count"
            | "/v0/rank"
            | "/v0/nth"
            | "/v0/status"
            | "/v0/peer"
            | "/v0/batch"
            | "/v0/cluster"
            | "/v0/repair"
    )
}

/// The answer of a node of a cluster to a request for an entity. These are most requests: what can be done at once is,
/// and the future of what is waited for is small.
fn answer_entity_elsewhere(
    node: &Arc<Node>,
    cluster: &Arc<Cluster>,
    pulse: &Arc<Pulse>,
    request: Request<Incoming>,
    noted: Noted,
) -> Answering {
    let taken = node.requests.take(1);
    let method = &noted.method;
    let answer: Result<Coming, Refusal> = match *method {
        _ if taken.is_none() => Err(Box::new(answer::overloaded(TOO_MANY))),
        Method::GET | Method::HEAD => {
            let head = Head { method, uri: request.uri(), headers: request.headers() };
            let method = method.clone();
            entity::get_elsewhere(node, cluster, &head).map(|answer| -> Coming {
                Box::pin(async move {
                    let _taken = taken;
                    with_length(answer.await, &method)
                })
            })
        }
        Method::PUT | Method::DELETE => {
            let answer = entity::write_elsewhere(node.clone(), cluster.clone(), pulse.clone(), request);
            answer.map(|answer| -> Coming {
                Box::pin(async move {
                    let _taken = taken;
                    answer.await
                })
            })
        }
        _ => Err(Box::new(answer::not_allowed("GET, HEAD, PUT, DELETE"))),
    };
    match answer {
        Ok(answer) => Answering::Later(answer, noted),
        Err(refusal) => {
            let response = with_length(*refusal, &noted.method);
            note(node, pulse, noted.kind, &noted.method, &response, noted.started);
            Answering::Now(Some(response))
        }
    }
}

/// The answer of a node of a cluster to a request for another of those paths. Most wait for the thread of the node, so
/// all are futures, and take a place. Such a future is as large as the largest that it waits for, and is copied when it
/// is made: what is rare and large is boxed.
async fn answer_elsewhere(
    node: Arc<Node>,
    cluster: Arc<Cluster>,
    pulse: Arc<Pulse>,
    request: Request<Incoming>,
) -> Response<AnswerBody> {
    let (node, cluster, pulse) = (&node, &cluster, &*pulse);
    let Some(_taken) = node.requests.take(1) else { return answer::overloaded(TOO_MANY) };
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let query = request.uri().query().map(str::to_owned);
    let query = query.as_deref();
    let is_get = matches!(method, Method::GET | Method::HEAD);
    let response = match (path.as_str(), &method) {
        ("/v0/batch", &Method::POST) => batch::serve(node, cluster, pulse, request).await,
        ("/v0/repair", &Method::POST) => {
            cluster.repair();
            answer::empty(StatusCode::ACCEPTED)
        }
        ("/v0/batch" | "/v0/repair", _) => answer::not_allowed("POST"),
        ("/v0/cluster", &Method::POST) => Box::pin(members::change(node, cluster, pulse, request)).await,
        ("/v0/cluster", _) if !is_get => answer::not_allowed("GET, HEAD, POST"),
        _ if !is_get => answer::not_allowed("GET, HEAD"),
        ("/v0/status", _) => status_of_member(cluster).await,
        ("/v0/cluster", _) => {
            answer::typed(StatusCode::OK, "application/json", members::describe(node, cluster).to_string())
        }
        ("/v0/peer", _) => peers::meet(node, cluster, request),
        ("/v0/entities", _) => entities::serve_member(node, cluster, query).await,
        ("/v0/rank", _) => positions::serve_member(Position::Rank, node, cluster, query).await,
        ("/v0/nth", _) => positions::serve_member(Position::Nth, node, cluster, query).await,
        _ => positions::serve_member(Position::Count, node, cluster, query).await,
    };
    with_length(response, &method)
}

async fn status_of_member(cluster: &Cluster) -> Response<AnswerBody> {
    cluster.peers_met().await;
    let mut response = answer::text(StatusCode::OK, format!("up, {} node(s)\n", cluster.nodes()));
    if let Ok(standing) = HeaderValue::try_from(waiting::standing(cluster.is_waiting(), &cluster.self_url())) {
        response.headers_mut().insert(waiting::NODE, standing);
    }
    response
}
