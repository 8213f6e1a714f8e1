//! `/v0/peer`: where nodes of the cluster meet. Their connections are handed over to the node protocol.

use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue, UPGRADE};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;

use super::answer::{self, AnswerBody};
use super::node::Node;
use super::socket::Socket;
use crate::cluster::Cluster;

/// Hands a connection over to the node protocol.
pub(super) fn meet(node: &Arc<Node>, cluster: &Arc<Cluster>, request: Request<Incoming>) -> Response<AnswerBody> {
    let protocol = cluster.protocol();
    let upgrade = |status: StatusCode| {
        let mut response = answer::empty(status);
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
        response.headers_mut().insert(UPGRADE, HeaderValue::from_static(protocol));
        response
    };
    match request.headers().get(UPGRADE) {
        Some(asked) if request.method() == Method::GET && asked.as_bytes() == protocol.as_bytes() => {}
        Some(asked) if asked.as_bytes().starts_with(b"quipu-peer") => {
            cluster.refuse_protocol();
            return upgrade(StatusCode::UPGRADE_REQUIRED);
        }
        _ => return answer::bad_request("this is where nodes of the cluster meet"),
    }
    let (node, cluster) = (node.clone(), cluster.clone());
    tokio::spawn(async move {
        // A peer that goes before it has greeted comes again.
        let Ok(upgraded) = hyper::upgrade::on(request).await else { return };
        let Ok(parts) = upgraded.downcast::<TokioIo<Socket>>() else { return };
        let Some(_taken) = node.requests.take(1) else { return };
        if !parts.read_buf.is_empty() {
            return;
        }
        let Some(Ok(stream)) = parts.io.into_inner().into_stream().map(|stream| stream.into_std()) else { return };
        // If it panics it has said so.
        let _ = tokio::task::spawn_blocking(move || cluster.accept(stream)).await;
    });
    upgrade(StatusCode::SWITCHING_PROTOCOLS)
}
