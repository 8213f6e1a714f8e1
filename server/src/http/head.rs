//! The head of a request: what handlers read of it, and the checks that RFC 9112 demands and hyper leaves to its users:
//! one `Host`, a body of known length in a known coding.
//!
//! Not here: heads that hyper refuses, of which `socket` says why.

use hyper::header::{CONTENT_LENGTH, HOST, HeaderMap, HeaderValue, TRANSFER_ENCODING};
use hyper::http::uri::Authority;
use hyper::{Method, Request, Response, StatusCode, Uri, Version};

use super::answer::{self, AnswerBody};

/// What a request asks for, without its body.
pub(super) struct Head<'r> {
    pub(super) method: &'r Method,
    pub(super) uri: &'r Uri,
    pub(super) headers: &'r HeaderMap,
}

/// Answers a malformed request and closes the connection, because the bytes that follow may belong to its body.
pub(super) fn refuse<B>(request: &Request<B>) -> Option<Response<AnswerBody>> {
    let (status, reason) = check(request.method(), request.version(), request.headers()).err()?;
    Some(answer::last(answer::text(status, reason)))
}

fn check(method: &Method, version: Version, headers: &HeaderMap) -> Result<(), (StatusCode, &'static str)> {
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) if version == Version::HTTP_11 => {
            return Err((StatusCode::BAD_REQUEST, "a request of HTTP/1.1 has a `Host`"));
        }
        (Some(_), Some(_)) => return Err((StatusCode::BAD_REQUEST, "a request has one `Host`, not two")),
        (Some(host), None) if !is_host(host) => return Err((StatusCode::BAD_REQUEST, "`Host` is malformed")),
        _ => {}
    }
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => {}
        (Some(coding), None) if coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked") => {}
        _ => return Err((StatusCode::NOT_IMPLEMENTED, "the only transfer coding that is understood is `chunked`")),
    }
    // In HTTP/1.1 a request without a length has no body.
    if version == Version::HTTP_10 && method == Method::PUT && !headers.contains_key(CONTENT_LENGTH) {
        return Err((StatusCode::LENGTH_REQUIRED, "a `PUT` of HTTP/1.0 has a `Content-Length`"));
    }
    Ok(())
}

/// A name with or without a port; empty if the client knows no name.
fn is_host(host: &HeaderValue) -> bool {
    let host = host.as_bytes().trim_ascii();
    host.is_empty() || !host.contains(&b'@') && Authority::try_from(host).is_ok()
}
