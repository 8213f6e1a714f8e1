//! Answers: status, headers and a body that is whole or a stream.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{ALLOW, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};
use quipu::{Error, ErrorKind};

use super::streams::{RangeStream, ValueStream};
use crate::state::protection::EXPLANATION;

/// The body of an answer.
pub(super) enum Answer {
    /// All of it, until it is taken.
    Whole(Option<Bytes>),
    /// A long value.
    Value(Box<ValueStream>),
    /// The entities of a range.
    Range(Box<RangeStream>),
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        // Streams read memory, in steps of some 20 us: they never wait. Hyper asks for more only when the socket takes
        // it.
        let bytes = match self.get_mut() {
            Answer::Whole(bytes) => Ok(bytes.take()),
            Answer::Value(stream) => stream.next(),
            Answer::Range(stream) => stream.next(),
        };
        Poll::Ready(bytes.map(|bytes| bytes.map(Frame::data)).transpose())
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Answer::Whole(bytes) => bytes.is_none(),
            Answer::Value(stream) => stream.left_bytes() == 0,
            Answer::Range(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Answer::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Answer::Value(stream) => SizeHint::with_exact(stream.left_bytes()),
            Answer::Range(_) => SizeHint::default(),
        }
    }
}

/// With no body.
pub(super) fn empty(status: StatusCode) -> Response<Answer> {
    let mut response = Response::new(Answer::Whole(None));
    *response.status_mut() = status;
    response
}

/// With bytes.
pub(super) fn octets(body: Answer) -> Response<Answer> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    response
}

/// With a text.
pub(super) fn text(status: StatusCode, text: impl Into<Bytes>) -> Response<Answer> {
    typed(status, "text/plain; charset=utf-8", text)
}

/// With text of a type.
pub(super) fn typed(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response<Answer> {
    let mut response = Response::new(Answer::Whole(Some(body.into())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// `400`, with the reason.
pub(super) fn bad_request(reason: impl Into<Bytes>) -> Response<Answer> {
    text(StatusCode::BAD_REQUEST, reason)
}

/// `405`, with what is allowed.
pub(super) fn not_allowed(methods: &'static str) -> Response<Answer> {
    let mut response = empty(StatusCode::METHOD_NOT_ALLOWED);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    response
}

/// `503`: a bound is reached; it is worth another try.
pub(super) fn overloaded(what: &'static str) -> Response<Answer> {
    let mut response = text(StatusCode::SERVICE_UNAVAILABLE, what);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

/// The database could not be read.
pub(super) fn failed(error: &Error) -> Response<Answer> {
    match error.kind() {
        ErrorKind::Full => text(StatusCode::INSUFFICIENT_STORAGE, error.to_string()),
        _ => text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

/// `403`: the server is in protected mode.
pub(super) fn turned_away() -> Response<Answer> {
    last(text(StatusCode::FORBIDDEN, EXPLANATION))
}

/// Says to a `HEAD` that there is no body: where there is one, hyper tells its length.
pub(super) fn tell_length(response: &mut Response<Answer>) {
    if response.body().size_hint().exact() == Some(0) && response.status() != StatusCode::NOT_MODIFIED {
        response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
}

/// The last answer of its connection.
pub(super) fn last(mut response: Response<Answer>) -> Response<Answer> {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// `503`: what was read is not durable, and may never be.
pub(super) fn in_doubt(error: &Error) -> Response<Answer> {
    text(StatusCode::SERVICE_UNAVAILABLE, format!("what was written last may not be on disk: {error}"))
}
